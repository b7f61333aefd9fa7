//! Tokens to events: libyaml's parser as go-yaml v2 has it.

use std::borrow::Cow;

use super::Error;
use super::scanner::Scanner;
use super::token::{Kind, Mark, Payload, Tag};

/// What few events say about their node: anchor and resolved tag, of which there is one or both. In a box, so that the
/// others are smaller.
#[derive(Debug, Default)]
pub(super) struct Properties<'a> {
    pub anchor: Option<&'a str>,
    pub tag: Option<Box<str>>,
}

#[derive(Debug)]
pub(super) enum Event<'a> {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(&'a str),
    /// `implicit` if the scalar is plain and untagged, or has the tag `!`.
    Scalar {
        properties: Option<Box<Properties<'a>>>,
        value: Cow<'a, str>,
        implicit: bool,
    },
    SequenceStart(Option<Box<Properties<'a>>>),
    SequenceEnd,
    MappingStart(Option<Box<Properties<'a>>>),
    MappingEnd,
}

#[derive(Debug, Clone, Copy)]
enum State {
    ImplicitDocumentStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceEntry { first: bool },
    IndentlessSequenceEntry,
    BlockMappingKey { first: bool },
    BlockMappingValue,
    FlowSequenceEntry { first: bool },
    FlowSequenceMappingKey,
    FlowSequenceMappingValue,
    FlowSequenceMappingEnd,
    FlowMappingKey { first: bool },
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: Vec<State>,
    /// `%TAG` directives of the document: handle and prefix.
    tag_directives: Vec<Tag>,
}

type Next<'a> = Result<(Event<'a>, Mark), Error>;

/// An error of the parser; go-yaml reports its line counted from 0, and none if that is 0.
fn error(problem: &str, mark: Mark) -> Error {
    Error::yaml((mark.line > 0).then_some(mark.line as usize), problem)
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Parser {
            scanner: Scanner::new(text),
            state: State::ImplicitDocumentStart,
            states: Vec::new(),
            tag_directives: Vec::new(),
        }
    }

    /// The next event and where it starts.
    pub(super) fn next(&mut self) -> Next<'a> {
        match self.state {
            State::ImplicitDocumentStart => {
                // STREAM-START
                self.scanner.peek()?;
                self.scanner.take();
                self.document_start(true)
            }
            State::DocumentStart => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(true, false),
            State::BlockSequenceEntry { first } => self.block_sequence_entry(first),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingKey { first } => self.block_mapping_key(first),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceEntry { first } => self.flow_sequence_entry(first),
            State::FlowSequenceMappingKey => self.flow_sequence_mapping_key(),
            State::FlowSequenceMappingValue => self.flow_sequence_mapping_value(),
            State::FlowSequenceMappingEnd => {
                let (_, start, _) = self.scanner.peek()?;
                self.state = State::FlowSequenceEntry { first: false };
                Ok((Event::MappingEnd, start))
            }
            State::FlowMappingKey { first } => self.flow_mapping_key(first),
            State::FlowMappingValue => self.flow_mapping_value(false),
            State::FlowMappingEmptyValue => self.flow_mapping_value(true),
            State::End => Ok((Event::StreamEnd, Mark::default())),
        }
    }

    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    /// Goes on with a node, and then with `then`.
    fn node_then(&mut self, then: State, block: bool, indentless: bool) -> Next<'a> {
        self.states.push(then);
        self.node(block, indentless)
    }

    /// Goes on with an empty scalar, and then with `then`.
    fn empty_then(&mut self, then: State, mark: Mark) -> Next<'a> {
        self.state = then;
        Ok((
            Event::Scalar {
                properties: None,
                value: Cow::Borrowed(""),
                implicit: true,
            },
            mark,
        ))
    }

    /// Takes the end of a collection.
    fn end_collection(&mut self, event: Event<'a>, mark: Mark) -> Next<'a> {
        self.pop_state();
        self.scanner.take();
        Ok((event, mark))
    }

    fn document_start(&mut self, implicit: bool) -> Next<'a> {
        let (mut kind, mut start, _) = self.scanner.peek()?;
        while !implicit && kind == Kind::DocumentEnd {
            self.scanner.take();
            (kind, start, _) = self.scanner.peek()?;
        }
        match kind {
            Kind::StreamEnd => {
                self.state = State::End;
                return Ok((Event::StreamEnd, start));
            }
            Kind::VersionDirective | Kind::TagDirective | Kind::DocumentStart => {}
            _ if implicit => {
                self.process_directives()?;
                self.states.push(State::DocumentEnd);
                self.state = State::BlockNode;
                return Ok((Event::DocumentStart, start));
            }
            _ => {}
        }
        self.process_directives()?;
        let (kind, token_start, _) = self.scanner.peek()?;
        if kind != Kind::DocumentStart {
            return Err(error("did not find expected <document start>", token_start));
        }
        self.states.push(State::DocumentEnd);
        self.state = State::DocumentContent;
        self.scanner.take();
        Ok((Event::DocumentStart, start))
    }

    fn document_content(&mut self) -> Next<'a> {
        let (kind, start, _) = self.scanner.peek()?;
        match kind {
            Kind::VersionDirective | Kind::TagDirective | Kind::DocumentStart | Kind::DocumentEnd | Kind::StreamEnd => {
                self.pop_state();
                self.empty_then(self.state, start)
            }
            _ => self.node(true, false),
        }
    }

    fn document_end(&mut self) -> Next<'a> {
        let (kind, start, _) = self.scanner.peek()?;
        if kind == Kind::DocumentEnd {
            self.scanner.take();
        }
        self.tag_directives.clear();
        self.state = State::DocumentStart;
        Ok((Event::DocumentEnd, start))
    }

    fn process_directives(&mut self) -> Result<(), Error> {
        let mut version_seen = false;
        loop {
            let (kind, start, _) = self.scanner.peek()?;
            if !matches!(kind, Kind::VersionDirective | Kind::TagDirective) {
                break;
            }
            match self.scanner.take() {
                Payload::Version { .. } if version_seen => {
                    return Err(error("found duplicate %YAML directive", start));
                }
                Payload::Version { major: 1, minor: 1 } => version_seen = true,
                Payload::Version { .. } => return Err(error("found incompatible YAML document", start)),
                Payload::Tag(directive) => {
                    if self.tag_directives.iter().any(|d| d.handle == directive.handle) {
                        return Err(error("found duplicate %TAG directive", start));
                    }
                    self.tag_directives.push(*directive);
                }
                _ => {}
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tag_directives.iter().any(|d| d.handle == handle.as_bytes()) {
                self.tag_directives.push(Tag {
                    handle: handle.into(),
                    suffix: prefix.into(),
                });
            }
        }
        Ok(())
    }

    /// Anchor and tag in either order; returns what follows them and where.
    fn properties(&mut self) -> Result<(Option<Box<Properties<'a>>>, Kind, Mark), Error> {
        let (mut kind, mut start, _) = self.scanner.peek()?;
        let mut properties = Properties::default();
        let mut tag: Option<(Box<Tag>, Mark)> = None;
        for _ in 0..2 {
            match kind {
                Kind::Anchor if properties.anchor.is_none() => {
                    if let Payload::Name(name) = self.scanner.take() {
                        properties.anchor = Some(name);
                    }
                }
                Kind::Tag if tag.is_none() => {
                    if let Payload::Tag(found) = self.scanner.take() {
                        tag = Some((found, start));
                    }
                }
                _ => break,
            }
            (kind, start, _) = self.scanner.peek()?;
        }
        if let Some((tag, mark)) = tag {
            let full = if tag.handle.is_empty() {
                tag.suffix
            } else {
                let prefix = self.tag_directives.iter().find(|d| d.handle == tag.handle);
                let full = prefix
                    .map(|d| [d.suffix.as_slice(), &tag.suffix].concat())
                    .unwrap_or_default();
                if full.is_empty() {
                    return Err(error("found undefined tag handle", mark));
                }
                full
            };
            if !full.is_empty() {
                properties.tag = Some(String::from_utf8_lossy(&full).into());
            }
        }
        let is_any = properties.anchor.is_some() || properties.tag.is_some();
        Ok((is_any.then(|| Box::new(properties)), kind, start))
    }

    fn node(&mut self, block: bool, indentless_sequence: bool) -> Next<'a> {
        let (kind, start, _) = self.scanner.peek()?;
        if kind == Kind::Alias {
            self.pop_state();
            let name = match self.scanner.take() {
                Payload::Name(name) => name,
                _ => "",
            };
            return Ok((Event::Alias(name), start));
        }
        let (properties, kind, content_start) = match kind {
            Kind::Anchor | Kind::Tag => self.properties()?,
            _ => (None, kind, start),
        };
        let tag = properties.as_ref().and_then(|properties| properties.tag.as_deref());
        let (state, event) = match kind {
            Kind::BlockEntry if indentless_sequence => {
                (State::IndentlessSequenceEntry, Event::SequenceStart(properties))
            }
            Kind::Scalar => {
                self.pop_state();
                let (value, plain) = match self.scanner.take() {
                    Payload::Scalar { value, plain } => (value, plain),
                    _ => (Cow::Borrowed(""), true),
                };
                let implicit = match tag {
                    None => plain,
                    Some(tag) => tag == "!",
                };
                return Ok((
                    Event::Scalar {
                        properties,
                        value,
                        implicit,
                    },
                    start,
                ));
            }
            Kind::FlowSequenceStart => (
                State::FlowSequenceEntry { first: true },
                Event::SequenceStart(properties),
            ),
            Kind::FlowMappingStart => (State::FlowMappingKey { first: true }, Event::MappingStart(properties)),
            Kind::BlockSequenceStart if block => (
                State::BlockSequenceEntry { first: true },
                Event::SequenceStart(properties),
            ),
            Kind::BlockMappingStart if block => {
                (State::BlockMappingKey { first: true }, Event::MappingStart(properties))
            }
            _ if properties.is_some() => {
                self.pop_state();
                let implicit = tag.is_none();
                return Ok((
                    Event::Scalar {
                        properties,
                        value: Cow::Borrowed(""),
                        implicit,
                    },
                    start,
                ));
            }
            _ => return Err(error("did not find expected node content", content_start)),
        };
        self.state = state;
        Ok((event, start))
    }

    fn block_sequence_entry(&mut self, first: bool) -> Next<'a> {
        if first {
            self.scanner.peek()?;
            self.scanner.take();
        }
        let (kind, start, end) = self.scanner.peek()?;
        match kind {
            Kind::BlockEntry => {
                self.scanner.take();
                let then = State::BlockSequenceEntry { first: false };
                match self.scanner.peek()?.0 {
                    Kind::BlockEntry | Kind::BlockEnd => self.empty_then(then, end),
                    _ => self.node_then(then, true, false),
                }
            }
            Kind::BlockEnd => self.end_collection(Event::SequenceEnd, start),
            _ => Err(error("did not find expected '-' indicator", start)),
        }
    }

    fn indentless_sequence_entry(&mut self) -> Next<'a> {
        let (kind, start, end) = self.scanner.peek()?;
        if kind != Kind::BlockEntry {
            self.pop_state();
            return Ok((Event::SequenceEnd, start));
        }
        self.scanner.take();
        match self.scanner.peek()?.0 {
            Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd => {
                self.empty_then(State::IndentlessSequenceEntry, end)
            }
            _ => self.node_then(State::IndentlessSequenceEntry, true, false),
        }
    }

    fn block_mapping_key(&mut self, first: bool) -> Next<'a> {
        if first {
            self.scanner.peek()?;
            self.scanner.take();
        }
        let (kind, start, end) = self.scanner.peek()?;
        match kind {
            Kind::Key => {
                self.scanner.take();
                match self.scanner.peek()?.0 {
                    Kind::Key | Kind::Value | Kind::BlockEnd => self.empty_then(State::BlockMappingValue, end),
                    _ => self.node_then(State::BlockMappingValue, true, true),
                }
            }
            Kind::BlockEnd => self.end_collection(Event::MappingEnd, start),
            _ => Err(error("did not find expected key", start)),
        }
    }

    fn block_mapping_value(&mut self) -> Next<'a> {
        let then = State::BlockMappingKey { first: false };
        let (kind, start, end) = self.scanner.peek()?;
        if kind != Kind::Value {
            return self.empty_then(then, start);
        }
        self.scanner.take();
        match self.scanner.peek()?.0 {
            Kind::Key | Kind::Value | Kind::BlockEnd => self.empty_then(then, end),
            _ => self.node_then(then, true, true),
        }
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Next<'a> {
        if first {
            self.scanner.peek()?;
            self.scanner.take();
        }
        let (mut kind, mut start, _) = self.scanner.peek()?;
        if kind != Kind::FlowSequenceEnd && !first {
            if kind != Kind::FlowEntry {
                return Err(error("did not find expected ',' or ']'", start));
            }
            self.scanner.take();
            (kind, start, _) = self.scanner.peek()?;
        }
        match kind {
            Kind::FlowSequenceEnd => self.end_collection(Event::SequenceEnd, start),
            Kind::Key => {
                self.state = State::FlowSequenceMappingKey;
                self.scanner.take();
                Ok((Event::MappingStart(None), start))
            }
            _ => self.node_then(State::FlowSequenceEntry { first: false }, false, false),
        }
    }

    fn flow_sequence_mapping_key(&mut self) -> Next<'a> {
        let (kind, _, end) = self.scanner.peek()?;
        if !matches!(kind, Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd) {
            return self.node_then(State::FlowSequenceMappingValue, false, false);
        }
        // The library drops the token here, whatever it is.
        self.scanner.take();
        self.empty_then(State::FlowSequenceMappingValue, end)
    }

    fn flow_sequence_mapping_value(&mut self) -> Next<'a> {
        let (kind, start, _) = self.scanner.peek()?;
        if kind == Kind::Value {
            self.scanner.take();
            let (kind, ..) = self.scanner.peek()?;
            if !matches!(kind, Kind::FlowEntry | Kind::FlowSequenceEnd) {
                return self.node_then(State::FlowSequenceMappingEnd, false, false);
            }
        }
        self.empty_then(State::FlowSequenceMappingEnd, start)
    }

    fn flow_mapping_key(&mut self, first: bool) -> Next<'a> {
        if first {
            self.scanner.peek()?;
            self.scanner.take();
        }
        let (mut kind, mut start, _) = self.scanner.peek()?;
        if kind != Kind::FlowMappingEnd && !first {
            if kind != Kind::FlowEntry {
                return Err(error("did not find expected ',' or '}'", start));
            }
            self.scanner.take();
            (kind, start, _) = self.scanner.peek()?;
        }
        match kind {
            Kind::FlowMappingEnd => self.end_collection(Event::MappingEnd, start),
            Kind::Key => {
                self.scanner.take();
                let (kind, start, _) = self.scanner.peek()?;
                match kind {
                    Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd => {
                        self.empty_then(State::FlowMappingValue, start)
                    }
                    _ => self.node_then(State::FlowMappingValue, false, false),
                }
            }
            _ => self.node_then(State::FlowMappingEmptyValue, false, false),
        }
    }

    fn flow_mapping_value(&mut self, empty: bool) -> Next<'a> {
        let then = State::FlowMappingKey { first: false };
        let (kind, mut start, _) = self.scanner.peek()?;
        if kind == Kind::Value && !empty {
            self.scanner.take();
            let (kind, after, _) = self.scanner.peek()?;
            if !matches!(kind, Kind::FlowEntry | Kind::FlowMappingEnd) {
                return self.node_then(then, false, false);
            }
            start = after;
        }
        self.empty_then(then, start)
    }
}
