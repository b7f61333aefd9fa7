//! Judges the health of a release from the index of live members, which holds watch events and responses to our writes.

use std::collections::BTreeSet;

use jiff::{Timestamp, Unit};

use crate::cluster::objects::lookup;
use crate::reconcile::observe::live_members::{MemberObserver, condition_health};
use crate::reconcile::observe::pods::diagnose_pods;
use crate::reconcile::release::Release;
use crate::reconcile::release::last_render::split;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::health::pods::is_unused_claim;
use chartwright_core::health::{Health, HealthStatus, has_health};
use chartwright_core::identity::ObjectId;
use chartwright_core::index::members::Members;
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{Phase, Reason};

/// The problem of one member. `None` if it is healthy. `gate`: the result of a condition of its own, which replaces the
/// rule of its kind.
pub(crate) fn health_problem(id: &ObjectId, members: &Members, gate: Option<&Health>) -> Option<(Reason, String)> {
    let kind = &id.group_kind;
    let (reason, text) = match members.get(id) {
        None => {
            let why = members
                .failure(kind)
                .map(|error| format!(" (its watch fails: {error})"));
            (Reason::Progressing, format!("not seen yet{}", why.unwrap_or_default()))
        }
        Some(live) if live.deleting => (Reason::Terminating, "is being deleted".to_owned()),
        Some(live) => match gate.or(live.state.health.as_ref()) {
            None if has_health(&kind.group, &kind.kind) => {
                (Reason::Progressing, "its state is not known yet".to_owned())
            }
            None => return None,
            Some(health) => match health.status {
                HealthStatus::Current => return None,
                HealthStatus::InProgress => (Reason::Progressing, health.message.clone()),
                HealthStatus::Terminating => (Reason::Terminating, "is being deleted".to_owned()),
                HealthStatus::Failed => (Reason::MemberFailed, health.message.clone()),
            },
        },
    };
    Some((reason, format!("{} {}: {text}", kind.kind, id.name)))
}

/// Turns the health of the members into the phase of the release.
pub(crate) struct HealthReporter<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> HealthReporter<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        HealthReporter { scope }
    }
}

impl HealthReporter<'_> {
    pub(crate) async fn recorded_health(&self, release: &mut Release) -> Phase {
        let entries = release.record.entries.iter().filter(|entry| !entry.finished);
        let ids: Vec<ObjectId> = entries.map(|entry| entry.id.clone()).collect();
        self.phase_of(release, &ids).await
    }

    /// Ready, or waiting for the members named.
    pub(crate) async fn phase_of(&self, release: &mut Release, ids: &[ObjectId]) -> Phase {
        diagnose_pods(self.scope, release, ids).await;
        MemberObserver::new(self.scope).judge(release, ids).await;
        let troubles: Vec<(Reason, String)> = {
            let members = self.scope.context.members();
            let explained = |id: &ObjectId| {
                let (reason, text) = health_problem(id, &members, condition_health(release, id))?;
                match release.observed.pods.of(id) {
                    Some(why) if is_unused_claim(id, why) => None,
                    Some(why) => Some((reason, format!("{text}: {why}"))),
                    None => Some((reason, text)),
                }
            };
            let unseen = self.unseen(release, ids, &members).into_iter();
            unseen.chain(ids.iter().filter_map(explained)).collect()
        };
        let mut reasons = troubles.iter().map(|(reason, _)| *reason);
        let Some(first) = reasons.next() else {
            return Phase::Ready;
        };
        let reason = reasons.find(|reason| *reason == Reason::MemberFailed).unwrap_or(first);
        Phase::waiting(reason, short_list(troubles.into_iter().map(|(_, text)| text)))
    }

    /// The kinds whose watch has failed for so long that the health of their members is unknown.
    fn unseen(&self, release: &Release, ids: &[ObjectId], members: &Members) -> Vec<(Reason, String)> {
        let mut texts = BTreeSet::new();
        for (id, failing) in ids.iter().filter_map(|id| Some((id, members.unseen(id)?))) {
            let (kind, since, error) = (&id.group_kind, second(failing.since), &failing.error);
            texts.insert(format!("{kind}: not known since {since}: its watch fails: {error}"));
        }
        let snapshot = self.scope.context.discovery.snapshot();
        let looked_up = self.scope.context.dependencies();
        let keys = release
            .render
            .last
            .lookups
            .iter()
            .filter_map(|lookup| lookup::parse(split(lookup).0));
        for target in keys.map(|key| lookup::dependency(&snapshot, &key)) {
            if let Some((since, error)) = looked_up.unseen(&target) {
                let (kind, since) = (&target.group_kind, second(*since));
                texts.insert(format!(
                    "{kind}: what is looked up is not known since {since}: its watch fails: {error}"
                ));
            }
        }
        texts.into_iter().map(|text| (Reason::WatchFailed, text)).collect()
    }
}

fn second(time: Timestamp) -> Timestamp {
    time.round(Unit::Second).unwrap_or(time)
}
