//! Go's string literals: `strconv.Quote` and `strconv.Unquote`.

use std::borrow::Cow;

use crate::text::unicode::{decode, decode_lossy, is_print};

/// `%.Nq`: the first `count` characters, quoted.
pub(crate) fn quote_go_prefix(bytes: &[u8], count: usize) -> String {
    quote_go(crate::text::format::truncate(bytes, count))
}

/// The bytes as a double-quoted Go string: `strconv.Quote`, `%q`.
///
/// ```
/// assert_eq!(go_template::quote::quote_go("a\n\u{e9}"), r#""a\né""#);
/// ```
pub fn quote_go(bytes: impl AsRef<[u8]>) -> String {
    let mut bytes = bytes.as_ref();
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    while let Some(first) = bytes.first() {
        // Most text needs no escape at all.
        let plain = bytes
            .iter()
            .take_while(|b| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\'))
            .count();
        if plain > 0 {
            let (run, rest) = bytes.split_at(plain);
            out.push_str(std::str::from_utf8(run).unwrap_or_default());
            bytes = rest;
            continue;
        }
        let width = match decode(bytes) {
            Some((c, width)) => {
                push_escaped(&mut out, c);
                width
            }
            None => {
                out.push_str(&format!("\\x{first:02x}"));
                1
            }
        };
        bytes = bytes.get(width..).unwrap_or_default();
    }
    out.push('"');
    out
}

fn push_escaped(out: &mut String, c: char) {
    if is_print(c) {
        out.extend(matches!(c, '"' | '\\').then_some('\\'));
        out.push(c);
    } else {
        match c {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\0'..' ' | '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            '\0'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
}

/// `strconv.Unquote`: the value of a string literal in double quotes or backquotes; `None` if it is malformed.
pub(crate) fn unquote(literal: &[u8]) -> Option<Cow<'_, [u8]>> {
    match literal {
        [b'`', inner @ .., b'`'] if !inner.contains(&b'\r') => Some(Cow::Borrowed(inner)),
        [b'`', inner @ .., b'`'] => Some(inner.iter().copied().filter(|b| *b != b'\r').collect()),
        // Fast path: most literals have no escapes.
        [b'"', inner @ .., b'"']
            if inner
                .iter()
                .all(|b| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\')) =>
        {
            Some(Cow::Borrowed(inner))
        }
        [b'"', inner @ .., b'"'] => {
            let mut out = Vec::with_capacity(inner.len());
            let mut rest = inner;
            while !rest.is_empty() {
                rest = unquote_unit(rest, &mut out)?;
            }
            Some(Cow::Owned(out))
        }
        _ => None,
    }
}

/// Adds the first character or escape; yields what is behind it, `None` if it is malformed or a quote.
fn unquote_unit<'s>(rest: &'s [u8], out: &mut Vec<u8>) -> Option<&'s [u8]> {
    let (first, after) = rest.split_first()?;
    if matches!(first, b'"' | b'\n') {
        return None;
    }
    let mut push = |c: char| out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    if *first != b'\\' {
        let (c, width) = decode_lossy(rest)?;
        push(c);
        return rest.get(width..);
    }
    let (escape, after) = after.split_first()?;
    let length = match escape {
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        b'0'..=b'7' => {
            let byte = u32::from(escape - b'0') * 64 + digits(after, 2, 8)?;
            out.push(byte.try_into().ok()?);
            return after.get(2..);
        }
        _ => 0,
    };
    match escape {
        b'a' => push('\x07'),
        b'b' => push('\x08'),
        b'f' => push('\x0c'),
        b'n' => push('\n'),
        b'r' => push('\r'),
        b't' => push('\t'),
        b'v' => push('\x0b'),
        b'\\' | b'"' => push(char::from(*escape)),
        // A byte, not a character.
        b'x' => out.push(digits(after, length, 16)?.try_into().ok()?),
        b'u' | b'U' => push(char::from_u32(digits(after, length, 16)?)?),
        _ => return None,
    }
    after.get(length..)
}

fn digits(rest: &[u8], count: usize, base: u32) -> Option<u32> {
    rest.get(..count)?.iter().try_fold(0u32, |value, byte| {
        value.checked_mul(base)?.checked_add(char::from(*byte).to_digit(base)?)
    })
}
