//! A Kubernetes API server in memory, for tests of what talks to one: server-side apply with field managers, merge and JSON
//! patches, deletion with finalizers and preconditions, lists in pages, watches, discovery, and garbage collection.
//!
//! It validates nothing, has no admission and runs no controllers. `tests/torture/model/conformity.rs` sends the same requests
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
