//! Numbers and times of TOML. Facts: `lex.go` and `parse.go` of BurntSushi/toml v1.6.0.

use super::toml_lexer::{Flaw, Lexer, shown};
use crate::template::go::number::parse_int;
use crate::template::go::quote::quote_go;
use crate::template::go::value::Value;
use crate::template::sprig::toml_time;

/// What the lexer takes a token for.
pub(super) enum Kind {
    Integer,
    Float,
    Time,
}

impl Lexer<'_> {
    /// The kind of the token whose first digit was read, up to its end.
    pub(super) fn number(&mut self, first: char) -> Result<Kind, Flaw> {
        let second = self.peek()?;
        match second {
            Some('b' | 'o' | 'x') if first == '0' => return self.based(),
            Some(c) if first != '0' || c.is_ascii_digit() => {}
            // A lone 0 begins no time.
            _ => return self.decimal(),
        }
        self.skip(|c| c.is_ascii_digit())?;
        match self.peek()? {
            Some('-' | ':') => {
                self.skip(|c| c.is_ascii_digit() || "-:Tt .Zz+".contains(c))?;
                Ok(Kind::Time)
            }
            _ => self.decimal(),
        }
    }

    /// Digits, of which some were read.
    fn decimal(&mut self) -> Result<Kind, Flaw> {
        self.skip(|c| c.is_ascii_digit() || c == '_')?;
        if !self.peek()?.is_some_and(|c| ".eE".contains(c)) {
            return Ok(Kind::Integer);
        }
        self.skip(|c| c.is_ascii_digit() || "_.-+eE".contains(c))?;
        Ok(Kind::Float)
    }

    /// What follows a zero before a letter that names a base.
    fn based(&mut self) -> Result<Kind, Flaw> {
        let base = self.next()?.unwrap_or_default();
        let (sort, digits) = match base {
            'b' => ("a binary", 2),
            'o' => ("an octal", 8),
            _ => ("a hexadecimal", 16),
        };
        let next = self.peek()?;
        if !next.is_some_and(|c| c.is_digit(digits)) {
            let next = next.unwrap_or('\0');
            return Err(self.flaw(format!("not {sort} number: '0{base}{next}'")));
        }
        self.skip(|c| c.is_digit(digits) || c == '_')?;
        Ok(Kind::Integer)
    }

    /// What follows a sign, which was read.
    pub(super) fn signed(&mut self, sign: char) -> Result<Kind, Flaw> {
        let from = self.place();
        let first = self.next()?;
        match first {
            Some('i' | 'n') => {
                let (second, third) = if first == Some('i') { ('n', 'f') } else { ('a', 'n') };
                if self.accept(second)? && self.accept(third)? {
                    return Ok(Kind::Float);
                }
                let read = self.since(from);
                Err(self.flaw(format!("invalid float: '{sign}{read}'")))
            }
            Some('.') => Err(self.flaw("floats must start with a digit, not '.'")),
            Some('0') => match self.peek()? {
                Some(base @ ('b' | 'o' | 'x')) => {
                    let text = format!("cannot use sign with non-decimal numbers: '{sign}0{base}'");
                    Err(self.flaw(text))
                }
                _ => self.decimal(),
            },
            Some(c) if c.is_ascii_digit() => self.decimal(),
            other => Err(self.flaw(format!("expected a digit but got {}", shown(other)))),
        }
    }
}

impl Kind {
    /// The value of a token.
    ///
    /// # Errors
    /// The library's words for a token that is none.
    pub(super) fn value(&self, token: &str) -> Result<Value, String> {
        match self {
            Kind::Integer => integer(token).map(Value::Int64),
            Kind::Float => float(token).map(Value::Float64),
            Kind::Time => {
                let token = token.trim_end_matches(' ').replace('z', "Z").replace(['t', ' '], "T");
                toml_time::read(token.as_bytes()).ok_or_else(|| format!("invalid datetime: {}", quote_go(token)))
            }
        }
    }
}

fn integer(token: &str) -> Result<i64, String> {
    let invalid = |why: &str| Err(format!("Invalid integer {}: {why}", quote_go(token)));
    if !underscores_fit(token) {
        return invalid("underscores must be surrounded by digits");
    }
    if has_leading_zero(token) {
        return invalid("cannot have leading zeroes");
    }
    let digits = token.replace('_', "");
    parse_int(&digits).ok_or_else(|| format!("{token} is out of range for int64"))
}

fn float(token: &str) -> Result<f64, String> {
    let shown = quote_go(token);
    let invalid = |why: &str| Err(format!("Invalid float {shown}: {why}"));
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
        Err(_) => Err(format!("Invalid float value: {shown}")),
        Ok(number) if number.is_infinite() && unsigned != "inf" => Err(format!("{token} is out of range for float64")),
        Ok(number) => Ok(number),
    }
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
