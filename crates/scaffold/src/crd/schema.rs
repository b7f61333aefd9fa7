//! A node of a structural schema while it is made, and how two of them become one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// What Kubernetes can check of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSchema {
    pub description: String,
    pub kind: SchemaType,
    /// Null is one of the values. Everything that a chart has a default for may be null in any case.
    pub nullable: bool,
    /// Of an object: keys that aren't listed are kept.
    pub open: bool,
    pub properties: BTreeMap<String, FieldSchema>,
    pub required: BTreeSet<String>,
    /// What all values of a map have in common; never beside `properties`.
    pub additional: Option<Box<FieldSchema>>,
    pub items: Option<Box<FieldSchema>>,
    pub enumeration: Option<Vec<Value>>,
    /// Bounds, lengths, patterns, under Kubernetes' names.
    pub limits: Map<String, Value>,
    /// Further validations, all of which hold.
    pub all_of: Vec<Value>,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Value>,
    /// The chart's default, for the description.
    pub default: Option<Value>,
}

/// The type of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaType {
    #[default]
    Any,
    /// Nothing but null.
    Null,
    Boolean,
    Integer,
    Number,
    String,
    IntOrString,
    Array,
    Object,
}

/// A description that is longer is cut: all of them have to fit into one object of 1.5 MB.
const LONGEST_DESCRIPTION: usize = 500;
/// Longer defaults are left out of the description.
const LONGEST_DEFAULT: usize = 120;
pub const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

impl SchemaType {
    /// The narrowest that has all values of both.
    fn union(self, other: SchemaType) -> SchemaType {
        use SchemaType::{Any, IntOrString, Integer, Null, Number, String};
        match (self, other) {
            (a, b) if a == b => a,
            (Null, kind) | (kind, Null) => kind,
            (Integer, Number) | (Number, Integer) => Number,
            (Integer | String | IntOrString, Integer | String | IntOrString) => IntOrString,
            _ => Any,
        }
    }

    /// What has only the values of both; `None` if nothing has.
    fn meet(self, other: SchemaType) -> Option<SchemaType> {
        use SchemaType::{Any, IntOrString, Integer, Number, String};
        match (self, other) {
            (a, b) if a == b => Some(a),
            (Any, kind) | (kind, Any) => Some(kind),
            (Integer, Number | IntOrString) | (Number | IntOrString, Integer) => Some(Integer),
            (Number, IntOrString) | (IntOrString, Number) => Some(Integer),
            (String, IntOrString) | (IntOrString, String) => Some(String),
            _ => None,
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            SchemaType::Any | SchemaType::Null | SchemaType::IntOrString => None,
            SchemaType::Boolean => Some("boolean"),
            SchemaType::Integer => Some("integer"),
            SchemaType::Number => Some("number"),
            SchemaType::String => Some("string"),
            SchemaType::Array => Some("array"),
            SchemaType::Object => Some("object"),
        }
    }

    /// Whether a limit is about values of this kind.
    fn has_limit(self, name: &str) -> bool {
        match name {
            "minimum" | "maximum" | "multipleOf" => {
                matches!(self, SchemaType::Integer | SchemaType::Number | SchemaType::IntOrString)
            }
            "minLength" | "maxLength" | "pattern" => matches!(self, SchemaType::String | SchemaType::IntOrString),
            "minItems" | "maxItems" => self == SchemaType::Array,
            _ => self == SchemaType::Object,
        }
    }

    pub fn is_scalar(self) -> bool {
        !matches!(self, SchemaType::Any | SchemaType::Array | SchemaType::Object)
    }
}

impl FieldSchema {
    pub fn of(kind: SchemaType) -> Self {
        FieldSchema {
            kind,
            ..FieldSchema::default()
        }
    }

    /// An object with any keys.
    pub fn open_object() -> Self {
        FieldSchema {
            open: true,
            ..FieldSchema::of(SchemaType::Object)
        }
    }

    fn has_constraints(&self) -> bool {
        self.enumeration.is_some() || !self.limits.is_empty() || !self.all_of.is_empty()
    }

    /// Enumeration and limits as one validation.
    fn constraints(&self) -> Value {
        let mut validation = self.limits.clone();
        if let Some(values) = &self.enumeration {
            validation.insert("enum".into(), json!(values));
        }
        if !self.all_of.is_empty() {
            validation.insert("allOf".into(), json!(self.all_of));
        }
        Value::Object(validation)
    }

    /// The schema without its constraints, which may not hold for the other schema.
    fn unconstrained(mut self) -> Self {
        self.enumeration = None;
        self.limits.clear();
        self.all_of.clear();
        self.rules.clear();
        self
    }

    /// Accepts at least what one of the two accepts.
    pub fn union(self, other: FieldSchema) -> FieldSchema {
        let nullable =
            self.nullable || other.nullable || self.kind == SchemaType::Null || other.kind == SchemaType::Null;
        let kind = self.kind.union(other.kind);
        let description = either(&self.description, &other.description);
        let default = self.default.clone().or_else(|| other.default.clone());
        let mut joined = match kind {
            _ if self.kind == SchemaType::Null => other,
            _ if other.kind == SchemaType::Null => self,
            SchemaType::Any => FieldSchema::default(),
            SchemaType::Object => union_of_objects(self, other),
            SchemaType::Array => union_of_arrays(self, other),
            _ => union_of_scalars(self, other, kind),
        };
        joined.kind = kind;
        joined.nullable = nullable;
        joined.description = description;
        joined.default = default;
        joined
    }

    /// Accepts the values that both accept, and more where the intersection cannot be expressed.
    pub fn meet(self, other: FieldSchema) -> FieldSchema {
        let description = either(&self.description, &other.description);
        let default = self.default.clone().or_else(|| other.default.clone());
        let Some(kind) = self.kind.meet(other.kind) else {
            return FieldSchema {
                description,
                default,
                ..FieldSchema::default()
            };
        };
        let one = |a: &FieldSchema, b: &FieldSchema| a.kind == SchemaType::Any && b.kind != SchemaType::Any;
        let nullable = match () {
            () if one(&self, &other) => other.nullable,
            () if one(&other, &self) => self.nullable,
            () => self.nullable && other.nullable,
        };
        let mut both = match kind {
            SchemaType::Object if self.kind == other.kind => meet_of_objects(self, other),
            _ if one(&self, &other) => with_constraints(other, self),
            _ if one(&other, &self) => with_constraints(self, other),
            _ => {
                let items = both_or_one(self.items.clone(), other.items.clone(), FieldSchema::meet);
                FieldSchema {
                    items,
                    ..with_constraints(self, other)
                }
            }
        };
        both.kind = kind;
        both.nullable = nullable;
        both.description = description;
        both.default = default;
        both
    }

    /// Adds to a chart's schema what its values show: descriptions, defaults, and keys of objects that accept any key.
    pub fn refine(&mut self, inferred: FieldSchema) {
        if self.description.is_empty() {
            self.description = inferred.description;
        }
        if self.default.is_none() {
            self.default = inferred.default;
        }
        match (self.kind, inferred.kind) {
            (SchemaType::Object, SchemaType::Object) => {
                for (key, value) in inferred.properties {
                    match self.properties.get_mut(&key) {
                        Some(known) => known.refine(value),
                        None if self.open && self.additional.is_none() => {
                            self.properties.insert(key, value);
                        }
                        None => {}
                    }
                }
            }
            (SchemaType::Array, SchemaType::Array) => {
                if let (Some(items), Some(inferred)) = (&mut self.items, inferred.items) {
                    items.refine(*inferred);
                }
            }
            _ => {}
        }
    }

    /// The node at a path, where `[]` are the items of a list and `*` the values of a map.
    pub fn at_mut(&mut self, path: &[String]) -> Option<&mut FieldSchema> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        match first.as_str() {
            "[]" => self.items.as_mut()?.at_mut(rest),
            "*" => self.additional.as_mut()?.at_mut(rest),
            key => self.properties.get_mut(key)?.at_mut(rest),
        }
    }

    /// As Kubernetes reads it. `partial`: it is laid over a default. `may_be_null`: null takes that away.
    pub fn to_json(&self, partial: bool, may_be_null: bool) -> Value {
        let mut node = Map::new();
        let nullable = may_be_null || self.nullable || matches!(self.kind, SchemaType::Any | SchemaType::Null);
        let description = self.describe();
        if !description.is_empty() {
            node.insert("description".into(), description.into());
        }
        match self.kind {
            SchemaType::Any | SchemaType::Null => drop(node.insert(PRESERVE.into(), true.into())),
            SchemaType::IntOrString => drop(node.insert("x-kubernetes-int-or-string".into(), true.into())),
            kind => drop(kind.name().map(|name| node.insert("type".into(), name.into()))),
        }
        if nullable {
            node.insert("nullable".into(), true.into());
        }
        let limits = self.limits.iter().filter(|(name, _)| self.kind.has_limit(name));
        node.extend(limits.map(|(name, limit)| (name.clone(), limit.clone())));
        let mut all_of = match self.kind {
            SchemaType::Any => Vec::new(),
            _ => self.all_of.clone(),
        };
        if let Some(values) = &self.enumeration {
            // The API server compares null with the enumeration of the node, but not with those in `allOf`.
            if nullable {
                all_of.push(json!({"enum": values}))
            } else {
                drop(node.insert("enum".into(), json!(values)))
            }
        }
        if !all_of.is_empty() {
            node.insert("allOf".into(), json!(all_of));
        }
        if !self.rules.is_empty() {
            node.insert("x-kubernetes-validations".into(), json!(self.rules));
        }
        match self.kind {
            SchemaType::Object => self.write_object(&mut node, partial),
            SchemaType::Array => {
                let items = self.items.as_ref().map(|items| items.to_json(false, false));
                node.insert(
                    "items".into(),
                    items.unwrap_or_else(|| FieldSchema::default().to_json(false, false)),
                );
            }
            _ => {}
        }
        Value::Object(node)
    }

    fn write_object(&self, node: &mut Map<String, Value>, partial: bool) {
        if !self.properties.is_empty() {
            let properties = self.properties.iter();
            // Without what is required there is nothing that null could leave.
            let may_be_null = |key| partial && !self.required.contains(key);
            let properties = properties.map(|(key, value)| (key.clone(), value.to_json(partial, may_be_null(key))));
            node.insert("properties".into(), Value::Object(properties.collect()));
        }
        let required: Vec<&String> = self.required.iter().collect();
        if !required.is_empty() {
            node.insert("required".into(), json!(required));
        }
        match &self.additional {
            Some(values) if self.properties.is_empty() => {
                node.insert("additionalProperties".into(), values.to_json(partial, partial));
            }
            Some(_) => drop(node.insert(PRESERVE.into(), true.into())),
            None if self.open => drop(node.insert(PRESERVE.into(), true.into())),
            None => {}
        }
    }

    /// The description that `kubectl explain` shows. It names types that `kubectl explain` cannot show by itself.
    fn describe(&self) -> String {
        let mut parts = Vec::new();
        let text = self.description.trim();
        if !text.is_empty() {
            let cut = cut(text, LONGEST_DESCRIPTION);
            let ends = cut.ends_with(['.', '!', '?', ':', '…', ')']);
            parts.push(if ends { cut } else { cut + "." });
        }
        match self.kind {
            SchemaType::Any | SchemaType::Null => parts.push("Any value.".to_owned()),
            SchemaType::IntOrString => parts.push("An integer or a string.".to_owned()),
            SchemaType::Object if self.open && self.properties.is_empty() => parts.push("Any keys.".to_owned()),
            _ => {}
        }
        if let Some(values) = &self.enumeration {
            let values: Vec<String> = values.iter().map(plain).collect();
            parts.push(format!("One of: {}.", cut(&values.join(", "), LONGEST_DESCRIPTION)));
        }
        if let Some(default) = self.default.as_ref().map(plain)
            && default.len() <= LONGEST_DEFAULT
            && !text.contains("Default: ")
        {
            parts.push(format!("Default: {default}."));
        }
        parts.join(" ")
    }
}

/// Strings as they are, unless one couldn't see them.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if !text.trim().is_empty() && !text.contains('\n') => text.clone(),
        other => other.to_string(),
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

fn either(one: &str, other: &str) -> String {
    if one.is_empty() { other } else { one }.to_owned()
}

fn both_or_one(
    one: Option<Box<FieldSchema>>,
    other: Option<Box<FieldSchema>>,
    both: impl FnOnce(FieldSchema, FieldSchema) -> FieldSchema,
) -> Option<Box<FieldSchema>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Box::new(both(*one, *other))),
        (one, other) => one.or(other),
    }
}

fn union_of_objects(one: FieldSchema, other: FieldSchema) -> FieldSchema {
    let mut joined = FieldSchema::of(SchemaType::Object);
    joined.open = one.open || other.open;
    joined.required = one.required.intersection(&other.required).cloned().collect();
    if one.all_of == other.all_of {
        joined.all_of.clone_from(&one.all_of);
    }
    // What an object says of a key that it doesn't list.
    let unlisted = |object: &FieldSchema| match (&object.additional, object.open) {
        (Some(values), _) => Some((**values).clone()),
        (None, true) => Some(FieldSchema::default()),
        (None, false) => None,
    };
    let rest = (unlisted(&one), unlisted(&other));
    let mut others = other.properties;
    for (key, value) in one.properties {
        let counterpart = others.remove(&key).or_else(|| rest.1.clone());
        joined.properties.insert(key, joined_with(value, counterpart));
    }
    for (key, value) in others {
        joined.properties.insert(key, joined_with(value, rest.0.clone()));
    }
    match rest {
        (Some(one), Some(other)) if !joined.open => joined.additional = Some(Box::new(one.union(other))),
        (one, other) if !joined.open => joined.additional = one.or(other).map(Box::new),
        _ => {}
    }
    settle(joined)
}

fn joined_with(value: FieldSchema, counterpart: Option<FieldSchema>) -> FieldSchema {
    match counterpart {
        Some(counterpart) => value.union(counterpart),
        None => value,
    }
}

/// Kubernetes has either listed keys or one schema for all.
fn settle(mut object: FieldSchema) -> FieldSchema {
    if object.additional.is_some() && !object.properties.is_empty() {
        object.additional = None;
        object.open = true;
    }
    object
}

fn union_of_arrays(one: FieldSchema, other: FieldSchema) -> FieldSchema {
    let items = match (one.items, other.items) {
        (Some(one), Some(other)) => Some(Box::new(one.union(*other))),
        _ => None,
    };
    let limits = if one.limits == other.limits {
        one.limits
    } else {
        Map::new()
    };
    FieldSchema {
        items,
        limits,
        ..FieldSchema::of(SchemaType::Array)
    }
}

fn union_of_scalars(one: FieldSchema, other: FieldSchema, kind: SchemaType) -> FieldSchema {
    let pair = (one.kind, other.kind);
    if matches!(
        pair,
        (SchemaType::Integer, SchemaType::String) | (SchemaType::String, SchemaType::Integer)
    ) {
        return int_or_string(one, other);
    }
    let mut joined = FieldSchema::of(kind);
    if !one.has_constraints() || !other.has_constraints() {
        return joined;
    }
    let only_enums = |schema: &FieldSchema| schema.limits.is_empty() && schema.all_of.is_empty();
    match (&one.enumeration, &other.enumeration) {
        _ if one.constraints() == other.constraints() => {
            (joined.enumeration, joined.limits, joined.all_of) = (one.enumeration, one.limits, one.all_of);
        }
        (Some(values), Some(further)) if only_enums(&one) && only_enums(&other) => {
            let mut values = values.clone();
            values.extend(
                further
                    .iter()
                    .filter(|value| !values.contains(value))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
            joined.enumeration = Some(values);
        }
        _ => joined.all_of = vec![json!({"anyOf": [one.constraints(), other.constraints()]})],
    }
    joined
}

/// Limits of integers don't touch strings, nor those of strings integers, so that both can stand beside each other.
fn int_or_string(one: FieldSchema, other: FieldSchema) -> FieldSchema {
    let mut joined = FieldSchema::of(SchemaType::IntOrString);
    if let (Some(values), Some(further)) = (&one.enumeration, &other.enumeration)
        && one.limits.is_empty()
        && other.limits.is_empty()
    {
        joined.enumeration = Some(values.iter().chain(further).cloned().collect());
        return joined;
    }
    for part in [one, other] {
        match (part.kind, &part.enumeration) {
            (_, None) => {
                joined.limits.extend(part.limits);
                joined.all_of.extend(part.all_of);
            }
            (SchemaType::String, Some(values)) => {
                let words: Vec<String> = values.iter().filter_map(Value::as_str).map(escaped).collect();
                joined
                    .limits
                    .insert("pattern".into(), format!("^({})$", words.join("|")).into());
            }
            _ => {}
        }
    }
    joined
}

/// A text that a pattern matches as it is.
fn escaped(text: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
    text.chars()
        .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]))
        .collect()
}

fn meet_of_objects(one: FieldSchema, other: FieldSchema) -> FieldSchema {
    let mut both = FieldSchema::of(SchemaType::Object);
    both.open = one.open && other.open;
    both.required = one.required.union(&other.required).cloned().collect();
    both.all_of = one.all_of.iter().chain(&other.all_of).cloned().collect();
    both.rules = one.rules.iter().chain(&other.rules).cloned().collect();
    both.limits = tightest(one.limits.clone(), &other.limits);
    // What the other says of a key that only one lists; `None`: there is no such key.
    let against = |value: FieldSchema, object: &FieldSchema| match (&object.additional, object.open) {
        (Some(values), _) => Some(value.meet((**values).clone())),
        (None, true) => Some(value),
        (None, false) => None,
    };
    for (key, value) in &one.properties {
        let met = match other.properties.get(key) {
            Some(counterpart) => Some(value.clone().meet(counterpart.clone())),
            None => against(value.clone(), &other),
        };
        both.properties.extend(met.map(|met| (key.clone(), met)));
    }
    for (key, value) in &other.properties {
        if !one.properties.contains_key(key)
            && let Some(met) = against(value.clone(), &one)
        {
            both.properties.insert(key.clone(), met);
        }
    }
    let is_closed = |object: &FieldSchema| !object.open && object.additional.is_none();
    if !is_closed(&one) && !is_closed(&other) {
        both.additional = both_or_one(one.additional, other.additional, FieldSchema::meet);
    }
    settle(both)
}

/// The first with the constraints of the second.
fn with_constraints(mut one: FieldSchema, other: FieldSchema) -> FieldSchema {
    one.limits = tightest(one.limits, &other.limits);
    one.all_of.extend(other.all_of);
    one.rules.extend(other.rules);
    one.enumeration = match (one.enumeration, other.enumeration) {
        (Some(values), Some(further)) => {
            let common: Vec<Value> = values.iter().filter(|value| further.contains(value)).cloned().collect();
            // Nothing would be left: both can't be meant.
            (!common.is_empty()).then_some(common)
        }
        (values, further) => values.or(further),
    };
    one
}

fn tightest(mut limits: Map<String, Value>, others: &Map<String, Value>) -> Map<String, Value> {
    for (name, value) in others {
        let wins = match (limits.get(name).and_then(Value::as_f64), value.as_f64()) {
            (Some(known), Some(new)) if name.starts_with("min") => new > known,
            (Some(known), Some(new)) => new < known,
            _ => !limits.contains_key(name),
        };
        if wins {
            limits.insert(name.clone(), value.clone());
        }
    }
    limits
}

/// Several values of one list, or of one place, as examples of what may be there: a key that one has may be in all.
pub fn like_both(one: FieldSchema, other: FieldSchema) -> FieldSchema {
    if one.kind != SchemaType::Object || other.kind != SchemaType::Object {
        return one.unconstrained().union(other.unconstrained());
    }
    let mut joined = one;
    for (key, value) in other.properties {
        let value = match joined.properties.remove(&key) {
            Some(known) => like_both(known, value),
            None => value,
        };
        joined.properties.insert(key, value);
    }
    joined.open |= other.open;
    joined.description = either(&joined.description, &other.description);
    joined
}
