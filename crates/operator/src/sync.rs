//! Locks.

use std::sync::{Mutex, MutexGuard};

/// A lock that a panic elsewhere does not poison: the data behind our locks is replaced whole, never half-written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
