//! The languages of templates, each on top of the one before.

pub mod go;
pub mod handlebars;
pub mod helm;
pub mod sprig;
