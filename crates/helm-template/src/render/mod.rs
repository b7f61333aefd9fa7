//! Chart + values -> ordered objects. Pure: no network, no clock but the one given, no randomness but the seeded one.
//!
//! [`Engine`] parses a chart's templates once and renders them as often as there are releases. What it does, and in
//! which order errors come, is Helm's `pkg/action/install.go` up to the point where Helm talks to the cluster.

mod chart_texts;
mod contexts;
pub(crate) mod data_size;
mod documents;
mod effective_values;
mod error;
pub mod manifest;
mod memo;
mod redraw;
mod render_file;
mod render_text;
mod stream;
mod templates;
#[cfg(test)]
mod tests;

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::chart::dependencies::{self, ChartNode};
use crate::chart::values::options::RawTexts;
use crate::chart::{Chart, Dependency, Fetch, File, Warning, schema, values, version};
use crate::handlebars::{self, Templates, is_handlebars};
use crate::helm::{CapabilityQueries, Context, Environment, error as wording};
use go_template::footprint::Birth;
use go_template::{Entries, ExecError, Host, Map, MapKind, Meter, Str, Value};

pub use crate::helm::objects::data::ReleaseObject;
pub use crate::helm::{
    Capabilities, Hosts, Kept, KeptError, KeptKey, KubeVersion, Limit, Limits, Lookup, LookupKey, NoCluster, Random,
    Randomness, StandIns, Used, is_about_all,
};
pub use data_size::{of as size_of_data, to_read as size_to_read};
use documents::Outputs;
pub use error::{BadManifest, Error, TemplatePlace};
pub use manifest::install_order::{INSTALL_ORDER, by_install_order};
pub use manifest::{HookEvent, HookManifest, Manifest};
use memo::{Memo, MemoRun};
pub use render_text::render_text;
pub use stream::{StreamOptions, bad_stream, document, show_only, to_stream};
use templates::{ChartId, Sets};

/// The stack that [`on_large_stack`] reserves, in bytes: enough for the default [`Limits`]. Only the used part is
/// backed by memory.
const STACK: usize = 512 << 20;
/// The part of the stack that a caller may have used already.
const USED: usize = 16 << 20;
/// The place in the error if the values alone exceed the memory limit.
const VALUES: &str = "the values";

/// The templates of one chart, ready to be rendered for any number of releases, from any thread.
pub struct Engine {
    chart: Arc<Chart>,
    /// The parsed templates by the set of enabled charts. Conditions and aliases decide the set in every render.
    sets: Sets,
    /// The names and contents of `.Files` by chart.
    files: HashMap<ChartId, Vec<(Str, Str)>>,
    /// What files printed in earlier renders. `None`: every render executes all files.
    memo: Option<Memo>,
    /// Fetches schemas that others refer to on the network. `None`: such references are errors.
    pub fetch: Option<Fetch>,
    /// Resolves names for `getHostByName`. `None`: it returns nothing.
    pub hosts: Option<Hosts>,
}

/// The input of one render, besides the chart.
#[derive(Clone)]
pub struct Input<'a> {
    pub release: ReleaseObject,
    /// The user's values, over the chart's own. Whole numbers are `int64` to templates, floats `float64`: Helm's
    /// command line makes floats of all numbers in files.
    pub values: serde_json::Value,
    /// More entries beside `.Values` and `.Release`, for a host that gives its charts more data than Helm does.
    pub more: Vec<(&'static str, serde_json::Value)>,
    /// Strings of `values` that stand for texts which aren't UTF-8, as [`ValueOptions`] makes them.
    ///
    /// [`ValueOptions`]: crate::chart::values::options::ValueOptions
    pub raw_texts: RawTexts,
    pub capabilities: &'a Capabilities,
    /// Answers `lookup`.
    pub lookup: Arc<dyn Lookup>,
    /// The result of `now` if no time is stored, the start of new certificates, and the time for which stored ones are
    /// checked.
    pub clock: jiff::Timestamp,
    /// The random results of earlier renders, to be reused. `None`: each result is new, and none is reported.
    pub kept: Option<&'a Kept>,
    /// The source of new random results. `None`: the operating system.
    pub random: Option<Arc<dyn Random>>,
    pub limits: Limits,
    /// Return the charts' `crds/` too.
    pub include_crds: bool,
    /// Don't check the values against `values.schema.json`.
    pub skip_schema: bool,
    /// Refuse lookups of Secrets from text that `tpl` renders, unless the text is the chart's own: the author of the
    /// values may not have the right to read Secrets.
    pub guards_secrets: bool,
    /// Parse the objects in the documents during the render, within its memory limit.
    pub read_objects: bool,
}

/// The result of a render.
#[derive(Debug, Clone, Default)]
pub struct Rendered {
    /// The release's manifests in install order.
    pub objects: Vec<Manifest>,
    /// The hooks in install order.
    pub hooks: Vec<HookManifest>,
    /// The hooks for events that Helm does not know, in install order. Helm leaves them out.
    pub unknown_hooks: Vec<Manifest>,
    /// The root chart's `NOTES.txt`.
    pub notes: Option<String>,
    /// The files in `crds/` of all enabled charts, named `chart/crds/x.yaml`; empty without [`Input::include_crds`].
    pub crds: Vec<File>,
    /// Lookups that the table did not answer: the result is only final once there are none.
    pub missing_lookups: Vec<LookupKey>,
    /// All lookups of the render.
    pub used_lookups: Vec<LookupKey>,
    /// The queries that the render made on `.Capabilities`, for [`Capabilities::answer`].
    pub capability_queries: Vec<String>,
    /// The results of randomness and the clock; empty without [`Input::kept`].
    pub randomness: Randomness,
    /// The usage of [`Input::limits`].
    pub used: Used,
    /// About the bytes that the objects take, with a copy of each; 0 without [`Input::read_objects`].
    pub size: u64,
    /// The log lines that Helm would write.
    pub warnings: Vec<Warning>,
}

impl Input<'_> {
    /// The input of a render without a cluster, at the current time, without stored results. Use struct update syntax
    /// for more.
    pub fn new(release: ReleaseObject, values: serde_json::Value) -> Self {
        static HELMS: LazyLock<Capabilities> = LazyLock::new(Capabilities::default);
        Input {
            release,
            values,
            more: Vec::new(),
            raw_texts: RawTexts::new(),
            capabilities: &HELMS,
            lookup: Arc::new(NoCluster),
            clock: jiff::Timestamp::now(),
            kept: None,
            random: None,
            limits: Limits::default(),
            include_crds: false,
            skip_schema: false,
            guards_secrets: false,
            read_objects: false,
        }
    }
}

impl Engine {
    /// An engine for the chart. Templates are parsed when they are first needed.
    ///
    /// # Errors
    /// A chart that can't be released at all: a library, or one whose dependencies are missing.
    pub fn new(chart: impl Into<Arc<Chart>>) -> Result<Self, Error> {
        let chart = chart.into();
        chart.check_installable()?;
        Ok(Engine::unchecked(chart))
    }

    /// Like [`new`](Self::new), but the chart may lack dependencies that a condition or tags disable. A render whose
    /// values enable such a dependency fails. Helm refuses such a chart with any values.
    ///
    /// # Errors
    /// As [`new`](Self::new) otherwise.
    pub fn for_releases(chart: impl Into<Arc<Chart>>) -> Result<Self, Error> {
        let chart = chart.into();
        chart.check_complete(|dependency| dependency.condition.is_empty() && dependency.tags.is_empty())?;
        Ok(Engine::unchecked(chart))
    }

    fn unchecked(chart: Arc<Chart>) -> Self {
        let mut files = HashMap::new();
        collect_files(&chart, &mut files);
        Engine {
            chart,
            sets: Sets::default(),
            files,
            memo: None,
            fetch: None,
            hosts: None,
        }
    }

    /// Lets renders use again what files printed in earlier ones, where they cannot print anything else. It takes memory for up to
    /// 12 outputs of each file, and makes a first render slower: it is for many renders of a chart whose values differ little.
    #[must_use]
    pub fn with_memo(mut self) -> Self {
        self.memo = Some(Memo::default());
        self
    }

    /// The approximate memory of the chart after its first render, in bytes.
    pub fn size(&self) -> u64 {
        size_of_chart(&self.chart)
    }

    /// The chart.
    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    fn environment(&self, input: &Input<'_>) -> Environment {
        Environment {
            lookup: Arc::clone(&input.lookup),
            clock: input.clock,
            random: input.random.clone(),
            kept: input.kept.cloned(),
            limits: input.limits,
            hosts: self.hosts.clone(),
            is_chart_text: input.guards_secrets.then(|| chart_texts::texts_of(&self.chart)),
        }
    }

    /// Renders the chart for a release with the user's values, without a cluster: what `helm template` prints.
    ///
    /// # Errors
    /// [`Error`], whose text is what Helm prints after `Error: `.
    pub fn render(&self, release: &ReleaseObject, values: serde_json::Value) -> Result<Rendered, Error> {
        self.render_with(&Input::new(release.clone(), values))
    }

    /// Like [`render`](Self::render), with all inputs of a render.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_with(&self, input: &Input<'_>) -> Result<Rendered, Error> {
        let mut warnings = Vec::new();
        let mut rendered = self.render_logged(input, &mut warnings)?;
        rendered.warnings = warnings;
        Ok(rendered)
    }

    /// Like [`render_with`](Self::render_with). The log lines that Helm would write are added to `warnings`, also
    /// before an error.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_logged(&self, input: &Input<'_>, warnings: &mut Vec<Warning>) -> Result<Rendered, Error> {
        on_large_stack(|| self.render_here(input, warnings))
    }

    fn render_here(&self, input: &Input<'_>, warnings: &mut Vec<Warning>) -> Result<Rendered, Error> {
        warnings.extend(self.chart.warnings.iter().cloned());
        let first = Birth::now();
        let size = data_size::of_values(&input.values);
        if size > input.limits.memory {
            return Err(over(VALUES, input.limits));
        }
        let user = user_map(input)?;
        let node = dependencies::process(&self.chart, &user, warnings)?;
        let is_on = |dependency: &Dependency| dependencies::is_on(&node, dependency);
        self.chart.check_complete(is_on).map_err(Error::Incomplete)?;
        let values = values::coalesce(&node, &user, warnings)?;
        let fetch = self.fetch.as_ref();
        if !input.skip_schema {
            schema::validate(&node, &values, fetch).map_err(|problem| {
                if problem.is_of_schema {
                    Error::SchemaInvalid(problem.text)
                } else {
                    Error::Schema(problem.text)
                }
            })?;
        }
        check_kube_version(&node, input.capabilities)?;
        let parsed = self.sets.parsed(&node)?;
        let queries = CapabilityQueries::default();
        if !node.metadata.kube_version.is_empty() {
            queries.kube_version();
        }
        let files = contexts::files(&self.files, &node, &values, input, &queries);
        let mut context =
            Context::new(Arc::clone(&parsed.go), &self.environment(input)).with_capability_queries(&queries);
        let _ = context.meter().spend(size);
        let mut outputs = Outputs::new(node.name());
        let memo = self
            .memo
            .as_ref()
            .filter(|_| !input.guards_secrets && self.hosts.is_none());
        let rendered = match memo.and_then(|memo| MemoRun::start(memo, &node, &values, input, first)) {
            Some(run) => execute_with_memo(&mut context, &parsed.handlebars, files, run, &mut outputs),
            None => execute(&mut context, &parsed.handlebars, files, |meter, name, text| {
                outputs.add(meter, name, text);
            }),
        };
        let (missing_lookups, used_lookups) = context.lookups();
        let finished = rendered.and_then(|()| finish(outputs, context.meter(), input, warnings));
        let used = context.used();
        let (randomness, random_warnings) = context.into_randomness();
        let mut result = finished.map_err(|error| error.unanswered(&missing_lookups))?;
        result.missing_lookups = missing_lookups;
        result.used_lookups = used_lookups;
        result.capability_queries = queries.list();
        result.used = used;
        result.randomness = randomness;
        warnings.extend(random_warnings.into_iter().map(Warning::from));
        if input.include_crds {
            contexts::crds(&node, &mut result.crds);
        }
        Ok(result)
    }

    /// The output of every template by its path: nothing is checked, sorted or parsed.
    #[cfg(test)]
    fn texts(&self, input: &Input<'_>) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let user = user_map(input)?;
        let node = dependencies::process(&self.chart, &user, &mut Vec::new())?;
        let values = values::coalesce(&node, &user, &mut Vec::new())?;
        let parsed = self.sets.parsed(&node)?;
        let files = contexts::files(&self.files, &node, &values, input, &CapabilityQueries::default());
        let mut context = Context::new(parsed.go, &self.environment(input));
        let mut texts = BTreeMap::new();
        execute(&mut context, &parsed.handlebars, files, |_, name, text| {
            texts.insert(name, text);
        })?;
        Ok(texts)
    }
}

fn collect_files(chart: &Chart, files: &mut HashMap<ChartId, Vec<(Str, Str)>>) {
    let own = chart
        .files
        .iter()
        .map(|file| (Str::from(file.name.as_str()), file.data.clone()));
    files.insert(ChartId::of(chart), own.collect());
    chart.dependencies.iter().for_each(|child| collect_files(child, files));
}

/// Files are held once. Templates have syntax trees that are about as large as the text. A schema's compiled form is 5
/// to 15 times as large as its text, as measured with large charts. The default values count as when they are read.
fn size_of_chart(chart: &Chart) -> u64 {
    let bytes = |files: &[File]| files.iter().map(|file| file.data.len() as u64).sum::<u64>();
    let schema = chart.schema.as_ref().map_or(0, |schema| schema.text().len() as u64);
    let values = data_size::of(&serde_json::Value::Object(chart.values.to_json()));
    let children = chart.dependencies.iter().map(size_of_chart).sum::<u64>();
    2 * bytes(&chart.templates) + bytes(&chart.files) + 16 * schema + values + children
}

fn user_map(input: &Input<'_>) -> Result<Map, Error> {
    let mut values = Value::from_json(&input.values);
    if !input.raw_texts.is_empty() {
        values = with_raw_texts(values, &input.raw_texts);
    }
    match values {
        Value::Map(map) => Ok(map),
        Value::Nil => Ok(Map::new(MapKind::Any, Entries::new())),
        other => Err(Error::Values(crate::chart::Error::Values(format!(
            "the values must be a map, not a {}",
            other.type_name()
        )))),
    }
}

fn with_raw_texts(value: Value, raw: &RawTexts) -> Value {
    match value {
        Value::String(text) => {
            let found = std::str::from_utf8(text.as_bytes()).ok().and_then(|text| raw.get(text));
            Value::String(found.map_or(text.clone(), |bytes| Str::from(bytes.as_slice())))
        }
        Value::List(list) => {
            let items = list.items().iter().cloned();
            Value::list(items.map(|item| with_raw_texts(item, raw)).collect())
        }
        Value::Map(map) => {
            let entries = map.snapshot().into_iter();
            Value::map(entries.map(|(key, item)| (key, with_raw_texts(item, raw))).collect())
        }
        other => other,
    }
}

fn check_kube_version(node: &ChartNode<'_>, capabilities: &Capabilities) -> Result<(), Error> {
    let wanted = &node.metadata.kube_version;
    let cluster = &capabilities.kube_version;
    if wanted.is_empty() || version::compatible(wanted, cluster.for_constraints()) {
        return Ok(());
    }
    Err(Error::KubeVersion {
        wanted: wanted.clone(),
        cluster: cluster.version.clone(),
    })
}

/// Renders the files in Helm's order: the deepest paths first, each depth in reverse. `done` receives them.
fn execute(
    context: &mut Context,
    handlebars: &Templates,
    files: Vec<contexts::TemplateFile>,
    mut done: impl FnMut(&Meter, String, Vec<u8>),
) -> Result<(), Error> {
    for file in files {
        let data = file.data();
        let text = if is_handlebars(&file.name) {
            handlebars_text(context, handlebars, &file.name, &data)?
        } else {
            go_text(context, &file.name, &data)?
        };
        done(context.meter(), file.name, text);
    }
    Ok(())
}

/// The same with the results of earlier renders.
fn execute_with_memo(
    context: &mut Context,
    handlebars: &Templates,
    files: Vec<contexts::TemplateFile>,
    mut run: MemoRun<'_>,
    outputs: &mut Outputs,
) -> Result<(), Error> {
    context.list_effects();
    for file in files {
        if is_handlebars(&file.name) {
            let text = handlebars_text(context, handlebars, &file.name, &file.data())?;
            outputs.add(context.meter(), file.name, text);
            continue;
        }
        let output = run.file(context, &file.name, |context| {
            go_text(context, &file.name, &file.data())
        })?;
        outputs.add_known(context.meter(), file.name, output);
    }
    Ok(())
}

fn go_text(context: &mut Context, name: &str, data: &Value) -> Result<Vec<u8>, Error> {
    context.render(name, data).map_err(|e| match context.exceeded() {
        Some(limit) => Error::Limit {
            template: name.to_owned(),
            limit,
            place: place_of(&e),
        },
        None => Error::Execution {
            template: name.to_owned(),
            place: place_of(&e),
            text: wording::exec_text(name, &e),
        },
    })
}

/// The innermost place of an error.
fn place_of(error: &ExecError) -> Option<TemplatePlace> {
    let mut innermost = &error.place;
    let mut next = error.inner();
    while let Some(error) = next {
        if error.place.is_some() {
            innermost = &error.place;
        }
        next = error.inner();
    }
    innermost.as_ref().map(TemplatePlace::from)
}

fn handlebars_text(context: &mut Context, templates: &Templates, name: &str, data: &Value) -> Result<Vec<u8>, Error> {
    let template = name.to_owned();
    templates.render(context, name, data).map_err(|e| match e {
        handlebars::Error::Limit(limit) => Error::Limit {
            template,
            limit,
            place: None,
        },
        handlebars::Error::At(problem) => Error::Execution {
            template,
            text: problem.to_string(),
            place: Some(problem.place),
        },
    })
}

/// Sorts rendered files into manifests, hooks and notes.
fn finish(outputs: Outputs, meter: &Meter, input: &Input<'_>, warnings: &mut Vec<Warning>) -> Result<Rendered, Error> {
    if let Some(template) = outputs.over {
        return Err(over(&template, input.limits));
    }
    let sorted = manifest::sort(outputs.files, &outputs.known, meter, input, warnings)?;
    Ok(Rendered {
        objects: sorted.objects,
        hooks: sorted.hooks,
        unknown_hooks: sorted.unknown_hooks,
        notes: outputs.notes,
        size: sorted.size,
        ..Rendered::default()
    })
}

/// The error if the memory limit of a render is exceeded.
fn over(what: &str, limits: Limits) -> Error {
    Error::Limit {
        template: what.to_owned(),
        limit: Limit::Memory(limits.memory),
        place: None,
    }
}

/// Runs `work` on a stack that is large enough for the default [`Limits`] and for the deepest YAML that is read.
pub fn on_large_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK - USED, STACK, work)
}
