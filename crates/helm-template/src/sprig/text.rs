//! How sprig turns values into text.

pub use go_template::format::display;
use go_template::meter::Meter;
use go_template::value::{List, ListKind, Str, Value};

/// sprig's `strval`: strings and bytes as they are, everything else by `%v`.
pub fn strval(meter: &Meter, value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::List(list) if list.kind == ListKind::Bytes => raw_bytes(list.items()),
        other => display(meter, other),
    }
}

/// The bytes of a `[]byte`'s elements.
pub fn raw_bytes(items: &[Value]) -> Vec<u8> {
    let byte = |item: &Value| match item {
        Value::Uint8(byte) => Some(*byte),
        _ => None,
    };
    items.iter().filter_map(byte).collect()
}

/// sprig's `strslice`: the elements as strings without the nil ones; something that is no list as one string.
pub fn strslice(meter: &Meter, value: &Value) -> Vec<Str> {
    match value {
        Value::Nil => Vec::new(),
        Value::List(list) => {
            let items = list.items().iter().filter(|item| !item.is_nil());
            items.map(|item| to_str(meter, item)).collect()
        }
        other => vec![to_str(meter, other)],
    }
}

/// Like `strval`, but shares the text of a string.
pub fn to_str(meter: &Meter, value: &Value) -> Str {
    match value {
        Value::String(text) => text.clone(),
        other => Str::from(strval(meter, other)),
    }
}

/// A `[]string`.
pub fn string_list(meter: &Meter, items: Vec<Str>) -> Value {
    // An overrun of the meter fails the call at its end.
    let _ = meter.spend(items.iter().map(Str::fresh_size).sum());
    let items = items.into_iter().map(Value::String).collect();
    Value::List(List::new(ListKind::String, items))
}
