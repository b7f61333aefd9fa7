//! The tree to values: scalars resolved, aliases expanded, merge keys applied, as go-yaml v2's decoder does.

use std::borrow::Cow;

use crate::Error;
use crate::json::write_go;
use crate::read::bytes;
use crate::read::compose::{Content, NodeId, NodeTable, compose};
use crate::read::resolve::{Scalar, resolve, resolve_tagged};

/// Most nodes that aliases may expand to.
const MAX_ALIAS_NODES: usize = 400_000;
/// Most bytes of strings that aliases may expand to. go-yaml shares the strings; most of what is decoded here has copies.
const MAX_ALIAS_BYTES: usize = 16 << 20;

/// Something that YAML can be decoded into.
pub(crate) trait DecodeTarget: Sized {
    /// A mapping under construction.
    type Mapping: Default;

    /// `Err` if the type cannot hold the scalar: what Go's JSON encoder says about it.
    fn scalar(scalar: Scalar<'_>, at: Position) -> Result<Self, Error>;

    fn list(items: Vec<Self>, at: Position) -> Self;

    fn map(map: Self::Mapping, at: Position) -> Self;

    /// Sets a key. `Err` if the type cannot have such a key.
    fn insert(map: &mut Self::Mapping, key: Scalar<'_>, at: Position, value: Self) -> Result<(), Error>;
}

/// Line and column, counted from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub line: u32,
    pub column: u32,
}

/// Decodes the first document of `text`; `None` if it has none.
pub(crate) fn decode<T: DecodeTarget>(text: &[u8], max_depth: usize) -> Result<Option<T>, Error> {
    if u32::try_from(text.len()).is_err() {
        return Err(Error::yaml(None, "text of more than 4 GiB"));
    }
    let text = bytes::read(text)?;
    let document = compose(text, max_depth)?;
    let value = document.map(|document| Decoder::new(&document, max_depth).node(NodeTable::ROOT));
    value.transpose()
}

struct Decoder<'d, 'a> {
    document: &'d NodeTable<'a>,
    depth: usize,
    max_depth: usize,
    /// Number of nodes decoded so far, and how many of them inside aliases.
    decoded: usize,
    decoded_in_aliases: usize,
    alias_bytes: usize,
    /// The alias nodes that are being expanded.
    aliases: Vec<NodeId>,
}

fn excessive_aliasing() -> Error {
    Error::yaml(None, "document contains excessive aliasing")
}

impl<'d, 'a> Decoder<'d, 'a> {
    fn new(document: &'d NodeTable<'a>, max_depth: usize) -> Self {
        Decoder {
            document,
            depth: 0,
            max_depth,
            decoded: 1,
            decoded_in_aliases: 0,
            alias_bytes: 0,
            aliases: Vec::new(),
        }
    }

    fn position(&self, id: NodeId) -> Position {
        let node = self.document.node(id);
        Position {
            line: node.line,
            column: node.column,
        }
    }

    /// Counts a node against the limits.
    fn count(&mut self) -> Result<(), Error> {
        self.decoded += 1;
        if self.aliases.is_empty() {
            return Ok(());
        }
        self.decoded_in_aliases += 1;
        // In a small document, all nodes may come from aliases.
        let is_most = self.decoded > 1000 && self.decoded_in_aliases * 100 > self.decoded * 99;
        if self.decoded_in_aliases > MAX_ALIAS_NODES || is_most {
            return Err(excessive_aliasing());
        }
        Ok(())
    }

    /// One level further in.
    fn deeper<R>(&mut self, decode: impl FnOnce(&mut Self) -> Result<R, Error>) -> Result<R, Error> {
        if self.depth == self.max_depth {
            return Err(Error::depth(None, self.max_depth));
        }
        self.depth += 1;
        let result = decode(self);
        self.depth -= 1;
        result
    }

    /// Decodes what the alias node `id` stands for.
    fn through_alias<R>(
        &mut self,
        id: NodeId,
        decode: impl FnOnce(&mut Self, NodeId) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let Content::Alias { name, target } = self.document.node(id).content else {
            return decode(self, id);
        };
        if self.aliases.contains(&id) {
            return Err(Error::yaml(None, format!("anchor '{name}' value contains itself")));
        }
        self.aliases.push(id);
        // An alias to a collection counts as a level.
        let result = self.count().and_then(|()| decode(self, target));
        self.aliases.pop();
        result
    }

    fn node<T: DecodeTarget>(&mut self, id: NodeId) -> Result<T, Error> {
        self.count()?;
        self.counted(id)
    }

    /// Decodes a node that is counted already.
    fn counted<T: DecodeTarget>(&mut self, id: NodeId) -> Result<T, Error> {
        let at = self.position(id);
        match self.document.node(id).content {
            Content::Alias { .. } => self.through_alias(id, Self::counted),
            Content::Scalar { .. } => T::scalar(self.scalar(id)?, at),
            Content::Sequence { count } => self.deeper(|d| {
                let mut items = Vec::with_capacity(count);
                for child in d.document.children(id) {
                    items.push(d.node(child)?);
                }
                Ok(T::list(items, at))
            }),
            Content::Mapping => self.deeper(|d| {
                let mut map = T::Mapping::default();
                d.mapping::<T>(id, &mut map)?;
                Ok(T::map(map, at))
            }),
        }
    }

    fn scalar(&mut self, id: NodeId) -> Result<Scalar<'d>, Error> {
        let node = self.document.node(id);
        let Content::Scalar { value, implicit } = &node.content else {
            return Ok(Scalar::Null);
        };
        if !self.aliases.is_empty() {
            self.alias_bytes += value.len();
            if self.alias_bytes > MAX_ALIAS_BYTES {
                return Err(excessive_aliasing());
            }
        }
        match node.tag {
            None if *implicit => Ok(resolve(value)),
            None => Ok(Scalar::String(Cow::Borrowed(value))),
            Some(tag) => resolve_tagged(tag, value).map_err(|message| Error::yaml(None, message)),
        }
    }

    /// Adds the entries of the mapping `id` to `map`.
    fn mapping<T: DecodeTarget>(&mut self, id: NodeId, map: &mut T::Mapping) -> Result<(), Error> {
        let mut children = self.document.children(id);
        while let (Some(key), Some(value)) = (children.next(), children.next()) {
            if self.is_merge(key) {
                self.merge::<T>(value, map)?;
                continue;
            }
            let key_at = self.position(key);
            let key = self.key(key)?;
            let decoded = self.node::<T>(value)?;
            T::insert(map, key, key_at, decoded)?;
        }
        Ok(())
    }

    fn key(&mut self, id: NodeId) -> Result<Scalar<'d>, Error> {
        self.count()?;
        self.counted_key(id)
    }

    fn counted_key(&mut self, id: NodeId) -> Result<Scalar<'d>, Error> {
        match self.document.node(id).content {
            Content::Alias { .. } => self.through_alias(id, Self::counted_key),
            Content::Scalar { .. } => self.scalar(id),
            _ => {
                let mut problem = "invalid map key: ".to_owned();
                write_go(&self.counted(id)?, &mut problem);
                Err(Error::yaml(None, problem))
            }
        }
    }

    fn is_merge(&self, id: NodeId) -> bool {
        let node = self.document.node(id);
        match &node.content {
            Content::Scalar { value, implicit } => value == "<<" && (*implicit || node.tag == Some("!!merge")),
            _ => false,
        }
    }

    /// Adds the entries of the mapping, or the mappings, behind a merge key.
    fn merge<T: DecodeTarget>(&mut self, id: NodeId, map: &mut T::Mapping) -> Result<(), Error> {
        match self.document.node(id).content {
            Content::Sequence { .. } => {
                let parts: Vec<NodeId> = self.document.children(id).collect();
                // Earlier ones take precedence.
                parts
                    .into_iter()
                    .rev()
                    .try_for_each(|part| self.merge_one::<T>(part, map))
            }
            _ => self.merge_one::<T>(id, map),
        }
    }

    fn merge_one<T: DecodeTarget>(&mut self, id: NodeId, map: &mut T::Mapping) -> Result<(), Error> {
        self.count()?;
        self.through_alias(id, |d, id| match d.document.node(id).content {
            Content::Mapping => d.deeper(|d| d.mapping::<T>(id, map)),
            _ => Err(Error::yaml(
                None,
                "map merge requires map or sequence of maps as the value",
            )),
        })
    }
}

/// Bytes as Go's JSON encoder writes them: every byte that is not UTF-8 becomes U+FFFD.
pub fn go_json_string(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(std::iter::repeat_n('\u{FFFD}', chunk.invalid().len()));
    }
    out
}
