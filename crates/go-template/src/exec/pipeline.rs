//! Pipelines, commands and the operands that commands start with.

use super::super::host::Host;
use super::{CurrentNode, ExecFailure, ExecState, Reflected};
use crate::syntax::arena::PartId;
use crate::syntax::ast::{Chain, Command, Operand, Path, Pipe};

impl<'a, C: Host> ExecState<'a, '_, C> {
    /// The pipeline's value; an interface is looked through. Variables that it declares are pushed.
    pub(super) fn eval_pipeline(&mut self, dot: &Reflected, pipe: &'a Pipe) -> Result<Reflected, ExecFailure> {
        self.at = CurrentNode::Pipe(pipe);
        let mut value = None;
        for command in self.source().all(pipe.commands) {
            // The result of a command is the last argument of the next one.
            value = Some(self.eval_command(dot, command, value)?.elem());
        }
        let value = value.unwrap_or(Reflected::INVALID);
        for name in self.source().all(pipe.decl.names()) {
            if pipe.decl.is_assign {
                self.set_var(*name, value.clone())?;
            } else {
                self.vars.push((self.name(*name), value.clone()));
            }
        }
        Ok(value)
    }

    /// A pipeline in parentheses.
    pub(super) fn eval_nested(&mut self, dot: &Reflected, pipe: PartId<Pipe>) -> Result<Reflected, ExecFailure> {
        self.enter()?;
        let value = self.eval_pipeline(dot, self.source().one(pipe))?;
        self.leave();
        Ok(value)
    }

    fn eval_command(
        &mut self,
        dot: &Reflected,
        command: &'a Command,
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        let source = self.source();
        let Some((first, args)) = source.all(command.operands).split_first() else {
            return Ok(Reflected::INVALID);
        };
        match first {
            Operand::Field(field) => {
                self.at = CurrentNode::Operand(first);
                self.eval_chain(dot, dot, first, source.all(field.names), args, last)
            }
            Operand::Chain(chain) => self.eval_chain_operand(dot, first, *chain, args, last),
            Operand::Identifier(identifier) => {
                self.at = CurrentNode::Operand(first);
                self.eval_function(dot, identifier, CurrentNode::Command(command), args, last)
            }
            Operand::Variable(variable) => self.eval_variable(dot, first, *variable, args, last),
            Operand::Pipe(pipe) => {
                self.not_a_function(first, args, last.as_ref())?;
                self.eval_nested(dot, *pipe)
            }
            constant => {
                self.at = CurrentNode::Operand(constant);
                self.not_a_function(constant, args, last.as_ref())?;
                match constant {
                    Operand::Nil(_) => Err(self.fail("nil is not a command")),
                    _ => self.eval_operand(dot, constant),
                }
            }
        }
    }

    fn not_a_function(&self, first: &Operand, args: &[Operand], last: Option<&Reflected>) -> Result<(), ExecFailure> {
        if args.is_empty() && last.is_none() {
            return Ok(());
        }
        let source = first.normal(self.source());
        Err(self.fail(format!("can't give argument to non-function {source}")))
    }

    pub(super) fn eval_variable(
        &mut self,
        dot: &Reflected,
        operand: &'a Operand,
        variable: Path,
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        self.at = CurrentNode::Operand(operand);
        let Some((name, fields)) = self.source().all(variable.names).split_first() else {
            return Ok(Reflected::INVALID);
        };
        let value = self.var(*name)?;
        let Some((final_name, names)) = fields.split_last() else {
            let value = value.clone();
            self.not_a_function(operand, args, last.as_ref())?;
            return Ok(value);
        };
        if args.is_empty()
            && last.is_none()
            && let Some(found) = self.entry_at(&value.value, *final_name, names)
        {
            return Ok(found);
        }
        let value = value.clone();
        self.eval_chain(dot, &value, operand, fields, args, last)
    }

    pub(super) fn eval_chain_operand(
        &mut self,
        dot: &Reflected,
        operand: &'a Operand,
        chain: PartId<Chain>,
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        self.at = CurrentNode::Operand(operand);
        let chain = self.source().one(chain);
        let receiver = self.eval_operand(dot, &chain.operand)?;
        self.eval_chain(dot, &receiver, operand, self.source().all(chain.fields), args, last)
    }
}
