//! The scanner's output for the composer.

use std::borrow::Cow;

/// A place in the text; all three count from 0 and in characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub index: u32,
    pub line: u32,
    pub column: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum YamlTokenKind {
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
    /// The name of an anchor or alias, or a tag with its `!`.
    Name(&'a str),
    Scalar {
        value: Cow<'a, str>,
        plain: bool,
    },
}

#[derive(Debug)]
pub(crate) struct YamlToken<'a> {
    pub kind: YamlTokenKind,
    pub start: Mark,
    pub end: Mark,
    pub payload: Payload<'a>,
}
