//! Syntax trees, with byte positions, and their normal form as source text, which error messages show.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::exec::builtins::Builtin;
use crate::syntax::arena::{Arena, ArenaPart, PartId, Run};
use crate::text::number::Constant;
use crate::text::quote::quote_go;
use crate::value::Str;

/// A byte offset into the parsed text.
pub(crate) type Pos = u32;

/// A part of the parsed text: where it starts, and its length in bytes. Names are kept so, since a chart has a hundred
/// thousand of them.
#[derive(Clone, Copy)]
pub(crate) struct TextSpan(pub(crate) Pos, pub(crate) u32);

/// One parsed template: a file's text without its definitions, or one definition.
pub struct Tree {
    pub(crate) source: Arc<TemplateSource>,
    pub(crate) definition: TemplateDefinition,
}

/// A template as it lies in the arena of its text.
pub(crate) struct TemplateDefinition {
    pub(crate) name: Box<str>,
    pub(crate) root: Run<TemplateNode>,
    /// Whether there is nothing but white space and comments.
    pub(crate) is_empty: bool,
}

/// The text that a tree was parsed from, and what it was parsed to; shared by all definitions in it.
pub(crate) struct TemplateSource {
    pub(crate) name: Box<str>,
    pub(crate) text: Str,
    pub(crate) arena: Arena,
}

/// An action between `{{` and `}}`, or the text between actions.
pub(crate) enum TemplateNode {
    /// From and to where in the source.
    Text(Pos, Pos),
    /// An action that is a string constant whose text stands between its quotes as it is meant.
    Constant(TextSpan),
    Action(Pipe),
    If(PartId<Branch>),
    With(PartId<Branch>),
    Range(PartId<Branch>),
    Template(PartId<Invocation>),
    Break(Pos),
    Continue(Pos),
}

/// `if`, `with` or `range`.
pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) list: Run<TemplateNode>,
    pub(crate) else_list: Option<Run<TemplateNode>>,
}

/// `{{template "name" pipeline}}`.
pub(crate) struct Invocation {
    pub(crate) pos: Pos,
    pub(crate) name: Box<str>,
    pub(crate) pipe: Option<Pipe>,
}

/// Commands, each of which gets the result of the one before as its last argument.
pub(crate) struct Pipe {
    pub(crate) pos: Pos,
    pub(crate) decl: Declaration,
    pub(crate) commands: Run<CommandNode>,
}

/// The variables before `:=` or `=`: at most two names, kept in less than a [`Run`] takes.
#[derive(Clone, Copy)]
pub(crate) struct Declaration {
    first: u32,
    count: u8,
    /// Whether they are assigned to (`=`) rather than declared (`:=`).
    pub(crate) is_assign: bool,
}

/// A function, field or operand with its arguments; never empty.
pub(crate) struct CommandNode {
    pub(crate) pos: Pos,
    pub(crate) operands: Run<Operand>,
}

pub(crate) enum Operand {
    Identifier(Identifier),
    /// `.a.b.c`; at least one name.
    Field(Path),
    /// `$x.a.b`; the first name has its `$`.
    Variable(Path),
    Chain(PartId<Chain>),
    /// Parenthesised.
    Pipe(PartId<Pipe>),
    Bool(Pos, bool),
    Dot(Pos),
    Nil(Pos),
    /// As written, and in all the types that it fits.
    Number(TextSpan, PartId<Constant>),
    /// As written and as meant.
    String(TextSpan, PartId<Str>),
}

/// A function's name.
pub(crate) struct Identifier {
    pub(crate) name: TextSpan,
    pub(crate) builtin: Option<Builtin>,
    /// A cache of the last lookup: the table's id (high bits) and 1 + the function's index in it (low bits, 0: not in
    /// the table).
    found: AtomicU32,
}

/// The number of bits of [`Identifier::found`] for the index: there are a few hundred functions.
const INDEX_BITS: u32 = 12;

/// Names with dots between them.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    /// The position in errors.
    pub(crate) pos: Pos,
    pub(crate) names: Run<TextSpan>,
}

/// `(pipeline).a.b` or `function.a.b`.
pub(crate) struct Chain {
    pub(crate) pos: Pos,
    pub(crate) operand: Operand,
    pub(crate) fields: Run<TextSpan>,
}

impl Tree {
    /// The template's name.
    pub fn name(&self) -> &str {
        &self.definition.name
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
        self.definition.is_empty
    }

    /// The line, counted from 1, and the column in bytes, counted from 0.
    pub(crate) fn line_and_column(&self, pos: Pos) -> (usize, usize) {
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

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("name", &self.definition.name)
            .field("source", &self.source.name)
            .finish_non_exhaustive()
    }
}

impl TemplateSource {
    pub(crate) fn one<T: ArenaPart>(&self, id: PartId<T>) -> &T {
        self.arena.one(id)
    }

    pub(crate) fn all<T: ArenaPart>(&self, run: Run<T>) -> &[T] {
        self.arena.all(run)
    }

    pub(crate) fn slice(&self, from: Pos, to: Pos) -> &[u8] {
        self.text.get(from as usize..to as usize).unwrap_or_default()
    }

    pub(crate) fn bytes(&self, TextSpan(from, length): TextSpan) -> &[u8] {
        self.slice(from, from + length)
    }

    /// A name or number: the lexer takes them only if they are UTF-8.
    pub(crate) fn text(&self, span: TextSpan) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }
}

impl Identifier {
    pub(crate) fn new(name: TextSpan, builtin: Option<Builtin>) -> Self {
        Identifier {
            name,
            builtin,
            found: AtomicU32::new(0),
        }
    }

    /// Returns the function's index in a table. The name is hashed only if the last lookup used another table.
    pub(crate) fn index_in<C: ?Sized>(&self, source: &TemplateSource, funcs: &crate::func::FuncMap<C>) -> Option<u32> {
        let found = self.found.load(Ordering::Relaxed);
        let one_based = if found >> INDEX_BITS == funcs.id() {
            found & ((1 << INDEX_BITS) - 1)
        } else {
            let one_based = funcs.index_of(source.text(self.name)).map_or(0, |index| index + 1);
            // A table id or an index that needs too many bits is not cached.
            if funcs.id() >> (u32::BITS - INDEX_BITS) == 0 && one_based >> INDEX_BITS == 0 {
                self.found
                    .store(funcs.id() << INDEX_BITS | one_based, Ordering::Relaxed);
            }
            one_based
        };
        one_based.checked_sub(1)
    }
}

impl TemplateNode {
    pub(crate) fn pos(&self, source: &TemplateSource) -> Pos {
        match self {
            TemplateNode::Text(pos, _)
            | TemplateNode::Constant(TextSpan(pos, _))
            | TemplateNode::Break(pos)
            | TemplateNode::Continue(pos) => *pos,
            TemplateNode::Action(pipe) => pipe.pos,
            TemplateNode::If(branch) | TemplateNode::With(branch) | TemplateNode::Range(branch) => {
                source.one(*branch).pipe.pos
            }
            TemplateNode::Template(call) => source.one(*call).pos,
        }
    }

    /// The source in normal form.
    pub(crate) fn write(&self, source: &TemplateSource, out: &mut String) {
        match self {
            TemplateNode::Text(from, to) => out.push_str(&String::from_utf8_lossy(source.slice(*from, *to))),
            TemplateNode::Constant(quoted) => {
                out.push_str("{{");
                out.push_str(&String::from_utf8_lossy(source.bytes(*quoted)));
                out.push_str("}}");
            }
            TemplateNode::Action(pipe) => {
                out.push_str("{{");
                pipe.write(source, out);
                out.push_str("}}");
            }
            TemplateNode::If(branch) => source.one(*branch).write("if", source, out),
            TemplateNode::With(branch) => source.one(*branch).write("with", source, out),
            TemplateNode::Range(branch) => source.one(*branch).write("range", source, out),
            TemplateNode::Template(call) => {
                let call = source.one(*call);
                out.push_str("{{template ");
                out.push_str(&quote_go(call.name.as_bytes()));
                if let Some(pipe) = &call.pipe {
                    out.push(' ');
                    pipe.write(source, out);
                }
                out.push_str("}}");
            }
            TemplateNode::Break(_) => out.push_str("{{break}}"),
            TemplateNode::Continue(_) => out.push_str("{{continue}}"),
        }
    }
}

impl Branch {
    fn write(&self, keyword: &str, source: &TemplateSource, out: &mut String) {
        // Writing to a string does not fail.
        let _ = write!(out, "{{{{{keyword} ");
        self.pipe.write(source, out);
        out.push_str("}}");
        write_nodes(self.list, source, out);
        if let Some(list) = self.else_list {
            out.push_str("{{else}}");
            write_nodes(list, source, out);
        }
        out.push_str("{{end}}");
    }
}

fn write_nodes(list: Run<TemplateNode>, source: &TemplateSource, out: &mut String) {
    source.all(list).iter().for_each(|node| node.write(source, out));
}

impl Pipe {
    pub(crate) fn write(&self, source: &TemplateSource, out: &mut String) {
        for (i, variable) in source.all(self.decl.names()).iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            out.push_str(source.text(*variable));
        }
        if !self.decl.is_empty() {
            out.push_str(if self.decl.is_assign { " = " } else { " := " });
        }
        for (i, command) in source.all(self.commands).iter().enumerate() {
            if i > 0 {
                out.push_str(" | ");
            }
            command.write(source, out);
        }
    }
}

impl Declaration {
    /// Of two names at most.
    pub(crate) fn new(names: Run<TextSpan>, is_assign: bool) -> Self {
        Declaration {
            first: names.first(),
            count: names.count() as u8,
            is_assign,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.count == 0
    }

    pub(crate) fn names(self) -> Run<TextSpan> {
        Run::new(self.first, u32::from(self.count))
    }
}

impl CommandNode {
    pub(crate) fn write(&self, source: &TemplateSource, out: &mut String) {
        for (i, operand) in source.all(self.operands).iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            operand.write_grouped(source, out);
        }
    }
}

impl Operand {
    pub(crate) fn pos(&self, source: &TemplateSource) -> Pos {
        match self {
            Operand::Identifier(identifier) => identifier.name.0,
            Operand::Field(path) | Operand::Variable(path) => path.pos,
            Operand::Chain(chain) => source.one(*chain).pos,
            Operand::Pipe(pipe) => source.one(*pipe).pos,
            Operand::Bool(pos, _) | Operand::Dot(pos) | Operand::Nil(pos) => *pos,
            Operand::Number(TextSpan(pos, _), _) | Operand::String(TextSpan(pos, _), _) => *pos,
        }
    }

    pub(crate) fn write(&self, source: &TemplateSource, out: &mut String) {
        match self {
            Operand::Identifier(identifier) => out.push_str(source.text(identifier.name)),
            Operand::Field(path) => write_fields(source.all(path.names), source, out),
            Operand::Variable(path) => {
                if let Some((name, fields)) = source.all(path.names).split_first() {
                    out.push_str(source.text(*name));
                    write_fields(fields, source, out);
                }
            }
            Operand::Chain(chain) => {
                let chain = source.one(*chain);
                chain.operand.write_grouped(source, out);
                write_fields(source.all(chain.fields), source, out);
            }
            Operand::Pipe(pipe) => source.one(*pipe).write(source, out),
            Operand::Bool(_, value) => out.push_str(if *value { "true" } else { "false" }),
            Operand::Dot(_) => out.push('.'),
            Operand::Nil(_) => out.push_str("nil"),
            Operand::Number(written, _) | Operand::String(written, _) => {
                out.push_str(&String::from_utf8_lossy(source.bytes(*written)));
            }
        }
    }

    fn write_grouped(&self, source: &TemplateSource, out: &mut String) {
        if let Operand::Pipe(pipe) = self {
            out.push('(');
            source.one(*pipe).write(source, out);
            out.push(')');
        } else {
            self.write(source, out);
        }
    }

    /// The source in normal form.
    pub(crate) fn normal(&self, source: &TemplateSource) -> String {
        let mut out = String::new();
        self.write(source, &mut out);
        out
    }
}

fn write_fields(names: &[TextSpan], source: &TemplateSource, out: &mut String) {
    for name in names {
        out.push('.');
        out.push_str(source.text(*name));
    }
}
