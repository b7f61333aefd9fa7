//! Numbers and dates of TOML that aren't any: what BurntSushi/toml says of them. Facts: `lex.go` and `parse.go` of v1.6.0.

use crate::template::go::number::parse_int;
use crate::template::go::quote::{quote_go, quote_rune};
use crate::template::sprig::date_parse;

/// The layouts that a date may have.
const LAYOUTS: [&[u8]; 7] = [
    b"2006-01-02T15:04:05.999999999Z07:00",
    b"2006-01-02T15:04:05.999999999",
    b"2006-01-02",
    b"15:04:05.999999999",
    b"2006-01-02T15:04Z07:00",
    b"2006-01-02T15:04",
    b"15:04",
];

/// What the lexer takes a text for.
enum Kind {
    Integer,
    Float,
    Date,
}

/// Reads the number or date that `text` begins with: how many bytes it has.
///
/// # Errors
/// The library's words, and how many bytes were read when it found the mistake.
pub(super) fn read(text: &[u8]) -> Result<usize, (String, usize)> {
    let (kind, length) = lex(text)?;
    let token = String::from_utf8_lossy(text.get(..length).unwrap_or(text));
    let problem = match kind {
        Kind::Integer => integer(&token),
        Kind::Float => float(&token),
        Kind::Date => date(token.trim_end_matches(' ')),
    };
    problem.map_or(Ok(length), |problem| Err((problem, 0)))
}

fn lex(text: &[u8]) -> Result<(Kind, usize), (String, usize)> {
    let at = |index: usize| text.get(index).copied();
    let run = |from: usize, more: &[u8]| {
        let rest = text.get(from..).unwrap_or_default();
        let end = rest.iter().position(|b| !b.is_ascii_digit() && !more.contains(b));
        from + end.unwrap_or(rest.len())
    };
    // The part that is a decimal number so far, and what its next character makes of it.
    let decimal = |from: usize| {
        let end = run(from, b"_");
        match at(end) {
            Some(b'.' | b'e' | b'E') => (Kind::Float, run(end + 1, b"_.-+eE")),
            _ => (Kind::Integer, end),
        }
    };
    match (at(0), at(1)) {
        (Some(b'+' | b'-'), _) => signed(text).map(|length| length.map_or_else(|| decimal(1), |n| (Kind::Float, n))),
        (Some(b'i' | b'n'), _) => Ok((Kind::Float, 3)),
        (Some(b'0'), Some(base @ (b'b' | b'o' | b'x'))) => {
            let is_digit = |byte: u8| match base {
                b'b' => matches!(byte, b'0' | b'1'),
                b'o' => matches!(byte, b'0'..=b'7'),
                _ => byte.is_ascii_hexdigit(),
            };
            let rest = text.get(2..).unwrap_or_default();
            if !rest.first().is_some_and(|byte| is_digit(*byte)) {
                let sort = match base {
                    b'b' => "a binary",
                    b'o' => "an octal",
                    _ => "a hexadecimal",
                };
                let (base, next) = (char::from(base), char_at(text, 2));
                // The character was only looked at.
                return Err((format!("not {sort} number: '0{base}{next}'"), 1));
            }
            let end = rest.iter().position(|byte| !is_digit(*byte) && *byte != b'_');
            Ok((Kind::Integer, 2 + end.unwrap_or(rest.len())))
        }
        _ => {
            let digits = run(0, b"");
            match at(digits) {
                // A lone 0 begins no date.
                Some(b'-' | b':') if digits > 1 || at(0) != Some(b'0') => Ok((Kind::Date, run(digits, b"-:Tt .Zz+"))),
                _ => Ok(decimal(0)),
            }
        }
    }
}

/// What follows a sign: the length of `inf` and `nan` with it, or `None` for digits.
fn signed(text: &[u8]) -> Result<Option<usize>, (String, usize)> {
    let sign = char_at(text, 0);
    let rest = text.get(1..).unwrap_or_default();
    let named = |word: &[u8]| {
        let same = word.iter().zip(rest).take_while(|(a, b)| a == b).count();
        if same == word.len() {
            return Ok(Some(1 + same));
        }
        let read = String::from_utf8_lossy(rest.get(..same).unwrap_or_default());
        Err((format!("invalid float: '{sign}{read}'"), same))
    };
    match (rest.first(), rest.get(1)) {
        (Some(b'i'), _) => named(b"inf"),
        (Some(b'n'), _) => named(b"nan"),
        (Some(b'0'), Some(base @ (b'b' | b'o' | b'x'))) => {
            let base = char::from(*base);
            let text = format!("cannot use sign with non-decimal numbers: '{sign}0{base}'");
            Err((text, 2))
        }
        (Some(b'.'), _) => Err(("floats must start with a digit, not '.'".to_owned(), 1)),
        (Some(byte), _) if byte.is_ascii_digit() => Ok(None),
        _ => Err((format!("expected a digit but got {}", quote_rune(char_at(text, 1))), 1)),
    }
}

/// The character at a byte; at the end the one that the library has for it.
fn char_at(text: &[u8], at: usize) -> char {
    let rest = text.get(at..).unwrap_or_default();
    let some = String::from_utf8_lossy(rest.get(..4).unwrap_or(rest));
    some.chars().next().unwrap_or('\0')
}

fn integer(token: &str) -> Option<String> {
    let invalid = |why: &str| Some(format!("Invalid integer {}: {why}", quote_go(token)));
    if !underscores_fit(token) {
        return invalid("underscores must be surrounded by digits");
    }
    if has_leading_zero(token) {
        return invalid("cannot have leading zeroes");
    }
    let digits = token.replace('_', "");
    parse_int(&digits)
        .is_none()
        .then(|| format!("{token} is out of range for int64"))
}

fn float(token: &str) -> Option<String> {
    let shown = quote_go(token);
    let invalid = |why: &str| Some(format!("Invalid float {shown}: {why}"));
    let mut parts = token.split(['.', 'e', 'E']).filter(|part| !part.is_empty());
    if !parts.clone().all(underscores_fit) {
        return invalid("underscores must be surrounded by digits");
    }
    if parts.next().is_some_and(has_leading_zero) {
        return invalid("cannot have leading zeroes");
    }
    let mut after = token.split('.').skip(1);
    if !after.all(|part| part.starts_with(|c: char| c.is_ascii_digit())) {
        return invalid("'.' must be followed by one or more digits");
    }
    let digits = token.replace('_', "");
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    match digits.parse::<f64>() {
        _ if matches!(unsigned, "inf" | "nan") => None,
        Err(_) => Some(format!("Invalid float value: {shown}")),
        Ok(number) if number.is_infinite() => Some(format!("{token} is out of range for float64")),
        Ok(_) => None,
    }
}

fn date(token: &str) -> Option<String> {
    let value = token.replace('z', "Z").replace(['t', ' '], "T");
    let mut layouts = LAYOUTS.iter();
    let found = layouts.find(|layout| date_parse::check(layout, value.as_bytes()).is_ok());
    let is_date = found.is_some_and(|layout| !misses_zero(value.as_bytes(), layout));
    (!is_date).then(|| format!("invalid datetime: {}", quote_go(value)))
}

/// Whether a separator isn't where the layout has it.
fn misses_zero(value: &[u8], layout: &[u8]) -> bool {
    let parts = layout.iter().take_while(|byte| !matches!(byte, b'.' | b'Z'));
    parts
        .zip(value)
        .any(|(wanted, found)| !wanted.is_ascii_digit() && wanted != found)
}

/// Whether each underscore stands between digits, of any base.
fn underscores_fit(part: &str) -> bool {
    if matches!(part.strip_prefix(['+', '-']).unwrap_or(part), "nan" | "inf") {
        return true;
    }
    let mut accepts = false;
    for byte in part.bytes() {
        if byte == b'_' && !accepts {
            return false;
        }
        accepts = byte.is_ascii_hexdigit();
    }
    accepts
}

fn has_leading_zero(part: &str) -> bool {
    let bytes = part.as_bytes();
    match (bytes.first(), bytes.get(1)) {
        (Some(b'0'), Some(next)) => !matches!(next, b'b' | b'o' | b'x'),
        (Some(b'+' | b'-'), Some(b'0')) => bytes.len() > 2,
        _ => false,
    }
}
