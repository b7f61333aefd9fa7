//! A cache of the results of `include`: each file of a chart includes the chart's labels, mostly with the same data.
//!
//! A result is reused if the name, the set of templates and the data are the same, and if nothing changed that the
//! result depends on ([`go_template::footprint`]). A result that depends on randomness or on the clock, or whose
//! evaluation changes data, is computed every time.

use std::collections::HashMap;
use std::rc::Rc;

use go_template::footprint::{self, Footprint};
use go_template::{Map, Str, Value};

/// The most results that are cached for one name.
const MAX_RESULTS: usize = 8;
/// After so many unused results of one name, no more are cached for it.
const MAX_UNUSED: u32 = 16;
/// The largest maps and lists whose parts are compared.
const MAX_PARTS: usize = 16;
/// The number of levels of maps and lists that are compared by their parts.
const MAX_LEVELS: u32 = 2;

/// The includes of one render.
pub struct Includes {
    results: HashMap<Str, NameResults>,
    /// The number of open includes by name.
    open: HashMap<Str, u32>,
    /// The number of the current file.
    file: u32,
    /// The number of the current template set. `tpl` uses its own set if its text defines templates.
    template_set: u32,
    last_template_set: u32,
    /// Whether a result is reused in the same file only.
    within_files: bool,
}

/// The cached results of one name.
#[derive(Default)]
struct NameResults {
    results: Vec<IncludeResult>,
    /// The number of results cached since one was used.
    unused: u32,
}

struct IncludeResult {
    data: Value,
    text: Str,
    footprint: Footprint,
    file: u32,
    template_set: u32,
}

/// Whether an evaluation has the same result for both values. Maps are the same if they are one object, or if they are
/// small and have the same entries.
fn is_same(a: &Value, b: &Value, levels: u32) -> bool {
    match (a, b) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) | (Value::Int64(a), Value::Int64(b)) => a == b,
        (Value::Uint8(a), Value::Uint8(b)) => a == b,
        (Value::Uint64(a), Value::Uint64(b)) => a == b,
        (Value::Float64(a), Value::Float64(b)) => a.to_bits() == b.to_bits(),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Map(a), Value::Map(b)) => a.kind == b.kind && is_same_map(a, b, levels),
        (Value::List(a), Value::List(b)) => {
            a.kind == b.kind
                && match (&a.items, &b.items) {
                    (Some(a), Some(b)) => {
                        Rc::ptr_eq(a, b)
                            || levels > 0
                                && a.len() == b.len()
                                && a.len() <= MAX_PARTS
                                && a.iter().zip(b.iter()).all(|(a, b)| is_same(a, b, levels - 1))
                    }
                    (a, b) => a.is_none() && b.is_none(),
                }
        }
        (Value::Object(a), Value::Object(b)) => Rc::ptr_eq(a, b),
        _ => false,
    }
}

fn is_same_map(a: &Map, b: &Map, levels: u32) -> bool {
    let (Some(a), Some(b)) = (&a.entries, &b.entries) else {
        return a.entries.is_none() && b.entries.is_none();
    };
    if Rc::ptr_eq(a, b) {
        return true;
    }
    if levels == 0 {
        return false;
    }
    let (a, b) = (a.borrow(), b.borrow());
    a.len() == b.len()
        && a.len() <= MAX_PARTS
        && a.iter()
            .zip(b.iter())
            .all(|((key, a), (other, b))| key == other && is_same(a, b, levels - 1))
}

impl Includes {
    pub(crate) fn new() -> Self {
        footprint::reset();
        Includes {
            results: HashMap::new(),
            open: HashMap::new(),
            file: 0,
            template_set: 0,
            last_template_set: 0,
            within_files: false,
        }
    }

    /// Reuses results in the same file only. Then a file depends on nothing but its own reads.
    pub(crate) fn keep_within_files(&mut self) {
        self.within_files = true;
    }

    /// Starts the next file.
    pub(crate) fn next_file(&mut self) {
        self.file += 1;
    }

    /// Starts the use of another template set. Returns the number of the previous one, for
    /// [`restore_template_set`](Self::restore_template_set).
    pub(crate) fn next_template_set(&mut self) -> u32 {
        self.last_template_set += 1;
        std::mem::replace(&mut self.template_set, self.last_template_set)
    }

    /// Returns to a previous template set.
    pub(crate) fn restore_template_set(&mut self, template_set: u32) {
        self.template_set = template_set;
    }

    /// Counts an open include of that name. Returns `None` if more than `max` are open.
    pub(crate) fn open(&mut self, name: &Str, max: u32) -> Option<()> {
        let open = self.open.entry(name.clone()).or_default();
        (*open <= max).then(|| *open += 1)
    }

    /// Ends an open include.
    pub(crate) fn close(&mut self, name: &Str) {
        if let Some(open) = self.open.get_mut(name) {
            *open = open.saturating_sub(1);
        }
    }

    /// Returns the cached result of an include of that name with these data.
    pub(crate) fn result(&mut self, name: &Str, data: &Value) -> Option<Str> {
        let name = self.results.get_mut(&**name)?;
        let (file, within_files) = (self.file, self.within_files);
        name.results.retain(|result| {
            let is_shared = !result.footprint.is_local() && !within_files;
            (is_shared || result.file == file) && result.footprint.holds()
        });
        let mut results = name.results.iter();
        let template_set = self.template_set;
        let result =
            results.find(|result| result.template_set == template_set && is_same(&result.data, data, MAX_LEVELS))?;
        result.footprint.used();
        name.unused = 0;
        Some(result.text.clone())
    }

    /// Caches a result.
    pub(crate) fn store(&mut self, name: &Str, data: &Value, text: &Str, footprint: Footprint) {
        let name = self.results.entry(name.clone()).or_default();
        if name.unused >= MAX_UNUSED {
            return;
        }
        name.unused += 1;
        if name.results.len() >= MAX_RESULTS {
            name.results.remove(0);
        }
        name.results.push(IncludeResult {
            data: data.clone(),
            text: text.clone(),
            footprint,
            file: self.file,
            template_set: self.template_set,
        });
    }
}
