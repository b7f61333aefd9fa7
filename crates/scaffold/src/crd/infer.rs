//! `values.yaml` -> [`FieldSchema`]. A default is only one example of a value. A field gets a type only if its name or its comment
//! excludes other types; all other fields accept any value.

use go_yaml::{Data, Node};
use serde_json::Value;

use super::comments::Comments;
use super::schema::{FieldSchema, SchemaType, like_both};
use super::usage::Usage;

/// Words in a key whose values may be fractions or quantities.
const FRACTIONS: [&str; 15] = [
    "cpu",
    "memory",
    "ratio",
    "rate",
    "factor",
    "percent",
    "threshold",
    "sampl",
    "fraction",
    "storage",
    "limit",
    "version",
    "tag",
    "quota",
    "probability",
];
/// Words in a key that is a switch.
const SWITCHES: [&str; 31] = [
    "enable",
    "disable",
    "create",
    "use",
    "is",
    "has",
    "allow",
    "auto",
    "debug",
    "install",
    "host",
    "read",
    "run",
    "privileged",
    "require",
    "skip",
    "force",
    "insecure",
    "secure",
    "verify",
    "publish",
    "share",
    "with",
    "include",
    "set",
    "deploy",
    "optional",
    "only",
    "expose",
    "ignore",
    "strict",
];
/// Words in a key that false is a stand-in for: a name, a list, a map.
const NO_SWITCHES: [&str; 26] = [
    "name",
    "secret",
    "class",
    "volume",
    "config",
    "annotation",
    "label",
    "path",
    "url",
    "image",
    "claim",
    "command",
    "args",
    "affinity",
    "toleration",
    "selector",
    "resources",
    "policy",
    "env",
    "ip",
    "port",
    "alias",
    "password",
    "user",
    "cert",
    "network",
];
/// Keys that have a map as value in every chart.
const MAPS: [&str; 8] = [
    "annotations",
    "labels",
    "nodeselector",
    "resources",
    "affinity",
    "securitycontext",
    "matchlabels",
    "requests",
];
/// Keys that have a list as value in every chart.
const LISTS: [&str; 3] = ["tolerations", "imagepullsecrets", "topologyspreadconstraints"];
/// Words at the end of a key whose value is a text or a number.
const SCALARS: [&str; 26] = [
    "name",
    "secret",
    "class",
    "password",
    "user",
    "username",
    "namespace",
    "ip",
    "url",
    "uri",
    "path",
    "host",
    "hostname",
    "registry",
    "repository",
    "digest",
    "policy",
    "key",
    "port",
    "type",
    "domain",
    "claim",
    "email",
    "nodeport",
    "token",
    "id",
];
const PLACEHOLDERS: [&str; 8] = ["true", "false", "auto", "default", "yes", "no", "on", "off"];

/// The schema that a chart's values suggest.
pub fn infer(values: &Node, comments: &Comments<'_>, usage: &Usage) -> FieldSchema {
    let infer = Infer { comments, usage };
    let mut schema = infer.node("", "", values);
    if schema.kind != SchemaType::Object {
        schema = FieldSchema::open_object();
    }
    schema.default = None;
    schema
}

struct Infer<'c> {
    comments: &'c Comments<'c>,
    usage: &'c Usage,
}

impl Infer<'_> {
    /// The entry of a map.
    fn entry(&self, path: &str, key: &str, at: &Node, value: &Node) -> FieldSchema {
        let comment = self.comments.of(path, at.line);
        let mut schema = self.node(path, key, value);
        if let Some(hinted) = comment
            .kind
            .as_deref()
            .and_then(|hint| self.hinted(path, key, hint, value))
        {
            schema.kind = hinted;
            schema.open = hinted == SchemaType::Object;
        }
        schema.description = comment.text;
        schema
    }

    /// The kind that a comment names, where the default leaves it open. Comments err: the default has to be of that kind.
    fn hinted(&self, path: &str, key: &str, hint: &str, value: &Node) -> Option<SchemaType> {
        let kind = match hint.to_ascii_lowercase().as_str() {
            "string" | "str" if !contains(key, &FRACTIONS) => SchemaType::IntOrString,
            "int" | "integer" => SchemaType::IntOrString,
            "bool" | "boolean" => SchemaType::Boolean,
            "list" | "array" => SchemaType::Array,
            "object" | "map" | "dict" => SchemaType::Object,
            _ => return None,
        };
        let fits = match &value.data {
            Data::Null => true,
            Data::Bool(_) => kind == SchemaType::Boolean,
            Data::String(text) => text.is_empty() && kind == SchemaType::IntOrString,
            Data::List(items) => items.is_empty() && kind == SchemaType::Array,
            Data::Map(entries) => entries.is_empty() && kind == SchemaType::Object,
            Data::Number(_) => false,
        };
        let is_collection = matches!(kind, SchemaType::Array | SchemaType::Object);
        let is_doubtful = self.usage.text_for_all || self.usage.may_be_other(path);
        (fits && !(is_collection && is_doubtful)).then_some(kind)
    }

    fn node(&self, path: &str, key: &str, value: &Node) -> FieldSchema {
        let mut schema = match &value.data {
            Data::Map(_) | Data::List(_) if self.usage.may_be_other(path) => FieldSchema::default(),
            Data::Map(entries) if entries.is_empty() => {
                if self.is_named(key, &MAPS) {
                    FieldSchema::open_object()
                } else {
                    FieldSchema::default()
                }
            }
            Data::Map(entries) => self.map(path, entries),
            Data::List(items) if items.is_empty() => {
                if self.is_named(key, &LISTS) {
                    FieldSchema::of(SchemaType::Array)
                } else {
                    FieldSchema::default()
                }
            }
            Data::List(items) => self.list(path, items),
            scalar => FieldSchema::of(scalar_kind(key, scalar)),
        };
        schema.nullable = true;
        schema.default = match &value.data {
            Data::Map(entries) if !entries.is_empty() && schema.kind == SchemaType::Object => None,
            Data::Null => None,
            _ => Some(to_json(value)),
        };
        schema
    }

    fn is_named(&self, key: &str, names: &[&str]) -> bool {
        let key = key.to_ascii_lowercase();
        !self.usage.text_for_all && names.iter().any(|name| key.ends_with(name))
    }

    fn map(&self, path: &str, entries: &[(Node, Node)]) -> FieldSchema {
        let mut schema = FieldSchema::open_object();
        for (at, value) in entries {
            let key = key_text(at);
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            let entry = self.entry(&path, &key, at, value);
            schema.properties.insert(key, entry);
        }
        schema
    }

    /// If all items are maps, the schema has the fields that all have in common. Other items do not determine a type.
    fn list(&self, path: &str, items: &[Node]) -> FieldSchema {
        let mut schema = FieldSchema::of(SchemaType::Array);
        if items.iter().all(|item| matches!(item.data, Data::Map(_))) {
            let suggested = items.iter().map(|item| self.node(&format!("{path}[]"), "", item));
            let mut joined = suggested.reduce(like_both).unwrap_or_default();
            forget_defaults(&mut joined);
            joined.nullable = true;
            schema.items = Some(Box::new(joined));
        }
        schema
    }
}

/// What stands in one item is no default of another.
fn forget_defaults(schema: &mut FieldSchema) {
    schema.default = None;
    schema.nullable = true;
    schema.properties.values_mut().for_each(forget_defaults);
    if let Some(items) = &mut schema.items {
        forget_defaults(items);
    }
}

fn scalar_kind(key: &str, value: &Data) -> SchemaType {
    match value {
        Data::Bool(true) => SchemaType::Boolean,
        Data::Bool(false) if contains(key, &NO_SWITCHES) && !ends_as_switch(key) => SchemaType::Any,
        Data::Bool(false) if begins_as_switch(key) || ends_as_switch(key) => SchemaType::Boolean,
        Data::Number(number) if number.is_f64() || contains(key, &FRACTIONS) => SchemaType::Any,
        Data::Number(_) => SchemaType::IntOrString,
        Data::String(text) => text_kind(key, text),
        _ => SchemaType::Any,
    }
}

/// The kind of a value whose default is a text.
fn text_kind(key: &str, text: &str) -> SchemaType {
    let lower = text.to_ascii_lowercase();
    if contains(key, &FRACTIONS) || PLACEHOLDERS.contains(&lower.as_str()) || text.contains("{{") {
        return SchemaType::Any;
    }
    if text.is_empty() {
        let key = key.to_ascii_lowercase();
        return if SCALARS.iter().any(|word| key.ends_with(word)) {
            SchemaType::IntOrString
        } else {
            SchemaType::Any
        };
    }
    // `0.5`, `-1`, `500m`: another value may be a fraction without quotes.
    if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return SchemaType::Any;
    }
    // Lists and maps in the form of a text.
    if text.contains('\n') || text.starts_with(['[', '{']) {
        return SchemaType::Any;
    }
    // An address, an image, a path, a name in camel case: no number is meant in its place.
    let is_camel = text.chars().filter(char::is_ascii_uppercase).count() > 1;
    if text.contains(['/', ':']) || is_camel {
        SchemaType::String
    } else {
        SchemaType::IntOrString
    }
}

fn contains(key: &str, words: &[&str]) -> bool {
    let key = key.to_ascii_lowercase();
    words.iter().any(|word| key.contains(word))
}

fn begins_as_switch(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SWITCHES.iter().any(|word| key.starts_with(word))
}

fn ends_as_switch(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["enabled", "disabled", "create", "created", "enable", "disable"]
        .iter()
        .any(|word| key.ends_with(word))
}

/// A key as Helm has it: everything is a string.
pub fn key_text(key: &Node) -> String {
    match &key.data {
        Data::String(text) => text.clone(),
        Data::Bool(value) => value.to_string(),
        Data::Number(number) => go_yaml::text(&Value::Number(number.clone())).unwrap_or_default(),
        _ => String::new(),
    }
}

/// A value as JSON; of keys that stand there twice, the last counts.
pub fn to_json(node: &Node) -> Value {
    match &node.data {
        Data::Null => Value::Null,
        Data::Bool(value) => Value::Bool(*value),
        Data::Number(number) => Value::Number(number.clone()),
        Data::String(text) => Value::String(text.clone()),
        Data::List(items) => items.iter().map(to_json).collect(),
        Data::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| (key_text(key), to_json(value)));
            Value::Object(entries.collect())
        }
    }
}
