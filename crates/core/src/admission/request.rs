//! Requests of the API server, as `admission.k8s.io/v1` defines them.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::annotations::PREFIX;
use crate::identity::GroupKind;

/// A request to admit a custom resource.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// Identifies the request in its answer.
    pub uid: String,
    pub kind: AdmissionKind,
    operation: String,
    /// The custom resource as it would be. Null for a deletion.
    #[serde(default)]
    object: Value,
    /// The custom resource as it is. Null for a creation.
    #[serde(default)]
    old_object: Value,
}

/// Kind and version of the object of a request.
#[derive(Debug, Deserialize)]
pub struct AdmissionKind {
    #[serde(default)]
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A change whose effect on a release is worth a preview.
#[derive(Debug, PartialEq)]
pub struct ReleaseChange {
    /// The custom resource as it is. `None`: it is created.
    pub live: Option<Value>,
    /// The custom resource as it would be.
    pub resource: Value,
}

#[derive(Deserialize)]
struct AdmissionReview {
    request: AdmissionRequest,
}

impl AdmissionRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// It is no AdmissionReview with a request.
    pub fn parse(body: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(body).map(|review: AdmissionReview| review.request)
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.kind.group.as_str(), self.kind.kind.as_str())
    }

    /// Returns the change if a release can differ after it: a creation, or another spec, or other annotations of ours.
    pub fn into_change(self) -> Option<ReleaseChange> {
        let AdmissionRequest {
            operation,
            object,
            old_object,
            ..
        } = self;
        match operation.as_str() {
            "CREATE" => Some(ReleaseChange {
                live: None,
                resource: object,
            }),
            "UPDATE" if is_relevant(&old_object, &object) => Some(ReleaseChange {
                live: Some(old_object),
                resource: object,
            }),
            _ => None,
        }
    }
}

fn is_relevant(before: &Value, after: &Value) -> bool {
    let is_deleted = after["metadata"]["deletionTimestamp"].is_string();
    !is_deleted && (before["spec"] != after["spec"] || own_annotations(before) != own_annotations(after))
}

fn own_annotations(object: &Value) -> Map<String, Value> {
    let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
    let own = annotations.filter(|(key, _)| key.starts_with(PREFIX));
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(operation: &str, before: &Value, after: &Value) -> AdmissionRequest {
        let review = json!({"request": {
            "uid": "u", "kind": {"group": "a.test", "version": "v1", "kind": "Web"}, "operation": operation,
            "object": after, "oldObject": before,
        }});
        AdmissionRequest::parse(review.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn only_changes_of_releases_are_previewed() {
        let web =
            |spec: i64, annotations: Value| json!({"metadata": {"annotations": annotations}, "spec": {"size": spec}});
        let plain = web(1, json!({}));
        let mut deleted = web(2, json!({}));
        deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let mut with_status = plain.clone();
        with_status["status"] = json!({"observedGeneration": 1});
        for (what, operation, before, after, expected) in [
            ("a creation", "CREATE", &Value::Null, &plain, true),
            ("another spec", "UPDATE", &plain, &web(2, json!({})), true),
            ("a first spec", "UPDATE", &json!({}), &plain, true),
            ("the same", "UPDATE", &plain, &plain, false),
            ("a status", "UPDATE", &plain, &with_status, false),
            (
                "our annotation",
                "UPDATE",
                &plain,
                &web(1, json!({"chartwright.dev/rollback-to": "2"})),
                true,
            ),
            (
                "no more annotation",
                "UPDATE",
                &web(1, json!({"chartwright.dev/suspend": "true"})),
                &plain,
                true,
            ),
            (
                "a foreign annotation",
                "UPDATE",
                &plain,
                &web(1, json!({"a.test/b": "2"})),
                false,
            ),
            (
                "the operator's claim",
                "UPDATE",
                &plain,
                &web(1, json!({"applyset.kubernetes.io/tooling": "x"})),
                false,
            ),
            ("an edit during deletion", "UPDATE", &plain, &deleted, false),
            ("a deletion", "DELETE", &plain, &Value::Null, false),
            ("a connection", "CONNECT", &Value::Null, &plain, false),
        ] {
            let change = request(operation, before, after).into_change();
            assert_eq!(change.is_some(), expected, "{what}");
            let live = change.and_then(|change| change.live);
            assert_eq!(live.is_some(), expected && operation == "UPDATE", "{what}");
        }
    }

    #[test]
    fn a_body_that_is_no_review_is_an_error() {
        for body in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"request": null}"#,
            r#"{"request": {"uid": "u"}}"#,
        ] {
            assert!(AdmissionRequest::parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}
