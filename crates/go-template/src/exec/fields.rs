//! Field access: methods first, then struct fields and map keys.

use super::super::func::{CallError, Param};
use super::super::host::{Host, MissingKey};
use super::super::value::{Map, MapKind, Value};
use super::{CurrentNode, ExecFailure, ExecState, Reflected};
use crate::exec::builtins::entry_of;
use crate::syntax::ast::{Operand, Span};
use crate::text::quote::quote_go;

/// Whether it can be a method's name.
fn is_exported(name: &[u8]) -> bool {
    name.first().is_some_and(u8::is_ascii_uppercase)
}

/// A field access under way: the name, the operand that it stands in, the arguments it is given.
struct Access<'a, 'd> {
    dot: &'d Reflected,
    name: &'a str,
    operand: &'a Operand,
    args: &'a [Operand],
    last: Option<Reflected>,
    /// The name that follows in the same chain.
    next: Option<Span>,
}

impl<'a, C: Host> ExecState<'a, '_, C> {
    /// `.a.b.c` from `receiver` on. Only the last name is given the arguments.
    pub(super) fn eval_chain(
        &mut self,
        dot: &Reflected,
        receiver: &Reflected,
        operand: &'a Operand,
        names: &'a [Span],
        args: &'a [Operand],
        last: Option<Reflected>,
    ) -> Result<Reflected, ExecFailure> {
        let Some((&final_name, names)) = names.split_last() else {
            return Ok(receiver.clone());
        };
        if args.is_empty()
            && last.is_none()
            && let Some(found) = self.entry_at(&receiver.value, final_name, names)
        {
            return Ok(found);
        }
        let mut step;
        let mut receiver = receiver;
        let following = names.iter().skip(1).chain([&final_name]);
        for (&name, &next) in names.iter().zip(following) {
            step = self.eval_field(
                receiver,
                Access {
                    dot,
                    name: self.source().text(name),
                    operand,
                    args: &[],
                    last: None,
                    next: Some(next),
                },
            )?;
            receiver = &step;
        }
        self.eval_field(
            receiver,
            Access {
                dot,
                name: self.source().text(final_name),
                operand,
                args,
                last,
                next: None,
            },
        )
    }

    /// The entry below `value` by these names, if there are but maps on the way, no methods, and all have the key: by far
    /// the commonest case, and the maps need not be cloned.
    pub(super) fn entry_at(&self, value: &Value, final_name: Span, names: &[Span]) -> Option<Reflected> {
        let Value::Map(map) = value else { return None };
        let span = names.first().map_or(final_name, |name| *name);
        let name = self.name(span);
        let is_plain = match map.kind {
            MapKind::Any => true,
            MapKind::Named(named) => !named.of_bytes && (!is_exported(name) || named.params(name).is_none()),
            MapKind::String => false,
        };
        if !is_plain {
            return None;
        }
        let entries = map.entries.as_ref()?.borrow_for(name);
        let entry = entries.get(name)?;
        match names.get(1..) {
            Some(names) => self.entry_at(entry, final_name, names),
            None => Some(entry_of(map, Some(entry.clone()))),
        }
    }

    fn eval_field(&mut self, receiver: &Reflected, access: Access<'a, '_>) -> Result<Reflected, ExecFailure> {
        let name = access.name;
        match &receiver.value {
            Value::Nil if receiver.interface => Err(self.fail(format!("nil pointer evaluating interface {{}}.{name}"))),
            Value::Nil if self.missing_key == MissingKey::Error => {
                Err(self.fail(format!("nil data; no entry for key {}", quote_go(name))))
            }
            Value::Nil => Ok(Reflected::INVALID),
            Value::Map(map) => self.map_field(receiver, map, access),
            Value::Object(_) => self.object_field(receiver, access),
            Value::List(list) => match list.named_type().and_then(|named| named.params(name.as_bytes())) {
                Some(params) => self.method(receiver, params, access),
                None => Err(self.no_field(receiver, name)),
            },
            _ => Err(self.no_field(receiver, name)),
        }
    }

    fn no_field(&self, receiver: &Reflected, name: &str) -> ExecFailure {
        self.fail(format!("can't evaluate field {name} in type {}", receiver.type_name()))
    }

    fn map_field(&mut self, receiver: &Reflected, map: &Map, access: Access<'a, '_>) -> Result<Reflected, ExecFailure> {
        let name = access.name;
        if let MapKind::Named(named) = map.kind
            && let Some(params) = named.params(name.as_bytes())
        {
            return self.method(receiver, params, access);
        }
        if !access.args.is_empty() || access.last.is_some() {
            return Err(self.fail(format!("{name} is not a method but has arguments")));
        }
        match (map.get(name.as_bytes()), self.missing_key) {
            (None, MissingKey::Invalid) => Ok(Reflected::INVALID),
            (None, MissingKey::Error) => Err(self.fail(format!("map has no entry for key {}", quote_go(name)))),
            (entry, _) => Ok(entry_of(map, entry)),
        }
    }

    /// Calls a method of a type that the host has named.
    fn method(
        &mut self,
        receiver: &Reflected,
        params: &'static [Param],
        access: Access<'a, '_>,
    ) -> Result<Reflected, ExecFailure> {
        let (name, operand) = (access.name, access.operand);
        let args = self.method_args(params, access)?;
        let result = self.host.call_method(&receiver.value, name, &args);
        self.returned(result, CurrentNode::Operand(operand), name, 0)
    }

    fn object_field(&mut self, receiver: &Reflected, access: Access<'a, '_>) -> Result<Reflected, ExecFailure> {
        let Value::Object(object) = &receiver.value else {
            return Ok(Reflected::INVALID);
        };
        let (name, operand, next) = (access.name, access.operand, access.next);
        let has_args = !access.args.is_empty() || access.last.is_some();
        if let Some(params) = object.params(name) {
            let args = self.method_args(params, access)?;
            if let Some(result) = object.call(name, &args) {
                return self.returned(result.map_err(CallError::Text), CurrentNode::Operand(operand), name, 0);
            }
        }
        let field = match next {
            Some(next) => object.field_before(name, self.source().text(next)),
            None => object.field(name),
        };
        match field {
            Some(_) if has_args => Err(self.fail(format!("{name} has arguments but cannot be invoked as function"))),
            Some(value) => Ok(Reflected {
                interface: value.is_nil(),
                value,
            }),
            None => Err(self.no_field(receiver, name)),
        }
    }

    fn method_args(&mut self, params: &'static [Param], access: Access<'a, '_>) -> Result<Vec<Value>, ExecFailure> {
        let from = self.eval_args(access.dot, access.name, params, None, access.args, access.last)?;
        Ok(self.args.split_off(from))
    }
}
