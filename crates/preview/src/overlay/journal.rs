//! What a run has touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chartwright_core::identity::{GroupKind, ObjectId};
use fake_apiserver::call::CallTarget;
use fake_apiserver::{ObjectKey, ServedKind};
use serde_json::Value;

/// Where an object lies. The version of its API is no part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectPlace {
    pub group: String,
    /// The plural.
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

/// What an object is for the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectRole {
    CustomResource,
    /// The operator's own: record, random results, Leases.
    Own,
    /// A hook or a step of a plan made it.
    Hook,
    /// It is announced.
    Member,
}

/// One object that was written, or read for a write.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pub kind: ServedKind,
    /// As it is in the cluster. `None`: it does not exist.
    pub live: Option<Arc<Value>>,
    pub role: ObjectRole,
    /// It was written.
    pub is_written: bool,
    /// It was deleted at some time.
    pub was_deleted: bool,
    /// The API server did not see the object as it is in the overlay.
    pub is_unchecked: bool,
}

/// Everything that a run has touched.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub objects: BTreeMap<ObjectPlace, Touched>,
    /// Members in the order of their first write.
    pub order: Vec<ObjectPlace>,
    /// The last refusal of each member: HTTP status, reason and message.
    pub refusals: BTreeMap<ObjectPlace, (u16, String, String)>,
    /// Reads that the API server forbids.
    pub forbidden: BTreeSet<String>,
    /// Members of the release, and objects that a creation met: they exist.
    pub existing: BTreeSet<ObjectPlace>,
    /// Kinds that only CustomResourceDefinitions of this run define: group and plural.
    pub new_kinds: BTreeSet<(String, String)>,
}

impl ObjectPlace {
    pub(crate) fn of(target: &CallTarget) -> Self {
        ObjectPlace {
            group: target.group.clone(),
            resource: target.resource.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
        }
    }

    pub(crate) fn is(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }
}

impl Touched {
    pub(crate) fn new(kind: ServedKind, live: Option<Arc<Value>>, role: ObjectRole) -> Self {
        Touched {
            kind,
            live,
            role,
            is_written: false,
            was_deleted: false,
            is_unchecked: false,
        }
    }

    pub(crate) fn id(&self, place: &ObjectPlace) -> ObjectId {
        let group_kind = GroupKind::new(self.kind.group, self.kind.kind);
        ObjectId::new(group_kind, place.namespace.as_str(), place.name.as_str())
    }
}

impl Journal {
    pub(crate) fn touch(&mut self, place: &ObjectPlace, touched: Touched) {
        self.objects.insert(place.clone(), touched);
    }

    pub(crate) fn get(&self, place: &ObjectPlace) -> Option<&Touched> {
        self.objects.get(place)
    }

    /// Where the object of a place lies in the fake API server.
    pub(crate) fn key(&self, place: &ObjectPlace) -> Option<ObjectKey> {
        let touched = self.objects.get(place)?;
        Some((touched.kind.key, place.namespace.clone(), place.name.clone()))
    }

    /// Notes a write.
    pub(crate) fn wrote(&mut self, place: &ObjectPlace, note: impl FnOnce(&mut Touched)) {
        if let Some(touched) = self.objects.get_mut(place) {
            if !touched.is_written {
                touched.is_written = true;
                self.order.push(place.clone());
            }
            note(touched);
        }
        self.refusals.remove(place);
    }

    /// True if an object of the resource was touched.
    pub(crate) fn touches(&self, group: &str, resource: &str) -> bool {
        self.objects.keys().any(|place| place.is(group, resource))
    }

    pub(crate) fn is_new_kind(&self, target: &CallTarget) -> bool {
        self.new_kinds
            .contains(&(target.group.clone(), target.resource.clone()))
    }
}
