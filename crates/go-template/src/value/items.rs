//! The storage of a slice's elements.

use std::ops::Deref;

use crate::value::memory;
use crate::value::memory::holds_values;
use crate::value::{NamedType, Value};

/// The elements of a slice. Nothing changes them.
pub struct Items {
    elements: Vec<Value>,
    /// The type of a slice of kind [`ListKind::Named`](crate::ListKind::Named).
    pub named: Option<&'static NamedType>,
}

impl Items {
    pub(crate) fn new(elements: Vec<Value>, named: Option<&'static NamedType>) -> Self {
        Items { elements, named }
    }
}

impl Deref for Items {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.elements
    }
}

/// Lists in lists are dropped without recursion.
impl Drop for Items {
    fn drop(&mut self) {
        if self.elements.iter().any(holds_values) {
            memory::release_list(std::mem::take(&mut self.elements));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::value::items::*;
    use crate::value::{List, ListKind};

    #[test]
    fn lists_within_lists_are_dropped_without_recursion() {
        let mut list = List::new(ListKind::Any, Vec::new());
        for _ in 0..1_000_000 {
            list = List::new(ListKind::Any, vec![Value::List(list)]);
        }
        drop(list);
    }
}
