//! Decimal arithmetic as shopspring/decimal v1.4.0 does it, for as many digits as an `i128` holds.

use go_template::number::{format_float, shortest};

/// Digits after the point that a division keeps.
const DIVISION_PRECISION: i32 = 16;

/// A whole number times a power of ten. Operations give `None` where there are more digits than it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal {
    value: i128,
    exp: i32,
}

fn times_ten_to(value: i128, power: i32) -> Option<i128> {
    value.checked_mul(10_i128.checked_pow(u32::try_from(power).ok()?)?)
}

impl Decimal {
    /// The shortest decimal that reads back as `n`. Fails with decimal's panic text for NaN and infinities.
    pub(crate) fn from_float(n: f64) -> Result<Self, String> {
        if !n.is_finite() {
            let shown = format_float(n, 'g', -1);
            return Err(format!("Cannot create a Decimal from {shown}"));
        }
        let text = shortest(n);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let value = format!("{whole}{fraction}").parse().unwrap_or_default();
        let exponent: i32 = exponent.parse().unwrap_or(0);
        Ok(Decimal {
            value,
            exp: exponent - fraction.len() as i32,
        })
    }

    fn aligned(self, other: Decimal) -> Option<(i128, i128, i32)> {
        let exp = self.exp.min(other.exp);
        let (a, b) = (self.exp - exp, other.exp - exp);
        Some((times_ten_to(self.value, a)?, times_ten_to(other.value, b)?, exp))
    }

    pub(crate) fn add(self, other: Decimal) -> Option<Self> {
        let (a, b, exp) = self.aligned(other)?;
        Some(Decimal {
            value: a.checked_add(b)?,
            exp,
        })
    }

    pub(crate) fn sub(self, other: Decimal) -> Option<Self> {
        let value = other.value.checked_neg()?;
        self.add(Decimal { value, ..other })
    }

    pub(crate) fn mul(self, other: Decimal) -> Option<Self> {
        Some(Decimal {
            value: self.value.checked_mul(other.value)?,
            exp: self.exp.checked_add(other.exp)?,
        })
    }

    /// The quotient with 16 digits after the point, the last one rounded half away from zero. None by zero, too.
    pub(crate) fn div(self, other: Decimal) -> Option<Self> {
        let shift = self.exp - other.exp + DIVISION_PRECISION;
        let numerator = times_ten_to(self.value, shift.max(0))?;
        // One of more digits is so large that nothing is left.
        let denominator = times_ten_to(other.value, (-shift).max(0)).unwrap_or(i128::MAX);
        let (quotient, remainder) = (numerator.checked_div(denominator)?, numerator.checked_rem(denominator)?);
        let rounds = remainder.unsigned_abs() >= denominator.unsigned_abs().div_ceil(2);
        let away = if (numerator < 0) == (denominator < 0) { 1 } else { -1 };
        Some(Decimal {
            value: if rounds { quotient.checked_add(away)? } else { quotient },
            exp: -DIVISION_PRECISION,
        })
    }

    /// The nearest float64.
    pub(crate) fn to_float(self) -> f64 {
        format!("{}e{}", self.value, self.exp).parse().unwrap_or(0.0)
    }
}
