//! The host of an execution, to which levels, steps, calls and output are reported.

use super::ExecFailure;
use super::place::ExecPlace;
use crate::host::Host;
use crate::meter::Meter;
use crate::text::format;
use crate::value::Value;

/// A host with the output of an execution. An error that the host returns is reported at the given place.
pub(super) struct MeteredHost<'c, C> {
    pub(super) context: &'c mut C,
    out: &'c mut Vec<u8>,
    /// The length of `out` that was reported to the host.
    counted: usize,
}

impl<'c, C: Host> MeteredHost<'c, C> {
    pub(super) fn new(context: &'c mut C, out: &'c mut Vec<u8>) -> Self {
        MeteredHost {
            context,
            counted: out.len(),
            out,
        }
    }

    pub(super) fn meter(&self) -> &Meter {
        self.context.meter()
    }

    /// Opens one more level of native recursion.
    pub(super) fn enter(&self, place: &ExecPlace<'_>) -> Result<(), ExecFailure> {
        let max = self.context.max_depth();
        let meter = self.meter();
        if meter.depth() >= max {
            return Err(place.fail("exceeded maximum template depth (100000)"));
        }
        meter.set_depth(meter.depth() + 1);
        Ok(())
    }

    /// Closes a level.
    pub(super) fn leave(&self) {
        let meter = self.meter();
        meter.set_depth(meter.depth().saturating_sub(1));
    }

    /// Reports a node or an iteration.
    pub(super) fn step(&mut self, place: &ExecPlace<'_>) -> Result<(), ExecFailure> {
        self.context.step().map_err(|text| place.fail(text))
    }

    /// Reports a call with the size of its arguments and with its result.
    pub(super) fn called(&mut self, place: &ExecPlace<'_>, given: usize, made: &Value) -> Result<(), ExecFailure> {
        self.context
            .called(given, made.shallow_size(), made.fresh_size())
            .map_err(|text| place.fail(text))
    }

    /// Reports what the meter found besides calls.
    pub(super) fn check_overrun(&mut self, place: &ExecPlace<'_>) -> Result<(), ExecFailure> {
        self.context.called(0, 0, 0).map_err(|text| place.fail(text))
    }

    /// Prints a part of the source.
    pub(super) fn copy(&mut self, place: &ExecPlace<'_>, text: &[u8]) -> Result<(), ExecFailure> {
        self.out.extend_from_slice(text);
        self.written(place)
    }

    /// Prints a value.
    pub(super) fn print(&mut self, place: &ExecPlace<'_>, value: &Value) -> Result<(), ExecFailure> {
        match value {
            Value::Nil => self.out.extend_from_slice(b"<no value>"),
            value @ (Value::List(_) | Value::Map(_) | Value::Object(_)) => {
                format::print_into(self.context.meter(), value, self.out);
                self.check_overrun(place)?;
            }
            value => format::display_into(self.context.meter(), value, self.out),
        }
        self.written(place)
    }

    fn written(&mut self, place: &ExecPlace<'_>) -> Result<(), ExecFailure> {
        let added = self.out.len().saturating_sub(self.counted);
        self.counted = self.out.len();
        self.context
            .output(self.counted, added)
            .map_err(|text| place.fail(text))
    }
}
