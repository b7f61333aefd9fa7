//! What the API server makes of an edit of a custom resource, before it is previewed.

use chartwright_operator::cluster::connection::url_path::segment;
use chartwright_operator::cluster::discovery::Resource;
use fake_apiserver::call::{ApiCall, BoxError};
use kube::Client;
use serde_json::{Value, json};

use crate::server::{LiveServer, dry_run};

/// The UID of a custom resource that the API server has not seen.
const UID: &str = "00000000-0000-4000-8000-000000000000";
/// The field manager of `kubectl apply`.
const MANAGER: &str = "kubectl-client-side-apply";

/// A custom resource after an edit.
#[derive(Clone, Debug, PartialEq)]
pub struct Edited {
    pub object: Value,
    /// Why the API server did not check the edit.
    pub unchecked: Option<String>,
}

/// Why an edit is no custom resource.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The API server refuses it, as it would refuse `kubectl apply`.
    #[error("{0}")]
    Refused(String),
    #[error("the API server did not check the edit: {0}")]
    Unavailable(BoxError),
}

/// Puts the spec, labels and annotations of `file` on the live object, or on nothing, as `kubectl apply` does.
pub fn merge(live: Option<&Value>, file: &Value) -> Value {
    let Some(live) = live else {
        let mut created = file.clone();
        if let Some(fields) = created.as_object_mut() {
            fields.remove("status");
        }
        return created;
    };
    let mut merged = live.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in file["metadata"][field].as_object().into_iter().flatten() {
            if !merged["metadata"][field].is_object() {
                merged["metadata"][field] = json!({});
            }
            merged["metadata"][field][key] = value.clone();
        }
    }
    let own = file.as_object().into_iter().flatten();
    let is_content = |key: &str| !matches!(key, "apiVersion" | "kind" | "metadata" | "status");
    for (key, value) in own.filter(|(key, _)| is_content(key)) {
        merged[key] = value.clone();
    }
    if file.get("spec").is_none()
        && let Some(fields) = merged.as_object_mut()
    {
        fields.remove("spec");
    }
    merged
}

/// Returns the custom resource as the API server would store it: with its defaults, or refused by its schema, rules and admission.
///
/// # Errors
/// The API server refuses the edit, or does not answer.
pub async fn check_edit(
    client: &Client,
    resource: &Resource,
    live: Option<&Value>,
    wanted: Value,
) -> Result<Edited, EditError> {
    if live.is_some_and(|live| *live == wanted) {
        return Ok(Edited {
            object: wanted,
            unchecked: None,
        });
    }
    let server = LiveServer::new(client.clone());
    let call = request(resource, live, &wanted);
    let sent = server.ask(dry_run(call)).await;
    let (status, answer) = sent.map_err(EditError::Unavailable)?;
    let message = answer["message"].as_str().unwrap_or("no message").to_owned();
    match status {
        200..300 => Ok(Edited {
            object: with_status(answer, live),
            unchecked: None,
        }),
        // A webhook without dry runs, or a user without the right.
        403 if message.contains("is forbidden: User") || message.contains("cannot ") => {
            Ok(unchecked(live, wanted, message))
        }
        400 if message.contains("does not support dry run") => Ok(unchecked(live, wanted, message)),
        404 if live.is_none() && answer["details"]["kind"] == "namespaces" => Ok(unchecked(live, wanted, message)),
        500.. | 429 => Err(EditError::Unavailable(message.into())),
        _ => Err(EditError::Refused(message)),
    }
}

/// A creation, or the change of the live object as a JSON patch: that needs the right to patch alone.
fn request(resource: &Resource, live: Option<&Value>, wanted: &Value) -> ApiCall {
    let metadata = &wanted["metadata"];
    let api = &resource.api;
    let root = match api.group.as_str() {
        "" => format!("/api/{}", api.version),
        group => format!("/apis/{group}/{}", api.version),
    };
    let namespace = metadata["namespace"].as_str().filter(|_| resource.namespaced);
    let namespace = namespace.map(|namespace| format!("/namespaces/{}", segment(namespace)));
    let collection = format!("{root}{}/{}", namespace.unwrap_or_default(), api.plural);
    let query = format!("fieldManager={MANAGER}&fieldValidation=Strict");
    match live {
        None => ApiCall::new("POST", &format!("{collection}?{query}"), wanted),
        Some(live) => {
            let name = segment(metadata["name"].as_str().unwrap_or_default()).into_owned();
            let patch = serde_json::to_value(json_patch::diff(live, wanted)).unwrap_or_default();
            ApiCall::new("PATCH", &format!("{collection}/{name}?{query}"), &patch)
        }
    }
}

/// The answer to the creation of an object has no status, and none of the live one may be lost.
fn with_status(mut object: Value, live: Option<&Value>) -> Value {
    if let Some(status) = live.and_then(|live| live.get("status")) {
        object["status"] = status.clone();
    }
    object
}

/// The edit as it is, with the metadata that the API server would set.
fn unchecked(live: Option<&Value>, mut object: Value, why: String) -> Edited {
    let metadata = &mut object["metadata"];
    match live {
        None => {
            metadata["uid"] = UID.into();
            metadata["generation"] = 1.into();
        }
        Some(live) if live["spec"] != object["spec"] => {
            let generation = live["metadata"]["generation"].as_i64().unwrap_or_default();
            object["metadata"]["generation"] = (generation + 1).into();
        }
        Some(_) => {}
    }
    Edited {
        object,
        unchecked: Some(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_replaces_the_spec_and_keeps_what_others_wrote() {
        let live = json!({
            "apiVersion": "a.test/v1", "kind": "Web", "spec": {"size": 1, "old": true}, "status": {"a": 1},
            "metadata": {"name": "a", "uid": "u", "labels": {"theirs": "1", "mine": "1"}},
        });
        let file = json!({
            "apiVersion": "a.test/v1", "kind": "Web", "spec": {"size": 2}, "status": {"forged": 1},
            "metadata": {"name": "a", "uid": "forged", "labels": {"mine": "2"}, "annotations": {"note": "n"}},
        });
        let merged = merge(Some(&live), &file);
        let expected = json!({
            "apiVersion": "a.test/v1", "kind": "Web", "spec": {"size": 2}, "status": {"a": 1},
            "metadata": {"name": "a", "uid": "u", "labels": {"theirs": "1", "mine": "2"}, "annotations": {"note": "n"}},
        });
        assert_eq!(merged, expected);
        assert_eq!(merge(None, &file).get("status"), None);
        let bare = json!({"apiVersion": "a.test/v1", "kind": "Web", "metadata": {"name": "a"}});
        assert_eq!(merge(Some(&live), &bare).get("spec"), None);
    }

    #[tokio::test]
    async fn an_edit_is_checked_by_the_api_server_or_left_as_it_is() {
        let resource = Resource::offline(&chartwright_core::identity::GroupKind::new("a.test", "Web"), "v1", true);
        let wanted = json!({"apiVersion": "a.test/v1", "kind": "Web", "metadata": {"name": "a", "namespace": "shop"}});
        for (status, message, expected) in [
            (403, "webs.a.test is forbidden: User \"me\" cannot create", "unchecked"),
            (400, "admission webhook w does not support dry run", "unchecked"),
            (422, "spec.size: Invalid value", "refused"),
            (403, "admission webhook w denied the request: no", "refused"),
            (503, "down", "unavailable"),
        ] {
            let service = tower::service_fn(move |request: http::Request<kube::client::Body>| async move {
                let call = ApiCall::read(request).await?;
                assert_eq!((call.method.as_str(), call.parameter("dryRun")), ("POST", Some("All")));
                assert_eq!(call.path, "/apis/a.test/v1/namespaces/shop/webs");
                Ok::<_, BoxError>(fake_apiserver::call::failure(status, "", message))
            });
            let client = Client::new(service, "shop");
            let found = match check_edit(&client, &resource, None, wanted.clone()).await {
                Ok(edited) => {
                    assert_eq!(edited.object["metadata"]["generation"], 1);
                    assert!(edited.unchecked.unwrap().contains(message));
                    "unchecked"
                }
                Err(EditError::Refused(why)) => {
                    assert_eq!(why, message);
                    "refused"
                }
                Err(EditError::Unavailable(_)) => "unavailable",
            };
            assert_eq!(found, expected, "{message}");
        }
    }
}
