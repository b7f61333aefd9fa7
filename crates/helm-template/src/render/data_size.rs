//! What data takes in memory, in bytes. Texts are known by their length; nodes take what a list or map of many of them does,
//! with what the allocator and growing lists leave unused.

use serde_json::Value;

/// A value, and one under a key of a map.
const NODE: u64 = 48;
const ENTRY: u64 = 120;
/// How often a render has the user's values: as they came, as values of templates, and folded with the chart's.
const VALUES: u64 = 3;
/// What a node takes while a text is read: as part of the text, and as data.
const READ: u64 = 160;
/// What stands before the nodes of a document: each, but for one behind an alias, has one of these.
const MARKS: &[u8] = b"\n:,[{-?";

/// What an object takes.
pub fn of(value: &Value) -> u64 {
    let len = |text: &String| text.len() as u64;
    match value {
        Value::String(text) => NODE + len(text),
        Value::Array(items) => NODE + items.iter().map(of).sum::<u64>(),
        Value::Object(map) => NODE + map.iter().map(|(key, value)| ENTRY + len(key) + of(value)).sum::<u64>(),
        _ => NODE,
    }
}

/// What a render makes of the user's values.
pub(crate) fn of_values(values: &Value) -> u64 {
    VALUES * of(values)
}

/// The most that reading a document may take.
pub fn to_read(text: &[u8]) -> u64 {
    let nodes = 1 + text.iter().filter(|byte| MARKS.contains(byte)).count();
    text.len() as u64 + READ * nodes as u64
}

#[cfg(test)]
mod tests {
    use crate::render::data_size::*;

    #[test]
    fn what_reading_takes_is_more_than_what_is_read() {
        for text in [
            "[0,0,0,0]",
            "a: b\nc:\n- d\n- {e: f, g: [1]}\n",
            "- - - a",
            "",
            "{a,b}",
            "? a\n",
        ] {
            let read = go_yaml::to_json(text.as_bytes()).unwrap();
            assert!(to_read(text.as_bytes()) >= of(&read), "{text}");
        }
    }
}
