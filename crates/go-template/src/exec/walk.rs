//! The nodes of a template, executed one after another.

use super::args::as_argument;
use super::place::CurrentNode;
use super::{ExecFailure, ExecState, Flow, Reflected};
use crate::exec::builtins::{element_of, entry_of};
use crate::host::Host;
use crate::meter::{ELEMENT, Meter};
use crate::syntax::arena::{PartId, Run};
use crate::syntax::ast::{Branch, Invocation, Pipe, TemplateNode, TextSpan};
use crate::text::format::print_into;
use crate::text::quote::quote_go;
use crate::value::Value;

impl<'a, C: Host> ExecState<'a, '_, C> {
    /// Executes the template at the start.
    pub(super) fn execute(&mut self, data: &Reflected) -> Result<(), ExecFailure> {
        self.host.enter(&self.place)?;
        self.vars.declare(b"$", data.clone());
        self.walk(data, self.place.tree.definition.root)?;
        self.host.leave();
        Ok(())
    }

    fn walk(&mut self, dot: &Reflected, list: Run<TemplateNode>) -> Result<Flow, ExecFailure> {
        let source = self.place.source();
        for node in source.all(list) {
            self.place.node = CurrentNode::TemplateNode(node);
            self.host.step(&self.place)?;
            let flow = match node {
                TemplateNode::Text(from, to) => {
                    self.host.copy(&self.place, source.slice(*from, *to))?;
                    Flow::Next
                }
                TemplateNode::Constant(TextSpan(from, length)) => {
                    let text = source.slice(from + 1, (from + length).saturating_sub(1));
                    self.host.copy(&self.place, text)?;
                    Flow::Next
                }
                TemplateNode::Action(pipe) => {
                    let value = self.eval_pipeline(dot, pipe)?;
                    if pipe.decl.is_empty() {
                        self.place.node = CurrentNode::TemplateNode(node);
                        self.host.print(&self.place, &value.value)?;
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

    /// Walks a list one level deeper.
    fn walk_nested(&mut self, dot: &Reflected, list: Run<TemplateNode>) -> Result<Flow, ExecFailure> {
        self.host.enter(&self.place)?;
        let flow = self.walk(dot, list)?;
        self.host.leave();
        Ok(flow)
    }

    fn walk_branch(&mut self, dot: &Reflected, branch: PartId<Branch>, with: bool) -> Result<Flow, ExecFailure> {
        let branch = self.place.source().one(branch);
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
        let invocation = self.place.source().one(invocation);
        let Some(tree) = self.set.get(&invocation.name) else {
            return Err(self
                .place
                .fail(format!("template {} not defined", quote_go(invocation.name.as_bytes()))));
        };
        self.host.enter(&self.place)?;
        let data = match &invocation.pipe {
            Some(pipe) => self.eval_pipeline(dot, pipe)?,
            None => Reflected::INVALID,
        };
        // Variables that the pipeline declares stay.
        let caller = self.place;
        let caller_base = self.vars.enter_template(data.clone());
        self.place.tree = tree;
        self.walk(&data, tree.definition.root)?;
        self.vars.leave_template(caller_base);
        self.place = caller;
        self.host.leave();
        Ok(Flow::Next)
    }

    fn walk_range(&mut self, dot: &Reflected, branch: PartId<Branch>) -> Result<Flow, ExecFailure> {
        let branch = self.place.source().one(branch);
        let mark = self.vars.len();
        let value = self.eval_pipeline(dot, &branch.pipe)?;
        let any = match &value.value {
            Value::Nil => false,
            Value::List(list) => {
                let mut any = false;
                // Each element is read in its own iteration, because an iteration may reorder the others.
                for i in 0..list.items().len() {
                    let Some(item) = list.items().get(i).cloned() else {
                        break;
                    };
                    any = true;
                    let index = Reflected::concrete(Value::Int(i as i64));
                    if !self.iteration(branch, index, &element_of(list, item))? {
                        break;
                    }
                }
                any
            }
            Value::Map(map) => {
                if self.host.meter().spend(ELEMENT * map.len() as u64).is_err() {
                    self.host.check_overrun(&self.place)?;
                }
                let entries = map.snapshot();
                let any = !entries.is_empty();
                for (key, item) in entries {
                    let key = Reflected::concrete(Value::String(key));
                    if !self.iteration(branch, key, &entry_of(map, Some(item)))? {
                        break;
                    }
                }
                any
            }
            number => match count(number) {
                Some(_) if branch.pipe.decl.names().count() > 1 => {
                    return Err(self.place.fail(format!(
                        "can't use {} to iterate over more than one variable",
                        shown(self.host.meter(), number)
                    )));
                }
                Some(count) => self.count_up(branch, number, count)?,
                None => {
                    return Err(self
                        .place
                        .fail(format!("range can't iterate over {}", shown(self.host.meter(), number))));
                }
            },
        };
        // In Go a `break` in the alternative ends this `range`, not the one around it.
        let flow = if any {
            Flow::Next
        } else {
            match self.walk_else(dot, branch)? {
                Flow::Break => Flow::Next,
                flow => flow,
            }
        };
        self.vars.truncate(mark);
        Ok(flow)
    }

    /// Iterates over the numbers below `count`, in the type of `number`. Returns whether there was one.
    fn count_up(&mut self, branch: &'a Branch, number: &Value, count: u64) -> Result<bool, ExecFailure> {
        for i in 0..count {
            let element = match number {
                Value::Uint8(_) => Value::Uint8(i as u8),
                Value::Uint64(_) => Value::Uint64(i),
                Value::Int(_) => Value::Int(i as i64),
                _ => Value::Int64(i as i64),
            };
            if !self.iteration(branch, Reflected::INVALID, &Reflected::concrete(element))? {
                break;
            }
        }
        Ok(count > 0)
    }

    /// Runs one iteration. Returns whether to continue.
    fn iteration(&mut self, branch: &'a Branch, index: Reflected, element: &Reflected) -> Result<bool, ExecFailure> {
        self.host.step(&self.place)?;
        self.bind(&branch.pipe, index, element)?;
        let mark = self.vars.len();
        let flow = self.walk_nested(element, branch.list)?;
        self.vars.truncate(mark);
        Ok(flow != Flow::Break)
    }

    /// Sets the loop's variables, which the pipeline has pushed if it declares them.
    fn bind(&mut self, pipe: &'a Pipe, index: Reflected, element: &Reflected) -> Result<(), ExecFailure> {
        let names = self.place.source().all(pipe.decl.names());
        let targets = match names {
            [] => return Ok(()),
            [one] => [None, Some(one)],
            [first, second, ..] => [Some(first), Some(second)],
        };
        let from_top = names.len();
        for (i, (target, value)) in targets.into_iter().zip([index, element.clone()]).enumerate() {
            let Some(name) = target else { continue };
            if pipe.decl.is_assign {
                self.vars.assign(&self.place, *name, value)?;
                continue;
            }
            // The element's variable is on top, the index's below it.
            self.vars.assign_from_top(if i == 1 { 1 } else { from_top }, value);
        }
        Ok(())
    }
}

/// The number of iterations for a number. `None` if it is no integer.
fn count(number: &Value) -> Option<u64> {
    match number {
        Value::Int(n) | Value::Int64(n) => Some(u64::try_from(*n).unwrap_or(0)),
        Value::Uint8(n) => Some(u64::from(*n)),
        Value::Uint64(n) => Some(*n),
        Value::Object(object) => object.as_int().map(|n| u64::try_from(n).unwrap_or(0)),
        _ => None,
    }
}

fn shown(meter: &Meter, value: &Value) -> String {
    let mut out = Vec::new();
    print_into(meter, &as_argument(value.clone()), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
