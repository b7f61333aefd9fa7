//! Pipelines, commands and operands.

use super::fields::{FieldAccess, entry_at};
use super::place::{CurrentNode, ExecPlace};
use super::{ExecFailure, ExecState, Reflected};
use crate::host::Host;
use crate::syntax::arena::PartId;
use crate::syntax::ast::{Chain, CommandNode, Operand, Path, Pipe, TextSpan};
use crate::text::number::Constant;
use crate::value::Value;

impl<'a, C: Host> ExecState<'a, '_, C> {
    /// The pipeline's value; an interface is looked through. Variables that it declares are pushed.
    pub(super) fn eval_pipeline(&mut self, dot: &Reflected, pipe: &'a Pipe) -> Result<Reflected, ExecFailure> {
        self.place.node = CurrentNode::Pipe(pipe);
        let mut value = None;
        for command in self.place.source().all(pipe.commands) {
            // The result of a command is the last argument of the next one.
            value = Some(self.eval_command(dot, command, value)?.elem());
        }
        let value = value.unwrap_or(Reflected::INVALID);
        for name in self.place.source().all(pipe.decl.names()) {
            if pipe.decl.is_assign {
                self.vars.assign(&self.place, *name, value.clone())?;
            } else {
                self.vars.declare(self.place.name(*name), value.clone());
            }
        }
        Ok(value)
    }

    /// A pipeline in parentheses.
    fn eval_nested(&mut self, dot: &Reflected, pipe: PartId<Pipe>) -> Result<Reflected, ExecFailure> {
        self.host.enter(&self.place)?;
        let value = self.eval_pipeline(dot, self.place.source().one(pipe))?;
        self.host.leave();
        Ok(value)
    }

    fn eval_command(
        &mut self,
        dot: &Reflected,
        command: &'a CommandNode,
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        let source = self.place.source();
        let Some((first, args)) = source.all(command.operands).split_first() else {
            return Ok(Reflected::INVALID);
        };
        match first {
            Operand::Field(field) => {
                self.place.node = CurrentNode::Operand(first);
                self.eval_chain(dot, dot, first, source.all(field.names), args, last)
            }
            Operand::Chain(chain) => self.eval_chain_operand(dot, first, *chain, args, last),
            Operand::Identifier(identifier) => {
                self.place.node = CurrentNode::Operand(first);
                self.eval_function(dot, identifier, CurrentNode::Command(command), args, last)
            }
            Operand::Variable(variable) => self.eval_variable(dot, first, *variable, args, last),
            Operand::Pipe(pipe) => {
                check_no_args(&self.place, first, args, last.as_ref())?;
                self.eval_nested(dot, *pipe)
            }
            constant => {
                self.place.node = CurrentNode::Operand(constant);
                check_no_args(&self.place, constant, args, last.as_ref())?;
                match constant {
                    Operand::Nil(_) => Err(self.place.fail("nil is not a command")),
                    _ => self.eval_operand(dot, constant),
                }
            }
        }
    }

    /// Evaluates an operand for a parameter of any type.
    pub(super) fn eval_operand(&mut self, dot: &Reflected, operand: &'a Operand) -> Result<Reflected, ExecFailure> {
        self.place.node = CurrentNode::Operand(operand);
        match operand {
            Operand::Dot(_) => Ok(dot.clone()),
            Operand::Nil(_) => Ok(Reflected::INVALID),
            Operand::Field(field) => {
                self.eval_chain(dot, dot, operand, self.place.source().all(field.names), &[], None)
            }
            Operand::Variable(variable) => self.eval_variable(dot, operand, *variable, &[], None),
            Operand::Pipe(pipe) => self.eval_nested(dot, *pipe),
            Operand::Identifier(identifier) => {
                self.eval_function(dot, identifier, CurrentNode::Operand(operand), &[], None)
            }
            Operand::Chain(chain) => self.eval_chain_operand(dot, operand, *chain, &[], None),
            Operand::Bool(_, value) => Ok(Reflected::concrete(Value::Bool(*value))),
            Operand::String(_, text) => Ok(Reflected::concrete(Value::String(
                self.place.source().one(*text).clone(),
            ))),
            Operand::Number(_, number) => Ok(Reflected::concrete(match self.place.source().one(*number) {
                Constant {
                    int: Some(n),
                    is_float: false,
                    ..
                } => Value::Int(*n),
                Constant { float, .. } => Value::Float64(*float),
            })),
        }
    }

    fn eval_variable(
        &mut self,
        dot: &Reflected,
        operand: &'a Operand,
        variable: Path,
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        self.place.node = CurrentNode::Operand(operand);
        let Some((name, fields)) = self.place.source().all(variable.names).split_first() else {
            return Ok(Reflected::INVALID);
        };
        let value = self.vars.get(&self.place, *name)?;
        let Some((final_name, names)) = fields.split_last() else {
            let value = value.clone();
            check_no_args(&self.place, operand, args, last.as_ref())?;
            return Ok(value);
        };
        if args.is_empty()
            && last.is_none()
            && let Some(found) = entry_at(self.place.source(), &value.value, *final_name, names)
        {
            return Ok(found);
        }
        let value = value.clone();
        self.eval_chain(dot, &value, operand, fields, args, last)
    }

    fn eval_chain_operand(
        &mut self,
        dot: &Reflected,
        operand: &'a Operand,
        chain: PartId<Chain>,
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        self.place.node = CurrentNode::Operand(operand);
        let chain = self.place.source().one(chain);
        let receiver = self.eval_operand(dot, &chain.operand)?;
        self.eval_chain(
            dot,
            &receiver,
            operand,
            self.place.source().all(chain.fields),
            args,
            last,
        )
    }

    /// `.a.b.c` from `receiver` on. Only the last name is given the arguments.
    fn eval_chain(
        &mut self,
        dot: &Reflected,
        receiver: &Reflected,
        operand: &'a Operand,
        names: &'a [TextSpan],
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        let Some((&final_name, names)) = names.split_last() else {
            return Ok(receiver.clone());
        };
        if args.is_empty()
            && last.is_none()
            && let Some(found) = entry_at(self.place.source(), &receiver.value, final_name, names)
        {
            return Ok(found);
        }
        let mut step;
        let mut receiver = receiver;
        let following = names.iter().skip(1).chain([&final_name]);
        for (&name, &next) in names.iter().zip(following) {
            let access = FieldAccess {
                dot,
                name: self.place.source().text(name),
                operand,
                args: &[],
                last: None,
                next: Some(next),
            };
            step = access.evaluate(self, receiver)?;
            receiver = &step;
        }
        let access = FieldAccess {
            dot,
            name: self.place.source().text(final_name),
            operand,
            args,
            last,
            next: None,
        };
        access.evaluate(self, receiver)
    }
}

/// Checks that no arguments are given to what is no function.
#[inline]
fn check_no_args(
    place: &ExecPlace<'_>,
    first: &Operand,
    args: &[Operand],
    last: Option<&Reflected>,
) -> Result<(), ExecFailure> {
    if args.is_empty() && last.is_none() {
        return Ok(());
    }
    let source = first.normal(place.source());
    Err(place.fail(format!("can't give argument to non-function {source}")))
}
