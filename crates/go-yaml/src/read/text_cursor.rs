//! The position in a text: what comes next, and how to move past it.

use crate::Error;
use crate::read::token::Mark;

/// A text with the position of its next character.
pub(crate) struct TextCursor<'a> {
    pub(crate) text: &'a str,
    pub(crate) bytes: &'a [u8],
    /// Byte offset of the next character.
    pub(crate) at: usize,
    pub(crate) mark: Mark,
}

impl<'a> TextCursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        TextCursor {
            text,
            bytes: text.as_bytes(),
            at: 0,
            mark: Mark::default(),
        }
    }

    /// The byte `ahead` of the current position; 0 behind the end (the text itself has none).
    pub(crate) fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    pub(crate) fn is_break(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b'\r' | b'\n')
    }

    pub(crate) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t')
    }

    /// Whether a line break or the end is there.
    pub(crate) fn is_break_or_end(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), 0 | b'\r' | b'\n')
    }

    /// Whether white space, a line break or the end is there.
    pub(crate) fn is_blank_or_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_break_or_end(ahead)
    }

    /// Skips a character.
    pub(crate) fn skip(&mut self) {
        let Some(&lead) = self.bytes.get(self.at) else { return };
        self.at += match lead {
            0..=0x7F => 1,
            0x80..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        };
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Skips `bytes` that are known to be ASCII.
    pub(crate) fn skip_ascii(&mut self, bytes: usize) {
        self.skip_run(bytes, bytes as u32);
    }

    /// Skips the spaces that come next, of which deeply nested documents largely consist.
    pub(crate) fn skip_spaces(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.skip_ascii(rest.iter().take_while(|b| **b == b' ').count());
    }

    pub(crate) fn skip_blanks(&mut self) {
        while self.is_blank(0) {
            self.skip_ascii(1);
        }
    }

    /// Skips to the end of the line, returning what was there.
    pub(crate) fn skip_to_break(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = memchr::memchr2(b'\n', b'\r', rest.as_bytes());
        let line = end.and_then(|end| rest.get(..end)).unwrap_or(rest);
        let characters = if line.is_ascii() {
            line.len()
        } else {
            line.chars().count()
        };
        self.skip_run(line.len(), characters as u32);
        line
    }

    /// Skips that many bytes and characters, among which is no line break.
    pub(crate) fn skip_run(&mut self, bytes: usize, characters: u32) {
        self.at += bytes;
        self.mark.index += characters;
        self.mark.column += characters;
    }

    /// Skips a line break; whether there was one.
    pub(crate) fn skip_break(&mut self) -> bool {
        if !self.is_break(0) {
            return false;
        }
        let length = match (self.byte(0), self.byte(1)) {
            (b'\r', b'\n') => 2,
            _ => 1,
        };
        self.at += length;
        self.mark.index += length as u32;
        self.mark.column = 0;
        self.mark.line += 1;
        true
    }

    /// Whether `---` or `...` stands alone at the start of the line.
    pub(crate) fn at_document_indicator(&self) -> bool {
        self.mark.column == 0
            && matches!(self.bytes.get(self.at..self.at + 3), Some(b"---" | b"..."))
            && self.is_blank_or_end(3)
    }

    /// Skips ASCII characters.
    pub(crate) fn skip_while(&mut self, accept: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while accept(self.byte(0)) {
            self.skip_ascii(1);
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// An error at the current position.
    pub(crate) fn error(&self, problem: &str) -> Error {
        Error::yaml((self.mark.line > 0).then_some(self.mark.line as usize + 1), problem)
    }
}
