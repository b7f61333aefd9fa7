//! A pattern as a tree.

use std::iter::Peekable;
use std::str::Chars;

/// How deep braces may nest; beyond it a pattern counts as malformed.
const MAX_DEPTH: usize = 50;

/// A part of a pattern.
#[derive(Clone, PartialEq)]
pub(super) enum Node {
    Nothing,
    /// Parts that follow each other.
    Pattern(Vec<Node>),
    /// `{a,b}`
    AnyOf(Vec<Node>),
    /// `[abc]`
    List {
        chars: Vec<char>,
        negated: bool,
    },
    /// `[a-z]`
    Range {
        low: char,
        high: char,
        negated: bool,
    },
    Text(String),
    /// `*`
    Any,
    /// `**`
    Super,
    /// `?`
    Single,
}

/// The tree of a pattern; `None` if it is malformed.
pub(super) fn parse(pattern: &str) -> Option<Node> {
    if pattern.contains(char::REPLACEMENT_CHARACTER) {
        return None;
    }
    let mut parser = Parser {
        rest: pattern.chars().peekable(),
    };
    parser.sequence(0)
}

struct Parser<'p> {
    rest: Peekable<Chars<'p>>,
}

impl Parser<'_> {
    /// What comes up to the end or, within braces, up to `,` or `}`.
    fn sequence(&mut self, depth: usize) -> Option<Node> {
        let mut parts = Vec::new();
        while let Some(next) = self.rest.peek().copied() {
            if depth > 0 && matches!(next, ',' | '}') {
                break;
            }
            let special = matches!(next, '*' | '?' | '[' | '{');
            if !special {
                let text = self.text(|c| matches!(c, '*' | '?' | '[' | '{') || depth > 0 && matches!(c, ',' | '}'));
                // Nothing is left of a backslash at the end.
                if !text.is_empty() {
                    parts.push(Node::Text(text));
                }
                continue;
            }
            self.rest.next();
            parts.push(match next {
                '*' if self.rest.next_if_eq(&'*').is_some() => Node::Super,
                '*' => Node::Any,
                '?' => Node::Single,
                '[' => self.class()?,
                _ => self.braces(depth + 1)?,
            });
        }
        Some(Node::Pattern(parts))
    }

    /// Characters up to one that ends them; a backslash takes away what the next one means.
    fn text(&mut self, ends: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(c) = self.rest.next_if(|c| !ends(*c)) {
            match c {
                '\\' => text.extend(self.rest.next()),
                c => text.push(c),
            }
        }
        text
    }

    /// What is open at the end counts as closed.
    fn braces(&mut self, depth: usize) -> Option<Node> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut options = Vec::new();
        loop {
            options.push(self.sequence(depth)?);
            if self.rest.next() != Some(',') {
                return Some(Node::AnyOf(options));
            }
        }
    }

    /// `[abc]` or `[a-z]`: a list of characters, or one range.
    fn class(&mut self) -> Option<Node> {
        let negated = self.rest.next_if_eq(&'!').is_some();
        let mut ahead = self.rest.clone();
        if let (Some(low), Some('-')) = (ahead.next(), ahead.next()) {
            let high = ahead.next()?;
            self.rest = ahead;
            return (self.rest.next()? == ']' && low <= high).then_some(Node::Range { low, high, negated });
        }
        let chars: Vec<char> = self.text(|c| c == ']').chars().collect();
        self.rest.next()?;
        (!chars.is_empty()).then_some(Node::List { chars, negated })
    }
}
