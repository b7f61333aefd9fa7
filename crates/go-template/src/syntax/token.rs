//! The lexer's tokens.

use crate::syntax::ast::{Pos, TextSpan};
use crate::text::quote::{quote_go, quote_go_prefix};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenKind {
    /// The lexer gave up; the token's text is the reason.
    Error,
    Bool,
    /// A printable ASCII character without a meaning of its own, such as a comma.
    Char,
    CharConstant,
    Assign,
    Declare,
    Eof,
    /// With its leading dot.
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    String,
    Text,
    /// With its leading `$`.
    Variable,
    Keyword(Keyword),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Dot,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

/// A token: two numbers, so that it is passed in two registers. A chart has about 100,000.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// From the lowest bit: the byte offset (32 bits), the length in bytes (31), whether space stands before it.
    place: u64,
}

impl Keyword {
    pub(crate) fn by_name(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"block" => Keyword::Block,
            b"break" => Keyword::Break,
            b"continue" => Keyword::Continue,
            b"define" => Keyword::Define,
            b"else" => Keyword::Else,
            b"end" => Keyword::End,
            b"if" => Keyword::If,
            b"nil" => Keyword::Nil,
            b"range" => Keyword::Range,
            b"template" => Keyword::Template,
            b"with" => Keyword::With,
            _ => return None,
        })
    }
}

impl Token {
    /// A token of that place and length in bytes. `spaced` is whether space stands before it, within an action.
    #[inline]
    pub(crate) fn new(kind: TokenKind, pos: usize, length: usize, spaced: bool) -> Self {
        Token {
            kind,
            place: pos as u64 & 0xffff_ffff | (length as u64 & 0x7fff_ffff) << 32 | u64::from(spaced) << 63,
        }
    }

    /// The byte offset.
    #[inline]
    pub(crate) fn pos(self) -> Pos {
        self.place as Pos
    }

    /// In bytes.
    #[inline]
    pub(crate) fn length(self) -> u32 {
        (self.place >> 32) as u32 & 0x7fff_ffff
    }

    /// Whether space stands before it, within an action.
    #[inline]
    pub(crate) fn spaced(self) -> bool {
        self.place >> 63 == 1
    }

    /// Its place in the source.
    #[inline]
    pub(crate) fn span(self) -> TextSpan {
        TextSpan(self.pos(), self.length())
    }

    /// As parse errors show it. `text` is the token's, `error` the lexer's reason, for an error token.
    pub(crate) fn show(self, text: &[u8], error: &str) -> String {
        match self.kind {
            TokenKind::Eof => "EOF".to_owned(),
            TokenKind::Error => error.to_owned(),
            TokenKind::Keyword(_) => format!("<{}>", String::from_utf8_lossy(text)),
            _ if text.len() > 10 => format!("{}...", quote_go_prefix(text, 10)),
            _ => quote_go(text),
        }
    }
}
