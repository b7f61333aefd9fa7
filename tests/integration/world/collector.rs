//! A collector of traces, as an operator finds it in a cluster: OTLP over HTTP.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::runtime::Runtime;

use crate::support::eventually;
use crate::world::SOON;

/// A running collector.
pub struct Collector {
    /// What `--otlp-endpoint` gets.
    pub endpoint: String,
    state: Arc<Mutex<CollectorState>>,
    _runtime: Runtime,
}

/// What a collector got, and how it answers.
#[derive(Default)]
struct CollectorState {
    is_refusing: bool,
    requests: Vec<CollectedRequest>,
}

/// A request as it came.
#[derive(Clone)]
pub struct CollectedRequest {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The answer was an error.
    pub refused: bool,
}

impl Collector {
    /// Starts a collector on a free port.
    pub fn start() -> Result<Self> {
        let runtime = Runtime::new()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0)))?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let state = Arc::new(Mutex::new(CollectorState::default()));
        let of_server = state.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = of_server.clone();
                let service = service_fn(move |request| answer(state.clone(), request));
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Ok(Collector {
            endpoint,
            state,
            _runtime: runtime,
        })
    }

    /// From now on, requests are refused or taken.
    pub fn refuse(&self, is_refusing: bool) {
        self.state.lock().expect("no panic").is_refusing = is_refusing;
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<CollectedRequest> {
        self.state.lock().expect("no panic").requests.clone()
    }

    /// The spans of the requests that were taken.
    pub fn spans(&self) -> Result<Vec<Span>> {
        let mut spans = Vec::new();
        for request in self.requests().into_iter().filter(|request| !request.refused) {
            let batch = ExportTraceServiceRequest::decode(request.body).context("a batch of spans")?;
            for resource in batch.resource_spans {
                spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        Ok(spans)
    }

    /// Waits for a span.
    pub fn await_span(&self, what: &str, is_it: impl Fn(&Span) -> bool) -> Result<Span> {
        eventually(what, SOON, || Ok(self.spans()?.into_iter().find(&is_it)))
    }
}

async fn answer(
    state: Arc<Mutex<CollectorState>>,
    request: Request<Incoming>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut state = state.lock().expect("no panic");
    let refused = state.is_refusing;
    state.requests.push(CollectedRequest {
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body,
        refused,
    });
    let mut answer = Response::new(Empty::new());
    if refused {
        *answer.status_mut() = StatusCode::FORBIDDEN;
    }
    Ok(answer)
}

/// The text of an attribute; numbers as text.
pub fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}
