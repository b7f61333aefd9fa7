//! Numbers as Go reads and writes them: the constants of a template and `strconv.FormatFloat`.

use crate::text::integer;
use crate::text::quote::quote_go;

/// A number constant, in all the types that it fits: the place where it is used decides between int and float.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Constant {
    pub(crate) int: Option<i64>,
    pub(crate) float: f64,
    /// Whether it is a float where the place does not decide.
    pub(crate) is_float: bool,
}

impl Constant {
    /// Reads a number or a character; an error is Go's text.
    pub(crate) fn parse(token: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(token).unwrap_or_default();
        if let Some(quoted) = text.strip_prefix('\'') {
            let mut characters = quoted.strip_suffix('\'').unwrap_or_default().chars();
            return match (characters.next(), characters.next()) {
                (Some(c), None) if c != '\\' => Ok(Self::whole(i64::from(u32::from(c)))),
                _ => Err(format!("malformed character constant: {text}")),
            };
        }
        if let Some(int) = short_decimal(token).or_else(|| parse_int(text)) {
            return Ok(Self::whole(int));
        }
        if !text.contains(['.', 'e', 'E', 'p', 'P']) && parse_float(text).is_some() {
            return Err(format!("integer overflow: {}", quote_go(token)));
        }
        let float = parse_float(text).ok_or_else(|| format!("illegal number syntax: {}", quote_go(token)))?;
        let fits = float.fract() == 0.0 && (i64::MIN as f64..-(i64::MIN as f64)).contains(&float);
        Ok(Constant {
            int: fits.then_some(float as i64),
            float,
            is_float: true,
        })
    }

    fn whole(int: i64) -> Self {
        Constant {
            int: Some(int),
            float: int as f64,
            is_float: false,
        }
    }
}

/// The fast path for nearly every number: a few decimal digits without a leading zero.
fn short_decimal(token: &[u8]) -> Option<i64> {
    if token.is_empty() || token.len() > 18 || token.len() > 1 && token.first() == Some(&b'0') {
        return None;
    }
    token.iter().try_fold(0, |sum: i64, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

/// `strconv.ParseInt(text, 0, 64)`.
fn parse_int(text: &str) -> Option<i64> {
    integer::parse_int(text.as_bytes(), 0, 64).ok()
}

/// `strconv.ParseFloat(text, 64)` without `inf`, `nan` and underscores; out of range is `None`.
fn parse_float(text: &str) -> Option<f64> {
    let text = text.to_ascii_lowercase();
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

/// The maximum precision: a float64 has at most 1074 digits after the point.
const MAX_DIGITS: i32 = 1100;

/// `strconv.FormatFloat(value, verb, precision, 64)`: verbs `e E f g G`; a negative precision is the smallest
/// number of digits that reads back as the same value.
///
/// ```
/// use go_template::number::format_float;
///
/// assert_eq!(format_float(1e21, 'g', -1), "1e+21");
/// assert_eq!(format_float(2.5, 'f', 2), "2.50");
/// ```
pub fn format_float(value: f64, verb: char, precision: i32) -> String {
    if !value.is_finite() {
        let text = if value > 0.0 { "+Inf" } else { "-Inf" };
        return if value.is_nan() { "NaN" } else { text }.to_owned();
    }
    let digits = usize::try_from(precision.min(MAX_DIGITS)).ok();
    match (verb, digits) {
        ('f', Some(digits)) => format!("{value:.digits$}"),
        ('f', None) => value.to_string(),
        ('e' | 'E', Some(digits)) => exponential(&format!("{value:.digits$e}"), verb),
        ('e' | 'E', None) => exponential(&shortest(value), verb),
        _ => general(value, verb, digits),
    }
}

/// The fewest digits that read back as the value, in the form `d.ddde-dd`.
pub fn shortest(value: f64) -> String {
    format!("{value:e}")
}

/// Puts Go's exponent, of two digits at least and with its sign, in the place of Rust's.
fn exponential(text: &str, e: char) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let sign = if exponent.starts_with('-') { '-' } else { '+' };
    format!("{mantissa}{}{sign}{:0>2}", e, exponent.trim_start_matches('-'))
}

/// `%g`: with an exponent where that is shorter. `digits`: how many are significant.
fn general(value: f64, verb: char, digits: Option<usize>) -> String {
    let text = match digits {
        Some(digits) => format!("{value:.*e}", digits.saturating_sub(1)),
        None => shortest(value),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    let significant = mantissa.bytes().filter(u8::is_ascii_digit).count() as i32;
    let before_point = exponent.parse().unwrap_or(0) + 1;
    let threshold = match digits {
        None => 6,
        Some(digits) if digits as i32 > significant && significant >= before_point => significant,
        Some(digits) => digits.max(1) as i32,
    };
    if before_point < -3 || before_point > threshold {
        return exponential(&format!("{mantissa}e{exponent}"), if verb == 'G' { 'E' } else { 'e' });
    }
    match digits {
        Some(_) => format!("{value:.*}", (significant - before_point).max(0) as usize),
        None => value.to_string(),
    }
}
