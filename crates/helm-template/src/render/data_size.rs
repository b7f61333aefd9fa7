//! Estimates the memory of data, in bytes. A text counts with its length. A node counts with its share of a long list
//! or map, including what the allocator and growing lists leave unused.

use serde_json::Value;

/// The size of a value, and of a value under a key of a map.
const NODE: u64 = 48;
const ENTRY: u64 = 120;
/// A render holds the user's values three times: as received, as template values, and coalesced with the chart's.
const VALUES: u64 = 3;
/// The memory of a node while a text is read: as part of the text, and as data.
const READ: u64 = 160;
/// The bytes before a node of a document: every node except one behind an alias has one of these before it.
const MARKS: &[u8] = b"\n:,[{-?";

/// The memory of a value.
pub fn of(value: &Value) -> u64 {
    let len = |text: &String| text.len() as u64;
    match value {
        Value::String(text) => NODE + len(text),
        Value::Array(items) => NODE + items.iter().map(of).sum::<u64>(),
        Value::Object(map) => NODE + map.iter().map(|(key, value)| ENTRY + len(key) + of(value)).sum::<u64>(),
        _ => NODE,
    }
}

/// The memory that a render uses for the user's values.
pub(crate) fn of_values(values: &Value) -> u64 {
    VALUES * of(values)
}

/// The maximum memory for reading a document.
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
