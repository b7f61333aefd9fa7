//! Pipelines, commands and operands: what stands inside of an action.

use super::super::ast::{Chain, Command, Field, Identifier, Literal, Number, Operand, Pipe, Variable};
use super::super::builtins::Builtin;
use super::super::lexer::as_str;
use super::super::number::Constant;
use super::super::quote::quote_go;
use super::super::token::{Keyword, Kind, Token};
use super::super::value::Str;
use super::{Parsed, Parser, pos};

impl<'s> Parser<'s, '_> {
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let token = self.peek_non_space();
        let mut pipe = Pipe {
            pos: pos(token),
            is_assign: false,
            decl: Vec::new(),
            // Most have but one, and trees are kept: no room to grow.
            commands: Vec::with_capacity(1),
        };
        self.declarations(&mut pipe, context)?;
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen
                | Kind::Keyword(Keyword::Dot | Keyword::Nil) => {
                    self.backup();
                    let command = self.command()?;
                    pipe.commands.push(command);
                }
                _ => return self.unexpected(token, context),
            }
        }
        pipe.commands.shrink_to_fit();
        if pipe.commands.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        for (stage, command) in pipe.commands.iter().enumerate().skip(1) {
            if let Operand::Bool(..) | Operand::Dot(_) | Operand::Nil(_) | Operand::Number(_) | Operand::String(_) =
                command.first
            {
                return self.error(format!("non executable command in pipeline stage {}", stage + 1));
            }
        }
        Ok(pipe)
    }

    /// `$x :=`, `$x =`, `$i, $x :=`. Telling `$x foo` from `$x :=` takes all three tokens of look-ahead.
    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parsed<()> {
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            self.next();
            let after = self.peek();
            let next = self.peek_non_space();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.is_assign = next.kind == Kind::Assign;
                    self.next_non_space();
                    self.declare(pipe, variable);
                    return Ok(());
                }
                Kind::Char if next.text == b"," => {
                    self.next_non_space();
                    self.declare(pipe, variable);
                    if context != "range" || pipe.decl.len() >= 2 {
                        return self.error(format!("too many declarations in {context}"));
                    }
                    if !matches!(
                        self.peek_non_space().kind,
                        Kind::Variable | Kind::RightDelim | Kind::RightParen
                    ) {
                        return self.error("range can only initialize variables");
                    }
                }
                _ => {
                    if after.kind == Kind::Space {
                        self.backup3(variable, after);
                    } else {
                        self.backup2(variable);
                    }
                    return Ok(());
                }
            }
        }
    }

    fn declare(&mut self, pipe: &mut Pipe, token: Token<'s>) {
        pipe.decl.push(variable(token));
        self.scope.vars.push(token.text);
    }

    fn command(&mut self) -> Parsed<Command> {
        let start = self.peek_non_space();
        let mut first = None;
        let mut args = Vec::new();
        loop {
            self.peek_non_space();
            match self.operand()? {
                Some(operand) if first.is_none() => first = Some(operand),
                operand => args.extend(operand),
            }
            let token = self.next();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.backup(),
                Kind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        args.shrink_to_fit();
        match first {
            Some(first) => Ok(Command {
                pos: pos(start),
                first,
                args,
            }),
            None => self.error("empty command"),
        }
    }

    /// A term with the fields that follow it; `None` if the next token starts none.
    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(mut operand) = self.term()? else {
            return Ok(None);
        };
        let first = self.peek();
        if first.kind != Kind::Field {
            return Ok(Some(operand));
        }
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            fields.push(field_name(self.next()));
        }
        match &mut operand {
            Operand::Field(field) => {
                field.pos = pos(first);
                field.names.reserve_exact(fields.len());
                field.names.extend(fields);
            }
            Operand::Variable(variable) => {
                variable.pos = pos(first);
                variable.fields.reserve_exact(fields.len());
                variable.fields.extend(fields);
            }
            Operand::Bool(..) | Operand::String(_) | Operand::Number(_) | Operand::Nil(_) | Operand::Dot(_) => {
                return self.error(format!(
                    "unexpected . after term {}",
                    quote_go(operand.source().as_bytes())
                ));
            }
            Operand::Identifier(_) | Operand::Chain(_) | Operand::Pipe(_) => {
                fields.shrink_to_fit();
                return Ok(Some(Operand::Chain(Box::new(Chain {
                    pos: pos(first),
                    operand,
                    fields,
                }))));
            }
        }
        Ok(Some(operand))
    }

    fn term(&mut self) -> Parsed<Option<Operand>> {
        let token = self.next_non_space();
        Ok(Some(match token.kind {
            Kind::Identifier => {
                let name = as_str(token.text);
                if Builtin::by_name(name).is_none() && !(self.has_function)(name) {
                    return self.error(format!("function {} not defined", quote_go(token.text)));
                }
                Operand::Identifier(Identifier::new(pos(token), name))
            }
            Kind::Keyword(Keyword::Dot) => Operand::Dot(pos(token)),
            Kind::Keyword(Keyword::Nil) => Operand::Nil(pos(token)),
            Kind::Variable => {
                if !self.scope.vars.contains(&token.text) {
                    return self.error(format!("undefined variable {}", quote_go(token.text)));
                }
                Operand::Variable(variable(token))
            }
            Kind::Field => Operand::Field(Field {
                pos: pos(token),
                names: vec![field_name(token)],
            }),
            Kind::Bool => Operand::Bool(pos(token), token.text == b"true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => match Constant::parse(token.text) {
                Ok(value) => {
                    let text = String::from_utf8_lossy(token.text).into();
                    Operand::Number(Box::new(Number {
                        pos: pos(token),
                        text,
                        value,
                    }))
                }
                Err(message) => return self.error(message),
            },
            Kind::LeftParen => {
                let pipe = self.nested("max expression depth exceeded", |parser| {
                    parser.pipeline("parenthesized pipeline", Kind::RightParen)
                })?;
                Operand::Pipe(Box::new(pipe))
            }
            Kind::String | Kind::RawString => {
                let text = Str::from(self.unquote(token)?);
                Operand::String(Box::new(Literal {
                    pos: pos(token),
                    quoted: token.text.into(),
                    text,
                }))
            }
            _ => {
                self.backup();
                return Ok(None);
            }
        }))
    }
}

fn variable(token: Token<'_>) -> Variable {
    Variable {
        pos: pos(token),
        name: as_str(token.text).into(),
        fields: Vec::new(),
    }
}

/// The name of a field token, which starts with a dot.
fn field_name(token: Token<'_>) -> Box<str> {
    as_str(token.text).trim_start_matches('.').into()
}
