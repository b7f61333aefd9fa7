//! The state of one render that functions can use: the templates, lookups, clock, randomness and limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::budget::{RenderBudget, Used};
use super::limits::{Limit, Limits};
use super::lookup::{Lookup, LookupKey, NoCluster, RenderLookups};
use super::random::{Draws, Random, Recall};
use crate::chart::values;
use crate::helm::functions;
use crate::helm::include_cache::Includes;
use crate::helm::objects::capabilities_used::CapabilityQueries;
use crate::helm::objects::data::{FILES, VALUES};
use crate::helm::objects::files;
use crate::helm::random::stored::{Kept, KeptKey, Randomness};
use crate::sprig::{Call, Drawn, Env, RandomSource};
use go_template::footprint;
use go_template::memory::CycleScope;
use go_template::meter::Meter;
use go_template::quote::quote_go;
use go_template::{CallError, Entries, ExecError, Host, Map, MapKind, Set, Str, Value, exec};

/// Room for what an included template prints, in bytes: most print less.
const INCLUDED: usize = 256;
/// The memory of a random result besides its template value, in bytes.
const DRAWN: u64 = 1024;
/// The kind that only the chart's own text may look up.
const SECRET: &str = "Secret";
/// The maximum length of a text in an error, in characters.
const SHOWN: usize = 60;

/// The inputs of a render besides its data.
#[derive(Clone)]
pub struct Environment {
    pub lookup: Arc<dyn Lookup>,
    /// The result of `now`.
    pub clock: jiff::Timestamp,
    /// `None`: the operating system's randomness.
    pub random: Option<Arc<dyn Random>>,
    /// `None`: every random result is new.
    pub kept: Option<Kept>,
    pub limits: Limits,
    /// `None`: `getHostByName` answers nothing.
    pub hosts: Option<Hosts>,
    /// `None`: every text may look up Secrets.
    pub is_chart_text: Option<IsChartText>,
}

/// No cluster, randomness of the operating system, no stored results.
impl Default for Environment {
    fn default() -> Self {
        Environment {
            lookup: Arc::new(NoCluster),
            clock: jiff::Timestamp::now(),
            random: None,
            kept: None,
            limits: Limits::default(),
            hosts: None,
            is_chart_text: None,
        }
    }
}

/// Returns the addresses of a host; none if there is no such host. Only the command line has a resolver, and only if a
/// flag enables it: the renders of an operator must not depend on name servers.
pub type Hosts = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// Decides whether a text that `tpl` executes is the chart's own, and not from the author of the values.
pub type IsChartText = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// The context of a render's functions.
pub struct Context {
    pub(super) set: Arc<Set>,
    pub(super) includes: Includes,
    lookups: RenderLookups,
    capability_queries: CapabilityQueries,
    clock: jiff::Timestamp,
    random: Draws,
    pub(super) hosts: Option<Hosts>,
    is_chart_text: Option<IsChartText>,
    /// The texts that `tpl` is executing, one within the other.
    pub(super) texts: Vec<Str>,
    /// The file that is being rendered.
    file: String,
    pub(super) budget: RenderBudget,
    /// Frees maps that contain themselves.
    _scope: CycleScope,
}

/// What rendering a file does besides printing.
#[derive(Default)]
pub struct Effects {
    /// What it asked of `.Capabilities`.
    pub asked: BTreeSet<String>,
    /// Each lookup with a hash of its answer; `None` where there was none.
    lookups: Vec<(LookupKey, Option<u64>)>,
    /// The random results that it used.
    drawn: Vec<(KeptKey, Drawn)>,
    /// Whether random results are kept.
    keeps: bool,
    steps: u64,
    memory: u64,
}

impl Effects {
    /// Whether this is all that the file did. `is_impure`: it depends on chance or on the clock.
    pub fn is_complete(&self, is_impure: bool) -> bool {
        self.keeps || !is_impure
    }
}

impl Context {
    /// A context for one render of the templates in `set`.
    pub fn new(set: Arc<Set>, environment: &Environment) -> Self {
        Context {
            set,
            includes: Includes::new(),
            lookups: RenderLookups::new(Arc::clone(&environment.lookup)),
            capability_queries: CapabilityQueries::default(),
            clock: environment.clock,
            random: Draws::new(environment.random.clone(), environment.kept.as_ref()),
            hosts: environment.hosts.clone(),
            is_chart_text: environment.is_chart_text.clone(),
            texts: Vec::new(),
            file: String::new(),
            budget: RenderBudget::new(environment.limits),
            _scope: CycleScope::open(),
        }
    }

    /// Adds the queries of [`Capabilities::recording`](super::Capabilities::recording) to `queries`.
    pub fn with_capability_queries(mut self, queries: &CapabilityQueries) -> Self {
        self.capability_queries = queries.clone();
        self
    }

    /// The usage of the limits so far.
    pub fn used(&self) -> Used {
        self.budget.used()
    }

    /// Renders the file `name` with `data`, and removes `<no value>` from the result.
    ///
    /// # Errors
    /// Go's error. If a limit was the cause, [`Context::exceeded`] returns it.
    pub fn render(&mut self, name: &str, data: &Value) -> Result<Vec<u8>, Box<ExecError>> {
        self.begin(name);
        // The output of a file is rarely longer than the file.
        let length = self.set.get(name).map_or(0, |tree| tree.source_len());
        let text = self.execute_into(name, data, Vec::with_capacity(length));
        if let Err(error) = &text {
            self.budget.note_failure(error);
        }
        let text = super::without_no_value(text?);
        self.budget.written += text.len();
        Ok(text)
    }

    /// Renders the file `name` in another language: `work` has this context's functions, randomness and limits.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn render_as<E>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        self.begin(name);
        let text = work(self)?;
        self.budget.written += text.len();
        Ok(text)
    }

    fn begin(&mut self, name: &str) {
        name.clone_into(&mut self.file);
        self.includes.next_file();
    }

    /// Executes a template of the current set, for `include` and `tpl`.
    pub(super) fn execute(&mut self, name: &str, data: &Value) -> Result<Vec<u8>, Box<ExecError>> {
        self.execute_into(name, data, Vec::with_capacity(INCLUDED))
    }

    fn execute_into(&mut self, name: &str, data: &Value, mut out: Vec<u8>) -> Result<Vec<u8>, Box<ExecError>> {
        let set = Arc::clone(&self.set);
        exec(&set, name, data, functions::table(), self, &mut out)?;
        Ok(out)
    }

    /// The limit that ended the render, if one did.
    pub fn exceeded(&self) -> Option<Limit> {
        self.budget.exceeded
    }

    /// The lookups that the table did not answer, and all that were made.
    pub fn lookups(&self) -> (Vec<LookupKey>, Vec<LookupKey>) {
        let list = |keys: &BTreeSet<LookupKey>| keys.iter().cloned().collect();
        (list(&self.lookups.missing), list(&self.lookups.used))
    }

    /// Lets results of files be used again in other renders: [`Context::with_effects`] then lists all that they depend on
    /// besides the values.
    pub fn list_effects(&mut self) {
        self.includes.keep_within_files();
    }

    /// Does the work of a file, and lists what it does besides printing. `None` if that cannot be done again.
    pub fn with_effects<T>(&mut self, file: &str, work: impl FnOnce(&mut Self) -> T) -> (T, Option<Effects>) {
        let (steps, memory) = (self.budget.steps, self.budget.meter.left());
        let missing = std::mem::take(&mut self.lookups.missing);
        let used = std::mem::take(&mut self.lookups.used);
        let asked = self.capability_queries.take();
        let result = work(self);
        let own = self.capability_queries.take();
        self.capability_queries
            .extend(asked.into_iter().chain(own.iter().cloned()));
        let lookups = self.lookups.answer_hashes();
        self.lookups.missing.extend(missing);
        self.lookups.used.extend(used);
        let effects = match (lookups, self.random.of_file(file)) {
            (Some(lookups), Some(drawn)) => Some(Effects {
                asked: own,
                lookups,
                drawn,
                keeps: self.random.keeps(),
                steps: self.budget.steps - steps,
                memory: memory.saturating_sub(self.budget.meter.left()),
            }),
            _ => None,
        };
        (result, effects)
    }

    /// Whether the file would do the same in this render.
    pub fn would_repeat(&self, effects: &Effects) -> bool {
        let has_kept = |(key, drawn): &(KeptKey, Drawn)| self.random.has_kept(key, drawn);
        let is_answer = |(key, answer): &(LookupKey, Option<u64>)| self.lookups.answer_hash(key) == Some(*answer);
        effects.drawn.iter().all(has_kept) && effects.lookups.iter().all(is_answer)
    }

    /// Does what a file did in an earlier render besides printing `length` bytes. `None` if the limits don't allow it; then
    /// nothing is done.
    pub fn repeat(&mut self, effects: &Effects, length: usize) -> Option<()> {
        self.budget.spend(effects.steps, length, effects.memory)?;
        self.capability_queries.extend(effects.asked.iter().cloned());
        for (key, answer) in &effects.lookups {
            self.lookups.used.insert(key.clone());
            if answer.is_none() {
                self.lookups.missing.insert(key.clone());
            }
        }
        self.random.use_kept(&effects.drawn);
        Some(())
    }

    /// The results of randomness and the clock, and warnings about them.
    pub fn into_randomness(self) -> (Randomness, Vec<String>) {
        self.random.finish()
    }

    pub(super) fn lookup(&mut self, key: LookupKey) -> Result<Value, CallError> {
        if key.kind == SECRET
            && let Some(is_chart_text) = &self.is_chart_text
        {
            // A template that such a text includes must not return a cached result with looked up data.
            footprint::impure();
            if let Some(text) = self.texts.iter().find(|text| !is_chart_text(text)) {
                let mut text = text.to_text().into_owned();
                if let Some((end, _)) = text.char_indices().nth(SHOWN) {
                    text.truncate(end);
                    text.push_str("...");
                }
                return Err(CallError::Text(format!(
                    "Secrets are not looked up for text that comes from values: only the chart's own templates may, and \
                     {} is none",
                    quote_go(text.as_bytes())
                )));
            }
        }
        self.lookups.find(key, &self.budget.meter)
    }
}

impl Env for Context {
    fn once(
        &mut self,
        call: &Call,
        fits: impl Fn(&Drawn) -> bool,
        make: impl FnOnce(&mut RandomSource) -> Result<Drawn, CallError>,
    ) -> Result<Drawn, CallError> {
        footprint::impure();
        self.budget.meter.spend(DRAWN)?;
        let slot = match self.random.recall(&self.file, call, fits, self.clock) {
            Recall::Kept(drawn) => return Ok(drawn),
            Recall::Draw(slot) => slot,
        };
        self.budget.work(call.cost)?;
        let mut source = self.random.source(&slot, self.clock);
        let drawn = (if call.untimed {
            self.budget.meter.off_the_clock(|| make(&mut source))
        } else {
            make(&mut source)
        })?;
        self.random.store(slot, &drawn)?;
        Ok(drawn)
    }

    fn burn(&mut self, steps: u64) -> Result<(), CallError> {
        Ok(self.budget.work(steps)?)
    }
}

impl Host for Context {
    fn meter(&self) -> &Meter {
        &self.budget.meter
    }

    fn max_depth(&self) -> usize {
        self.budget.limits.depth
    }

    fn step(&mut self) -> Result<(), String> {
        self.budget.step()
    }

    fn called(&mut self, given: usize, made: usize, fresh: u64) -> Result<(), String> {
        self.budget.called(given, made, fresh)
    }

    fn output(&mut self, bytes: usize, added: usize) -> Result<(), String> {
        self.budget.output(bytes, added)
    }

    fn call_method(&mut self, receiver: &Value, name: &str, args: &[Value]) -> Result<Value, CallError> {
        let result = match (receiver, args.first()) {
            (Value::List(list), Some(Value::String(wanted))) => {
                self.capability_queries.has(wanted);
                let has = |known: &Value| matches!(known, Value::String(known) if known == wanted);
                Ok(Value::Bool(list.items().iter().any(has)))
            }
            (Value::Map(map), _) if map.kind == FILES => files::call(self, map, name, args),
            (Value::Map(map), _) => values_method(self, map, name, args),
            _ => Ok(Value::Nil),
        };
        result.map_err(CallError::Text)
    }
}

/// The methods of `common.Values` (Helm's `pkg/chart/common/values.go`).
fn values_method(context: &Context, map: &Map, name: &str, args: &[Value]) -> Result<Value, String> {
    let path = match args.first() {
        Some(Value::String(text)) => text.to_text(),
        _ => "".into(),
    };
    match name {
        "AsMap" if map.is_empty() => Ok(Value::map(Entries::new())),
        "AsMap" => Ok(Value::Map(map.with_kind(MapKind::Any))),
        "YAML" => crate::helm::functions::convert::yaml_text(context, &Value::Map(map.clone()))
            .map(|text| Value::string(text + "\n")),
        "Table" => values::find_table(map, &path).map(|table| Value::Map(table.with_kind(VALUES))),
        "PathValue" if path.is_empty() => Err("YAML path cannot be empty".to_owned()),
        "PathValue" => values::path_value(map, &path).ok_or_else(|| {
            let key = path.rsplit('.').next().unwrap_or_default();
            format!("{} is not a value", quote_go(key))
        }),
        _ => Ok(Value::Nil),
    }
}
