//! The lexer's tokens. They borrow from the text.

use super::ast::Pos;
use super::quote::{quote_go, quote_go_prefix};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The lexer gave up; the token's text is the reason.
    Error,
    Bool,
    /// A printable ASCII character without a meaning of its own, such as a comma.
    Char,
    CharConstant,
    Complex,
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
pub(super) enum Keyword {
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

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind,
    /// Space stands before it, within an action.
    pub(super) spaced: bool,
    /// The byte offset.
    pub(super) pos: Pos,
    pub(super) text: &'s [u8],
}

// === impl Keyword ===

impl Keyword {
    pub(super) fn by_name(word: &[u8]) -> Option<Self> {
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

// === impl Token ===

impl Token<'_> {
    /// As parse errors show it. `error` is the lexer's reason, for an error token.
    pub(super) fn show(&self, error: &str) -> String {
        match self.kind {
            Kind::Eof => "EOF".to_owned(),
            Kind::Error => error.to_owned(),
            Kind::Keyword(_) => format!("<{}>", String::from_utf8_lossy(self.text)),
            _ if self.text.len() > 10 => format!("{}...", quote_go_prefix(self.text, 10)),
            _ => quote_go(self.text),
        }
    }
}
