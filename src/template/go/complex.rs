//! Complex constants: Go's templates can print and compare them, and no more than that.

use std::any::Any;
use std::rc::Rc;

use super::format::display;
use super::value::{Object, Value};

/// A Go `complex128`.
pub(super) struct Complex {
    pub(super) real: f64,
    pub(super) imaginary: f64,
}

impl Complex {
    /// The complex number that a value is.
    pub(super) fn of(value: &Value) -> Option<&Self> {
        match value {
            Value::Object(object) => object.as_any().downcast_ref(),
            _ => None,
        }
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
        let Complex { real, imaginary } = *self;
        let value = Value::Object(Rc::new(Complex { real, imaginary }));
        String::from_utf8_lossy(&display(&value)).into_owned()
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
