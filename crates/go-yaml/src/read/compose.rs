//! Tokens to a tree: libyaml's grammar as go-yaml v2 has it. The first document becomes a table of nodes, with anchors
//! resolved to their nodes.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::Error;
use crate::read::scanner::Scanner;
use crate::read::token::{Mark, Payload, YamlTokenKind};

/// Index of a node in a [`NodeTable`].
pub(crate) type NodeId = u32;

#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// `implicit` if it is plain and has no tag.
    Scalar {
        value: Cow<'a, str>,
        implicit: bool,
    },
    Alias {
        name: &'a str,
        target: NodeId,
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
    next: NodeId,
}

/// The nodes of a document, each before those that are in it.
pub(crate) struct NodeTable<'a>(Vec<RawNode<'a>>);

impl<'a> NodeTable<'a> {
    pub(crate) const ROOT: NodeId = 0;

    pub(crate) fn node(&self, id: NodeId) -> &RawNode<'a> {
        &self.0[id as usize]
    }

    /// The children of a sequence or mapping.
    pub(crate) fn children(&self, id: NodeId) -> Children<'_, 'a> {
        Children {
            document: self,
            at: id + 1,
            end: self.node(id).next,
        }
    }
}

pub(crate) struct Children<'d, 'a> {
    document: &'d NodeTable<'a>,
    at: NodeId,
    end: NodeId,
}

impl Iterator for Children<'_, '_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
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
    anchors: HashMap<&'a str, NodeId>,
    /// The number of open collections, and its maximum.
    depth: usize,
    max_depth: usize,
}

/// The properties before a node.
#[derive(Clone, Copy, Default)]
struct Properties<'a> {
    anchor: Option<&'a str>,
    tag: Option<&'a str>,
}

/// An error of the grammar; go-yaml reports its line counted from 0, and none if that is 0.
fn error(problem: &str, mark: Mark) -> Error {
    Error::yaml((mark.line > 0).then_some(mark.line as usize), problem)
}

/// Reads the first document; `None` if the stream has none.
pub(crate) fn compose(text: &str, max_depth: usize) -> Result<Option<NodeTable<'_>>, Error> {
    let mut composer = Composer {
        scanner: Scanner::new(text, max_depth),
        nodes: Vec::with_capacity(text.len() / 24 + 1),
        anchors: HashMap::new(),
        depth: 0,
        max_depth,
    };
    match composer.scanner.peek()?.0 {
        YamlTokenKind::StreamEnd => return Ok(None),
        YamlTokenKind::DocumentStart => {
            let ends = [
                YamlTokenKind::DocumentStart,
                YamlTokenKind::DocumentEnd,
                YamlTokenKind::StreamEnd,
            ];
            composer.node_behind(&ends, true, false)?;
        }
        _ => composer.node(true, false)?,
    }
    // The end of the document is part of it: what follows must be readable up to there.
    composer.scanner.peek()?;
    Ok(Some(NodeTable(composer.nodes)))
}

impl<'a> Composer<'a> {
    fn peek(&mut self) -> Result<YamlTokenKind, Error> {
        Ok(self.scanner.peek()?.0)
    }

    /// Adds a node that begins at `mark`; what is added until [`Composer::close`] is in it.
    fn add(&mut self, content: Content<'a>, properties: Properties<'a>, mark: Mark) -> NodeId {
        let id = self.nodes.len() as NodeId;
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

    fn open(&mut self, content: Content<'a>, properties: Properties<'a>, mark: Mark) -> Result<NodeId, Error> {
        self.depth += 1;
        if self.depth > self.max_depth {
            return Err(Error::depth(Some(mark.line as usize + 1), self.max_depth));
        }
        Ok(self.add(content, properties, mark))
    }

    fn close(&mut self, id: NodeId) {
        self.depth -= 1;
        let next = self.nodes.len() as NodeId;
        self.nodes[id as usize].next = next;
    }

    fn count_item(&mut self, id: NodeId) {
        if let Content::Sequence { count } = &mut self.nodes[id as usize].content {
            *count += 1;
        }
    }

    fn empty(&mut self, mark: Mark) {
        let value = Cow::Borrowed("");
        self.add(Content::Scalar { value, implicit: true }, Properties::default(), mark);
    }

    /// Consumes the current token and adds the node after it: an empty node if one of `ends` follows.
    fn node_behind(&mut self, ends: &[YamlTokenKind], block: bool, indentless: bool) -> Result<(), Error> {
        let (_, _, end) = self.scanner.peek()?;
        self.scanner.take();
        if ends.contains(&self.peek()?) {
            self.empty(end)
        } else {
            self.node(block, indentless)?
        }
        Ok(())
    }

    /// Anchor and tag in either order.
    fn properties(&mut self) -> Result<Properties<'a>, Error> {
        let mut properties = Properties::default();
        loop {
            let (kind, start, _) = self.scanner.peek()?;
            let property = match kind {
                YamlTokenKind::Anchor => &mut properties.anchor,
                YamlTokenKind::Tag => &mut properties.tag,
                _ => break,
            };
            if property.is_some() {
                break;
            }
            let Payload::Name(name) = self.scanner.take() else {
                break;
            };
            let behind_handle = name.trim_start_matches('!');
            if kind == YamlTokenKind::Tag && behind_handle.contains('!') {
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
            YamlTokenKind::BlockSequenceStart => self.block_sequence(id)?,
            YamlTokenKind::BlockMappingStart => self.block_mapping()?,
            YamlTokenKind::FlowSequenceStart => self.flow_sequence(id)?,
            YamlTokenKind::FlowMappingStart => self.flow_mapping(id)?,
            _ => self.indentless_sequence(id)?,
        }
        self.close(id);
        Ok(())
    }

    /// Adds an alias or a scalar, or opens a collection and returns its first token. It is separate from
    /// [`Composer::node`], so that the recursion uses little stack.
    fn start(&mut self, block: bool, indentless: bool) -> Result<Option<(NodeId, YamlTokenKind)>, Error> {
        let (kind, start, _) = self.scanner.peek()?;
        let properties = match kind {
            YamlTokenKind::Anchor | YamlTokenKind::Tag => self.properties()?,
            _ => Properties::default(),
        };
        let (kind, content_start, _) = self.scanner.peek()?;
        let has_properties = properties.anchor.is_some() || properties.tag.is_some();
        let is_sequence = match kind {
            YamlTokenKind::BlockEntry => indentless,
            YamlTokenKind::BlockSequenceStart => block,
            YamlTokenKind::FlowSequenceStart => true,
            _ => false,
        };
        if is_sequence || kind == YamlTokenKind::FlowMappingStart || kind == YamlTokenKind::BlockMappingStart && block {
            if kind != YamlTokenKind::BlockEntry {
                self.scanner.take();
            }
            let content = if is_sequence {
                Content::Sequence { count: 0 }
            } else {
                Content::Mapping
            };
            return Ok(Some((self.open(content, properties, start)?, kind)));
        }
        let content = match kind {
            YamlTokenKind::Alias if !has_properties => self.alias()?,
            YamlTokenKind::Scalar => match self.scanner.take() {
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

    fn block_sequence(&mut self, id: NodeId) -> Result<(), Error> {
        loop {
            let (kind, start, _) = self.scanner.peek()?;
            match kind {
                YamlTokenKind::BlockEntry => {
                    self.node_behind(&[YamlTokenKind::BlockEntry, YamlTokenKind::BlockEnd], true, false)?
                }
                YamlTokenKind::BlockEnd => break,
                _ => return Err(error("did not find expected '-' indicator", start)),
            }
            self.count_item(id);
        }
        self.scanner.take();
        Ok(())
    }

    fn indentless_sequence(&mut self, id: NodeId) -> Result<(), Error> {
        const ENDS: &[YamlTokenKind] = &[
            YamlTokenKind::BlockEntry,
            YamlTokenKind::Key,
            YamlTokenKind::Value,
            YamlTokenKind::BlockEnd,
        ];
        while self.peek()? == YamlTokenKind::BlockEntry {
            self.node_behind(ENDS, true, false)?;
            self.count_item(id);
        }
        Ok(())
    }

    fn block_mapping(&mut self) -> Result<(), Error> {
        const ENDS: &[YamlTokenKind] = &[YamlTokenKind::Key, YamlTokenKind::Value, YamlTokenKind::BlockEnd];
        loop {
            let (kind, start, _) = self.scanner.peek()?;
            match kind {
                YamlTokenKind::Key => self.node_behind(ENDS, true, true)?,
                YamlTokenKind::BlockEnd => break,
                _ => return Err(error("did not find expected key", start)),
            }
            let (kind, start, _) = self.scanner.peek()?;
            match kind {
                YamlTokenKind::Value => self.node_behind(ENDS, true, true)?,
                _ => self.empty(start),
            }
        }
        self.scanner.take();
        Ok(())
    }

    fn flow_sequence(&mut self, id: NodeId) -> Result<(), Error> {
        const END: YamlTokenKind = YamlTokenKind::FlowSequenceEnd;
        while let Some((kind, start)) = self.flow_entry(id, END, "did not find expected ',' or ']'")? {
            self.count_item(id);
            if kind == YamlTokenKind::Key {
                let pair = self.open(Content::Mapping, Properties::default(), start)?;
                self.flow_pair(END)?;
                self.close(pair);
            } else {
                self.node(false, false)?;
            }
        }
        Ok(())
    }

    fn flow_mapping(&mut self, id: NodeId) -> Result<(), Error> {
        const END: YamlTokenKind = YamlTokenKind::FlowMappingEnd;
        while let Some((kind, _)) = self.flow_entry(id, END, "did not find expected ',' or '}'")? {
            if kind == YamlTokenKind::Key {
                self.flow_pair(END)?;
            } else {
                self.node(false, false)?;
                let (_, start, _) = self.scanner.peek()?;
                self.empty(start);
            }
        }
        Ok(())
    }

    /// Consumes the current key token and adds key and value. `end` ends the collection.
    fn flow_pair(&mut self, end: YamlTokenKind) -> Result<(), Error> {
        self.node_behind(&[YamlTokenKind::Value, YamlTokenKind::FlowEntry, end], false, false)?;
        let (kind, start, _) = self.scanner.peek()?;
        match kind {
            YamlTokenKind::Value => self.node_behind(&[YamlTokenKind::FlowEntry, end], false, false),
            _ => {
                self.empty(start);
                Ok(())
            }
        }
    }

    /// The first token of the next entry of a flow collection, after its comma. `None` at the end, which is consumed.
    fn flow_entry(
        &mut self,
        id: NodeId,
        end: YamlTokenKind,
        problem: &str,
    ) -> Result<Option<(YamlTokenKind, Mark)>, Error> {
        let (mut kind, mut start, _) = self.scanner.peek()?;
        let is_first = self.nodes.len() as NodeId == id + 1;
        if kind != end && !is_first {
            if kind != YamlTokenKind::FlowEntry {
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
