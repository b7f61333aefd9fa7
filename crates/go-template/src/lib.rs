#![doc = include_str!("../README.md")]
//!
//! Facts come from Go's `text/template`, `text/template/parse`, `fmt` and `strconv`.

#![forbid(unsafe_code)]

mod arena;
mod ast;
mod builtins;
pub mod commands;
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
pub use error::{CallError, ExecError, ParseError, Place};
pub use exec::exec;
pub use func::{Func, FuncMap, Given, Param, Rest};
pub use host::{Host, MissingKey};
pub use meter::Meter;
pub use set::Set;
pub use value::{Entries, Field, List, ListKind, Map, MapKind, Named, Object, Str, Value};
