//! From Go's regular expression syntax (RE2) to that of the `regex` crate.
//!
//! Most is the same in both, flags and repetitions among it, and is copied. What the crate reads otherwise is rewritten:
//! `\d`, `\s`, `\w` and `\b` are ASCII, `\Q…\E` quotes, a `{` that starts no repetition stands for itself, and a class has
//! no operators. What authors get wrong most often is told in Go's words, all else in the crate's.

use std::fmt::Write as _;

/// How often a part may be repeated, as in Go.
const MAX_REPEAT: u32 = 1000;
/// The longest translation, in bytes: the crate takes some hundred bytes of memory for each before it looks at the size
/// of a program.
const MAX_TRANSLATION: usize = 256 << 10;
/// As how many bytes of that a class such as `\pL` counts, which has hundreds of ranges.
const UNICODE_CLASS: usize = 256;
/// The names of classes such as `[:alpha:]`.
#[rustfmt::skip]
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word", "xdigit",
];
/// The longest name that a class between `[:` and `:]` is looked for under, in bytes.
const MAX_NAME: usize = 16;

const MISSING_BRACKET: &str = "missing closing ]";
const MISSING_PAREN: &str = "missing closing )";
const MISSING_ARGUMENT: &str = "missing argument to repetition operator";
const BAD_NESTING: &str = "invalid nested repetition operator";
const BAD_RANGE: &str = "invalid character class range";
const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_NAME: &str = "invalid named capture";
const BAD_REPEAT_SIZE: &str = "invalid repeat count";
const BAD_SYNTAX: &str = "invalid or unsupported Perl syntax";
pub(crate) const TOO_LARGE: &str = "expression too large";

/// Go's `syntax.Error`, worded.
pub(crate) fn worded(code: &str, expr: &str) -> String {
    format!("error parsing regexp: {code}: `{expr}`")
}

/// Translates a pattern.
///
/// # Errors
/// Go's text, if the pattern is one that authors get wrong.
pub(crate) fn translate(text: &str) -> Result<String, String> {
    let mut translator = Translator {
        text,
        at: 0,
        out: String::new(),
        open: 0,
        has_operand: false,
        last_repeat: None,
        unicode_classes: 0,
    };
    translator.run()?;
    Ok(translator.out)
}

struct Translator<'a> {
    text: &'a str,
    at: usize,
    out: String,
    /// How many groups are open.
    open: usize,
    /// Whether there is something for a repetition operator to repeat.
    has_operand: bool,
    /// Where the repetition operator starts that came right before.
    last_repeat: Option<usize>,
    unicode_classes: usize,
}

impl<'a> Translator<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Goes on behind a text if it comes next.
    fn eat(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    fn check_size(&self) -> Result<(), String> {
        if self.out.len() + UNICODE_CLASS * self.unicode_classes > MAX_TRANSLATION {
            return Err(worded(TOO_LARGE, self.text));
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        while let Some(c) = self.peek() {
            let start = self.at;
            let repeats = match c {
                '*' | '+' | '?' => {
                    self.at += 1;
                    true
                }
                '{' => self.counted()?,
                _ => false,
            };
            if repeats {
                self.repeat(start)?;
            } else {
                self.part(c)?;
            }
            self.last_repeat = repeats.then_some(start);
            self.check_size()?;
        }
        match self.open {
            0 => Ok(()),
            _ => Err(worded(MISSING_PAREN, self.text)),
        }
    }

    /// What isn't a repetition operator and starts with this character.
    fn part(&mut self, c: char) -> Result<(), String> {
        match c {
            '(' => return self.group(),
            ')' => {
                self.open = self
                    .open
                    .checked_sub(1)
                    .ok_or_else(|| worded("unexpected )", self.text))?;
                self.out.push(c);
            }
            '|' => {
                self.at += 1;
                self.out.push(c);
                self.has_operand = false;
                return Ok(());
            }
            '^' | '$' | '.' => self.out.push(c),
            '[' => {
                self.has_operand = true;
                return self.class();
            }
            '\\' => {
                self.has_operand = true;
                return self.escaped();
            }
            c => self.literal(c),
        }
        self.at += c.len_utf8();
        self.has_operand = true;
        Ok(())
    }

    fn literal(&mut self, c: char) {
        if c.is_ascii_alphanumeric() || !c.is_ascii() {
            self.out.push(c);
        } else {
            self.code(c);
        }
    }

    /// A character in a form that has no other meaning, in a class or outside.
    fn code(&mut self, c: char) {
        // Writing to a string doesn't fail.
        let _ = write!(self.out, r"\x{{{:X}}}", u32::from(c));
    }

    /// Behind a repetition operator: takes a `?`, and copies both.
    fn repeat(&mut self, start: usize) -> Result<(), String> {
        self.eat("?");
        if let Some(first) = self.last_repeat {
            return Err(worded(BAD_NESTING, self.since(first)));
        }
        if !self.has_operand {
            return Err(worded(MISSING_ARGUMENT, self.since(start)));
        }
        self.out.push_str(self.since(start));
        Ok(())
    }

    /// Takes `{n}`, `{n,}` or `{n,m}`. False if there is something else, and the `{` a literal.
    fn counted(&mut self) -> Result<bool, String> {
        let start = self.at;
        let Some((min, max)) = self.counts() else {
            self.at = start;
            return Ok(false);
        };
        if min > MAX_REPEAT || max.is_some_and(|max| max < min || max > MAX_REPEAT) {
            return Err(worded(BAD_REPEAT_SIZE, self.since(start)));
        }
        Ok(true)
    }

    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
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
        let len = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let digits = self.rest().get(..len).filter(|digits| !digits.is_empty())?;
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        self.at += len;
        Some(digits.parse().unwrap_or(MAX_REPEAT + 1))
    }

    fn open_group(&mut self, start: usize) {
        self.out.push_str(self.since(start));
        self.open += 1;
        self.has_operand = false;
    }

    fn group(&mut self) -> Result<(), String> {
        let start = self.at;
        if self.eat("(?P<") || self.eat("(?<") {
            return self.named_group(start);
        }
        if !self.eat("(?") {
            self.at += 1;
            self.open_group(start);
            return Ok(());
        }
        let (mut on, mut saw_flag) = (true, false);
        while let Some(c) = self.next() {
            match c {
                'i' | 'm' | 's' | 'U' => saw_flag = true,
                '-' if on => (on, saw_flag) = (false, false),
                ':' if on || saw_flag => {
                    self.open_group(start);
                    return Ok(());
                }
                ')' if on || saw_flag => {
                    // `(?)` is nothing to Go, and an error to the crate.
                    self.out.push_str(if saw_flag { self.since(start) } else { "" });
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(worded(BAD_SYNTAX, self.since(start)))
    }

    /// What follows `(?P<` or `(?<`.
    fn named_group(&mut self, start: usize) -> Result<(), String> {
        let Some(length) = self.rest().find('>') else {
            return Err(worded(BAD_NAME, self.text.get(start..).unwrap_or_default()));
        };
        let name = self.rest().get(..length).unwrap_or_default();
        self.at += length + 1;
        if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
            return Err(worded(BAD_NAME, self.since(start)));
        }
        self.open_group(start);
        Ok(())
    }

    fn escaped(&mut self) -> Result<(), String> {
        for (go, translation) in [
            (r"\A", r"\A"),
            (r"\z", r"\z"),
            (r"\b", r"(?-u:\b)"),
            (r"\B", r"(?-u:\B)"),
        ] {
            if self.eat(go) {
                self.out.push_str(translation);
                return Ok(());
            }
        }
        if self.eat(r"\Q") {
            let (quoted, length) = match self.rest().split_once(r"\E") {
                Some((quoted, _)) => (quoted, quoted.len() + 2),
                None => (self.rest(), self.rest().len()),
            };
            self.at += length;
            quoted.chars().for_each(|c| self.literal(c));
            return Ok(());
        }
        if !self.class_escape()? {
            let c = self.escape()?;
            self.literal(c);
        }
        Ok(())
    }

    /// `\d` and its kin, and `\p{…}`, as a class that may stand in another. False if there is something else.
    fn class_escape(&mut self) -> Result<bool, String> {
        let class = match self.rest().get(..2) {
            Some(r"\d") => "[0-9]",
            Some(r"\D") => "[^0-9]",
            Some(r"\s") => r"[\t\n\f\r\x20]",
            Some(r"\S") => r"[^\t\n\f\r\x20]",
            Some(r"\w") => "[0-9A-Za-z_]",
            Some(r"\W") => "[^0-9A-Za-z_]",
            Some(r"\p") => return self.unicode_class(false).map(|()| true),
            Some(r"\P") => return self.unicode_class(true).map(|()| true),
            _ => return Ok(false),
        };
        self.at += 2;
        self.out.push_str(class);
        Ok(true)
    }

    /// `\pL`, `\p{Greek}` or `\p{^Greek}`.
    fn unicode_class(&mut self, negated: bool) -> Result<(), String> {
        let start = self.at;
        self.at += 2;
        let name = match self.next() {
            Some('{') => {
                let Some((name, _)) = self.rest().split_once('}') else {
                    return Err(worded(BAD_RANGE, self.text.get(start..).unwrap_or_default()));
                };
                self.at += name.len() + 1;
                name
            }
            _ => self.since(start + 2),
        };
        let bare = name.strip_prefix('^');
        let sign = if negated != bare.is_some() { 'P' } else { 'p' };
        let _ = write!(self.out, r"\{sign}{{{}}}", bare.unwrap_or(name));
        self.unicode_classes += 1;
        Ok(())
    }

    /// A single escaped character.
    fn escape(&mut self) -> Result<char, String> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.next() else {
            return Err(worded("trailing backslash at end of expression", ""));
        };
        let code = match c {
            'x' => self.hex(),
            'a' => Some(0x07),
            'f' => Some(0x0C),
            'n' => Some(0x0A),
            'r' => Some(0x0D),
            't' => Some(0x09),
            'v' => Some(0x0B),
            '0'..='7' => self.octal(c),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(u32::from(c)),
            _ => None,
        };
        code.and_then(char::from_u32)
            .ok_or_else(|| worded(BAD_ESCAPE, self.since(start)))
    }

    /// Up to three digits; a single one other than 0 would be a reference to a group, which Go hasn't.
    fn octal(&mut self, first: char) -> Option<u32> {
        let mut code = first.to_digit(8)?;
        if code != 0 && self.peek()?.to_digit(8).is_none() {
            return None;
        }
        for _ in 1..3 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else {
                break;
            };
            self.at += 1;
            code = code * 8 + digit;
        }
        Some(code)
    }

    /// What follows `\x`: two digits, or any number of them in braces.
    fn hex(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            return Some(first.to_digit(16)? * 16 + self.next()?.to_digit(16)?);
        }
        let mut code = self.next()?.to_digit(16)?;
        loop {
            match self.next()? {
                '}' => return Some(code),
                c => code = code.checked_mul(16)?.checked_add(c.to_digit(16)?)?,
            }
        }
    }

    /// A class in brackets.
    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        self.out.push('[');
        if self.eat("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        while is_first || !self.rest().starts_with(']') {
            is_first = false;
            self.check_size()?;
            if self.named_class()? || self.class_escape()? {
                continue;
            }
            let range = self.at;
            let low = self.class_char(start)?;
            self.code(low);
            let rest = self.rest();
            if rest.len() >= 2 && rest.starts_with('-') && !rest.starts_with("-]") {
                self.at += 1;
                let high = self.class_char(start)?;
                if high < low {
                    return Err(worded(BAD_RANGE, self.since(range)));
                }
                self.out.push('-');
                self.code(high);
            }
        }
        self.at += 1;
        self.out.push(']');
        Ok(())
    }

    fn class_char(&mut self, start: usize) -> Result<char, String> {
        if self.rest().starts_with('\\') {
            return self.escape();
        }
        self.next()
            .ok_or_else(|| worded(MISSING_BRACKET, self.text.get(start..).unwrap_or_default()))
    }

    /// `[:alpha:]` and its kin. False if there is something else.
    fn named_class(&mut self) -> Result<bool, String> {
        let Some(inner) = self.rest().strip_prefix("[:") else {
            return Ok(false);
        };
        let Some(length) = inner
            .as_bytes()
            .windows(2)
            .take(MAX_NAME)
            .position(|pair| pair == b":]")
        else {
            return Ok(false);
        };
        let start = self.at;
        self.at += length + 4;
        let name = inner.get(..length).unwrap_or_default();
        if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(worded(BAD_RANGE, self.since(start)));
        }
        self.out.push_str(self.since(start));
        Ok(true)
    }
}
