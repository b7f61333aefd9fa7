//! Plain, quoted and block scalars.

use std::borrow::Cow;

use crate::Error;
use crate::read::text_cursor::TextCursor;
use crate::read::token::{Mark, Payload, YamlToken, YamlTokenKind};

fn scalar<'a>(start: Mark, end: Mark, value: impl Into<Cow<'a, str>>, plain: bool) -> YamlToken<'a> {
    YamlToken {
        kind: YamlTokenKind::Scalar,
        start,
        end,
        payload: Payload::Scalar {
            value: value.into(),
            plain,
        },
    }
}

/// The line breaks between two lines of a flow scalar: a single one becomes a space.
#[derive(Default)]
struct Breaks {
    /// Not behind an escaped line break.
    has_first: bool,
    more: usize,
}

impl Breaks {
    /// Skips a line break. Returns whether there was one.
    fn skip(&mut self, cursor: &mut TextCursor<'_>, leading_blanks: &mut bool) -> bool {
        if !cursor.skip_break() {
            return false;
        }
        if *leading_blanks {
            self.more += 1
        } else {
            (self.has_first, *leading_blanks) = (true, true)
        }
        true
    }

    fn fold_into(&mut self, text: &mut String) {
        match *self {
            Breaks {
                has_first: true,
                more: 0,
            } => text.push(' '),
            Breaks { more, .. } => text.extend(std::iter::repeat_n('\n', more)),
        }
        *self = Breaks::default();
    }
}

/// Whether a character can be in a plain scalar at any position.
fn is_ordinary(b: u8) -> bool {
    const ORDINARY: [bool; 256] = {
        let mut table = [false; 256];
        let mut b = 0x21;
        while b < 0x7F {
            table[b] = !matches!(b as u8, b':' | b',' | b'?' | b'[' | b']' | b'{' | b'}');
            b += 1;
        }
        table
    };
    ORDINARY[usize::from(b)]
}

/// Scans a plain scalar in the block at the column `parent_indent`, -1 outside any.
pub(crate) fn scan_plain_scalar<'a>(
    cursor: &mut TextCursor<'a>,
    parent_indent: i32,
    in_flow: bool,
) -> Result<YamlToken<'a>, Error> {
    let start_mark = cursor.mark;
    let mut end_mark = start_mark;
    let start = cursor.at;
    // Behind the last character that is not blank.
    let mut end = start;
    // Set from the second line on; before, the value is a part of the text.
    let mut folded: Option<String> = None;
    let mut breaks = Breaks::default();
    let mut leading_blanks = false;
    let indent = parent_indent + 1;
    loop {
        if cursor.at_document_indicator() || cursor.byte(0) == b'#' {
            break;
        }
        let run = cursor.at;
        skip_plain_run(cursor, in_flow);
        if cursor.at > run {
            if leading_blanks {
                let value = folded.get_or_insert_with(|| cursor.text.get(start..end).unwrap_or_default().to_owned());
                breaks.fold_into(value);
                value.push_str(cursor.text.get(run..cursor.at).unwrap_or_default());
                leading_blanks = false;
            } else if let Some(value) = &mut folded {
                value.push_str(cursor.text.get(end..cursor.at).unwrap_or_default());
            }
            end = cursor.at;
            end_mark = cursor.mark;
        }
        if !cursor.is_blank(0) && !cursor.is_break(0) {
            break;
        }
        loop {
            cursor.skip_spaces();
            if cursor.is_blank(0) {
                if leading_blanks && (cursor.mark.column as i32) < indent && cursor.byte(0) == b'\t' {
                    return Err(cursor.error("found a tab character that violates indentation"));
                }
                cursor.skip_ascii(1);
            } else if !breaks.skip(cursor, &mut leading_blanks) {
                break;
            }
        }
        if !in_flow && (cursor.mark.column as i32) < indent {
            break;
        }
    }
    let value = match folded {
        Some(value) => Cow::Owned(value),
        None => Cow::Borrowed(cursor.text.get(start..end).unwrap_or_default()),
    };
    Ok(scalar(start_mark, end_mark, value, true))
}

/// Skips the characters of a plain scalar up to the next blank or the scalar's end.
fn skip_plain_run(cursor: &mut TextCursor<'_>, in_flow: bool) {
    let mut characters = 0;
    loop {
        let rest = cursor.bytes.get(cursor.at..).unwrap_or_default();
        let ordinary = rest.iter().take_while(|b| is_ordinary(**b)).count();
        cursor.at += ordinary;
        characters += ordinary as u32;
        let Some(&b) = cursor.bytes.get(cursor.at) else { break };
        let ends = match b {
            b' ' | b'\t' | b'\r' | b'\n' => true,
            b':' => cursor.is_blank_or_end(1),
            b',' | b'?' | b'[' | b']' | b'{' | b'}' => in_flow,
            _ => false,
        };
        if ends {
            break;
        }
        characters += u32::from(b & 0xC0 != 0x80);
        cursor.at += 1;
    }
    cursor.skip_run(0, characters);
}

/// Scans a scalar in single or double quotes.
pub(crate) fn scan_quoted_scalar<'a>(cursor: &mut TextCursor<'a>, single: bool) -> Result<YamlToken<'a>, Error> {
    let start_mark = cursor.mark;
    cursor.skip();
    if let Some(value) = skip_simple_quoted(cursor, single) {
        return Ok(scalar(start_mark, cursor.mark, value, false));
    }
    let quote = if single { b'\'' } else { b'"' };
    let mut value = String::new();
    let mut breaks = Breaks::default();
    loop {
        if cursor.at_document_indicator() {
            return Err(cursor.error("found unexpected document indicator"));
        }
        if cursor.byte(0) == 0 {
            return Err(cursor.error("found unexpected end of stream"));
        }
        let mut leading_blanks = scan_quoted_run(cursor, single, &mut value)?;
        if cursor.byte(0) == quote {
            break;
        }
        let blanks = cursor.at;
        let mut blanks_end = cursor.at;
        loop {
            if cursor.is_blank(0) {
                cursor.skip_ascii(1);
                if !leading_blanks {
                    blanks_end = cursor.at;
                }
            } else if !breaks.skip(cursor, &mut leading_blanks) {
                break;
            }
        }
        if leading_blanks {
            breaks.fold_into(&mut value);
        } else {
            value.push_str(cursor.text.get(blanks..blanks_end).unwrap_or_default());
        }
    }
    cursor.skip();
    Ok(scalar(start_mark, cursor.mark, value, false))
}

/// The rest of a quoted scalar on one line without escapes, with its closing quote; moves only if it is that.
fn skip_simple_quoted<'a>(cursor: &mut TextCursor<'a>, single: bool) -> Option<&'a str> {
    let quote = if single { b'\'' } else { b'"' };
    let rest = cursor.bytes.get(cursor.at..)?;
    let length = rest
        .iter()
        .position(|&b| b == quote || matches!(b, b'\\' | b'\r' | b'\n'))?;
    if rest[length] != quote || single && rest.get(length + 1) == Some(&b'\'') {
        return None;
    }
    let value = cursor.text.get(cursor.at..cursor.at + length)?;
    let characters = value.chars().count() as u32 + 1;
    cursor.skip_run(length + 1, characters);
    Some(value)
}

/// Reads up to a blank, a line break or the closing quote; says whether it stopped behind an escaped line break.
fn scan_quoted_run(cursor: &mut TextCursor<'_>, single: bool, value: &mut String) -> Result<bool, Error> {
    while !cursor.is_blank_or_end(0) {
        match cursor.byte(0) {
            b'\'' if single && cursor.byte(1) == b'\'' => {
                value.push('\'');
                cursor.skip_ascii(2);
            }
            b'\'' if single => break,
            b'"' if !single => break,
            b'\\' if !single && cursor.is_break(1) => {
                cursor.skip();
                cursor.skip_break();
                return Ok(true);
            }
            b'\\' if !single => value.push(scan_escape(cursor)?),
            _ => {
                let start = cursor.at;
                cursor.skip();
                value.push_str(cursor.text.get(start..cursor.at).unwrap_or_default());
            }
        }
    }
    Ok(false)
}

fn scan_escape(cursor: &mut TextCursor<'_>) -> Result<char, Error> {
    let code_length = match cursor.byte(1) {
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        other => {
            let c = match other {
                b'0' => '\0',
                b'a' => '\x07',
                b'b' => '\x08',
                b't' | b'\t' => '\t',
                b'n' => '\n',
                b'v' => '\x0B',
                b'f' => '\x0C',
                b'r' => '\r',
                b'e' => '\x1B',
                b' ' | b'"' | b'\'' | b'\\' => char::from(other),
                b'N' => '\u{85}',
                b'_' => '\u{A0}',
                b'L' => '\u{2028}',
                b'P' => '\u{2029}',
                _ => return Err(cursor.error("found unknown escape character")),
            };
            cursor.skip_ascii(2);
            return Ok(c);
        }
    };
    cursor.skip_ascii(2);
    let mut code: u32 = 0;
    for i in 0..code_length {
        let Some(digit) = char::from(cursor.byte(i)).to_digit(16) else {
            return Err(cursor.error("did not find expected hexdecimal number"));
        };
        code = code << 4 | digit;
    }
    let Some(c) = char::from_u32(code) else {
        return Err(cursor.error("found invalid Unicode character escape code"));
    };
    cursor.skip_ascii(code_length);
    Ok(c)
}

/// Scans a literal or folded scalar in the block at the column `parent_indent`, -1 outside any.
pub(crate) fn scan_block_scalar<'a>(
    cursor: &mut TextCursor<'a>,
    parent_indent: i32,
    literal: bool,
) -> Result<YamlToken<'a>, Error> {
    let start_mark = cursor.mark;
    cursor.skip();
    let (chomping, increment) = scan_block_header(cursor)?;
    let mut end_mark = cursor.mark;
    let mut indent = match increment {
        0 => 0,
        _ => parent_indent.max(0) as u32 + increment,
    };
    let mut value = String::new();
    let mut leading_break = false;
    let mut trailing_breaks = 0;
    scan_block_breaks(cursor, parent_indent, &mut indent, &mut trailing_breaks, &mut end_mark)?;
    let mut leading_blank = false;
    while cursor.mark.column == indent && cursor.byte(0) != 0 {
        let trailing_blank = cursor.is_blank(0);
        let folds = !literal && !leading_blank && !trailing_blank;
        match leading_break {
            true if !folds => value.push('\n'),
            true if trailing_breaks == 0 => value.push(' '),
            _ => {}
        }
        value.extend(std::iter::repeat_n('\n', std::mem::take(&mut trailing_breaks)));
        leading_blank = trailing_blank;
        value.push_str(cursor.skip_to_break());
        leading_break = cursor.skip_break();
        scan_block_breaks(cursor, parent_indent, &mut indent, &mut trailing_breaks, &mut end_mark)?;
    }
    if leading_break && chomping != Chomping::Strip {
        value.push('\n');
    }
    if chomping == Chomping::Keep {
        value.extend(std::iter::repeat_n('\n', trailing_breaks));
    }
    Ok(scalar(start_mark, end_mark, value, false))
}

/// The indicators behind `|` or `>` and the rest of their line. No indentation indicator is 0.
fn scan_block_header(cursor: &mut TextCursor<'_>) -> Result<(Chomping, u32), Error> {
    let mut chomping = None;
    let mut increment = None;
    loop {
        match cursor.byte(0) {
            b'+' if chomping.is_none() => chomping = Some(Chomping::Keep),
            b'-' if chomping.is_none() => chomping = Some(Chomping::Strip),
            b'0' if increment.is_none() => {
                return Err(cursor.error("found an indentation indicator equal to 0"));
            }
            digit @ b'1'..=b'9' if increment.is_none() => increment = Some(u32::from(digit - b'0')),
            _ => break,
        }
        cursor.skip();
    }
    cursor.skip_blanks();
    if cursor.byte(0) == b'#' {
        cursor.skip_to_break();
    }
    if !cursor.is_break_or_end(0) {
        return Err(cursor.error("did not find expected comment or line break"));
    }
    cursor.skip_break();
    Ok((chomping.unwrap_or(Chomping::Clip), increment.unwrap_or(0)))
}

/// Skips indentation and counts line breaks; finds out the indentation if it is not known (0).
fn scan_block_breaks(
    cursor: &mut TextCursor<'_>,
    parent_indent: i32,
    indent: &mut u32,
    breaks: &mut usize,
    end: &mut Mark,
) -> Result<(), Error> {
    *end = cursor.mark;
    let mut deepest = 0;
    loop {
        let most = match *indent {
            0 => usize::MAX,
            indent => indent.saturating_sub(cursor.mark.column) as usize,
        };
        let rest = cursor.bytes.get(cursor.at..).unwrap_or_default();
        cursor.skip_ascii(rest.iter().take(most).take_while(|b| **b == b' ').count());
        deepest = deepest.max(cursor.mark.column);
        if (*indent == 0 || cursor.mark.column < *indent) && cursor.byte(0) == b'\t' {
            return Err(cursor.error("found a tab character where an indentation space is expected"));
        }
        if !cursor.skip_break() {
            break;
        }
        *breaks += 1;
        *end = cursor.mark;
    }
    if *indent == 0 {
        *indent = deepest.max((parent_indent + 1) as u32).max(1);
    }
    Ok(())
}
/// The treatment of line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}
