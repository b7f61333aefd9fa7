//! What `include` made, to be used again: a chart's labels are included by each of its files, mostly from the same data.
//!
//! A result is used again if the name and the set of templates are the same, the data are, and nothing was changed that
//! the result depends on ([`go_template::footprint`]). Results that depend on chance or on the clock, or that come
//! with changes to data, are made anew each time.
//!
//! Results belong to the thread, as values do: a context could cross threads, which Handlebars demands of helpers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use go_template::footprint::{self, Footprint};
use go_template::{Map, Str, Value};

/// How many results of a name are kept.
const MAX_RESULTS: usize = 8;
/// How many results of a name are kept in vain before no more are.
const MAX_VAIN: u32 = 16;
/// The largest maps and lists whose parts are compared.
const MAX_PARTS: usize = 16;
/// How many levels of maps and lists are compared by their parts.
const MAX_LEVELS: u32 = 2;

thread_local! {
    static RESULTS: RefCell<HashMap<Str, Name>> = RefCell::new(HashMap::new());
}

/// The includes of one render. When it ends, its results are gone.
pub struct Includes {
    /// How many of a name are open.
    open: HashMap<Str, u32>,
    /// Tells files apart.
    file: u32,
    /// Tells sets of templates apart: `tpl` executes with one of its own if its text defines templates.
    set: u32,
    last_set: u32,
}

#[derive(Default)]
struct Name {
    results: Vec<Kept>,
    /// How many results were kept since one was used.
    vain: u32,
}

struct Kept {
    data: Value,
    text: Str,
    footprint: Footprint,
    file: u32,
    set: u32,
}

/// Whether an evaluation can't tell one from the other. Maps are the same if they are one, or are small and have the same
/// entries.
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

// === impl Includes ===

impl Includes {
    pub(crate) fn new() -> Self {
        footprint::reset();
        RESULTS.take();
        Includes {
            open: HashMap::new(),
            file: 0,
            set: 0,
            last_set: 0,
        }
    }

    /// Another file is rendered from now on.
    pub(crate) fn next_file(&mut self) {
        self.file += 1;
    }

    /// Another set of templates is in use from now on, which knows others by some names. What to go back to.
    pub(crate) fn next_set(&mut self) -> u32 {
        self.last_set += 1;
        std::mem::replace(&mut self.set, self.last_set)
    }

    /// The set of before is in use again.
    pub(crate) fn set_back(&mut self, set: u32) {
        self.set = set;
    }

    /// Counts an open include of that name. `None` if more than `max` are open.
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

    /// The result that an include of that name with these data has.
    pub(crate) fn result(&self, name: &Str, data: &Value) -> Option<Str> {
        RESULTS.with_borrow_mut(|names| {
            let name = names.get_mut(&**name)?;
            name.results
                .retain(|kept| (!kept.footprint.is_local() || kept.file == self.file) && kept.footprint.holds());
            let mut results = name.results.iter();
            let kept = results.find(|kept| kept.set == self.set && is_same(&kept.data, data, MAX_LEVELS))?;
            kept.footprint.used();
            name.vain = 0;
            Some(kept.text.clone())
        })
    }

    /// Keeps a result.
    pub(crate) fn keep(&mut self, name: &Str, data: &Value, text: &Str, footprint: Footprint) {
        RESULTS.with_borrow_mut(|names| {
            let name = names.entry(name.clone()).or_default();
            if name.vain >= MAX_VAIN {
                return;
            }
            name.vain += 1;
            if name.results.len() >= MAX_RESULTS {
                name.results.remove(0);
            }
            name.results.push(Kept {
                data: data.clone(),
                text: text.clone(),
                footprint,
                file: self.file,
                set: self.set,
            });
        });
    }
}

impl Drop for Includes {
    fn drop(&mut self) {
        let _ = RESULTS.try_with(RefCell::take);
    }
}
