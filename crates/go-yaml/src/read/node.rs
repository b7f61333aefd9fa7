//! Decoding into a [`Node`].

use serde_json::Number;

use crate::json::unsupported_value;
use crate::read::decode::{DecodeTarget, Position};
use crate::read::resolve::Scalar;
use crate::{Data, Error, Node};

fn node(data: Data, at: Position) -> Node {
    Node {
        line: at.line as usize + 1,
        column: at.column as usize + 1,
        data,
    }
}

impl DecodeTarget for Node {
    type Mapping = Vec<(Node, Node)>;

    fn scalar(scalar: Scalar<'_>, at: Position) -> Result<Self, Error> {
        let data = match scalar {
            Scalar::Null => Data::Null,
            Scalar::Bool(b) => Data::Bool(b),
            Scalar::Int(i) => Data::Number(i.into()),
            Scalar::Uint(u) => Data::Number(u.into()),
            Scalar::Float(f) => match Number::from_f64(f) {
                Some(number) => Data::Number(number),
                None => return Err(unsupported_value(f).on_line(at.line as usize + 1)),
            },
            Scalar::String(s) => Data::String(s.into_owned()),
        };
        Ok(node(data, at))
    }

    fn list(items: Vec<Self>, at: Position) -> Self {
        node(Data::List(items), at)
    }

    /// A key that the mapping itself writes twice stays twice, for strict readers to see. What a merge key brought in
    /// stands before the mapping in the text (an anchor precedes its aliases), and gives way to the mapping's own, or the
    /// other way round: the later entry counts, as in Go.
    fn map(mut entries: Self::Mapping, at: Position) -> Self {
        let start = (at.line as usize + 1, at.column as usize + 1);
        let is_own = |key: &Node| (key.line, key.column) >= start;
        let gives_way = |(key, _): &(Node, Node), later: &[(Node, Node)]| {
            let mut same = later.iter().filter(|(other, _)| other.data == key.data);
            same.any(|(other, _)| !is_own(key) || !is_own(other))
        };
        if !entries.iter().all(|(key, _)| is_own(key)) {
            for at in (0..entries.len()).rev() {
                if gives_way(&entries[at], &entries[at + 1..]) {
                    entries.remove(at);
                }
            }
        }
        node(Data::Map(entries), at)
    }

    fn insert(map: &mut Self::Mapping, key: Scalar<'_>, at: Position, value: Self) -> Result<(), Error> {
        map.push((Node::scalar(key, at)?, value));
        Ok(())
    }
}
