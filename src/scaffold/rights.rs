//! What an operator may have to do with a chart: the kinds that it makes, whatever values switch on, and what else a release
//! needs. From that follow the rules of its role.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::api::Kind;
use super::names::plural;
use crate::plan::history::is_watched;
use crate::watches::Watch;
use crate::watches::sources::SourceKind;
use helm_template::chart::Chart;
use helm_template::render::{Capabilities, Engine, Error, Input, Kept, Manifest, Release, Rendered};

/// So many values are switched, one at a time.
const SWITCHES: usize = 300;
/// A chart is rendered without any API of others, then as if all were there that it asks for, and again while it asks for more.
const ROUNDS: usize = 4;

/// Verbs on members. `patch` is server-side apply; it needs `create` as well where the object isn't there yet.
const MEMBER: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
/// Verbs on Secrets that the operator keeps something of a release in.
const KEEPING: [&str; 4] = ["get", "create", "patch", "delete"];

const RBAC: &str = "rbac.authorization.k8s.io";

/// What renders of a chart show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Group and resource of what is made, hooks and steps of plans included.
    made: BTreeSet<(String, String)>,
    /// `apiVersion` and kind of the same.
    kinds: BTreeSet<(String, String)>,
    /// The images of containers, with the chart's own values.
    images: BTreeSet<String>,
    /// Resource and name of roles that are bound and that the chart doesn't make.
    bound: BTreeSet<(String, String)>,
    /// Group and resource of what templates look up.
    looked_up: BTreeSet<(String, String)>,
    /// Random results, hooks of deletions or plans: a Secret keeps them.
    keeps: bool,
    /// There are CustomResourceDefinitions in `crds/`, which the operator creates.
    defines: bool,
    /// Jobs or Pods whose end is awaited: their logs are told.
    runs: bool,
    /// What the watch asks for: group, resource, verbs.
    asked: Vec<(String, String, Vec<&'static str>)>,
}

// === impl Survey ===

impl Survey {
    /// The same with what a watch needs beside its chart.
    #[must_use]
    pub fn with(mut self, watch: &Watch) -> Self {
        let follow = || vec!["get", "list", "watch"];
        let mut ask = |group: &str, resource: &str, verbs: Vec<&'static str>| {
            self.asked.push((group.to_owned(), resource.to_owned(), verbs));
        };
        let own = watch.values_from_field.is_some();
        for (kind, resource) in [(SourceKind::Secret, "secrets"), (SourceKind::ConfigMap, "configmaps")] {
            if own || watch.values_from.iter().any(|source| source.kind == kind) {
                ask("", resource, follow());
            }
        }
        for need in &watch.depends_on {
            ask(&need.group, &plural_of(&need.kind), follow());
        }
        if !watch.elect.is_empty() {
            ask("", "pods", vec!["get", "list", "watch", "patch"]);
            ask("apps", "replicasets", vec!["get"]);
            ask(
                "coordination.k8s.io",
                "leases",
                vec!["get", "create", "update", "delete"],
            );
        }
        if is_watched(watch.on_failure) {
            ask("", "secrets", KEEPING.to_vec());
        }
        self
    }

    /// Renders a chart with its own values, with each file in its `ci/`, and with each switch turned. What can't be rendered
    /// so tells nothing.
    pub fn of(chart: &Chart) -> Self {
        let mut survey = Survey::default();
        let plurals = plurals(chart);
        survey.defines = !plurals.is_empty();
        each_render(chart, Vec::new(), &mut |number, result| {
            if let Ok(rendered) = result {
                survey.add(rendered, &plurals);
                if number == 0 {
                    survey.add_images(rendered);
                }
            }
        });
        survey
    }

    /// `apiVersion` and kind of what is made.
    pub fn kinds(&self) -> impl Iterator<Item = &(String, String)> {
        self.kinds.iter()
    }

    /// The images that the chart runs with its own values.
    pub fn images(&self) -> impl Iterator<Item = &String> {
        self.images.iter()
    }

    fn add_images(&mut self, rendered: &Rendered) {
        for (manifest, _) in manifests(rendered) {
            for object in manifest.objects() {
                find_images(object, &mut self.images);
            }
        }
    }

    /// Takes in what one render shows; `plurals` are those of the chart's own kinds.
    pub(super) fn add(&mut self, rendered: &Rendered, plurals: &BTreeMap<(String, String), String>) {
        let resource = |api_version: &str, kind: &str| {
            let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
            let known = plurals.get(&(group.clone(), kind.to_owned())).cloned();
            let resource = known.unwrap_or_else(|| plural_of(kind));
            (group, resource)
        };
        let (mut bound, mut made) = (BTreeSet::new(), BTreeSet::new());
        for (manifest, is_hook) in manifests(rendered) {
            for object in manifest.objects() {
                let text = |path: &str| {
                    object
                        .pointer(path)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned()
                };
                let (api_version, kind) = (text("/apiVersion"), text("/kind"));
                if kind.is_empty() || api_version.is_empty() {
                    continue;
                }
                if api_version
                    .strip_prefix(RBAC)
                    .is_some_and(|version| version.starts_with('/'))
                {
                    let role = (text("/roleRef/kind"), text("/roleRef/name"));
                    bound.extend(kind.ends_with("Binding").then_some(role));
                    made.insert((kind.clone(), text("/metadata/name")));
                }
                self.runs |= is_hook && ["Job", "Pod"].contains(&kind.as_str());
                self.made.insert(resource(&api_version, &kind));
                self.kinds.insert((api_version, kind));
            }
        }
        let others = bound.into_iter().filter(|role| !made.contains(role));
        self.bound.extend(others.map(|(kind, name)| (plural_of(&kind), name)));
        for key in &rendered.used_lookups {
            self.looked_up.insert(resource(&key.api_version, &key.kind));
        }
        let deletes = rendered
            .hooks
            .iter()
            .any(|hook| hook.events.iter().any(|event| event.name().contains("delete")));
        self.keeps |= deletes || !rendered.unknown_hooks.is_empty() || !rendered.randomness.kept.is_empty();
    }
}

/// All that a render makes, and whether it is of a hook.
fn manifests(rendered: &Rendered) -> impl Iterator<Item = (&Manifest, bool)> {
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

/// Renders a chart with its own values, with `more`, with each file in its `ci/`, and with each switch turned, and tells of each
/// what came of it, with the number of the values: 0 for its own.
pub(super) fn each_render(chart: &Chart, more: Vec<Value>, tell: &mut dyn FnMut(usize, Result<&Rendered, &Error>)) {
    let files = chart
        .files
        .iter()
        .filter(|file| file.name.starts_with("ci/") && file.name.ends_with(".yaml"));
    let given = files.filter_map(|file| go_yaml::to_json(file.data.as_bytes()).ok());
    let own = Value::Object(chart.values.to_json());
    let switched = switches(&own);
    let engine = match Engine::new(chart.clone()) {
        Ok(engine) => engine,
        Err(error) => return tell(0, Err(&error)),
    };
    let given: Vec<Value> = [json!({})]
        .into_iter()
        .chain(more)
        .chain(given)
        .chain(switched)
        .collect();
    let mut capabilities = Capabilities::default();
    // Drawn once: hundreds of RSA keys take minutes.
    let mut kept = Kept::default();
    for _ in 0..ROUNDS {
        let known = capabilities.clone();
        for (at, values) in given.iter().enumerate() {
            let rendered = render(&engine, values.clone(), &known, &kept);
            if let Ok(rendered) = &rendered {
                kept = rendered.randomness.kept.and(&kept);
            }
            let asked = rendered.iter().flat_map(|rendered| &rendered.asked);
            capabilities
                .api_versions
                .extend(asked.filter(|asked| asked.contains('/')).cloned());
            capabilities.api_versions.sort_unstable();
            capabilities.api_versions.dedup();
            tell(at, rendered.as_ref());
        }
        if capabilities.api_versions.len() == known.api_versions.len() {
            break;
        }
    }
}

fn render(engine: &Engine, values: Value, capabilities: &Capabilities, kept: &Kept) -> Result<Rendered, Error> {
    let input = Input {
        kept: Some(kept),
        capabilities,
        read_objects: true,
        skip_schema: true,
        ..Input::new(Release::install("release-name", "default"), values)
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

fn put(values: &mut Value, path: &[String], is_on: bool) {
    let mut at = values;
    for key in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[key];
    }
    *at = is_on.into();
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

/// How the chart's own CRDs call their resources.
pub(super) fn plurals(chart: &Chart) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    let texts = chart
        .crds
        .iter()
        .filter_map(|file| std::str::from_utf8(file.data.as_bytes()).ok());
    for document in texts.filter_map(|text| go_yaml::documents(text).ok()).flatten() {
        let Ok(crd) = go_yaml::to_json(document.as_bytes()) else {
            continue;
        };
        let text = |pointer: &str| {
            crd.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        found.insert(
            (text("/spec/group"), text("/spec/names/kind")),
            text("/spec/names/plural"),
        );
    }
    for child in &chart.dependencies {
        found.extend(plurals(child));
    }
    found
}

/// Kinds of Kubernetes' own whose plural is irregular.
fn plural_of(kind: &str) -> String {
    match kind {
        "Endpoints" => "endpoints".to_owned(),
        kind => plural(kind),
    }
}

/// A role, and what is to be known of it.
pub struct Role {
    pub object: Value,
    pub notes: Vec<String>,
}

/// Resources that lie in no namespace.
const CLUSTER_SCOPED: [&str; 13] = [
    "clusterroles",
    "clusterrolebindings",
    "namespaces",
    "nodes",
    "persistentvolumes",
    "customresourcedefinitions",
    "apiservices",
    "storageclasses",
    "priorityclasses",
    "ingressclasses",
    "runtimeclasses",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
];

/// The role of an operator with these watches. `namespaced`: for one namespace, without what lies in none.
///
/// # Errors
/// A chart that can't be read.
pub fn role(watches: &[Watch], name: &str, namespaced: bool) -> anyhow::Result<Role> {
    let mut surveys = Vec::new();
    for watch in watches {
        let chart = Chart::load(&watch.chart).with_context(|| watch.chart.display().to_string())?;
        surveys.push((Kind::of_watch(watch), Survey::of(&chart).with(watch)));
    }
    let kinds: Vec<(&Kind, &Survey)> = surveys.iter().map(|(kind, survey)| (kind, survey)).collect();
    let mut rules = rules_of(&kinds);
    let mut notes = Vec::new();
    if rules.iter().any(|rule| lists(rule, "verbs", "escalate")) {
        notes.push(
            "a chart makes roles, so the operator may `escalate` and `bind`, which is as good as every right: give it the \
             rights that these roles have instead, and take the two verbs away"
                .to_owned(),
        );
    }
    if namespaced {
        for rule in &mut rules {
            let resources = rule.get_mut("resources").and_then(Value::as_array_mut);
            if let Some(resources) = resources {
                resources.retain(|resource| {
                    let is_left_out = resource.as_str().is_some_and(|name| CLUSTER_SCOPED.contains(&name));
                    if is_left_out {
                        let name = resource.as_str().unwrap_or_default();
                        notes.push(format!("{name} lie in no namespace: they are left out"));
                    }
                    !is_left_out
                });
            }
        }
        rules.retain(|rule| {
            rule["resources"]
                .as_array()
                .is_some_and(|resources| !resources.is_empty())
        });
    }
    let kind = if namespaced { "Role" } else { "ClusterRole" };
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules,
    });
    Ok(Role { object, notes })
}

fn lists(rule: &Value, field: &str, item: &str) -> bool {
    rule[field]
        .as_array()
        .is_some_and(|items| items.iter().any(|known| known == item))
}

/// The role of an operator with these kinds, for the whole cluster.
///
/// # Errors
/// None that can be met.
pub fn cluster_role(kinds: &[(Kind, Chart)]) -> anyhow::Result<String> {
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "manager-role"}, "rules": rules(kinds),
    });
    Ok(serde_yaml::to_string(&object)?)
}

/// The rules that these kinds need.
pub fn rules(kinds: &[(Kind, Chart)]) -> Vec<Value> {
    let surveys: Vec<(&Kind, Survey)> = kinds.iter().map(|(kind, chart)| (kind, Survey::of(chart))).collect();
    let kinds: Vec<(&Kind, &Survey)> = surveys.iter().map(|(kind, survey)| (*kind, survey)).collect();
    rules_of(&kinds)
}

/// The same, where it is known what their charts make.
pub(super) fn rules_of(kinds: &[(&Kind, &Survey)]) -> Vec<Value> {
    let mut wanted: BTreeMap<(String, String), BTreeSet<&'static str>> = BTreeMap::new();
    let mut want = |group: &str, resource: &str, verbs: &[&'static str]| {
        let known = wanted.entry((group.to_owned(), resource.to_owned())).or_default();
        known.extend(verbs);
    };
    for (kind, survey) in kinds {
        let group = kind.resource.full_group();
        want(&group, &kind.plural, &["get", "list", "watch", "patch"]);
        want(&group, &format!("{}/status", kind.plural), &["patch"]);
        for (group, resource) in &survey.made {
            want(group, resource, &MEMBER);
            // Who makes a role needs what it grants, or this leave.
            if group == RBAC && ["roles", "clusterroles"].contains(&resource.as_str()) {
                want(group, resource, &["escalate", "bind"]);
            }
        }
        for (group, resource, verbs) in &survey.asked {
            want(group, resource, verbs);
        }
        for (group, resource) in &survey.looked_up {
            want(group, resource, &["get", "list", "watch"]);
        }
        if survey.keeps {
            want("", "secrets", &KEEPING);
        }
        if survey.defines {
            want("apiextensions.k8s.io", "customresourcedefinitions", &["create"]);
        }
        if survey.runs {
            want("", "pods/log", &["get"]);
        }
    }
    want("events.k8s.io", "events", &["create", "patch"]);
    // Why a workload isn't ready, and whether its replicas are an autoscaler's.
    want("", "pods", &["list"]);
    want("autoscaling", "horizontalpodautoscalers", &["list"]);
    // Kinds that come and go.
    want("apiextensions.k8s.io", "customresourcedefinitions", &["list", "watch"]);
    want("apiregistration.k8s.io", "apiservices", &["list", "watch"]);
    // Who binds a role needs what it grants, or this leave.
    let mut bound: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for (resource, name) in kinds.iter().flat_map(|(_, survey)| &survey.bound) {
        let may_bind_all = wanted
            .get(&(RBAC.to_owned(), resource.clone()))
            .is_some_and(|verbs| verbs.contains("bind"));
        if !may_bind_all {
            bound.entry(resource).or_default().insert(name);
        }
    }
    let bound = bound.into_iter().map(|(resource, names)| {
        json!({"apiGroups": [RBAC], "resources": [resource], "resourceNames": names, "verbs": ["bind"]})
    });
    let bound: Vec<Value> = bound.collect();
    // One rule for what has the same group and verbs.
    let mut rules: BTreeMap<(String, Vec<&str>), Vec<String>> = BTreeMap::new();
    for ((group, resource), verbs) in wanted {
        rules
            .entry((group, verbs.into_iter().collect()))
            .or_default()
            .push(resource);
    }
    let rule = |((group, verbs), resources): ((String, Vec<&str>), Vec<String>)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    rules.into_iter().map(rule).chain(bound).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

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

    /// Those of this project.
    fn watches() -> Vec<Watch> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read(folder.join("watches.yaml")).unwrap();
        let outside = crate::watches::Outside { folder, env: &|_| None };
        crate::watches::parse("watches.yaml", &text, &outside).unwrap().0
    }

    /// A chart with this file.
    fn chart(file: &str, text: &str) -> Chart {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(file).parent().unwrap()).unwrap();
        for (name, text) in [
            ("Chart.yaml", "{apiVersion: v2, name: shop, version: 0.1.0}"),
            ("values.yaml", "{a: true, b: false}"),
            (file, text),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Chart::load(folder.path()).unwrap()
    }

    /// As metrics-server and prometheus-adapter do.
    #[test]
    fn roles_of_others_may_be_bound_by_name() {
        let kind = Kind::of_watch(&watches()[0]);
        let binding = "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a}, \
                       roleRef: {kind: Role, name: reader}}";
        let bind = |rules: &[Value]| -> Vec<Value> {
            let rules = rules.iter().filter(|rule| lists(rule, "verbs", "bind"));
            rules
                .map(|rule| json!([rule["resources"], rule["resourceNames"]]))
                .collect()
        };
        let survey = Survey::of(&chart("templates/a.yaml", binding));
        let expected = json!([["roles"], ["reader"]]);
        assert_eq!(bind(&rules_of(&[(&kind, &survey)])), [expected]);
        let own = "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader}}";
        let survey = Survey::of(&chart("templates/a.yaml", &format!("{binding}\n---\n{own}")));
        assert_eq!(bind(&rules_of(&[(&kind, &survey)])), [json!([["roles"], null])]);
    }

    #[test]
    fn who_brings_definitions_creates_them() {
        let kind = Kind::of_watch(&watches()[0]);
        let may = |rules: &[Value]| {
            let of_definitions = rules
                .iter()
                .find(|rule| lists(rule, "resources", "customresourcedefinitions"));
            of_definitions.is_some_and(|rule| lists(rule, "verbs", "create"))
        };
        let definition = "{spec: {group: example.com, names: {kind: Shop, plural: shops}}}";
        let survey = Survey::of(&chart("crds/shop.yaml", definition));
        assert!(may(&rules_of(&[(&kind, &survey)])));
        assert!(!may(&rules_of(&[(&kind, &Survey::default())])));
    }

    #[test]
    fn chance_decides_once() {
        let secret = "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {key: {{ randAlphaNum 16 }}}}";
        let chart = chart("templates/a.yaml", secret);
        let mut drawn = BTreeSet::new();
        let mut renders = 0;
        each_render(&chart, Vec::new(), &mut |_, rendered| {
            renders += 1;
            let objects = manifests(rendered.unwrap()).flat_map(|(manifest, _)| manifest.objects());
            drawn.extend(objects.map(|object| object["stringData"]["key"].to_string()));
        });
        assert!(renders > 1 && drawn.len() == 1, "{renders} renders: {drawn:?}");
    }

    /// Group, resource and verb of each rule.
    fn rights(role: &Value) -> BTreeSet<(String, String, String)> {
        let texts = |rule: &Value, field: &str| -> Vec<String> {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut found = BTreeSet::new();
        for rule in role["rules"].as_array().into_iter().flatten() {
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    found.extend(
                        texts(rule, "verbs")
                            .into_iter()
                            .map(|verb| (group.clone(), resource.clone(), verb)),
                    );
                }
            }
        }
        found
    }

    /// The tests of the operator run with the roles of `config/`, and fail if one of these rights is left out.
    #[test]
    fn the_roles_of_this_project_are_those_that_its_charts_need() {
        let generated = rights(&role(&watches(), "manager-role", false).unwrap().object);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut written = BTreeSet::new();
        for file in ["role.yaml", "charts_role.yaml"] {
            let text = std::fs::read(root.join("config/rbac").join(file)).unwrap();
            written.extend(rights(&go_yaml::to_json(&text).unwrap()));
        }
        let missing: Vec<_> = written.difference(&generated).collect();
        let needless: Vec<_> = generated.difference(&written).collect();
        assert!(
            missing.is_empty() && needless.is_empty(),
            "missing {missing:?}, needless {needless:?}"
        );
    }

    #[test]
    fn a_chart_shows_what_it_makes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/memcached");
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
