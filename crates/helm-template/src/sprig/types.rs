//! Types and kinds by name, and deep equality.

use go_template::compare::deep_equal;
use go_template::func::Func;
use go_template::value::Value;

pub(super) fn table<C: super::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("typeOf", |value: &Value| value.type_name()),
        Func::new("typeIs", |wanted: &[u8], value: &Value| {
            wanted == value.type_name().as_bytes()
        }),
        // Also true of a pointer to the named type.
        Func::new("typeIsLike", |wanted: &[u8], value: &Value| {
            let found = value.type_name().as_bytes();
            wanted == found || found.strip_prefix(b"*") == Some(wanted)
        }),
        Func::new("kindOf", |value: &Value| value.kind()),
        Func::new("kindIs", |wanted: &[u8], value: &Value| {
            wanted == value.kind().as_bytes()
        }),
        Func::new("deepEqual", deep_equal),
    ]
}
