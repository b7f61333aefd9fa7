//! Results of a failed attempt that the next attempt need not compute again. A failed release is retried completely,
//! and most results and refusals are the same.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::objects::lookup::LookupAnswers;
use crate::reconcile::render::stored_values::StoredValues;
use crate::reconcile::schemas::Schemas;
use chartwright_core::apply::member_outcome::MemberOutcome;
use chartwright_core::identity::ObjectId;
use chartwright_core::index::live::Live;
use chartwright_core::members::desired::Member;
use chartwright_core::status::{Phase, Reason};

/// A refused object is sent again after this, because the operator cannot see everything that the API server checks.
const LONGEST: Duration = Duration::from_secs(3600);

/// Results that survive until an attempt succeeds or the author changes the custom resource.
#[derive(Default)]
pub(crate) struct RetryCache {
    /// The random results, as last read or written.
    pub(crate) kept: Option<Box<StoredValues>>,
    /// The answers of lookups.
    pub(crate) answers: LookupAnswers,
    refused: BTreeMap<ObjectId, RefusedWrite>,
    /// When the failed hook is retried.
    pub(crate) hook_retry: Option<Instant>,
}

/// An object that the API server refused.
struct RefusedWrite {
    digest: String,
    /// UID and version of the live object at that time.
    onto: Option<(String, String)>,
    at: Instant,
    reason: Reason,
    message: String,
}

fn version(live: Option<&Live>) -> Option<(String, String)> {
    live.map(|live| (live.uid.clone(), live.resource_version.clone()))
}

impl RetryCache {
    /// Returns the earlier refusal of the same member, if neither the live object nor the schemas have changed since.
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

    /// Records whether the API server refused a member.
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

    /// Clears the results that only a retry can use.
    pub(crate) fn after(&mut self, phase: &Phase) {
        if !matches!(phase, Phase::Failed { .. } | Phase::Stalled { .. }) {
            *self = RetryCache::default();
        }
    }
}
