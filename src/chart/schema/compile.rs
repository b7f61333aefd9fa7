//! Schemas as the validator wants them: a flat list in which they refer to one another by index.
//!
//! Follows what santhosh-tekuri/jsonschema v6 does with `$schema`, `$id`, anchors and references, and what Helm lets it
//! load: files, what a [`Fetch`] fetches, and nothing (a schema that accepts all) for `urn:`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::Arc;

use super::compiled::{Additional, Dependency, Items, Rare, Schema};
use super::documents::{Document, Draft, Place};
use super::failure::escape;
use super::format;
use super::json::{Json, Keywords, Number};
use super::{documents, metaschemas};
use crate::chart::Fetch;
use crate::template::go::quote::quote_go;
use crate::template::sprig::regex;

/// The largest schema file that is read, in bytes.
const MAX_FILE: u64 = 5 * 1024 * 1024;
/// How many schemas a chart's schema may consist of.
const MAX_SCHEMAS: usize = 100_000;

/// The keywords that [`Rare`] is not needed for.
const COMMON: [&str; 12] = [
    "$comment",
    "$ref",
    "$schema",
    "additionalProperties",
    "default",
    "description",
    "enum",
    "items",
    "properties",
    "required",
    "title",
    "type",
];

/// Compiles documents and whatever they refer to.
pub(super) struct Compiler<'f> {
    documents: BTreeMap<Arc<str>, Document>,
    schemas: Vec<Schema>,
    /// Where each of `schemas` stands.
    places: Vec<Place>,
    known: HashMap<Place, usize>,
    /// Metaschemas assert formats, and aren't checked themselves.
    is_meta: bool,
    fetch: Option<&'f Fetch>,
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
            fetch,
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
        let url = Arc::from(url);
        if let Some(document) = document {
            self.add(&url, document)?;
        }
        self.enqueue(Place::new(&url, ""));
        let mut at = 0;
        while let Some(place) = self.places.get(at).cloned() {
            self.ensure(&place)?;
            let root = self
                .documents
                .get(&place.url)
                .map(|document| Arc::clone(&document.root));
            let value = root.as_deref().and_then(|root| documents::lookup(root, &place.pointer));
            let value = value.ok_or_else(|| format!("json-pointer in {} not found", quote(&place.to_string())))?;
            self.compile_at(at, &place, value)?;
            at += 1;
            if at > MAX_SCHEMAS {
                return Err(format!("the schema has more than {MAX_SCHEMAS} subschemas"));
            }
        }
        self.schemas.shrink_to_fit();
        Ok(self.schemas)
    }

    fn add(&mut self, url: &Arc<str>, root: Json) -> Result<(), String> {
        let mut document = Document::new(url, root);
        document.collect_root()?;
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
                quote(&place.to_string())
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
            return Err(format!("json-pointer in {} not found", quote(&place.to_string())));
        }
        document.collect_at(&place.pointer)?;
        let document = self.documents.get(&place.url);
        document.map_or(Ok(()), |document| self.check(document, &place.pointer))
    }

    fn load(&mut self, url: &Arc<str>) -> Result<(), String> {
        if self.documents.contains_key(url) {
            return Ok(());
        }
        let failed = |problem: String| format!("failing loading {}: {problem}", quote(url));
        let root = match metaschemas::document(url) {
            Some(document) => document,
            None => fetch(url, self.fetch).map_err(failed)?,
        };
        self.add(url, root)
    }

    fn enqueue(&mut self, place: Place) -> usize {
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        let index = self.schemas.len();
        self.schemas.push(Schema::default());
        self.places.push(place.clone());
        self.known.insert(place, index);
        index
    }

    /// The place that a reference leads to.
    fn resolve(&mut self, from: &Place, reference: &str) -> Result<Place, String> {
        let Some(document) = self.documents.get(&from.url) else {
            return Ok(from.clone());
        };
        let (_, resource) = document.resource(&from.pointer);
        let (url, fragment) = documents::join(&resource.id, reference)?;
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
            location: place.to_string().into(),
            draft: resource.draft,
            ..Schema::default()
        };
        let mut rare = Rare::default();
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
            rare.dynamic_anchors.insert(name, target);
        }
        match value {
            Json::Bool(accepts) => schema.boolean = Some(*accepts),
            Json::Object(map) if map.is_empty() => schema.boolean = Some(true),
            Json::Object(map) => Object {
                compiler: self,
                place,
                map,
                keywords: Keywords::of(map),
            }
            .read(&mut schema, &mut rare)?,
            _ => {}
        }
        let is_common = |key: &String| COMMON.contains(&key.as_str());
        if !rare.dynamic_anchors.is_empty() || matches!(value, Json::Object(map) if !map.keys().all(is_common)) {
            schema.rare = Some(Box::new(rare));
        }
        if let Some(slot) = self.schemas.get_mut(index) {
            *slot = schema;
        }
        Ok(())
    }
}

/// A schema's keywords.
struct Object<'c, 'f> {
    compiler: &'c mut Compiler<'f>,
    place: &'c Place,
    map: &'c BTreeMap<String, Json>,
    keywords: Keywords,
}

impl<'c> Object<'c, '_> {
    fn get(&self, keyword: &str) -> Option<&'c Json> {
        if !self.keywords.may_have(keyword) {
            return None;
        }
        self.map.get(keyword)
    }

    fn read(mut self, schema: &mut Schema, rare: &mut Rare) -> Result<(), String> {
        let draft = schema.draft;
        schema.reference = self.reference("$ref")?;
        if draft < Draft::V2019 && schema.reference.is_some() {
            // Older drafts ignore what stands beside a reference.
            return Ok(());
        }
        rare.all_of = self.list("allOf");
        rare.any_of = self.list("anyOf");
        rare.one_of = self.list("oneOf");
        rare.not = self.one("not");
        self.read_items(schema, rare);
        self.read_properties(schema, rare)?;
        self.read_assertions(schema, rare)?;
        if draft >= Draft::V6 {
            rare.contains = self.one("contains");
            rare.property_names = self.one("propertyNames");
            rare.constant = self.get("const").cloned();
        }
        if draft >= Draft::V7 {
            rare.condition = self.one("if");
            if rare.condition.is_some() {
                rare.then = self.one("then");
                rare.otherwise = self.one("else");
            }
        }
        if draft >= Draft::V2019 {
            rare.recursive_reference = self.reference("$recursiveRef")?;
            rare.recursive_anchor = self.is_true("$recursiveAnchor");
            if rare.contains.is_some() {
                rare.contains_range = [self.whole("minContains"), self.whole("maxContains")];
            }
            for (name, value) in self.object("dependentRequired") {
                if let Json::Array(names) = value {
                    rare.dependent_required.push((name.clone(), texts(names)));
                }
            }
            rare.dependent_schemas = self.named("dependentSchemas");
            rare.unevaluated_items = self.one("unevaluatedItems");
            rare.unevaluated_properties = self.one("unevaluatedProperties");
        }
        if draft >= Draft::V2020 {
            if let Some(target) = self.reference("$dynamicRef")? {
                let text = self.text("$dynamicRef").unwrap_or_default();
                let fragment = text.split_once('#').map_or("", |(_, fragment)| fragment);
                let anchor = if fragment.starts_with('/') { "" } else { fragment };
                rare.dynamic_reference = Some((target, anchor.to_owned()));
            }
            rare.dynamic_anchor = self.text("$dynamicAnchor").map(str::to_owned);
        }
        Ok(())
    }

    fn read_items(&mut self, schema: &mut Schema, rare: &mut Rare) {
        if schema.draft >= Draft::V2020 {
            let first = self.list("prefixItems");
            let rest = self.one("items");
            match rest {
                Some(target) if first.is_empty() => schema.items = Items::All(target),
                rest => {
                    schema.items = Items::First(first);
                    rare.additional_items = rest.map(Additional::Schema);
                }
            }
        } else if matches!(self.get("items"), Some(Json::Array(_))) {
            schema.items = Items::First(self.list("items"));
            rare.additional_items = self.additional("additionalItems");
        } else if let Some(target) = self.one("items") {
            schema.items = Items::All(target);
        }
    }

    fn read_properties(&mut self, schema: &mut Schema, rare: &mut Rare) -> Result<(), String> {
        schema.properties = self
            .named("properties")
            .into_iter()
            .map(|(name, target)| (name.into(), target))
            .collect();
        rare.pattern_properties = self.named("patternProperties");
        for (pattern, _) in &rare.pattern_properties {
            self.check_pattern("patternProperties", pattern)?;
        }
        schema.additional_properties = self.additional("additionalProperties");
        let dependencies: Vec<(String, Json)> = self
            .object("dependencies")
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        for (name, value) in dependencies {
            let dependency = match &value {
                Json::Array(names) => Dependency::Names(texts(names)),
                _ => Dependency::Schema(self.at(&["dependencies", &name])),
            };
            rare.dependencies.push((name, dependency));
        }
        Ok(())
    }

    fn read_assertions(&mut self, schema: &mut Schema, rare: &mut Rare) -> Result<(), String> {
        const ORDER: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];
        let wanted = match self.get("type") {
            Some(Json::String(one)) => vec![one.clone()],
            Some(Json::Array(many)) => texts(many),
            _ => Vec::new(),
        };
        schema.types = ORDER
            .into_iter()
            .filter(|name| wanted.iter().any(|one| one == name))
            .collect();
        if let Some(Json::Array(options)) = self.get("enum") {
            schema.enumeration = Some(options.as_slice().into());
        }
        rare.multiple_of = self.number("multipleOf");
        let mut exclusive = Vec::new();
        for (name, strict, refused) in [
            ("minimum", "exclusiveMinimum", &[Ordering::Less, Ordering::Equal]),
            ("maximum", "exclusiveMaximum", &[Ordering::Greater, Ordering::Equal]),
        ] {
            let [refused_first, _] = refused;
            let weakly = std::slice::from_ref(refused_first);
            // Draft 4: the strict keyword is a flag of the other.
            if self.is_true(strict) {
                exclusive.extend(self.number(name).map(|limit| (strict, limit, &refused[..])));
            } else {
                rare.limits.extend(self.number(name).map(|limit| (name, limit, weakly)));
                exclusive.extend(self.number(strict).map(|limit| (strict, limit, &refused[..])));
            }
        }
        rare.limits.extend(exclusive);
        rare.length_range = [self.whole("minLength"), self.whole("maxLength")];
        rare.items_range = [self.whole("minItems"), self.whole("maxItems")];
        rare.properties_range = [self.whole("minProperties"), self.whole("maxProperties")];
        rare.unique_items = self.is_true("uniqueItems");
        if let Some(Json::Array(names)) = self.get("required") {
            schema.required = texts(names).into();
        }
        if let Some(pattern) = self.text("pattern") {
            self.check_pattern("pattern", pattern)?;
            rare.pattern = Some(pattern.to_owned());
        }
        if (schema.draft < Draft::V2019 || self.compiler.is_meta)
            && let Some(name) = self.text("format")
        {
            rare.format = format::find(name).map(|check| (name.to_owned(), check));
        }
        Ok(())
    }

    fn check_pattern(&self, keyword: &str, pattern: &str) -> Result<(), String> {
        regex::compile(pattern.as_bytes()).map(drop).map_err(|problem| {
            format!(
                "invalid regex {} at {}: {problem}",
                quote(pattern),
                quote(&self.place.below(&[keyword]).to_string())
            )
        })
    }

    fn at(&mut self, path: &[&str]) -> usize {
        let place = self.place.below(path);
        self.compiler.enqueue(place)
    }

    fn one(&mut self, key: &str) -> Option<usize> {
        self.get(key).is_some().then(|| self.at(&[key]))
    }

    fn list(&mut self, key: &str) -> Vec<usize> {
        match self.get(key) {
            Some(Json::Array(items)) => (0..items.len()).map(|at| self.at(&[key, &at.to_string()])).collect(),
            _ => Vec::new(),
        }
    }

    fn named(&mut self, key: &str) -> Vec<(String, usize)> {
        match self.get(key) {
            Some(Json::Object(map)) => map.keys().map(|name| (name.clone(), self.at(&[key, name]))).collect(),
            _ => Vec::new(),
        }
    }

    fn object(&self, key: &str) -> impl Iterator<Item = (&String, &Json)> {
        match self.get(key) {
            Some(Json::Object(map)) => Some(map.iter()),
            _ => None,
        }
        .into_iter()
        .flatten()
    }

    fn additional(&mut self, key: &str) -> Option<Additional> {
        match self.get(key)? {
            Json::Bool(allowed) => Some(Additional::Allowed(*allowed)),
            _ => self.one(key).map(Additional::Schema),
        }
    }

    fn reference(&mut self, key: &str) -> Result<Option<usize>, String> {
        let Some(text) = self.text(key).map(str::to_owned) else {
            return Ok(None);
        };
        let place = self.compiler.resolve(self.place, &text)?;
        Ok(Some(self.compiler.enqueue(place)))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Json::text)
    }

    fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some(&Json::Bool(true))
    }

    fn number(&self, key: &str) -> Option<Number> {
        match self.get(key) {
            Some(Json::Number(n)) => Some(n.clone()),
            _ => None,
        }
    }

    fn whole(&self, key: &str) -> Option<i64> {
        self.number(key)?.to_count()
    }
}

fn texts(items: &[Json]) -> Vec<String> {
    items.iter().filter_map(Json::text).map(str::to_owned).collect()
}

fn quote(text: &str) -> String {
    quote_go(text.as_bytes())
}

impl Place {
    fn below(&self, path: &[&str]) -> Place {
        let mut pointer = self.pointer.clone();
        for part in path {
            pointer.push('/');
            pointer.push_str(&escape(part));
        }
        Place::new(&self.url, &pointer)
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
            let path = documents::percent_decode(file_path(url))?;
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
        _ => Err(format!("no URLLoader registered for {}", quote(url))),
    }
}
