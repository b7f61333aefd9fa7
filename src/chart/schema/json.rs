//! JSON values whose numbers keep their text and their exact value.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use super::reader;
use crate::template::go::format::display;
use crate::template::go::value::Value as Template;
use crate::template::sprig::json_parse;

/// Go's `big.Rat` takes no number with a larger exponent.
const MAX_EXPONENT: u64 = 1_000_000;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(Number),
    String(Box<str>),
    Array(Box<[Json]>),
    Object(Members),
}

/// What an object consists of, sorted by name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Members(Box<[(Box<str>, Json)]>);

/// Which keywords an object may have: most are asked for in vain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keywords(u64);

/// A number as text. Numbers are equal when their values are.
#[derive(Debug, Clone)]
pub(super) struct Number(Box<str>);

impl FromIterator<(Box<str>, Json)> for Members {
    /// Of members with the same name the last one counts.
    fn from_iter<I: IntoIterator<Item = (Box<str>, Json)>>(members: I) -> Self {
        let mut members: Vec<_> = members.into_iter().collect();
        if !members.is_sorted_by(|(a, _), (b, _)| a < b) {
            members.reverse();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            members.dedup_by(|(a, _), (b, _)| a == b);
        }
        Members(members.into())
    }
}

impl Members {
    pub fn get(&self, name: &str) -> Option<&Json> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl Iterator<Item = &Json> {
        self.iter().map(|(_, value)| value)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Keywords {
    pub fn of(object: &Members) -> Self {
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

/// The number with as many zeros at its end.
fn scaled(digits: BigInt, zeros: i64) -> BigInt {
    digits * BigInt::from(10).pow(u32::try_from(zeros).unwrap_or_default())
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.is_rational() && other.is_rational() && self.compare(other).is_eq()
    }
}

impl Number {
    /// A number as JSON or Go writes it.
    pub fn new(text: &str) -> Self {
        Number(text.into())
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// The digits and the exponent of `digits * 10^exponent`; `None` if Go's `big.Rat` takes no such exponent.
    fn decimal(&self) -> Option<(BigInt, i64)> {
        let (mantissa, exponent) = self.0.split_once(['e', 'E']).unwrap_or((&self.0, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: BigInt = format!("{whole}{fraction}").parse().unwrap_or_default();
        let shift = i64::try_from(fraction.len()).ok()?;
        let exponent = exponent.parse::<i64>().ok()?.checked_sub(shift)?;
        if digits == BigInt::ZERO {
            return Some((digits, 0));
        }
        (exponent.unsigned_abs() <= MAX_EXPONENT).then_some((digits, exponent))
    }

    /// Whether it is a number for the library: keywords with others are left out, and others equal nothing.
    pub fn is_rational(&self) -> bool {
        self.small().is_some() || self.decimal().is_some()
    }

    /// Most numbers are small and whole.
    fn small(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    pub fn compare(&self, other: &Self) -> Ordering {
        if let (Some(a), Some(b)) = (self.small(), other.small()) {
            return a.cmp(&b);
        }
        let (a, b) = (self.decimal().unwrap_or_default(), other.decimal().unwrap_or_default());
        let by_sign = a.0.sign().cmp(&b.0.sign());
        if by_sign.is_ne() || a.0.sign() == Sign::NoSign {
            return by_sign;
        }
        let size = |(digits, exponent): &(BigInt, i64)| digits.magnitude().to_string().len() as i64 + exponent;
        let by_size = size(&a).cmp(&size(&b));
        let by_size = if a.0.sign() == Sign::Minus {
            by_size.reverse()
        } else {
            by_size
        };
        by_size.then_with(|| {
            // Of the same size: neither gets more zeros than the other has digits.
            let low = a.1.min(b.1);
            scaled(a.0, a.1 - low).cmp(&scaled(b.0, b.1 - low))
        })
    }

    /// Whether it is a whole multiple of `other`; nothing is one of zero.
    pub fn is_multiple_of(&self, other: &Self) -> bool {
        let (Some((a, a_exponent)), Some((b, b_exponent))) = (self.decimal(), other.decimal()) else {
            return false;
        };
        if b == BigInt::ZERO {
            return false;
        }
        match a_exponent - b_exponent {
            zeros @ 0.. => {
                let power = BigInt::from(10).modpow(&BigInt::from(zeros), &b);
                (a * power) % b == BigInt::ZERO
            }
            // What has fewer digits than it would have to have zeros is no multiple, unless it is zero.
            zeros => {
                let digits = a.magnitude().to_string().len() as i64;
                a == BigInt::ZERO || digits > -zeros && a % scaled(b, -zeros) == BigInt::ZERO
            }
        }
    }

    pub fn is_integer(&self) -> bool {
        self.small().is_some() || self.is_multiple_of(&Number::new("1"))
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        self.0.parse().unwrap_or_default()
    }

    /// The value of a keyword that counts something; of one that is too large the last 64 bits, as Go's `big.Int` has it.
    pub fn to_count(&self) -> Option<i64> {
        if let Some(small) = self.small() {
            return Some(small);
        }
        if !self.is_integer() {
            return None;
        }
        let (digits, exponent) = self.decimal()?;
        let whole = match exponent {
            // More tens leave no bit in the last 64.
            0.. => scaled(digits, exponent.min(64)),
            _ => digits / scaled(BigInt::from(1), -exponent),
        };
        let last = whole.iter_u64_digits().next().unwrap_or_default().cast_signed();
        Some(match whole.sign() {
            Sign::Minus => last.wrapping_neg(),
            _ => last,
        })
    }
}

impl Json {
    /// Parses JSON as Go's decoder does that keeps numbers.
    ///
    /// # Errors
    /// The text of Go's error.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let read = match std::str::from_utf8(text) {
            Ok(text) => reader::read(text),
            Err(_) => reader::read(&String::from_utf8_lossy(text)),
        };
        read.ok_or_else(|| refusal(text))
    }

    /// A template's value, for the kinds that values have.
    pub fn from_value(value: &Template) -> Self {
        match value {
            Template::Nil => Json::Null,
            Template::Bool(b) => Json::Bool(*b),
            Template::String(text) => Json::String(text.to_text().into()),
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
                    .map(|(key, value)| (key.to_text().into(), Json::from_value(value)))
                    .collect(),
            ),
            number => Json::Number(Number::new(&String::from_utf8_lossy(&display(number)))),
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

    /// Whether it is a list or an object.
    pub fn holds_others(&self) -> bool {
        matches!(self, Json::Array(_) | Json::Object(_))
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

/// How Go's decoder refuses what isn't JSON.
fn refusal(text: &[u8]) -> String {
    match json_parse::unmarshal(text).err() {
        Some(e) if e.ends_with("after top-level value") => "invalid character after top-level value".to_owned(),
        Some(e) if e == "unexpected end of JSON input" => {
            let is_blank = text.iter().all(u8::is_ascii_whitespace);
            if is_blank { "EOF" } else { "unexpected EOF" }.to_owned()
        }
        // What is wrong at the end only is what was cut off.
        Some(e) if json_parse::unmarshal(&[text, b"\x01"].concat()).err().as_ref() != Some(&e) => {
            "unexpected EOF".to_owned()
        }
        Some(e) => e,
        None => "invalid JSON".to_owned(),
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
        assert_eq!(first.text(), "1.50");
        assert_eq!(items[1], Json::Number(Number::new("-2000")));
        assert_eq!(json.get("b\n"), Some(&Json::Array(Box::default())));
        assert_eq!(json.get("c").and_then(Json::text), Some("x\"y"));
        let multiple = |a: &str, b: &str| Number::new(a).is_multiple_of(&Number::new(b));
        assert!(multiple("0.3", "0.1") && multiple("1e3", "1e1") && !multiple("0.35", "0.1") && !multiple("1", "0"));
        assert!(multiple("1e900000", "5e-9") && !multiple("1e900000", "7e-9") && !multiple("3", "1e900000"));
        assert!(Number::new("1.0").is_integer() && !Number::new("1e-1").is_integer());
        let compare = |a: &str, b: &str| Number::new(a).compare(&Number::new(b)) as i8;
        let table = [
            ("1e900000", "1e899999", 1),
            ("-1e900000", "-1", -1),
            ("-2e-900000", "0", -1),
            ("99e900000", "9.9e900001", 0),
            ("0e99", "0", 0),
        ];
        for (a, b, want) in table {
            assert_eq!((compare(a, b), compare(b, a)), (want, -want), "{a} {b}");
        }
        let rational = |text: &str| Number::new(text).is_rational();
        assert!(rational("1e1000000") && !rational("1e1000001") && !rational("1.5e-1000000"));
        assert_ne!(Number::new("1e1000001"), Number::new("1e1000001"));
    }

    #[test]
    fn errors_are_those_of_a_decoder() {
        let table = [
            ("", "EOF"),
            ("{", "unexpected EOF"),
            ("{} x", "invalid character after top-level value"),
            ("{\"a\": tru", "unexpected EOF"),
            ("-", "unexpected EOF"),
            ("tru ", "invalid character ' ' in literal true (expecting 'e')"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
        ];
        for (text, want) in table {
            assert_eq!(Json::parse(text.as_bytes()), Err(want.to_owned()));
        }
    }
}
