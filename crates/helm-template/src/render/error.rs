//! Why a chart can't be rendered.

use std::collections::BTreeMap;

use super::Hook;
use crate::chart;
use crate::helm::{Limit, LookupKey};

/// The text is what Helm prints after `Error: `, without the hint about `--debug`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The chart can't be released, or the values don't fit its structure.
    #[error(transparent)]
    Values(#[from] chart::Error),
    /// The values don't fit `values.schema.json`.
    #[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{0}")]
    Schema(String),
    /// The chart asks for another Kubernetes version.
    #[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {cluster}")]
    KubeVersion { wanted: String, cluster: String },
    /// A template doesn't parse; the text has file and line.
    #[error("{0}")]
    Parse(String),
    /// A template failed; the text has file, line and column.
    #[error("{text}")]
    Execution {
        /// The file that was being rendered.
        template: String,
        text: String,
    },
    /// A render took more than it may.
    #[error("rendering {template} went over {limit}{at}")]
    Limit {
        template: String,
        limit: Limit,
        /// ` at FILE:LINE:COLUMN`, where that is known.
        at: String,
    },
    /// A rendered document isn't YAML.
    #[error("{0}")]
    Manifest(Box<BadManifest>),
    /// It failed while lookups had no answer: with these answered, it may not fail.
    #[error("{error}")]
    Unanswered { missing: Vec<LookupKey>, error: Box<Error> },
}

/// A document that isn't YAML, and what Helm shows of its render with `--debug`.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct BadManifest {
    /// The text, with the template's name.
    pub text: String,
    /// All rendered files by name; [`super::bytes::of_text`] tells their bytes.
    pub files: BTreeMap<String, String>,
    /// The hooks in the files before the one that failed.
    pub hooks: Vec<Hook>,
}

impl Error {
    /// The same, if lookups were missing.
    pub(super) fn unanswered(self, missing: &[LookupKey]) -> Self {
        match missing {
            [] => self,
            missing => Error::Unanswered {
                missing: missing.to_vec(),
                error: Box::new(self),
            },
        }
    }

    /// Whether a limit of ours was the cause, not the chart as such.
    pub fn is_limit(&self) -> bool {
        matches!(self, Error::Limit { .. })
    }

    /// Whether there was too little memory for it.
    pub fn is_of_memory(&self) -> bool {
        matches!(
            self,
            Error::Limit {
                limit: Limit::Memory(_) | Limit::Output(_),
                ..
            }
        )
    }

    /// Whether it came from rendering itself: there Helm's command line adds a hint about `--debug`.
    pub fn is_rendering(&self) -> bool {
        !matches!(self, Error::Values(_) | Error::Schema(_))
    }

    /// Whether other values could help: the chart's own templates are not at fault.
    pub fn is_about_values(&self) -> bool {
        matches!(self, Error::Values(_) | Error::Schema(_))
    }
}
