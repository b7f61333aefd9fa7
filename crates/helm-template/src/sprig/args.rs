//! Typed access to a call's arguments. The evaluator has checked them against the function's parameters already;
//! what doesn't fit here is answered with an error, never with a panic.

pub(super) use crate::gostd::NIL_POINTER;
use go_template::func::CallError;
use go_template::value::{List, ListKind, Map, MapKind, Value};

/// What a function's body returns.
pub(super) type Out = Result<Value, CallError>;

pub(super) trait Args {
    /// The argument, or nil where there is none.
    fn any(&self, index: usize) -> &Value;
    fn text(&self, index: usize) -> Result<&[u8], CallError>;
    fn int(&self, index: usize) -> Result<i64, CallError>;
    fn float(&self, index: usize) -> Result<f64, CallError>;
    fn bool(&self, index: usize) -> Result<bool, CallError>;
    /// A map parameter; nil is a nil map.
    fn map(&self, index: usize) -> Result<Map, CallError>;
    /// A list parameter; nil is a nil list.
    fn list(&self, index: usize) -> Result<List, CallError>;
    /// The arguments from `index` on.
    fn rest(&self, index: usize) -> &[Value];
}

fn mismatch<T>(args: &[Value], index: usize, expected: &str) -> Result<T, CallError> {
    let got = args.get(index).map_or("no value", Value::type_name);
    Err(CallError::Text(format!(
        "argument {}: expected {expected}; got {got}",
        index + 1
    )))
}

impl Args for [Value] {
    fn any(&self, index: usize) -> &Value {
        self.get(index).unwrap_or(&Value::Nil)
    }

    fn text(&self, index: usize) -> Result<&[u8], CallError> {
        match self.get(index) {
            Some(Value::String(text)) => Ok(text.as_bytes()),
            _ => mismatch(self, index, "string"),
        }
    }

    fn int(&self, index: usize) -> Result<i64, CallError> {
        match self.get(index) {
            Some(Value::Int(n) | Value::Int64(n)) => Ok(*n),
            _ => mismatch(self, index, "int"),
        }
    }

    fn float(&self, index: usize) -> Result<f64, CallError> {
        match self.get(index) {
            Some(Value::Float64(n)) => Ok(*n),
            _ => mismatch(self, index, "float64"),
        }
    }

    fn bool(&self, index: usize) -> Result<bool, CallError> {
        match self.get(index) {
            Some(Value::Bool(b)) => Ok(*b),
            _ => mismatch(self, index, "bool"),
        }
    }

    fn map(&self, index: usize) -> Result<Map, CallError> {
        match self.get(index) {
            Some(Value::Map(map)) => Ok(map.clone()),
            Some(Value::Nil) => Ok(Map::nil(MapKind::Any)),
            _ => mismatch(self, index, "map[string]interface {}"),
        }
    }

    fn list(&self, index: usize) -> Result<List, CallError> {
        match self.get(index) {
            Some(Value::List(list)) => Ok(list.clone()),
            Some(Value::Nil) => Ok(List::nil(ListKind::Any)),
            _ => mismatch(self, index, "[]interface {}"),
        }
    }

    fn rest(&self, index: usize) -> &[Value] {
        self.get(index..).unwrap_or(&[])
    }
}
