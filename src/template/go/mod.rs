//! Go's `text/template` (Go 1.26) without Go: lexer, parser, evaluator, `fmt` printing and the built-in functions.
//!
//! [`Set::parse`] turns text into trees once; [`exec`] walks them for every render. What Go does by reflection is
//! done here by [`Value`]'s kinds, so that results, error texts and error positions are Go's own. The module knows
//! nothing of Helm: functions come from the caller as a [`FuncMap`] over a context `C`, which the evaluator hands
//! through and asks, as a [`Host`], for limits and for the methods of named map types.
//!
//! Facts come from Go's `text/template`, `text/template/parse`, `fmt` and `strconv`. Channels and functions as values
//! are left out: charts can't make them.

mod arena;
mod ast;
mod builtins;
pub mod compare;
pub mod entries;
pub mod error;
pub mod escape;
pub mod exec;
pub mod footprint;
pub mod format;
pub mod func;
pub mod host;
pub mod integer;
mod items;
mod lexer;
pub mod memory;
pub mod meter;
pub mod number;
mod parser;
pub mod printf;
pub mod quote;
pub mod set;
mod token;
pub mod unicode;
pub mod value;

pub use ast::Tree;
pub use error::{Cause, ExecError, ParseError, Place};
pub use exec::exec;
pub use func::{Body, CallError, Func, FuncMap, Param};
pub use host::{Host, MissingKey};
pub use set::{FuncNames, Set};
pub use value::{Entries, Field, List, ListKind, Map, MapKind, Object, Str, Value};
