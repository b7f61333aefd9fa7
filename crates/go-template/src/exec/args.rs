//! Arguments: evaluated against the type of their parameter, as Go's reflection checks them.

use super::super::func::Param;
use super::super::host::Host;
use super::super::value::{List, ListKind, Map, MapKind, Value};
use super::{CurrentNode, ExecFailure, ExecState, Reflected};
use crate::syntax::arena::PartId;
use crate::syntax::ast::Operand;
use crate::text::number::Constant;

impl<'a, C: Host> ExecState<'a, '_, C> {
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
        self.check_arity(name, params.len(), variadic.is_some(), operands.len(), last.is_some())?;
        // The number of arguments fits, so there is a parameter for each.
        let param = |i: usize| params.get(i).copied().or(variadic).unwrap_or(Param::Any);
        let from = self.args.len();
        for (i, operand) in operands.iter().enumerate() {
            let value = self.eval_arg(dot, param(i), operand)?;
            self.args.push(value);
        }
        if let Some(last) = last {
            let value = self.validate(last, param(operands.len()))?;
            self.args.push(value);
        }
        Ok(from)
    }

    pub(super) fn check_arity(
        &self,
        name: &str,
        fixed: usize,
        variadic: bool,
        args: usize,
        piped: bool,
    ) -> Result<(), ExecFailure> {
        let count = args + usize::from(piped);
        if variadic && count < fixed {
            // Go does not count the piped argument here.
            return Err(self.fail(format!(
                "wrong number of args for {name}: want at least {fixed} got {args}"
            )));
        }
        if !variadic && count != fixed {
            return Err(self.fail(format!("wrong number of args for {name}: want {fixed} got {count}")));
        }
        Ok(())
    }

    /// Evaluates an operand for a parameter of any type.
    pub(super) fn eval_operand(&mut self, dot: &Reflected, operand: &'a Operand) -> Result<Reflected, ExecFailure> {
        self.at = CurrentNode::Operand(operand);
        match operand {
            Operand::Dot(_) => Ok(dot.clone()),
            Operand::Nil(_) => Ok(Reflected::INVALID),
            Operand::Field(field) => self.eval_chain(dot, dot, operand, self.source().all(field.names), &[], None),
            Operand::Variable(variable) => self.eval_variable(dot, operand, *variable, &[], None),
            Operand::Pipe(pipe) => self.eval_nested(dot, *pipe),
            Operand::Identifier(identifier) => {
                self.eval_function(dot, identifier, CurrentNode::Operand(operand), &[], None)
            }
            Operand::Chain(chain) => self.eval_chain_operand(dot, operand, *chain, &[], None),
            Operand::Bool(_, value) => Ok(Reflected::concrete(Value::Bool(*value))),
            Operand::String(_, text) => Ok(Reflected::concrete(Value::String(self.source().one(*text).clone()))),
            Operand::Number(_, number) => Ok(Reflected::concrete(match self.source().one(*number) {
                Constant {
                    int: Some(n),
                    is_float: false,
                    ..
                } => Value::Int(*n),
                Constant { float, .. } => Value::Float64(*float),
            })),
        }
    }

    /// An operand for a parameter of that type.
    pub(super) fn eval_arg(
        &mut self,
        dot: &Reflected,
        param: Param,
        operand: &'a Operand,
    ) -> Result<Value, ExecFailure> {
        match operand {
            Operand::Nil(_) => {
                self.at = CurrentNode::Operand(operand);
                nil_of(param).ok_or_else(|| self.fail(format!("cannot assign nil to {}", param.type_name())))
            }
            Operand::Bool(..) | Operand::String(..) | Operand::Number(..) if param != Param::Any => {
                self.at = CurrentNode::Operand(operand);
                self.eval_literal(param, operand)
            }
            operand => {
                let value = self.eval_operand(dot, operand)?;
                self.validate(value, param)
            }
        }
    }

    /// A constant takes the parameter's type if it can.
    fn eval_literal(&self, param: Param, operand: &Operand) -> Result<Value, ExecFailure> {
        let source = self.source();
        let int = |number: &PartId<Constant>| source.one(*number).int;
        let expected = match (param, operand) {
            (Param::Bool, Operand::Bool(_, value)) => return Ok(Value::Bool(*value)),
            (Param::String, Operand::String(_, text)) => return Ok(Value::String(source.one(*text).clone())),
            (Param::Int, Operand::Number(_, number)) if let Some(n) = int(number) => return Ok(Value::Int(n)),
            (Param::Int64 | Param::NamedInt(_), Operand::Number(_, number)) if let Some(n) = int(number) => {
                return Ok(Value::Int64(n));
            }
            (Param::Float64, Operand::Number(_, number)) => return Ok(Value::Float64(source.one(*number).float)),
            // Go's reflection cuts what is too large.
            (Param::Uint32, Operand::Number(_, number)) if let Some(n @ 0..) = int(number) => {
                return Ok(Value::Uint64(u64::from(n as u32)));
            }
            (Param::Bool, _) => "bool",
            (Param::String, _) => "string",
            (Param::Int | Param::Int64 | Param::NamedInt(_), _) => "integer",
            (Param::Uint32, _) => "unsigned integer",
            (Param::Float64, _) => "float",
            (param, operand) => {
                let source = operand.normal(source);
                return Err(self.fail(format!("can't handle {source} for arg of type {}", param.type_name())));
            }
        };
        Err(self.fail(format!("expected {expected}; found {}", operand.normal(source))))
    }

    /// Checks that a value fits a parameter. One of a named map type becomes a plain map, as assignment does in Go.
    pub(super) fn validate(&self, value: Reflected, param: Param) -> Result<Value, ExecFailure> {
        if value.value.is_nil() && param != Param::Any {
            if value.interface {
                let expected = param.type_name();
                return Err(self.fail(format!("wrong type for value; expected {expected}; got interface {{}}")));
            }
            return nil_of(param).ok_or_else(|| self.fail(format!("invalid value; expected {}", param.type_name())));
        }
        match (param, value.value) {
            (Param::Any, value) => Ok(as_argument(value)),
            (Param::String, value @ Value::String(_))
            | (Param::Int, value @ Value::Int(_))
            | (Param::Int64, value @ Value::Int64(_))
            | (Param::Float64, value @ Value::Float64(_))
            | (Param::Bool, value @ Value::Bool(_)) => Ok(value),
            (Param::Map, Value::Map(map)) if map.kind == MapKind::Any => Ok(Value::Map(map)),
            (Param::Map, Value::Map(map)) if matches!(map.kind, MapKind::Named(named) if !named.of_bytes) => {
                Ok(Value::Map(map.with_kind(MapKind::Any)))
            }
            (Param::List, Value::List(list)) if list.kind == ListKind::Any => Ok(Value::List(list)),
            (Param::Strings, Value::List(list)) if list.kind == ListKind::String => Ok(Value::List(list)),
            (Param::Strings, Value::List(list)) if list.kind == ListKind::Named => Ok(Value::List(List {
                kind: ListKind::String,
                items: list.items,
            })),
            // A pointer is followed once.
            (Param::Named(name), value)
                if value.type_name().trim_start_matches('*') == name || value.type_name() == name =>
            {
                Ok(value)
            }
            (Param::NamedInt(name), value) if value.type_name() == name => Ok(value),
            (param, value) => {
                let (expected, got) = (param.type_name(), value.type_name());
                Err(self.fail(format!("wrong type for value; expected {expected}; got {got}")))
            }
        }
    }
}

/// A value as the callee has it: a struct is copied.
pub(super) fn as_argument(value: Value) -> Value {
    match &value {
        Value::Object(object) => object.as_argument().unwrap_or(value),
        _ => value,
    }
}

/// The nil of a type that has one.
fn nil_of(param: Param) -> Option<Value> {
    match param {
        Param::Any => Some(Value::Nil),
        Param::Map => Some(Value::Map(Map::nil(MapKind::Any))),
        Param::List => Some(Value::List(List::nil(ListKind::Any))),
        Param::Strings => Some(Value::List(List::nil(ListKind::String))),
        Param::Named(name) if name.starts_with(['*', '[']) || name.starts_with("map[") => Some(Value::Nil),
        _ => None,
    }
}
