//! Durations as Go writes them: `1m30s`, `1.5h`, `0`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("`{0}` is not a duration: write it like `90s`, `1m30s` or `10h`")]
    Invalid(String),
    #[error("`{0}` has no unit: write `{0}s` for seconds; units are ns, us, ms, s, m, h")]
    MissingUnit(String),
    #[error("`{text}` has the unknown unit `{unit}`: units are ns, us, ms, s, m, h")]
    UnknownUnit { text: String, unit: String },
    #[error("`{0}` is negative")]
    Negative(String),
    #[error("`{0}` is too long: the longest duration is about 292 years")]
    TooLong(String),
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Go's `time.Duration` is an int64 of nanoseconds.
const MAX_NANOS: u64 = i64::MAX as u64;

/// Reads a duration by the grammar of Go's `time.ParseDuration`: `[-+]?([0-9]*(\.[0-9]*)?[a-z]+)+`, or a bare `0`.
/// Negative ones, which Go reads, are an error here: no setting of ours has a use for them. `-0` is zero.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let nanos_per_unit = match unit {
            "" => return Err(DurationError::MissingUnit(text.to_owned())),
            "ns" => 1,
            // Micro sign and Greek mu, as in Go.
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => NANOS_PER_SECOND,
            "m" => 60 * NANOS_PER_SECOND,
            "h" => 3_600 * NANOS_PER_SECOND,
            unit => {
                return Err(DurationError::UnknownUnit {
                    text: text.to_owned(),
                    unit: unit.to_owned(),
                });
            }
        };
        let whole: u64 = if whole.is_empty() { Some(0) } else { whole.parse().ok() }
            .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
        total = whole
            .checked_mul(nanos_per_unit)
            .and_then(|nanos| nanos.checked_add(fraction_nanos(fraction, nanos_per_unit)))
            .and_then(|nanos| nanos.checked_add(total))
            .filter(|nanos| *nanos <= MAX_NANOS)
            .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
        rest = after;
    }
    if negative && total > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    Ok(Duration::from_nanos(total))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The part after the decimal point, in nanoseconds, cut off as Go does: digits beyond an int64 are dropped, and the
/// product is computed in float64.
fn fraction_nanos(digits: &str, nanos_per_unit: u64) -> u64 {
    let mut value: u64 = 0;
    let mut scale: f64 = 1.0;
    for digit in digits.bytes() {
        let next = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')));
        match next.filter(|next| *next <= MAX_NANOS) {
            Some(next) => value = next,
            None => break,
        }
        scale *= 10.0;
    }
    (value as f64 * (nanos_per_unit as f64 / scale)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepted texts with the nanoseconds that `time.ParseDuration` of Go 1.26 gives.
    #[test]
    fn reads_what_go_reads() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("1h", 3_600_000_000_000),
            ("1m30s", 90_000_000_000),
            ("+5s", 5_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("5.s", 5_000_000_000),
            (".5s", 500_000_000),
            ("100ms", 100_000_000),
            ("12µs", 12_000),
            ("12μs", 12_000),
            ("12us", 12_000),
            ("7ns", 7),
            ("3h30m", 12_600_000_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.9223372036854775808h", 3_320_413_933_267),
            ("9223372036854775807ns", 9_223_372_036_854_775_807),
            ("1s1s", 2_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, message) in [
            ("", "`` is not a duration: write it like `90s`, `1m30s` or `10h`"),
            (
                "soon",
                "`soon` is not a duration: write it like `90s`, `1m30s` or `10h`",
            ),
            (".s", "`.s` is not a duration: write it like `90s`, `1m30s` or `10h`"),
            ("+", "`+` is not a duration: write it like `90s`, `1m30s` or `10h`"),
            (
                "60",
                "`60` has no unit: write `60s` for seconds; units are ns, us, ms, s, m, h",
            ),
            (
                "1m30",
                "`1m30` has no unit: write `1m30s` for seconds; units are ns, us, ms, s, m, h",
            ),
            ("2d", "`2d` has the unknown unit `d`: units are ns, us, ms, s, m, h"),
            ("1 h", "`1 h` has the unknown unit ` h`: units are ns, us, ms, s, m, h"),
            ("-5m", "`-5m` is negative"),
            (
                "9223372036854775808ns",
                "`9223372036854775808ns` is too long: the longest duration is about 292 years",
            ),
            (
                "3000000h",
                "`3000000h` is too long: the longest duration is about 292 years",
            ),
            (
                "99999999999999999999h",
                "`99999999999999999999h` is too long: the longest duration is about 292 years",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }
}
