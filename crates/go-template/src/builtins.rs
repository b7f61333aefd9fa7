//! Go's built-in functions, apart from `and` and `or`, which the evaluator runs because they stop early.

use super::compare;
use super::escape;
use super::exec::Reflected;
use super::format::{sprint, sprintln};
use super::printf::{MAX_TEXT, sprintf};
use super::value::{List, ListKind, Map, MapKind, Named, Value};

/// A built-in function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Builtin {
    And,
    Call,
    Eq,
    Ge,
    Gt,
    Html,
    Index,
    Js,
    Le,
    Len,
    Lt,
    Ne,
    Not,
    Or,
    Print,
    Printf,
    Println,
    Slice,
    Urlquery,
}

/// How many arguments a function takes.
#[derive(Clone, Copy)]
pub(super) struct Arity {
    pub(super) fixed: usize,
    pub(super) variadic: bool,
}

/// Why [`index`] and [`slice`] refuse.
type Refused = String;

impl Builtin {
    /// The built-in function of that name.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "and" => Builtin::And,
            "call" => Builtin::Call,
            "eq" => Builtin::Eq,
            "ge" => Builtin::Ge,
            "gt" => Builtin::Gt,
            "html" => Builtin::Html,
            "index" => Builtin::Index,
            "js" => Builtin::Js,
            "le" => Builtin::Le,
            "len" => Builtin::Len,
            "lt" => Builtin::Lt,
            "ne" => Builtin::Ne,
            "not" => Builtin::Not,
            "or" => Builtin::Or,
            "print" => Builtin::Print,
            "printf" => Builtin::Printf,
            "println" => Builtin::Println,
            "slice" => Builtin::Slice,
            "urlquery" => Builtin::Urlquery,
            _ => return None,
        })
    }

    pub(super) fn arity(self) -> Arity {
        let (fixed, variadic) = match self {
            Builtin::And | Builtin::Call | Builtin::Eq | Builtin::Index | Builtin::Or | Builtin::Slice => (1, true),
            Builtin::Printf => (1, true),
            Builtin::Html | Builtin::Js | Builtin::Print | Builtin::Println | Builtin::Urlquery => (0, true),
            Builtin::Ge | Builtin::Gt | Builtin::Le | Builtin::Lt | Builtin::Ne => (2, false),
            Builtin::Len | Builtin::Not => (1, false),
        };
        Arity { fixed, variadic }
    }

    /// Whether its parameters are `interface {}`, into which structs are copied; the others take reflected values.
    pub(super) fn takes_interfaces(self) -> bool {
        matches!(
            self,
            Builtin::Html | Builtin::Js | Builtin::Print | Builtin::Printf | Builtin::Println | Builtin::Urlquery
        )
    }

    /// Calls it; the number of arguments fits. `callee` is the first argument's source, for `call`.
    pub(super) fn call(self, args: &[Reflected], callee: &str) -> Result<Reflected, String> {
        let first = args.first().map_or(&Value::Nil, |arg| &arg.value);
        let second = args.get(1).map_or(&Value::Nil, |arg| &arg.value);
        let others = || args.get(1..).unwrap_or_default();
        let values = || args.iter().map(|arg| arg.value.clone()).collect::<Vec<_>>();
        let value = match self {
            Builtin::And | Builtin::Or => return Err("unreachable".to_owned()),
            Builtin::Call => return Err(call(first, callee)),
            Builtin::Eq => {
                let others: Vec<&Value> = others().iter().map(|arg| &arg.value).collect();
                Value::Bool(compare::eq(first, &others)?)
            }
            Builtin::Ne => Value::Bool(!compare::eq(first, &[second])?),
            Builtin::Lt => Value::Bool(compare::lt(first, second)?),
            Builtin::Le => Value::Bool(compare::le(first, second)?),
            Builtin::Gt => Value::Bool(!compare::le(first, second)?),
            Builtin::Ge => Value::Bool(!compare::lt(first, second)?),
            Builtin::Not => Value::Bool(!first.truth()),
            Builtin::Index => {
                return args.first().map_or_else(
                    || Err("index of untyped nil".to_owned()),
                    |first| index(first, others()),
                );
            }
            Builtin::Slice => slice(first, others())?,
            Builtin::Len => match args.first() {
                Some(first) => Value::Int(len(first)?),
                None => Value::Int(0),
            },
            Builtin::Print => Value::string(sprint(&values())),
            Builtin::Println => Value::string(sprintln(&values())),
            Builtin::Printf => {
                let args = values();
                let format = if let Value::String(format) = first {
                    format.as_bytes()
                } else {
                    &[]
                };
                let text = sprintf(format, args.get(1..).unwrap_or_default());
                if text.len() >= MAX_TEXT {
                    return Err(format!("result exceeds {MAX_TEXT} bytes"));
                }
                Value::string(text)
            }
            Builtin::Html => Value::string(escape::html(&escape::joined(&values()))),
            Builtin::Js => Value::string(escape::js(&escape::joined(&values()))),
            Builtin::Urlquery => Value::string(escape::urlquery(&escape::joined(&values()))),
        };
        Ok(Reflected::concrete(value))
    }
}

/// There are no function values, so a call always fails.
fn call(function: &Value, callee: &str) -> String {
    match function {
        Value::Nil => "call of nil".to_owned(),
        other => format!("non-function {callee} of type {}", other.type_name()),
    }
}

fn len(item: &Reflected) -> Result<i64, Refused> {
    let length = match &item.value {
        Value::Nil if item.interface => return Err("len of nil pointer".to_owned()),
        Value::Nil => return Err("reflect: call of reflect.Value.Type on zero Value".to_owned()),
        Value::String(text) => text.len(),
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        // Go looks behind a pointer first.
        other => return Err(format!("len of type {}", other.type_name().trim_start_matches('*'))),
    };
    Ok(length as i64)
}

fn index(item: &Reflected, indexes: &[Reflected]) -> Result<Reflected, Refused> {
    if item.value.is_nil() {
        return Err("index of untyped nil".to_owned());
    }
    let mut item = if indexes.is_empty() {
        Reflected::concrete(item.value.clone())
    } else {
        item.clone()
    };
    for index in indexes {
        item = match &item.value {
            Value::Nil => return Err("index of nil pointer".to_owned()),
            Value::String(text) => {
                let at = position(&index.value, text.len())?;
                let byte = text.as_bytes().get(at).ok_or("reflect: string index out of range")?;
                Reflected::concrete(Value::Uint8(*byte))
            }
            Value::List(list) => {
                let at = position(&index.value, list.items().len())?;
                let element = list.items().get(at).ok_or("reflect: slice index out of range")?;
                element_of(list, element.clone())
            }
            Value::Map(map) => {
                let key = match &index.value {
                    Value::String(key) => key,
                    Value::Nil => return Err("value is nil; should be of type string".to_owned()),
                    other => return Err(format!("value has type {}; should be string", other.type_name())),
                };
                entry_of(map, map.get(key.as_bytes()))
            }
            other => {
                // A pointer is followed first.
                let type_name = other.type_name();
                let type_name = type_name.strip_prefix('*').unwrap_or(type_name);
                return Err(format!("can't index item of type {type_name}"));
            }
        };
    }
    Ok(item)
}

/// A list's element: whether it is an interface is for the list's type to say.
pub(super) fn element_of(list: &List, element: Value) -> Reflected {
    Reflected {
        value: element,
        interface: list.kind == ListKind::Any,
    }
}

/// A map's entry, or the zero value of its element type.
pub(super) fn entry_of(map: &Map, entry: Option<Value>) -> Reflected {
    match (map.kind, entry) {
        (MapKind::String, entry) => Reflected::concrete(entry.unwrap_or_else(|| Value::string(""))),
        (MapKind::Named(Named { of_bytes: true, .. }), entry) => Reflected::concrete(match entry {
            Some(Value::String(data)) => Value::bytes(data.as_bytes()),
            entry => entry.unwrap_or_else(|| Value::List(List::nil(ListKind::Bytes))),
        }),
        (_, entry) => Reflected {
            value: entry.unwrap_or(Value::Nil),
            interface: true,
        },
    }
}

/// An index from 0 to `cap`, both included: Go checks the upper end on its own.
fn position(index: &Value, cap: usize) -> Result<usize, Refused> {
    let at = match index {
        Value::Int(n) | Value::Int64(n) => *n,
        Value::Uint8(n) => i64::from(*n),
        Value::Uint64(n) => *n as i64,
        Value::Nil => return Err("cannot index slice/array with nil".to_owned()),
        other => match other {
            Value::Object(object) if object.as_int().is_some() => object.as_int().unwrap_or_default(),
            _ => return Err(format!("cannot index slice/array with type {}", other.type_name())),
        },
    };
    usize::try_from(at)
        .ok()
        .filter(|at| *at <= cap)
        .ok_or_else(|| format!("index out of range: {at}"))
}

fn slice(item: &Value, indexes: &[Reflected]) -> Result<Value, Refused> {
    let (length, capacity) = match item {
        Value::Nil => return Err("slice of untyped nil".to_owned()),
        _ if indexes.len() > 3 => return Err(format!("too many slice indexes: {}", indexes.len())),
        Value::String(_) if indexes.len() == 3 => return Err("cannot 3-index slice a string".to_owned()),
        Value::String(text) => (text.len(), text.len()),
        Value::List(list) => (list.items().len(), list.items().len()),
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let mut bounds = [0, length, capacity];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(&index.value, capacity)?;
    }
    let [from, to, end] = bounds;
    for (low, high) in [(from, to), (to, end)] {
        if low > high {
            return Err(format!("invalid slice index: {low} > {high}"));
        }
    }
    Ok(match item {
        Value::String(text) => Value::string(text.as_bytes().get(from..to).unwrap_or_default()),
        Value::List(list) => Value::List(list.slice(from, to)),
        other => other.clone(),
    })
}
