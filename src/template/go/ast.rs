//! Syntax trees, with byte positions, and their normal form as source text, which error messages show.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::builtins::Builtin;
use super::quote::quote_go;
use super::value::Str;

/// A byte offset into the parsed text.
pub(super) type Pos = u32;

/// A part of the parsed text: where it starts, and its length in bytes. Names are kept so, since a chart has a hundred
/// thousand of them.
#[derive(Clone, Copy)]
pub(super) struct Span(pub(super) Pos, pub(super) u32);

/// One parsed template: a file's text without its definitions, or one definition.
pub struct Tree {
    pub(super) name: Box<str>,
    pub(super) source: Arc<Source>,
    pub(super) root: List,
}

/// The text that a tree was parsed from; shared by all definitions in it.
pub(super) struct Source {
    pub(super) name: Box<str>,
    pub(super) text: Str,
}

pub(super) type List = Box<[Node]>;

/// What stands between `{{` and `}}`, or between those.
pub(super) enum Node {
    /// From and to where in the source.
    Text(Pos, Pos),
    /// An action that is a string constant whose text stands between its quotes as it is meant.
    Constant(Span),
    Action(Pipe),
    If(Box<Branch>),
    With(Box<Branch>),
    Range(Box<Branch>),
    Template(Box<Invocation>),
    Break(Pos),
    Continue(Pos),
}

/// `if`, `with` or `range`.
pub(super) struct Branch {
    pub(super) pipe: Pipe,
    pub(super) list: List,
    pub(super) else_list: Option<List>,
}

/// `{{template "name" pipeline}}`.
pub(super) struct Invocation {
    pub(super) pos: Pos,
    pub(super) name: Box<str>,
    pub(super) pipe: Option<Pipe>,
}

/// Commands, each of which gets the result of the one before as its last argument.
pub(super) struct Pipe {
    pub(super) pos: Pos,
    /// Whether `decl` are assigned to (`=`) rather than declared (`:=`).
    pub(super) is_assign: bool,
    pub(super) decl: Box<[Variable]>,
    pub(super) commands: Box<[Command]>,
}

/// A function, field or operand with its arguments; never empty.
pub(super) struct Command {
    pub(super) pos: Pos,
    pub(super) first: Operand,
    pub(super) args: Box<[Operand]>,
}

pub(super) enum Operand {
    Identifier(Identifier),
    Field(Field),
    Variable(Variable),
    Chain(Box<Chain>),
    /// Parenthesised.
    Pipe(Box<Pipe>),
    Bool(Pos, bool),
    Dot(Pos),
    Nil(Pos),
    Number(Box<Number>),
    String(Literal),
}

/// A function's name.
pub(super) struct Identifier {
    pub(super) name: Span,
    pub(super) builtin: Option<Builtin>,
    /// Where the function was found last: the table's id (high half) and 1 + the index in it (low half, 0: not there).
    pub(super) found: AtomicU64,
}

/// `.a.b.c`; at least one name.
pub(super) struct Field {
    pub(super) pos: Pos,
    pub(super) names: Box<[Span]>,
}

/// `$x.a.b`.
pub(super) struct Variable {
    pub(super) pos: Pos,
    /// With its `$`.
    pub(super) name: Span,
    pub(super) fields: Box<[Span]>,
}

/// `(pipeline).a.b` or `function.a.b`.
pub(super) struct Chain {
    pub(super) pos: Pos,
    pub(super) operand: Operand,
    pub(super) fields: Box<[Span]>,
}

/// A number in all the types that it fits.
pub(super) struct Number {
    pub(super) text: Span,
    pub(super) value: super::number::Constant,
}

/// A string constant, as written and as meant.
pub(super) struct Literal {
    pub(super) quoted: Span,
    pub(super) text: Str,
}

// === impl Tree ===

impl Tree {
    /// The template's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name under which the text was parsed, for a definition that of the file around it.
    pub fn parse_name(&self) -> &str {
        &self.source.name
    }

    /// The length of the text around it, in bytes.
    pub fn source_len(&self) -> usize {
        self.source.text.as_bytes().len()
    }

    /// Whether there is nothing but white space and comments.
    pub fn is_empty(&self) -> bool {
        is_empty(&self.root, &self.source)
    }

    /// The line, counted from 1, and the column in bytes, counted from 0.
    pub(super) fn line_and_column(&self, pos: Pos) -> (usize, usize) {
        let before = self.source.slice(0, pos);
        let line_start = before
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |newline| newline + 1);
        (
            1 + before.iter().filter(|b| **b == b'\n').count(),
            before.len() - line_start,
        )
    }
}

pub(super) fn is_empty(list: &[Node], source: &Source) -> bool {
    list.iter().all(|node| match node {
        Node::Text(from, to) => super::unicode::is_blank(source.slice(*from, *to)),
        _ => false,
    })
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("name", &self.name)
            .field("source", &self.source.name)
            .finish_non_exhaustive()
    }
}

// === impl Source ===

impl Source {
    pub(super) fn slice(&self, from: Pos, to: Pos) -> &[u8] {
        self.text.get(from as usize..to as usize).unwrap_or_default()
    }

    pub(super) fn bytes(&self, Span(from, length): Span) -> &[u8] {
        self.slice(from, from + length)
    }

    /// A name or number: the lexer takes them only if they are UTF-8.
    pub(super) fn text(&self, span: Span) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }
}

// === impl Identifier ===

impl Identifier {
    pub(super) fn new(name: Span, builtin: Option<Builtin>) -> Self {
        Identifier {
            name,
            builtin,
            found: AtomicU64::new(0),
        }
    }

    /// The function's index in a table, hashed for only when another table was asked last.
    pub(super) fn index_in<C: ?Sized>(&self, source: &Source, funcs: &super::func::FuncMap<C>) -> Option<u32> {
        let found = self.found.load(Ordering::Relaxed);
        let one_based = if (found >> 32) as u32 == funcs.id() {
            found as u32
        } else {
            let one_based = funcs.index_of(source.text(self.name)).map_or(0, |index| index + 1);
            self.found
                .store(u64::from(funcs.id()) << 32 | u64::from(one_based), Ordering::Relaxed);
            one_based
        };
        one_based.checked_sub(1)
    }
}

// === impl Node ===

impl Node {
    pub(super) fn pos(&self) -> Pos {
        match self {
            Node::Text(pos, _) | Node::Constant(Span(pos, _)) | Node::Break(pos) | Node::Continue(pos) => *pos,
            Node::Action(pipe) => pipe.pos,
            Node::If(branch) | Node::With(branch) | Node::Range(branch) => branch.pipe.pos,
            Node::Template(call) => call.pos,
        }
    }

    /// The source in normal form.
    pub(super) fn write(&self, source: &Source, out: &mut String) {
        match self {
            Node::Text(from, to) => out.push_str(&String::from_utf8_lossy(source.slice(*from, *to))),
            Node::Constant(quoted) => {
                out.push_str("{{");
                out.push_str(&String::from_utf8_lossy(source.bytes(*quoted)));
                out.push_str("}}");
            }
            Node::Action(pipe) => {
                out.push_str("{{");
                pipe.write(source, out);
                out.push_str("}}");
            }
            Node::If(branch) => branch.write("if", source, out),
            Node::With(branch) => branch.write("with", source, out),
            Node::Range(branch) => branch.write("range", source, out),
            Node::Template(call) => {
                out.push_str("{{template ");
                out.push_str(&quote_go(call.name.as_bytes()));
                if let Some(pipe) = &call.pipe {
                    out.push(' ');
                    pipe.write(source, out);
                }
                out.push_str("}}");
            }
            Node::Break(_) => out.push_str("{{break}}"),
            Node::Continue(_) => out.push_str("{{continue}}"),
        }
    }
}

// === impl Branch ===

impl Branch {
    fn write(&self, keyword: &str, source: &Source, out: &mut String) {
        // Writing to a string does not fail.
        let _ = write!(out, "{{{{{keyword} ");
        self.pipe.write(source, out);
        out.push_str("}}");
        self.list.iter().for_each(|node| node.write(source, out));
        if let Some(list) = &self.else_list {
            out.push_str("{{else}}");
            list.iter().for_each(|node| node.write(source, out));
        }
        out.push_str("{{end}}");
    }
}

// === impl Pipe ===

impl Pipe {
    pub(super) fn write(&self, source: &Source, out: &mut String) {
        for (i, variable) in self.decl.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            variable.write(source, out);
        }
        if !self.decl.is_empty() {
            out.push_str(if self.is_assign { " = " } else { " := " });
        }
        for (i, command) in self.commands.iter().enumerate() {
            if i > 0 {
                out.push_str(" | ");
            }
            command.write(source, out);
        }
    }
}

// === impl Command ===

impl Command {
    pub(super) fn write(&self, source: &Source, out: &mut String) {
        self.first.write_grouped(source, out);
        for arg in &self.args {
            out.push(' ');
            arg.write_grouped(source, out);
        }
    }
}

// === impl Operand ===

impl Operand {
    pub(super) fn pos(&self) -> Pos {
        match self {
            Operand::Identifier(identifier) => identifier.name.0,
            Operand::Field(field) => field.pos,
            Operand::Variable(variable) => variable.pos,
            Operand::Chain(chain) => chain.pos,
            Operand::Pipe(pipe) => pipe.pos,
            Operand::Bool(pos, _) | Operand::Dot(pos) | Operand::Nil(pos) => *pos,
            Operand::Number(number) => number.text.0,
            Operand::String(literal) => literal.quoted.0,
        }
    }

    pub(super) fn write(&self, source: &Source, out: &mut String) {
        match self {
            Operand::Identifier(identifier) => out.push_str(source.text(identifier.name)),
            Operand::Field(field) => write_fields(&field.names, source, out),
            Operand::Variable(variable) => variable.write(source, out),
            Operand::Chain(chain) => {
                chain.operand.write_grouped(source, out);
                write_fields(&chain.fields, source, out);
            }
            Operand::Pipe(pipe) => pipe.write(source, out),
            Operand::Bool(_, value) => out.push_str(if *value { "true" } else { "false" }),
            Operand::Dot(_) => out.push('.'),
            Operand::Nil(_) => out.push_str("nil"),
            Operand::Number(number) => out.push_str(&String::from_utf8_lossy(source.bytes(number.text))),
            Operand::String(literal) => out.push_str(&String::from_utf8_lossy(source.bytes(literal.quoted))),
        }
    }

    fn write_grouped(&self, source: &Source, out: &mut String) {
        if let Operand::Pipe(pipe) = self {
            out.push('(');
            pipe.write(source, out);
            out.push(')');
        } else {
            self.write(source, out);
        }
    }

    /// The source in normal form.
    pub(super) fn normal(&self, source: &Source) -> String {
        let mut out = String::new();
        self.write(source, &mut out);
        out
    }
}

// === impl Variable ===

impl Variable {
    pub(super) fn write(&self, source: &Source, out: &mut String) {
        out.push_str(source.text(self.name));
        write_fields(&self.fields, source, out);
    }
}

fn write_fields(names: &[Span], source: &Source, out: &mut String) {
    for name in names {
        out.push('.');
        out.push_str(source.text(*name));
    }
}
