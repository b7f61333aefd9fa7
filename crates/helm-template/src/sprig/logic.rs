//! Defaults and choices.

use go_template::func::{Func, Rest};
use go_template::value::Value;

pub(super) fn table<C: super::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("default", |default: &Value, given: Rest<&Value>| {
            let given = given.values.first().filter(|given| !is_empty(given));
            given.unwrap_or(default).clone()
        }),
        Func::new("empty", is_empty),
        Func::new("coalesce", |all: Rest<&Value>| {
            let found = all.values.iter().find(|value| !is_empty(value));
            found.cloned().unwrap_or(Value::Nil)
        }),
        Func::new("all", |all: Rest<&Value>| !all.values.iter().any(is_empty)),
        Func::new("any", |all: Rest<&Value>| !all.values.iter().all(is_empty)),
        Func::new(
            "ternary",
            |yes: &Value, no: &Value, which: bool| {
                if which { yes.clone() } else { no.clone() }
            },
        ),
    ]
}

/// sprig's `empty`: nil, false, zero, and strings, lists and maps without elements. Structs and pointers never are.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(object) => !matches!(object.kind(), "struct" | "ptr") && !object.truth(),
        other => !other.truth(),
    }
}
