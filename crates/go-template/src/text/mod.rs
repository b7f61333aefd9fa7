//! Texts as Go reads and writes them: `fmt`, `strconv`, `unicode` and the escapers of `text/template`.

pub mod escape;
pub mod format;
pub mod integer;
pub mod number;
pub mod printf;
pub mod quote;
pub mod unicode;
