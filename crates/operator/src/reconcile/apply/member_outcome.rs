//! What became of a member in a reconcile, and what is recorded of it then.

use crate::reconcile::Reconcile;
use chartwright_core::apply::Why;
use chartwright_core::index::members::Live;
use chartwright_core::members::desired::Member;
use chartwright_core::members::policy::Update;
use chartwright_core::record::Entry;
use chartwright_core::status::Reason;

pub(crate) enum MemberOutcome {
    Unchanged,
    /// It is there, and is left as it is.
    Left,
    /// Somebody else's is there, which is all that the chart asks for.
    Yielded,
    /// A Job that is done, and gone.
    Finished,
    Applied(Box<Live>, Why),
    /// Put right: which fields, and who had taken them.
    Corrected(Box<Live>, String),
    /// Deleted and made anew for these fields.
    Recreated(Box<Live>, String),
    /// Somebody takes its fields again and again: it is put right later.
    Contested,
    Awaited,
    Failed(Reason, String),
}

impl Reconcile<'_> {
    /// The record of a member after what was done to it.
    pub(crate) fn entry(&self, member: &Member, previous: Option<Entry>, done: &MemberOutcome) -> Option<Entry> {
        let same = previous.as_ref().filter(|entry| entry.digest == member.digest);
        let same_fingerprint = same.and_then(|entry| entry.fingerprint);
        let finished = same.is_some_and(|entry| entry.finished);
        let entry = |uid: String, digest: String, fingerprint| Entry {
            uid,
            digest,
            fingerprint,
            finished,
            ..Entry::of(member)
        };
        match done {
            MemberOutcome::Unchanged => match self.context.members().get(&member.id) {
                Some(live) => Some(entry(live.uid.clone(), member.digest.clone(), live.fingerprint)),
                None => previous,
            },
            MemberOutcome::Applied(live, _) | MemberOutcome::Corrected(live, _) | MemberOutcome::Recreated(live, _) => {
                Some(Entry {
                    finished: false,
                    ..entry(live.uid.clone(), member.digest.clone(), live.fingerprint)
                })
            }
            // Unless the chart means it to be left, what is there isn't what was rendered: it is sent when the
            // annotation goes.
            MemberOutcome::Left => {
                let live = self.context.members().get(&member.id).cloned();
                let (uid, fingerprint) = live.map(|live| (live.uid, live.fingerprint)).unwrap_or_default();
                let fingerprint = match member.policy.update {
                    Update::IfNotPresent => fingerprint,
                    _ => same_fingerprint,
                };
                Some(entry(uid, member.digest.clone(), fingerprint))
            }
            MemberOutcome::Yielded => None,
            MemberOutcome::Finished | MemberOutcome::Contested => previous,
            // Somebody else's object is no member of ours, unless it was: then it is watched until that is settled.
            MemberOutcome::Failed(Reason::Collision, _) => previous,
            // A request that timed out may have been carried out: it stays listed, and without a fingerprint it is
            // looked at again. A content that was recorded before is no upgrade when it arrives at last.
            MemberOutcome::Awaited | MemberOutcome::Failed(..) => {
                let (uid, digest) = previous.map(|entry| (entry.uid, entry.digest)).unwrap_or_default();
                let digest = if digest == member.digest { digest } else { String::new() };
                Some(entry(uid, digest, None))
            }
        }
    }
}
