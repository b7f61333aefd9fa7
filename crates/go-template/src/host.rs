//! The interface between the evaluator and its caller's context: limits, options, methods of named types.

use super::func::CallError;
use super::meter::Meter;
use super::value::Value;

/// The behaviour of `.field` on a map without that key: Go's option `missingkey`. It applies to maps only; a missing
/// struct field is always an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissingKey {
    /// `missingkey=default`: no value, which prints as `<no value>`.
    Invalid,
    /// `missingkey=zero`: the zero value of the map's element type.
    #[default]
    Zero,
    /// `missingkey=error`: execution stops.
    Error,
}

/// The context of an execution. Everything but [`Host::meter`] has a default.
pub trait Host {
    /// Counts memory and depth, for the evaluator and for functions.
    fn meter(&self) -> &Meter;

    /// The maximum nesting depth. Beyond it, the execution fails with Go's text for runaway recursion. A level takes up
    /// to 1 KiB of native stack in a release build and up to 2 KiB in a debug build, without what functions add.
    fn max_depth(&self) -> usize {
        500
    }

    /// Called for every node and every iteration; an error ends the execution with that text. A host counts steps here.
    fn step(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Called after every call of a function or method with the size of its arguments and of its result, in bytes and
    /// without their parts, and with the size of the result if nothing else holds it; an error's text ends the
    /// execution. An implementation must call [`Meter::take_overrun`].
    fn called(&mut self, _given: usize, _made: usize, _fresh: u64) -> Result<(), String> {
        self.meter()
            .take_overrun()
            .map_or(Ok(()), |overrun| Err(overrun.into()))
    }

    /// Called after output was written with the length of the whole buffer so far, and by how much it has grown; an
    /// error's text ends the execution.
    fn output(&mut self, _bytes: usize, _added: usize) -> Result<(), String> {
        Ok(())
    }

    /// The option `missingkey`.
    fn missing_key(&self) -> MissingKey {
        MissingKey::Zero
    }

    /// Calls a method of a type that the host has [named](super::value::Named), with arguments that fit its parameters.
    fn call_method(&mut self, _receiver: &Value, _name: &str, _args: &[Value]) -> Result<Value, CallError> {
        Ok(Value::Nil)
    }
}

/// A host whose only limit is the depth, for trusted templates.
#[derive(Debug, Default)]
pub struct Plain {
    meter: Meter,
}

impl Host for Plain {
    fn meter(&self) -> &Meter {
        &self.meter
    }
}
