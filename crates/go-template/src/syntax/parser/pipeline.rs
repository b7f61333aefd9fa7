//! Pipelines, commands and operands: what stands inside of an action.

use crate::exec::builtins::Builtin;
use crate::syntax::arena::PartId;
use crate::syntax::ast::{Chain, CommandNode, Declaration, Identifier, Operand, Path, Pipe, Pos, TextSpan};
use crate::syntax::lexer::as_str;
use crate::syntax::parser::{ParseResult, Parser};
use crate::syntax::token::{Keyword, Token, TokenKind};
use crate::text::number::Constant;
use crate::text::quote::quote_go;
use crate::value::Str;

/// The number of numeric constants that are reused.
const MAX_KNOWN: usize = 16;

impl Parser<'_, '_> {
    pub(crate) fn pipeline(&mut self, context: &str, end: TokenKind) -> ParseResult<Pipe> {
        let pos = self.peek().pos();
        let decl = self.declaration(context)?;
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
        if self.commands.len() == mark {
            return self.error(format!("missing value for {context}"));
        }
        let commands = self.arena.take(&mut self.commands, mark);
        for (stage, command) in self.arena.all(commands).iter().enumerate().skip(1) {
            if let Some(
                Operand::Bool(..) | Operand::Dot(_) | Operand::Nil(_) | Operand::Number(..) | Operand::String(..),
            ) = self.arena.all(command.operands).first()
            {
                return self.error(format!("non executable command in pipeline stage {}", stage + 1));
            }
        }
        Ok(Pipe { pos, decl, commands })
    }

    /// `$x :=`, `$x =`, `$i, $x :=`. Both tokens of look-ahead are needed to distinguish `$x foo` from `$x :=`.
    fn declaration(&mut self, context: &str) -> ParseResult<Declaration> {
        let mark = self.arena.mark::<TextSpan>();
        loop {
            let variable = self.peek();
            if variable.kind != TokenKind::Variable {
                return Ok(Declaration::new(self.arena.since(mark), false));
            }
            self.next();
            let next = self.peek();
            match next.kind {
                TokenKind::Assign | TokenKind::Declare => {
                    self.next();
                    self.declare(variable);
                    return Ok(Declaration::new(self.arena.since(mark), next.kind == TokenKind::Assign));
                }
                TokenKind::Char if self.text(next) == b"," => {
                    self.next();
                    self.declare(variable);
                    if context != "range" || self.arena.since::<TextSpan>(mark).count() >= 2 {
                        return self.error(format!("too many declarations in {context}"));
                    }
                    if !matches!(
                        self.peek().kind,
                        TokenKind::Variable | TokenKind::RightDelim | TokenKind::RightParen
                    ) {
                        return self.error("range can only initialize variables");
                    }
                }
                _ => {
                    self.backup2(variable);
                    return Ok(Declaration::new(self.arena.since(mark), false));
                }
            }
        }
    }

    fn declare(&mut self, token: Token) {
        self.arena.add(token.span());
        self.scope.vars.push(self.text(token));
    }

    /// Adds the next command to the pipeline's.
    fn command(&mut self) -> ParseResult<()> {
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
                TokenKind::RightDelim | TokenKind::RightParen => self.backup(),
                TokenKind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        if self.operands.len() == mark {
            return self.error("empty command");
        }
        let operands = self.arena.take(&mut self.operands, mark);
        self.commands.push(CommandNode { pos, operands });
        Ok(())
    }

    /// Adds a term with the fields that follow it to the command's; nothing if the next token starts none.
    fn operand(&mut self) -> ParseResult<()> {
        let token = self.next();
        if token.kind == TokenKind::Field {
            let mark = self.arena.mark::<TextSpan>();
            self.arena.add(field_name(token));
            let pos = self.fields().unwrap_or(token.pos());
            let names = self.arena.since(mark);
            self.operands.push(Operand::Field(Path { pos, names }));
            return Ok(());
        }
        if !starts_operand(token.kind) {
            self.backup();
            return Ok(());
        }
        self.term(token)?;
        let mark = self.arena.mark::<TextSpan>();
        let Some(pos) = self.fields() else {
            return Ok(());
        };
        match self.operands.pop() {
            Some(Operand::Variable(variable)) => {
                // The variable's own name stands right before its fields.
                let names = self.arena.since(variable.names.first());
                self.operands.push(Operand::Variable(Path { pos, names }));
            }
            Some(operand @ (Operand::Identifier(_) | Operand::Chain(_) | Operand::Pipe(_))) => {
                let fields = self.arena.since(mark);
                let chain = self.arena.add(Chain { pos, operand, fields });
                self.operands.push(Operand::Chain(chain));
            }
            _ => {
                let shown = quote_go(self.text(token));
                let names = self.arena.all(self.arena.since::<TextSpan>(mark));
                let end = names.last().map_or(token.pos(), |TextSpan(from, length)| from + length);
                return self.error_at(self.token_after(end), format!("unexpected . after term {shown}"));
            }
        }
        Ok(())
    }

    /// Where Go's next token starts, which is what stands at `end` or the space there; the parser has the one after the
    /// space.
    fn token_after(&self, end: Pos) -> Pos {
        let next = self.tokens[0].pos();
        match self.slice(end, next) {
            // The space before a trim marker belongs to the marker.
            [] | [_, b'-'] => next,
            _ => end,
        }
    }

    /// Adds the fields that follow without a space to the names. Yields where the first is.
    fn fields(&mut self) -> Option<Pos> {
        let mut first = None;
        loop {
            let token = self.next();
            if token.kind != TokenKind::Field || token.spaced() {
                self.backup();
                return first;
            }
            first.get_or_insert(token.pos());
            self.arena.add(field_name(token));
        }
    }

    /// Adds a term but for a field, which begins with the token.
    fn term(&mut self, token: Token) -> ParseResult<()> {
        let operand = match token.kind {
            TokenKind::Identifier => {
                let name = as_str(self.text(token));
                let builtin = Builtin::by_name(name);
                if builtin.is_none() && !(self.has_function)(name) {
                    return self.error(format!("function {} not defined", quote_go(name)));
                }
                Operand::Identifier(Identifier::new(token.span(), builtin))
            }
            TokenKind::Keyword(Keyword::Dot) => Operand::Dot(token.pos()),
            TokenKind::Keyword(Keyword::Nil) => Operand::Nil(token.pos()),
            TokenKind::Variable => {
                let name = self.text(token);
                if !self.scope.vars.contains(&name) {
                    return self.error(format!("undefined variable {}", quote_go(name)));
                }
                let mark = self.arena.mark::<TextSpan>();
                self.arena.add(token.span());
                Operand::Variable(Path {
                    pos: token.pos(),
                    names: self.arena.since(mark),
                })
            }
            TokenKind::Bool => Operand::Bool(token.pos(), self.text(token) == b"true"),
            TokenKind::CharConstant | TokenKind::Number => Operand::Number(token.span(), self.number(token)?),
            TokenKind::LeftParen => {
                let pipe = self.nested("max expression depth exceeded", |parser| {
                    parser.pipeline("parenthesized pipeline", TokenKind::RightParen)
                })?;
                Operand::Pipe(self.arena.add(pipe))
            }
            // A string or raw string: nothing else starts an operand.
            _ => {
                let text = Str::from(&*self.unquote(token)?);
                Operand::String(token.span(), self.arena.add(text))
            }
        };
        self.operands.push(operand);
        Ok(())
    }

    fn number(&mut self, token: Token) -> ParseResult<PartId<Constant>> {
        let text = self.text(token);
        if let Some((_, known)) = self.numbers.iter().find(|(known, _)| *known == text) {
            return Ok(*known);
        }
        match Constant::parse(text) {
            Ok(value) => {
                let number = self.arena.add(value);
                if self.numbers.len() < MAX_KNOWN {
                    self.numbers.push((text, number));
                }
                Ok(number)
            }
            Err(message) => self.error(message),
        }
    }
}

fn starts_operand(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Bool
            | TokenKind::CharConstant
            | TokenKind::Field
            | TokenKind::Identifier
            | TokenKind::Number
            | TokenKind::RawString
            | TokenKind::String
            | TokenKind::Variable
            | TokenKind::LeftParen
            | TokenKind::Keyword(Keyword::Dot | Keyword::Nil)
    )
}

/// The name of a field token, which starts with a dot, without it.
fn field_name(token: Token) -> TextSpan {
    TextSpan(token.pos() + 1, token.length().saturating_sub(1))
}
