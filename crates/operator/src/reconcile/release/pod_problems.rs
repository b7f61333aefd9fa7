//! Why workloads of a release are not ready, as far as their pods show it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chartwright_core::health::pods::is_unused_claim;
use chartwright_core::identity::ObjectId;

/// The pods of a started workload are read for the first time after this.
pub(crate) const FIRST_LOOK: Duration = Duration::from_secs(5);

/// The pods are read again after this. The interval doubles up to [`LONGEST`].
pub(crate) const AGAIN: Duration = Duration::from_secs(30);

pub(crate) const LONGEST: Duration = Duration::from_secs(300);

/// A problem that lasts longer is reported by an Event.
pub(crate) const LASTING: Duration = Duration::from_secs(60);

/// Problems of one workload that Events report, until it is ready again.
pub(crate) const REPORTED: usize = 5;

/// How many workloads of one release have their pods read. A condition shows few.
pub(crate) const LOOKED_AT: usize = 3;

/// The problems of workloads that are not ready.
#[derive(Debug, Default)]
pub struct PodProblems {
    pub(crate) known: BTreeMap<ObjectId, PodProblem>,
    /// True if the status already reports that workloads are not ready, so that their pods are read immediately.
    pub(crate) is_reported: bool,
}

#[derive(Debug)]
pub(crate) struct PodProblem {
    pub(crate) next: Instant,
    pub(crate) looks: u32,
    pub(crate) text: Option<String>,
    /// When its pods first had a problem, and since when it has been this one.
    pub(crate) first: Option<Instant>,
    pub(crate) since: Instant,
    /// Problems that Events have reported.
    pub(crate) reported: Vec<String>,
}

impl PodProblems {
    /// Returns an empty state. `is_reported`: the status already reports that workloads are not ready.
    pub(crate) fn new(is_reported: bool) -> Self {
        PodProblems {
            is_reported,
            ..PodProblems::default()
        }
    }

    /// Returns the problem of a member's pods.
    pub(crate) fn of(&self, id: &ObjectId) -> Option<&str> {
        self.known.get(id)?.text.as_deref()
    }

    /// Returns the time until pods must be read again, if any.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        let next = self.known.values().map(|why| why.next).min()?;
        Some(
            next.saturating_duration_since(Instant::now())
                .max(Duration::from_secs(1)),
        )
    }

    /// Replaces the set of workloads that are not ready. Returns those whose pods must be read now.
    pub(crate) fn due(&mut self, troubled: &[ObjectId], now: Instant) -> Vec<ObjectId> {
        self.known.retain(|id, _| troubled.contains(id));
        let wait = if std::mem::take(&mut self.is_reported) {
            Duration::ZERO
        } else {
            FIRST_LOOK
        };
        // Only its Events show that a claim is not needed, so that it does not keep the release from being ready.
        let (claims, workloads): (Vec<_>, Vec<_>) = troubled
            .iter()
            .partition(|id| id.group_kind.kind == "PersistentVolumeClaim");
        for id in claims.into_iter().chain(workloads.into_iter().take(LOOKED_AT)) {
            self.known.entry(id.clone()).or_insert_with(|| PodProblem {
                next: now + wait,
                looks: 0,
                text: None,
                first: None,
                since: now,
                reported: Vec::new(),
            });
        }
        self.known
            .iter()
            .filter(|(_, why)| why.next <= now)
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Records the problem that the pods of a workload have now, and schedules the next read.
    pub(crate) fn record_problem(&mut self, id: &ObjectId, text: Option<String>, now: Instant) {
        if let Some(why) = self.known.get_mut(id) {
            why.next = now + AGAIN.saturating_mul(1 << why.looks.min(10)).min(LONGEST);
            why.looks = why.looks.saturating_add(1);
            if why.text != text {
                why.since = now;
            }
            why.first = why.first.or(text.is_some().then_some(now));
            why.text = text;
        }
    }

    /// Problems that have lasted for [`LASTING`] and that no Event has reported yet. The first one counts from the
    /// first problem on: a pod that cannot pull its image alternates between two messages.
    pub(crate) fn lasting(&mut self, now: Instant) -> Vec<String> {
        let mut found = Vec::new();
        for (id, why) in &mut self.known {
            let Some(text) = why.text.as_ref().filter(|text| !is_unused_claim(id, text)) else {
                continue;
            };
            let start = if why.reported.is_empty() {
                why.first
            } else {
                Some(why.since)
            };
            let lasts = start.is_some_and(|start| now.saturating_duration_since(start) >= LASTING);
            if lasts && why.reported.len() < REPORTED && !why.reported.contains(text) {
                why.reported.push(text.clone());
                found.push(format!("{id}: {text}"));
            }
        }
        found.sort();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chartwright_core::identity::GroupKind;

    fn id(name: &str) -> ObjectId {
        ObjectId::new(GroupKind::new("apps", "Deployment"), "shop", name)
    }

    #[test]
    fn pods_are_looked_at_after_a_while_and_then_ever_less_often() {
        let mut troubles = PodProblems::default();
        let start = Instant::now();
        let all: Vec<ObjectId> = (0..9).map(|n| id(&n.to_string())).collect();
        assert!(troubles.due(&all, start).is_empty(), "they have just begun");
        assert_eq!(
            troubles.due(&all, start + FIRST_LOOK).len(),
            LOOKED_AT,
            "of many, a few speak"
        );
        let mut now = start + FIRST_LOOK;
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(troubles.due(&[id("0")], now), [id("0")]);
            troubles.record_problem(&id("0"), Some("because".into()), now);
            assert!(troubles.due(&[id("0")], now).is_empty(), "not twice in a row");
            let wait = troubles.known[&id("0")].next - now;
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [30, 60, 120, 240, 300, 300]);
        assert_eq!(troubles.of(&id("0")), Some("because"));
        assert!(troubles.due(&[], now).is_empty());
        assert_eq!(
            (troubles.of(&id("0")), troubles.next_look()),
            (None, None),
            "all is well"
        );

        // An image that can't be pulled, and then a crash.
        let mut troubles = PodProblems::default();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        troubles.due(&[id("0")], start);
        for (seconds, text, expected) in [
            (5, Some("pull"), 0),
            (35, Some("back off"), 0),
            (66, Some("back off"), 1),
            (95, Some("back off"), 0),
            (100, Some("pull"), 0),
            (120, Some("crash"), 0),
            (179, Some("crash"), 0),
            (181, Some("crash"), 1),
            (900, Some("crash"), 0),
        ] {
            troubles.record_problem(&id("0"), text.map(str::to_owned), at(seconds));
            let found = troubles.lasting(at(seconds));
            assert_eq!(found.len(), expected, "{seconds} {found:?}");
            assert!(
                found.iter().all(|found| found.ends_with(text.unwrap_or_default())),
                "{found:?}"
            );
        }

        let mut reported = PodProblems::new(true);
        assert_eq!(
            reported.due(&[id("a")], start),
            [id("a")],
            "its status reports it already"
        );
        reported.record_problem(&id("a"), Some("because".into()), start);
        assert!(
            reported.due(&[id("a"), id("b")], start).is_empty(),
            "the other was healthy"
        );
    }
}
