//! Events to a tree: the first document as a table of nodes, with anchors resolved to their nodes.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Error;
use super::parser::{Event, Parser, Properties};
use super::token::Mark;

/// Index of a node in a [`Document`].
pub(super) type Id = u32;

/// No node.
const NONE: Id = Id::MAX;

#[derive(Debug)]
pub(super) enum Content<'a> {
    Scalar {
        value: Cow<'a, str>,
        implicit: bool,
    },
    Alias(Id),
    Sequence {
        first: Id,
        count: u32,
    },
    /// Keys and values alternate.
    Mapping {
        first: Id,
        count: u32,
    },
}

#[derive(Debug)]
pub(super) struct RawNode<'a> {
    pub content: Content<'a>,
    pub tag: Option<Box<str>>,
    pub line: u32,
    pub column: u32,
    next: Id,
}

pub(super) struct Document<'a> {
    nodes: Vec<RawNode<'a>>,
    /// Names behind `*`, for messages.
    aliases: HashMap<Id, &'a str>,
}

impl<'a> Document<'a> {
    pub(super) const ROOT: Id = 0;

    pub(super) fn node(&self, id: Id) -> &RawNode<'a> {
        &self.nodes[id as usize]
    }

    pub(super) fn alias_name(&self, id: Id) -> &'a str {
        self.aliases.get(&id).copied().unwrap_or_default()
    }

    /// The children of a sequence or mapping.
    pub(super) fn children(&self, id: Id) -> Children<'_, 'a> {
        let next = match self.node(id).content {
            Content::Sequence { first, .. } | Content::Mapping { first, .. } => first,
            _ => NONE,
        };
        Children { document: self, next }
    }
}

pub(super) struct Children<'d, 'a> {
    document: &'d Document<'a>,
    next: Id,
}

impl Iterator for Children<'_, '_> {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        let id = self.next;
        if id == NONE {
            return None;
        }
        self.next = self.document.node(id).next;
        Some(id)
    }
}

/// A collection whose end has not come yet.
struct Open {
    id: Id,
    last: Id,
}

struct Composer<'a> {
    document: Document<'a>,
    anchors: HashMap<&'a str, Id>,
    open: Vec<Open>,
}

/// Reads the first document; `None` if the stream has none.
pub(super) fn compose<'a>(text: &'a str) -> Result<Option<Document<'a>>, Error> {
    let mut parser = Parser::new(text);
    if let (Event::StreamEnd, _) = parser.next()? {
        return Ok(None);
    }
    let mut composer = Composer {
        document: Document {
            nodes: Vec::with_capacity(text.len() / 24 + 1),
            aliases: HashMap::new(),
        },
        anchors: HashMap::new(),
        open: Vec::new(),
    };
    loop {
        let (event, mark) = parser.next()?;
        match event {
            Event::Scalar {
                properties,
                value,
                implicit,
            } => {
                composer.add(Content::Scalar { value, implicit }, properties, mark);
            }
            Event::Alias(name) => {
                let Some(&target) = composer.anchors.get(name) else {
                    return Err(Error::yaml(None, format!("unknown anchor '{name}' referenced")));
                };
                let id = composer.add(Content::Alias(target), None, mark);
                composer.document.aliases.insert(id, name);
            }
            Event::SequenceStart(properties) => {
                composer.open(Content::Sequence { first: NONE, count: 0 }, properties, mark);
            }
            Event::MappingStart(properties) => {
                composer.open(Content::Mapping { first: NONE, count: 0 }, properties, mark);
            }
            Event::SequenceEnd | Event::MappingEnd => {
                composer.open.pop();
            }
            Event::DocumentStart | Event::DocumentEnd | Event::StreamEnd => break,
        }
        if composer.open.is_empty() {
            // The end of the document is part of it: what follows must be readable up to there.
            parser.next()?;
            break;
        }
    }
    Ok((!composer.document.nodes.is_empty()).then_some(composer.document))
}

impl<'a> Composer<'a> {
    fn add(&mut self, content: Content<'a>, properties: Option<Box<Properties<'a>>>, mark: Mark) -> Id {
        let Properties { anchor, tag } = properties.map(|properties| *properties).unwrap_or_default();
        let nodes = &mut self.document.nodes;
        let id = nodes.len() as Id;
        nodes.push(RawNode {
            content,
            tag,
            line: mark.line,
            column: mark.column,
            next: NONE,
        });
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        let Some(parent) = self.open.last_mut() else { return id };
        let last = std::mem::replace(&mut parent.last, id);
        if last != NONE {
            nodes[last as usize].next = id;
        }
        if let Content::Sequence { first, count } | Content::Mapping { first, count } =
            &mut nodes[parent.id as usize].content
        {
            if *first == NONE {
                *first = id;
            }
            *count += 1;
        }
        id
    }

    fn open(&mut self, content: Content<'a>, properties: Option<Box<Properties<'a>>>, mark: Mark) {
        let id = self.add(content, properties, mark);
        self.open.push(Open { id, last: NONE });
    }
}
