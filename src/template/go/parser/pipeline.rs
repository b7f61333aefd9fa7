//! Pipelines, commands and operands: what stands inside of an action.

use super::super::ast::{Chain, Command, Field, Identifier, Literal, Number, Operand, Pipe, Pos, Span, Variable};
use super::super::builtins::Builtin;
use super::super::lexer::as_str;
use super::super::number::Constant;
use super::super::quote::quote_go;
use super::super::token::{Keyword, Kind, Token};
use super::super::value::Str;
use super::{Parsed, Parser, taken};

impl Parser<'_, '_> {
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let pos = self.peek().pos();
        let (decl, is_assign) = self.declarations(context)?;
        let mark = self.commands.len();
        loop {
            let token = self.next();
            match token.kind {
                kind if kind == end => break,
                kind if starts_operand(kind) => {
                    self.backup();
                    self.command()?;
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
                Kind::Char if self.text(next) == b"," => {
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

    fn declare(&mut self, decl: &mut Vec<Variable>, token: Token) {
        decl.push(variable(token));
        self.scope.vars.push(self.text(token));
    }

    /// Adds the next command to the pipeline's.
    fn command(&mut self) -> Parsed<()> {
        let pos = self.peek().pos();
        let mark = self.operands.len();
        loop {
            self.operand()?;
            let token = self.next();
            match token.kind {
                kind if token.spaced() && starts_operand(kind) => {
                    self.backup();
                    continue;
                }
                Kind::RightDelim | Kind::RightParen => self.backup(),
                Kind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        let args = match self.operands.len().saturating_sub(mark) {
            0 => return self.error("empty command"),
            1 => Box::default(),
            _ => taken(&mut self.operands, mark + 1),
        };
        if let Some(first) = self.operands.pop() {
            self.commands.push(Command { pos, first, args });
        }
        Ok(())
    }

    /// Adds a term with the fields that follow it to the command's; nothing if the next token starts none.
    fn operand(&mut self) -> Parsed<()> {
        let token = self.next();
        if token.kind == Kind::Field {
            self.names.clear();
            self.names.push(field_name(token));
            let pos = self.fields().unwrap_or(token.pos());
            let names = self.names.as_slice().into();
            self.operands.push(Operand::Field(Field { pos, names }));
            return Ok(());
        }
        if !starts_operand(token.kind) {
            self.backup();
            return Ok(());
        }
        self.term(token)?;
        self.names.clear();
        let Some(pos) = self.fields() else {
            return Ok(());
        };
        let fields = self.names.as_slice().into();
        match self.operands.pop() {
            Some(Operand::Variable(variable)) => {
                let variable = Variable {
                    pos,
                    fields,
                    ..variable
                };
                self.operands.push(Operand::Variable(variable));
            }
            Some(operand @ (Operand::Identifier(_) | Operand::Chain(_) | Operand::Pipe(_))) => {
                let chain = Chain { pos, operand, fields };
                self.operands.push(Operand::Chain(Box::new(chain)));
            }
            Some(operand) => {
                let shown = quote_go(operand.normal(&self.source).as_bytes());
                return self.error(format!("unexpected . after term {shown}"));
            }
            None => {}
        }
        Ok(())
    }

    /// Adds the fields that follow without a space to the names. Yields where the first is.
    fn fields(&mut self) -> Option<Pos> {
        let mut first = None;
        loop {
            let token = self.next();
            if token.kind != Kind::Field || token.spaced() {
                self.backup();
                return first;
            }
            first.get_or_insert(token.pos());
            self.names.push(field_name(token));
        }
    }

    /// Adds a term but for a field, which begins with the token.
    fn term(&mut self, token: Token) -> Parsed<()> {
        let operand = match token.kind {
            Kind::Identifier => {
                let name = as_str(self.text(token));
                let builtin = Builtin::by_name(name);
                if builtin.is_none() && !(self.has_function)(name) {
                    return self.error(format!("function {} not defined", quote_go(name.as_bytes())));
                }
                Operand::Identifier(Identifier::new(token.span(), builtin))
            }
            Kind::Keyword(Keyword::Dot) => Operand::Dot(token.pos()),
            Kind::Keyword(Keyword::Nil) => Operand::Nil(token.pos()),
            Kind::Variable => {
                let name = self.text(token);
                if !self.scope.vars.contains(&name) {
                    return self.error(format!("undefined variable {}", quote_go(name)));
                }
                Operand::Variable(variable(token))
            }
            Kind::Bool => Operand::Bool(token.pos(), self.text(token) == b"true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => match Constant::parse(self.text(token)) {
                Ok(value) => Operand::Number(Box::new(Number {
                    text: token.span(),
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
            // A string or raw string: nothing else starts an operand.
            _ => Operand::String(Literal {
                quoted: token.span(),
                text: Str::from(&*self.unquote(token)?),
            }),
        };
        self.operands.push(operand);
        Ok(())
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

fn variable(token: Token) -> Variable {
    Variable {
        pos: token.pos(),
        name: token.span(),
        fields: Box::default(),
    }
}

/// The name of a field token, which starts with a dot, without it.
fn field_name(token: Token) -> Span {
    Span(token.pos() + 1, token.length().saturating_sub(1))
}
