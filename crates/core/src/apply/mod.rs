//! Decides the next step for each member: no request, a GET, an apply, or a refusal.

pub mod comparison;
pub mod member_outcome;
pub mod missing_rights;
pub mod schema_errors;
pub mod sequence;

use serde_json::{Map, Value};

use crate::identity::applyset::DIGEST_ANNOTATION;
use crate::identity::owner_references;
use crate::identity::ownership::{Owner, Ownership, ownership};
use crate::index::live::Live;
use crate::members::desired::Member;
use crate::members::owner;
use crate::members::policy::Update;
use crate::record::Entry;
use chartwright_watches::DriftPolicy;

/// What is known of the live object that a member would be.
#[derive(Clone, Debug)]
pub enum Seen<'a> {
    /// The watches don't show it. They show only objects with our labels, so a foreign one may be there.
    NotInIndex,
    /// It was read and does not exist.
    Absent,
    /// It exists, from the index or from a metadata GET.
    Present(&'a Live),
}

/// The next step for one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is as it should be: no request.
    Unchanged,
    /// A metadata GET is needed before it may be touched.
    Look,
    /// Server-side apply: with force to the very object that was seen, without to create one where nothing is. Who loses
    /// a race hears of a conflict, and looks again.
    Apply { force: bool, why: ApplyReason },
    /// Other clients changed it, and its drift stays: no request.
    Tolerate,
    /// It is ours, but its policy or an annotation excludes it from reconciles.
    Leave,
    /// It belongs to another owner, and its policy only requires that it exists.
    Yield,
    /// It is a Job that has done its work, and its TTL removed it: no request, and nothing is missing.
    Satisfied,
    /// It is being deleted and must be gone before it can be recreated.
    AwaitDeletion,
    /// It belongs to another owner and is not changed.
    Refuse(Ownership),
}

/// Why a member is applied; what events and logs call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyReason {
    Missing,
    Changed,
    /// Another field manager changed or removed a field that is ours.
    Drifted,
    /// It is ours by its labels though the record doesn't list it: an earlier reconcile was cut off.
    Unrecorded,
    /// It existed, no one owned it, and the watch lets the release take it.
    Unowned,
    /// It was made for an earlier custom resource of the same name.
    Adopted,
    /// It has no difference; a user requested the apply.
    Forced,
}

/// Decides the next step for one member.
pub fn step(member: &Member, entry: Option<&Entry>, seen: &Seen<'_>, owner: &Owner) -> Step {
    let has_finished = entry.is_some_and(|entry| entry.finished && entry.digest == member.digest);
    let live = match seen {
        Seen::NotInIndex | Seen::Absent if has_finished => return Step::Satisfied,
        Seen::NotInIndex => return Step::Look,
        Seen::Absent => {
            let (force, why) = (false, ApplyReason::Missing);
            return Step::Apply { force, why };
        }
        Seen::Present(live) => live,
    };
    let apply = |why| Step::Apply { force: true, why };
    let owned = ownership(&member.id, live, owner);
    match owned {
        Ownership::Ours if live.deleting && has_finished => Step::Satisfied,
        Ownership::Ours | Ownership::Predecessor | Ownership::Kept if live.deleting => Step::AwaitDeletion,
        Ownership::Ours | Ownership::Predecessor | Ownership::Kept if live.marks.disabled => Step::Leave,
        Ownership::Ours if member.policy.update == Update::IfNotPresent => Step::Leave,
        Ownership::Predecessor | Ownership::Kept => apply(ApplyReason::Adopted),
        Ownership::Ours => match entry {
            None => apply(ApplyReason::Unrecorded),
            Some(entry) if entry.uid != live.uid || entry.digest != member.digest => apply(ApplyReason::Changed),
            // The result of the last apply is unknown, so the difference is not drift.
            Some(entry) if entry.fingerprint.is_none() => apply(ApplyReason::Changed),
            Some(entry) if has_new_drift(entry, live, member.policy.drift.unwrap_or_default()) => {
                apply(ApplyReason::Drifted)
            }
            Some(_) if owner::has_wanted(member, live) => Step::Unchanged,
            Some(_) => apply(ApplyReason::Changed),
        },
        // Another client removed our label or our annotation. The record alone proves nothing, but together with our
        // entry in managedFields it shows that this very object was applied by us.
        Ownership::Foreign | Ownership::Copy
            if live.managers.fingerprint.is_some()
                && entry.is_some_and(|entry| entry.uid == live.uid)
                && !live.deleting =>
        {
            apply(ApplyReason::Drifted)
        }
        Ownership::Foreign | Ownership::Copy if member.policy.update == Update::IfNotPresent => {
            if live.deleting {
                Step::AwaitDeletion
            } else {
                Step::Yield
            }
        }
        other => Step::Refuse(other),
    }
}

/// True if a member differs from its render in another way than the record says.
fn has_new_drift(entry: &Entry, live: &Live, policy: DriftPolicy) -> bool {
    entry.fingerprint != live.managers.fingerprint
        || match &entry.drift {
            None => live.managers.is_undone,
            Some(drift) => drift.policy != policy || drift.others != live.managers.others,
        }
}

/// What is sent for a member: all of it with its owner reference, but for what is given up to an autoscaler.
pub fn content(member: &Member, live: Option<&Live>) -> Value {
    let mut object = member.object.clone();
    if let Some(owner) = owner::wanted(member, live) {
        owner_references::insert(&mut object, owner);
    }
    let scaled = live.is_some_and(|live| live.managers.scaled_by.is_some());
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut).filter(|_| scaled) {
        spec.remove("replicas");
    }
    object
}

/// Annotates an object with the digest of its content, so that a write of another operator of our name is noticed.
pub fn sign(object: &mut Value, digest: &str) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let annotations = metadata.map(|metadata| {
        metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(Map::new()))
    });
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.insert(DIGEST_ANNOTATION.into(), digest.into());
    }
}

/// True if a recorded member is live just as it was left: nothing to render, nothing to send.
pub fn is_as_recorded(entry: &Entry, live: Option<&Live>, owner: &Owner) -> bool {
    if entry.finished && live.is_none_or(|live| live.uid == entry.uid && live.deleting) {
        return !entry.digest.is_empty();
    }
    live.is_some_and(|live| {
        live.uid == entry.uid
            && !entry.digest.is_empty()
            && !live.deleting
            && (live.marks.disabled || live.managers.fingerprint.is_some() && is_left_alone(entry, live))
            // A kept object must not be deleted with its owner.
            && (live.marks.disabled || !live.marks.keep || live.ownership.owner.is_none())
            && ownership(&entry.id, live, owner) == Ownership::Ours
    })
}

/// True if no other client has changed a member since it was recorded, or its drift since.
fn is_left_alone(entry: &Entry, live: &Live) -> bool {
    let recorded = entry.drift.as_ref().map(|drift| drift.policy);
    !has_new_drift(entry, live, recorded.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::ObjectId;
    use crate::testing::{but, entry, id, live, member, owner, table, with};
    use serde_json::json;

    fn config() -> ObjectId {
        id("ConfigMap", "a")
    }

    #[derive(serde::Deserialize)]
    struct Case {
        situation: String,
        digest: String,
        update: Update,
        #[serde(default)]
        drift: DriftPolicy,
        /// How the entry and the live object differ from those of the member; null: there is none.
        entry: Value,
        live: Value,
        step: String,
        as_recorded: bool,
    }

    #[test]
    fn each_situation_has_its_step() {
        let member = member(&config());
        for case in table::<Case>("apply", "steps") {
            let situation = case.situation;
            let member = but(&member, |member| {
                member.digest = case.digest;
                member.policy.update = case.update;
                member.policy.drift = Some(case.drift);
            });
            let entry = (!case.entry.is_null()).then(|| with(&entry(&config()), &case.entry));
            let live = (!case.live.is_null()).then(|| with(&live(&config()), &case.live));
            let seen = live.as_ref().map_or(Seen::Absent, Seen::Present);
            let step = step(&member, entry.as_ref(), &seen, &owner());
            assert_eq!(format!("{step:?}"), case.step, "{situation}");
            let as_recorded = entry.is_some_and(|entry| is_as_recorded(&entry, live.as_ref(), &owner()));
            assert_eq!(as_recorded, case.as_recorded, "{situation}");
        }
    }

    #[test]
    fn what_no_watch_shows_is_looked_at_unless_it_is_a_job_that_is_done() {
        let next = |digest: &str, finished| {
            let member = but(&member(&config()), |member| member.digest = digest.into());
            let entry = but(&entry(&config()), |entry| entry.finished = finished);
            step(&member, Some(&entry), &Seen::NotInIndex, &owner())
        };
        assert_eq!((next("d", false), next("d", true)), (Step::Look, Step::Satisfied));
        assert_eq!(next("new", true), Step::Look);
    }

    #[test]
    fn what_an_autoscaler_owns_is_given_up() {
        let object = json!({"spec": {"replicas": 2, "paused": false}});
        let deployment = but(&member(&config()), |member| member.object = object.clone());
        let live = live(&config());
        let scaled = but(&live, |live| {
            live.managers.scaled_by = Some("kube-controller-manager".into())
        });
        assert_eq!(content(&deployment, Some(&scaled)), json!({"spec": {"paused": false}}));
        for live in [Some(&live), None] {
            assert_eq!(content(&deployment, live), object);
        }
    }

    #[test]
    fn a_member_gets_its_owner_reference_once_and_loses_it_when_it_is_to_be_kept() {
        let entry = entry(&config());
        for (refers, changes, expected) in table::<(bool, Value, String)>("apply", "owner_references") {
            let member = but(&member(&config()), |member| {
                member.object = json!({"metadata": {"name": "a"}});
                let reference = owner_references::reference("a.test/v1", "Shop", "web", "u1");
                member.owner = refers.then(|| reference.into());
            });
            let live = with(&live(&config()), &changes);
            let next = step(&member, Some(&entry), &Seen::Present(&live), &owner());
            assert_eq!(format!("{next:?}"), expected, "{refers} {changes}");
            let sent = content(&member, Some(&live));
            assert_eq!(
                sent["metadata"]["ownerReferences"].is_array(),
                refers && !live.marks.keep,
                "{changes}"
            );
            let is_left = live.marks.keep && live.ownership.owner.is_some();
            assert_eq!(is_as_recorded(&entry, Some(&live), &owner()), !is_left, "{changes}");
        }
    }
}
