//! Function calls and the evaluation of their arguments.

use super::args::{as_argument, check_arity, eval_literal, nil_of, validate};
use super::place::CurrentNode;
use super::{ExecFailure, ExecState, Reflected};
use crate::exec::builtins::Builtin;
use crate::func::{CallError, Param};
use crate::host::Host;
use crate::syntax::ast::{Identifier, Operand};
use crate::text::quote::quote_go;
use crate::value::Value;

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
        let source = self.place.source();
        if let Some(func) = identifier
            .index_in(source, funcs)
            .and_then(|index| funcs.by_index(index))
        {
            let from = self.eval_args(dot, func.name, &func.params, func.variadic, args, last)?;
            let args = self.args.get(from..).unwrap_or_default();
            let given = args.iter().map(Value::shallow_size).sum();
            let result = (func.body)(self.host.context, args);
            self.args.truncate(from);
            return self.returned(result, at, func.name, given);
        }
        let name = source.text(identifier.name);
        match identifier.builtin {
            Some(builtin) => self.eval_builtin(dot, builtin, name, at, args, last),
            None => Err(self.place.fail(format!("{} is not a defined function", quote_go(name)))),
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
                self.host.called(&self.place, given, &value)?;
                Ok(Reflected {
                    interface: value.is_nil(),
                    value,
                })
            }
            Err(error) => Err(self.call_failed(error, at, name)),
        }
    }

    #[cold]
    fn call_failed(&mut self, error: CallError, at: CurrentNode<'a>, name: &str) -> ExecFailure {
        self.place.node = at;
        let mut failure = self.place.fail(format!("error calling {name}"));
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
        check_arity(
            &self.place,
            name,
            arity.fixed,
            arity.variadic,
            args.len(),
            last.is_some(),
        )?;
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
                Reflected::concrete(validate(&self.place, last, Param::String)?)
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
            self.host.check_overrun(&self.place)?;
        }
        let result = builtin
            .call(self.host.meter(), &values)
            .map_err(|text| self.call_failed(CallError::Text(text), at, name))?;
        self.host.called(&self.place, given, &result.value)?;
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

    /// Pushes all arguments of a call, the piped one last, onto the stack of arguments. Where they start.
    pub(super) fn eval_args(
        &mut self,
        dot: &Reflected,
        name: &str,
        params: &[Param],
        variadic: Option<Param>,
        operands: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<usize, ExecFailure> {
        check_arity(
            &self.place,
            name,
            params.len(),
            variadic.is_some(),
            operands.len(),
            last.is_some(),
        )?;
        // The number of arguments fits, so there is a parameter for each.
        let param = |i: usize| params.get(i).copied().or(variadic).unwrap_or(Param::Any);
        let from = self.args.len();
        for (i, operand) in operands.iter().enumerate() {
            let value = self.eval_arg(dot, param(i), operand)?;
            self.args.push(value);
        }
        if let Some(last) = last {
            let value = validate(&self.place, last, param(operands.len()))?;
            self.args.push(value);
        }
        Ok(from)
    }

    /// An operand for a parameter of that type.
    fn eval_arg(&mut self, dot: &Reflected, param: Param, operand: &'a Operand) -> Result<Value, ExecFailure> {
        match operand {
            Operand::Nil(_) => {
                self.place.node = CurrentNode::Operand(operand);
                nil_of(param).ok_or_else(|| self.place.fail(format!("cannot assign nil to {}", param.type_name())))
            }
            Operand::Bool(..) | Operand::String(..) | Operand::Number(..) if param != Param::Any => {
                self.place.node = CurrentNode::Operand(operand);
                eval_literal(&self.place, param, operand)
            }
            operand => {
                let value = self.eval_operand(dot, operand)?;
                validate(&self.place, value, param)
            }
        }
    }
}
