//! Reading TOML as BurntSushi/toml v1.6.0 does, which accepts more than the standard and has words of its own for what
//! it refuses. Facts: `parse.go` and `error.go`.

use std::collections::BTreeMap;

use super::toml::{MAX_DEPTH, TOO_DEEP, check, key_text};
use super::toml_lexer::{Flaw, Lexer, is_blank, is_letter, shown};
use super::toml_number::Kind;
use crate::template::go::meter;
use crate::template::go::quote::quote_go;
use crate::template::go::room::Room;
use crate::template::go::value::{Entries, List, ListKind, Map, MapKind, Str, Value};

/// Reads a document: whole numbers are `int64`, dates and times are times.
///
/// # Errors
/// What the library says of it.
pub(super) fn read(input: &[u8]) -> Result<Value, String> {
    let marks: [&[u8]; 3] = [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"];
    let input = marks.iter().find_map(|mark| input.strip_prefix(*mark)).unwrap_or(input);
    if input.iter().take(6).any(|byte| *byte == 0) {
        let text = "files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8";
        return Err(format!("toml: line 1: {text}"));
    }
    let mut reader = Reader {
        lexer: Lexer::new(input),
        root: Table::new(),
        marks: Mark::default(),
        context: Vec::new(),
        key: String::new(),
        line: 0,
    };
    match reader.document() {
        Ok(()) => Ok(table_value(reader.root)),
        Err(Flaw { line, text }) => Err(match reader.last_key() {
            key if key.is_empty() => format!("toml: line {line}: {text}"),
            key => format!("toml: line {line} (last key {}): {text}", quote_go(key)),
        }),
    }
}

type Table = BTreeMap<String, Node>;

/// What lies under a key.
enum Node {
    Table(Table),
    /// What `[[name]]` makes.
    Tables(Vec<Table>),
    Value(Value),
}

/// What is known of a key. The tables of a list share it.
#[derive(Default)]
struct Mark {
    /// Whether it was only implied, and may still be defined.
    is_implicit: bool,
    is_list: bool,
    below: BTreeMap<String, Mark>,
}

struct Reader<'t> {
    lexer: Lexer<'t>,
    root: Table,
    marks: Mark,
    /// The table that is open, and the key in it.
    context: Vec<String>,
    key: String,
    /// The line of the last key or table's name.
    line: usize,
}

type Done = Result<(), Flaw>;

fn table_value(table: Table) -> Value {
    let entries = table.into_iter().map(|(key, node)| (Str::from(key), node_value(node)));
    Value::map(entries.collect::<Entries>())
}

fn node_value(node: Node) -> Value {
    match node {
        Node::Table(table) => table_value(table),
        Node::Tables(tables) => {
            let items = tables.into_iter().map(table_value).collect();
            // The library appends them one by one, where there is room for four already.
            Value::List(List::with_room(ListKind::Map, items, Room::Appended(4)))
        }
        Node::Value(value) => value,
    }
}

/// A key's parts as the library writes them.
fn joined(parts: &[String]) -> String {
    let parts = parts.iter().map(|part| key_text(part.as_bytes()));
    String::from_utf8_lossy(&parts.collect::<Vec<_>>().join(&b'.')).into_owned()
}

fn last(key: &[String]) -> &str {
    key.last().map_or("", String::as_str)
}

fn parents(key: &[String]) -> &[String] {
    key.split_last().map_or(key, |(_, parents)| parents)
}

fn rune_or_end(found: Option<char>) -> String {
    found.map_or_else(|| "end of file".to_owned(), |c| format!("'{c}'"))
}

// === impl Reader: tables ===

impl Reader<'_> {
    fn last_key(&self) -> String {
        if self.key.is_empty() {
            joined(&self.context)
        } else if self.context.is_empty() {
            self.key.clone()
        } else {
            format!("{}.{}", joined(&self.context), self.key)
        }
    }

    /// A flaw of the last key.
    fn flaw(&self, text: String) -> Flaw {
        Flaw { line: self.line, text }
    }

    fn defined(&self, key: &[String]) -> Flaw {
        self.flaw(format!("Key '{}' has already been defined.", joined(key)))
    }

    /// Counts a copy of a path. Every key makes some, so that a short text with a long table's name makes much.
    fn count(&self, path: &[String]) -> Done {
        let bytes: usize = path.iter().map(|part| size_of::<String>() + part.len()).sum();
        if meter::spend(bytes as u64) {
            Ok(())
        } else {
            Err(self.flaw(meter::Overrun::Memory.to_string()))
        }
    }

    /// The path of a key in the open table.
    fn path(&self, name: &str) -> Result<Vec<String>, Flaw> {
        self.count(&self.context)?;
        let mut path = self.context.clone();
        path.push(name.to_owned());
        Ok(path)
    }

    fn mark(&mut self, path: &[String]) -> &mut Mark {
        let mut mark = &mut self.marks;
        for part in path {
            mark = mark.below.entry(part.clone()).or_default();
        }
        mark
    }

    /// Marks a value's key as a list's or not. A key without a name marks its table, in the library, too.
    fn mark_list(&mut self, is_list: bool) -> Done {
        let mut path = self.path(&self.key)?;
        if self.key.is_empty() && path.len() > 1 {
            path.pop();
        }
        self.mark(&path).is_list = is_list;
        Ok(())
    }

    /// Opens a table, or the next one of a list of tables, and makes those that it lies in.
    fn open(&mut self, path: &[String], is_list: bool) -> Done {
        if path.len() > MAX_DEPTH {
            return Err(self.flaw(TOO_DEEP.to_owned()));
        }
        self.count(path)?;
        let mut table = &mut self.root;
        let mut marks = &mut self.marks;
        for (index, part) in parents(path).iter().enumerate() {
            marks = marks.below.entry(part.clone()).or_default();
            let node = table.entry(part.clone()).or_insert_with(|| {
                marks.is_implicit = true;
                Node::Table(Table::new())
            });
            table = match inner(node) {
                Some(table) => table,
                None => {
                    let key = joined(path.get(..=index).unwrap_or(path));
                    return Err(self.flaw(format!("Key '{key}' was already created as a hash.")));
                }
            };
        }
        self.context = parents(path).to_vec();
        let name = last(path).to_owned();
        if is_list {
            match table.entry(name).or_insert_with(|| Node::Tables(Vec::new())) {
                Node::Tables(tables) => tables.push(Table::new()),
                _ => {
                    let key = joined(path);
                    let text = format!("Key '{key}' was already created and cannot be used as an array.");
                    return Err(self.flaw(text));
                }
            }
        } else {
            self.set(&name, Node::Table(Table::new()))?;
        }
        self.context.push(last(path).to_owned());
        Ok(())
    }

    /// Sets a key of the open table. One that was only implied stays as it is.
    fn set(&mut self, name: &str, node: Node) -> Done {
        let path = self.path(name)?;
        let Mark {
            is_implicit, is_list, ..
        } = *self.mark(&path);
        let mut table = &mut self.root;
        for (index, part) in self.context.iter().enumerate() {
            table = match table.get_mut(part).and_then(inner) {
                Some(table) => table,
                None => return Err(self.defined(self.context.get(..=index).unwrap_or_default())),
            };
        }
        match table.get_mut(name) {
            None => {
                table.insert(name.to_owned(), node);
                return Ok(());
            }
            Some(_) if !is_implicit => return Err(self.defined(&path)),
            Some(held) if is_list => *held = node,
            Some(_) => {}
        }
        self.mark(&path).is_implicit = false;
        Ok(())
    }

    /// Opens the tables that the parts of a key but its last imply.
    fn imply(&mut self, key: &[String]) -> Done {
        for part in parents(key) {
            let path = self.path(part)?;
            self.mark(&path).is_implicit = true;
            self.open(&path, false)?;
        }
        Ok(())
    }
}

/// The table that a node is, or the last one of a list.
fn inner(node: &mut Node) -> Option<&mut Table> {
    match node {
        Node::Table(table) => Some(table),
        Node::Tables(tables) => tables.last_mut(),
        Node::Value(_) => None,
    }
}

// === impl Reader: text ===

impl Reader<'_> {
    fn document(&mut self) -> Done {
        loop {
            self.lexer.skip_lines()?;
            match self.lexer.peek()? {
                None => return Ok(()),
                Some('[') => self.header()?,
                Some(_) => {
                    let outer = self.context.len();
                    self.pair(0)?;
                    self.context.truncate(outer);
                    self.key.clear();
                }
            }
            self.lexer.end_of_line()?;
        }
    }

    fn header(&mut self) -> Done {
        self.lexer.next()?;
        let is_list = self.lexer.accept('[')?;
        let mut path = Vec::new();
        loop {
            self.lexer.skip(is_blank)?;
            match self.lexer.peek()? {
                None | Some(']') => {
                    let text = "unexpected end of table name (table names cannot be empty)";
                    return Err(self.lexer.flaw(text));
                }
                Some('.') => {
                    let text = "unexpected table separator (table names cannot be empty)";
                    return Err(self.lexer.flaw(text));
                }
                Some(_) => path.push(self.lexer.name()?),
            }
            self.line = self.lexer.line();
            self.lexer.skip(is_blank)?;
            match self.lexer.next()? {
                Some('.') => {}
                Some(']') => break,
                found => {
                    let found = shown(found);
                    let text = format!("expected '.' or ']' to end table name, but got {found} instead");
                    return Err(self.lexer.flaw(text));
                }
            }
        }
        if is_list {
            let end = self.lexer.next()?;
            if end != Some(']') {
                let end = shown(end);
                let text = format!("expected end of table array name delimiter ']', but got {end} instead");
                return Err(self.lexer.flaw(text));
            }
        }
        self.open(&path, is_list)?;
        self.mark(&path).is_list = false;
        Ok(())
    }

    /// A key up to its `=`.
    fn whole_key(&mut self) -> Result<Vec<String>, Flaw> {
        let mut parts = Vec::new();
        loop {
            self.lexer.skip(is_blank)?;
            let wrong = match (self.lexer.peek()?, parts.is_empty()) {
                (None | Some('='), true) => "unexpected '=': key name appears blank",
                (Some('.'), true) => "unexpected '.': keys cannot start with a '.'",
                (None | Some('='), false) => "unexpected '='",
                (Some('.'), false) => "unexpected '.'",
                _ => {
                    parts.push(self.lexer.name()?);
                    ""
                }
            };
            if !wrong.is_empty() {
                return Err(self.lexer.flaw(wrong));
            }
            self.line = self.lexer.line();
            self.lexer.skip(is_blank)?;
            let next = self.lexer.next()?;
            let text = || format!("expected '.' or '=', but got {} instead", shown(next));
            match next {
                Some('.') => {}
                Some('=') => return Ok(parts),
                None => return Err(self.lexer.flaw("unexpected EOF; expected key separator '='")),
                Some('\n') => return Err(self.lexer.flaw_before(text())),
                Some(_) => return Err(self.lexer.flaw(text())),
            }
        }
    }

    /// A key and its value, which are returned.
    fn pair(&mut self, depth: usize) -> Result<(Vec<String>, Value), Flaw> {
        let key = self.whole_key()?;
        self.key = last(&key).to_owned();
        self.imply(&key)?;
        let value = self.value(false, depth)?;
        self.set(last(&key), Node::Value(value.clone()))?;
        self.mark_list(matches!(value, Value::List(_)))?;
        Ok((key, value))
    }

    fn value(&mut self, is_in_list: bool, depth: usize) -> Result<Value, Flaw> {
        check(depth).map_err(|text| self.lexer.flaw(text))?;
        self.lexer.skip(is_blank)?;
        let from = self.lexer.place();
        let kind = match self.lexer.next()? {
            None => return Err(self.lexer.flaw("unexpected EOF; expected value")),
            Some('[') => return self.list(depth),
            Some('{') => return self.inline(is_in_list, depth),
            Some(quote @ ('"' | '\'')) => return self.string(quote).map(Value::string),
            Some('.') => return Err(self.lexer.flaw("floats must start with a digit, not '.'")),
            Some(sign @ ('+' | '-')) => self.lexer.signed(sign)?,
            Some(digit) if digit.is_ascii_digit() => self.lexer.number(digit)?,
            Some('i' | 'n') if self.lexer.is_special_float()? => Kind::Float,
            Some(c) if is_letter(c) => {
                let word = self.lexer.place() - c.len_utf8();
                return self.lexer.bool(word).map(Value::Bool);
            }
            found => {
                let text = format!("expected value but found {} instead", shown(found));
                return Err(match found {
                    Some('\n') => self.lexer.flaw_before(text),
                    _ => self.lexer.flaw(text),
                });
            }
        };
        let value = kind.value(self.lexer.since(from));
        value.map_err(|text| self.lexer.flaw(text))
    }

    /// A string whose first quote was read.
    fn string(&mut self, quote: char) -> Result<String, Flaw> {
        let is_double = self.lexer.accept(quote)?;
        if is_double && !self.lexer.accept(quote)? {
            return Ok(String::new());
        }
        match (quote, is_double) {
            ('"', true) => self.lexer.lines(),
            ('"', false) => self.lexer.string(),
            (_, true) => self.lexer.raw_lines(),
            (_, false) => self.lexer.raw(),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Flaw> {
        self.mark_list(true)?;
        let mut items = Vec::new();
        loop {
            self.lexer.skip_lines()?;
            if self.lexer.accept(',')? {
                return Err(self.lexer.flaw("unexpected comma"));
            }
            if self.lexer.accept(']')? {
                break;
            }
            items.push(self.value(true, depth + 1)?);
            self.lexer.skip_lines()?;
            match self.lexer.next()? {
                Some(',') => {}
                Some(']') => break,
                found => {
                    let found = rune_or_end(found);
                    let text = format!("expected a comma (',') or array terminator (']'), but got {found}");
                    return Err(self.lexer.flaw(text));
                }
            }
        }
        // The library appends them one by one, where there is room for two already.
        Ok(Value::List(List::with_room(ListKind::Any, items, Room::Appended(2))))
    }

    /// An inline table. The library holds it twice: as it stands there, and among the tables that a key may reach.
    fn inline(&mut self, is_in_list: bool, depth: usize) -> Result<Value, Flaw> {
        let (outer, outer_key) = (self.context.len(), std::mem::take(&mut self.key));
        let path = self.path(&outer_key)?;
        self.context.push(outer_key.clone());
        self.mark(&path).is_implicit = true;
        self.open(&path, is_in_list)?;
        let table = Map::new(MapKind::Any, Entries::new());
        loop {
            self.lexer.skip_lines()?;
            if self.lexer.accept(',')? {
                return Err(self.lexer.flaw("unexpected comma"));
            }
            if self.lexer.accept('}')? {
                break;
            }
            let (key, value) = self.pair(depth + 1)?;
            self.put(&table, &key, value)?;
            self.context.truncate(path.len());
            self.lexer.skip_lines()?;
            match self.lexer.next()? {
                Some(',') => {}
                Some('}') => break,
                found => {
                    let found = rune_or_end(found);
                    let text = format!("expected a comma or an inline table terminator '}}', but got {found} instead");
                    return Err(self.lexer.flaw(text));
                }
            }
        }
        self.context.truncate(outer);
        self.key = outer_key;
        Ok(Value::Map(table))
    }

    /// Sets a dotted key of an inline table.
    fn put(&self, table: &Map, key: &[String], value: Value) -> Done {
        let mut table = table.clone();
        for part in parents(key) {
            table = match table.get(part.as_bytes()) {
                Some(Value::Map(inner)) => inner,
                Some(_) => {
                    let context = quote_go(joined(&self.context));
                    return Err(self.flaw(format!("{context} is not a table")));
                }
                None => {
                    let inner = Map::new(MapKind::Any, Entries::new());
                    let made = table.insert(Str::from(part.clone()), Value::Map(inner.clone()));
                    made.map_err(|text| self.flaw(text))?;
                    inner
                }
            };
        }
        let set = table.insert(Str::from(last(key).to_owned()), value);
        set.map_err(|text| self.flaw(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_in_their_kinds() {
        let Value::Map(map) = read(b"a = 1\nb = 1.5\n[c]\nd = [true]\n").unwrap() else {
            panic!("not a map")
        };
        assert!(matches!(map.get(b"a"), Some(Value::Int64(1))));
        assert!(matches!(map.get(b"b"), Some(Value::Float64(n)) if n == 1.5));
        assert!(read(b"a = ").is_err());
    }

    #[test]
    fn refuses_what_nests_too_deeply() {
        let deep = [b"a=".as_slice(), &b"[".repeat(100_000)].concat();
        let dotted = [b"a.".repeat(100_000), b"b=1".to_vec()].concat();
        let tables = [b"a=".as_slice(), &b"{a=".repeat(100_000)].concat();
        for text in [deep, dotted, tables] {
            assert!(read(&text).is_err_and(|text| text.ends_with(TOO_DEEP)));
        }
    }

    #[test]
    fn counts_the_paths_that_it_copies() {
        let _meter = meter::Meter::open(1 << 20, None);
        let text = [
            b"[",
            "n".repeat(10_000).as_bytes(),
            b"]\na=[",
            &b"{},".repeat(100),
            b"]",
        ]
        .concat();
        assert!(read(&text).is_err_and(|text| text.ends_with(&meter::Overrun::Memory.to_string())));
    }
}
