//! Series of the state of each release, made when they are read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use chartwright_core::status::AbnormalCondition;

use super::labels::ReleaseLabels;
use super::series::MAX_RELEASES;
use crate::sync::lock;

/// A state with a series for each of its facts. Names and values of their labels are constants of the operator.
pub(super) trait SeriesState {
    /// The labels of each series, beside those of the release.
    fn labels(&self) -> impl Iterator<Item = [(&'static str, &'static str); 2]>;
}

/// The states of the releases. A series has the value 1. At most [`MAX_RELEASES`] releases have series.
#[derive(Clone, Debug, Default)]
pub(super) struct ReleaseSeries<S> {
    states: Arc<Mutex<HashMap<ReleaseLabels, S>>>,
}

/// The reason of the condition `Ready`, and whether the release is suspended.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyState {
    pub(super) reason: &'static str,
    pub(super) suspended: bool,
}

impl SeriesState for ReadyState {
    fn labels(&self) -> impl Iterator<Item = [(&'static str, &'static str); 2]> {
        let suspended = if self.suspended { "true" } else { "false" };
        std::iter::once([("reason", self.reason), ("suspended", suspended)])
    }
}

impl SeriesState for Vec<AbnormalCondition> {
    fn labels(&self) -> impl Iterator<Item = [(&'static str, &'static str); 2]> {
        self.iter()
            .map(|condition| [("condition", condition.name), ("reason", condition.reason)])
    }
}

impl<S: SeriesState> ReleaseSeries<S> {
    /// Replaces the state of a release. One without series is not kept.
    pub(super) fn set(&self, release: &ReleaseLabels, state: S) {
        if state.labels().next().is_none() {
            return self.remove(release);
        }
        let mut states = lock(&self.states);
        if let Some(before) = states.get_mut(release) {
            *before = state;
        } else if states.len() < MAX_RELEASES {
            states.insert(release.clone(), state);
        }
    }

    /// Removes the series of a release that is gone.
    pub(super) fn remove(&self, release: &ReleaseLabels) {
        lock(&self.states).remove(release);
    }
}

impl<S: SeriesState> EncodeMetric for ReleaseSeries<S> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let one = ConstGauge::new(1_i64);
        for (release, state) in lock(&self.states).iter() {
            for labels in state.labels() {
                one.encode(encoder.encode_family(&(release.clone(), labels))?)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
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
