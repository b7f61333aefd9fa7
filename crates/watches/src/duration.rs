//! Durations in the syntax of Go: `1m30s`, `1.5h`, `0`.

use std::time::Duration;

use helm_template::gostd::duration::parse_duration;

/// Reason why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("`{0}` is not a duration: write it like `90s`, `1m30s` or `10h`")]
    Invalid(String),
    #[error("`{0}` has no unit: write `{0}s` for seconds; units are ns, us, ms, s, m, h")]
    MissingUnit(String),
    #[error("`{0}` is negative")]
    Negative(String),
}

/// Parses a duration by the grammar of Go's `time.ParseDuration`. Negative durations, which Go accepts, are an error: no setting
/// uses them. `-0` is zero.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    match parse_duration(text.as_bytes()).map(u64::try_from) {
        Ok(Ok(nanoseconds)) => Ok(Duration::from_nanos(nanoseconds)),
        Ok(Err(_)) => Err(DurationError::Negative(text.to_owned())),
        Err(_) if text.ends_with(|c: char| c.is_ascii_digit()) => Err(DurationError::MissingUnit(text.to_owned())),
        Err(_) => Err(DurationError::Invalid(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_durations_and_missing_units_are_errors() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("-0s", Ok(0)),
            ("1m30s", Ok(90)),
            ("1.5h", Ok(5_400)),
            ("", Err(DurationError::Invalid(String::new()))),
            ("2d", Err(DurationError::Invalid("2d".into()))),
            ("3000000h", Err(DurationError::Invalid("3000000h".into()))),
            ("60", Err(DurationError::MissingUnit("60".into()))),
            ("1m30", Err(DurationError::MissingUnit("1m30".into()))),
            ("-5m", Err(DurationError::Negative("-5m".into()))),
        ] {
            assert_eq!(parse(text), expected.map(Duration::from_secs), "{text}");
        }
    }
}
