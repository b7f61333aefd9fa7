//! The variables of an execution.

use super::place::ExecPlace;
use super::{ExecFailure, Reflected};
use crate::syntax::ast::TextSpan;

/// The variables in the order in which they were declared.
pub(super) struct VariableStack<'a> {
    variables: Vec<(&'a [u8], Reflected)>,
    /// The index where the variables of the executing template start. It does not see its caller's variables.
    base: usize,
}

impl<'a> VariableStack<'a> {
    pub(super) fn new() -> Self {
        VariableStack {
            variables: Vec::with_capacity(8),
            base: 0,
        }
    }

    /// The number of variables, for [`truncate`](Self::truncate) at the end of a scope.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.variables.len()
    }

    /// Removes the variables that were declared since there were `len` of them.
    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        self.variables.truncate(len);
    }

    #[inline]
    pub(super) fn declare(&mut self, name: &'a [u8], value: Reflected) {
        self.variables.push((name, value));
    }

    /// Hides the variables of the calling template and declares `$`. Returns what
    /// [`leave_template`](Self::leave_template) needs.
    pub(super) fn enter_template(&mut self, data: Reflected) -> usize {
        let caller_base = std::mem::replace(&mut self.base, self.variables.len());
        self.declare(b"$", data);
        caller_base
    }

    /// Removes the variables of the executing template.
    pub(super) fn leave_template(&mut self, caller_base: usize) {
        self.variables.truncate(self.base);
        self.base = caller_base;
    }

    #[inline]
    pub(super) fn get(&self, place: &ExecPlace<'_>, name: TextSpan) -> Result<&Reflected, ExecFailure> {
        let name = place.name(name);
        let visible = self.variables.get(self.base..).unwrap_or_default();
        match visible.iter().rev().find(|(known, _)| *known == name) {
            Some((_, variable)) => Ok(variable),
            None => Err(undefined(place, name)),
        }
    }

    /// Sets the innermost variable of that name.
    #[inline]
    pub(super) fn assign(
        &mut self,
        place: &ExecPlace<'_>,
        name: TextSpan,
        value: Reflected,
    ) -> Result<(), ExecFailure> {
        let name = place.name(name);
        let visible = self.variables.get_mut(self.base..).unwrap_or_default();
        match visible.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, variable)) => {
                *variable = value;
                Ok(())
            }
            None => Err(undefined(place, name)),
        }
    }

    /// Sets the variable that was declared last, for 1, or the one before it, for 2, and so on.
    #[inline]
    pub(super) fn assign_from_top(&mut self, depth: usize, value: Reflected) {
        let at = self.variables.len().checked_sub(depth);
        if let Some((_, variable)) = at.and_then(|at| self.variables.get_mut(at)) {
            *variable = value;
        }
    }
}

#[cold]
fn undefined(place: &ExecPlace<'_>, name: &[u8]) -> ExecFailure {
    place.fail(format!("undefined variable: {}", String::from_utf8_lossy(name)))
}
