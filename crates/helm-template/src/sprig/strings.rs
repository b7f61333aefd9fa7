//! Strings: trimming, cutting, joining, quoting. All of them count bytes, as Go does.

use super::args::{Args, Out};
use super::{pure, text};
use crate::gostd::runes;
use crate::limit;
use go_template::func::{CallError, Func};
use go_template::quote::quote_go;
use go_template::value::{Entries, Map, MapKind, Str, Value};

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("hello", [], hello),
        pure!("trim", [String], trim),
        pure!("trimall", [String, String], trim_all),
        pure!("trimAll", [String, String], trim_all),
        pure!("trimSuffix", [String, String], trim_suffix),
        pure!("trimPrefix", [String, String], trim_prefix),
        pure!("nospace", [String], nospace),
        pure!("trunc", [Int, String], trunc),
        pure!("substr", [Int, Int, String], substr),
        pure!("repeat", [Int, String], repeat),
        pure!("contains", [String, String], contains),
        pure!("hasPrefix", [String, String], has_prefix),
        pure!("hasSuffix", [String, String], has_suffix),
        pure!("quote", [], Any.., quote),
        pure!("squote", [], Any.., squote),
        pure!("cat", [], Any.., cat),
        pure!("indent", [Int, String], indent),
        pure!("nindent", [Int, String], nindent),
        pure!("replace", [String, String, String], replace),
        pure!("plural", [String, String, Int], plural),
        pure!("split", [String, String], split),
        pure!("splitn", [String, Int, String], splitn),
        pure!("splitList", [String, String], split_list),
        pure!("join", [String, Any], join),
        pure!("sortAlpha", [Any], sort_alpha),
        pure!("fail", [String], fail),
    ]
}

fn hello(_: &[Value]) -> Out {
    Ok(Value::string("Hello!"))
}

fn fail(args: &[Value]) -> Out {
    Err(CallError::Text(String::from_utf8_lossy(args.text(0)?).into_owned()))
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

fn trim(args: &[Value]) -> Out {
    Ok(Value::string(trim_by(args.text(0)?, char::is_whitespace)))
}

fn trim_all(args: &[Value]) -> Out {
    let cut: Vec<char> = runes::runes(args.text(0)?).map(|(_, c, _)| c).collect();
    Ok(Value::string(trim_by(args.text(1)?, |c| cut.contains(&c))))
}

fn trim_suffix(args: &[Value]) -> Out {
    let (suffix, text) = (args.text(0)?, args.text(1)?);
    Ok(Value::string(text.strip_suffix(suffix).unwrap_or(text)))
}

fn trim_prefix(args: &[Value]) -> Out {
    let (prefix, text) = (args.text(0)?, args.text(1)?);
    Ok(Value::string(text.strip_prefix(prefix).unwrap_or(text)))
}

/// goutils' `DeleteWhiteSpace` looks at bytes as if they were Latin-1, so other characters break once a space goes.
fn nospace(args: &[Value]) -> Out {
    let text = args.text(0)?;
    if !text.iter().any(|b| char::from(*b).is_whitespace()) {
        return Ok(args.any(0).clone());
    }
    let kept: String = text
        .iter()
        .map(|b| char::from(*b))
        .filter(|c| !c.is_whitespace())
        .collect();
    Ok(Value::string(kept))
}

fn trunc(args: &[Value]) -> Out {
    let (count, text) = (args.int(0)?, args.text(1)?);
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if wanted >= text.len() {
        return Ok(args.any(1).clone());
    }
    let (head, tail) = text.split_at(if count < 0 { text.len() - wanted } else { wanted });
    Ok(Value::string(if count < 0 { tail } else { head }))
}

fn substr(args: &[Value]) -> Out {
    let (start, end, text) = (args.int(0)?, args.int(1)?, args.text(2)?);
    let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let out_of_range = |bounds: String| CallError::Text(format!("runtime error: slice bounds out of range {bounds}"));
    let (start, end) = if start < 0 {
        if end < 0 {
            return Err(out_of_range(format!("[:{end}]")));
        }
        if end > len {
            return Err(out_of_range(format!("[:{end}] with length {len}")));
        }
        (0, end)
    } else {
        (start, if end < 0 || end > len { len } else { end })
    };
    let cut = usize::try_from(start)
        .ok()
        .zip(usize::try_from(end).ok())
        .and_then(|(from, to)| text.get(from..to));
    cut.map(Value::string)
        .ok_or_else(|| out_of_range(format!("[{start}:{end}]")))
}

/// `strings.Repeat` within the limits.
pub(super) fn repeated(text: &[u8], count: i64) -> Result<Vec<u8>, CallError> {
    let count = usize::try_from(count).map_err(|_| CallError::from("strings: negative Repeat count"))?;
    limit::bytes(text.len().saturating_mul(count))?;
    Ok(if text.is_empty() {
        Vec::new()
    } else {
        text.repeat(count)
    })
}

fn repeat(args: &[Value]) -> Out {
    Ok(Value::string(repeated(args.text(1)?, args.int(0)?)?))
}

/// Where `needle` starts in `text`, at or after `from`.
pub(super) fn find(text: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let Some((first, _)) = needle.split_first() else {
        return Some(from);
    };
    let mut at = 0;
    loop {
        at += rest.get(at..)?.iter().position(|b| b == first)?;
        if rest.get(at..)?.starts_with(needle) {
            return Some(from + at);
        }
        at += 1;
    }
}

fn contains(args: &[Value]) -> Out {
    Ok(Value::Bool(find(args.text(1)?, args.text(0)?, 0).is_some()))
}

fn has_prefix(args: &[Value]) -> Out {
    Ok(Value::Bool(args.text(1)?.starts_with(args.text(0)?)))
}

fn has_suffix(args: &[Value]) -> Out {
    Ok(Value::Bool(args.text(1)?.ends_with(args.text(0)?)))
}

fn joined<T: AsRef<[u8]>>(separator: &[u8], parts: &[T]) -> Out {
    let separators = separator.len().saturating_mul(parts.len().saturating_sub(1));
    let len = parts
        .iter()
        .fold(separators, |len, part| len.saturating_add(part.as_ref().len()));
    limit::bytes(len)?;
    let mut out = Vec::with_capacity(len);
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(part.as_ref());
    }
    Ok(Value::string(out))
}

fn quote(args: &[Value]) -> Out {
    quoted_by(args, |value| quote_go(text::strval(value)).into_bytes())
}

fn squote(args: &[Value]) -> Out {
    quoted_by(args, |value| [b"'", text::display(value).as_slice(), b"'"].concat())
}

/// Every argument but the nil ones, quoted, with blanks between them.
fn quoted_by(args: &[Value], quoted: impl Fn(&Value) -> Vec<u8>) -> Out {
    let parts: Vec<Vec<u8>> = args.iter().filter(|value| !value.is_nil()).map(quoted).collect();
    joined(b" ", &parts)
}

fn cat(args: &[Value]) -> Out {
    // Each is copied before they are joined.
    limit::bytes(args.iter().map(Value::shallow_size).sum())?;
    joined(
        b" ",
        &args
            .iter()
            .filter(|value| !value.is_nil())
            .map(text::display)
            .collect::<Vec<_>>(),
    )
}

fn indented(args: &[Value], lead: &[u8]) -> Out {
    let (spaces, text) = (args.int(0)?, args.text(1)?);
    let pad = repeated(b" ", spaces)?;
    let lines = text.iter().filter(|b| **b == b'\n').count() + 1;
    limit::bytes(pad.len().saturating_mul(lines).saturating_add(text.len()))?;
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
    Ok(Value::string(out))
}

fn indent(args: &[Value]) -> Out {
    indented(args, b"")
}

fn nindent(args: &[Value]) -> Out {
    indented(args, b"\n")
}

fn replace(args: &[Value]) -> Out {
    let (old, new, text) = (args.text(0)?, args.text(1)?, args.text(2)?);
    // There may be one for every byte: they are found twice instead of being kept.
    let cuts = |each: &mut dyn FnMut(usize)| {
        if old.is_empty() {
            runes::runes(text)
                .map(|(at, _, _)| at)
                .chain([text.len()])
                .for_each(each);
        } else {
            std::iter::successors(find(text, old, 0), |at| find(text, old, at + old.len())).for_each(each);
        }
    };
    let mut count = 0_usize;
    cuts(&mut |_| count += 1);
    limit::bytes(count.saturating_mul(new.len()).saturating_add(text.len()))?;
    let mut out = Vec::with_capacity(text.len());
    let mut done = 0;
    cuts(&mut |cut| {
        out.extend_from_slice(text.get(done..cut).unwrap_or(&[]));
        out.extend_from_slice(new);
        done = cut + old.len();
    });
    out.extend_from_slice(text.get(done..).unwrap_or(&[]));
    Ok(Value::string(out))
}

fn plural(args: &[Value]) -> Out {
    Ok(args.any(if args.int(2)? == 1 { 0 } else { 1 }).clone())
}

/// `strings.SplitN`: at most `count` parts if that is positive, all if negative, none if zero.
fn split_parts<'a>(text: &'a [u8], separator: &[u8], count: i64) -> Result<Vec<&'a [u8]>, CallError> {
    let most = if count < 0 {
        usize::MAX
    } else {
        usize::try_from(count).unwrap_or(usize::MAX)
    };
    let mut parts = Vec::new();
    if most == 0 || (separator.is_empty() && text.is_empty()) {
        return Ok(parts);
    }
    let mut start = 0;
    while parts.len() + 1 < most {
        let (end, next) = if separator.is_empty() {
            let Some((_, width)) = text.get(start..).and_then(runes::decode) else {
                break;
            };
            if start + width == text.len() {
                break;
            }
            (start + width, start + width)
        } else {
            let Some(at) = find(text, separator, start) else { break };
            (at, at + separator.len())
        };
        limit::items(parts.len() + 2)?;
        parts.push(text.get(start..end).unwrap_or(&[]));
        start = next;
    }
    parts.push(text.get(start..).unwrap_or(&[]));
    Ok(parts)
}

/// The parts under the keys `_0`, `_1`, ...: a `map[string]string`.
fn part_map(parts: &[&[u8]]) -> Value {
    let entry = |(index, part): (usize, &&[u8])| (Str::from(format!("_{index}")), Value::string(*part));
    Value::Map(Map::new(
        MapKind::String,
        parts.iter().enumerate().map(entry).collect::<Entries>(),
    ))
}

fn split(args: &[Value]) -> Out {
    Ok(part_map(&split_parts(args.text(1)?, args.text(0)?, -1)?))
}

fn splitn(args: &[Value]) -> Out {
    Ok(part_map(&split_parts(args.text(2)?, args.text(0)?, args.int(1)?)?))
}

fn split_list(args: &[Value]) -> Out {
    let parts = split_parts(args.text(1)?, args.text(0)?, -1)?;
    Ok(text::string_list(parts.into_iter().map(Str::from).collect()))
}

fn join(args: &[Value]) -> Out {
    let parts = text::strslice(args.any(1));
    joined(args.text(0)?, &parts.iter().map(Str::as_bytes).collect::<Vec<_>>())
}

fn sort_alpha(args: &[Value]) -> Out {
    if !matches!(args.any(0), Value::List(_)) {
        return Ok(text::string_list(vec![Str::from(text::strval(args.any(0)))]));
    }
    let mut strings = text::strslice(args.any(0));
    strings.sort_unstable();
    Ok(text::string_list(strings))
}
