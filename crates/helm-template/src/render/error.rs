//! Why a chart can't be rendered.

use std::collections::BTreeMap;
use std::fmt;

use super::HookManifest;
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
    /// A `values.schema.json` is not a valid schema, or refers to a file that is not in its chart. Helm's message is
    /// the same.
    #[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{0}")]
    SchemaInvalid(String),
    /// The values enable a dependency that is not in `charts/`. Helm's message is the same.
    #[error(transparent)]
    Incomplete(chart::Error),
    /// The chart requires another Kubernetes version.
    #[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {cluster}")]
    KubeVersion { wanted: String, cluster: String },
    /// A template doesn't parse.
    #[error("{text}")]
    Parse { place: TemplatePlace, text: String },
    /// A template failed.
    #[error("{text}")]
    Execution {
        /// The file that was being rendered.
        template: String,
        /// The innermost place: where a template that this file includes failed.
        place: Option<TemplatePlace>,
        text: String,
    },
    /// A render exceeded a limit.
    #[error("rendering {template} went over {limit}{}", .place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default())]
    Limit {
        template: String,
        limit: Limit,
        place: Option<TemplatePlace>,
    },
    /// A rendered document isn't YAML.
    #[error("{0}")]
    Manifest(Box<BadManifest>),
    /// The render failed while lookups had no answer. It may succeed once they are answered.
    #[error("{error}")]
    Unanswered { missing: Vec<LookupKey>, error: Box<Error> },
}

/// A place in a template. Displays as `FILE:LINE:COLUMN`, as the texts of errors have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplatePlace {
    /// The template's path, as [`Chart::template`](crate::Chart::template) takes it.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// In bytes from 0 as Go has it, for Handlebars in characters from 1. `None` where Go knows the line only.
    pub column: Option<usize>,
}

/// A document that isn't YAML, and what Helm shows of its render with `--debug`.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct BadManifest {
    /// The text, with the template's name.
    pub text: String,
    /// All rendered files by name.
    pub files: BTreeMap<String, String>,
    /// The hooks in the files before the one that failed.
    pub hooks: Vec<HookManifest>,
}

impl Error {
    /// Wraps the error if lookups were missing.
    pub(super) fn unanswered(self, missing: &[LookupKey]) -> Self {
        match missing {
            [] => self,
            missing => Error::Unanswered {
                missing: missing.to_vec(),
                error: Box::new(self),
            },
        }
    }

    /// The place in a template, if it is known.
    pub fn place(&self) -> Option<&TemplatePlace> {
        match self {
            Error::Parse { place, .. } => Some(place),
            Error::Execution { place, .. } | Error::Limit { place, .. } => place.as_ref(),
            Error::Unanswered { error, .. } => error.place(),
            Error::Values(_)
            | Error::Schema(_)
            | Error::SchemaInvalid(_)
            | Error::Incomplete(_)
            | Error::KubeVersion { .. }
            | Error::Manifest(_) => None,
        }
    }

    /// Whether one of the limits was the cause, not the chart.
    pub fn is_limit(&self) -> bool {
        matches!(self, Error::Limit { .. })
    }

    /// Whether the memory limit was the cause.
    pub fn is_of_memory(&self) -> bool {
        matches!(
            self,
            Error::Limit {
                limit: Limit::Memory(_) | Limit::Output(_),
                ..
            }
        )
    }

    /// Whether a render with more memory, or time, could succeed.
    pub fn is_of_resources(&self) -> bool {
        self.is_of_memory()
            || matches!(
                self,
                Error::Limit {
                    limit: Limit::Time(_),
                    ..
                }
            )
    }

    /// Whether the cause is in the chart's files, not in its templates or in the values.
    pub fn is_about_chart(&self) -> bool {
        matches!(self, Error::SchemaInvalid(_) | Error::Incomplete(_))
    }

    /// Whether other values could help. If not, the chart's own templates are the cause, and Helm's command line adds a
    /// hint about `--debug`.
    pub fn is_about_values(&self) -> bool {
        matches!(self, Error::Values(_) | Error::Schema(_))
    }
}

impl fmt::Display for TemplatePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        self.column.map_or(Ok(()), |column| write!(f, ":{column}"))
    }
}

impl From<&go_template::ExecutionPlace> for TemplatePlace {
    fn from(place: &go_template::ExecutionPlace) -> Self {
        TemplatePlace {
            file: place.file.clone(),
            line: place.line,
            column: Some(place.column),
        }
    }
}
