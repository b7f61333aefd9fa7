//! Go's `time.Duration`: a number of nanoseconds, its text and its reading.

use std::any::Any;
use std::rc::Rc;

use go_template::func::Param;
use go_template::value::{Object, Value};

const SECOND: u64 = 1_000_000_000;

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

/// Text in quotes as package `time` writes it into errors: what isn't printable ASCII as `\x..` bytes.
pub fn quote_ascii(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            b' '..=0x7f => out.push(char::from(*byte)),
            byte => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

/// `time.ParseDuration`: nanoseconds. An error is the text of Go's error.
pub fn parse_duration(text: &[u8]) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote_ascii(text));
    let (negative, mut rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if rest == b"0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let limit = i64::MIN.unsigned_abs();
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let count = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
        let (whole, after) = rest.split_at(count(rest));
        let whole_value = whole
            .iter()
            .try_fold(0u64, |n, b| n.checked_mul(10)?.checked_add(u64::from(b - b'0')))
            .filter(|n| *n <= limit)
            .ok_or_else(invalid)?;
        let (fraction, after) = match after {
            [b'.', tail @ ..] => tail.split_at(count(tail)),
            tail => (&[][..], tail),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_len = after.iter().take_while(|b| **b != b'.' && !b.is_ascii_digit()).count();
        let (unit, after) = after.split_at(unit_len);
        let nanoseconds = match unit {
            b"" => return Err(format!("time: missing unit in duration {}", quote_ascii(text))),
            b"ns" => 1,
            b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => 1_000,
            b"ms" => 1_000_000,
            b"s" => SECOND,
            b"m" => 60 * SECOND,
            b"h" => 3600 * SECOND,
            other => {
                let quoted = (quote_ascii(other), quote_ascii(text));
                return Err(format!("time: unknown unit {} in duration {}", quoted.0, quoted.1));
            }
        };
        if whole_value > limit / nanoseconds {
            return Err(invalid());
        }
        let (mut part, mut scale) = (0u64, 1f64);
        for digit in fraction {
            // Digits beyond what 63 bits hold don't count, as in Go.
            let Some(next) = part
                .checked_mul(10)
                .and_then(|n| n.checked_add(u64::from(digit - b'0')))
            else {
                break;
            };
            if next > limit {
                break;
            }
            part = next;
            scale *= 10.0;
        }
        let value = whole_value * nanoseconds + (part as f64 * (nanoseconds as f64 / scale)) as u64;
        total = total
            .checked_add(value)
            .filter(|total| *total <= limit && value <= limit)
            .ok_or_else(invalid)?;
        rest = after;
    }
    if negative {
        Ok(0i64.wrapping_sub_unsigned(total))
    } else {
        i64::try_from(total).map_err(|_| invalid())
    }
}

/// `Duration.String`: such as `1h2m3.5s`, `1.5ms` or `0s`.
pub fn duration_text(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let with_fraction = |value: u64, unit: u64, name: &str| {
        let digits = unit.to_string().len() - 1;
        let fraction = format!("{:0digits$}", value % unit);
        let fraction = fraction.trim_end_matches('0');
        let dot = if fraction.is_empty() || unit == 1 {
            String::new()
        } else {
            format!(".{fraction}")
        };
        format!("{}{dot}{name}", value / unit)
    };
    let text = match size {
        0 => return "0s".to_owned(),
        1..1_000 => format!("{size}ns"),
        1_000..1_000_000 => with_fraction(size, 1_000, "µs"),
        1_000_000..SECOND => with_fraction(size, 1_000_000, "ms"),
        _ => {
            let minutes = size / (60 * SECOND);
            let seconds = with_fraction(size % (60 * SECOND), SECOND, "s");
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
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
        let second = SECOND.cast_signed();
        Some(Ok(match method {
            "String" => Value::string(duration_text(self.0)),
            "Hours" => Value::Float64(units(3600 * second)),
            "Minutes" => Value::Float64(units(60 * second)),
            "Seconds" => Value::Float64(units(second)),
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

    fn with_int(&self, n: i64) -> Option<Value> {
        Some(duration_value(n))
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
    if unit <= 0 {
        nanoseconds
    } else {
        nanoseconds - nanoseconds % unit
    }
}

/// `Duration.Round`: to the nearest multiple of `unit`, halves away from zero, saturating.
pub fn round_duration(nanoseconds: i64, unit: i64) -> i64 {
    if unit <= 0 {
        return nanoseconds;
    }
    let rest = i128::from(nanoseconds % unit);
    let base = i128::from(nanoseconds) - rest;
    let unit = i128::from(unit);
    let rounded = if rest.abs() * 2 < unit {
        base
    } else {
        base + unit * rest.signum()
    };
    i64::try_from(rounded).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}
