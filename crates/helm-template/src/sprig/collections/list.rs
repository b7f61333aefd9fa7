//! Lists. No function changes its argument: each returns a new list.

use crate::gostd::NIL_POINTER;
use crate::limit;
use crate::sprig::logic::is_empty;
use crate::sprig::numbers::convert::to_int64;
use go_template::compare::deep_equal;
use go_template::func::{CallError, Func, Rest};
use go_template::meter::{ELEMENT, Meter};
use go_template::value::{List, ListKind, Value};

pub(crate) fn table<C: crate::sprig::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("list", |all: Rest<&Value>| Value::list(all.values.to_vec())),
        Func::new("tuple", |all: Rest<&Value>| Value::list(all.values.to_vec())),
        Func::new("append", push),
        Func::new("push", push),
        Func::new("mustAppend", push),
        Func::new("mustPush", push),
        Func::new("prepend", prepend),
        Func::new("mustPrepend", prepend),
        Func::new("first", first),
        Func::new("mustFirst", first),
        Func::new("last", last),
        Func::new("mustLast", last),
        Func::new("rest", rest),
        Func::new("mustRest", rest),
        Func::new("initial", initial),
        Func::new("mustInitial", initial),
        Func::new("reverse", reverse),
        Func::new("mustReverse", reverse),
        Func::new("uniq", uniq),
        Func::new("mustUniq", uniq),
        Func::new("without", without),
        Func::new("mustWithout", without),
        Func::new("has", has),
        Func::new("mustHas", has),
        Func::new("compact", compact),
        Func::new("mustCompact", compact),
        Func::new("slice", slice),
        Func::new("mustSlice", slice),
        Func::new("concat", concat),
        Func::new("chunk", chunk),
        Func::new("mustChunk", chunk),
    ]
}

type ListResult = Result<Value, CallError>;

/// The elements of a list; anything else fails with Go's text, which begins with `complaint`.
fn items<'a>(value: &'a Value, complaint: &str) -> Result<&'a [Value], CallError> {
    match value {
        Value::List(list) => Ok(list.items()),
        Value::Nil => Err(CallError::from(NIL_POINTER)),
        other => Err(CallError::Text(format!("{complaint} {}", other.kind()))),
    }
}

/// An empty list makes these functions return Go's nil slice, which is `null` in JSON.
fn nil_list() -> Value {
    Value::List(List::nil(ListKind::Any))
}

fn push(meter: &Meter, list: &Value, item: &Value) -> ListResult {
    let items = items(list, "Cannot push on type")?;
    limit::items(meter, items.len() + 1)?;
    Ok(Value::list(items.iter().chain([item]).cloned().collect()))
}

fn prepend(meter: &Meter, list: &Value, item: &Value) -> ListResult {
    let items = items(list, "Cannot prepend on type")?;
    limit::items(meter, items.len() + 1)?;
    Ok(Value::list([item].into_iter().chain(items).cloned().collect()))
}

fn first(list: &Value) -> ListResult {
    let items = items(list, "Cannot find first on type")?;
    Ok(items.first().cloned().unwrap_or(Value::Nil))
}

fn last(list: &Value) -> ListResult {
    let items = items(list, "Cannot find last on type")?;
    Ok(items.last().cloned().unwrap_or(Value::Nil))
}

fn rest(list: &Value) -> ListResult {
    Ok(match items(list, "Cannot find rest on type")? {
        [] => nil_list(),
        [_, rest @ ..] => Value::list(rest.to_vec()),
    })
}

fn initial(list: &Value) -> ListResult {
    Ok(match items(list, "Cannot find initial on type")? {
        [] => nil_list(),
        [initial @ .., _] => Value::list(initial.to_vec()),
    })
}

fn reverse(list: &Value) -> ListResult {
    let items = items(list, "Cannot find reverse on type")?;
    Ok(Value::list(items.iter().rev().cloned().collect()))
}

fn contains(meter: &Meter, haystack: &[Value], needle: &Value) -> bool {
    haystack.iter().any(|item| deep_equal(meter, needle, item))
}

/// A scalar as a key that is equal for deeply equal values; `None` for what has to be compared part by part.
fn scalar_key(value: &Value) -> Option<(&'static str, Vec<u8>)> {
    let bytes = match value {
        Value::Nil => Vec::new(),
        Value::Bool(b) => vec![u8::from(*b)],
        Value::Int(n) | Value::Int64(n) => n.to_be_bytes().to_vec(),
        Value::Uint8(n) => vec![*n],
        Value::Uint64(n) => n.to_be_bytes().to_vec(),
        // Both zeros are equal, and NaN equals nothing.
        Value::Float64(n) if n.is_nan() => return None,
        Value::Float64(n) => (n + 0.0).to_bits().to_be_bytes().to_vec(),
        Value::String(text) => text.as_bytes().to_vec(),
        Value::List(_) | Value::Map(_) | Value::Object(_) => return None,
    };
    Some((value.type_name(), bytes))
}

/// Lists, maps and objects that `uniq` compares with each other at most, as that takes the square of their number.
const MAX_COMPARED: usize = 5_000;

fn uniq(meter: &Meter, list: &Value) -> ListResult {
    let items = items(list, "Cannot find uniq on type")?;
    let mut found: Vec<Value> = Vec::new();
    let mut scalars = std::collections::HashSet::new();
    let mut others: Vec<Value> = Vec::new();
    for item in items {
        let new = match scalar_key(item) {
            Some(key) => scalars.insert(key),
            None if contains(meter, &others, item) => false,
            None if others.len() >= MAX_COMPARED => {
                let text = format!("the list has different elements over the limit of {MAX_COMPARED} lists and maps");
                return Err(CallError::Text(text));
            }
            None => {
                others.push(item.clone());
                true
            }
        };
        if new {
            found.push(item.clone());
        }
    }
    Ok(Value::list(found))
}

fn without(meter: &Meter, list: &Value, omitted: Rest<&Value>) -> ListResult {
    let items = items(list, "Cannot find without on type")?;
    let kept = items.iter().filter(|item| !contains(meter, omitted.values, item));
    Ok(Value::list(kept.cloned().collect()))
}

fn has(meter: &Meter, item: &Value, list: &Value) -> Result<bool, CallError> {
    Ok(!list.is_nil() && contains(meter, items(list, "Cannot find has on type")?, item))
}

fn compact(list: &Value) -> ListResult {
    let items = items(list, "Cannot compact on type")?;
    Ok(Value::list(
        items.iter().filter(|item| !is_empty(item)).cloned().collect(),
    ))
}

/// The part from one index to before another, of the list's own type; of an empty list always nil.
fn slice(meter: &Meter, list: &Value, indices: Rest<&Value>) -> ListResult {
    let items = items(list, "list should be type of slice or array but")?;
    let (Value::List(list), [_, ..]) = (list, items) else {
        return Ok(Value::Nil);
    };
    let start = indices.values.first().map_or(0, to_int64);
    let end = indices.values.get(1).map_or(items.len() as i64, to_int64);
    let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    match bounds.filter(|(from, to)| from <= to && *to <= items.len()) {
        Some((from, to)) => {
            limit::items(meter, to - from)?;
            Ok(Value::List(list.slice(from, to)))
        }
        None => Err(CallError::from("reflect.Value.Slice: slice index out of bounds")),
    }
}

fn concat(meter: &Meter, lists: Rest<&Value>) -> ListResult {
    let mut all = Vec::new();
    for value in lists.values {
        let items = match value {
            Value::List(list) => list.items(),
            Value::Nil => return Err(CallError::from(NIL_POINTER)),
            other => return Err(CallError::Text(format!("Cannot concat type {} as list", other.kind()))),
        };
        limit::items(meter, all.len() + items.len())?;
        all.extend_from_slice(items);
    }
    Ok(if all.is_empty() { nil_list() } else { Value::list(all) })
}

/// The memory of a list without its elements, in bytes.
const CHUNK: u64 = 160;

/// Lists of `size` elements each, the last one of what is left.
fn chunk(meter: &Meter, size: i64, list: &Value) -> Result<List, CallError> {
    let items = items(list, "Cannot chunk type")?;
    let Some(size) = usize::try_from(size).ok().filter(|size| *size > 0) else {
        return Err(CallError::from("runtime error: makeslice: len out of range"));
    };
    // Each is a list of its own.
    meter.spend(CHUNK * items.len().div_ceil(size) as u64 + 2 * ELEMENT * items.len() as u64)?;
    let chunks = items.chunks(size).map(|chunk| Value::list(chunk.to_vec()));
    Ok(List::new(ListKind::Lists, chunks.collect()))
}
