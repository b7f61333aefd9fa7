//! Whether objects that exist fit a definition: what it refuses, and what it would drop. Rules in CEL are left to the API server.

use go_template::Meter;
use helm_template::gostd::regexp;
use serde_json::Value;

use super::compare::{is_open, kind, list};

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
    validations(schema, value, path, found);
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let path = format!("{path}.{key}");
                match schema["properties"]
                    .get(key)
                    .or_else(|| schema.get("additionalProperties"))
                {
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

/// All but the structure: what may stand in combinators as well.
fn validations(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        found.push(format!("{path}: must be one of {}", values.join(", ")));
    }
    limits(schema, value, path, found);
    if value.is_object() {
        let missing = list(&schema["required"])
            .iter()
            .filter_map(Value::as_str)
            .filter(|key| value.get(key).is_none());
        found.extend(missing.map(|key| format!("{path}.{key}: is required")));
    }
    for part in list(&schema["allOf"]) {
        validations(part, value, path, found);
    }
    let holds = |branch: &&Value| {
        let mut problems = Vec::new();
        validations(branch, value, path, &mut problems);
        problems.is_empty()
    };
    let any_of = &schema["anyOf"];
    if any_of.is_array() && !list(any_of).iter().any(|branch| holds(&branch)) {
        found.push(format!("{path}: fits none of {any_of}"));
    }
    let one_of = &schema["oneOf"];
    if one_of.is_array() && list(one_of).iter().filter(holds).count() != 1 {
        found.push(format!("{path}: doesn't fit exactly one of {one_of}"));
    }
    if let Some(not) = schema.get("not").filter(holds) {
        found.push(format!("{path}: must not be {not}"));
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
        && regexp::compile(&Meter::default(), pattern.as_bytes())
            .is_ok_and(|pattern| !pattern.is_match(text.as_bytes()))
    {
        found.push(format!("{path}: does not match {pattern}"));
    }
}
