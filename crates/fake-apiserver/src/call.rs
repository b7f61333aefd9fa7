//! Requests, read whole, and answers.

use std::fmt;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type CallBody = UnsyncBoxBody<Bytes, BoxError>;
pub type CallResponse = Response<CallBody>;
/// An error is a connection that ends without an answer.
pub type CallAnswer = Result<CallResponse, BoxError>;

/// Answers requests: a real API server, a proxy, or [`crate::FakeServer`].
pub trait CallServer: Send + Sync + 'static {
    fn answer(&self, call: ApiCall) -> BoxFuture<'static, CallAnswer>;
}

/// Sends the call to a real API server as the client's user.
impl CallServer for kube::Client {
    fn answer(&self, call: ApiCall) -> BoxFuture<'static, CallAnswer> {
        let client = self.clone();
        async move {
            let mut request = Request::new(call.body.into());
            *request.method_mut() = call.method;
            *request.uri_mut() = call.uri.parse()?;
            *request.headers_mut() = call.headers;
            request.headers_mut().remove(http::header::HOST);
            let (parts, body) = client.send(request).await?.into_parts();
            Ok(Response::from_parts(parts, body.map_err(BoxError::from).boxed_unsync()))
        }
        .boxed()
    }
}

/// Sends a call and returns the status and the complete body.
pub async fn ask(server: &dyn CallServer, call: ApiCall) -> anyhow::Result<(u16, Value)> {
    let response = server.answer(call).await.map_err(anyhow::Error::from_boxed)?;
    let status = response.status().as_u16();
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(anyhow::Error::from_boxed)?;
    Ok((status, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()))
}

/// One request, read whole.
#[derive(Clone, Debug)]
pub struct ApiCall {
    pub method: Method,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Path and query as received.
    pub uri: String,
}

/// The object or collection that a request names, by its path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallTarget {
    pub group: String,
    pub version: String,
    /// The plural.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
}

impl ApiCall {
    /// A header's value; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    /// A request from a verb, a path with query, and a body. APPLY, MERGE and PATCH are server-side apply, a merge patch and a JSON patch.
    pub fn new(verb: &str, uri: &str, body: &Value) -> Self {
        let (method, content) = match verb {
            "APPLY" => (Method::PATCH, "application/apply-patch+yaml"),
            "MERGE" => (Method::PATCH, "application/merge-patch+json"),
            "PATCH" => (Method::PATCH, "application/json-patch+json"),
            "POST" => (Method::POST, "application/json"),
            "DELETE" => (Method::DELETE, "application/json"),
            _ => (Method::GET, "application/json"),
        };
        let content = http::HeaderValue::from_static(content);
        let headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, content)]);
        let body = Some(body).filter(|body| !body.is_null()).map(Value::to_string);
        ApiCall::of(method, uri.to_owned(), headers, body.unwrap_or_default().into())
    }

    pub async fn read<B>(request: Request<B>) -> Result<Self, BoxError>
    where
        B: http_body::Body,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(Into::into)?.to_bytes();
        let uri = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        Ok(ApiCall::of(parts.method, uri, parts.headers, body))
    }

    fn of(method: Method, uri: String, headers: HeaderMap, body: Bytes) -> Self {
        let (path, query) = uri.split_once('?').unwrap_or((&uri, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        ApiCall {
            method,
            path: path.to_owned(),
            query: pairs.map(|(key, value)| (decoded(key), decoded(value))).collect(),
            headers,
            body,
            uri,
        }
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// True if the client accepts the metadata of objects in place of the objects.
    pub fn is_of_metadata(&self) -> bool {
        self.header("accept").contains("as=PartialObjectMetadata")
    }

    pub fn is_watch(&self) -> bool {
        matches!(self.parameter("watch"), Some("true" | "1"))
    }

    pub fn is_write(&self) -> bool {
        self.method != Method::GET && self.method != Method::HEAD
    }

    /// Whether its target has this name.
    pub fn names(&self, name: &str) -> bool {
        self.target().is_some_and(|target| target.name == name)
    }

    /// Whether its target is of this resource.
    pub fn is_of(&self, resource: &str) -> bool {
        self.target().is_some_and(|target| target.resource == resource)
    }

    /// `None` for discovery, version and the like.
    pub fn target(&self) -> Option<CallTarget> {
        let mut parts = self.path.trim_matches('/').split('/').map(decoded);
        let (group, version) = match parts.next()?.as_str() {
            "api" => (String::new(), parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let mut rest: Vec<String> = parts.collect();
        let mut namespace = String::new();
        // A Namespace itself is `namespaces/<name>`, and what is in it has two parts more.
        if rest.len() > 2 && rest[0] == "namespaces" && !matches!(rest[2].as_str(), "status" | "finalize") {
            namespace = rest[1].clone();
            rest.drain(..2);
        }
        let mut rest = rest.into_iter();
        Some(CallTarget {
            group,
            version,
            resource: rest.next()?,
            namespace,
            name: rest.next().unwrap_or_default(),
            subresource: rest.next().unwrap_or_default(),
        })
    }

    /// Kubernetes' verb.
    pub fn verb(&self) -> &'static str {
        let named = self.target().is_some_and(|target| !target.name.is_empty());
        match self.method.as_str() {
            "GET" if self.is_watch() => "watch",
            "GET" if named => "get",
            "GET" if self.target().is_some() => "list",
            "GET" => "discover",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if named => "delete",
            "DELETE" => "deletecollection",
            _ => "other",
        }
    }
}

impl fmt::Display for ApiCall {
    /// One line, such as `patch configmaps shop/a-main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(target) = self.target() else {
            return write!(f, "{} {}", self.verb(), self.path);
        };
        write!(f, "{} {}", self.verb(), target.resource)?;
        if !target.subresource.is_empty() {
            write!(f, "/{}", target.subresource)?;
        }
        write!(f, " {}/{}", target.namespace, target.name)
    }
}

/// Undoes percent encoding.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let hex: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&hex, 16).unwrap_or(b'?')
            }
            byte => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn full_body(bytes: impl Into<Bytes>) -> CallBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub fn answer(status: StatusCode, object: &Value) -> Response<CallBody> {
    let mut response = Response::new(full_body(object.to_string()));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

/// A failure as the API server reports it.
pub fn failure(code: u16, reason: &str, message: &str) -> Response<CallBody> {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    if let Some(map) = status.as_object_mut().filter(|_| reason.is_empty()) {
        map.remove("reason");
    }
    // A missing object has its name in the details; an unknown path has none.
    let named = message
        .strip_suffix("\" not found")
        .and_then(|text| text.split_once('"'));
    if let Some((_, name)) = named {
        status["details"] = json!({"name": name});
    }
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(code, &status)
}
