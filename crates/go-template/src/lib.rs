#![doc = include_str!("../README.md")]
//!
//! Facts come from Go's `text/template`, `text/template/parse`, `fmt` and `strconv`.

#![forbid(unsafe_code)]

pub mod error;
pub mod exec;
pub mod footprint;
pub mod func;
pub mod host;
pub mod meter;
pub mod set;
mod syntax;
mod text;
pub mod value;

pub use error::{CallError, ExecError, ExecutionPlace, ParseError};
pub use exec::exec;
pub use func::{Func, FuncMap, Given, Param, Rest};
pub use host::{Host, MissingKey};
pub use meter::Meter;
pub use set::Set;
pub use syntax::ast::Tree;
pub use syntax::commands;
pub use text::{escape, format, integer, number, printf, quote, unicode};
pub use value::{Entries, Field, List, ListKind, Map, MapKind, NamedType, Object, Str, Value};
pub use value::{compare, entries, memory};
