//! Dates and durations.

use jiff::tz::TimeZone;

use crate::gostd::duration::{duration_text, parse_duration, round_duration};
use crate::gostd::time::{Time, local_zone, zone};
use crate::gostd::time_parse;
use crate::sprig::Env;
use crate::sprig::numbers::convert::clamped;
use crate::sprig::random::draw;
use go_template::func::{CallError, Func};
use go_template::value::Value;

const HTML: &[u8] = b"2006-01-02";
const SECOND: i64 = 1_000_000_000;
/// The reading of Go's monotonic clock that a printed time shows. It is a constant here, so that a stored time always
/// has the same text.
const MONOTONIC: i64 = 10_000_000;

pub(super) fn table<C: Env>() -> Vec<Func<C>> {
    let date_in_zone = |env: &mut C, layout: &[u8], at: &Value, zone: &[u8]| {
        shown(
            env,
            "dateInZone",
            at,
            self::zone(&String::from_utf8_lossy(zone)),
            layout,
        )
    };
    // A bad duration changes nothing and gives no error.
    let date_modify = |by: &[u8], time: &Time| time.add(parse_duration(by).unwrap_or(0)).map(Time::into_value);
    let must_date_modify = |by: &[u8], time: &Time| time.add(parse_duration(by)?).map(Time::into_value);
    vec![
        Func::with_context("now", |env: &mut C| now(env, "now").map(Time::into_value)),
        Func::with_context("ago", |env: &mut C, at: &Value| {
            let then = instant(env, "ago", at)?;
            now(env, "ago").map(|now| duration_text(round_duration(now.since(&then), SECOND)))
        }),
        Func::with_context("date", |env: &mut C, layout: &[u8], at: &Value| {
            shown(env, "date", at, local_zone(), layout)
        }),
        Func::with_context("dateInZone", date_in_zone),
        Func::with_context("date_in_zone", date_in_zone),
        Func::with_context("htmlDate", |env: &mut C, at: &Value| {
            shown(env, "htmlDate", at, local_zone(), HTML)
        }),
        Func::with_context("htmlDateInZone", |env: &mut C, at: &Value, zone: &[u8]| {
            shown(
                env,
                "htmlDateInZone",
                at,
                self::zone(&String::from_utf8_lossy(zone)),
                HTML,
            )
        }),
        Func::new("dateModify", date_modify),
        Func::new("date_modify", date_modify),
        Func::new("mustDateModify", must_date_modify),
        Func::new("must_date_modify", must_date_modify),
        Func::new("unixEpoch", |time: &Time| time.unix_seconds().to_string()),
        Func::with_context("durationRound", duration_round),
        Func::new("duration", duration),
        // A text that cannot be parsed is Go's zero time.
        Func::new("toDate", |layout: &[u8], text: &[u8]| {
            let time = time_parse::parse(layout, text);
            time.unwrap_or_else(|_| Time::zero()).into_value()
        }),
        Func::new("mustToDate", |layout: &[u8], text: &[u8]| {
            time_parse::parse(layout, text).map(Time::into_value)
        }),
    ]
}

fn now<C: Env>(env: &mut C, function: &'static str) -> Result<Time, CallError> {
    Ok(Time {
        at: draw::clock(env, function)?.to_zoned(local_zone()),
        mono: Some(MONOTONIC),
    })
}

/// A time, or an int or int64 of seconds since 1970; anything else, a float64 from values included, is now.
fn instant<C: Env>(env: &mut C, function: &'static str, value: &Value) -> Result<Time, CallError> {
    match value {
        Value::Int(seconds) | Value::Int64(seconds) => Ok(Time::unix(*seconds)?),
        other => Time::of(other).cloned().map_or_else(|| now(env, function), Ok),
    }
}

fn shown<C: Env>(
    env: &mut C,
    function: &'static str,
    at: &Value,
    zone: TimeZone,
    layout: &[u8],
) -> Result<String, CallError> {
    Ok(instant(env, function, at)?.within(zone).format(layout))
}

/// Seconds, of a string or an int64 only, as a duration's text.
fn duration(seconds: &Value) -> String {
    let seconds = match seconds {
        Value::String(text) => clamped(text.as_bytes()),
        Value::Int64(n) => *n,
        _ => 0,
    };
    duration_text(seconds.wrapping_mul(SECOND))
}

/// The largest unit of a duration that fits more than once, such as `2h` or `3mo`.
fn duration_round<C: Env>(env: &mut C, value: &Value) -> Result<String, CallError> {
    let nanoseconds = match value {
        Value::String(text) => parse_duration(text.as_bytes()).unwrap_or(0),
        Value::Int64(n) => *n,
        other => match Time::of(other) {
            Some(then) => now(env, "durationRound")?.since(then),
            None => 0,
        },
    };
    let seconds = nanoseconds.unsigned_abs();
    let units = [
        (365 * 86_400, "y"),
        (30 * 86_400, "mo"),
        (86_400, "d"),
        (3_600, "h"),
        (60, "m"),
        (1, "s"),
    ];
    let fitting = units
        .into_iter()
        .map(|(unit, name)| (unit * SECOND.cast_unsigned(), name))
        .find(|(unit, _)| seconds > *unit);
    Ok(fitting.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", seconds / unit)))
}
