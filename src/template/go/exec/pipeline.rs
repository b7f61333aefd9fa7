//! Pipelines, commands and the operands that commands start with.

use std::rc::Rc;

use super::super::ast::{Chain, Command, Number, Operand, Pipe, Variable};
use super::super::complex::Complex;
use super::super::host::Host;
use super::super::number::Ideal;
use super::super::value::Value;
use super::{At, Failure, Reflected, State};

impl<'a, C: Host> State<'a, '_, C> {
    /// The pipeline's value; an interface is looked through. Variables that it declares are pushed.
    pub(super) fn eval_pipeline(&mut self, dot: &Reflected, pipe: &'a Pipe) -> Result<Reflected, Failure> {
        self.at = At::Pipe(pipe);
        let mut value = None;
        for command in &pipe.commands {
            // What a command yields is the next one's last argument.
            value = Some(self.eval_command(dot, command, value)?.elem());
        }
        let value = value.unwrap_or(Reflected::INVALID);
        for variable in &pipe.decl {
            if pipe.is_assign {
                self.set_var(variable.name, value.clone())?;
            } else {
                self.vars.push((self.name(variable.name), value.clone()));
            }
        }
        Ok(value)
    }

    /// A pipeline in parentheses.
    pub(super) fn eval_nested(&mut self, dot: &Reflected, pipe: &'a Pipe) -> Result<Reflected, Failure> {
        self.enter()?;
        let value = self.eval_pipeline(dot, pipe)?;
        self.leave();
        Ok(value)
    }

    fn eval_command(
        &mut self,
        dot: &Reflected,
        command: &'a Command,
        last: Option<Reflected>,
    ) -> Result<Reflected, Failure> {
        let first = &command.first;
        let args = &command.args;
        match first {
            Operand::Field(field) => {
                self.at = At::Operand(first);
                self.eval_chain(dot, dot, first, &field.names, args, last)
            }
            Operand::Chain(chain) => self.eval_chain_operand(dot, first, chain, args, last),
            Operand::Identifier(identifier) => {
                self.at = At::Operand(first);
                self.eval_function(dot, identifier, At::Command(command), args, last)
            }
            Operand::Variable(variable) => self.eval_variable(dot, first, variable, args, last),
            Operand::Pipe(pipe) => {
                self.not_a_function(first, args, last.as_ref())?;
                self.eval_nested(dot, pipe)
            }
            constant => {
                self.at = At::Operand(constant);
                self.not_a_function(constant, args, last.as_ref())?;
                self.eval_constant(dot, constant)
            }
        }
    }

    fn not_a_function(&self, first: &Operand, args: &[Operand], last: Option<&Reflected>) -> Result<(), Failure> {
        if args.is_empty() && last.is_none() {
            return Ok(());
        }
        let mut source = String::new();
        first.write(&self.tree.source, &mut source);
        Err(self.fail(format!("can't give argument to non-function {source}")))
    }

    fn eval_constant(&mut self, dot: &Reflected, operand: &'a Operand) -> Result<Reflected, Failure> {
        match operand {
            Operand::Dot(_) => Ok(dot.clone()),
            Operand::Bool(_, value) => Ok(Reflected::concrete(Value::Bool(*value))),
            Operand::String(literal) => Ok(Reflected::concrete(Value::String(literal.text.clone()))),
            Operand::Number(number) => self.ideal_constant(number).map(Reflected::concrete),
            _ => Err(self.fail("nil is not a command")),
        }
    }

    /// A number where nothing says which type it is to have.
    pub(super) fn ideal_constant(&self, number: &Number) -> Result<Value, Failure> {
        match number.value.ideal {
            Ideal::Int(n) => Ok(Value::Int(n)),
            Ideal::Float(n) => Ok(Value::Float64(n)),
            Ideal::Overflow => {
                let text = self.tree.source.text(number.text);
                Err(self.fail(format!("{text} overflows int")))
            }
            Ideal::Complex => {
                let text = self.tree.source.text(number.text);
                match Complex::parse(text) {
                    Some(complex) => Ok(Value::Object(Rc::new(complex))),
                    None => Err(self.fail(format!("complex number {text} is not supported"))),
                }
            }
        }
    }

    pub(super) fn eval_variable(
        &mut self,
        dot: &Reflected,
        operand: &'a Operand,
        variable: &'a Variable,
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, Failure> {
        self.at = At::Operand(operand);
        let value = self.var(variable.name)?;
        if variable.fields.is_empty() {
            let value = value.clone();
            self.not_a_function(operand, args, last.as_ref())?;
            return Ok(value);
        }
        if args.is_empty()
            && last.is_none()
            && let Some((final_name, names)) = variable.fields.split_last()
            && let Some(found) = self.entry_at(&value.value, *final_name, names)
        {
            return Ok(found);
        }
        let value = value.clone();
        self.eval_chain(dot, &value, operand, &variable.fields, args, last)
    }

    pub(super) fn eval_chain_operand(
        &mut self,
        dot: &Reflected,
        operand: &'a Operand,
        chain: &'a Chain,
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, Failure> {
        self.at = At::Operand(operand);
        let receiver = self.eval_operand(dot, &chain.operand)?;
        self.eval_chain(dot, &receiver, operand, &chain.fields, args, last)
    }
}
