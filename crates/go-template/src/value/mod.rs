//! The values that templates compute with, in Go's kinds.
//!
//! A Go template works on `interface{}` values through reflection, so the kind that a number or a map has is visible:
//! in comparisons, in `printf "%T"`, in error texts. Strings are bytes; maps are references that alias, as in Go.
//! Values live on one thread, for one render. Data that crosses threads (charts, CR specs) is `serde_json::Value`.

pub mod compare;
pub mod entries;
mod items;
pub mod memory;

use std::rc::Rc;
use std::sync::Arc;

pub use entries::Entries;
pub use items::Items;
pub use memory::MapTable;

use super::func::Param;
use super::meter::Meter;

/// A Go `string`: arbitrary bytes, usually UTF-8. Cheap to clone; shared with the AST's constants, hence `Arc`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(Arc<[u8]>);

/// The size of values in bytes without their texts, including what the allocator and growing lists leave unused.
const TEXT: u64 = 32;
const LIST: u64 = 112;
const SLOT: u64 = 48;
const MAP: u64 = 96;
/// An entry of a map, without its key's bytes.
pub const ENTRY: u64 = 96;

/// One value. `Nil` is Go's nil `interface{}`; a typed nil map or list is a [`Map`] or [`List`] without storage.
#[derive(Clone)]
pub enum Value {
    /// Go's nil `interface {}`.
    Nil,
    /// Go `bool`.
    Bool(bool),
    /// Go `int`: literals, `len`, the `int` function.
    Int(i64),
    /// Go `int64`: `--set` numbers, `add`, `mul`, whole numbers of a CR's spec.
    Int64(i64),
    /// Go `uint8`: an indexed string.
    Uint8(u8),
    /// Go `uint64`: the parts of a semantic version.
    Uint64(u64),
    /// Go `float64`: every number that comes from YAML or JSON.
    Float64(f64),
    /// Go `string`.
    String(Str),
    /// A slice.
    List(List),
    /// A map with string keys.
    Map(Map),
    /// A struct or pointer with fields and methods.
    Object(Rc<dyn Object>),
}

/// The static element type of a slice, which `%T`, `typeOf` and nil elements show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListKind {
    /// `[]interface {}`
    Any,
    /// `[]string`
    String,
    /// `[]int`
    Int,
    /// `[]uint8`, that is `[]byte`; every element is a [`Value::Uint8`]
    Bytes,
    /// `[]map[string]interface {}`
    Map,
    /// `[][]interface {}`, which `chunk` makes
    Lists,
    /// A named `[]string` of the host's: its [items](Items::named) know which
    Named,
}

/// A named type of the host's, with methods.
#[derive(Debug)]
pub struct NamedType {
    /// The output of `%T`.
    pub name: &'static str,
    /// For a map: whether its values are `[]uint8` rather than `interface {}`. They are stored as strings, which need
    /// far less memory.
    pub of_bytes: bool,
    /// The methods and their parameters; [`Host::call_method`](super::Host::call_method) calls them.
    pub methods: &'static [(&'static str, &'static [Param])],
}

/// A slice. `items` is `None` for a nil slice, which prints as `[]` but is `null` in JSON.
#[derive(Clone)]
pub struct List {
    /// The element type.
    pub kind: ListKind,
    /// The elements.
    pub items: Option<Rc<Items>>,
}

/// The static type of a map handle. Two handles of different kinds may share entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// `map[string]interface {}`
    Any,
    /// `map[string]string`
    String,
    /// A named type of the host's
    Named(&'static NamedType),
}

/// A map: a reference to shared entries. `entries` is `None` for a nil map.
#[derive(Clone)]
pub struct Map {
    /// The static type.
    pub kind: MapKind,
    /// The shared entries.
    pub entries: Option<Rc<MapTable>>,
}

/// A struct, or a pointer to one, as a template sees it. Implemented by the host's types.
pub trait Object {
    /// `%T`, for example `*common.Capabilities`.
    fn type_name(&self) -> &'static str;
    /// `reflect.Kind` as `kindOf` prints it: `struct`, `ptr`, `int64` (a named number such as `time.Duration`).
    fn kind(&self) -> &'static str;
    /// An exported field; `None` if the type has no such field.
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }
    /// The field `name`, if the template then reads the field or calls the method `next` of the result.
    fn field_before(&self, name: &str, _next: &str) -> Option<Value> {
        self.field(name)
    }
    /// Calls an exported method, whose arguments fit [`Object::params`]. The inner error is the text of Go's error or panic.
    fn call(&self, _method: &str, _args: &[Value]) -> Option<Result<Value, String>> {
        None
    }
    /// The parameters of an exported method; `None` if the type has no such method.
    fn params(&self, _method: &str) -> Option<&'static [super::func::Param]> {
        None
    }
    /// The number, if the type is a named integer such as `time.Duration`: for comparisons, `range` and `%d`.
    fn as_int(&self) -> Option<i64> {
        None
    }
    /// The output of `%v`: that of a Go `Stringer` or `error`. For a type without such a method it is the
    /// [structure](Object::structure).
    fn display(&self) -> String {
        let fields = self.structure().unwrap_or_default();
        let values = fields
            .iter()
            .map(|field| crate::text::format::display(&Meter::default(), &field.value));
        let text = values.collect::<Vec<_>>().join(&b' ');
        format!("{{{}}}", String::from_utf8_lossy(&text))
    }
    /// The fields in order, with the unexported ones, for a type whose value is no `Stringer` or where `fmt` doesn't ask
    /// it (`%d`, `%#v`). Without, [`Object::display`] is printed for every verb.
    fn structure(&self) -> Option<Vec<Field>> {
        None
    }
    /// Whether [`Object::display`] is the text of a `String` or `Error` method.
    fn is_stringer(&self) -> bool {
        self.structure().is_none()
    }
    /// The value as a function gets it, if that differs. Go passes a copy of a struct, which does not have the methods
    /// with a pointer receiver.
    fn as_argument(&self) -> Option<Value> {
        None
    }
    /// The JSON of a type that `encoding/json` does not write by its [fields](Object::json_fields). An error is the
    /// text of Go's error.
    fn to_json(&self) -> Result<serde_json::Value, String> {
        Ok(serde_json::Value::Null)
    }
    /// The fields of a struct as `encoding/json` names and orders them. Without, [`Object::to_json`] is written.
    fn json_fields(&self) -> Option<Vec<Field>> {
        None
    }
    /// The unquoted text that TOML and go-yaml write for a type that they know: a time.
    fn bare(&self) -> Option<String> {
        None
    }
    /// Go's template truth: structs and non-nil pointers are true, a named number is by its value.
    fn truth(&self) -> bool {
        true
    }
    /// The concrete type, for functions that need it, such as those for `semver` results or certificates.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A field of a struct, as `fmt` prints it.
#[derive(Clone)]
pub struct Field {
    /// Its name, exported or not.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
}

impl Str {
    /// Whether both share one block of memory.
    pub fn is_same(&self, other: &Str) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// About the bytes that it takes, unless others have it as well.
    pub fn fresh_size(&self) -> u64 {
        match Arc::strong_count(&self.0) {
            1 => TEXT + self.len() as u64,
            _ => 0,
        }
    }

    /// The text, with invalid UTF-8 replaced by U+FFFD.
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::ops::Deref for Str {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Str(Arc::from(text.as_bytes()))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Str(Arc::from(text.into_bytes()))
    }
}

impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Self {
        Str(Arc::from(bytes))
    }
}

impl From<Vec<u8>> for Str {
    fn from(bytes: Vec<u8>) -> Self {
        Str(Arc::from(bytes))
    }
}

impl From<Arc<[u8]>> for Str {
    fn from(bytes: Arc<[u8]>) -> Self {
        Str(bytes)
    }
}

/// Lets `Entries` be searched by bytes without building a key.
impl std::borrow::Borrow<[u8]> for Str {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Str {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

impl List {
    /// A slice of those elements, which have the kind's type.
    pub fn new(kind: ListKind, items: Vec<Value>) -> Self {
        List {
            kind,
            items: Some(Rc::new(Items::new(items, None))),
        }
    }

    /// A slice of a named type.
    pub fn named(named: &'static NamedType, items: Vec<Value>) -> Self {
        List {
            kind: ListKind::Named,
            items: Some(Rc::new(Items::new(items, Some(named)))),
        }
    }

    /// Go's `list[from:to]`, for indexes in that order up to the length.
    pub fn slice(&self, from: usize, to: usize) -> List {
        let part = |items: &Rc<Items>| {
            let part = items.get(from..to).unwrap_or_default();
            Rc::new(Items::new(part.to_vec(), items.named))
        };
        List {
            kind: self.kind,
            items: self.items.as_ref().map(part),
        }
    }

    /// A nil slice.
    pub fn nil(kind: ListKind) -> Self {
        List { kind, items: None }
    }

    /// A `[]byte`.
    pub fn bytes(bytes: &[u8]) -> Self {
        List::new(ListKind::Bytes, bytes.iter().map(|byte| Value::Uint8(*byte)).collect())
    }

    /// The elements; none for a nil slice.
    pub fn items(&self) -> &[Value] {
        self.items.as_ref().map_or(&[], |items| items)
    }

    /// Whether it is a nil slice.
    pub fn is_nil(&self) -> bool {
        self.items.is_none()
    }

    /// Its type, if the host has named it.
    pub(super) fn named_type(&self) -> Option<&'static NamedType> {
        let named = self.items.as_ref()?.named;
        named.filter(|_| self.kind == ListKind::Named)
    }

    /// Go's `%T`.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            ListKind::Any => "[]interface {}",
            ListKind::String => "[]string",
            ListKind::Int => "[]int",
            ListKind::Bytes => "[]uint8",
            ListKind::Map => "[]map[string]interface {}",
            ListKind::Lists => "[][]interface {}",
            ListKind::Named => self.named_type().map_or("[]string", |named| named.name),
        }
    }
}

impl Map {
    /// A map with those entries, whose values have the kind's type.
    pub fn new(kind: MapKind, entries: Entries) -> Self {
        Map {
            kind,
            entries: Some(Rc::new(MapTable::from(entries))),
        }
    }

    /// A nil map.
    pub fn nil(kind: MapKind) -> Self {
        Map { kind, entries: None }
    }

    /// A handle of another static type on the same entries.
    pub fn with_kind(&self, kind: MapKind) -> Self {
        Map {
            kind,
            entries: self.entries.clone(),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.entries.as_ref()?.borrow_for(key).get(key).cloned()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.as_ref().map_or(0, |entries| entries.len())
    }

    /// Whether there are no entries; true for a nil map.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a key in the shared entries. An error is Go's panic on a nil map.
    pub fn insert(&self, key: Str, value: Value) -> Result<(), String> {
        match &self.entries {
            Some(entries) => {
                MapTable::insert(entries, key, value);
                Ok(())
            }
            None => Err("assignment to entry in nil map".to_owned()),
        }
    }

    /// A snapshot of the entries, for callers that run template code while they iterate.
    pub fn snapshot(&self) -> Vec<(Str, Value)> {
        match &self.entries {
            Some(entries) => entries.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            None => Vec::new(),
        }
    }

    /// Go's `%T`.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            MapKind::Any => "map[string]interface {}",
            MapKind::String => "map[string]string",
            MapKind::Named(named) => named.name,
        }
    }
}

impl MapKind {
    /// Whether it is a named type whose values are `[]uint8`.
    pub fn of_bytes(self) -> bool {
        matches!(self, MapKind::Named(named) if named.of_bytes)
    }
}

impl NamedType {
    /// The parameters of a method.
    pub(super) fn params(&self, method: &[u8]) -> Option<&'static [Param]> {
        let found = self.methods.iter().find(|(name, _)| name.as_bytes() == method);
        found.map(|(_, params)| *params)
    }
}

impl PartialEq for NamedType {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for NamedType {}

impl Value {
    /// A string.
    pub fn string(text: impl Into<Str>) -> Self {
        Value::String(text.into())
    }

    /// A `[]interface {}`.
    pub fn list(items: Vec<Value>) -> Self {
        Value::List(List::new(ListKind::Any, items))
    }

    /// A `map[string]interface {}`.
    pub fn map(entries: Entries) -> Self {
        Value::Map(Map::new(MapKind::Any, entries))
    }

    /// A `[]byte`.
    pub fn bytes(bytes: &[u8]) -> Self {
        Value::List(List::bytes(bytes))
    }

    /// Whether it is the nil interface; typed nil maps and slices are not.
    pub fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// Go's `%T`; `<nil>` for a nil interface.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Nil => "<nil>",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Int64(_) => "int64",
            Value::Uint8(_) => "uint8",
            Value::Uint64(_) => "uint64",
            Value::Float64(_) => "float64",
            Value::String(_) => "string",
            Value::List(list) => list.type_name(),
            Value::Map(map) => map.type_name(),
            Value::Object(object) => object.type_name(),
        }
    }

    /// `reflect.Kind` by name; `invalid` for a nil interface.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Nil => "invalid",
            Value::List(_) => "slice",
            Value::Map(_) => "map",
            Value::Object(object) => object.kind(),
            scalar => scalar.type_name(),
        }
    }

    /// About the bytes that it takes, without those of its parts.
    pub fn shallow_size(&self) -> usize {
        match self {
            Value::String(text) => text.len(),
            Value::List(list) => 32 * list.items().len(),
            Value::Map(map) => 64 + 16 * map.len(),
            _ => 0,
        }
    }

    /// The approximate size in bytes that only this value holds, without its parts. It is 0 if a variable or another
    /// value holds the data too: then it was counted when it was created.
    pub fn fresh_size(&self) -> u64 {
        let len = |len: usize| len as u64;
        match self {
            Value::String(text) => text.fresh_size(),
            Value::List(List { items: Some(items), .. }) if Rc::strong_count(items) == 1 => {
                LIST + SLOT * len(items.len())
            }
            Value::Map(Map {
                entries: Some(entries), ..
            }) if Rc::strong_count(entries) == 1 => MAP + ENTRY * len(entries.len()),
            Value::Object(_) => MAP,
            _ => 0,
        }
    }

    /// Go's template truth (`text/template.IsTrue`): false, zero, and empty or nil collections are false.
    pub fn truth(&self) -> bool {
        match self {
            Value::Nil => false,
            Value::Bool(b) => *b,
            Value::Int(n) | Value::Int64(n) => *n != 0,
            Value::Uint8(n) => *n != 0,
            Value::Uint64(n) => *n != 0,
            Value::Float64(n) => *n != 0.0,
            Value::String(s) => !s.is_empty(),
            Value::List(list) => !list.items().is_empty(),
            Value::Map(map) => !map.is_empty(),
            Value::Object(object) => object.truth(),
        }
    }

    /// The value as JSON data has it. A JSON number that serde_json holds as an integer becomes `int64`, any other
    /// `float64`; convert the JSON first if all numbers must be floats.
    pub fn from_json(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Null => Value::Nil,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => match n.as_i64() {
                Some(n) => Value::Int64(n),
                None => Value::Float64(n.as_f64().unwrap_or_default()),
            },
            Json::String(s) => Value::string(s.as_str()),
            Json::Array(items) => Value::list(items.iter().map(Value::from_json).collect()),
            Json::Object(map) => Value::map(
                map.iter()
                    .map(|(k, v)| (Str::from(k.as_str()), Value::from_json(v)))
                    .collect(),
            ),
        }
    }
}
