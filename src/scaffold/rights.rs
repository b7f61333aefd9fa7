//! The rights that an operator needs for its charts: the rules of its role.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::api::Kind;
use super::survey::{RBAC, Survey, plural_of};
use crate::plan::history::is_watched;
use crate::watches::Watch;
use crate::watches::sources::SourceKind;
use helm_template::chart::Chart;

/// Verbs on members. `patch` is server-side apply; it needs `create` as well where the object isn't there yet.
const MEMBER: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
/// Verbs on Secrets that the operator keeps something of a release in.
const KEEPING: [&str; 4] = ["get", "create", "patch", "delete"];

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
        notes.extend(cut_to_a_namespace(&mut rules));
    }
    let kind = if namespaced { "Role" } else { "ClusterRole" };
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules,
    });
    Ok(Role { object, notes })
}

/// Takes out what lies in no namespace, and says so.
fn cut_to_a_namespace(rules: &mut Vec<Value>) -> Vec<String> {
    let mut notes = Vec::new();
    for rule in rules.iter_mut() {
        // Roles of the cluster can be bound within a namespace.
        if rule.get("resourceNames").is_some() {
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
    use crate::scaffold::survey::tests::chart;

    /// Those of this project.
    fn watches() -> Vec<Watch> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read(folder.join("watches.yaml")).unwrap();
        let outside = crate::watches::Outside { folder, env: &|_| None };
        crate::watches::parse("watches.yaml", &text, &outside).unwrap().0
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
}
