//! Go's built-in functions, apart from `and` and `or`, which the evaluator runs because they stop early.

use crate::exec::Reflected;
use crate::meter::{MAX_TEXT, Meter};
use crate::text::escape;
use crate::text::format::{sprint, sprintln};
use crate::text::printf::sprintf;
use crate::value::compare;
use crate::value::{List, ListKind, Map, MapKind, NamedType, Value};

/// A built-in function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Builtin {
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

/// The number of arguments of a function.
#[derive(Clone, Copy)]
pub(crate) struct Arity {
    pub(crate) fixed: usize,
    pub(crate) variadic: bool,
}

/// Why [`index`] and [`slice`] refuse.
type Refusal = String;

/// All by name, which is their order, with the parameters that they have at least, and whether they take more.
const BUILTINS: [(&str, Builtin, usize, bool); 19] = [
    ("and", Builtin::And, 1, true),
    ("call", Builtin::Call, 1, true),
    ("eq", Builtin::Eq, 1, true),
    ("ge", Builtin::Ge, 2, false),
    ("gt", Builtin::Gt, 2, false),
    ("html", Builtin::Html, 0, true),
    ("index", Builtin::Index, 1, true),
    ("js", Builtin::Js, 0, true),
    ("le", Builtin::Le, 2, false),
    ("len", Builtin::Len, 1, false),
    ("lt", Builtin::Lt, 2, false),
    ("ne", Builtin::Ne, 2, false),
    ("not", Builtin::Not, 1, false),
    ("or", Builtin::Or, 1, true),
    ("print", Builtin::Print, 0, true),
    ("printf", Builtin::Printf, 1, true),
    ("println", Builtin::Println, 0, true),
    ("slice", Builtin::Slice, 1, true),
    ("urlquery", Builtin::Urlquery, 0, true),
];

impl Builtin {
    /// The built-in function of that name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let at = BUILTINS.binary_search_by_key(&name, |(known, ..)| *known).ok()?;
        Some(BUILTINS[at].1)
    }

    pub(crate) fn arity(self) -> Arity {
        let (_, _, fixed, variadic) = BUILTINS[self as usize];
        Arity { fixed, variadic }
    }

    /// Whether its parameters are `interface {}`, into which structs are copied; the others take reflected values.
    pub(crate) fn takes_interfaces(self) -> bool {
        matches!(
            self,
            Builtin::Html | Builtin::Js | Builtin::Print | Builtin::Printf | Builtin::Println | Builtin::Urlquery
        )
    }

    /// Calls it; the number of arguments fits.
    pub(crate) fn call(self, meter: &Meter, args: &[Reflected]) -> Result<Reflected, String> {
        let first = args.first().map_or(&Value::Nil, |arg| &arg.value);
        let second = args.get(1).map_or(&Value::Nil, |arg| &arg.value);
        let others = || args.get(1..).unwrap_or_default();
        let values = || args.iter().map(|arg| arg.value.clone()).collect::<Vec<_>>();
        // The escaped text is printed as an action prints it.
        let printed = || {
            let shown = args.iter().map(|arg| match &arg.value {
                Value::Nil => Value::string("<no value>"),
                value => value.clone(),
            });
            sprint(meter, &shown.collect::<Vec<_>>())
        };
        let value = match self {
            Builtin::And | Builtin::Or => return Err("unreachable".to_owned()),
            Builtin::Call => return Err("there are no functions as values".to_owned()),
            Builtin::Eq => {
                let others: Vec<&Value> = others().iter().map(|arg| &arg.value).collect();
                Value::Bool(compare::eq(meter, first, &others)?)
            }
            Builtin::Ne => Value::Bool(!compare::eq(meter, first, &[second])?),
            Builtin::Lt => Value::Bool(compare::lt(first, second)?),
            Builtin::Le => Value::Bool(compare::le(meter, first, second)?),
            Builtin::Gt => Value::Bool(!compare::le(meter, first, second)?),
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
            Builtin::Print => Value::string(sprint(meter, &values())),
            Builtin::Println => Value::string(sprintln(meter, &values())),
            Builtin::Printf => {
                let args = values();
                let format = if let Value::String(format) = first {
                    format.as_bytes()
                } else {
                    &[]
                };
                let text = sprintf(meter, format, args.get(1..).unwrap_or_default());
                if text.len() >= MAX_TEXT {
                    return Err(format!("result exceeds {MAX_TEXT} bytes"));
                }
                Value::string(text)
            }
            Builtin::Html => Value::string(escape::html(&printed())),
            Builtin::Js => Value::string(escape::js(&printed())),
            Builtin::Urlquery => Value::string(escape::urlquery(&printed())),
        };
        Ok(Reflected::concrete(value))
    }
}

fn len(item: &Reflected) -> Result<i64, Refusal> {
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

fn index(item: &Reflected, indexes: &[Reflected]) -> Result<Reflected, Refusal> {
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
pub(crate) fn element_of(list: &List, element: Value) -> Reflected {
    Reflected {
        value: element,
        interface: list.kind == ListKind::Any,
    }
}

/// A map's entry, or the zero value of its element type.
pub(crate) fn entry_of(map: &Map, entry: Option<Value>) -> Reflected {
    match (map.kind, entry) {
        (MapKind::String, entry) => Reflected::concrete(entry.unwrap_or_else(|| Value::string(""))),
        (MapKind::Named(NamedType { of_bytes: true, .. }), entry) => Reflected::concrete(match entry {
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
fn position(index: &Value, cap: usize) -> Result<usize, Refusal> {
    let at = match index {
        Value::Int(n) | Value::Int64(n) => *n,
        Value::Uint8(n) => i64::from(*n),
        Value::Uint64(n) => *n as i64,
        Value::Nil => return Err("cannot index slice/array with nil".to_owned()),
        other => return Err(format!("cannot index slice/array with type {}", other.type_name())),
    };
    usize::try_from(at)
        .ok()
        .filter(|at| *at <= cap)
        .ok_or_else(|| format!("index out of range: {at}"))
}

fn slice(item: &Value, indexes: &[Reflected]) -> Result<Value, Refusal> {
    let length = match item {
        Value::Nil => return Err("slice of untyped nil".to_owned()),
        _ if indexes.len() > 2 => return Err(format!("too many slice indexes: {}", indexes.len())),
        Value::String(text) => text.len(),
        Value::List(list) => list.items().len(),
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let mut bounds = [0, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(&index.value, length)?;
    }
    let [from, to] = bounds;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}"));
    }
    Ok(match item {
        Value::List(list) => Value::List(list.slice(from, to)),
        Value::String(text) => Value::string(text.as_bytes().get(from..to).unwrap_or_default()),
        other => other.clone(),
    })
}
