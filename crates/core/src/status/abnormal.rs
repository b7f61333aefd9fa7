//! The abnormal conditions of a status, for metrics and alerts.

use serde_json::Value;

use crate::status::phase::Phase;

/// A condition that is true only if something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbnormalCondition {
    /// type of the condition
    pub name: &'static str,
    /// reason of the condition
    pub reason: &'static str,
}

/// Conditions with the reasons that the operator gives them. The reason of `Stalled` is that of the phase.
const KNOWN: [AbnormalCondition; 5] = [
    known("PruneHeld", "Protected"),
    known("Drifted", "Contested"),
    known("Drifted", "DriftDetected"),
    known("PlanFailed", "PlanFailed"),
    known("StatusInvalid", "TemplateFailed"),
];

const fn known(name: &'static str, reason: &'static str) -> AbnormalCondition {
    AbnormalCondition { name, reason }
}

/// Returns the abnormal conditions that are true in a status. A suspended release keeps those that it had, without `Stalled`.
///
/// Names and reasons are constants: a reason that another client wrote into the status is not returned.
pub fn abnormal_conditions(status: &Value, phase: &Phase) -> Vec<AbnormalCondition> {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_true = |known: &AbnormalCondition| {
        conditions
            .iter()
            .any(|found| found["type"] == known.name && found["status"] == "True" && found["reason"] == known.reason)
    };
    let stalled = matches!(phase, Phase::Stalled { .. }).then(|| known("Stalled", phase.reason()));
    stalled.into_iter().chain(KNOWN.into_iter().filter(is_true)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::Reason;

    fn condition(name: &str, status: &str, reason: &str) -> Value {
        json!({"type": name, "status": status, "reason": reason})
    }

    #[test]
    fn true_conditions_with_known_reasons_are_returned() {
        let stalled = Phase::Stalled {
            reason: Reason::ValuesInvalid,
            message: "no".to_owned(),
            recheck: false,
        };
        let cases = [
            (Phase::Ready, vec![], vec![]),
            (Phase::Ready, vec![condition("Ready", "True", "Succeeded")], vec![]),
            (
                Phase::Ready,
                vec![
                    condition("PruneHeld", "True", "Protected"),
                    condition("PlanFailed", "False", "PlanFailed"),
                    condition("Drifted", "True", "Contested"),
                ],
                vec![("PruneHeld", "Protected"), ("Drifted", "Contested")],
            ),
            (Phase::Ready, vec![condition("Drifted", "True", "forged")], vec![]),
            (
                Phase::Suspended,
                vec![
                    condition("Stalled", "True", "ValuesInvalid"),
                    condition("PlanFailed", "True", "PlanFailed"),
                ],
                vec![("PlanFailed", "PlanFailed")],
            ),
            (
                stalled,
                vec![condition("Stalled", "True", "ValuesInvalid")],
                vec![("Stalled", "ValuesInvalid")],
            ),
        ];
        for (phase, conditions, expected) in cases {
            let status = json!({"conditions": conditions});
            let found: Vec<_> = abnormal_conditions(&status, &phase)
                .into_iter()
                .map(|condition| (condition.name, condition.reason))
                .collect();
            assert_eq!(found, expected, "{status}");
        }
        assert!(abnormal_conditions(&Value::Null, &Phase::Ready).is_empty());
    }
}
