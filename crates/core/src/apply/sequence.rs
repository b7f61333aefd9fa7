//! The order of a reconcile's steps, from the desired, recorded and live members.
//!
//! Each reconcile builds a new sequence. Invariant: a reconcile never waits. If a [`SequenceTurn::Wait`] is not over, the reconcile
//! ends, and a watch event starts the next one. The record and the live objects show the progress of a release, so a turn
//! whose work is done sends no request.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::identity::ObjectId;
use crate::members::desired::{Member, Stage};
use crate::record::Record;
use chartwright_watches::DeletionPolicy;

/// What is done at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceTurn<T> {
    /// An installation applies these one after the other; a removal deletes them side by side, and begins in this order.
    Members(Vec<T>),
    /// Nothing that follows begins before all that an installation applied so far is healthy, or what a removal deleted
    /// last is gone.
    Wait,
}

/// Applies members, which are in the order of [`Member::turn`]: stage by stage, in each wave by wave.
pub fn installation(members: &[Member]) -> Vec<SequenceTurn<&Member>> {
    let groups = members.chunk_by(|one, next| one.turn() == next.turn());
    let turns = groups.flat_map(|group| [SequenceTurn::Wait, SequenceTurn::Members(group.iter().collect())]);
    turns.skip(1).collect()
}

/// Deletes objects in the reverse order: webhooks first, then the objects, then namespaces and CRDs, and in each of these
/// the higher waves before the lower ones. Within a turn, last made, first gone; what no record lists has no order, and
/// goes before what others may depend on.
///
/// `wave` returns the wave of an object: from the live object if it was read, else from the record. Objects in waves
/// depend on one another, so each wave is awaited unless it is kept; between the stages, `policy` decides.
pub fn removal<T>(
    found: Vec<T>,
    id: impl Fn(&T) -> &ObjectId,
    wave: impl Fn(&T) -> Option<i32>,
    record: &Record,
    policy: DeletionPolicy,
) -> Vec<SequenceTurn<T>> {
    let recorded: HashMap<&ObjectId, (usize, i32)> = record
        .entries
        .iter()
        .enumerate()
        .map(|(position, entry)| (&entry.id, (position, entry.wave)))
        .collect();
    let mut ordered: Vec<((Stage, i32), usize, T)> = found
        .into_iter()
        .map(|item| {
            let (position, recorded) = recorded.get(id(&item)).copied().unwrap_or((usize::MAX, 0));
            let wave = wave(&item).unwrap_or(recorded);
            ((Stage::of(&id(&item).group_kind), wave), position, item)
        })
        .collect();
    ordered.sort_by_key(|(group, position, _)| Reverse((*group, *position)));
    let mut turns: Vec<SequenceTurn<T>> = Vec::new();
    let mut before: Option<(Stage, i32)> = None;
    for (group, _, item) in ordered {
        let waits = |before: (Stage, i32)| match policy {
            DeletionPolicy::WaitForTermination => true,
            DeletionPolicy::Delete => before.0 == group.0,
            DeletionPolicy::Orphan => false,
        };
        match turns.last_mut().filter(|_| before == Some(group)) {
            Some(SequenceTurn::Members(items)) => items.push(item),
            _ => {
                turns.extend(before.is_some_and(waits).then_some(SequenceTurn::Wait));
                turns.push(SequenceTurn::Members(vec![item]));
            }
        }
        before = Some(group);
    }
    if policy == DeletionPolicy::WaitForTermination {
        turns.push(SequenceTurn::Wait);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{but, entry, id, member, table};

    /// The names in the turns, one turn after the other; `|` where the sequence waits.
    #[expect(clippy::needless_pass_by_value, reason = "a short call in a table")]
    fn names<T>(turns: Vec<SequenceTurn<T>>, name: impl Fn(&T) -> &str) -> String {
        let texts = turns.iter().map(|turn| match turn {
            SequenceTurn::Members(items) => items.iter().map(&name).collect::<Vec<_>>().join("+"),
            SequenceTurn::Wait => "|".to_owned(),
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn members_are_applied_stage_by_stage_and_wave_by_wave() {
        for (members, expected) in table::<(Vec<(String, String, i32)>, String)>("sequence", "installations") {
            let waved = |(kind, name, wave): (String, String, i32)| {
                but(&member(&id(&kind, &name)), |member| member.policy.wave = wave)
            };
            let members: Vec<Member> = members.into_iter().map(waved).collect();
            assert_eq!(names(installation(&members), |member| &member.id.name), expected);
        }
    }

    #[test]
    fn what_others_need_goes_last() {
        let webhook = "ValidatingWebhookConfiguration.admissionregistration.k8s.io";
        let listed = [
            ("Namespace", "space"),
            ("ConfigMap", "map"),
            ("Deployment.apps", "web"),
            (webhook, "hook"),
        ];
        let entry = |(kind, name)| {
            but(&entry(&id(kind, name)), |entry| {
                entry.wave = if name == "map" { 7 } else { 0 }
            })
        };
        let record = Record {
            entries: listed.map(entry).into(),
            ..Record::default()
        };
        type Row = (Vec<(String, String, Option<i32>)>, DeletionPolicy, String);
        for (found, policy, expected) in table::<Row>("sequence", "removals") {
            let found: Vec<_> = found.iter().map(|(kind, name, wave)| (id(kind, name), *wave)).collect();
            let turns = removal(found, |(id, _)| id, |(_, wave)| *wave, &record, policy);
            assert_eq!(names(turns, |(id, _)| &id.name), expected, "{policy:?}");
        }
    }
}
