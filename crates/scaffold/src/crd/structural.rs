//! `values.schema.json` -> [`FieldSchema`]. Kubernetes knows a part of JSON Schema: what has no counterpart there becomes looser,
//! never tighter, since the chart's own schema has the last word at the render.

use serde_json::{Map, Value, json};

use super::schema::{FieldSchema, SchemaType};

/// Nodes of one schema after its references are followed; beyond them everything is open.
const MOST_NODES: usize = 20_000;
const DEEPEST: usize = 48;

/// What is known of the place that a schema is for.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The chart's default.
    pub default: Option<&'a Value>,
    /// It is laid over the default; otherwise, as an item of a list, it is all there is.
    pub partial: bool,
    /// A required key without a default has to be in the custom resource: it is the only source of values.
    pub alone: bool,
    /// How many lists are around it.
    pub lists: usize,
    depth: usize,
}

/// Turns the schema of one chart.
pub struct Converter<'s> {
    root: &'s Value,
    /// In the drafts up to 7, what stands beside a `$ref` counts for nothing.
    ref_alone: bool,
    refs: Vec<String>,
    nodes: usize,
    /// What could not be kept.
    pub warnings: Vec<String>,
}

impl<'a> At<'a> {
    pub fn root(default: &'a Value, alone: bool) -> Self {
        At {
            default: Some(default),
            partial: true,
            alone,
            lists: 0,
            depth: 0,
        }
    }

    fn deeper(self) -> Self {
        At {
            depth: self.depth + 1,
            ..self
        }
    }

    fn key(self, key: &str) -> Self {
        At {
            default: self.default.and_then(|default| default.get(key)),
            ..self.deeper()
        }
    }

    fn item(self) -> At<'static> {
        At {
            default: None,
            partial: false,
            alone: true,
            lists: self.lists + 1,
            depth: self.depth + 1,
        }
    }

    /// Whether the default, if there is one, is of a type.
    fn may_be(self, is: impl FnOnce(&Value) -> bool) -> bool {
        self.default.is_none_or(|default| default.is_null() || is(default))
    }
}

impl<'s> Converter<'s> {
    pub fn new(root: &'s Value) -> Self {
        let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        Converter {
            root,
            ref_alone: ["draft-04", "draft-06", "draft-07"]
                .iter()
                .any(|old| draft.contains(old)),
            refs: Vec::new(),
            nodes: 0,
            warnings: Vec::new(),
        }
    }

    /// The schema of a chart's values: always an object.
    pub fn values(&mut self, at: At<'_>) -> FieldSchema {
        let schema = self.convert(self.root, at);
        match schema.kind {
            SchemaType::Object => schema,
            _ => FieldSchema {
                description: schema.description,
                ..FieldSchema::open_object()
            },
        }
    }

    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    fn convert(&mut self, schema: &Value, at: At<'_>) -> FieldSchema {
        let Value::Object(keywords) = schema else {
            return FieldSchema::default();
        };
        self.nodes += 1;
        if self.nodes > MOST_NODES || at.depth > DEEPEST {
            self.warn(format!(
                "it has more than {MOST_NODES} parts or {DEEPEST} levels: the rest is open"
            ));
            return FieldSchema::default();
        }
        let mut node = FieldSchema::default();
        for name in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = keywords.get(name).and_then(Value::as_str) {
                node = self.follow(reference, at);
                if self.ref_alone {
                    return node;
                }
            }
        }
        node = self.own(keywords, at).meet(node);
        for part in list(keywords.get("allOf")) {
            let part = self.convert(part, at.deeper());
            node = node.meet(part);
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(alternatives) = self.alternatives(name, list(keywords.get(name)), &node, at) {
                node = node.meet(alternatives);
            }
        }
        if keywords.contains_key("if") {
            let mut branch = |name| {
                keywords
                    .get(name)
                    .map_or_else(FieldSchema::default, |part| self.convert(part, at.deeper()))
            };
            let (then, otherwise) = (branch("then"), branch("else"));
            node = node.meet(then.union(otherwise));
        }
        if let Some(not) = keywords.get("not").and_then(Value::as_object) {
            node.all_of.extend(refused(not, node.kind));
        }
        node
    }

    fn follow(&mut self, reference: &str, at: At<'_>) -> FieldSchema {
        // What refers to itself ends here.
        if self.refs.iter().any(|open| open == reference) {
            return FieldSchema::default();
        }
        let Some(target) = self.target(reference) else {
            self.warn(format!("{reference} stands elsewhere: what it describes is open"));
            return FieldSchema::default();
        };
        self.refs.push(reference.to_owned());
        let node = self.convert(target, at.deeper());
        self.refs.pop();
        node
    }

    /// What a reference within this file names.
    fn target(&self, reference: &str) -> Option<&'s Value> {
        match reference.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) if pointer.starts_with('/') => self.root.pointer(&percent_decoded(pointer)),
            Some(_) | None => find_named(self.root, reference),
        }
    }

    /// What the keywords of one schema say by themselves.
    fn own(&mut self, keywords: &Map<String, Value>, at: At<'_>) -> FieldSchema {
        let mut kinds = kinds(keywords, at).into_iter();
        let first = kinds.next().unwrap_or_default();
        let mut node = self.of_kind(first, keywords, at);
        for kind in kinds {
            let further = self.of_kind(kind, keywords, at);
            node = node.union(further);
        }
        let text = |name| keywords.get(name).and_then(Value::as_str).unwrap_or_default().trim();
        let mut description = if text("description").is_empty() {
            text("title")
        } else {
            text("description")
        }
        .to_owned();
        let format = text("format");
        if !format.is_empty() && node.kind.is_scalar() {
            // Kubernetes knows other formats, and other meanings of some; in late drafts none of them is checked.
            description = format!("{} Format: {format}.", with_full_stop(&description))
                .trim()
                .to_owned();
        }
        if keywords.get("deprecated") == Some(&Value::Bool(true)) {
            description = format!("Deprecated. {description}").trim().to_owned();
        }
        node.description = description;
        node.nullable |= keywords.get("nullable") == Some(&Value::Bool(true));
        node
    }

    fn of_kind(&mut self, kind: SchemaType, keywords: &Map<String, Value>, at: At<'_>) -> FieldSchema {
        let mut node = FieldSchema::of(kind);
        if kind != SchemaType::Null {
            node.enumeration = enumeration(keywords, kind);
        }
        match kind {
            SchemaType::Integer | SchemaType::Number | SchemaType::IntOrString => numeric_limits(&mut node, keywords),
            SchemaType::String => text_limits(&mut node, keywords),
            SchemaType::Array => self.array(&mut node, keywords, at),
            SchemaType::Object => self.object(&mut node, keywords, at),
            // They hold for values of their kind, which another part of the schema may name.
            SchemaType::Any => {
                node.nullable = true;
                numeric_limits(&mut node, keywords);
                text_limits(&mut node, keywords);
                copy_limits(&mut node.limits, keywords, &["minItems", "maxItems"]);
            }
            SchemaType::Null | SchemaType::Boolean => {}
        }
        node
    }

    fn array(&mut self, node: &mut FieldSchema, keywords: &Map<String, Value>, at: At<'_>) {
        copy_limits(&mut node.limits, keywords, &["minItems", "maxItems"]);
        let tuple = keywords
            .get("prefixItems")
            .or_else(|| keywords.get("items").filter(|items| items.is_array()));
        let rest = match keywords.get("prefixItems") {
            Some(_) => keywords.get("items"),
            None if tuple.is_some() => keywords.get("additionalItems"),
            None => keywords.get("items"),
        };
        let mut items = match rest {
            Some(Value::Bool(false)) if tuple.is_some() => None,
            Some(schema) => Some(self.convert(schema, at.item())),
            None => Some(FieldSchema::default()),
        };
        for schema in list(tuple) {
            let item = self.convert(schema, at.item());
            items = Some(match items {
                Some(others) => others.union(item),
                None => item,
            });
        }
        node.items = items.map(Box::new);
    }

    fn object(&mut self, node: &mut FieldSchema, keywords: &Map<String, Value>, at: At<'_>) {
        let empty = Map::new();
        let map = |name: &str| keywords.get(name).and_then(Value::as_object).unwrap_or(&empty);
        for (key, schema) in map("properties") {
            // Kubernetes has no word for a key that must not be there.
            if *schema != Value::Bool(false) {
                let value = self.convert(schema, at.key(key));
                node.properties.insert(key.clone(), value);
            }
        }
        let additional = keywords.get("additionalProperties");
        let has_patterns = !map("patternProperties").is_empty();
        node.open = additional != Some(&Value::Bool(false)) || has_patterns;
        if !has_patterns
            && node.properties.is_empty()
            && let Some(schema @ Value::Object(said)) = additional
            && !said.is_empty()
        {
            let of_all = At {
                default: None,
                ..at.deeper()
            };
            node.additional = Some(Box::new(self.convert(schema, of_all)));
            node.open = false;
        }
        let has_default = |key: &str| at.default.is_some_and(|default| default.get(key).is_some());
        for key in list(keywords.get("required")).iter().filter_map(Value::as_str) {
            let is_known = node.open || node.additional.is_some() || node.properties.contains_key(key);
            if is_known && (!at.partial || (at.alone && !has_default(key))) {
                node.required.insert(key.to_owned());
            }
        }
        if !at.partial {
            copy_limits(&mut node.limits, keywords, &["minProperties", "maxProperties"]);
            dependent(node, keywords, at);
        }
    }

    /// Where one of several schemas has to hold, besides the one around them.
    fn alternatives(
        &mut self,
        name: &str,
        branches: &[Value],
        around: &FieldSchema,
        at: At<'_>,
    ) -> Option<FieldSchema> {
        if branches.is_empty() {
            return None;
        }
        let only_required = |branch: &Value| {
            branch
                .as_object()
                .is_some_and(|it| it.keys().all(|key| key == "required"))
        };
        if branches.iter().all(only_required) {
            if at.partial {
                return None;
            }
            let mut node = FieldSchema::open_object();
            node.all_of.push(json!({name: branches}));
            return Some(node);
        }
        let mut converted: Vec<FieldSchema> = branches
            .iter()
            .map(|branch| self.convert(branch, at.deeper()))
            .collect();
        // Bounds without a type can be kept when it is known.
        if around.kind.is_scalar() {
            let bare = FieldSchema::of(around.kind);
            converted = converted.into_iter().map(|branch| bare.clone().meet(branch)).collect();
        }
        converted.into_iter().reduce(FieldSchema::union)
    }
}

/// The types that a value may have.
fn kinds(keywords: &Map<String, Value>, at: At<'_>) -> Vec<SchemaType> {
    let named = |name: &str| match name {
        "null" => SchemaType::Null,
        "boolean" => SchemaType::Boolean,
        "integer" => SchemaType::Integer,
        "number" => SchemaType::Number,
        "string" => SchemaType::String,
        "array" => SchemaType::Array,
        "object" => SchemaType::Object,
        _ => SchemaType::Any,
    };
    match keywords.get("type") {
        Some(Value::String(name)) => return vec![named(name)],
        Some(Value::Array(names)) => return names.iter().filter_map(Value::as_str).map(named).collect(),
        _ => {}
    }
    let has = |names: &[&str]| names.iter().any(|name| keywords.contains_key(*name));
    if let Some(values) = listed(keywords) {
        let mut kinds: Vec<SchemaType> = Vec::new();
        for value in values {
            let kind = match value {
                Value::Null => SchemaType::Null,
                Value::Bool(_) => SchemaType::Boolean,
                Value::Number(number) if number.is_f64() => SchemaType::Number,
                Value::Number(_) => SchemaType::Integer,
                Value::String(_) => SchemaType::String,
                _ => SchemaType::Any,
            };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        return kinds;
    }
    // Without a type, these keywords hold for objects and lists only, but their authors mean no other values.
    let of_objects = [
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "dependentRequired",
    ];
    if has(&of_objects) && at.may_be(Value::is_object) {
        return vec![SchemaType::Object];
    }
    if has(&["items", "prefixItems"]) && at.may_be(Value::is_array) {
        return vec![SchemaType::Array];
    }
    vec![SchemaType::Any]
}

/// The values of `enum` or `const`.
fn listed(keywords: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (keywords.get("const"), keywords.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// Those of them that a kind has.
fn enumeration(keywords: &Map<String, Value>, kind: SchemaType) -> Option<Vec<Value>> {
    let of_kind = |value: &Value| match kind {
        SchemaType::Boolean => value.is_boolean(),
        SchemaType::Integer => value.is_i64() || value.is_u64(),
        SchemaType::Number => value.is_number(),
        SchemaType::String => value.is_string(),
        SchemaType::IntOrString => value.is_i64() || value.is_u64() || value.is_string(),
        _ => false,
    };
    let values: Vec<Value> = listed(keywords)?
        .into_iter()
        .filter(|value| of_kind(value))
        .cloned()
        .collect();
    (!values.is_empty()).then_some(values)
}

fn copy_limits(limits: &mut Map<String, Value>, keywords: &Map<String, Value>, names: &[&str]) {
    for name in names {
        if let Some(count) = keywords.get(*name).filter(|count| count.is_u64()) {
            limits.insert((*name).to_owned(), count.clone());
        }
    }
}

fn numeric_limits(node: &mut FieldSchema, keywords: &Map<String, Value>) {
    for (name, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let bound = keywords.get(name).filter(|bound| bound.is_number());
        match (bound, keywords.get(exclusive)) {
            // As in draft 4, and in Kubernetes.
            (Some(bound), Some(Value::Bool(true))) => node.all_of.push(json!({name: bound, exclusive: true})),
            (bound, limit) => {
                if let Some(bound) = bound {
                    node.limits.insert(name.to_owned(), bound.clone());
                }
                if let Some(limit) = limit.filter(|limit| limit.is_number()) {
                    node.all_of.push(json!({name: limit, exclusive: true}));
                }
            }
        }
    }
    // Of fractions Kubernetes finds that 0.3 is no multiple of 0.1.
    if let Some(step) = keywords
        .get("multipleOf")
        .filter(|step| step.as_u64().is_some_and(|step| step > 0))
    {
        node.limits.insert("multipleOf".into(), step.clone());
    }
}

fn text_limits(node: &mut FieldSchema, keywords: &Map<String, Value>) {
    copy_limits(&mut node.limits, keywords, &["minLength", "maxLength"]);
    if let Some(pattern) = keywords
        .get("pattern")
        .and_then(Value::as_str)
        .filter(|pattern| is_plain(pattern))
    {
        node.limits.insert("pattern".into(), pattern.into());
    }
}

/// Whether a pattern has the same meaning in Go's and in JavaScript's regular expressions. May be false although it has.
fn is_plain(pattern: &str) -> bool {
    let foreign = ["(?=", "(?!", "(?<", "\\u", "\\c", "[[", "&&", "--", "~~", "\\p", "\\k"];
    !foreign.iter().any(|part| pattern.contains(part)) && helm_template::gostd::regexp::translated(pattern).is_ok()
}

/// `not`, for values that Kubernetes can distinguish.
fn refused(not: &Map<String, Value>, kind: SchemaType) -> Option<Value> {
    let mut schema = FieldSchema::of(kind);
    let known = [
        "enum",
        "const",
        "pattern",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "type",
    ];
    if !kind.is_scalar() || kind == SchemaType::IntOrString || !not.keys().all(|key| known.contains(&key.as_str())) {
        return None;
    }
    if kinds(not, At::root(&Value::Null, false)) != [kind] {
        return None;
    }
    let mut validation = Map::new();
    if let Some(values) = listed(not) {
        schema.enumeration = enumeration(not, kind).filter(|some| some.len() == values.len());
        validation.insert("enum".into(), json!(schema.enumeration.as_ref()?));
    }
    numeric_limits(&mut schema, not);
    text_limits(&mut schema, not);
    let expected = not
        .keys()
        .filter(|key| !["enum", "const", "type"].contains(&key.as_str()))
        .count();
    validation.extend(std::mem::take(&mut schema.limits));
    let is_whole = validation.len() == expected + usize::from(schema.enumeration.is_some());
    (is_whole && !validation.is_empty()).then(|| json!({"not": validation}))
}

/// `dependentRequired`, and the `dependencies` of early drafts, for what isn't laid over a default: in CEL.
fn dependent(node: &mut FieldSchema, keywords: &Map<String, Value>, at: At<'_>) {
    // What CEL costs in lists of lists without a limit is more than the API server allows.
    if at.lists > 1 {
        return;
    }
    let typed = |key: &str| {
        node.properties
            .get(key)
            .is_some_and(|value| value.kind != SchemaType::Any)
    };
    let mut rules = Vec::new();
    for name in ["dependentRequired", "dependencies"] {
        for (key, needed) in keywords.get(name).and_then(Value::as_object).into_iter().flatten() {
            for needed in list(Some(needed)).iter().filter_map(Value::as_str) {
                if typed(key) && typed(needed) {
                    let (one, other) = (cel_name(key), cel_name(needed));
                    rules.push(json!({
                        "rule": format!("!has(self.{one}) || has(self.{other})"),
                        "message": format!("{key} needs {needed}"),
                    }));
                }
            }
        }
    }
    node.rules.extend(rules);
}

/// A key as CEL calls it: what is no identifier is escaped.
pub fn cel_name(key: &str) -> String {
    const RESERVED: &str = " true false null in as break const continue else for function if import let loop package namespace return var void while ";
    if RESERVED.contains(&format!(" {key} ")) {
        return format!("__{key}__");
    }
    let key = key.replace("__", "__underscores__");
    key.replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

/// Whether CEL can name a key at all.
pub fn has_cel_name(key: &str) -> bool {
    let first = key.chars().next().unwrap_or('0');
    (first.is_ascii_alphabetic() || first == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c))
}

fn with_full_stop(text: &str) -> String {
    if text.is_empty() || text.ends_with(['.', '!', '?', ':']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The schema with that `$id`, `id` or `$anchor`.
fn find_named<'v>(value: &'v Value, reference: &str) -> Option<&'v Value> {
    let anchor = reference.strip_prefix('#');
    match value {
        Value::Object(members) => {
            let is = |name: &str, text: &str| members.get(name).and_then(Value::as_str) == Some(text);
            let is_it = is("$id", reference)
                || is("id", reference)
                || anchor.is_some_and(|anchor| is("$anchor", anchor) || is("$dynamicAnchor", anchor));
            if is_it {
                Some(value)
            } else {
                members.values().find_map(|member| find_named(member, reference))
            }
        }
        Value::Array(items) => items.iter().find_map(|item| find_named(item, reference)),
        _ => None,
    }
}

/// `%25` and its kin in the fragment of a URL.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
