//! The file beside a chart that says of its values what the chart doesn't: enumerations, bounds, what is required or can't be
//! changed; and of the kind how it is called and shown.

use std::collections::BTreeMap;

use go_yaml::Data;
use serde::Deserialize;
use serde_json::{Value, json};

use super::definition::{Column, Names, Scale};
use super::schema::{FieldSchema, SchemaType};
use super::structural::{cel_name, has_cel_name};
use chartwright_watches::suggestion;

/// The file as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Overlay {
    plural: Option<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
    cluster: Option<bool>,
    scale: Option<Scale>,
    columns: Vec<Column>,
    /// Fields for `kubectl get --field-selector`, by path below `spec`.
    selectable: Vec<String>,
    /// By path below `spec`: `image.tag`, `hosts[].name`; a dot in a key is written `\.`.
    fields: BTreeMap<String, OverlayField>,
    /// Rules in CEL over the whole object.
    validations: Vec<OverlayRule>,
    #[serde(skip)]
    origin: Origin,
}

/// What is said of one value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct OverlayField {
    description: Option<String>,
    r#type: Option<Type>,
    r#enum: Option<Vec<Value>>,
    minimum: Option<Value>,
    maximum: Option<Value>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    pattern: Option<String>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    required: bool,
    immutable: bool,
    /// Of an object: whether keys that aren't listed are kept.
    open: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Type {
    Any,
    Boolean,
    Integer,
    Number,
    String,
    IntOrString,
    Array,
    Object,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverlayRule {
    rule: String,
    message: String,
}

/// The file, and where its fields stand in it.
#[derive(Clone, Debug, Default)]
struct Origin {
    file: String,
    lines: BTreeMap<String, usize>,
}

impl Type {
    fn kind(self) -> SchemaType {
        match self {
            Type::Any => SchemaType::Any,
            Type::Boolean => SchemaType::Boolean,
            Type::Integer => SchemaType::Integer,
            Type::Number => SchemaType::Number,
            Type::String => SchemaType::String,
            Type::IntOrString => SchemaType::IntOrString,
            Type::Array => SchemaType::Array,
            Type::Object => SchemaType::Object,
        }
    }
}

impl Overlay {
    /// Reads the file of that name.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn read(file: &str, text: &str) -> Result<Self, String> {
        let is_empty = text
            .lines()
            .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        let mut overlay = if is_empty {
            Overlay::default()
        } else {
            serde_yaml::from_str::<Overlay>(text).map_err(|error| {
                let place = error
                    .location()
                    .map(|at| format!("{file}:{}:{}", at.line(), at.column()));
                format!("{}: {error}", place.unwrap_or_else(|| file.to_owned()))
            })?
        };
        overlay.origin = Origin {
            file: file.to_owned(),
            lines: lines_of_fields(text),
        };
        Ok(overlay)
    }

    /// Fills in what the command line leaves open.
    pub fn name(&self, names: &mut Names) {
        names.plural = names.plural.take().or_else(|| self.plural.clone());
        if names.short_names.is_empty() {
            names.short_names.clone_from(&self.short_names);
        }
        if names.categories.is_empty() {
            names.categories.clone_from(&self.categories);
        }
        names.cluster |= self.cluster == Some(true);
        names.scale = names.scale.take().or_else(|| self.scale.clone());
        names.columns.extend(self.columns.iter().cloned());
    }

    /// The JSON paths of the selectable fields.
    ///
    /// # Errors
    /// A path that leads nowhere, or to a value that the API server does not select by.
    pub fn selectable_fields(&self, spec: &mut FieldSchema) -> Result<Vec<String>, String> {
        // `maxSelectableFields` of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
        const MOST: usize = 8;
        if self.selectable.len() > MOST {
            return Err(format!("selectable: a definition has at most {MOST} selectable fields"));
        }
        let paths = self.selectable.iter().map(|written| {
            let path = parse_path(written);
            let node = find(spec, &path, false).map_err(|problem| format!("selectable: {problem}"))?;
            let is_single = matches!(node.kind, SchemaType::String | SchemaType::Boolean | SchemaType::Integer);
            // A simple path has names that CEL has as they are.
            if !is_single || !path.iter().all(|part| has_cel_name(part) && cel_name(part) == *part) {
                return Err(format!(
                    "selectable: {written} must be a string, a boolean or an integer outside of lists, with a plain name"
                ));
            }
            Ok(format!(".spec.{}", path.join(".")))
        });
        paths.collect()
    }

    /// Lays what it says over the schema of `spec`; gives the rules for the whole object.
    ///
    /// # Errors
    /// A path that leads nowhere, and what can't be checked; with its place.
    pub fn apply(&self, spec: &mut FieldSchema) -> Result<Vec<Value>, String> {
        let mut rules = Vec::new();
        for (written, field) in &self.fields {
            let path = parse_path(written);
            let at = |problem: String| self.origin.place(written, &problem);
            field.describe(spec, &path).map_err(at)?;
            if field.required {
                require(spec, &path).map_err(at)?;
            }
            if field.immutable {
                rules.push(immutable(spec, &path).map_err(at)?);
            }
        }
        rules.extend(
            self.validations
                .iter()
                .map(|rule| json!({"rule": rule.rule, "message": rule.message})),
        );
        Ok(rules)
    }
}

impl OverlayField {
    fn describe(&self, spec: &mut FieldSchema, path: &[String]) -> Result<(), String> {
        let node = find(spec, path, self.r#type.is_some())?;
        if let Some(kind) = self.kind(node.kind) {
            if kind != node.kind {
                node.open = kind == SchemaType::Object;
                node.enumeration = None;
                node.limits.clear();
                node.all_of.clear();
                node.properties.clear();
                node.items = None;
            }
            node.kind = kind;
        }
        if let Some(description) = &self.description {
            node.description.clone_from(description);
        }
        if let Some(values) = &self.r#enum {
            node.enumeration = Some(values.clone());
        }
        if let Some(open) = self.open {
            node.open = open;
        }
        let counts = [
            ("minLength", self.min_length),
            ("maxLength", self.max_length),
            ("minItems", self.min_items),
            ("maxItems", self.max_items),
        ];
        let counts = counts
            .into_iter()
            .filter_map(|(name, count)| Some((name, Value::from(count?))));
        let bounds = [("minimum", &self.minimum), ("maximum", &self.maximum)];
        let bounds = bounds
            .into_iter()
            .filter_map(|(name, bound)| Some((name, bound.clone()?)));
        let pattern = self
            .pattern
            .iter()
            .map(|pattern| ("pattern", Value::from(pattern.as_str())));
        let limits = counts.chain(bounds).chain(pattern);
        node.limits.extend(limits.map(|(name, limit)| (name.to_owned(), limit)));
        Ok(())
    }

    /// The kind that the overlay gives a field. Bounds imply a number.
    fn kind(&self, known: SchemaType) -> Option<SchemaType> {
        if let Some(kind) = self.r#type {
            return Some(kind.kind());
        }
        if !matches!(known, SchemaType::Any | SchemaType::IntOrString) {
            return None;
        }
        let all = |is: fn(&Value) -> bool| self.r#enum.iter().flatten().all(is);
        let bounds = [&self.minimum, &self.maximum];
        match () {
            () if self.r#enum.is_some() && all(Value::is_string) => Some(SchemaType::String),
            () if self.r#enum.is_some() && all(Value::is_i64) => Some(SchemaType::Integer),
            () if bounds.iter().any(|bound| bound.as_ref().is_some_and(Value::is_f64)) => Some(SchemaType::Number),
            () if bounds.iter().any(|bound| bound.is_some()) => Some(SchemaType::Integer),
            () if self.pattern.is_some() || self.min_length.or(self.max_length).is_some() => Some(SchemaType::String),
            () if self.min_items.or(self.max_items).is_some() => Some(SchemaType::Array),
            () => None,
        }
    }
}

impl Origin {
    fn place(&self, field: &str, problem: &str) -> String {
        let line = self.lines.get(field).copied().unwrap_or_default();
        format!("{}:{line}: fields.{field}: {problem}", self.file)
    }
}

/// Where each entry of `fields` stands.
fn lines_of_fields(text: &str) -> BTreeMap<String, usize> {
    let entries = |data: &Data| match data {
        Data::Map(entries) => entries.clone(),
        _ => Vec::new(),
    };
    let root = go_yaml::parse(text.as_bytes())
        .map(|root| entries(&root.data))
        .unwrap_or_default();
    let fields = root
        .into_iter()
        .find(|(key, _)| key.data == Data::String("fields".into()));
    let fields = fields.map(|(_, fields)| entries(&fields.data)).unwrap_or_default();
    fields
        .into_iter()
        .map(|(key, _)| (super::infer::key_text(&key), key.line))
        .collect()
}

/// `a.b[].c\.d` in its parts.
pub fn parse_path(written: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = written.trim_start_matches('.').chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => parts.last_mut().into_iter().for_each(|part| part.extend(chars.next())),
            '.' => parts.push(String::new()),
            '[' if chars.peek() == Some(&']') => {
                chars.next();
                parts.push("[]".to_owned());
            }
            c => parts.last_mut().into_iter().for_each(|part| part.push(c)),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The node at a path, made if it may be new and its parents let it be.
fn find<'s>(mut node: &'s mut FieldSchema, path: &[String], may_be_new: bool) -> Result<&'s mut FieldSchema, String> {
    for (depth, part) in path.iter().enumerate() {
        if part == "[]" && node.kind == SchemaType::Any && may_be_new {
            node.kind = SchemaType::Array;
        }
        if part == "[]" && node.kind == SchemaType::Array {
            node = node.items.get_or_insert_default();
            continue;
        }
        if node.kind == SchemaType::Any && may_be_new && part != "[]" {
            *node = FieldSchema {
                description: std::mem::take(&mut node.description),
                ..FieldSchema::open_object()
            };
        }
        let can_be_made = may_be_new && node.kind == SchemaType::Object && part != "[]";
        if !can_be_made && !node.properties.contains_key(part) {
            if let Some(problem) = no_list(node, path, depth) {
                return Err(problem);
            }
            let keys: Vec<&str> = node.properties.keys().map(String::as_str).collect();
            let hint = suggestion(part, keys.iter().copied());
            let hint = hint.map(|known| format!(": did you mean {known}?")).unwrap_or_default();
            let shown = shown(&path[..=depth]);
            return Err(format!(
                "the chart has no value {shown}{hint} (with a `type` it would be a new one)"
            ));
        }
        node = node.properties.entry(part.clone()).or_default();
    }
    Ok(node)
}

/// What is missing where a path goes into a list that the chart doesn't show, or into its items.
fn no_list(node: &FieldSchema, path: &[String], depth: usize) -> Option<String> {
    let (before, part) = (path.get(..depth)?, path.get(depth)?);
    let empty = |list: &[String]| {
        format!(
            "the list {} is empty in the chart's values, so that its items are not known: give {} a `type`",
            shown(list),
            shown(path)
        )
    };
    if part == "[]" && node.kind == SchemaType::Any {
        return Some(empty(before));
    }
    if part == "[]" {
        return Some(format!(
            "{} is no list in the chart's values: `[]` stands behind lists only",
            shown(before)
        ));
    }
    let (last, list) = before.split_last()?;
    (last == "[]" && node.kind == SchemaType::Any).then(|| empty(list))
}

/// A path as it is written.
fn shown(path: &[String]) -> String {
    path.join(".").replace(".[]", "[]")
}

/// A value is always there only if all around it is; in a list, only in its items.
fn require(spec: &mut FieldSchema, path: &[String]) -> Result<(), String> {
    let mut node = spec;
    for (depth, part) in path.iter().enumerate() {
        if !path[depth..].iter().any(|part| part == "[]") {
            node.required.insert(part.clone());
        }
        let below = node.at_mut(std::slice::from_ref(part));
        node = below.ok_or("there is no such value")?;
    }
    node.nullable = false;
    Ok(())
}

/// A value stays what it was, set or not. The rule stands at the root, since a rule at the value itself isn't looked at when
/// it comes or goes.
fn immutable(spec: &mut FieldSchema, path: &[String]) -> Result<Value, String> {
    let kind = spec.at_mut(path).map(|node| node.kind);
    let is_single = kind.is_some_and(|kind| kind.is_scalar() && kind != SchemaType::Null);
    if !is_single || path.iter().any(|part| part == "[]") {
        return Err("`immutable` is for single values outside of lists: give it a `type`".to_owned());
    }
    if let Some(part) = path.iter().find(|part| !has_cel_name(part)) {
        return Err(format!("`immutable`: CEL has no name for the key {part:?}"));
    }
    let names: Vec<String> = std::iter::once("spec".to_owned())
        .chain(path.iter().map(|part| cel_name(part)))
        .collect();
    let has = |root: &str| {
        let parts: Vec<String> = (1..=names.len())
            .map(|count| format!("has({root}.{})", names[..count].join(".")))
            .collect();
        format!("({})", parts.join(" && "))
    };
    let (new, old, path) = (has("self"), has("oldSelf"), names.join("."));
    Ok(json!({
        "rule": format!("{new} == {old} && (!{new} || self.{path} == oldSelf.{path})"),
        "message": format!("{path} can't be changed"),
    }))
}

/// Says which field a scale subresource writes: a whole number.
pub fn scale_field(spec: &mut FieldSchema, scale: &Scale) -> Result<(), String> {
    let written = scale.spec_replicas_path.strip_prefix(".spec.");
    let written = written.ok_or_else(|| format!("{} is not below .spec", scale.spec_replicas_path))?;
    let node = find(spec, &parse_path(written), false)?;
    if !matches!(
        node.kind,
        SchemaType::Integer | SchemaType::IntOrString | SchemaType::Any
    ) {
        return Err(format!("{} is no number", scale.spec_replicas_path));
    }
    node.kind = SchemaType::Integer;
    node.limits.entry("minimum").or_insert(0.into());
    Ok(())
}
