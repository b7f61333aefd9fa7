//! Decoding into a [`Node`].

use std::collections::{HashMap, HashSet};

use serde_json::Number;

use super::decode::{Position, Target};
use super::json::{key_text, unsupported_value};
use super::resolve::Scalar;
use super::{Data, Error, Node};

/// A mapping under construction, and where each key was last.
#[derive(Default)]
pub(super) struct Entries {
    entries: Vec<(Node, Node)>,
    by_key: HashMap<(u8, String), usize>,
    /// Entries that a later one of the same key takes the place of, with that later one.
    replaced: Vec<(usize, usize)>,
}

impl Entries {
    /// The entries of a mapping that begins at `start`. A key that the mapping itself writes twice stays twice, for
    /// strict readers to see. What a merge key brought in stands before the mapping in the text (an anchor precedes its
    /// aliases), and gives way to the mapping's own, or the other way round: the later entry counts, as in Go.
    fn finish(self, start: Position) -> Vec<(Node, Node)> {
        let own = |index: usize| {
            let at = self.entries.get(index).map(|(key, _)| (key.line, key.column));
            at >= Some((start.line as usize + 1, start.column as usize + 1))
        };
        let dropped: HashSet<usize> = self
            .replaced
            .iter()
            .filter(|(old, new)| !(own(*old) && own(*new)))
            .map(|(old, _)| *old)
            .collect();
        let entries = self.entries.into_iter().enumerate();
        entries
            .filter(|(index, _)| !dropped.contains(index))
            .map(|(_, entry)| entry)
            .collect()
    }
}

fn node(data: Data, at: Position) -> Node {
    Node {
        line: at.line as usize + 1,
        column: at.column as usize + 1,
        data,
    }
}

fn data(scalar: Scalar<'_>) -> Option<Data> {
    Some(match scalar {
        Scalar::Null => Data::Null,
        Scalar::Bool(b) => Data::Bool(b),
        Scalar::Int(i) => Data::Number(i.into()),
        Scalar::Uint(u) => Data::Number(u.into()),
        Scalar::Float(f) => Data::Number(Number::from_f64(f)?),
        Scalar::String(s) => Data::String(s.into_owned()),
        Scalar::Timestamp(s) => Data::String(s.to_owned()),
    })
}

/// What makes two keys equal to Go: type and value.
fn identity(scalar: &Scalar<'_>) -> (u8, String) {
    match scalar {
        Scalar::Null => (0, String::new()),
        Scalar::Bool(b) => (1, b.to_string()),
        Scalar::Int(i) => (2, i.to_string()),
        Scalar::Uint(u) => (3, u.to_string()),
        Scalar::Float(f) => (4, f.to_string()),
        Scalar::String(s) => (5, s.to_string()),
        Scalar::Timestamp(s) => (5, (*s).to_owned()),
    }
}

impl Target for Node {
    type Mapping = Entries;

    fn scalar(scalar: Scalar<'_>, at: Position) -> Result<Self, Error> {
        let float = if let Scalar::Float(f) = scalar { f } else { 0.0 };
        data(scalar)
            .map(|data| node(data, at))
            .ok_or_else(|| unsupported_value(float).on_line(at.line as usize + 1))
    }

    fn list(items: Vec<Self>, at: Position) -> Self {
        node(Data::List(items), at)
    }

    fn map(map: Self::Mapping, at: Position) -> Self {
        node(Data::Map(map.finish(at)), at)
    }

    fn insert(map: &mut Self::Mapping, key: Scalar<'_>, at: Position, value: Self) -> bool {
        let identity = identity(&key);
        // A key may be infinite, as a string.
        let data = data(key.clone())
            .or_else(|| key_text(key).map(|text| Data::String(text.into_owned())))
            .unwrap_or(Data::Null);
        let index = map.entries.len();
        if let Some(old) = map.by_key.insert(identity, index) {
            map.replaced.push((old, index));
        }
        map.entries.push((node(data, at), value));
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::{Data, parse};

    /// The keys of the mapping under `b`, with the lines of their values.
    fn keys(text: &str) -> Vec<(String, usize)> {
        let Data::Map(root) = parse(text.as_bytes()).unwrap().data else {
            panic!("no mapping")
        };
        let Data::Map(entries) = root.into_iter().next_back().unwrap().1.data else {
            panic!("no mapping")
        };
        let text = |data: Data| {
            if let Data::String(text) = data {
                text
            } else {
                String::new()
            }
        };
        entries
            .into_iter()
            .map(|(key, value)| (text(key.data), value.line))
            .collect()
    }

    #[test]
    fn keys_written_twice_stay_and_merged_ones_give_way() {
        assert_eq!(keys("b:\n  x: 1\n  x: 2\n"), [("x".to_owned(), 2), ("x".to_owned(), 3)]);
        assert_eq!(keys("a: &a\n  x: 1\nb:\n  <<: *a\n  x: 2\n"), [("x".to_owned(), 5)]);
        assert_eq!(keys("a: &a\n  x: 1\nb:\n  x: 2\n  <<: *a\n"), [("x".to_owned(), 2)]);
    }
}
