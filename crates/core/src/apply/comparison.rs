//! Compares a live member with its render: which drift is corrected, which stays, and which fields are left to others.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use super::{ApplyReason, Step, content, sign};
use crate::digest::Key;
use crate::drift::field_path::FieldPath;
use crate::drift::tolerated::ToleratedDrift;
use crate::drift::{DriftedField, drifted_fields};
use crate::index::live::Live;
use crate::members::desired::Member;
use crate::members::immutable_fields;
use crate::record::Entry;
use chartwright_watches::DriftPolicy;

/// What is compared.
#[derive(Clone, Copy)]
pub struct ComparedMember<'a> {
    pub member: &'a Member,
    pub entry: Option<&'a Entry>,
    pub live: &'a Live,
    /// The complete `managedFields` of the live object.
    pub managed: &'a [ManagedFieldsEntry],
    /// The operator's field manager.
    pub manager: &'a str,
    /// Fields that `kubectl rollout undo` brought back.
    pub brought_back: &'a [DriftedField],
    /// True if another client enlarged a claim.
    pub is_enlarged: bool,
    /// True if a `force-at` request corrects all drift.
    pub is_forced: bool,
    /// The key of the release's digests.
    pub key: &'a Key,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberComparison {
    pub step: Step,
    /// Drift that this step corrects.
    pub corrected: Vec<DriftedField>,
    /// Drift that stays.
    pub tolerated: Option<ToleratedDrift>,
    /// True if our field manager wrote another content: a second operator runs.
    pub has_other_operator: bool,
    /// Fields of the rendered object that are not applied.
    pub left_out: Vec<FieldPath>,
    /// True if the operator must give up ignored fields before the apply, which would remove them.
    pub gives_up: bool,
}

/// Compares a live member with its render. `step`: the next step as far as the record and the fingerprint show.
pub fn compare(compared: &ComparedMember<'_>, step: Step) -> MemberComparison {
    let ComparedMember {
        member,
        managed,
        manager,
        ..
    } = *compared;
    let ignored = member.ignored.as_deref();
    let mut result = MemberComparison {
        step,
        corrected: Vec::new(),
        tolerated: None,
        has_other_operator: false,
        left_out: ignored.map_or_else(Vec::new, |ignored| ignored.places(&member.object, managed, manager)),
        gives_up: ignored.is_some_and(|ignored| ignored.released(managed, manager, &member.object).is_some()),
    };
    let is_drift = matches!(
        result.step,
        Step::Apply {
            why: ApplyReason::Drifted,
            ..
        }
    );
    if is_drift || compared.entry.is_some_and(|entry| entry.drift.is_some()) {
        weigh_drift(compared, is_drift, &mut result);
    }
    result
}

/// Decides about each drifted field.
fn weigh_drift(compared: &ComparedMember<'_>, is_drift: bool, result: &mut MemberComparison) {
    let ComparedMember { member, live, key, .. } = *compared;
    let all = all_drift(compared);
    result.has_other_operator = is_drift && all.is_empty() && live.managers.fingerprint.is_some();
    let drifted: Vec<DriftedField> = all
        .iter()
        .filter(|field| !is_given_up(compared, field) && !is_ignored(field, &result.left_out))
        .cloned()
        .collect();
    if is_drift && !all.is_empty() && drifted.is_empty() {
        result.step = Step::Unchanged;
        return;
    }
    let policy = member.policy.drift.unwrap_or_default();
    if policy == DriftPolicy::Correct || compared.is_forced {
        result.corrected = drifted;
        return;
    }
    let (tolerated, mut corrected): (Vec<_>, Vec<_>) = drifted.into_iter().partition(|field| {
        let is_mark = field.at.as_ref().is_some_and(FieldPath::is_mark);
        let known = compared.entry.and_then(|entry| entry.drift.as_ref());
        let is_known = || known.is_some_and(|drift| drift.covers(field, &member.object, key));
        !is_mark && (is_drift || is_known())
    });
    if !is_drift {
        corrected.clear();
    } else if corrected.is_empty() && !tolerated.is_empty() {
        result.step = Step::Tolerate;
    }
    result
        .left_out
        .extend(tolerated.iter().filter_map(|field| field.at.clone()));
    result.tolerated = (!tolerated.is_empty()).then(|| ToleratedDrift::new(policy, &tolerated, &member.object, key));
    result.corrected = corrected;
}

/// All fields of the render that are no longer ours, and what an undone rollout brought back.
fn all_drift(compared: &ComparedMember<'_>) -> Vec<DriftedField> {
    // An autoscaler's replicas are a field of the render, too.
    let mut unscaled = compared.live.clone();
    unscaled.managers.scaled_by = None;
    let mut object = content(compared.member, Some(&unscaled));
    sign(&mut object, &compared.member.digest);
    let mut drifted = drifted_fields(&object, compared.managed, compared.manager);
    drifted.extend_from_slice(compared.brought_back);
    drifted.sort();
    drifted.dedup();
    drifted
}

/// True for what an autoscaler or the owner of a claim sets.
fn is_given_up(compared: &ComparedMember<'_>, field: &DriftedField) -> bool {
    match field.field.as_str() {
        "spec.replicas" => compared.live.managers.scaled_by.is_some(),
        immutable_fields::CLAIM_SIZE => compared.is_enlarged,
        _ => false,
    }
}

fn is_ignored(field: &DriftedField, ignored: &[FieldPath]) -> bool {
    let at = field.at.as_ref();
    at.is_some_and(|at| ignored.iter().any(|path| path.covers(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::field_path::without;
    use crate::drift::ignored::IgnoredFields;
    use crate::testing::{Managed, but, entry, id, live, managed_fields, member, table};
    use chartwright_watches::FieldPointer;
    use serde_json::{Value, json};
    use std::sync::Arc;

    const OURS: &str = "chartwright";

    #[derive(serde::Deserialize)]
    struct Case {
        situation: String,
        policy: DriftPolicy,
        why: String,
        object: Value,
        /// The render with which the recorded drift was found; absent: none is recorded.
        recorded: Option<Value>,
        #[serde(default)]
        ignored: Vec<String>,
        entries: Vec<Managed>,
        #[serde(default)]
        is_forced: bool,
        step: String,
        #[serde(default)]
        corrected: Vec<String>,
        #[serde(default)]
        tolerated: Vec<String>,
        applied: Value,
    }

    #[test]
    fn each_difference_is_corrected_or_left() {
        let key = Key::new([1; 32]);
        for case in table::<Case>("differences", "compared") {
            let id = id("ConfigMap", "a");
            let pointers: Vec<_> = case
                .ignored
                .iter()
                .map(|text| FieldPointer::parse(text).unwrap())
                .collect();
            let member = but(&member(&id), |member| {
                member.object = case.object.clone();
                member.policy.drift = Some(case.policy);
                member.ignored = (!pointers.is_empty()).then(|| {
                    let managers = Vec::new();
                    Arc::new(IgnoredFields { pointers, managers })
                });
            });
            let mut managed = managed_fields(case.entries);
            // The marks are the operator's, unless the case says otherwise.
            if let Some(fields) = managed.first_mut().and_then(|entry| entry.fields_v1.as_mut())
                && fields.0.get("f:metadata").is_none()
            {
                fields.0["f:metadata"] = json!({"f:annotations": {"f:chartwright.dev/applied-digest": {}}});
            }
            let entry = but(&entry(&id), |entry| {
                entry.drift = case.recorded.as_ref().map(|before| {
                    let drifted = drifted_fields(before, &managed, OURS);
                    Box::new(ToleratedDrift::new(DriftPolicy::Warn, &drifted, before, &key))
                });
            });
            let compared = ComparedMember {
                member: &member,
                entry: Some(&entry),
                live: &live(&id),
                managed: &managed,
                manager: OURS,
                brought_back: &[],
                is_enlarged: false,
                is_forced: case.is_forced,
                key: &key,
            };
            let why = if case.why == "Drifted" {
                ApplyReason::Drifted
            } else {
                ApplyReason::Changed
            };
            let found = compare(&compared, Step::Apply { force: true, why });
            let situation = case.situation;
            assert_eq!(format!("{:?}", found.step), case.step, "{situation}");
            let texts: Vec<String> = found.corrected.iter().map(DriftedField::to_string).collect();
            assert_eq!(texts, case.corrected, "{situation}");
            let texts: Vec<String> = found.tolerated.iter().flat_map(ToleratedDrift::texts).collect();
            assert_eq!(texts, case.tolerated, "{situation}");
            assert_eq!(without(&member.object, &found.left_out), case.applied, "{situation}");
        }
    }
}
