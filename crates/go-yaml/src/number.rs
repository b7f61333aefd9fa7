//! Floats as Go prints them.

/// Sign, significant digits and exponent (of the first digit) of a number's text.
fn scientific(text: &str) -> (bool, String, i32) {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let significant = all.trim_start_matches('0');
    if significant.is_empty() {
        return (negative, "0".to_owned(), 0);
    }
    let leading_zeros = (all.len() - significant.len()) as i32;
    let exponent = exponent.parse().unwrap_or(0) + whole.len() as i32 - 1 - leading_zeros;
    (negative, significant.trim_end_matches('0').to_owned(), exponent)
}

/// Shortest digits that read back as the same float and, of those, the nearest to it, as Go has them. The standard
/// library's formatting breaks ties differently from that of `serde_json`.
fn shortest64(f: f64) -> (bool, String, i32) {
    scientific(&serde_json::Value::from(f).to_string())
}

fn shortest32(f: f32) -> (bool, String, i32) {
    scientific(&serde_json::to_string(&f).unwrap_or_default())
}

/// `digits` with a decimal point, without an exponent.
fn positional(negative: bool, digits: &str, exponent: i32) -> String {
    let mut out = String::with_capacity(24);
    if negative {
        out.push('-');
    }
    let point = exponent + 1;
    if point <= 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', point.unsigned_abs() as usize));
        out.push_str(digits);
    } else {
        let point = point as usize;
        match digits.split_at_checked(point) {
            Some((whole, fraction)) => {
                out.push_str(whole);
                if !fraction.is_empty() {
                    out.push('.');
                    out.push_str(fraction);
                }
            }
            None => {
                out.push_str(digits);
                out.extend(std::iter::repeat_n('0', point - digits.len()));
            }
        }
    }
    out
}

/// `d.ddde+XX`, with at least `width` digits in the exponent.
fn exponential(negative: bool, digits: &str, exponent: i32, width: usize) -> String {
    let sign = if negative { "-" } else { "" };
    let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, ""));
    let point = if rest.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}{first}{point}{rest}e{exponent_sign}{:0width$}",
        exponent.unsigned_abs()
    )
}

fn format_g((negative, digits, exponent): (bool, String, i32)) -> String {
    // The precision that strconv compares the exponent with is 6 for the shortest form, however many digits it has.
    if !(-4..6).contains(&exponent) {
        exponential(negative, &digits, exponent, 2)
    } else {
        positional(negative, &digits, exponent)
    }
}

fn special(f: f64) -> Option<&'static str> {
    if f.is_nan() {
        Some("NaN")
    } else if f.is_infinite() {
        Some(if f > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        None
    }
}

/// `strconv.FormatFloat(f, 'g', -1, 64)`.
pub(super) fn format_g64(f: f64) -> String {
    special(f).map_or_else(|| format_g(shortest64(f)), str::to_owned)
}

/// `strconv.FormatFloat(f, 'g', -1, 32)`.
pub(super) fn format_g32(f: f64) -> String {
    let single = f as f32;
    special(f64::from(single)).map_or_else(|| format_g(shortest32(single)), str::to_owned)
}

/// A finite float as `encoding/json` writes it.
pub(super) fn format_json(f: f64) -> String {
    let (negative, digits, exponent) = shortest64(f);
    let magnitude = f.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        exponential(negative, &digits, exponent, 1)
    } else {
        positional(negative, &digits, exponent)
    }
}

/// The integer that a finite float's JSON text denotes, if it is one of 64 bits: `1e6` is written `1000000`.
pub(super) enum Whole {
    Signed(i64),
    Unsigned(u64),
}

pub(super) fn whole(f: f64) -> Option<Whole> {
    if f.fract() != 0.0 || f.abs() >= 1e21 {
        return None;
    }
    let text = format_json(f);
    text.parse()
        .map(Whole::Signed)
        .or_else(|_| text.parse().map(Whole::Unsigned))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_as_go_prints_them() {
        for (f, g64, g32, json) in [
            (0.0, "0", "0", "0"),
            (-0.0, "-0", "-0", "-0"),
            (1.5, "1.5", "1.5", "1.5"),
            (100000.0, "100000", "100000", "100000"),
            (1e6, "1e+06", "1e+06", "1000000"),
            (1234567.5, "1.2345675e+06", "1.2345675e+06", "1234567.5"),
            (123456789.0, "1.23456789e+08", "1.2345679e+08", "123456789"),
            (0.0001, "0.0001", "0.0001", "0.0001"),
            (0.00001, "1e-05", "1e-05", "0.00001"),
            (1e-7, "1e-07", "1e-07", "1e-7"),
            (1e20, "1e+20", "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21", "1e+21"),
            (-2.5e-10, "-2.5e-10", "-2.5e-10", "-2.5e-10"),
            (1e300, "1e+300", "+Inf", "1e+300"),
        ] {
            assert_eq!(
                (format_g64(f).as_str(), format_g32(f).as_str(), format_json(f).as_str()),
                (g64, g32, json)
            );
        }
    }
}
