//! What the actions of a text are made of, for those who read templates and don't execute them.

use super::arena::Run;
use super::ast::{Chain, Command as Parsed, Node, Operand, Pipe, Pos, Source, Span};
use super::error::ParseError;
use super::parser;
use super::value::Str;

/// A function, field or operand with its arguments. What stands in parentheses is a command of its own, beside this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Counted from 1.
    pub line: usize,
    /// In bytes, counted from 0.
    pub column: usize,
    /// Whether it stands in a `define` or `block`.
    pub is_defined: bool,
    /// The function or operand, and the arguments.
    pub words: Vec<Word>,
}

/// A part of a [`Command`].
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

/// All commands in a text and its definitions, in no particular order. It may call functions of any name.
///
/// # Errors
/// What isn't a template.
pub fn commands(name: &str, text: &Str) -> Result<Vec<Command>, ParseError> {
    // These two are functions only where somebody defines them.
    let has_function = |name: &str| !["break", "continue"].contains(&name);
    let mut found = Vec::new();
    for tree in parser::parse(name, text, &has_function)? {
        let mut walk = Walk {
            source: &tree.source,
            lines: line_starts(text.as_bytes()),
            is_defined: tree.name() != tree.parse_name(),
            found: &mut found,
        };
        walk.nodes(tree.definition.root);
    }
    Ok(found)
}

fn line_starts(text: &[u8]) -> Vec<usize> {
    let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect()
}

struct Walk<'a> {
    source: &'a Source,
    lines: Vec<usize>,
    is_defined: bool,
    found: &'a mut Vec<Command>,
}

// === impl Walk ===

impl Walk<'_> {
    fn nodes(&mut self, list: Run<Node>) {
        for node in self.source.all(list) {
            match node {
                Node::Text(..) | Node::Constant(_) | Node::Break(_) | Node::Continue(_) => {}
                Node::Action(pipe) => self.pipe(pipe),
                Node::If(branch) | Node::With(branch) | Node::Range(branch) => {
                    let branch = self.source.one(*branch);
                    self.pipe(&branch.pipe);
                    self.nodes(branch.list);
                    if let Some(list) = branch.else_list {
                        self.nodes(list);
                    }
                }
                Node::Template(call) => {
                    if let Some(pipe) = &self.source.one(*call).pipe {
                        self.pipe(pipe);
                    }
                }
            }
        }
    }

    fn pipe(&mut self, pipe: &Pipe) {
        for command in self.source.all(pipe.commands) {
            self.command(command);
        }
    }

    fn command(&mut self, command: &Parsed) {
        let operands = self.source.all(command.operands);
        let words = operands.iter().map(|operand| self.word(operand)).collect();
        let (line, column) = self.place(command.pos);
        self.found.push(Command {
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
                self.found.push(Command {
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
        let names = |names: Run<Span>| {
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
    use super::*;

    fn written(text: &str) -> Vec<String> {
        let found = commands("t", &text.into()).unwrap();
        let words = |command: &Command| {
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
    fn any_function_may_be_called() {
        let text = "{{ define \"x\" }}{{ whatever 1 }}{{ end }}{{ range .a }}{{ break }}{{ end }}";
        let found = commands("t", &text.into()).unwrap();
        assert_eq!(found.iter().filter(|command| command.is_defined).count(), 1);
        assert!(commands("t", &"{{ if }}".into()).is_err());
    }
}
