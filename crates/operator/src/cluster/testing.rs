//! An API server for unit tests: a function.

use std::convert::Infallible;
use std::sync::Arc;

use kube::Client;
use kube::api::ApiResource;
use kube::client::Body;
use serde_json::{Value, json};

use crate::cluster::discovery::Resource;

/// A request.
pub struct TestRequest {
    pub path: String,
    pub query: String,
}

/// A client whose requests `answer` answers with status and object. For `None`, the response is that of a server with
/// `Widget.a.test`.
pub fn client(answer: impl Fn(&TestRequest) -> Option<(u16, Value)> + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let answer = answer.clone();
        async move {
            tokio::task::yield_now().await;
            let request = TestRequest {
                path: request.uri().path().to_owned(),
                query: request.uri().query().unwrap_or_default().to_owned(),
            };
            let (code, body) = answer(&request).unwrap_or_else(|| (200, served(&request.path, &["a.test"])));
            let response = http::Response::builder().status(code);
            Ok::<_, Infallible>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
        }
    });
    Client::new(service, "shop")
}

/// The discovery response at a path of a server with the kind `Widget` in each of these groups. Groups that end in `!` do
/// not answer.
pub fn served(path: &str, groups: &[&str]) -> Value {
    let group = |name: &&str| {
        let stale = name.strip_suffix('!');
        let name = stale.unwrap_or(name);
        let resource = json!({
            "resource": "widgets", "singularResource": "widget", "scope": "Namespaced", "verbs": ["list", "watch"],
            "responseKind": {"group": name, "version": "v1", "kind": "Widget"},
        });
        let version = match stale {
            None => json!({"version": "v1", "freshness": "Current", "resources": [resource]}),
            Some(_) => json!({"version": "v1", "freshness": "Stale", "resources": []}),
        };
        json!({"metadata": {"name": name}, "versions": [version]})
    };
    let list = |groups: &[&str]| {
        let items: Vec<Value> = groups.iter().map(group).collect();
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
    };
    match path {
        "/version" => json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "",
            "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
        "/apis" => list(groups),
        "/api" => list(&[]),
        _ => json!({}),
    }
}

/// `widgets.v1.a.test`.
pub fn widgets() -> Resource {
    Resource {
        api: ApiResource {
            group: "a.test".into(),
            version: "v1".into(),
            api_version: "a.test/v1".into(),
            kind: "Widget".into(),
            plural: "widgets".into(),
        },
        namespaced: true,
        watchable: true,
        status: true,
    }
}
