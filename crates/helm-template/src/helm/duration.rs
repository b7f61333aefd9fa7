//! The duration functions that Helm 4.3 added (`pkg/engine/funcs.go`).

use crate::gostd::duration::{as_duration, duration_value, parse_duration, round_duration, truncate_duration};
use crate::sprig::convert::parse_float;
use crate::sprig::text::display;
use go_template::quote::quote_go;
use go_template::{CallError, Value};

const SECOND: i64 = 1_000_000_000;

/// The nanoseconds of a duration, of a text such as `1h30m`, or of a number of seconds.
fn nanoseconds(value: &Value) -> Result<i64, String> {
    match value {
        Value::Nil => Err("invalid duration".to_owned()),
        Value::Int(n) | Value::Int64(n) => whole_seconds(*n),
        Value::Uint8(n) => whole_seconds(i64::from(*n)),
        Value::Uint64(n) => i64::try_from(*n).map_err(|_| overflow(n)).and_then(whole_seconds),
        Value::Float64(n) => float_seconds(*n),
        Value::String(text) => {
            let trimmed = trim(text.as_bytes());
            if trimmed.is_empty() {
                return Err("empty duration".to_owned());
            }
            match (parse_duration(trimmed), parse_float(trimmed)) {
                (Ok(duration), _) => Ok(duration),
                (Err(_), Some(seconds)) => float_seconds(seconds),
                (Err(_), None) => Err(format!("could not parse duration {}", quote_go(text.as_bytes()))),
            }
        }
        other => as_duration(other).ok_or_else(|| format!("unsupported duration type {}", other.type_name())),
    }
}

/// `strings.TrimSpace`.
fn trim(text: &[u8]) -> &[u8] {
    match std::str::from_utf8(text) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => text.trim_ascii(),
    }
}

fn overflow(seconds: impl std::fmt::Display) -> String {
    format!("duration seconds overflow: {seconds}")
}

fn whole_seconds(seconds: i64) -> Result<i64, String> {
    seconds.checked_mul(SECOND).ok_or_else(|| overflow(seconds))
}

fn float_seconds(seconds: f64) -> Result<i64, String> {
    let shown = || String::from_utf8_lossy(&display(&Value::Float64(seconds))).into_owned();
    if !seconds.is_finite() {
        return Err(format!("invalid duration seconds: {}", shown()));
    }
    let limit = i64::MAX as f64 / SECOND as f64;
    if !(-limit..=limit).contains(&seconds) {
        return Err(overflow(shown()));
    }
    Ok((seconds * SECOND as f64) as i64)
}

fn argument(args: &[Value], index: usize) -> Result<i64, String> {
    nanoseconds(args.get(index).unwrap_or(&Value::Nil))
}

pub(super) fn must_to_duration(args: &[Value]) -> Result<Value, CallError> {
    Ok(duration_value(argument(args, 0)?))
}

/// Units of `unit` seconds, as Go computes them: whole units and their fraction apart.
fn units(nanoseconds: i64, unit: i64) -> f64 {
    let unit = unit.saturating_mul(SECOND);
    (nanoseconds / unit) as f64 + (nanoseconds % unit) as f64 / unit as f64
}

/// Units of `unit` seconds; 0 for what is no duration.
pub(super) fn seconds(args: &[Value], unit: f64) -> Value {
    Value::Float64(argument(args, 0).map_or(0.0, |n| units(n, unit as i64)))
}

/// Hours, divided by each of `divisors`; 0 for what is no duration.
pub(super) fn hours(args: &[Value], divisors: &[f64]) -> Value {
    let hours = argument(args, 0).map_or(0.0, |n| units(n, 3600));
    Value::Float64(divisors.iter().fold(hours, |hours, divisor| hours / divisor))
}

/// Whole units of `unit` nanoseconds; 0 for what is no duration.
pub(super) fn whole(args: &[Value], unit: i64) -> Value {
    Value::Int64(argument(args, 0).map_or(0, |n| n / unit))
}

pub(super) fn round_to(args: &[Value]) -> Value {
    adjust(args, round_duration)
}

pub(super) fn truncate_to(args: &[Value]) -> Value {
    adjust(args, truncate_duration)
}

fn adjust(args: &[Value], with: fn(i64, i64) -> i64) -> Value {
    duration_value(match (argument(args, 0), argument(args, 1)) {
        (Err(_), _) => 0,
        (Ok(duration), Ok(multiple)) if multiple > 0 => with(duration, multiple),
        (Ok(duration), _) => duration,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_all_sorts() {
        let table: [(Value, Result<i64, &str>); 8] = [
            (Value::string("1m30s"), Ok(90 * SECOND)),
            (Value::string(" 90 "), Ok(90 * SECOND)),
            (Value::Int(5), Ok(5 * SECOND)),
            (Value::Float64(1.5), Ok(1_500_000_000)),
            (Value::string(""), Err("empty duration")),
            (Value::string("x"), Err("could not parse duration \"x\"")),
            (
                Value::Int64(i64::MAX),
                Err("duration seconds overflow: 9223372036854775807"),
            ),
            (Value::Bool(true), Err("unsupported duration type bool")),
        ];
        for (value, want) in table {
            assert_eq!(nanoseconds(&value).as_ref().copied().map_err(|e| e.as_str()), want);
        }
    }

    #[test]
    fn units_and_rounding() {
        let args = [Value::string("1h30m")];
        assert!(matches!(hours(&args, &[]), Value::Float64(n) if n == 1.5));
        assert!(matches!(whole(&args, 1_000_000), Value::Int64(5_400_000)));
        let round = |text, multiple| match round_to(&[Value::string(text), Value::string(multiple)]) {
            Value::Object(object) => object.display(),
            _ => String::new(),
        };
        assert_eq!(
            (round("1m31s", "1m"), round("-90s", "1m"), round("5s", "0s")),
            ("2m0s".into(), "-2m0s".into(), "5s".into())
        );
    }
}
