//! The last step, always taken: the status says what happened, and one event tells it to whoever listens.

use super::custom_resource::CustomResource;
use super::release::{Release, jitter};
use super::render::Prepared;
use super::{Outcome, RECHECK, Run};
use crate::cluster::custom_resource as writes;
use crate::plan::annotations;
use crate::plan::status::{self, Chart, Phase, Report};
use crate::telemetry::metrics::{Operation, ReconcileResult};

impl Run<'_> {
    /// Writes the status if it says something new, and decides when to look again.
    pub(super) async fn report(&mut self, release: &mut Release, phase: Phase, prepared: Option<&Prepared>) -> Outcome {
        let previous = self.written.status();
        let metadata = self
            .unit
            .renderer
            .as_ref()
            .ok()
            .map(|renderer| &renderer.chart().metadata);
        let chart = metadata.map(|metadata| Chart {
            name: metadata.name.clone(),
            version: metadata.version.clone(),
            app_version: metadata.app_version.clone(),
        });
        let mut again = self.next_look(release, &phase);
        if !matches!(phase, Phase::Suspended)
            && let Some(token) = self.reconcile_requested(release)
        {
            release.record.handled.reconcile = token;
        }
        let report = Report {
            generation: self.written.generation,
            release_name: &self.written.key.name,
            phase: &phase,
            chart,
            record: &release.record,
            render: prepared.map(|prepared| status::Render {
                namespace: &prepared.identity.namespace,
                hooks: &prepared.hooks,
                notes: prepared.notes.as_deref(),
            }),
            contested: release.contested(),
            // Who is only waited for is no failure: counting would write a status at each look.
            failures: match phase {
                Phase::Failed { .. } => release.failures,
                _ => 0,
            },
            secrets: &release.secrets,
            now: jiff::Timestamp::now(),
        };
        let next = status::status(&report, &previous);
        let key = &self.written.key;
        let labels = self.unit.metric_labels(key);
        self.context.metrics.set_release_ready(&labels, phase.is_ready());
        if next != status::ours(&previous) {
            let target = self.written.target(&self.unit.resource);
            match writes::apply_status(&self.context.discovery, &target, &next).await {
                Ok(object) => {
                    self.context.metrics.wrote("CustomResource", Operation::Status);
                    self.written = CustomResource::from(object);
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    tracing::warn!(resource = %self.written.key, %error, "the status could not be written");
                    again = Some(release.back_off());
                }
            }
        }
        self.announce(release, &phase).await;
        Outcome {
            again,
            written: Some(self.written.clone()),
            finished: false,
            result: result(&phase),
        }
    }

    /// When to look again: as the phase asks, or when a certificate is to be renewed.
    fn next_look(&self, release: &mut Release, phase: &Phase) -> Option<std::time::Duration> {
        let renewal = release.record.renewal.filter(|_| phase.is_ready()).map(|due| {
            let wait = std::time::Duration::try_from(due - jiff::Timestamp::now());
            wait.unwrap_or_default().max(std::time::Duration::from_secs(1))
        });
        let next = self.next_look_of(release, phase);
        let round = release.next_round().filter(|_| !matches!(phase, Phase::Suspended));
        renewal.into_iter().chain(next).chain(round).min()
    }

    fn next_look_of(&self, release: &mut Release, phase: &Phase) -> Option<std::time::Duration> {
        match phase {
            Phase::Failed { .. } => Some(release.back_off()),
            Phase::Waiting { .. } => {
                release.failures = 0;
                Some(release.whys.next_look().unwrap_or(RECHECK).min(RECHECK))
            }
            Phase::Ready { gap: Some(_), .. } => {
                release.failures = 0;
                Some(RECHECK)
            }
            // A refused object may be removed by its owner, which no watch of ours would tell.
            Phase::Stalled { recheck: true, .. } => Some(release.back_off()),
            Phase::Ready { .. } | Phase::Stalled { .. } | Phase::Suspended => {
                release.failures = 0;
                self.resync()
                    .map(|period| jitter(period, &self.written.uid, release.record.revision as u32))
            }
        }
    }

    /// The resync period: annotation, then watch; the unit carries the flag's default.
    fn resync(&self) -> Option<std::time::Duration> {
        let period = annotations::reconcile_period(&self.written.annotations)
            .and_then(|text| crate::watches::duration::parse(text).ok())
            .or(self.unit.watch.reconcile_period);
        period.filter(|period| !period.is_zero())
    }

    /// One event for each thing that happened; the same failure is told once, not at every retry.
    async fn announce(&self, release: &mut Release, phase: &Phase) {
        let Some(event) = phase.event() else { return };
        let key = format!("{}\n{}", event.reason, event.note);
        if event.once && release.last_event == key {
            return;
        }
        release.last_event = key;
        let (kind, resource) = (&self.unit.group_kind, &self.written.key);
        match event.warning {
            true => tracing::warn!(%kind, %resource, reason = event.reason, "{}", event.note),
            false => tracing::info!(%kind, %resource, reason = event.reason, "{}", event.note),
        }
        let about = self.written.reference(&self.unit.resource);
        match event.warning {
            true => {
                self.context
                    .events
                    .warning(&about, &event.reason, "Reconcile", &event.note)
                    .await
            }
            false => {
                self.context
                    .events
                    .normal(&about, &event.reason, "Reconcile", &event.note)
                    .await
            }
        }
        self.context.metrics.wrote("Event", Operation::Event);
    }
}

/// The label `result` of the reconcile counter.
fn result(phase: &Phase) -> ReconcileResult {
    match phase {
        Phase::Ready { .. } | Phase::Suspended => ReconcileResult::Success,
        Phase::Waiting { .. } => ReconcileResult::Progressing,
        Phase::Failed { .. } => ReconcileResult::Error,
        Phase::Stalled { .. } => ReconcileResult::Stalled,
    }
}
