//! The storage of lists and maps. It is dropped without recursion at any nesting depth, and freed at the end of a
//! render even if a value contains itself.
//!
//! Templates can nest a list into a list millions of times, and put a map into itself; Go's garbage collector frees
//! both. Reference counts would overflow the stack on the first and leak the second.

use std::cell::{Cell, Ref, RefCell};
use std::rc::{Rc, Weak};

use crate::footprint::Birth;
use crate::value::{Entries, Str, Value};

/// The number of levels that are dropped by recursion before the rest is queued.
const MAX_NESTED_DROPS: u32 = 64;

// Invariant: this state belongs to the thread, as values do. It cannot be passed: `Drop` has no parameters, and a map
// is changed through a handle that has no context.
thread_local! {
    /// The number of nested drops in progress.
    static DROPPING: Cell<u32> = const { Cell::new(0) };
    /// Parts that are dropped when the outermost drop ends.
    static LATER: RefCell<Vec<DeferredPart>> = const { RefCell::new(Vec::new()) };
    /// The number of open [`CycleScope`]s.
    static SCOPES: Cell<u32> = const { Cell::new(0) };
    /// Tables that were changed to hold other values. Only these can be part of a cycle.
    static CHANGED: RefCell<Vec<Weak<MapTable>>> = const { RefCell::new(Vec::new()) };
}

/// The entries of a map. Reads and changes are recorded in [`crate::footprint`].
pub struct MapTable {
    entries: RefCell<Entries>,
    birth: Birth,
}

/// Content whose drop was deferred. It is held only to be dropped.
enum DeferredPart {
    List(#[expect(dead_code)] Vec<Value>),
    Map(#[expect(dead_code)] Entries),
}

/// Records the tables that change while it lives. When it is dropped, these tables are emptied, which breaks every
/// cycle. A value that outlives its scope may therefore have lost entries.
#[derive(Default)]
pub struct CycleScope {
    from: usize,
}

/// Whether dropping the value drops others.
pub(crate) fn holds_values(value: &Value) -> bool {
    matches!(value, Value::List(_) | Value::Map(_) | Value::Object(_))
}

/// Drops the elements of a list, or queues them if drops are nested too deep.
pub(crate) fn release_list(elements: Vec<Value>) {
    release(DeferredPart::List(elements));
}

fn release(part: DeferredPart) {
    let depth = DROPPING.try_with(Cell::get).unwrap_or(0);
    if depth >= MAX_NESTED_DROPS {
        // The queue may be gone while the thread ends. The part is then dropped here.
        let _ = LATER.try_with(|later| later.borrow_mut().push(part));
        return;
    }
    let set = |depth| {
        let _ = DROPPING.try_with(|cell| cell.set(depth));
    };
    set(depth + 1);
    drop(part);
    if depth == 0 {
        while let Ok(Some(next)) = LATER.try_with(|later| later.borrow_mut().pop()) {
            drop(next);
        }
    }
    set(depth);
}

impl From<Entries> for MapTable {
    fn from(entries: Entries) -> Self {
        MapTable {
            entries: RefCell::new(entries),
            birth: Birth::now(),
        }
    }
}

impl MapTable {
    /// A table that exists only in the current execution.
    pub fn local(entries: Entries) -> Self {
        MapTable {
            entries: RefCell::new(entries),
            birth: Birth::local(),
        }
    }

    /// The entries.
    pub fn borrow(&self) -> Ref<'_, Entries> {
        self.birth.read();
        self.entries.borrow()
    }

    /// The entries, of which only that of one key is read.
    pub fn borrow_for(&self, key: &[u8]) -> Ref<'_, Entries> {
        self.birth.read_entry(key);
        self.entries.borrow()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.birth.read_len();
        self.entries.borrow().len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the map was made.
    pub fn birth(&self) -> Birth {
        self.birth
    }

    /// Sets a key.
    pub fn insert(table: &Rc<MapTable>, key: Str, value: Value) {
        table.birth.changed();
        if holds_values(&value) && SCOPES.with(Cell::get) > 0 {
            CHANGED.with(|changed| changed.borrow_mut().push(Rc::downgrade(table)));
        }
        table.put(key, value);
    }

    /// Sets a key that no result can depend on: before templates are executed, or in a table of the current execution.
    pub fn put(&self, key: Str, value: Value) {
        // The old value is dropped after the borrow has ended: it may hold this very table.
        let old = self.entries.borrow_mut().insert(key, value);
        drop(old);
    }

    /// Removes a key.
    pub fn remove(&self, key: &[u8]) {
        self.birth.changed();
        let old = self.entries.borrow_mut().remove(key);
        drop(old);
    }
}

impl Drop for MapTable {
    fn drop(&mut self) {
        let entries = self.entries.get_mut();
        if entries.values().any(holds_values) {
            release(DeferredPart::Map(std::mem::take(entries)));
        }
    }
}

impl CycleScope {
    /// Opens a scope on this thread. Scopes nest; they end in reverse order.
    pub fn open() -> Self {
        SCOPES.with(|scopes| scopes.set(scopes.get() + 1));
        CycleScope {
            from: CHANGED.with(|changed| changed.borrow().len()),
        }
    }
}

impl Drop for CycleScope {
    fn drop(&mut self) {
        let _ = SCOPES.try_with(|scopes| scopes.set(scopes.get().saturating_sub(1)));
        let changed = CHANGED.try_with(|changed| {
            let mut changed = changed.borrow_mut();
            let from = self.from.min(changed.len());
            changed.split_off(from)
        });
        for table in changed.unwrap_or_default() {
            if let Some(table) = table.upgrade() {
                let entries = std::mem::take(&mut *table.entries.borrow_mut());
                release(DeferredPart::Map(entries));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::value::memory::*;
    use crate::value::{List, ListKind, Map, MapKind};

    #[test]
    fn deep_nesting_is_dropped_without_recursion() {
        let mut list = Value::Nil;
        let mut map = Value::Nil;
        for _ in 0..1_000_000 {
            list = Value::list(vec![list]);
            map = Value::map(Entries::from([(Str::from("x"), map)]));
        }
        drop((list, map));
        assert_eq!(DROPPING.with(Cell::get), 0);
        assert!(LATER.with(|later| later.borrow().is_empty()));
    }

    #[test]
    fn cycles_end_with_their_scope() {
        let outside = Map::new(MapKind::Any, Entries::new());
        outside.insert("list".into(), Value::list(vec![])).unwrap();
        let scope = CycleScope::open();
        let map = Map::new(MapKind::Any, Entries::new());
        let list = Value::List(List::new(ListKind::Any, vec![Value::Map(map.clone())]));
        map.insert("self".into(), Value::Map(map.clone())).unwrap();
        map.insert("list".into(), list).unwrap();
        let table = Rc::downgrade(map.entries.as_ref().unwrap());
        drop(map);
        assert!(table.upgrade().is_some());
        drop(scope);
        assert!(table.upgrade().is_none());
        assert_eq!(outside.len(), 1);
    }
}
