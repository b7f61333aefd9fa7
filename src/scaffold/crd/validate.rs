//! Whether objects that exist fit a definition: what it refuses, and what it would drop. Rules in CEL are left to the API server.

use go_template::Meter;
use helm_template::gostd::regexp;
use serde_json::Value;

use super::compare::{enumeration, is_open, kind, list};

/// What a schema has against a value, with places.
pub fn problems(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, value, path, &mut found);
    found
}

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let kind = kind(schema);
    if value.is_null() {
        if schema["nullable"] != true && kind != "any" {
            found.push(format!("{path}: null is not accepted"));
        }
        return;
    }
    let fits = match kind {
        "boolean" => value.is_boolean(),
        "integer" => is_whole(value),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "int-or-string" => value.is_string() || is_whole(value),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    if !fits {
        found.push(format!("{path}: must be {kind}"));
        return;
    }
    if let Some(values) = enumeration(schema)
        && !values.contains(value)
    {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        found.push(format!("{path}: must be one of {}", values.join(", ")));
    }
    limits(schema, value, path, found);
    for conjunct in list(&schema["allOf"]) {
        limits(conjunct, value, path, found);
        any_of(conjunct, value, path, found);
    }
    any_of(schema, value, path, found);
    match value {
        Value::Object(members) => {
            for key in list(&schema["required"]).iter().filter_map(Value::as_str) {
                if !members.contains_key(key) {
                    found.push(format!("{path}.{key}: is required"));
                }
            }
            for (key, member) in members {
                let path = format!("{path}.{key}");
                match schema["properties"].get(key).or_else(|| schema.get("additionalProperties")) {
                    Some(schema) => check(schema, member, &path, found),
                    None if is_open(schema) || kind == "any" => {}
                    None => found.push(format!("{path}: is not listed, and would be dropped")),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// One of several validations holds.
fn any_of(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let holds = |branch: &Value| {
        let mut problems = Vec::new();
        limits(branch, value, path, &mut problems);
        let in_values = branch.get("enum").is_none_or(|values| list(values).contains(value));
        let has = |key: &Value| key.as_str().is_some_and(|key| value.get(key).is_some());
        problems.is_empty() && in_values && list(&branch["required"]).iter().all(has)
    };
    let branches = list(&schema["anyOf"]);
    if !branches.is_empty() && !branches.iter().any(holds) {
        found.push(format!("{path}: fits none of {}", Value::from(branches)));
    }
}

fn limits(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let size = match value {
        Value::String(text) => Some((text.chars().count(), "Length")),
        Value::Array(items) => Some((items.len(), "Items")),
        Value::Object(members) => Some((members.len(), "Properties")),
        _ => None,
    };
    let (amount, of) = match (size, value.as_f64()) {
        (Some((size, of)), _) => (size as f64, of),
        (None, Some(number)) => (number, "imum"),
        _ => return,
    };
    for (name, sign) in [("min", 1.0), ("max", -1.0)] {
        let name = format!("{name}{of}");
        let Some(limit) = schema[&name].as_f64() else {
            continue;
        };
        let exclusive = schema[format!("exclusive{}{}", name[..1].to_uppercase(), &name[1..])] == true;
        let distance = (amount - limit) * sign;
        if distance < 0.0 || (exclusive && distance == 0.0) {
            found.push(format!("{path}: {name} is {}", schema[&name]));
        }
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && regexp::compile(&Meter::default(), pattern.as_bytes()).is_ok_and(|pattern| !pattern.is_match(text.as_bytes()))
    {
        found.push(format!("{path}: does not match {pattern}"));
    }
}
