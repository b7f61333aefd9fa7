//! The last step, always taken: the status says what happened, and one event tells it to whoever listens.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use api_objects::CustomObject;
use serde_json::Value;

use crate::cluster::connection::throttle::requested_wait;
use crate::cluster::custom_resource as writes;
use crate::cluster::error::Error;
use crate::reconcile::RECHECK;
use crate::reconcile::RECHECK_UNSEEN;
use crate::reconcile::Reconcile;
use crate::reconcile::ReconcileOutcome;
use crate::reconcile::record::StatusRefusal;
use crate::reconcile::release::{Release, jitter};
use crate::reconcile::render::PreparedRelease;
use crate::telemetry::metrics::{Operation, ReconcileResult};
use chartwright_core::annotations;
use chartwright_core::apply::missing_rights;
use chartwright_core::record::history::Revision;
use chartwright_core::record::requests::Request;
use chartwright_core::status::template::Templated;
use chartwright_core::status::{self, Changes, Event, Phase, Reason, Report};

/// So many times in a row a release is put off before its status says so.
const UNTOLD: u32 = 3;

/// What a status tells.
pub(super) struct Conclusion {
    pub phase: Phase,
    pub changes: Changes,
    /// If it was rendered.
    pub prepared: Option<PreparedRelease>,
}

impl From<Phase> for Conclusion {
    fn from(phase: Phase) -> Self {
        Conclusion {
            phase,
            changes: Changes::default(),
            prepared: None,
        }
    }
}

/// A status that is to be written.
pub(super) struct NextStatus {
    pub status: Value,
    /// It says something else than the one that is there.
    is_news: bool,
}

impl Reconcile<'_> {
    /// Writes the status if it says something new, and decides when to look again.
    pub(super) async fn report(
        &mut self,
        release: &mut Release,
        conclusion: impl Into<Conclusion>,
    ) -> ReconcileOutcome {
        let mut conclusion = conclusion.into();
        if conclusion.phase != Phase::Suspended
            && let Some(token) = self.requested(release, Request::Reconcile)
        {
            release.record.handled.set(Request::Reconcile, &token);
        }
        let saved = self.save_record(release).await;
        let is_saved = saved.is_ok();
        // What failed before says more than that nothing can be noted of it.
        if let Err(unsaved) = saved
            && conclusion.phase.is_well()
        {
            conclusion.phase = unsaved;
        }
        missing_rights::add_remedy(&mut conclusion.phase, self.context.namespaces.as_ref());
        let phase = &conclusion.phase;
        release.retry_cache.after(phase);
        release.was_seen_whole |= phase.is_ready();
        let failures = release.backoff.failures;
        let mut again = self.next_look(release, &conclusion);
        if matches!(
            phase,
            Phase::Failed {
                reason: Reason::HookFailed,
                ..
            }
        ) {
            let retry = tokio::time::Instant::now() + again.unwrap_or_default();
            release.retry_cache.hook_retry.get_or_insert(retry);
        }
        if self.is_only_put_off(release, phase) {
            return ReconcileOutcome {
                again,
                put_off: true,
                written: Some(self.written.clone()),
                ..ReconcileOutcome::of(result(phase))
            };
        }
        release.partial &= !phase.is_ready();
        let mut next = self.status(release, &conclusion);
        let labels = self.unit.metric_labels(&self.written.key);
        self.context.metrics.set_release_ready(&labels, phase.is_ready());
        let refused = release.refused;
        let mut written = self.write_status(release, &conclusion, &next).await;
        if written && release.refused == StatusRefusal::Details && refused == StatusRefusal::Nothing {
            next = self.status(release, &conclusion);
            written = self.write_status(release, &conclusion, &next).await;
        }
        if !written {
            let wait = release.backoff.failed_to_write(requested_wait());
            // What failed besides isn't tried more often for it.
            let failed = again.filter(|_| release.backoff.failures > failures);
            again = Some(failed.map_or(wait, |failed| failed.max(wait)));
        } else if self.drop_secrets(release).await {
            next = self.status(release, &conclusion);
            self.write_status(release, &conclusion, &next).await;
        }
        if is_saved && written && !self.missing && !self.set_ttls(release).await {
            again = Some(again.map_or(RECHECK, |again| again.min(RECHECK)));
        }
        self.announce(release, &conclusion, &next.status).await;
        self.announce_awaited(release, &conclusion.phase, next.is_news).await;
        self.announce_pods(release, &conclusion.phase).await;
        ReconcileOutcome {
            again,
            put_off: requested_wait().is_some(),
            written: Some(self.written.clone()),
            missing: self.missing,
            ..ReconcileOutcome::of(result(&conclusion.phase))
        }
    }

    /// How long to wait after one more failure, and no shorter than the API server asks.
    pub(super) fn back_off(&self, release: &mut Release) -> Duration {
        release.backoff.retry_after = requested_wait();
        release.backoff.failed()
    }

    /// True if all that is wrong is that the API server has too much to do: telling that would give it more. Where it
    /// goes on, it is told.
    fn is_only_put_off(&self, release: &mut Release, phase: &Phase) -> bool {
        let Some(wait) = requested_wait().filter(|_| matches!(phase, Phase::Failed { .. })) else {
            release.backoff.throttled = 0;
            return false;
        };
        release.backoff.throttled = release.backoff.throttled.saturating_add(1);
        if release.backoff.throttled > UNTOLD {
            return false;
        }
        // It is no failure yet.
        release.backoff.failures = release.backoff.failures.saturating_sub(1);
        tracing::info!(
            kind = %self.unit.group_kind, resource = %self.written.key, ?wait,
            "the API server asks for patience: it is tried again later"
        );
        true
    }

    /// What the status says where it keeps all of it.
    pub(super) fn previous<'r>(&'r self, release: &'r Release) -> &'r Value {
        release
            .announced
            .status
            .as_ref()
            .unwrap_or_else(|| self.written_status())
    }

    pub(super) fn status(&self, release: &Release, conclusion: &Conclusion) -> NextStatus {
        let record = &release.record;
        let earlier = record
            .fallback
            .as_ref()
            .and_then(|fallback| record.history.get(fallback.to?));
        let chart = earlier.map(Revision::chart).or_else(|| self.chart());
        let template = release.template.as_deref();
        let report = Report {
            generation: self.generation,
            release_name: &self.written.key.name,
            phase: &conclusion.phase,
            changes: &conclusion.changes,
            chart,
            record: &release.record,
            seal: self.record_seal(release),
            record_in_secret: release.saved.exists,
            record_unread: release.unread,
            brief: release.refused > StatusRefusal::Nothing,
            render: conclusion.prepared.as_ref().map(|prepared| status::Render {
                namespace: &prepared.identity.namespace,
                notes: prepared.notes.as_deref(),
            }),
            computed: template.and_then(|template| template.told()),
            status_invalid: template.and_then(|template| template.invalid.as_deref()),
            contested: release.contests.message(),
            // Who is only waited for is no failure: counting would write a status at each look.
            failures: match conclusion.phase {
                Phase::Failed { .. } => release.backoff.failures,
                _ => 0,
            },
            secrets: &release.secrets,
            now: jiff::Timestamp::now(),
        };
        let previous = self.previous(release);
        let status = status::status(&report, previous);
        NextStatus {
            is_news: !status::says_the_same(&status, previous),
            status,
        }
    }

    /// Writes the status if it says something new. False if it must be tried again.
    async fn write_status(&mut self, release: &mut Release, conclusion: &Conclusion, next: &NextStatus) -> bool {
        if !next.is_news {
            return true;
        }
        let mut next = &next.status;
        if !self.unit.resource.status {
            // Everything is lost.
            self.compare(release, next, &Value::Null);
            return true;
        }
        let mut written = self.send_status(release, next).await;
        let without;
        if let Err(error) = &written
            && is_about_status(error)
            && let Some(template) = &mut release.template
            && template.refuse(&error.to_string())
        {
            without = self.status(release, conclusion).status;
            next = &without;
            written = self.send_status(release, next).await;
        }
        match written {
            Ok(object) => {
                release.backoff.unwritten = 0;
                self.context.metrics.wrote("CustomResource", Operation::Status);
                self.set_written(object);
                if release.refused == StatusRefusal::Everything {
                    release.refused = StatusRefusal::Details;
                }
                self.compare(release, next, self.written_status());
                // A status that turned out to lose the record.
                self.save_record(release).await.is_ok()
            }
            Err(error) if error.is_not_found() => {
                self.missing = true;
                true
            }
            Err(error) if is_about_status(&error) => {
                self.note_refused_status(release, next, &error).await;
                self.save_record(release).await.is_ok()
            }
            Err(error) => {
                let text = format!("the status could not be written: {error}");
                match refusal(&error) {
                    Some(remedy) => self.warn_once(release, "StatusUnwritten", text + remedy).await,
                    None => tracing::warn!(resource = %self.written.key, "{text}"),
                }
                false
            }
        }
    }

    async fn send_status(&self, release: &Release, next: &Value) -> Result<CustomObject, Error> {
        let target = self.written.target(&self.unit.resource);
        let client = &self.context.client;
        // Another release may find out while this one's request is under way.
        let merges = self.unit.lossy.refuses.load(Relaxed);
        if !merges {
            let written = writes::apply_status(client, &target, next).await;
            if !written.as_ref().is_err_and(Error::is_schema_mismatch) {
                return written;
            }
        }
        let templated = Templated::of(self.previous(release)).fields;
        let templated = templated.iter().map(String::as_str);
        let fields: Vec<&str> = status::FIELDS.into_iter().chain(templated).collect();
        let written = writes::merge_status(client, &target, next, &fields).await;
        self.unit.lossy.refuses.store(true, Relaxed);
        written
    }

    /// A shorter status is tried; where that is refused as well, an Event tells it.
    async fn note_refused_status(&self, release: &mut Release, next: &Value, error: &Error) {
        self.context.metrics.refused(&self.unit.group_kind.kind);
        if release.refused == StatusRefusal::Nothing {
            release.refused = StatusRefusal::Details;
            tracing::info!(resource = %self.written.key, %error, "the status is refused; a shorter one is tried");
            return;
        }
        release.refused = StatusRefusal::Everything;
        // Not again before there is something else to say.
        release.announced.status = Some(next.clone());
        let note = format!(
            "the API server refuses the status, of {} bytes beside a custom resource of about {}: {error}. What must be \
             known of the release is kept in Secrets beside it, Events tell what conditions would",
            next.to_string().len(),
            self.written.size(),
        );
        self.warn_once(release, "StatusUnwritten", note).await;
    }

    /// Writes down how far hooks have come before what follows can't be told from what went before.
    ///
    /// # Errors
    /// The phase of a release of which it can't be written.
    pub(super) async fn store_progress(&mut self, release: &mut Release, message: String) -> Result<(), Phase> {
        let phase = self.shown.clone();
        self.store_decision(
            release,
            phase.unwrap_or_else(|| Phase::waiting(Reason::HookRunning, message)),
        )
        .await
    }

    /// Writes down what was decided before anything is done about it.
    ///
    /// # Errors
    /// The phase of a release of which it can't be written.
    pub(super) async fn store_decision(&mut self, release: &mut Release, phase: Phase) -> Result<(), Phase> {
        self.save_record(release).await?;
        let conclusion = phase.into();
        let next = self.status(release, &conclusion);
        match self.write_status(release, &conclusion, &next).await && !self.missing {
            true => Ok(()),
            false => Err(Phase::failed(
                Reason::Record,
                "how far the release has come can't be written into the status now",
            )),
        }
    }

    /// When to look again: as the phase asks, or when a certificate is to be renewed.
    fn next_look(&self, release: &mut Release, conclusion: &Conclusion) -> Option<Duration> {
        let phase = &conclusion.phase;
        let renewal = release.record.renewal.filter(|_| phase.is_ready()).map(|due| {
            let wait = Duration::try_from(due - jiff::Timestamp::now());
            wait.unwrap_or_default().max(Duration::from_secs(1))
        });
        let next = self.next_look_of(release, conclusion);
        let round = release.contests.next_look().filter(|_| *phase != Phase::Suspended);
        renewal.into_iter().chain(next).chain(round).min()
    }

    fn next_look_of(&self, release: &mut Release, conclusion: &Conclusion) -> Option<Duration> {
        let phase = &conclusion.phase;
        // A refused object may be removed by its owner, which no watch of ours would tell.
        if matches!(phase, Phase::Failed { .. } | Phase::Stalled { recheck: true, .. }) {
            return Some(self.back_off(release));
        }
        release.backoff.failures = 0;
        match phase {
            // The watch tells when it works again; until then, each look renders what looks something up.
            Phase::Waiting {
                reason: Reason::WatchFailed,
                ..
            } => Some(RECHECK_UNSEEN),
            Phase::Waiting { .. } => Some(release.pod_troubles.next_look().unwrap_or(RECHECK).min(RECHECK)),
            Phase::Ready if conclusion.changes.gap.is_some() => Some(RECHECK),
            _ => {
                let jittered = jitter(self.resync()?, &self.written.uid, release.record.revision as u32);
                Some(jittered.max(annotations::SHORTEST_PERIOD))
            }
        }
    }

    /// The resync period: annotation, then watch; the unit carries the flag's default.
    fn resync(&self) -> Option<Duration> {
        let period = annotations::reconcile_period(&self.written.annotations)
            .and_then(|text| chartwright_watches::duration::parse(text).ok())
            .or(self.unit.watch.reconcile_period);
        period.filter(|period| !period.is_zero())
    }

    /// One event for each thing that happened; the same failure is told once, not at every retry.
    async fn announce(&self, release: &mut Release, conclusion: &Conclusion, status: &Value) {
        let event = conclusion.phase.event(&conclusion.changes);
        let failed = event.as_ref().is_some_and(|event| event.warning);
        if let Some(event) = event {
            let text = event.text();
            if !event.once || release.announced.event != text {
                release.announced.event = text;
                self.tell(&event).await;
            }
        }
        let unseen = self.unit.lossy.conditions.load(Relaxed) || release.refused == StatusRefusal::Everything;
        if unseen && !failed {
            self.announce_conditions(release, status).await;
        }
    }

    /// What a release waits for: once, until it waits for something else. `is_news`: the status didn't say so before, as it
    /// does after a restart.
    async fn announce_awaited(&self, release: &mut Release, phase: &Phase, is_news: bool) {
        let event = phase.awaited();
        let text = event.as_ref().map(Event::text);
        if release.announced.awaited == text {
            return;
        }
        release.announced.awaited = text;
        if let Some(event) = event.filter(|_| is_news) {
            self.tell(&event).await;
        }
    }

    /// What keeps pods of a release from being ready for long.
    async fn announce_pods(&self, release: &mut Release, phase: &Phase) {
        if phase.is_ready() || *phase == Phase::Suspended {
            return;
        }
        for note in release.pod_troubles.lasting(Instant::now()) {
            self.warn("PodProblem", &note).await;
        }
    }

    /// What the conditions say, where the status doesn't keep them.
    async fn announce_conditions(&self, release: &mut Release, status: &Value) {
        let events = status::condition_events(status);
        let texts = events.iter().map(Event::text).collect();
        let told = release.announced.conditions.replace(texts);
        // A release that was well when the operator last ran, and is, is no news.
        if told.is_none() && release.was_complete && !events.iter().any(|event| event.warning) {
            return;
        }
        let told = told.unwrap_or_default();
        for event in &events {
            if !told.contains(&event.text()) {
                self.tell(event).await;
            }
        }
    }

    async fn tell(&self, event: &Event) {
        match event.warning {
            true => self.warn(&event.reason, &event.note).await,
            false => self.inform(&event.reason, &event.note).await,
        }
    }
}

/// Which rights are needed, if a request failed for want of one.
pub(super) fn rights(error: &Error, rights: &str) -> String {
    match error {
        Error::Forbidden(_) => format!("; {rights}"),
        _ => String::new(),
    }
}

/// What a person can do about a write on the custom resource that the API server refuses; `None` if it may pass.
pub(super) fn refusal(error: &Error) -> Option<&'static str> {
    match error {
        Error::Forbidden(_) => {
            Some("; the operator needs the rights to get and patch the custom resources, and to patch their status")
        }
        Error::TooLarge(_) => Some("; the custom resource is too large to have anything added: make it smaller"),
        Error::Unprocessable { .. } => Some(
            "; the custom resource doesn't fit the schema of its CustomResourceDefinition: one of them is to be mended",
        ),
        _ => None,
    }
}

/// True if it is the status itself that is refused, and not what others wrote into the custom resource.
fn is_about_status(error: &Error) -> bool {
    match error {
        Error::Invalid(_) | Error::TooLarge(_) => true,
        Error::Unprocessable { causes, .. } => causes
            .iter()
            .all(|cause| cause.field == "status" || cause.field.starts_with("status.")),
        _ => false,
    }
}

/// The label `result` of the reconcile counter.
fn result(phase: &Phase) -> ReconcileResult {
    match phase {
        Phase::Ready | Phase::Suspended => ReconcileResult::Success,
        Phase::Waiting { .. } => ReconcileResult::Progressing,
        Phase::Failed { .. } => ReconcileResult::Error,
        Phase::Stalled { .. } => ReconcileResult::Stalled,
    }
}
