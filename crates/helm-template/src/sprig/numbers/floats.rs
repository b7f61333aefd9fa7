//! Fractions: decimal arithmetic for `addf` and its kin, float64 for rounding and comparing.

use crate::sprig::numbers::convert::Fraction;
use crate::sprig::numbers::decimal::Decimal;
use go_template::func::{CallError, Func, Rest};

pub(crate) fn table<C: crate::sprig::Env>() -> Vec<Func<C>> {
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

/// `rough` computes numbers with too many digits.
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

/// `math.Max`, for which NaN is the largest number.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// 10 to a whole power: the reciprocal of a positive one if it is negative, as in Go.
fn ten_to(places: i64) -> f64 {
    let power = 10f64.powi(places.unsigned_abs().min(400) as i32);
    if places < 0 { 1.0 / power } else { power }
}

/// Rounds up if the fraction is at least the last argument, which defaults to one half.
fn round(n: Fraction, places: i64, round_on: Rest<f64>) -> f64 {
    let pow = ten_to(places);
    let digit = pow * n.0;
    let rounded = if digit.fract() >= round_on.iter().next().unwrap_or(0.5) {
        digit.ceil()
    } else {
        digit.floor()
    };
    rounded / pow
}
