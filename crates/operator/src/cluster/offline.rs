//! A read-only API server in memory, for use without a cluster.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use kube::Client;
use kube::api::DynamicObject;
use kube::client::Body;
use serde_json::{Value, json};

use crate::cluster::connection::url_path::segment;
use crate::cluster::discovery::Resource;

/// Objects by URL path.
type ObjectsByPath = BTreeMap<String, Value>;

/// The server.
#[derive(Clone, Default)]
pub struct OfflineServer(Arc<Mutex<ObjectsByPath>>);

// === impl OfflineServer ===

impl OfflineServer {
    /// A client of this server. Must be called within an async runtime.
    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (code, body) = server.answer(request.method(), request.uri().path());
            let mut response = Response::new(Body::from(body.to_string().into_bytes()));
            *response.status_mut() = code;
            async move { Ok::<_, Infallible>(response) }
        });
        Client::new(service, "default")
    }

    /// Replaces all objects. The namespace counts for namespaced kinds only.
    pub fn replace<'o>(&self, objects: impl IntoIterator<Item = (&'o Resource, &'o Value)>) {
        let client = self.client();
        let path = |(resource, object): (&Resource, &Value)| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let namespace = Some(text("namespace")).filter(|namespace| !namespace.is_empty());
            let api = resource.api_in::<DynamicObject>(&client, namespace);
            format!("{}/{}", api.resource_url(), segment(text("name")))
        };
        let stored = objects
            .into_iter()
            .map(|entry| (path(entry), entry.1.clone()))
            .collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stored;
    }

    fn answer(&self, method: &Method, path: &str) -> (http::StatusCode, Value) {
        let stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |code: http::StatusCode, reason: &str| {
            let message = format!("{path}: there is no API server");
            let details = json!({"name": path.rsplit('/').next()});
            let body = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
                "message": message, "details": details, "code": code.as_u16(),
            });
            (code, body)
        };
        if method != Method::GET {
            return status(http::StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed");
        }
        if let Some(object) = stored.get(path) {
            return (http::StatusCode::OK, object.clone());
        }
        let items: Vec<&Value> = stored
            .iter()
            .filter(|(own, _)| is_listed(own, path))
            .map(|(_, object)| object)
            .collect();
        if items.is_empty() && !is_list(path) {
            status(http::StatusCode::NOT_FOUND, "NotFound")
        } else {
            (
                http::StatusCode::OK,
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}),
            )
        }
    }
}

/// True if the object with path `own` is in the list with path `list`, of its namespace or of all.
fn is_listed(own: &str, list: &str) -> bool {
    let Some((parent, _)) = own.rsplit_once('/') else {
        return false;
    };
    let everywhere = || {
        let (before, rest) = parent.split_once("/namespaces/")?;
        let (_, plural) = rest.split_once('/')?;
        Some(format!("{before}/{plural}"))
    };
    parent == list || everywhere().is_some_and(|everywhere| everywhere == list)
}

/// `/api/v1/pods`, `/apis/apps/v1/deployments`, and either with `/namespaces/<name>` before the last part.
fn is_list(path: &str) -> bool {
    let rest = match (path.strip_prefix("/api/"), path.strip_prefix("/apis/")) {
        (Some(rest), _) => rest.split_once('/'),
        (_, Some(rest)) => rest.split_once('/').and_then(|(_, rest)| rest.split_once('/')),
        _ => None,
    };
    let parts: Vec<&str> = rest.map(|(_, rest)| rest.split('/').collect()).unwrap_or_default();
    matches!(parts.as_slice(), [_] | ["namespaces", _, _])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::discovery::Discovery;
    use crate::cluster::objects::lookup;
    use chartwright_core::identity::GroupKind;
    use helm_template::render::LookupKey;

    #[tokio::test]
    async fn lookups_find_the_given_objects() {
        let secrets = Resource::offline(&GroupKind::new("", "Secret"), "v1", true);
        let classes = Resource::offline(&GroupKind::new("storage.k8s.io", "StorageClass"), "v1", false);
        let named = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}});
        let (first, second) = (named("shop", "a"), named("other", "a"));
        let class = json!({"metadata": {"name": "fast"}});
        let server = OfflineServer::default();
        server.replace([(&secrets, &first), (&secrets, &second), (&classes, &class)]);
        let discovery = Discovery::offline(server.client(), Default::default(), [secrets, classes]);
        let found = async |api_version: &str, kind: &str, namespace: &str, name: &str| {
            let key = LookupKey {
                api_version: api_version.into(),
                kind: kind.into(),
                namespace: namespace.into(),
                name: name.into(),
            };
            let found = lookup::fetch(&server.client(), &discovery.snapshot(), &key).await;
            let found = found.unwrap();
            match found.get("items").and_then(Value::as_array) {
                Some(items) => items.len(),
                None => usize::from(found != json!({})),
            }
        };
        assert_eq!(found("v1", "Secret", "shop", "a").await, 1);
        assert_eq!(found("v1", "Secret", "shop", "b").await, 0);
        assert_eq!(found("v1", "Secret", "shop", "").await, 1);
        assert_eq!(found("v1", "Secret", "nowhere", "").await, 0);
        assert_eq!(found("v1", "Secret", "", "").await, 2);
        assert_eq!(found("storage.k8s.io/v1", "StorageClass", "", "fast").await, 1);
        assert_eq!(found("storage.k8s.io/v1", "StorageClass", "", "").await, 1);
        assert_eq!(found("v1", "ConfigMap", "shop", "a").await, 0, "a kind without objects");
    }
}
