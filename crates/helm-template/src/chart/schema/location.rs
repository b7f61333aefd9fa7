//! Places in the values, kept as the library keeps them: in memory that several of them share.

use std::cell::RefCell;
use std::rc::Rc;

/// For how many parts the library makes room at first.
const ROOM: usize = 8;

/// Where the value stands that is being checked: keys and indexes from the top.
///
/// Go's slices: a place and those below it are in the same memory as long as there is room, so that a place that is kept
/// as it is, and not copied, shows what was written over it later. `propertyNames` keeps it so.
#[derive(Debug, Clone)]
pub(super) struct Location {
    memory: Rc<RefCell<Vec<Rc<str>>>>,
    room: usize,
    length: usize,
}

impl Location {
    pub fn top() -> Self {
        Location {
            memory: Rc::new(RefCell::new(Vec::with_capacity(ROOM))),
            room: ROOM,
            length: 0,
        }
    }

    /// The place of what stands at `key` of this one.
    pub fn below(&self, key: &str) -> Self {
        let mut child = self.clone();
        if self.length == self.room {
            child = self.copy();
            child.room *= 2;
        }
        child.length += 1;
        let mut memory = child.memory.borrow_mut();
        match memory.get_mut(self.length) {
            Some(part) => *part = Rc::from(key),
            None => memory.push(Rc::from(key)),
        }
        drop(memory);
        child
    }

    /// The same place in memory of its own, but for the parts themselves.
    pub fn copy(&self) -> Self {
        Location {
            memory: Rc::new(RefCell::new(self.parts())),
            ..*self
        }
    }

    /// What stands in its memory now.
    pub fn parts(&self) -> Vec<Rc<str>> {
        let memory = self.memory.borrow();
        memory.get(..self.length).unwrap_or_default().to_vec()
    }

    /// The bytes of its parts, and of what refers to them.
    pub fn size(&self) -> usize {
        let memory = self.memory.borrow();
        let parts = memory.get(..self.length).unwrap_or_default();
        parts.iter().map(|part| part.len() + size_of::<Rc<str>>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_share_memory_until_it_is_full() {
        let place = |from: &Location, parts: &[&str]| parts.iter().fold(from.clone(), |at, part| at.below(part));
        let shown = |place: &Location| super::super::failure::pointer(&place.parts());
        let a = place(&Location::top(), &["l", "0"]);
        let copy = a.copy();
        let top = Location { length: 0, ..a.clone() };
        place(&top, &["l", "2"]);
        assert_eq!(shown(&a), "/l/2");
        assert_eq!(shown(&copy), "/l/0");

        let full = place(&Location::top(), &["1", "2", "3", "4", "5", "6", "7", "8"]);
        let (ninth, other) = (full.below("x"), full.below("y"));
        assert_eq!(ninth.parts().last().map(|part| &**part), Some("x"));
        let (deep, deeper) = (other.below("a"), other.below("b"));
        assert_eq!(deep.parts(), deeper.parts());
    }
}
