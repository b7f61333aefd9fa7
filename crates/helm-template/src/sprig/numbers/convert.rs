//! Conversions between numbers and text, by the rules of spf13/cast v1.7.0: what doesn't convert is zero.

use crate::sprig::text;
use go_template::func::{Args, Argument, Func, Meter, Param, Signature};
use go_template::integer::{IntegerError, parse_int, underscores_fit};
use go_template::value::{ListKind, Value};

pub(crate) fn table<C: crate::sprig::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("int", |n: WholeNumber| Value::Int(n.0)),
        Func::new("int64", |n: WholeNumber| Value::Int64(n.0)),
        Func::new("float64", |n: Fraction| n.0),
        // Reads the value's text as an octal number, for file modes.
        Func::new("toDecimal", |meter: &Meter, value: &Value| {
            Value::Int64(parse_int(&text::display(meter, value), 8, 64).unwrap_or(0))
        }),
        Func::new("atoi", |text: &[u8]| Value::Int(clamped(text))),
        Func::new("toString", text::to_str),
        Func::new("toStrings", |meter: &Meter, value: &Value| match value {
            Value::List(list) if list.kind == ListKind::String => value.clone(),
            other => text::string_list(meter, text::strslice(meter, other)),
        }),
    ]
}

/// An argument of any type as [`to_int64`] converts it.
#[derive(Clone, Copy)]
pub(crate) struct WholeNumber(pub(crate) i64);

/// An argument of any type as [`to_float64`] converts it.
#[derive(Clone, Copy)]
pub(crate) struct Fraction(pub(crate) f64);

impl Argument<'_> for WholeNumber {
    type Output = WholeNumber;

    fn declare(signature: &mut Signature) {
        signature.param(Param::Any);
    }

    fn take(args: &mut Args<'_>) -> Option<WholeNumber> {
        Some(WholeNumber(to_int64(args.next()?)))
    }
}

impl Argument<'_> for Fraction {
    type Output = Fraction;

    fn declare(signature: &mut Signature) {
        signature.param(Param::Any);
    }

    fn take(args: &mut Args<'_>) -> Option<Fraction> {
        Some(Fraction(to_float64(args.next()?)))
    }
}

/// `strconv.Atoi` without its error: the nearest number, and 0 for what is none.
pub(crate) fn clamped(text: &[u8]) -> i64 {
    match parse_int(text, 10, 64) {
        Ok(n) | Err(IntegerError::Range(n)) => n,
        Err(IntegerError::Syntax) => 0,
    }
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
    let shown = std::str::from_utf8(text).ok()?;
    if shown.contains('_') && !underscores_fit(text) {
        return None;
    }
    let number: f64 = shown.replace('_', "").parse().ok()?;
    let is_word = shown.contains(['n', 'N']);
    (number.is_finite() || is_word).then_some(number)
}
