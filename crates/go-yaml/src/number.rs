//! Floats as Go prints them.

use std::fmt::{Display, LowerExp};

use serde_json::Number;

/// `strconv.FormatFloat(f, 'g', -1, 64)`, for a finite float; with an `f32` that of 32 bits.
pub(super) fn format_g<F: Display + LowerExp>(f: F) -> String {
    let text = format!("{f:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        // The precision that strconv compares the exponent with is 6 for the shortest form, however many digits it has.
        Ok(exponent @ (..-4 | 6..)) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => f.to_string(),
    }
}

/// The integer of 64 bits that a float's JSON text denotes, if it does: `1e6` is written `1000000`.
pub(super) fn whole(f: f64) -> Option<Number> {
    if f.fract() != 0.0 || f.abs() >= 1e21 {
        return None;
    }
    let text = f.to_string();
    let signed = text.parse::<i64>().map(Number::from);
    signed.or_else(|_| text.parse::<u64>().map(Number::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_as_go_prints_them() {
        for (f, g64, g32) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.5, "1.5", "1.5"),
            (100000.0, "100000", "100000"),
            (1e6, "1e+06", "1e+06"),
            (1234567.5, "1.2345675e+06", "1.2345675e+06"),
            (123456789.0, "1.23456789e+08", "1.2345679e+08"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "1e-05"),
            (-2.5e-10, "-2.5e-10", "-2.5e-10"),
            (1e300, "1e+300", "inf"),
        ] {
            assert_eq!((format_g(f).as_str(), format_g(f as f32).as_str()), (g64, g32));
        }
    }
}
