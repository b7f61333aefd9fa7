//! The rights that an operator needs for its charts: the rules of its role.

mod chart_crds;
mod escalation;
mod impersonation;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::api::Kind;
use super::lint::project::{crd, samples};
use super::printable::{one_line, to_yaml};
use super::survey::unmade::Unmade;
use super::survey::{RBAC, Survey};
use super::tree::FileTree;
use chart_crds::{CRD_GROUP, CRDS, replacing_crds};
pub(super) use chart_crds::{missing_crds, replaced_crds};
use chartwright_core::record::history::is_watched;
use chartwright_operator::cluster::storage::keys::secret_name;
use chartwright_watches::{DeletionFallback, SourceKind, Watch};
pub(super) use escalation::{ESCALATING, ROLES};
use escalation::{escalating, escalation};
use helm_template::chart::Chart;
use impersonation::{ACCOUNTS, WATCHED, constrain, impersonating};
pub(super) use impersonation::{accounts, missing_accounts};

/// The file of a project with its operator's role, and what the role is called.
pub const ROLE: &str = "config/rbac/role.yaml";
pub const ROLE_NAME: &str = "manager-role";

/// Verbs on members. `patch` is server-side apply; it needs `create` as well where the object isn't there yet.
pub(super) const MEMBER: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
/// Verbs on Secrets that the operator keeps something of a release in.
const KEEPING: [&str; 4] = ["get", "create", "patch", "delete"];

impl Survey {
    /// The same with what a watch needs beside its chart.
    #[must_use]
    pub fn with(mut self, watch: &Watch) -> Self {
        let follow = || vec!["get", "list", "watch"];
        let mut requested = Vec::new();
        let mut ask = |group: &str, resource: &str, verbs: Vec<&'static str>| {
            requested.push((group.to_owned(), resource.to_owned(), verbs));
        };
        let own = watch.values_from_field.is_some();
        for (kind, resource) in [(SourceKind::Secret, "secrets"), (SourceKind::ConfigMap, "configmaps")] {
            if own || watch.values_from.iter().any(|source| source.kind == kind) {
                ask("", resource, follow());
            }
        }
        for need in &watch.depends_on {
            let resource = self.resource(&need.group, &need.kind);
            ask(&need.group, &resource, follow());
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
        self.watch.requested.extend(requested);
        self.watch.crd_policy = watch.crds;
        self.watch.account.clone_from(&watch.service_account_name);
        self.watch.falls_back = watch.deletion_fallback == DeletionFallback::Operator;
        self
    }
}

/// A role, and what is to be known of it.
pub struct GeneratedRole {
    pub object: Value,
    pub notes: Vec<String>,
    /// Charts of which isn't known what they make, so that the role lacks it.
    pub warnings: Vec<String>,
}

/// What a role lacks because no render made it.
fn lacking_kinds(kind: &Kind, survey: &Survey) -> Vec<String> {
    let (chart, of) = (&kind.chart, &kind.resource.kind);
    let remedy = format!("and then run `chartwright generate rbac -o {ROLE}`");
    if let Some(problem) = &survey.problem {
        return vec![format!(
            "{chart}: the role lacks what it makes, since it can't be rendered: {problem}; add a sample of {of} to config/samples \
             that it can be rendered with, {remedy}"
        )];
    }
    let warn = |unmade: &Unmade| {
        let Unmade { kind, file, line, .. } = unmade;
        format!(
            "{chart}/{file}:{line}: no values were found that make this {kind}, so the role has no rights on it: add a sample of {of} \
             that makes it to config/samples, {remedy}"
        )
    };
    survey.unmade.iter().map(warn).collect()
}

impl GeneratedRole {
    /// The role as a file, with a comment at each rule that lets the operator extend its own rights.
    ///
    /// # Errors
    /// None that can be met.
    pub fn to_yaml(&self) -> anyhow::Result<String> {
        let text = to_yaml(&self.object)?;
        let mut rules = self.object["rules"].as_array().into_iter().flatten();
        let mut commented = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            if line.starts_with("- ") {
                let note = rules.next().and_then(escalation);
                commented.extend(note.map(|note| format!("# Note: {}.\n", one_line(&note))));
            }
            commented.push_str(line);
        }
        Ok(commented)
    }
}

/// Resources that lie in no namespace.
const CLUSTER_SCOPED: [&str; 14] = [
    "clusterroles",
    "clusterrolebindings",
    "namespaces",
    "nodes",
    "persistentvolumes",
    CRDS,
    "apiservices",
    "storageclasses",
    "priorityclasses",
    "ingressclasses",
    "runtimeclasses",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "securitycontextconstraints",
];

/// What each of these watches needs, in a project with definitions and samples. `new`: a chart that isn't there yet, and
/// where it will be.
///
/// # Errors
/// A chart that can't be read.
pub fn surveys(root: &Path, watches: &[Watch], new: Option<&(PathBuf, Chart)>) -> anyhow::Result<Vec<(Kind, Survey)>> {
    let (crds, samples) = (crd::read(root), samples::read(root));
    let surveys = watches.iter().map(|watch| {
        let chart = match new.filter(|(path, _)| *path == watch.chart) {
            Some((_, chart)) => chart.clone(),
            None => Chart::load(&watch.chart).with_context(|| watch.chart.display().to_string())?,
        };
        let given = samples::given(&watch.chart, watches, &samples);
        let survey = Survey::with_values(&chart, given, &crds, &watch.patches);
        Ok((Kind::of_watch(watch, root, &crds), survey.with(watch)))
    });
    surveys.collect()
}

/// What a role is for.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoleOptions {
    /// For one namespace, without what lies in none.
    pub namespaced: bool,
    /// With the verbs of constrained impersonation (KEP-5284), for Kubernetes 1.36 or later.
    pub constrained_impersonation: bool,
}

/// The role of an operator that needs this.
pub fn role(surveys: &[(Kind, Survey)], name: &str, options: RoleOptions) -> GeneratedRole {
    let namespaced = options.namespaced;
    let kinds: Vec<(&Kind, &Survey)> = surveys.iter().map(|(kind, survey)| (kind, survey)).collect();
    let mut rules = rules_of(&kinds);
    if options.constrained_impersonation {
        let surveys: Vec<&Survey> = kinds.iter().map(|(_, survey)| *survey).collect();
        constrain(&mut rules, &surveys);
    }
    let warnings = surveys
        .iter()
        .flat_map(|(kind, survey)| lacking_kinds(kind, survey))
        .collect();
    let mut notes = Vec::new();
    notes.extend(rules.iter().filter_map(escalation));
    if namespaced {
        notes.extend(cut_to_a_namespace(&mut rules));
    }
    let kind = if namespaced { "Role" } else { "ClusterRole" };
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules,
    });
    GeneratedRole {
        object,
        notes,
        warnings,
    }
}

/// The role of a project's operator, among the project's files.
///
/// # Errors
/// None that can be met.
pub fn add_role(tree: &mut FileTree, surveys: &[(Kind, Survey)]) -> anyhow::Result<()> {
    let role = role(surveys, ROLE_NAME, RoleOptions::default());
    tree.add(ROLE, role.to_yaml()?);
    tree.warn(role.warnings);
    tree.warn(role.notes.iter().map(|note| format!("{ROLE}: {note}")).collect());
    Ok(())
}

/// Takes out what lies in no namespace, and says so.
fn cut_to_a_namespace(rules: &mut Vec<Value>) -> Vec<String> {
    let mut notes = Vec::new();
    for rule in rules.iter_mut() {
        // Roles of the cluster can be bound within a namespace.
        let is_of_crds = lists(rule, "resources", CRDS);
        if rule.get("resourceNames").is_some() && !is_of_crds && !lists(rule, "verbs", "escalate") {
            continue;
        }
        if let Some(resources) = rule["resources"].as_array_mut() {
            resources.retain(|resource| {
                let left_out = resource.as_str().filter(|name| CLUSTER_SCOPED.contains(name));
                notes.extend(left_out.map(|name| format!("{name} lie in no namespace: they are left out")));
                left_out.is_none()
            });
        }
    }
    rules.retain(|rule| rule["resources"].as_array().is_some_and(|list| !list.is_empty()));
    notes
}

fn lists(rule: &Value, field: &str, item: &str) -> bool {
    rule[field]
        .as_array()
        .is_some_and(|items| items.iter().any(|known| known == item))
}

/// Verbs by group and resource.
pub(super) type Rights = BTreeMap<(String, String), BTreeSet<String>>;

/// The rights that rules grant. Rules with resourceNames are ignored.
pub(super) fn rights(rules: &[Value]) -> Rights {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let items = rule[field].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = Rights::new();
    for rule in rules.iter().filter(|rule| rule["resourceNames"].is_null()) {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                let known = rights.entry((group.clone(), resource)).or_default();
                known.extend(texts(rule, "verbs"));
            }
        }
    }
    rights
}

/// What is wanted and no rule allows, a sentence for each resource.
pub(super) fn missing(wanted: &Rights, rules: &[Value]) -> Vec<String> {
    let denied = denied(wanted, rules).into_iter();
    denied
        .map(|((group, resource), verbs)| no_rule(&group, &resource, verbs.iter().map(String::as_str)))
        .collect()
}

/// A sentence about a resource and verbs that no rule allows.
pub(super) fn no_rule<'v>(group: &str, resource: &str, verbs: impl Iterator<Item = &'v str>) -> String {
    let verbs: Vec<&str> = verbs.collect();
    format!(
        "no rule lets the operator {} {}",
        verbs.join(", "),
        shown(group, resource)
    )
}

/// What is wanted and no rule allows.
pub(super) fn denied(wanted: &Rights, rules: &[Value]) -> Rights {
    let whole: Vec<&Value> = rules.iter().filter(|rule| rule["resourceNames"].is_null()).collect();
    let denied = wanted.iter().filter_map(|((group, resource), verbs)| {
        let is_granted = |verb: &&String| whole.iter().any(|rule| grants(rule, group, resource, verb));
        let verbs = verbs.iter().filter(|verb| !is_granted(verb));
        let verbs: BTreeSet<String> = verbs.cloned().collect();
        (!verbs.is_empty()).then(|| ((group.clone(), resource.clone()), verbs))
    });
    denied.collect()
}

/// True if a rule gives a verb, for some objects at least.
pub(super) fn grants(rule: &Value, group: &str, resource: &str, verb: &str) -> bool {
    let has = |field: &str, item: &str| lists(rule, field, item) || lists(rule, field, "*");
    has("apiGroups", group) && has("resources", resource) && has("verbs", verb)
}

/// True if rules let an operator have its key: `create` Secrets, which can't be limited to a name, and `get` one.
pub fn may_have_key(rules: &[Value]) -> bool {
    let is_whole = |rule: &&Value| rule["resourceNames"].is_null();
    rules
        .iter()
        .filter(is_whole)
        .any(|rule| grants(rule, "", "secrets", "create"))
        && rules.iter().any(|rule| grants(rule, "", "secrets", "get"))
}

/// The Role that every operator needs in its own namespace, for its key and its Lease, and the binding to the ServiceAccount of
/// a scaffolded project.
pub fn own_role(operator: &str, lease: &str) -> [Value; 2] {
    let rule = |group: &str, resource: &str, verbs: &[&str], name: Option<&str>| {
        let mut rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        if let Some(name) = name {
            rule["resourceNames"] = json!([name]);
        }
        rule
    };
    let (leases, key) = ("coordination.k8s.io", secret_name(operator));
    let metadata = |name: &str| json!({"name": name, "namespace": "system"});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata("own-role"),
        "rules": [
            rule("", "secrets", &["create"], None),
            rule("", "secrets", &["get"], Some(&key)),
            rule(leases, "leases", &["create"], None),
            rule(leases, "leases", &["get", "update"], Some(lease)),
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata("own-rolebinding"),
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "own-role"},
        "subjects": [{"kind": "ServiceAccount", "name": "controller-manager", "namespace": "system"}],
    });
    [role, binding]
}

/// A resource as findings name it.
pub(super) fn shown(group: &str, resource: &str) -> String {
    match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}

/// The rights of a generated role that a present role lacks, one sentence for each resource. `escalate` and `bind` don't count: a
/// user may have granted the rights of the charts' roles instead.
pub fn lacking(made: &Value, present: &Value) -> Vec<String> {
    let rules = |role: &Value| role["rules"].as_array().cloned().unwrap_or_default();
    let mut wanted = rights(&rules(made));
    for verbs in wanted.values_mut() {
        verbs.retain(|verb| !ESCALATING.contains(&verb.as_str()));
    }
    let (made, present) = (rules(made), rules(present));
    let names = |resource: &'static str, verb: &'static str| {
        let rules = made
            .iter()
            .filter(move |rule| lists(rule, "resources", resource) && lists(rule, "verbs", verb));
        let names = rules.flat_map(|rule| rule["resourceNames"].as_array().into_iter().flatten());
        names.filter_map(Value::as_str)
    };
    let mut lacking = missing(&wanted, &present);
    lacking.extend(missing_crds(names(CRDS, "patch"), &present));
    let accounts = names(ACCOUNTS, "impersonate").chain(names(ACCOUNTS, "impersonate:serviceaccount"));
    lacking.extend(missing_accounts(accounts, &present));
    lacking
}

/// The rules that these kinds need.
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
            if survey.watch.account.is_some() && !survey.watch.falls_back {
                want(group, resource, &WATCHED);
            } else {
                want(group, resource, &MEMBER);
            }
        }
        for (group, resource, verbs) in &survey.watch.requested {
            want(group, resource, verbs);
        }
        for (group, resource) in &survey.lookups.looked_up {
            want(group, resource, &["get", "list", "watch"]);
        }
        if survey.keeps {
            want("", "secrets", &KEEPING);
        }
        if survey.creates_crds() && survey.watch.account.is_none() {
            want(CRD_GROUP, CRDS, &["create"]);
        }
        if survey.runs {
            want("", "pods/log", &["get"]);
        }
    }
    want("events.k8s.io", "events", &["create", "patch"]);
    // Why a workload isn't ready, and whether its replicas are an autoscaler's.
    want("", "pods", &["list"]);
    want("", "events", &["list"]);
    want("autoscaling", "horizontalpodautoscalers", &["list"]);
    // Kinds that come and go.
    want(CRD_GROUP, CRDS, &["list", "watch"]);
    want("apiregistration.k8s.io", "apiservices", &["list", "watch"]);
    // One rule for what has the same group and verbs.
    let mut rules: BTreeMap<(String, Vec<&str>), Vec<String>> = BTreeMap::new();
    for ((group, resource), verbs) in wanted {
        rules
            .entry((group, verbs.into_iter().collect()))
            .or_default()
            .push(resource);
    }
    let rule = |((group, verbs), resources): ((String, Vec<&str>), Vec<String>)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let rules = rules.into_iter().map(rule);
    let surveys: Vec<&Survey> = kinds.iter().map(|(_, survey)| *survey).collect();
    rules
        .chain(impersonating(&surveys))
        .chain(replacing_crds(kinds))
        .chain(escalating(kinds))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tests::{chart, with_files};

    /// Those of this project.
    pub(super) fn watches() -> Vec<Watch> {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let text = std::fs::read(folder.join("watches.yaml")).unwrap();
        let outside = chartwright_watches::ReadContext { folder, env: &|_| None };
        chartwright_watches::parse("watches.yaml", &text, &outside).unwrap().0
    }

    /// As metrics-server and prometheus-adapter do.
    #[test]
    fn roles_of_others_may_be_bound_by_name() {
        let kind = Kind::of_watch(&watches()[0], Path::new(""), &[]);
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
        assert_eq!(bind(&rules_of(&[(&kind, &survey)])), [json!([["roles"], ["reader"]])]);
        let own = "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: '{{ .Release.Name }}-x'}}";
        let survey = Survey::of(&chart("templates/a.yaml", &format!("{binding}\n---\n{own}")));
        let rules = rules_of(&[(&kind, &survey)]);
        assert_eq!(bind(&rules), [json!([["roles"], ["reader"]])]);
        let escalate = rules.iter().find(|rule| lists(rule, "verbs", "escalate")).unwrap();
        assert!(escalate["resourceNames"].is_null(), "{escalate}");
    }

    #[test]
    fn a_role_that_may_escalate_says_so() {
        let kind = Kind::of_watch(&watches()[0], Path::new(""), &[]);
        let made = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NAME}}\n---\n\
                    {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: NAME}, \
                     roleRef: {kind: ClusterRole, name: NAME}}";
        for (name, names, verbs) in [
            ("'{{ .Release.Name }}'", "of any name", "bind and escalate"),
            ("proxy", "proxy", "bind and escalate"),
        ] {
            let survey = Survey::of(&chart("templates/a.yaml", &made.replace("NAME", name)));
            let role = role(&[(kind.clone(), survey)], ROLE_NAME, RoleOptions::default());
            let [note] = role.notes.as_slice() else {
                panic!("{:?}", role.notes)
            };
            assert!(note.contains(&format!("may {verbs} clusterroles {names},")), "{note}");
            let text = role.to_yaml().unwrap();
            let comment = format!("# Note: {note}.\n- apiGroups:\n  - {RBAC}\n");
            assert!(text.contains(&comment), "{text}");
            assert_eq!(go_yaml::to_json(text.as_bytes()).unwrap(), role.object);
        }
        let silent = role(&[(kind, Survey::default())], ROLE_NAME, RoleOptions::default());
        assert!(silent.notes.is_empty() && !silent.to_yaml().unwrap().contains('#'));
    }

    /// Switches that are no booleans: maps, texts, enumerations.
    #[test]
    fn what_other_values_make_is_found_or_reported() {
        let object = |kind: &str| format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n");
        let template = |open: &str, kind: &str| format!("{open}\n---\n{}{{{{- end }}}}\n", object(kind));
        for (values, open) in [
            ("ingress: {}", "{{- with .Values.ingress }}"),
            ("ingress:", "{{- if .Values.ingress }}"),
            ("host: ''", "{{- if .Values.host }}"),
            ("mode: plain", "{{- if eq .Values.mode \"proxy\" }}"),
            ("hosts: []", "{{- range .Values.hosts }}"),
            ("mode: plain", "{{- if ne (include \"x\" $) \"\" }}"),
            (
                "auth: {}",
                "{{- with .Values.auth }}{{- if .secret }}{{ end }}{{- if .user }}",
            ),
        ] {
            let end = if open.contains("auth") { "{{- end }}" } else { "" };
            let chart = with_files(&[
                ("values.yaml", values),
                (
                    "values.schema.json",
                    r#"{"properties": {"mode": {"enum": ["plain", "other"]}}}"#,
                ),
                (
                    "templates/_x.tpl",
                    "{{- define \"x\" }}{{- if eq .Values.mode \"other\" }}yes{{ end }}{{ end }}",
                ),
                ("templates/a.yaml", &format!("{}{end}", template(open, "Endpoints"))),
            ]);
            let survey = Survey::of(&chart);
            let endpoints = (String::new(), "endpoints".to_owned());
            assert!(
                survey.made.contains(&endpoints) && survey.unmade.is_empty(),
                "{open}: {survey:?}"
            );
        }
        let kind = Kind::of_watch(&watches()[0], Path::new(""), &[]);
        let never = template("{{- if .Files.Get \"x\" }}", "Endpoints");
        let chart = with_files(&[("templates/a.yaml", &format!("{}---\n{never}", object("Secret")))]);
        let role = role(&[(kind, Survey::of(&chart))], ROLE_NAME, RoleOptions::default());
        let [warning] = role.warnings.as_slice() else {
            panic!("{:?}", role.warnings)
        };
        assert!(
            warning.contains("templates/a.yaml:8: no values were found that make this Endpoints,"),
            "{warning}"
        );
    }

    #[test]
    fn in_a_namespace_lies_what_does_and_who_binds_a_role_of_the_cluster() {
        let bind = json!({"resources": ["clusterroles"], "resourceNames": ["view"], "verbs": ["bind"]});
        let mut rules = vec![
            json!({"resources": ["nodes", "pods"]}),
            json!({"resources": ["namespaces"]}),
            bind.clone(),
        ];
        let notes = cut_to_a_namespace(&mut rules);
        assert_eq!(rules, [json!({"resources": ["pods"]}), bind]);
        assert!(
            notes.len() == 2 && notes[0].starts_with("nodes lie in no namespace"),
            "{notes:?}"
        );
    }

    #[test]
    fn who_brings_definitions_creates_them() {
        let kind = Kind::of_watch(&watches()[0], Path::new(""), &[]);
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
    fn a_role_may_have_more_than_is_needed_but_not_less() {
        let role = |rules: Value| json!({"rules": rules});
        let rule =
            |resource: &str, verbs: &[&str]| json!({"apiGroups": ["apps"], "resources": [resource], "verbs": verbs});
        let made = role(json!([
            rule("deployments", &["get", "list"]),
            rule("roles", &["get", "bind", "escalate"])
        ]));
        let by_hand = role(json!([rule("*", &["get"]), rule("deployments", &["list", "watch"])]));
        assert_eq!(lacking(&made, &by_hand), [""; 0]);
        let mut named = rule("deployments", &["*"]);
        named["resourceNames"] = json!(["a"]);
        assert_eq!(
            lacking(&made, &role(json!([named, rule("roles", &["*"])]))),
            ["no rule lets the operator get, list deployments.apps"]
        );
    }

    #[test]
    fn the_role_for_the_own_namespace_is_that_of_this_project() {
        let [own, _] = own_role("chartwright", "chartwright");
        let mut written = Vec::new();
        for file in ["hmac_key_role.yaml", "leader_election_role.yaml"] {
            let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
                .join("config/rbac")
                .join(file);
            let role = go_yaml::to_json(&std::fs::read(path).unwrap()).unwrap();
            written.extend(role["rules"].as_array().unwrap().clone());
        }
        assert_eq!(own["rules"].as_array().unwrap(), &written);
        assert!(may_have_key(&written) && !may_have_key(&written[1..]) && !may_have_key(&written[..1]));
    }

    /// The tests of the operator run with the roles of `config/`, and fail if one of these rights is left out.
    #[test]
    fn the_roles_of_this_project_are_those_that_its_charts_need() {
        let rules = |role: &Value| role["rules"].as_array().unwrap().clone();
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let made = role(
            &surveys(root, &watches(), None).unwrap(),
            ROLE_NAME,
            RoleOptions::default(),
        );
        assert!(made.warnings.is_empty(), "{:?}", made.warnings);
        let generated = rules(&made.object);
        let mut written = Vec::new();
        for file in ["role.yaml", "charts_role.yaml"] {
            let text = std::fs::read(root.join("config/rbac").join(file)).unwrap();
            written.extend(rules(&go_yaml::to_json(&text).unwrap()));
        }
        let lacking = missing(&rights(&generated), &written);
        let needless = missing(&rights(&written), &generated);
        assert!(
            lacking.is_empty() && needless.is_empty(),
            "lacking {lacking:?}, needless {needless:?}"
        );
    }
}
