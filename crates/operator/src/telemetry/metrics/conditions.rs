//! The abnormal conditions of releases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use chartwright_core::status::AbnormalCondition;

use super::labels::ReleaseLabels;
use super::series::{MAX_RELEASES, lock};

/// One series per abnormal condition of a release. A release without such a condition has none.
///
/// At most [`MAX_RELEASES`] releases have series. The names of conditions and reasons are constants of the operator.
#[derive(Debug)]
pub(super) struct ReleaseConditions {
    family: Family<ConditionLabels, Gauge>,
    /// The conditions that have a series, by release.
    known: Mutex<HashMap<ReleaseLabels, Vec<AbnormalCondition>>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ConditionLabels {
    group: Arc<str>,
    kind: Arc<str>,
    namespace: String,
    name: String,
    condition: &'static str,
    reason: &'static str,
}

impl ConditionLabels {
    fn new(release: &ReleaseLabels, condition: AbnormalCondition) -> Self {
        ConditionLabels {
            group: release.group.clone(),
            kind: release.kind.clone(),
            namespace: release.namespace.clone(),
            name: release.name.clone(),
            condition: condition.name,
            reason: condition.reason,
        }
    }
}

impl ReleaseConditions {
    pub(super) fn new(family: Family<ConditionLabels, Gauge>) -> Self {
        ReleaseConditions {
            family,
            known: Mutex::default(),
        }
    }

    /// Replaces the series of a release.
    pub(super) fn set(&self, release: &ReleaseLabels, conditions: Vec<AbnormalCondition>) {
        let mut known = lock(&self.known);
        let before = known.get(release).map_or(&[][..], Vec::as_slice);
        if before == conditions || (before.is_empty() && known.len() >= MAX_RELEASES) {
            return;
        }
        for condition in before.iter().filter(|condition| !conditions.contains(condition)) {
            self.family.remove(&ConditionLabels::new(release, *condition));
        }
        for condition in &conditions {
            self.family
                .get_or_create(&ConditionLabels::new(release, *condition))
                .set(1);
        }
        if conditions.is_empty() {
            known.remove(release);
        } else {
            known.insert(release.clone(), conditions);
        }
    }

    /// Removes the series of a release that is gone.
    pub(super) fn remove(&self, release: &ReleaseLabels) {
        self.set(release, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    fn release(name: &str) -> ReleaseLabels {
        ReleaseLabels {
            group: "g".into(),
            kind: "K".into(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    fn series(metrics: &Metrics) -> Vec<String> {
        let text = metrics.encode().unwrap();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("chartwright_release_condition{"));
        lines.map(str::to_owned).collect()
    }

    const HELD: AbnormalCondition = AbnormalCondition {
        name: "PruneHeld",
        reason: "Protected",
    };
    const CONTESTED: AbnormalCondition = AbnormalCondition {
        name: "Drifted",
        reason: "Contested",
    };

    #[test]
    fn a_condition_has_a_series_while_the_release_has_it() {
        let metrics = Metrics::new();
        metrics.releases.set_conditions(&release("a"), vec![HELD, CONTESTED]);
        metrics.releases.set_conditions(&release("b"), Vec::new());
        assert_eq!(series(&metrics).len(), 2);
        metrics.releases.set_conditions(&release("a"), vec![CONTESTED]);
        let labels = r#"group="g",kind="K",namespace="ns",name="a",condition="Drifted",reason="Contested""#;
        assert_eq!(
            series(&metrics),
            [format!("chartwright_release_condition{{{labels}}} 1")]
        );
        metrics.forget_release(&release("a"));
        assert_eq!(series(&metrics), [""; 0]);
    }

    #[test]
    fn the_releases_with_conditions_are_bounded() {
        let metrics = Metrics::new();
        for number in 0..MAX_RELEASES + 10 {
            metrics
                .releases
                .set_conditions(&release(&number.to_string()), vec![HELD]);
        }
        assert_eq!(series(&metrics).len(), MAX_RELEASES);
        metrics.forget_release(&release("0"));
        metrics.releases.set_conditions(&release("late"), vec![CONTESTED]);
        assert_eq!(series(&metrics).len(), MAX_RELEASES);
    }
}
