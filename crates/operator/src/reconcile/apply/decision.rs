//! Decides what happens to one member after its live object was read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use crate::cluster::discovery::Resource;
use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::reconcile::apply::{Applier, MemberTask};
use chartwright_core::apply::comparison::{ComparedMember, compare};
use chartwright_core::apply::{Seen, Step};
use chartwright_core::digest::Key;
use chartwright_core::drift::field_path::without;
use chartwright_core::drift::tolerated::ToleratedDrift;
use chartwright_core::drift::{DriftedField, rollback};
use chartwright_core::index::live::Live;
use chartwright_core::members::desired::Member;
use chartwright_core::members::immutable_fields;

/// What happens to one member.
pub(super) struct MemberDecision {
    pub next: Step,
    pub live: Option<Live>,
    /// Drift that is corrected.
    pub drifted: Vec<DriftedField>,
    /// Drift that stays.
    pub drift: Option<ToleratedDrift>,
    /// True if our field manager wrote another content: a second operator runs.
    pub has_other_operator: bool,
    /// True if `kubectl rollout undo` brought fields back that are removed.
    pub is_undone: bool,
    /// True if the operator gives up ignored fields before the apply.
    pub gives_up: bool,
    /// What is applied in place of the rendered object.
    pub object: Option<Value>,
}

impl MemberDecision {
    pub(super) fn new(next: Step, live: Option<Live>) -> Self {
        MemberDecision {
            next,
            live,
            drifted: Vec::new(),
            drift: None,
            has_other_operator: false,
            is_undone: false,
            gives_up: false,
            object: None,
        }
    }
}

impl Applier<'_> {
    /// Reads the live object with the name of a member, and decides the step. `key`: of the release's digests.
    pub(super) async fn inspect(
        &self,
        resource: &Resource,
        task: MemberTask<'_>,
        key: &Key,
    ) -> Result<MemberDecision, Error> {
        let MemberTask { member, .. } = task;
        self.scope.context.members().begin_request(&member.id);
        let found = objects::read_live_and_fields(&self.scope.client, resource, &member.id).await;
        let end = |answer: Option<&Live>| self.scope.context.members().end_request(&member.id, answer);
        let (seen, managed) = match found {
            Ok(Some(found)) => found,
            Ok(None) => {
                end(None);
                return Ok(MemberDecision::new(task.step(&Seen::Absent), None));
            }
            Err(error) => {
                end(None);
                return Err(error);
            }
        };
        let next = task.step(&Seen::Present(&seen));
        let is_apply = task.forced || matches!(next, Step::Apply { force: true, .. });
        let (mut without_size, mut brought_back) = (None, Vec::new());
        if is_apply {
            without_size = match self.without_size(resource, member, &managed).await {
                Ok(rest) => rest,
                Err(error) => {
                    end(None);
                    return Err(error);
                }
            };
            let undone = rollback::undone_rollout(&managed, objects::FIELD_MANAGER);
            brought_back = undone.map(|undone| undone.fields).unwrap_or_default();
        }
        let compared = ComparedMember {
            member,
            entry: task.entry,
            live: &seen,
            managed: &managed,
            manager: objects::FIELD_MANAGER,
            brought_back: &brought_back,
            is_enlarged: without_size.is_some(),
            is_forced: task.forced,
            key,
        };
        let comparison = compare(&compared, next);
        let is_left = matches!(comparison.step, Step::Unchanged | Step::Leave | Step::Tolerate);
        end(is_left.then_some(&seen));
        Ok(MemberDecision {
            next: comparison.step,
            live: Some(seen),
            drifted: comparison.corrected,
            is_undone: !brought_back.is_empty() && comparison.tolerated.is_none(),
            drift: comparison.tolerated,
            has_other_operator: comparison.has_other_operator,
            gives_up: comparison.gives_up || member.ignored.is_some() && self.scope.takeover.is_under_way(),
            object: match comparison.left_out[..] {
                [] => without_size,
                ref left_out => Some(without(without_size.as_ref().unwrap_or(&member.object), left_out)),
            },
        })
    }

    /// The claim to apply in place of a rendered one, if another client enlarged the live one.
    async fn without_size(
        &self,
        resource: &Resource,
        member: &Member,
        managed: &[ManagedFieldsEntry],
    ) -> Result<Option<Value>, Error> {
        if !immutable_fields::is_claim(&member.id.group_kind) {
            return Ok(None);
        }
        let found = objects::read(&self.scope.client, resource, &member.id).await?;
        Ok(found.and_then(|(_, object)| {
            immutable_fields::without_size(&object, managed, objects::FIELD_MANAGER, &member.object)
        }))
    }
}
