//! What a reconcile did to a member, and what the record holds of the member afterwards.

use std::time::Duration;

use super::ApplyReason;
use crate::drift::tolerated::ToleratedDrift;
use crate::index::live::Live;
use crate::members::desired::Member;
use crate::members::policy::Update;
use crate::record::Entry;
use crate::status::Reason;

/// What a reconcile did to one member.
#[derive(Clone, Debug)]
pub enum MemberOutcome {
    Unchanged,
    /// It is there, and is left as it is.
    Left,
    /// Other clients changed it, and its drift stays.
    Drifted(Box<Live>),
    /// An object of another owner exists, and the chart requires no more.
    Yielded,
    /// A Job that is done, and gone.
    Finished,
    Applied(Box<Live>, ApplyReason),
    /// Drift was corrected: the fields, and the field managers that had changed them.
    Corrected(Box<Live>, String),
    /// Recreated because these fields are immutable.
    Recreated(Box<Live>, String),
    /// Another field manager changes its fields repeatedly: it is corrected later.
    Contested,
    Awaited,
    Failed(Reason, String),
    /// The API server throttles requests, and requests this wait before the retry.
    Throttled(String, Duration),
}

/// What the record holds of a member after a reconcile. `previous`: its entry before. `live`: the member in the index. `drift`: what was
/// left of it. `None` if it is no member of the release.
pub fn recorded_entry(
    member: &Member,
    previous: Option<Entry>,
    outcome: &MemberOutcome,
    live: Option<&Live>,
    drift: Option<&ToleratedDrift>,
) -> Option<Entry> {
    let same = previous.as_ref().filter(|entry| entry.digest == member.digest);
    let same_fingerprint = same.and_then(|entry| entry.fingerprint);
    let finished = same.is_some_and(|entry| entry.finished);
    let was_adopted = previous.as_ref().is_some_and(|entry| entry.adopted);
    let known_drift = previous.as_ref().and_then(|entry| entry.drift.clone());
    let entry = |uid: String, digest: String, fingerprint| Entry {
        uid,
        digest,
        fingerprint,
        finished,
        adopted: live.map_or(was_adopted, |live| live.marks.adopted),
        drift: known_drift.clone(),
        ..Entry::of(member)
    };
    let left = |live: &Live| {
        let others = live.managers.others;
        drift.map(|drift| {
            Box::new(ToleratedDrift {
                others,
                ..drift.clone()
            })
        })
    };
    match outcome {
        MemberOutcome::Unchanged => match live {
            Some(live) => Some(entry(
                live.uid.clone(),
                member.digest.clone(),
                live.managers.fingerprint,
            )),
            None => previous,
        },
        MemberOutcome::Applied(live, _) | MemberOutcome::Corrected(live, _) | MemberOutcome::Recreated(live, _) => {
            Some(Entry {
                finished: false,
                adopted: live.marks.adopted,
                drift: left(live),
                ..entry(live.uid.clone(), member.digest.clone(), live.managers.fingerprint)
            })
        }
        MemberOutcome::Drifted(live) => Some(Entry {
            drift: left(live),
            ..entry(live.uid.clone(), member.digest.clone(), live.managers.fingerprint)
        }),
        // Unless the chart means it to be left, what is there isn't what was rendered: it is sent when the
        // annotation goes.
        MemberOutcome::Left => {
            let (uid, fingerprint) = live
                .map(|live| (live.uid.clone(), live.managers.fingerprint))
                .unwrap_or_default();
            let fingerprint = match member.policy.update {
                Update::IfNotPresent => fingerprint,
                _ => same_fingerprint,
            };
            Some(entry(uid, member.digest.clone(), fingerprint))
        }
        MemberOutcome::Yielded => None,
        MemberOutcome::Finished | MemberOutcome::Contested => previous,
        // An object of another owner is no member, unless it was one: then it is watched until the conflict is resolved.
        MemberOutcome::Failed(Reason::Collision, _) => previous,
        // A request that timed out may have been carried out: it stays listed, and without a fingerprint it is
        // looked at again. A content that was recorded before is no upgrade when it arrives at last.
        MemberOutcome::Awaited | MemberOutcome::Failed(..) | MemberOutcome::Throttled(..) => {
            let (uid, digest) = previous.map(|entry| (entry.uid, entry.digest)).unwrap_or_default();
            let digest = if digest == member.digest { digest } else { String::new() };
            Some(entry(uid, digest, None))
        }
    }
}
