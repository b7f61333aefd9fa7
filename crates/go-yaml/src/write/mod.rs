//! Values to text.

pub(crate) mod emit;
pub(crate) mod sort;
pub(crate) mod style;
