//! The place of an execution in its templates: where names are read from, and where errors are reported.

use super::ExecFailure;
use crate::error::{ExecError, ExecutionPlace};
use crate::syntax::ast::{CommandNode, Operand, Pipe, TemplateNode, TemplateSource, TextSpan, Tree};

/// The current node.
#[derive(Clone, Copy)]
pub(super) enum CurrentNode<'a> {
    Start,
    TemplateNode(&'a TemplateNode),
    Pipe(&'a Pipe),
    Command(&'a CommandNode),
    Operand(&'a Operand),
}

/// The executing template and its current node.
#[derive(Clone, Copy)]
pub(super) struct ExecPlace<'a> {
    pub(super) tree: &'a Tree,
    pub(super) node: CurrentNode<'a>,
}

impl<'a> ExecPlace<'a> {
    /// The text of the executing template and its syntax tree.
    #[inline]
    pub(super) fn source(&self) -> &'a TemplateSource {
        &self.tree.source
    }

    /// The bytes of a name in the executing template.
    #[inline]
    pub(super) fn name(&self, name: TextSpan) -> &'a [u8] {
        self.source().bytes(name)
    }

    /// An error at this place.
    #[cold]
    pub(super) fn fail(&self, message: impl Into<String>) -> ExecFailure {
        let mut node = String::new();
        let source = self.source();
        let pos = match self.node {
            CurrentNode::Start => source
                .all(self.tree.definition.root)
                .first()
                .map_or(0, |node| node.pos(source)),
            CurrentNode::TemplateNode(at) => {
                at.write(source, &mut node);
                at.pos(source)
            }
            CurrentNode::Pipe(at) => {
                at.write(source, &mut node);
                at.pos
            }
            CurrentNode::Command(at) => {
                at.write(source, &mut node);
                at.pos
            }
            CurrentNode::Operand(at) => {
                at.write(source, &mut node);
                at.pos(source)
            }
        };
        let (line, column) = self.tree.line_and_column(pos);
        let (file, executing) = (self.tree.parse_name().to_owned(), self.tree.name().to_owned());
        let place = ExecutionPlace {
            file,
            line,
            column,
            executing,
            node,
        };
        Box::new(ExecError {
            place: Some(place),
            message: message.into(),
            cause: None,
        })
    }
}
