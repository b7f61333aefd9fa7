//! Arguments: checked against the type of their parameter, as Go's reflection checks them.

use super::place::ExecPlace;
use super::{ExecFailure, Reflected};
use crate::func::Param;
use crate::syntax::arena::PartId;
use crate::syntax::ast::Operand;
use crate::text::number::Constant;
use crate::value::{List, ListKind, Map, MapKind, Value};

/// Checks the number of arguments of a call.
#[inline]
pub(super) fn check_arity(
    place: &ExecPlace<'_>,
    name: &str,
    fixed: usize,
    variadic: bool,
    args: usize,
    piped: bool,
) -> Result<(), ExecFailure> {
    let count = args + usize::from(piped);
    if variadic && count < fixed {
        // Go does not count the piped argument here.
        return Err(place.fail(format!(
            "wrong number of args for {name}: want at least {fixed} got {args}"
        )));
    }
    if !variadic && count != fixed {
        return Err(place.fail(format!("wrong number of args for {name}: want {fixed} got {count}")));
    }
    Ok(())
}

/// A constant takes the parameter's type if it can.
#[inline]
pub(super) fn eval_literal(place: &ExecPlace<'_>, param: Param, operand: &Operand) -> Result<Value, ExecFailure> {
    let source = place.source();
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
            return Err(place.fail(format!("can't handle {source} for arg of type {}", param.type_name())));
        }
    };
    Err(place.fail(format!("expected {expected}; found {}", operand.normal(source))))
}

/// Checks that a value fits a parameter. One of a named map type becomes a plain map, as assignment does in Go.
#[inline]
pub(super) fn validate(place: &ExecPlace<'_>, value: Reflected, param: Param) -> Result<Value, ExecFailure> {
    if value.value.is_nil() && param != Param::Any {
        if value.interface {
            let expected = param.type_name();
            return Err(place.fail(format!("wrong type for value; expected {expected}; got interface {{}}")));
        }
        return nil_of(param).ok_or_else(|| place.fail(format!("invalid value; expected {}", param.type_name())));
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
            Err(place.fail(format!("wrong type for value; expected {expected}; got {got}")))
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
pub(super) fn nil_of(param: Param) -> Option<Value> {
    match param {
        Param::Any => Some(Value::Nil),
        Param::Map => Some(Value::Map(Map::nil(MapKind::Any))),
        Param::List => Some(Value::List(List::nil(ListKind::Any))),
        Param::Strings => Some(Value::List(List::nil(ListKind::String))),
        Param::Named(name) if name.starts_with(['*', '[']) || name.starts_with("map[") => Some(Value::Nil),
        _ => None,
    }
}
