//! Hints in error messages: which rights are missing, and what a person can do about a refused write.

use crate::cluster::error::Error;

/// Returns the hint about missing rights if a request was forbidden.
pub(crate) fn rights(error: &Error, rights: &str) -> String {
    match error {
        Error::Forbidden(_) => format!("; {rights}"),
        _ => String::new(),
    }
}

/// What a person can do about a write on the custom resource that the API server refuses; `None` if it may pass.
pub(crate) fn refusal(error: &Error) -> Option<&'static str> {
    match error {
        Error::Forbidden(_) => {
            Some("; the operator needs the rights to get and patch the custom resources, and to patch their status")
        }
        Error::TooLarge(_) => Some("; the custom resource is too large to have anything added: make it smaller"),
        Error::Unprocessable { .. } => Some(
            "; the custom resource doesn't fit the schema of its CustomResourceDefinition: one of them has to be corrected",
        ),
        _ => None,
    }
}
