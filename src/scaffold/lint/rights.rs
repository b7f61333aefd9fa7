//! The operator's rights in config/rbac, against what its watches and charts need.

use std::collections::BTreeSet;

use go_yaml::Node;
use serde_json::Value;

use super::examine::Examined;
use super::watches::Watched;
use super::yaml::{self, Document};
use super::{Report, join, rules};
use crate::scaffold::api::Kind;
use crate::scaffold::rights::{Rights, grants, may_have_key, missing, rights, rules_of, shown};
use crate::scaffold::survey::Survey;

const FOLDER: &str = "config/rbac";

pub(super) fn check(watched: &[Watched<'_>], charts: &[Examined], report: &mut Report) {
    let documents = listed(report);
    let bound = bound(&documents);
    let roles: Vec<&Document> = documents.iter().filter(|document| is_bound(document, &bound)).collect();
    let is_whole = |document: &&&Document| document.value["kind"] == "ClusterRole";
    // An operator without a role for the whole cluster has its rights in each of its namespaces, which aren't known here.
    let Some(first) = roles.iter().find(is_whole) else {
        return;
    };
    // Without every chart, nobody knows what is needed.
    let charts: Option<Vec<(&Kind, Survey)>> = watched
        .iter()
        .map(|one| {
            let chart = charts.iter().find(|chart| chart.folder == one.kind.chart)?;
            Some((&one.kind, chart.survey.clone().with(one.watch)))
        })
        .collect();
    let Some(charts) = charts else { return };
    let rules = |roles: &[&Document]| -> Vec<Value> {
        roles
            .iter()
            .flat_map(|role| rules_in(role).map(|(_, rule)| rule))
            .collect()
    };
    let given = rules(&roles);
    let in_namespaces: Vec<&Document> = roles.iter().filter(|role| !is_whole(role)).copied().collect();
    let has_key_role = may_have_key(&rules(&in_namespaces));
    let (needed, usable) = with_own(wanted(&charts), &given, has_key_role, takes_over(report));
    check_missing(&needed, &given, first, report);
    for role in roles.iter().filter(is_whole) {
        check_excess(&usable, role, report);
    }
}

/// True for a project of operator-sdk: its releases are taken over, and their Secrets read and deleted.
fn takes_over(report: &Report) -> bool {
    let project = std::fs::read_to_string(report.root.join("PROJECT")).unwrap_or_default();
    project.contains("helm.sdk.operatorframework.io")
}

/// What the operator needs with what it needs itself, and what it can make use of. Old roles are not made for it: Events of
/// the core group are as good as those of `events.k8s.io`, and the key may lie where all Secrets are open.
fn with_own(mut needed: Rights, given: &[Value], has_key_role: bool, takes_over: bool) -> (Rights, Rights) {
    let may = |group: &str, resource: &str, verb: &str| given.iter().any(|rule| grants(rule, group, resource, verb));
    let mut usable = needed.clone();
    let mut use_in_core = |resource: &str, verbs: &[&str]| {
        let known = usable.entry((String::new(), resource.to_owned())).or_default();
        known.extend(verbs.iter().map(|verb| (*verb).to_owned()));
    };
    if may("", "events", "create") && !may("events.k8s.io", "events", "create") {
        needed.remove(&("events.k8s.io".to_owned(), "events".to_owned()));
        use_in_core("events", &["create", "patch"]);
    }
    if !has_key_role {
        use_in_core("secrets", &["get", "create"]);
    }
    if takes_over {
        use_in_core(
            "secrets",
            &["get", "list", "watch", "create", "update", "patch", "delete", "*"],
        );
    }
    (needed, usable)
}

/// What lies in the folder and is applied.
fn listed(report: &Report) -> Vec<Document> {
    let file = join(FOLDER, "kustomization.yaml");
    let kustomization = yaml::read(&report.root, &file);
    let Some(kustomization) = kustomization.first() else {
        return yaml::read_folder(&report.root, FOLDER);
    };
    let names = yaml::items(yaml::at(&kustomization.root, &["resources"])).iter();
    names
        .filter_map(yaml::text)
        .flat_map(|name| yaml::read(&report.root, &join(FOLDER, name)))
        .collect()
}

/// Kind and name of the roles that a ServiceAccount is bound to.
fn bound(documents: &[Document]) -> BTreeSet<(String, String)> {
    let bindings = documents.iter().filter(|document| {
        let kind = document.value["kind"].as_str().unwrap_or_default();
        let subjects = document.value["subjects"].as_array();
        let mut subjects = subjects.into_iter().flatten();
        kind.ends_with("RoleBinding") && subjects.any(|subject| subject["kind"] == "ServiceAccount")
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    bindings
        .map(|binding| {
            let role = &binding.value["roleRef"];
            (text(&role["kind"]), text(&role["name"]))
        })
        .collect()
}

fn is_bound(document: &Document, bound: &BTreeSet<(String, String)>) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let value = &document.value;
    bound.contains(&(text(&value["kind"]), text(&value["metadata"]["name"])))
}

fn wanted(charts: &[(&Kind, Survey)]) -> Rights {
    let charts: Vec<(&Kind, &Survey)> = charts.iter().map(|(kind, survey)| (*kind, survey)).collect();
    rights(&rules_of(&charts))
}

/// The rules of a role, with their places.
fn rules_in(role: &Document) -> impl Iterator<Item = (&Node, Value)> {
    let rules = yaml::items(yaml::at(&role.root, &["rules"])).iter();
    let values = role.value["rules"].as_array().cloned().unwrap_or_default();
    rules.zip(values)
}

fn check_missing(wanted: &Rights, given: &[Value], first: &Document, report: &mut Report) {
    let at = yaml::at(&first.root, &["rules"]).map_or((1, 0), |rules| (rules.line, 0));
    let mut messages = missing(wanted, given);
    if !may_have_key(given) {
        messages.push(
            "no rule lets the operator create and get the Secret with its own key: it waits for that, and works on no release; \
             `chartwright generate rbac --own` writes the role"
                .to_owned(),
        );
    }
    for message in messages {
        report.add(rules::MISSING_RIGHT, first.file.as_str(), at, message);
    }
}

fn check_excess(wanted: &Rights, role: &Document, report: &mut Report) {
    for (node, rule) in rules_in(role) {
        if rule["resources"].is_null() || !rule["resourceNames"].is_null() {
            continue;
        }
        let groups = yaml::items(yaml::at(node, &["apiGroups"])).iter();
        for group in groups.filter_map(yaml::text) {
            for resource in yaml::items(yaml::at(node, &["resources"])) {
                let name = yaml::text(resource).unwrap_or_default();
                let needed = wanted.get(&(group.to_owned(), name.to_owned()));
                let is_needed = |verb: &str| needed.is_some_and(|verbs| verbs.contains(verb));
                let verbs = rule["verbs"].as_array().into_iter().flatten();
                let excess: Vec<&str> = verbs
                    .filter_map(Value::as_str)
                    .filter(|verb| !is_needed(verb))
                    .collect();
                if !excess.is_empty() {
                    let message = format!("nothing needs to {} {}", excess.join(", "), shown(group, name));
                    report.add(rules::EXCESS_RIGHT, role.file.as_str(), yaml::place(resource), message);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roles_that_were_made_for_helm_operator_are_used_as_they_are() {
        let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let new = rule("events.k8s.io", "events", &["create", "patch"]);
        let old = rule("", "events", &["create"]);
        let all_secrets = rule("", "secrets", &["*"]);
        let wanted = rights(std::slice::from_ref(&new));
        let is_lacking = |given: &[Value]| {
            let (needed, _) = with_own(wanted.clone(), given, true, false);
            !missing(&needed, given).is_empty()
        };
        assert!(is_lacking(&[]) && !is_lacking(&[new]) && !is_lacking(std::slice::from_ref(&old)));
        let uses = |resource: &str, verb: &str, has_key_role: bool, takes_over: bool| {
            let given = [old.clone(), all_secrets.clone()];
            let (_, usable) = with_own(wanted.clone(), &given, has_key_role, takes_over);
            let verbs = usable.get(&(String::new(), resource.to_owned()));
            verbs.is_some_and(|verbs| verbs.contains(verb))
        };
        assert!(uses("events", "create", true, false));
        for (verb, has_key_role, takes_over, expected) in [
            ("get", true, false, false),
            ("get", false, false, true),
            ("create", false, false, true),
            ("delete", false, false, false),
            ("*", false, false, false),
            ("delete", true, true, true),
            ("*", true, true, true),
        ] {
            assert_eq!(
                uses("secrets", verb, has_key_role, takes_over),
                expected,
                "{verb} {has_key_role} {takes_over}"
            );
        }
    }
}
