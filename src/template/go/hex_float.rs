//! Hexadecimal floats, as `strconv.ParseFloat` reads them (`readFloat` and `atofHex`).

/// The bits of a float64's mantissa.
const MANTISSA: i64 = 53;
/// The exponents of the smallest and the largest normal float64.
const EXPONENTS: (i64, i64) = (-1022, 1023);
/// From where on exponents don't differ: Go reads no further.
const FAR: i64 = 10_000;

/// The value of the text behind `0x`, without underscores, such as `1.8p-1`; rounded to even. Out of range is infinite.
pub fn parse(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let mut exponent = parse_exponent(exponent)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let (mut mantissa, mut sticky) = (0u64, false);
    for (i, c) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(c.to_digit(16)?);
        let in_fraction = i >= whole.len();
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | digit;
            exponent -= if in_fraction { 4 } else { 0 };
        } else {
            sticky |= digit != 0;
            exponent += if in_fraction { 0 } else { 4 };
        }
    }
    Some(rounded(mantissa, exponent, sticky))
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    let size = digits.bytes().try_fold(0i64, |size, byte| {
        let digit = i64::from(char::from(byte).to_digit(10)?);
        Some(if size < FAR { size * 10 + digit } else { size })
    })?;
    Some(if text.starts_with('-') { -size } else { size })
}

/// The float64 nearest to `mantissa * 2^exponent`, and a bit more if it is sticky.
fn rounded(mantissa: u64, exponent: i64, sticky: bool) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let shift = i64::from(mantissa.leading_zeros());
    let (mantissa, exponent) = (mantissa << shift, exponent - shift);
    // That of the first bit.
    let first = exponent + 63;
    if first > EXPONENTS.1 {
        return f64::INFINITY;
    }
    let kept = MANTISSA - (EXPONENTS.0 - first).max(0);
    if kept < 0 {
        return 0.0;
    }
    let cut = 64 - kept;
    let wide = u128::from(mantissa);
    let (mut value, rest, half) = ((wide >> cut) as u64, wide & ((1 << cut) - 1), 1 << (cut - 1));
    if rest > half || rest == half && (sticky || value & 1 == 1) {
        value += 1;
    }
    // Two steps, since the power alone may be out of range.
    let power = (exponent + cut) as i32;
    let part = power / 2;
    value as f64 * 2f64.powi(part) * 2f64.powi(power - part)
}
