//! Text to tokens: libyaml's scanner as go-yaml v2 has it, without directives and the line breaks of Unicode. Scalars are
//! in [`crate::read::scalars`].

use std::collections::VecDeque;

use crate::Error;
use crate::read::scalars::{scan_block_scalar, scan_plain_scalar, scan_quoted_scalar};
use crate::read::text_cursor::TextCursor;
use crate::read::token::{Mark, Payload, YamlToken, YamlTokenKind};

/// The maximum distance between a simple key and its colon, in characters.
const MAX_KEY_DISTANCE: u32 = 1024;

/// A place where a key without `?` may have started; there is at most one per flow level.
#[derive(Debug, Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// In block context at the current indentation nothing but a key can stand.
    required: bool,
    /// Whether the token waits in the queue for the decision.
    awaited: bool,
    token_number: usize,
    mark: Mark,
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

pub(crate) struct Scanner<'a> {
    cursor: TextCursor<'a>,
    tokens: VecDeque<YamlToken<'a>>,
    /// Number of tokens that left the queue.
    tokens_parsed: usize,
    token_available: bool,
    /// Column of the current block, -1 outside any.
    indent: i32,
    indents: Vec<i32>,
    simple_key_allowed: bool,
    simple_keys: Vec<SimpleKey>,
    flow_level: usize,
    max_depth: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, max_depth: usize) -> Self {
        Scanner {
            cursor: TextCursor::new(text),
            tokens: VecDeque::new(),
            tokens_parsed: 0,
            token_available: false,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            flow_level: 0,
            max_depth,
        }
    }

    /// The kind, start and end of the next token.
    // Inline, so that they stay in registers: put together on the stack, they are waited for when they are read back.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<(YamlTokenKind, Mark, Mark), Error> {
        if !self.token_available {
            self.fetch_more_tokens()?;
            self.token_available = true;
        }
        // The queue is empty only behind the end of the stream.
        Ok(match self.tokens.front() {
            Some(token) => (token.kind, token.start, token.end),
            None => (YamlTokenKind::StreamEnd, self.cursor.mark, self.cursor.mark),
        })
    }

    /// Consumes the peeked token.
    pub(crate) fn take(&mut self) -> Payload<'a> {
        self.token_available = false;
        self.tokens_parsed += 1;
        self.tokens.pop_front().map_or(Payload::None, |token| token.payload)
    }

    fn push(&mut self, kind: YamlTokenKind, start: Mark, payload: Payload<'a>) {
        self.tokens.push_back(YamlToken {
            kind,
            start,
            end: self.cursor.mark,
            payload,
        });
    }

    /// Inserts a token before the one with the number `number`, or at the end if that has left the queue already.
    fn insert(&mut self, number: usize, kind: YamlTokenKind, mark: Mark) {
        let token = YamlToken {
            kind,
            start: mark,
            end: mark,
            payload: Payload::None,
        };
        match number.checked_sub(self.tokens_parsed) {
            Some(position) => self.tokens.insert(position.min(self.tokens.len()), token),
            None => self.tokens.push_back(token),
        }
    }

    /// Number that the next token in the queue will get.
    fn next_token_number(&self) -> usize {
        self.tokens_parsed + self.tokens.len()
    }

    /// Fetches until the first token in the queue is known not to be preceded by a `Key`.
    fn fetch_more_tokens(&mut self) -> Result<(), Error> {
        loop {
            if !self.tokens.is_empty() {
                let number = self.tokens_parsed;
                let from = self.simple_keys.partition_point(|k| k.token_number < number);
                let awaited = (from..self.simple_keys.len())
                    .take_while(|&i| self.simple_keys[i].token_number == number)
                    .find(|&i| self.simple_keys[i].awaited);
                let Some(key) = awaited else { return Ok(()) };
                if !self.is_valid(key)? {
                    return Ok(());
                }
            }
            self.fetch_next_token()?;
        }
    }

    fn fetch_next_token(&mut self) -> Result<(), Error> {
        self.skip_to_next_token();
        self.unroll_indent(self.cursor.mark.column as i32);
        let c = self.cursor.byte(0);
        if c == 0 {
            return self.fetch_stream_end();
        }
        if self.cursor.at_document_indicator() {
            self.leave_document()?;
            let start = self.cursor.mark;
            self.cursor.skip_ascii(3);
            let kind = if c == b'-' {
                YamlTokenKind::DocumentStart
            } else {
                YamlTokenKind::DocumentEnd
            };
            self.push(kind, start, Payload::None);
            return Ok(());
        }
        let in_flow = self.flow_level > 0;
        match c {
            b'[' => self.fetch_flow_start(YamlTokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(YamlTokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(YamlTokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(YamlTokenKind::FlowMappingEnd),
            b',' => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.indicator(YamlTokenKind::FlowEntry)
            }
            b'-' if self.cursor.is_blank_or_end(1) => self.fetch_block_entry(),
            b'?' if in_flow || self.cursor.is_blank_or_end(1) => self.fetch_key(),
            b':' if in_flow || self.cursor.is_blank_or_end(1) => self.fetch_value(),
            b'*' => self.fetch_name(YamlTokenKind::Alias),
            b'&' => self.fetch_name(YamlTokenKind::Anchor),
            b'!' => self.fetch_name(YamlTokenKind::Tag),
            b'|' | b'>' if !in_flow => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                let token = scan_block_scalar(&mut self.cursor, self.indent, c == b'|')?;
                self.tokens.push_back(token);
                Ok(())
            }
            b'\'' | b'"' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                let token = scan_quoted_scalar(&mut self.cursor, c == b'\'')?;
                self.tokens.push_back(token);
                Ok(())
            }
            b'\t' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => {
                Err(self.cursor.error("found character that cannot start any token"))
            }
            _ => {
                self.save_simple_key()?;
                let token = scan_plain_scalar(&mut self.cursor, self.indent, in_flow)?;
                // Behind the scalar, a key may start only on a later line.
                self.simple_key_allowed = self.cursor.mark.line > token.end.line;
                self.tokens.push_back(token);
                Ok(())
            }
        }
    }

    fn skip_to_next_token(&mut self) {
        loop {
            // Tabs separate tokens, but are no indentation: not where a key may start.
            self.cursor.skip_spaces();
            while self.cursor.byte(0) == b'\t' && (self.flow_level > 0 || !self.simple_key_allowed) {
                self.cursor.skip_ascii(1);
                self.cursor.skip_spaces();
            }
            if self.cursor.byte(0) == b'#' {
                self.cursor.skip_to_break();
            }
            if !self.cursor.skip_break() {
                return;
            }
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    /// Consumes a one-character indicator.
    fn indicator(&mut self, kind: YamlTokenKind) -> Result<(), Error> {
        let start = self.cursor.mark;
        self.cursor.skip();
        self.push(kind, start, Payload::None);
        Ok(())
    }

    fn fetch_stream_end(&mut self) -> Result<(), Error> {
        if self.cursor.mark.column != 0 {
            self.cursor.mark.column = 0;
            self.cursor.mark.line += 1;
        }
        self.leave_document()?;
        self.push(YamlTokenKind::StreamEnd, self.cursor.mark, Payload::None);
        Ok(())
    }

    /// Ends all blocks.
    fn leave_document(&mut self) -> Result<(), Error> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: YamlTokenKind) -> Result<(), Error> {
        self.save_simple_key()?;
        let token_number = self.next_token_number();
        self.simple_keys.push(SimpleKey {
            token_number,
            mark: self.cursor.mark,
            ..SimpleKey::default()
        });
        self.flow_level += 1;
        if self.flow_level > self.max_depth {
            return Err(self.too_deep());
        }
        self.simple_key_allowed = true;
        self.indicator(kind)
    }

    fn fetch_flow_end(&mut self, kind: YamlTokenKind) -> Result<(), Error> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            // The library keeps the awaited keys in a map by token number, where a level that saw no key of its own
            // has the number of the bracket that opened it: leaving it drops the bracket's entry.
            if let Some(left) = self.simple_keys.pop()
                && let Some(outer) = self.simple_keys.last_mut()
                && outer.token_number == left.token_number
            {
                outer.awaited = false;
            }
        }
        self.simple_key_allowed = false;
        self.indicator(kind)
    }

    fn fetch_block_entry(&mut self) -> Result<(), Error> {
        // In flow context the parser refuses it.
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self
                    .cursor
                    .error("block sequence entries are not allowed in this context"));
            }
            self.roll_indent(self.cursor.mark, None, YamlTokenKind::BlockSequenceStart)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.indicator(YamlTokenKind::BlockEntry)
    }

    fn fetch_key(&mut self) -> Result<(), Error> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.cursor.error("mapping keys are not allowed in this context"));
            }
            self.roll_indent(self.cursor.mark, None, YamlTokenKind::BlockMappingStart)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.indicator(YamlTokenKind::Key)
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        let top = self.simple_keys.len().saturating_sub(1);
        if self.is_valid(top)? {
            let key = self.simple_keys[top];
            self.insert(key.token_number, YamlTokenKind::Key, key.mark);
            self.roll_indent(key.mark, Some(key.token_number), YamlTokenKind::BlockMappingStart)?;
            self.simple_keys[top].possible = false;
            self.simple_keys[top].awaited = false;
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return Err(self.cursor.error("mapping values are not allowed in this context"));
                }
                self.roll_indent(self.cursor.mark, None, YamlTokenKind::BlockMappingStart)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.indicator(YamlTokenKind::Value)
    }

    fn fetch_name(&mut self, kind: YamlTokenKind) -> Result<(), Error> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark;
        let name = match kind {
            YamlTokenKind::Tag => self.scan_tag()?,
            _ => self.scan_name()?,
        };
        self.push(kind, start, Payload::Name(name));
        Ok(())
    }

    /// The name behind `&` or `*`.
    fn scan_name(&mut self) -> Result<&'a str, Error> {
        self.cursor.skip_ascii(1);
        let name = self.cursor.skip_while(is_name);
        let ends = self.cursor.is_blank_or_end(0) || b"?:,]}%@`".contains(&self.cursor.byte(0));
        if name.is_empty() || !ends {
            return Err(self
                .cursor
                .error("did not find expected alphabetic or numeric character"));
        }
        Ok(name)
    }

    /// A tag as it is written, with its `!`.
    fn scan_tag(&mut self) -> Result<&'a str, Error> {
        let tag = self
            .cursor
            .skip_while(|b| is_name(b) || b";/?:@&=+$,.!~*'()[]%".contains(&b));
        if self.cursor.is_blank_or_end(0) {
            Ok(tag)
        } else {
            Err(self.cursor.error("did not find expected whitespace or line break"))
        }
    }

    /// Whether the simple key at `index` of the stack may still get its colon.
    fn is_valid(&mut self, index: usize) -> Result<bool, Error> {
        let Some(key) = self.simple_keys.get(index).filter(|key| key.possible) else {
            return Ok(false);
        };
        if key.mark.line < self.cursor.mark.line || key.mark.index + MAX_KEY_DISTANCE < self.cursor.mark.index {
            if key.required {
                return Err(self.cursor.error("could not find expected ':'"));
            }
            self.simple_keys[index].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_simple_key(&mut self) -> Result<(), Error> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let required = self.flow_level == 0 && self.indent == self.cursor.mark.column as i32;
        let token_number = self.next_token_number();
        self.remove_simple_key()?;
        if let Some(top) = self.simple_keys.last_mut() {
            *top = SimpleKey {
                possible: true,
                required,
                awaited: true,
                token_number,
                mark: self.cursor.mark,
            };
        }
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Result<(), Error> {
        match self.simple_keys.last_mut() {
            Some(top) if top.possible && top.required => Err(self.cursor.error("could not find expected ':'")),
            Some(top) if top.possible => {
                top.possible = false;
                top.awaited = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Starts a block at `mark` if that is further in than the current one; its token goes before the token `number`.
    fn roll_indent(&mut self, mark: Mark, number: Option<usize>, kind: YamlTokenKind) -> Result<(), Error> {
        let column = mark.column as i32;
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > self.max_depth {
            return Err(self.too_deep());
        }
        self.insert(number.unwrap_or(usize::MAX), kind, mark);
        Ok(())
    }

    fn too_deep(&self) -> Error {
        Error::depth(
            (self.cursor.mark.line > 0).then_some(self.cursor.mark.line as usize + 1),
            self.max_depth,
        )
    }

    /// Ends the blocks that are further in than `column`.
    fn unroll_indent(&mut self, column: i32) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(YamlTokenKind::BlockEnd, self.cursor.mark, Payload::None);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }
}
