//! JSON values whose numbers keep their text and their exact value.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use serde::de::IgnoredAny;

use crate::template::go::format::display;
use crate::template::go::value::Value as Template;
use crate::template::sprig::json_parse;

/// Numbers with larger exponents count as zero digits more: no schema means them, and they would take much memory.
const MAX_EXPONENT: i64 = 5_000;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

/// Which keywords an object may have: most are asked for in vain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keywords(u64);

/// A number: its text, and `digits * 10^exponent`. Numbers are equal when their values are.
#[derive(Debug, Clone)]
pub(super) struct Number {
    pub text: String,
    digits: BigInt,
    exponent: i64,
}

impl Keywords {
    pub fn of(object: &BTreeMap<String, Json>) -> Self {
        Keywords(object.keys().fold(0, |keywords, key| keywords | Self::bit(key)))
    }

    /// Whether the keyword is worth to be looked up.
    pub fn may_have(self, keyword: &str) -> bool {
        self.0 & Self::bit(keyword) != 0
    }

    /// One of 64 bits for a keyword.
    fn bit(keyword: &str) -> u64 {
        let byte = |at: usize| keyword.as_bytes().get(at).map_or(0, |b| usize::from(*b));
        let last = keyword.len().saturating_sub(1);
        1 << ((byte(0) * 3 + byte(last / 2) * 5 + byte(last) * 7 + last) % 64)
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }
}

impl Number {
    /// Reads a number as JSON or Go writes it.
    pub fn new(text: String) -> Self {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let shift = i64::try_from(fraction.len()).unwrap_or(0);
        let exponent: i64 = exponent.parse().unwrap_or(0);
        let digits: BigInt = format!("{whole}{fraction}").parse().unwrap_or_default();
        Number {
            digits,
            exponent: exponent.clamp(-MAX_EXPONENT, MAX_EXPONENT) - shift,
            text,
        }
    }

    /// Both numbers' digits at the smaller of their exponents.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt) {
        let low = self.exponent.min(other.exponent);
        let scale = |n: &Number| {
            let zeros = u32::try_from(n.exponent - low).unwrap_or(0);
            &n.digits * BigInt::from(10).pow(zeros)
        };
        (scale(self), scale(other))
    }

    /// Most numbers are small and whole.
    fn small(&self) -> Option<i64> {
        self.text.parse().ok()
    }

    pub fn compare(&self, other: &Self) -> std::cmp::Ordering {
        if let (Some(a), Some(b)) = (self.small(), other.small()) {
            return a.cmp(&b);
        }
        let (a, b) = self.aligned(other);
        a.cmp(&b)
    }

    /// Whether it is a whole multiple of `other`; nothing is one of zero.
    pub fn is_multiple_of(&self, other: &Self) -> bool {
        let (a, b) = self.aligned(other);
        let zero = BigInt::default();
        b != zero && a % b == zero
    }

    pub fn is_integer(&self) -> bool {
        self.small().is_some() || self.is_multiple_of(&Number::new("1".to_owned()))
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        self.text.parse().unwrap_or_default()
    }

    /// The value of a keyword that counts something.
    pub fn to_count(&self) -> Option<i64> {
        if let Some(small) = self.small() {
            return Some(small);
        }
        if !self.is_integer() {
            return None;
        }
        let (whole, _) = self.aligned(&Number::new("1".to_owned()));
        i64::try_from(whole).ok()
    }
}

impl Json {
    /// Parses JSON as Go's decoder does that keeps numbers.
    ///
    /// # Errors
    /// The text of Go's error.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        // What serde takes Go takes too; Go's words are needed for the rest.
        let is_plain = serde_json::from_slice::<IgnoredAny>(text).is_ok();
        match if is_plain {
            Ok(Template::Nil)
        } else {
            json_parse::unmarshal(text)
        } {
            Ok(_) => {}
            Err(e) if e.ends_with("after top-level value") => {
                return Err("invalid character after top-level value".to_owned());
            }
            Err(e) if e == "unexpected end of JSON input" => {
                let blank = text.iter().all(u8::is_ascii_whitespace);
                return Err(if blank { "EOF" } else { "unexpected EOF" }.to_owned());
            }
            // Only what becomes a float can be too large.
            Err(e) if e.starts_with("json: cannot unmarshal number") => {}
            Err(e) => return Err(e),
        }
        Ok(Reader {
            text: &String::from_utf8_lossy(text),
            at: 0,
        }
        .value())
    }

    /// A template's value, for the kinds that values have.
    pub fn from_value(value: &Template) -> Self {
        match value {
            Template::Nil => Json::Null,
            Template::Bool(b) => Json::Bool(*b),
            Template::String(text) => Json::String(text.to_text().into_owned()),
            Template::List(list) => Json::Array(
                list.items
                    .iter()
                    .flat_map(|items| items.iter())
                    .map(Json::from_value)
                    .collect(),
            ),
            Template::Map(map) => Json::Object(
                map.snapshot()
                    .iter()
                    .map(|(key, value)| (key.to_text().into_owned(), Json::from_value(value)))
                    .collect(),
            ),
            number => Json::Number(Number::new(String::from_utf8_lossy(&display(number)).into_owned())),
        }
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(map) => map.get(key),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// The name of the value's type in JSON Schema.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }
}

/// Reads text that is known to be JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> u8 {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
        self.peek()
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn value(&mut self) -> Json {
        match self.next() {
            b'{' => {
                let mut map = BTreeMap::new();
                while self.item(b'}') {
                    self.next();
                    let key = self.string();
                    self.next();
                    self.at += 1;
                    map.insert(key, self.value());
                }
                Json::Object(map)
            }
            b'[' => {
                let mut items = Vec::new();
                while self.item(b']') {
                    items.push(self.value());
                }
                Json::Array(items)
            }
            b'"' => Json::String(self.string()),
            _ => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let end = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
                let word = rest.get(..end).unwrap_or_default();
                self.at += end;
                match word {
                    "null" => Json::Null,
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    number => Json::Number(Number::new(number.to_owned())),
                }
            }
        }
    }

    /// Steps over a bracket or comma; whether an item follows.
    fn item(&mut self, close: u8) -> bool {
        self.next();
        if self.peek() == close || self.peek() == 0 {
            self.at += 1;
            return false;
        }
        self.at += 1;
        if self.next() == close {
            // An empty list or map.
            self.at += 1;
            return false;
        }
        true
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                b'\\' => self.at += 2,
                b'"' | 0 => break,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        let quoted = self.text.get(start..self.at).unwrap_or_default();
        if let Some(plain) = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))
            && !plain.contains('\\')
        {
            return plain.to_owned();
        }
        match json_parse::unmarshal(quoted.as_bytes()) {
            Ok(Template::String(text)) => text.to_text().into_owned(),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_text_and_value() {
        let json = Json::parse(br#" {"a": [1.50, -2e3, 1e400, {}], "b\n": [], "c": "x\"y", "d": null} "#).unwrap();
        let Some(Json::Array(items)) = json.get("a") else {
            panic!("{json:?}")
        };
        let Json::Number(first) = &items[0] else { panic!() };
        assert_eq!(first.text, "1.50");
        assert_eq!(items[1], Json::Number(Number::new("-2000".to_owned())));
        assert_eq!(json.get("b\n"), Some(&Json::Array(Vec::new())));
        assert_eq!(json.get("c").and_then(Json::text), Some("x\"y"));
        let multiple = |a: &str, b: &str| Number::new(a.to_owned()).is_multiple_of(&Number::new(b.to_owned()));
        assert!(multiple("0.3", "0.1") && multiple("1e3", "1e1") && !multiple("0.35", "0.1") && !multiple("1", "0"));
        assert!(Number::new("1.0".to_owned()).is_integer() && !Number::new("1e-1".to_owned()).is_integer());
    }

    #[test]
    fn errors_are_those_of_a_decoder() {
        let table = [
            ("", "EOF"),
            ("{", "unexpected EOF"),
            ("{} x", "invalid character after top-level value"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
        ];
        for (text, want) in table {
            assert_eq!(Json::parse(text.as_bytes()), Err(want.to_owned()));
        }
    }
}
