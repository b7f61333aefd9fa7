//! Schema documents: their resources (`$id`), anchors, dialects, and how references lead from one to another.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::dialect::{Dialect, Draft, Shape};
use super::failure::escape;
use super::json::{Json, Keywords};
use super::loader::Loader;
use super::metaschemas::Mixed;
use super::urls::{encoded, join, percent_decode};
use go_template::quote::quote_go;

/// How many bytes the pointers of a document's schemas may have in all.
pub(super) const MAX_POINTERS: usize = 64 << 20;

/// What is said where there are more than [`MAX_POINTERS`].
pub(super) fn too_long() -> String {
    format!("the JSON pointers of the schema's subschemas have more than {MAX_POINTERS} bytes: nest less")
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
    /// Where the resource with an `$id` stands.
    ids: HashMap<String, String>,
    /// Those of all resources.
    dialects: BTreeSet<Dialect>,
    /// Their metaschemas, once they were needed.
    pub mixed: OnceLock<Result<Mixed, String>>,
    /// The document is its only resource, and has no anchor below the root: it isn't searched for others.
    is_single: bool,
    /// Besides that, nothing refers to anything.
    is_alone: bool,
    /// Where schemas are known to stand; of a document with a single resource only those that no keyword leads to.
    seen: HashSet<String>,
    /// The bytes of their pointers.
    pointers: usize,
}

/// A part of a document with an `$id` of its own; the document itself is one.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub id: String,
    pub dialect: Dialect,
    /// The pointers of anchors.
    pub anchors: BTreeMap<String, String>,
    pub dynamic_anchors: BTreeSet<String>,
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
        write!(f, "{}#{}", self.url, encoded(&self.pointer))
    }
}

impl Document {
    pub fn new(url: &Arc<str>, root: Arc<Json>) -> Self {
        let is_single = !has_below(&root, &["$anchor", "$dynamicAnchor", "$id", "$schema", "id"]);
        let refers = ["$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$ref"];
        Document {
            url: Arc::clone(url),
            is_single,
            is_alone: is_single && !refers.iter().any(|key| root.get(key).is_some()) && !has_below(&root, &refers),
            root,
            resources: BTreeMap::new(),
            ids: HashMap::new(),
            dialects: BTreeSet::new(),
            mixed: OnceLock::new(),
            seen: HashSet::new(),
            pointers: 0,
        }
    }

    /// Whether every schema of the document is found by the keyword that it stands below, and in no other way.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Whether a schema is known to stand at `pointer`.
    pub fn knows(&self, pointer: &str) -> bool {
        self.seen.contains(pointer) || self.is_single && self.leads_to(pointer)
    }

    /// Whether keywords lead from the root to what stands at `pointer`.
    fn leads_to(&self, pointer: &str) -> bool {
        let draft = self.resource("").1.dialect.draft;
        let mut parts = pointer.split('/').skip(1).peekable();
        let mut schema = &*self.root;
        while let Some(keyword) = parts.next() {
            let Some(value) = schema.get(keyword) else { return false };
            let has = |shape: Shape| draft.positions().any(|known| known == (keyword, shape));
            let holds_more = has(Shape::List) && matches!(value, Json::Array(_))
                || has(Shape::Named) && matches!(value, Json::Object(_));
            let next = match parts.peek() {
                Some(part) if holds_more => lookup(value, &format!("/{part}")),
                _ => has(Shape::One).then_some(value),
            };
            if holds_more {
                parts.next();
            }
            let Some(next) = next else { return false };
            schema = next;
        }
        true
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

    /// Takes in the whole document.
    pub fn collect_root(&mut self, loader: &mut Loader<'_>) -> Result<(), String> {
        let (root, url) = (Arc::clone(&self.root), Arc::clone(&self.url));
        self.collect(&root, &url, "", Dialect::default(), loader)
    }

    /// The dialects of its resources.
    pub fn dialects(&self) -> &BTreeSet<Dialect> {
        &self.dialects
    }

    /// The dialect of the resource that stands at `pointer`.
    pub fn dialect_at(&self, pointer: &str) -> Option<Dialect> {
        self.resources.get(pointer).map(|resource| resource.dialect)
    }

    /// Takes what a reference leads to for a schema, wherever it stands.
    pub fn collect_at(&mut self, pointer: &str, loader: &mut Loader<'_>) -> Result<(), String> {
        let root = Arc::clone(&self.root);
        let Some(schema) = lookup(&root, pointer) else {
            return Ok(());
        };
        let (base, resource) = self.resource(pointer);
        let (base, id, dialect) = (base.to_owned(), resource.id.clone(), resource.dialect);
        self.collect(schema, &id, pointer, dialect, loader)?;
        if !self.resources.contains_key(pointer) {
            self.anchors(schema, pointer, &base)?;
        }
        Ok(())
    }

    fn collect(
        &mut self,
        schema: &Json,
        base: &str,
        pointer: &str,
        fallback: Dialect,
        loader: &mut Loader<'_>,
    ) -> Result<(), String> {
        if !self.seen.insert(pointer.to_owned()) {
            return Ok(());
        }
        self.pointers += pointer.len();
        if self.pointers > MAX_POINTERS {
            return Err(too_long());
        }
        let new = |id: &str, dialect: Dialect| Resource {
            id: id.to_owned(),
            dialect,
            anchors: BTreeMap::new(),
            dynamic_anchors: BTreeSet::new(),
        };
        let Json::Object(map) = schema else {
            if pointer.is_empty() {
                self.add("", new(base, fallback));
            }
            return Ok(());
        };
        let keywords = Keywords::of(map);
        let is_root = pointer.is_empty();
        let mut names_draft = schema.get("$schema").and_then(Json::text).is_some();
        let mut draft = fallback.draft;
        if names_draft {
            draft = loader.draft(&Place::new(&self.url, pointer), schema, draft)?;
            // Only a resource may change the draft.
            if !is_root && draft.id(schema).is_empty() {
                (draft, names_draft) = (fallback.draft, false);
            }
        }
        let id = draft.id(schema);
        let mut base = base.to_owned();
        let mut home = self.resource(pointer).0.to_owned();
        if !id.is_empty() || is_root {
            if !id.is_empty() {
                base = join(&base, id).map_err(|_| unparsed(&self.url, "id", pointer))?.0;
            }
            match self.ids.get(&base) {
                Some(other) if other != pointer => {
                    return Err(format!(
                        "duplicate id {} in {} at {} and {}",
                        quote_go(&base),
                        quote_go(self.url.as_bytes()),
                        quote_go(pointer),
                        quote_go(other)
                    ));
                }
                Some(_) => {}
                None => {
                    let mut dialect = fallback;
                    if names_draft {
                        let vocabularies = loader.vocabularies(schema, draft)?;
                        dialect = Dialect { draft, vocabularies };
                    }
                    self.add(pointer, new(&base, dialect));
                }
            }
            home = pointer.to_owned();
        }
        self.anchors(schema, pointer, &home)?;
        if self.is_single {
            return Ok(());
        }
        let below = self.resources.get(&home).map_or(fallback, |home| home.dialect);
        for (keyword, shape) in draft.positions().filter(|(keyword, _)| keywords.may_have(keyword)) {
            let Some(value) = map.get(keyword) else {
                continue;
            };
            let at = format!("{pointer}/{}", escape(keyword));
            match (shape, value) {
                (Shape::One, value) => self.collect(value, &base, &at, below, loader)?,
                (Shape::List, Json::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        self.collect(item, &base, &format!("{at}/{index}"), below, loader)?;
                    }
                }
                (Shape::Named, Json::Object(map)) => {
                    for (name, item) in map.iter() {
                        self.collect(item, &base, &format!("{at}/{}", escape(name)), below, loader)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, pointer: &str, resource: Resource) {
        if self.dialects.insert(resource.dialect) {
            self.mixed = OnceLock::new();
        }
        self.ids.insert(resource.id.clone(), pointer.to_owned());
        self.resources.insert(pointer.to_owned(), resource);
    }

    fn anchors(&mut self, schema: &Json, pointer: &str, home: &str) -> Result<(), String> {
        let own_url = Arc::clone(&self.url);
        let Some(resource) = self.resources.get_mut(home) else {
            return Ok(());
        };
        let draft = resource.dialect.draft;
        let mut names: Vec<(String, bool)> = Vec::new();
        let text = |key: &str| schema.get(key).and_then(Json::text).map(str::to_owned);
        if draft < Draft::V2019 {
            if schema.get("$ref").is_some() {
                return Ok(());
            }
            let id = text(draft.id_keyword()).unwrap_or_default();
            let fragment = id.split_once('#').map_or("", |(_, fragment)| fragment);
            let fragment = percent_decode(fragment).map_err(|_| unparsed(&own_url, "anchor", pointer))?;
            if !fragment.is_empty() && !fragment.starts_with('/') {
                names.push((fragment, false));
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
                        "duplicate anchor {} in {} at {} and {}",
                        quote_go(&name),
                        quote_go(own_url.as_bytes()),
                        quote_go(known),
                        quote_go(pointer)
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
            let pointer = self.ids.get(url);
            pointer.and_then(|pointer| self.resources.get_key_value(pointer))
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
                quote_go(format!("{}#{}", resource.id, encoded(fragment))),
                quote_go(self.url.as_bytes())
            )),
        }
    }
}

/// What the library says of an identifier whose escapes are wrong.
fn unparsed(url: &Arc<str>, what: &str, pointer: &str) -> String {
    let place = Place::new(url, pointer).to_string();
    format!("error in parsing {what} at {}", quote_go(place))
}

static NO_RESOURCE: Resource = Resource {
    id: String::new(),
    dialect: Dialect {
        draft: Draft::V2020,
        vocabularies: None,
    },
    anchors: BTreeMap::new(),
    dynamic_anchors: BTreeSet::new(),
};

/// Whether an object below the root has one of the keys with a text.
fn has_below(root: &Json, keys: &[&str]) -> bool {
    let is_meant = |(key, value): (&str, &Json)| keys.contains(&key) && value.text().is_some();
    let mut below: Vec<&Json> = vec![root];
    while let Some(value) = below.pop() {
        match value {
            Json::Array(items) => below.extend(items.iter().filter(|item| item.holds_others())),
            Json::Object(members) => {
                if !std::ptr::eq(value, root) && members.iter().any(is_meant) {
                    return true;
                }
                below.extend(members.values().filter(|value| value.holds_others()));
            }
            _ => {}
        }
    }
    false
}

/// What stands at a JSON pointer.
pub(super) fn lookup<'j>(root: &'j Json, pointer: &str) -> Option<&'j Json> {
    pointer.split('/').skip(1).try_fold(root, |value, part| {
        let part = unescape(part)?;
        match value {
            Json::Object(map) => map.get(&part),
            // Go's `strconv.Atoi` takes `-0`.
            Json::Array(items) => items.get(usize::try_from(part.parse::<i64>().ok()?).ok()?),
            _ => None,
        }
    })
}

/// What stands at a place of a document.
///
/// # Errors
/// The library's words for a place where there is nothing.
pub(super) fn found<'j>(root: &'j Json, place: &Place) -> Result<&'j Json, String> {
    lookup(root, &place.pointer).ok_or_else(|| {
        let shown = quote_go(place.to_string());
        // The parts before the one that can't be read may lead nowhere, too.
        let mut parts = place.pointer.split('/').skip(1);
        let wrong = parts.position(|part| unescape(part).is_none());
        let before = wrong.map(|at| place.pointer.split('/').take(at + 1).collect::<Vec<_>>().join("/"));
        match before.and_then(|before| lookup(root, &before)) {
            Some(_) => format!("invalid json-pointer {shown}"),
            None => format!("json-pointer in {shown} not found"),
        }
    })
}

/// A part of a JSON pointer as it stands in a document; `None` if a tilde is followed by neither 0 nor 1.
fn unescape(part: &str) -> Option<Cow<'_, str>> {
    if !part.contains('~') {
        return Some(Cow::Borrowed(part));
    }
    let mut tails = part.split('~').skip(1);
    let is_escape = tails.all(|tail| tail.starts_with(['0', '1']));
    is_escape.then(|| Cow::Owned(part.replace("~1", "/").replace("~0", "~")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_without_names_is_not_searched_and_knows_its_schemas() {
        let url = Arc::from("file:///x");
        let new = |text: &str| {
            let mut document = Document::new(&url, Arc::new(Json::parse(text.as_bytes()).unwrap()));
            document.collect_root(&mut Loader::new(None)).unwrap();
            document
        };
        let text = r##"{"$schema": "http://json-schema.org/draft-07/schema#", "$id": "http://x.org/y",
            "properties": {"id": {"items": [{"not": {}}, {}]}, "a/b": {"$ref": "#/other"}},
            "prefixItems": [{}], "additionalProperties": {"type": "string"}, "other": {"properties": {"c": {}}}}"##;
        let table = [
            ("", true),
            ("/properties", false),
            ("/properties/id", true),
            ("/properties/id/items", true),
            ("/properties/id/items/1", true),
            ("/properties/id/items/2", false),
            ("/properties/id/items/0/not", true),
            ("/properties/a~1b", true),
            ("/properties/a", false),
            ("/additionalProperties", true),
            // Of a later draft, and no keyword.
            ("/prefixItems/0", false),
            ("/other", false),
            ("/other/properties/c", false),
        ];
        let mut single = new(text);
        assert!(single.is_single);
        // The same schemas as a search finds, which a name anywhere makes necessary.
        let searched = new(&text.replace(r#""not": {}"#, r#""not": {"$id": "z"}"#));
        assert!(!searched.is_single);
        for (pointer, known) in table {
            assert_eq!(single.knows(pointer), known, "{pointer}");
            assert_eq!(searched.knows(pointer), known, "{pointer}");
        }
        single.collect_at("/other", &mut Loader::new(None)).unwrap();
        assert!(single.knows("/other"));
    }
}
