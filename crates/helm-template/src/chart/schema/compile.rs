//! Schemas as the validator wants them: a flat list in which they refer to one another by index.
//!
//! Follows what santhosh-tekuri/jsonschema v6 does with `$schema`, `$id`, anchors and references, and what Helm lets it
//! load: files, what a [`Fetch`] fetches, and nothing (a schema that accepts all) for `urn:`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::compiled::{Compound, Index, Rare, Rarest, Schema};
use super::dialect::{Dialect, Draft};
use super::documents::{self, Document, MAX_POINTERS, Place};
use super::json::{Json, Keywords};
use super::keywords::{Below, COMPOUND, Object, RARE, RAREST};
use super::loader::Loader;
use super::metaschemas;
use super::urls::join;
use crate::chart::Fetch;
use go_template::quote::quote_go;

/// How many schemas a chart's schema may consist of.
const MAX_SCHEMAS: usize = 100_000;

/// Compiles documents and whatever they refer to.
pub(super) struct Compiler<'f> {
    documents: BTreeMap<Arc<str>, Document>,
    pub schemas: Vec<Schema>,
    /// Where each of `schemas` stands.
    places: Vec<Place>,
    known: HashMap<Place, Index>,
    /// The bytes of their pointers.
    pointers: usize,
    /// Metaschemas assert formats, and aren't checked themselves.
    pub is_meta: bool,
    loader: Loader<'f>,
}

/// What a document was compiled to.
#[derive(Debug)]
pub(super) struct Compiled {
    /// Its schemas, the first of which is the root.
    ///
    /// # Errors
    /// What isn't a schema, and references that lead nowhere; the text is the library's.
    pub schemas: Result<Vec<Schema>, String>,
    /// The `urn:`s that it refers to.
    pub urns: Vec<String>,
}

impl<'f> Compiler<'f> {
    /// A compiler of charts' schemas.
    pub fn new(fetch: Option<&'f Fetch>) -> Self {
        Compiler {
            documents: BTreeMap::new(),
            schemas: Vec::new(),
            places: Vec::new(),
            known: HashMap::new(),
            pointers: 0,
            is_meta: false,
            loader: Loader::new(fetch),
        }
    }

    /// A compiler of the schemas of schemas.
    pub fn for_metaschemas() -> Self {
        Compiler {
            is_meta: true,
            ..Compiler::new(None)
        }
    }

    /// Compiles the document, which stands at `url`.
    pub fn compile(mut self, url: &str, document: Json) -> Compiled {
        let result = self.run(url, document);
        Compiled {
            schemas: result.map(|()| self.schemas),
            urns: self.loader.urns,
        }
    }

    /// Compiles what stands at each of the URLs: all schemas, and which of them those are.
    pub fn compile_all(mut self, urls: &[String]) -> Result<(Vec<Schema>, Vec<Index>), String> {
        let place = |url: &String| Place::new(&Arc::from(url.as_str()), "");
        let roots = urls.iter().map(|url| self.enqueue(place(url))).collect();
        self.compile_places()?;
        Ok((self.schemas, roots))
    }

    fn run(&mut self, url: &str, document: Json) -> Result<(), String> {
        let url = Arc::from(url);
        self.loader.add(&url, document);
        self.load(&url)?;
        self.enqueue(Place::new(&url, ""));
        let document = self.documents.get(&url).filter(|document| document.is_alone());
        if let Some((root, dialect)) =
            document.map(|document| (Arc::clone(&document.root), document.resource("").1.dialect))
        {
            return self.compile_tree(&root, dialect);
        }
        self.compile_places()
    }

    fn compile_places(&mut self) -> Result<(), String> {
        let mut at = 0;
        while let Some(place) = self.places.get(at).cloned() {
            // What stands below a keyword of a schema is one.
            if self.schemas.get(at).is_none_or(|schema| schema.above.is_none()) {
                self.ensure(&place)?;
            }
            let document = self.documents.get(&place.url);
            if let Some(root) = document.map(|document| Arc::clone(&document.root)) {
                self.compile_at(at, &place, documents::found(&root, &place)?)?;
            }
            if self.pointers > MAX_POINTERS {
                return Err(documents::too_long());
            }
            at = next(at)?;
        }
        self.schemas.shrink_to_fit();
        Ok(())
    }

    /// Compiles a document in which nothing is found but by the keyword that it stands below: its schemas are a tree.
    fn compile_tree(&mut self, root: &Json, dialect: Dialect) -> Result<(), String> {
        let mut found = vec![root];
        let mut at = 0;
        while let Some(value) = found.get(at).copied() {
            let schema = Schema {
                draft: dialect.draft,
                ..Schema::default()
            };
            self.read(
                at,
                dialect,
                (schema, Rarest::default()),
                value,
                Below::Values(&mut found),
            )?;
            at = next(at)?;
        }
        self.schemas.shrink_to_fit();
        Ok(())
    }

    /// Checks that what stands at `pointer` is a schema.
    fn check(&self, document: &Document, pointer: &str) -> Result<(), String> {
        let site = ["http://json-schema.org/", "https://json-schema.org/"];
        if self.is_meta || site.iter().any(|site| document.url.starts_with(site)) {
            return Ok(());
        }
        metaschemas::check(document, pointer).map_err(|report| {
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
        documents::found(&document.root, place)?;
        document.collect_at(&place.pointer, &mut self.loader)?;
        let document = self.documents.get(&place.url);
        document.map_or(Ok(()), |document| self.check(document, &place.pointer))
    }

    fn load(&mut self, url: &Arc<str>) -> Result<(), String> {
        if self.documents.contains_key(url) {
            return Ok(());
        }
        let root = self.loader.load(url)?;
        let mut document = Document::new(url, root);
        document.collect_root(&mut self.loader)?;
        self.check(&document, "")?;
        self.documents.insert(Arc::clone(url), document);
        Ok(())
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
        // With too many of them the end is near: `compile_places` says so.
        self.pointers += place.pointer.len();
        if self.pointers > MAX_POINTERS {
            return 0;
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
        let dialect = resource.dialect;
        let mut schema = Schema {
            draft: dialect.draft,
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
        self.read(index, dialect, (schema, rarest), value, Below::Places(place))
    }

    /// Reads the keywords of the schema at `index`.
    fn read<'c, 'j: 'c>(
        &mut self,
        index: usize,
        dialect: Dialect,
        (mut schema, mut rarest): (Schema, Rarest),
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
                dialect,
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
            let schemas = Compiler::new(None).compile("file:///x", document).schemas.unwrap();
            let value = Json::parse(value.as_bytes()).unwrap();
            assert!(validator::validate(&schemas, 0, &value).is_err(), "{text}");
        }
    }

    #[test]
    fn a_document_that_refers_to_nothing_is_compiled_as_any_other() {
        let compile = |text: &str| {
            let document = Json::parse(text.as_bytes()).unwrap();
            let compiled = Compiler::new(None).compile("file:///x", document);
            compiled.schemas.map(|schemas| format!("{schemas:#?}"))
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
