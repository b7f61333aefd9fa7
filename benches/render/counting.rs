//! An allocator that counts allocated bytes while counting is on.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

use mimalloc::MiMalloc;

/// The allocator of the binary. Counting is off while times are measured.
pub struct CountingAllocator;

static ON: AtomicBool = AtomicBool::new(false);
static HELD: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    if ON.load(Relaxed) {
        HELD.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every call goes to the allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}

/// Bytes that `work` allocated and that are still held after it, with its result. No other thread may allocate.
pub fn held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    HELD.store(0, Relaxed);
    ON.store(true, Relaxed);
    let result = work();
    ON.store(false, Relaxed);
    (result, usize::try_from(HELD.load(Relaxed)).unwrap_or(0))
}
