//! JSON values to YAML text: go-yaml's encoder and libyaml's emitter, for what a JSON value can hold.

use serde_json::{Number, Value};

use crate::Error;
use crate::number::{format_g, whole};
use crate::read::resolve::is_string;
use crate::write::sort::sort;
use crate::write::style::{ScalarStyle, is_printable, style};

/// Longest key in bytes that is written before its colon on one line; others get `? key`.
const MAX_SIMPLE_KEY: usize = 128;

/// The two versions of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// yaml.v2 behind sigs.k8s.io/yaml: values pass through JSON, lines are folded, sequences not indented.
    V2,
    /// yaml.v3 with an indent of 2.
    V3,
}

pub(crate) fn to_string(value: &Value, max_depth: usize) -> Result<String, Error> {
    write(value, Dialect::V2, max_depth)
}

pub(crate) fn to_string_pretty(value: &Value, max_depth: usize) -> Result<String, Error> {
    write(value, Dialect::V3, max_depth)
}

fn write(value: &Value, dialect: Dialect, max_depth: usize) -> Result<String, Error> {
    let mut emitter = Emitter {
        out: String::with_capacity(256),
        column: 0,
        indent: -1,
        depth: 0,
        max_depth,
        whitespace: true,
        indention: true,
        best_width: if dialect == Dialect::V2 { 80 } else { usize::MAX },
        dialect,
    };
    emitter.node(value, NodePosition::Root)?;
    emitter.write_indent();
    Ok(emitter.out)
}

/// The position of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodePosition {
    Root,
    Item,
    /// A value in a mapping, or a key behind `?`.
    Mapping,
    SimpleKey,
}

struct Emitter {
    out: String,
    /// In characters, of the line being written.
    column: usize,
    /// The indentation of the current block; -1 outside of any.
    indent: i32,
    depth: usize,
    max_depth: usize,
    /// Whether the last character written was white space.
    whitespace: bool,
    /// Whether the line holds nothing but indentation and block indicators.
    indention: bool,
    best_width: usize,
    dialect: Dialect,
}

impl Emitter {
    fn node(&mut self, value: &Value, context: NodePosition) -> Result<(), Error> {
        match value {
            Value::Null => self.ascii("null"),
            Value::Bool(true) => self.ascii("true"),
            Value::Bool(false) => self.ascii("false"),
            Value::Number(n) => self.number(n),
            Value::String(s) => self.string(s, context),
            Value::Array(items) if items.is_empty() => self.empty("[", "]"),
            Value::Object(map) if map.is_empty() => self.empty("{", "}"),
            Value::Array(items) => self.nested(|e| e.sequence(items, context))?,
            Value::Object(map) => {
                let mut entries: Vec<(&str, &Value)> = map.iter().map(|(k, v)| (k.as_str(), v)).collect();
                sort(&mut entries, |(key, _)| key);
                self.nested(|e| e.mapping(&entries))?;
            }
        }
        Ok(())
    }

    fn nested(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > self.max_depth {
            return Err(Error::depth(None, self.max_depth));
        }
        let indent = self.indent;
        write(self)?;
        self.indent = indent;
        self.depth -= 1;
        Ok(())
    }

    fn sequence(&mut self, items: &[Value], context: NodePosition) -> Result<(), Error> {
        let indentless = self.dialect == Dialect::V2 && context == NodePosition::Mapping && !self.indention;
        self.increase_indent(false, indentless);
        for item in items {
            self.write_indent();
            self.indicator("-", true, false, true);
            self.node(item, NodePosition::Item)?;
        }
        Ok(())
    }

    fn mapping(&mut self, entries: &[(&str, &Value)]) -> Result<(), Error> {
        self.increase_indent(false, false);
        for (key, value) in entries {
            self.write_indent();
            if key.len() <= MAX_SIMPLE_KEY && !key.contains('\n') {
                self.string(key, NodePosition::SimpleKey);
                self.indicator(":", false, false, false);
            } else {
                self.indicator("?", true, false, true);
                self.string(key, NodePosition::Mapping);
                self.write_indent();
                self.indicator(":", true, false, true);
            }
            self.node(value, NodePosition::Mapping)?;
        }
        Ok(())
    }

    fn empty(&mut self, open: &str, close: &str) {
        self.indicator(open, true, true, false);
        self.indicator(close, false, false, false);
    }

    fn number(&mut self, n: &Number) {
        let text = match n.as_f64().filter(|_| n.is_f64()) {
            None => n.to_string(),
            Some(f) => match whole(f).filter(|_| self.dialect == Dialect::V2) {
                Some(whole) => whole.to_string(),
                None => format_g(f),
            },
        };
        self.ascii(&text);
    }

    fn string(&mut self, s: &str, context: NodePosition) {
        let mut style = style(s, self.dialect == Dialect::V3);
        if style != ScalarStyle::Literal && !is_string(s) {
            style = ScalarStyle::DoubleQuoted;
        }
        let indent = self.indent;
        self.increase_indent(true, false);
        let fold = context != NodePosition::SimpleKey;
        match style {
            ScalarStyle::Plain => self.plain(s, fold),
            ScalarStyle::SingleQuoted => self.single_quoted(s, fold),
            ScalarStyle::DoubleQuoted => self.double_quoted(s, fold),
            ScalarStyle::Literal => self.literal(s),
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

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn plain(&mut self, s: &str, fold: bool) {
        let short = self.column + s.len() <= self.best_width;
        if s.is_ascii() && (short || !fold || !s.contains(' ')) {
            return self.ascii(s);
        }
        self.space();
        self.flow_text(s, fold, false);
        self.whitespace = false;
    }

    fn single_quoted(&mut self, s: &str, fold: bool) {
        self.indicator("'", true, false, false);
        self.flow_text(s, fold, true);
        self.indicator("'", false, false, false);
        self.whitespace = false;
    }

    /// Whether the space at `at` may become a line break.
    fn folds(&self, s: &str, at: usize) -> bool {
        self.column > self.best_width && at > 0 && at < s.len() - 1 && s.as_bytes()[at - 1] != b' '
    }

    /// The text of a plain or single quoted scalar, broken at single spaces beyond the width.
    fn flow_text(&mut self, s: &str, fold: bool, quoted: bool) {
        for (at, c) in s.char_indices() {
            if fold && c == ' ' && self.folds(s, at) && s.as_bytes().get(at + 1) != Some(&b' ') {
                self.write_indent();
                continue;
            }
            if quoted && c == '\'' {
                self.put(c);
            }
            self.put(c);
            self.indention = false;
        }
    }

    fn double_quoted(&mut self, s: &str, fold: bool) {
        self.indicator("\"", true, false, false);
        for (at, c) in s.char_indices() {
            if matches!(c, '"' | '\\' | '\n') || !is_printable(c) {
                let before = self.out.len();
                escape(&mut self.out, c);
                self.column += self.out.len() - before;
            } else if fold && c == ' ' && self.folds(s, at) {
                self.write_indent();
                if s.as_bytes().get(at + 1) == Some(&b' ') {
                    self.put('\\');
                }
            } else {
                self.put(c);
            }
        }
        self.indicator("\"", false, false, false);
    }

    fn literal(&mut self, s: &str) {
        self.indicator("|", true, false, false);
        if s.starts_with([' ', '\n']) {
            self.indicator("2", false, false, false);
        }
        if s == "\n" || s.ends_with("\n\n") {
            self.indicator("+", false, false, false);
        } else if !s.ends_with('\n') {
            self.indicator("-", false, false, false);
        }
        self.put_break();
        self.indention = true;
        self.whitespace = true;
        for line in s.split_inclusive('\n') {
            let text = line.strip_suffix('\n').unwrap_or(line);
            if !text.is_empty() {
                self.write_indent();
                self.out.push_str(text);
                self.column += text.chars().count();
                self.indention = false;
            }
            if text.len() < line.len() {
                self.put_break();
                self.indention = true;
            }
        }
    }
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
