//! The kinds and namespaces in which a release may have members, as the custom resource's annotations tell it.
//!
//! Written before the first member of a new kind, and shrunk after the last one is gone, so that whoever reads the
//! custom resource (we after a crash, kubectl, an admin) always knows where to look.

use std::collections::{BTreeMap, BTreeSet};

use super::context::Context;
use super::custom_resource::CustomResource;
use crate::cluster::discovery::Snapshot;
use crate::plan::applyset;
use crate::plan::identity::{GroupKind, ObjectId};
use crate::plan::record::Record;

/// Where members may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superset {
    pub kinds: BTreeSet<GroupKind>,
    /// Every namespace, the custom resource's own among them if it is used.
    pub namespaces: BTreeSet<String>,
}

// === impl Superset ===

impl Superset {
    /// What the annotations say. The custom resource's own namespace always counts.
    pub fn of_resource(resource: &CustomResource) -> Self {
        let annotation = |key: &str| resource.annotations.get(key).map(String::as_str).unwrap_or_default();
        let kinds = applyset::parse_list(annotation(applyset::KINDS_ANNOTATION))
            .iter()
            .map(|k| GroupKind::parse(k))
            .collect();
        let mut namespaces: BTreeSet<String> = applyset::parse_list(annotation(applyset::NAMESPACES_ANNOTATION))
            .into_iter()
            .collect();
        if !resource.key.namespace.is_empty() {
            namespaces.insert(resource.key.namespace.clone());
        }
        Superset { kinds, namespaces }
    }

    /// Where the recorded members are.
    pub fn of_record(record: &Record) -> Self {
        Superset::of_objects(record.entries.iter().map(|entry| &entry.id))
    }

    pub fn of_objects<'a>(ids: impl IntoIterator<Item = &'a ObjectId>) -> Self {
        let mut superset = Superset::default();
        for id in ids {
            superset.kinds.insert(id.group_kind.clone());
            if !id.namespace.is_empty() {
                superset.namespaces.insert(id.namespace.clone());
            }
        }
        superset
    }

    pub fn union(mut self, other: Superset) -> Self {
        self.kinds.extend(other.kinds);
        self.namespaces.extend(other.namespaces);
        self
    }

    /// The annotations that say it, for a custom resource in `own` (empty if cluster-scoped).
    pub fn annotations(&self, own: &str) -> BTreeMap<String, String> {
        let kinds: Vec<_> = self.kinds.iter().map(GroupKind::to_string).collect();
        let namespaces: Vec<_> = self.namespaces.iter().filter(|name| *name != own).cloned().collect();
        BTreeMap::from([
            (applyset::TOOLING_ANNOTATION.to_owned(), applyset::tooling()),
            (applyset::KINDS_ANNOTATION.to_owned(), applyset::format_list(&kinds)),
            (
                applyset::NAMESPACES_ANNOTATION.to_owned(),
                applyset::format_list(&namespaces),
            ),
        ])
    }

    /// Each kind that is served with each namespace; with an empty one if it is cluster-scoped.
    pub fn places<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = (&'a GroupKind, &'a str)> {
        self.kinds.iter().flat_map(|kind| {
            let namespaced = snapshot.preferred(kind).map(|resource| resource.namespaced);
            let everywhere = self.namespaces.iter().filter(move |_| namespaced == Some(true));
            let nowhere = (namespaced == Some(false)).then_some("");
            everywhere
                .map(String::as_str)
                .chain(nowhere)
                .map(move |namespace| (kind, namespace))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

/// Asks for the watches that show the members of a superset.
pub fn want(context: &Context, superset: &Superset) {
    let snapshot = context.discovery.snapshot();
    let places = superset.places(&snapshot);
    context.want(places.map(|(kind, namespace)| context.scope(kind, namespace)));
}
