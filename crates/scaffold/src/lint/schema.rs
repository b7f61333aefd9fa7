//! What an API server says of a custom resource by its CRD's schema, with places in the file. Rules in CEL and formats are left to
//! it.

use go_yaml::{Data, Node};
use serde_json::Value;

use super::yaml;
use crate::crd::validate::{self, Of, ValueStep};

type SchemaFindings = Vec<((usize, usize), String)>;

/// What is wrong with an object, with places. Its metadata and its status are left out.
pub(super) fn check(schema: &Value, object: &Node, value: &Value) -> SchemaFindings {
    let mut own = value.clone();
    if let Some(fields) = own.as_object_mut() {
        // What isn't listed at the top is the API server's to drop.
        fields.retain(|name, _| {
            name != "metadata" && name != "status" && schema["properties"][name.as_str()].is_object()
        });
    }
    let problems = validate::problems(schema, &own);
    problems
        .into_iter()
        .map(|problem| (place(object, &problem.path, problem.of), problem.describe("")))
        .collect()
}

/// Where the end of a path stands, or what it should stand in.
fn place(root: &Node, path: &[ValueStep], of: Of) -> (usize, usize) {
    let Some((last, before)) = path.split_last() else {
        return yaml::place(root);
    };
    let parent = before
        .iter()
        .try_fold(root, |node, step| into(node, step).map(|(_, value)| value));
    let Some(parent) = parent else {
        return yaml::place(root);
    };
    match (into(parent, last), of) {
        (Some((Some(key), _)), Of::Key) => yaml::place(key),
        (Some((_, value)), Of::Value | Of::Key) => yaml::place(value),
        _ => yaml::place(parent),
    }
}

/// Key and value of a step.
fn into<'n>(node: &'n Node, step: &ValueStep) -> Option<(Option<&'n Node>, &'n Node)> {
    match (step, &node.data) {
        (ValueStep::Key(name), _) => {
            let (_, key, value) = yaml::entries(node).find(|(own, ..)| own == name)?;
            Some((Some(key), value))
        }
        (ValueStep::Index(index), Data::List(items)) => items.get(*index).map(|item| (None, item)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(schema: &Value, text: &str) -> SchemaFindings {
        let (root, value) = (go_yaml::parse(text.as_bytes()), go_yaml::to_json(text.as_bytes()));
        check(schema, &root.unwrap(), &value.unwrap())
    }

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
        let messages = |spec: &str| {
            let found = found(&schema, &format!("kind: A\nspec: {spec}\n"));
            found.into_iter().map(|(_, message)| message).collect::<Vec<_>>()
        };
        let good = "{size: 2, mode: a, name: ab, port: x, list: [a], labels: {a: b}, open: {x: 1}, none: null}";
        assert_eq!(messages(good), Vec::<String>::new());
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
            (
                "{size: 1, more: 1}",
                "spec.more is unknown to the CRD, and would be dropped",
            ),
            ("{size: null}", "spec.size must not be null"),
            ("[]", "spec must be a map"),
        ] {
            assert_eq!(messages(spec), [expected], "{spec}");
        }
        assert_eq!(found(&schema, "kind: A"), [((1, 1), "spec is missing".to_owned())]);
        let places = found(&schema, "kind: A\nspec:\n  size: 9\n  list: [a, 1]\n  more: 1\n");
        let places: Vec<_> = places.into_iter().map(|(at, _)| at).collect();
        assert_eq!(places, [(4, 13), (5, 3), (3, 9)]);
    }
}
