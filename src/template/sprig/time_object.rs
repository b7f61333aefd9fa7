//! What templates see of a [`Time`]: the methods of Go's `time.Time`, `time.Location`, `time.Month` and `time.Weekday`.

use std::any::Any;
use std::rc::Rc;

use super::args::NIL_POINTER;
use super::duration::{as_duration, duration_value};
use super::text::raw_bytes;
use super::time::{MONTHS, RFC3339, Time, WEEKDAYS, ZERO_SECONDS, Zone};
use super::toml_time;
use crate::template::go::func::Param;
use crate::template::go::quote::quote_go;
use crate::template::go::room::Room;
use crate::template::go::value::{Field, List, ListKind, Object, Value};

/// A value of the type `time.Time`.
pub(super) fn value(time: Time) -> Value {
    Value::Object(Rc::new(TimeObject(time)))
}

/// The time of a value that [`value`] made.
pub(super) fn time(value: &Value) -> Option<&Time> {
    match value {
        Value::Object(object) => object.as_any().downcast_ref::<TimeObject>().map(|time| &time.0),
        _ => None,
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

/// Text behind that of the bytes that are the first argument.
fn appended(args: &[Value], text: &[u8]) -> Value {
    let mut bytes = match args.first() {
        Some(Value::List(list)) => raw_bytes(list.items()),
        _ => Vec::new(),
    };
    bytes.extend_from_slice(text);
    Value::bytes(&bytes)
}

/// Bytes that Go has written to a `[]byte` of that capacity.
fn marshalled(bytes: &[u8], capacity: usize) -> Value {
    let bytes = bytes.iter().map(|byte| Value::Uint8(*byte)).collect();
    Value::List(List::with_room(ListKind::Bytes, bytes, Room::Of(capacity)))
}

impl TimeObject {
    /// `Time.appendStrictRFC3339`. An error is the text of Go's, behind a prefix.
    fn strict(&self, prefix: &str) -> Result<String, String> {
        let civil = self.0.civil();
        if !(0..=9999).contains(&civil.year) {
            return Err(format!("{prefix}year outside of range [0,9999]"));
        }
        if civil.offset.abs() >= 24 * 3600 {
            return Err(format!("{prefix}timezone hour outside of range [0,23]"));
        }
        Ok(self.0.text(RFC3339))
    }

    /// `Time.MarshalBinary`: a version, seconds since the year 1, nanoseconds, the offset in minutes.
    fn binary(&self) -> Vec<u8> {
        let time = &self.0;
        let offset = match time.zone {
            Zone::Utc => -60,
            _ => time.civil().offset,
        };
        let (minutes, seconds) = (offset / 60, offset % 60);
        let mut out = vec![if seconds == 0 { 1 } else { 2 }];
        out.extend_from_slice(&time.unix_seconds().wrapping_sub(ZERO_SECONDS).to_be_bytes());
        out.extend_from_slice(&time.civil().nanosecond.to_be_bytes());
        out.extend_from_slice(&(minutes as i16).to_be_bytes());
        if seconds != 0 {
            out.push(seconds as u8);
        }
        out
    }

    /// The methods that take another time.
    fn with_time(&self, method: &str, args: &[Value]) -> Result<Value, String> {
        let time = &self.0;
        let other = args.first().and_then(self::time).ok_or(NIL_POINTER)?;
        Ok(match method {
            "Sub" => duration_value(time.since(other)),
            "Before" => Value::Bool(time.at < other.at),
            "After" => Value::Bool(time.at > other.at),
            "Equal" => Value::Bool(time.at == other.at),
            _ => Value::Int(time.at.cmp(&other.at) as i64),
        })
    }

    fn add_date(&self, args: &[Value]) -> Result<Value, String> {
        let date = self.0.add_date(int(args, 0), int(args, 1), int(args, 2));
        date.map(value).ok_or_else(|| "the date is too far away".to_owned())
    }

    /// `Time.In`
    fn within(&self, args: &[Value]) -> Result<Value, String> {
        let location = match args.first() {
            Some(Value::Object(object)) => object.as_any().downcast_ref::<Location>(),
            _ => None,
        };
        let location = location.ok_or("time: missing Location in call to Time.In")?;
        Ok(value(self.0.within(location.0.clone())))
    }
}

impl Object for TimeObject {
    fn type_name(&self) -> &'static str {
        "time.Time"
    }

    fn kind(&self) -> &'static str {
        "struct"
    }

    fn field(&self, _name: &str) -> Option<Value> {
        None
    }

    fn has_unexported(&self, name: &str) -> bool {
        matches!(name, "wall" | "ext" | "loc")
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        Some(match method {
            "Unix" | "UnixMilli" | "UnixMicro" | "UnixNano" | "Year" | "Month" | "Day" | "Hour" | "Minute"
            | "Second" | "Nanosecond" | "YearDay" | "Weekday" | "UTC" | "Local" | "Location" | "IsZero" | "IsDST"
            | "String" | "GoString" | "MarshalText" | "MarshalJSON" | "MarshalBinary" | "GobEncode" | "Date"
            | "Clock" | "ISOWeek" | "Zone" | "ZoneBounds" => &[],
            "Add" | "Truncate" | "Round" => &[Param::NamedInt("time.Duration")],
            "AddDate" => &[Param::Int, Param::Int, Param::Int],
            "Format" => &[Param::String],
            "AppendFormat" => &[Param::Named("[]uint8"), Param::String],
            "AppendText" | "AppendBinary" => &[Param::Named("[]uint8")],
            "In" => &[Param::Named("*time.Location")],
            "Sub" | "Before" | "After" | "Equal" | "Compare" => &[Param::Named("time.Time")],
            _ => return None,
        })
    }

    fn bad_signature(&self, method: &str) -> Option<String> {
        let second = match method {
            "Date" | "Clock" => {
                return Some(format!("function {method} has 3 return values; should be 1 or 2"));
            }
            "ISOWeek" | "Zone" => "int",
            "ZoneBounds" => "time.Time",
            _ => return None,
        };
        Some(format!(
            "invalid function signature for {method}: second return value should be error; is {second}"
        ))
    }

    fn call(&self, method: &str, args: &[Value]) -> Option<Result<Value, String>> {
        let time = &self.0;
        let civil = || time.civil();
        Some(Ok(match method {
            "Unix" => Value::Int64(time.unix_seconds()),
            "UnixMilli" => Value::Int64(time.at.div_euclid(1_000_000) as i64),
            "UnixMicro" => Value::Int64(time.at.div_euclid(1_000) as i64),
            "UnixNano" => Value::Int64(time.at as i64),
            "Year" => Value::Int(civil().year),
            "Month" => named("time.Month", &MONTHS, i64::from(civil().month), 1),
            "Day" => Value::Int(i64::from(civil().day)),
            "Hour" => Value::Int(i64::from(civil().hour)),
            "Minute" => Value::Int(i64::from(civil().minute)),
            "Second" => Value::Int(i64::from(civil().second)),
            "Nanosecond" => Value::Int(i64::from(civil().nanosecond)),
            "YearDay" => Value::Int(i64::from(civil().year_day)),
            "Weekday" => named("time.Weekday", &WEEKDAYS, i64::from(civil().weekday), 0),
            "UTC" => value(time.within(Zone::Utc)),
            "Local" => value(time.within(Zone::Local)),
            "Location" => Value::Object(Rc::new(Location(time.zone.clone()))),
            "IsZero" => Value::Bool(time.at == Time::zero().at),
            "IsDST" => Value::Bool(time.zone.is_dst(time.at)),
            "String" => Value::string(time.shown()),
            "GoString" => Value::string(self.go_string()?),
            "Format" => Value::string(time.format(text(args.first()))),
            "AppendFormat" => appended(args, &time.format(text(args.get(1)))),
            "AppendText" => {
                let strict = self.strict("Time.AppendText: ");
                return Some(strict.map(|text| appended(args, text.as_bytes())));
            }
            "MarshalText" => {
                let strict = self.strict("Time.MarshalText: ");
                return Some(strict.map(|text| marshalled(text.as_bytes(), 35)));
            }
            "MarshalJSON" => {
                let strict = self.strict("Time.MarshalJSON: ");
                return Some(strict.map(|text| marshalled(format!("\"{text}\"").as_bytes(), 37)));
            }
            "AppendBinary" => appended(args, &self.binary()),
            "MarshalBinary" | "GobEncode" => marshalled(&self.binary(), 16),
            "Truncate" | "Round" => value(time.to_multiple(int(args, 0), method == "Round")),
            "Add" => value(time.add(int(args, 0))),
            "AddDate" => return Some(self.add_date(args)),
            "In" => return Some(self.within(args)),
            "Sub" | "Before" | "After" | "Equal" | "Compare" => return Some(self.with_time(method, args)),
            _ => return None,
        }))
    }

    fn bare(&self) -> Option<String> {
        Some(self.0.text(toml_time::layout(&self.0.zone)))
    }

    fn go_string(&self) -> Option<String> {
        let civil = self.0.civil();
        let month = MONTHS
            .get(usize::from(civil.month).saturating_sub(1))
            .copied()
            .unwrap_or_default();
        let location = match self.0.zone {
            Zone::Utc => "time.UTC".to_owned(),
            Zone::Local => "time.Local".to_owned(),
            _ => format!("time.Location({})", quote_go(self.0.zone.name())),
        };
        Some(format!(
            "time.Date({}, time.{month}, {}, {}, {}, {}, {}, {location})",
            civil.year, civil.day, civil.hour, civil.minute, civil.second, civil.nanosecond
        ))
    }

    fn display(&self) -> String {
        self.0.shown()
    }

    fn to_json(&self) -> Result<serde_json::Value, String> {
        let text = self.strict("json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: ")?;
        Ok(text.into())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A `*time.Location`.
struct Location(Zone);

impl Object for Location {
    fn type_name(&self) -> &'static str {
        "*time.Location"
    }

    fn kind(&self) -> &'static str {
        "ptr"
    }

    fn field(&self, _name: &str) -> Option<Value> {
        None
    }

    fn has_unexported(&self, name: &str) -> bool {
        let fields = ["name", "zone", "tx", "extend", "cacheStart", "cacheEnd", "cacheZone"];
        fields.contains(&name)
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        (method == "String").then_some(&[])
    }

    fn call(&self, method: &str, _args: &[Value]) -> Option<Result<Value, String>> {
        (method == "String").then(|| Ok(Value::string(self.0.name())))
    }

    fn display(&self) -> String {
        self.0.name()
    }

    fn to_json(&self) -> Result<serde_json::Value, String> {
        Ok(serde_json::Value::Object(serde_json::Map::new()))
    }

    fn json_fields(&self) -> Option<Vec<Field>> {
        Some(Vec::new())
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

    fn field(&self, _name: &str) -> Option<Value> {
        None
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
