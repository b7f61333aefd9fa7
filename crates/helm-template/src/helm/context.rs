//! The state of one render that functions can use: the templates, lookups, clock, randomness and limits.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::limits::{Limit, Limits};
use super::lookup::{Lookup, LookupKey, NoCluster};
use super::random::{Draws, Random, Recall};
use crate::chart::values;
use crate::helm::functions;
use crate::helm::include_cache::Includes;
use crate::helm::objects::capabilities_used::CapabilityQueries;
use crate::helm::objects::data::{FILES, VALUES};
use crate::helm::objects::files;
use crate::helm::random::stored::{Kept, KeptKey, Randomness};
use crate::render::data_size;
use crate::sprig::{Call, Drawn, Env, RandomSource};
use go_template::footprint;
use go_template::memory::CycleScope;
use go_template::meter::{self, Meter, Overrun};
use go_template::quote::quote_go;
use go_template::{CallError, Entries, ExecError, Host, Map, MapKind, Set, Str, Value, exec};

/// Room for what an included template prints, in bytes: most print less.
const INCLUDED: usize = 256;
/// The number of steps between two readings of the clock.
const STEPS_A_LOOK: u64 = 1024;
/// The number of bytes that a function reads or writes in about the time of one step.
const BYTES_A_STEP: u64 = 64;
/// The memory of a random result and of a lookup besides their template values, in bytes.
const DRAWN: u64 = 1024;
const LOOKED_UP: u64 = 512;
/// The kind that only the chart's own text may look up.
const SECRET: &str = "Secret";
/// The maximum length of a text in an error, in characters.
const SHOWN: usize = 60;
/// The evaluator's message for runaway recursion.
const TOO_DEEP: &str = "exceeded maximum template depth";

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
    lookup: Arc<dyn Lookup>,
    missing: BTreeSet<LookupKey>,
    used: BTreeSet<LookupKey>,
    capability_queries: CapabilityQueries,
    clock: jiff::Timestamp,
    random: Draws,
    pub(super) hosts: Option<Hosts>,
    is_chart_text: Option<IsChartText>,
    /// The texts that `tpl` is executing, one within the other.
    pub(super) texts: Vec<Str>,
    /// The file that is being rendered.
    file: String,
    pub(super) limits: Limits,
    steps: u64,
    started: Duration,
    deepest: usize,
    /// Bytes of the files that are done.
    written: usize,
    exceeded: Option<Limit>,
    /// The remaining budget of functions.
    pub(super) meter: Meter,
    /// Frees maps that contain themselves.
    _scope: CycleScope,
}

/// The usage of [`Limits`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    pub steps: u64,
    /// The deepest nesting that was reached.
    pub depth: usize,
    pub output: usize,
    pub memory: u64,
    /// Processor time of the thread.
    pub time: Duration,
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
            lookup: Arc::clone(&environment.lookup),
            missing: BTreeSet::new(),
            used: BTreeSet::new(),
            capability_queries: CapabilityQueries::default(),
            clock: environment.clock,
            random: Draws::new(environment.random.clone(), environment.kept.as_ref()),
            hosts: environment.hosts.clone(),
            is_chart_text: environment.is_chart_text.clone(),
            texts: Vec::new(),
            file: String::new(),
            limits: environment.limits,
            steps: 0,
            started: meter::cpu_time(),
            deepest: 0,
            written: 0,
            exceeded: None,
            meter: Meter::new(
                environment.limits.memory,
                meter::cpu_time().checked_add(environment.limits.time),
            ),
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
        Used {
            steps: self.steps,
            depth: self.deepest,
            output: self.written,
            memory: self.limits.memory.saturating_sub(self.meter.left()),
            time: self.elapsed(),
        }
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
        if text.is_err() && self.exceeded.is_none() && self.meter.has_overrun() {
            self.exceeded = Some(self.overrun());
        }
        if let Err(e) = &text
            && self.exceeded.is_none()
            && e.to_string().contains(TOO_DEEP)
        {
            self.exceeded = Some(Limit::Depth(self.limits.depth));
        }
        let text = super::without_no_value(text?);
        self.written += text.len();
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
        self.written += text.len();
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
        self.exceeded
    }

    /// The lookups that the table did not answer, and all that were made.
    pub fn lookups(&self) -> (Vec<LookupKey>, Vec<LookupKey>) {
        (
            self.missing.iter().cloned().collect(),
            self.used.iter().cloned().collect(),
        )
    }

    /// Lets results of files be used again in other renders: [`Context::with_effects`] then lists all that they depend on
    /// besides the values.
    pub fn list_effects(&mut self) {
        self.includes.keep_within_files();
    }

    /// Does the work of a file, and lists what it does besides printing. `None` if that cannot be done again.
    pub fn with_effects<T>(&mut self, file: &str, work: impl FnOnce(&mut Self) -> T) -> (T, Option<Effects>) {
        let (steps, memory) = (self.steps, self.meter.left());
        let missing = std::mem::take(&mut self.missing);
        let used = std::mem::take(&mut self.used);
        let asked = self.capability_queries.take();
        let result = work(self);
        let own = self.capability_queries.take();
        self.capability_queries
            .extend(asked.into_iter().chain(own.iter().cloned()));
        let lookups: Option<Vec<_>> = self
            .used
            .iter()
            .map(|key| Some((key.clone(), self.answer_hash(key)?)))
            .collect();
        self.missing.extend(missing);
        self.used.extend(used);
        let effects = match (lookups, self.random.of_file(file)) {
            (Some(lookups), Some(drawn)) => Some(Effects {
                asked: own,
                lookups,
                drawn,
                keeps: self.random.keeps(),
                steps: self.steps - steps,
                memory: memory.saturating_sub(self.meter.left()),
            }),
            _ => None,
        };
        (result, effects)
    }

    /// A hash of the answer to a lookup, if there is one. `None` if the lookup fails.
    fn answer_hash(&self, key: &LookupKey) -> Option<Option<u64>> {
        let answer = self.lookup.lookup(key).ok()?;
        Some(answer.map(|answer| {
            let mut hasher = DefaultHasher::new();
            answer.to_string().hash(&mut hasher);
            hasher.finish()
        }))
    }

    /// Whether the file would do the same in this render.
    pub fn would_repeat(&self, effects: &Effects) -> bool {
        let has_kept = |(key, drawn): &(KeptKey, Drawn)| self.random.has_kept(key, drawn);
        let is_answer = |(key, answer): &(LookupKey, Option<u64>)| self.answer_hash(key) == Some(*answer);
        effects.drawn.iter().all(has_kept) && effects.lookups.iter().all(is_answer)
    }

    /// Does what a file did in an earlier render besides printing `length` bytes. `None` if the limits don't allow it; then
    /// nothing is done.
    pub fn repeat(&mut self, effects: &Effects, length: usize) -> Option<()> {
        let steps = self.steps.saturating_add(effects.steps);
        let written = self.written.saturating_add(length);
        if steps > self.limits.steps || written > self.limits.output || self.meter.left() < effects.memory {
            return None;
        }
        self.meter.spend(effects.memory).ok()?;
        (self.steps, self.written) = (steps, written);
        self.capability_queries.extend(effects.asked.iter().cloned());
        for (key, answer) in &effects.lookups {
            self.used.insert(key.clone());
            if answer.is_none() {
                self.missing.insert(key.clone());
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
        let empty = || Value::map(Entries::new());
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
        if self.used.insert(key.clone()) {
            self.meter.spend(LOOKED_UP)?;
        }
        let answer = self.lookup.lookup(&key).map_err(CallError::Text)?;
        self.meter.spend(answer.as_deref().map_or(0, data_size::of))?;
        match answer.map(|answer| Value::from_json(&answer)) {
            Some(answer) => Ok(answer),
            None => {
                self.missing.insert(key);
                Ok(empty())
            }
        }
    }

    /// The processor time since the context was made.
    fn elapsed(&self) -> Duration {
        meter::cpu_time().saturating_sub(self.started)
    }

    /// The limit that a function reported.
    fn overrun(&self) -> Limit {
        match self.meter.take_overrun() {
            Some(Overrun::Text) => Limit::Text(meter::MAX_TEXT),
            Some(Overrun::Depth) => Limit::Nesting(meter::MAX_VALUE_DEPTH),
            Some(Overrun::Regex) => Limit::Regex,
            Some(Overrun::Time) => Limit::Time(self.limits.time),
            Some(Overrun::Memory) | None => Limit::Memory(self.limits.memory),
        }
    }

    /// Counts steps.
    fn work(&mut self, steps: u64) -> Result<(), String> {
        let before = self.steps;
        self.steps = before.saturating_add(steps);
        if self.steps > self.limits.steps {
            return self.exceed(Limit::Steps(self.limits.steps));
        }
        // The clock is read seldom: it costs more than a step.
        if before / STEPS_A_LOOK != self.steps / STEPS_A_LOOK && !self.meter.in_time() {
            return self.exceed(Limit::Time(self.limits.time));
        }
        Ok(())
    }

    fn exceed(&mut self, limit: Limit) -> Result<(), String> {
        self.exceeded = Some(limit);
        Err(format!("over {limit} of one render"))
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
        self.meter.spend(DRAWN)?;
        let slot = match self.random.recall(&self.file, call, fits, self.clock) {
            Recall::Kept(drawn) => return Ok(drawn),
            Recall::Draw(slot) => slot,
        };
        self.work(call.cost)?;
        let mut source = self.random.source(&slot, self.clock);
        let drawn = (if call.untimed {
            self.meter.off_the_clock(|| make(&mut source))
        } else {
            make(&mut source)
        })?;
        self.random.store(slot, &drawn)?;
        Ok(drawn)
    }

    fn burn(&mut self, steps: u64) -> Result<(), CallError> {
        Ok(self.work(steps)?)
    }
}

impl Host for Context {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn max_depth(&self) -> usize {
        self.limits.depth
    }

    fn step(&mut self) -> Result<(), String> {
        self.deepest = self.deepest.max(self.meter.depth());
        self.work(1)
    }

    fn called(&mut self, given: usize, made: usize, fresh: u64) -> Result<(), String> {
        if self.meter.spend(fresh).is_err() || self.meter.has_overrun() {
            let limit = self.overrun();
            return self.exceed(limit);
        }
        match (given + made) as u64 / BYTES_A_STEP + self.meter.take_steps() {
            0 => Ok(()),
            steps => self.work(steps),
        }
    }

    fn output(&mut self, bytes: usize, added: usize) -> Result<(), String> {
        // A growing buffer may reserve twice its size.
        if self.meter.spend(2 * added as u64).is_err() {
            let limit = self.overrun();
            return self.exceed(limit);
        }
        if self.written.saturating_add(bytes) > self.limits.output {
            return self.exceed(Limit::Output(self.limits.output));
        }
        Ok(())
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
