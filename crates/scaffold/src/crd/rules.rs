//! A definition's rules in CEL, held against a custom resource and against a change of it. What isn't known here of CEL, such as
//! Kubernetes' own functions, is left to the API server.

use serde_json::Value;

use chartwright_core::crds::compare::list;
use chartwright_watches::cel::{CelData, Expression};

/// Which rules an object breaks, with places. `before`: what the API server has of it, if it has something.
pub fn broken(schema: &Value, before: Option<&Value>, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, before, after, "", &mut found);
    found
}

fn check(schema: &Value, before: Option<&Value>, after: &Value, path: &str, found: &mut Vec<String>) {
    if after.is_null() {
        return;
    }
    for rule in list(&schema["x-kubernetes-validations"]) {
        let text = rule["rule"].as_str().unwrap_or_default();
        if !holds(text, before, after) {
            let message = rule["message"].as_str().unwrap_or(text);
            let path = if path.is_empty() { "the object" } else { path };
            found.push(format!("{path}: {message}"));
        }
    }
    match after {
        Value::Object(members) => {
            for (key, member) in members {
                let properties = schema["properties"].get(key);
                if let Some(schema) = properties.or_else(|| schema.get("additionalProperties")) {
                    let before = before
                        .and_then(|before| before.get(key))
                        .filter(|before| !before.is_null());
                    check(schema, before, member, &format!("{path}.{key}"), found);
                }
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                // Which item was which isn't known.
                check(&schema["items"], None, item, &format!("{path}[{place}]"), found);
            }
        }
        _ => {}
    }
}

/// Evaluates a rule. Returns true as well if the rule cannot be evaluated.
fn holds(rule: &str, before: Option<&Value>, after: &Value) -> bool {
    let Ok(expression) = Expression::compile_with(rule, &["self", "oldSelf"]) else {
        return true;
    };
    let (now, then) = (CelData::from_json(after), before.map(CelData::from_json));
    let found = match (&then, expression.has_variable("oldSelf")) {
        // Rules of changes are for changes alone.
        (None, true) => return true,
        (Some(then), true) => expression.evaluate(&[("self", &now), ("oldSelf", then)]),
        (_, false) => expression.evaluate(&[("self", &now)]),
    };
    found.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_held_against_objects_and_changes() {
        let rule = |rule: &str| json!([{"rule": rule, "message": "no"}]);
        let schema = json!({
            "x-kubernetes-validations": [{"rule": "has(self.spec.a) == has(oldSelf.spec.a)", "message": "a stays"}],
            "properties": {"spec": {"properties": {
                "size": {"type": "integer", "x-kubernetes-validations": rule("self in [1, 3]")},
                "class": {"type": "string", "x-kubernetes-validations": rule("self == oldSelf")},
                "list": {"items": {"x-kubernetes-validations": rule("self != 'x'")}},
                "url": {"x-kubernetes-validations": rule("isURL(self)")},
            }}},
        });
        for (before, after, expected) in [
            (None, json!({"size": 3, "class": "a", "list": ["y"], "url": "?"}), ""),
            (None, json!({"size": 2}), ".spec.size: no"),
            (None, json!({"list": ["y", "x"]}), ".spec.list[1]: no"),
            (Some(json!({"class": "a"})), json!({"class": "a"}), ""),
            (Some(json!({"class": "a"})), json!({"class": "b"}), ".spec.class: no"),
            (Some(json!({"class": "a"})), json!({}), ""),
            (Some(json!({"a": 1})), json!({}), "the object: a stays"),
        ] {
            let object = |spec: &Value| json!({"spec": spec});
            let found = broken(&schema, before.as_ref().map(object).as_ref(), &object(&after));
            assert_eq!(found.join(", "), expected, "{before:?} {after}");
        }
    }
}
