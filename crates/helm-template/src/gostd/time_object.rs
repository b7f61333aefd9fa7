//! What templates see of a [`Time`]: methods of Go's `time.Time`, `time.Month` and `time.Weekday`.

use std::any::Any;
use std::rc::Rc;

use super::NIL_POINTER;
use super::duration::{as_duration, duration_value};
use super::time::{MONTHS, RFC3339, Time, WEEKDAYS, Zone};
use super::time_parse;
use go_template::func::{Args, Argument, Param, Signature};
use go_template::value::{Object, Value};

/// A value of the type `time.Time`.
pub(crate) fn value(time: Time) -> Value {
    Value::Object(Rc::new(TimeObject(time)))
}

/// The time of a value that [`value`] made.
pub(crate) fn time(value: &Value) -> Option<&Time> {
    match value {
        Value::Object(object) => object.as_any().downcast_ref::<TimeObject>().map(|time| &time.0),
        _ => None,
    }
}

impl<'a> Argument<'a> for &Time {
    type Output = &'a Time;

    fn declare(signature: &mut Signature) {
        signature.param(Param::Named("time.Time"));
    }

    fn take(args: &mut Args<'a>) -> Option<&'a Time> {
        time(args.next()?)
    }
}

struct TimeObject(Time);

/// The integer that is the argument of that index.
fn int(args: &[Value], index: usize) -> i64 {
    match args.get(index) {
        Some(Value::Int(n) | Value::Int64(n)) => *n,
        Some(value) => as_duration(value).unwrap_or(0),
        None => 0,
    }
}

fn text(value: Option<&Value>) -> &[u8] {
    match value {
        Some(Value::String(text)) => text.as_bytes(),
        _ => &[],
    }
}

impl TimeObject {
    /// The methods that take another time.
    fn with_time(&self, method: &str, args: &[Value]) -> Result<Value, String> {
        let time = &self.0;
        let other = args.first().and_then(self::time).ok_or(NIL_POINTER)?;
        Ok(match method {
            "Sub" => duration_value(time.since(other)),
            "Before" => Value::Bool(time.at < other.at),
            "After" => Value::Bool(time.at > other.at),
            _ => Value::Bool(time.at == other.at),
        })
    }

    fn add_date(&self, args: &[Value]) -> Result<Value, String> {
        let date = self.0.add_date(int(args, 0), int(args, 1), int(args, 2));
        date.map(value).ok_or_else(|| "the date is too far away".to_owned())
    }
}

impl Object for TimeObject {
    fn type_name(&self) -> &'static str {
        "time.Time"
    }

    fn kind(&self) -> &'static str {
        "struct"
    }

    fn has_unexported(&self, name: &str) -> bool {
        matches!(name, "wall" | "ext" | "loc")
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        Some(match method {
            "Unix" | "UnixMilli" | "UnixNano" | "Year" | "Month" | "Day" | "Hour" | "Minute" | "Second"
            | "Nanosecond" | "YearDay" | "Weekday" | "UTC" | "Local" | "IsZero" | "String" => &[],
            "Add" => &[Param::NamedInt("time.Duration")],
            "AddDate" => &[Param::Int, Param::Int, Param::Int],
            "Format" => &[Param::String],
            "Sub" | "Before" | "After" | "Equal" => &[Param::Named("time.Time")],
            _ => return None,
        })
    }

    fn call(&self, method: &str, args: &[Value]) -> Option<Result<Value, String>> {
        let time = &self.0;
        let clock = || time.civil().clock;
        Some(Ok(match method {
            "Unix" => Value::Int64(time.unix_seconds()),
            "UnixMilli" => Value::Int64(time.at.div_euclid(1_000_000) as i64),
            "UnixNano" => Value::Int64(time.at as i64),
            "Year" => Value::Int(clock().year().into()),
            "Month" => named("time.Month", &MONTHS, i64::from(clock().month()), 1),
            "Day" => Value::Int(i64::from(clock().day())),
            "Hour" => Value::Int(i64::from(clock().hour())),
            "Minute" => Value::Int(i64::from(clock().minute())),
            "Second" => Value::Int(i64::from(clock().second())),
            "Nanosecond" => Value::Int(i64::from(clock().subsec_nanosecond())),
            "YearDay" => Value::Int(i64::from(clock().day_of_year())),
            "Weekday" => named(
                "time.Weekday",
                &WEEKDAYS,
                i64::from(clock().weekday().to_sunday_zero_offset()),
                0,
            ),
            "UTC" => value(time.within(Zone::Utc)),
            "Local" => value(time.within(Zone::Local)),
            "IsZero" => Value::Bool(time.at == Time::zero().at),
            "String" => Value::string(time.shown()),
            "Format" => Value::string(time.format(text(args.first()))),
            "Add" => value(time.add(int(args, 0))),
            "AddDate" => return Some(self.add_date(args)),
            "Sub" | "Before" | "After" | "Equal" => return Some(self.with_time(method, args)),
            _ => return None,
        }))
    }

    fn bare(&self) -> Option<String> {
        Some(self.0.text(time_parse::toml_layout(&self.0.zone)))
    }

    fn display(&self) -> String {
        self.0.shown()
    }

    fn to_json(&self) -> Result<serde_json::Value, String> {
        Ok(self.0.text(RFC3339).into())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A `time.Month` or `time.Weekday`: a number with a name.
#[derive(Clone, Copy)]
struct Named {
    type_name: &'static str,
    number: i64,
    /// Those of the numbers from `first` on.
    names: &'static [&'static str],
    first: i64,
}

fn named(type_name: &'static str, names: &'static [&'static str], number: i64, first: i64) -> Value {
    Value::Object(Rc::new(Named {
        type_name,
        number,
        names,
        first,
    }))
}

impl Object for Named {
    fn type_name(&self) -> &'static str {
        self.type_name
    }

    fn kind(&self) -> &'static str {
        "int"
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        (method == "String").then_some(&[])
    }

    fn call(&self, method: &str, _args: &[Value]) -> Option<Result<Value, String>> {
        (method == "String").then(|| Ok(Value::string(self.display())))
    }

    fn as_int(&self) -> Option<i64> {
        Some(self.number)
    }

    fn with_int(&self, number: i64) -> Option<Value> {
        Some(Value::Object(Rc::new(Named { number, ..*self })))
    }

    fn display(&self) -> String {
        let index = usize::try_from(self.number - self.first).ok();
        match index.and_then(|index| self.names.get(index)) {
            Some(name) => (*name).to_owned(),
            None => format!("%!{}({})", self.type_name.trim_start_matches("time."), self.number),
        }
    }

    fn to_json(&self) -> Result<serde_json::Value, String> {
        Ok(self.number.into())
    }

    fn truth(&self) -> bool {
        self.number != 0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
