//! What a stage returns: a value, or the phase in which the reconcile ends.

use std::ops::ControlFlow;

use chartwright_core::status::Phase;

/// `Continue` with what a stage decided, or `Break` with the phase that the status reports.
pub(crate) type Flow<T = ()> = ControlFlow<Phase, T>;

/// Ends the pipeline at an error.
pub(crate) trait OrStop<T, E> {
    /// Continues with the value. Stops with the phase that an error means.
    fn or_stop(self, phase: impl FnOnce(E) -> Phase) -> Flow<T>;
}

impl<T, E> OrStop<T, E> for Result<T, E> {
    fn or_stop(self, phase: impl FnOnce(E) -> Phase) -> Flow<T> {
        match self {
            Ok(value) => ControlFlow::Continue(value),
            Err(error) => ControlFlow::Break(phase(error)),
        }
    }
}
