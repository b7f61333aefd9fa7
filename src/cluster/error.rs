//! What can go wrong between us and the API server, sorted by what can be done about it.

use std::time::Duration;

use crate::telemetry::chain;

/// A failed request. Messages of the API server are kept: they name the field or the right that is missing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("not found: {0}")]
    NotFound(String),
    /// Another writer or field manager was first; or a precondition did not hold.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The request itself is wrong (400, 422): repeating it changes nothing.
    #[error("{0}")]
    Invalid(String),
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The namespace or object is being deleted.
    #[error("{0}")]
    Terminating(String),
    #[error("the API server did not answer within {0:?}")]
    TimedOut(Duration),
    /// Everything else: connection errors, 429, 5xx.
    #[error("{0}")]
    Unavailable(String),
}

pub type Result<T> = std::result::Result<T, Error>;

// === impl Error ===

impl Error {
    /// True if only a change of the request can help.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Error::Invalid(_))
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::NotFound(_))
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        let status = match error {
            kube::Error::Api(status) => status,
            other => return Error::Unavailable(chain(&other)),
        };
        let text = match status.message.is_empty() {
            true => format!("status {} {}", status.code, status.reason),
            false => status.message.clone(),
        };
        let terminating = status.details.as_ref().is_some_and(|details| {
            details
                .causes
                .iter()
                .any(|cause| cause.reason == "NamespaceTerminating")
        });
        match status.code {
            _ if terminating => Error::Terminating(text),
            404 => Error::NotFound(text),
            409 => Error::Conflict(text),
            400 | 413 | 415 | 422 => Error::Invalid(text),
            401 | 403 => Error::Forbidden(text),
            // A patch of an object that its schema refuses in structured merge: the server calls it an internal error.
            500 if text.contains("failed to create typed patch object") => Error::Invalid(text),
            _ => Error::Unavailable(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_sorted_by_what_can_be_done() {
        let error = |code: u16, message: &str| {
            let status = kube::core::Status {
                code,
                message: message.into(),
                ..Default::default()
            };
            Error::from(kube::Error::Api(Box::new(status)))
        };
        assert!(error(404, "x").is_not_found());
        assert!(error(422, "x").is_permanent());
        assert!(
            error(
                500,
                "failed to create typed patch object (…): .spec.bogus: field not declared in schema"
            )
            .is_permanent()
        );
        assert!(matches!(error(500, "etcd"), Error::Unavailable(_)));
        assert!(matches!(error(403, "x"), Error::Forbidden(_)));
        assert!(matches!(error(409, ""), Error::Conflict(text) if text == "status 409 "));
    }
}
