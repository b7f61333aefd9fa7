//! Function calls.

use super::super::func::{CallError, Param};
use super::super::host::Host;
use super::super::value::Value;
use super::args::as_argument;
use super::{CurrentNode, ExecFailure, ExecState, Reflected};
use crate::exec::builtins::Builtin;
use crate::syntax::ast::{Identifier, Operand};
use crate::text::quote::quote_go;

impl<'a, C: Host> ExecState<'a, '_, C> {
    /// Calls the function of that name; `at` is where its own error is reported.
    pub(super) fn eval_function(
        &mut self,
        dot: &Reflected,
        identifier: &'a Identifier,
        at: CurrentNode<'a>,
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        let funcs = self.funcs;
        let source = self.source();
        if let Some(func) = identifier
            .index_in(source, funcs)
            .and_then(|index| funcs.by_index(index))
        {
            let from = self.eval_args(dot, func.name, &func.params, func.variadic, args, last)?;
            let args = self.args.get(from..).unwrap_or_default();
            let given = args.iter().map(Value::shallow_size).sum();
            let result = (func.body)(self.host, args);
            self.args.truncate(from);
            return self.returned(result, at, func.name, given);
        }
        let name = source.text(identifier.name);
        match identifier.builtin {
            Some(builtin) => self.eval_builtin(dot, builtin, name, at, args, last),
            None => Err(self.fail(format!("{} is not a defined function", quote_go(name)))),
        }
    }

    /// The result of a call. Nil can only be returned as an interface.
    pub(super) fn returned(
        &mut self,
        result: Result<Value, CallError>,
        at: CurrentNode<'a>,
        name: &str,
        given: usize,
    ) -> Result<Reflected, ExecFailure> {
        match result {
            Ok(value) => {
                self.called(given, &value)?;
                Ok(Reflected {
                    interface: value.is_nil(),
                    value,
                })
            }
            Err(error) => Err(self.call_failed(error, at, name)),
        }
    }

    fn called(&mut self, given: usize, made: &Value) -> Result<(), ExecFailure> {
        self.host
            .called(given, made.shallow_size(), made.fresh_size())
            .map_err(|text| self.fail(text))
    }

    #[cold]
    fn call_failed(&mut self, error: CallError, at: CurrentNode<'a>, name: &str) -> ExecFailure {
        self.at = at;
        let mut failure = self.fail(format!("error calling {name}"));
        failure.cause = Some(error);
        failure
    }

    fn eval_builtin(
        &mut self,
        dot: &Reflected,
        builtin: Builtin,
        name: &str,
        at: CurrentNode<'a>,
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        let arity = builtin.arity();
        self.check_arity(name, arity.fixed, arity.variadic, args.len(), last.is_some())?;
        if matches!(builtin, Builtin::And | Builtin::Or) {
            return self.eval_and_or(dot, builtin == Builtin::Or, args, last);
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        for operand in args {
            // The only built-in parameter with a type is the format of printf.
            values.push(if builtin == Builtin::Printf && values.is_empty() {
                Reflected::concrete(self.eval_arg(dot, Param::String, operand)?)
            } else {
                self.eval_operand(dot, operand)?
            });
        }
        if let Some(last) = last {
            values.push(if builtin == Builtin::Printf && values.is_empty() {
                Reflected::concrete(self.validate(last, Param::String)?)
            } else {
                last
            });
        }
        if builtin.takes_interfaces() {
            for argument in &mut values {
                let value = std::mem::replace(&mut argument.value, Value::Nil);
                argument.value = as_argument(value);
            }
        }
        let given = values.iter().map(|value| value.value.shallow_size()).sum();
        // Each character may become several.
        let widest = if matches!(builtin, Builtin::Html | Builtin::Js | Builtin::Urlquery) {
            4
        } else {
            1
        };
        if builtin.takes_interfaces() && self.host.meter().text(widest * given).is_err() {
            self.host.called(0, 0, 0).map_err(|text| self.fail(text))?;
        }
        let result = builtin
            .call(self.host.meter(), &values)
            .map_err(|text| self.call_failed(CallError::Text(text), at, name))?;
        self.called(given, &result.value)?;
        Ok(result)
    }

    /// `and` and `or` stop at the argument that decides and yield it.
    fn eval_and_or(
        &mut self,
        dot: &Reflected,
        or: bool,
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        let mut value = Reflected::INVALID;
        for operand in args {
            value = self.eval_operand(dot, operand)?;
            if value.value.truth() == or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }
}
