//! How to treat a member, from annotations that the chart or a user wrote.

use serde_json::Value;

use crate::annotations::{self, DRIFT, FORCE, RECONCILE, RESOURCE_POLICY, UPDATE, WAVE};
use chartwright_watches::DriftPolicy;

/// What happens to a member that exists when the chart renders it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub enum Update {
    /// Its fields are changed in place.
    #[default]
    InPlace,
    /// The same, and it is recreated if an immutable field changes.
    Recreate,
    /// It is made once and never changed.
    IfNotPresent,
}

/// The policies of one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize), serde(default))]
pub struct Policy {
    pub update: Update,
    /// Members of a lower wave are applied, and healthy, before those of a higher one.
    pub wave: i32,
    /// `helm.sh/resource-policy: keep`: it outlives its release.
    pub keep: bool,
    /// What happens to drift. `None`: what the watch says.
    pub drift: Option<DriftPolicy>,
}
impl Policy {
    /// Reads a rendered object. A value that means nothing has no effect, and comes back as a sentence about it.
    pub fn of(object: &Value) -> (Policy, Vec<String>) {
        let annotation = |key: &str| {
            let annotations = object.pointer("/metadata/annotations")?;
            annotations.get(key)?.as_str().map(str::trim)
        };
        let mut policy = Policy::default();
        let keys = object.pointer("/metadata/annotations").and_then(Value::as_object);
        let mut problems = annotations::unknown(keys.into_iter().flatten().map(|(key, _)| key.as_str()));
        let mut bad = |key: &str, value: &str, valid: &str| problems.push(annotations::bad_value(key, value, valid));
        match annotation(UPDATE) {
            None | Some("InPlace") => {}
            Some("Recreate") => policy.update = Update::Recreate,
            Some("IfNotPresent") => policy.update = Update::IfNotPresent,
            Some(other) => bad(UPDATE, other, "InPlace, Recreate or IfNotPresent"),
        }
        match annotation(FORCE) {
            None | Some("false") => {}
            Some("true") if policy.update == Update::IfNotPresent => {}
            Some("true") => policy.update = Update::Recreate,
            Some(other) => bad(FORCE, other, "\"true\" or \"false\""),
        }
        match annotation(RECONCILE) {
            None | Some("enabled" | "disabled") => {}
            Some(other) => bad(RECONCILE, other, "enabled or disabled"),
        }
        match annotation(DRIFT).map(|text| (text, DriftPolicy::NAMES.iter().find(|(name, _)| *name == text))) {
            None => {}
            Some((_, Some((_, drift)))) => policy.drift = Some(*drift),
            Some((text, None)) => bad(DRIFT, text, "correct, warn or ignore"),
        }
        match annotation(WAVE).map(|text| (text, text.parse())) {
            None => {}
            Some((_, Ok(wave))) => policy.wave = wave,
            Some((text, Err(_))) => bad(WAVE, text, "a whole number"),
        }
        policy.keep = annotation(RESOURCE_POLICY).is_some_and(|policy| policy.eq_ignore_ascii_case("keep"));
        (policy, problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use serde_json::json;

    #[test]
    fn annotations_make_a_policy() {
        for (annotations, expected) in table::<(Value, Policy)>("annotations", "policies") {
            let found = Policy::of(&json!({"metadata": {"annotations": annotations}}));
            assert_eq!(found, (expected, Vec::new()), "{annotations}");
        }
    }

    #[test]
    fn what_means_nothing_is_reported() {
        let object = json!({"metadata": {"annotations": {
            UPDATE: "Rekreate", FORCE: "yes", RECONCILE: "off", WAVE: "1.5", DRIFT: "off", "chartwright.dev/waves": "1",
        }}});
        let (policy, problems) = Policy::of(&object);
        assert_eq!(policy, Policy::default());
        assert_eq!(
            problems,
            [
                "chartwright.dev/waves is unknown and has no effect: did you mean chartwright.dev/wave?",
                "chartwright.dev/update: \"Rekreate\" has no effect: it must be InPlace, Recreate or IfNotPresent",
                "chartwright.dev/force: \"yes\" has no effect: it must be \"true\" or \"false\"",
                "chartwright.dev/reconcile: \"off\" has no effect: it must be enabled or disabled",
                "chartwright.dev/drift: \"off\" has no effect: it must be correct, warn or ignore",
                "chartwright.dev/wave: \"1.5\" has no effect: it must be a whole number",
            ]
        );
    }
}
