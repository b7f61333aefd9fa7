//! What a reconcile does, turn by turn: from what is desired, recorded and live to the order in which it is done.
//!
//! A sequence is made anew by each reconcile, and nobody waits inside one: where a [`Turn::Wait`] isn't over the
//! reconcile ends, and the watch that tells of a change starts the next one. How far a release has come is what the
//! record and the live objects say: a turn that finds its work done sends nothing.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::desired::{Member, Stage};
use super::identity::ObjectId;
use super::record::Record;
use crate::watches::DeletionPolicy;

/// What is done at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn<T> {
    /// An installation applies these one after the other; a removal deletes them side by side, and begins in this order.
    Members(Vec<T>),
    /// Nothing that follows begins before all that an installation applied so far is healthy, or what a removal deleted
    /// last is gone.
    Wait,
}

/// Applies members, which are in the order of [`Member::turn`]: stage by stage, in each wave by wave.
pub fn installation(members: &[Member]) -> Vec<Turn<&Member>> {
    let groups = members.chunk_by(|one, next| one.turn() == next.turn());
    let turns = groups.flat_map(|group| [Turn::Wait, Turn::Members(group.iter().collect())]);
    turns.skip(1).collect()
}

/// Deletes objects in the reverse order: webhooks first, then the objects, then namespaces and CRDs, and in each of these
/// the higher waves before the lower ones. Within a turn, last made, first gone; what no record lists has no order, and
/// goes before what others may depend on.
///
/// `wave` tells what a live object says; of one that wasn't looked at, the record tells it. What the chart puts into waves
/// needs one another and is waited for, unless it stays; between the stages, `policy` tells.
pub fn removal<T>(
    found: Vec<T>,
    id: impl Fn(&T) -> &ObjectId,
    wave: impl Fn(&T) -> Option<i32>,
    record: &Record,
    policy: DeletionPolicy,
) -> Vec<Turn<T>> {
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
    let mut turns: Vec<Turn<T>> = Vec::new();
    let mut before: Option<(Stage, i32)> = None;
    for (group, _, item) in ordered {
        let waits = |before: (Stage, i32)| match policy {
            DeletionPolicy::WaitForTermination => true,
            DeletionPolicy::Delete => before.0 == group.0,
            DeletionPolicy::Orphan => false,
        };
        match turns.last_mut().filter(|_| before == Some(group)) {
            Some(Turn::Members(items)) => items.push(item),
            _ => {
                turns.extend(before.is_some_and(waits).then_some(Turn::Wait));
                turns.push(Turn::Members(vec![item]));
            }
        }
        before = Some(group);
    }
    if policy == DeletionPolicy::WaitForTermination {
        turns.push(Turn::Wait);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{but, entry, id, member};

    /// The names in the turns, one turn after the other; `|` where the sequence waits.
    fn told<T>(turns: Vec<Turn<T>>, name: impl Fn(&T) -> &str) -> String {
        let texts = turns.iter().map(|turn| match turn {
            Turn::Members(items) => items.iter().map(&name).collect::<Vec<_>>().join("+"),
            Turn::Wait => "|".to_owned(),
        });
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn members_are_applied_stage_by_stage_and_wave_by_wave() {
        let waved =
            |(kind, name, wave): (&str, &str, i32)| but(&member(&id(kind, name)), |member| member.policy.wave = wave);
        let webhook = "ValidatingWebhookConfiguration.admissionregistration.k8s.io";
        for (members, expected) in [
            (vec![], ""),
            (vec![("Secret", "a", 0), ("ConfigMap", "b", 0)], "a+b"),
            (
                vec![
                    ("Namespace", "space", 0),
                    ("Secret", "early", -1),
                    ("Secret", "a", 0),
                    ("ConfigMap", "b", 0),
                    (webhook, "hook", 0),
                ],
                "space | early | a+b | hook",
            ),
        ] {
            let members: Vec<Member> = members.into_iter().map(waved).collect();
            assert_eq!(told(installation(&members), |member| &member.id.name), expected);
        }
    }

    #[test]
    fn what_others_need_goes_last() {
        use DeletionPolicy::{Delete, Orphan, WaitForTermination};
        let webhook = id("ValidatingWebhookConfiguration.admissionregistration.k8s.io", "hook");
        let (space, map, web) = (
            id("Namespace", "space"),
            id("ConfigMap", "map"),
            id("Deployment.apps", "web"),
        );
        let entry = |id: &ObjectId| but(&entry(id), |entry| entry.wave = if id.name == "map" { 7 } else { 0 });
        let record = Record {
            entries: [&space, &map, &web, &webhook].map(entry).into(),
            ..Record::default()
        };
        let all = vec![map.clone(), space, id("ConfigMap", "unlisted"), webhook, web.clone()];
        let waved = |name: &str| match name {
            "web" => Some(2),
            "map" => Some(-1),
            _ => None,
        };
        let alike: fn(&str) -> Option<i32> = |_| Some(0);
        let unknown: fn(&str) -> Option<i32> = |_| None;
        for (found, wave, policy, expected) in [
            (all.clone(), alike, Delete, "hook unlisted+web+map space"),
            (all.clone(), waved, Delete, "hook web | unlisted | map space"),
            (all.clone(), waved, Orphan, "hook web unlisted map space"),
            (
                all.clone(),
                waved,
                WaitForTermination,
                "hook | web | unlisted | map | space |",
            ),
            // Of what nobody looked at, the record tells the wave.
            (vec![web, map], unknown, Delete, "map | web"),
            (vec![], unknown, Delete, ""),
        ] {
            let turns = removal(found, |id| id, |id| wave(&id.name), &record, policy);
            assert_eq!(told(turns, |id| &id.name), expected, "{policy:?}");
        }
    }
}
