//! The watches that show the members of a release: before its first reconcile, they must have listed.

use std::time::Duration;

use tokio::time::Instant;

use crate::reconcile::claim::member_scopes::{MemberScopes, scopes, want};
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::load::input_digest;
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::InitialWait;
use crate::reconcile::rollout;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::unit::Unit;
use chartwright_core::record::Record;

/// How long a release waits at first for the watches of its members and of what it looked up. A watch that can't list
/// is reported by the releases that need it.
pub(crate) const SYNC_WAIT: Duration = Duration::from_secs(15);

/// Requests the watches of the members and looked-up objects that the status of a custom resource names, before its
/// first reconcile. Annotations may name other scopes, but their author may be another client: these are listed when
/// needed.
pub fn watch_recorded(context: &Context, unit: &Unit, resource: &CustomResource) {
    let seal = resource.record_seal(&context.keys, &unit.group_kind);
    let record = Record::from_status(&resource.status(), Some(&seal)).into_record();
    want(
        context,
        &resource.applyset_id(&unit.group_kind),
        &MemberScopes::from_record(&record),
    );
    input_digest::follow_recorded(context, unit, resource, &record);
    rollout::resume(unit, resource, &record);
}

/// Waits for the watches of members and looked-up objects.
pub(crate) struct MemberWatches<'a> {
    pub(crate) scope: &'a ReleaseScope<'a>,
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
        if release.schedule.initial_wait == InitialWait::Over {
            return None;
        }
        let superset = MemberScopes::from_record(&release.record);
        let now = Instant::now();
        let until = match release.schedule.initial_wait {
            InitialWait::Watches(until) => until,
            _ => {
                want(self.scope.context, &self.scope.owner.set, &superset);
                now + SYNC_WAIT
            }
        };
        release.schedule.initial_wait = InitialWait::Watches(until);
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
        release.schedule.initial_wait = InitialWait::Over;
        None
    }

    /// From now on, only the watches that show the members of a superset are needed.
    pub(crate) fn want_only(&self, superset: &MemberScopes) {
        self.scope
            .context
            .want_only(&self.scope.owner.set, scopes(self.scope.context, superset));
    }
}
