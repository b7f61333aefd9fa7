//! Dates and durations.

use super::args::{Args, Out};
use super::{Env, draw, impure, pure};
use crate::gostd::duration::{duration_text, parse_duration, round_duration};
use crate::gostd::time::{Time, Zone};
use crate::gostd::time_parse;
use go_template::func::{CallError, Func, Param};
use go_template::integer::{IntegerError, parse_int};
use go_template::value::Value;

const TIME: Param = Param::Named("time.Time");
const HTML: &[u8] = b"2006-01-02";
const SECOND: i64 = 1_000_000_000;
/// How long ago the program started, by Go's monotonic clock, when a template asks for the time: printing such a time
/// shows it. Here it is always the same, so that a kept time stays the text that it was.
const MONOTONIC: i64 = 10_000_000;

pub(super) fn table<C: Env>() -> Vec<Func<C>> {
    vec![
        impure!("now", [], |env, _| Ok(now(env, "now")?.into_value())),
        impure!("ago", [Param::Any], ago),
        impure!("date", [Param::String, Param::Any], |env, args| {
            Ok(Value::string(
                instant(env, "date", args.any(1))?
                    .within(Zone::Local)
                    .format(args.text(0)?),
            ))
        }),
        impure!("dateInZone", [Param::String, Param::Any, Param::String], date_in_zone),
        impure!("date_in_zone", [Param::String, Param::Any, Param::String], date_in_zone),
        impure!("htmlDate", [Param::Any], |env, args| {
            Ok(Value::string(
                instant(env, "htmlDate", args.any(0))?.within(Zone::Local).format(HTML),
            ))
        }),
        impure!("htmlDateInZone", [Param::Any, Param::String], |env, args| {
            Ok(Value::string(
                instant(env, "htmlDateInZone", args.any(0))?
                    .within(zone(args.text(1)?))
                    .format(HTML),
            ))
        }),
        impure!("dateModify", [Param::String, TIME], |_, args| date_modify(args)),
        impure!("date_modify", [Param::String, TIME], |_, args| date_modify(args)),
        impure!("mustDateModify", [Param::String, TIME], |_, args| must_date_modify(
            args
        )),
        impure!("must_date_modify", [Param::String, TIME], |_, args| must_date_modify(
            args
        )),
        impure!("unixEpoch", [TIME], |_, args| {
            Ok(Value::string(time(args, 0)?.unix_seconds().to_string()))
        }),
        impure!("durationRound", [Param::Any], duration_round),
        pure!("duration", [Any], duration),
        pure!("toDate", [String, String], to_date),
        pure!("mustToDate", [String, String], must_to_date),
    ]
}

fn now<C: Env>(env: &mut C, function: &'static str) -> Result<Time, CallError> {
    Ok(Time {
        at: draw::clock(env, function)?.as_nanosecond(),
        zone: Zone::Local,
        mono: Some(MONOTONIC),
    })
}

/// A time, or an int or int64 of seconds since 1970; anything else, a float64 from values included, is now.
fn instant<C: Env>(env: &mut C, function: &'static str, value: &Value) -> Result<Time, CallError> {
    match value {
        Value::Int(seconds) | Value::Int64(seconds) => Ok(Time::unix(*seconds)),
        other => Time::of(other).map_or_else(|| now(env, function), Ok),
    }
}

/// An unknown zone is UTC.
fn zone(name: &[u8]) -> Zone {
    std::str::from_utf8(name).ok().and_then(Zone::load).unwrap_or(Zone::Utc)
}

fn date_in_zone<C: Env>(env: &mut C, args: &[Value]) -> Out {
    Ok(Value::string(
        instant(env, "dateInZone", args.any(1))?
            .within(zone(args.text(2)?))
            .format(args.text(0)?),
    ))
}

fn ago<C: Env>(env: &mut C, args: &[Value]) -> Out {
    let then = instant(env, "ago", args.any(0))?;
    let since = now(env, "ago")?.since(&then);
    Ok(Value::string(duration_text(round_duration(since, SECOND))))
}

fn time(args: &[Value], index: usize) -> Result<Time, CallError> {
    Time::of(args.any(index)).ok_or_else(|| CallError::from("expected an argument of type time.Time"))
}

/// A bad duration changes nothing, without a word.
fn date_modify(args: &[Value]) -> Out {
    let time = time(args, 1)?;
    Ok(time.add(parse_duration(args.text(0)?).unwrap_or(0)).into_value())
}

fn must_date_modify(args: &[Value]) -> Out {
    let time = time(args, 1)?;
    Ok(time.add(parse_duration(args.text(0)?)?).into_value())
}

/// Seconds, of a string or an int64 only, as a duration's text.
fn duration(args: &[Value]) -> Out {
    let seconds = match args.any(0) {
        Value::String(text) => match parse_int(text.as_bytes(), 10, 64) {
            Ok(n) | Err(IntegerError::Range(n)) => n,
            Err(IntegerError::Syntax) => 0,
        },
        Value::Int64(n) => *n,
        _ => 0,
    };
    Ok(Value::string(duration_text(seconds.wrapping_mul(SECOND))))
}

/// The largest unit of a duration that fits more than once, such as `2h` or `3mo`.
fn duration_round<C: Env>(env: &mut C, args: &[Value]) -> Out {
    let nanoseconds = match args.any(0) {
        Value::String(text) => parse_duration(text.as_bytes()).unwrap_or(0),
        Value::Int64(n) => *n,
        other => match Time::of(other) {
            Some(then) => now(env, "durationRound")?.since(&then),
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
    Ok(Value::string(fitting.map_or_else(
        || "0s".to_owned(),
        |(unit, name)| format!("{}{name}", seconds / unit),
    )))
}

/// What can't be read is Go's zero time.
fn to_date(args: &[Value]) -> Out {
    Ok(time_parse::parse(args.text(0)?, args.text(1)?, &Zone::Local)
        .unwrap_or_else(|_| Time::zero())
        .into_value())
}

fn must_to_date(args: &[Value]) -> Out {
    Ok(time_parse::parse(args.text(0)?, args.text(1)?, &Zone::Local)?.into_value())
}
