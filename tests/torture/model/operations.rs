//! What a client may ask of the model and of a real API server: every form of request that the operator makes, and what
//! people and other controllers do besides.

use serde_json::{Value, json};

use super::edges;

/// An operation: its name, the method, what stands after the collection's path, the content type and the body. `$UID`
/// and `$RV` stand for those of the object as it was last seen, `$OWNER1` and `$OWNER2` for the UIDs of [`OWNERS`].
pub type Operation = (&'static str, &'static str, &'static str, &'static str, Value);

/// Objects of the same collection that are there all the time.
pub const OWNERS: [&str; 2] = ["owner1", "owner2"];

pub const APPLY: &str = "application/apply-patch+yaml";
pub const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// `field` is where the kind has its content: `data` or `spec`.
pub fn operations(api_version: &str, kind: &str, field: &str) -> Vec<Operation> {
    let object = |metadata: Value, content: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        if let (Some(into), Some(from)) = (object["metadata"].as_object_mut(), metadata.as_object()) {
            into.extend(from.clone());
        }
        if !content.is_null() {
            object[field] = content;
        }
        object
    };
    let none = || json!({});
    let owner = |number: usize| {
        json!({
            "apiVersion": api_version, "kind": kind, "name": OWNERS[number - 1], "uid": format!("$OWNER{number}"),
        })
    };
    let data = |pairs: &[(&str, &str)]| -> Value {
        // Base64, for the sake of Secrets.
        let encoded = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(encoded(value))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let owned = || {
        let metadata = json!({"labels": {"set": "s"}, "ownerReferences": [owner(1)]});
        object(metadata, data(&[("a", "1")]))
    };
    let mut operations = vec![
        ("get what is not there", "GET", "/x", "", Value::Null),
        (
            "patch what is not there",
            "PATCH",
            "/x?fieldManager=m",
            MERGE,
            json!({field: data(&[("a", "1")])}),
        ),
        ("delete what is not there", "DELETE", "/x", "", none()),
        (
            "apply with a UID what is not there",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(json!({"uid": "nobody"}), data(&[("a", "1")])),
        ),
        (
            "apply creates",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(
                json!({"labels": {"l": "1", "set": "s"}}),
                data(&[("a", "1"), ("b", "1")]),
            ),
        ),
        (
            "the same again",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(
                json!({"labels": {"l": "1", "set": "s"}}),
                data(&[("a", "1"), ("b", "1")]),
            ),
        ),
        (
            "create what is there",
            "POST",
            "?fieldManager=m",
            "application/json",
            object(none(), Value::Null),
        ),
        (
            "another applies the same value",
            "PATCH",
            "/x?fieldManager=two",
            APPLY,
            object(none(), data(&[("a", "1")])),
        ),
        (
            "another applies another value",
            "PATCH",
            "/x?fieldManager=two",
            APPLY,
            object(none(), data(&[("a", "2")])),
        ),
        (
            "and forces it",
            "PATCH",
            "/x?fieldManager=two&force=true",
            APPLY,
            object(none(), data(&[("a", "2")])),
        ),
        (
            "the first forces it back",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(
                json!({"labels": {"l": "1", "set": "s"}}),
                data(&[("a", "1"), ("b", "1")]),
            ),
        ),
        (
            "the first drops a field",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1")])),
        ),
        (
            "a merge patch edits and adds",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"labels": {"mine": "1"}}, field: data(&[("a", "9"), ("c", "9")])}),
        ),
        (
            "a merge patch that changes nothing",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"labels": {"mine": "1"}}}),
        ),
        (
            "the first applies over the edit without force",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1")])),
        ),
        (
            "and with force",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1")])),
        ),
        (
            "and to a version that is not there",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(
                json!({"resourceVersion": "1", "labels": {"set": "s"}}),
                data(&[("a", "7")]),
            ),
        ),
        (
            "and to the one that is",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(
                json!({"resourceVersion": "$RV", "labels": {"set": "s"}}),
                data(&[("a", "1")]),
            ),
        ),
        (
            "a merge patch takes a label off",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"labels": {"set": null}}}),
        ),
        (
            "it comes back",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(
                json!({"labels": {"set": "s"}, "annotations": {"n": "1"}}),
                data(&[("a", "1")]),
            ),
        ),
        (
            "a merge patch with another UID",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"uid": "nobody", "labels": {"z": "1"}}}),
        ),
        (
            "apply with another UID",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(json!({"uid": "nobody"}), Value::Null),
        ),
        (
            "apply with the UID",
            "PATCH",
            "/x?fieldManager=three",
            APPLY,
            object(
                json!({"uid": "$UID", "finalizers": ["example.com/one"], "annotations": {"three": "1"}}),
                Value::Null,
            ),
        ),
        (
            "a second finalizer",
            "PATCH",
            "/x?fieldManager=four",
            APPLY,
            object(json!({"finalizers": ["example.com/two"]}), Value::Null),
        ),
        (
            "delete with another UID",
            "DELETE",
            "/x",
            "",
            json!({"preconditions": {"uid": "nobody"}}),
        ),
        (
            "delete with the UID",
            "DELETE",
            "/x",
            "",
            json!({"preconditions": {"uid": "$UID"}}),
        ),
        ("delete again", "DELETE", "/x", "", none()),
        (
            "an edit while it goes",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"labels": {"late": "1"}}}),
        ),
        (
            "a JSON patch whose test fails",
            "PATCH",
            "/x?fieldManager=five",
            JSON_PATCH,
            json!([{"op": "test", "path": "/metadata/uid", "value": "nobody"}, {"op": "remove", "path": "/metadata/finalizers/0"}]),
        ),
        (
            "one finalizer goes",
            "PATCH",
            "/x?fieldManager=five",
            JSON_PATCH,
            json!([{"op": "test", "path": "/metadata/uid", "value": "$UID"}, {"op": "remove", "path": "/metadata/finalizers/0"}]),
        ),
        (
            "the other goes",
            "PATCH",
            "/x?fieldManager=five",
            JSON_PATCH,
            json!([{"op": "remove", "path": "/metadata/finalizers"}]),
        ),
        (
            "create anew",
            "POST",
            "?fieldManager=m",
            "application/json",
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1"), ("b", "2")])),
        ),
        (
            "apply over what was created",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1")])),
        ),
        (
            "drop what another created too",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(none(), data(&[])),
        ),
        (
            "a merge patch of another version",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"resourceVersion": "1", "labels": {"late": "1"}}}),
        ),
        (
            "a merge patch of this version and UID",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"uid": "$UID", "resourceVersion": "$RV", "labels": {"pinned": "1"}}}),
        ),
        (
            "a merge patch of this version and another UID",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"uid": "nobody", "resourceVersion": "$RV", "labels": {"pinned": "2"}}}),
        ),
        (
            "a dry run creates what is there",
            "POST",
            "?fieldManager=m&dryRun=All",
            "application/json",
            object(none(), Value::Null),
        ),
        (
            "delete with another version",
            "DELETE",
            "/x",
            "",
            json!({"preconditions": {"uid": "$UID", "resourceVersion": "1"}}),
        ),
        (
            "delete with UID and version, in the background",
            "DELETE",
            "/x",
            "",
            json!({"propagationPolicy": "Background", "preconditions": {"uid": "$UID", "resourceVersion": "$RV"}}),
        ),
        (
            "a dry run creates what is not there",
            "POST",
            "?fieldManager=m&dryRun=All",
            "application/json",
            object(none(), Value::Null),
        ),
        (
            "a JSON patch of what is not there",
            "PATCH",
            "/x?fieldManager=five",
            JSON_PATCH,
            json!([{"op": "test", "path": "/metadata/uid", "value": "nobody"}]),
        ),
        (
            "apply with strict validation",
            "PATCH",
            "/x?fieldManager=one&fieldValidation=Strict&force=true",
            APPLY,
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1")])),
        ),
        (
            "apply to nothing what is there",
            "PATCH",
            "/x?fieldManager=two&fieldValidation=Strict",
            APPLY,
            object(json!({"resourceVersion": "1", "labels": {"mine": "1"}}), Value::Null),
        ),
        (
            "the same with force",
            "PATCH",
            "/x?fieldManager=two&force=true",
            APPLY,
            object(json!({"resourceVersion": "1", "labels": {"mine": "1"}}), Value::Null),
        ),
        (
            "apply with an owner",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            owned(),
        ),
        (
            "another's owner beside it",
            "PATCH",
            "/x?fieldManager=six",
            APPLY,
            object(json!({"ownerReferences": [owner(2)]}), Value::Null),
        ),
        (
            "the same again with both owners",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            owned(),
        ),
        (
            "the first drops its owner",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(json!({"labels": {"set": "s"}}), Value::Null),
        ),
        (
            "owners by hand",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"ownerReferences": [owner(1), owner(2)]}}),
        ),
        (
            "who applied his owner drops it",
            "PATCH",
            "/x?fieldManager=six",
            APPLY,
            object(json!({"labels": {"six": "6"}}), Value::Null),
        ),
        (
            "all owners are taken off",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"ownerReferences": null}}),
        ),
        ("delete", "DELETE", "/x", "", none()),
        (
            "apply to nothing creates",
            "PATCH",
            "/x?fieldManager=one&fieldValidation=Strict",
            APPLY,
            object(
                json!({"resourceVersion": "1", "labels": {"set": "s"}}),
                data(&[("a", "1")]),
            ),
        ),
        (
            "apply with the UID and force",
            "PATCH",
            "/x?fieldManager=one&fieldValidation=Strict&force=true",
            APPLY,
            object(json!({"uid": "$UID", "labels": {"set": "s"}}), data(&[("a", "2")])),
        ),
        ("delete what was applied", "DELETE", "/x", "", none()),
    ];
    operations.extend(edges::mistyped(api_version, kind));
    if field == "spec" {
        let status = |status: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "status": status});
        let pinned = |field: &str, value: &str, content: Value| {
            let mut object = status(content);
            object["metadata"][field] = value.into();
            object
        };
        let list = json!({"list": ["one"], "deep": {"a": {"b": 1}, "c": null}});
        operations.extend([
            ("create with a status", "POST", "?fieldManager=m", "application/json", {
                let mut created = object(none(), list);
                created["status"] = json!({"a": 1});
                created
            }),
            (
                "apply the status",
                "PATCH",
                "/x/status?fieldManager=st",
                APPLY,
                status(json!({"a": 1, "rows": [{"n": 1}]})),
            ),
            (
                "the same status",
                "PATCH",
                "/x/status?fieldManager=st",
                APPLY,
                status(json!({"a": 1, "rows": [{"n": 1}]})),
            ),
            (
                "less status",
                "PATCH",
                "/x/status?fieldManager=st",
                APPLY,
                status(json!({"rows": [{"n": 2}]})),
            ),
            (
                "a status beside the spec",
                "PATCH",
                "/x?fieldManager=m",
                MERGE,
                json!({"spec": {"list": ["two"]}, "status": {"a": 3}}),
            ),
            (
                "a spec beside the status",
                "PATCH",
                "/x/status?fieldManager=n",
                MERGE,
                json!({"spec": {"list": ["three"]}, "status": {"b": 4}}),
            ),
            (
                "replace a map by a text",
                "PATCH",
                "/x?fieldManager=m",
                MERGE,
                json!({"spec": {"deep": "flat"}}),
            ),
            (
                "a status with another UID",
                "PATCH",
                "/x/status?fieldManager=st&force=true",
                APPLY,
                pinned("uid", "nobody", json!({"rows": []})),
            ),
            (
                "a status with the UID",
                "PATCH",
                "/x/status?fieldManager=st&force=true",
                APPLY,
                pinned("uid", "$UID", json!({"rows": []})),
            ),
            (
                "a merged status with another UID",
                "PATCH",
                "/x/status?fieldManager=st",
                MERGE,
                json!({"metadata": {"uid": "nobody"}, "status": {"rows": null, "c": 1}}),
            ),
            (
                "a merged status with the UID",
                "PATCH",
                "/x/status?fieldManager=st",
                MERGE,
                json!({"metadata": {"uid": "$UID"}, "status": {"rows": null, "c": 1}}),
            ),
            (
                "a status of another version",
                "PATCH",
                "/x/status?fieldManager=st&force=true",
                APPLY,
                pinned("resourceVersion", "1", json!({"d": 1})),
            ),
            (
                "a status of this version",
                "PATCH",
                "/x/status?fieldManager=st&force=true",
                APPLY,
                pinned("resourceVersion", "$RV", json!({"d": 2})),
            ),
            (
                "a merged status of another version",
                "PATCH",
                "/x/status?fieldManager=st",
                MERGE,
                json!({"metadata": {"resourceVersion": "1"}, "status": {"e": 1}}),
            ),
            (
                "a merged status of this version",
                "PATCH",
                "/x/status?fieldManager=st",
                MERGE,
                json!({"metadata": {"resourceVersion": "$RV"}, "status": {"e": 1}}),
            ),
            ("delete it", "DELETE", "/x", "", none()),
            (
                "apply the status of what is not there",
                "PATCH",
                "/x/status?fieldManager=st&force=true",
                APPLY,
                status(json!({"a": 1})),
            ),
        ]);
        operations.extend(edges::emptied(api_version, kind));
    }
    operations
}
