//! Decides when to remediate an unhealthy release, from how long it has been unhealthy and how often it was remediated.
//! The state is part of the record, so a restart does not reset the budget.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::operation::{self, Operation, OperationEvent};
use crate::serde_helpers::is_default;
use crate::status::conditions::whole;
use chartwright_watches::RemediationRule;
use chartwright_watches::text::cut;

/// Budgets are for so long.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const MESSAGE_BYTES: usize = 512;

/// What is remembered of one rule: an entry of `status.remediation`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Remedied {
    /// Name of the rule.
    pub name: String,
    /// Since when its condition has been true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Actions of the last hour.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<Timestamp>,
    /// The last action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// Number of actions.
    #[serde(skip_serializing_if = "is_default")]
    pub count: u64,
    /// The last action, or the one that is due. What was refused uses up no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// When the last attempt was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<Timestamp>,
    /// Why the operator does not act.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The first wait after a refused attempt. It doubles with each further one, up to an hour.
const REFUSED: Duration = Duration::from_secs(30);

/// What is to be done about a rule now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleVerdict {
    /// Its condition isn't true.
    Fine,
    /// Nothing before this time has passed, for this reason (empty: it has not lasted long enough).
    Wait(Duration, String),
    Act,
}

impl Remedied {
    /// What is to be done. `holds`: whether the condition of the rule is true.
    pub fn judge(&mut self, rule: &RemediationRule, holds: bool, now: Timestamp) -> RuleVerdict {
        // A clock that went back: what is said to come is taken for just done, which holds back rather than repeats.
        let past = |time: &mut Timestamp| *time = (*time).min(now);
        self.recent.iter_mut().for_each(past);
        self.last.iter_mut().for_each(past);
        self.since.iter_mut().for_each(past);
        self.recent.retain(|time| now.duration_since(*time) < HOUR);
        let refusal = std::mem::take(&mut self.message);
        if !holds {
            (self.since, self.refused_at) = (None, None);
            self.advance(OperationEvent::ConditionEnded);
            return RuleVerdict::Fine;
        }
        let since = *self.since.get_or_insert(whole(now));
        let until = |start: Timestamp, length: Duration| {
            let passed = Duration::try_from(now.duration_since(start)).unwrap_or_default();
            length.checked_sub(passed).filter(|left| !left.is_zero())
        };
        if let Some(left) = until(since, rule.lasting) {
            return RuleVerdict::Wait(left, String::new());
        }
        if let Some(left) = self.last.and_then(|last| until(last, rule.cool_down)) {
            return RuleVerdict::Wait(left, format!("the last time is less than {:?} ago", rule.cool_down));
        }
        let hour = HOUR.unsigned_abs();
        if self.recent.len() >= rule.budget {
            let left = self
                .recent
                .first()
                .and_then(|first| until(*first, hour))
                .unwrap_or(hour);
            return RuleVerdict::Wait(left, format!("it was done {} times within an hour", self.recent.len()));
        }
        let refusals = self.operation.as_ref().map_or(0, |operation| operation.failures);
        let wait = REFUSED.saturating_mul(1 << refusals.saturating_sub(1).min(10));
        match self.refused_at.and_then(|refused| until(refused, wait.min(hour))) {
            Some(left) => RuleVerdict::Wait(left, refusal),
            None => RuleVerdict::Act,
        }
    }

    /// Begins the action that is due. It counts from here on, also after a crash. Returns the state before.
    #[must_use = "a refused action does not count"]
    pub fn begin(&mut self, now: Timestamp) -> Self {
        let before = self.clone();
        let now = whole(now);
        self.recent.push(now);
        self.last = Some(now);
        self.count = self.count.saturating_add(1);
        self.refused_at = None;
        // It has to last as long again.
        self.since = None;
        let number = i64::try_from(self.count).unwrap_or(i64::MAX);
        self.advance(OperationEvent::ActionDue { number });
        before
    }

    /// Ends the action that [`Remedied::begin`] began, after it was carried out.
    pub fn end(&mut self) {
        self.advance(OperationEvent::MembersApplied);
    }

    /// Ends it as refused now, for this reason: it does not count. `before`: what [`Remedied::begin`] returned.
    pub fn refuse(&mut self, before: Self, why: &str, now: Timestamp) {
        self.advance(OperationEvent::ActionRefused);
        *self = Remedied {
            operation: self.operation.take(),
            refused_at: Some(whole(now)),
            ..before
        };
        self.set_message(why);
    }

    fn advance(&mut self, event: OperationEvent<'_>) {
        self.operation = operation::next(self.operation.as_ref(), event).0;
    }

    /// Sets the message: why nothing can be done or judged.
    pub fn set_message(&mut self, message: &str) {
        self.message = cut(message, MESSAGE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::OperationPhase;
    use crate::status::Status;
    use chartwright_watches::RemediationAction;
    use chartwright_watches::cel::Expression;
    use proptest::prelude::*;

    fn rule() -> RemediationRule {
        RemediationRule {
            name: "stuck".into(),
            when: Expression::compile("true").unwrap(),
            lasting: Duration::from_secs(60),
            action: RemediationAction::Recreate {
                kind: "Deployment".into(),
                name: "web".into(),
            },
            budget: 2,
            cool_down: Duration::from_secs(300),
            dry_run: false,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn act(known: &mut Remedied, seconds: i64) {
        let _ = known.begin(at(seconds));
        known.end();
    }

    #[test]
    fn it_has_to_last_and_is_done_within_its_budget() {
        let (rule, mut known) = (rule(), Remedied::default());
        let wait = |seconds| RuleVerdict::Wait(Duration::from_secs(seconds), String::new());
        assert_eq!(known.judge(&rule, true, at(0)), wait(60));
        assert_eq!(known.judge(&rule, false, at(30)), RuleVerdict::Fine);
        assert_eq!(known.judge(&rule, true, at(40)), wait(60), "from the beginning");
        assert_eq!(known.judge(&rule, true, at(70)), wait(30));
        assert_eq!(known.judge(&rule, true, at(100)), RuleVerdict::Act);
        act(&mut known, 100);
        assert_eq!(known.judge(&rule, true, at(101)), wait(60));
        let RuleVerdict::Wait(left, why) = known.judge(&rule, true, at(200)) else {
            panic!()
        };
        assert_eq!(left, Duration::from_secs(200));
        assert!(why.contains("less than 300s ago"), "{why}");
        assert_eq!(known.judge(&rule, true, at(400)), RuleVerdict::Act);
        act(&mut known, 400);
        known.judge(&rule, true, at(401));
        let RuleVerdict::Wait(left, why) = known.judge(&rule, true, at(1000)) else {
            panic!()
        };
        assert_eq!(
            (left, why.as_str()),
            (Duration::from_secs(2700), "it was done 2 times within an hour")
        );
        assert_eq!(
            known.judge(&rule, true, at(3700)),
            RuleVerdict::Act,
            "the first is an hour ago"
        );
        assert_eq!(known.count, 2);
    }

    #[test]
    fn what_is_refused_uses_up_no_budget_and_backs_off() {
        let (mut known, rule) = (Remedied::default(), rule());
        assert_eq!(
            known.judge(&rule, true, at(0)),
            RuleVerdict::Wait(rule.lasting, String::new())
        );
        let mut now = i64::try_from(rule.lasting.as_secs()).unwrap();
        for wait in [30, 60, 120] {
            assert_eq!(known.judge(&rule, true, at(now)), RuleVerdict::Act);
            let before = known.begin(at(now));
            known.refuse(before, "a policy", at(now));
            let expected = RuleVerdict::Wait(Duration::from_secs(wait), "a policy".to_owned());
            assert_eq!(known.judge(&rule, true, at(now)), expected);
            known.set_message("a policy");
            let operation = known.operation.clone().unwrap();
            assert_eq!((operation.phase, operation.revision), (OperationPhase::Failed, 1));
            assert_eq!(operation.attempt, operation.failures);
            now += i64::try_from(wait).unwrap();
        }
        assert_eq!((known.count, known.recent.len()), (0, 0));
        assert_eq!(known.judge(&rule, false, at(now)), RuleVerdict::Fine);
        assert_eq!((known.operation, known.message.as_str()), (None, ""));
    }

    #[test]
    fn a_clock_that_jumps_grants_nothing() {
        let (rule, mut known) = (rule(), Remedied::default());
        known.judge(&rule, true, at(100_000));
        act(&mut known, 100_000);
        // It went back: what was done counts from now.
        assert!(matches!(known.judge(&rule, true, at(0)), RuleVerdict::Wait(..)));
        let RuleVerdict::Wait(left, _) = known.judge(&rule, true, at(61)) else {
            panic!()
        };
        assert_eq!(left, Duration::from_secs(239));
        assert_eq!(known.judge(&rule, true, at(301)), RuleVerdict::Act);
    }

    #[test]
    fn what_is_remembered_survives_the_status() {
        let mut known = Remedied::default();
        known.judge(&rule(), true, at(0));
        act(&mut known, 70);
        known.name = "stuck".into();
        let status = serde_json::json!({"remediation": [known]});
        assert_eq!(Status::read(&status).remediation, [known]);
    }

    proptest! {
        #[test]
        fn only_what_was_done_counts(steps in prop::collection::vec((any::<bool>(), any::<bool>(), 1_i64..2000), 1..60)) {
            let (rule, mut known) = (rule(), Remedied::default());
            let (mut now, mut done, mut refused) = (0, Vec::new(), 0);
            for (holds, succeeds, seconds) in steps {
                now += seconds;
                match known.judge(&rule, holds, at(now)) {
                    RuleVerdict::Act => {
                        let before = known.begin(at(now));
                        if succeeds {
                            known.end();
                            done.push(now);
                            refused = 0;
                        } else {
                            known.refuse(before, "a policy", at(now));
                            refused += 1;
                        }
                    }
                    RuleVerdict::Fine => refused = 0,
                    RuleVerdict::Wait(..) => {}
                }
                prop_assert_eq!(known.count, done.len() as u64);
                prop_assert_eq!(known.operation.as_ref().map_or(0, |operation| operation.failures), refused);
                prop_assert!(known.operation.as_ref().is_none_or(|operation| !operation.is_open()));
                let of_last_hour = done.iter().filter(|time| now - **time < 3600);
                prop_assert!(of_last_hour.count() <= rule.budget);
            }
        }
    }
}
