//! `decorate: true`: a release that is attached to somebody else's object. Where owner references reach all that it made, it
//! goes with the object by the garbage collector, and nothing waits; the finalizer is there where a deletion has more to
//! do. When the object leaves the selector, the release goes and the object stays.

use std::collections::HashSet;

use kube::core::SelectorExt as _;
use serde_json::{Value, json};

use crate::cluster::custom_resource::{OwnedMetadata, remove_annotations, remove_finalizer};
use crate::cluster::error::Error;
use crate::reconcile::Reconcile;
use crate::reconcile::release::Release;
use crate::reconcile::render::PreparedRelease;
use chartwright_core::annotations;
use chartwright_core::hooks::Hook;
use chartwright_core::members::desired::Member;
use chartwright_watches::{DeletionPolicy, OnFailure};

impl Reconcile<'_> {
    /// True if it was decorated, and is to be no more. Nothing is done to what is suspended.
    pub(crate) fn has_left_selector(&self) -> bool {
        self.written.decorator.is_some()
            && !self.unit.watch.selector.matches(&self.written.labels)
            && !annotations::is_suspended(&self.written.annotations)
    }

    /// True if its deletion has work that the garbage collector doesn't do, or that it must not do by itself: members that
    /// no owner reference reaches or that go in an order, hooks, plans, and what is kept for a rollback.
    pub(crate) fn needs_finalizer(&self, prepared: &PreparedRelease) -> bool {
        let watch = &self.unit.watch;
        let goes_alone = |member: &Member| member.owner.is_some();
        let hook_goes_alone =
            |hook: &Hook| hook.is_of_an_operation() && !hook.is_of_deletion() && goes_alone(&hook.member);
        self.written.decorator.is_none()
            || watch.deletion_policy != DeletionPolicy::Delete
            || watch.on_failure == OnFailure::Rollback
            || !prepared.desired.members.iter().all(goes_alone)
            || !prepared.desired.hooks.iter().all(hook_goes_alone)
    }

    /// True if the object has what it needs for its release: the finalizer, or for a decorator at least its claim where what is
    /// recorded goes alone.
    pub(crate) fn is_held(&self, release: &Release) -> bool {
        if self.written.decorator.is_none() || !self.written.is_claimed() || self.written.has_finalizer() {
            return self.written.is_claimed();
        }
        let (watch, record) = (&self.unit.watch, &release.record);
        let members = self.context.members();
        let mut live = record.entries.iter().filter_map(|entry| members.get(&entry.id));
        watch.deletion_policy == DeletionPolicy::Delete
            && watch.on_failure != OnFailure::Rollback
            && record.hooks.stored.is_empty()
            && record.plans.plans.is_empty()
            && live.all(|live| live.owner.is_some())
    }

    /// True if it is held, and something of it is left that is no longer rendered and may have no owner reference.
    pub(crate) fn holds_for_others(&self, release: &Release, prepared: &PreparedRelease) -> bool {
        let rendered: HashSet<_> = prepared.ids().collect();
        self.written.has_finalizer() && release.record.entries.iter().any(|entry| !rendered.contains(&entry.id))
    }

    /// Takes all of our marks off an object that is decorated no more. Others may have written them, too, as with an edit of
    /// the whole object.
    pub(crate) async fn undecorate(&mut self) -> Result<(), Error> {
        self.write_marks(&OwnedMetadata::default()).await?;
        let (kinds, namespaces) = self.written.member_scope_annotations();
        let mut keys = vec![kinds, namespaces, self.written.kept_annotation()];
        keys.retain(|key| self.written.annotations.contains_key(key));
        let target = self.written.target(&self.unit.resource);
        if !keys.is_empty() {
            let object = remove_annotations(&self.context.client, &target, &keys).await?;
            self.set_written(object);
        }
        let finalizer = self.written.finalizer();
        remove_finalizer(&self.context.client, &target, &self.written.finalizers, &finalizer).await
    }

    /// `.Object` as far as its author has no say in it, for what a chart makes by itself.
    pub(crate) fn undecorated(&self) -> Option<Value> {
        self.written.decorator.as_ref()?;
        let mut object = self.written.as_data(&self.unit.resource);
        object["spec"] = json!({});
        for field in ["labels", "annotations"] {
            object["metadata"][field] = json!({});
        }
        Some(object)
    }
}
