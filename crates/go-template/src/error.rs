//! Errors of parsing and executing. They are structured, so that a caller can write its own message; `Display` is Go's
//! text.

use std::fmt;

use super::meter::Overrun;
use crate::text::quote::quote_go;

/// A template that does not parse. Displays as Go's `template: NAME:LINE: MESSAGE`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template: {name}:{line}: {message}")]
pub struct ParseError {
    /// The name under which the text was parsed: for a file, its path.
    pub name: String,
    /// The line of the last token that the parser read, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// The place where an execution stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionPlace {
    /// The name under which the text was parsed: for a file, its path.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// In bytes, counted from 0, as Go does.
    pub column: usize,
    /// The name of the executing template: a `define`'s name, or the file's.
    pub executing: String,
    /// The node's source in Go's normal form, such as `include "x" .`.
    pub node: String,
}

/// A failed execution. Displays as Go's one line:
/// `template: FILE:LINE:COLUMN: executing "NAME" at <NODE>: MESSAGE: CAUSE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecError {
    /// `None` if no template ran: the named one does not exist.
    pub place: Option<ExecutionPlace>,
    /// The message; `error calling NAME` if a function failed.
    pub message: String,
    /// The function's own error.
    pub cause: Option<CallError>,
}

/// Why a call failed: the error that the Go function returned or panicked with. The evaluator puts `error calling NAME`
/// before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The function's own text.
    Text(String),
    /// An error in a template that the function executed, with its own position.
    Exec(Box<ExecError>),
    /// An error in a template, with a text before it: `PREFIX: ERROR`.
    Wrapped {
        /// The text before the colon.
        prefix: String,
        /// The wrapped error.
        error: Box<ExecError>,
    },
}

impl ExecError {
    /// The error for a name that no template of the set has; `root` is the set's own name.
    pub fn no_template(name: &str, root: &str) -> Self {
        let message = format!(
            "no template {} associated with template {}",
            quote_go(name),
            quote_go(root)
        );
        ExecError {
            place: None,
            message,
            cause: None,
        }
    }

    /// The error of the template that a failed function executed, if that is the cause.
    pub fn inner(&self) -> Option<&ExecError> {
        match &self.cause {
            Some(CallError::Exec(error) | CallError::Wrapped { error, .. }) => Some(error),
            Some(CallError::Text(_)) | None => None,
        }
    }
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("template: ")?;
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ExecError {}

impl fmt::Display for ExecutionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let executing = quote_go(&self.executing);
        write!(
            f,
            "{}:{}:{}: executing {executing} at <{}>",
            self.file, self.line, self.column, self.node
        )
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Text(text) => f.write_str(text),
            CallError::Exec(error) => error.fmt(f),
            CallError::Wrapped { prefix, error } => write!(f, "{prefix}: {error}"),
        }
    }
}

impl From<String> for CallError {
    fn from(text: String) -> Self {
        CallError::Text(text)
    }
}

impl From<&str> for CallError {
    fn from(text: &str) -> Self {
        CallError::Text(text.to_owned())
    }
}

impl From<Overrun> for CallError {
    fn from(overrun: Overrun) -> Self {
        CallError::Text(overrun.to_string())
    }
}

impl From<Box<ExecError>> for CallError {
    fn from(error: Box<ExecError>) -> Self {
        CallError::Exec(error)
    }
}
