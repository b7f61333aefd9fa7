//! The syntax of `--set` and its variants. Facts: Helm's `pkg/strvals`.

use serde_json::{Map, Value};

use go_template::integer::atoi;
use go_template::quote::quote_go;
use go_yaml::all_floats;

/// The largest list index that `--set` may name.
const MAX_INDEX: i64 = 65536;
/// The maximum number of dots in a name.
const MAX_NESTING: usize = 30;

/// The conversion of the text after a `=` to a value.
pub enum Mode<'a> {
    /// `--set`: null, booleans and whole numbers are recognised.
    Typed,
    /// `--set-string`
    Strings,
    /// `--set-json`
    Json,
    /// `--set-literal`: nothing is special after the first `=`.
    Literal,
    /// `--set-file`: the value is the reader's result for the path.
    File(&'a dyn Fn(&str) -> Result<String, String>),
}

/// Parses `text` and sets its values in `target`.
///
/// ```
/// use helm_template::chart::strvals::{Mode, parse_into};
///
/// let mut values = serde_json::Map::new();
/// parse_into("image.tag=v1,replicas=3", &Mode::Typed, &mut values).unwrap();
/// assert_eq!(serde_json::Value::Object(values), serde_json::json!({"image": {"tag": "v1"}, "replicas": 3}));
/// ```
///
/// # Errors
/// The text of Helm's error. As in Helm, the values before the mistake are set.
pub fn parse_into(text: &str, mode: &Mode<'_>, target: &mut Map<String, Value>) -> Result<(), String> {
    let mut parser = SetParser {
        rest: text.chars().collect::<Vec<_>>().into_iter(),
        mode,
    };
    loop {
        match parser.key(target, 0) {
            Ok(()) => {}
            Err(ParseStop::End) => return Ok(()),
            Err(ParseStop::Error(text)) => return Err(text),
        }
    }
}

/// Why parsing stops: the input is used up (Go's `io.EOF`), or a mistake.
enum ParseStop {
    End,
    Error(String),
}

impl From<String> for ParseStop {
    fn from(text: String) -> Self {
        ParseStop::Error(text)
    }
}

type ParseStep<T> = Result<T, ParseStop>;

struct SetParser<'a> {
    rest: std::vec::IntoIter<char>,
    mode: &'a Mode<'a>,
}

impl SetParser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.as_slice().first().copied()
    }

    /// Reads up to a character of `stops`, which is consumed; `Err` holds what was read before the end.
    fn until(&mut self, stops: &[char]) -> Result<(String, char), String> {
        let mut read = String::new();
        while let Some(c) = self.rest.next() {
            if stops.contains(&c) {
                return Ok((read, c));
            }
            if c == '\\' && !matches!(self.mode, Mode::Literal) {
                match self.rest.next() {
                    Some(escaped) => read.push(escaped),
                    None => return Err(read),
                }
            } else {
                read.push(c);
            }
        }
        Err(read)
    }

    fn key(&mut self, data: &mut Map<String, Value>, nesting: usize) -> ParseStep<()> {
        let stops: &[char] = if matches!(self.mode, Mode::Literal) {
            &['=', '[', '.']
        } else {
            &['=', '[', ',', '.']
        };
        let (key, last) = match self.until(stops) {
            Ok(found) => found,
            Err(read) if read.is_empty() => return Err(ParseStop::End),
            Err(read) => return Err(ParseStop::Error(format!("key {} has no value", quote_go(&read)))),
        };
        match last {
            '[' => {
                let index = self.index()?;
                let mut list = match data.get(&key) {
                    None => Vec::new(),
                    Some(Value::Array(items)) => items.clone(),
                    Some(other) => return Err(type_panic(other, "[]interface {}")),
                };
                let result = self.item(&mut list, index, nesting);
                set(data, key, Value::Array(list));
                result
            }
            ',' => {
                let text = format!("key {} has no value (cannot end with ,)", quote_go(&key));
                set(data, key, Value::String(String::new()));
                Err(ParseStop::Error(text))
            }
            '.' => {
                if nesting + 1 > MAX_NESTING {
                    return Err(ParseStop::Error(format!(
                        "value name nested level is greater than maximum supported nested level of {MAX_NESTING}"
                    )));
                }
                let mut inner = match data.get(&key) {
                    None => Map::new(),
                    Some(Value::Object(map)) => map.clone(),
                    Some(other) => return Err(type_panic(other, "map[string]interface {}")),
                };
                let result = self.key(&mut inner, nesting + 1);
                if result.is_ok() && inner.is_empty() {
                    return Err(ParseStop::Error(format!("key map {} has no value", quote_go(&key))));
                }
                if !inner.is_empty() {
                    set(data, key, Value::Object(inner));
                }
                result
            }
            _ => {
                let (value, result) = self.value()?;
                set(data, key, value);
                result
            }
        }
    }

    /// The value after a `=`, and how parsing goes on.
    fn value(&mut self) -> ParseStep<(Value, ParseStep<()>)> {
        match self.mode {
            Mode::Literal => {
                let text: String = self.rest.by_ref().collect();
                Ok((Value::String(text), Ok(())))
            }
            Mode::Json => self.json().map(|value| (value, Ok(()))),
            _ => match self.peek() {
                None => Ok((Value::String(String::new()), Err(ParseStop::End))),
                Some('{') => {
                    self.rest.next();
                    Ok((Value::Array(self.list()?), Ok(())))
                }
                Some(_) => {
                    let text = match self.until(&[',']) {
                        Ok((text, _)) | Err(text) => text,
                    };
                    match self.convert(text) {
                        Ok(value) => Ok((value, Ok(()))),
                        // The key is set all the same, to what a failed reader returned: nil.
                        Err(text) => Ok((Value::Null, Err(ParseStop::Error(text)))),
                    }
                }
            },
        }
    }

    fn json(&mut self) -> ParseStep<Value> {
        if self.empty_value() {
            return Ok(Value::Null);
        }
        let text: String = self.rest.as_slice().iter().collect();
        let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let value = values
            .next()
            .unwrap_or(Ok(Value::Null))
            .map_err(|error| error.to_string())?;
        let used = text.get(..values.byte_offset()).map_or(0, |used| used.chars().count());
        self.rest.by_ref().take(used).for_each(drop);
        self.empty_value();
        Ok(all_floats(value))
    }

    /// Skips white space and one comma; whether nothing else comes before that comma or the end.
    fn empty_value(&mut self) -> bool {
        loop {
            match self.peek() {
                None => return true,
                Some(',') => {
                    self.rest.next();
                    return true;
                }
                Some(c) if c.is_whitespace() => {
                    self.rest.next();
                }
                Some(_) => return false,
            }
        }
    }

    fn list(&mut self) -> ParseStep<Vec<Value>> {
        let mut items = Vec::new();
        loop {
            let Ok((text, last)) = self.until(&[',', '}']) else {
                return Err(ParseStop::Error("list must terminate with '}'".to_owned()));
            };
            items.push(self.convert(text)?);
            if last == '}' {
                if self.peek() == Some(',') {
                    self.rest.next();
                }
                return Ok(items);
            }
        }
    }

    fn convert(&self, text: String) -> Result<Value, String> {
        match self.mode {
            Mode::Typed => Ok(typed(text)),
            Mode::File(read) => read(&text).map(Value::String),
            Mode::Strings | Mode::Json | Mode::Literal => Ok(Value::String(text)),
        }
    }

    fn index(&mut self) -> ParseStep<i64> {
        // An unterminated index is Go's io.EOF, wrapped: it still ends the parse without an error.
        let Ok((text, _)) = self.until(&[']']) else {
            return Err(ParseStop::End);
        };
        atoi(&text).map_err(|problem| ParseStop::Error(format!("error parsing index: {problem}")))
    }

    fn item(&mut self, list: &mut Vec<Value>, index: i64, nesting: usize) -> ParseStep<()> {
        if index < 0 {
            return Err(ParseStop::Error(format!("negative {index} index not allowed")));
        }
        let (unexpected, last) = match self.until(&['[', '.', '=']) {
            Ok((read, last)) => (read, Some(last)),
            Err(read) => (read, None),
        };
        if !unexpected.is_empty() {
            return Err(ParseStop::Error(format!(
                "unexpected data at end of array index: {}",
                quote_go(&unexpected)
            )));
        }
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match last {
            None => Err(ParseStop::End),
            Some('=') => {
                let (value, result) = self.value()?;
                match result {
                    Err(ParseStop::Error(text)) => Err(ParseStop::Error(text)),
                    _ => set_index(list, index, value),
                }
            }
            Some('[') => {
                let next = self.index()?;
                let mut inner = match list.get(at) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(items)) => items.clone(),
                    Some(other) => return Err(type_panic(other, "[]interface {}")),
                };
                self.item(&mut inner, next, nesting)?;
                set_index(list, index, Value::Array(inner))
            }
            Some(_) => {
                let mut inner = match list.get(at) {
                    Some(Value::Object(map)) => map.clone(),
                    _ => Map::new(),
                };
                let result = self.key(&mut inner, nesting);
                if let (Err(_), Some(place)) = (&result, list.get_mut(at)) {
                    *place = Value::Object(inner);
                    return result;
                }
                result?;
                set_index(list, index, Value::Object(inner))
            }
        }
    }
}

fn set(data: &mut Map<String, Value>, key: String, value: Value) {
    if !key.is_empty() {
        data.insert(key, value);
    }
}

fn set_index(list: &mut Vec<Value>, index: i64, value: Value) -> ParseStep<()> {
    if index > MAX_INDEX {
        return Err(ParseStop::Error(format!(
            "index of {index} is greater than maximum supported index of {MAX_INDEX}"
        )));
    }
    let index = usize::try_from(index).unwrap_or_default();
    if list.len() <= index {
        list.resize(index + 1, Value::Null);
    }
    if let Some(place) = list.get_mut(index) {
        *place = value;
    }
    Ok(())
}

fn typed(text: String) -> Value {
    match (text.to_ascii_lowercase().as_str(), text.parse::<i64>()) {
        ("true", _) => Value::Bool(true),
        ("false", _) => Value::Bool(false),
        ("null", _) => Value::Null,
        (_, Ok(number)) if text == "0" || !text.starts_with('0') => Value::from(number),
        _ => Value::String(text),
    }
}

/// The text of the panic with which a Go type assertion fails, as Helm reports it.
fn type_panic(found: &Value, wanted: &str) -> ParseStop {
    let found = match found {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    ParseStop::Error(format!(
        "unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}"
    ))
}
