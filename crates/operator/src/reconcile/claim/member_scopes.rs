//! The kinds and namespaces in which a release may have members, as annotations of its custom resource list them.
//!
//! They are written before the first member of a new kind, and reduced after the last one is gone. So the operator
//! after a crash, kubectl and admins always know where to look.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::discovery::Snapshot;
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use chartwright_core::identity::{GroupKind, ObjectId, applyset};
use chartwright_core::index::members::Scope;
use chartwright_core::record::Record;

/// The kinds and namespaces in which a release may have members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberScopes {
    pub kinds: BTreeSet<GroupKind>,
    /// All namespaces, including the custom resource's own if a member is in it.
    pub namespaces: BTreeSet<String>,
}

impl MemberScopes {
    /// Reads the annotations. Always includes the custom resource's own namespace.
    pub fn from_resource(resource: &CustomResource) -> Self {
        let annotation = |key: &str| resource.annotations.get(key).map(String::as_str).unwrap_or_default();
        let (kinds, namespaces) = resource.member_scope_annotations();
        let mut namespaces: BTreeSet<String> = applyset::parse_list(annotation(&namespaces)).into_iter().collect();
        let kinds = applyset::parse_list(annotation(&kinds))
            .iter()
            .map(|k| GroupKind::parse(k))
            .collect();
        if !resource.key.namespace.is_empty() {
            namespaces.insert(resource.key.namespace.clone());
        }
        MemberScopes { kinds, namespaces }
    }

    /// Returns the scopes of the recorded members and of the objects of hooks.
    pub fn from_record(record: &Record) -> Self {
        let members = MemberScopes::from_objects(record.entries.iter().map(|entry| &entry.id));
        members.union(MemberScopes::from_objects(
            record.hooks.ids().chain(record.plans.work.steps.ids()),
        ))
    }

    pub fn from_objects<'a>(ids: impl IntoIterator<Item = &'a ObjectId>) -> Self {
        let mut superset = MemberScopes::default();
        for id in ids {
            superset.kinds.insert(id.group_kind.clone());
            if !id.namespace.is_empty() {
                superset.namespaces.insert(id.namespace.clone());
            }
        }
        superset
    }

    pub fn union(mut self, other: MemberScopes) -> Self {
        self.kinds.extend(other.kinds);
        self.namespaces.extend(other.namespaces);
        self
    }

    /// Returns the annotations that list these scopes.
    pub fn annotations(&self, resource: &CustomResource) -> BTreeMap<String, String> {
        let own = &resource.key.namespace;
        let kinds: Vec<_> = self.kinds.iter().map(GroupKind::to_string).collect();
        let namespaces: Vec<_> = self.namespaces.iter().filter(|name| *name != own).cloned().collect();
        let (of_kinds, of_namespaces) = resource.member_scope_annotations();
        let mut annotations = BTreeMap::from([(of_kinds, applyset::format_list(&kinds))]);
        // An object of another owner gets only the necessary annotations.
        let is_decorated = resource.decorator.is_some();
        if !is_decorated {
            annotations.insert(applyset::TOOLING_ANNOTATION.to_owned(), applyset::tooling());
        }
        if !is_decorated || !namespaces.is_empty() {
            annotations.insert(of_namespaces, applyset::format_list(&namespaces));
        }
        annotations
    }

    /// Pairs each served kind with each namespace, and cluster-scoped kinds with an empty namespace.
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

/// Requests the watches that show the members in some scopes of a release.
pub fn want(context: &Context, applyset_id: &str, superset: &MemberScopes) {
    context.want(applyset_id, scopes(context, superset));
}

pub(crate) fn scopes(context: &Context, superset: &MemberScopes) -> BTreeSet<Scope> {
    let snapshot = context.discovery.snapshot();
    let places = superset.places(&snapshot);
    places.map(|(kind, namespace)| context.scope(kind, namespace)).collect()
}
