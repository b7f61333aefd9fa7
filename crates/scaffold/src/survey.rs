//! Finds the objects that a chart can create, by rendering it with many sets of values.

pub(crate) mod patched;
pub(crate) mod unmade;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use go_template::commands::{self, Word};
use serde_json::{Map, Value, json};

use super::lint::project::crd::Crd;
use super::names::plural;
use super::progress::ProgressLine;
use super::text_at;
use chartwright_core::hooks;
use chartwright_core::plans::plan_of;
use chartwright_watches::CrdPolicy;
use chartwright_watches::ObjectPatch;
use helm_template::chart::Chart;
use helm_template::chart::values::merge_maps;
use helm_template::render::{
    Capabilities, Engine, Error, Input, Kept, Manifest, Random, ReleaseObject, Rendered, StandIns,
};
use patched::{PatchedObject, patched};
use unmade::Unmade;

/// At most this number of values is switched, one at a time.
const SWITCHES: usize = 300;
/// The first round renders without custom APIs. Each further round adds the APIs that the templates queried in the last one.
const ROUNDS: usize = 4;

/// At most this number of renders runs in parallel: each of a large chart takes tens of megabytes.
const AT_ONCE: usize = 8;

/// The release that charts are rendered for. What its name or namespace is part of depends on the custom resource.
const RELEASE: &str = "release-name";
const NAMESPACE: &str = "default";

/// The group of roles and bindings.
pub(super) const RBAC: &str = "rbac.authorization.k8s.io";

/// The facts about a chart that its renders show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Group and resource of what is made, hooks and steps of plans included.
    pub(super) made: BTreeSet<(String, String)>,
    /// The resources of kinds that have definitions, by group and kind.
    plurals: BTreeMap<(String, String), String>,
    /// `apiVersion` and kind of the same.
    kinds: BTreeSet<(String, String)>,
    /// The images of containers, with the chart's own values.
    images: BTreeSet<String>,
    pub(super) roles: ChartRoles,
    pub(super) lookups: ChartLookups,
    /// Random results, hooks of deletions or plans: a Secret keeps them.
    pub(super) keeps: bool,
    pub(super) crds: ChartCrds,
    pub(super) watch: WatchSettings,
    /// The operator waits for Jobs or Pods to finish and reads their logs.
    pub(super) runs: bool,
    /// Names of plans.
    plans: BTreeSet<String>,
    /// Kinds in the text of templates that no render made.
    pub(super) unmade: Vec<Unmade>,
    /// Why the chart can't be rendered with its own or any given values. Its objects are unknown then.
    pub(super) problem: Option<String>,
}

/// Roles of a chart, each as resource and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChartRoles {
    /// Those that the chart makes.
    pub(super) made: BTreeSet<(String, String)>,
    /// Those that the chart binds.
    pub(super) bound: BTreeSet<(String, String)>,
}

/// What templates look up, as group and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChartLookups {
    pub(super) looked_up: BTreeSet<(String, String)>,
    /// Those of them that templates list.
    pub(super) listed: BTreeSet<(String, String)>,
}

/// The CustomResourceDefinitions in `crds/` of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChartCrds {
    /// There are some, which the operator creates.
    pub(super) exist: bool,
    pub(super) names: BTreeSet<String>,
}

/// What the watch of a chart adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchSettings {
    /// What the operator does with the definitions in `crds/`.
    pub(super) crd_policy: CrdPolicy,
    /// The `serviceAccountName`, which applies what the chart makes.
    pub(super) account: Option<String>,
    /// The operator deletes what the account cannot delete.
    pub(super) falls_back: bool,
    /// Rights that its settings require: group, resource, verbs.
    pub(super) requested: Vec<(String, String, Vec<&'static str>)>,
}

/// Whether a name is the same in every release.
pub(super) fn is_fixed(name: &str) -> bool {
    !name.contains(RELEASE) && !name.contains(NAMESPACE)
}

impl Survey {
    /// Of a chart in a project with these definitions, before anything is rendered.
    pub(super) fn new(chart: &Chart, crds: &[Crd]) -> Self {
        let definitions = definitions(chart);
        let mut plurals: BTreeMap<_, _> = definitions.iter().map(named).collect();
        let exist = !plurals.is_empty();
        plurals.extend(crds.iter().map(|crd| named(crd.value())));
        let names = definitions.iter().map(|crd| text_at(crd, "/metadata/name").to_owned());
        Survey {
            plurals,
            crds: ChartCrds {
                exist,
                names: names.filter(|name| !name.is_empty()).collect(),
            },
            ..Survey::default()
        }
    }

    /// Whether definitions in `crds/` are created, by the operator or the account.
    pub(super) fn creates_crds(&self) -> bool {
        self.crds.exist && self.watch.crd_policy != CrdPolicy::Skip
    }

    /// The resource of a kind.
    pub(super) fn resource(&self, group: &str, kind: &str) -> String {
        let known = self.plurals.get(&(group.to_owned(), kind.to_owned())).cloned();
        known.unwrap_or_else(|| plural_of(kind))
    }

    /// Renders a chart with its own values, with each file in its `ci/`, and with each switch turned. Failed renders are ignored.
    pub fn of(chart: &Chart) -> Self {
        Survey::with_values(chart, Vec::new(), &[], &[])
    }

    /// The same, rendered with these values as well, in a project with these definitions, after the patches of a watch.
    pub(super) fn with_values(chart: &Chart, values: Vec<Value>, crds: &[Crd], patches: &[ObjectPatch]) -> Self {
        let mut survey = Survey::new(chart, crds);
        // Before the patches: the kinds in the text of templates.
        let mut made = BTreeSet::new();
        let (problem, unmade) = each_render(chart, values, &mut |number, _, result| {
            if let Ok(rendered) = result {
                made.extend(kinds_of(rendered));
                let objects = patched(rendered, patches, NAMESPACE).objects;
                survey.add(rendered, &objects);
                if number == 0 {
                    survey.add_images(&objects);
                }
            }
        });
        survey.unmade = unmade::still_unmade(unmade, &made.iter().map(String::as_str).collect());
        survey.problem = problem;
        survey
    }

    /// `apiVersion` and kind of what is made.
    pub fn kinds(&self) -> impl Iterator<Item = &(String, String)> {
        self.kinds.iter()
    }

    /// The names of the chart's plans.
    pub fn plans(&self) -> impl Iterator<Item = &String> {
        self.plans.iter()
    }

    /// Why the chart cannot be rendered with its own or any given values.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The images that the chart runs with its own values.
    pub fn images(&self) -> impl Iterator<Item = &String> {
        self.images.iter()
    }

    fn add_images(&mut self, objects: &[PatchedObject<'_>]) {
        for patched in objects {
            find_images(&patched.object, &mut self.images);
        }
    }

    /// Takes in what one render shows, and its objects.
    pub(super) fn add(&mut self, rendered: &Rendered, objects: &[PatchedObject<'_>]) {
        let resource = |survey: &Survey, api_version: &str, kind: &str| {
            let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
            let resource = survey.resource(&group, kind);
            (group, resource)
        };
        for patched in objects {
            let text = |pointer: &str| text_at(&patched.object, pointer).to_owned();
            let (api_version, kind) = (text("/apiVersion"), text("/kind"));
            if kind.is_empty() || api_version.is_empty() {
                continue;
            }
            let (group, resource) = resource(self, &api_version, &kind);
            if group == RBAC {
                if kind.ends_with("Binding") {
                    self.roles
                        .bound
                        .insert((plural_of(&text("/roleRef/kind")), text("/roleRef/name")))
                } else {
                    self.roles.made.insert((resource.clone(), text("/metadata/name")))
                };
            }
            let events = hooks::events(&patched.object);
            self.plans
                .extend(events.iter().filter_map(|event| plan_of(event)).map(str::to_owned));
            self.runs |= patched.events.is_some() && ["Job", "Pod"].contains(&kind.as_str());
            self.made.insert((group, resource));
            self.kinds.insert((api_version, kind));
        }
        for key in &rendered.used_lookups {
            let looked_up = resource(self, &key.api_version, &key.kind);
            self.lookups
                .listed
                .extend(key.name.is_empty().then(|| looked_up.clone()));
            self.lookups.looked_up.insert(looked_up);
        }
        let deletes = rendered
            .hooks
            .iter()
            .any(|hook| hook.events.iter().any(|event| event.name().contains("delete")));
        self.keeps |= deletes || !rendered.unknown_hooks.is_empty() || !rendered.randomness.kept.is_empty();
    }
}

/// All that a render makes, and whether it is of a hook.
pub(super) fn manifests(rendered: &Rendered) -> impl Iterator<Item = (&Manifest, bool)> {
    let hooks = rendered.hooks.iter().map(|hook| &hook.manifest);
    let hooks = hooks.chain(&rendered.unknown_hooks).map(|hook| (hook, true));
    rendered.objects.iter().map(|object| (object, false)).chain(hooks)
}

/// The images of all containers in an object.
fn find_images(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for field in ["containers", "initContainers"] {
                let containers = fields.get(field).and_then(Value::as_array).into_iter().flatten();
                found.extend(containers.filter_map(|container| Some(container["image"].as_str()?.to_owned())));
            }
            fields.values().for_each(|field| find_images(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| find_images(item, found)),
        _ => {}
    }
}

/// Called with the number of a set of values, the values, and the result of the render.
pub(super) type Observe<'a> = dyn FnMut(usize, &Value, Result<&Rendered, &Error>) + 'a;

/// Renders a chart with its own values, with `more`, with each file in its `ci/`, and with each switch turned. Calls `observe` for
/// each render with the number of the values (0 for its own), the values and the result. Switches are turned in the first values that
/// can be rendered. Values that may create the kinds that none of these renders created come last.
///
/// If no written values can be rendered, returns the error with the last of `more`, or with the chart's own values. Also returns
/// the kinds that no render before the last ones created.
#[expect(
    clippy::too_many_lines,
    reason = "the rounds and what they learn from their renders are one loop"
)]
pub(super) fn each_render(chart: &Chart, more: Vec<Value>, observe: &mut Observe<'_>) -> (Option<String>, Vec<Unmade>) {
    let files = chart
        .files
        .iter()
        .filter(|file| file.name.starts_with("ci/") && file.name.ends_with(".yaml"));
    let of_ci = files.filter_map(|file| go_yaml::to_json(file.data.as_bytes()).ok());
    let switched = switches(&Value::Object(chart.values.to_json()));
    let engine = match Engine::for_releases(chart.clone()) {
        Ok(engine) => engine.with_memo(),
        Err(error) => {
            observe(0, &json!({}), Err(&error));
            return (Some(one_line(&error)), unmade::unmade(chart, &BTreeSet::new()));
        }
    };
    let last = more.len();
    let mut given: Vec<Value> = [json!({})].into_iter().chain(more).chain(of_ci).collect();
    let written = given.len();
    let all = written + switched.len();
    // The number of the first values that it could be rendered with.
    let (mut well, mut problem) = (None, None);
    let mut made = BTreeSet::new();
    let mut capabilities = Capabilities::default();
    // Random results are drawn once.
    let mut kept = Kept::default();
    let random: Arc<dyn Random> = Arc::new(StandIns::new(0));
    let at_once = std::thread::available_parallelism().map_or(2, usize::from).min(AT_ONCE);
    let mut progress = ProgressLine::new();
    let mut failed = false;
    let mut queries_by_values = SurveyQueries::default();
    for round in 0..ROUNDS {
        let known = capabilities.clone();
        let mut at = 0;
        while at < given.len() {
            // The first one alone: it draws what most of the others need, too.
            let most = if at == 0 { 1 } else { at_once };
            let due: Vec<usize> = (at..given.len())
                .filter(|at| queries_by_values.may_differ(*at, &known))
                .take(most)
                .collect();
            let next = due.last().map_or(given.len(), |last| last + 1);
            let values: Vec<&Value> = due.iter().map(|at| &given[*at]).collect();
            let results = render_all(&engine, &values, &known, &kept, &random);
            for (at, rendered) in due.into_iter().zip(&results) {
                queries_by_values.note(at, rendered);
                match rendered {
                    Ok(rendered) => {
                        kept = rendered.randomness.kept.and(&kept);
                        if at < written {
                            well.get_or_insert(at);
                        }
                    }
                    Err(error) if at <= last => problem = Some(one_line(error)),
                    Err(_) => {}
                }
                failed |= rendered.is_err();
                made.extend(rendered.iter().flat_map(kinds_of));
                let queries = rendered.iter().flat_map(|rendered| &rendered.capability_queries);
                let apis = queries.filter(|query| query.contains('/'));
                Arc::make_mut(&mut capabilities.api_versions).extend(apis.cloned());
                observe(at, &given[at], rendered.as_ref());
            }
            at = next;
            if given.len() == written && at == written {
                let base = well.map(|at| given[at].clone());
                given.extend(switched.iter().map(|values| laid_over(base.as_ref(), values)));
            }
            progress.show(|| {
                format!(
                    "{}: rendered with {} of {} sets of values",
                    chart.name(),
                    at + round * all,
                    (round + 1) * all
                )
            });
        }
        queries_by_values.known = known.clone();
        let served = Arc::make_mut(&mut capabilities.api_versions);
        // A failed render does not report its queries.
        if round == 0 && failed {
            served.extend(apis_named(chart));
        }
        served.sort_unstable();
        served.dedup();
        if capabilities.api_versions.len() == known.api_versions.len() {
            break;
        }
    }
    let base = well.and_then(|at| given.get(at).cloned());
    let made = made.iter().map(String::as_str).collect();
    let unmade = unmade::unmade(chart, &made);
    let more = unmade::values(chart, &unmade).into_iter();
    let more: Vec<Value> = more.map(|values| laid_over(base.as_ref(), &values)).collect();
    for (chunk, values) in more.chunks(at_once).enumerate() {
        let results = render_all(
            &engine,
            &values.iter().collect::<Vec<_>>(),
            &capabilities,
            &kept,
            &random,
        );
        for (at, (values, rendered)) in values.iter().zip(&results).enumerate() {
            observe(given.len() + chunk * at_once + at, values, rendered.as_ref());
        }
    }
    (problem.filter(|_| well.is_none()), unmade)
}

/// The queries of renders to `.Capabilities`, by the number of their values. The same answers give the same render.
#[derive(Default)]
struct SurveyQueries {
    /// Only of successful renders.
    queries: BTreeMap<usize, Vec<String>>,
    /// The capabilities of the last round.
    known: Capabilities,
}

impl SurveyQueries {
    fn note(&mut self, at: usize, rendered: &Result<Rendered, Error>) {
        match rendered {
            Ok(rendered) => self.queries.insert(at, rendered.capability_queries.clone()),
            Err(_) => self.queries.remove(&at),
        };
    }

    /// True if a render with these capabilities may give another result than the last one.
    fn may_differ(&self, at: usize, now: &Capabilities) -> bool {
        let differs = |question: &String| self.known.answer(question, "before") != now.answer(question, "now");
        self.queries.get(&at).is_none_or(|queries| queries.iter().any(differs))
    }
}

/// The APIs that the templates of a chart and its subcharts name in `.Capabilities.APIVersions.Has "NAME"`.
pub(super) fn apis_named(chart: &Chart) -> Vec<String> {
    let is_question = |path: &[String]| path.ends_with(&["APIVersions".to_owned(), "Has".to_owned()]);
    let commands = chart
        .templates
        .iter()
        .filter_map(|file| commands::commands(&file.name, &file.data).ok())
        .flatten();
    let own = commands.filter_map(|command| match command.words.as_slice() {
        [Word::Path(path), Word::Text(name), ..] if is_question(path) && name.contains('/') => Some(name.clone()),
        _ => None,
    });
    own.chain(chart.dependencies.iter().flat_map(apis_named)).collect()
}

/// The kinds of what a render makes.
fn kinds_of(rendered: &Rendered) -> impl Iterator<Item = String> {
    let objects = manifests(rendered).flat_map(|(manifest, _)| manifest.objects());
    objects.map(|object| text_at(object, "/kind").to_owned())
}

/// The text of an error, as a line.
pub(super) fn one_line(error: &Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Values laid over others.
fn laid_over(base: Option<&Value>, values: &Value) -> Value {
    let maps = [base, Some(values)].into_iter().flatten().filter_map(Value::as_object);
    let mut all = Map::new();
    maps.for_each(|map| merge_maps(&mut all, map.clone()));
    Value::Object(all)
}

/// Renders with each of these values, all at the same time.
fn render_all(
    engine: &Engine,
    given: &[&Value],
    capabilities: &Capabilities,
    kept: &Kept,
    random: &Arc<dyn Random>,
) -> Vec<Result<Rendered, Error>> {
    std::thread::scope(|threads| {
        let start = |values: &&Value| {
            let values = Value::clone(values);
            threads.spawn(move || render(engine, values, capabilities, kept, random))
        };
        let Some((first, others)) = given.split_first() else {
            return Vec::new();
        };
        let started: Vec<_> = others.iter().map(start).collect();
        let first = render(engine, Value::clone(first), capabilities, kept, random);
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        std::iter::once(first).chain(started.into_iter().map(join)).collect()
    })
}

fn render(
    engine: &Engine,
    values: Value,
    capabilities: &Capabilities,
    kept: &Kept,
    random: &Arc<dyn Random>,
) -> Result<Rendered, Error> {
    let input = Input {
        kept: Some(kept),
        random: Some(Arc::clone(random)),
        capabilities,
        read_objects: true,
        skip_schema: true,
        ..Input::new(ReleaseObject::install(RELEASE, NAMESPACE), values)
    };
    engine.render_with(&input)
}

/// Values for each switch, with that one turned and what it lies in switched on, and with all of them on.
fn switches(values: &Value) -> Vec<Value> {
    let mut paths = Vec::new();
    find(values, &mut Vec::new(), &mut paths);
    paths.truncate(SWITCHES);
    let mut all = Value::Object(Map::new());
    paths.iter().for_each(|(path, _)| put(&mut all, path, true));
    let turned = paths.iter().map(|(path, is_on)| {
        let mut values = Value::Object(Map::new());
        for (other, _) in &paths {
            let folder = other.split_last().map_or(&[][..], |(_, folder)| folder);
            let is_around = other.last().is_some_and(|key| key == "enabled") && path.starts_with(folder);
            if is_around && other != path {
                put(&mut values, other, true);
            }
        }
        put(&mut values, path, !is_on);
        values
    });
    turned.chain(std::iter::once(all)).collect()
}

/// Sets the value at a path, with the mappings around it.
pub(super) fn put(values: &mut Value, path: &[String], value: impl Into<Value>) {
    let mut at = values;
    for key in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[key];
    }
    *at = value.into();
}

fn find(value: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, bool)>) {
    match value {
        Value::Bool(is_on) => found.push((path.clone(), *is_on)),
        Value::Object(fields) => {
            for (key, field) in fields {
                path.push(key.clone());
                find(field, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The definitions in the `crds/` folders of a chart and its dependencies.
fn definitions(chart: &Chart) -> Vec<Value> {
    let texts = chart
        .crds
        .iter()
        .filter_map(|file| std::str::from_utf8(file.data.as_bytes()).ok());
    let documents = texts.filter_map(|text| go_yaml::documents(text).ok()).flatten();
    let mut found: Vec<Value> = documents
        .filter_map(|document| go_yaml::to_json(document.as_bytes()).ok())
        .filter(|definition| !definition.is_null())
        .collect();
    found.extend(chart.dependencies.iter().flat_map(definitions));
    found
}

/// Group, kind and plural of a definition.
fn named(crd: &Value) -> ((String, String), String) {
    let text = |pointer: &str| text_at(crd, pointer).to_owned();
    let kind = (text("/spec/group"), text("/spec/names/kind"));
    (kind, text("/spec/names/plural"))
}

/// The plural of a kind without a definition: those of Kubernetes and OpenShift may be irregular.
pub(super) fn plural_of(kind: &str) -> String {
    match kind {
        "Endpoints" | "SecurityContextConstraints" => kind.to_lowercase(),
        kind => plural(kind),
    }
}

#[cfg(test)]
pub mod tests {
    use std::path::Path;

    use super::*;

    /// A chart with this file.
    pub fn chart(file: &str, text: &str) -> Chart {
        with_files(&[("values.yaml", "{a: true, b: false}"), (file, text)])
    }

    /// A chart with these files.
    pub fn with_files(files: &[(&str, &str)]) -> Chart {
        let folder = tempfile::tempdir().unwrap();
        let metadata = ("Chart.yaml", "{apiVersion: v2, name: shop, version: 0.1.0}");
        for (name, text) in [metadata].iter().chain(files) {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Chart::load(folder.path()).unwrap()
    }

    #[test]
    fn only_renders_that_ask_for_a_new_api_are_repeated() {
        let text = "{{ if .Values.b }}{{ if .Capabilities.APIVersions.Has \"a.test/v1\" }}{apiVersion: a.test/v1, kind: A}{{ end }}\
                    {{ end }}";
        let mut rendered = Vec::new();
        each_render(
            &chart("templates/a.yaml", text),
            Vec::new(),
            &mut |at, values, result| {
                rendered.push((at, values["b"] == true, result.is_ok()));
            },
        );
        let times = |at: usize| rendered.iter().filter(|(number, ..)| *number == at).count();
        assert!(rendered.iter().all(|(.., is_ok)| *is_ok), "{rendered:?}");
        for (at, asks, _) in &rendered {
            assert_eq!(times(*at), 1 + usize::from(*asks), "{at}: {rendered:?}");
        }
    }

    #[test]
    fn switches_are_turned_within_what_they_lie_in() {
        let values = json!({"a": {"enabled": false, "b": {"enabled": false, "c": true}}, "list": [true], "text": "x"});
        let expected = [
            json!({"a": {"enabled": true, "b": {"enabled": true, "c": true}}}),
            json!({"a": {"enabled": true, "b": {"enabled": true}}}),
            json!({"a": {"enabled": true, "b": {"enabled": true, "c": false}}}),
        ];
        let found = switches(&values);
        for values in expected {
            assert!(found.contains(&values), "{values}: {found:?}");
        }
    }

    #[test]
    fn charts_that_require_values_are_rendered_with_what_is_given() {
        let template = "{{ required \"host is needed\" .Values.host }}\n---\n{apiVersion: v1, kind: ConfigMap}\n\
                        {{- if .Values.b }}\n---\n{apiVersion: v1, kind: Secret}\n{{ end }}";
        let chart = chart("templates/a.yaml", template);
        let silent = Survey::of(&chart);
        assert!(silent.made.is_empty(), "{silent:?}");
        assert!(
            silent.problem.as_ref().unwrap().contains("host is needed"),
            "{silent:?}"
        );
        let survey = Survey::with_values(&chart, vec![json!({"host": "# a"})], &[], &[]);
        let made: Vec<&str> = survey.made.iter().map(|(_, resource)| resource.as_str()).collect();
        assert_eq!((made, survey.problem), (vec!["configmaps", "secrets"], None));
    }

    #[test]
    fn resources_are_called_as_definitions_say() {
        let folder = tempfile::tempdir().unwrap();
        let bases = folder.path().join("config/crd/bases");
        std::fs::create_dir_all(&bases).unwrap();
        let definition = "{kind: CustomResourceDefinition, spec: {group: a.com, names: {kind: Redis, plural: redis}}}";
        std::fs::write(bases.join("a.yaml"), definition).unwrap();
        let made = "{apiVersion: a.com/v1, kind: Redis}\n---\n{apiVersion: b.com/v1, kind: Redis}\n---\n\
                    {apiVersion: security.openshift.io/v1, kind: SecurityContextConstraints}";
        let crds = crate::lint::project::crd::read(folder.path());
        let survey = Survey::with_values(&chart("templates/a.yaml", made), Vec::new(), &crds, &[]);
        let made: Vec<&str> = survey.made.iter().map(|(_, resource)| resource.as_str()).collect();
        assert_eq!(made, ["redis", "redises", "securitycontextconstraints"]);
        assert!(!survey.crds.exist);
    }

    #[test]
    fn chance_decides_once() {
        let secret = "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {key: {{ randAlphaNum 16 }}}}";
        let chart = chart("templates/a.yaml", secret);
        let mut drawn = BTreeSet::new();
        let mut renders = 0;
        each_render(&chart, Vec::new(), &mut |_, _, rendered| {
            renders += 1;
            let objects = manifests(rendered.unwrap()).flat_map(|(manifest, _)| manifest.objects());
            drawn.extend(objects.map(|object| object["stringData"]["key"].to_string()));
        });
        assert!(renders > 1 && drawn.len() == 1, "{renders} renders: {drawn:?}");
    }

    #[test]
    fn a_chart_shows_what_it_makes() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("charts/memcached");
        let survey = Survey::of(&Chart::load(folder).unwrap());
        for (group, resource) in [
            ("", "configmaps"),
            ("apps", "statefulsets"),
            ("networking.k8s.io", "networkpolicies"),
            ("monitoring.coreos.com", "servicemonitors"),
        ] {
            assert!(
                survey.made.contains(&(group.to_owned(), resource.to_owned())),
                "{resource}: {survey:?}"
            );
        }
        assert!(!survey.keeps && !survey.runs);
    }
}
