//! From Go's regular expression syntax (RE2, as `regexp/syntax` of Go 1.26 parses it) to that of the `regex` crate.
//!
//! The whole pattern is parsed, so that what Go refuses is refused with Go's error text, and each part is written in
//! a form that means the same to the crate whatever its flags: `\d`, `\s`, `\w` and `\b` are ASCII, class set operations are
//! literals.

use super::regex_tree::{MAX_REPEAT, TooHigh, Tree};
use super::{regex_class, runes};

/// A pattern in the crate's syntax.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) pattern: String,
    /// Names of the capture groups in order; the first is the whole match. Unnamed ones are empty.
    pub(super) names: Vec<String>,
}

/// Go's `syntax.Error`, worded.
pub(super) fn worded(code: &str, expr: &str) -> String {
    format!("error parsing regexp: {code}: `{expr}`")
}

const MISSING_BRACKET: &str = "missing closing ]";
const MISSING_PAREN: &str = "missing closing )";
const MISSING_ARGUMENT: &str = "missing argument to repetition operator";
const BAD_NESTING: &str = "invalid nested repetition operator";
const BAD_RANGE: &str = "invalid character class range";
const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_NAME: &str = "invalid named capture";
const BAD_REPEAT_SIZE: &str = "invalid repeat count";
const BAD_UTF8: &str = "invalid UTF-8";
pub(super) const TOO_LARGE: &str = "expression too large";

/// The longest translation, in bytes: the crate takes some hundred bytes of memory for each before it looks at the size
/// of a program. Go stops at 3.3 million instructions.
const MAX_TRANSLATION: usize = 2 << 20;
/// The most classes such as `\pL`, for which the crate intersects hundreds of ranges each. Go stops at some 26,000 `\pL`.
const MAX_UNICODE_CLASSES: usize = 1000;

/// What `(?ims)` and `(?U)` set.
#[derive(Clone, Copy, Default)]
struct Flags {
    fold: bool,
    lines: bool,
    dot_all: bool,
    lazy: bool,
}

struct Translator<'a> {
    text: &'a str,
    /// Where the first character stands for a byte that isn't UTF-8, or else the end of the text.
    valid: usize,
    at: usize,
    out: String,
    names: Vec<String>,
    tree: Tree,
    flags: Flags,
    /// The flags around each open group.
    outer_flags: Vec<Flags>,
    /// Where the repetition operator starts that came right before.
    last_repeat: Option<usize>,
    /// Where the last `:]` is, which may end the name of a class.
    last_name_end: Option<usize>,
    unicode_classes: usize,
}

/// Translates a pattern. An error is the text of Go's error.
pub(super) fn translate(pattern: &[u8]) -> Result<Translated, String> {
    let (text, valid) = match std::str::from_utf8(pattern) {
        Ok(text) => (std::borrow::Cow::from(text), text.len()),
        Err(error) => (runes::lossy(pattern), error.valid_up_to()),
    };
    let mut translator = Translator {
        text: &text,
        valid,
        at: 0,
        out: String::with_capacity(text.len() + 16),
        names: vec![String::new()],
        tree: Tree::default(),
        flags: Flags::default(),
        outer_flags: Vec::new(),
        last_repeat: None,
        last_name_end: text.rfind(":]"),
        unicode_classes: 0,
    };
    translator.run()?;
    Ok(Translated {
        pattern: translator.out,
        names: translator.names,
    })
}

impl<'a> Translator<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The next character, unless its bytes aren't UTF-8.
    fn next(&mut self) -> Result<Option<char>, String> {
        if self.at == self.valid && !self.rest().is_empty() {
            return Err(worded(BAD_UTF8, self.rest()));
        }
        let c = self.peek();
        self.at += c.map_or(0, char::len_utf8);
        Ok(c)
    }

    /// Goes on behind a text if it comes next.
    fn eat(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    /// A part of the pattern, if it is UTF-8.
    fn utf8(&self, start: usize, end: usize) -> Result<&'a str, String> {
        if (start..end).contains(&self.valid) {
            return Err(worded(BAD_UTF8, self.text.get(self.valid..end).unwrap_or("")));
        }
        Ok(self.text.get(start..end).unwrap_or(""))
    }

    fn too_high(&self, _: TooHigh) -> String {
        worded("expression nests too deeply", self.text)
    }

    /// Fails if the translation becomes too large by `more` bytes.
    fn check_size(&self, more: usize) -> Result<(), String> {
        if self.out.len() + more > MAX_TRANSLATION || self.unicode_classes > MAX_UNICODE_CLASSES {
            return Err(worded(TOO_LARGE, self.text));
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        while let Some(c) = self.peek() {
            let start = self.at;
            let mut is_repeat = false;
            match c {
                '(' => self.group()?,
                ')' => self.end_group()?,
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                    self.tree.end_branch();
                }
                '^' => self.part(1, if self.flags.lines { "(?m:^)" } else { "^" }),
                '$' => self.part(1, if self.flags.lines { "(?m:$)" } else { "$" }),
                '.' => self.part(1, if self.flags.dot_all { "(?s:.)" } else { "." }),
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.at += 1;
                    self.repeat(start, 1)?;
                    is_repeat = true;
                }
                '{' => match self.counted() {
                    None => {
                        self.at = start + 1;
                        self.literal('{');
                    }
                    Some((min, max)) => {
                        let in_order = max.is_none_or(|max| min <= max && max <= MAX_REPEAT);
                        if min > MAX_REPEAT || !in_order {
                            return Err(worded(BAD_REPEAT_SIZE, self.since(start)));
                        }
                        // To Go, `{0,}` is no repetition of nothing.
                        self.repeat(start, max.unwrap_or(min.max(1)))?;
                        is_repeat = true;
                    }
                },
                '\\' => self.escaped()?,
                _ => {
                    if let Some(c) = self.next()? {
                        self.literal(c);
                    }
                }
            }
            self.last_repeat = is_repeat.then_some(start);
            self.check_size(0)?;
        }
        if self.tree.has_open_group() {
            return Err(worded(MISSING_PAREN, self.text));
        }
        Ok(())
    }

    /// Goes on by `width` and writes a part that isn't a literal.
    fn part(&mut self, width: usize, translation: &str) {
        self.at += width;
        self.tree.push(self.out.len(), false);
        self.out.push_str(translation);
    }

    fn literal(&mut self, c: char) {
        self.tree.push(self.out.len(), true);
        match c {
            'a'..='z' | 'A'..='Z' if self.flags.fold => self.out.push_str(&format!("(?i:{c})")),
            c if c.is_ascii_alphanumeric() => self.out.push(c),
            c if c.is_ascii() => self.out.push_str(&format!("\\x{:02X}", c as u32)),
            c if self.flags.fold && !regex_class::is_newly_paired(c) => self.out.push_str(&format!("(?i:{c})")),
            c => self.out.push(c),
        }
    }

    /// Behind a repetition operator: takes a `?`, and repeats what is there to repeat; `count` is the number in braces.
    fn repeat(&mut self, start: usize, count: u32) -> Result<(), String> {
        let written = self.since(start);
        let is_lazy = self.eat("?");
        if let Some(first) = self.last_repeat {
            return Err(worded(BAD_NESTING, self.since(first)));
        }
        let Some((top, is_repeated)) = self.tree.repeatable() else {
            return Err(worded(MISSING_ARGUMENT, self.since(start)));
        };
        // Where something invisible stands between two operators, as in `a*(?i)*`.
        if is_repeated {
            self.out.insert_str(top, "(?:");
            self.out.push(')');
        }
        self.out.push_str(written);
        if is_lazy != self.flags.lazy {
            self.out.push('?');
        }
        if !self.tree.repeat(count).map_err(|e| self.too_high(e))? {
            return Err(worded(BAD_REPEAT_SIZE, self.since(start)));
        }
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}`; `None` if it is something else, and then a literal.
    fn counted(&mut self) -> Option<(u32, Option<u32>)> {
        self.at += 1;
        let min = self.integer()?;
        if self.eat("}") {
            return Some((min, Some(min)));
        }
        if !self.eat(",") {
            return None;
        }
        if self.eat("}") {
            return Some((min, None));
        }
        let max = self.integer()?;
        self.eat("}").then_some((min, Some(max)))
    }

    /// Digits without a leading zero; a number too big to matter is one that is over the limit.
    fn integer(&mut self) -> Option<u32> {
        let digits: &str = self.rest();
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        let digits = digits.get(..len).filter(|digits| !digits.is_empty())?;
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        self.at += len;
        Some(digits.parse().unwrap_or(MAX_REPEAT + 1))
    }

    /// Starts a group, captured if it has a name, which may be empty.
    fn open_group(&mut self, name: Option<&str>, flags: Flags) {
        self.tree.open(self.out.len(), name.is_some());
        self.outer_flags.push(self.flags);
        self.flags = flags;
        self.names.extend(name.map(str::to_owned));
        self.out.push_str(if name.is_some() { "(" } else { "(?:" });
    }

    fn end_group(&mut self) -> Result<(), String> {
        self.at += 1;
        self.out.push(')');
        if !self.tree.close().map_err(|e| self.too_high(e))? {
            return Err(worded("unexpected )", self.text));
        }
        self.flags = self.outer_flags.pop().unwrap_or_default();
        Ok(())
    }

    fn group(&mut self) -> Result<(), String> {
        let start = self.at;
        let rest = self.rest();
        if !rest.starts_with("(?") {
            self.at += 1;
            self.open_group(Some(""), self.flags);
            return Ok(());
        }
        if rest.starts_with("(?P<") && rest.len() > 4 {
            return self.named_group(4);
        }
        if rest.starts_with("(?<") && rest.len() > 3 {
            return self.named_group(3);
        }
        self.at += 2;
        let (mut flags, mut on, mut saw_flag) = (self.flags, true, false);
        while let Some(c) = self.next()? {
            match c {
                'i' => flags.fold = on,
                'm' => flags.lines = on,
                's' => flags.dot_all = on,
                'U' => flags.lazy = on,
                '-' if on => {
                    (on, saw_flag) = (false, false);
                    continue;
                }
                ':' if on || saw_flag => {
                    self.open_group(None, flags);
                    return Ok(());
                }
                ')' if on || saw_flag => {
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            saw_flag = true;
        }
        Err(worded("invalid or unsupported Perl syntax", self.since(start)))
    }

    /// `(?P<name>` or `(?<name>`, whose name starts `width` bytes on.
    fn named_group(&mut self, width: usize) -> Result<(), String> {
        let start = self.at;
        let Some(end) = self.rest().find('>').map(|end| start + end) else {
            return Err(worded(BAD_NAME, self.utf8(start, self.text.len())?));
        };
        let name = self.utf8(start + width, end)?;
        self.at = end + 1;
        let is_valid = !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
        if !is_valid {
            return Err(worded(BAD_NAME, self.since(start)));
        }
        self.open_group(Some(name), self.flags);
        Ok(())
    }

    fn escaped(&mut self) -> Result<(), String> {
        for (go, translation) in [
            ("\\A", "\\A"),
            ("\\z", "\\z"),
            ("\\b", "(?-u:\\b)"),
            ("\\B", "(?-u:\\B)"),
        ] {
            if self.rest().starts_with(go) {
                self.part(go.len(), translation);
                return Ok(());
            }
        }
        if self.eat("\\C") {
            return Err(worded(BAD_ESCAPE, "\\C"));
        }
        if self.eat("\\Q") {
            return self.quotation();
        }
        if let Some((class, is_wide)) = self.class_escape()? {
            self.push_class(&class, is_wide);
            return Ok(());
        }
        let code = self.escape()?;
        match char::from_u32(code) {
            Some(c) => self.literal(c),
            // A surrogate is no character, so it never matches.
            None => self.part(0, regex_class::NOTHING),
        }
        Ok(())
    }

    /// What follows `\Q`, up to `\E`.
    fn quotation(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let length = rest.find("\\E");
        let quoted = self.utf8(self.at, self.at + length.unwrap_or(rest.len()))?;
        for c in quoted.chars() {
            self.literal(c);
        }
        self.at += length.map_or(rest.len(), |length| length + 2);
        Ok(())
    }

    fn push_class(&mut self, class: &str, is_wide: bool) {
        self.tree.push(self.out.len(), false);
        if self.flags.fold {
            self.out.push_str(&regex_class::folded(class, is_wide));
        } else {
            self.out.push_str(class);
        }
    }

    /// `\d` and its kin, and `\p{...}`: as a class of its own, which may stand inside another, and whether it has more than
    /// ASCII characters, or lacks more.
    fn class_escape(&mut self) -> Result<Option<(String, bool)>, String> {
        let rest = self.rest();
        if let Some(class) = rest.get(..2).and_then(regex_class::of_perl) {
            self.at += 2;
            return Ok(Some((class.to_owned(), false)));
        }
        if !rest.starts_with("\\p") && !rest.starts_with("\\P") {
            return Ok(None);
        }
        let start = self.at;
        let negated = rest.starts_with("\\P");
        self.at += 2;
        let name = match self.next()? {
            Some('{') => {
                let Some(length) = rest.find('}') else {
                    return Err(worded(BAD_RANGE, self.utf8(start, self.text.len())?));
                };
                let name = self.utf8(start + 3, start + length)?;
                self.at = start + length + 1;
                name
            }
            _ => self.since(start + 2),
        };
        let bare = name.strip_prefix('^');
        match regex_class::of_unicode(bare.unwrap_or(name), negated != bare.is_some()) {
            Some(class) => {
                self.unicode_classes += 1;
                Ok(Some((class, true)))
            }
            None => Err(worded(BAD_RANGE, self.since(start))),
        }
    }

    /// A single escaped character, as its code point.
    fn escape(&mut self) -> Result<u32, String> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.next()? else {
            return Err(worded("trailing backslash at end of expression", ""));
        };
        let octal = |c: Option<char>| c.filter(|c| ('0'..='7').contains(c)).map(|c| c as u32 - '0' as u32);
        let simple = match c {
            '0'..='7' if c == '0' || octal(self.peek()).is_some() => {
                let mut code = c as u32 - '0' as u32;
                for _ in 1..3 {
                    let Some(digit) = octal(self.peek()) else {
                        break;
                    };
                    self.at += 1;
                    code = code * 8 + digit;
                }
                Some(code)
            }
            'x' => self.hex()?,
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c as u32),
            _ => None,
        };
        simple.ok_or_else(|| worded(BAD_ESCAPE, self.since(start)))
    }

    fn hex(&mut self) -> Result<Option<u32>, String> {
        let digit = |c: Option<char>| c.and_then(|c| c.to_digit(16));
        let first = self.next()?;
        if first != Some('{') {
            let (high, low) = (digit(first), digit(self.next()?));
            return Ok(high.zip(low).map(|(high, low)| high * 16 + low));
        }
        let (mut code, mut digits) = (0, 0);
        loop {
            let next = self.next()?;
            if next == Some('}') {
                return Ok((digits > 0).then_some(code));
            }
            let Some(digit) = digit(next) else {
                return Ok(None);
            };
            code = code * 16 + digit;
            if code > 0x10FFFF {
                return Ok(None);
            }
            digits += 1;
        }
    }

    fn class_char(&mut self, start: usize) -> Result<u32, String> {
        if self.rest().starts_with('\\') {
            return self.escape();
        }
        match self.next()? {
            None => Err(worded(MISSING_BRACKET, self.text.get(start..).unwrap_or(""))),
            Some(c) => Ok(c as u32),
        }
    }

    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        let mut class = String::from("[");
        if self.eat("^") {
            class.push('^');
        }
        let (mut is_first, mut is_wide) = (true, false);
        while is_first || !self.rest().starts_with(']') {
            is_first = false;
            self.check_size(class.len())?;
            if let Some(named) = self.named_class()? {
                class.push_str(named);
                continue;
            }
            if let Some((escape, is_wide_too)) = self.class_escape()? {
                class.push_str(&escape);
                is_wide |= is_wide_too;
                continue;
            }
            let range = self.at;
            let low = self.class_char(start)?;
            let mut high = low;
            let rest = self.rest();
            if rest.len() >= 2 && rest.starts_with('-') && !rest.starts_with("-]") {
                self.at += 1;
                high = self.class_char(start)?;
                if high < low {
                    return Err(worded(BAD_RANGE, self.since(range)));
                }
            }
            class.push_str(&regex_class::range(low, high));
            is_wide |= high >= 0x80;
        }
        self.at += 1;
        class.push(']');
        self.push_class(&class, is_wide);
        Ok(())
    }

    /// `[:alpha:]` and its kin.
    fn named_class(&mut self) -> Result<Option<&'static str>, String> {
        let rest = self.rest();
        let may_end = self.last_name_end.is_some_and(|end| self.at + 2 <= end);
        if !rest.starts_with("[:") || !may_end {
            return Ok(None);
        }
        let Some(end) = rest.get(2..).and_then(|tail| tail.find(":]")) else {
            return Ok(None);
        };
        let name = rest.get(..end + 4).unwrap_or(rest);
        self.at += name.len();
        regex_class::of_posix(name)
            .map(Some)
            .ok_or_else(|| worded(BAD_RANGE, name))
    }
}
