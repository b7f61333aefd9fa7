//! Shows the operator the live members of a release, as its watches would.

use std::collections::{BTreeSet, HashSet};

use api_objects::{MetadataOnly, Whole};
use chartwright_core::health::{Health, HealthStatus, has_health};
use chartwright_core::identity::applyset::PART_OF_LABEL;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::live::Live;
use chartwright_core::index::members::Scope;
use chartwright_operator::cluster::discovery::Resource;
use chartwright_operator::cluster::error::Error;
use chartwright_operator::cluster::objects;
use chartwright_operator::reconcile::{Context, CustomResource, MemberScopes};
use futures::future::try_join_all;
use kube::core::ObjectMeta;
use serde_json::Value;

use crate::overlay::{ClusterOverlay, ObjectPlace};

/// Fills the operator's index of members.
pub(crate) struct MemberFeed {
    applyset_id: String,
    listed: BTreeSet<Scope>,
    /// Written objects that the index knows, with their versions.
    shown: BTreeSet<(ObjectPlace, String)>,
}

impl MemberFeed {
    pub(crate) fn new(applyset_id: String) -> Self {
        MemberFeed {
            applyset_id,
            listed: BTreeSet::new(),
            shown: BTreeSet::new(),
        }
    }

    /// Lists the kinds that the operator wants to watch and that are not listed yet. True if there was one.
    ///
    /// # Errors
    /// A kind cannot be listed.
    pub(crate) async fn list_wanted(
        &mut self,
        context: &Context,
        overlay: &ClusterOverlay,
        resource: &CustomResource,
    ) -> Result<bool, (GroupKind, Error)> {
        let wanted: Vec<Scope> = {
            let members = context.members();
            members
                .wanted()
                .filter(|scope| !self.listed.contains(*scope))
                .cloned()
                .collect()
        };
        let lists: Vec<_> = wanted
            .iter()
            .map(|scope| self.list_scope(context, overlay, resource, scope))
            .collect();
        try_join_all(lists).await?;
        self.listed.extend(wanted.iter().cloned());
        Ok(!wanted.is_empty())
    }

    async fn list_scope(
        &self,
        context: &Context,
        overlay: &ClusterOverlay,
        resource: &CustomResource,
        scope: &Scope,
    ) -> Result<(), (GroupKind, Error)> {
        let group_kind = &scope.group_kind;
        let snapshot = context.discovery.snapshot();
        let Some(served) = snapshot.preferred(group_kind) else {
            context.members().set_synced(scope);
            return Ok(());
        };
        match self.list((context, overlay), scope, served).await {
            Err(Error::Forbidden(_)) if served.namespaced && scope.namespace.is_none() => {
                self.list_namespaces((context, overlay), resource, group_kind, served)
                    .await
            }
            // A kind that is no longer served has no objects.
            Ok(()) | Err(Error::NotServed(_)) => {
                context.members().set_synced(scope);
                Ok(())
            }
            Err(error) => Err((group_kind.clone(), error)),
        }
    }

    /// Lists the namespaces of a release one by one, for users without rights in the whole cluster.
    async fn list_namespaces(
        &self,
        (context, overlay): (&Context, &ClusterOverlay),
        resource: &CustomResource,
        group_kind: &GroupKind,
        served: &Resource,
    ) -> Result<(), (GroupKind, Error)> {
        for namespace in MemberScopes::from_resource(resource).namespaces {
            let scope = Scope::of(group_kind, &namespace);
            let listed = self.list((context, overlay), &scope, served).await;
            listed.map_err(|error| (group_kind.clone(), error))?;
            context.members().set_synced(&scope);
        }
        Ok(())
    }

    async fn list(
        &self,
        (context, overlay): (&Context, &ClusterOverlay),
        scope: &Scope,
        served: &Resource,
    ) -> Result<(), Error> {
        let labels = format!("{PART_OF_LABEL}={}", self.applyset_id);
        let namespace = scope.namespace.as_deref();
        let group_kind = &scope.group_kind;
        let found: Vec<(ObjectId, Live)> = if has_health(&group_kind.group, &group_kind.kind) {
            let api = served.api_in::<Whole>(&context.client, namespace);
            let whole = |object: Whole| {
                let id = objects::id_of(group_kind, &object.metadata);
                let live = objects::live_with_health(&id, &object);
                (id, healthy(live))
            };
            objects::list(api, &labels, whole).await?
        } else {
            let api = served.api_in::<MetadataOnly>(&context.client, namespace);
            let bare = |object: MetadataOnly| {
                let id = objects::id_of(group_kind, &object.metadata);
                (id, objects::live(&object.metadata))
            };
            objects::list(api, &labels, bare).await?
        };
        overlay.note_listed(served, found.iter().map(|(id, _)| id));
        let mut members = context.members();
        let mut seen = HashSet::new();
        for (id, live) in found {
            members.observe(&id, live);
            seen.insert(id);
        }
        members.retain(scope, &seen);
        Ok(())
    }

    /// Shows the operator what was written since the last call. True if that is news to the release.
    pub(crate) fn show_written(&mut self, context: &Context, overlay: &ClusterOverlay) -> bool {
        let written: Vec<(ObjectPlace, ObjectId)> = {
            let journal = overlay.journal();
            let written = journal.objects.iter().filter(|(_, touched)| touched.is_written);
            written
                .map(|(place, touched)| (place.clone(), touched.id(place)))
                .collect()
        };
        let mut is_news = false;
        for (place, id) in written {
            let object = overlay.object(&place);
            let version = object
                .as_ref()
                .map_or("", |object| text(&object["metadata"]["resourceVersion"]));
            if !self.shown.insert((place, version.to_owned())) {
                continue;
            }
            let mut members = context.members();
            let notified = match object {
                Some(object) => {
                    let metadata: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap_or_default();
                    let live = objects::live(&metadata);
                    let has_health = has_health(&id.group_kind.group, &id.group_kind.kind);
                    members.observe(&id, if has_health { healthy(live) } else { live })
                }
                None => members.remove(&id),
            };
            is_news |= !notified.is_empty();
        }
        is_news
    }
}

/// A member as if it were healthy: no controller runs in the overlay, and later waves are to be shown.
fn healthy(mut live: Live) -> Live {
    live.state.health = Some(Health {
        status: HealthStatus::Current,
        message: String::new(),
    });
    live.state.pods = None;
    live.ready_when = None;
    live
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
