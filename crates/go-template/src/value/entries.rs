//! The entries of a map, sorted by key.
//!
//! Templates build maps once, mostly small ones, and read them very often. For that, one block of memory that is
//! searched by the first bytes of the keys is smaller and faster than a tree.

use std::cmp::Ordering;

use crate::value::{Str, Value};

/// The entries of a map, ordered bytewise by key: the order in which Go's templates and `fmt` visit maps.
#[derive(Clone, Default)]
pub struct Entries(Vec<MapEntry>);

/// One entry.
#[derive(Clone)]
pub struct MapEntry {
    /// The key's first bytes, which decide most comparisons.
    head: u64,
    key: Str,
    value: Value,
}

/// The first eight bytes as a number of the same order; zeros where there are fewer.
fn head(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Sorts entries by key; of several entries of a key, the last stays.
pub fn sort<T>(entries: &mut Vec<T>, by_key: impl Fn(&T, &T) -> Ordering) {
    if entries.is_sorted_by(|a, b| by_key(a, b).is_lt()) {
        return;
    }
    entries.sort_by(&by_key);
    entries.dedup_by(|later, kept| {
        let is_same = by_key(later, kept).is_eq();
        if is_same {
            std::mem::swap(later, kept);
        }
        is_same
    });
}

impl MapEntry {
    fn new(key: Str, value: Value) -> Self {
        MapEntry {
            head: head(&key),
            key,
            value,
        }
    }

    fn cmp(&self, head: u64, key: &[u8]) -> Ordering {
        self.head.cmp(&head).then_with(|| self.key.as_bytes().cmp(key))
    }
}

impl Entries {
    /// No entries.
    pub const fn new() -> Self {
        Entries(Vec::new())
    }

    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let head = head(key);
        self.0.binary_search_by(|entry| entry.cmp(head, key))
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&Value> {
        let at = self.find(key).ok()?;
        self.0.get(at).map(|entry| &entry.value)
    }

    /// Whether there is an entry of that key.
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.find(key).is_ok()
    }

    /// Sets a key; the value that it had. Many are faster collected than inserted one by one.
    pub fn insert(&mut self, key: Str, value: Value) -> Option<Value> {
        match self.find(&key) {
            Ok(at) => self
                .0
                .get_mut(at)
                .map(|entry| std::mem::replace(&mut entry.value, value)),
            Err(at) => {
                self.0.insert(at, MapEntry::new(key, value));
                None
            }
        }
    }

    /// Removes a key; the value that it had.
    pub fn remove(&mut self, key: &[u8]) -> Option<Value> {
        let at = self.find(key).ok()?;
        Some(self.0.remove(at).value)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, &Value)> {
        self.0.iter().map(|entry| (&entry.key, &entry.value))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Str> {
        self.0.iter().map(|entry| &entry.key)
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.0.iter().map(|entry| &entry.value)
    }

    /// The values in the order of their keys, to be changed.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Value> {
        self.0.iter_mut().map(|entry| &mut entry.value)
    }
}

/// Of several entries with the same key, the last one wins.
impl FromIterator<(Str, Value)> for Entries {
    fn from_iter<I: IntoIterator<Item = (Str, Value)>>(entries: I) -> Self {
        let mut list: Vec<MapEntry> = entries
            .into_iter()
            .map(|(key, value)| MapEntry::new(key, value))
            .collect();
        sort(&mut list, |a, b| a.cmp(b.head, &b.key));
        list.shrink_to_fit();
        Entries(list)
    }
}

impl<const N: usize> From<[(Str, Value); N]> for Entries {
    fn from(entries: [(Str, Value); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl IntoIterator for Entries {
    type Item = (Str, Value);
    type IntoIter = std::iter::Map<std::vec::IntoIter<MapEntry>, fn(MapEntry) -> (Str, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|entry| (entry.key, entry.value))
    }
}
