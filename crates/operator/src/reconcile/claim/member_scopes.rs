//! The kinds and namespaces in which a release may have members, as the custom resource's annotations tell it.
//!
//! Written before the first member of a new kind, and shrunk after the last one is gone, so that whoever reads the
//! custom resource (we after a crash, kubectl, an admin) always knows where to look.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::discovery::Snapshot;
use crate::reconcile::context::{Context, Unit};
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::load::input_digest;
use crate::reconcile::release::Release;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::identity::{GroupKind, ObjectId, applyset};
use chartwright_core::index::members::Scope;
use chartwright_core::record::Record;

/// Where members may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberScopes {
    pub kinds: BTreeSet<GroupKind>,
    /// Every namespace, the custom resource's own among them if it is used.
    pub namespaces: BTreeSet<String>,
}

impl MemberScopes {
    /// What the annotations say. The custom resource's own namespace always counts.
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

    /// Where the recorded members are, and what hooks made.
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

    /// The annotations of a custom resource that say it.
    pub fn annotations(&self, resource: &CustomResource) -> BTreeMap<String, String> {
        let own = &resource.key.namespace;
        let kinds: Vec<_> = self.kinds.iter().map(GroupKind::to_string).collect();
        let namespaces: Vec<_> = self.namespaces.iter().filter(|name| *name != own).cloned().collect();
        let (of_kinds, of_namespaces) = resource.member_scope_annotations();
        let mut annotations = BTreeMap::from([(of_kinds, applyset::format_list(&kinds))]);
        // On somebody else's object stands no more than what is needed.
        let is_decorated = resource.decorator.is_some();
        if !is_decorated {
            annotations.insert(applyset::TOOLING_ANNOTATION.to_owned(), applyset::tooling());
        }
        if !is_decorated || !namespaces.is_empty() {
            annotations.insert(of_namespaces, applyset::format_list(&namespaces));
        }
        annotations
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

/// How long a release waits at first for the watches of its members and of what it looked up. A watch that can't list is
/// reported by the releases that need it.
const SYNC_WAIT: Duration = Duration::from_secs(15);

/// Before the first reconcile: the watches that show the members of a custom resource, and what it looked up, as far as
/// its status names them. What annotations name besides, whoever may edit the custom resource may have written: it is
/// listed when it matters.
pub fn watch_recorded(context: &Context, unit: &Unit, resource: &CustomResource) {
    let seal = resource.seal(&context.keys, &unit.group_kind);
    let record = Record::from_status(&resource.status(), Some(&seal)).into_record();
    want(
        context,
        &resource.applyset_id(&unit.group_kind),
        &MemberScopes::from_record(&record),
    );
    input_digest::follow_recorded(context, unit, resource, &record);
}

/// Waits for the watches of members and looked-up objects.
pub(crate) struct MemberWatches<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> MemberWatches<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        MemberWatches { scope }
    }
}

impl MemberWatches<'_> {
    /// How long the release has yet to wait before its first reconcile, for want of a watch that it needs: without, all
    /// that it has would be looked at and applied. Those of others don't matter.
    pub(crate) fn await_watches(&self, release: &mut Release) -> Option<Duration> {
        if release.begun {
            return None;
        }
        let superset = MemberScopes::from_record(&release.record);
        let now = Instant::now();
        let until = *release.awaits.get_or_insert_with(|| {
            want(self.scope.context, &self.scope.owner.set, &superset);
            now + SYNC_WAIT
        });
        let snapshot = self.scope.context.discovery.snapshot();
        let members_settled = {
            let members = self.scope.context.members();
            superset
                .places(&snapshot)
                .all(|(kind, namespace)| members.is_settled(kind, namespace))
        };
        let lookups_settled = {
            let index = self.scope.context.dependencies();
            let is_settled = |target| !index.is_unsettled(target) || snapshot.preferred(&target.group_kind).is_none();
            index.of_set(&self.scope.owner.set).all(is_settled)
        };
        if now < until && !(members_settled && lookups_settled) {
            return Some(until - now);
        }
        release.begun = true;
        None
    }

    /// From now on, only the watches that show the members of a superset are needed.
    pub(crate) fn want_only(&self, superset: &MemberScopes) {
        self.scope
            .context
            .want_only(&self.scope.owner.set, scopes(self.scope.context, superset));
    }
}

/// Asks for the watches that show the members of a superset of a release.
pub fn want(context: &Context, set: &str, superset: &MemberScopes) {
    context.want(set, scopes(context, superset));
}

fn scopes(context: &Context, superset: &MemberScopes) -> BTreeSet<Scope> {
    let snapshot = context.discovery.snapshot();
    let places = superset.places(&snapshot);
    places.map(|(kind, namespace)| context.scope(kind, namespace)).collect()
}
