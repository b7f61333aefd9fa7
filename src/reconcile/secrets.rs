//! Which values of a release are secret: the data of Secrets that it renders or looks up, and its kept random results.
//! Learned before anything that could quote them is told to anybody.

use data_encoding::BASE64;
use serde_json::Value;

use super::custom_resource::CustomResource;
use crate::plan::identity::GroupKind;
use crate::plan::lost::Pin;
use crate::render::{Kept, Manifest, Rendered};
use crate::telemetry::redact::Secrets;

/// Learns what a Secret holds, or each Secret of a list. Other kinds hold none.
pub(super) fn learn_object(secrets: &Secrets, object: &Value) {
    for item in object.get("items").and_then(Value::as_array).into_iter().flatten() {
        learn_object(secrets, item);
    }
    if GroupKind::of(object).is_none_or(|(group_kind, _)| group_kind != GroupKind::new("", "Secret")) {
        return;
    }
    let texts = |field: &str| {
        let map = object.get(field).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(_, value)| value.as_str())
    };
    texts("stringData").for_each(|text| secrets.learn(text));
    for text in texts("data") {
        match decoded(text) {
            Some(value) => secrets.learn(&value),
            // Bytes that are no text are only ever seen encoded.
            None => secrets.learn(text),
        }
    }
}

/// What base64 says, where it says a text. The API server skips line breaks.
fn decoded(text: &str) -> Option<String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    String::from_utf8(BASE64.decode(&digits).ok()?).ok()
}

pub(super) fn learn_kept(secrets: &Secrets, kept: &Kept, pins: &[Pin]) {
    kept.secrets().for_each(|text| secrets.learn(text));
    pins.iter()
        .filter_map(|pin| pin.value().as_str())
        .for_each(|text| secrets.learn(text));
}

/// Learns from a render whatever is secret in it.
pub(super) fn learn_render(secrets: &Secrets, rendered: &Rendered) {
    let learn = |manifest: &Manifest| {
        for object in manifest.objects() {
            learn_object(secrets, object);
        }
    };
    rendered.objects.iter().for_each(learn);
    rendered.hooks.iter().for_each(|hook| learn(&hook.manifest));
    learn_kept(secrets, &rendered.randomness.kept, &[]);
}

/// The names of a custom resource, which a Secret often repeats.
pub(super) fn publish_names(secrets: &Secrets, resource: &CustomResource, group_kind: &GroupKind) {
    let key = &resource.key;
    for name in [&key.name, &key.namespace, &group_kind.kind, &group_kind.group] {
        secrets.publish(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::telemetry::redact::MARK;

    #[test]
    fn what_secrets_hold_is_learned_in_all_its_forms() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "data": {"a": BASE64.encode(b"first-value"), "broken": "no base64!", "bytes": BASE64.encode(&[0xff; 9]), "n": null},
            "stringData": {"b": "second-value"},
        });
        let secrets = Secrets::default();
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "third-value"}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [secret, config]});
        learn_object(&secrets, &list);
        for text in ["first-value", "second-value", "no base64!", "////////////"] {
            assert_eq!(secrets.redact(text), MARK, "{text}");
        }
        assert_eq!(secrets.redact("third-value"), "third-value");
        assert_eq!(decoded("aGVs\nbG8=").as_deref(), Some("hello"));
    }
}
