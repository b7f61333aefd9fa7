//! What the evaluator asks of the context that a caller hands it: limits, options, methods of named types.

use super::func::CallError;
use super::meter::Meter;
use super::value::Value;

/// What a map lookup by `.field` does when the key is missing: Go's option `missingkey`. Only maps are asked;
/// a missing struct field is always an error.
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
    /// What is made is counted here, by the evaluator and by functions, as is the depth.
    fn meter(&self) -> &Meter;

    /// How many levels may be open. Beyond, execution fails with Go's text for runaway recursion. A level takes up to
    /// 1 KiB of native stack in a release build and up to 2 KiB in a debug build, without what functions add.
    fn max_depth(&self) -> usize {
        500
    }

    /// Called for every node and every iteration; an error's text ends the execution. This is where fuel burns.
    fn step(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Called after every call of a function or method with the size of its arguments and of its result, in bytes and
    /// without their parts, and with the size of the result if nothing else holds it; an error's text ends the execution. Whoever overrides it asks [`Meter::take_overrun`].
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

/// A host without limits other than depth, for templates that are our own.
#[derive(Debug, Default)]
pub struct Plain {
    meter: Meter,
}

impl Host for Plain {
    fn meter(&self) -> &Meter {
        &self.meter
    }
}
