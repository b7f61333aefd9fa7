//! Numbers as Go reads and writes them: the constants of a template and `strconv.FormatFloat`.

use super::integer::{self, underscores_fit};
use super::quote::{quote_go, unquote_char};

/// A number constant, in all the types that it fits: whether it is an int or a float is for its place to say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Constant {
    pub(super) int: Option<i64>,
    pub(super) float: Option<f64>,
    pub(super) ideal: Ideal,
}

/// What a constant is where the place does not say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Ideal {
    Int(i64),
    Float(f64),
    /// It only fits an unsigned integer.
    Overflow,
}

// === impl Constant ===

impl Constant {
    /// Reads a number or a character; an error is Go's text.
    pub(super) fn parse(token: &[u8]) -> Result<Self, String> {
        if token.first() == Some(&b'\'') {
            return Ok(Self::whole(i64::from(unquote_char(token)?)));
        }
        if let Some(int) = short_decimal(token) {
            return Ok(Self::whole(int));
        }
        let text = std::str::from_utf8(token).unwrap_or_default();
        let (mut int, mut uint) = (parse_int(text), parse_uint(text));
        let float = match (int, uint) {
            (Some(int), _) => Some(int as f64),
            (None, Some(uint)) => Some(uint as f64),
            (None, None) => parse_float(text),
        };
        if let (None, None, Some(float)) = (int, uint, float) {
            if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {}", quote_go(token)));
            }
            int = whole(float);
            uint =
                ((0.0..18_446_744_073_709_551_616.0).contains(&float) && float.fract() == 0.0).then_some(float as u64);
        }
        let digits = text.trim_start_matches(['+', '-']);
        let hex = text.len() > 2 && text.starts_with(['0']) && digits.get(1..2).is_some_and(|x| x == "x" || x == "X");
        let hex_int = hex && !text.contains(['p', 'P']);
        let ideal = match (float, int, uint) {
            (Some(float), ..) if !hex_int && text.contains(['.', 'e', 'E', 'p', 'P']) => Ideal::Float(float),
            (_, Some(int), _) => Ideal::Int(int),
            (_, None, Some(_)) => Ideal::Overflow,
            _ => return Err(format!("illegal number syntax: {}", quote_go(token))),
        };
        Ok(Constant { int, float, ideal })
    }

    fn whole(int: i64) -> Self {
        Constant {
            int: Some(int),
            float: Some(int as f64),
            ideal: Ideal::Int(int),
        }
    }
}

/// What nearly every number is: a few decimal digits, and no zero before others.
fn short_decimal(token: &[u8]) -> Option<i64> {
    if token.is_empty() || token.len() > 18 || token.len() > 1 && token.first() == Some(&b'0') {
        return None;
    }
    token.iter().try_fold(0, |sum: i64, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

fn whole(float: f64) -> Option<i64> {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    (fits && float.fract() == 0.0).then_some(float as i64)
}

/// `strconv.ParseInt(text, 0, 64)`.
pub fn parse_int(text: &str) -> Option<i64> {
    integer::parse_int(text.as_bytes(), 0, 64).ok()
}

/// `strconv.ParseUint(text, 0, 64)`.
pub fn parse_uint(text: &str) -> Option<u64> {
    integer::parse_uint(text.as_bytes(), 0, 64).ok()
}

/// `strconv.ParseFloat(text, 64)` without `inf` and `nan`; out of range is `None`.
pub fn parse_float(text: &str) -> Option<f64> {
    if text.contains('_') && !underscores_fit(text.as_bytes()) {
        return None;
    }
    let text = text.replace('_', "").to_ascii_lowercase();
    let unsigned = text.trim_start_matches(['+', '-']);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value = match unsigned.strip_prefix("0x") {
        Some(hex) if text.starts_with('-') => -hexadecimal(hex)?,
        Some(hex) => hexadecimal(hex)?,
        None => text.parse().ok()?,
    };
    value.is_finite().then_some(value)
}

/// The value of `1.8p-1`, up to as many digits as a float64 holds exactly. The chart opentelemetry-collector calculates
/// with `0x1p60`.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once('p')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    let exponent = exponent.parse::<i32>().ok()?.checked_sub(4 * fraction.len() as i32)?;
    (mantissa < 1 << f64::MANTISSA_DIGITS).then(|| mantissa as f64 * 2_f64.powi(exponent))
}

/// `strconv.FormatFloat(value, verb, precision, 64)`: verbs `e E f g G`; a negative precision is the smallest
/// number of digits that reads back as the same value.
pub fn format_float(value: f64, verb: char, precision: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let mut out = String::new();
    if value.is_sign_negative() {
        out.push('-');
    }
    let value = value.abs();
    match verb {
        'e' | 'E' => {
            let digits = Digits::of(value, (precision >= 0).then_some(precision));
            let precision = if precision < 0 { digits.len() - 1 } else { precision };
            digits.exponential(&mut out, precision, verb);
        }
        'f' if precision < 0 => {
            let digits = Digits::of(value, None);
            digits.decimal(&mut out, (digits.len() - digits.point).max(0));
        }
        'f' => {
            // A float64 has no more than 1074 digits after the point; what is asked beyond are zeros.
            let exact = precision.min(1100);
            out.push_str(&format!("{value:.*}", exact as usize));
            out.extend(std::iter::repeat_n('0', (precision - exact) as usize));
        }
        _ => format_general(&mut out, value, verb, precision),
    }
    out
}

fn format_general(out: &mut String, value: f64, verb: char, precision: i32) {
    let shortest = precision < 0;
    let mut precision = if shortest { 0 } else { precision.max(1) };
    let digits = Digits::of(value, (!shortest).then_some(precision - 1)).without_trailing_zeros();
    let len = digits.len();
    let mut threshold = precision;
    if threshold > len && len >= digits.point {
        threshold = len;
    }
    if shortest {
        precision = len;
        threshold = 6;
    }
    let exponent = digits.point - 1;
    if exponent < -4 || exponent >= threshold {
        let precision = precision.min(len);
        digits.exponential(out, precision - 1, if verb == 'G' { 'E' } else { 'e' });
    } else {
        let precision = if precision > digits.point { len } else { precision };
        digits.decimal(out, (precision - digits.point).max(0));
    }
}

/// The fewest digits that read back as the value, in the form `d.ddde-dd`. Where two texts are equally near, Go takes the
/// even one, and Rust's formatting the larger.
pub fn shortest(value: f64) -> String {
    /// Any text of fewer digits is the only one that reads back as its value, so that it has no rival.
    const RIVALS: usize = 15;
    let text = format!("{value:e}");
    let digits = text
        .split('e')
        .next()
        .unwrap_or_default()
        .bytes()
        .filter(u8::is_ascii_digit)
        .count();
    if digits < RIVALS {
        return text;
    }
    let even = format!("{value:.*e}", digits - 1);
    if even.parse() == Ok(value) { even } else { text }
}

/// The significant decimal digits of a value: `0.DIGITS * 10^point`. Zero has the point 1 and one digit.
struct Digits {
    digits: String,
    point: i32,
}

impl Digits {
    /// `after_first`: how many digits after the first one; `None` for the shortest.
    fn of(value: f64, after_first: Option<i32>) -> Self {
        let text = match after_first {
            Some(count) => format!("{value:.*e}", count.clamp(0, 1100) as usize),
            None => shortest(value),
        };
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = mantissa.replace('.', "");
        Digits {
            digits,
            point: exponent.parse::<i32>().unwrap_or(0) + 1,
        }
    }

    fn len(&self) -> i32 {
        self.digits.len() as i32
    }

    fn without_trailing_zeros(mut self) -> Self {
        let len = self.digits.trim_end_matches('0').len().max(1);
        self.digits.truncate(len);
        self
    }

    /// `d.ddde+dd`.
    fn exponential(&self, out: &mut String, precision: i32, e: char) {
        let (first, rest) = self.digits.split_at(1);
        out.push_str(first);
        if precision > 0 {
            out.push('.');
            let rest = rest.get(..precision as usize).unwrap_or(rest);
            out.push_str(rest);
            out.extend(std::iter::repeat_n('0', precision as usize - rest.len()));
        }
        let exponent = if self.digits.trim_matches('0').is_empty() {
            0
        } else {
            self.point - 1
        };
        out.push_str(&format!(
            "{e}{}{:02}",
            if exponent < 0 { '-' } else { '+' },
            exponent.abs()
        ));
    }

    /// `ddd.ddd`.
    fn decimal(&self, out: &mut String, precision: i32) {
        let digit = |at: i32| {
            usize::try_from(at)
                .ok()
                .and_then(|at| self.digits.as_bytes().get(at))
                .map_or('0', |b| char::from(*b))
        };
        if self.point > 0 {
            out.extend((0..self.point).map(digit));
        } else {
            out.push('0');
        }
        if precision > 0 {
            out.push('.');
            out.extend((0..precision).map(|i| digit(self.point + i)));
        }
    }
}
