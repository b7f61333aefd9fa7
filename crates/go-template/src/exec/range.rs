//! `range`.

use super::super::host::Host;
use super::super::meter::{ELEMENT, Meter};
use super::super::value::Value;
use super::args::as_argument;
use super::{ExecFailure, ExecState, Flow, Reflected};
use crate::exec::builtins::{element_of, entry_of};
use crate::syntax::arena::PartId;
use crate::syntax::ast::{Branch, Pipe};
use crate::text::format::print_into;

impl<'a, C: Host> ExecState<'a, '_, C> {
    pub(super) fn walk_range(&mut self, dot: &Reflected, branch: PartId<Branch>) -> Result<Flow, ExecFailure> {
        let branch = self.source().one(branch);
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
                    self.host.called(0, 0, 0).map_err(|text| self.fail(text))?;
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
                    return Err(self.fail(format!(
                        "can't use {} to iterate over more than one variable",
                        shown(self.host.meter(), number)
                    )));
                }
                Some(count) => self.count_up(branch, number, count)?,
                None => return Err(self.fail(format!("range can't iterate over {}", shown(self.host.meter(), number)))),
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
        self.step()?;
        self.bind(&branch.pipe, index, element)?;
        let mark = self.vars.len();
        let flow = self.walk_nested(element, branch.list)?;
        self.vars.truncate(mark);
        Ok(flow != Flow::Break)
    }

    /// Sets the loop's variables, which the pipeline has pushed if it declares them.
    fn bind(&mut self, pipe: &'a Pipe, index: Reflected, element: &Reflected) -> Result<(), ExecFailure> {
        let names = self.source().all(pipe.decl.names());
        let targets = match names {
            [] => return Ok(()),
            [one] => [None, Some(one)],
            [first, second, ..] => [Some(first), Some(second)],
        };
        let from_top = names.len();
        for (i, (target, value)) in targets.into_iter().zip([index, element.clone()]).enumerate() {
            let Some(name) = target else { continue };
            if pipe.decl.is_assign {
                self.set_var(*name, value)?;
                continue;
            }
            // The element's variable is on top, the index's below it.
            let at = self.vars.len().checked_sub(if i == 1 { 1 } else { from_top });
            if let Some((_, slot)) = at.and_then(|at| self.vars.get_mut(at)) {
                *slot = value;
            }
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
