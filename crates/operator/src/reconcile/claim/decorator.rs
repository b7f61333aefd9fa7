//! `decorate: true`: a release that is attached to an object of another owner. Where owner references reach all
//! members, the garbage collector deletes them with the object. The finalizer is added only where a deletion has more
//! to do. When the object leaves the selector, the release is deleted and the object stays.

use std::collections::HashSet;

use kube::core::SelectorExt as _;
use serde_json::{Value, json};

use crate::reconcile::release::Release;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::annotations;
use chartwright_core::hooks::Hook;
use chartwright_core::members::desired::Member;
use chartwright_watches::{DeletionPolicy, OnFailure};

/// Answers whether a custom resource needs or has its claim.
pub(crate) struct ClaimRules<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> ClaimRules<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        ClaimRules { scope }
    }
}

impl ClaimRules<'_> {
    /// True if it was decorated, and is to be no more. Nothing is done to what is suspended.
    pub(crate) fn has_left_selector(&self) -> bool {
        self.scope.written.decorator.is_some()
            && !self.scope.unit.watch.selector.matches(&self.scope.written.labels)
            && !annotations::is_suspended(&self.scope.written.annotations)
    }

    /// True if its deletion has work that the garbage collector doesn't do, or that it must not do by itself: members that
    /// no owner reference reaches or that go in an order, hooks, plans, and what is kept for a rollback.
    pub(crate) fn needs_finalizer(&self, prepared: &PreparedRelease) -> bool {
        let watch = &self.scope.unit.watch;
        let goes_alone = |member: &Member| member.owner.is_some();
        let hook_goes_alone =
            |hook: &Hook| hook.is_of_an_operation() && !hook.is_of_deletion() && goes_alone(&hook.member);
        self.scope.written.decorator.is_none()
            || watch.deletion_policy != DeletionPolicy::Delete
            || watch.on_failure == OnFailure::Rollback
            || !prepared.desired.members.iter().all(goes_alone)
            || !prepared.desired.hooks.iter().all(hook_goes_alone)
    }

    /// True if the object has what it needs for its release: the finalizer, or for a decorator at least its claim where what is
    /// recorded goes alone.
    pub(crate) fn is_held(&self, release: &Release) -> bool {
        if self.scope.written.decorator.is_none()
            || !self.scope.written.is_claimed()
            || self.scope.written.has_finalizer()
        {
            return self.scope.written.is_claimed();
        }
        let (watch, record) = (&self.scope.unit.watch, &release.record);
        let members = self.scope.context.members();
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
        self.scope.written.has_finalizer() && release.record.entries.iter().any(|entry| !rendered.contains(&entry.id))
    }

    /// `.Object` as far as its author has no say in it, for what a chart makes by itself.
    pub(crate) fn undecorated(&self) -> Option<Value> {
        self.scope.written.decorator.as_ref()?;
        let mut object = self.scope.written.as_data(&self.scope.unit.resource);
        object["spec"] = json!({});
        for field in ["labels", "annotations"] {
            object["metadata"][field] = json!({});
        }
        Some(object)
    }
}
