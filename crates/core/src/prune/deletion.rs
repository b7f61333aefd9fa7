//! Deletion of a custom resource: which policy applies to its release, and how the deletion ended.

use crate::annotations::{self, Annotations};
use chartwright_watches::DeletionPolicy;

/// How the deletion of a custom resource was requested: kubectl's `--cascade`. The API server shows it as a finalizer
/// of its own, which the garbage collector takes off as soon as it has looked: a custom resource that is read later
/// doesn't show it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(serde::Deserialize))]
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

/// The policy for one deletion: the user who deletes may request to keep more or to wait longer than the watch says, never to
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
    /// It disappeared in spite of our finalizer: its release was not uninstalled.
    Vanished,
    /// Another client removed our finalizer.
    Freed,
}

/// A state of a custom resource, as far as its end is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize), serde(default))]
pub struct HeldDeletion {
    /// Our finalizer is on it.
    pub held: bool,
    /// It has a deletionTimestamp.
    pub deleting: bool,
}

/// Judges how a custom resource ended: from its state before (our own writes counted), from the last one that its watch
/// showed, unless it was only missing from a list, and from whether it still had known members.
pub fn end(before: HeldDeletion, shown: Option<HeldDeletion>, has_members: bool) -> End {
    let last = shown.unwrap_or(before);
    match last.held && !last.deleting {
        true => End::Vanished,
        false if before.held || has_members => End::Freed,
        false => End::Released,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn who_deletes_may_keep_more_and_wait_longer() {
        type Row = (DeletionPolicy, Option<String>, Cascade, DeletionPolicy);
        for (watch, wait, cascade, expected) in table::<Row>("deletion", "policies") {
            let case = format!("{watch:?} {wait:?} {cascade:?}");
            let wait = wait.map(|text| (annotations::SDK_UNINSTALL_WAIT.to_owned(), text));
            assert_eq!(policy(watch, &wait.into_iter().collect(), cascade), expected, "{case}");
        }
    }

    #[test]
    fn the_cascade_is_in_the_finalizers() {
        let of = |names: [&str; 2]| Cascade::of(&names.map(str::to_owned));
        assert_eq!(of(["chartwright.dev/release", "a"]), Cascade::Background);
        assert_eq!(
            of(["chartwright.dev/release", "foregroundDeletion"]),
            Cascade::Foreground
        );
        assert_eq!(of(["orphan", "chartwright.dev/release"]), Cascade::Orphan);
    }

    #[test]
    fn the_last_state_tells_how_a_custom_resource_ended() {
        for (before, shown, has_members, expected) in
            table::<(HeldDeletion, Option<HeldDeletion>, bool, String)>("deletion", "ends")
        {
            let found = end(before, shown, has_members);
            assert_eq!(format!("{found:?}"), expected, "{before:?} {shown:?} {has_members}");
        }
    }
}
