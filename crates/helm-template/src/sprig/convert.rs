//! Conversions between numbers and text, by the rules of spf13/cast v1.7.0: what doesn't convert is zero.

use super::args::{Args, Out};
use super::{pure, text};
use go_template::func::Func;
use go_template::integer::{IntegerError, parse_int, underscores_fit};
use go_template::value::{List, ListKind, Value};

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("int", [Any], int),
        pure!("int64", [Any], int64),
        pure!("float64", [Any], float64),
        pure!("toDecimal", [Any], to_decimal),
        pure!("atoi", [String], atoi),
        pure!("toString", [Any], to_string),
        pure!("toStrings", [Any], to_strings),
    ]
}

/// `cast.ToInt64`: floats lose their fraction, strings are read with [`parse_int`] in any base, the rest is 0.
pub fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Bool(b) => i64::from(*b),
        Value::Int(n) | Value::Int64(n) => *n,
        Value::Uint8(n) => i64::from(*n),
        Value::Uint64(n) => n.cast_signed(),
        Value::Float64(n) => float_to_int(*n),
        Value::String(text) => parse_int(without_zero_decimal(text.as_bytes()), 0, 64).unwrap_or(0),
        // cast knows these two named numbers, but not durations.
        Value::Object(object) if matches!(object.type_name(), "time.Month" | "time.Weekday") => {
            object.as_int().unwrap_or(0)
        }
        Value::Nil | Value::List(_) | Value::Map(_) | Value::Object(_) => 0,
    }
}

/// `cast.ToFloat64`.
pub fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Int(n) | Value::Int64(n) => *n as f64,
        Value::Uint8(n) => f64::from(*n),
        Value::Uint64(n) => *n as f64,
        Value::Float64(n) => *n,
        Value::String(text) => parse_float(text.as_bytes()).unwrap_or(0.0),
        Value::Nil | Value::List(_) | Value::Map(_) => 0.0,
        object @ Value::Object(_) => to_int64(object) as f64,
    }
}

/// Go's conversion of a float64 to an int64 as amd64 does it: what doesn't fit, and NaN, is the smallest int64.
pub fn float_to_int(n: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&n) {
        n as i64
    } else {
        i64::MIN
    }
}

/// cast drops a fraction that is all zeros, so that "5.0" is a whole number.
fn without_zero_decimal(text: &[u8]) -> &[u8] {
    let zeros = text.iter().rev().take_while(|b| **b == b'0').count();
    match text.split_at(text.len() - zeros) {
        ([whole @ .., b'.'], _) if zeros > 0 => whole,
        _ => text,
    }
}

/// `strconv.ParseFloat(text, 64)`; out of range is no number, as cast drops the infinity that Go returns.
pub fn parse_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if text.contains('_') {
        let plain: String = text.chars().filter(|c| *c != '_').collect();
        return if underscores_fit(text.as_bytes()) {
            parse_float(plain.as_bytes())
        } else {
            None
        };
    }
    if ["inf", "infinity", "nan"]
        .iter()
        .any(|word| unsigned.eq_ignore_ascii_case(word))
    {
        let signed_nan = unsigned.len() != text.len() && unsigned.eq_ignore_ascii_case("nan");
        return if signed_nan { None } else { text.parse().ok() };
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    text.parse().ok().filter(|n: &f64| n.is_finite())
}

fn int(args: &[Value]) -> Out {
    Ok(Value::Int(to_int64(args.any(0))))
}

fn int64(args: &[Value]) -> Out {
    Ok(Value::Int64(to_int64(args.any(0))))
}

fn float64(args: &[Value]) -> Out {
    Ok(Value::Float64(to_float64(args.any(0))))
}

/// Reads the value's text as an octal number, for file modes.
fn to_decimal(args: &[Value]) -> Out {
    Ok(Value::Int64(parse_int(&text::display(args.any(0)), 8, 64).unwrap_or(0)))
}

fn atoi(args: &[Value]) -> Out {
    Ok(Value::Int(match parse_int(args.text(0)?, 10, 64) {
        Ok(n) | Err(IntegerError::Range(n)) => n,
        Err(IntegerError::Syntax) => 0,
    }))
}

fn to_string(args: &[Value]) -> Out {
    Ok(match args.any(0) {
        text @ Value::String(_) => text.clone(),
        other => Value::string(text::strval(other)),
    })
}

fn to_strings(args: &[Value]) -> Out {
    Ok(match args.any(0) {
        list @ Value::List(List {
            kind: ListKind::String, ..
        }) => list.clone(),
        other => text::string_list(text::strslice(other)),
    })
}
