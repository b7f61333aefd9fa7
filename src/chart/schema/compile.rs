//! Schemas as the validator wants them: a flat list in which they refer to one another by index.
//!
//! Follows what santhosh-tekuri/jsonschema v6 does with `$schema`, `$id`, anchors and references, and what Helm lets it
//! load: files, what a [`Fetch`] fetches, and nothing (a schema that accepts all) for `urn:`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::Arc;

use super::compiled::{Compound, Index, Rare, Rarest, Schema};
use super::documents::{Document, Draft, Place};
use super::json::{Json, Keywords};
use super::keywords::{Below, COMPOUND, Object, RARE, RAREST};
use super::urls::{join, percent_decode};
use super::{documents, metaschemas};
use crate::chart::Fetch;
use crate::template::go::quote::quote_go;
use crate::template::sprig::url_parse::Url;

/// The largest schema file that is read, in bytes.
const MAX_FILE: u64 = 5 * 1024 * 1024;
/// How many schemas a chart's schema may consist of.
const MAX_SCHEMAS: usize = 100_000;

/// Compiles documents and whatever they refer to.
pub(super) struct Compiler<'f> {
    documents: BTreeMap<Arc<str>, Document>,
    pub schemas: Vec<Schema>,
    /// Where each of `schemas` stands.
    places: Vec<Place>,
    known: HashMap<Place, Index>,
    /// Metaschemas assert formats, and aren't checked themselves.
    pub is_meta: bool,
    elsewhere: Elsewhere<'f>,
}

/// What stands in files and on the network.
enum Elsewhere<'f> {
    /// Files are read, and fetched what can be.
    Loaded(Option<&'f Fetch>),
    /// Nothing is looked at; whether it was asked for.
    Left { was_asked: bool },
}

impl<'f> Compiler<'f> {
    /// A compiler of charts' schemas.
    pub fn new(fetch: Option<&'f Fetch>) -> Self {
        Compiler {
            documents: BTreeMap::new(),
            schemas: Vec::new(),
            places: Vec::new(),
            known: HashMap::new(),
            is_meta: false,
            elsewhere: Elsewhere::Loaded(fetch),
        }
    }

    /// A compiler that looks at nothing but the document and what is built in.
    pub fn alone() -> Self {
        Compiler {
            elsewhere: Elsewhere::Left { was_asked: false },
            ..Compiler::new(None)
        }
    }

    /// A compiler of the schemas of schemas.
    pub fn for_metaschemas() -> Self {
        Compiler {
            is_meta: true,
            ..Compiler::new(None)
        }
    }

    /// Compiles what stands at `url`, with `document` as its content if one is given; the first schema is the root.
    ///
    /// # Errors
    /// What isn't a schema, and references that lead nowhere; the text is the library's.
    pub fn compile(mut self, url: &str, document: Option<Json>) -> Result<Vec<Schema>, String> {
        self.run(url, document).map(|()| self.schemas)
    }

    /// As [`Compiler::compile`]; `None` if the document refers to others, so that there is no telling.
    pub fn compile_alone(mut self, url: &str, document: Json) -> Option<Result<Vec<Schema>, String>> {
        let result = self.run(url, Some(document));
        match self.elsewhere {
            Elsewhere::Left { was_asked: true } => None,
            _ => Some(result.map(|()| self.schemas)),
        }
    }

    fn run(&mut self, url: &str, document: Option<Json>) -> Result<(), String> {
        let url = Arc::from(url);
        if let Some(document) = document {
            self.add(&url, document)?;
        }
        self.enqueue(Place::new(&url, ""));
        let document = self.documents.get(&url).filter(|document| document.is_alone());
        if let Some((root, draft)) =
            document.map(|document| (Arc::clone(&document.root), document.resource("").1.draft))
        {
            return self.compile_tree(&root, draft);
        }
        let mut at = 0;
        while let Some(place) = self.places.get(at).cloned() {
            // What stands below a keyword of a schema is one.
            if self.schemas.get(at).is_none_or(|schema| schema.above.is_none()) {
                self.ensure(&place)?;
            }
            let root = self
                .documents
                .get(&place.url)
                .map(|document| Arc::clone(&document.root));
            let value = root.as_deref().and_then(|root| documents::lookup(root, &place.pointer));
            let value = value.ok_or_else(|| format!("json-pointer in {} not found", quote_go(place.to_string())))?;
            self.compile_at(at, &place, value)?;
            at = next(at)?;
        }
        self.schemas.shrink_to_fit();
        Ok(())
    }

    /// Compiles a document in which nothing is found but by the keyword that it stands below: its schemas are a tree.
    fn compile_tree(&mut self, root: &Json, draft: Draft) -> Result<(), String> {
        let mut found = vec![root];
        let mut at = 0;
        while let Some(value) = found.get(at).copied() {
            let schema = Schema {
                draft,
                ..Schema::default()
            };
            self.read(at, schema, Rarest::default(), value, Below::Values(&mut found))?;
            at = next(at)?;
        }
        self.schemas.shrink_to_fit();
        Ok(())
    }

    fn add(&mut self, url: &Arc<str>, root: Json) -> Result<(), String> {
        let draft = self.draft(url, &root)?;
        let mut document = Document::new(url, root);
        document.collect_root(draft)?;
        self.check(&document, "")?;
        self.documents.insert(Arc::clone(url), document);
        Ok(())
    }

    /// Checks that what stands at `pointer` is a schema.
    fn check(&self, document: &Document, pointer: &str) -> Result<(), String> {
        if self.is_meta || document.url.starts_with("http://json-schema.org/") {
            return Ok(());
        }
        let Some(value) = documents::lookup(&document.root, pointer) else {
            return Ok(());
        };
        let draft = document.resource(pointer).1.draft;
        metaschemas::check(draft, value).map_err(|report| {
            let place = Place::new(&document.url, pointer);
            format!(
                "{} is not valid against metaschema: {report}",
                quote_go(place.to_string())
            )
        })
    }

    /// Loads the place's document, and makes sure that its subschema is known as one.
    fn ensure(&mut self, place: &Place) -> Result<(), String> {
        self.load(&place.url)?;
        let Some(document) = self.documents.get_mut(&place.url) else {
            return Ok(());
        };
        if document.knows(&place.pointer) {
            return Ok(());
        }
        if documents::lookup(&document.root, &place.pointer).is_none() {
            return Err(format!("json-pointer in {} not found", quote_go(place.to_string())));
        }
        document.collect_at(&place.pointer)?;
        let document = self.documents.get(&place.url);
        document.map_or(Ok(()), |document| self.check(document, &place.pointer))
    }

    fn load(&mut self, url: &Arc<str>) -> Result<(), String> {
        if self.documents.contains_key(url) {
            return Ok(());
        }
        let root = self.read_document(url)?;
        self.add(url, root)
    }

    fn read_document(&mut self, url: &str) -> Result<Json, String> {
        let failed = |problem: String| format!("failing loading {}: {problem}", quote_go(url));
        if let Some(folder) = metaschemas::folder(url) {
            return Err(format!("read metaschemas/{folder}/: is a directory"));
        }
        match (metaschemas::document(url), &mut self.elsewhere) {
            (Some(document), _) => Ok(document),
            (None, Elsewhere::Loaded(network)) => fetch(url, *network).map_err(failed),
            (None, Elsewhere::Left { was_asked }) => {
                *was_asked = true;
                Err(failed("not now".to_owned()))
            }
        }
    }

    /// The draft of the document at `url`: what its `$schema` names, which may be a schema of another draft.
    fn draft(&mut self, url: &str, root: &Json) -> Result<Draft, String> {
        let mut passed: Vec<String> = Vec::new();
        let mut root = Cow::Borrowed(root);
        while let Some(named) = root.get("$schema").and_then(Json::text) {
            if let Some(draft) = Draft::from_url(named) {
                return Ok(draft);
            }
            let named = named.split('#').next().unwrap_or_default().to_owned();
            let at = passed.last().map_or(url, String::as_str);
            Url::parse(named.as_bytes())
                .map_err(|e| format!("invalid $schema in {}: {e}", quote_go(format!("{at}#"))))?;
            if named == at {
                return Err(format!("draft {} is not supported", quote_go(&named)));
            }
            if passed.contains(&named) {
                return Err(format!("cycle in resolving $schema in {}", quote_go(&named)));
            }
            root = Cow::Owned(self.read_document(&named)?);
            passed.push(named);
        }
        Ok(Draft::default())
    }

    /// The index of the schema at a place.
    pub fn enqueue(&mut self, place: Place) -> Index {
        self.enqueue_as(place, |place| (None, place.to_string()))
    }

    /// The index of the schema at a place; `way` tells from which schema it was found, and how.
    pub fn enqueue_as(&mut self, place: Place, way: impl FnOnce(&Place) -> (Option<Index>, String)) -> Index {
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        let (above, way) = way(&place);
        let index = self.push(above, way);
        self.places.push(place.clone());
        self.known.insert(place, index);
        index
    }

    pub fn push(&mut self, above: Option<Index>, way: String) -> Index {
        let (index, way) = (self.schemas.len() as Index, way.into());
        self.schemas.push(Schema {
            above,
            way,
            ..Schema::default()
        });
        index
    }

    /// The place that a reference leads to.
    pub fn resolve(&mut self, from: &Place, reference: &str) -> Result<Place, String> {
        let Some(document) = self.documents.get(&from.url) else {
            return Ok(from.clone());
        };
        let (_, resource) = document.resource(&from.pointer);
        let (url, fragment) = join(&resource.id, reference)?;
        let url = Arc::from(url);
        if let Some(place) = document.find(&url, &fragment)? {
            return Ok(place);
        }
        self.load(&url)?;
        let document = self.documents.get(&url);
        let found = document.map_or(Ok(None), |document| document.find(&url, &fragment))?;
        Ok(found.unwrap_or_else(|| Place::new(&url, "")))
    }

    fn compile_at(&mut self, index: usize, place: &Place, value: &Json) -> Result<(), String> {
        let Some(document) = self.documents.get(&place.url) else {
            return Ok(());
        };
        let (base, resource) = document.resource(&place.pointer);
        let mut schema = Schema {
            draft: resource.draft,
            ..Schema::default()
        };
        let mut rarest = Rarest::default();
        let mut anchors = Vec::new();
        if base == place.pointer && schema.draft >= Draft::V2020 {
            for name in &resource.dynamic_anchors {
                if let Some(pointer) = resource.anchors.get(name) {
                    anchors.push((name.clone(), Place::new(&place.url, pointer)));
                }
            }
        }
        let base = Place::new(&place.url, base);
        schema.resource = self.enqueue(base);
        for (name, place) in anchors {
            let target = self.enqueue(place);
            rarest.dynamic_anchors.insert(name, target);
        }
        self.read(index, schema, rarest, value, Below::Places(place))
    }

    /// Reads the keywords of the schema at `index`.
    fn read<'c, 'j: 'c>(
        &mut self,
        index: usize,
        mut schema: Schema,
        mut rarest: Rarest,
        value: &'j Json,
        below: Below<'c, 'j>,
    ) -> Result<(), String> {
        let (mut compound, mut rare) = (Compound::default(), Rare::default());
        match value {
            Json::Bool(accepts) => schema.boolean = Some(*accepts),
            Json::Object(map) if map.is_empty() => schema.boolean = Some(true),
            Json::Object(map) => Object {
                compiler: self,
                index: index as Index,
                map,
                keywords: Keywords::of(map),
                below,
            }
            .read(&mut schema, &mut compound, &mut rare, &mut rarest)?,
            _ => {}
        }
        let has_any =
            |of: &[&str]| matches!(value, Json::Object(map) if map.keys().any(|key| of.binary_search(&key).is_ok()));
        if has_any(&RAREST) || !rarest.dynamic_anchors.is_empty() || rarest.additional_items.is_some() {
            rare.rarest = Some(Box::new(rarest));
        }
        if has_any(&RARE) || rare.rarest.is_some() {
            compound.rare = Some(Box::new(rare));
        }
        if has_any(&COMPOUND) || compound.rare.is_some() {
            schema.compound = Some(Box::new(compound));
        }
        if let Some(slot) = self.schemas.get_mut(index) {
            schema.above = slot.above;
            schema.way = std::mem::take(&mut slot.way);
            *slot = schema;
        }
        Ok(())
    }
}

fn next(at: usize) -> Result<usize, String> {
    match at + 1 {
        next if next > MAX_SCHEMAS => Err(format!("the schema has more than {MAX_SCHEMAS} subschemas")),
        next => Ok(next),
    }
}

/// The path of a `file:` URL as Go's `net/url` reads it: in `file://../a` a host named `..` stands before it.
fn file_path(url: &str) -> &str {
    let rest = url.strip_prefix("file:").unwrap_or_default();
    let rest = rest.split('?').next().unwrap_or_default();
    match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or("", |start| &rest[start..]),
        None if rest.starts_with('/') => rest,
        None => "",
    }
}

/// Loads a document that isn't built in.
fn fetch(url: &str, network: Option<&Fetch>) -> Result<Json, String> {
    match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "file" => {
            let path = percent_decode(file_path(url))?;
            let io = |op: &str| {
                let path = path.clone();
                let op = op.to_owned();
                move |e: std::io::Error| format!("{op} {path}: {}", crate::chart::io_text(&e))
            };
            let file = std::fs::File::open(&path).map_err(io("open"))?;
            let mut text = Vec::new();
            file.take(MAX_FILE).read_to_end(&mut text).map_err(io("read"))?;
            Json::parse(&text)
        }
        "urn" => Ok(Json::Bool(true)),
        "http" | "https" => match network {
            Some(network) => Json::parse(&network.get(url)?),
            None => Err("schemas on the network are not fetched: put a copy into the schema's $defs".to_owned()),
        },
        _ => Err(format!("no URLLoader registered for {}", quote_go(url))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::validator;
    use super::*;

    #[test]
    fn keywords_are_sorted() {
        assert!(COMPOUND.is_sorted());
        assert!(RARE.is_sorted());
        assert!(RAREST.is_sorted());
    }

    #[test]
    fn a_keyword_counts_with_no_other_beside_it() {
        let table = [
            (r#"{"additionalProperties": false}"#, r#"{"a": 1}"#),
            (r#"{"enum": [2]}"#, "1"),
            (r#"{"items": false}"#, "[1]"),
            (r#"{"properties": {"a": false}}"#, r#"{"a": 1}"#),
            (r#"{"required": ["a"]}"#, "{}"),
            (r#"{"type": "string"}"#, "1"),
            (r#"{"allOf": [false]}"#, "1"),
            (r#"{"anyOf": [false]}"#, "1"),
            (r#"{"oneOf": [true, true]}"#, "1"),
            (r#"{"not": {}}"#, "1"),
            (r#"{"exclusiveMaximum": 1}"#, "1"),
            (r#"{"exclusiveMinimum": 1}"#, "1"),
            (r#"{"maximum": 1}"#, "2"),
            (r#"{"minimum": 1}"#, "0"),
            (r#"{"multipleOf": 2}"#, "1"),
            (r#"{"maxItems": 0}"#, "[1]"),
            (r#"{"minItems": 1}"#, "[]"),
            (r#"{"uniqueItems": true}"#, "[1, 1]"),
            (r#"{"maxLength": 0}"#, r#""a""#),
            (r#"{"minLength": 1}"#, r#""""#),
            (r#"{"pattern": "^a"}"#, r#""b""#),
            (
                r#"{"$schema": "http://json-schema.org/draft-07/schema#", "format": "ipv4"}"#,
                r#""x""#,
            ),
            (r#"{"maxProperties": 0}"#, r#"{"a": 1}"#),
            (r#"{"minProperties": 1}"#, "{}"),
            (r#"{"const": 2}"#, "1"),
            (r#"{"contains": false}"#, "[1]"),
            (r#"{"prefixItems": [false]}"#, "[1]"),
            (r#"{"unevaluatedItems": false}"#, "[1]"),
            (
                r#"{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}], "additionalItems": false}"#,
                "[1, 2]",
            ),
            (r#"{"dependencies": {"a": ["b"]}}"#, r#"{"a": 1}"#),
            (r#"{"dependentRequired": {"a": ["b"]}}"#, r#"{"a": 1}"#),
            (r#"{"dependentSchemas": {"a": false}}"#, r#"{"a": 1}"#),
            (r#"{"patternProperties": {"^a": false}}"#, r#"{"a": 1}"#),
            (r#"{"propertyNames": false}"#, r#"{"a": 1}"#),
            (r#"{"unevaluatedProperties": false}"#, r#"{"a": 1}"#),
            (r#"{"if": {}, "then": false}"#, "1"),
            (r#"{"if": false, "else": false}"#, "1"),
            (r##"{"$defs": {"a": false}, "$dynamicRef": "#/$defs/a"}"##, "1"),
            (
                r##"{
                    "$schema": "https://json-schema.org/draft/2019-09/schema",
                    "type": "object", "properties": {"a": {"$recursiveRef": "#"}}
                }"##,
                r#"{"a": 1}"#,
            ),
        ];
        for (text, value) in table {
            let document = Json::parse(text.as_bytes()).unwrap();
            let schemas = Compiler::new(None).compile("file:///x", Some(document)).unwrap();
            let value = Json::parse(value.as_bytes()).unwrap();
            assert!(validator::validate(&schemas, 0, &value).is_err(), "{text}");
        }
    }

    #[test]
    fn a_document_that_refers_to_nothing_is_compiled_as_any_other() {
        let compile = |text: &str| {
            let document = Json::parse(text.as_bytes()).unwrap();
            Compiler::new(None)
                .compile("file:///x", Some(document))
                .map(|schemas| format!("{schemas:#?}"))
        };
        let table = [
            r#"{"type": "object"}"#,
            r#"{"properties": {"a/b~ ü": {"items": [{"enum": [[1]]}, true]}, "c": {"type": ["null", "string"]}}}"#,
            r#"{"allOf": [{"not": {}}, {"if": {"minimum": 1}, "then": {"pattern": "^a"}, "else": {"format": "uri"}}]}"#,
            r#"{"$defs": {"unused": {"required": ["a"]}}, "additionalProperties": {"prefixItems": [{}], "items": {}}}"#,
            r#"{"dependentSchemas": {"a": {}}, "patternProperties": {"^x": {"contains": {"const": null}}}}"#,
            r#"{"properties": {"a": {"properties": {"b": {"pattern": "("}}}}}"#,
            r#"{"dependencies": {"a": ["b"], "c": {"unevaluatedProperties": {"maxLength": 3}}}}"#,
        ];
        for text in table {
            let referred = text.replacen('{', r#"{"$anchor": "a", "#, 1);
            assert_eq!(compile(text), compile(&referred), "{text}");
        }
    }
}
