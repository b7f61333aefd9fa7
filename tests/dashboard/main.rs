//! The page in headless Chromium: each view, keys, colours, a phone, hostile texts, changes without a reload.
//!
//! `UPDATE=1 cargo test --test dashboard` writes the pictures of docs/guides/images. `CHROMIUM=off` leaves the tests out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

mod browser;
mod page;
mod pictures;
mod source;
