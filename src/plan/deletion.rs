//! How a custom resource goes: which policy counts for its release, and how it came to its end.

use super::annotations::{self, Annotations};
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
}
