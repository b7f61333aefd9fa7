//! Fractions: decimal arithmetic for `addf` and its kin, float64 for rounding and comparing.

use super::args::{Args, Out};
use super::convert::to_float64;
use super::decimal::Decimal;
use super::pure;
use go_template::func::Func;
use go_template::value::Value;

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("add1f", [Any], add1f),
        pure!("addf", [], Any.., addf),
        pure!("subf", [Any], Any.., subf),
        pure!("mulf", [Any], Any.., mulf),
        pure!("divf", [Any], Any.., divf),
        pure!("maxf", [Any], Any.., maxf),
        pure!("minf", [Any], Any.., minf),
        pure!("floor", [Any], floor),
        pure!("ceil", [Any], ceil),
        pure!("round", [Any, Int], Float64.., round),
    ]
}

/// `rough` is for what has too many digits.
fn fold(first: f64, rest: &[Value], exact: fn(Decimal, Decimal) -> Option<Decimal>, rough: fn(f64, f64) -> f64) -> Out {
    let mut result = Decimal::from_float(first)?;
    for operand in rest {
        let operand = Decimal::from_float(to_float64(operand))?;
        result = match exact(result, operand) {
            Some(result) => result,
            None => Decimal::from_float(rough(result.to_float(), operand.to_float()))?,
        };
    }
    Ok(Value::Float64(result.to_float()))
}

fn add1f(args: &[Value]) -> Out {
    fold(to_float64(args.any(0)), &[Value::Int(1)], Decimal::add, |a, b| a + b)
}

fn addf(args: &[Value]) -> Out {
    fold(0.0, args, Decimal::add, |a, b| a + b)
}

fn subf(args: &[Value]) -> Out {
    fold(to_float64(args.any(0)), args.rest(1), Decimal::sub, |a, b| a - b)
}

fn mulf(args: &[Value]) -> Out {
    fold(to_float64(args.any(0)), args.rest(1), Decimal::mul, |a, b| a * b)
}

fn divf(args: &[Value]) -> Out {
    let is_zero = |value: &Value| Decimal::from_float(to_float64(value)).is_ok_and(Decimal::is_zero);
    if args.rest(1).iter().any(is_zero) {
        return Err("decimal division by 0".into());
    }
    fold(to_float64(args.any(0)), args.rest(1), Decimal::div, |a, b| a / b)
}

/// `math.Max`: an infinity beats NaN, NaN beats a number, 0 beats -0.
fn larger(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { b } else { a }
    } else {
        a.max(b)
    }
}

fn maxf(args: &[Value]) -> Out {
    let first = to_float64(args.any(0));
    Ok(Value::Float64(args.rest(1).iter().map(to_float64).fold(first, larger)))
}

fn minf(args: &[Value]) -> Out {
    let first = to_float64(args.any(0));
    Ok(Value::Float64(
        args.rest(1).iter().map(to_float64).fold(first, |a, b| -larger(-a, -b)),
    ))
}

fn floor(args: &[Value]) -> Out {
    Ok(Value::Float64(to_float64(args.any(0)).floor()))
}

fn ceil(args: &[Value]) -> Out {
    Ok(Value::Float64(to_float64(args.any(0)).ceil()))
}

/// 10 to a whole power, by the steps of Go's `math.Pow`, whose last bit `round` shows.
fn ten_to(places: i64) -> f64 {
    if places.unsigned_abs() > 400 {
        return if places > 0 { f64::INFINITY } else { 0.0 };
    }
    let (mut mantissa, mut exponent) = (1.0f64, 0i32);
    // 10 as Frexp returns it: 0.625 * 2^4.
    let (mut square, mut square_exponent) = (0.625f64, 4i32);
    let mut left = places.unsigned_abs();
    while left != 0 {
        if left & 1 == 1 {
            mantissa *= square;
            exponent += square_exponent;
        }
        square *= square;
        square_exponent <<= 1;
        if square < 0.5 {
            square += square;
            square_exponent -= 1;
        }
        left >>= 1;
    }
    if places < 0 {
        mantissa = 1.0 / mantissa;
        exponent = -exponent;
    }
    // Two factors, because 2^exponent alone may be out of range.
    let half = exponent / 2;
    mantissa * 2f64.powi(half) * 2f64.powi(exponent - half)
}

fn round(args: &[Value]) -> Out {
    let places = args.int(1)?;
    let round_on = if args.len() > 2 { args.float(2)? } else { 0.5 };
    let pow = ten_to(places);
    let digit = pow * to_float64(args.any(0));
    let fraction = if digit.is_infinite() {
        f64::NAN
    } else {
        digit - digit.trunc()
    };
    let rounded = if fraction >= round_on {
        digit.ceil()
    } else {
        digit.floor()
    };
    Ok(Value::Float64(rounded / pow))
}
