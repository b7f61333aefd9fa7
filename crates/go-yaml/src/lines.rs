//! A quick look at a document of the commonest shape, line by line: block mappings and sequences, plain scalars, quoted ones,
//! block scalars, short flow collections; no anchors, aliases, tags, tabs or keys that are no words.
//!
//! It finds out where the outermost entries are and that nothing is wrong with the document. Where it isn't sure it says so,
//! and the document is read token by token, which takes five times as long. It never decides what an error is.

use super::reader;

/// Deeper documents are left to the other reader.
const MAX_OPEN: usize = 100;
/// Longer keys are left to the other reader: a key may have 1,024 characters.
const MAX_KEY: usize = 256;
/// Keys of digits that are no longer than this are integers that fit into 63 bits.
const MAX_NUMBER: usize = 15;
/// How deep flow collections may nest here.
const MAX_FLOW: usize = 16;

/// The text of those entries of the outermost mapping whose keys are wanted, or may be. `None`: `text` must be read by
/// token.
pub(super) fn entries(text: &[u8], wanted: impl Fn(&str) -> bool) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    if !reader::is_allowed(text) || has_other_breaks(text.as_bytes()) {
        return None;
    }
    let mut look = Look {
        text,
        line: 0,
        next: 0,
        open: Vec::with_capacity(16),
        is_waiting: false,
        continues: false,
        wanted,
        from: None,
        found: String::new(),
    };
    look.document()?;
    // Without a mapping there may be no document at all.
    look.open.first()?;
    look.end_entry(text.len());
    Some(look.found)
}

/// Whether there are line breaks other than line feeds, or byte order marks, which may be skipped.
fn has_other_breaks(text: &[u8]) -> bool {
    if memchr::memchr(b'\r', text).is_some() {
        return true;
    }
    !text.is_ascii()
        && memchr::memchr3_iter(0xC2, 0xE2, 0xEF, text).any(|at| {
            matches!(
                text.get(at..).unwrap_or_default(),
                [0xC2, 0x85, ..] | [0xE2, 0x80, 0xA8 | 0xA9, ..] | [0xEF, 0xBB, 0xBF, ..]
            )
        })
}

/// A block collection that further lines may belong to.
struct Open {
    column: usize,
    is_sequence: bool,
}

struct Look<'a, W> {
    text: &'a str,
    /// Where the line at hand starts.
    line: usize,
    /// Where the next one starts.
    next: usize,
    open: Vec<Open>,
    /// The innermost collection has a key or a dash whose value, if any, is on a line of its own.
    is_waiting: bool,
    /// The line before ended in a plain scalar, which goes on in deeper lines.
    continues: bool,
    wanted: W,
    /// Where the outermost entry starts, if it is wanted.
    from: Option<usize>,
    found: String,
}

impl<'a, W: Fn(&str) -> bool> Look<'a, W> {
    fn rest(&self, from: usize) -> &'a [u8] {
        self.text.as_bytes().get(from..).unwrap_or_default()
    }

    /// The line that starts there, without its line feed.
    fn line_at(&self, from: usize) -> &'a [u8] {
        let rest = self.rest(from);
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    }

    fn document(&mut self) -> Option<()> {
        while self.next < self.text.len() {
            self.line = self.next;
            let line = self.line_at(self.line);
            self.next = self.line + line.len() + 1;
            let column = spaces(line);
            let content = line.get(column..).unwrap_or_default();
            match content.first() {
                None => {}
                Some(b'#') => self.continues = false,
                Some(_) if self.continues && self.open.last()?.column < column => {
                    self.continues = plain(content)?;
                }
                Some(_) => self.content(column, content)?,
            }
        }
        Some(())
    }

    /// A line that starts with a key, a dash or a value.
    fn content(&mut self, column: usize, content: &'a [u8]) -> Option<()> {
        self.continues = false;
        let is_entry = is_entry(content);
        while let Some(top) = self.open.last() {
            // A mapping may hold a sequence whose dashes are no deeper than its keys.
            if top.column > column || top.column == column && top.is_sequence && !is_entry {
                self.open.pop();
                self.is_waiting = false;
            } else {
                break;
            }
        }
        let is_new = match self.open.last() {
            // The outermost mapping is never left: only the first line has none.
            None if column > 0 || is_entry => return None,
            None => true,
            Some(top) if top.column == column && top.is_sequence == is_entry => false,
            Some(top) if self.is_waiting && (top.column < column || top.column == column && is_entry) => true,
            Some(_) => return None,
        };
        self.is_waiting = false;
        self.node(column, content, is_new)
    }

    /// What a line holds: dashes, then a key with its value, or a value. `is_new`: it is in no collection yet that has that
    /// column.
    fn node(&mut self, mut column: usize, mut content: &'a [u8], mut is_new: bool) -> Option<()> {
        while is_entry(content) {
            if is_new {
                self.open(column, true)?;
            }
            let after = content.get(1..).unwrap_or_default();
            let blanks = spaces(after);
            content = after.get(blanks..).unwrap_or_default();
            if is_end(content) {
                self.is_waiting = true;
                return Some(());
            }
            column += 1 + blanks;
            is_new = true;
        }
        let Some((key, after)) = key(content) else {
            return if is_new { self.value(content) } else { None };
        };
        if is_new {
            self.open(column, false)?;
        }
        if self.open.len() == 1 {
            self.end_entry(self.line);
            let is_wanted = match std::str::from_utf8(key).ok()? {
                quoted if quoted.starts_with(['"', '\'']) => true,
                key => (self.wanted)(key),
            };
            self.from = is_wanted.then_some(self.line);
        }
        let value = after.get(spaces(after)..).unwrap_or_default();
        if is_end(value) {
            self.is_waiting = true;
            return Some(());
        }
        self.value(value)
    }

    fn open(&mut self, column: usize, is_sequence: bool) -> Option<()> {
        self.open.push(Open { column, is_sequence });
        (self.open.len() <= MAX_OPEN).then_some(())
    }

    fn end_entry(&mut self, end: usize) {
        if let Some(from) = self.from.take() {
            self.found.push_str(self.text.get(from..end).unwrap_or_default());
        }
    }

    /// A scalar or a flow collection up to the end of its line, or of its last line.
    fn value(&mut self, text: &'a [u8]) -> Option<()> {
        let parent = self.open.last()?.column;
        match text {
            [b'"' | b'\'', ..] => {
                let start = self.next.checked_sub(1 + text.len())?;
                let length = quoted(self.rest(start))?;
                let end = self.line_at(start + length);
                self.next = start + length + end.len() + 1;
                ends(end)
            }
            [b'[' | b'{', ..] => ends(flow(text, 0)?),
            [b'|' | b'>', header @ ..] => {
                let header = header
                    .strip_prefix(b"-")
                    .or(header.strip_prefix(b"+"))
                    .unwrap_or(header);
                ends(header)?;
                self.block_scalar(parent)
            }
            _ if starts_plain(text) => self.plain(text),
            _ => None,
        }
    }

    fn plain(&mut self, text: &[u8]) -> Option<()> {
        self.continues = plain(text)?;
        Some(())
    }

    /// The lines of a block scalar within a collection at the column `parent`.
    fn block_scalar(&mut self, parent: usize) -> Option<()> {
        let mut indent = 0;
        let mut deepest = 0;
        while self.next < self.text.len() {
            let line = self.line_at(self.next);
            let column = spaces(line);
            match line.get(column) {
                None => deepest = deepest.max(column),
                Some(_) if indent > 0 && column >= indent => {}
                Some(b'\t') => return None,
                Some(_) if column <= parent => return Some(()),
                Some(_) if indent == 0 && deepest <= column => indent = column,
                Some(_) => return None,
            }
            self.next += line.len() + 1;
        }
        Some(())
    }
}

fn spaces(text: &[u8]) -> usize {
    text.iter().take_while(|b| **b == b' ').count()
}

/// Whether a line starts with the dash of a sequence's entry.
fn is_entry(content: &[u8]) -> bool {
    matches!(content, [b'-'] | [b'-', b' ', ..])
}

/// Whether there is nothing more on a line, or a comment. There is white space before `text`.
fn is_end(text: &[u8]) -> bool {
    matches!(text, [] | [b'#', ..])
}

/// As [`is_end`], with the white space.
fn ends(text: &[u8]) -> Option<()> {
    let blanks = spaces(text);
    let rest = text.get(blanks..).unwrap_or_default();
    (rest.is_empty() || blanks > 0 && is_end(rest)).then_some(())
}

/// Whether it can be the start of a plain scalar, other than an infinity or no number: JSON has neither.
fn starts_plain(text: &[u8]) -> bool {
    let is_blank = |b: &u8| *b == b' ';
    match text {
        [b'-', next, ..] => !is_blank(next) && *next != b'.',
        [b'+', next, ..] => *next != b'.',
        [b'.', next, ..] => !matches!(next, b'i' | b'I' | b'n' | b'N'),
        [b'?' | b':', next, ..] => !is_blank(next),
        [b'-' | b'?' | b':', ..] => false,
        [b'%' | b'@' | b'`' | b',' | b']' | b'}' | b'#' | b'&' | b'*' | b'!', ..] | [] => false,
        _ => true,
    }
}

/// Whether a line of a plain scalar can go on in the next line; not behind a comment. `None` if something in it isn't part
/// of one.
fn plain(text: &[u8]) -> Option<bool> {
    for at in memchr::memchr3_iter(b':', b'#', b'\t', text) {
        match text.get(at) {
            Some(b':') if !matches!(text.get(at + 1), None | Some(b' ')) => {}
            Some(b'#') if at.checked_sub(1).and_then(|before| text.get(before)) != Some(&b' ') => {}
            Some(b'#') => return Some(false),
            _ => return None,
        }
    }
    Some(true)
}

/// The key that a line starts with, with its quotes if it has any, and what follows its colon.
fn key(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = match content.first()? {
        b'"' | b'\'' => {
            let length = quoted(content)?;
            let is_empty = length == 2;
            if is_empty
                || content.get(..length)?.contains(&b'\\')
                || memchr::memchr(b'\n', content.get(..length)?).is_some()
            {
                return None;
            }
            length
        }
        _ => word(content)?,
    };
    let (key, after) = content.split_at_checked(length)?;
    let after = after.strip_prefix(b":")?;
    (length <= MAX_KEY && matches!(after, [] | [b' ', ..])).then_some((key, after))
}

/// The length of a word that as a key is a string, or becomes one without complaint.
fn word(text: &[u8]) -> Option<usize> {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-' | b'$');
    let length = text.iter().take_while(|b| is_part(b)).count();
    let word = text.get(..length)?;
    let is_fine = match word.first()? {
        b'0'..=b'9' => length <= MAX_NUMBER,
        b'-' | b'.' => false,
        _ => !word.eq_ignore_ascii_case(b"null"),
    };
    is_fine.then_some(length)
}

/// The length of the quoted scalar at the head of `text`, with its quotes. Its lines, but for the first, are empty or start
/// with a space.
fn quoted(text: &[u8]) -> Option<usize> {
    let quote = *text.first()?;
    let mut at = 1;
    loop {
        at += memchr::memchr3(quote, b'\\', b'\n', text.get(at..)?)?;
        match (text.get(at)?, text.get(at + 1)) {
            (b'\n', Some(b' ' | b'\n')) => at += 1,
            (b'\n', _) => return None,
            (b'\\', _) if quote == b'\'' => at += 1,
            (b'\\', Some(b'\n')) => at += 1,
            (
                b'\\',
                Some(b'0' | b'a' | b'b' | b't' | b'n' | b'v' | b'f' | b'r' | b'e' | b' ' | b'"' | b'\'' | b'\\'),
            ) => {
                at += 2;
            }
            (b'\\', _) => return None,
            (_, Some(b'\'')) if quote == b'\'' => at += 2,
            _ => return Some(at + 1),
        }
    }
}

/// What follows the flow collection at the head of `text`, of words and quoted scalars.
fn flow(text: &[u8], depth: usize) -> Option<&[u8]> {
    let (is_mapping, close) = match text.first()? {
        b'{' => (true, b'}'),
        b'[' => (false, b']'),
        _ => return None,
    };
    if depth == MAX_FLOW {
        return None;
    }
    let mut rest = text.get(1..)?;
    rest = rest.get(spaces(rest)..)?;
    if rest.first() == Some(&close) {
        return rest.get(1..);
    }
    loop {
        if is_mapping {
            let (_, after) = flow_scalar(rest)?;
            rest = after.strip_prefix(b": ")?;
            rest = rest.get(spaces(rest)..)?;
        }
        rest = match rest.first()? {
            b'{' | b'[' => flow(rest, depth + 1)?,
            _ => flow_scalar(rest)?.1,
        };
        rest = rest.get(spaces(rest)..)?;
        match rest.split_first()? {
            (b',', after) => rest = after.get(spaces(after)..)?,
            (end, after) if *end == close => return Some(after),
            _ => return None,
        }
        if rest.first() == Some(&close) {
            return None;
        }
    }
}

/// A word or a quoted scalar on one line, and what follows it.
fn flow_scalar(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = match text.first()? {
        b'"' | b'\'' => {
            let length = quoted(text)?;
            memchr::memchr(b'\n', text.get(..length)?).is_none().then_some(length)?
        }
        _ => word(text)?,
    };
    (length <= MAX_KEY).then(|| text.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use super::super::{GoType, to_json, to_json_fields};
    use super::entries;
    use serde_json::{Value, json};

    fn found(text: &str) -> Option<String> {
        entries(text.as_bytes(), |key| key == "kind" || key == "metadata")
    }

    #[test]
    fn finds_the_wanted_entries() {
        let text = "# c\napiVersion: v1\nkind: A # c\nspec:\n- x: |\n    kind: B\n\n  y: [a, {b: 'c'}]\nmetadata:\n  name: b\n  \
                    labels: {}\n\"data\": >-\n  x\nspec2:\n  args:\n    - --x=y\n    - a\n      b\n";
        let want = "kind: A # c\nmetadata:\n  name: b\n  labels: {}\n\"data\": >-\n  x\n";
        assert_eq!(found(text).as_deref(), Some(want));
        assert_eq!(found("a: 1").as_deref(), Some(""));
        assert_eq!(found("# a"), None);
    }

    #[test]
    fn leaves_what_is_uncommon() {
        let table = [
            "a: &x 1",
            "a: b: c",
            "a: 1\n b: 2",
            "a: .inf",
            "- a",
            "a: !!str x",
            "a:\tb",
            "null: 1",
            "a: 'b",
            "a: [b",
            "a: .nan",
            "a: -.inf",
            "a: %x",
            "a: ?",
            "a: *x",
            "a: b\r\n",
            "a: |2\n  x",
            "a: |\n    \n  x",
            "a\u{2028}b: c",
            "a:\n  b: 1\n c: 2",
            "---\na: 1",
            "a: 1\n...\n",
            "a: \u{7}",
            "{a: 1}",
            "a: |\n  \tx",
            "a: b\n# c\n  d",
            "a: b # c\n  d",
            "a: 'b\nc'",
        ];
        for text in table {
            assert_eq!(found(text), None, "{text:?}");
        }
    }

    /// Texts of pieces that make valid and invalid documents: none that isn't valid may be taken for one.
    #[test]
    fn never_differs_from_reading_by_token() {
        const PIECES: [&str; 54] = [
            "\n",
            "\n",
            "\n",
            "\n",
            "\n",
            "\n  ",
            "\n  ",
            "\n    ",
            "\n   ",
            " ",
            "  ",
            "a",
            "b",
            "kind",
            "1",
            ":",
            ": ",
            ": ",
            ":\n",
            "- ",
            "- ",
            "-",
            "#",
            " #",
            "x y",
            "'",
            "\"",
            "\\",
            "\\n",
            "[",
            "]",
            "{}",
            ", ",
            "|",
            "|-",
            ">",
            ".inf",
            "null",
            "~",
            "é",
            "\t",
            "a: b",
            "k:\n  c: ",
            "\n- ",
            ".",
            "+",
            "?",
            "%",
            "^x",
            "=",
            "<<",
            ",",
            "*",
            "-.inf",
        ];
        let mut state = 7_u64;
        let mut next = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let mut sure = 0;
        for _ in 0..20_000 {
            let mut text = String::from("a:");
            for _ in 0..next(14) {
                text.push_str(PIECES[next(PIECES.len())]);
            }
            let Some(all) = entries(text.as_bytes(), |_| true) else {
                continue;
            };
            sure += 1;
            let want = to_json(text.as_bytes());
            assert!(want.is_ok(), "{text:?}: {want:?}");
            assert_eq!(to_json(all.as_bytes()), want, "{text:?}");
            let kind = |value: &Value| value.get("kind").cloned();
            let some = to_json_fields(text.as_bytes(), |key| key == "kind", &GoType::Any).unwrap();
            assert_eq!(kind(&some), kind(&want.unwrap()), "{text:?}");
        }
        assert!(sure > 1_500, "only {sure} were looked at");
        assert_eq!(to_json_fields(b"a: 1\n", |_| false, &GoType::Any), Ok(json!({})));
    }
}
