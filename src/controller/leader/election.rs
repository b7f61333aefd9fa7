//! What a candidate does about a Lease, decided from what it has seen. Pure: time comes in as an argument.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// How long things take. The default is what client-go's core components and controller-runtime use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long others wait without seeing a renewal before they take over. Whole seconds, as the Lease has it.
    pub lease: Duration,
    /// How long a leader tries to renew before it gives up. Below `lease`: the rest is the time it has to stop.
    pub renew_deadline: Duration,
    /// Time between two tries.
    pub retry: Duration,
}

/// Timing that can't work.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "leader election: the lease ({lease:?}, of which whole seconds count) must be longer than the renew deadline \
     ({renew_deadline:?}), and that longer than 1.2 x the retry period ({retry:?})"
)]
pub struct InvalidTiming {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// What is in a Lease, as far as elections go.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Record {
    /// Who holds it; empty when it was given back.
    pub holder: String,
    /// The holder's lease duration, if it says one.
    pub lease: Option<Duration>,
    /// How often it changed hands.
    pub transitions: i32,
    /// When the holder got it, by the holder's clock.
    pub acquired: Option<MicroTime>,
    /// When it was last renewed, by the holder's clock. To others it only matters whether it changes.
    pub renewed: Option<MicroTime>,
}

/// What to do about the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// There is none: create it.
    Create,
    /// Somebody else holds it, for this long at least.
    Wait(Duration),
    /// It was given back, or its holder let it expire: take it, with this count of transitions.
    Take(i32),
    /// It is ours: renew it.
    Renew,
    /// We led, and somebody else has it or had it since.
    Lost,
}

/// What one candidate has seen of the Lease, and when.
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    lease: Duration,
    seen: Option<(Record, Instant)>,
    /// The transitions with which our term began, once we lead.
    term: Option<i32>,
}

// === impl Timing ===

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Checks client-go's conditions.
    ///
    /// # Errors
    /// When leaders could overlap, or would give up before they tried twice.
    pub fn check(self) -> Result<(), InvalidTiming> {
        let Self {
            lease,
            renew_deadline,
            retry,
        } = self;
        let written = Duration::from_secs(lease.as_secs());
        if written > renew_deadline && renew_deadline > retry.mul_f64(1.2) && !retry.is_zero() {
            return Ok(());
        }
        Err(InvalidTiming {
            lease,
            renew_deadline,
            retry,
        })
    }

    /// The bound of one API call: half the renew deadline, so that a second one fits (client-go's lock has the same).
    pub fn call(self) -> Duration {
        self.renew_deadline / 2
    }

    /// The retry period, stretched by client-go's jitter (up to 1.2 x itself), so that candidates drift apart.
    /// `random` is any byte.
    pub fn jittered_retry(self, random: u8) -> Duration {
        self.retry.mul_f64(1.0 + 1.2 * f64::from(random) / 256.0)
    }
}

// === impl Election ===

impl Election {
    /// A candidate that has seen nothing yet. `lease` is assumed of a holder that doesn't say its own.
    pub fn new(identity: String, lease: Duration) -> Self {
        Self {
            identity,
            lease,
            seen: None,
            term: None,
        }
    }

    /// Takes in what was read at `now` (`None`: there is no Lease). Only a change starts the holder's time anew.
    pub fn observe(&mut self, record: Option<Record>, now: Instant) {
        let unchanged = matches!((&self.seen, &record), (Some((seen, _)), Some(record)) if seen == record);
        if !unchanged {
            self.seen = record.map(|record| (record, now));
        }
    }

    /// Takes in our own write that succeeded: we lead.
    pub fn wrote(&mut self, record: Record, now: Instant) {
        self.term = Some(record.transitions);
        self.seen = Some((record, now));
    }

    /// Whether we led since this candidacy began. Doesn't say that we still do.
    pub fn has_led(&self) -> bool {
        self.term.is_some()
    }

    /// Who holds the Lease, as far as we saw.
    pub fn holder(&self) -> Option<&str> {
        self.seen
            .as_ref()
            .map(|(record, _)| record.holder.as_str())
            .filter(|holder| !holder.is_empty())
    }

    /// What to do at `now` about what was seen.
    pub fn decide(&self, now: Instant) -> Action {
        let Some((record, since)) = &self.seen else {
            return Action::Create;
        };
        if record.holder == self.identity {
            return Action::Renew;
        }
        if let Some(term) = self.term {
            // Emptied by hand is no loss: had anybody taken it in between, the transitions would have counted that.
            let untouched = record.holder.is_empty() && record.transitions == term;
            return if untouched {
                Action::Take(term.saturating_add(1))
            } else {
                Action::Lost
            };
        }
        let expires = *since + record.lease.unwrap_or(self.lease);
        if !record.holder.is_empty() && now < expires {
            return Action::Wait(expires - now);
        }
        Action::Take(record.transitions.saturating_add(1))
    }

    /// The record to write for `decide`'s answer, stamped with `stamp`; `None` if there is nothing to write.
    pub fn next_record(&self, action: &Action, stamp: &MicroTime) -> Option<Record> {
        let (transitions, acquired) = match (action, &self.seen) {
            (Action::Create, _) => (0, Some(stamp.clone())),
            (Action::Take(transitions), _) => (*transitions, Some(stamp.clone())),
            (Action::Renew, Some((seen, _))) => (seen.transitions, seen.acquired.clone()),
            (Action::Renew, None) | (Action::Wait(_) | Action::Lost, _) => return None,
        };
        let renewed = Some(stamp.clone());
        Some(Record {
            holder: self.identity.clone(),
            lease: Some(self.lease),
            transitions,
            acquired,
            renewed,
        })
    }

    /// The record that gives the Lease back: no holder and a second's duration, as client-go writes it. `None` if what
    /// was seen last isn't ours.
    pub fn released_record(&self, stamp: &MicroTime) -> Option<Record> {
        let (seen, _) = self
            .seen
            .as_ref()
            .filter(|(record, _)| record.holder == self.identity)?;
        Some(Record {
            holder: String::new(),
            lease: Some(Duration::from_secs(1)),
            transitions: seen.transitions,
            acquired: Some(stamp.clone()),
            renewed: Some(stamp.clone()),
        })
    }
}

// === impl Record ===

impl From<&LeaseSpec> for Record {
    fn from(spec: &LeaseSpec) -> Self {
        let seconds = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            lease: seconds.map(Duration::from_secs),
            transitions: spec.lease_transitions.unwrap_or_default(),
            acquired: spec.acquire_time.clone(),
            renewed: spec.renew_time.clone(),
        }
    }
}

impl From<&Record> for LeaseSpec {
    fn from(record: &Record) -> Self {
        Self {
            holder_identity: Some(record.holder.clone()),
            lease_duration_seconds: record
                .lease
                .map(|lease| i32::try_from(lease.as_secs()).unwrap_or(i32::MAX)),
            lease_transitions: Some(record.transitions),
            acquire_time: record.acquired.clone(),
            renew_time: record.renewed.clone(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn stamp(second: i64) -> MicroTime {
        MicroTime(jiff::Timestamp::from_second(second).unwrap())
    }

    fn record(holder: &str, lease: Option<u64>, transitions: i32, renewed: i64) -> Record {
        Record {
            holder: holder.to_owned(),
            lease: lease.map(Duration::from_secs),
            transitions,
            acquired: Some(stamp(1)),
            renewed: Some(stamp(renewed)),
        }
    }

    /// A candidate `me` that saw `records` at those seconds.
    fn candidate(start: Instant, records: &[(f64, Option<Record>)]) -> Election {
        let mut election = Election::new("me".to_owned(), LEASE);
        for (at, record) in records {
            election.observe(record.clone(), start + secs(*at));
        }
        election
    }

    #[test]
    fn a_candidate_decides_by_what_it_saw_and_its_own_clock() {
        let start = Instant::now();
        let theirs = |renewed| Some(record("other", Some(15), 3, renewed));
        // (what it is about, what was seen at which second, the second of the decision, the decision)
        type Case<'a> = (&'a str, &'a [(f64, Option<Record>)], f64, Action);
        let other = |lease| Some(record("other", lease, 0, 1));
        let table: &[Case<'_>] = &[
            ("nothing seen", &[], 0.0, Action::Create),
            ("no lease", &[(0.0, None)], 0.0, Action::Create),
            ("held", &[(0.0, theirs(1))], 0.0, Action::Wait(secs(15.0))),
            (
                "held, and unchanged since",
                &[(0.0, theirs(1)), (14.0, theirs(1))],
                14.0,
                Action::Wait(secs(1.0)),
            ),
            ("expired", &[(0.0, theirs(1)), (15.0, theirs(1))], 15.0, Action::Take(4)),
            (
                "renewed meanwhile",
                &[(0.0, theirs(1)), (14.0, theirs(2))],
                15.0,
                Action::Wait(secs(14.0)),
            ),
            (
                "an old time stamp proves nothing",
                &[(0.0, theirs(-9_999_999))],
                14.9,
                Action::Wait(secs(0.1)),
            ),
            (
                "nor does one of the future",
                &[(0.0, theirs(9_999_999_999))],
                15.0,
                Action::Take(4),
            ),
            (
                "the holder's own duration counts",
                &[(0.0, other(Some(60)))],
                59.0,
                Action::Wait(secs(1.0)),
            ),
            (
                "no duration: ours",
                &[(0.0, other(None))],
                14.0,
                Action::Wait(secs(1.0)),
            ),
            (
                "given back",
                &[(0.0, Some(record("", Some(1), 7, 1)))],
                0.0,
                Action::Take(8),
            ),
            (
                "ours: the answer got lost",
                &[(0.0, Some(record("me", Some(15), 7, 1)))],
                99.0,
                Action::Renew,
            ),
            ("deleted", &[(0.0, theirs(1)), (1.0, None)], 1.0, Action::Create),
            (
                "the count doesn't overflow",
                &[(0.0, Some(record("", None, i32::MAX, 1)))],
                0.0,
                Action::Take(i32::MAX),
            ),
        ];
        for (name, records, now, expected) in table {
            assert_eq!(
                candidate(start, records).decide(start + secs(*now)),
                *expected,
                "{name}"
            );
        }
    }

    #[test]
    fn a_leader_stops_when_anybody_had_the_lease_since() {
        let start = Instant::now();
        let table = [
            ("still ours", Some(record("me", Some(15), 3, 5)), Action::Renew),
            ("deleted", None, Action::Create),
            ("taken", Some(record("other", Some(15), 4, 5)), Action::Lost),
            (
                "taken and long expired",
                Some(record("other", Some(1), 4, -9)),
                Action::Lost,
            ),
            ("emptied by hand", Some(record("", Some(1), 3, 5)), Action::Take(4)),
            ("taken and given back", Some(record("", Some(1), 4, 5)), Action::Lost),
        ];
        for (name, seen, expected) in table {
            let mut election = candidate(start, &[(0.0, Some(record("", None, 2, 1)))]);
            election.wrote(record("me", Some(15), 3, 2), start);
            election.observe(seen, start + secs(60.0));
            assert_eq!(election.decide(start + secs(60.0)), expected, "{name}");
        }
    }

    #[test]
    fn what_is_written() {
        let start = Instant::now();
        let election = candidate(start, &[(0.0, Some(record("me", Some(15), 3, 5)))]);
        let now = stamp(50);
        let renewed = election.next_record(&Action::Renew, &now).unwrap();
        assert_eq!(
            (renewed.transitions, &renewed.acquired, &renewed.renewed),
            (3, &Some(stamp(1)), &Some(stamp(50)))
        );
        let taken = election.next_record(&Action::Take(9), &now).unwrap();
        assert_eq!(
            (taken.transitions, &taken.acquired, taken.lease),
            (9, &Some(stamp(50)), Some(LEASE))
        );
        assert_eq!(election.next_record(&Action::Create, &now).unwrap().transitions, 0);
        assert_eq!(election.next_record(&Action::Lost, &now), None);
        assert_eq!(election.next_record(&Action::Wait(LEASE), &now), None);

        let back = election.released_record(&now).unwrap();
        assert_eq!(
            (back.holder.as_str(), back.lease, back.transitions),
            ("", Some(secs(1.0)), 3)
        );
        let theirs = candidate(start, &[(0.0, Some(record("other", Some(15), 3, 5)))]);
        assert_eq!(theirs.released_record(&now), None);
    }

    #[test]
    fn a_record_survives_the_lease() {
        for original in [record("a", Some(15), 3, 5), record("", None, 0, 0), Record::default()] {
            assert_eq!(Record::from(&LeaseSpec::from(&original)), original);
        }
        let broken = LeaseSpec {
            lease_duration_seconds: Some(-5),
            ..LeaseSpec::default()
        };
        assert_eq!(Record::from(&broken).lease, None);
    }

    #[test]
    fn timing_leaves_room_to_stop() {
        assert_eq!(Timing::default().check(), Ok(()));
        for (lease, renew_deadline, retry) in [
            (10.0, 10.0, 2.0),
            (10.9, 10.0, 2.0),
            (15.0, 2.4, 2.0),
            (15.0, 10.0, 0.0),
        ] {
            let timing = Timing {
                lease: secs(lease),
                renew_deadline: secs(renew_deadline),
                retry: secs(retry),
            };
            assert!(timing.check().is_err(), "{timing:?}");
        }
        let timing = Timing::default();
        assert_eq!(timing.jittered_retry(0), secs(2.0));
        assert!(timing.jittered_retry(255) > secs(4.3) && timing.jittered_retry(255) < secs(4.4));
    }
}
