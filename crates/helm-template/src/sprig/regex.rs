//! Regular expressions.

use std::ops::Range;
use std::sync::Arc;

use super::args::{Args, Out};
use super::{pure, text};
use crate::gostd::regexp::{GoRegex, compile, expand};
use crate::gostd::runes;
use go_template::func::{CallError, Func};
use go_template::quote::quote_go;
use go_template::value::{List, ListKind, Str, Value};

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("regexMatch", [String, String], regex_match),
        pure!("mustRegexMatch", [String, String], must_regex_match),
        pure!("regexFind", [String, String], regex_find),
        pure!("mustRegexFind", [String, String], must_regex_find),
        pure!("regexFindAll", [String, String, Int], regex_find_all),
        pure!("mustRegexFindAll", [String, String, Int], must_regex_find_all),
        pure!("regexReplaceAll", [String, String, String], regex_replace_all),
        pure!("mustRegexReplaceAll", [String, String, String], must_regex_replace_all),
        pure!(
            "regexReplaceAllLiteral",
            [String, String, String],
            regex_replace_all_literal
        ),
        pure!(
            "mustRegexReplaceAllLiteral",
            [String, String, String],
            must_regex_replace_all_literal
        ),
        pure!("regexSplit", [String, String, Int], regex_split),
        pure!("mustRegexSplit", [String, String, Int], must_regex_split),
        pure!("regexQuoteMeta", [String], regex_quote_meta),
    ]
}

/// `regexp.MustCompile`, which panics with the pattern in its text.
fn compile_or_panic(args: &[Value]) -> Result<Arc<GoRegex>, CallError> {
    let pattern = args.text(0)?;
    compile(pattern).map_err(|error| {
        let source = runes::lossy(pattern);
        let can_backquote = !pattern.contains(&b'`')
            && std::str::from_utf8(pattern)
                .is_ok_and(|s| s.chars().all(|c| c == '\t' || (!c.is_control() && c != '\u{feff}')));
        let quoted = if can_backquote {
            format!("`{source}`")
        } else {
            quote_go(pattern)
        };
        CallError::Text(format!("regexp: Compile({quoted}): {error}"))
    })
}

fn compile_or_fail(args: &[Value]) -> Result<Arc<GoRegex>, CallError> {
    Ok(compile(args.text(0)?)?)
}

/// A bad pattern matches nothing, without a word.
fn regex_match(args: &[Value]) -> Out {
    let text = args.text(1)?;
    Ok(Value::Bool(
        compile(args.text(0)?).is_ok_and(|regex| regex.is_match(text)),
    ))
}

fn must_regex_match(args: &[Value]) -> Out {
    Ok(Value::Bool(compile_or_fail(args)?.is_match(args.text(1)?)))
}

fn find(regex: &GoRegex, args: &[Value]) -> Out {
    let text = runes::lossy(args.text(1)?);
    let found = regex.goes_on(&text).then(|| regex.regex.find(&text)).flatten();
    Ok(Value::string(found.map_or("", |found| found.as_str())))
}

fn regex_find(args: &[Value]) -> Out {
    find(&*compile_or_panic(args)?, args)
}

fn must_regex_find(args: &[Value]) -> Out {
    find(&*compile_or_fail(args)?, args)
}

/// No match is Go's nil slice.
fn find_all(regex: &GoRegex, args: &[Value]) -> Out {
    let text = runes::lossy(args.text(1)?);
    let found = regex.find_all(&text, args.int(2)?)?;
    if found.is_empty() {
        return Ok(Value::List(List::nil(ListKind::String)));
    }
    let part = |range: Range<usize>| Str::from(text.get(range).unwrap_or_default());
    Ok(text::string_list(found.into_iter().map(part).collect()))
}

fn regex_find_all(args: &[Value]) -> Out {
    find_all(&*compile_or_panic(args)?, args)
}

fn must_regex_find_all(args: &[Value]) -> Out {
    find_all(&*compile_or_fail(args)?, args)
}

fn replace_all(regex: &GoRegex, args: &[Value]) -> Out {
    let (text, template) = (runes::lossy(args.text(1)?), args.text(2)?);
    let replaced = regex.replace_all(&text, |out, found| expand(out, template, found))?;
    Ok(Value::string(replaced))
}

fn regex_replace_all(args: &[Value]) -> Out {
    replace_all(&*compile_or_panic(args)?, args)
}

fn must_regex_replace_all(args: &[Value]) -> Out {
    replace_all(&*compile_or_fail(args)?, args)
}

fn replace_all_literal(regex: &GoRegex, args: &[Value]) -> Out {
    let (text, replacement) = (runes::lossy(args.text(1)?), args.text(2)?);
    let replaced = regex.replace_all(&text, |out, _| out.extend_from_slice(replacement))?;
    Ok(Value::string(replaced))
}

fn regex_replace_all_literal(args: &[Value]) -> Out {
    replace_all_literal(&*compile_or_panic(args)?, args)
}

fn must_regex_replace_all_literal(args: &[Value]) -> Out {
    replace_all_literal(&*compile_or_fail(args)?, args)
}

/// `Regexp.Split`.
fn split(regex: &GoRegex, args: &[Value]) -> Out {
    let (pattern, text, count) = (args.text(0)?, runes::lossy(args.text(1)?), args.int(2)?);
    if count == 0 {
        return Ok(Value::List(List::nil(ListKind::String)));
    }
    if !pattern.is_empty() && text.is_empty() {
        return Ok(text::string_list(vec![Str::from("")]));
    }
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let matches = regex.find_all(&text, count)?;
    let mut parts = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for &Range { start, end: stop } in &matches {
        if parts.len() + 1 == most {
            break;
        }
        end = start;
        if stop != 0 {
            parts.push(Str::from(text.get(begin..end).unwrap_or_default()));
        }
        begin = stop;
    }
    if end != text.len() {
        parts.push(Str::from(text.get(begin..).unwrap_or_default()));
    }
    // Go makes room for as many parts as there are matches.
    Ok(text::string_list(parts))
}

fn regex_split(args: &[Value]) -> Out {
    split(&*compile_or_panic(args)?, args)
}

fn must_regex_split(args: &[Value]) -> Out {
    split(&*compile_or_fail(args)?, args)
}

fn regex_quote_meta(args: &[Value]) -> Out {
    let text = args.text(0)?;
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if b"\\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    Ok(Value::string(out))
}
