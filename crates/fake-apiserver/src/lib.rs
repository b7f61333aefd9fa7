//! A Kubernetes API server in memory, for tests of what talks to one: server-side apply with field managers, merge and JSON
//! patches, deletion with finalizers and preconditions, lists in pages, watches, discovery, and garbage collection.
//!
//! It validates nothing but [`Store::immutable_fields`] and runs no controllers. `tests/torture/model/conformity.rs` sends the same requests
//! to a real API server and compares every answer.
//!
//! ```
//! use fake_apiserver::FakeServer;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, Patch, PatchParams};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! let server = FakeServer::with_kinds(fake_apiserver::BUILT_IN);
//! let maps: Api<ConfigMap> = Api::default_namespaced(server.client("shop"));
//! let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "red"}});
//! maps.patch("a", &PatchParams::apply("me"), &Patch::Apply(&wanted)).await?;
//! // Another manager wants another value of the same field.
//! let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "blue"}});
//! let refused = maps.patch("a", &PatchParams::apply("other"), &Patch::Apply(&other)).await;
//! assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 409));
//! assert_eq!(maps.get("a").await?.data.unwrap()["color"], "red");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod call;
pub mod fields;
pub mod kinds;
mod server;
pub mod stale;
pub mod store;

pub use kinds::{BUILT_IN, ServedKind};
pub use server::{FakeServer, LOG, expired};
pub use store::{ObjectKey, Store, StoreChange};

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::call::{ApiCall, ask};
    use super::*;

    #[tokio::test]
    async fn immutable_fields_are_refused_by_name() {
        let server = FakeServer::with_kinds(BUILT_IN);
        server.store().immutable_fields = Some(|_, live, written| {
            if live["data"] == written["data"] {
                Vec::new()
            } else {
                vec!["data".to_owned(), "more".to_owned()]
            }
        });
        let path = "/api/v1/namespaces/shop/configmaps/a?fieldManager=me";
        let map = |data: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": data}});
        for (verb, data, status) in [
            ("APPLY", "1", 201),
            ("APPLY", "1", 200),
            ("APPLY", "2", 422),
            ("MERGE", "2", 422),
        ] {
            let (found, answer) = ask(&server, ApiCall::new(verb, path, &map(data))).await.unwrap();
            assert_eq!(found, status, "{answer}");
            if status == 422 {
                let causes = answer["details"]["causes"].as_array().unwrap();
                let fields: Vec<&Value> = causes.iter().map(|cause| &cause["field"]).collect();
                assert_eq!(fields, ["data", "more"]);
            }
        }
    }

    #[tokio::test]
    async fn a_dry_run_answers_as_the_write_and_changes_nothing() {
        let server = FakeServer::with_kinds(BUILT_IN);
        let path = "/api/v1/namespaces/shop/configmaps";
        let map = |data: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": data}});
        let send =
            async |verb: &str, path: String, body: Value| ask(&server, ApiCall::new(verb, &path, &body)).await.unwrap();
        let one = format!("{path}/a?fieldManager=me");
        send("APPLY", one.clone(), map("1")).await;
        let before = server.store().version;
        for (verb, path, body, status) in [
            ("APPLY", format!("{one}&dryRun=All"), map("2"), 200),
            (
                "APPLY",
                format!("{path}/b?fieldManager=me&dryRun=All"),
                json!({"metadata": {"name": "b"}}),
                201,
            ),
            ("MERGE", format!("{one}&dryRun=All"), map("2"), 200),
            (
                "POST",
                format!("{path}?dryRun=All"),
                json!({"metadata": {"name": "b"}}),
                201,
            ),
            ("DELETE", format!("{path}/a?dryRun=All"), Value::Null, 200),
            ("DELETE", format!("{path}/a"), json!({"dryRun": ["All"]}), 200),
        ] {
            let (found, answer) = send(verb, path.clone(), body).await;
            assert_eq!(found, status, "{verb} {path}: {answer}");
            if verb == "APPLY" && status == 200 {
                assert_eq!(answer["data"]["a"], "2");
            }
            assert_eq!(server.store().version, before, "{verb} {path}");
        }
    }

    #[tokio::test]
    async fn kinds_of_one_plural_are_kept_apart() {
        let server = FakeServer::with_kinds(BUILT_IN);
        for version in ["v1", "v1beta1"] {
            let kind = ServedKind::defined("serving.example.com", version, "Service", "services", true);
            server.store().serve(kind);
        }
        let object = json!({"metadata": {"name": "a"}});
        for (path, status) in [
            ("/api/v1/namespaces/shop/services", 201),
            ("/apis/serving.example.com/v1/namespaces/shop/services", 201),
            ("/apis/serving.example.com/v1beta1/namespaces/shop/services", 409),
            ("/apis/serving.example.com/v2/namespaces/shop/services", 404),
        ] {
            let (found, answer) = ask(&server, ApiCall::new("POST", path, &object)).await.unwrap();
            assert_eq!(found, status, "{path}: {answer}");
        }
    }

    #[tokio::test]
    async fn bodies_without_metadata_are_refused() {
        let server = FakeServer::with_kinds(BUILT_IN);
        let path = "/api/v1/namespaces/shop/configmaps";
        for body in [json!(3), json!([]), json!({"metadata": 3})] {
            let (status, _) = ask(&server, ApiCall::new("POST", path, &body)).await.unwrap();
            assert_eq!(status, 400, "{body}");
        }
        ask(&server, ApiCall::new("POST", path, &json!({"metadata": {"name": "a"}})))
            .await
            .unwrap();
        let patch = json!([{"op": "replace", "path": "/metadata", "value": 3}]);
        let (status, _) = ask(&server, ApiCall::new("PATCH", &format!("{path}/a"), &patch))
            .await
            .unwrap();
        assert_eq!(status, 422);
    }
}
