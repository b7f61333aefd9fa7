//! What a candidate writes into a Lease, decided from what it has seen. Pure: time comes in as an argument.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// How long things take. The default is what client-go's core components and controller-runtime use.
#[derive(Clone, Copy)]
pub struct Timing {
    /// How long others wait without seeing a renewal before they take over. Whole seconds, as the Lease has it.
    pub lease: Duration,
    /// How long a leader tries to renew before it gives up. Below `lease`: the rest is the time it has to stop.
    pub renew_deadline: Duration,
    /// Time between two tries.
    pub retry: Duration,
}

/// A try that didn't give us the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseFailure {
    /// Another candidate has it, or was faster.
    Held,
    /// We led, and another candidate has led since.
    Lost,
    /// The Lease is free for us, and the API server forbids to write it.
    Unwritable(String),
    /// The API server refused, or didn't answer.
    Call(String),
}

/// What one candidate has seen of the Lease, and when.
pub struct Election {
    identity: String,
    lease: Duration,
    seen: Option<(LeaseSpec, Instant)>,
    /// The transitions with which our term began, once we lead.
    term: Option<i32>,
}

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

    /// Observes a Lease that was read at `now` (`None`: there is none). Only a change restarts the holder's time.
    pub fn observe(&mut self, spec: Option<LeaseSpec>, now: Instant) {
        let unchanged = matches!((&self.seen, &spec), (Some((seen, _)), Some(spec)) if seen == spec);
        if !unchanged {
            self.seen = spec.map(|spec| (spec, now));
        }
    }

    /// Takes in our own write that succeeded: we lead.
    pub fn wrote(&mut self, spec: LeaseSpec, now: Instant) {
        self.term = spec.lease_transitions;
        self.seen = Some((spec, now));
    }

    /// Who holds the Lease, as far as we saw.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(|(seen, _)| holder(seen))
    }

    /// What to write at `now`, stamped with `stamp`, to get the Lease or to keep it.
    ///
    /// # Errors
    /// Nothing is to be written: `Held` or `Lost`.
    pub fn next(&self, now: Instant, stamp: MicroTime) -> Result<LeaseSpec, LeaseFailure> {
        let Some((seen, since)) = &self.seen else {
            return Ok(self.taken(0, stamp));
        };
        let transitions = seen.lease_transitions.unwrap_or_default();
        let take = |stamp| Ok(self.taken(transitions.saturating_add(1), stamp));
        match (holder(seen), self.term) {
            (Some(holder), _) if holder == self.identity => Ok(LeaseSpec {
                acquire_time: seen.acquire_time.clone(),
                ..self.taken(transitions, stamp)
            }),
            // Emptied by hand is no loss: had anybody taken it in between, the transitions would have counted that.
            (None, Some(term)) if transitions == term => take(stamp),
            (_, Some(_)) => Err(LeaseFailure::Lost),
            (Some(_), None) if now < *since + self.duration(seen) => Err(LeaseFailure::Held),
            (_, None) => take(stamp),
        }
    }

    /// What gives the Lease back: no holder and a second's duration, as client-go writes it. `None` if what was seen last
    /// isn't ours.
    pub fn release(&self, stamp: MicroTime) -> Option<LeaseSpec> {
        let (seen, _) = self
            .seen
            .as_ref()
            .filter(|(seen, _)| holder(seen) == Some(&self.identity))?;
        Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            ..self.taken(seen.lease_transitions.unwrap_or_default(), stamp)
        })
    }

    /// The Lease as ours from `stamp` on.
    fn taken(&self, transitions: i32, stamp: MicroTime) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.lease.as_secs()).unwrap_or(i32::MAX)),
            lease_transitions: Some(transitions),
            acquire_time: Some(stamp.clone()),
            renew_time: Some(stamp),
            ..LeaseSpec::default()
        }
    }

    fn duration(&self, spec: &LeaseSpec) -> Duration {
        let seconds = spec.lease_duration_seconds.map(u64::try_from);
        seconds.and_then(Result::ok).map_or(self.lease, Duration::from_secs)
    }
}

fn holder(spec: &LeaseSpec) -> Option<&str> {
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

#[cfg(test)]
mod tests {
    use super::LeaseFailure::{Held, Lost};
    use super::*;

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn stamp(second: i64) -> MicroTime {
        MicroTime(jiff::Timestamp::from_second(second).unwrap())
    }

    fn spec(holder: &str, seconds: Option<i32>, transitions: i32, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: seconds,
            lease_transitions: Some(transitions),
            acquire_time: Some(stamp(1)),
            renew_time: Some(stamp(renewed)),
            ..LeaseSpec::default()
        }
    }

    /// A candidate `me` that saw these at those seconds.
    fn candidate(start: Instant, seen: &[(f64, Option<LeaseSpec>)]) -> Election {
        let mut election = Election::new("me".to_owned(), secs(15.0));
        for (at, spec) in seen {
            election.observe(spec.clone(), start + secs(*at));
        }
        election
    }

    /// The transitions that it writes at a second, and whether it says that its term begins.
    fn decided(election: &Election, start: Instant, at: f64) -> Result<(i32, bool), LeaseFailure> {
        let next = election.next(start + secs(at), stamp(50))?;
        let transitions = next.lease_transitions.unwrap();
        let expected = LeaseSpec {
            acquire_time: next.acquire_time.clone(),
            ..spec("me", Some(15), transitions, 50)
        };
        assert_eq!(next, expected);
        Ok((transitions, next.acquire_time == Some(stamp(50))))
    }

    #[test]
    fn a_candidate_decides_by_what_it_saw_and_its_own_clock() {
        let start = Instant::now();
        let theirs = |renewed| Some(spec("other", Some(15), 3, renewed));
        let other = |seconds| Some(spec("other", seconds, 0, 1));
        // (what it is about, what was seen at which second, the second of the decision, the decision)
        type Case<'a> = (
            &'a str,
            &'a [(f64, Option<LeaseSpec>)],
            f64,
            Result<(i32, bool), LeaseFailure>,
        );
        let table: &[Case<'_>] = &[
            ("nothing seen", &[], 0.0, Ok((0, true))),
            ("no lease", &[(0.0, None)], 0.0, Ok((0, true))),
            ("held", &[(0.0, theirs(1))], 0.0, Err(Held)),
            ("unchanged", &[(0.0, theirs(1)), (14.0, theirs(1))], 14.9, Err(Held)),
            ("expired", &[(0.0, theirs(1)), (15.0, theirs(1))], 15.0, Ok((4, true))),
            ("renewed", &[(0.0, theirs(1)), (14.0, theirs(2))], 28.9, Err(Held)),
            (
                "an old stamp proves nothing",
                &[(0.0, theirs(-9_999_999))],
                14.9,
                Err(Held),
            ),
            ("nor a future one", &[(0.0, theirs(9_999_999_999))], 15.0, Ok((4, true))),
            ("its own duration", &[(0.0, other(Some(60)))], 59.0, Err(Held)),
            ("no duration: ours", &[(0.0, other(None))], 14.9, Err(Held)),
            ("a broken one: ours", &[(0.0, other(Some(-5)))], 14.9, Err(Held)),
            (
                "given back",
                &[(0.0, Some(spec("", Some(1), 7, 1)))],
                0.0,
                Ok((8, true)),
            ),
            (
                "the answer got lost",
                &[(0.0, Some(spec("me", Some(15), 7, 1)))],
                99.0,
                Ok((7, false)),
            ),
            ("deleted", &[(0.0, theirs(1)), (1.0, None)], 1.0, Ok((0, true))),
            (
                "no overflow",
                &[(0.0, Some(spec("", None, i32::MAX, 1)))],
                0.0,
                Ok((i32::MAX, true)),
            ),
        ];
        for (name, seen, at, expected) in table {
            assert_eq!(decided(&candidate(start, seen), start, *at), *expected, "{name}");
        }
    }

    #[test]
    fn a_leader_stops_when_anybody_had_the_lease_since() {
        let start = Instant::now();
        for (name, seen, expected) in [
            ("still ours", Some(spec("me", Some(15), 3, 5)), Ok((3, false))),
            ("deleted", None, Ok((0, true))),
            ("taken", Some(spec("other", Some(15), 4, 5)), Err(Lost)),
            ("taken and long expired", Some(spec("other", Some(1), 4, -9)), Err(Lost)),
            ("emptied by hand", Some(spec("", Some(1), 3, 5)), Ok((4, true))),
            ("taken and given back", Some(spec("", Some(1), 4, 5)), Err(Lost)),
        ] {
            let mut election = candidate(start, &[(0.0, Some(spec("", None, 2, 1)))]);
            election.wrote(spec("me", Some(15), 3, 2), start);
            election.observe(seen, start + secs(60.0));
            assert_eq!(decided(&election, start, 60.0), expected, "{name}");
        }
    }

    #[test]
    fn only_our_own_lease_is_given_back() {
        let start = Instant::now();
        let ours = candidate(start, &[(0.0, Some(spec("me", Some(15), 3, 5)))]);
        let back = LeaseSpec {
            acquire_time: Some(stamp(50)),
            ..spec("", Some(1), 3, 50)
        };
        assert_eq!(ours.release(stamp(50)), Some(back));
        let theirs = candidate(start, &[(0.0, Some(spec("other", Some(15), 3, 5)))]);
        assert_eq!(theirs.release(stamp(50)), None);
    }
}
