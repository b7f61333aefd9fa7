//! Strings: trimming, cutting, joining, quoting. All of them count bytes, as Go does.

pub(crate) mod case;
pub(crate) mod wrap;

use super::text;
use crate::gostd::runes;
use crate::limit;
use go_template::func::{CallError, Func, Meter, Rest};
use go_template::quote::quote_go;
use go_template::value::{Entries, Map, MapKind, Str, Value};
use memchr::memmem;

pub(super) fn table<C: super::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("hello", || "Hello!"),
        Func::new("trim", |text: &[u8]| Str::from(trim_by(text, char::is_whitespace))),
        Func::new("trimall", trim_all),
        Func::new("trimAll", trim_all),
        Func::new("trimSuffix", |suffix: &[u8], text: &[u8]| {
            Str::from(text.strip_suffix(suffix).unwrap_or(text))
        }),
        Func::new("trimPrefix", |prefix: &[u8], text: &[u8]| {
            Str::from(text.strip_prefix(prefix).unwrap_or(text))
        }),
        Func::new("nospace", nospace),
        Func::new("trunc", trunc),
        Func::new("substr", substr),
        Func::new("repeat", repeated),
        Func::new("contains", |part: &[u8], text: &[u8]| {
            memmem::find(text, part).is_some()
        }),
        Func::new("hasPrefix", |prefix: &[u8], text: &[u8]| text.starts_with(prefix)),
        Func::new("hasSuffix", |suffix: &[u8], text: &[u8]| text.ends_with(suffix)),
        Func::new("quote", |meter: &Meter, all: Rest<&Value>| {
            let quoted = |value: &Value| quote_go(text::strval(meter, value));
            joined(meter, b" ", &without_nil(&all, quoted))
        }),
        Func::new("squote", |meter: &Meter, all: Rest<&Value>| {
            let quoted = |value: &Value| [b"'", text::display(meter, value).as_slice(), b"'"].concat();
            joined(meter, b" ", &without_nil(&all, quoted))
        }),
        Func::new("cat", cat),
        Func::new("indent", |meter: &Meter, spaces: i64, text: &[u8]| {
            indented(meter, spaces, text, b"")
        }),
        Func::new("nindent", |meter: &Meter, spaces: i64, text: &[u8]| {
            indented(meter, spaces, text, b"\n")
        }),
        Func::new("replace", replace),
        Func::new(
            "plural",
            |one: &Str, many: &Str, count: i64| {
                if count == 1 { one.clone() } else { many.clone() }
            },
        ),
        Func::new("split", |meter: &Meter, separator: &[u8], text: &[u8]| {
            split_parts(meter, text, separator, -1).map(|parts| part_map(&parts))
        }),
        Func::new("splitn", |meter: &Meter, separator: &[u8], count: i64, text: &[u8]| {
            split_parts(meter, text, separator, count).map(|parts| part_map(&parts))
        }),
        Func::new("splitList", |meter: &Meter, separator: &[u8], text: &[u8]| {
            let parts = split_parts(meter, text, separator, -1)?;
            Ok::<_, CallError>(text::string_list(meter, parts.into_iter().map(Str::from).collect()))
        }),
        Func::new("join", |meter: &Meter, separator: &[u8], list: &Value| {
            let parts = text::strslice(meter, list);
            joined(meter, separator, &parts.iter().map(Str::as_bytes).collect::<Vec<_>>())
        }),
        Func::new("sortAlpha", sort_alpha),
        Func::new("fail", |why: &Str| Err::<Value, _>(why.to_text().into_owned())),
    ]
}

fn trim_by(bytes: &[u8], drop: impl Fn(char) -> bool) -> &[u8] {
    let kept = |&(_, c, _): &(usize, char, usize)| !drop(c);
    let Some((start, _, _)) = runes::runes(bytes).find(kept) else {
        return &[];
    };
    let end = runes::runes(bytes)
        .filter(kept)
        .last()
        .map_or(start, |(at, _, width)| at + width);
    bytes.get(start..end).unwrap_or(&[])
}

fn trim_all(cut: &[u8], text: &[u8]) -> Str {
    let cut: Vec<char> = runes::runes(cut).map(|(_, c, _)| c).collect();
    Str::from(trim_by(text, |c| cut.contains(&c)))
}

/// goutils' `DeleteWhiteSpace` looks at bytes as if they were Latin-1, so other characters break once a space goes.
fn nospace(text: &Str) -> Str {
    let chars = text.iter().map(|b| char::from(*b));
    if !chars.clone().any(char::is_whitespace) {
        return text.clone();
    }
    Str::from(chars.filter(|c| !c.is_whitespace()).collect::<String>())
}

fn trunc(count: i64, text: &Str) -> Str {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if wanted >= text.len() {
        return text.clone();
    }
    let (head, tail) = text.split_at(if count < 0 { text.len() - wanted } else { wanted });
    Str::from(if count < 0 { tail } else { head })
}

/// From `start` (below zero: 0) to `end` (below zero, or beyond the text where `start` isn't: the text's).
fn substr(start: i64, end: i64, text: &[u8]) -> Result<Str, CallError> {
    let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let to_end = start >= 0 && !(0..=len).contains(&end);
    let from = usize::try_from(start.max(0)).ok();
    let to = usize::try_from(if to_end { len } else { end }).ok();
    match from.zip(to).and_then(|(from, to)| text.get(from..to)) {
        Some(part) => Ok(Str::from(part)),
        None => Err(CallError::from("runtime error: slice bounds out of range")),
    }
}

/// `strings.Repeat` within the limits.
pub(super) fn repeated(meter: &Meter, count: i64, text: &[u8]) -> Result<Vec<u8>, CallError> {
    let count = usize::try_from(count).map_err(|_| CallError::from("strings: negative Repeat count"))?;
    limit::bytes(meter, text.len().saturating_mul(count))?;
    Ok(text.repeat(count))
}

fn joined<T: AsRef<[u8]>>(meter: &Meter, separator: &[u8], parts: &[T]) -> Result<Vec<u8>, CallError> {
    let separators = separator.len().saturating_mul(parts.len().saturating_sub(1));
    let len = parts
        .iter()
        .fold(separators, |len, part| len.saturating_add(part.as_ref().len()));
    limit::bytes(meter, len)?;
    let mut out = Vec::with_capacity(len);
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(part.as_ref());
    }
    Ok(out)
}

/// The results for all arguments except nil.
fn without_nil<T>(all: &Rest<'_, &Value>, made: impl Fn(&Value) -> T) -> Vec<T> {
    all.values.iter().filter(|value| !value.is_nil()).map(made).collect()
}

fn cat(meter: &Meter, all: Rest<&Value>) -> Result<Vec<u8>, CallError> {
    // Each is copied before they are joined.
    limit::bytes(meter, all.values.iter().map(Value::shallow_size).sum())?;
    joined(meter, b" ", &without_nil(&all, |value| text::display(meter, value)))
}

fn indented(meter: &Meter, spaces: i64, text: &[u8], lead: &[u8]) -> Result<Vec<u8>, CallError> {
    let pad = repeated(meter, spaces, b" ")?;
    let lines = text.iter().filter(|b| **b == b'\n').count() + 1;
    limit::bytes(meter, pad.len().saturating_mul(lines).saturating_add(text.len()))?;
    let mut out = Vec::with_capacity(lead.len() + pad.len() * lines + text.len());
    out.extend_from_slice(lead);
    for line in text.split_inclusive(|b| *b == b'\n') {
        out.extend_from_slice(&pad);
        out.extend_from_slice(line);
    }
    // A last line that is empty, or the only one, is padded as well.
    if text.last().is_none_or(|b| *b == b'\n') {
        out.extend_from_slice(&pad);
    }
    Ok(out)
}

fn replace(meter: &Meter, old: &[u8], new: &[u8], text: &[u8]) -> Result<Vec<u8>, CallError> {
    // There may be one for every byte: they are found twice instead of being kept.
    let cuts = |each: &mut dyn FnMut(usize)| {
        if old.is_empty() {
            runes::runes(text)
                .map(|(at, _, _)| at)
                .chain([text.len()])
                .for_each(each);
        } else {
            memmem::find_iter(text, old).for_each(each);
        }
    };
    let mut count = 0_usize;
    cuts(&mut |_| count += 1);
    limit::bytes(meter, count.saturating_mul(new.len()).saturating_add(text.len()))?;
    let mut out = Vec::with_capacity(text.len());
    let mut done = 0;
    cuts(&mut |cut| {
        out.extend_from_slice(text.get(done..cut).unwrap_or(&[]));
        out.extend_from_slice(new);
        done = cut + old.len();
    });
    out.extend_from_slice(text.get(done..).unwrap_or(&[]));
    Ok(out)
}

/// `strings.SplitN`: at most `count` parts if that is positive, all if negative, none if zero.
fn split_parts<'a>(meter: &Meter, text: &'a [u8], separator: &[u8], count: i64) -> Result<Vec<&'a [u8]>, CallError> {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    if most == 0 || (separator.is_empty() && text.is_empty()) {
        return Ok(parts);
    }
    let mut start = 0;
    let ends: Box<dyn Iterator<Item = (usize, usize)>> = if separator.is_empty() {
        Box::new(runes::runes(text).skip(1).map(|(at, _, _)| (at, at)))
    } else {
        Box::new(memmem::find_iter(text, separator).map(|at| (at, at + separator.len())))
    };
    for (end, next) in ends.take(most - 1) {
        limit::texts(meter, parts.len() + 2)?;
        parts.push(text.get(start..end).unwrap_or(&[]));
        start = next;
    }
    parts.push(text.get(start..).unwrap_or(&[]));
    Ok(parts)
}

/// The parts under the keys `_0`, `_1`, ...: a `map[string]string`.
fn part_map(parts: &[&[u8]]) -> Map {
    let entry = |(index, part): (usize, &&[u8])| (Str::from(format!("_{index}")), Value::string(*part));
    Map::new(
        MapKind::String,
        parts.iter().enumerate().map(entry).collect::<Entries>(),
    )
}

fn sort_alpha(meter: &Meter, list: &Value) -> Value {
    if !matches!(list, Value::List(_)) {
        return text::string_list(meter, vec![text::to_str(meter, list)]);
    }
    let mut strings = text::strslice(meter, list);
    strings.sort_unstable();
    text::string_list(meter, strings)
}
