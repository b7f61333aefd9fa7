//! What may be deleted: orphans of a complete render, and at the end everything.
//!
//! A label finds candidates; nothing is deleted before the live object itself has confirmed, by its tracking
//! annotation, that it was made for this very custom resource.

use std::collections::{BTreeSet, HashSet};

use super::identity::{GroupKind, ObjectId};
use super::members::{Live, Members};
use super::ownership::{Owner, Ownership, ownership};
use super::record::Record;

/// Everything that must hold before a prune. Each field is a source of partial knowledge.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// Kinds in the render that the API server does not serve.
    pub unknown_kinds: Vec<String>,
    /// Members that could not be applied, or are refused or awaited.
    pub not_applied: Vec<String>,
    /// API groups that discovery could not list: an aggregated API server is down.
    pub failed_groups: Vec<String>,
    /// Lookups that were not answered.
    pub unanswered_lookups: Vec<String>,
    /// Kinds and namespaces of the release whose watch is not synced.
    pub unsynced: Vec<String>,
    /// Charts whose files changed since they were read: what was rendered may be half of one.
    pub changed_charts: Vec<String>,
}

/// Why an object is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The render no longer contains it.
    Prune,
    /// Its custom resource goes.
    Delete,
    /// Its custom resource goes, and leaves its members behind.
    Orphan,
    /// Its custom resource goes while it is suspended: everything stays as it is.
    Suspended,
}

/// What the live object says about its own deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
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
    /// Ours, but protected: deleting its kind loses data or other people's objects. Held until it is allowed.
    Hold,
    /// Not ours: leave it, and forget it.
    Leave(Ownership),
    /// Ours by its marks, but a controller owns it: that controller decides.
    Controlled(String),
}

/// Kinds whose pruning takes data or other objects with it.
const PROTECTED: [(&str, &str); 3] = [
    ("", "Namespace"),
    ("", "PersistentVolumeClaim"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

// === impl Knowledge ===

impl Knowledge {
    /// Why nothing may be pruned now; `None` if the knowledge is complete.
    pub fn gap(&self) -> Option<String> {
        let parts = [
            ("kinds that the API server does not serve", &self.unknown_kinds),
            ("not applied", &self.not_applied),
            ("API groups that discovery could not read", &self.failed_groups),
            ("unanswered lookups", &self.unanswered_lookups),
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

/// Live or recorded objects of the release that are not desired, last applied first.
pub fn orphans(members: &Members, record: &Record, desired: &HashSet<&ObjectId>, owner: &Owner) -> Vec<ObjectId> {
    let mut found: BTreeSet<ObjectId> = members.of_set(&owner.set).into_iter().collect();
    let mut ordered: Vec<ObjectId> = Vec::new();
    for entry in record.entries.iter().rev() {
        if !desired.contains(&entry.id) {
            found.remove(&entry.id);
            ordered.push(entry.id.clone());
        }
    }
    found.retain(|id| !desired.contains(id));
    // What no record lists has no order; it goes before what others may depend on.
    found.into_iter().chain(ordered).collect()
}

/// The verdict on a candidate, from its metadata.
pub fn verdict(id: &ObjectId, live: &Live, owner: &Owner, purpose: Purpose) -> Verdict {
    match ownership(id, live, owner) {
        Ownership::Ours => {}
        other => return Verdict::Leave(other),
    }
    if live.deleting {
        return Verdict::Going;
    }
    match purpose {
        Purpose::Orphan => return Verdict::Release,
        Purpose::Suspended if live.owner.is_some() => return Verdict::Disown,
        Purpose::Suspended => return Verdict::Stay,
        Purpose::Prune | Purpose::Delete => {}
    }
    if let Some((name, uid)) = &live.controller
        && *uid != owner.uid
    {
        return Verdict::Controlled(name.clone());
    }
    if live.keep {
        return Verdict::Release;
    }
    if purpose == Purpose::Prune && is_protected(&id.group_kind) && !live.prune_allowed {
        return Verdict::Hold;
    }
    Verdict::Delete
}

pub fn is_protected(group_kind: &GroupKind) -> bool {
    PROTECTED.contains(&(group_kind.group.as_str(), group_kind.kind.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::applyset;
    use crate::plan::record::Entry;

    fn id(kind: &str, name: &str) -> ObjectId {
        ObjectId::new(GroupKind::new("", kind), "shop", name)
    }

    fn owner() -> Owner {
        Owner {
            uid: "u1".into(),
            set: "set-a".into(),
        }
    }

    fn live(id: &ObjectId) -> Live {
        Live {
            uid: "o1".into(),
            part_of: Some("set-a".into()),
            tracking: Some(applyset::tracking_id("u1", &id.group_kind, &id.namespace, &id.name)),
            ..Live::default()
        }
    }

    #[test]
    fn the_live_object_has_the_last_word() {
        let config = id("ConfigMap", "a");
        let claim = id("PersistentVolumeClaim", "a");
        let ours = live(&config);
        let verdict_of = |live: Live| verdict(&config, &live, &owner(), Purpose::Prune);
        assert_eq!(verdict_of(ours.clone()), Verdict::Delete);
        assert_eq!(
            verdict_of(Live {
                keep: true,
                ..ours.clone()
            }),
            Verdict::Release
        );
        assert_eq!(
            verdict_of(Live {
                deleting: true,
                ..ours.clone()
            }),
            Verdict::Going
        );
        let copied = Live {
            tracking: live(&id("ConfigMap", "b")).tracking,
            ..ours.clone()
        };
        assert_eq!(verdict_of(copied), Verdict::Leave(Ownership::Copy));
        let controlled = Live {
            controller: Some(("Widget/w".into(), "x".into())),
            ..ours.clone()
        };
        assert_eq!(verdict_of(controlled), Verdict::Controlled("Widget/w".into()));
        let by_us = Live {
            controller: Some(("Memcached/m".into(), "u1".into())),
            ..ours
        };
        assert_eq!(verdict_of(by_us), Verdict::Delete);
        assert_eq!(verdict(&claim, &live(&claim), &owner(), Purpose::Prune), Verdict::Hold);
        assert_eq!(
            verdict(&claim, &live(&claim), &owner(), Purpose::Delete),
            Verdict::Delete
        );
        let allowed = Live {
            prune_allowed: true,
            ..live(&claim)
        };
        assert_eq!(verdict(&claim, &allowed, &owner(), Purpose::Prune), Verdict::Delete);
    }

    #[test]
    fn what_stays_loses_its_owner_reference() {
        let config = id("ConfigMap", "a");
        let owned = Live {
            owner: Some("a.test/v1".into()),
            ..live(&config)
        };
        let going = Live {
            deleting: true,
            ..owned.clone()
        };
        let copied = Live {
            tracking: None,
            ..owned.clone()
        };
        for (live, purpose, expected) in [
            (&owned, Purpose::Suspended, Verdict::Disown),
            (&live(&config), Purpose::Suspended, Verdict::Stay),
            (&going, Purpose::Suspended, Verdict::Going),
            (&copied, Purpose::Suspended, Verdict::Leave(Ownership::Copy)),
            (&owned, Purpose::Orphan, Verdict::Release),
        ] {
            assert_eq!(
                verdict(&config, live, &owner(), purpose),
                expected,
                "{purpose:?} {live:?}"
            );
        }
    }

    #[test]
    fn orphans_come_from_labels_and_from_the_record() {
        let mut members = Members::default();
        for name in ["live-only", "desired", "both"] {
            members.observe(&id("ConfigMap", name), live(&id("ConfigMap", name)));
        }
        let entry = |name: &str| Entry {
            id: id("ConfigMap", name),
            version: "v1".into(),
            uid: String::new(),
            wave: 0,
            digest: String::new(),
            fingerprint: None,
            finished: false,
        };
        let record = Record {
            entries: vec![entry("desired"), entry("both"), entry("recorded-only")],
            ..Record::default()
        };
        let desired = id("ConfigMap", "desired");
        let names: Vec<_> = orphans(&members, &record, &HashSet::from([&desired]), &owner())
            .into_iter()
            .map(|id| id.name)
            .collect();
        assert_eq!(names, ["live-only", "recorded-only", "both"]);
    }

    #[test]
    fn any_gap_in_knowledge_forbids_pruning() {
        assert_eq!(Knowledge::default().gap(), None);
        let gap = Knowledge {
            unsynced: vec!["ConfigMap".into()],
            ..Knowledge::default()
        }
        .gap();
        assert_eq!(gap.as_deref(), Some("watches that are not synced: ConfigMap"));
        for knowledge in [
            Knowledge {
                unknown_kinds: vec!["x".into()],
                ..Knowledge::default()
            },
            Knowledge {
                not_applied: vec!["x".into()],
                ..Knowledge::default()
            },
            Knowledge {
                failed_groups: vec!["x".into()],
                ..Knowledge::default()
            },
            Knowledge {
                changed_charts: vec!["x".into()],
                ..Knowledge::default()
            },
            Knowledge {
                unanswered_lookups: vec!["x".into()],
                ..Knowledge::default()
            },
        ] {
            assert!(knowledge.gap().is_some(), "{knowledge:?}");
        }
    }
}
