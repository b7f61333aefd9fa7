//! What an API server says of a custom resource by its CRD's schema. Rules in CEL, formats and `not`, `allOf`, `anyOf`, `oneOf`
//! are left to it.

use go_yaml::{Data, Node};
use regex::Regex;
use serde_json::Value;

use super::yaml;

type Found = Vec<((usize, usize), String)>;

/// What is wrong with an object, with places. Its metadata are left out.
pub(super) fn check(schema: &Value, object: &Node) -> Found {
    let mut found = Found::new();
    let properties = &schema["properties"];
    for required in schema["required"].as_array().into_iter().flatten() {
        let name = required.as_str().unwrap_or_default();
        if yaml::at(object, &[name]).is_none() {
            found.push((yaml::place(object), format!("`{name}` is missing")));
        }
    }
    for (name, _, value) in yaml::entries(object) {
        if !["apiVersion", "kind", "metadata", "status"].contains(&name) && properties[name].is_object() {
            visit(&properties[name], value, name, &mut found);
        }
    }
    found
}

fn visit(schema: &Value, node: &Node, path: &str, found: &mut Found) {
    let mut tell = |message: String| found.push((yaml::place(node), format!("{path} {message}")));
    if matches!(node.data, Data::Null) {
        if schema["nullable"] != true && schema["type"].is_string() && schema.get("default").is_none() {
            tell("must not be null".to_owned());
        }
        return;
    }
    if let Some(wanted) = wrong_type(schema, &node.data) {
        return tell(format!("must be {wanted}"));
    }
    if let Some(choices) = schema["enum"].as_array()
        && !choices.iter().any(|choice| is_equal(choice, &node.data))
    {
        let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
        tell(format!("must be one of {}", choices.join(", ")));
    }
    match &node.data {
        Data::String(text) => text_problem(schema, text).into_iter().for_each(tell),
        Data::Number(number) => number_problem(schema, number.as_f64().unwrap_or_default())
            .into_iter()
            .for_each(tell),
        Data::List(items) => {
            count_problem(schema, "Items", items.len()).into_iter().for_each(tell);
            for (at, item) in items.iter().enumerate() {
                visit(&schema["items"], item, &format!("{path}[{at}]"), found);
            }
        }
        Data::Map(entries) => {
            count_problem(schema, "Properties", entries.len())
                .into_iter()
                .for_each(tell);
            visit_map(schema, node, path, found);
        }
        Data::Null | Data::Bool(_) => {}
    }
}

fn visit_map(schema: &Value, node: &Node, path: &str, found: &mut Found) {
    for required in schema["required"].as_array().into_iter().flatten() {
        let name = required.as_str().unwrap_or_default();
        let has_default = schema["properties"][name].get("default").is_some();
        if yaml::at(node, &[name]).is_none() && !has_default {
            found.push((yaml::place(node), format!("{path}.{name} is missing")));
        }
    }
    let others = &schema["additionalProperties"];
    let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true || *others == true;
    for (name, key, value) in yaml::entries(node) {
        let path = format!("{path}.{name}");
        match schema["properties"].get(name) {
            Some(property) => visit(property, value, &path, found),
            None if others.is_object() => visit(others, value, &path, found),
            None if is_open => {}
            None => found.push((yaml::place(key), format!("{path} is unknown to the CRD"))),
        }
    }
}

/// What should be there, unless it is.
fn wrong_type(schema: &Value, data: &Data) -> Option<&'static str> {
    let is_int = |number: &serde_json::Number| !number.is_f64() || number.as_f64().is_some_and(|x| x.fract() == 0.0);
    if schema["x-kubernetes-int-or-string"] == true {
        let is_right = match data {
            Data::Number(number) => is_int(number),
            Data::String(_) => true,
            _ => false,
        };
        return (!is_right).then_some("a whole number or a string");
    }
    let (is_right, wanted) = match schema["type"].as_str()? {
        "object" => (matches!(data, Data::Map(_)), "a map"),
        "array" => (matches!(data, Data::List(_)), "a list"),
        "string" => (matches!(data, Data::String(_)), "a string"),
        "boolean" => (matches!(data, Data::Bool(_)), "true or false"),
        "integer" => (matches!(data, Data::Number(number) if is_int(number)), "a whole number"),
        "number" => (matches!(data, Data::Number(_)), "a number"),
        _ => return None,
    };
    (!is_right).then_some(wanted)
}

fn is_equal(choice: &Value, data: &Data) -> bool {
    match data {
        Data::String(text) => choice == text,
        Data::Bool(value) => choice == value,
        Data::Number(number) => choice.as_f64().is_some() && choice.as_f64() == number.as_f64(),
        _ => true,
    }
}

fn text_problem(schema: &Value, text: &str) -> Option<String> {
    if let Some(pattern) = schema["pattern"].as_str()
        && Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text))
    {
        return Some(format!("must match {pattern}"));
    }
    count_problem(schema, "Length", text.chars().count())
}

/// With `minItems` and `maxItems`, and the like.
fn count_problem(schema: &Value, of: &str, count: usize) -> Option<String> {
    let bound = |which: &str| schema[format!("{which}{of}")].as_u64();
    let count = count as u64;
    let what = match of {
        "Items" => "items",
        "Length" => "characters",
        _ => "fields",
    };
    if let Some(least) = bound("min").filter(|least| count < *least) {
        return Some(format!("must have at least {least} {what}"));
    }
    let most = bound("max").filter(|most| count > *most)?;
    Some(format!("must have at most {most} {what}"))
}

fn number_problem(schema: &Value, number: f64) -> Option<String> {
    let bound = |name: &str| schema[name].as_f64();
    let is_exclusive = |name: &str| schema[name] == true;
    if let Some(least) = bound("minimum")
        && (number < least || number == least && is_exclusive("exclusiveMinimum"))
    {
        return Some(format!("must be at least {least}"));
    }
    let most = bound("maximum")?;
    let is_over = number > most || number == most && is_exclusive("exclusiveMaximum");
    is_over.then(|| format!("must be at most {most}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_held_against_what_is_written() {
        let schema = json!({"required": ["spec"], "properties": {"spec": {
            "type": "object", "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 5},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
                "port": {"x-kubernetes-int-or-string": true},
                "list": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "none": {"type": "string", "nullable": true},
            },
        }}});
        let told = |spec: &str| {
            let object = go_yaml::parse(format!("kind: A\nspec: {spec}\n").as_bytes()).unwrap();
            let found = check(&schema, &object);
            found.into_iter().map(|(_, message)| message).collect::<Vec<_>>()
        };
        let good = "{size: 2, mode: a, name: ab, port: x, list: [a], labels: {a: b}, open: {x: 1}, none: null}";
        assert_eq!(told(good), Vec::<String>::new());
        for (spec, expected) in [
            ("{}", "spec.size is missing"),
            ("{size: 0}", "spec.size must be at least 1"),
            ("{size: 6}", "spec.size must be at most 5"),
            ("{size: x}", "spec.size must be a whole number"),
            ("{size: 1, mode: c}", "spec.mode must be one of \"a\", \"b\""),
            ("{size: 1, name: A}", "spec.name must match ^[a-z]+$"),
            ("{size: 1, name: abcd}", "spec.name must have at most 3 characters"),
            ("{size: 1, port: 1.5}", "spec.port must be a whole number or a string"),
            ("{size: 1, list: []}", "spec.list must have at least 1 items"),
            ("{size: 1, list: [1]}", "spec.list[0] must be a string"),
            ("{size: 1, labels: {a: 1}}", "spec.labels.a must be a string"),
            ("{size: 1, more: 1}", "spec.more is unknown to the CRD"),
            ("{size: null}", "spec.size must not be null"),
            ("[]", "spec must be a map"),
        ] {
            assert_eq!(told(spec), [expected], "{spec}");
        }
        let object = go_yaml::parse(b"kind: A").unwrap();
        assert_eq!(check(&schema, &object), [((1, 1), "`spec` is missing".to_owned())]);
    }
}
