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

/// Decides whether a custom resource needs a finalizer, and whether it is claimed.
pub(crate) struct ClaimRules<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> ClaimRules<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        ClaimRules { scope }
    }
}

impl ClaimRules<'_> {
    /// True if the object was decorated and has left the selector. False while it is suspended.
    pub(crate) fn has_left_selector(&self) -> bool {
        self.scope.written.decorator.is_some()
            && !self.scope.unit.watch.selector.matches(&self.scope.written.labels)
            && !annotations::is_suspended(&self.scope.written.annotations)
    }

    /// True if the deletion needs the operator and not only the garbage collector: for members without owner reference,
    /// members with a deletion order, hooks, plans, and renders stored for a rollback.
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

    /// True if the object has its finalizer. A decorated object whose recorded members need none only has to be
    /// claimed.
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
            && live.all(|live| live.ownership.owner.is_some())
    }

    /// True if the object has our finalizer and the record has orphans, which may have no owner reference.
    pub(crate) fn holds_for_others(&self, release: &Release, prepared: &PreparedRelease) -> bool {
        let rendered: HashSet<_> = prepared.ids().collect();
        self.scope.written.has_finalizer() && release.record.entries.iter().any(|entry| !rendered.contains(&entry.id))
    }

    /// Returns the parts of `.Object` that its author cannot choose, for the chart's default render.
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
