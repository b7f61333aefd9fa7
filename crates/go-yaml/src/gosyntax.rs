//! Values in Go's syntax (`%#v`), which two error messages about map keys contain.

use std::fmt;

use super::Error;
use super::decode::{Position, Target};
use super::number::format_g64;
use super::resolve::Scalar;

/// What go-yaml decodes into an `interface{}`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum GoValue {
    Scalar(Scalar<'static>),
    List(Vec<GoValue>),
    /// In the order of the document.
    Map(Vec<(Scalar<'static>, GoValue)>),
}

pub(super) fn to_static(scalar: Scalar<'_>) -> Scalar<'static> {
    match scalar {
        Scalar::Null => Scalar::Null,
        Scalar::Bool(b) => Scalar::Bool(b),
        Scalar::Int(i) => Scalar::Int(i),
        Scalar::Uint(u) => Scalar::Uint(u),
        Scalar::Float(f) => Scalar::Float(f),
        Scalar::String(s) => Scalar::String(s.into_owned().into()),
        Scalar::Timestamp(s) => Scalar::String(s.to_owned().into()),
    }
}

impl GoValue {
    /// The error of sigs.k8s.io/yaml about the first key that JSON cannot have; a mapping's key comes before its value.
    pub(super) fn unsupported_key(&self) -> Option<Error> {
        match self {
            GoValue::Scalar(_) => None,
            GoValue::List(items) => items.iter().find_map(GoValue::unsupported_key),
            GoValue::Map(entries) => entries.iter().find_map(|(key, value)| match key {
                Scalar::Uint(_) => Some(GoValue::key_error("uint64", key, value)),
                Scalar::Null => Some(GoValue::key_error("%!s(<nil>)", key, value)),
                _ => value.unsupported_key(),
            }),
        }
    }

    fn key_error(kind: &str, key: &Scalar<'static>, value: &GoValue) -> Error {
        let key = TopLevel(&GoValue::Scalar(key.clone())).to_string();
        let value = TopLevel(value);
        Error::new(
            "",
            None,
            format!("unsupported map key of type: {kind}, key: {key}, value: {value}"),
        )
    }
}

impl Target for GoValue {
    type Mapping = Vec<(Scalar<'static>, GoValue)>;

    fn scalar(scalar: Scalar<'_>, _: Position) -> Result<Self, Error> {
        Ok(GoValue::Scalar(to_static(scalar)))
    }

    fn list(items: Vec<Self>, _: Position) -> Self {
        GoValue::List(items)
    }

    fn map(map: Self::Mapping, _: Position) -> Self {
        GoValue::Map(map)
    }

    fn insert(map: &mut Self::Mapping, key: Scalar<'_>, _: Position, value: Self) -> bool {
        let key = to_static(key);
        match map.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => map.push((key, value)),
        }
        true
    }
}

/// An argument of `Printf` itself: its nil is written differently from one inside of a value.
struct TopLevel<'v>(&'v GoValue);

impl fmt::Display for TopLevel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            GoValue::Scalar(Scalar::Null) => f.write_str("<nil>"),
            value => value.fmt(f),
        }
    }
}

/// Sorts keys as package fmt does within one type. The order of the types depends on the program that runs; this one
/// was seen.
fn rank<'s>(scalar: &'s Scalar<'_>) -> (u8, f64, &'s str) {
    match scalar {
        Scalar::Null => (0, 0.0, ""),
        Scalar::String(s) => (1, 0.0, s),
        Scalar::Timestamp(s) => (1, 0.0, s),
        Scalar::Uint(u) => (2, *u as f64, ""),
        Scalar::Int(i) => (3, *i as f64, ""),
        Scalar::Float(x) => (4, *x, ""),
        Scalar::Bool(b) => (5, f64::from(u8::from(*b)), ""),
    }
}

fn write_scalar(scalar: &Scalar<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match scalar {
        Scalar::Null => f.write_str("interface {}(nil)"),
        Scalar::Bool(b) => write!(f, "{b}"),
        Scalar::Int(i) => write!(f, "{i}"),
        Scalar::Uint(u) => write!(f, "{u:#x}"),
        Scalar::Float(x) => f.write_str(&format_g64(*x)),
        Scalar::String(s) => write_quoted(s, f),
        Scalar::Timestamp(s) => write_quoted(s, f),
    }
}

/// `strconv.IsPrint`, for characters outside ASCII. What isn't printable is written as an escape of several characters;
/// the letter before keeps marks that combine with one from being taken for such.
fn is_printable(c: char) -> bool {
    let text = || ['a', c].iter().collect::<String>();
    c.is_alphanumeric() || text().escape_debug().count() == 2
}

/// `strconv.Quote`.
fn write_quoted(s: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in s.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\x07' => f.write_str("\\a")?,
            '\x08' => f.write_str("\\b")?,
            '\x0C' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\x0B' => f.write_str("\\v")?,
            '\0'..=' ' | '\x7F' if c != ' ' => write!(f, "\\x{:02x}", u32::from(c))?,
            c if c.is_ascii() || is_printable(c) => write!(f, "{c}")?,
            c if u32::from(c) < 0x1_0000 => write!(f, "\\u{:04x}", u32::from(c))?,
            c => write!(f, "\\U{:08x}", u32::from(c))?,
        }
    }
    f.write_str("\"")
}

impl fmt::Display for GoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GoValue::Scalar(scalar) => write_scalar(scalar, f),
            GoValue::List(items) => {
                f.write_str("[]interface {}{")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str("}")
            }
            GoValue::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().map(|(k, v)| (rank(k), k, v)).collect();
                entries.sort_by(|a, b| {
                    let ((x, m, s), (y, n, t)) = (&a.0, &b.0);
                    x.cmp(y).then(m.total_cmp(n)).then(s.cmp(t))
                });
                f.write_str("map[interface {}]interface {}{")?;
                for (i, (_, key, value)) in entries.into_iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write_scalar(key, f)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}
