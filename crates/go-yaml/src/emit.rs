//! JSON values to YAML text: go-yaml's encoder and libyaml's emitter, for what a JSON value can hold.

use serde_json::{Number, Value};

use super::number::{Whole, format_g64, whole};
use super::resolve::{is_base60, is_string, is_string_v3};
use super::sort::{Order, sort};
use super::style::{Style, analyze, break_length, is_printable, width};
use super::{Error, Tree, decode, json, max_depth};

/// Longest key in bytes that is written before its colon on one line; others get `? key`.
const MAX_SIMPLE_KEY: usize = 128;

/// What the two versions of the library do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// yaml.v2 behind sigs.k8s.io/yaml: values pass through JSON, lines are folded, sequences not indented.
    V2,
    /// yaml.v3 with an indent of 2.
    V3,
}

pub(super) fn to_string(value: &Value) -> Result<String, Error> {
    if survives_json(value, 0) {
        return write(value, Dialect::V2);
    }
    let text = json::to_text(value)?;
    let read_back = decode::decode::<Value>(text.as_bytes())?.unwrap_or(Value::Null);
    write(&read_back, Dialect::V2)
}

pub(super) fn to_string_pretty(value: &Value) -> Result<String, Error> {
    write(value, Dialect::V3)
}

pub(super) fn tree_to_string(tree: &Tree) -> Result<String, Error> {
    write_with(tree, Dialect::V3, Emitter::tree)
}

fn write(value: &Value, dialect: Dialect) -> Result<String, Error> {
    write_with(value, dialect, Emitter::node)
}

fn write_with<T>(value: &T, dialect: Dialect, write: Write<T>) -> Result<String, Error> {
    let mut emitter = Emitter {
        out: String::with_capacity(256),
        column: 0,
        indent: -1,
        depth: 0,
        whitespace: true,
        indention: true,
        best_width: if dialect == Dialect::V2 { 80 } else { usize::MAX },
        dialect,
    };
    write(&mut emitter, value, Context::Root)?;
    emitter.write_indent();
    Ok(emitter.out)
}

/// Whether go-yaml reads every string of the value's JSON text back as it was. Go's JSON leaves DEL, U+0080 to U+009F,
/// U+FFFE and U+FFFF unescaped: YAML folds U+0085 and refuses the others, and it refuses long keys.
fn survives_json(value: &Value, depth: usize) -> bool {
    match value {
        Value::String(s) => plain_to_yaml(s),
        // Refused when it is written.
        Value::Array(_) | Value::Object(_) if depth > max_depth() => true,
        Value::Array(items) => items.iter().all(|item| survives_json(item, depth + 1)),
        // A JSON escape has at most 6 characters.
        Value::Object(map) => map
            .iter()
            .all(|(k, v)| k.len() < 1024 / 6 - 1 && plain_to_yaml(k) && survives_json(v, depth + 1)),
        _ => true,
    }
}

fn plain_to_yaml(s: &str) -> bool {
    if s.bytes().all(|b| b < 0x7F) {
        return true;
    }
    !s.chars()
        .any(|c| matches!(c, '\u{7F}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}'))
}

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Root,
    Item,
    /// A value in a mapping, or a key behind `?`.
    Mapping,
    SimpleKey,
}

/// How a node is written.
type Write<T> = fn(&mut Emitter, &T, Context) -> Result<(), Error>;

struct Emitter {
    out: String,
    /// In characters, of the line being written.
    column: usize,
    /// Of the current block; -1 outside any.
    indent: i32,
    depth: usize,
    /// Whether the last character written was white space.
    whitespace: bool,
    /// Whether the line holds nothing but indentation and block indicators.
    indention: bool,
    best_width: usize,
    dialect: Dialect,
}

impl Emitter {
    fn node(&mut self, value: &Value, context: Context) -> Result<(), Error> {
        match value {
            Value::Null => self.ascii("null"),
            Value::Bool(true) => self.ascii("true"),
            Value::Bool(false) => self.ascii("false"),
            Value::Number(n) => self.number(n),
            Value::String(s) => self.string(s, context),
            Value::Array(items) if items.is_empty() => self.empty("[", "]"),
            Value::Object(map) if map.is_empty() => self.empty("{", "}"),
            Value::Array(items) => self.nested(|e| e.sequence(items, context, Self::node))?,
            Value::Object(map) => {
                let order = if self.dialect == Dialect::V2 {
                    Order::V2
                } else {
                    Order::V3
                };
                let mut entries: Vec<(&str, &Value)> = map.iter().map(|(k, v)| (k.as_str(), v)).collect();
                sort(&mut entries, order, |(key, _)| key);
                self.nested(|e| e.mapping(&entries, Self::node))?;
            }
        }
        Ok(())
    }

    fn tree(&mut self, tree: &Tree, context: Context) -> Result<(), Error> {
        match tree {
            Tree::Scalar(value) => self.node(value, context)?,
            Tree::Bare(text) => self.ascii(text),
            Tree::Sequence(items) if items.is_empty() => self.empty("[", "]"),
            Tree::Sequence(items) => self.nested(|e| e.sequence(items, context, Self::tree))?,
            Tree::Map(entries) | Tree::Struct(entries) if entries.is_empty() => self.empty("{", "}"),
            Tree::Map(entries) | Tree::Struct(entries) => {
                let mut entries: Vec<(&str, &Tree)> = entries.iter().map(|(k, v)| (k.as_str(), v)).collect();
                if matches!(tree, Tree::Map(_)) {
                    sort(&mut entries, Order::V3, |(key, _)| key);
                }
                self.nested(|e| e.mapping(&entries, Self::tree))?;
            }
        }
        Ok(())
    }

    fn nested(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > max_depth() {
            return Err(Error::depth(None));
        }
        let indent = self.indent;
        write(self)?;
        self.indent = indent;
        self.depth -= 1;
        Ok(())
    }

    fn sequence<T>(&mut self, items: &[T], context: Context, write: Write<T>) -> Result<(), Error> {
        let indentless = self.dialect == Dialect::V2 && context == Context::Mapping && !self.indention;
        self.increase_indent(false, indentless);
        for item in items {
            self.write_indent();
            self.indicator("-", true, false, true);
            write(self, item, Context::Item)?;
        }
        Ok(())
    }

    fn mapping<T>(&mut self, entries: &[(&str, &T)], write: Write<T>) -> Result<(), Error> {
        self.increase_indent(false, false);
        for (key, value) in entries {
            self.write_indent();
            if key.len() <= MAX_SIMPLE_KEY && !has_break(key) {
                self.string(key, Context::SimpleKey);
                self.indicator(":", false, false, false);
            } else {
                self.indicator("?", true, false, true);
                self.string(key, Context::Mapping);
                self.write_indent();
                self.indicator(":", true, false, true);
            }
            write(self, value, Context::Mapping)?;
        }
        Ok(())
    }

    fn empty(&mut self, open: &str, close: &str) {
        self.indicator(open, true, true, false);
        self.indicator(close, false, false, false);
    }

    fn number(&mut self, n: &Number) {
        if let Some(i) = n.as_i64() {
            self.ascii(&i.to_string());
        } else if let Some(u) = n.as_u64() {
            self.ascii(&u.to_string());
        } else if let Some(f) = n.as_f64() {
            let text = match whole(f).filter(|_| self.dialect == Dialect::V2) {
                Some(Whole::Signed(i)) => i.to_string(),
                Some(Whole::Unsigned(u)) => u.to_string(),
                None => format_g64(f),
            };
            self.ascii(&text);
        }
    }

    fn string(&mut self, s: &str, context: Context) {
        let analysis = analyze(s, self.dialect == Dialect::V3);
        let is_string = match self.dialect {
            Dialect::V2 => is_string(s) && !is_base60(s),
            Dialect::V3 => is_string_v3(s) && !is_base60(s),
        };
        let mut style = if s.contains('\n') {
            Style::Literal
        } else if is_string {
            Style::Plain
        } else {
            Style::DoubleQuoted
        };
        if context == Context::SimpleKey && analysis.multiline {
            style = Style::DoubleQuoted;
        }
        if style == Style::Plain && (!analysis.plain || s.is_empty() && context == Context::SimpleKey) {
            style = Style::SingleQuoted;
        }
        if style == Style::SingleQuoted && !analysis.single_quoted
            || style == Style::Literal && (!analysis.literal || context == Context::SimpleKey)
        {
            style = Style::DoubleQuoted;
        }
        let indent = self.indent;
        self.increase_indent(true, false);
        let fold = context != Context::SimpleKey;
        match style {
            Style::Plain => self.plain(s, fold),
            Style::SingleQuoted => self.single_quoted(s, fold),
            Style::DoubleQuoted => self.double_quoted(s, fold),
            Style::Literal => self.literal(s),
        }
        self.indent = indent;
    }

    fn increase_indent(&mut self, flow: bool, indentless: bool) {
        if self.indent < 0 {
            self.indent = if flow { 2 } else { 0 };
        } else if !indentless {
            self.indent += 2;
        }
    }

    fn write_indent(&mut self) {
        let indent = self.indent.max(0) as usize;
        if !self.indention || self.column > indent || self.column == indent && !self.whitespace {
            self.put_break();
        }
        for _ in self.column..indent {
            self.out.push(' ');
        }
        self.column = self.column.max(indent);
        self.whitespace = true;
        if self.dialect == Dialect::V2 {
            self.indention = true;
        }
    }

    fn put_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
        if self.dialect == Dialect::V3 {
            self.indention = true;
        }
    }

    fn indicator(&mut self, text: &str, need_whitespace: bool, is_whitespace: bool, is_indention: bool) {
        if need_whitespace {
            self.space();
        }
        self.out.push_str(text);
        self.column += text.len();
        self.whitespace = is_whitespace;
        self.indention &= is_indention;
    }

    /// Separates the next token from what is before it.
    fn space(&mut self) {
        if !self.whitespace {
            self.out.push(' ');
            self.column += 1;
        }
    }

    /// Writes a plain scalar that has no spaces.
    fn ascii(&mut self, text: &str) {
        self.space();
        self.out.push_str(text);
        self.column += text.len();
        self.whitespace = false;
        self.indention = false;
    }

    /// Copies the character at `at` and returns its width in bytes.
    fn copy(&mut self, s: &str, at: usize) -> usize {
        let width = width(s.as_bytes()[at]);
        self.out.push_str(s.get(at..at + width).unwrap_or_default());
        self.column += 1;
        width
    }

    fn copy_break(&mut self, s: &str, at: usize) -> usize {
        if s.as_bytes()[at] == b'\n' {
            self.put_break();
            return 1;
        }
        let width = self.copy(s, at);
        self.column = 0;
        if self.dialect == Dialect::V3 {
            self.indention = true;
        }
        width
    }

    fn plain(&mut self, s: &str, fold: bool) {
        let short = self.column + s.len() <= self.best_width;
        if s.is_ascii() && (short || !fold || !s.contains(' ')) {
            return self.ascii(s);
        }
        self.space();
        self.flow_text(s, fold, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn single_quoted(&mut self, s: &str, fold: bool) {
        self.indicator("'", true, false, false);
        self.flow_text(s, fold, true);
        self.indicator("'", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    /// The text of a plain or single quoted scalar, broken at single spaces beyond the width.
    fn flow_text(&mut self, s: &str, fold: bool, quoted: bool) {
        let bytes = s.as_bytes();
        let (mut spaces, mut breaks) = (false, false);
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b' ' {
                let inside = !quoted || at > 0 && at < bytes.len() - 1;
                if fold && !spaces && self.column > self.best_width && inside && bytes.get(at + 1) != Some(&b' ') {
                    self.write_indent();
                    at += 1;
                } else {
                    at += self.copy(s, at);
                }
                spaces = true;
            } else if break_length(&bytes[at..]) > 0 {
                if !breaks && bytes[at] == b'\n' {
                    self.put_break();
                }
                at += self.copy_break(s, at);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if quoted && bytes[at] == b'\'' {
                    self.out.push('\'');
                    self.column += 1;
                }
                at += self.copy(s, at);
                self.indention = false;
                spaces = false;
                breaks = false;
            }
        }
    }

    fn double_quoted(&mut self, s: &str, fold: bool) {
        self.indicator("\"", true, false, false);
        let bytes = s.as_bytes();
        // The library looks for a byte order mark at the start of the string only, whatever character it is at.
        let escape_all = s.starts_with('\u{FEFF}');
        let mut spaces = false;
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let c = bytes[at];
            if escape_all || c == b'"' || c == b'\\' || !is_printable(rest) || break_length(rest) > 0 {
                let Some(c) = s.get(at..).and_then(|rest| rest.chars().next()) else {
                    break;
                };
                let before = self.out.len();
                escape(&mut self.out, c);
                self.column += self.out.len() - before;
                at += c.len_utf8();
                spaces = false;
            } else if c == b' ' {
                if fold && !spaces && self.column > self.best_width && at > 0 && at < bytes.len() - 1 {
                    self.write_indent();
                    if bytes.get(at + 1) == Some(&b' ') {
                        self.out.push('\\');
                        self.column += 1;
                    }
                    at += 1;
                } else {
                    at += self.copy(s, at);
                }
                spaces = true;
            } else {
                at += self.copy(s, at);
                spaces = false;
            }
        }
        self.indicator("\"", false, false, false);
    }

    fn literal(&mut self, s: &str) {
        self.indicator("|", true, false, false);
        if s.starts_with(' ') || break_length(s.as_bytes()) > 0 {
            self.indicator("2", false, false, false);
        }
        let mut tail = s
            .chars()
            .rev()
            .map(|c| matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}'));
        match (tail.next(), tail.next()) {
            (Some(true), None | Some(true)) => self.indicator("+", false, false, false),
            (Some(true), Some(false)) => {}
            _ => self.indicator("-", false, false, false),
        }
        self.put_break();
        self.indention = true;
        self.whitespace = true;
        let bytes = s.as_bytes();
        let mut breaks = true;
        let mut at = 0;
        while at < bytes.len() {
            if break_length(&bytes[at..]) > 0 {
                at += self.copy_break(s, at);
                self.indention = true;
                breaks = true;
                continue;
            }
            if breaks {
                self.write_indent();
            }
            let length = bytes[at..]
                .iter()
                .position(|b| matches!(b, b'\r' | b'\n' | 0xC2 | 0xE2));
            let end = length.map_or(bytes.len(), |length| at + length);
            if end > at {
                let line = s.get(at..end).unwrap_or_default();
                self.out.push_str(line);
                self.column += line.chars().count();
                at = end;
            } else {
                at += self.copy(s, at);
            }
            self.indention = false;
            breaks = false;
        }
    }
}

fn has_break(s: &str) -> bool {
    let bytes = s.as_bytes();
    (0..bytes.len()).any(|at| break_length(&bytes[at..]) > 0)
}

fn escape(out: &mut String, c: char) {
    use std::fmt::Write;
    let short = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0B' => 'v',
        '\x0C' => 'f',
        '\r' => 'r',
        '\x1B' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{A0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(c);
            // Writing to a string does not fail.
            let _ = match code {
                0..=0xFF => write!(out, "\\x{code:02X}"),
                0x100..=0xFFFF => write!(out, "\\u{code:04X}"),
                _ => write!(out, "\\U{code:08X}"),
            };
            return;
        }
    };
    out.push('\\');
    out.push(short);
}
