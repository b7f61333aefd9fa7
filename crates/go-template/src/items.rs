//! What the elements of slices lie in.

use std::ops::Deref;

use super::memory::{self, holds_values};
use super::value::Value;

/// The elements of a slice. Nothing changes them.
pub struct Items(Vec<Value>);

impl From<Vec<Value>> for Items {
    fn from(elements: Vec<Value>) -> Self {
        Items(elements)
    }
}

impl Deref for Items {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0
    }
}

/// Lists in lists are dropped without recursion.
impl Drop for Items {
    fn drop(&mut self) {
        if self.0.iter().any(holds_values) {
            memory::release_list(std::mem::take(&mut self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::{List, ListKind};
    use super::*;

    #[test]
    fn lists_within_lists_are_dropped_without_recursion() {
        let mut list = List::new(ListKind::Any, Vec::new());
        for _ in 0..1_000_000 {
            list = List::new(ListKind::Any, vec![Value::List(list)]);
        }
        drop(list);
    }
}
