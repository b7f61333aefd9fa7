//! Fractions: decimal arithmetic for `addf` and its kin, float64 for rounding and comparing.

use super::convert::Fraction;
use super::decimal::Decimal;
use go_template::func::{CallError, Func, Rest};

pub(super) fn table<C: 'static>() -> Vec<Func<C>> {
    vec![
        Func::new("add1f", |n: Fraction| {
            fold(n.0, [1.0].into_iter(), Decimal::add, |a, b| a + b)
        }),
        Func::new("addf", |all: Rest<Fraction>| {
            fold(0.0, floats(&all), Decimal::add, |a, b| a + b)
        }),
        Func::new("subf", |n: Fraction, rest: Rest<Fraction>| {
            fold(n.0, floats(&rest), Decimal::sub, |a, b| a - b)
        }),
        Func::new("mulf", |n: Fraction, rest: Rest<Fraction>| {
            fold(n.0, floats(&rest), Decimal::mul, |a, b| a * b)
        }),
        Func::new("divf", |n: Fraction, rest: Rest<Fraction>| {
            if floats(&rest).any(|divisor| divisor == 0.0) {
                return Err("decimal division by 0".into());
            }
            fold(n.0, floats(&rest), Decimal::div, |a, b| a / b)
        }),
        Func::new("maxf", |n: Fraction, rest: Rest<Fraction>| {
            floats(&rest).fold(n.0, larger)
        }),
        Func::new("minf", |n: Fraction, rest: Rest<Fraction>| {
            floats(&rest).fold(n.0, |a, b| -larger(-a, -b))
        }),
        Func::new("floor", |n: Fraction| n.0.floor()),
        Func::new("ceil", |n: Fraction| n.0.ceil()),
        Func::new("round", round),
    ]
}

fn floats<'a>(rest: &Rest<'a, Fraction>) -> impl Iterator<Item = f64> + use<'a> {
    rest.iter().map(|n| n.0)
}

/// `rough` is for what has too many digits.
fn fold(
    first: f64,
    mut rest: impl Iterator<Item = f64>,
    exact: fn(Decimal, Decimal) -> Option<Decimal>,
    rough: fn(f64, f64) -> f64,
) -> Result<f64, CallError> {
    let result = rest.try_fold(Decimal::from_float(first)?, |result, operand| {
        let operand = Decimal::from_float(operand)?;
        exact(result, operand).map_or_else(|| Decimal::from_float(rough(result.to_float(), operand.to_float())), Ok)
    });
    Ok(result?.to_float())
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

/// Where the fraction is at least the last argument, half as a rule, it goes up.
fn round(n: Fraction, places: i64, round_on: Rest<f64>) -> f64 {
    let pow = ten_to(places);
    let digit = pow * n.0;
    let fraction = if digit.is_infinite() {
        f64::NAN
    } else {
        digit - digit.trunc()
    };
    let rounded = if fraction >= round_on.iter().next().unwrap_or(0.5) {
        digit.ceil()
    } else {
        digit.floor()
    };
    rounded / pow
}
