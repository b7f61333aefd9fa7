//! Tokens to a tree: libyaml's grammar as go-yaml v2 has it. The first document becomes a table of nodes, with anchors
//! resolved to their nodes.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::Error;
use crate::read::scanner::Scanner;
use crate::read::token::{Kind, Mark, Payload};

/// Index of a node in a [`Document`].
pub(crate) type Id = u32;

#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// `implicit` if it is plain and has no tag.
    Scalar {
        value: Cow<'a, str>,
        implicit: bool,
    },
    Alias {
        name: &'a str,
        target: Id,
    },
    Sequence {
        count: usize,
    },
    /// Keys and values alternate.
    Mapping,
}

#[derive(Debug)]
pub(crate) struct RawNode<'a> {
    pub content: Content<'a>,
    pub tag: Option<&'a str>,
    pub line: u32,
    pub column: u32,
    /// The node behind this one and all that is in it.
    next: Id,
}

/// The nodes of a document, each before those that are in it.
pub(crate) struct Document<'a>(Vec<RawNode<'a>>);

impl<'a> Document<'a> {
    pub(crate) const ROOT: Id = 0;

    pub(crate) fn node(&self, id: Id) -> &RawNode<'a> {
        &self.0[id as usize]
    }

    /// The children of a sequence or mapping.
    pub(crate) fn children(&self, id: Id) -> Children<'_, 'a> {
        Children {
            document: self,
            at: id + 1,
            end: self.node(id).next,
        }
    }
}

pub(crate) struct Children<'d, 'a> {
    document: &'d Document<'a>,
    at: Id,
    end: Id,
}

impl Iterator for Children<'_, '_> {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        let id = self.at;
        if id >= self.end {
            return None;
        }
        self.at = self.document.node(id).next;
        Some(id)
    }
}

struct Composer<'a> {
    scanner: Scanner<'a>,
    nodes: Vec<RawNode<'a>>,
    anchors: HashMap<&'a str, Id>,
    /// How many collections are open, and may be.
    depth: usize,
    max_depth: usize,
}

/// What may stand before a node.
#[derive(Default)]
struct Properties<'a> {
    anchor: Option<&'a str>,
    tag: Option<&'a str>,
}

/// An error of the grammar; go-yaml reports its line counted from 0, and none if that is 0.
fn error(problem: &str, mark: Mark) -> Error {
    Error::yaml((mark.line > 0).then_some(mark.line as usize), problem)
}

/// Reads the first document; `None` if the stream has none.
pub(crate) fn compose(text: &str, max_depth: usize) -> Result<Option<Document<'_>>, Error> {
    let mut composer = Composer {
        scanner: Scanner::new(text, max_depth),
        nodes: Vec::with_capacity(text.len() / 24 + 1),
        anchors: HashMap::new(),
        depth: 0,
        max_depth,
    };
    match composer.scanner.peek()?.0 {
        Kind::StreamEnd => return Ok(None),
        Kind::DocumentStart => {
            let ends = [Kind::DocumentStart, Kind::DocumentEnd, Kind::StreamEnd];
            composer.node_behind(&ends, true, false)?;
        }
        _ => composer.node(true, false)?,
    }
    // The end of the document is part of it: what follows must be readable up to there.
    composer.scanner.peek()?;
    Ok(Some(Document(composer.nodes)))
}

impl<'a> Composer<'a> {
    fn peek(&mut self) -> Result<Kind, Error> {
        Ok(self.scanner.peek()?.0)
    }

    /// Adds a node that begins at `mark`; what is added until [`Composer::close`] is in it.
    fn add(&mut self, content: Content<'a>, properties: Properties<'a>, mark: Mark) -> Id {
        let id = self.nodes.len() as Id;
        self.nodes.push(RawNode {
            content,
            tag: properties.tag,
            line: mark.line,
            column: mark.column,
            next: id + 1,
        });
        if let Some(anchor) = properties.anchor {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn open(&mut self, content: Content<'a>, properties: Properties<'a>, mark: Mark) -> Result<Id, Error> {
        self.depth += 1;
        if self.depth > self.max_depth {
            return Err(Error::depth(Some(mark.line as usize + 1), self.max_depth));
        }
        Ok(self.add(content, properties, mark))
    }

    fn close(&mut self, id: Id) {
        self.depth -= 1;
        let next = self.nodes.len() as Id;
        self.nodes[id as usize].next = next;
    }

    fn count_item(&mut self, id: Id) {
        if let Content::Sequence { count } = &mut self.nodes[id as usize].content {
            *count += 1;
        }
    }

    fn empty(&mut self, mark: Mark) {
        let value = Cow::Borrowed("");
        self.add(Content::Scalar { value, implicit: true }, Properties::default(), mark);
    }

    /// Takes the token at hand, and adds the node behind it: an empty one if one of `ends` comes there.
    fn node_behind(&mut self, ends: &[Kind], block: bool, indentless: bool) -> Result<(), Error> {
        let (_, _, end) = self.scanner.peek()?;
        self.scanner.take();
        match ends.contains(&self.peek()?) {
            true => self.empty(end),
            false => self.node(block, indentless)?,
        }
        Ok(())
    }

    /// Anchor and tag in either order.
    fn properties(&mut self) -> Result<Properties<'a>, Error> {
        let mut properties = Properties::default();
        loop {
            let (kind, start, _) = self.scanner.peek()?;
            let property = match kind {
                Kind::Anchor => &mut properties.anchor,
                Kind::Tag => &mut properties.tag,
                _ => break,
            };
            if property.is_some() {
                break;
            }
            let Payload::Name(name) = self.scanner.take() else {
                break;
            };
            let behind_handle = name.trim_start_matches('!');
            if kind == Kind::Tag && behind_handle.contains('!') {
                return Err(error("found undefined tag handle", start));
            }
            *property = Some(name);
        }
        Ok(properties)
    }

    /// Adds a node. `indentless`: a sequence may stand here that isn't indented.
    fn node(&mut self, block: bool, indentless: bool) -> Result<(), Error> {
        let Some((id, kind)) = self.start(block, indentless)? else {
            return Ok(());
        };
        match kind {
            Kind::BlockSequenceStart => self.block_sequence(id)?,
            Kind::BlockMappingStart => self.block_mapping()?,
            Kind::FlowSequenceStart => self.flow_sequence(id)?,
            Kind::FlowMappingStart => self.flow_mapping(id)?,
            _ => self.indentless_sequence(id)?,
        }
        self.close(id);
        Ok(())
    }

    /// Adds an alias or a scalar, or opens a collection and says what it begins with. Apart from [`Composer::node`], so that
    /// recursion takes little of the stack.
    fn start(&mut self, block: bool, indentless: bool) -> Result<Option<(Id, Kind)>, Error> {
        let (kind, start, _) = self.scanner.peek()?;
        let properties = match kind {
            Kind::Anchor | Kind::Tag => self.properties()?,
            _ => Properties::default(),
        };
        let (kind, content_start, _) = self.scanner.peek()?;
        let has_properties = properties.anchor.is_some() || properties.tag.is_some();
        let is_sequence = match kind {
            Kind::BlockEntry => indentless,
            Kind::BlockSequenceStart => block,
            Kind::FlowSequenceStart => true,
            _ => false,
        };
        if is_sequence || kind == Kind::FlowMappingStart || kind == Kind::BlockMappingStart && block {
            if kind != Kind::BlockEntry {
                self.scanner.take();
            }
            let content = match is_sequence {
                true => Content::Sequence { count: 0 },
                false => Content::Mapping,
            };
            return Ok(Some((self.open(content, properties, start)?, kind)));
        }
        let content = match kind {
            Kind::Alias if !has_properties => self.alias()?,
            Kind::Scalar => match self.scanner.take() {
                Payload::Scalar { value, plain } => Content::Scalar {
                    value,
                    implicit: plain && properties.tag.is_none(),
                },
                _ => return Ok(None),
            },
            _ if has_properties => Content::Scalar {
                value: Cow::Borrowed(""),
                implicit: properties.tag.is_none(),
            },
            _ => return Err(error("did not find expected node content", content_start)),
        };
        self.add(content, properties, start);
        Ok(None)
    }

    fn alias(&mut self) -> Result<Content<'a>, Error> {
        let name = match self.scanner.take() {
            Payload::Name(name) => name,
            _ => "",
        };
        match self.anchors.get(name) {
            Some(&target) => Ok(Content::Alias { name, target }),
            None => Err(Error::yaml(None, format!("unknown anchor '{name}' referenced"))),
        }
    }

    fn block_sequence(&mut self, id: Id) -> Result<(), Error> {
        loop {
            let (kind, start, _) = self.scanner.peek()?;
            match kind {
                Kind::BlockEntry => self.node_behind(&[Kind::BlockEntry, Kind::BlockEnd], true, false)?,
                Kind::BlockEnd => break,
                _ => return Err(error("did not find expected '-' indicator", start)),
            }
            self.count_item(id);
        }
        self.scanner.take();
        Ok(())
    }

    fn indentless_sequence(&mut self, id: Id) -> Result<(), Error> {
        const ENDS: &[Kind] = &[Kind::BlockEntry, Kind::Key, Kind::Value, Kind::BlockEnd];
        while self.peek()? == Kind::BlockEntry {
            self.node_behind(ENDS, true, false)?;
            self.count_item(id);
        }
        Ok(())
    }

    fn block_mapping(&mut self) -> Result<(), Error> {
        const ENDS: &[Kind] = &[Kind::Key, Kind::Value, Kind::BlockEnd];
        loop {
            let (kind, start, _) = self.scanner.peek()?;
            match kind {
                Kind::Key => self.node_behind(ENDS, true, true)?,
                Kind::BlockEnd => break,
                _ => return Err(error("did not find expected key", start)),
            }
            let (kind, start, _) = self.scanner.peek()?;
            match kind {
                Kind::Value => self.node_behind(ENDS, true, true)?,
                _ => self.empty(start),
            }
        }
        self.scanner.take();
        Ok(())
    }

    fn flow_sequence(&mut self, id: Id) -> Result<(), Error> {
        const END: Kind = Kind::FlowSequenceEnd;
        while let Some((kind, start)) = self.flow_entry(id, END, "did not find expected ',' or ']'")? {
            self.count_item(id);
            if kind == Kind::Key {
                let pair = self.open(Content::Mapping, Properties::default(), start)?;
                self.flow_pair(END)?;
                self.close(pair);
            } else {
                self.node(false, false)?;
            }
        }
        Ok(())
    }

    fn flow_mapping(&mut self, id: Id) -> Result<(), Error> {
        const END: Kind = Kind::FlowMappingEnd;
        while let Some((kind, _)) = self.flow_entry(id, END, "did not find expected ',' or '}'")? {
            if kind == Kind::Key {
                self.flow_pair(END)?;
            } else {
                self.node(false, false)?;
                let (_, start, _) = self.scanner.peek()?;
                self.empty(start);
            }
        }
        Ok(())
    }

    /// Takes the token at hand, which says that a key follows, and adds key and value; `end` is what ends the collection.
    fn flow_pair(&mut self, end: Kind) -> Result<(), Error> {
        self.node_behind(&[Kind::Value, Kind::FlowEntry, end], false, false)?;
        let (kind, start, _) = self.scanner.peek()?;
        match kind {
            Kind::Value => self.node_behind(&[Kind::FlowEntry, end], false, false),
            _ => {
                self.empty(start);
                Ok(())
            }
        }
    }

    /// What the next entry of a flow collection begins with, behind its comma; `None` at the end, which is taken.
    fn flow_entry(&mut self, id: Id, end: Kind, problem: &str) -> Result<Option<(Kind, Mark)>, Error> {
        let (mut kind, mut start, _) = self.scanner.peek()?;
        let is_first = self.nodes.len() as Id == id + 1;
        if kind != end && !is_first {
            if kind != Kind::FlowEntry {
                return Err(error(problem, start));
            }
            self.scanner.take();
            (kind, start, _) = self.scanner.peek()?;
        }
        if kind == end {
            self.scanner.take();
            return Ok(None);
        }
        Ok(Some((kind, start)))
    }
}
