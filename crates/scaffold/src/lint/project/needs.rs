//! Which rights an operator needs, which of them it can do without, and which are too much.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::Kind;
use crate::lint::chart::examine::Examined;
use crate::rights::{ESCALATING, MEMBER, Rights, accounts, grants, replaced_crds, rights, rules_of, shown};
use crate::survey::{RBAC, Survey};

/// Rights that an operator may need: for leader election, and for `--metrics-require-rbac`, or kube-rbac-proxy under the same
/// account.
const OWN: [(&str, &str, &[&str]); 3] = [
    ("coordination.k8s.io", "leases", &["get", "create", "update"]),
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
];

/// What is needed, and of what the operator only does less without it.
#[derive(Default)]
pub(in crate::lint) struct Needs {
    /// What no role may lack.
    pub(in crate::lint) needed: Rights,
    /// What is no excess: what is needed, and what old roles have in its place.
    pub(in crate::lint) usable: Rights,
    /// Members that only values make which neither the chart, nor a watch, nor a sample has.
    unusual: BTreeSet<(String, String)>,
    looked_up: BTreeSet<(String, String)>,
    listed: BTreeSet<(String, String)>,
    /// The names of the definitions that the operator replaces.
    pub(in crate::lint) crds: BTreeSet<String>,
    /// The ServiceAccounts that the operator acts as: names or templates.
    pub(in crate::lint) accounts: BTreeSet<String>,
}

/// Verbs without which the operator works.
pub(in crate::lint) struct Optional {
    pub(in crate::lint) verbs: Vec<&'static str>,
    /// What it doesn't do without them.
    pub(in crate::lint) loss: &'static str,
}

impl Needs {
    pub(in crate::lint) fn of(charts: &[(&Kind, Survey)], examined: &[Examined]) -> Self {
        let kinds: Vec<(&Kind, &Survey)> = charts.iter().map(|(kind, survey)| (*kind, survey)).collect();
        // What a chart makes that no values render is all that is known of it.
        let usual = |examined: &Examined| {
            if examined.usual.is_empty() {
                examined.survey.made.clone()
            } else {
                examined.usual.clone()
            }
        };
        let usual: BTreeSet<(String, String)> = examined.iter().flat_map(usual).collect();
        let surveys = || charts.iter().map(|(_, survey)| survey);
        let is_requested = |resource: &(String, String)| {
            let mut requested = surveys().flat_map(|survey| &survey.watch.requested);
            requested.any(|(group, name, _)| (group, name) == (&resource.0, &resource.1))
        };
        let is_not_requested = |resource: &&(String, String)| !is_requested(resource);
        let unusual = surveys().flat_map(|survey| survey.made.difference(&usual));
        let looked_up = surveys().flat_map(|survey| &survey.lookups.looked_up);
        let mut needed = rights(&rules_of(&kinds));
        // Impersonation has two forms and is checked by name.
        for verbs in needed.values_mut() {
            verbs.remove("impersonate");
        }
        Needs {
            usable: needed.clone(),
            needed,
            crds: replaced_crds(surveys()).into_iter().map(str::to_owned).collect(),
            accounts: accounts(surveys()).into_iter().map(str::to_owned).collect(),
            unusual: unusual.filter(is_not_requested).cloned().collect(),
            looked_up: looked_up.filter(is_not_requested).cloned().collect(),
            listed: surveys().flat_map(|survey| survey.lookups.listed.clone()).collect(),
        }
    }

    /// Adds the rights that the operator needs itself. Older roles are accepted: Events of the core group instead of
    /// `events.k8s.io`, and a right on all Secrets instead of one on the key.
    pub(in crate::lint) fn with_own(mut self, given: &[Value], has_key_role: bool, takes_over: bool) -> Self {
        let may =
            |group: &str, resource: &str, verb: &str| given.iter().any(|rule| grants(rule, group, resource, verb));
        for (group, resource, verbs) in OWN {
            self.make_usable(group, resource, verbs);
        }
        if may("", "events", "create") && !may("events.k8s.io", "events", "create") {
            self.needed.remove(&("events.k8s.io".to_owned(), "events".to_owned()));
            self.make_usable("", "events", &["create", "patch"]);
        }
        if !self.crds.is_empty() {
            self.make_usable("apiextensions.k8s.io", "customresourcedefinitions", &["get", "patch"]);
        }
        if !has_key_role {
            self.make_usable("", "secrets", &["get", "create"]);
        }
        if takes_over {
            let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "*"];
            self.make_usable("", "secrets", &verbs);
        }
        self
    }

    fn make_usable(&mut self, group: &str, resource: &str, verbs: &[&str]) {
        let known = self.usable.entry((group.to_owned(), resource.to_owned())).or_default();
        known.extend(verbs.iter().map(|verb| (*verb).to_owned()));
    }

    /// What of a needed right the operator can do without, and what that costs.
    pub(in crate::lint) fn optional(&self, group: &str, resource: &str) -> Option<Optional> {
        let key = (group.to_owned(), resource.to_owned());
        let needed = self.needed.get(&key)?;
        let is_made = needed.contains("patch") && needed.contains("delete");
        let optional = |verbs: &[&'static str], loss| {
            let verbs = verbs.to_vec();
            Some(Optional { verbs, loss })
        };
        if self.unusual.contains(&key) {
            let loss = "the chart makes such an object only with other values than its own and the samples', and a release \
                        with such values stops with Forbidden";
            return optional(&[&MEMBER[..], &ESCALATING].concat(), loss);
        }
        match (group, resource) {
            ("events.k8s.io", "events") => {
                optional(&["create", "patch"], "no Events are written about custom resources")
            }
            (RBAC, _) if is_made => {
                let loss = "it can create only roles that grant nothing beyond its own rights";
                optional(&ESCALATING, loss)
            }
            _ if is_made => None,
            ("", "pods/log") => optional(
                &["get"],
                "the status does not show the last lines of a failed hook's log",
            ),
            ("", "events") => optional(
                &["list"],
                "the status does not say why pods cannot be created or claims stay pending",
            ),
            ("", "pods") if needed.len() == 1 => {
                optional(&["list"], "the status does not say why a workload is not ready")
            }
            ("autoscaling", "horizontalpodautoscalers") => optional(
                &["list"],
                "replicas that an autoscaler had set stay as they are when it is gone",
            ),
            ("apiextensions.k8s.io", "customresourcedefinitions") | ("apiregistration.k8s.io", "apiservices") => {
                optional(&["list", "watch"], "new kinds are noticed after up to 30 seconds")
            }
            _ if self.looked_up.contains(&key) => {
                let loss = "a release whose templates look it up is rendered at every reconcile";
                if self.listed.contains(&key) {
                    optional(&["watch"], loss)
                } else {
                    optional(&["list", "watch"], loss)
                }
            }
            _ => None,
        }
    }

    /// What a rule gives beyond what is needed.
    pub(in crate::lint) fn excess(&self, group: &str, resource: &str, verbs: &[&str]) -> Option<String> {
        let usable = self.usable.get(&(group.to_owned(), resource.to_owned()));
        let usable: Vec<&str> = usable.into_iter().flatten().map(String::as_str).collect();
        let is_impersonation = |verb: &str| !self.accounts.is_empty() && verb.starts_with("impersonate");
        let is_excess = |verb: &&str| !usable.contains(verb) && !is_impersonation(verb);
        let excess: Vec<&str> = verbs.iter().copied().filter(is_excess).collect();
        let shown = match (group, resource) {
            ("*", "*") => "every resource".to_owned(),
            _ => shown(group, resource),
        };
        match (excess.as_slice(), usable.as_slice()) {
            ([], _) => None,
            (_, []) => Some(format!("nothing needs to {} {shown}", verbs.join(", "))),
            (["*"], usable) => Some(format!(
                "nothing needs every verb on {shown}, only {}",
                usable.join(", ")
            )),
            (excess, _) => Some(format!("nothing needs to {} {shown}", excess.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rights::missing;

    fn needs(wanted: &Rights) -> Needs {
        Needs {
            needed: wanted.clone(),
            usable: wanted.clone(),
            ..Needs::default()
        }
    }

    #[test]
    fn roles_that_were_made_for_helm_operator_are_used_as_they_are() {
        let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let new = rule("events.k8s.io", "events", &["create", "patch"]);
        let old = rule("", "events", &["create"]);
        let all_secrets = rule("", "secrets", &["*"]);
        let wanted = rights(std::slice::from_ref(&new));
        let is_lacking = |given: &[Value]| {
            let needs = needs(&wanted).with_own(given, true, false);
            !missing(&needs.needed, given).is_empty()
        };
        assert!(is_lacking(&[]) && !is_lacking(&[new]) && !is_lacking(std::slice::from_ref(&old)));
        let uses = |resource: &str, verb: &str, has_key_role: bool, takes_over: bool| {
            let given = [old.clone(), all_secrets.clone()];
            let needs = needs(&wanted).with_own(&given, has_key_role, takes_over);
            let verbs = needs.usable.get(&(String::new(), resource.to_owned()));
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
