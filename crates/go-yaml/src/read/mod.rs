//! Text to values: bytes -> tokens -> nodes -> values.

pub(crate) mod bytes;
pub(crate) mod compose;
pub(crate) mod decode;
pub(crate) mod documents;
pub(crate) mod node;
pub(crate) mod resolve;
pub(crate) mod scalars;
pub(crate) mod scanner;
pub(crate) mod text_cursor;
pub(crate) mod timestamp;
pub(crate) mod token;
