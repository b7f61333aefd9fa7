use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::prune::intent::inputs;

const TIMEOUT: Duration = Duration::from_secs(300);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn part(state: RolloutState, inputs: &str, counts: bool) -> ReleaseRollout {
    ReleaseRollout {
        state,
        since: at(0),
        inputs: inputs.to_owned(),
        counts,
    }
}

/// A complete, ready release of the chart `old` whose next render is that of the chart `new`.
const OUTDATED: Found<'static> = Found {
    part: None,
    done_for: Some("old.spec"),
    inputs: "new.spec",
    is_installed: true,
    was_ready: true,
    is_urgent: false,
};

fn turn(found: Found<'_>) -> String {
    let turn = found.turn(at(9));
    let is_concerned = concerns(found.part, found.done_for, found.inputs);
    assert!(is_concerned || turn == RolloutTurn::UpToDate, "{found:?}");
    match turn {
        RolloutTurn::UpToDate => "up to date".to_owned(),
        RolloutTurn::Now(part) => format!("now {:?} {} {}", part.state, part.since.as_second(), part.counts),
        RolloutTurn::Queued(part) => format!("queued {:?} {} {}", part.state, part.since.as_second(), part.counts),
    }
}

#[test]
fn who_is_part_of_a_rollout() {
    for (found, expected) in [
        (OUTDATED, "queued InFlight 9 true"),
        (
            Found {
                was_ready: false,
                ..OUTDATED
            },
            "queued InFlight 9 false",
        ),
        (
            Found {
                is_urgent: true,
                ..OUTDATED
            },
            "now InFlight 9 false",
        ),
        (
            Found {
                inputs: "new.edit",
                ..OUTDATED
            },
            "now InFlight 9 false",
        ),
        (
            Found {
                inputs: "old.edit",
                ..OUTDATED
            },
            "up to date",
        ),
        (
            Found {
                inputs: "old.spec",
                ..OUTDATED
            },
            "up to date",
        ),
        (
            Found {
                done_for: None,
                ..OUTDATED
            },
            "up to date",
        ),
        (
            Found {
                is_installed: false,
                ..OUTDATED
            },
            "up to date",
        ),
    ] {
        assert_eq!(turn(found), expected, "{found:?}");
    }
}

#[test]
fn who_has_begun_goes_on() {
    use RolloutState::{Failed, InFlight, Waiting};
    for (state, inputs, counts, done_for, expected) in [
        // It waited when the process ended.
        (Waiting, "new.spec", true, Some("old.spec"), "queued InFlight 9 true"),
        (InFlight, "new.spec", true, Some("old.spec"), "now InFlight 0 true"),
        (InFlight, "new.spec", true, None, "now InFlight 0 true"),
        (InFlight, "new.spec", true, Some("new.spec"), "now InFlight 0 true"),
        (Failed, "new.spec", true, None, "now Failed 0 true"),
        (Failed, "new.spec", false, None, "now Failed 0 false"),
        // An edit in between.
        (Failed, "new.before", true, None, "now Failed 0 false"),
        (InFlight, "new.before", true, Some("new.before"), "now InFlight 0 false"),
        // A newer chart is tried immediately where the former one was.
        (Failed, "bad.spec", true, None, "now Failed 9 true"),
        (InFlight, "bad.spec", true, Some("bad.spec"), "now InFlight 9 true"),
        // The render asked more of the cluster than the former one.
        (InFlight, "guess.spec", true, Some("new.spec"), "now InFlight 0 true"),
    ] {
        let part = part(state, inputs, counts);
        let found = Found {
            part: Some(&part),
            done_for,
            ..OUTDATED
        };
        assert_eq!(turn(found), expected, "{found:?}");
    }
}

#[test]
fn how_a_reconcile_ends_decides_the_state() {
    use RolloutState::{Failed, InFlight};
    for (state, ended, second, expected) in [
        (InFlight, ReconcileEnd::Ready, 1, None),
        (Failed, ReconcileEnd::Ready, 1, None),
        (InFlight, ReconcileEnd::Failed, 1, Some((Failed, 1))),
        (Failed, ReconcileEnd::Failed, 1, Some((Failed, 0))),
        (InFlight, ReconcileEnd::NotReady, 299, Some((InFlight, 0))),
        (InFlight, ReconcileEnd::NotReady, 300, Some((Failed, 300))),
        (InFlight, ReconcileEnd::Unfinished, 900, Some((InFlight, 0))),
        (Failed, ReconcileEnd::NotReady, 1, Some((Failed, 0))),
    ] {
        let after = part(state, "new.spec", true).after(ended, TIMEOUT, at(second));
        let after = after.map(|part| (part.state, part.since.as_second()));
        assert_eq!(after, expected, "{state:?} {ended:?} {second}");
    }
    assert_eq!(
        part(InFlight, "", true).left(TIMEOUT, at(100)),
        Duration::from_secs(200)
    );
}

/// The releases of a watch, their records, and the queue of a controller.
struct Fleet {
    rollout: Rollout<usize>,
    limits: RolloutLimits,
    parts: Vec<Option<ReleaseRollout>>,
    done: Vec<String>,
    queue: Vec<usize>,
    chart: &'static str,
}

impl Fleet {
    fn new(size: usize, limits: RolloutLimits) -> Self {
        Fleet {
            rollout: Rollout::new(limits),
            limits,
            parts: vec![None; size],
            done: vec![inputs("old", "spec"); size],
            queue: (0..size).collect(),
            chart: "new",
        }
    }

    /// Another process: only the records are left.
    fn restart(&mut self) {
        self.rollout = Rollout::new(self.limits);
        for (key, part) in self.parts.iter().enumerate() {
            self.rollout.set(&key, part.as_ref());
        }
        self.queue = (0..self.parts.len()).collect();
    }

    /// Reconciles a release of the queue. False if there is none.
    fn step(&mut self, pick: usize, fails: impl Fn(usize) -> bool) -> bool {
        for key in self.rollout.next() {
            if !self.queue.contains(&key) {
                self.queue.push(key);
            }
        }
        if self.queue.is_empty() {
            return false;
        }
        let key = self.queue.swap_remove(pick % self.queue.len());
        let now = inputs(self.chart, "spec");
        let found = Found {
            part: self.parts[key].as_ref(),
            done_for: Some(&self.done[key]),
            inputs: &now,
            ..OUTDATED
        };
        let before = self.rollout.counts();
        let part = match found.turn(at(0)) {
            RolloutTurn::UpToDate => None,
            RolloutTurn::Now(part) => Some(part),
            RolloutTurn::Queued(part) if self.rollout.admit(&key) => {
                let has_room = before.in_flight < self.limits.max_in_flight && before.failed < self.limits.max_failed;
                assert!(has_room, "{before:?}");
                Some(part)
            }
            RolloutTurn::Queued(part) => {
                let state = RolloutState::Waiting;
                self.parts[key] = Some(ReleaseRollout { state, ..part });
                return true;
            }
        };
        let ended = if fails(key) {
            ReconcileEnd::Failed
        } else {
            ReconcileEnd::Ready
        };
        if ended == ReconcileEnd::Ready {
            self.done[key] = now;
        }
        self.parts[key] = part.and_then(|part| part.after(ended, TIMEOUT, at(0)));
        self.rollout.set(&key, self.parts[key].as_ref());
        true
    }
}

proptest! {
    /// With any order of reconciles and restarts: no release begins without room, a bad chart fails on few, and a fixed one reaches all.
    #[test]
    fn rollouts_keep_to_their_limits_and_end(
        limits in (1usize..4, 1usize..4),
        breaks in vec(any::<bool>(), 1..20),
        steps in vec((any::<usize>(), 0u8..50), 0..300),
    ) {
        let limits = RolloutLimits { max_in_flight: limits.0, max_failed: limits.1 };
        let mut fleet = Fleet::new(breaks.len(), limits);
        for (pick, event) in steps {
            if event == 0 {
                fleet.restart();
            }
            fleet.step(pick, |key| breaks[key]);
            let failed = fleet.parts.iter().flatten().filter(|part| part.state == RolloutState::Failed).count();
            prop_assert!(failed < limits.max_failed + limits.max_in_flight);
        }
        fleet.chart = "fixed";
        fleet.restart();
        let mut left = 10 * breaks.len();
        while fleet.step(left, |_| false) {
            left -= 1;
            prop_assert!(left > 0, "it does not end: {:?}", fleet.rollout);
        }
        prop_assert!(fleet.parts.iter().all(Option::is_none) && fleet.done.iter().all(|done| done.starts_with("fixed")));
        prop_assert_eq!(fleet.rollout.counts(), RolloutCounts::default());
    }
}
