//! The parsed templates of a chart: kept from render to render, and parsed while the first one executes them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::{Error, contexts};
use crate::chart::dependencies::Node;
use crate::chart::{Chart, File};
use crate::template::go::parallel::{self, Helper};
use crate::template::go::parsing::{Parsing, Text};
use crate::template::go::{ParseError, Set};
use crate::template::handlebars::{self, is_handlebars};
use crate::template::helm::{error as wording, table};

/// How many sets of charts are remembered; with one more all are forgotten. Their trees stay.
const MAX_SETS: usize = 16;

/// Parsed templates by the set of charts that take part: conditions and aliases decide that anew in every render.
#[derive(Default)]
pub(super) struct Sets {
    known: Mutex<HashMap<Enabled, Parsed>>,
    /// The texts of the files, by name: sets share what was parsed of each.
    texts: Mutex<HashMap<String, Text>>,
}

/// Which charts take part, by path.
pub(super) type Enabled = Vec<(String, ChartId)>;

/// A chart within the tree that the renderer holds, by its address: the tree is never changed or moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ChartId(usize);

/// The parsed templates of the charts that take part. Neither kind sees the other's definitions.
#[derive(Clone)]
pub(super) struct Parsed {
    pub go: Arc<Set>,
    pub handlebars: Arc<handlebars::Templates>,
}

/// The templates of one render.
pub(super) struct Templates<'r> {
    sets: &'r Sets,
    enabled: Enabled,
    state: State<'r>,
}

enum State<'r> {
    Known(Parsed),
    New {
        go: Parsing,
        handlebars: Vec<(String, &'r File)>,
        /// Threads that parse as well; none for little text.
        helpers: Vec<Helper>,
    },
}

/// What is begun before a chart is loaded: the templates of the chart itself, which take part whatever the values say.
pub struct Early {
    helper: Helper,
    parsing: OnceLock<Parsing>,
}

// === impl Early ===

impl Early {
    /// Nothing is begun. `helper` does it, and some of what comes later.
    pub fn new(helper: Helper) -> Self {
        Early {
            helper,
            parsing: OnceLock::new(),
        }
    }

    /// Begins with the templates of a chart of that name.
    pub fn begin(&self, chart: &str, files: &[&File]) {
        // The last by name are executed first.
        let files = files.iter().rev().filter(|file| !is_handlebars(&file.name));
        let texts = files.map(|file| Text::new(&format!("{chart}/{}", file.name), &file.data, table()));
        let parsing = Parsing::new("gotpl", texts);
        self.helper.send(parsing.task());
        let _ = self.parsing.set(parsing);
    }

    fn texts(&self) -> HashMap<&str, &Text> {
        let texts = self.parsing.get().map_or(&[][..], Parsing::texts);
        texts.iter().map(|text| (text.name(), text)).collect()
    }
}

// === impl ChartId ===

impl ChartId {
    pub fn of(chart: &Chart) -> Self {
        ChartId(std::ptr::from_ref(chart).addr())
    }
}

// === impl Sets ===

impl Sets {
    fn lock(&self) -> MutexGuard<'_, HashMap<Enabled, Parsed>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many sets are remembered, and of how many texts the trees are.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        (self.lock().len(), texts.len())
    }

    /// The templates of the charts that take part. If they aren't known, parsing them begins, but for those of `early`.
    pub fn templates<'r>(&'r self, node: &Node<'r>, early: Option<&Early>) -> Templates<'r> {
        let mut enabled = Vec::new();
        contexts::enabled(node, &mut enabled);
        let known = self.lock().get(&enabled).cloned();
        Templates {
            sets: self,
            enabled,
            state: known.map_or_else(|| State::begin(node, &self.texts, early), State::Known),
        }
    }
}

// === impl State ===

impl<'r> State<'r> {
    fn begin(node: &Node<'r>, texts: &Mutex<HashMap<String, Text>>, early: Option<&Early>) -> Self {
        let sources = contexts::sources(node).into_iter();
        let (handlebars, go): (Vec<_>, Vec<_>) = sources.partition(|(name, _)| is_handlebars(name));
        let bytes = go.iter().map(|(_, file)| file.data.len()).sum();
        let begun = early.map(Early::texts).unwrap_or_default();
        let mut texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |(name, file): &(String, &File)| {
            let is_same = |text: &&Text| text.source().is_same(&file.data);
            let known = texts.get(name).filter(is_same).cloned();
            let known = known.or_else(|| begun.get(name.as_str()).copied().filter(is_same).cloned());
            let text = known.unwrap_or_else(|| Text::new(name, &file.data, table()));
            texts.insert(name.clone(), text.clone());
            text
        };
        let go = Parsing::new("gotpl", go.iter().map(text).collect::<Vec<_>>().into_iter());
        let helpers = parallel::helpers(bytes, early.map(|early| &early.helper));
        for helper in &helpers {
            helper.send(go.task());
        }
        State::New {
            go,
            handlebars,
            helpers,
        }
    }
}

// === impl Templates ===

impl Templates<'_> {
    /// What execution needs. With helpers, some is still to be parsed: see [`Templates::keep`].
    ///
    /// # Errors
    /// What is wrong with a template's syntax, as far as that is known.
    pub fn parsed(&self) -> Result<Parsed, Error> {
        let (go, sources, helpers) = match &self.state {
            State::Known(parsed) => return Ok(parsed.clone()),
            State::New {
                go,
                handlebars,
                helpers,
            } => (go, handlebars, helpers),
        };
        let set = if helpers.is_empty() { go.finish() } else { go.begun() };
        let set = set.map_err(syntax)?;
        let mut handlebars = handlebars::Templates::default();
        for (name, file) in sources {
            if let Err(error) = handlebars.parse(name, &file.data) {
                go.check().map_err(syntax)?;
                return Err(Error::Parse(error.to_string()));
            }
        }
        Ok(Parsed {
            go: Arc::new(set),
            handlebars: Arc::new(handlebars),
        })
    }

    /// A thread that has time while templates are executed.
    pub fn helper(&self) -> Option<&Helper> {
        match &self.state {
            State::Known(_) => None,
            State::New { helpers, .. } => helpers.first(),
        }
    }

    /// Keeps what was parsed, for other renders, once all is.
    ///
    /// # Errors
    /// The first template's that can't be parsed.
    pub fn keep(&self, parsed: Parsed) -> Result<(), Error> {
        if let State::New { go, .. } = &self.state {
            go.check().map_err(syntax)?;
            let mut known = self.sets.lock();
            if known.len() >= MAX_SETS {
                known.clear();
            }
            known.insert(self.enabled.clone(), parsed);
        }
        Ok(())
    }
}

fn syntax(error: ParseError) -> Error {
    Error::Parse(wording::parse_text(&error))
}
