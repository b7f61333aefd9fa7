//! Tokens to trees, by the rules of Go's `text/template/parse`: recursive descent with two tokens of look-ahead.

mod pipeline;

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::ParseError;
use crate::syntax::arena::{Growing, PartId, Run};
use crate::syntax::ast::{
    Branch, CommandNode, Invocation, Operand, Pos, TemplateDefinition, TemplateNode, TemplateSource, Tree,
};
use crate::syntax::lexer::Lexer;
use crate::syntax::token::{Keyword, Token, TokenKind};
use crate::text::number::Constant;
use crate::text::quote::{quote_go, unquote};
use crate::text::unicode::is_blank;
use crate::value::Str;

/// The maximum nesting of control structures and parentheses together. Go allows 10000 parentheses; here they recurse
/// on a native stack.
const MAX_NESTING: usize = 2_000;

/// Parses a text into its trees: definitions in the order of their ends, the text's own tree last.
pub(crate) fn parse(name: &str, text: &Str, has_function: &dyn Fn(&str) -> bool) -> Result<Vec<Tree>, ParseError> {
    let mut parser = Parser {
        name,
        text: text.as_bytes(),
        lexer: Lexer::new(text, has_function("break"), has_function("continue")),
        tokens: [Token::new(TokenKind::Eof, 0, 0, false); 2],
        peeked: 0,
        has_function,
        definitions: Vec::new(),
        scope: DefinitionScope::new(),
        nesting: 0,
        arena: Growing::default(),
        nodes: Vec::new(),
        commands: Vec::new(),
        operands: Vec::new(),
        numbers: Vec::new(),
    };
    let parsed = parser.root().and_then(|root| parser.add(name, root));
    parsed.map_err(|error| *error)?;
    let source = Arc::new(TemplateSource {
        name: name.into(),
        text: text.clone(),
        arena: parser.arena.finish(),
    });
    let tree = |definition| Tree {
        source: Arc::clone(&source),
        definition,
    };
    Ok(parser.definitions.into_iter().map(tree).collect())
}

struct Parser<'s, 'f> {
    name: &'f str,
    text: &'s [u8],
    lexer: Lexer<'s>,
    /// Look-ahead; `tokens[0]` is the one read last.
    tokens: [Token; 2],
    peeked: usize,
    has_function: &'f dyn Fn(&str) -> bool,
    definitions: Vec<TemplateDefinition>,
    scope: DefinitionScope<'s>,
    nesting: usize,
    arena: Growing,
    // Lists that are being collected, of all levels; the innermost is last. They move to the arena when they are whole.
    nodes: Vec<TemplateNode>,
    commands: Vec<CommandNode>,
    operands: Vec<Operand>,
    /// The first numbers of the text: mostly those that it indents by, again and again.
    numbers: Vec<(&'s [u8], PartId<Constant>)>,
}

/// The state that each definition has of its own.
struct DefinitionScope<'s> {
    /// Declared variables, with their `$`.
    vars: Vec<&'s [u8]>,
    range_depth: usize,
    /// Where the current action started.
    action: Option<Pos>,
}

/// The end of a list of nodes.
enum Ending {
    End,
    /// With the token that follows: that of an `if` or `with` in the same action, if there is one.
    Else(TokenKind),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    If,
    With,
    Range,
}

/// A small result: the error is boxed, because most values of the parser are smaller than an error.
type ParseResult<T> = Result<T, Box<ParseError>>;

impl<'s> DefinitionScope<'s> {
    fn new() -> Self {
        DefinitionScope {
            vars: vec![b"$"],
            range_depth: 0,
            action: None,
        }
    }
}

impl Ending {
    fn source(&self) -> &'static str {
        match self {
            Ending::End => "{{end}}",
            Ending::Else(_) => "{{else}}",
        }
    }
}

impl<'s> Parser<'s, '_> {
    #[inline]
    fn next(&mut self) -> Token {
        match self.peeked {
            0 => self.read(),
            1 => {
                self.peeked = 0;
                self.tokens[0]
            }
            _ => {
                self.peeked = 1;
                self.tokens[1]
            }
        }
    }

    /// The lexer's next token. Apart from what is mostly done, taking a token that was read already.
    #[inline(never)]
    fn read(&mut self) -> Token {
        let token = self.lexer.next_token();
        self.tokens[0] = token;
        token
    }

    /// The source text of a token.
    fn text(&self, token: Token) -> &'s [u8] {
        self.slice(token.pos(), token.pos() + token.length())
    }

    fn slice(&self, from: Pos, to: Pos) -> &'s [u8] {
        self.text.get(from as usize..to as usize).unwrap_or_default()
    }

    fn backup(&mut self) {
        self.peeked += 1;
    }

    /// Puts two tokens back. The parser still has the last one.
    fn backup2(&mut self, first: Token) {
        self.tokens[1] = first;
        self.peeked = 2;
    }

    fn peek(&mut self) -> Token {
        let token = self.next();
        self.backup();
        token
    }

    #[cold]
    fn error<T>(&self, message: impl Into<String>) -> ParseResult<T> {
        self.error_at(self.tokens[0].pos(), message)
    }

    #[cold]
    fn error_at<T>(&self, pos: Pos, message: impl Into<String>) -> ParseResult<T> {
        Err(Box::new(ParseError {
            name: self.name.to_owned(),
            line: self.line(pos),
            message: message.into(),
        }))
    }

    /// The line of a place, counted from 1.
    fn line(&self, pos: Pos) -> usize {
        1 + memchr::memchr_iter(b'\n', self.slice(0, pos)).count()
    }

    #[cold]
    fn unexpected<T>(&self, token: Token, context: &str) -> ParseResult<T> {
        let shown = token.show(self.text(token), self.lexer.error());
        if token.kind != TokenKind::Error {
            return self.error(format!("unexpected {shown} in {context}"));
        }
        let Some(started) = self.scope.action.map(|pos| self.line(pos)) else {
            return self.error(shown);
        };
        if started == self.line(token.pos()) {
            return self.error(shown);
        }
        let link = if shown.ends_with(" action") { "" } else { " in action" };
        self.error(format!("{shown}{link} started at {}:{started}", self.name))
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> ParseResult<Token> {
        let token = self.next();
        if token.kind == kind {
            Ok(token)
        } else {
            self.unexpected(token, context)
        }
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, message: &str, parse: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.nesting >= MAX_NESTING {
            return self.error(message);
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    fn root(&mut self) -> ParseResult<Run<TemplateNode>> {
        let mark = self.nodes.len();
        loop {
            match self.peek().kind {
                TokenKind::Eof => return Ok(self.arena.take(&mut self.nodes, mark)),
                TokenKind::LeftDelim => {
                    let delim = self.next();
                    if self.next().kind == TokenKind::Keyword(Keyword::Define) {
                        self.definition()?;
                        continue;
                    }
                    self.backup2(delim);
                }
                _ => {}
            }
            if let Some(ending) = self.text_or_action()? {
                return self.error(format!("unexpected {}", ending.source()));
            }
        }
    }

    fn definition(&mut self) -> ParseResult<()> {
        const CONTEXT: &str = "define clause";
        let outer = std::mem::replace(&mut self.scope, DefinitionScope::new());
        let name = self.next();
        let name = self.template_name(name, CONTEXT)?;
        self.expect(TokenKind::RightDelim, CONTEXT)?;
        match self.body()? {
            (list, Ending::End) => self.add(&name, list)?,
            (_, ending) => return self.error(format!("unexpected {} in {CONTEXT}", ending.source())),
        }
        self.scope = outer;
        Ok(())
    }

    /// A definition's list.
    fn body(&mut self) -> ParseResult<(Run<TemplateNode>, Ending)> {
        self.nested("exceeded maximum nesting depth", Self::item_list)
    }

    fn add(&mut self, name: &str, root: Run<TemplateNode>) -> ParseResult<()> {
        let is_blank = |node: &TemplateNode| match node {
            TemplateNode::Text(from, to) => is_blank(self.slice(*from, *to)),
            _ => false,
        };
        let definition = TemplateDefinition {
            name: name.into(),
            root,
            is_empty: self.arena.all(root).iter().all(is_blank),
        };
        match self.definitions.iter_mut().find(|known| *known.name == *name) {
            Some(old) if old.is_empty => *old = definition,
            Some(_) if definition.is_empty => {}
            Some(_) => {
                return self.error(format!("template: multiple definition of template {}", quote_go(name)));
            }
            None => self.definitions.push(definition),
        }
        Ok(())
    }

    fn item_list(&mut self) -> ParseResult<(Run<TemplateNode>, Ending)> {
        let mark = self.nodes.len();
        while self.peek().kind != TokenKind::Eof {
            if let Some(ending) = self.text_or_action()? {
                return Ok((self.arena.take(&mut self.nodes, mark), ending));
            }
        }
        self.error("unexpected EOF")
    }

    /// Adds the next node to the list; or gives what ends the list.
    fn text_or_action(&mut self) -> ParseResult<Option<Ending>> {
        let token = self.next();
        match token.kind {
            TokenKind::Text => {
                self.nodes
                    .push(TemplateNode::Text(token.pos(), token.pos() + token.length()));
                Ok(None)
            }
            TokenKind::LeftDelim => {
                self.scope.action = Some(token.pos());
                let ending = self.action()?;
                self.scope.action = None;
                Ok(ending)
            }
            _ => self.unexpected(token, "input"),
        }
    }

    fn action(&mut self) -> ParseResult<Option<Ending>> {
        const TOO_DEEP: &str = "exceeded maximum nesting depth";
        let token = self.next();
        let node = match token.kind {
            TokenKind::Keyword(Keyword::Block) => self.block()?,
            TokenKind::Keyword(Keyword::Break) => TemplateNode::Break(self.loop_control(token, "{{break}}")?),
            TokenKind::Keyword(Keyword::Continue) => TemplateNode::Continue(self.loop_control(token, "{{continue}}")?),
            TokenKind::Keyword(Keyword::Else) => return self.else_action(),
            TokenKind::Keyword(Keyword::End) => {
                self.expect(TokenKind::RightDelim, "end")?;
                return Ok(Some(Ending::End));
            }
            TokenKind::Keyword(Keyword::If) => self.nested(TOO_DEEP, |parser| parser.control(Control::If))?,
            TokenKind::Keyword(Keyword::With) => self.nested(TOO_DEEP, |parser| parser.control(Control::With))?,
            TokenKind::Keyword(Keyword::Range) => self.nested(TOO_DEEP, |parser| parser.control(Control::Range))?,
            TokenKind::Keyword(Keyword::Template) => self.template()?,
            TokenKind::String | TokenKind::RawString if self.is_constant(token) => TemplateNode::Constant(token.span()),
            _ => {
                self.backup();
                TemplateNode::Action(self.pipeline("command", TokenKind::RightDelim)?)
            }
        };
        self.nodes.push(node);
        Ok(None)
    }

    /// Whether an action ends after a string constant that means what stands between its quotes. If so it is taken, and if
    /// not the parser still has the constant.
    fn is_constant(&mut self, token: Token) -> bool {
        if !matches!(unquote(self.text(token)), Some(Cow::Borrowed(_))) {
            return false;
        }
        let is_all = self.next().kind == TokenKind::RightDelim;
        if !is_all {
            self.backup2(token);
            self.next();
        }
        is_all
    }

    fn loop_control(&mut self, keyword: Token, shown: &str) -> ParseResult<Pos> {
        self.expect(TokenKind::RightDelim, shown)?;
        if self.scope.range_depth == 0 {
            return self.error(format!("{shown} outside {{{{range}}}}"));
        }
        Ok(keyword.pos())
    }

    fn else_action(&mut self) -> ParseResult<Option<Ending>> {
        let follower = self.peek().kind;
        if !matches!(follower, TokenKind::Keyword(Keyword::If | Keyword::With)) {
            self.expect(TokenKind::RightDelim, "else")?;
        }
        Ok(Some(Ending::Else(follower)))
    }

    /// `if`, `with` or `range`; the keyword is taken.
    fn control(&mut self, control: Control) -> ParseResult<TemplateNode> {
        let vars = self.scope.vars.len();
        let branch = self.branch(control)?;
        let branch = self.arena.add(branch);
        self.scope.vars.truncate(vars);
        Ok(match control {
            Control::If => TemplateNode::If(branch),
            Control::With => TemplateNode::With(branch),
            Control::Range => TemplateNode::Range(branch),
        })
    }

    fn branch(&mut self, control: Control) -> ParseResult<Branch> {
        let context = match control {
            Control::If => "if",
            Control::With => "with",
            Control::Range => "range",
        };
        let pipe = self.pipeline(context, TokenKind::RightDelim)?;
        self.scope.range_depth += usize::from(control == Control::Range);
        let (list, ending) = self.item_list()?;
        self.scope.range_depth -= usize::from(control == Control::Range);
        let else_list = match ending {
            Ending::End => None,
            Ending::Else(follower) => Some(self.else_list(control, follower)?),
        };
        Ok(Branch { pipe, list, else_list })
    }

    /// `{{else if}}` is an `if` inside of `else` that shares its `end`.
    fn else_list(&mut self, control: Control, follower: TokenKind) -> ParseResult<Run<TemplateNode>> {
        let chained = matches!(
            (control, follower),
            (Control::If, TokenKind::Keyword(Keyword::If)) | (Control::With, TokenKind::Keyword(Keyword::With))
        );
        if chained && self.peek().kind == follower {
            let mark = self.nodes.len();
            self.next();
            let node = self.nested("exceeded maximum nesting depth", |parser| parser.control(control))?;
            self.nodes.push(node);
            return Ok(self.arena.take(&mut self.nodes, mark));
        }
        match self.item_list()? {
            (list, Ending::End) => Ok(list),
            (_, ending) => self.error(format!("expected end; found {}", ending.source())),
        }
    }

    fn block(&mut self) -> ParseResult<TemplateNode> {
        const CONTEXT: &str = "block clause";
        let token = self.next();
        let name = self.template_name(token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, TokenKind::RightDelim)?;
        let delim = self.tokens[0];
        let outer = std::mem::replace(&mut self.scope, DefinitionScope::new());
        match self.body()? {
            (list, Ending::End) => self.add(&name, list)?,
            // Go parses the list with another parser: this one has yet to see what follows the clause.
            (_, ending) => return self.error_at(delim.pos(), format!("unexpected {} in {CONTEXT}", ending.source())),
        }
        self.scope = outer;
        Ok(TemplateNode::Template(self.arena.add(Invocation {
            pos: token.pos(),
            name: name.into(),
            pipe: Some(pipe),
        })))
    }

    fn template(&mut self) -> ParseResult<TemplateNode> {
        const CONTEXT: &str = "template clause";
        let token = self.next();
        let name = self.template_name(token, CONTEXT)?;
        let pipe = if self.next().kind == TokenKind::RightDelim {
            None
        } else {
            self.backup();
            Some(self.pipeline(CONTEXT, TokenKind::RightDelim)?)
        };
        Ok(TemplateNode::Template(self.arena.add(Invocation {
            pos: token.pos(),
            name: name.into(),
            pipe,
        })))
    }

    fn template_name(&mut self, token: Token, context: &str) -> ParseResult<String> {
        match token.kind {
            TokenKind::String | TokenKind::RawString => Ok(String::from_utf8_lossy(&self.unquote(token)?).into_owned()),
            _ => self.unexpected(token, context),
        }
    }

    fn unquote(&self, token: Token) -> ParseResult<Cow<'s, [u8]>> {
        match unquote(self.text(token)) {
            Some(text) => Ok(text),
            None => self.error("invalid syntax"),
        }
    }
}
