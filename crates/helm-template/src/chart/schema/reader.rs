//! Reads JSON into [`Json`]. What it refuses isn't JSON; why is found out elsewhere.

use super::json::{Json, Number};
use crate::sprig::json_parse::{self, MAX_DEPTH};
use go_template::value::Value as Template;

/// The value that `text` is; `None` if it isn't JSON.
pub(super) fn read(text: &str) -> Option<Json> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    (reader.next() == END && reader.at == text.len()).then_some(value)
}

/// Where there is no byte; no JSON has it outside of a string.
const END: u8 = 0;

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(END)
    }

    /// The next byte that isn't blank.
    fn next(&mut self) -> u8 {
        while matches!(self.peek(), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
        self.peek()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.next() == byte;
        self.at += usize::from(is_there);
        is_there
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        let deeper = depth + 1;
        match self.next() {
            b'{' if deeper <= MAX_DEPTH => {
                let mut members = Vec::new();
                self.items(b'}', |reader| {
                    let name = (reader.next() == b'"').then(|| reader.string())??;
                    let value = reader.takes(b':').then(|| reader.value(deeper))??;
                    members.push((name, value));
                    Some(())
                })?;
                Some(Json::Object(members.into_iter().collect()))
            }
            b'[' if deeper <= MAX_DEPTH => {
                let mut items = Vec::new();
                self.items(b']', |reader| {
                    items.push(reader.value(deeper)?);
                    Some(())
                })?;
                Some(Json::Array(items.into()))
            }
            b'"' => self.string().map(Json::String),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => self.number().map(Json::Number),
        }
    }

    /// From an opening bracket to `close`.
    fn items(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        if self.takes(close) {
            return Some(());
        }
        loop {
            item(self)?;
            if self.takes(close) {
                return Some(());
            }
            if !self.takes(b',') {
                return None;
            }
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        self.text.get(self.at..)?.starts_with(word).then(|| {
            self.at += word.len();
            value
        })
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<Number> {
        let start = self.at;
        self.at += usize::from(self.peek() == b'-');
        match self.peek() {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
            self.digits()?;
        }
        self.text.get(start..self.at).map(Number::new)
    }

    fn string(&mut self) -> Option<Box<str>> {
        let start = self.at;
        let mut is_plain = true;
        loop {
            self.at += 1;
            match self.peek() {
                b'"' => break,
                b'\\' => {
                    is_plain = false;
                    self.at += 1;
                }
                // The end of the text is one of them.
                control if control < b' ' => return None,
                _ => {}
            }
        }
        self.at += 1;
        let quoted = self.text.get(start..self.at)?;
        if is_plain {
            return quoted.get(1..quoted.len() - 1).map(Box::from);
        }
        match json_parse::unmarshal(quoted.as_bytes()) {
            Ok(Template::String(text)) => Some(text.to_text().into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn deep_values_end_where_gos_decoder_ends() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        // Schemas are read on threads with large stacks.
        let check = move || {
            assert!(read(&deep(MAX_DEPTH)).is_some());
            assert!(read(&deep(MAX_DEPTH + 1)).is_none());
        };
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(check).unwrap();
        thread.join().unwrap();
    }

    proptest! {
        /// What is JSON and what isn't is the same for both readers.
        #[test]
        fn it_takes_what_gos_decoder_takes(
            text in "([\\[\\]{},: \\n\\t\\x0c\"a0-3.eE+-]|true|null|fals|\\\\[\\\\\"/nu]|[01]{4}|\"a\":|\u{e9}|\u{1}){0,12}"
        ) {
            let theirs = match json_parse::unmarshal(text.as_bytes()) {
                Err(e) => e.contains("number out of range"),
                Ok(_) => true,
            };
            prop_assert_eq!(read(&text).is_some(), theirs, "{}", text);
        }
    }
}
