//! Requests in annotations of a custom resource. Each new annotation value is carried out once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::annotations::{Annotations, FORCE_AT, REGENERATE, REQUESTED_AT, RESET_AT, ROLLBACK_TO, RUN_PLAN};
use crate::status::fields::Status;

/// A request by a new text in an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// A complete reconcile, although nothing changed.
    Reconcile,
    /// Every member is applied once, and recreated if immutable fields changed.
    Force,
    /// Failures and contests are forgotten.
    Reset,
    /// All random results are regenerated.
    Regenerate,
    /// An earlier revision runs until the spec changes.
    Rollback,
    /// A plan runs.
    Plan,
}

/// The requests that were carried out last, each by its text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handled(BTreeMap<Request, String>);
impl Request {
    pub const ALL: [Request; 6] = [
        Request::Regenerate,
        Request::Reconcile,
        Request::Force,
        Request::Reset,
        Request::Rollback,
        Request::Plan,
    ];

    fn annotation(self) -> &'static str {
        match self {
            Request::Reconcile => REQUESTED_AT,
            Request::Force => FORCE_AT,
            Request::Reset => RESET_AT,
            Request::Regenerate => REGENERATE,
            Request::Rollback => ROLLBACK_TO,
            Request::Plan => RUN_PLAN,
        }
    }
}
impl Handled {
    /// The text of a request that is not carried out yet. An empty one requests nothing.
    pub fn pending<'a>(&self, request: Request, annotations: &'a Annotations) -> Option<&'a str> {
        let text = annotations.get(request.annotation()).filter(|text| !text.is_empty())?;
        (self.0.get(&request) != Some(text)).then_some(text)
    }

    /// The text of the request of that kind that was carried out last.
    pub fn last(&self, request: Request) -> Option<&str> {
        self.0.get(&request).map(String::as_str)
    }

    /// A request is carried out.
    pub fn set(&mut self, request: Request, text: &str) {
        self.0.insert(request, text.to_owned());
    }

    /// Takes the requests out of a status.
    pub(crate) fn take_from(status: &mut Status) -> Self {
        let text = |request: Request| Some((request, status.last_handled(request).take()?));
        Handled(Request::ALL.into_iter().filter_map(text).collect())
    }

    /// Writes the requests into a status.
    pub(crate) fn write_into(&self, status: &mut Status) {
        for (request, text) in self.0.iter().filter(|(_, text)| !text.is_empty()) {
            *status.last_handled(*request) = Some(text.clone());
        }
    }
}
