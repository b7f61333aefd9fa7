//! The rights of an operator whose releases have ServiceAccounts of their own (`serviceAccountName`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::survey::Survey;

/// What the operator itself does with members that an account applies: it watches them.
pub(super) const WATCHED: [&str; 2] = ["list", "watch"];
/// The rules to act as the accounts of the watches: by name, or as all accounts if a name is a template. `get` shows whether an account
/// exists.
pub(super) fn impersonating(surveys: &[&Survey]) -> Vec<Value> {
    let names: BTreeSet<&str> = surveys.iter().filter_map(|survey| survey.account.as_deref()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let mut rule = json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "impersonate"]});
    if names.iter().all(|name| !name.contains("{{")) {
        rule["resourceNames"] = json!(names);
    }
    vec![rule]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::api::Kind;
    use crate::rights::tests::watches;
    use crate::rights::{lists, rules_of};
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
            (Some("deployer"), DeletionFallback::Wait, json!(["list", "watch"]), vec![named.clone()]),
            (Some("deployer"), DeletionFallback::Operator, all, vec![named]),
            (Some("{{ .metadata.name }}"), DeletionFallback::Wait, json!(["list", "watch"]), vec![any]),
        ] {
            assert_eq!(rules(account, fallback), (verbs, accounts), "{account:?} {fallback:?}");
        }
    }
}
