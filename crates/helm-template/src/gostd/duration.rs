//! Go's `time.Duration`: a number of nanoseconds, its text and its reading.

use std::any::Any;
use std::rc::Rc;

use go_template::func::Param;
use go_template::quote::quote_go;
use go_template::value::{Object, Value};

const SECOND: i64 = 1_000_000_000;

/// A value of Go's type `time.Duration`.
pub fn duration_value(nanoseconds: i64) -> Value {
    Value::Object(Rc::new(DurationObject(nanoseconds)))
}

/// The nanoseconds of a value that [`duration_value`] made.
pub fn as_duration(value: &Value) -> Option<i64> {
    match value {
        Value::Object(object) => object
            .as_any()
            .downcast_ref::<DurationObject>()
            .map(|duration| duration.0),
        _ => None,
    }
}

/// `time.ParseDuration`: nanoseconds. An error is the text of Go's error.
///
/// ```
/// assert_eq!(helm_template::gostd::duration::parse_duration(b"1h30m"), Ok(5_400_000_000_000));
/// ```
pub fn parse_duration(text: &[u8]) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote_go(text));
    let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let mut rest = std::str::from_utf8(unsigned).map_err(|_| invalid())?;
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut total = 0_i128;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(is_number);
        let number = rest.strip_suffix(after).unwrap_or_default();
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits: i128 = format!("{whole}{fraction}").parse().map_err(|_| invalid())?;
        let unit = match unit {
            "" => return Err(format!("time: missing unit in duration {}", quote_go(text))),
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            other => {
                let (unit, text) = (quote_go(other), quote_go(text));
                return Err(format!("time: unknown unit {unit} in duration {text}"));
            }
        };
        let scale = 10_i128.checked_pow(fraction.len() as u32).ok_or_else(invalid)?;
        let part = digits.checked_mul(unit.into()).ok_or_else(invalid)? / scale;
        total = total.checked_add(part).ok_or_else(invalid)?;
        rest = after;
    }
    let signed = if text.starts_with(b"-") { -total } else { total };
    i64::try_from(signed).map_err(|_| invalid())
}

/// `Duration.String`: such as `1h2m3.5s`, `1.5ms` or `0s`.
pub fn duration_text(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    let (unit, name) = match size {
        0 => return "0s".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "\u{b5}s"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let minute = 60 * SECOND.unsigned_abs();
    let (minutes, rest) = (size / minute, size % minute);
    let lead = match (minutes / 60, minutes % 60) {
        (0, 0) => String::new(),
        (0, minutes) => format!("{minutes}m"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    };
    let fraction = format!("{:09}", rest % unit * (1_000_000_000 / unit));
    let number = format!("{}.{fraction}", rest / unit);
    let number = number.trim_end_matches('0').trim_end_matches('.');
    let sign = if nanoseconds < 0 { "-" } else { "" };
    format!("{sign}{lead}{number}{name}")
}

struct DurationObject(i64);

impl Object for DurationObject {
    fn type_name(&self) -> &'static str {
        "time.Duration"
    }

    fn kind(&self) -> &'static str {
        "int64"
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        Some(match method {
            "String" | "Hours" | "Minutes" | "Seconds" | "Milliseconds" | "Microseconds" | "Nanoseconds" | "Abs" => &[],
            "Round" | "Truncate" => &[Param::NamedInt("time.Duration")],
            _ => return None,
        })
    }

    fn call(&self, method: &str, args: &[Value]) -> Option<Result<Value, String>> {
        let unit = || match args.first() {
            Some(Value::Int64(n)) => *n,
            Some(value) => as_duration(value).unwrap_or(0),
            None => 0,
        };
        // Go divides whole units first, so that whole results are exact.
        let units = |unit: i64| (self.0 / unit) as f64 + (self.0 % unit) as f64 / unit as f64;
        Some(Ok(match method {
            "String" => Value::string(duration_text(self.0)),
            "Hours" => Value::Float64(units(3600 * SECOND)),
            "Minutes" => Value::Float64(units(60 * SECOND)),
            "Seconds" => Value::Float64(units(SECOND)),
            "Milliseconds" => Value::Int64(self.0 / 1_000_000),
            "Microseconds" => Value::Int64(self.0 / 1_000),
            "Nanoseconds" => Value::Int64(self.0),
            "Abs" => duration_value(self.0.saturating_abs()),
            "Round" => duration_value(round_duration(self.0, unit())),
            "Truncate" => duration_value(truncate_duration(self.0, unit())),
            _ => return None,
        }))
    }

    fn as_int(&self) -> Option<i64> {
        Some(self.0)
    }

    fn display(&self) -> String {
        duration_text(self.0)
    }

    fn to_json(&self) -> Result<serde_json::Value, String> {
        Ok(self.0.into())
    }

    fn truth(&self) -> bool {
        self.0 != 0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `Duration.Truncate`: toward zero to a multiple of `unit`; a unit that isn't positive changes nothing.
pub fn truncate_duration(nanoseconds: i64, unit: i64) -> i64 {
    match unit {
        1.. => nanoseconds - nanoseconds % unit,
        _ => nanoseconds,
    }
}

/// `Duration.Round`: to the nearest multiple of `unit`, halves away from zero, saturating.
pub fn round_duration(nanoseconds: i64, unit: i64) -> i64 {
    if unit <= 0 {
        return nanoseconds;
    }
    let (exact, unit) = (i128::from(nanoseconds), i128::from(unit));
    let rounded = (exact.abs() + unit / 2) / unit * unit * exact.signum();
    i64::try_from(rounded).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}
