//! Types and kinds by name, and deep equality.

use super::args::{Args, Out};
use super::pure;
use go_template::compare::deep_equal;
use go_template::func::Func;
use go_template::value::Value;

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("typeOf", [Any], type_of),
        pure!("typeIs", [String, Any], type_is),
        pure!("typeIsLike", [String, Any], type_is_like),
        pure!("kindOf", [Any], kind_of),
        pure!("kindIs", [String, Any], kind_is),
        pure!("deepEqual", [Any, Any], deep_equal_values),
    ]
}

fn type_of(args: &[Value]) -> Out {
    Ok(Value::string(args.any(0).type_name()))
}

fn type_is(args: &[Value]) -> Out {
    Ok(Value::Bool(args.text(0)? == args.any(1).type_name().as_bytes()))
}

/// Like `typeIs`, and true of a pointer to the named type.
fn type_is_like(args: &[Value]) -> Out {
    let (wanted, found) = (args.text(0)?, args.any(1).type_name().as_bytes());
    Ok(Value::Bool(wanted == found || found.strip_prefix(b"*") == Some(wanted)))
}

fn kind_of(args: &[Value]) -> Out {
    Ok(Value::string(args.any(0).kind()))
}

fn kind_is(args: &[Value]) -> Out {
    Ok(Value::Bool(args.text(0)? == args.any(1).kind().as_bytes()))
}

fn deep_equal_values(args: &[Value]) -> Out {
    Ok(Value::Bool(deep_equal(args.any(0), args.any(1))))
}
