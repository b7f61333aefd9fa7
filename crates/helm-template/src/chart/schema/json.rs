//! JSON values whose numbers keep their text and their exact value.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::reader;
use crate::sprig::json_parse;
use go_template::format::display;
use go_template::value::Value as Template;

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

/// The value of a number: `digits * 10^exponent`, with no zero at either end of the digits. Zero has none.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// How it compares to zero.
    fn sign(&self) -> Ordering {
        match (self.digits.is_empty(), self.is_negative) {
            (true, _) => Ordering::Equal,
            (_, true) => Ordering::Less,
            (_, false) => Ordering::Greater,
        }
    }

    /// How many digits stand before the point.
    fn size(&self) -> i64 {
        i64::try_from(self.digits.len())
            .unwrap_or(i64::MAX)
            .saturating_add(self.exponent)
    }

    fn whole_digits(&self) -> BigInt {
        self.digits.parse().unwrap_or_default()
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self.small(), other.small()) {
            (Some(a), Some(b)) => a == b,
            _ => self.decimal().is_some_and(|own| Some(own) == other.decimal()),
        }
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

    /// Its value; `None` if Go's `big.Rat` takes no such exponent.
    fn decimal(&self) -> Option<Decimal> {
        let (mantissa, exponent) = self.0.split_once(['e', 'E']).unwrap_or((&self.0, "0"));
        let (is_negative, mantissa) = mantissa
            .strip_prefix('-')
            .map_or((false, mantissa), |rest| (true, rest));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let shift = i64::try_from(fraction.len()).ok()?;
        let exponent = exponent.parse::<i64>().ok()?.checked_sub(shift)?;
        let all = format!("{whole}{fraction}");
        let digits = all.trim_end_matches('0');
        let zeros = i64::try_from(all.len() - digits.len()).ok()?;
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Some(Decimal::default());
        }
        (exponent.unsigned_abs() <= MAX_EXPONENT).then(|| Decimal {
            is_negative,
            digits: digits.to_owned(),
            exponent: exponent + zeros,
        })
    }

    /// A text that numbers of the same value have in common; `None` if it equals nothing.
    fn normal(&self) -> Option<String> {
        if let Some(small) = self.small() {
            let text = small.to_string();
            let digits = text.trim_end_matches('0');
            return Some(match digits {
                "" => "0e0".to_owned(),
                _ => format!("{digits}e{}", text.len() - digits.len()),
            });
        }
        let value = self.decimal()?;
        Some(match value.sign() {
            Ordering::Equal => "0e0".to_owned(),
            Ordering::Less => format!("-{}e{}", value.digits, value.exponent),
            Ordering::Greater => format!("{}e{}", value.digits, value.exponent),
        })
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
        let by_sign = a.sign().cmp(&b.sign());
        if by_sign.is_ne() {
            return by_sign;
        }
        let by_size = a.size().cmp(&b.size()).then_with(|| a.digits.cmp(&b.digits));
        if a.is_negative { by_size.reverse() } else { by_size }
    }

    /// How many digits it has that count for [`Number::is_multiple_of`], which divides by them.
    pub fn digits(&self) -> usize {
        self.decimal().map_or(0, |value| value.digits.len())
    }

    /// Whether it is a whole multiple of `other`; nothing is one of zero.
    pub fn is_multiple_of(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.decimal(), other.decimal()) else {
            return false;
        };
        if b.digits.is_empty() {
            return false;
        }
        if a.digits.is_empty() {
            return true;
        }
        let (dividend, divisor, ten) = (a.whole_digits(), b.whole_digits(), BigInt::from(10));
        match a.exponent - b.exponent {
            zeros @ 0.. => {
                let power = ten.modpow(&BigInt::from(zeros), &divisor);
                (dividend * power) % divisor == BigInt::ZERO
            }
            // What has no more digits than it would have to have zeros is no multiple.
            zeros => {
                let zeros = zeros.unsigned_abs();
                let fits = u64::try_from(a.digits.len()).is_ok_and(|digits| digits > zeros);
                let power = u32::try_from(zeros).ok().filter(|_| fits).map(|zeros| ten.pow(zeros));
                power.is_some_and(|power| dividend % (divisor * power) == BigInt::ZERO)
            }
        }
    }

    pub fn is_integer(&self) -> bool {
        self.small().is_some() || self.decimal().is_some_and(|value| value.exponent >= 0)
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
        let value = self.decimal().filter(|value| value.exponent >= 0)?;
        // More tens leave no bit in the last 64.
        let zeros = std::iter::repeat_n(b'0', usize::try_from(value.exponent.min(64)).ok()?);
        let digits = value.digits.bytes().chain(zeros);
        let last = digits.fold(0_u64, |last, digit| {
            last.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
        });
        let last = last.cast_signed();
        Some(if value.is_negative { last.wrapping_neg() } else { last })
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

    /// Adds a text that equal values have in common, and no others; `None` if the value equals nothing.
    pub fn normal(&self, out: &mut String) -> Option<()> {
        match self {
            Json::Null => out.push('n'),
            Json::Bool(b) => out.push(if *b { 't' } else { 'f' }),
            Json::Number(n) => out.push_str(&n.normal()?),
            Json::String(text) => text_normal(text, out),
            Json::Array(items) => {
                out.push('[');
                for item in items {
                    item.normal(out)?;
                    out.push(',');
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (name, value) in members.iter() {
                    text_normal(name, out);
                    value.normal(out)?;
                    out.push(',');
                }
                out.push('}');
            }
        }
        Some(())
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

/// A text after its length.
fn text_normal(text: &str, out: &mut String) {
    out.push_str(&text.len().to_string());
    out.push(':');
    out.push_str(text);
}

/// How Go's decoder refuses what isn't JSON.
fn refusal(text: &[u8]) -> String {
    match json_parse::unmarshal(text).err() {
        Some(e) if e.contains("trailing characters") => "invalid character after top-level value".to_owned(),
        Some(e) if e == "unexpected end of JSON input" => {
            let is_blank = text.iter().all(u8::is_ascii_whitespace);
            if is_blank { "EOF" } else { "unexpected EOF" }.to_owned()
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
    fn values_are_equal_when_their_normal_texts_are() {
        let texts = [
            "1",
            "1.0",
            "10e-1",
            "100",
            "1e2",
            "-1",
            "-1.0",
            "0",
            "-0",
            "0.0",
            "0e5",
            "0.5",
            "5e-1",
            "12",
            "true",
            "null",
            r#""1""#,
            r#""a,""#,
            "[1,2]",
            "[1.0,2]",
            "[12]",
            "[[1],2]",
            "[]",
            "{}",
            r#"{"a":1,"b":2}"#,
            r#"{"b":2,"a":1.0}"#,
            r#"["a","b"]"#,
            r#"["a,1:b"]"#,
            "9223372036854775808",
            "9223372036854775808.0",
            "1e1000001",
            "[1e1000001]",
        ];
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
            let normal = |text: &str| {
                let (value, mut out) = (Json::parse(text.as_bytes()).unwrap(), String::new());
                let equals = value.normal(&mut out);
                (value, equals.map(|()| out))
            };
            let ((x, x_normal), (y, y_normal)) = (normal(a), normal(b));
            assert_eq!(x == y, x_normal.is_some() && x_normal == y_normal, "{a} {b}");
        }
    }

    #[test]
    fn numbers_of_a_million_digits_are_compared_at_once() {
        let long = |last: &str| Number::new(&format!("1.{}{last}", "3".repeat(900_000)));
        assert!(long("1").compare(&long("2")).is_lt() && long("1") == long("10") && !long("1").is_integer());
        assert_eq!(Number::new(&"7".repeat(20)).to_count(), Some(3_990_801_482_939_571_313));
        assert_eq!(long("1").to_count(), None);
        assert!(Number::new(&format!("{}.0", "9".repeat(900_000))).to_count().is_some());
    }

    #[test]
    fn errors_are_those_of_a_decoder() {
        let table = [
            ("", "EOF"),
            ("{", "unexpected EOF"),
            ("{} x", "invalid character after top-level value"),
            ("{\"a\": tru", "unexpected EOF"),
            ("-", "unexpected EOF"),
        ];
        for (text, want) in table {
            assert_eq!(Json::parse(text.as_bytes()), Err(want.to_owned()));
        }
    }
}
