//! The rights of an operator whose releases have ServiceAccounts of their own (`serviceAccountName`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::chart_crds::{CRD_GROUP, CRDS};
use super::{grants, lists, no_rule};
use crate::survey::Survey;

pub(super) const ACCOUNTS: &str = "serviceaccounts";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// What the operator itself does with members that an account applies: it watches them.
pub(super) const WATCHED: [&str; 2] = ["list", "watch"];

/// What a release does with its members as an account.
const APPLIED: [&str; 5] = ["get", "list", "create", "patch", "delete"];
/// What a release does as an account with what it reads.
const READ: [&str; 2] = ["get", "list"];

/// The accounts of watches, as names or templates.
pub(crate) fn accounts<'s>(surveys: impl Iterator<Item = &'s Survey>) -> BTreeSet<&'s str> {
    surveys.filter_map(|survey| survey.watch.account.as_deref()).collect()
}

/// The rights to act as these accounts that no rule gives, one sentence for each account.
pub(crate) fn missing_accounts<'n>(names: impl IntoIterator<Item = &'n str>, rules: &[Value]) -> Vec<String> {
    let is_given = |name: &str| {
        // A user may know all names that a template makes.
        let is_of_name = |rule: &&Value| {
            rule["resourceNames"].is_null() || lists(rule, "resourceNames", name) || name.contains("{{")
        };
        rules.iter().filter(is_of_name).any(|rule| {
            grants(rule, "", ACCOUNTS, "impersonate")
                || grants(rule, AUTHENTICATION, ACCOUNTS, "impersonate:serviceaccount")
        })
    };
    let missing = names.into_iter().filter(|name| !is_given(name));
    missing
        .map(|name| format!("{} {name}", no_rule("", ACCOUNTS, ["impersonate"].into_iter())))
        .collect()
}

/// The rules to act as the accounts of the watches: by name, or as all accounts if a name is a template. `get` shows whether an account
/// exists.
pub(super) fn impersonating(surveys: &[&Survey]) -> Vec<Value> {
    let names = accounts(surveys.iter().copied());
    if names.is_empty() {
        return Vec::new();
    }
    let mut rule = json!({"apiGroups": [""], "resources": [ACCOUNTS], "verbs": ["get", "impersonate"]});
    if names.iter().all(|name| !name.contains("{{")) {
        rule["resourceNames"] = json!(names);
    }
    vec![rule]
}

/// Replaces the rule of [`impersonating`] by rules for constrained impersonation (KEP-5284): the operator may do as the accounts only what its
/// charts need. An API server that does not know these verbs refuses the requests.
pub(super) fn constrain(rules: &mut Vec<Value>, surveys: &[&Survey]) {
    let is_legacy = |rule: &Value| lists(rule, "verbs", "impersonate");
    let Some(at) = rules.iter().position(is_legacy) else {
        return;
    };
    let mut exists = rules.remove(at);
    let mut act = exists.clone();
    act["apiGroups"] = json!([AUTHENTICATION]);
    act["verbs"] = json!(["impersonate:serviceaccount"]);
    exists["verbs"] = json!(["get"]);
    let mut wanted: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for survey in surveys.iter().filter(|survey| survey.watch.account.is_some()) {
        let made = survey.made.iter().map(|resource| (resource, &APPLIED[..]));
        let read = survey.lookups.looked_up.iter().map(|resource| (resource, &READ[..]));
        for ((group, resource), verbs) in made.chain(read) {
            wanted.entry((group, resource)).or_default().extend(verbs);
        }
        for (group, resource, verbs) in &survey.watch.requested {
            let read = READ.into_iter().filter(|verb| verbs.contains(verb));
            wanted.entry((group, resource)).or_default().extend(read);
        }
        if survey.creates_crds() {
            let verbs = ["get", "create", "patch"];
            wanted.entry((CRD_GROUP, CRDS)).or_default().extend(verbs);
        }
    }
    let mut by_verbs: BTreeMap<(&str, Vec<String>), Vec<&str>> = BTreeMap::new();
    for ((group, resource), verbs) in wanted.into_iter().filter(|(_, verbs)| !verbs.is_empty()) {
        let verbs = verbs.iter().map(|verb| format!("impersonate-on:serviceaccount:{verb}"));
        by_verbs.entry((group, verbs.collect())).or_default().push(resource);
    }
    let on = by_verbs
        .into_iter()
        .map(|((group, verbs), resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs}));
    rules.splice(at..at, [exists, act].into_iter().chain(on));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::api::Kind;
    use crate::rights::rules_of;
    use crate::rights::tests::watches;
    use crate::survey::tests::chart;
    use chartwright_watches::{DeletionFallback, Watch};

    /// The rules on ConfigMaps and ServiceAccounts for a watch with an account.
    fn rules(account: Option<&str>, deletion_fallback: DeletionFallback) -> (Value, Vec<Value>) {
        let watch = Watch {
            service_account_name: account.map(str::to_owned),
            deletion_fallback,
            ..watches()[0].clone()
        };
        let kind = Kind::of_watch(&watch, Path::new(""), &[]);
        let made = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
        let survey = Survey::of(&chart("templates/a.yaml", made)).with(&watch);
        let rules = rules_of(&[(&kind, &survey)]);
        let verbs = |resource: &str| rules.iter().find(|rule| lists(rule, "resources", resource)).cloned();
        let accounts = rules.iter().filter(|rule| lists(rule, "resources", "serviceaccounts"));
        (
            verbs("configmaps").unwrap_or_default()["verbs"].clone(),
            accounts.cloned().collect(),
        )
    }

    #[test]
    fn an_operator_watches_what_an_account_applies() {
        let all = json!(["create", "delete", "get", "list", "patch", "watch"]);
        let named = json!({
            "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "impersonate"], "resourceNames": ["deployer"],
        });
        let any = json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "impersonate"]});
        for (account, fallback, verbs, accounts) in [
            (None, DeletionFallback::Wait, all.clone(), vec![]),
            (
                Some("deployer"),
                DeletionFallback::Wait,
                json!(["list", "watch"]),
                vec![named.clone()],
            ),
            (Some("deployer"), DeletionFallback::Operator, all, vec![named]),
            (
                Some("{{ .metadata.name }}"),
                DeletionFallback::Wait,
                json!(["list", "watch"]),
                vec![any],
            ),
        ] {
            assert_eq!(rules(account, fallback), (verbs, accounts), "{account:?} {fallback:?}");
        }
    }

    #[test]
    fn constrained_rules_name_what_is_done_as_the_account() {
        let watch = Watch {
            service_account_name: Some("deployer".to_owned()),
            ..watches()[0].clone()
        };
        let kind = Kind::of_watch(&watch, Path::new(""), &[]);
        let made = r#"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
{{- lookup "v1" "Secret" .Release.Namespace "a" }}"#;
        let survey = Survey::of(&chart("templates/a.yaml", made)).with(&watch);
        let mut rules = rules_of(&[(&kind, &survey)]);
        constrain(&mut rules, &[&survey]);
        let of_accounts = |rule: &&Value| {
            let verbs = rule["verbs"].to_string();
            verbs.contains("impersonate") || lists(rule, "resources", "serviceaccounts")
        };
        let found: Vec<&Value> = rules.iter().filter(of_accounts).collect();
        let on = |verbs: &[&str]| -> Vec<String> {
            let on = verbs.iter().map(|verb| format!("impersonate-on:serviceaccount:{verb}"));
            on.collect()
        };
        let names = ["deployer"];
        assert_eq!(
            json!(found),
            json!([
                {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get"], "resourceNames": names},
                {
                    "apiGroups": ["authentication.k8s.io"], "resources": ["serviceaccounts"],
                    "verbs": ["impersonate:serviceaccount"], "resourceNames": names,
                },
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": on(&["create", "delete", "get", "list", "patch"])},
                {"apiGroups": [""], "resources": ["secrets"], "verbs": on(&["get", "list"])},
            ])
        );
    }

    #[test]
    fn a_rule_for_the_account_is_enough_in_either_form() {
        let legacy = |names: &[&str]| json!({"apiGroups": [""], "resources": [ACCOUNTS], "verbs": ["impersonate"], "resourceNames": names});
        let constrained = json!({
            "apiGroups": [AUTHENTICATION], "resources": [ACCOUNTS], "verbs": ["impersonate:serviceaccount"], "resourceNames": ["b"],
        });
        let sentence = "no rule lets the operator impersonate serviceaccounts ";
        for (name, rules, expected) in [
            ("a", vec![legacy(&["a"])], None),
            ("b", vec![legacy(&["a"]), constrained], None),
            ("b", vec![legacy(&["a"])], Some("b")),
            ("{{ .metadata.name }}", vec![legacy(&["a"])], None),
            ("{{ .metadata.name }}", vec![], Some("{{ .metadata.name }}")),
        ] {
            let expected: Vec<String> = expected.iter().map(|name| format!("{sentence}{name}")).collect();
            assert_eq!(missing_accounts([name], &rules), expected, "{name} {rules:?}");
        }
    }
}
