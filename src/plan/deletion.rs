//! How a release goes: which policy counts, and what goes before what.

use super::annotations::{self, Annotations};
use super::desired::Stage;
use super::identity::ObjectId;
use super::record::Record;
use crate::watches::DeletionPolicy;

/// How the deletion of a custom resource was asked for: kubectl's `--cascade`. The API server tells it by a finalizer
/// of its own, which the garbage collector takes off as soon as it has looked: a custom resource that is read later
/// doesn't show it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cascade {
    #[default]
    Background,
    /// What depends on it goes first.
    Foreground,
    /// What depends on it stays.
    Orphan,
}

/// The garbage collector's finalizers (`k8s.io/apimachinery/pkg/apis/meta/v1`).
const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
const ORPHAN_FINALIZER: &str = "orphan";

// === impl Cascade ===

impl Cascade {
    /// What the finalizers of an object that is being deleted say.
    pub fn of(finalizers: &[String]) -> Self {
        let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
        match (has(ORPHAN_FINALIZER), has(FOREGROUND_FINALIZER)) {
            (true, _) => Cascade::Orphan,
            (_, true) => Cascade::Foreground,
            _ => Cascade::Background,
        }
    }
}

/// The policy for one deletion: whoever deletes may ask to keep more or to wait longer than the watch says, never to
/// delete what the watch keeps.
pub fn policy(watch: DeletionPolicy, annotations: &Annotations, cascade: Cascade) -> DeletionPolicy {
    match (watch, cascade) {
        (DeletionPolicy::Orphan, _) | (_, Cascade::Orphan) => DeletionPolicy::Orphan,
        (_, Cascade::Foreground) => DeletionPolicy::WaitForTermination,
        (_, Cascade::Background) => match annotations::uninstall_wait(annotations) {
            Some(true) => DeletionPolicy::WaitForTermination,
            Some(false) => DeletionPolicy::Delete,
            None => watch,
        },
    }
}

/// How a custom resource came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// We let it go, or never held it.
    Released,
    /// It went in spite of our finalizer: nobody has uninstalled its release.
    Vanished,
    /// Somebody took our finalizer off.
    Freed,
}

/// A state of a custom resource, as far as its end is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Our finalizer is on it.
    pub held: bool,
    /// It has a deletionTimestamp.
    pub deleting: bool,
}

/// Tells how a custom resource ended: from its state before (our own writes counted), from the one that its watch told
/// with its end, unless it was only missing, and from whether it still had members of whom we know.
pub fn end(before: Held, told: Option<Held>, has_members: bool) -> End {
    let last = told.unwrap_or(before);
    match last.held && !last.deleting {
        true => End::Vanished,
        false if before.held || has_members => End::Freed,
        false => End::Released,
    }
}

/// What goes at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<T> {
    pub stage: Stage,
    pub wave: i32,
    /// In their order.
    pub items: Vec<T>,
}

/// Brings members into turns, in the order in which they go: webhooks first, then the objects, then namespaces and CRDs,
/// and in each of these the higher waves before the lower ones. Within a turn, last made, first gone; what no record
/// lists has no order, and goes before what others may depend on. `wave` tells what a live object says; of one that wasn't
/// looked at, the record tells it.
pub fn turns<T>(
    found: Vec<T>,
    id: impl Fn(&T) -> &ObjectId,
    wave: impl Fn(&T) -> Option<i32>,
    record: &Record,
) -> Vec<Turn<T>> {
    let places: std::collections::HashMap<&ObjectId, (usize, i32)> = record
        .entries
        .iter()
        .enumerate()
        .map(|(place, entry)| (&entry.id, (place, entry.wave)))
        .collect();
    let mut ordered: Vec<_> = found
        .into_iter()
        .map(|item| {
            let (place, recorded) = places.get(id(&item)).copied().unwrap_or((usize::MAX, 0));
            let wave = wave(&item).unwrap_or(recorded);
            (Stage::of(&id(&item).group_kind), wave, place, item)
        })
        .collect();
    ordered.sort_by_key(|(stage, wave, place, _)| std::cmp::Reverse((*stage, *wave, *place)));
    let mut turns: Vec<Turn<T>> = Vec::new();
    for (stage, wave, _, item) in ordered {
        match turns.last_mut().filter(|turn| (turn.stage, turn.wave) == (stage, wave)) {
            Some(turn) => turn.items.push(item),
            None => turns.push(Turn {
                stage,
                wave,
                items: vec![item],
            }),
        }
    }
    turns
}

/// True if a turn has to wait until what went in the turn before, and is not gone, is gone. What the chart puts into
/// waves needs one another, and is waited for under any policy; between the stages, the policy tells.
pub fn must_wait<T>(policy: DeletionPolicy, before: &Turn<T>, next: &Turn<T>) -> bool {
    match policy {
        DeletionPolicy::WaitForTermination => true,
        DeletionPolicy::Delete => before.stage == next.stage,
        DeletionPolicy::Orphan => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::identity::GroupKind;
    use super::super::record::Entry;
    use super::*;

    #[test]
    fn who_deletes_may_keep_more_and_wait_longer() {
        use DeletionPolicy::{Delete, Orphan, WaitForTermination};
        let wait = |text: &str| match text {
            "" => BTreeMap::new(),
            text => BTreeMap::from([(annotations::SDK_UNINSTALL_WAIT.to_owned(), text.to_owned())]),
        };
        for (watch, annotation, cascade, expected) in [
            (Delete, "", Cascade::Background, Delete),
            (Delete, "true", Cascade::Background, WaitForTermination),
            (WaitForTermination, "", Cascade::Background, WaitForTermination),
            (WaitForTermination, "false", Cascade::Background, Delete),
            (WaitForTermination, "false", Cascade::Foreground, WaitForTermination),
            (Delete, "", Cascade::Foreground, WaitForTermination),
            (Delete, "true", Cascade::Orphan, Orphan),
            (Orphan, "true", Cascade::Background, Orphan),
            (Orphan, "", Cascade::Foreground, Orphan),
        ] {
            let case = format!("{watch:?} {annotation:?} {cascade:?}");
            assert_eq!(policy(watch, &wait(annotation), cascade), expected, "{case}");
        }
    }

    #[test]
    fn the_cascade_is_in_the_finalizers() {
        let of = |names: &[&str]| Cascade::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["chartwright.dev/release"]), Cascade::Background);
        assert_eq!(
            of(&["chartwright.dev/release", "foregroundDeletion"]),
            Cascade::Foreground
        );
        assert_eq!(of(&["orphan", "chartwright.dev/release"]), Cascade::Orphan);
    }

    #[test]
    fn what_others_need_goes_last() {
        let id = |kind: &str, name: &str| ObjectId::new(GroupKind::parse(kind), "", name);
        let webhook = id("ValidatingWebhookConfiguration.admissionregistration.k8s.io", "hook");
        let entry = |id: &ObjectId| Entry {
            id: id.clone(),
            version: "v1".into(),
            uid: String::new(),
            wave: 0,
            digest: String::new(),
            fingerprint: None,
            finished: false,
        };
        let (space, map, web) = (
            id("Namespace", "space"),
            id("ConfigMap", "map"),
            id("Deployment.apps", "web"),
        );
        let record = Record {
            entries: [&space, &map, &web, &webhook].map(entry).into(),
            ..Record::default()
        };
        let unlisted = id("ConfigMap", "unlisted");
        let found = vec![
            map.clone(),
            space.clone(),
            unlisted.clone(),
            webhook.clone(),
            web.clone(),
        ];
        let items = |found: Vec<ObjectId>, wave: &dyn Fn(&ObjectId) -> Option<i32>| -> Vec<Vec<ObjectId>> {
            let turns = turns(found, |id| id, wave, &record);
            turns.into_iter().map(|turn| turn.items).collect()
        };
        assert_eq!(
            items(found.clone(), &|_| Some(0)),
            [
                vec![webhook.clone()],
                vec![unlisted.clone(), web.clone(), map.clone()],
                vec![space.clone()]
            ]
        );
        let waves = |id: &ObjectId| match id.name.as_str() {
            "web" => Some(2),
            "map" => Some(-1),
            _ => None,
        };
        assert_eq!(
            items(found, &waves),
            [
                vec![webhook],
                vec![web.clone()],
                vec![unlisted],
                vec![map.clone()],
                vec![space]
            ]
        );
        assert!(items(Vec::new(), &|_| None).is_empty());
        // Of what nobody looked at, the record tells the wave.
        let mut waved = record.clone();
        waved.entries[1].wave = 7;
        let turns = turns(vec![web.clone(), map.clone()], |id| id, |_| None, &waved);
        assert_eq!(turns.iter().map(|turn| turn.wave).collect::<Vec<_>>(), [7, 0]);
        assert_eq!(turns[0].items, [map]);
    }

    #[test]
    fn the_last_state_tells_how_a_custom_resource_ended() {
        let state = |text: &str| Held {
            held: text.contains("held"),
            deleting: text.contains("deleting"),
        };
        for (before, told, has_members, expected) in [
            ("", Some(""), false, End::Released),
            // Its claim came between the read and the delete of the request.
            ("", Some("held"), false, End::Vanished),
            ("held", Some("held"), true, End::Vanished),
            ("held", None, true, End::Vanished),
            // We took it off, and the watch tells the state before that.
            ("deleting", Some("held deleting"), false, End::Released),
            ("deleting", None, false, End::Released),
            ("held deleting", Some("held deleting"), true, End::Freed),
            ("held deleting", None, true, End::Freed),
            ("held", Some(""), true, End::Freed),
            ("", Some(""), true, End::Freed),
        ] {
            let found = end(state(before), told.map(state), has_members);
            assert_eq!(found, expected, "{before:?} {told:?} {has_members}");
        }
    }

    #[test]
    fn waves_are_waited_for_and_stages_if_the_policy_says_so() {
        let turn = |stage| Turn::<ObjectId> {
            stage,
            wave: 0,
            items: Vec::new(),
        };
        let (objects, webhooks) = (turn(Stage::Objects), turn(Stage::Webhooks));
        for (policy, next_wave, next_stage) in [
            (DeletionPolicy::Delete, true, false),
            (DeletionPolicy::WaitForTermination, true, true),
            (DeletionPolicy::Orphan, false, false),
        ] {
            assert_eq!(must_wait(policy, &objects, &objects), next_wave, "{policy:?}");
            assert_eq!(must_wait(policy, &webhooks, &objects), next_stage, "{policy:?}");
        }
    }
}
