//! Gives replicas to an autoscaler, and applies the chart's again after the autoscaler that owned them is gone.

use std::collections::HashMap;
use std::ops::ControlFlow::{Break, Continue};

use serde_json::Value;

use crate::cluster::discovery::Resource;
use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::cluster::workloads::autoscalers;
use crate::reconcile::apply::Applier;
use crate::reconcile::apply::send::{MemberSender, SendOptions, TRIES};
use crate::reconcile::flow::Flow;
use crate::reconcile::observe::warnings::Warnings;
use crate::reconcile::release::Release;
use crate::reconcile::render::prepared::PreparedRelease;
use chartwright_core::apply::ApplyReason;
use chartwright_core::apply::member_outcome::MemberOutcome;
use chartwright_core::identity::ObjectId;
use chartwright_core::index::live::Live;
use chartwright_core::members::autoscaling;
use chartwright_core::members::desired::Member;
use chartwright_core::members::policy::Update;
use chartwright_core::status::{Changes, Phase, Reason};

impl Applier<'_> {
    /// Applies members whose replicas no field manager owns any more. Sends no request if no autoscaler owned replicas,
    /// or if the chart itself has the autoscaler.
    pub(crate) async fn reclaim_replicas(
        &self,
        release: &mut Release,
        prepared: &PreparedRelease,
        asked: bool,
        changes: &mut Changes,
    ) -> Flow {
        let snapshot = self.scope.context.discovery.snapshot();
        let mut listed: HashMap<&str, Result<Vec<Value>, Error>> = HashMap::new();
        for member in &prepared.desired.members {
            let Some((live, by)) = self.given_up(member) else {
                continue;
            };
            let namespace = member.id.namespace.as_str();
            if has_autoscaler(prepared, &member.id) {
                continue;
            }
            if !listed.contains_key(namespace) {
                let found = autoscalers::list(&self.scope.client, &snapshot, namespace).await;
                match &found {
                    // No event would start another check.
                    Err(error) if error.is_transient() => {
                        let message = format!("the HorizontalPodAutoscalers in {namespace}: {error}");
                        return Break(Phase::failed(Reason::ApplyFailed, message).not_before(error.retry_after()));
                    }
                    Err(error) => {
                        tracing::debug!(namespace, %error, "autoscalers can't be listed: replicas stay given up");
                    }
                    Ok(_) => {}
                }
                listed.insert(namespace, found);
            }
            let autoscalers = match listed.get(namespace) {
                Some(Ok(found)) => Some(found.as_slice()),
                Some(Err(error)) if asked => {
                    self.scope
                        .warn("ReplicasLeft", &autoscaling::unseen(&member.id, &by, error))
                        .await;
                    continue;
                }
                _ => None,
            };
            if !autoscaling::is_free(&by, autoscalers, &member.id, asked) || release.must_wait(&member.id) {
                continue;
            }
            let Some(resource) = snapshot.resource(&member.id.group_kind, &member.version) else {
                continue;
            };
            let order = SendOptions {
                force: true,
                why: ApplyReason::Forced,
                recreate: false,
                object: None,
            };
            let sent = MemberSender::new(self.scope)
                .send(release, resource, member, Some(&live), order)
                .await;
            match sent.unwrap_or_else(|conflict| MemberSender::new(self.scope).failure(member, &conflict)) {
                MemberOutcome::Applied(live, _) => {
                    if let Some(entry) = release.record.entry_mut(&member.id) {
                        entry.fingerprint = live.managers.fingerprint;
                    }
                    // An autoscaler in an unreadable namespace would change them again.
                    let how = format!("spec.replicas was set by {by}");
                    Warnings::new(self.scope).corrected(release, member, &how).await;
                    changes.reclaimed.push(member.id.to_string());
                }
                MemberOutcome::Failed(reason, message) => return Break(Phase::failed(reason, message)),
                MemberOutcome::Throttled(message, after) => {
                    return Break(Phase::failed(Reason::ApplyFailed, message).not_before(Some(after)));
                }
                _ => {}
            }
        }
        Continue(())
    }

    /// Gives the replicas that our field manager set to another one, if an autoscaler scales the member. Otherwise an apply without them
    /// would reset them to 1, and the autoscaler would begin there.
    ///
    /// # Errors
    /// `Conflict` if the object changed at the same time, or why the API server did not answer.
    pub(crate) async fn hand_over_replicas(
        &self,
        resource: &Resource,
        prepared: &PreparedRelease,
        member: &Member,
        live: &Live,
    ) -> Result<(), Error> {
        let (context, id) = (self.scope.context, &member.id);
        if !has_autoscaler(prepared, id) {
            let snapshot = context.discovery.snapshot();
            let found = match autoscalers::list(&self.scope.client, &snapshot, &id.namespace).await {
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    tracing::debug!(object = %id, %error, "autoscalers can't be listed: the replicas become the default");
                    return Ok(());
                }
                Ok(found) => found,
            };
            if !found.iter().any(|autoscaler| autoscaling::scales(autoscaler, id)) {
                return Ok(());
            }
        }
        let mut result = Ok(());
        for _ in 0..TRIES {
            let found = objects::read(&self.scope.client, resource, id).await?;
            let Some((_, object)) = found.filter(|(seen, _)| seen.uid == live.uid) else {
                return Err(Error::Conflict(format!("{id} was replaced at the same time")));
            };
            context.members().begin_request(id);
            let answer = objects::hand_over_replicas(&self.scope.client, resource, id, &object).await;
            context.members().end_request(id, answer.as_ref().ok());
            result = answer.map(drop);
            if !matches!(result, Err(Error::Conflict(_))) {
                break;
            }
        }
        result
    }

    /// The live member if another field manager owns replicas that the chart sets, and that manager. The returned
    /// object has no such manager.
    fn given_up(&self, member: &Member) -> Option<(Live, String)> {
        member.object.pointer("/spec/replicas")?;
        let mut live = self.scope.context.members().get(&member.id).cloned()?;
        let by = live.managers.scaled_by.take()?;
        let is_left = live.marks.disabled || live.deleting || member.policy.update == Update::IfNotPresent;
        (!is_left).then(|| (live, by.into_string()))
    }
}

/// True if the chart has an autoscaler of an object.
fn has_autoscaler(prepared: &PreparedRelease, target: &ObjectId) -> bool {
    prepared.desired.members.iter().any(|other| {
        other.id.namespace == target.namespace
            && autoscaling::is_autoscaler(&other.id.group_kind)
            && autoscaling::scales(&other.object, target)
    })
}
