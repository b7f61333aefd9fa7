//! What the elements of slices lie in. As in Go, a part of a slice is a window on its array, which shows what is done to
//! it through another, and reaches as far as the array.

use std::cell::OnceCell;
use std::iter::successors;
use std::ops::Deref;
use std::rc::Rc;

use super::footprint::Birth;
use super::memory::{self, holds_values};
use super::room::Room;
use super::value::{ListKind, Value};

/// How often strings are put into another order in place. Each time takes as much room as they do.
const MAX_ORDERS: usize = 32;

/// The elements of a slice.
pub struct Items {
    array: Array,
    room: Room,
}

enum Array {
    /// What nothing changes.
    Fixed(Vec<Value>),
    /// Strings, which may be put in order.
    Strings(Box<Strings>),
    /// Part of another slice's array, which is no window itself.
    Window { whole: Rc<Items>, from: usize, len: usize },
}

/// Strings and the room behind them, with their later orders, since the former ones may be borrowed, and a note of who
/// reads and changes them ([`super::footprint`]).
struct Strings {
    len: usize,
    orders: Order,
    birth: Birth,
}

struct Order {
    strings: Vec<Value>,
    later: OnceCell<Box<Order>>,
}

// === impl Items ===

impl Items {
    /// Elements of that kind, with room for more.
    pub fn new(kind: ListKind, mut elements: Vec<Value>, room: Room) -> Self {
        let array = match kind {
            ListKind::String => {
                let len = elements.len();
                elements.resize(room.capacity(kind, len), kind.zero());
                Array::Strings(Box::new(Strings {
                    len,
                    orders: Order::from(elements),
                    birth: Birth::now(),
                }))
            }
            _ => Array::Fixed(elements),
        };
        Items { array, room }
    }

    /// The room that there is.
    pub fn room(&self) -> Room {
        self.room
    }

    /// How many elements there is room for.
    pub fn capacity(&self, kind: ListKind) -> usize {
        self.room.capacity(kind, self.len())
    }

    /// The elements from one index to before another, with room up to a third. Where they end behind the last element,
    /// zero values follow.
    pub fn window(items: &Rc<Items>, kind: ListKind, [from, to, end]: [usize; 3]) -> Items {
        let room = Room::Of(end.saturating_sub(from));
        let (whole, offset) = match &items.array {
            Array::Window { whole, from, .. } => (whole, *from),
            _ => (items, 0),
        };
        let (from, to) = (offset + from, offset + to);
        let array = whole.all();
        if to <= array.len() {
            let (whole, len) = (Rc::clone(whole), to.saturating_sub(from));
            return Items {
                array: Array::Window { whole, from, len },
                room,
            };
        }
        let mut elements = array.get(from..).unwrap_or_default().to_vec();
        elements.resize(to.saturating_sub(from), kind.zero());
        Items::new(kind, elements, room)
    }

    /// The elements with what is behind them, as far as it is more than zero values that nobody changes.
    fn all(&self) -> &[Value] {
        match &self.array {
            Array::Fixed(elements) => elements,
            Array::Strings(strings) => strings.current(),
            Array::Window { whole, from, .. } => whole.all().get(*from..).unwrap_or_default(),
        }
    }

    /// Puts the same strings in another order, for all windows on them. Whether that is possible: it is not for what
    /// aren't strings, nor too often.
    pub fn reorder(&self, strings: Vec<Value>) -> bool {
        match &self.array {
            Array::Fixed(_) => false,
            Array::Strings(own) => own.reorder(0, strings),
            Array::Window { whole, from, .. } => match &whole.array {
                Array::Strings(all) => all.reorder(*from, strings),
                _ => false,
            },
        }
    }
}

impl Deref for Items {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        match &self.array {
            Array::Fixed(elements) => elements,
            Array::Strings(strings) => strings.current().get(..strings.len).unwrap_or_default(),
            Array::Window { whole, from, len } => whole.all().get(*from..from + len).unwrap_or_default(),
        }
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        if let Array::Fixed(elements) = &mut self.array
            && elements.iter().any(holds_values)
        {
            memory::release_list(std::mem::take(elements));
        }
    }
}

// === impl Strings ===

impl Strings {
    /// The orders, of which the last one holds.
    fn orders(&self) -> impl Iterator<Item = &Order> {
        successors(Some(&self.orders), |order| order.later.get().map(Box::as_ref))
    }

    fn current(&self) -> &[Value] {
        self.birth.read();
        self.orders().last().map_or(&[], |order| &order.strings)
    }

    fn reorder(&self, from: usize, part: Vec<Value>) -> bool {
        let Some((_, last)) = self
            .orders()
            .enumerate()
            .last()
            .filter(|(count, _)| *count < MAX_ORDERS)
        else {
            return false;
        };
        let mut strings = last.strings.clone();
        for (place, string) in strings.iter_mut().skip(from).zip(part) {
            *place = string;
        }
        self.birth.changed();
        last.later.set(Box::new(Order::from(strings))).is_ok()
    }
}

// === impl Order ===

impl From<Vec<Value>> for Order {
    fn from(strings: Vec<Value>) -> Self {
        Order {
            strings,
            later: OnceCell::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::List;
    use super::*;

    fn strings(texts: &[&str]) -> Vec<Value> {
        texts.iter().map(|text| Value::string(*text)).collect()
    }

    fn texts(list: &List) -> Vec<String> {
        list.items()
            .iter()
            .map(|item| format!("{}", String::from_utf8_lossy(&super::super::format::display(item))))
            .collect()
    }

    #[test]
    fn windows_show_what_is_done_to_the_whole() {
        let list = List::new(ListKind::String, strings(&["c", "b", "a"]));
        let window = list.slice(1, 2, 3);
        let inner = window.slice(0, 2, 2);
        assert!(list.items.as_ref().unwrap().reorder(strings(&["a", "b", "c"])));
        assert_eq!(texts(&inner), ["b", "c"]);
        assert!(inner.items.as_ref().unwrap().reorder(strings(&["c", "b"])));
        assert_eq!(texts(&list), ["a", "c", "b"]);
        assert_eq!(texts(&window), ["c"]);
    }

    #[test]
    fn what_was_borrowed_before_stays() {
        let list = List::new(ListKind::String, strings(&["b", "a"]));
        let before = list.items();
        assert!(list.items.as_ref().unwrap().reorder(strings(&["a", "b"])));
        assert_eq!(texts(&List::new(ListKind::Any, before.to_vec())), ["b", "a"]);
        assert_eq!(texts(&list), ["a", "b"]);
    }

    #[test]
    fn orders_are_kept_for_some_changes_only() {
        let list = List::new(ListKind::String, strings(&["b", "a"]));
        let items = list.items.as_ref().unwrap();
        let done = (0..10 * MAX_ORDERS)
            .filter(|_| items.reorder(strings(&["a", "b"])))
            .count();
        assert_eq!(done, MAX_ORDERS);
        let others = List::new(ListKind::Any, strings(&["b", "a"]));
        assert!(!others.items.unwrap().reorder(strings(&["a", "b"])));
    }

    #[test]
    fn windows_within_windows_are_dropped_without_recursion() {
        let mut list = List::new(ListKind::Any, Vec::new());
        for _ in 0..1_000_000 {
            list = List::new(ListKind::Any, vec![Value::List(list)]).slice(0, 1, 1);
        }
        drop(list);
    }
}
