//! Plain, quoted and block scalars.

use std::borrow::Cow;

use crate::Error;
use crate::read::scanner::Scanner;
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
    fn skip(&mut self, scanner: &mut Scanner<'_>, leading_blanks: &mut bool) -> bool {
        if !scanner.skip_break() {
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

impl<'a> Scanner<'a> {
    pub(crate) fn scan_plain_scalar(&mut self) -> Result<YamlToken<'a>, Error> {
        let start_mark = self.mark;
        let mut end_mark = start_mark;
        let start = self.at;
        // Behind the last character that is not blank.
        let mut end = start;
        // Set from the second line on; before, the value is a part of the text.
        let mut folded: Option<String> = None;
        let mut breaks = Breaks::default();
        let mut leading_blanks = false;
        let indent = self.indent + 1;
        loop {
            if self.at_document_indicator() || self.byte(0) == b'#' {
                break;
            }
            let run = self.at;
            self.skip_plain_run();
            if self.at > run {
                if leading_blanks {
                    let value = folded.get_or_insert_with(|| self.text.get(start..end).unwrap_or_default().to_owned());
                    breaks.fold_into(value);
                    value.push_str(self.text.get(run..self.at).unwrap_or_default());
                    leading_blanks = false;
                } else if let Some(value) = &mut folded {
                    value.push_str(self.text.get(end..self.at).unwrap_or_default());
                }
                end = self.at;
                end_mark = self.mark;
            }
            if !self.is_blank(0) && !self.is_break(0) {
                break;
            }
            loop {
                self.skip_spaces();
                if self.is_blank(0) {
                    if leading_blanks && (self.mark.column as i32) < indent && self.byte(0) == b'\t' {
                        return Err(self.error("found a tab character that violates indentation"));
                    }
                    self.skip_ascii(1);
                } else if !breaks.skip(self, &mut leading_blanks) {
                    break;
                }
            }
            if self.flow_level == 0 && (self.mark.column as i32) < indent {
                break;
            }
        }
        if leading_blanks {
            self.simple_key_allowed = true;
        }
        let value = match folded {
            Some(value) => Cow::Owned(value),
            None => Cow::Borrowed(self.text.get(start..end).unwrap_or_default()),
        };
        Ok(scalar(start_mark, end_mark, value, true))
    }

    /// Skips the characters of a plain scalar up to the next blank or the scalar's end.
    fn skip_plain_run(&mut self) {
        let in_flow = self.flow_level > 0;
        let mut characters = 0;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let ordinary = rest.iter().take_while(|b| is_ordinary(**b)).count();
            self.at += ordinary;
            characters += ordinary as u32;
            let Some(&b) = self.bytes.get(self.at) else { break };
            let ends = match b {
                b' ' | b'\t' | b'\r' | b'\n' => true,
                b':' => self.is_blank_or_end(1),
                b',' | b'?' | b'[' | b']' | b'{' | b'}' => in_flow,
                _ => false,
            };
            if ends {
                break;
            }
            characters += u32::from(b & 0xC0 != 0x80);
            self.at += 1;
        }
        self.skip_run(0, characters);
    }

    pub(crate) fn scan_quoted_scalar(&mut self, single: bool) -> Result<YamlToken<'a>, Error> {
        let start_mark = self.mark;
        self.skip();
        if let Some(value) = self.skip_simple_quoted(single) {
            return Ok(scalar(start_mark, self.mark, value, false));
        }
        let quote = if single { b'\'' } else { b'"' };
        let mut value = String::new();
        let mut breaks = Breaks::default();
        loop {
            if self.at_document_indicator() {
                return Err(self.error("found unexpected document indicator"));
            }
            if self.byte(0) == 0 {
                return Err(self.error("found unexpected end of stream"));
            }
            let mut leading_blanks = self.scan_quoted_run(single, &mut value)?;
            if self.byte(0) == quote {
                break;
            }
            let blanks = self.at;
            let mut blanks_end = self.at;
            loop {
                if self.is_blank(0) {
                    self.skip_ascii(1);
                    if !leading_blanks {
                        blanks_end = self.at;
                    }
                } else if !breaks.skip(self, &mut leading_blanks) {
                    break;
                }
            }
            if leading_blanks {
                breaks.fold_into(&mut value);
            } else {
                value.push_str(self.text.get(blanks..blanks_end).unwrap_or_default());
            }
        }
        self.skip();
        Ok(scalar(start_mark, self.mark, value, false))
    }

    /// The rest of a quoted scalar on one line without escapes, with its closing quote; moves only if it is that.
    fn skip_simple_quoted(&mut self, single: bool) -> Option<&'a str> {
        let quote = if single { b'\'' } else { b'"' };
        let rest = self.bytes.get(self.at..)?;
        let length = rest
            .iter()
            .position(|&b| b == quote || matches!(b, b'\\' | b'\r' | b'\n'))?;
        if rest[length] != quote || single && rest.get(length + 1) == Some(&b'\'') {
            return None;
        }
        let value = self.text.get(self.at..self.at + length)?;
        let characters = value.chars().count() as u32 + 1;
        self.skip_run(length + 1, characters);
        Some(value)
    }

    /// Reads up to a blank, a line break or the closing quote; says whether it stopped behind an escaped line break.
    fn scan_quoted_run(&mut self, single: bool, value: &mut String) -> Result<bool, Error> {
        while !self.is_blank_or_end(0) {
            match self.byte(0) {
                b'\'' if single && self.byte(1) == b'\'' => {
                    value.push('\'');
                    self.skip_ascii(2);
                }
                b'\'' if single => break,
                b'"' if !single => break,
                b'\\' if !single && self.is_break(1) => {
                    self.skip();
                    self.skip_break();
                    return Ok(true);
                }
                b'\\' if !single => value.push(self.scan_escape()?),
                _ => {
                    let start = self.at;
                    self.skip();
                    value.push_str(self.text.get(start..self.at).unwrap_or_default());
                }
            }
        }
        Ok(false)
    }

    fn scan_escape(&mut self) -> Result<char, Error> {
        let code_length = match self.byte(1) {
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
                    _ => return Err(self.error("found unknown escape character")),
                };
                self.skip_ascii(2);
                return Ok(c);
            }
        };
        self.skip_ascii(2);
        let mut code: u32 = 0;
        for i in 0..code_length {
            let Some(digit) = char::from(self.byte(i)).to_digit(16) else {
                return Err(self.error("did not find expected hexdecimal number"));
            };
            code = code << 4 | digit;
        }
        let Some(c) = char::from_u32(code) else {
            return Err(self.error("found invalid Unicode character escape code"));
        };
        self.skip_ascii(code_length);
        Ok(c)
    }

    pub(crate) fn scan_block_scalar(&mut self, literal: bool) -> Result<YamlToken<'a>, Error> {
        let start_mark = self.mark;
        self.skip();
        let (chomping, increment) = self.scan_block_header()?;
        let mut end_mark = self.mark;
        let mut indent = match increment {
            0 => 0,
            _ => self.indent.max(0) as u32 + increment,
        };
        let mut value = String::new();
        let mut leading_break = false;
        let mut trailing_breaks = 0;
        self.scan_block_breaks(&mut indent, &mut trailing_breaks, &mut end_mark)?;
        let mut leading_blank = false;
        while self.mark.column == indent && self.byte(0) != 0 {
            let trailing_blank = self.is_blank(0);
            let folds = !literal && !leading_blank && !trailing_blank;
            match leading_break {
                true if !folds => value.push('\n'),
                true if trailing_breaks == 0 => value.push(' '),
                _ => {}
            }
            value.extend(std::iter::repeat_n('\n', std::mem::take(&mut trailing_breaks)));
            leading_blank = trailing_blank;
            value.push_str(self.skip_to_break());
            leading_break = self.skip_break();
            self.scan_block_breaks(&mut indent, &mut trailing_breaks, &mut end_mark)?;
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
    fn scan_block_header(&mut self) -> Result<(Chomping, u32), Error> {
        let mut chomping = None;
        let mut increment = None;
        loop {
            match self.byte(0) {
                b'+' if chomping.is_none() => chomping = Some(Chomping::Keep),
                b'-' if chomping.is_none() => chomping = Some(Chomping::Strip),
                b'0' if increment.is_none() => {
                    return Err(self.error("found an indentation indicator equal to 0"));
                }
                digit @ b'1'..=b'9' if increment.is_none() => increment = Some(u32::from(digit - b'0')),
                _ => break,
            }
            self.skip();
        }
        self.skip_blanks();
        if self.byte(0) == b'#' {
            self.skip_to_break();
        }
        if !self.is_break_or_end(0) {
            return Err(self.error("did not find expected comment or line break"));
        }
        self.skip_break();
        Ok((chomping.unwrap_or(Chomping::Clip), increment.unwrap_or(0)))
    }

    /// Skips indentation and counts line breaks; finds out the indentation if it is not known (0).
    fn scan_block_breaks(&mut self, indent: &mut u32, breaks: &mut usize, end: &mut Mark) -> Result<(), Error> {
        *end = self.mark;
        let mut deepest = 0;
        loop {
            let most = match *indent {
                0 => usize::MAX,
                indent => indent.saturating_sub(self.mark.column) as usize,
            };
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.skip_ascii(rest.iter().take(most).take_while(|b| **b == b' ').count());
            deepest = deepest.max(self.mark.column);
            if (*indent == 0 || self.mark.column < *indent) && self.byte(0) == b'\t' {
                return Err(self.error("found a tab character where an indentation space is expected"));
            }
            if !self.skip_break() {
                break;
            }
            *breaks += 1;
            *end = self.mark;
        }
        if *indent == 0 {
            *indent = deepest.max((self.indent + 1) as u32).max(1);
        }
        Ok(())
    }
}

/// The treatment of line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}
