//! The parsed templates of a chart, kept from render to render.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Error, TemplatePlace, contexts};
use crate::chart::dependencies::ChartNode;
use crate::chart::{Chart, File};
use crate::handlebars::{self, is_handlebars};
use crate::helm::{error as wording, table};
use go_template::set::trees;
use go_template::{ParseError, Set, Str, Tree};

/// The number of cached chart sets. One more set clears the cache; the syntax trees stay cached.
const MAX_SETS: usize = 16;

/// The parsed templates by the set of enabled charts. Conditions and aliases decide the set in every render.
#[derive(Default)]
pub(super) struct Sets {
    known: Mutex<HashMap<Enabled, Parsed>>,
    /// The parsed files by name, shared by all sets.
    texts: Mutex<HashMap<String, Text>>,
}

/// The enabled charts by path.
pub(super) type Enabled = Vec<(String, ChartId)>;

/// A chart within the tree that the renderer holds, by its address: the tree is never changed or moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ChartId(usize);

/// The parsed templates of the enabled charts. Go templates and Handlebars templates do not see each other's
/// definitions.
#[derive(Clone)]
pub(super) struct Parsed {
    pub go: Arc<Set>,
    pub handlebars: Arc<handlebars::Templates>,
}

/// A file, and the templates in it.
struct Text {
    source: Str,
    trees: Vec<Arc<Tree>>,
}

impl ChartId {
    pub fn of(chart: &Chart) -> Self {
        ChartId(std::ptr::from_ref(chart).addr())
    }
}

impl Sets {
    /// Returns the templates of the enabled charts.
    ///
    /// # Errors
    /// The first that can't be parsed.
    pub fn parsed(&self, node: &ChartNode<'_>) -> Result<Parsed, Error> {
        let mut enabled = Vec::new();
        contexts::enabled(node, &mut enabled);
        let known = lock(&self.known).get(&enabled).cloned();
        if let Some(parsed) = known {
            return Ok(parsed);
        }
        let parsed = self.parse(node)?;
        let mut known = lock(&self.known);
        if known.len() >= MAX_SETS {
            known.clear();
        }
        known.insert(enabled, parsed.clone());
        Ok(parsed)
    }

    fn parse(&self, node: &ChartNode<'_>) -> Result<Parsed, Error> {
        let mut set = Set::new("gotpl");
        let mut handlebars = handlebars::Templates::default();
        let sources = contexts::sources(node).into_iter();
        let (others, go): (Vec<_>, Vec<_>) = sources.partition(|(name, _)| is_handlebars(name));
        let mut texts = lock(&self.texts);
        for (name, file) in go {
            for tree in Text::of(&mut texts, &name, file)? {
                set.add(Arc::clone(tree));
            }
        }
        for (name, file) in others {
            let parsed = handlebars.parse(&name, &file.data);
            parsed.map_err(|problem| Error::Parse {
                text: problem.to_string(),
                place: problem.place,
            })?;
        }
        Ok(Parsed {
            go: Arc::new(set),
            handlebars: Arc::new(handlebars),
        })
    }

    /// The number of cached sets and of cached files.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        (lock(&self.known).len(), lock(&self.texts).len())
    }
}

impl Text {
    /// The templates of a file. It is parsed if it is not cached.
    fn of<'t>(texts: &'t mut HashMap<String, Text>, name: &str, file: &File) -> Result<&'t [Arc<Tree>], Error> {
        let is_known = texts.get(name).is_some_and(|text| text.source.is_same(&file.data));
        if !is_known {
            let text = Text {
                source: file.data.clone(),
                trees: trees(name, &file.data, table()).map_err(|error| syntax(&error))?,
            };
            texts.insert(name.to_owned(), text);
        }
        Ok(texts.get(name).map_or(&[], |text| &text.trees))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn syntax(error: &ParseError) -> Error {
    Error::Parse {
        place: TemplatePlace {
            file: error.name.clone(),
            line: error.line,
            column: None,
        },
        text: wording::parse_text(error),
    }
}
