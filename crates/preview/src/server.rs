//! The way to the API server: reads and dry runs only.

use fake_apiserver::call::{ApiCall, BoxError, CallAnswer, CallServer};
use http::Method;
use http_body_util::BodyExt as _;
use kube::Client;
use serde_json::{Value, json};

/// A request that could change something was not sent.
#[derive(Debug, thiserror::Error)]
#[error("a preview sends no writes: {0} was not sent")]
pub struct WriteRefused(String);

/// The API server behind a preview. Invariant: nothing is sent that could change an object.
#[derive(Clone)]
pub(crate) struct LiveServer {
    client: Client,
}

impl LiveServer {
    pub(crate) fn new(client: Client) -> Self {
        LiveServer { client }
    }

    /// Sends a read or a dry run.
    ///
    /// # Errors
    /// [`WriteRefused`] for any other request, which is not sent.
    pub(crate) async fn send(&self, call: ApiCall) -> CallAnswer {
        if changes_nothing(&call) {
            self.client.answer(call).await
        } else {
            Err(Box::new(WriteRefused(call.to_string())))
        }
    }

    /// As [`LiveServer::send`], with status and body of the answer.
    ///
    /// # Errors
    /// As [`LiveServer::send`].
    pub(crate) async fn ask(&self, call: ApiCall) -> Result<(u16, Value), BoxError> {
        let response = self.send(call).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}

/// Makes a dry run of a write. The options of a DELETE lie in its body, which hides those of the query
/// (`DeleteResource` of k8s.io/apiserver/pkg/endpoints/handlers).
pub(crate) fn dry_run(mut call: ApiCall) -> ApiCall {
    if call.parameter("dryRun").is_none() {
        let mark = if call.uri.contains('?') { '&' } else { '?' };
        call.uri.push(mark);
        call.uri.push_str("dryRun=All");
        call.query.push(("dryRun".to_owned(), "All".to_owned()));
    }
    if call.method == Method::DELETE {
        let mut options: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        if !options.is_object() {
            options = json!({});
        }
        options["dryRun"] = json!(["All"]);
        call.body = options.to_string().into();
        let json = http::HeaderValue::from_static("application/json");
        call.headers.insert(http::header::CONTENT_TYPE, json);
        call.headers.remove(http::header::CONTENT_LENGTH);
    }
    call
}

/// True for reads, and for writes of one object that the API server only checks.
fn changes_nothing(call: &ApiCall) -> bool {
    let target = call.target();
    let subresource = target.as_ref().map_or("", |target| target.subresource.as_str());
    match call.method {
        // A connection to a pod may do anything.
        Method::GET | Method::HEAD => matches!(subresource, "" | "status" | "log") && !call.is_watch(),
        Method::POST | Method::PUT | Method::PATCH => {
            target.is_some() && subresource.is_empty() && dry_runs(call) == ["All"]
        }
        Method::DELETE => {
            let options: Value = serde_json::from_slice(&call.body).unwrap_or_default();
            let is_named = target.as_ref().is_some_and(|target| !target.name.is_empty());
            is_named && subresource.is_empty() && dry_runs(call) == ["All"] && options["dryRun"] == json!(["All"])
        }
        _ => false,
    }
}

fn dry_runs(call: &ApiCall) -> Vec<&str> {
    let values = call.query.iter().filter(|(key, _)| key == "dryRun");
    values.map(|(_, value)| value.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use fake_apiserver::call::answer;

    use super::*;

    /// What arrives at the API server.
    async fn sent(calls: Vec<ApiCall>) -> Vec<String> {
        let log = Arc::new(Mutex::new(Vec::new()));
        let of_service = log.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let log = of_service.clone();
            async move {
                let call = ApiCall::read(request).await?;
                log.lock().unwrap().push(format!("{} {}", call.method, call.uri));
                Ok::<_, fake_apiserver::call::BoxError>(answer(http::StatusCode::OK, &json!({})))
            }
        });
        let server = LiveServer::new(Client::new(service, "shop"));
        for call in calls {
            let line = format!("{} {}", call.method, call.uri);
            let before = log.lock().unwrap().len();
            match server.send(call).await {
                Ok(_) => assert_eq!(log.lock().unwrap().len(), before + 1, "{line}"),
                Err(error) => {
                    assert!(error.is::<WriteRefused>(), "{line}: {error}");
                    assert_eq!(log.lock().unwrap().len(), before, "{line}");
                }
            }
        }
        log.lock().unwrap().clone()
    }

    const POD: &str = "/api/v1/namespaces/shop/pods/a";
    const PODS: &str = "/api/v1/namespaces/shop/pods";

    fn call(verb: &str, path: &str) -> ApiCall {
        ApiCall::new(verb, path, &json!({"metadata": {"name": "a"}}))
    }

    #[tokio::test]
    async fn a_write_without_dry_run_is_never_sent() {
        let mut refused = Vec::new();
        for verb in ["APPLY", "MERGE", "PATCH", "DELETE"] {
            for query in [
                "",
                "?force=true",
                "?dryRun=None",
                "?dryRun=",
                "?dryRun=All&dryRun=None",
                "?dryrun=All",
                "?x=dryRun=All",
            ] {
                refused.push(call(verb, &format!("{POD}{query}")));
            }
            refused.push(call(verb, &format!("{POD}/status?dryRun=All")));
        }
        refused.push(call("POST", PODS));
        refused.push(call("POST", &format!("{POD}/eviction?dryRun=All")));
        refused.push(call("POST", &format!("{POD}/exec?dryRun=All")));
        refused.push(call("POST", "/version?dryRun=All"));
        // Collections, and options that the body hides.
        refused.push(dry_run(call("DELETE", PODS)));
        refused.push(call("DELETE", &format!("{POD}?dryRun=All")));
        let mut put = call("POST", POD);
        put.method = Method::PUT;
        refused.push(put.clone());
        for method in ["CONNECT", "OPTIONS", "TRACE", "SURPRISE"] {
            let mut odd = dry_run(put.clone());
            odd.method = Method::from_bytes(method.as_bytes()).unwrap();
            refused.push(odd);
        }
        for path in ["exec?command=rm", "proxy", "portforward", "attach"] {
            refused.push(call("GET", &format!("{POD}/{path}")));
        }
        refused.push(call("GET", &format!("{PODS}?watch=true")));
        assert_eq!(sent(refused).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn reads_and_dry_runs_are_sent() {
        let mut calls = vec![
            call("GET", POD),
            call("GET", PODS),
            call("GET", "/apis"),
            call("GET", "/version"),
            call("GET", &format!("{POD}/log")),
        ];
        let mut put = call("POST", POD);
        put.method = Method::PUT;
        let writes = ["APPLY", "MERGE", "PATCH", "DELETE"]
            .map(|verb| call(verb, POD))
            .into_iter();
        let writes = writes.chain([call("POST", PODS), put]);
        calls.extend(writes.map(dry_run));
        let count = calls.len();
        let sent = sent(calls).await;
        assert_eq!(sent.len(), count, "{sent:?}");
        let writes = sent.iter().filter(|line| !line.starts_with("GET "));
        assert!(writes.into_iter().all(|line| line.contains("dryRun=All")), "{sent:?}");
    }
}
