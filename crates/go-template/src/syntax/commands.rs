//! The commands in the actions of a template, for code that analyzes templates without executing them.

use crate::error::ParseError;
use crate::syntax::arena::{PartId, Run};
use crate::syntax::ast::{Branch, Chain, CommandNode, Operand, Pipe, Pos, TemplateNode, TemplateSource, TextSpan};
use crate::syntax::parser;
use crate::value::Str;

/// A function, field or operand with its arguments. A parenthesized pipeline is a separate command in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateCommand {
    /// Counted from 1.
    pub line: usize,
    /// In bytes, counted from 0.
    pub column: usize,
    /// Whether it is in a `define` or `block`.
    pub is_defined: bool,
    /// The function or operand, and the arguments.
    pub words: Vec<Word>,
}

/// A part of a [`TemplateCommand`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A function's name.
    Function(String),
    /// `.a.b`, or `$x.a.b` with `$x` as its first name; a dot alone has none.
    Path(Vec<String>),
    /// A string constant.
    Text(String),
    /// Anything else: numbers, what parentheses make.
    Other,
}

/// Text that is printed as it stands, and what decides whether it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The line where it begins, counted from 1.
    pub line: usize,
    /// Whether it begins at the start of that line.
    pub is_at_start: bool,
    pub text: String,
    /// From the outermost to the innermost.
    pub guards: Vec<Guard>,
}

/// An `if`, `with` or `range` around a [`Piece`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub kind: GuardKind,
    /// The text stands behind its `else`.
    pub is_else: bool,
    /// The commands of its condition, in no particular order.
    pub commands: Vec<TemplateCommand>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardKind {
    If,
    With,
    Range,
}

/// All texts between the actions of a text and its definitions. It may call functions of any name.
///
/// ```
/// use go_template::commands::{GuardKind, pieces};
///
/// let found = pieces("t", &"{{ if .a }}text{{ end }}".into()).unwrap();
/// assert_eq!((found[0].text.as_str(), found[0].guards[0].kind), ("text", GuardKind::If));
/// ```
///
/// # Errors
/// A text that is not a valid template.
pub fn pieces(name: &str, text: &Str) -> Result<Vec<Piece>, ParseError> {
    let mut pieces = Vec::new();
    walk(name, text, &mut Vec::new(), Some(&mut pieces))?;
    Ok(pieces)
}

/// All commands in a text and its definitions, in no particular order. It may call functions of any name.
///
/// ```
/// use go_template::commands::{Word, commands};
///
/// let found = commands("t", &"{{ .Values.name | quote }}".into()).unwrap();
/// assert_eq!(found[0].words, [Word::Path(vec!["Values".to_owned(), "name".to_owned()])]);
/// assert_eq!(found[1].words, [Word::Function("quote".to_owned())]);
/// ```
///
/// # Errors
/// A text that is not a valid template.
pub fn commands(name: &str, text: &Str) -> Result<Vec<TemplateCommand>, ParseError> {
    let mut found = Vec::new();
    walk(name, text, &mut found, None)?;
    Ok(found)
}

fn walk(
    name: &str,
    text: &Str,
    found: &mut Vec<TemplateCommand>,
    mut pieces: Option<&mut Vec<Piece>>,
) -> Result<(), ParseError> {
    // These two are functions only where a host defines them.
    let has_function = |name: &str| !["break", "continue"].contains(&name);
    for tree in parser::parse(name, text, &has_function)? {
        let mut walk = CommandWalk {
            source: &tree.source,
            lines: line_starts(text.as_bytes()),
            is_defined: tree.name() != tree.parse_name(),
            found,
            guards: Vec::new(),
            pieces: pieces.as_deref_mut(),
        };
        walk.nodes(tree.definition.root);
    }
    Ok(())
}

fn line_starts(text: &[u8]) -> Vec<usize> {
    let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect()
}

struct CommandWalk<'a> {
    source: &'a TemplateSource,
    lines: Vec<usize>,
    is_defined: bool,
    found: &'a mut Vec<TemplateCommand>,
    /// Those around the current node.
    guards: Vec<Guard>,
    /// `None`: texts are not collected.
    pieces: Option<&'a mut Vec<Piece>>,
}

impl CommandWalk<'_> {
    fn nodes(&mut self, list: Run<TemplateNode>) {
        for node in self.source.all(list) {
            match node {
                TemplateNode::Text(from, to) => self.piece(*from, *to),
                TemplateNode::Constant(_) | TemplateNode::Break(_) | TemplateNode::Continue(_) => {}
                TemplateNode::Action(pipe) => self.pipe(pipe),
                TemplateNode::If(branch) => self.branch(GuardKind::If, *branch),
                TemplateNode::With(branch) => self.branch(GuardKind::With, *branch),
                TemplateNode::Range(branch) => self.branch(GuardKind::Range, *branch),
                TemplateNode::Template(call) => {
                    if let Some(pipe) = &self.source.one(*call).pipe {
                        self.pipe(pipe);
                    }
                }
            }
        }
    }

    fn branch(&mut self, kind: GuardKind, branch: PartId<Branch>) {
        let branch = self.source.one(branch);
        let before = self.found.len();
        self.pipe(&branch.pipe);
        let commands = match self.pieces {
            Some(_) => self.found.get(before..).unwrap_or_default().to_vec(),
            None => Vec::new(),
        };
        self.guards.push(Guard {
            kind,
            is_else: false,
            commands,
        });
        self.nodes(branch.list);
        if let Some(list) = branch.else_list {
            if let Some(guard) = self.guards.last_mut() {
                guard.is_else = true;
            }
            self.nodes(list);
        }
        self.guards.pop();
    }

    fn piece(&mut self, from: Pos, to: Pos) {
        let (line, column) = self.place(from);
        let Some(pieces) = &mut self.pieces else { return };
        let text = self.source.text.as_bytes().get(from as usize..to as usize);
        pieces.push(Piece {
            line,
            is_at_start: column == 0,
            text: String::from_utf8_lossy(text.unwrap_or_default()).into_owned(),
            guards: self.guards.clone(),
        });
    }

    fn pipe(&mut self, pipe: &Pipe) {
        for command in self.source.all(pipe.commands) {
            self.command(command);
        }
    }

    fn command(&mut self, command: &CommandNode) {
        let operands = self.source.all(command.operands);
        let words = operands.iter().map(|operand| self.word(operand)).collect();
        let (line, column) = self.place(command.pos);
        self.found.push(TemplateCommand {
            line,
            column,
            is_defined: self.is_defined,
            words,
        });
    }

    fn word(&mut self, operand: &Operand) -> Word {
        if let Some(path) = self.path(operand) {
            return Word::Path(path);
        }
        match operand {
            Operand::Identifier(identifier) => Word::Function(self.source.text(identifier.name).to_owned()),
            Operand::String(_, text) => {
                Word::Text(String::from_utf8_lossy(self.source.one(*text).as_bytes()).into_owned())
            }
            Operand::Pipe(pipe) => {
                self.pipe(self.source.one(*pipe));
                Word::Other
            }
            Operand::Chain(chain) => {
                let Chain { pos, operand, .. } = self.source.one(*chain);
                let words = vec![self.word(operand)];
                let (line, column) = self.place(*pos);
                self.found.push(TemplateCommand {
                    line,
                    column,
                    is_defined: self.is_defined,
                    words,
                });
                Word::Other
            }
            _ => Word::Other,
        }
    }

    /// The names of a path, also of one that is written `((.a).b).c`.
    fn path(&self, operand: &Operand) -> Option<Vec<String>> {
        let names = |names: Run<TextSpan>| {
            let names = self.source.all(names).iter();
            names.map(|name| self.source.text(*name).to_owned()).collect()
        };
        match operand {
            Operand::Dot(_) => Some(Vec::new()),
            Operand::Field(path) | Operand::Variable(path) => Some(names(path.names)),
            Operand::Chain(chain) => {
                let chain = self.source.one(*chain);
                let before = self.path(&chain.operand)?;
                Some([before, names(chain.fields)].concat())
            }
            Operand::Pipe(pipe) => {
                let pipe = self.source.one(*pipe);
                match self.source.all(pipe.commands) {
                    [command] if pipe.decl.is_empty() => match self.source.all(command.operands) {
                        [operand] => self.path(operand),
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn place(&self, pos: Pos) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= pos as usize);
        let start = line.checked_sub(1).and_then(|at| self.lines.get(at)).copied();
        (line, (pos as usize).saturating_sub(start.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::commands::*;

    fn written(text: &str) -> Vec<String> {
        let found = commands("t", &text.into()).unwrap();
        let words = |command: &TemplateCommand| {
            let words = command.words.iter().map(|word| match word {
                Word::Function(name) => name.clone(),
                Word::Path(names) if names.first().is_some_and(|name| name.starts_with('$')) => names.join("."),
                Word::Path(names) => format!(".{}", names.join(".")),
                Word::Text(text) => format!("{text:?}"),
                Word::Other => "_".to_owned(),
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let mut lines: Vec<String> = found
            .iter()
            .map(|command| format!("{} {}", command.line, words(command)))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn commands_are_found_wherever_they_stand() {
        let text = "{{ if .a.b }}\n{{ range $i, $x := $.c }}{{ $x.d | quote }}{{ else }}{{ . }}{{ end }}\n{{ end }}\
            {{ template \"t\" .e }}\n{{ index .f \"g\" 1 }}{{ ((.h).i).j }}{{ (get .k \"l\").m }}{{ $v := .n }}";
        let expected = [
            "1 .a.b",
            "2 $.c",
            "2 $x.d",
            "2 .",
            "2 quote",
            "3 .e",
            "4 .h.i.j",
            "4 .n",
            "4 _",
            "4 get .k \"l\"",
            "4 index .f \"g\" _",
        ];
        let mut found = written(text);
        found.dedup();
        assert_eq!(found, expected);
    }

    #[test]
    fn texts_are_found_with_what_decides_about_them() {
        let text = "a\n{{- if .x }}\nb\n{{ else if eq .y \"z\" }}c{{ end }}\n{{ with .w }}d{{ end }}";
        let found = pieces("t", &text.into()).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|piece| {
                let guards = piece
                    .guards
                    .iter()
                    .map(|guard| (guard.kind, guard.is_else, guard.commands.len()));
                (piece.text.trim(), piece.line, guards.collect::<Vec<_>>())
            })
            .filter(|(text, ..)| !text.is_empty())
            .collect();
        let expected = [
            ("a", 1, vec![]),
            ("b", 2, vec![(GuardKind::If, false, 1)]),
            ("c", 4, vec![(GuardKind::If, true, 1), (GuardKind::If, false, 1)]),
            ("d", 5, vec![(GuardKind::With, false, 1)]),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn any_function_may_be_called() {
        let text = "{{ define \"x\" }}{{ unknown 1 }}{{ end }}{{ range .a }}{{ break }}{{ end }}";
        let found = commands("t", &text.into()).unwrap();
        assert_eq!(found.iter().filter(|command| command.is_defined).count(), 1);
        assert!(commands("t", &"{{ if }}".into()).is_err());
    }
}
