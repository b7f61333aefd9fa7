//! Sends batches of spans with the HTTP client of the Kubernetes library, which brings TLS.

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use kube::{Client, Config};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use tokio::runtime::{Builder, Runtime};

use crate::telemetry::chain;

/// The HTTP client of the exporter. It has a thread of its own: the thread of the exporter waits for its answers, and a collector
/// that is slow does not slow down the operator.
pub(super) struct ExportClient {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: Client,
    endpoint: String,
    timeout: Duration,
    /// The collector did not take the last batch.
    is_failing: AtomicBool,
}

impl ExportClient {
    /// `authorities`: a file of certificates that are trusted instead of the system's.
    ///
    /// # Errors
    /// The certificates cannot be read, or the thread cannot be started.
    pub(super) fn start(endpoint: &http::Uri, authorities: Option<&Path>, timeout: Duration) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("traces")
            .enable_all()
            .build()
            .context("async runtime of the traces")?;
        let mut config = Config::new(endpoint.clone());
        config.default_retry = false;
        if let Some(path) = authorities {
            // Read here too, because the client would report a missing file only with its first request.
            std::fs::read(path).with_context(|| format!("--otlp-certificate {}", path.display()))?;
            config.root_cert_file = Some(path.to_owned());
        }
        let guard = runtime.enter();
        let client = Client::try_from(config).with_context(|| format!("client for --otlp-endpoint {endpoint}"))?;
        drop(guard);
        Ok(ExportClient {
            runtime: Some(runtime),
            client,
            endpoint: endpoint.to_string(),
            timeout,
            is_failing: AtomicBool::new(false),
        })
    }

    /// Logs the first of several failures, and the end of them.
    fn note(&self, failure: Option<&str>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(failure) if !was_failing => {
                tracing::warn!(
                    collector = self.endpoint,
                    "traces are lost until the collector takes them: {failure}"
                );
            }
            None if was_failing => tracing::info!(collector = self.endpoint, "the collector takes traces again"),
            _ => {}
        }
    }
}

impl HttpClient for ExportClient {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let sent = match &self.runtime {
                Some(runtime) => runtime.spawn(send(self.client.clone(), request, self.timeout)).await?,
                None => Err(HttpError::from("stopped")),
            };
            let failure = match &sent {
                Ok(status) if status.is_success() => None,
                Ok(status) => Some(format!("it answers {status}")),
                Err(error) => Some(chain(error.as_ref())),
            };
            self.note(failure.as_deref());
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = sent?;
            Ok(response)
        })
    }
}

/// Sends a batch. The body of the answer is not read: it is of no use, and may be of any length.
async fn send(client: Client, request: Request<Bytes>, timeout: Duration) -> Result<StatusCode, HttpError> {
    let (mut parts, body) = request.into_parts();
    // The client adds the server.
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse()?;
    let request = Request::from_parts(parts, Body::from(body));
    let response = tokio::time::timeout(timeout, client.send(request)).await;
    let response = response.map_err(|_| format!("no answer within {} seconds", timeout.as_secs()))??;
    Ok(response.status())
}

impl Drop for ExportClient {
    fn drop(&mut self) {
        // Also from within another runtime, where a blocking end would panic.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Without headers, which may contain a token.
impl fmt::Debug for ExportClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "traces to {}", self.endpoint)
    }
}
