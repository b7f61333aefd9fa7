//! Decides which objects may be deleted: orphans of a complete render, and all members on deletion.
//!
//! Labels find candidates. Invariant: no object is deleted unless its own tracking annotation names this custom resource.

pub mod deletion;
pub mod intent;

use std::collections::{BTreeSet, HashSet};

use crate::identity::ObjectId;
use crate::identity::decorator;
use crate::identity::ownership::{Owner, Ownership, ownership};
use crate::identity::protected_kinds::is_protected;
use crate::index::live::Live;
use crate::index::members::Members;
use crate::record::Record;

/// Everything that must hold before a prune. Each field is a source of partial knowledge. (A lookup that is not answered is
/// none: it fails the render.)
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// Kinds in the render that the API server does not serve.
    pub unknown_kinds: Vec<String>,
    /// Members that could not be applied, or are refused or awaited.
    pub not_applied: Vec<String>,
    /// API groups that discovery could not list: an aggregated API server is down.
    pub failed_groups: Vec<String>,
    /// Kinds and namespaces of the release whose watch is not synced.
    pub unsynced: Vec<String>,
    /// Charts whose files changed since they were read: what was rendered may be half of one.
    pub changed_charts: Vec<String>,
}

/// Why an object is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub enum Purpose {
    /// The render no longer contains it.
    Prune,
    /// The revision that is gone back to doesn't contain it.
    Rollback,
    /// Its custom resource goes.
    Delete,
    /// Its custom resource goes, and leaves its members behind.
    Orphan,
    /// Its custom resource goes while it is suspended: everything stays as it is.
    Suspended,
}

/// What the live object says about its own deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PruneVerdict {
    /// Ours: delete it, in the very state that this verdict is on.
    Delete,
    /// Ours, but to be left behind (`helm.sh/resource-policy: keep`, or all of them): take our marks off.
    Release,
    /// Ours, and it stays a member: only its owner reference goes, or the garbage collector would take it.
    Disown,
    /// Ours, and it stays as it is.
    Stay,
    /// Ours and already going.
    Going,
    /// Ours, but protected: deleting it loses data or other people's objects. Held until it is allowed.
    Hold,
    /// Not ours: leave it, and forget it.
    Leave(Ownership),
    /// Ours by its marks, but a controller owns it: that controller decides.
    Controlled(String),
}

impl Knowledge {
    /// Why nothing may be pruned now; `None` if the knowledge is complete.
    pub fn gap(&self) -> Option<String> {
        let parts = [
            ("kinds that the API server does not serve", &self.unknown_kinds),
            ("not applied", &self.not_applied),
            ("API groups that discovery could not read", &self.failed_groups),
            ("watches that are not synced", &self.unsynced),
            (
                "charts that changed on disk since they were read (the operator reads them when it starts)",
                &self.changed_charts,
            ),
        ];
        let gaps: Vec<_> = parts
            .iter()
            .filter(|(_, items)| !items.is_empty())
            .map(|(what, items)| format!("{what}: {}", items.join(", ")))
            .collect();
        (!gaps.is_empty()).then(|| gaps.join("; "))
    }
}

/// Live or recorded objects of the release that are not desired, last applied first. What a hook made isn't among them:
/// it goes by the hook's policy, or with the release.
pub fn orphans(members: &Members, record: &Record, desired: &HashSet<&ObjectId>, owner: &Owner) -> Vec<ObjectId> {
    let mut found: BTreeSet<ObjectId> = members.of_set(&owner.set).into_iter().collect();
    let mut ordered: Vec<ObjectId> = Vec::new();
    for entry in record.entries.iter().rev() {
        if !desired.contains(&entry.id) {
            found.remove(&entry.id);
            ordered.push(entry.id.clone());
        }
    }
    found.retain(|id| !desired.contains(id) && !members.get(id).is_some_and(|live| live.marks.is_of_hook));
    // What no record lists has no order; it goes before what others may depend on.
    found.into_iter().chain(ordered).collect()
}

/// The verdict on a candidate, from its metadata, and whether data goes with it.
pub fn verdict(id: &ObjectId, live: &Live, owner: &Owner, purpose: Purpose) -> PruneVerdict {
    match ownership(id, live, owner) {
        Ownership::Ours => {}
        other => return PruneVerdict::Leave(other),
    }
    if live.deleting {
        return PruneVerdict::Going;
    }
    match purpose {
        Purpose::Orphan => return PruneVerdict::Release,
        Purpose::Suspended if live.ownership.owner.is_some() => return PruneVerdict::Disown,
        Purpose::Suspended => return PruneVerdict::Stay,
        Purpose::Prune | Purpose::Rollback | Purpose::Delete => {}
    }
    if let Some((name, uid)) = &live.ownership.controller
        && *uid != decorator::object_uid(&owner.uid)
    {
        return PruneVerdict::Controlled(name.clone());
    }
    if live.marks.keep {
        return PruneVerdict::Release;
    }
    let is_held = match purpose {
        Purpose::Prune => !live.marks.prune_allowed,
        // The user did not request that: the upgrade may still be repaired.
        Purpose::Rollback => true,
        _ => false,
    };
    if is_held && (is_protected(&id.group_kind) || live.takes_data) {
        return PruneVerdict::Hold;
    }
    PruneVerdict::Delete
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{entry, id, live, owner, table, with};
    use serde_json::Value;

    #[test]
    fn the_live_object_has_the_last_word() {
        for (kind, changes, purpose, expected) in table::<(String, Value, Purpose, String)>("ownership", "verdicts") {
            let id = id(&kind, "a");
            let found = verdict(&id, &with(&live(&id), &changes), &owner(), purpose);
            assert_eq!(format!("{found:?}"), expected, "{purpose:?} {changes}");
        }
    }

    #[test]
    fn orphans_come_from_labels_and_from_the_record() {
        let config = |name: &str| id("ConfigMap", name);
        let mut members = Members::default();
        for name in ["live-only", "desired", "both"] {
            members.observe(&config(name), live(&config(name)));
        }
        let entries = ["desired", "both", "recorded-only"].map(|name| entry(&config(name)));
        let record = Record {
            entries: entries.into(),
            ..Record::default()
        };
        let found = orphans(&members, &record, &HashSet::from([&config("desired")]), &owner());
        let names: Vec<_> = found.into_iter().map(|id| id.name).collect();
        assert_eq!(names, ["live-only", "recorded-only", "both"]);
    }

    #[test]
    fn any_gap_in_knowledge_forbids_pruning() {
        assert_eq!(Knowledge::default().gap(), None);
        let missing: [fn(&mut Knowledge) -> &mut Vec<String>; 5] = [
            |knowledge| &mut knowledge.unsynced,
            |knowledge| &mut knowledge.unknown_kinds,
            |knowledge| &mut knowledge.not_applied,
            |knowledge| &mut knowledge.failed_groups,
            |knowledge| &mut knowledge.changed_charts,
        ];
        for list in missing {
            let mut knowledge = Knowledge::default();
            list(&mut knowledge).push("x".into());
            assert!(knowledge.gap().is_some_and(|gap| gap.ends_with(": x")), "{knowledge:?}");
        }
    }
}
