//! Hides Secret data from CEL conditions and status templates. The author of the values may write these expressions and could
//! read data bit by bit from a condition's result. So they never see the data of a Secret.

use serde_json::{Map, Value};

use crate::identity::GroupKind;

/// The fields of a Secret that hold nothing.
const SECRET_FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];
/// Longer annotations of a Secret may quote all of it (`last-applied-configuration`), as may those that are JSON.
const LONGEST_ANNOTATION: usize = 256;

/// Takes out of an object what isn't shown: of a Secret all that it holds, and the annotations that may quote that.
pub fn hide(group_kind: &GroupKind, object: &mut Value) {
    let is_secret = *group_kind == GroupKind::new("", "Secret");
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if is_secret {
        fields.retain(|field, _| SECRET_FIELDS.contains(&field.as_str()));
    }
    let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    if is_secret && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|_, value| value.as_str().is_some_and(is_short_text));
    }
}

fn is_short_text(text: &str) -> bool {
    text.len() <= LONGEST_ANNOTATION && !text.trim_start().starts_with(['{', '['])
}

/// As [`hide`], but with the keys of what a Secret holds, each without its value: for what the watch waits for.
pub fn hide_values(group_kind: &GroupKind, object: &mut Value) {
    let keys = ["data", "stringData"].map(|field| {
        let held = object.get(field).and_then(Value::as_object);
        let keys = held.map(|held| held.keys().map(|key| (key.clone(), "".into())).collect::<Map<_, _>>());
        (field, keys)
    });
    hide(group_kind, object);
    if *group_kind != GroupKind::new("", "Secret") {
        return;
    }
    for (field, keys) in keys {
        if let (Some(keys), Some(fields)) = (keys, object.as_object_mut()) {
            fields.insert(field.to_owned(), keys.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_that_a_secret_holds_is_shown() {
        let secret = |kind: &str| {
            json!({
                "apiVersion": "v1", "kind": kind, "type": "Opaque", "immutable": true,
                "data": {"pin": "MTIzNA=="}, "stringData": {"pin": "1234"}, "spec": "1234",
                "metadata": {
                    "name": "a", "labels": {"app": "a"}, "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {"f:pin": {}}}}],
                    "annotations": {
                        "example.com/state": "ready",
                        "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"pin\":\"MTIzNA==\"}}",
                        "kapp.k14s.io/original": " [{\"data\":{\"pin\":\"MTIzNA==\"}}]",
                        "objectset.rio.cattle.io/applied": "H4sI".repeat(100),
                    },
                },
            })
        };
        let kind = GroupKind::new("", "Secret");
        let mut shown = secret("Secret");
        hide(&kind, &mut shown);
        let metadata = json!({"name": "a", "labels": {"app": "a"}, "annotations": {"example.com/state": "ready"}});
        let expected =
            json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true, "metadata": metadata});
        assert_eq!(shown, expected);

        let mut keys = secret("Secret");
        hide_values(&kind, &mut keys);
        assert_eq!(
            (&keys["data"], &keys["stringData"]),
            (&json!({"pin": ""}), &json!({"pin": ""}))
        );
        assert!(
            !keys.to_string().contains("1234") && !keys.to_string().contains("MTIz"),
            "{keys}"
        );

        // What others hold is shown.
        let kind = GroupKind::new("", "ConfigMap");
        for hide in [hide, hide_values] {
            let mut map = secret("ConfigMap");
            hide(&kind, &mut map);
            let mut expected = secret("ConfigMap");
            expected["metadata"].as_object_mut().unwrap().remove("managedFields");
            assert_eq!(map, expected);
        }
    }
}
