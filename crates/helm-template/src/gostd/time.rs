//! Go's `time.Time`, over jiff, as templates see it.

use std::any::Any;
use std::rc::Rc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, Zoned};

use super::NIL_POINTER;
use super::duration::{as_duration, duration_value};
use super::time_layout;
use go_template::func::{Args, Argument, Param, Signature};
use go_template::value::{Object, Value};

/// Go's layout for `Time.String`.
const STRING_LAYOUT: &str = "2006-01-02 15:04:05.999999999 -0700 MST";
pub(crate) const RFC3339: &str = "2006-01-02T15:04:05.999999999Z07:00";
/// Go's zero time, the first of January of the year 1, in seconds since 1970.
const ZERO_SECONDS: i64 = -62_135_596_800;

const TOO_FAR: &str = "the date is too far away";

#[derive(Clone, Debug)]
pub(crate) struct Time {
    pub(crate) at: Zoned,
    /// The reading of the monotonic clock in nanoseconds, which Go prints; only the clock's own times have one.
    pub(crate) mono: Option<i64>,
}

/// The machine's zone; without one it is UTC.
pub(crate) fn local_zone() -> TimeZone {
    Some(TimeZone::system())
        .filter(|zone| !zone.is_unknown())
        .unwrap_or(TimeZone::UTC)
}

/// `time.LoadLocation`; an unknown name is UTC.
pub(crate) fn zone(name: &str) -> TimeZone {
    match name {
        "Local" => local_zone(),
        // Letter case counts; jiff ignores it.
        name => TimeZone::get(name)
            .ok()
            .filter(|zone| zone.iana_name() == Some(name))
            .unwrap_or(TimeZone::UTC),
    }
}

impl From<Zoned> for Time {
    fn from(at: Zoned) -> Self {
        Time { at, mono: None }
    }
}

impl Time {
    pub(crate) fn zero() -> Self {
        Time::from(
            Timestamp::from_second(ZERO_SECONDS)
                .unwrap_or_default()
                .to_zoned(TimeZone::UTC),
        )
    }

    /// `time.Unix(seconds, 0)`. Fails beyond jiff's years, from -9999 to 9999, as do the others.
    pub(crate) fn unix(seconds: i64) -> Result<Self, String> {
        let at = Timestamp::from_second(seconds).map_err(|_| TOO_FAR)?;
        Ok(Time::from(at.to_zoned(local_zone())))
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(Rc::new(self))
    }

    pub(crate) fn of(value: &Value) -> Option<&Self> {
        match value {
            Value::Object(object) => object.as_any().downcast_ref(),
            _ => None,
        }
    }

    pub(crate) fn add(&self, nanoseconds: i64) -> Result<Self, String> {
        let at = self.at.checked_add(SignedDuration::from_nanos(nanoseconds));
        Ok(Time {
            at: at.map_err(|_| TOO_FAR)?,
            mono: self.mono.map(|mono| mono.saturating_add(nanoseconds)),
        })
    }

    /// Nanoseconds from `other` to this, as far as an int64 reaches.
    pub(crate) fn since(&self, other: &Time) -> i64 {
        let between = self.at.duration_since(&other.at).as_nanos();
        i64::try_from(between).unwrap_or(if between < 0 { i64::MIN } else { i64::MAX })
    }

    pub(crate) fn unix_seconds(&self) -> i64 {
        self.at.timestamp().as_nanosecond().div_euclid(1_000_000_000) as i64
    }

    pub(crate) fn within(&self, zone: TimeZone) -> Self {
        Time::from(self.at.with_time_zone(zone))
    }

    pub(crate) fn format(&self, layout: &[u8]) -> String {
        time_layout::format(&self.at, &String::from_utf8_lossy(layout))
    }

    /// `Time.AddDate`: days beyond a month's end run into the next.
    fn add_date(&self, years: i64, months: i64, days: i64) -> Option<Self> {
        let (clock, zone) = (self.at.datetime(), self.at.time_zone());
        let months = i64::from(clock.month()) - 1 + months;
        let year = i64::from(clock.year())
            .checked_add(years)?
            .checked_add(months.div_euclid(12))?;
        let first = Date::new(i16::try_from(year).ok()?, months.rem_euclid(12) as i8 + 1, 1).ok()?;
        let days = Span::new()
            .try_days(days.checked_add(i64::from(clock.day()) - 1)?)
            .ok()?;
        let date = first.checked_add(days).ok()?;
        date.to_datetime(clock.time())
            .to_zoned(zone.clone())
            .ok()
            .map(Time::from)
    }

    /// The methods that take another time.
    fn with_time(&self, method: &str, args: &[Value]) -> Result<Value, String> {
        let other = args.first().and_then(Time::of).ok_or(NIL_POINTER)?;
        Ok(match method {
            "Sub" => duration_value(self.since(other)),
            "Before" => Value::Bool(self.at < other.at),
            "After" => Value::Bool(self.at > other.at),
            _ => Value::Bool(self.at == other.at),
        })
    }
}

impl<'a> Argument<'a> for &Time {
    type Output = &'a Time;

    fn declare(signature: &mut Signature) {
        signature.param(Param::Named("time.Time"));
    }

    fn take(args: &mut Args<'a>) -> Option<&'a Time> {
        Time::of(args.next()?)
    }
}

/// The integer that is the argument of that index.
fn int(args: &[Value], index: usize) -> i64 {
    match args.get(index) {
        Some(Value::Int(n) | Value::Int64(n)) => *n,
        Some(value) => as_duration(value).unwrap_or(0),
        None => 0,
    }
}

impl Object for Time {
    fn type_name(&self) -> &'static str {
        "time.Time"
    }

    fn kind(&self) -> &'static str {
        "struct"
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
        let (time, at) = (self, &self.at);
        let named = |type_name, layout, number: i8| {
            Value::Object(Rc::new(NamedNumber {
                type_name,
                name: time_layout::format(at, layout),
                number: number.into(),
            }))
        };
        Some(Ok(match method {
            "Unix" => Value::Int64(time.unix_seconds()),
            "UnixMilli" => Value::Int64(at.timestamp().as_nanosecond().div_euclid(1_000_000) as i64),
            "UnixNano" => Value::Int64(at.timestamp().as_nanosecond() as i64),
            "Year" => Value::Int(at.year().into()),
            "Month" => named("time.Month", "January", at.month()),
            "Day" => Value::Int(at.day().into()),
            "Hour" => Value::Int(at.hour().into()),
            "Minute" => Value::Int(at.minute().into()),
            "Second" => Value::Int(at.second().into()),
            "Nanosecond" => Value::Int(at.subsec_nanosecond().into()),
            "YearDay" => Value::Int(at.day_of_year().into()),
            "Weekday" => named("time.Weekday", "Monday", at.weekday().to_sunday_zero_offset()),
            "UTC" => time.within(TimeZone::UTC).into_value(),
            "Local" => time.within(local_zone()).into_value(),
            "IsZero" => Value::Bool(*at == Time::zero().at),
            "String" => Value::string(self.display()),
            "Format" => match args.first() {
                Some(Value::String(layout)) => Value::string(time.format(layout)),
                _ => return None,
            },
            "Add" => return Some(time.add(int(args, 0)).map(Time::into_value)),
            "AddDate" => {
                let date = time.add_date(int(args, 0), int(args, 1), int(args, 2));
                return Some(date.map(Time::into_value).ok_or_else(|| TOO_FAR.to_owned()));
            }
            "Sub" | "Before" | "After" | "Equal" => return Some(time.with_time(method, args)),
            _ => return None,
        }))
    }

    fn bare(&self) -> Option<String> {
        Some(time_layout::format(&self.at, RFC3339))
    }

    fn display(&self) -> String {
        let mut text = time_layout::format(&self.at, STRING_LAYOUT);
        if let Some(mono) = self.mono {
            let (sign, size) = (if mono < 0 { '-' } else { '+' }, mono.unsigned_abs());
            let (seconds, nanoseconds) = (size / 1_000_000_000, size % 1_000_000_000);
            text.push_str(&format!(" m={sign}{seconds}.{nanoseconds:09}"));
        }
        text
    }

    fn to_json(&self) -> Result<serde_json::Value, String> {
        Ok(time_layout::format(&self.at, RFC3339).into())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A `time.Month` or `time.Weekday`: a number with a name.
struct NamedNumber {
    type_name: &'static str,
    name: String,
    number: i64,
}

impl Object for NamedNumber {
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

    fn display(&self) -> String {
        self.name.clone()
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
