//! Why a release has no values or no name.

use api_objects::Unreadable;

use chartwright_core::grants;
use chartwright_core::status::{Phase, Reason};

/// Why a release has no values or no name.
#[derive(Debug, thiserror::Error)]
pub enum ValuesError {
    #[error(".spec must be a mapping: it is the values of the chart")]
    SpecIsNoMapping,
    #[error(".spec {0}")]
    SpecIsUnreadable(#[from] Unreadable),
    #[error("{0}")]
    Source(String),
    #[error("overrideValues: {key}: {message}")]
    Override { key: String, message: String },
    #[error("targetNamespace {template:?}: {message}")]
    TargetNamespace { template: String, message: String },
    #[error("serviceAccountName {template:?}: {message}")]
    ServiceAccount { template: String, message: String },
    #[error("releaseName {template:?}: {message}")]
    ReleaseName { template: String, message: String },
    #[error(
        "the release of this custom resource is called {recorded:?}, and a release keeps its name: `releaseName` of the watch now makes \
         {now:?}. Change back what the template reads, or delete the custom resource and create it again"
    )]
    ReleaseRenamed { recorded: String, now: String },
    #[error(
        "a cluster-scoped custom resource has no namespace of its own: give the watch a `targetNamespace`, \
         for example targetNamespace: \"x-{{{{ .metadata.name }}}}\""
    )]
    NoNamespace,
    #[error(transparent)]
    Refused(#[from] grants::Refused),
}

/// As the conditions say it.
impl From<ValuesError> for Phase {
    fn from(error: ValuesError) -> Self {
        let reason = match error {
            ValuesError::Refused(_) => Reason::Refused,
            _ => Reason::ValuesInvalid,
        };
        Phase::stalled(reason, error.to_string())
    }
}
