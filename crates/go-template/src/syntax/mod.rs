//! Templates as text -> tokens -> syntax trees.

pub(crate) mod arena;
pub(crate) mod ast;
pub mod commands;
pub(crate) mod lexer;
pub(crate) mod parser;
pub(crate) mod token;
