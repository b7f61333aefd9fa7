//! The fake API server with the kinds of these tests, and its conformity to the real one.

mod conformity;
mod deletion;
pub mod kinds;

pub use fake_apiserver::FakeServer as Model;
pub use fake_apiserver::{fields, stale, store};

/// A new server with the kinds of these tests.
pub fn new_model() -> Model {
    Model::with_kinds(&kinds::KINDS)
}
