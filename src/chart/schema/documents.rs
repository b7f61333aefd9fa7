//! Schema documents: their resources (`$id`), anchors, drafts, and how references lead from one to another.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use super::failure::escape;
use super::json::{Json, Keywords};
use crate::template::go::quote::quote_go;
use crate::template::sprig::url_parse::Url;

/// A version of JSON Schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::chart) enum Draft {
    V4,
    V6,
    V7,
    V2019,
    #[default]
    V2020,
}

/// A schema's place: the URL of its document, and a JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub url: Arc<str>,
    pub pointer: String,
}

/// A document, and what is known of it.
pub(super) struct Document {
    pub url: Arc<str>,
    pub root: Arc<Json>,
    /// By pointer.
    resources: BTreeMap<String, Resource>,
    seen: HashSet<String>,
}

/// A part of a document with an `$id` of its own; the document itself is one.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub id: String,
    pub draft: Draft,
    /// The pointers of anchors.
    pub anchors: BTreeMap<String, String>,
    pub dynamic_anchors: BTreeSet<String>,
}

impl Draft {
    /// The draft whose metaschema has this URL.
    pub fn from_url(url: &str) -> Option<Self> {
        let url = url.split('#').next().unwrap_or(url);
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        Some(match rest.unwrap_or(url) {
            "json-schema.org/schema" | "json-schema.org/draft/2020-12/schema" => Draft::V2020,
            "json-schema.org/draft/2019-09/schema" => Draft::V2019,
            "json-schema.org/draft-07/schema" => Draft::V7,
            "json-schema.org/draft-06/schema" => Draft::V6,
            "json-schema.org/draft-04/schema" => Draft::V4,
            _ => return None,
        })
    }

    fn id_keyword(self) -> &'static str {
        if self == Draft::V4 { "id" } else { "$id" }
    }

    /// The schema's identifier without its fragment; empty if it has none.
    fn id(self, schema: &Json) -> &str {
        if self < Draft::V2019 && schema.get("$ref").is_some() {
            return "";
        }
        let id = schema.get(self.id_keyword()).and_then(Json::text).unwrap_or_default();
        id.split('#').next().unwrap_or_default()
    }

    /// The keywords that hold schemas: alone, in a list, or by name.
    fn positions(self) -> impl Iterator<Item = (&'static str, Shape)> {
        const POSITIONS: [(Draft, &str, Shape); 25] = [
            (Draft::V4, "definitions", Shape::Named),
            (Draft::V4, "not", Shape::One),
            (Draft::V4, "allOf", Shape::List),
            (Draft::V4, "anyOf", Shape::List),
            (Draft::V4, "oneOf", Shape::List),
            (Draft::V4, "properties", Shape::Named),
            (Draft::V4, "additionalProperties", Shape::One),
            (Draft::V4, "patternProperties", Shape::Named),
            (Draft::V4, "items", Shape::One),
            (Draft::V4, "items", Shape::List),
            (Draft::V4, "additionalItems", Shape::One),
            (Draft::V4, "dependencies", Shape::Named),
            (Draft::V6, "propertyNames", Shape::One),
            (Draft::V6, "contains", Shape::One),
            (Draft::V7, "if", Shape::One),
            (Draft::V7, "then", Shape::One),
            (Draft::V7, "else", Shape::One),
            (Draft::V2019, "$defs", Shape::Named),
            (Draft::V2019, "dependentSchemas", Shape::Named),
            (Draft::V2019, "unevaluatedProperties", Shape::One),
            (Draft::V2019, "unevaluatedItems", Shape::One),
            (Draft::V2019, "contentSchema", Shape::One),
            (Draft::V2020, "prefixItems", Shape::List),
            (Draft::V2020, "$defs", Shape::Named),
            (Draft::V2020, "contentSchema", Shape::One),
        ];
        POSITIONS
            .into_iter()
            .filter(move |(since, ..)| *since <= self)
            .map(|(_, keyword, shape)| (keyword, shape))
    }
}

/// Whether a keyword may hold schemas, in any draft: what most schemas consist of doesn't.
fn holds_schemas(keyword: &str) -> bool {
    !matches!(
        keyword,
        "type" | "default" | "description" | "title" | "enum" | "minimum" | "maximum" | "pattern" | "format"
    )
}

/// How schemas stand below a keyword.
#[derive(Debug, Clone, Copy)]
enum Shape {
    One,
    List,
    Named,
}

impl Place {
    pub fn new(url: &Arc<str>, pointer: &str) -> Self {
        Place {
            url: Arc::clone(url),
            pointer: pointer.to_owned(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#", self.url)?;
        for (index, part) in self.pointer.split('/').enumerate() {
            if index > 0 {
                f.write_str("/")?;
            }
            if part.bytes().all(is_unescaped) {
                f.write_str(part)?;
            } else {
                f.write_str(&percent_encode(part))?;
            }
        }
        Ok(())
    }
}

impl Document {
    pub fn new(url: &Arc<str>, root: Json) -> Self {
        Document {
            url: Arc::clone(url),
            root: Arc::new(root),
            resources: BTreeMap::new(),
            seen: HashSet::new(),
        }
    }

    /// Whether a schema is known to stand at `pointer`.
    pub fn knows(&self, pointer: &str) -> bool {
        self.seen.contains(pointer)
    }

    /// The resource that what stands at `pointer` belongs to, with its own pointer.
    pub fn resource(&self, pointer: &str) -> (&str, &Resource) {
        let mut at = pointer;
        if self.resources.len() == 1 {
            // Usually the document is the only one.
            at = "";
        }
        loop {
            if let Some((known, resource)) = self.resources.get_key_value(at) {
                return (known, resource);
            }
            match at.rsplit_once('/') {
                Some((parent, _)) => at = parent,
                None => return ("", &NO_RESOURCE),
            }
        }
    }

    pub fn collect_root(&mut self) -> Result<(), String> {
        let (root, url) = (Arc::clone(&self.root), Arc::clone(&self.url));
        self.collect(&root, &url, "", Draft::default())
    }

    /// Takes what a reference leads to for a schema, wherever it stands.
    pub fn collect_at(&mut self, pointer: &str) -> Result<(), String> {
        let root = Arc::clone(&self.root);
        let Some(schema) = lookup(&root, pointer) else {
            return Ok(());
        };
        let (base, resource) = self.resource(pointer);
        let (base, id, draft) = (base.to_owned(), resource.id.clone(), resource.draft);
        self.collect(schema, &id, pointer, draft)?;
        if !self.resources.contains_key(pointer) {
            self.anchors(schema, pointer, &base)?;
        }
        Ok(())
    }

    fn collect(&mut self, schema: &Json, base: &str, pointer: &str, fallback: Draft) -> Result<(), String> {
        if !self.seen.insert(pointer.to_owned()) {
            return Ok(());
        }
        let new = |id: &str, draft: Draft| Resource {
            id: id.to_owned(),
            draft,
            anchors: BTreeMap::new(),
            dynamic_anchors: BTreeSet::new(),
        };
        let Json::Object(map) = schema else {
            if pointer.is_empty() {
                self.resources.insert(String::new(), new(base, fallback));
            }
            return Ok(());
        };
        let keywords = Keywords::of(map);
        let mut draft = match schema.get("$schema").and_then(Json::text) {
            Some(url) => Draft::from_url(url).ok_or_else(|| self.unsupported(url, pointer)),
            None => Ok(fallback),
        };
        if pointer.is_empty() {
            draft = Ok(draft?);
        } else if draft.as_ref().map_or("", |draft| draft.id(schema)).is_empty() {
            // Only a resource may change the draft.
            draft = Ok(fallback);
        }
        let draft = draft?;
        let id = draft.id(schema);
        let mut base = base.to_owned();
        let mut home = self.resource(pointer).0.to_owned();
        if !id.is_empty() || pointer.is_empty() {
            if !id.is_empty() {
                let place = || {
                    format!(
                        "error in parsing id at {}",
                        quote(&Place::new(&self.url, pointer).to_string())
                    )
                };
                base = join(&base, id).map_err(|_| place())?.0;
            }
            match self.resources.iter().find(|(_, known)| known.id == base) {
                Some((other, _)) if other != pointer => {
                    return Err(format!(
                        "duplicate id {} in {} at {} and {}",
                        quote(&base),
                        quote(&self.url),
                        quote(pointer),
                        quote(other)
                    ));
                }
                Some(_) => {}
                None => {
                    self.resources.insert(pointer.to_owned(), new(&base, draft));
                }
            }
            home = pointer.to_owned();
        }
        self.anchors(schema, pointer, &home)?;
        if !matches!(schema, Json::Object(map) if map.keys().any(|key| holds_schemas(key))) {
            return Ok(());
        }
        for (keyword, shape) in draft.positions().filter(|(keyword, _)| keywords.may_have(keyword)) {
            let Some(value) = map.get(keyword) else {
                continue;
            };
            let at = format!("{pointer}/{}", escape(keyword));
            match (shape, value) {
                (Shape::One, value) => self.collect(value, &base, &at, draft)?,
                (Shape::List, Json::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        self.collect(item, &base, &format!("{at}/{index}"), draft)?;
                    }
                }
                (Shape::Named, Json::Object(map)) => {
                    for (name, item) in map {
                        self.collect(item, &base, &format!("{at}/{}", escape(name)), draft)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn unsupported(&self, url: &str, pointer: &str) -> String {
        let url = url.split('#').next().unwrap_or_default();
        if pointer.is_empty() && url == &*self.url {
            return format!("draft {} is not supported", quote(url));
        }
        format!(
            "failing loading {}: schemas for schemas are built in, others are not fetched",
            quote(url)
        )
    }

    fn anchors(&mut self, schema: &Json, pointer: &str, home: &str) -> Result<(), String> {
        let url = quote(&self.url);
        let Some(resource) = self.resources.get_mut(home) else {
            return Ok(());
        };
        let draft = resource.draft;
        let mut names: Vec<(String, bool)> = Vec::new();
        let text = |key: &str| schema.get(key).and_then(Json::text).map(str::to_owned);
        if draft < Draft::V2019 {
            if schema.get("$ref").is_some() {
                return Ok(());
            }
            let id = text(draft.id_keyword()).unwrap_or_default();
            let fragment = id.split_once('#').map_or("", |(_, fragment)| fragment);
            if !fragment.is_empty() && !fragment.starts_with('/') {
                names.push((percent_decode(fragment)?, false));
            }
        } else {
            names.extend(text("$anchor").map(|name| (name, false)));
            if draft >= Draft::V2020 {
                names.extend(text("$dynamicAnchor").map(|name| (name, true)));
            }
        }
        for (name, is_dynamic) in names {
            match resource.anchors.get(&name) {
                Some(known) if known != pointer => {
                    return Err(format!(
                        "duplicate anchor {} in {url} at {} and {}",
                        quote(&name),
                        quote(known),
                        quote(pointer)
                    ));
                }
                _ => {}
            }
            resource.anchors.insert(name.clone(), pointer.to_owned());
            if is_dynamic {
                resource.dynamic_anchors.insert(name);
            }
        }
        Ok(())
    }

    /// What `url` and `fragment` name in this document; `None` if the URL isn't one of its resources.
    pub fn find(&self, url: &str, fragment: &str) -> Result<Option<Place>, String> {
        let found = if url == &*self.url {
            self.resources.get_key_value("")
        } else {
            self.resources.iter().find(|(_, resource)| resource.id == url)
        };
        let Some((base, resource)) = found else {
            return Ok(None);
        };
        if fragment.is_empty() || fragment.starts_with('/') {
            return Ok(Some(Place::new(&self.url, &format!("{base}{fragment}"))));
        }
        match resource.anchors.get(fragment) {
            Some(pointer) => Ok(Some(Place::new(&self.url, pointer))),
            None => Err(format!(
                "anchor in {} not found in schema {}",
                quote(&format!("{}#{}", resource.id, percent_encode(fragment))),
                quote(&self.url)
            )),
        }
    }
}

static NO_RESOURCE: Resource = Resource {
    id: String::new(),
    draft: Draft::V2020,
    anchors: BTreeMap::new(),
    dynamic_anchors: BTreeSet::new(),
};

/// What stands at a JSON pointer.
pub(super) fn lookup<'j>(root: &'j Json, pointer: &str) -> Option<&'j Json> {
    pointer.split('/').skip(1).try_fold(root, |value, part| {
        let part = match part.contains('~') {
            true => Cow::Owned(part.replace("~1", "/").replace("~0", "~")),
            false => Cow::Borrowed(part),
        };
        match value {
            Json::Object(map) => map.get(&*part),
            Json::Array(items) => items.get(part.parse::<usize>().ok()?),
            _ => None,
        }
    })
}

/// A reference, resolved against a base URL: the URL without its fragment, and the fragment decoded.
pub(super) fn join(base: &str, reference: &str) -> Result<(String, String), String> {
    let (path, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    Url::parse(path.as_bytes()).map_err(|e| format!("error in parsing {}: {e}", quote(path)))?;
    let fragment = percent_decode(fragment).map_err(|e| format!("error in parsing {}: {e}", quote(reference)))?;
    Ok((resolve(base, path), fragment))
}

/// RFC 3986, section 5.2, without fragments.
fn resolve(base: &str, reference: &str) -> String {
    let has_scheme = |text: &str| {
        text.split_once(':').is_some_and(|(scheme, _)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        })
    };
    if reference.is_empty() {
        return base.to_owned();
    }
    if has_scheme(reference) {
        return reference.to_owned();
    }
    let (scheme, rest) = base.split_once(':').unwrap_or(("", base));
    let Some(rest) = rest.strip_prefix("//") else {
        // An opaque base (`urn:…`) has no hierarchy to resolve in.
        return base.to_owned();
    };
    if let Some(other) = reference.strip_prefix("//") {
        return format!("{scheme}://{other}");
    }
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let path = path.split('?').next().unwrap_or_default();
    let (target, query) = reference.split_once('?').map_or((reference, ""), |(path, _)| {
        (path, reference.get(path.len()..).unwrap_or_default())
    });
    let joined = if target.starts_with('/') {
        target.to_owned()
    } else if target.is_empty() {
        path.to_owned()
    } else {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{target}")
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/').skip(1) {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if joined.ends_with("/.") || joined.ends_with("/..") {
        parts.push("");
    }
    format!("{scheme}://{host}/{}{query}", parts.join("/"))
}

/// Go's `url.PathUnescape`.
pub(super) fn percent_decode(text: &str) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte != b'%' {
            out.push(*byte);
            at += 1;
            continue;
        }
        let code = text
            .get(at + 1..at + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let Some(code) = code else {
            let bad: Vec<u8> = bytes.iter().skip(at).take(3).copied().collect();
            return Err(format!("invalid URL escape {}", quote_go(&bad)));
        };
        out.push(code);
        at += 3;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn is_unescaped(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+=:@".contains(&byte)
}

/// Go's `url.PathEscape`.
fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if is_unescaped(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn quote(text: &str) -> String {
    quote_go(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved() {
        let table = [
            (
                "file:///values.schema.json",
                "#/$defs/a",
                "file:///values.schema.json",
                "/$defs/a",
            ),
            (
                "file:///values.schema.json",
                "other.json#a%20b",
                "file:///other.json",
                "a b",
            ),
            ("https://x.org/a/b", "../c?d", "https://x.org/c?d", ""),
            ("https://x.org/a/b", "/c/./d", "https://x.org/c/d", ""),
            ("https://x.org", "//y.org/z", "https://y.org/z", ""),
            ("urn:a:b", "c", "urn:a:b", ""),
            ("file:///x", "urn:q", "urn:q", ""),
        ];
        for (base, reference, url, fragment) in table {
            let want = Ok((url.to_owned(), fragment.to_owned()));
            assert_eq!(join(base, reference), want, "{base} {reference}");
        }
        assert!(join("file:///x", "#%zz").is_err());
    }
}
