//! Readiness conditions in CEL, from a chart (`chartwright.dev/ready-when`) or a watch (`health`). They replace the rule of the
//! object's kind. The object's spec must still be observed.

use serde_json::Value;

use crate::annotations::READY_WHEN;
use crate::health::{Health, HealthStatus, is_observed};
use crate::identity::{GroupKind, ObjectId};
use crate::index::live::Live;
use chartwright_watches::HealthRule;
use chartwright_watches::cel::VARIABLES;
use chartwright_watches::cel::{CelData, CelError, Expression};
use chartwright_watches::text::cut;

/// Of an expression in a message, in bytes.
const SHOWN: usize = 200;

/// When one object is well.
#[derive(Clone, Debug)]
pub struct Gate {
    ready: Expression,
    failed: Option<Expression>,
}

/// What states when a live object is well.
#[derive(Clone, Debug)]
pub enum GateCondition {
    /// Its annotation.
    Stated(Box<str>),
    /// The rule of its kind.
    Rule(Gate),
}

/// What a condition may read beside the object that it is of.
#[derive(Clone, Debug)]
pub struct GateFacts {
    /// The live members by kind and name.
    pub members: CelData,
    /// The pods of workloads.
    pub pods: CelData,
}

/// True if an object states a condition.
pub fn is_stated(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    annotations.is_some_and(|annotations| annotations.get(READY_WHEN).is_some())
}
impl GateCondition {
    /// That of a live object: what its annotation states, else the rule of its kind.
    pub fn of(id: &ObjectId, live: &Live, rules: &[HealthRule]) -> Option<Self> {
        if let Some(text) = &live.ready_when {
            return Some(GateCondition::Stated(text.clone()));
        }
        let GroupKind { group, kind } = &id.group_kind;
        let rule = rules.iter().find(|rule| rule.group == *group && rule.kind == *kind)?;
        Some(GateCondition::Rule(Gate {
            ready: rule.ready_when.clone(),
            failed: rule.failed_when.clone(),
        }))
    }

    /// Whether [`GateCondition::gate`] takes no time.
    pub fn is_compiled(&self) -> bool {
        match self {
            GateCondition::Stated(text) => Expression::is_compiled(text),
            GateCondition::Rule(_) => true,
        }
    }

    /// Compiles it, which may take some milliseconds.
    ///
    /// # Errors
    /// What its annotation states is no condition.
    pub fn gate(self) -> Result<Gate, CelError> {
        match self {
            GateCondition::Stated(text) => Gate::stated(&text),
            GateCondition::Rule(gate) => Ok(gate),
        }
    }
}

impl Gate {
    /// What an object's annotation states.
    pub fn of_object(object: &Value) -> Option<Result<Self, CelError>> {
        let annotations = object.pointer("/metadata/annotations")?;
        Some(Gate::stated(annotations.get(READY_WHEN)?.as_str()?))
    }

    fn stated(text: &str) -> Result<Self, CelError> {
        let (ready, failed) = (Expression::compile_with(text, &VARIABLES)?, None);
        Ok(Gate { ready, failed })
    }

    /// True if it reads this variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.ready.has_variable(variable) || self.failed.as_ref().is_some_and(|failed| failed.has_variable(variable))
    }

    /// The health of an object. Evaluating it may be slow.
    pub fn health(&self, object: &Value, facts: &GateFacts) -> Health {
        if let Err(unobserved) = is_observed(object) {
            return unobserved;
        }
        let this = CelData::from_json(object);
        let variables = [("self", &this), ("members", &facts.members), ("pods", &facts.pods)];
        if let Some(failed) = &self.failed
            && failed.evaluate(&variables) == Ok(true)
        {
            let message = format!("has failed: {}", cut(failed.text(), SHOWN));
            return Health {
                status: HealthStatus::Failed,
                message,
            };
        }
        let (status, message) = match self.ready.evaluate(&variables) {
            Ok(true) => (HealthStatus::Current, "is ready".to_owned()),
            Ok(false) => (
                HealthStatus::InProgress,
                format!("waits for {}", cut(self.ready.text(), SHOWN)),
            ),
            Err(error) => (HealthStatus::InProgress, error.to_string()),
        };
        Health { status, message }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::id;

    fn live(ready_when: Option<&str>) -> Live {
        Live {
            ready_when: ready_when.map(Into::into),
            ..Live::default()
        }
    }

    #[test]
    fn a_condition_takes_the_place_of_what_is_known_of_a_kind() {
        let gate = |text: &str| {
            let condition = GateCondition::of(&id("StatefulSet.apps", "db"), &live(Some(text)), &[]);
            condition.unwrap().gate()
        };
        let object = json!({
            "metadata": {"name": "db", "generation": 2},
            "spec": {"replicas": 3}, "status": {"observedGeneration": 2, "readyReplicas": 2},
        });
        let facts = GateFacts {
            members: CelData::from_json(&json!({"Service": {"web": {"spec": {"clusterIP": "10.0.0.1"}}}})),
            pods: CelData::from_json(&json!([{"metadata": {"name": "db-0"}}])),
        };
        for (text, status, message) in [
            (
                "self.status.readyReplicas * 2 > self.spec.replicas",
                HealthStatus::Current,
                "is ready",
            ),
            (
                "members.Service['web'].spec.clusterIP != '' && pods.size() == 1",
                HealthStatus::Current,
                "is ready",
            ),
            (
                "self.status.readyReplicas == 3",
                HealthStatus::InProgress,
                "waits for self.status.readyReplicas == 3",
            ),
            (
                "self.status.missing == 3",
                HealthStatus::InProgress,
                "there is no missing",
            ),
        ] {
            let health = gate(text).unwrap().health(&object, &facts);
            assert_eq!(health.status, status, "{text}");
            assert!(health.message.contains(message), "{}", health.message);
        }
        let mut newer = object;
        newer["metadata"]["generation"] = 3.into();
        let health = gate("true").unwrap().health(&newer, &facts);
        assert_eq!(
            health.status,
            HealthStatus::InProgress,
            "its status is of an earlier spec"
        );
        assert!(gate("self.").is_err());
        assert!(
            gate("other.x")
                .unwrap_err()
                .to_string()
                .contains("there is no variable other")
        );
    }

    #[test]
    fn a_rule_of_the_watch_is_for_its_kind() {
        let compile = |text: &str| Expression::compile(text).unwrap();
        let rules = [HealthRule {
            group: "db.example.com".into(),
            kind: "Database".into(),
            ready_when: compile("self.status.state == 'up'"),
            failed_when: Some(compile("self.status.state == 'broken'")),
        }];
        let of = |kind: &str| GateCondition::of(&id(kind, "x"), &live(None), &rules).map(GateCondition::gate);
        assert!(of("Database").is_none() && of("ConfigMap").is_none());
        let gate = of("Database.db.example.com").unwrap().unwrap();
        for (state, status) in [
            ("up", HealthStatus::Current),
            ("broken", HealthStatus::Failed),
            ("new", HealthStatus::InProgress),
        ] {
            let health = gate.health(
                &json!({"status": {"state": state}}),
                &GateFacts {
                    members: CelData::from_json(&json!({})),
                    pods: CelData::from_json(&json!([])),
                },
            );
            assert_eq!(health.status, status, "{state}");
        }
    }
}
