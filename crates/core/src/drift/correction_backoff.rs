//! Backoff for drift corrections. If another controller reverts a member again and again, its corrections become slower.

use std::time::Duration;

use jiff::Timestamp;

/// This many corrections of a member happen without a delay. A person who tests manually stays below.
const FREE_CORRECTIONS: u32 = 5;
/// What comes later waits: this long, then twice as long each time.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(300);
/// Corrections further apart than this are no contest, unless one is going on.
const MEMORY: Duration = Duration::from_secs(600);
/// A contest is over when nothing happened for this long at least.
const QUIET_PERIOD: Duration = Duration::from_secs(10);

/// The corrections of one member.
#[derive(Clone, Debug, Default)]
pub struct Contest {
    corrections: u32,
    last: Timestamp,
    /// The longest time between two corrections: how slow the other side is.
    gap: Duration,
    /// The contested fields and their managers. Reported once: the text stays the same while the contest lasts.
    pub about: String,
}
impl Contest {
    /// How long the next correction has to wait from now on.
    pub fn wait(&self, now: Timestamp) -> Duration {
        self.interval().saturating_sub(elapsed(self.last, now))
    }

    /// Takes note of a correction.
    pub fn corrected(&mut self, now: Timestamp) {
        let elapsed = elapsed(self.last, now);
        if self.is_over(now) {
            *self = Contest::default();
        } else if self.corrections > 0 {
            self.gap = self.gap.max(elapsed);
        }
        self.corrections = self.corrections.saturating_add(1);
        self.last = now;
    }

    /// True from the moment on when corrections have to wait.
    pub fn is_contested(&self) -> bool {
        self.corrections >= FREE_CORRECTIONS
    }

    /// True if it lies so far back that it doesn't count any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.rest(now).is_zero()
    }

    /// How much longer it must be quiet.
    pub fn rest(&self, now: Timestamp) -> Duration {
        let quiet = if self.is_contested() {
            QUIET_PERIOD.max(self.interval() * 2).max(self.gap * 2)
        } else {
            MEMORY
        };
        quiet.saturating_sub(elapsed(self.last, now))
    }

    /// The least time between the last correction and the next.
    fn interval(&self) -> Duration {
        match self.corrections.checked_sub(FREE_CORRECTIONS) {
            None => Duration::ZERO,
            Some(more) => SHORTEST.saturating_mul(1 << more.min(16)).min(LONGEST),
        }
    }
}

/// A clock that was set back must not make anybody wait.
fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now - since).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn corrections_slow_down_and_start_afresh_after_peace() {
        let mut contest = Contest::default();
        for _ in 0..FREE_CORRECTIONS {
            assert_eq!(contest.wait(at(0)), Duration::ZERO);
            assert!(!contest.is_contested());
            contest.corrected(at(0));
        }
        assert!(contest.is_contested());
        let mut now = 0;
        for expected in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!(contest.wait(at(now)), Duration::from_secs(expected));
            now += expected as i64;
            assert_eq!(contest.wait(at(now)), Duration::ZERO);
            contest.corrected(at(now));
        }
        assert!(!contest.is_over(at(now + 599)) && contest.is_over(at(now + 600)));
        contest.corrected(at(now + 600));
        assert!(!contest.is_contested());
    }

    #[test]
    fn a_slow_opponent_is_one_too() {
        let mut contest = Contest::default();
        // Another field manager that reverts our correction once a minute.
        for minute in 0..i64::from(FREE_CORRECTIONS) {
            contest.corrected(at(60 * minute));
        }
        assert!(contest.is_contested());
        let last = 60 * (i64::from(FREE_CORRECTIONS) - 1);
        assert!(!contest.is_over(at(last + 119)), "he may come back in a minute");
        assert!(contest.is_over(at(last + 120)));
        // Rare changes are no contest.
        let mut contest = Contest::default();
        for day in 0..20 {
            contest.corrected(at(86_400 * day));
        }
        assert!(!contest.is_contested());
    }
}
