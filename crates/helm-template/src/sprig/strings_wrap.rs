//! Fitting text into a width: `wrap`, `abbrev` and their kin, by the rules of goutils v1.1.1. Widths are bytes.

use super::args::{Args, Out};
use super::pure;
use crate::limit;
use go_template::func::{CallError, Func};
use go_template::value::Value;

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("wrap", [Int, String], wrap),
        pure!("wrapWith", [Int, String, String], wrap_with),
        pure!("abbrev", [Int, String], abbrev),
        pure!("abbrevboth", [Int, Int, String], abbrev_both),
        pure!("initials", [String], initials),
    ]
}

/// Breaks `text` at spaces into lines of at most `width` bytes. A longer word is cut if `cut_words`, else left whole.
fn wrapped(text: &[u8], width: i64, line_break: &[u8], cut_words: bool) -> Result<Vec<u8>, CallError> {
    let width = usize::try_from(width).unwrap_or(0).max(1);
    let line_break = if line_break.is_empty() { b"\n" } else { line_break };
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while text.len() - at > width {
        let rest = text.get(at..).unwrap_or(&[]);
        if rest.first() == Some(&b' ') {
            at += 1;
            continue;
        }
        let line = rest.get(..=width).unwrap_or(rest);
        if let Some(space) = line.iter().rposition(|b| *b == b' ') {
            out.extend_from_slice(rest.get(..space).unwrap_or(&[]));
            at += space + 1;
        } else if cut_words {
            out.extend_from_slice(rest.get(..width).unwrap_or(&[]));
            at += width;
        } else if let Some(more) = rest.get(width..).and_then(|tail| tail.iter().position(|b| *b == b' ')) {
            out.extend_from_slice(rest.get(..width + more).unwrap_or(&[]));
            at += width + more + 1;
        } else {
            out.extend_from_slice(rest);
            at = text.len();
            continue;
        }
        out.extend_from_slice(line_break);
        limit::bytes(out.len())?;
    }
    out.extend_from_slice(text.get(at..).unwrap_or(&[]));
    Ok(out)
}

fn wrap(args: &[Value]) -> Out {
    Ok(Value::string(wrapped(args.text(1)?, args.int(0)?, b"\n", false)?))
}

fn wrap_with(args: &[Value]) -> Out {
    Ok(Value::string(wrapped(
        args.text(2)?,
        args.int(0)?,
        args.text(1)?,
        true,
    )?))
}

/// goutils' `AbbreviateFull` for a width of at least 4, or 7 with an offset.
fn abbreviated(text: &[u8], offset: i64, width: i64) -> Vec<u8> {
    let width = usize::try_from(width).unwrap_or(0);
    if text.len() <= width {
        return text.to_vec();
    }
    let part = width.saturating_sub(3);
    let mut offset = usize::try_from(offset).unwrap_or(0).min(text.len());
    if text.len() - offset < part {
        offset = text.len() - part;
    }
    if offset <= 4 {
        return [text.get(..part).unwrap_or(&[]), b"..."].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if offset + part < text.len() {
        return [
            b"...",
            abbreviated(text.get(offset..).unwrap_or(&[]), 0, part as i64).as_slice(),
        ]
        .concat();
    }
    [b"...", text.get(text.len() - part..).unwrap_or(&[])].concat()
}

fn abbrev(args: &[Value]) -> Out {
    let (width, text) = (args.int(0)?, args.text(1)?);
    Ok(if width < 4 {
        args.any(1).clone()
    } else {
        Value::string(abbreviated(text, 0, width))
    })
}

fn abbrev_both(args: &[Value]) -> Out {
    let (left, right, text) = (args.int(0)?, args.int(1)?, args.text(2)?);
    if right < 4 || (left > 0 && right < 7) {
        return Ok(args.any(2).clone());
    }
    Ok(Value::string(abbreviated(text, left, right)))
}

/// The first byte of each word, read as Latin-1 as goutils does.
fn initials(args: &[Value]) -> Out {
    let mut out = String::new();
    let mut gap = true;
    for c in args.text(0)?.iter().map(|b| char::from(*b)) {
        if gap && !c.is_whitespace() {
            out.push(c);
        }
        gap = c.is_whitespace();
    }
    Ok(Value::string(out))
}
