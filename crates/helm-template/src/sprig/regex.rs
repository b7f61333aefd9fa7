//! Regular expressions.

use super::text::string_list;
use crate::gostd::regexp::{compile, quote_meta};
use go_template::func::{CallError, Func, Meter};
use go_template::value::{List, ListKind, Str, Value};

pub(super) fn table<C: super::Env>() -> Vec<Func<C>> {
    vec![
        // A bad pattern matches nothing and gives no error.
        Func::new("regexMatch", |meter: &Meter, pattern: &[u8], text: &[u8]| {
            is_match(meter, pattern, text).unwrap_or(false)
        }),
        Func::new("mustRegexMatch", is_match),
        Func::new("regexQuoteMeta", quote_meta),
        Func::new("regexFind", find),
        Func::new("mustRegexFind", find),
        Func::new("regexFindAll", find_all),
        Func::new("mustRegexFindAll", find_all),
        Func::new("regexReplaceAll", replace_all),
        Func::new("mustRegexReplaceAll", replace_all),
        Func::new("regexReplaceAllLiteral", replace_all_literal),
        Func::new("mustRegexReplaceAllLiteral", replace_all_literal),
        Func::new("regexSplit", split),
        Func::new("mustRegexSplit", split),
    ]
}

fn is_match(meter: &Meter, pattern: &[u8], text: &[u8]) -> Result<bool, String> {
    Ok(compile(meter, pattern)?.is_match(text))
}

fn find(meter: &Meter, pattern: &[u8], text: &[u8]) -> Result<String, String> {
    Ok(compile(meter, pattern)?.find(text))
}

fn find_all(meter: &Meter, pattern: &[u8], text: &[u8], count: i64) -> Result<Value, CallError> {
    Ok(strings(meter, compile(meter, pattern)?.find_all(text, count)?))
}

fn replace_all(meter: &Meter, pattern: &[u8], text: &[u8], template: &[u8]) -> Result<String, CallError> {
    compile(meter, pattern)?.replace_all(text, template)
}

fn replace_all_literal(meter: &Meter, pattern: &[u8], text: &[u8], new: &[u8]) -> Result<String, CallError> {
    compile(meter, pattern)?.replace_all_literal(text, new)
}

fn split(meter: &Meter, pattern: &[u8], text: &[u8], count: i64) -> Result<Value, CallError> {
    Ok(strings(meter, compile(meter, pattern)?.split(text, count)?))
}

/// No match is Go's nil slice.
fn strings(meter: &Meter, found: Option<Vec<Str>>) -> Value {
    let found = found.map(|found| string_list(meter, found));
    found.unwrap_or_else(|| Value::List(List::nil(ListKind::String)))
}
