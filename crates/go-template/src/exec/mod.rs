//! The evaluator: walks a tree over a value, as Go's `text/template/exec.go` does.
//!
//! Error positions are part of the contract. The state therefore records the current node exactly where Go does, also
//! where Go's choice is surprising: a bad piped argument is reported at the last operand evaluated.

mod args;
pub(crate) mod builtins;
mod call;
mod fields;
mod pipeline;
mod range;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_host;

use super::error::{ExecError, Place};
use super::func::FuncMap;
use super::host::{Host, MissingKey};
use super::set::Set;
use super::value::Value;
use crate::syntax::arena::{PartId, Run};
use crate::syntax::ast::{Branch, Command, Invocation, Operand, Pipe, Pos, Span, TemplateNode, TemplateSource, Tree};
use crate::text::format;
use crate::text::quote::quote_go;

/// Executes the template `name` of `set` over `data` and appends what it prints to `out`.
///
/// `funcs` are the functions beyond Go's built-in ones (and before them, if names are the same); their bodies get
/// `ctx` and may call `exec` again.
///
/// ```
/// use go_template::{FuncMap, Set, Value, exec, host::Plain};
///
/// let funcs = FuncMap::<Plain>::new();
/// let mut set = Set::new("t");
/// set.parse("t", "{{ .a.b }}", &funcs).unwrap();
/// let mut out = Vec::new();
/// let error = exec(&set, "t", &Value::Int(1), &funcs, &mut Plain::default(), &mut out).unwrap_err();
/// assert!(error.to_string().starts_with("template: t:1:"));
/// ```
///
/// # Errors
/// Go's error, with its position; `out` has what was printed until then.
pub fn exec<C: Host>(
    set: &Set,
    name: &str,
    data: &Value,
    funcs: &FuncMap<C>,
    ctx: &mut C,
    out: &mut Vec<u8>,
) -> Result<(), Box<ExecError>> {
    let Some(tree) = set.get(name) else {
        return Err(Box::new(ExecError::no_template(name, set.name())));
    };
    let missing_key = ctx.missing_key();
    let depth = ctx.meter().depth();
    let mut state = ExecState {
        set,
        funcs,
        host: &mut *ctx,
        counted: out.len(),
        out,
        missing_key,
        tree,
        at: CurrentNode::Start,
        vars: Vec::with_capacity(8),
        vars_base: 0,
        args: Vec::new(),
    };
    let done = state.execute(&Reflected::concrete(data.clone()));
    // An error leaves levels open.
    ctx.meter().set_depth(depth);
    done
}

/// A value with what Go's reflection knows beyond it: whether it came as an `interface {}`, such as a map's element,
/// or as its concrete type. A nil that is no interface is Go's invalid `reflect.Value`: no value at all.
#[derive(Clone)]
pub(super) struct Reflected {
    pub(super) value: Value,
    pub(super) interface: bool,
}

impl Reflected {
    pub(super) const INVALID: Self = Reflected {
        value: Value::Nil,
        interface: false,
    };

    pub(super) fn concrete(value: Value) -> Self {
        Reflected {
            value,
            interface: false,
        }
    }

    /// The static type.
    fn type_name(&self) -> &'static str {
        if self.interface {
            "interface {}"
        } else {
            self.value.type_name()
        }
    }

    /// The value inside the interface.
    fn elem(self) -> Self {
        Reflected {
            interface: false,
            ..self
        }
    }
}

type ExecFailure = Box<ExecError>;

/// The way a list of nodes ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// The current node.
#[derive(Clone, Copy)]
enum CurrentNode<'a> {
    Start,
    TemplateNode(&'a TemplateNode),
    Pipe(&'a Pipe),
    Command(&'a Command),
    Operand(&'a Operand),
}

struct ExecState<'a, 'c, C> {
    set: &'a Set,
    funcs: &'a FuncMap<C>,
    host: &'c mut C,
    out: &'c mut Vec<u8>,
    /// The length of `out` that was reported to the host.
    counted: usize,
    missing_key: MissingKey,
    /// The executing template.
    tree: &'a Tree,
    at: CurrentNode<'a>,
    vars: Vec<(&'a [u8], Reflected)>,
    /// The index where the variables of the executing template start. It does not see its caller's variables.
    vars_base: usize,
    /// The arguments of the calls under way.
    args: Vec<Value>,
}

impl<'a, C: Host> ExecState<'a, '_, C> {
    fn execute(&mut self, data: &Reflected) -> Result<(), ExecFailure> {
        self.enter()?;
        self.vars.push((b"$", data.clone()));
        self.walk(data, self.tree.definition.root)?;
        self.leave();
        Ok(())
    }

    /// The text of the executing template and its syntax tree.
    fn source(&self) -> &'a TemplateSource {
        &self.tree.source
    }

    /// Opens one more level of native recursion.
    fn enter(&mut self) -> Result<(), ExecFailure> {
        let max = self.host.max_depth();
        let meter = self.host.meter();
        if meter.depth() >= max {
            return Err(self.fail("exceeded maximum template depth (100000)"));
        }
        meter.set_depth(meter.depth() + 1);
        Ok(())
    }

    fn leave(&mut self) {
        let meter = self.host.meter();
        meter.set_depth(meter.depth().saturating_sub(1));
    }

    fn step(&mut self) -> Result<(), ExecFailure> {
        self.host.step().map_err(|text| self.fail(text))
    }

    fn written(&mut self) -> Result<(), ExecFailure> {
        let added = self.out.len().saturating_sub(self.counted);
        self.counted = self.out.len();
        self.host.output(self.counted, added).map_err(|text| self.fail(text))
    }

    #[cold]
    fn fail(&self, message: impl Into<String>) -> ExecFailure {
        let mut node = String::new();
        let source = self.source();
        let pos = match self.at {
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
        let place = Place {
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

    /// The bytes of a name in the executing template.
    fn name(&self, name: Span) -> &'a [u8] {
        self.source().bytes(name)
    }

    fn set_var(&mut self, name: Span, value: Reflected) -> Result<(), ExecFailure> {
        let name = self.name(name);
        let visible = self.vars.get_mut(self.vars_base..).unwrap_or_default();
        match visible.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, variable)) => {
                *variable = value;
                Ok(())
            }
            None => Err(self.undefined(name)),
        }
    }

    fn var(&self, name: Span) -> Result<&Reflected, ExecFailure> {
        let name = self.name(name);
        let visible = self.vars.get(self.vars_base..).unwrap_or_default();
        match visible.iter().rev().find(|(known, _)| *known == name) {
            Some((_, variable)) => Ok(variable),
            None => Err(self.undefined(name)),
        }
    }

    #[cold]
    fn undefined(&self, name: &[u8]) -> ExecFailure {
        self.fail(format!("undefined variable: {}", String::from_utf8_lossy(name)))
    }

    fn walk(&mut self, dot: &Reflected, list: Run<TemplateNode>) -> Result<Flow, ExecFailure> {
        for node in self.source().all(list) {
            self.at = CurrentNode::TemplateNode(node);
            self.step()?;
            let flow = match node {
                TemplateNode::Text(from, to) => {
                    self.copy(*from, *to)?;
                    Flow::Next
                }
                TemplateNode::Constant(Span(from, length)) => {
                    self.copy(from + 1, (from + length).saturating_sub(1))?;
                    Flow::Next
                }
                TemplateNode::Action(pipe) => {
                    let value = self.eval_pipeline(dot, pipe)?;
                    if pipe.decl.is_empty() {
                        self.at = CurrentNode::TemplateNode(node);
                        self.print(&value)?;
                    }
                    Flow::Next
                }
                TemplateNode::If(branch) => self.walk_branch(dot, *branch, false)?,
                TemplateNode::With(branch) => self.walk_branch(dot, *branch, true)?,
                TemplateNode::Range(branch) => self.walk_range(dot, *branch)?,
                TemplateNode::Template(invocation) => self.walk_template(dot, *invocation)?,
                TemplateNode::Break(_) => Flow::Break,
                TemplateNode::Continue(_) => Flow::Continue,
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// Prints a part of the source.
    fn copy(&mut self, from: Pos, to: Pos) -> Result<(), ExecFailure> {
        self.out.extend_from_slice(self.source().slice(from, to));
        self.written()
    }

    fn print(&mut self, value: &Reflected) -> Result<(), ExecFailure> {
        match &value.value {
            Value::Nil => self.out.extend_from_slice(b"<no value>"),
            value @ (Value::List(_) | Value::Map(_) | Value::Object(_)) => {
                format::print_into(self.host.meter(), value, self.out);
                self.host.called(0, 0, 0).map_err(|text| self.fail(text))?;
            }
            value => format::display_into(self.host.meter(), value, self.out),
        }
        self.written()
    }

    /// Walks a list one level deeper.
    fn walk_nested(&mut self, dot: &Reflected, list: Run<TemplateNode>) -> Result<Flow, ExecFailure> {
        self.enter()?;
        let flow = self.walk(dot, list)?;
        self.leave();
        Ok(flow)
    }

    fn walk_branch(&mut self, dot: &Reflected, branch: PartId<Branch>, with: bool) -> Result<Flow, ExecFailure> {
        let branch = self.source().one(branch);
        let mark = self.vars.len();
        let value = self.eval_pipeline(dot, &branch.pipe)?;
        let flow = if value.value.truth() {
            self.walk_nested(if with { &value } else { dot }, branch.list)?
        } else {
            self.walk_else(dot, branch)?
        };
        self.vars.truncate(mark);
        Ok(flow)
    }

    fn walk_else(&mut self, dot: &Reflected, branch: &'a Branch) -> Result<Flow, ExecFailure> {
        match branch.else_list {
            Some(list) => self.walk_nested(dot, list),
            None => Ok(Flow::Next),
        }
    }

    fn walk_template(&mut self, dot: &Reflected, invocation: PartId<Invocation>) -> Result<Flow, ExecFailure> {
        let invocation = self.source().one(invocation);
        let Some(tree) = self.set.get(&invocation.name) else {
            return Err(self.fail(format!("template {} not defined", quote_go(invocation.name.as_bytes()))));
        };
        self.enter()?;
        let data = match &invocation.pipe {
            Some(pipe) => self.eval_pipeline(dot, pipe)?,
            None => Reflected::INVALID,
        };
        // Variables that the pipeline declares stay.
        let mark = self.vars.len();
        let caller = (self.tree, self.at, self.vars_base);
        (self.tree, self.vars_base) = (tree, mark);
        self.vars.push((b"$", data.clone()));
        self.walk(&data, self.tree.definition.root)?;
        self.vars.truncate(mark);
        (self.tree, self.at, self.vars_base) = caller;
        self.leave();
        Ok(Flow::Next)
    }
}
