//! Operations at the edges: maps that lose their last field, and metadata that is no text.

use serde_json::{Value, json};

use super::operations::{APPLY, MERGE, Operation};

/// Labels and annotations that are no texts.
pub fn mistyped(api_version: &str, kind: &str) -> Vec<Operation> {
    let object = |metadata: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    let apply = "/x?fieldManager=one&force=true";
    let merge = "/x?fieldManager=hand";
    vec![
        (
            "create with a number for a label",
            "POST",
            "?fieldManager=m",
            "application/json",
            object(json!({"name": "x", "labels": {"l": 5}})),
        ),
        (
            "apply with a number for a label what is not there",
            "PATCH",
            apply,
            APPLY,
            object(json!({"name": "x", "labels": {"l": 5}})),
        ),
        (
            "apply with a text",
            "PATCH",
            apply,
            APPLY,
            object(json!({"name": "x", "labels": {"l": "5"}})),
        ),
        (
            "apply with a number for a label",
            "PATCH",
            apply,
            APPLY,
            object(json!({"name": "x", "labels": {"l": 5}})),
        ),
        (
            "apply with a map for an annotation",
            "PATCH",
            apply,
            APPLY,
            object(json!({"name": "x", "annotations": {"n": {"a": {}}}})),
        ),
        (
            "apply with a text for labels",
            "PATCH",
            apply,
            APPLY,
            object(json!({"name": "x", "labels": "text"})),
        ),
        (
            "a merge patch with a number for an annotation",
            "PATCH",
            merge,
            MERGE,
            json!({"metadata": {"annotations": {"n": 5}}}),
        ),
        ("delete what has a text", "DELETE", "/x", "", json!({})),
    ]
}

/// The name of an operation, its manager (a merge patch by `hand`, else an apply) and what it writes under `spec`.
fn steps() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        (
            "maps within maps",
            "one",
            json!({"a": {"b": {"c": "1", "d": "1"}}, "empty": {}, "in": {"empty": {}}}),
        ),
        (
            "one field of two goes",
            "one",
            json!({"a": {"b": {"c": "1"}}, "empty": {}, "in": {"empty": {}}}),
        ),
        (
            "the last field goes",
            "one",
            json!({"a": {"b": {}}, "empty": {}, "in": {"empty": {}}}),
        ),
        ("the maps go", "one", json!({"z": "1"})),
        (
            "a deep map beside others",
            "one",
            json!({"a": {"b": {"c": "1"}, "e": "1"}, "z": "1"}),
        ),
        ("a deep map goes", "one", json!({"a": {"e": "1"}, "z": "1"})),
        ("what is around it goes", "one", json!({"z": "1"})),
        ("a map with a field", "one", json!({"a": {"b": {"c": "1"}}, "z": "1"})),
        ("somebody adds to it", "hand", json!({"a": {"b": {"mine": "1"}}})),
        ("the first leaves it", "one", json!({"z": "1"})),
        (
            "somebody takes his own out",
            "hand",
            json!({"a": {"b": {"mine": null}}}),
        ),
        (
            "into the map that is left",
            "one",
            json!({"a": {"b": {"c": "1"}}, "z": "1"}),
        ),
        ("and out of it", "one", json!({"z": "1"})),
        ("somebody makes an empty map", "hand", json!({"f": {}, "g": {"h": {}}})),
        (
            "into the empty map",
            "one",
            json!({"f": {"c": "1"}, "g": {"h": {"c": "1"}}, "z": "1"}),
        ),
        ("out of the map that was empty", "one", json!({"z": "1"})),
        ("another applies an empty map", "two", json!({"k": {}, "l": {"m": {}}})),
        (
            "into another's empty map",
            "one",
            json!({"k": {"c": "1"}, "l": {"m": {"c": "1"}}, "z": "1"}),
        ),
        ("out of another's empty map", "one", json!({"z": "1"})),
        ("another applies no map", "two", json!({"y": "1"})),
        ("both in one map", "one", json!({"n": {"one": {"c": "1"}}, "z": "1"})),
        ("the other too", "two", json!({"n": {"two": {"c": "1"}}, "y": "1"})),
        ("the first goes", "one", json!({"z": "1"})),
        ("the other goes, too", "two", json!({"y": "1"})),
        (
            "a list, a text and nothing",
            "one",
            json!({"o": {"list": ["1"], "text": "1", "null": null, "none": []}, "z": "1"}),
        ),
        (
            "a map in their place",
            "one",
            json!({"o": {"list": {}, "text": {"c": "1"}}, "z": "1"}),
        ),
        ("they go", "one", json!({"z": "1"})),
        ("everything goes", "one", Value::Null),
    ]
}

/// Maps that lose their last field: by the one who applied it, beside fields of others, and within other maps.
pub fn emptied(api_version: &str, kind: &str) -> Vec<Operation> {
    let operation = |(name, manager, spec): (&'static str, &str, Value)| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        match manager {
            "hand" => (name, "PATCH", "/x?fieldManager=hand", MERGE, object),
            "two" => (name, "PATCH", "/x?fieldManager=two&force=true", APPLY, object),
            _ => (name, "PATCH", "/x?fieldManager=one&force=true", APPLY, object),
        }
    };
    let mut operations: Vec<Operation> = steps().into_iter().map(operation).collect();
    operations.push(("delete what became empty", "DELETE", "/x", "", json!({})));
    operations
}
