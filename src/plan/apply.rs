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
    use crate::plan::applyset;
    use crate::plan::desired::Stage;
    use crate::plan::identity::{GroupKind, ObjectId};
    use crate::plan::policy::Policy;

    fn owner() -> Owner {
        Owner {
            uid: "u1".into(),
            set: "set-a".into(),
        }
    }

    fn id() -> ObjectId {
        ObjectId::new(GroupKind::new("", "ConfigMap"), "shop", "a")
    }

    fn member(digest: &str) -> Member {
        Member {
            id: id(),
            version: "v1".into(),
            stage: Stage::Objects,
            object: serde_json::Value::Null,
            source: "t.yaml".into(),
            digest: digest.into(),
            policy: Policy::default(),
            owner: None,
        }
    }

    fn entry() -> Entry {
        Entry {
            id: id(),
            version: "v1".into(),
            uid: "o1".into(),
            wave: 0,
            digest: "d".into(),
            fingerprint: Some(7),
            finished: false,
        }
    }

    fn live(owner_uid: &str) -> Live {
        Live {
            uid: "o1".into(),
            part_of: Some("set-a".into()),
            tracking: Some(applyset::tracking_id(owner_uid, &id().group_kind, "shop", "a")),
            fingerprint: Some(7),
            ..Live::default()
        }
    }

    #[test]
    fn each_situation_has_its_step() {
        let apply = |force, why| Step::Apply { force, why };
        let ours = live("u1");
        let drifted = Live {
            fingerprint: Some(8),
            ..live("u1")
        };
        let unowned = Live {
            fingerprint: None,
            ..live("u1")
        };
        let recreated = Live {
            uid: "o2".into(),
            ..live("u1")
        };
        let dying = Live {
            deleting: true,
            ..live("u1")
        };
        let restored = live("u0");
        let foreign = Live {
            part_of: None,
            tracking: None,
            ..live("u1")
        };
        let stranger = Live {
            fingerprint: None,
            ..foreign.clone()
        };
        let untracked = Live {
            tracking: None,
            ..live("u1")
        };
        let cases = [
            ("unchanged", "d", true, Seen::Present(&ours), Step::Unchanged),
            (
                "new content",
                "e",
                true,
                Seen::Present(&ours),
                apply(true, Why::Changed),
            ),
            (
                "a field was taken",
                "d",
                true,
                Seen::Present(&drifted),
                apply(true, Why::Drifted),
            ),
            (
                "all fields were taken",
                "d",
                true,
                Seen::Present(&unowned),
                apply(true, Why::Drifted),
            ),
            (
                "recreated by somebody with our marks",
                "d",
                true,
                Seen::Present(&recreated),
                apply(true, Why::Changed),
            ),
            (
                "crashed before the record",
                "d",
                false,
                Seen::Present(&ours),
                apply(true, Why::Unrecorded),
            ),
            ("never seen", "d", true, Seen::NotInIndex, Step::Look),
            ("deleted by hand", "d", true, Seen::Absent, apply(false, Why::Missing)),
            ("being deleted", "d", true, Seen::Present(&dying), Step::AwaitDeletion),
            (
                "restored from a backup",
                "d",
                false,
                Seen::Present(&restored),
                apply(true, Why::Adopted),
            ),
            (
                "foreign",
                "d",
                false,
                Seen::Present(&foreign),
                Step::Refuse(Ownership::Foreign),
            ),
            (
                "foreign, though recorded",
                "d",
                true,
                Seen::Present(&stranger),
                Step::Refuse(Ownership::Foreign),
            ),
            (
                "its marks were removed",
                "d",
                true,
                Seen::Present(&foreign),
                apply(true, Why::Drifted),
            ),
            (
                "its annotation was removed",
                "d",
                true,
                Seen::Present(&untracked),
                apply(true, Why::Drifted),
            ),
            (
                "a copy of our labels",
                "d",
                false,
                Seen::Present(&untracked),
                Step::Refuse(Ownership::Copy),
            ),
        ];
        for (name, digest, recorded, seen, expected) in cases {
            let entry = recorded.then(entry);
            assert_eq!(
                step(&member(digest), entry.as_ref(), seen, &owner()),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn what_an_apply_came_to_is_not_guessed() {
        let uncertain = Entry {
            fingerprint: None,
            ..entry()
        };
        let unowned = Live {
            fingerprint: None,
            ..live("u1")
        };
        for live in [live("u1"), unowned] {
            assert_eq!(
                step(&member("d"), Some(&uncertain), Seen::Present(&live), &owner()),
                Step::Apply {
                    force: true,
                    why: Why::Changed
                }
            );
        }
    }

    #[test]
    fn policies_leave_members_as_they_are() {
        let once = Member {
            policy: Policy {
                update: Update::IfNotPresent,
                ..Policy::default()
            },
            ..member("e")
        };
        let drifted = Live {
            fingerprint: None,
            ..live("u1")
        };
        assert_eq!(
            step(&once, Some(&entry()), Seen::Present(&drifted), &owner()),
            Step::Leave
        );
        let made = Step::Apply {
            force: false,
            why: Why::Missing,
        };
        assert_eq!(step(&once, Some(&entry()), Seen::Absent, &owner()), made);
        let foreign = Live {
            uid: "o9".into(),
            ..Live::default()
        };
        let others = Live {
            part_of: Some("set-b".into()),
            ..foreign.clone()
        };
        let leaving = Live {
            deleting: true,
            ..foreign.clone()
        };
        for (live, expected) in [
            (&foreign, Step::Yield),
            (&leaving, Step::AwaitDeletion),
            (&others, Step::Refuse(Ownership::OtherRelease("set-b".into()))),
        ] {
            assert_eq!(step(&once, None, Seen::Present(live), &owner()), expected);
        }
        let disabled = Live {
            disabled: true,
            ..drifted
        };
        assert_eq!(
            step(&member("e"), Some(&entry()), Seen::Present(&disabled), &owner()),
            Step::Leave
        );
        let foreign = Live {
            part_of: None,
            tracking: None,
            ..disabled
        };
        assert_eq!(
            step(&member("e"), None, Seen::Present(&foreign), &owner()),
            Step::Refuse(Ownership::Foreign),
            "nobody is robbed by an annotation"
        );
    }

    #[test]
    fn a_finished_job_need_not_be_there() {
        let finished = Entry {
            finished: true,
            ..entry()
        };
        let going = Live {
            deleting: true,
            ..live("u1")
        };
        for seen in [Seen::NotInIndex, Seen::Absent, Seen::Present(&going)] {
            assert_eq!(
                step(&member("d"), Some(&finished), seen.clone(), &owner()),
                Step::Satisfied,
                "{seen:?}"
            );
        }
        assert_eq!(
            step(&member("new"), Some(&finished), Seen::NotInIndex, &owner()),
            Step::Look
        );
        assert!(is_as_recorded(&finished, None, &owner()) && !is_as_recorded(&entry(), None, &owner()));
        assert!(is_as_recorded(&finished, Some(&live("u1")), &owner()));
        let drifted = Live {
            fingerprint: Some(8),
            ..live("u1")
        };
        assert!(!is_as_recorded(&finished, Some(&drifted), &owner()));
    }

    #[test]
    fn what_an_autoscaler_owns_is_given_up() {
        let deployment = Member {
            object: serde_json::json!({"spec": {"replicas": 2, "paused": false}}),
            ..member("d")
        };
        let scaled = Live {
            scaled_by: Some("kube-controller-manager".into()),
            ..live("u1")
        };
        assert_eq!(
            content(&deployment, Some(&scaled)).as_ref(),
            &serde_json::json!({"spec": {"paused": false}})
        );
        assert_eq!(content(&deployment, Some(&live("u1"))).as_ref(), &deployment.object);
        assert_eq!(content(&deployment, None).as_ref(), &deployment.object);
    }

    #[test]
    fn a_member_gets_its_owner_reference_once_and_loses_it_when_it_is_to_be_kept() {
        let reference = references::reference("a.test/v1", "Shop", "web", "u1");
        let owned = Member {
            object: serde_json::json!({"metadata": {"name": "a"}}),
            owner: Some(reference.into()),
            ..member("d")
        };
        let with = |owner: Option<&str>, keep| Live {
            owner: owner.map(Into::into),
            keep,
            ..live("u1")
        };
        let changed = Step::Apply {
            force: true,
            why: Why::Changed,
        };
        let unowned = Member {
            owner: None,
            ..owned.clone()
        };
        for (member, live, expected) in [
            (&owned, with(Some("a.test/v1"), false), Step::Unchanged),
            (&owned, with(None, false), changed.clone()),
            (&owned, with(Some("a.test/v1alpha1"), false), changed.clone()),
            (&owned, with(Some("a.test/v1"), true), changed.clone()),
            (&owned, with(None, true), Step::Unchanged),
            (&unowned, with(None, false), Step::Unchanged),
            (&unowned, with(Some("a.test/v1"), false), changed),
        ] {
            let next = step(member, Some(&entry()), Seen::Present(&live), &owner());
            assert_eq!(next, expected, "{:?} {live:?}", member.owner);
            let sent = content(member, Some(&live));
            let owners = sent["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
            assert_eq!(owners, usize::from(member.owner.is_some() && !live.keep), "{live:?}");
            let is_left = live.keep && live.owner.is_some();
            assert_eq!(is_as_recorded(&entry(), Some(&live), &owner()), !is_left, "{live:?}");
        }
    }

    #[test]
    fn a_record_whose_last_apply_failed_is_never_as_recorded() {
        assert!(is_as_recorded(&entry(), Some(&live("u1")), &owner()));
        assert!(!is_as_recorded(
            &Entry {
                digest: String::new(),
                ..entry()
            },
            Some(&live("u1")),
            &owner()
        ));
        assert!(!is_as_recorded(&entry(), None, &owner()));
        assert!(!is_as_recorded(&entry(), Some(&live("u2")), &owner()));
    }
}
