//! The rights to replace live definitions by those of a chart's `crds/` folder.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{grants, lists, no_rule};
use crate::api::Kind;
use crate::survey::Survey;
use chartwright_watches::CrdPolicy;

/// Verbs on definitions that a chart's ones replace.
const REPLACING: [&str; 2] = ["get", "patch"];
pub(super) const CRD_GROUP: &str = "apiextensions.k8s.io";
pub(super) const CRDS: &str = "customresourcedefinitions";

/// The names of the definitions that watches replace (`crds: CreateReplace`) with the operator's rights.
pub(crate) fn replaced_crds<'s>(surveys: impl Iterator<Item = &'s Survey>) -> BTreeSet<&'s str> {
    let replacing =
        surveys.filter(|survey| survey.watch.crd_policy == CrdPolicy::CreateReplace && survey.watch.account.is_none());
    replacing
        .flat_map(|survey| &survey.crds.names)
        .map(String::as_str)
        .collect()
}

/// The rule to replace definitions: only those of the charts.
pub(super) fn replacing_crds(kinds: &[(&Kind, &Survey)]) -> Option<Value> {
    let names = replaced_crds(kinds.iter().map(|(_, survey)| *survey));
    (!names.is_empty())
        .then(|| json!({"apiGroups": [CRD_GROUP], "resources": [CRDS], "resourceNames": names, "verbs": REPLACING}))
}

/// The rights to replace definitions of these names that no rule gives, one sentence for each name.
pub(crate) fn missing_crds<'n>(names: impl IntoIterator<Item = &'n str>, rules: &[Value]) -> Vec<String> {
    let sentence = |name: &str| {
        let is_of_name = |rule: &&Value| rule["resourceNames"].is_null() || lists(rule, "resourceNames", name);
        let has = |verb: &str| {
            rules
                .iter()
                .filter(is_of_name)
                .any(|rule| grants(rule, CRD_GROUP, CRDS, verb))
        };
        let verbs: Vec<&str> = REPLACING.into_iter().filter(|verb| !has(verb)).collect();
        let sentence = no_rule(CRD_GROUP, CRDS, verbs.iter().copied());
        (!verbs.is_empty()).then(|| format!("{sentence} {name}"))
    };
    names.into_iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::rights::tests::watches;
    use crate::rights::{cut_to_a_namespace, lacking, rules_of};
    use crate::survey::tests::chart;
    use chartwright_watches::Watch;

    #[test]
    fn who_replaces_definitions_may_patch_those_alone() {
        let kind = Kind::of_watch(&watches()[0], Path::new(""), &[]);
        let definition =
            "{metadata: {name: shops.example.com}, spec: {group: example.com, names: {kind: Shop, plural: shops}}}";
        let survey = |crds| {
            let watch = Watch {
                crds,
                ..watches()[0].clone()
            };
            Survey::of(&chart("crds/shop.yaml", definition)).with(&watch)
        };
        let verbs = |rules: &[Value]| -> Vec<Value> {
            let of_crds = rules.iter().filter(|rule| lists(rule, "resources", CRDS));
            of_crds
                .map(|rule| json!([rule["resourceNames"], rule["verbs"]]))
                .collect()
        };
        let named = json!([["shops.example.com"], ["get", "patch"]]);
        for (policy, expected) in [
            (CrdPolicy::Create, vec![json!([null, ["create", "list", "watch"]])]),
            (
                CrdPolicy::CreateReplace,
                vec![json!([null, ["create", "list", "watch"]]), named],
            ),
            (CrdPolicy::Skip, vec![]),
        ] {
            let rules = rules_of(&[(&kind, &survey(policy))]);
            let found = verbs(&rules);
            // Without a chart's definitions, these rights stand in the rule of APIServices.
            let found: Vec<Value> = found
                .into_iter()
                .filter(|rule| *rule != json!([null, ["list", "watch"]]))
                .collect();
            assert_eq!(found, expected, "{policy:?}");
        }
        let role = |rules: &[Value]| json!({"rules": rules});
        let made = rules_of(&[(&kind, &survey(CrdPolicy::CreateReplace))]);
        let without = rules_of(&[(&kind, &survey(CrdPolicy::Create))]);
        assert_eq!(lacking(&role(&made), &role(&made)), [""; 0]);
        assert_eq!(
            lacking(&role(&made), &role(&without)),
            ["no rule lets the operator get, patch customresourcedefinitions.apiextensions.k8s.io shops.example.com"]
        );
        let mut cut = made.clone();
        cut_to_a_namespace(&mut cut);
        assert!(verbs(&cut).is_empty(), "{cut:?}");
    }
}
