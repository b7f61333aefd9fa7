//! `escalate` and `bind`: rights with which the operator can get every other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::lists;
use crate::api::Kind;
use crate::survey::{RBAC, Survey, is_fixed};

/// Verbs on roles that let the operator create and bind them without having the rights that they grant.
pub(crate) const ESCALATING: [&str; 2] = ["escalate", "bind"];
/// Roles, namespaced and cluster-scoped.
pub(crate) const ROLES: [&str; 2] = ["roles", "clusterroles"];

/// The names that a rule is limited to, and its verbs.
type Limited<'r> = (Option<BTreeSet<String>>, Vec<&'r str>);

/// What a rule with `escalate` gives away, and the alternative.
pub(super) fn escalation(rule: &Value) -> Option<String> {
    if !lists(rule, "verbs", "escalate") {
        return None;
    }
    let texts = |field: &str| {
        let items = rule[field].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    let names = if rule["resourceNames"].is_null() {
        " of any name".to_owned()
    } else {
        format!(" {}", texts("resourceNames"))
    };
    Some(format!(
        "a chart creates roles, so the operator may {} {}{names}, which is as good as every right; to avoid it, give the operator \
         the rights that these roles grant, and remove these verbs",
        texts("verbs").replace(", ", " and "),
        texts("resources").replace(", ", " and "),
    ))
}

/// Who creates a role needs the rights that it grants, or `escalate`; who binds one, the same or `bind`. Both are limited to names
/// where all of them are the same in every release.
pub(super) fn escalating(kinds: &[(&Kind, &Survey)]) -> Vec<Value> {
    // What an account applies, it needs the rights for.
    let surveys = || {
        kinds
            .iter()
            .map(|(_, survey)| *survey)
            .filter(|survey| survey.watch.account.is_none())
    };
    let names = |of: fn(&Survey) -> &BTreeSet<(String, String)>, resource: &str| -> BTreeSet<String> {
        let all = surveys().flat_map(of).filter(|(found, _)| found == resource);
        all.map(|(_, name)| name.clone()).collect()
    };
    let mut rules: BTreeMap<(&str, Option<BTreeSet<String>>), Vec<&str>> = BTreeMap::new();
    for resource in ROLES {
        for (verb, names) in [
            ("bind", names(|survey| &survey.roles.bound, resource)),
            ("escalate", names(|survey| &survey.roles.made, resource)),
        ] {
            if !names.is_empty() {
                let names = names.iter().all(|name| is_fixed(name)).then_some(names);
                rules.entry((resource, names)).or_default().push(verb);
            }
        }
    }
    // One rule for what has the same names and verbs.
    let mut merged: BTreeMap<Limited<'_>, Vec<&str>> = BTreeMap::new();
    for ((resource, names), verbs) in rules {
        merged.entry((names, verbs)).or_default().push(resource);
    }
    let rule = |((names, verbs), resources)| match names {
        Some(names) => json!({"apiGroups": [RBAC], "resources": resources, "resourceNames": names, "verbs": verbs}),
        None => json!({"apiGroups": [RBAC], "resources": resources, "verbs": verbs}),
    };
    merged.into_iter().map(rule).collect()
}
