//! Pipelines, commands and operands: what stands inside of an action.

use super::super::ast::{Chain, Command, Field, Identifier, Literal, Number, Operand, Pipe, Pos, Span, Variable};
use super::super::builtins::Builtin;
use super::super::lexer::as_str;
use super::super::number::Constant;
use super::super::quote::quote_go;
use super::super::token::{Keyword, Kind, Token};
use super::super::value::Str;
use super::{Parsed, Parser, span, taken};

impl<'s> Parser<'s, '_> {
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let pos = self.peek().pos;
        let (decl, is_assign) = self.declarations(context)?;
        let mark = self.commands.len();
        loop {
            let token = self.next();
            match token.kind {
                kind if kind == end => break,
                kind if starts_operand(kind) => {
                    self.backup();
                    let command = self.command()?;
                    self.commands.push(command);
                }
                _ => return self.unexpected(token, context),
            }
        }
        let commands = taken(&mut self.commands, mark);
        if commands.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        for (stage, command) in commands.iter().enumerate().skip(1) {
            if let Operand::Bool(..) | Operand::Dot(_) | Operand::Nil(_) | Operand::Number(_) | Operand::String(_) =
                command.first
            {
                return self.error(format!("non executable command in pipeline stage {}", stage + 1));
            }
        }
        Ok(Pipe {
            pos,
            is_assign,
            decl,
            commands,
        })
    }

    /// `$x :=`, `$x =`, `$i, $x :=`. Telling `$x foo` from `$x :=` takes both tokens of look-ahead.
    /// Yields the variables, and whether they are assigned to.
    fn declarations(&mut self, context: &str) -> Parsed<(Box<[Variable]>, bool)> {
        let mut decl = Vec::new();
        loop {
            let variable = self.peek();
            if variable.kind != Kind::Variable {
                return Ok((decl.into(), false));
            }
            self.next();
            let next = self.peek();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    self.next();
                    self.declare(&mut decl, variable);
                    return Ok((decl.into(), next.kind == Kind::Assign));
                }
                Kind::Char if next.text == b"," => {
                    self.next();
                    self.declare(&mut decl, variable);
                    if context != "range" || decl.len() >= 2 {
                        return self.error(format!("too many declarations in {context}"));
                    }
                    if !matches!(self.peek().kind, Kind::Variable | Kind::RightDelim | Kind::RightParen) {
                        return self.error("range can only initialize variables");
                    }
                }
                _ => {
                    self.backup2(variable);
                    return Ok((decl.into(), false));
                }
            }
        }
    }

    fn declare(&mut self, decl: &mut Vec<Variable>, token: Token<'s>) {
        decl.push(variable(token));
        self.scope.vars.push(token.text);
    }

    fn command(&mut self) -> Parsed<Command> {
        let pos = self.peek().pos;
        let mut first = None;
        let mark = self.operands.len();
        loop {
            match self.operand()? {
                Some(operand) if first.is_none() => first = Some(operand),
                operand => self.operands.extend(operand),
            }
            let token = self.next();
            match token.kind {
                kind if token.spaced && starts_operand(kind) => {
                    self.backup();
                    continue;
                }
                Kind::RightDelim | Kind::RightParen => self.backup(),
                Kind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        match first {
            Some(first) => Ok(Command {
                pos,
                first,
                args: taken(&mut self.operands, mark),
            }),
            None => self.error("empty command"),
        }
    }

    /// A term with the fields that follow it; `None` if the next token starts none.
    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let token = self.peek();
        if token.kind == Kind::Field {
            self.next();
            self.names.clear();
            self.names.push(field_name(token));
            let pos = self.fields().unwrap_or(token.pos);
            let names = self.names.as_slice().into();
            return Ok(Some(Operand::Field(Field { pos, names })));
        }
        let Some(mut operand) = self.term()? else {
            return Ok(None);
        };
        self.names.clear();
        let Some(pos) = self.fields() else {
            return Ok(Some(operand));
        };
        let fields = self.names.as_slice().into();
        match &mut operand {
            Operand::Variable(variable) => {
                variable.pos = pos;
                variable.fields = fields;
            }
            Operand::Field(_)
            | Operand::Bool(..)
            | Operand::String(_)
            | Operand::Number(_)
            | Operand::Nil(_)
            | Operand::Dot(_) => {
                return self.error(format!(
                    "unexpected . after term {}",
                    quote_go(operand.normal(&self.source).as_bytes())
                ));
            }
            Operand::Identifier(_) | Operand::Chain(_) | Operand::Pipe(_) => {
                return Ok(Some(Operand::Chain(Box::new(Chain { pos, operand, fields }))));
            }
        }
        Ok(Some(operand))
    }

    /// Adds the fields that follow without a space to the names. Yields where the first is.
    fn fields(&mut self) -> Option<Pos> {
        let mut first = None;
        loop {
            let token = self.next();
            if token.kind != Kind::Field || token.spaced {
                self.backup();
                return first;
            }
            first.get_or_insert(token.pos);
            self.names.push(field_name(token));
        }
    }

    /// A term but for a field.
    fn term(&mut self) -> Parsed<Option<Operand>> {
        let token = self.next();
        Ok(Some(match token.kind {
            Kind::Identifier => {
                let name = as_str(token.text);
                let builtin = Builtin::by_name(name);
                if builtin.is_none() && !(self.has_function)(name) {
                    return self.error(format!("function {} not defined", quote_go(token.text)));
                }
                Operand::Identifier(Identifier::new(span(token), builtin))
            }
            Kind::Keyword(Keyword::Dot) => Operand::Dot(token.pos),
            Kind::Keyword(Keyword::Nil) => Operand::Nil(token.pos),
            Kind::Variable => {
                if !self.scope.vars.contains(&token.text) {
                    return self.error(format!("undefined variable {}", quote_go(token.text)));
                }
                Operand::Variable(variable(token))
            }
            Kind::Bool => Operand::Bool(token.pos, token.text == b"true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => match Constant::parse(token.text) {
                Ok(value) => Operand::Number(Box::new(Number {
                    text: span(token),
                    value,
                })),
                Err(message) => return self.error(message),
            },
            Kind::LeftParen => {
                let pipe = self.nested("max expression depth exceeded", |parser| {
                    parser.pipeline("parenthesized pipeline", Kind::RightParen)
                })?;
                Operand::Pipe(Box::new(pipe))
            }
            Kind::String | Kind::RawString => {
                let text = Str::from(&*self.unquote(token)?);
                Operand::String(Literal {
                    quoted: span(token),
                    text,
                })
            }
            _ => {
                self.backup();
                return Ok(None);
            }
        }))
    }
}

fn starts_operand(kind: Kind) -> bool {
    matches!(
        kind,
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
            | Kind::Keyword(Keyword::Dot | Keyword::Nil)
    )
}

fn variable(token: Token<'_>) -> Variable {
    Variable {
        pos: token.pos,
        name: span(token),
        fields: Box::default(),
    }
}

/// The name of a field token, which starts with a dot, without it.
fn field_name(token: Token<'_>) -> Span {
    let Span(from, length) = span(token);
    Span(from + 1, length.saturating_sub(1))
}
