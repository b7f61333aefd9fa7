//! Go's string literals: `strconv.Quote` and `strconv.Unquote`.

use std::borrow::Cow;

use super::unicode::{decode, decode_lossy, is_print};

/// What may stay as it is inside quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// All printable characters, as `%q` does.
    Printable,
    /// Printable ASCII only, as `%+q` does.
    Ascii,
}

/// The bytes as a double-quoted Go string: `strconv.Quote`, `%q`.
pub fn quote_go(bytes: impl AsRef<[u8]>) -> String {
    quote_with(bytes.as_ref(), '"', Keep::Printable)
}

/// `%.Nq`: the first `count` characters, quoted.
pub(super) fn quote_go_prefix(bytes: &[u8], count: usize) -> String {
    quote_go(super::format::truncate(bytes, count))
}

/// The bytes between quotes, escaped.
pub(super) fn quote_with(mut bytes: &[u8], quote: char, keep: Keep) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push(quote);
    while let Some(first) = bytes.first() {
        // Most text needs no escape at all.
        let plain = bytes
            .iter()
            .take_while(|b| matches!(b, b' '..=b'~') && **b != b'\\' && char::from(**b) != quote)
            .count();
        if plain > 0 {
            let (run, rest) = bytes.split_at(plain);
            out.push_str(std::str::from_utf8(run).unwrap_or_default());
            bytes = rest;
            continue;
        }
        let width = match decode(bytes) {
            Some((c, width)) => {
                push_escaped(&mut out, c, quote, keep);
                width
            }
            None => {
                out.push_str(&format!("\\x{first:02x}"));
                1
            }
        };
        bytes = bytes.get(width..).unwrap_or_default();
    }
    out.push(quote);
    out
}

fn push_escaped(out: &mut String, c: char, quote: char, keep: Keep) {
    if c == quote || c == '\\' {
        out.push('\\');
        out.push(c);
    } else if is_print(c) && (keep == Keep::Printable || c.is_ascii()) {
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

/// Whether the bytes can stand between backquotes as they are: `strconv.CanBackquote`.
pub(super) fn can_backquote(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some((c, width)) = decode(bytes) else { return false };
        if matches!(c, '\u{feff}' | '`' | '\x7f') || (c < ' ' && c != '\t') {
            return false;
        }
        bytes = bytes.get(width..).unwrap_or_default();
    }
    true
}

/// What a string literal in double quotes or backquotes means; `None` if it is malformed: `strconv.Unquote`.
pub(super) fn unquote(literal: &[u8]) -> Option<Cow<'_, [u8]>> {
    match literal {
        [b'`', inner @ .., b'`'] if !inner.contains(&b'\r') => Some(Cow::Borrowed(inner)),
        [b'`', inner @ .., b'`'] => Some(inner.iter().copied().filter(|b| *b != b'\r').collect()),
        // Most strings mean what they say.
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
                let (unit, after) = unquote_unit(rest, b'"')?;
                match unit {
                    Unit::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                    Unit::Byte(byte) => out.push(byte),
                }
                rest = after;
            }
            Some(Cow::Owned(out))
        }
        _ => None,
    }
}

/// What a character literal means; an error is Go's text for it.
pub(super) fn unquote_char(literal: &[u8]) -> Result<u32, String> {
    let syntax = || "invalid syntax".to_owned();
    let (unit, tail) = unquote_unit(literal.get(1..).unwrap_or_default(), b'\'').ok_or_else(syntax)?;
    if tail != b"'" {
        return Err(format!(
            "malformed character constant: {}",
            String::from_utf8_lossy(literal)
        ));
    }
    Ok(match unit {
        Unit::Char(c) => u32::from(c),
        Unit::Byte(byte) => u32::from(byte),
    })
}

enum Unit {
    Char(char),
    /// From `\x` or an octal escape: a byte, not a character.
    Byte(u8),
}

/// The first character or escape; `None` if it is malformed or the closing quote.
fn unquote_unit(rest: &[u8], quote: u8) -> Option<(Unit, &[u8])> {
    let (first, after) = rest.split_first()?;
    if *first == quote || *first == b'\n' {
        return None;
    }
    if *first != b'\\' {
        let (c, width) = decode_lossy(rest)?;
        return Some((Unit::Char(c), rest.get(width..)?));
    }
    let (escape, after) = after.split_first()?;
    let c = match escape {
        b'a' => '\x07',
        b'b' => '\x08',
        b'f' => '\x0c',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'v' => '\x0b',
        b'\\' => '\\',
        b'\'' | b'"' if *escape == quote => char::from(quote),
        b'x' => return Some((Unit::Byte(digits(after, 2, 16)?.try_into().ok()?), after.get(2..)?)),
        b'u' => return Some((Unit::Char(char::from_u32(digits(after, 4, 16)?)?), after.get(4..)?)),
        b'U' => return Some((Unit::Char(char::from_u32(digits(after, 8, 16)?)?), after.get(8..)?)),
        b'0'..=b'7' => {
            let value = u32::from(escape - b'0') * 64 + digits(after, 2, 8)?;
            return Some((Unit::Byte(value.try_into().ok()?), after.get(2..)?));
        }
        _ => return None,
    };
    Some((Unit::Char(c), after))
}

fn digits(rest: &[u8], count: usize, base: u32) -> Option<u32> {
    rest.get(..count)?.iter().try_fold(0u32, |value, byte| {
        value.checked_mul(base)?.checked_add(char::from(*byte).to_digit(base)?)
    })
}
