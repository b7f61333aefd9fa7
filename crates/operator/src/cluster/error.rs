//! Errors of requests to the API server, sorted by how a caller reacts.

use std::time::Duration;

use crate::telemetry::chain;

/// A failed request, with the message of the API server: it names the field or the missing permission.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is no object of that name.
    #[error("not found: {0}")]
    NotFound(String),
    /// The path is not served: its version was removed, or the server has not read its CRD yet. Its objects may exist.
    #[error("not served: {0}")]
    NotServed(String),
    /// Another client or field manager wrote first, or a precondition failed.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The request itself is wrong (400, 422): repeating it changes nothing.
    #[error("{0}")]
    Invalid(String),
    /// As `Invalid`, with messages about single fields.
    #[error("{message}")]
    Unprocessable { message: String, causes: Vec<Cause> },
    /// Larger than the API server or etcd accepts (usually 1.5 MiB).
    #[error("{0}")]
    TooLarge(String),
    /// An IP address or a port that another object uses, perhaps not for long.
    #[error("{0}")]
    Taken(String),
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The credentials are unknown or have expired. Says nothing about rights.
    #[error("unauthorized: the API server refuses the credentials")]
    Unauthorized(String),
    /// Denied by an admission webhook or policy, which may accept it later.
    #[error("{0}")]
    Denied(String),
    /// The server requests a retry after this time.
    #[error("{message}")]
    Throttled { message: String, after: Duration },
    /// The namespace or object is being deleted.
    #[error("{0}")]
    Terminating(String),
    #[error("the API server did not answer within {0:?}")]
    TimedOut(Duration),
    /// Not sent, because another replica may lead.
    #[error("nothing is written: the Lease of leader election was not renewed in time")]
    NotLeading,
    /// No connection to the API server. `cause` is the last error of the chain in `message`.
    #[error("{message}")]
    Unreachable { message: String, cause: String },
    /// Everything else: broken connections, 5xx.
    #[error("{0}")]
    Unavailable(String),
}

/// A message about one field, such as `spec.ports[0].nodePort`.
pub use kube::core::response::StatusCause as Cause;

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// True if only another request can succeed.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Error::Invalid(_) | Error::Unprocessable { .. } | Error::TooLarge(_)
        )
    }

    /// True if an apply has a field that the schema of the kind does not contain.
    pub fn is_schema_mismatch(&self) -> bool {
        matches!(self, Error::Invalid(text) if text.contains(UNTYPED))
    }

    /// True if a retry may succeed: the server gave no verdict on the request.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Error::TimedOut(_)
                | Error::NotLeading
                | Error::Unreachable { .. }
                | Error::Unavailable(_)
                | Error::Throttled { .. }
        )
    }

    /// The wait before a retry that the server requests.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Throttled { after, .. } => Some(*after),
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::NotFound(_))
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        let status = match error {
            kube::Error::Api(status) => *status,
            // Errors of our own layers pass unchanged.
            kube::Error::Service(error) => {
                return match error.downcast::<Error>() {
                    Ok(error) => *error,
                    Err(error) => without_answer(&kube::Error::Service(error)),
                };
            }
            other => return without_answer(&other),
        };
        let text = if status.message.is_empty() {
            format!("status {} {}", status.code, status.reason)
        } else {
            status.message.clone()
        };
        let details = status
            .details
            .map(|details| (details.name, details.causes, details.retry_after_seconds));
        let (name, mut causes, after) = details.unwrap_or_default();
        let terminating = causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
        causes.retain(|cause| !cause.field.is_empty());
        match status.code {
            _ if terminating => Error::Terminating(text),
            _ if is_denied(&text) => Error::Denied(text),
            422 if text.contains("is already allocated") => Error::Taken(text),
            422 if !causes.is_empty() => Error::Unprocessable { message: text, causes },
            429 => Error::Throttled {
                message: text,
                after: Duration::from_secs(after.into()),
            },
            404 if !name.is_empty() => Error::NotFound(text),
            404 => Error::NotServed(text),
            409 => Error::Conflict(text),
            413 => Error::TooLarge(text),
            500 if is_too_large(&text) => Error::TooLarge(text),
            400 | 415 | 422 => Error::Invalid(text),
            401 => Error::Unauthorized(text),
            403 => Error::Forbidden(text),
            // A structured merge that the schema refuses: the server reports an internal error.
            500 if text.contains(UNTYPED) || is_undecodable(&text) => Error::Invalid(text),
            _ => Error::Unavailable(text),
        }
    }
}

/// The error of a request to which no API server answered.
fn without_answer(error: &kube::Error) -> Error {
    let message = chain(error);
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let mut is_connecting = false;
    let mut cause = String::new();
    for error in causes {
        let of_client = error.downcast_ref::<hyper_util::client::legacy::Error>();
        is_connecting |= of_client.is_some_and(hyper_util::client::legacy::Error::is_connect);
        cause = error.to_string();
    }
    if is_connecting {
        Error::Unreachable { message, cause }
    } else {
        Error::Unavailable(message)
    }
}

/// In the API server's message about an apply that does not match the schema.
const UNTYPED: &str = "failed to create typed patch object";

/// True if the API server could not decode the object into the type of its kind, such as a quantity or base64. It reports an internal
/// error, which no retry ends.
fn is_undecodable(text: &str) -> bool {
    [
        "cannot be handled as a ",
        "quantities must match the regular expression",
        "unable to parse quantity",
        "illegal base64 data",
        "json: cannot unmarshal",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// Matches the messages of etcd and of the API server's etcd client.
fn is_too_large(text: &str) -> bool {
    text.contains("request is too large") || text.contains("trying to send message larger than max")
}

/// True for denials by webhooks and policies. These choose the status code, but the API server writes this text.
pub(in crate::cluster) fn is_denied(text: &str) -> bool {
    (text.contains("admission webhook ") && text.contains(" denied the request"))
        || (text.contains("ValidatingAdmissionPolicy ") && text.contains(" denied request"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_map_to_error_variants() {
        let untyped = "failed to create typed patch object (…): .spec.bogus: field not declared in schema";
        let too_large =
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2109821 vs. 2097152)";
        let policy = "widgets.x \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        let taken = "Service \"a\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated";
        for (code, message, name, kind, is_permanent) in [
            (404, "maps \"a\" not found", "a", "NotFound", false),
            (404, "404 page not found", "", "NotServed", false),
            (422, "x", "", "Invalid", true),
            (400, "the object is too odd", "", "Invalid", true),
            (500, untyped, "", "Invalid", true),
            (500, "etcd", "", "Unavailable", false),
            (413, "Request entity too large: limit is 3145728", "", "TooLarge", true),
            (500, "etcdserver: request is too large", "", "TooLarge", true),
            (500, too_large, "", "TooLarge", true),
            (403, "x", "", "Forbidden", false),
            (401, "Unauthorized", "", "Unauthorized", false),
            (
                422,
                "admission webhook \"a.b\" denied the request: field is immutable",
                "",
                "Denied",
                false,
            ),
            (422, policy, "", "Denied", false),
            (422, taken, "", "Taken", false),
            (409, "", "", "Conflict(\"status 409 \")", false),
        ] {
            let status = serde_json::json!({"code": code, "message": message, "details": {"name": name}});
            let status: kube::core::Status = serde_json::from_value(status).unwrap();
            let error = Error::from(kube::Error::Api(Box::new(status)));
            assert!(format!("{error:?}").starts_with(kind), "{error:?}");
            assert_eq!(error.is_permanent(), is_permanent, "{error:?}");
            assert_eq!(error.is_schema_mismatch(), message == untyped, "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_refused_connection_is_distinguished_from_an_answer() {
        let unused = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let config = kube::Config::new(format!("http://{unused}").parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let error = Error::from(client.apiserver_version().await.unwrap_err());
        let Error::Unreachable { message, cause } = &error else {
            panic!("{error:?}");
        };
        assert!(cause.starts_with("Connection refused"), "{cause}");
        assert!(message.ends_with(cause) && error.is_transient(), "{message}");
    }
}
