//! Defaults and choices.

use super::args::{Args, Out};
use super::pure;
use go_template::func::Func;
use go_template::value::Value;

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("default", [Any], Any.., default),
        pure!("empty", [Any], empty),
        pure!("coalesce", [], Any.., coalesce),
        pure!("all", [], Any.., all),
        pure!("any", [], Any.., any),
        pure!("ternary", [Any, Any, Bool], ternary),
    ]
}

/// sprig's `empty`: nil, false, zero, and strings, lists and maps without elements. Structs and pointers never are.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(object) => !matches!(object.kind(), "struct" | "ptr") && !object.truth(),
        other => !other.truth(),
    }
}

fn default(args: &[Value]) -> Out {
    Ok(args
        .get(1)
        .filter(|given| !is_empty(given))
        .unwrap_or(args.any(0))
        .clone())
}

fn empty(args: &[Value]) -> Out {
    Ok(Value::Bool(is_empty(args.any(0))))
}

fn coalesce(args: &[Value]) -> Out {
    Ok(args
        .iter()
        .find(|value| !is_empty(value))
        .cloned()
        .unwrap_or(Value::Nil))
}

fn all(args: &[Value]) -> Out {
    Ok(Value::Bool(!args.iter().any(is_empty)))
}

fn any(args: &[Value]) -> Out {
    Ok(Value::Bool(!args.iter().all(is_empty)))
}

fn ternary(args: &[Value]) -> Out {
    Ok(args.any(if args.bool(2)? { 0 } else { 1 }).clone())
}
