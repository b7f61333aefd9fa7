//! What a stage returns: a value, or the phase in which the reconcile ends.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::cluster::error::Error;
use crate::reconcile::values::error::ValuesError;
use api_objects::Unreadable;
use chartwright_core::grants::Refused;
use chartwright_core::status::Phase;
use chartwright_watches::cel::CelError;

/// `Continue` with what a stage decided, or `Break` with the phase that the status reports.
pub(crate) type Flow<T = ()> = ControlFlow<Phase, T>;

/// An error that can stop the pipeline.
pub(crate) trait StageError {
    /// The wait that the API server requested before a retry.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// Ends the pipeline at an error.
pub(crate) trait OrStop<T, E> {
    /// Continues with the value. Stops with the phase that an error means, and with the wait that the API server requested.
    fn or_stop(self, phase: impl FnOnce(E) -> Phase) -> Flow<T>;
}

impl StageError for Error {
    fn retry_after(&self) -> Option<Duration> {
        Error::retry_after(self)
    }
}

impl<K> StageError for (K, Error) {
    fn retry_after(&self) -> Option<Duration> {
        self.1.retry_after()
    }
}

impl StageError for ValuesError {}
impl StageError for Refused {}
impl StageError for CelError {}
impl StageError for Unreadable {}
impl StageError for serde_json::Error {}
/// Why a chart cannot be loaded.
impl StageError for &String {}

impl<T, E: StageError> OrStop<T, E> for Result<T, E> {
    fn or_stop(self, phase: impl FnOnce(E) -> Phase) -> Flow<T> {
        match self {
            Ok(value) => ControlFlow::Continue(value),
            Err(error) => {
                let requested = error.retry_after();
                ControlFlow::Break(phase(error).not_before(requested))
            }
        }
    }
}
