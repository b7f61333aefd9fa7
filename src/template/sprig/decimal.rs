//! Decimal arithmetic as shopspring/decimal v1.4.0 does it: an integer of any size times a power of ten.

use num_bigint::{BigInt, Sign};

use crate::template::go::number::{format_float, shortest};

/// Digits after the point that a division keeps.
const DIVISION_PRECISION: i64 = 16;

#[derive(Clone, Debug)]
pub(super) struct Decimal {
    value: BigInt,
    exp: i64,
}

fn ten_to(power: i64) -> BigInt {
    BigInt::from(10u8).pow(u32::try_from(power).unwrap_or(0))
}

impl Decimal {
    /// The shortest decimal that reads back as `n`. Fails with decimal's panic text for NaN and infinities.
    pub(super) fn from_float(n: f64) -> Result<Self, String> {
        if !n.is_finite() {
            let shown = format_float(n, 'g', -1);
            return Err(format!("Cannot create a Decimal from {shown}"));
        }
        let text = shortest(n);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let value = format!("{whole}{fraction}").parse().unwrap_or_default();
        let exponent: i64 = exponent.parse().unwrap_or(0);
        Ok(Decimal {
            value,
            exp: exponent - fraction.len() as i64,
        })
    }

    fn aligned(&self, other: &Decimal) -> (BigInt, BigInt, i64) {
        let exp = self.exp.min(other.exp);
        (
            &self.value * ten_to(self.exp - exp),
            &other.value * ten_to(other.exp - exp),
            exp,
        )
    }

    pub(super) fn add(&self, other: &Decimal) -> Self {
        let (a, b, exp) = self.aligned(other);
        Decimal { value: a + b, exp }
    }

    pub(super) fn sub(&self, other: &Decimal) -> Self {
        let (a, b, exp) = self.aligned(other);
        Decimal { value: a - b, exp }
    }

    pub(super) fn mul(&self, other: &Decimal) -> Self {
        Decimal {
            value: &self.value * &other.value,
            exp: self.exp + other.exp,
        }
    }

    /// The quotient with 16 digits after the point, the last one rounded half away from zero.
    pub(super) fn div(&self, other: &Decimal) -> Result<Self, String> {
        if other.value.sign() == Sign::NoSign {
            return Err("decimal division by 0".to_owned());
        }
        let shift = self.exp - other.exp + DIVISION_PRECISION;
        let (numerator, denominator) = if shift < 0 {
            (self.value.clone(), &other.value * ten_to(-shift))
        } else {
            (&self.value * ten_to(shift), other.value.clone())
        };
        let mut quotient = &numerator / &denominator;
        let remainder = numerator - &quotient * &denominator;
        if remainder.magnitude() * 2u8 >= *denominator.magnitude() {
            let negative = (self.value.sign() == Sign::Minus) != (other.value.sign() == Sign::Minus);
            quotient += if negative { -1 } else { 1 };
        }
        Ok(Decimal {
            value: quotient,
            exp: -DIVISION_PRECISION,
        })
    }

    /// The nearest float64.
    pub(super) fn to_float(&self) -> f64 {
        format!("{}e{}", self.value, self.exp).parse().unwrap_or(0.0)
    }
}
