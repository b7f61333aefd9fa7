//! What can go wrong between us and the API server, sorted by what can be done about it.

use std::time::Duration;

use crate::telemetry::chain;

/// A failed request. Messages of the API server are kept: they name the field or the right that is missing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is no object of that name.
    #[error("not found: {0}")]
    NotFound(String),
    /// The path is not served, or not yet: its version may have gone, or its CRD may not have been read. What lies there is
    /// there all the same.
    #[error("not served: {0}")]
    NotServed(String),
    /// Another writer or field manager was first; or a precondition did not hold.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The request itself is wrong (400, 422): repeating it changes nothing.
    #[error("{0}")]
    Invalid(String),
    /// As `Invalid`, with what the server says of single fields.
    #[error("{message}")]
    Unprocessable { message: String, causes: Vec<Cause> },
    /// More than the API server or etcd takes (1.5 MiB, as a rule).
    #[error("{0}")]
    TooLarge(String),
    /// An address or a port that another object holds: it may let it go.
    #[error("{0}")]
    Taken(String),
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// An admission webhook or policy is against it, and may change its mind.
    #[error("{0}")]
    Denied(String),
    /// The server asks to be left alone for a while.
    #[error("{message}")]
    Throttled { message: String, after: Duration },
    /// The namespace or object is being deleted.
    #[error("{0}")]
    Terminating(String),
    #[error("the API server did not answer within {0:?}")]
    TimedOut(Duration),
    /// Not sent: another replica may lead already.
    #[error("nothing is written: the Lease of leader election was not renewed in time")]
    NotLeading,
    /// Everything else: connection errors, 5xx.
    #[error("{0}")]
    Unavailable(String),
}

/// What the API server says of one field, as `spec.ports[0].nodePort`.
pub use kube::core::response::StatusCause as Cause;

pub type Result<T> = std::result::Result<T, Error>;

// === impl Error ===

impl Error {
    /// True if only a change of the request can help.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Error::Invalid(_) | Error::Unprocessable { .. } | Error::TooLarge(_)
        )
    }

    /// True if it tells of the schema of a kind, not of what one object says: an apply has a field that it doesn't know.
    pub fn is_of_schema(&self) -> bool {
        matches!(self, Error::Invalid(text) if text.contains(UNTYPED))
    }

    /// True if the server gave no answer to the question; it may give one later.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Error::TimedOut(_) | Error::NotLeading | Error::Unavailable(_) | Error::Throttled { .. }
        )
    }

    /// How long the server wants to be left alone.
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
            // Our own layers say it in our own words.
            kube::Error::Service(error) => {
                return match error.downcast::<Error>() {
                    Ok(error) => *error,
                    Err(error) => Error::Unavailable(chain(&kube::Error::Service(error))),
                };
            }
            other => return Error::Unavailable(chain(&other)),
        };
        let text = match status.message.is_empty() {
            true => format!("status {} {}", status.code, status.reason),
            false => status.message.clone(),
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
            401 | 403 => Error::Forbidden(text),
            // A patch of an object that its schema refuses in structured merge: the server calls it an internal error.
            500 if text.contains(UNTYPED) => Error::Invalid(text),
            _ => Error::Unavailable(text),
        }
    }
}

/// What the API server says of an apply that doesn't fit the schema.
const UNTYPED: &str = "failed to create typed patch object";

/// etcd's words, and those of the API server's client for it.
fn is_too_large(text: &str) -> bool {
    text.contains("request is too large") || text.contains("trying to send message larger than max")
}

/// Webhooks and policies choose their own status codes; the words before their message are the API server's.
pub(in crate::cluster) fn is_denied(text: &str) -> bool {
    (text.contains("admission webhook ") && text.contains(" denied the request"))
        || (text.contains("ValidatingAdmissionPolicy ") && text.contains(" denied request"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_sorted_by_what_can_be_done() {
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
            assert_eq!(error.is_of_schema(), message == untyped, "{error:?}");
        }
    }
}
