//! What to do with each member: nothing, a look, an apply, or a refusal.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::applyset::DIGEST_ANNOTATION;
use super::desired::Member;
use super::members::Live;
use super::ownership::{Owner, Ownership, ownership};
use super::policy::Update;
use super::record::Entry;
use super::references;

/// What is known of the live object that a member would be.
#[derive(Clone, Debug)]
pub enum Seen<'a> {
    /// The watches don't show it. They show only objects with our labels, so a foreign one may be there.
    NotInIndex,
    /// It was asked for and does not exist.
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
    Apply { force: bool, why: Why },
    /// It is ours, and left as it is: its policy says so, or somebody who annotated it.
    Leave,
    /// It is somebody else's, and its policy asks only that it be there.
    Yield,
    /// It is a Job that has done its work, and its TTL removed it: no request, and nothing is missing.
    Satisfied,
    /// It is being deleted and must be gone before it can be made anew.
    AwaitDeletion,
    /// It is somebody else's: it stays untouched.
    Refuse(Ownership),
}

/// Why a member is applied; what events and logs call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Missing,
    Changed,
    /// Somebody changed or removed a field that is ours.
    Drifted,
    /// It is ours by its labels though the record doesn't list it: an earlier reconcile was cut off.
    Unrecorded,
    /// It was made for an earlier custom resource of the same name.
    Adopted,
    /// Nothing is wrong with it; somebody asked for it.
    Forced,
}

/// Decides the next step for one member.
pub fn step(member: &Member, entry: Option<&Entry>, seen: Seen<'_>, owner: &Owner) -> Step {
    let has_finished = entry.is_some_and(|entry| entry.finished && entry.digest == member.digest);
    let live = match seen {
        Seen::NotInIndex | Seen::Absent if has_finished => return Step::Satisfied,
        Seen::NotInIndex => return Step::Look,
        Seen::Absent => {
            return Step::Apply {
                force: false,
                why: Why::Missing,
            };
        }
        Seen::Present(live) => live,
    };
    let owned = ownership(&member.id, live, owner);
    match owned {
        Ownership::Ours if live.deleting && has_finished => Step::Satisfied,
        Ownership::Ours | Ownership::Predecessor if live.deleting => Step::AwaitDeletion,
        Ownership::Ours | Ownership::Predecessor if live.disabled => Step::Leave,
        Ownership::Ours if member.policy.update == Update::IfNotPresent => Step::Leave,
        Ownership::Predecessor => Step::Apply {
            force: true,
            why: Why::Adopted,
        },
        Ownership::Ours => match entry {
            Some(entry) if entry.uid == live.uid && entry.digest == member.digest => {
                let why = match entry.fingerprint {
                    // It is not certain what the last apply came to; nobody else is to blame.
                    None => Why::Changed,
                    recorded if recorded == live.fingerprint => match references::has_wanted(member, live) {
                        true => return Step::Unchanged,
                        false => Why::Changed,
                    },
                    Some(_) => Why::Drifted,
                };
                Step::Apply { force: true, why }
            }
            Some(_) => Step::Apply {
                force: true,
                why: Why::Changed,
            },
            None => Step::Apply {
                force: true,
                why: Why::Unrecorded,
            },
        },
        // Somebody took our label or our annotation off. The record alone proves nothing, but together with our
        // entry in managedFields it shows that this very object was applied by us.
        Ownership::Foreign | Ownership::Copy
            if live.fingerprint.is_some() && entry.is_some_and(|entry| entry.uid == live.uid) && !live.deleting =>
        {
            Step::Apply {
                force: true,
                why: Why::Drifted,
            }
        }
        Ownership::Foreign | Ownership::Copy if member.policy.update == Update::IfNotPresent => match live.deleting {
            true => Step::AwaitDeletion,
            false => Step::Yield,
        },
        other => Step::Refuse(other),
    }
}

/// What is sent for a member: all of it with its owner reference, but for what is given up to an autoscaler.
pub fn content<'m>(member: &'m Member, live: Option<&Live>) -> Cow<'m, Value> {
    let scaled = live.is_some_and(|live| live.scaled_by.is_some()) && member.object.pointer("/spec/replicas").is_some();
    let owner = references::wanted(member, live);
    if !scaled && owner.is_none() {
        return Cow::Borrowed(&member.object);
    }
    let mut object = member.object.clone();
    if let Some(owner) = owner {
        references::insert(&mut object, owner);
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut).filter(|_| scaled) {
        spec.remove("replicas");
    }
    Cow::Owned(object)
}

/// The object as it is written: with the digest that tells it from what another operator of our name writes.
pub fn signed(object: &Value, digest: &str) -> Value {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let annotations = metadata.map(|metadata| {
        metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(Map::new()))
    });
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.insert(DIGEST_ANNOTATION.into(), digest.into());
    }
    object
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
            && (live.disabled || live.fingerprint.is_some() && live.fingerprint == entry.fingerprint)
            // What somebody wants to be kept must not go with its owner.
            && (live.disabled || !live.keep || live.owner.is_none())
            && ownership(&entry.id, live, owner) == Ownership::Ours
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::identity::ObjectId;
    use crate::plan::testing::{but, entry, id, live, member, owner};
    use serde_json::json;

    fn config() -> ObjectId {
        id("ConfigMap", "a")
    }

    const CREATE: Step = Step::Apply {
        force: false,
        why: Why::Missing,
    };

    fn apply(why: Why) -> Step {
        Step::Apply { force: true, why }
    }

    #[test]
    fn each_situation_has_its_step() {
        let recorded = Some(entry(&config()));
        let uncertain = recorded
            .as_ref()
            .map(|entry| but(entry, |entry| entry.fingerprint = None));
        let ours = live(&config());
        let with = |change: fn(&mut Live)| Some(but(&ours, change));
        let unmark = |live: &mut Live| (live.part_of, live.tracking) = (None, None);
        let foreign = but(&ours, unmark);
        let stranger = but(&foreign, |live| live.fingerprint = None);
        let unowned = with(|live| live.fingerprint = None);
        let untracked = with(|live| live.tracking = None);
        let restored = with(|live| live.tracking = Some("u0:ConfigMap:shop/a".into()));
        let recreated = with(|live| live.uid = "o2".into());
        let unchanged = Some(ours.clone());
        let refused = Step::Refuse(Ownership::Foreign);
        for (situation, digest, entry, live, expected) in [
            ("unchanged", "d", &recorded, &unchanged, Step::Unchanged),
            ("new content", "e", &recorded, &unchanged, apply(Why::Changed)),
            (
                "a field taken",
                "d",
                &recorded,
                &with(|live| live.fingerprint = Some(8)),
                apply(Why::Drifted),
            ),
            ("all fields taken", "d", &recorded, &unowned, apply(Why::Drifted)),
            (
                "made anew, with our marks",
                "d",
                &recorded,
                &recreated,
                apply(Why::Changed),
            ),
            (
                "crashed before the record",
                "d",
                &None,
                &unchanged,
                apply(Why::Unrecorded),
            ),
            (
                "unknown what the apply came to",
                "d",
                &uncertain,
                &unchanged,
                apply(Why::Changed),
            ),
            ("the same, fields taken", "d", &uncertain, &unowned, apply(Why::Changed)),
            ("deleted by hand", "d", &recorded, &None, CREATE),
            (
                "being deleted",
                "d",
                &recorded,
                &with(|live| live.deleting = true),
                Step::AwaitDeletion,
            ),
            (
                "left alone",
                "e",
                &recorded,
                &with(|live| live.disabled = true),
                Step::Leave,
            ),
            ("restored from a backup", "d", &None, &restored, apply(Why::Adopted)),
            ("foreign", "d", &None, &Some(foreign.clone()), refused.clone()),
            (
                "foreign, though recorded",
                "d",
                &recorded,
                &Some(stranger),
                refused.clone(),
            ),
            (
                "foreign, to be left alone",
                "d",
                &None,
                &Some(but(&foreign, |live| live.disabled = true)),
                refused,
            ),
            ("its marks removed", "d", &recorded, &Some(foreign), apply(Why::Drifted)),
            (
                "its annotation removed",
                "d",
                &recorded,
                &untracked,
                apply(Why::Drifted),
            ),
            (
                "a copy of our labels",
                "d",
                &None,
                &untracked,
                Step::Refuse(Ownership::Copy),
            ),
        ] {
            let member = but(&member(&config()), |member| member.digest = digest.into());
            let seen = live.as_ref().map_or(Seen::Absent, Seen::Present);
            assert_eq!(step(&member, entry.as_ref(), seen, &owner()), expected, "{situation}");
        }
        let never_seen = step(&member(&config()), recorded.as_ref(), Seen::NotInIndex, &owner());
        assert_eq!(never_seen, Step::Look);
    }

    #[test]
    fn what_is_made_once_is_left_as_it_is() {
        let once = but(&member(&config()), |member| member.policy.update = Update::IfNotPresent);
        let drifted = but(&live(&config()), |live| live.fingerprint = None);
        let recorded = entry(&config());
        let step_of = |entry, seen| step(&once, entry, seen, &owner());
        assert_eq!(step_of(Some(&recorded), Seen::Present(&drifted)), Step::Leave);
        assert_eq!(step_of(Some(&recorded), Seen::Absent), CREATE);
        let foreign = Live::default();
        let others = but(&foreign, |live| live.part_of = Some("set-b".into()));
        let leaving = but(&foreign, |live| live.deleting = true);
        for (live, expected) in [
            (&foreign, Step::Yield),
            (&leaving, Step::AwaitDeletion),
            (&others, Step::Refuse(Ownership::OtherRelease("set-b".into()))),
        ] {
            assert_eq!(step_of(None, Seen::Present(live)), expected);
        }
    }

    #[test]
    fn a_finished_job_need_not_be_there() {
        let (member, live) = (member(&config()), live(&config()));
        let finished = but(&entry(&config()), |entry| entry.finished = true);
        let going = but(&live, |live| live.deleting = true);
        for seen in [Seen::NotInIndex, Seen::Absent, Seen::Present(&going)] {
            let next = step(&member, Some(&finished), seen.clone(), &owner());
            assert_eq!(next, Step::Satisfied, "{seen:?}");
        }
        let new = but(&member, |member| member.digest = "new".into());
        assert_eq!(step(&new, Some(&finished), Seen::NotInIndex, &owner()), Step::Look);
        let drifted = but(&live, |live| live.fingerprint = Some(8));
        for (live, expected) in [(None, true), (Some(&live), true), (Some(&drifted), false)] {
            assert_eq!(is_as_recorded(&finished, live, &owner()), expected, "{live:?}");
        }
    }

    #[test]
    fn what_an_autoscaler_owns_is_given_up() {
        let object = json!({"spec": {"replicas": 2, "paused": false}});
        let deployment = but(&member(&config()), |member| member.object = object.clone());
        let live = live(&config());
        let scaled = but(&live, |live| live.scaled_by = Some("kube-controller-manager".into()));
        let unscaled = json!({"spec": {"paused": false}});
        for (live, expected) in [
            (Some(&scaled), unscaled),
            (Some(&live), object.clone()),
            (None, object.clone()),
        ] {
            assert_eq!(*content(&deployment, live), expected, "{live:?}");
        }
    }

    #[test]
    fn a_member_gets_its_owner_reference_once_and_loses_it_when_it_is_to_be_kept() {
        let entry = entry(&config());
        let owned = but(&member(&config()), |member| {
            member.object = json!({"metadata": {"name": "a"}});
            member.owner = Some(references::reference("a.test/v1", "Shop", "web", "u1").into());
        });
        let unowned = but(&owned, |member| member.owner = None);
        let with = |owner: Option<&str>, keep| {
            but(&live(&config()), |live| {
                (live.owner, live.keep) = (owner.map(Into::into), keep)
            })
        };
        for (member, live, expected) in [
            (&owned, with(Some("a.test/v1"), false), Step::Unchanged),
            (&owned, with(None, false), apply(Why::Changed)),
            (&owned, with(Some("a.test/v1alpha1"), false), apply(Why::Changed)),
            (&owned, with(Some("a.test/v1"), true), apply(Why::Changed)),
            (&owned, with(None, true), Step::Unchanged),
            (&unowned, with(None, false), Step::Unchanged),
            (&unowned, with(Some("a.test/v1"), false), apply(Why::Changed)),
        ] {
            let next = step(member, Some(&entry), Seen::Present(&live), &owner());
            assert_eq!(next, expected, "{:?} {live:?}", member.owner);
            let sent = content(member, Some(&live));
            let owners = sent["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
            assert_eq!(owners, usize::from(member.owner.is_some() && !live.keep), "{live:?}");
            let is_left = live.keep && live.owner.is_some();
            assert_eq!(is_as_recorded(&entry, Some(&live), &owner()), !is_left, "{live:?}");
        }
    }

    #[test]
    fn a_record_whose_last_apply_failed_is_never_as_recorded() {
        let (entry, live) = (entry(&config()), live(&config()));
        let failed = but(&entry, |entry| entry.digest.clear());
        let others = but(&live, |live| live.tracking = Some("u2:ConfigMap:shop/a".into()));
        for (entry, live, expected) in [
            (&entry, Some(&live), true),
            (&failed, Some(&live), false),
            (&entry, None, false),
            (&entry, Some(&others), false),
        ] {
            assert_eq!(is_as_recorded(entry, live, &owner()), expected, "{entry:?} {live:?}");
        }
    }
}
