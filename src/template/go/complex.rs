//! Complex constants: Go's templates can print one, and no more than that.

use std::any::Any;

use super::number::{format_float, parse_float};
use super::value::{Object, Value};

/// A Go `complex128`.
pub(super) struct Complex {
    real: f64,
    imaginary: f64,
}

impl Complex {
    /// Reads a constant such as `1i` or `1.5-2e3i`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let body = text.strip_suffix('i')?;
        let number = |text: &str| parse_float(text);
        if let Some(imaginary) = number(body) {
            let real = 0.0;
            return Some(Complex { real, imaginary });
        }
        let signs = body.match_indices(['+', '-']).filter(|(at, _)| *at > 0);
        let mut split = signs.filter_map(|(at, _)| {
            let (real, imaginary) = body.split_at(at);
            Some((number(real)?, number(imaginary)?))
        });
        let (real, imaginary) = split.next()?;
        Some(Complex { real, imaginary })
    }
}

impl Object for Complex {
    fn type_name(&self) -> &'static str {
        "complex128"
    }

    fn kind(&self) -> &'static str {
        "complex128"
    }

    fn field(&self, _name: &str) -> Option<Value> {
        None
    }

    fn display(&self) -> String {
        let shown = |n: f64| format_float(n, 'g', -1);
        let sign = if self.imaginary.is_sign_negative() { "" } else { "+" };
        format!("({}{sign}{}i)", shown(self.real), shown(self.imaginary))
    }

    fn is_stringer(&self) -> bool {
        false
    }

    fn to_json(&self) -> Result<serde_json::Value, String> {
        Err("json: unsupported type: complex128".to_owned())
    }

    fn truth(&self) -> bool {
        self.real != 0.0 || self.imaginary != 0.0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
