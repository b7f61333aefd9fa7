//! Regular expressions.

use super::text::string_list;
use crate::gostd::regexp::{compile, quote_meta};
use go_template::func::{CallError, Func};
use go_template::value::{List, ListKind, Str, Value};

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
    for name in ["regexFind", "mustRegexFind"] {
        all.push(Func::new(name, |pattern: &[u8], text: &[u8]| {
            compile(pattern).map(|regex| regex.find(text))
        }));
    }
    for name in ["regexFindAll", "mustRegexFindAll"] {
        all.push(Func::new(name, |pattern: &[u8], text: &[u8], count: i64| {
            Ok::<_, CallError>(strings(compile(pattern)?.find_all(text, count)?))
        }));
    }
    for name in ["regexReplaceAll", "mustRegexReplaceAll"] {
        all.push(Func::new(name, |pattern: &[u8], text: &[u8], template: &[u8]| {
            compile(pattern)?.replace_all(text, template)
        }));
    }
    for name in ["regexReplaceAllLiteral", "mustRegexReplaceAllLiteral"] {
        all.push(Func::new(name, |pattern: &[u8], text: &[u8], replacement: &[u8]| {
            compile(pattern)?.replace_all_literal(text, replacement)
        }));
    }
    for name in ["regexSplit", "mustRegexSplit"] {
        all.push(Func::new(name, |pattern: &[u8], text: &[u8], count: i64| {
            Ok::<_, CallError>(strings(compile(pattern)?.split(text, count)?))
        }));
    }
    all
}

/// No match is Go's nil slice.
fn strings(found: Option<Vec<Str>>) -> Value {
    found.map_or_else(|| Value::List(List::nil(ListKind::String)), string_list)
}
