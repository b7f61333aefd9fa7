//! The duration functions that Helm 4.3 added (`pkg/engine/funcs.go`).

use crate::gostd::duration::{as_duration, duration_value, parse_duration, round_duration, truncate_duration};
use crate::helm::Context;
use crate::sprig::numbers::convert::parse_float;
use go_template::Value;
use go_template::format;
use go_template::func::{Args, Argument, Func, Param, Signature};
use go_template::quote::quote_go;

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
    let shown = || format::text(&Value::Float64(seconds));
    if !seconds.is_finite() {
        return Err(format!("invalid duration seconds: {}", shown()));
    }
    let limit = i64::MAX as f64 / SECOND as f64;
    if !(-limit..=limit).contains(&seconds) {
        return Err(overflow(shown()));
    }
    Ok((seconds * SECOND as f64) as i64)
}

/// An argument of any type: its nanoseconds, or why it is no duration.
struct Duration(Result<i64, String>);

impl Argument<'_> for Duration {
    type Output = Duration;

    fn declare(signature: &mut Signature) {
        signature.param(Param::Any);
    }

    fn take(args: &mut Args<'_>) -> Option<Duration> {
        Some(Duration(nanoseconds(args.next()?)))
    }
}

pub(crate) fn table() -> Vec<Func<Context>> {
    vec![
        Func::new("mustToDuration", |duration: Duration| duration.0.map(duration_value)),
        Func::new("durationSeconds", |duration: Duration| duration.units(1)),
        Func::new("durationMinutes", |duration: Duration| duration.units(60)),
        Func::new("durationHours", |duration: Duration| duration.units(3600)),
        Func::new("durationDays", |duration: Duration| duration.units(3600) / 24.0),
        Func::new("durationWeeks", |duration: Duration| duration.units(3600) / 24.0 / 7.0),
        Func::new("durationMilliseconds", |duration: Duration| duration.whole(1_000_000)),
        Func::new("durationMicroseconds", |duration: Duration| duration.whole(1_000)),
        Func::new("durationNanoseconds", |duration: Duration| duration.whole(1)),
        Func::new("durationRoundTo", |duration: Duration, multiple: Duration| {
            duration.adjusted(multiple, round_duration)
        }),
        Func::new("durationTruncateTo", |duration: Duration, multiple: Duration| {
            duration.adjusted(multiple, truncate_duration)
        }),
    ]
}

impl Duration {
    /// Units of `unit` seconds, as Go computes them: whole units and their fraction apart; 0 for what is no duration.
    fn units(self, unit: i64) -> f64 {
        let unit = unit.saturating_mul(SECOND);
        self.0
            .map_or(0.0, |n| (n / unit) as f64 + (n % unit) as f64 / unit as f64)
    }

    /// Whole units of `unit` nanoseconds; 0 for what is no duration.
    fn whole(self, unit: i64) -> Value {
        Value::Int64(self.0.map_or(0, |n| n / unit))
    }

    fn adjusted(self, multiple: Duration, with: fn(i64, i64) -> i64) -> Value {
        duration_value(match (self.0, multiple.0) {
            (Err(_), _) => 0,
            (Ok(duration), Ok(multiple)) if multiple > 0 => with(duration, multiple),
            (Ok(duration), _) => duration,
        })
    }
}
