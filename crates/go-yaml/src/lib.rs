#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! Reading (`read`) goes through `bytes`, `scanner` (tokens), `compose` (nodes) and `decode` (aliases, merges, scalars).
//! Writing (`write`) turns a JSON value into text directly.

#![forbid(unsafe_code)]

mod json;
mod number;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

use serde_json::Value;

pub use json::unsupported_value;
pub use read::decode::go_json_string;
pub use read::documents::Documents;

/// The maximum nesting of a document that is read or a value that is written. Deeper data can exhaust the stack,
/// because cloning, dropping and writing it are recursive.
pub const MAX_DEPTH: usize = 1000;
/// The maximum nesting in go-yaml and Go's `encoding/json`. A caller that uses this limit needs a stack for it, also
/// where the data is dropped.
pub const GO_MAX_DEPTH: usize = 10_000;

/// The context in errors of sigs.k8s.io/yaml's first step.
const CONVERTING: &str = "error converting YAML to JSON: ";

/// Why a text could not be read or a value could not be written. `Display` is the text that Helm shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error(Box<Problem>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    /// The step of sigs.k8s.io/yaml that failed, with its colon; empty for an error of go-yaml itself.
    context: &'static str,
    /// The library that reports the error, with its colon; empty where Go names none.
    library: &'static str,
    line: Option<usize>,
    message: String,
}

impl Error {
    /// An error of go-yaml: `yaml: line 3: message`.
    fn yaml(line: Option<usize>, message: impl Into<String>) -> Self {
        Self::new("yaml: ", line, message)
    }

    fn new(library: &'static str, line: Option<usize>, message: impl Into<String>) -> Self {
        Error(Box::new(Problem {
            context: "",
            library,
            line,
            message: message.into(),
        }))
    }

    /// The error of go-yaml for a document that nests too deep.
    fn depth(line: Option<usize>, max_depth: usize) -> Self {
        Self::yaml(line, format!("exceeded max depth of {max_depth}"))
    }

    /// Adds a context, unless the error has one.
    fn within(mut self, context: &'static str) -> Self {
        if self.0.context.is_empty() {
            self.0.context = context;
        }
        self
    }

    fn on_line(mut self, line: usize) -> Self {
        self.0.line = Some(line);
        self
    }

    /// The line that go-yaml names, counted from 1. It names none for a problem on the first line, for bytes that are
    /// no text, and for problems found after parsing; for some problems it names the line above.
    pub fn line(&self) -> Option<usize> {
        self.0.line
    }

    /// The problem without prefixes and line, e.g. `did not find expected key`.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem {
            context,
            library,
            line,
            message,
        } = &*self.0;
        write!(f, "{context}{library}")?;
        if let Some(line) = line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(message)
    }
}

/// A parsed node with its position, for strict readers of our own files.
///
/// A node that came through an alias has the position of the anchored node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Line of the node's first character, counted from 1.
    pub line: usize,
    /// Column of the node's first character, counted in characters from 1.
    pub column: usize,
    /// The content of the node.
    pub data: Data,
}

/// The content of a [`Node`]: aliases and merge keys are applied, plain scalars resolved as YAML 1.1 does.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// `null`, `~`, or nothing at all.
    Null,
    /// `true`, `yes`, `on`, `y` and their opposites.
    Bool(bool),
    /// An integer or a finite float.
    Number(serde_json::Number),
    /// A string; timestamps stay strings, as in Helm.
    String(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in document order. A duplicate key occurs twice, so that strict readers can report it; the last one
    /// wins. As in Go, the mapping's own keys after a merge key override the merged ones.
    Map(Vec<(Node, Node)>),
}

/// Reads the first document of `text`, as go-yaml's `Unmarshal`; a text without one is `Null` at line 1.
///
/// ```
/// let node = go_yaml::parse(b"a: yes\nb: [1]\n").unwrap();
/// let go_yaml::Data::Map(entries) = node.data else { panic!("not a mapping") };
/// assert_eq!((entries[1].0.line, entries[1].0.column), (2, 1));
/// assert_eq!(entries[0].1.data, go_yaml::Data::Bool(true));
/// ```
///
/// # Errors
/// Text that go-yaml refuses, with its message and line; also `.inf` and `.nan`, which JSON cannot represent, and
/// nesting deeper than [`MAX_DEPTH`].
pub fn parse(text: &[u8]) -> Result<Node, Error> {
    let decoded = read::decode::decode::<Node>(text, MAX_DEPTH)?;
    Ok(decoded.unwrap_or(Node {
        line: 1,
        column: 1,
        data: Data::Null,
    }))
}

/// Reads the first document of `text` as JSON: sigs.k8s.io/yaml's `YAMLToJSON` followed by a JSON decoder.
///
/// Keys become strings (`1:` is `"1"`, `on:` is `"true"`). Numbers keep Go's JSON text: integers up to 64 bits stay
/// integers and `1e3` is the integer 1000; [`all_floats`] turns all into floats, as Helm's decoder does.
///
/// ```
/// let value = go_yaml::to_json(b"on: 1e3\n").unwrap();
/// assert_eq!(value, serde_json::json!({"true": 1000}));
/// let error = go_yaml::to_json(b"a: [").unwrap_err().to_string();
/// assert!(error.starts_with("error converting YAML to JSON: yaml: "));
/// ```
///
/// # Errors
/// As [`parse`], prefixed with `error converting YAML to JSON: `; also the key `null`.
pub fn to_json(text: &[u8]) -> Result<Value, Error> {
    to_json_within(text, MAX_DEPTH)
}

/// Like [`to_json`], with another nesting limit.
///
/// ```
/// assert!(go_yaml::to_json_within(b"[[[1]]]", 2).is_err());
/// ```
///
/// # Errors
/// As [`to_json`].
pub fn to_json_within(text: &[u8], max_depth: usize) -> Result<Value, Error> {
    let decoded = read::decode::decode(text, max_depth).map_err(|e| e.within(CONVERTING))?;
    Ok(decoded.unwrap_or(Value::Null))
}

/// Converts a scalar to text, as sigs.k8s.io/yaml does for a Go string field: floats have the precision of 32 bits, so
/// that `1.10` is `1.1`. `None` for null, lists and maps.
///
/// ```
/// assert_eq!(go_yaml::text(&serde_json::json!(true)).as_deref(), Some("true"));
/// assert_eq!(go_yaml::text(&serde_json::json!([])), None);
/// ```
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(b) => Some(b.to_string()),
        Value::Number(n) if n.is_f64() => n.as_f64().map(|f| number::format_g(f as f32)),
        Value::Number(n) => Some(n.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Turns every number into a float64, as Go's `encoding/json` does when it decodes into `interface{}` (Helm never sets
/// `UseNumber`): integers above 2^53 lose their last digits.
///
/// ```
/// let value = go_yaml::all_floats(serde_json::json!({"replicas": 3}));
/// assert_eq!(value.to_string(), r#"{"replicas":3.0}"#);
/// ```
pub fn all_floats(mut value: Value) -> Value {
    floats_in_place(&mut value);
    value
}

fn floats_in_place(value: &mut Value) {
    match value {
        Value::Number(n) => {
            if let Some(float) = n.as_f64().and_then(serde_json::Number::from_f64) {
                *n = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(floats_in_place),
        Value::Object(map) => map.values_mut().for_each(floats_in_place),
        _ => {}
    }
}

/// Splits a stream into its documents on lines that start with `---`, as the `YAMLReader` of k8s.io/apimachinery.
///
/// A separator with nothing before it stays at the head of its document (it may be all of it). That reader ends every
/// line with a newline. For the same result, append one to a `text` that lacks it, as Helm's `LoadValues` does.
///
/// ```
/// assert_eq!(go_yaml::documents("a: 1\n---\nb: 2\n").unwrap(), ["a: 1\n", "b: 2\n"]);
/// assert!(go_yaml::documents("a: 1\n--- b: 2\n").is_err());
/// ```
///
/// # Errors
/// `invalid Yaml document separator: …` if something other than a comment follows the dashes.
pub fn documents(text: &str) -> Result<Vec<&str>, Error> {
    // They are cut at the ends of lines, so each is valid UTF-8.
    let text_of = |document: Result<_, _>| Ok(std::str::from_utf8(document?).unwrap_or_default());
    Documents::new(text.as_bytes()).map(text_of).collect()
}

/// Writes `value` as sigs.k8s.io/yaml's `Marshal` does, with a trailing newline.
///
/// Numbers are written as Go would write them after a pass through JSON: `1000000.0` is `1000000`, `1234567.5` is
/// `1.2345675e+06`.
///
/// ```
/// let value = serde_json::json!({"b": ["yes"], "a": 1000000.0});
/// assert_eq!(go_yaml::to_string(&value, go_yaml::MAX_DEPTH).unwrap(), "a: 1000000\nb:\n- \"yes\"\n");
/// ```
///
/// # Errors
/// Nesting deeper than `max_depth`, such as [`MAX_DEPTH`].
pub fn to_string(value: &Value, max_depth: usize) -> Result<String, Error> {
    write::emit::to_string(value, max_depth)
}

/// Writes `value` as Helm's `toYamlPretty`: yaml.v3 with an indent of 2, with a trailing newline.
///
/// Sequences are indented under their key and lines are not folded. Numbers do not pass through JSON: `1000000.0` is
/// `1e+06`.
///
/// ```
/// let value = serde_json::json!({"b": [1]});
/// assert_eq!(go_yaml::to_string_pretty(&value, go_yaml::MAX_DEPTH).unwrap(), "b:\n  - 1\n");
/// ```
///
/// # Errors
/// Nesting deeper than `max_depth`.
pub fn to_string_pretty(value: &Value, max_depth: usize) -> Result<String, Error> {
    write::emit::to_string_pretty(value, max_depth)
}
