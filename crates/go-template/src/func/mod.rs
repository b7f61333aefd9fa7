//! The function table: what a template can call, with the parameter types that Go's reflection checks.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

pub use super::error::CallError;
pub use super::meter::Meter;
use super::value::Value;

pub use typed::{Args, Argument, Arguments, ContextFunction, Function, Given, Output, Rest, Signature};

mod typed;

/// A parameter's Go type. The evaluator checks and converts arguments by `text/template`'s rules and words its
/// errors by this type, so a function's body sees only arguments that fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Param {
    /// `interface {}`: anything, nil included
    Any,
    /// `string`
    String,
    /// `int`
    Int,
    /// `int64`
    Int64,
    /// `uint32`: takes constants only, as no value in a template has that type; the function sees a
    /// [`Value::Uint64`]
    Uint32,
    /// `float64`
    Float64,
    /// `bool`
    Bool,
    /// `map[string]interface {}`; a named type over it is assignable to it
    Map,
    /// `[]interface {}`
    List,
    /// `[]string`
    Strings,
    /// `time.Duration` and other named integer types, by the name that `%T` prints; of a constant the function sees a
    /// [`Value::Int64`]
    NamedInt(&'static str),
    /// `time.Time`, `sprig.certificate` and other concrete types, by the name that `%T` prints
    Named(&'static str),
}

/// The body of a function. Its arguments fit the parameters.
pub type Body<C> = dyn Fn(&mut C, &[Value]) -> Result<Value, CallError> + Send + Sync;

/// One function of the table, made from a closure: see [`Func::new`]. `C` is the context that functions may use; the
/// evaluator passes it through unchanged.
pub struct Func<C: ?Sized> {
    /// The name under which templates call it.
    pub name: &'static str,
    /// The parameters, without the repeated one.
    pub params: Vec<Param>,
    /// The type of the repeated last parameter, if the function is variadic.
    pub variadic: Option<Param>,
    /// The body.
    pub body: Box<Body<C>>,
}

/// Functions by name. The evaluator finds one by hashing its name once per place in a template, not once per call.
pub struct FuncMap<C: ?Sized> {
    /// Identifies the table in the lookup caches of templates. Every change of the table changes it.
    id: u32,
    funcs: Vec<Func<C>>,
    index: HashMap<&'static str, u32, BuildHasherDefault<Fnv>>,
}

/// FNV-1a. The names are short, few and trusted, and the parser looks up each name that a template calls.
struct Fnv(u64);

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

impl Param {
    /// Go's name of the type, as error texts show it.
    pub fn type_name(self) -> &'static str {
        match self {
            Param::Any => "interface {}",
            Param::String => "string",
            Param::Int => "int",
            Param::Int64 => "int64",
            Param::Uint32 => "uint32",
            Param::Float64 => "float64",
            Param::Bool => "bool",
            Param::Map => "map[string]interface {}",
            Param::List => "[]interface {}",
            Param::Strings => "[]string",
            Param::Named(name) | Param::NamedInt(name) => name,
        }
    }
}

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<C: ?Sized> FuncMap<C> {
    /// An empty table.
    pub fn new() -> Self {
        FuncMap {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            funcs: Vec::new(),
            index: HashMap::default(),
        }
    }

    /// Adds a function under its own name; replaces the one that has it.
    pub fn insert(&mut self, func: Func<C>) {
        self.id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        match self
            .index
            .get(func.name)
            .and_then(|at| self.funcs.get_mut(*at as usize))
        {
            Some(old) => *old = func,
            None => {
                self.index.insert(func.name, self.funcs.len() as u32);
                self.funcs.push(func);
            }
        }
    }

    /// The function of that name.
    pub fn get(&self, name: &str) -> Option<&Func<C>> {
        self.by_index(self.index_of(name)?)
    }

    /// Whether there is a function of that name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// All names, in no order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.index.keys().copied()
    }

    /// The number of functions.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn index_of(&self, name: &str) -> Option<u32> {
        self.index.get(name).copied()
    }

    pub(super) fn by_index(&self, index: u32) -> Option<&Func<C>> {
        self.funcs.get(index as usize)
    }
}

impl<C: ?Sized> Default for FuncMap<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: ?Sized> Extend<Func<C>> for FuncMap<C> {
    fn extend<I: IntoIterator<Item = Func<C>>>(&mut self, funcs: I) {
        for func in funcs {
            self.insert(func);
        }
    }
}

impl<C: ?Sized> FromIterator<Func<C>> for FuncMap<C> {
    fn from_iter<I: IntoIterator<Item = Func<C>>>(funcs: I) -> Self {
        let mut map = Self::new();
        map.extend(funcs);
        map
    }
}
