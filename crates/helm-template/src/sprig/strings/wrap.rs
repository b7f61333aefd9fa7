//! Fitting text into a width: `wrap`, `abbrev` and their kin, by the rules of goutils v1.1.1. Widths are bytes.

use crate::limit;
use go_template::func::{CallError, Func, Meter};
use go_template::value::Str;

pub(crate) fn table<C: crate::sprig::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("wrap", |meter: &Meter, width: i64, text: &[u8]| {
            wrapped(meter, text, width, b"\n", false)
        }),
        Func::new(
            "wrapWith",
            |meter: &Meter, width: i64, line_break: &[u8], text: &[u8]| wrapped(meter, text, width, line_break, true),
        ),
        Func::new("abbrev", |width: i64, text: &Str| match width {
            ..4 => text.clone(),
            width => abbreviated(text, 0, width),
        }),
        Func::new("abbrevboth", |left: i64, right: i64, text: &Str| {
            if right < 4 || (left > 0 && right < 7) {
                return text.clone();
            }
            abbreviated(text, left, right)
        }),
        Func::new("initials", initials),
    ]
}

/// Breaks `text` at spaces into lines of at most `width` bytes. A longer word is cut if `cut_words`, else left whole.
fn wrapped(meter: &Meter, text: &[u8], width: i64, line_break: &[u8], cut_words: bool) -> Result<Vec<u8>, CallError> {
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
        limit::bytes(meter, out.len())?;
    }
    out.extend_from_slice(text.get(at..).unwrap_or(&[]));
    Ok(out)
}

/// goutils' `AbbreviateFull` for a width of at least 4, or 7 with an offset.
fn abbreviated(text: &[u8], offset: i64, width: i64) -> Str {
    let width = usize::try_from(width).unwrap_or(0);
    if text.len() <= width {
        return Str::from(text);
    }
    let part = width.saturating_sub(3);
    let mut offset = usize::try_from(offset).unwrap_or(0).min(text.len());
    if text.len() - offset < part {
        offset = text.len() - part;
    }
    let from = |at: usize| text.get(at..).unwrap_or(&[]);
    Str::from(if offset <= 4 {
        [text.get(..part).unwrap_or(&[]), b"..."].concat()
    } else if width < 7 {
        Vec::new()
    } else if offset + part < text.len() {
        [b"...", &*abbreviated(from(offset), 0, part as i64)].concat()
    } else {
        [b"...", from(text.len() - part)].concat()
    })
}

/// The first byte of each word, read as Latin-1 as goutils does.
fn initials(text: &[u8]) -> String {
    let mut out = String::new();
    let mut gap = true;
    for c in text.iter().map(|b| char::from(*b)) {
        if gap && !c.is_whitespace() {
            out.push(c);
        }
        gap = c.is_whitespace();
    }
    out
}
