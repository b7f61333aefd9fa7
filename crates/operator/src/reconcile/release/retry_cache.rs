//! Results of a failed attempt that the next attempt need not compute again. A failed release is retried completely,
//! and most results and refusals are the same.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::objects::lookup::LookupAnswers;
use crate::reconcile::context::Schemas;
use crate::reconcile::render::stored_values::StoredValues;
use chartwright_core::apply::member_outcome::MemberOutcome;
use chartwright_core::identity::ObjectId;
use chartwright_core::index::members::Live;
use chartwright_core::members::desired::Member;
use chartwright_core::status::{Phase, Reason};

/// After this it is sent all the same: not all that the API server judges by can be seen.
const LONGEST: Duration = Duration::from_secs(3600);

/// What is kept from one attempt to the next, until one succeeds or the author changes the custom resource.
#[derive(Default)]
pub(crate) struct RetryCache {
    /// The Secret with the random results, as it was read or written.
    pub(crate) kept: Option<StoredValues>,
    /// What was looked up.
    pub(crate) answers: LookupAnswers,
    refused: HashMap<ObjectId, RefusedWrite>,
    /// When the hook that failed is tried again.
    pub(crate) hook_retry: Option<Instant>,
}

/// The API server refuses an object as it is written.
struct RefusedWrite {
    digest: String,
    /// UID and version of what it was to be applied to.
    onto: Option<(String, String)>,
    at: Instant,
    reason: Reason,
    message: String,
}

fn version(live: Option<&Live>) -> Option<(String, String)> {
    live.map(|live| (live.uid.clone(), live.resource_version.clone()))
}

impl RetryCache {
    /// What the API server said of this very member before, if nothing that it judges by has changed.
    pub(crate) fn refused_before(
        &self,
        schemas: &Schemas,
        member: &Member,
        live: Option<&Live>,
    ) -> Option<MemberOutcome> {
        let known = self.refused.get(&member.id)?;
        let is_same = known.digest == member.digest
            && known.onto == version(live)
            && !schemas.may_judge_otherwise(&member.id.group_kind.group, known.at)
            && known.at.elapsed() < LONGEST;
        is_same.then(|| MemberOutcome::Failed(known.reason, known.message.clone()))
    }

    /// Takes note of what came of sending a member.
    pub(crate) fn note_refusal(&mut self, member: &Member, live: Option<&Live>, done: &MemberOutcome) {
        let refused = &mut self.refused;
        match done {
            MemberOutcome::Failed(reason @ (Reason::ObjectInvalid | Reason::Immutable), message) => {
                let refusal = RefusedWrite {
                    digest: member.digest.clone(),
                    onto: version(live),
                    at: Instant::now(),
                    reason: *reason,
                    message: message.clone(),
                };
                refused.insert(member.id.clone(), refusal);
            }
            _ => drop(refused.remove(&member.id)),
        }
    }

    /// What is of no use if there is no retry.
    pub(crate) fn after(&mut self, phase: &Phase) {
        if !matches!(phase, Phase::Failed { .. } | Phase::Stalled { .. }) {
            *self = RetryCache::default();
        }
    }
}
