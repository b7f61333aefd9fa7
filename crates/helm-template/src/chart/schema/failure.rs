//! What a schema finds, as santhosh-tekuri/jsonschema v6 words it.

use std::cell::Cell;
use std::rc::Rc;

use super::json::Json;
use super::location::Location;
use go_template::format::display;
use go_template::quote::quote_go;
use go_template::value::Value as Template;

/// One finding, and those that led to it.
#[derive(Debug)]
pub(super) struct Failure {
    /// The place in the values.
    pub location: Location,
    pub kind: Kind,
    pub causes: Vec<Failure>,
    _share: Share,
}

/// How many bytes the findings of a check take that are kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Rc<Cell<usize>>);

/// What one finding takes of [`Kept`].
#[derive(Debug)]
struct Share {
    of: Kept,
    bytes: usize,
}

/// What a line of the report says.
#[derive(Debug)]
pub(super) enum Kind {
    /// Several findings of one schema.
    Group,
    /// The findings of a schema that is referred to; with one cause the line is left out.
    Reference,
    /// A keyword's own words.
    Keyword(String),
}

impl Kept {
    pub fn bytes(&self) -> usize {
        self.0.get()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.set(self.of.bytes().saturating_sub(self.bytes));
    }
}

impl Failure {
    /// A finding that counts as kept until it is dropped.
    pub fn new(location: Location, kind: Kind, causes: Vec<Failure>, kept: &Kept) -> Self {
        let text = match &kind {
            Kind::Keyword(text) => text.len(),
            Kind::Group | Kind::Reference => 0,
        };
        let bytes = size_of::<Failure>() + location.size() + text;
        kept.0.set(kept.bytes().saturating_add(bytes));
        Failure {
            location,
            kind,
            causes,
            _share: Share {
                of: kept.clone(),
                bytes,
            },
        }
    }

    /// The lines of the report: `- at '/a': …`, causes below their finding and two blanks further in.
    pub fn lines(&self, depth: usize, out: &mut Vec<String>) {
        let skipped = matches!(self.kind, Kind::Reference) && self.causes.len() == 1;
        if !skipped {
            let message = match &self.kind {
                Kind::Group | Kind::Reference => "validation failed",
                Kind::Keyword(text) => text,
            };
            let place = quote(&pointer(&self.location.parts()));
            out.push(format!("{}- at {place}: {message}", "  ".repeat(depth)));
        }
        let depth = if skipped { depth } else { depth + 1 };
        self.causes.iter().for_each(|cause| cause.lines(depth, out));
    }

    /// What stands at the outermost level: a group isn't shown there.
    pub fn top(self) -> Vec<Failure> {
        match self.kind {
            Kind::Group => self.causes,
            _ => vec![self],
        }
    }
}

/// A JSON pointer.
pub(super) fn pointer(parts: &[Rc<str>]) -> String {
    parts.iter().map(|part| format!("/{}", escape(part))).collect()
}

/// A part of a JSON pointer.
pub(super) fn escape(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// A text in single quotes, escaped as Go escapes it.
pub(super) fn quote(text: &str) -> String {
    let quoted = quote_go(text).replace("\\\"", "\"").replace('\'', "\\'");
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    format!("'{}'", inner.unwrap_or(&quoted))
}

/// Quoted texts, separated by commas.
pub(super) fn quote_all<T: AsRef<str>>(texts: &[T]) -> String {
    texts
        .iter()
        .map(|text| quote(text.as_ref()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A value as messages name it.
pub(super) fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => quote(text),
        Json::Array(_) | Json::Object(_) => "value".to_owned(),
        Json::Null => "<nil>".to_owned(),
        Json::Bool(b) => b.to_string(),
        Json::Number(n) => n.text().to_owned(),
    }
}

/// A whole number in English: digits in groups of three.
pub(super) fn count(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    format!("{}{}", if n < 0 { "-" } else { "" }, grouped(&digits))
}

fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number as Go's `x/text` prints it in English: digits in groups of three, exponents as powers of ten.
pub(super) fn number(n: f64) -> String {
    if n.is_infinite() {
        return if n < 0.0 { "-∞" } else { "∞" }.to_owned();
    }
    // A rational number has no negative zero.
    let n = if n == 0.0 { 0.0 } else { n };
    let plain = String::from_utf8_lossy(&display(&Template::Float64(n))).into_owned();
    let (mantissa, exponent) = plain
        .split_once('e')
        .map_or((plain.as_str(), None), |(m, e)| (m, Some(e)));
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = format!("{sign}{}", grouped(whole));
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    if let Some(exponent) = exponent {
        out.push_str("×10");
        out.extend(exponent.chars().filter_map(|c| match c {
            '-' => Some('⁻'),
            '+' => None,
            digit => "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit.to_digit(10)? as usize),
        }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_in_english() {
        let table = [
            (-5.0, "-5"),
            (1000.0, "1,000"),
            (70000.0, "70,000"),
            (1_234_567.5, "1.2345675×10⁰⁶"),
            (0.123, "0.123"),
            (1e-7, "1×10⁻⁰⁷"),
            (-0.0, "0"),
            (f64::NEG_INFINITY, "-∞"),
        ];
        for (n, want) in table {
            assert_eq!(number(n), want);
        }
        assert_eq!(count(-1_234_567), "-1,234,567");
    }
}
