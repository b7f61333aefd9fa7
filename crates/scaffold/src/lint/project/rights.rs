//! The operator's rights in config/rbac (or deploy/), against what its watches and charts need.

use std::collections::BTreeSet;

use go_yaml::Node;
use serde_json::Value;

use super::needs::Needs;
use super::watched::Watched;
use crate::api::Kind;
use crate::lint::chart::examine::Examined;
use crate::lint::report::{LintReport, join};
use crate::lint::rules;
use crate::lint::yaml::{self, Document};
use crate::rights::{ESCALATING, ROLES, denied, may_have_key, missing_accounts, missing_crds, no_rule};
use crate::survey::{RBAC, Survey};

const FOLDER: &str = "config/rbac";
/// Where projects of old versions of operator-sdk have the roles.
const OLD_FOLDER: &str = "deploy";

pub(in crate::lint) fn check(watched: &[Watched<'_>], examined: &[Examined], report: &mut LintReport) {
    let documents = listed(report);
    let bound = bound(&documents);
    let roles: Vec<&Document> = documents.iter().filter(|document| is_bound(document, &bound)).collect();
    roles.iter().for_each(|role| check_escalation(role, report));
    let is_whole = |document: &&&Document| document.value["kind"] == "ClusterRole";
    // An operator without a role for the whole cluster has its rights in each of its namespaces, which aren't known here.
    let Some(first) = roles.iter().find(is_whole) else {
        return;
    };
    // The needed rights are known only if every chart can be read.
    let charts: Option<Vec<(&Kind, Survey)>> = watched
        .iter()
        .map(|one| {
            let chart = examined.iter().find(|chart| one.is_of(chart))?;
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
    let needs = Needs::of(&charts, examined).with_own(&given, has_key_role, takes_over(report));
    check_missing(&needs, &given, first, report);
    for role in roles.iter().filter(is_whole) {
        check_excess(&needs, role, report);
    }
}

/// True for a project of operator-sdk: its releases are taken over, and their Secrets read and deleted.
fn takes_over(report: &LintReport) -> bool {
    let project = std::fs::read_to_string(report.root.join("PROJECT")).unwrap_or_default();
    project.contains("helm.sdk.operatorframework.io") || is_old(report)
}

/// True where the roles lie as versions of operator-sdk before 1.0 have them.
fn is_old(report: &LintReport) -> bool {
    !report.root.join(FOLDER).is_dir()
}

/// What lies in the folder and is applied.
fn listed(report: &LintReport) -> Vec<Document> {
    let file = join(FOLDER, "kustomization.yaml");
    let kustomization = yaml::read(&report.root, &file);
    let Some(kustomization) = kustomization.first() else {
        let folder = if is_old(report) { OLD_FOLDER } else { FOLDER };
        return yaml::read_folder(&report.root, folder);
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

/// The rules of a role, with their places.
fn rules_in(role: &Document) -> impl Iterator<Item = (&Node, Value)> {
    let rules = yaml::items(yaml::at(&role.root, &["rules"])).iter();
    let values = role.value["rules"].as_array().cloned().unwrap_or_default();
    rules.zip(values)
}

fn check_missing(needs: &Needs, given: &[Value], first: &Document, report: &mut LintReport) {
    let at = yaml::at(&first.root, &["rules"]).map_or((1, 0), |rules| (rules.line, 0));
    for ((group, resource), verbs) in denied(&needs.needed, given) {
        let optional = needs.optional(&group, &resource);
        let is_optional = |verb: &&str| optional.as_ref().is_some_and(|optional| optional.verbs.contains(verb));
        let (lost, required): (Vec<&str>, Vec<&str>) = verbs.iter().map(String::as_str).partition(is_optional);
        if !required.is_empty() {
            let message = no_rule(&group, &resource, required.into_iter());
            report.add(rules::MISSING_RIGHT, first.file.as_str(), at, message);
        }
        if let (Some(optional), false) = (&optional, lost.is_empty()) {
            let message = format!("{}: {}", no_rule(&group, &resource, lost.into_iter()), optional.loss);
            report.add(rules::OPTIONAL_RIGHT, first.file.as_str(), at, message);
        }
    }
    let of_crds = missing_crds(needs.crds.iter().map(String::as_str), given);
    let of_accounts = missing_accounts(needs.accounts.iter().map(String::as_str), given);
    for message in of_crds.into_iter().chain(of_accounts) {
        report.add(rules::MISSING_RIGHT, first.file.as_str(), at, message);
    }
    if !may_have_key(given) {
        let message = "no rule lets the operator create and get the Secret with its own key: it waits for that, and works on no \
                       release; `chartwright generate rbac --own` writes the role";
        report.add(rules::MISSING_RIGHT, first.file.as_str(), at, message);
    }
}

/// Rules that let the operator have any right: `escalate` and `bind` on roles of any name.
fn check_escalation(role: &Document, report: &mut LintReport) {
    for (node, rule) in rules_in(role) {
        let texts = |field: &str| {
            let items = rule[field].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).collect::<Vec<_>>()
        };
        let is_of_rbac = texts("apiGroups").iter().any(|group| [RBAC, "*"].contains(group));
        let is_of_roles = |resource: &&str| ROLES.contains(resource) || *resource == "*";
        let resources: Vec<&str> = texts("resources").into_iter().filter(is_of_roles).collect();
        let is_escalating = |verb: &&str| ESCALATING.contains(verb) || *verb == "*";
        let verbs: Vec<&str> = texts("verbs").into_iter().filter(is_escalating).collect();
        if !is_of_rbac || resources.is_empty() || verbs.is_empty() || !texts("resourceNames").is_empty() {
            continue;
        }
        let at = yaml::at(node, &["verbs"]).map_or((node.line, 0), yaml::place);
        let message = format!(
            "the operator may {} {} of any name",
            verbs.join(" and "),
            resources.join(" and ")
        );
        report.add(rules::ROLE_ESCALATION, role.file.as_str(), at, message);
    }
}

fn check_excess(needs: &Needs, role: &Document, report: &mut LintReport) {
    for (node, rule) in rules_in(role) {
        if rule["resources"].is_null() || !rule["resourceNames"].is_null() {
            continue;
        }
        let groups = yaml::items(yaml::at(node, &["apiGroups"])).iter();
        for group in groups.filter_map(yaml::text) {
            for resource in yaml::items(yaml::at(node, &["resources"])) {
                let name = yaml::text(resource).unwrap_or_default();
                let verbs = rule["verbs"].as_array().into_iter().flatten();
                let verbs: Vec<&str> = verbs.filter_map(Value::as_str).collect();
                if let Some(message) = needs.excess(group, name, &verbs) {
                    report.add(rules::EXCESS_RIGHT, role.file.as_str(), yaml::place(resource), message);
                }
            }
        }
    }
}
