//! From Go's regular expression syntax (RE2, as `regexp/syntax` parses it) to that of the `regex` crate.
//!
//! The whole pattern is parsed, so that what Go refuses is refused with Go's error text, and each part is written in
//! a form that means the same to the crate: `\d`, `\s`, `\w` and `\b` are ASCII, class set operations are literals.

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
const BAD_RANGE: &str = "invalid character class range";
const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_REPEAT_SIZE: &str = "invalid repeat count";
const MAX_REPEAT: u32 = 1000;
/// Go's `maxHeight` bounds nesting; groups are what nests here.
const MAX_NESTING: usize = 1000;

/// What came right before, for repetition operators.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing that can be repeated.
    Nothing,
    Atom,
    /// A repetition operator that started at this offset.
    Repeat(usize),
}

struct Translator<'a> {
    text: &'a str,
    at: usize,
    out: String,
    names: Vec<String>,
    /// Open groups: for each the largest product of repeat counts inside so far.
    open: Vec<u32>,
    /// The largest product of repeat counts at the current level, and in the last atom.
    counts: u32,
    atom_counts: u32,
}

/// Translates a pattern. An error is the text of Go's error.
pub(super) fn translate(text: &str) -> Result<Translated, String> {
    let mut translator = Translator {
        text,
        at: 0,
        out: String::with_capacity(text.len() + 16),
        names: vec![String::new()],
        open: Vec::new(),
        counts: 1,
        atom_counts: 1,
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

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    fn run(&mut self) -> Result<(), String> {
        let mut before = Before::Nothing;
        while let Some(c) = self.rest().chars().next() {
            let start = self.at;
            before = match c {
                '(' => self.group()?,
                ')' => {
                    self.at += 1;
                    let Some(outer) = self.open.pop() else {
                        return Err(worded("unexpected )", self.text));
                    };
                    self.out.push(')');
                    self.atom_counts = self.counts;
                    self.counts = outer.max(self.counts);
                    Before::Atom
                }
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                    Before::Nothing
                }
                '^' | '$' | '.' => {
                    self.at += 1;
                    self.out.push(c);
                    self.atom()
                }
                '[' => {
                    self.class()?;
                    self.atom()
                }
                '*' | '+' | '?' => {
                    self.at += 1;
                    self.out.push(c);
                    self.repeat(before, start)?;
                    Before::Repeat(start)
                }
                '{' => match self.counted() {
                    None => {
                        self.at = start + 1;
                        self.literal('{');
                        self.atom()
                    }
                    Some((min, max)) => {
                        let in_order = max.is_none_or(|max| min <= max && max <= MAX_REPEAT);
                        if min > MAX_REPEAT || !in_order {
                            return Err(worded(BAD_REPEAT_SIZE, self.since(start)));
                        }
                        let count = self.since(start).to_owned();
                        self.out.push_str(&count);
                        self.repeat(before, start)?;
                        let times = max.unwrap_or(min).max(1);
                        let product = self.atom_counts.saturating_mul(times);
                        if times >= 2 && product > MAX_REPEAT {
                            return Err(worded(BAD_REPEAT_SIZE, self.since(start)));
                        }
                        self.atom_counts = product;
                        self.counts = self.counts.max(product);
                        Before::Repeat(start)
                    }
                },
                '\\' => self.escaped()?,
                c => {
                    self.at += c.len_utf8();
                    self.literal(c);
                    self.atom()
                }
            };
        }
        if self.open.is_empty() {
            Ok(())
        } else {
            Err(worded(MISSING_PAREN, self.text))
        }
    }

    fn atom(&mut self) -> Before {
        self.atom_counts = 1;
        Before::Atom
    }

    fn literal(&mut self, c: char) {
        if c.is_ascii_alphanumeric() || !c.is_ascii() {
            self.out.push(c);
        } else {
            self.out.push_str(&format!("\\x{:02X}", c as u32));
        }
    }

    /// After a repetition operator: takes a `?`, and checks what is repeated.
    fn repeat(&mut self, before: Before, start: usize) -> Result<(), String> {
        if self.eat("?") {
            self.out.push('?');
        }
        match before {
            Before::Atom => Ok(()),
            Before::Nothing => Err(worded("missing argument to repetition operator", self.since(start))),
            Before::Repeat(first) => Err(worded("invalid nested repetition operator", self.since(first))),
        }
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

    fn open_group(&mut self, text: &str) -> Result<Before, String> {
        if self.open.len() >= MAX_NESTING {
            return Err(worded("expression nests too deeply", self.text));
        }
        self.open.push(self.counts);
        self.counts = 1;
        self.out.push_str(text);
        Ok(Before::Nothing)
    }

    fn group(&mut self) -> Result<Before, String> {
        let start = self.at;
        let rest = self.rest();
        if !rest.starts_with("(?") {
            self.at += 1;
            self.names.push(String::new());
            return self.open_group("(");
        }
        let name_at = if rest.starts_with("(?P<") && rest.len() > 4 {
            Some(4)
        } else if rest.starts_with("(?<") && rest.len() > 3 {
            Some(3)
        } else {
            None
        };
        if let Some(name_at) = name_at {
            let Some(end) = rest.find('>') else {
                return Err(worded("invalid named capture", rest));
            };
            let name = rest.get(name_at..end).unwrap_or("");
            let valid = !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
            if !valid {
                return Err(worded("invalid named capture", rest.get(..=end).unwrap_or(rest)));
            }
            self.names.push(name.to_owned());
            self.at += end + 1;
            return self.open_group("(");
        }
        self.at += 2;
        let (mut negated, mut saw_flag) = (false, false);
        let mut flags = String::from("(?");
        while let Some(c) = self.next() {
            match c {
                'i' | 'm' | 's' | 'U' => {
                    saw_flag = true;
                    // The crate refuses a flag that is named twice.
                    if !flags.contains(c) {
                        flags.push(c);
                    }
                }
                '-' if !negated => {
                    negated = true;
                    saw_flag = false;
                    flags.push('-');
                }
                ':' | ')' if !negated || saw_flag => {
                    flags.push(c);
                    if c == ':' {
                        return self.open_group(&flags);
                    }
                    if flags != "(?)" {
                        self.out.push_str(&flags);
                    }
                    return Ok(Before::Nothing);
                }
                _ => break,
            }
        }
        Err(worded("invalid or unsupported Perl syntax", self.since(start)))
    }

    fn escaped(&mut self) -> Result<Before, String> {
        let start = self.at;
        for (go, crate_form) in [
            ("\\A", "\\A"),
            ("\\z", "\\z"),
            ("\\b", "(?-u:\\b)"),
            ("\\B", "(?-u:\\B)"),
        ] {
            if self.eat(go) {
                self.out.push_str(crate_form);
                return Ok(self.atom());
            }
        }
        if self.eat("\\C") {
            return Err(worded(BAD_ESCAPE, "\\C"));
        }
        if self.eat("\\Q") {
            let rest = self.rest();
            let (quoted, used) = rest
                .split_once("\\E")
                .map_or((rest, rest.len()), |(q, _)| (q, q.len() + 2));
            self.at += used;
            for c in quoted.chars() {
                self.literal(c);
            }
            // Go forgets what came before `\Q\E`, so that an empty quotation stays transparent here.
            return Ok(self.atom());
        }
        if let Some(class) = self.class_escape()? {
            self.out.push_str(&class);
            return Ok(self.atom());
        }
        debug_assert_eq!(start, self.at);
        let c = self.escape()?;
        self.literal_code(c);
        Ok(self.atom())
    }

    fn literal_code(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(c) => self.literal(c),
            // A surrogate is no character, so it never matches.
            None => self.out.push_str("[^\\x{0}-\\x{10FFFF}]"),
        }
    }

    /// `\d` and its kin, and `\p{...}`; as a class of its own, which may stand inside another.
    fn class_escape(&mut self) -> Result<Option<String>, String> {
        for (go, class) in [
            ("\\d", "[0-9]"),
            ("\\D", "[^0-9]"),
            ("\\s", "[\\t\\n\\x0C\\r\\x20]"),
            ("\\S", "[^\\t\\n\\x0C\\r\\x20]"),
            ("\\w", "[0-9A-Za-z_]"),
            ("\\W", "[^0-9A-Za-z_]"),
        ] {
            if self.eat(go) {
                return Ok(Some(class.to_owned()));
            }
        }
        let rest = self.rest();
        if !rest.starts_with("\\p") && !rest.starts_with("\\P") {
            return Ok(None);
        }
        let mut negated = rest.starts_with("\\P");
        let Some(first) = rest.get(2..).and_then(|tail| tail.chars().next()) else {
            return Ok(None);
        };
        let (seq, name) = if first == '{' {
            let Some(end) = rest.find('}') else {
                return Err(worded(BAD_RANGE, rest));
            };
            (rest.get(..=end).unwrap_or(rest), rest.get(3..end).unwrap_or(""))
        } else {
            let end = 2 + first.len_utf8();
            (rest.get(..end).unwrap_or(rest), rest.get(2..end).unwrap_or(""))
        };
        self.at += seq.len();
        let name = match name.strip_prefix('^') {
            Some(bare) => {
                negated = !negated;
                bare
            }
            None => name,
        };
        if name == "Any" {
            let any = if negated {
                "[^\\x{0}-\\x{10FFFF}]"
            } else {
                "[\\x{0}-\\x{10FFFF}]"
            };
            return Ok(Some(any.to_owned()));
        }
        let class = format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' });
        // The crate knows more properties than Go, and names them loosely; Go has scripts and general categories.
        let plain = name.chars().next().is_some_and(|c| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        if !plain || regex::bytes::Regex::new(&class).is_err() {
            return Err(worded(BAD_RANGE, seq));
        }
        Ok(Some(class))
    }

    /// A single escaped character, as its code point.
    fn escape(&mut self) -> Result<u32, String> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.next() else {
            return Err(worded("trailing backslash at end of expression", ""));
        };
        let octal = |c: Option<char>| c.is_some_and(|c| ('0'..='7').contains(&c));
        let simple = match c {
            '0'..='7' if c == '0' || octal(self.rest().chars().next()) => {
                let mut code = c as u32 - '0' as u32;
                for _ in 1..3 {
                    if !octal(self.rest().chars().next()) {
                        break;
                    }
                    code = code * 8 + self.next().map_or(0, |c| c as u32 - '0' as u32);
                }
                Some(code)
            }
            'x' => self.hex(),
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

    fn hex(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let high = first.to_digit(16);
            let low = self.next()?.to_digit(16);
            return Some(high? * 16 + low?);
        }
        let mut code = 0;
        let mut digits = 0;
        loop {
            match self.next()? {
                '}' => return (digits > 0).then_some(code),
                c => code = code * 16 + c.to_digit(16)?,
            }
            if code > 0x10FFFF {
                return None;
            }
            digits += 1;
        }
    }

    fn class_char(&mut self, start: usize) -> Result<u32, String> {
        match self.rest().chars().next() {
            None => Err(worded(MISSING_BRACKET, self.text.get(start..).unwrap_or(""))),
            Some('\\') => self.escape(),
            Some(c) => {
                self.at += c.len_utf8();
                Ok(c as u32)
            }
        }
    }

    fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        let mut class = String::from("[");
        if self.eat("^") {
            class.push('^');
        }
        let mut first = true;
        while first || !self.rest().starts_with(']') {
            first = false;
            if let Some(named) = self.named_class()? {
                class.push_str(named);
                continue;
            }
            if let Some(escape) = self.class_escape()? {
                class.push_str(&escape);
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
            push_range(&mut class, low, high);
        }
        self.at += 1;
        class.push(']');
        self.out.push_str(&class);
        Ok(())
    }

    /// `[:alpha:]` and its kin.
    fn named_class(&mut self) -> Result<Option<&'static str>, String> {
        let rest = self.rest();
        if !rest.starts_with("[:") || rest.len() < 3 {
            return Ok(None);
        }
        let Some(end) = rest.get(2..).and_then(|tail| tail.find(":]")) else {
            return Ok(None);
        };
        let name = rest.get(..end + 4).unwrap_or(rest);
        let class = match name {
            "[:alnum:]" => "[0-9A-Za-z]",
            "[:^alnum:]" => "[^0-9A-Za-z]",
            "[:alpha:]" => "[A-Za-z]",
            "[:^alpha:]" => "[^A-Za-z]",
            "[:ascii:]" => "[\\x00-\\x7F]",
            "[:^ascii:]" => "[^\\x00-\\x7F]",
            "[:blank:]" => "[\\t\\x20]",
            "[:^blank:]" => "[^\\t\\x20]",
            "[:cntrl:]" => "[\\x00-\\x1F\\x7F]",
            "[:^cntrl:]" => "[^\\x00-\\x1F\\x7F]",
            "[:digit:]" => "[0-9]",
            "[:^digit:]" => "[^0-9]",
            "[:graph:]" => "[\\x21-\\x7E]",
            "[:^graph:]" => "[^\\x21-\\x7E]",
            "[:lower:]" => "[a-z]",
            "[:^lower:]" => "[^a-z]",
            "[:print:]" => "[\\x20-\\x7E]",
            "[:^print:]" => "[^\\x20-\\x7E]",
            "[:punct:]" => "[\\x21-\\x2F\\x3A-\\x40\\x5B-\\x60\\x7B-\\x7E]",
            "[:^punct:]" => "[^\\x21-\\x2F\\x3A-\\x40\\x5B-\\x60\\x7B-\\x7E]",
            "[:space:]" => "[\\t\\n\\x0B\\x0C\\r\\x20]",
            "[:^space:]" => "[^\\t\\n\\x0B\\x0C\\r\\x20]",
            "[:upper:]" => "[A-Z]",
            "[:^upper:]" => "[^A-Z]",
            "[:word:]" => "[0-9A-Za-z_]",
            "[:^word:]" => "[^0-9A-Za-z_]",
            "[:xdigit:]" => "[0-9A-Fa-f]",
            "[:^xdigit:]" => "[^0-9A-Fa-f]",
            _ => return Err(worded(BAD_RANGE, name)),
        };
        self.at += name.len();
        Ok(Some(class))
    }
}

/// Writes a range of code points, without the surrogates, which the crate refuses.
fn push_range(class: &mut String, low: u32, high: u32) {
    let parts = [(low, high.min(0xD7FF)), (low.max(0xE000), high)];
    for (low, high) in parts {
        if low <= high {
            class.push_str(&format!("\\x{{{low:X}}}-\\x{{{high:X}}}"));
        }
    }
    if (0xD800..=0xDFFF).contains(&low) && (0xD800..=0xDFFF).contains(&high) {
        class.push_str("[^\\x{0}-\\x{10FFFF}]");
    }
}
