//! Regular expressions.

use std::sync::Arc;

use super::text::string_list;
use crate::gostd::regexp::{GoRegex, compile, compile_or_panic, quote_meta};
use go_template::func::{CallError, Func};
use go_template::value::{List, ListKind, Str, Value};

/// How a pattern is compiled: a bad one is an error of functions with `must` in their name, and a panic of the others.
type Compile = fn(&[u8]) -> Result<Arc<GoRegex>, String>;

#[rustfmt::skip]
pub(super) fn table<C: 'static>() -> Vec<Func<C>> {
    let mut all = vec![
        // A bad pattern matches nothing, without a word.
        Func::new("regexMatch", |pattern: &[u8], text: &[u8]| {
            compile(pattern).is_ok_and(|regex| regex.is_match(text))
        }),
        Func::new("mustRegexMatch", |pattern: &[u8], text: &[u8]| {
            compile(pattern).map(|regex| regex.is_match(text))
        }),
        Func::new("regexQuoteMeta", quote_meta),
    ];
    all.extend(searches(
        ["regexFind", "regexFindAll", "regexReplaceAll", "regexReplaceAllLiteral", "regexSplit"],
        compile_or_panic,
    ));
    all.extend(searches(
        ["mustRegexFind", "mustRegexFindAll", "mustRegexReplaceAll", "mustRegexReplaceAllLiteral", "mustRegexSplit"],
        compile,
    ));
    all
}

fn searches<C: 'static>(names: [&'static str; 5], compile: Compile) -> [Func<C>; 5] {
    let [find, find_all, replace_all, replace_all_literal, split] = names;
    [
        Func::new(find, move |pattern: &[u8], text: &[u8]| {
            compile(pattern).map(|regex| regex.find(text))
        }),
        Func::new(find_all, move |pattern: &[u8], text: &[u8], count: i64| {
            Ok::<_, CallError>(strings(compile(pattern)?.find_all(text, count)?))
        }),
        Func::new(replace_all, move |pattern: &[u8], text: &[u8], template: &[u8]| {
            compile(pattern)?.replace_all(text, template)
        }),
        Func::new(
            replace_all_literal,
            move |pattern: &[u8], text: &[u8], replacement: &[u8]| {
                compile(pattern)?.replace_all_literal(text, replacement)
            },
        ),
        Func::new(split, move |pattern: &[u8], text: &[u8], count: i64| {
            Ok::<_, CallError>(strings(compile(pattern)?.split(text, count)?))
        }),
    ]
}

/// No match is Go's nil slice.
fn strings(found: Option<Vec<Str>>) -> Value {
    found.map_or_else(|| Value::List(List::nil(ListKind::String)), string_list)
}
