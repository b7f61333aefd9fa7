//! Comparison: the functions `eq`, `ne`, `lt`, `le`, `gt`, `ge`, and `reflect.DeepEqual`.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::meter::Meter;
use crate::text::printf::sprintf;
use crate::value::Value;

/// `reflect.DeepEqual`: the same type and the same content; nil and empty differ, NaN differs from itself. An overrun
/// of depth or time is reported to the [`Meter`]; the result is then not used.
///
/// ```
/// use go_template::{Meter, Value, compare::deep_equal};
///
/// let a = Value::from_json(&serde_json::json!([1, {"b": true}]));
/// assert!(deep_equal(&Meter::default(), &a, &a.clone()));
/// assert!(!deep_equal(&Meter::default(), &Value::Int(1), &Value::Float64(1.0)));
/// ```
pub fn deep_equal(meter: &Meter, a: &Value, b: &Value) -> bool {
    deep_equal_at(meter, a, b, 0)
}

fn deep_equal_at(meter: &Meter, a: &Value, b: &Value, depth: usize) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => match (&a.items, &b.items) {
            _ if a.kind != b.kind => false,
            (None, None) => true,
            (Some(x), Some(y)) if Rc::ptr_eq(x, y) => true,
            (Some(x), Some(y)) => {
                x.len() == y.len()
                    && meter.visit(depth).is_ok()
                    && x.iter()
                        .zip(y.iter())
                        .all(|(a, b)| deep_equal_at(meter, a, b, depth + 1))
            }
            _ => false,
        },
        (Value::Map(a), Value::Map(b)) => match (&a.entries, &b.entries) {
            _ if a.kind != b.kind => false,
            (None, None) => true,
            (Some(a), Some(b)) if Rc::ptr_eq(a, b) => true,
            (Some(a), Some(b)) => {
                let (a, b) = (a.borrow(), b.borrow());
                a.len() == b.len()
                    && meter.visit(depth).is_ok()
                    && a.iter()
                        .zip(b.iter())
                        .all(|((k, v), (l, w))| k == l && deep_equal_at(meter, v, w, depth + 1))
            }
            _ => false,
        },
        (Value::Nil, Value::Nil) => true,
        (Value::Object(x), Value::Object(y)) if x.type_name() == y.type_name() => {
            match (x.structure(), y.structure()) {
                (Some(x), Some(y)) => {
                    let pairs = || x.iter().zip(&y);
                    meter.visit(depth).is_ok()
                        && pairs().all(|(x, y)| deep_equal_at(meter, &x.value, &y.value, depth + 1))
                }
                _ => same(a, b),
            }
        }
        (a, b) => a.type_name() == b.type_name() && same(a, b),
    }
}

/// Go's `==` on two values of the same comparable type.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => Rc::ptr_eq(a, b) || a.kind() != "ptr" && a.display() == b.display(),
        (a, b) => matches!((Basic::of(a), Basic::of(b)), (Some(a), Some(b)) if a.same(&b) == Some(true)),
    }
}

const BAD_TYPE: &str = "invalid type for comparison";

/// The kinds that Go's comparison functions distinguish.
enum Basic<'v> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(&'v [u8]),
}

impl<'v> Basic<'v> {
    fn of(value: &'v Value) -> Option<Self> {
        Some(match value {
            Value::Bool(b) => Basic::Bool(*b),
            Value::Int(n) | Value::Int64(n) => Basic::Int(*n),
            Value::Uint8(n) => Basic::Uint(u64::from(*n)),
            Value::Uint64(n) => Basic::Uint(*n),
            Value::Float64(n) => Basic::Float(*n),
            Value::String(text) => Basic::Text(text.as_bytes()),
            Value::Object(object) => Basic::Int(object.as_int()?),
            Value::Nil | Value::List(_) | Value::Map(_) => return None,
        })
    }

    /// `None` if the kinds can't be compared.
    fn same(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Basic::Bool(a), Basic::Bool(b)) => Some(a == b),
            _ => self.order(other).map(|order| order == Some(Ordering::Equal)),
        }
    }

    /// `None` if the kinds can't be ordered, `Some(None)` for NaN.
    fn order(&self, other: &Self) -> Option<Option<Ordering>> {
        Some(match (self, other) {
            (Basic::Int(a), Basic::Int(b)) => Some(a.cmp(b)),
            (Basic::Uint(a), Basic::Uint(b)) => Some(a.cmp(b)),
            (Basic::Int(a), Basic::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Basic::Uint(a), Basic::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Basic::Float(a), Basic::Float(b)) => a.partial_cmp(b),
            (Basic::Text(a), Basic::Text(b)) => Some(a.cmp(b)),
            _ => return None,
        })
    }
}

fn incompatible(a: &Value, b: &Value) -> String {
    format!(
        "incompatible types for comparison: {} and {}",
        a.type_name(),
        b.type_name()
    )
}

/// `eq`: whether the first equals any of the others.
pub(crate) fn eq(meter: &Meter, first: &Value, others: &[&Value]) -> Result<bool, String> {
    if others.is_empty() {
        return Err("missing argument for comparison".to_owned());
    }
    for other in others {
        if equal(meter, first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal(meter: &Meter, a: &Value, b: &Value) -> Result<bool, String> {
    match (Basic::of(a), Basic::of(b)) {
        (Some(x), Some(y)) => x.same(&y).ok_or_else(|| incompatible(a, b)),
        (None, None) => equal_compound(meter, a, b),
        _ if a.is_nil() || b.is_nil() => Ok(false),
        _ => Err(incompatible(a, b)),
    }
}

/// Lists, maps, objects and nil.
fn equal_compound(meter: &Meter, a: &Value, b: &Value) -> Result<bool, String> {
    if a.kind() != b.kind() && !a.is_nil() && !b.is_nil() {
        return Err(incompatible(a, b));
    }
    if is_nil(a) || is_nil(b) {
        return Ok(is_nil(a) == is_nil(b));
    }
    match b {
        Value::Object(_) => Ok(a.type_name() == b.type_name() && same(a, b)),
        _ => {
            let shown = sprintf(meter, b"%s", std::slice::from_ref(b));
            let shown = String::from_utf8_lossy(&shown);
            Err(format!("non-comparable type {shown}: {}", b.type_name()))
        }
    }
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.entries.is_none(),
        _ => false,
    }
}

/// `lt`: numbers of one kind, or strings bytewise.
pub(crate) fn lt(a: &Value, b: &Value) -> Result<bool, String> {
    let x = Basic::of(a).ok_or(BAD_TYPE)?;
    let y = Basic::of(b).ok_or(BAD_TYPE)?;
    match (&x, &y) {
        (Basic::Bool(_), Basic::Bool(_)) => Err(BAD_TYPE.to_owned()),
        _ => match x.order(&y) {
            Some(order) => Ok(order == Some(Ordering::Less)),
            None => Err(incompatible(a, b)),
        },
    }
}

/// `le`: `lt` or `eq`.
pub(crate) fn le(meter: &Meter, a: &Value, b: &Value) -> Result<bool, String> {
    Ok(lt(a, b)? || equal(meter, a, b)?)
}
