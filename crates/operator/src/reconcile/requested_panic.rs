//! Panics where a test requests it, to see what a defect would do.

/// Lets a test see what a defect would do: the custom resource that this variable names makes its reconcile panic, and
/// `<name>/render` its render, with a text that quotes what was at hand.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "a test requests it")]
pub(crate) fn panic_if_requested(name: &str, quoted: impl FnOnce() -> String) {
    if std::env::var("CHARTWRIGHT_TEST_PANIC").is_ok_and(|named| named == name) {
        panic!("CHARTWRIGHT_TEST_PANIC names {name}: {}", quoted());
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn panic_if_requested(_: &str, _: impl FnOnce() -> String) {}
