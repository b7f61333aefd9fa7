//! What the scanner hands to the parser.

use std::borrow::Cow;

/// A place in the text; all three count from 0 and in characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub index: u32,
    pub line: u32,
    pub column: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    StreamStart,
    StreamEnd,
    VersionDirective,
    TagDirective,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    Tag,
    Scalar,
}

#[derive(Debug)]
pub(super) enum Payload<'a> {
    None,
    Version {
        major: u8,
        minor: u8,
    },
    /// Of an anchor or alias.
    Name(&'a str),
    Tag(Box<Tag>),
    Scalar {
        value: Cow<'a, str>,
        plain: bool,
    },
}

/// A tag (`handle` + `suffix`) or a `%TAG` directive (`handle` + prefix).
#[derive(Debug)]
pub(super) struct Tag {
    pub handle: Vec<u8>,
    pub suffix: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Token<'a> {
    pub kind: Kind,
    pub start: Mark,
    pub end: Mark,
    pub payload: Payload<'a>,
}
