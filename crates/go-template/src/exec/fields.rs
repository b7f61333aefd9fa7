//! Field access: methods first, then struct fields and map keys.

use super::place::{CurrentNode, ExecPlace};
use super::{ExecFailure, ExecState, Reflected};
use crate::exec::builtins::entry_of;
use crate::func::{CallError, Param};
use crate::host::{Host, MissingKey};
use crate::syntax::ast::{Operand, TemplateSource, TextSpan};
use crate::text::quote::quote_go;
use crate::value::{Map, MapKind, Value};

/// Whether it can be a method's name.
fn is_exported(name: &[u8]) -> bool {
    name.first().is_some_and(u8::is_ascii_uppercase)
}

/// A field access under way: the name, the operand that it stands in, the arguments it is given.
pub(super) struct FieldAccess<'a, 'd> {
    pub(super) dot: &'d Reflected,
    pub(super) name: &'a str,
    pub(super) operand: &'a Operand,
    pub(super) args: &'a [Operand],
    pub(super) last: Option<Reflected>,
    /// The name that follows in the same chain.
    pub(super) next: Option<TextSpan>,
}

impl<'a> FieldAccess<'a, '_> {
    /// Reads the field of `receiver`, or calls its method.
    pub(super) fn evaluate<C: Host>(
        self,
        state: &mut ExecState<'a, '_, C>,
        receiver: &Reflected,
    ) -> Result<Reflected, ExecFailure> {
        let name = self.name;
        match &receiver.value {
            Value::Nil if receiver.interface => Err(state
                .place
                .fail(format!("nil pointer evaluating interface {{}}.{name}"))),
            Value::Nil if state.missing_key == MissingKey::Error => Err(state
                .place
                .fail(format!("nil data; no entry for key {}", quote_go(name)))),
            Value::Nil => Ok(Reflected::INVALID),
            Value::Map(map) => self.evaluate_in_map(state, receiver, map),
            Value::Object(_) => self.evaluate_in_object(state, receiver),
            Value::List(list) => match list.named_type().and_then(|named| named.params(name.as_bytes())) {
                Some(params) => self.call_method(state, receiver, params),
                None => Err(no_field(&state.place, receiver, name)),
            },
            _ => Err(no_field(&state.place, receiver, name)),
        }
    }

    fn evaluate_in_map<C: Host>(
        self,
        state: &mut ExecState<'a, '_, C>,
        receiver: &Reflected,
        map: &Map,
    ) -> Result<Reflected, ExecFailure> {
        let name = self.name;
        if let MapKind::Named(named) = map.kind
            && let Some(params) = named.params(name.as_bytes())
        {
            return self.call_method(state, receiver, params);
        }
        if !self.args.is_empty() || self.last.is_some() {
            return Err(state.place.fail(format!("{name} is not a method but has arguments")));
        }
        match (map.get(name.as_bytes()), state.missing_key) {
            (None, MissingKey::Invalid) => Ok(Reflected::INVALID),
            (None, MissingKey::Error) => Err(state.place.fail(format!("map has no entry for key {}", quote_go(name)))),
            (entry, _) => Ok(entry_of(map, entry)),
        }
    }

    /// Calls a method of a type that the host has named.
    fn call_method<C: Host>(
        self,
        state: &mut ExecState<'a, '_, C>,
        receiver: &Reflected,
        params: &'static [Param],
    ) -> Result<Reflected, ExecFailure> {
        let (name, operand) = (self.name, self.operand);
        let args = self.evaluate_args(state, params)?;
        let result = state.host.context.call_method(&receiver.value, name, &args);
        state.returned(result, CurrentNode::Operand(operand), name, 0)
    }

    fn evaluate_in_object<C: Host>(
        self,
        state: &mut ExecState<'a, '_, C>,
        receiver: &Reflected,
    ) -> Result<Reflected, ExecFailure> {
        let Value::Object(object) = &receiver.value else {
            return Ok(Reflected::INVALID);
        };
        let (name, operand, next) = (self.name, self.operand, self.next);
        let has_args = !self.args.is_empty() || self.last.is_some();
        if let Some(params) = object.params(name) {
            let args = self.evaluate_args(state, params)?;
            if let Some(result) = object.call(name, &args) {
                return state.returned(result.map_err(CallError::Text), CurrentNode::Operand(operand), name, 0);
            }
        }
        let field = match next {
            Some(next) => object.field_before(name, state.place.source().text(next)),
            None => object.field(name),
        };
        match field {
            Some(_) if has_args => Err(state
                .place
                .fail(format!("{name} has arguments but cannot be invoked as function"))),
            Some(value) => Ok(Reflected {
                interface: value.is_nil(),
                value,
            }),
            None => Err(no_field(&state.place, receiver, name)),
        }
    }

    fn evaluate_args<C: Host>(
        self,
        state: &mut ExecState<'a, '_, C>,
        params: &'static [Param],
    ) -> Result<Vec<Value>, ExecFailure> {
        let from = state.eval_args(self.dot, self.name, params, None, self.args, self.last)?;
        Ok(state.args.split_off(from))
    }
}

fn no_field(place: &ExecPlace<'_>, receiver: &Reflected, name: &str) -> ExecFailure {
    place.fail(format!("can't evaluate field {name} in type {}", receiver.type_name()))
}

/// The entry below `value` by these names, if there are but maps on the way, no methods, and all have the key: by far
/// the commonest case, and the maps need not be cloned.
#[inline]
pub(super) fn entry_at(
    source: &TemplateSource,
    value: &Value,
    final_name: TextSpan,
    names: &[TextSpan],
) -> Option<Reflected> {
    let Value::Map(map) = value else { return None };
    let span = names.first().map_or(final_name, |name| *name);
    let name = source.bytes(span);
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
        Some(names) => entry_at(source, entry, final_name, names),
        None => Some(entry_of(map, Some(entry.clone()))),
    }
}
