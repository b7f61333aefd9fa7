//! What the scanner hands to the composer.

use std::borrow::Cow;

/// A place in the text; all three count from 0 and in characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub index: u32,
    pub line: u32,
    pub column: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    StreamEnd,
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
pub(crate) enum Payload<'a> {
    None,
    /// Of an anchor or alias; or a tag with its `!`.
    Name(&'a str),
    Scalar {
        value: Cow<'a, str>,
        plain: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub kind: Kind,
    pub start: Mark,
    pub end: Mark,
    pub payload: Payload<'a>,
}
