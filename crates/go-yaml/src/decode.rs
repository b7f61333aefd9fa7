//! The tree to values: scalars resolved, aliases expanded, merge keys applied, as go-yaml v2's decoder does.

use std::borrow::Cow;

use super::compose::{Content, Document, Id, compose};
use super::gosyntax::GoValue;
use super::resolve::{Scalar, resolve, resolve_tagged};
use super::{Error, max_depth, reader};

/// Most bytes of strings that aliases may expand to. go-yaml shares the strings; most of what is decoded here has copies.
const MAX_ALIAS_BYTES: usize = 16 << 20;

/// Something that YAML can be decoded into.
pub(super) trait Target: Sized {
    /// A mapping under construction.
    type Mapping: Default;

    /// `Err` if the type cannot hold the scalar: what Go's JSON encoder says about it.
    fn scalar(scalar: Scalar<'_>, at: Position) -> Result<Self, Error>;

    fn list(items: Vec<Self>, at: Position) -> Self;

    fn map(map: Self::Mapping, at: Position) -> Self;

    /// Sets a key. `false` if the type of the key is not supported.
    fn insert(map: &mut Self::Mapping, key: Scalar<'_>, at: Position, value: Self) -> bool;
}

/// Line and column, counted from 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub line: u32,
    pub column: u32,
}

/// Decodes the first document of `text`; `None` if it has none.
pub(super) fn decode<T: Target>(text: &[u8]) -> Result<Option<T>, Error> {
    if u32::try_from(text.len()).is_err() {
        return Err(Error::yaml(None, "text of more than 4 GiB"));
    }
    let text = reader::read(text)?;
    compose(&text)?.map(|document| whole(&document)).transpose()
}

fn whole<T: Target>(document: &Document<'_>) -> Result<T, Error> {
    let mut decoder = Decoder::new(document);
    let value = decoder.node(Document::ROOT)?;
    if decoder.has_unsupported_key {
        // A key that was written again later is gone; which one is named first only the whole tells.
        let mut whole = Decoder::new(decoder.document);
        if let Some(error) = whole.node::<GoValue>(Document::ROOT)?.unsupported_key() {
            return Err(error);
        }
    }
    decoder.unsupported_value.map_or(Ok(value), Err)
}

struct Decoder<'d, 'a> {
    document: &'d Document<'a>,
    depth: usize,
    max_depth: usize,
    /// Number of nodes decoded so far, and how many of them inside aliases.
    decoded: usize,
    decoded_in_aliases: usize,
    alias_bytes: usize,
    /// The alias nodes that are being expanded.
    aliases: Vec<Id>,
    /// Errors that go-yaml leaves to the conversion to JSON, which comes after all of its own.
    has_unsupported_key: bool,
    unsupported_value: Option<Error>,
}

/// How much of a document may come from aliases: 99 % of up to 400,000 nodes, 10 % from 4,000,000 on.
fn allowed_alias_ratio(decoded: usize) -> f64 {
    const LOW: usize = 400_000;
    const HIGH: usize = 4_000_000;
    match decoded {
        ..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ((decoded - LOW) as f64 / (HIGH - LOW) as f64),
    }
}

fn excessive_aliasing() -> Error {
    Error::yaml(None, "document contains excessive aliasing")
}

fn merge_wants_map() -> Error {
    Error::yaml(None, "map merge requires map or sequence of maps as the value")
}

impl<'d, 'a> Decoder<'d, 'a> {
    fn new(document: &'d Document<'a>) -> Self {
        Decoder {
            document,
            depth: 0,
            max_depth: max_depth(),
            decoded: 1,
            decoded_in_aliases: 0,
            alias_bytes: 0,
            aliases: Vec::new(),
            has_unsupported_key: false,
            unsupported_value: None,
        }
    }

    fn position(&self, id: Id) -> Position {
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
        let (all, aliased) = (self.decoded, self.decoded_in_aliases);
        if aliased > 100 && all > 1000 && aliased as f64 / all as f64 > allowed_alias_ratio(all) {
            return Err(excessive_aliasing());
        }
        Ok(())
    }

    /// One level further in; `start` is how JSON starts it.
    fn deeper<R>(&mut self, start: char, decode: impl FnOnce(&mut Self) -> Result<R, Error>) -> Result<R, Error> {
        if self.depth == self.max_depth {
            return Err(Error::json_depth(start));
        }
        self.depth += 1;
        let result = decode(self);
        self.depth -= 1;
        result
    }

    /// Decodes what the alias node `id` stands for.
    fn through_alias<R>(
        &mut self,
        id: Id,
        target: Id,
        decode: impl FnOnce(&mut Self, Id) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if self.aliases.contains(&id) {
            let name = self.document.alias_name(id);
            return Err(Error::yaml(None, format!("anchor '{name}' value contains itself")));
        }
        self.aliases.push(id);
        // What it stands for is a level of its own, if it is a collection.
        let result = self.count().and_then(|()| decode(self, target));
        self.aliases.pop();
        result
    }

    fn node<T: Target>(&mut self, id: Id) -> Result<T, Error> {
        self.count()?;
        self.counted(id)
    }

    /// Decodes a node that is counted already.
    fn counted<T: Target>(&mut self, id: Id) -> Result<T, Error> {
        let at = self.position(id);
        match self.document.node(id).content {
            Content::Alias(target) => self.through_alias(id, target, |d, target| d.counted(target)),
            Content::Scalar { .. } => {
                let scalar = self.scalar(id)?;
                match T::scalar(scalar, at) {
                    Ok(value) => Ok(value),
                    Err(error) => {
                        self.unsupported_value.get_or_insert(error);
                        T::scalar(Scalar::Null, at)
                    }
                }
            }
            Content::Sequence { count, .. } => self.deeper('[', |d| {
                let mut items = Vec::with_capacity(count as usize);
                for child in d.document.children(id) {
                    items.push(d.node(child)?);
                }
                Ok(T::list(items, at))
            }),
            Content::Mapping { .. } => self.deeper('{', |d| {
                let mut map = T::Mapping::default();
                d.mapping::<T>(id, &mut map)?;
                Ok(T::map(map, at))
            }),
        }
    }

    fn scalar(&mut self, id: Id) -> Result<Scalar<'d>, Error> {
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
        match node.tag.as_deref() {
            None if *implicit => Ok(resolve(value)),
            None => Ok(Scalar::String(Cow::Borrowed(value))),
            Some("tag:yaml.org,2002:binary") => match super::json::decode_base64(value) {
                Some(bytes) => Ok(Scalar::String(Cow::Owned(go_json_string(&bytes)))),
                None => Err(Error::yaml(None, "!!binary value contains invalid base64 data")),
            },
            Some(tag) => resolve_tagged(tag, value).map_err(|message| Error::yaml(None, message)),
        }
    }

    /// Adds the entries of the mapping `id` to `map`.
    fn mapping<T: Target>(&mut self, id: Id, map: &mut T::Mapping) -> Result<(), Error> {
        let mut children = self.document.children(id);
        while let (Some(key), Some(value)) = (children.next(), children.next()) {
            if self.is_merge(key) {
                self.merge::<T>(value, map)?;
                continue;
            }
            let key_at = self.position(key);
            let key = self.key(key)?;
            let decoded = self.node::<T>(value)?;
            if !T::insert(map, key, key_at, decoded) {
                self.has_unsupported_key = true;
            }
        }
        Ok(())
    }

    fn key(&mut self, id: Id) -> Result<Scalar<'d>, Error> {
        self.count()?;
        self.counted_key(id)
    }

    fn counted_key(&mut self, id: Id) -> Result<Scalar<'d>, Error> {
        match self.document.node(id).content {
            Content::Alias(target) => self.through_alias(id, target, |d, target| d.counted_key(target)),
            Content::Scalar { .. } => self.scalar(id),
            _ => {
                let key = self.counted::<GoValue>(id)?;
                Err(Error::yaml(None, format!("invalid map key: {key}")))
            }
        }
    }

    fn is_merge(&self, id: Id) -> bool {
        let node = self.document.node(id);
        match &node.content {
            Content::Scalar { value, implicit } => {
                value == "<<" && (*implicit || node.tag.as_deref() == Some("tag:yaml.org,2002:merge"))
            }
            _ => false,
        }
    }

    /// Adds the entries of the mapping, or the mappings, behind a merge key.
    fn merge<T: Target>(&mut self, id: Id, map: &mut T::Mapping) -> Result<(), Error> {
        match self.document.node(id).content {
            Content::Sequence { .. } => {
                let parts: Vec<Id> = self.document.children(id).collect();
                // Earlier ones take precedence.
                parts
                    .into_iter()
                    .rev()
                    .try_for_each(|part| self.merge_one::<T>(part, map))
            }
            _ => self.merge_one::<T>(id, map),
        }
    }

    fn merge_one<T: Target>(&mut self, id: Id, map: &mut T::Mapping) -> Result<(), Error> {
        let is_mapping = |id| matches!(self.document.node(id).content, Content::Mapping { .. });
        match self.document.node(id).content {
            Content::Mapping { .. } => {
                self.count()?;
                self.deeper('{', |d| d.mapping::<T>(id, map))
            }
            Content::Alias(target) if is_mapping(target) => {
                self.count()?;
                self.through_alias(id, target, |d, target| d.deeper('{', |d| d.mapping::<T>(target, map)))
            }
            _ => Err(merge_wants_map()),
        }
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
