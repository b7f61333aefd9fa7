//! Writes the status and Events at the end of every reconcile.

pub(crate) mod announce;
pub(crate) mod build;
pub(crate) mod conclusion;
pub(crate) mod lossy_status;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use api_objects::CustomObject;
use serde_json::Value;

use crate::cluster::custom_resource as writes;
use crate::cluster::error::Error;
use crate::reconcile::account::AccountStage;
use crate::reconcile::custom_resource::ResourceKey;
use crate::reconcile::flow::Flow;
use crate::reconcile::hints::refusal;
use crate::reconcile::load::job_ttls::JobTtls;
use crate::reconcile::outcome::ReconcileOutcome;
use crate::reconcile::record::RecordStore;
use crate::reconcile::release::Release;
use crate::reconcile::release::backoff::jitter;
use crate::reconcile::release::saved_record::StatusRefusal;
use crate::reconcile::release::schedule::{RECHECK, RECHECK_UNSEEN};
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::status::announce::EventAnnouncer;
use crate::reconcile::status::build::StatusBuilder;
use crate::reconcile::status::conclusion::{Conclusion, NextStatus};
use crate::telemetry::metrics::{ReconcileResult, WriteOperation};
use crate::telemetry::traces;
use chartwright_core::annotations;
use chartwright_core::apply::missing_rights;
use chartwright_core::identity::ObjectId;
use chartwright_core::record::requests::Request;
use chartwright_core::status::template::Templated;
use chartwright_core::status::{self, Phase, Reason};

/// How many throttled reconciles in a row the status does not report.
const UNREPORTED: u32 = 3;

/// What came of a write of the status.
struct StatusWrite {
    /// False if the write must be retried.
    is_done: bool,
    /// The wait that the API server requested before the retry.
    retry_after: Option<Duration>,
}

impl StatusWrite {
    const DONE: Self = StatusWrite {
        is_done: true,
        retry_after: None,
    };

    fn failed(retry_after: Option<Duration>) -> Self {
        StatusWrite {
            is_done: false,
            retry_after,
        }
    }
}

impl From<Flow> for StatusWrite {
    fn from(saved: Flow) -> Self {
        match saved {
            Continue(()) => StatusWrite::DONE,
            Break(unsaved) => StatusWrite::failed(unsaved.retry_after()),
        }
    }
}

/// Writes the status of the custom resource and decides when the next reconcile comes.
pub(crate) struct StatusWriter<'s, 'a> {
    scope: &'s mut ReleaseScope<'a>,
}

impl<'s, 'a> StatusWriter<'s, 'a> {
    pub(crate) fn new(scope: &'s mut ReleaseScope<'a>) -> Self {
        StatusWriter { scope }
    }
}

impl StatusWriter<'_, '_> {
    /// Sets the metrics of the release.
    fn measure(&self, next: &NextStatus, phase: &Phase) {
        let metrics = &self.scope.context.metrics;
        let labels = self.scope.unit.metric_labels(&self.scope.written.key);
        let (reason, suspended) = (phase.reason(), *phase == Phase::Suspended);
        metrics.releases.set_ready(&labels, phase.is_ready(), reason, suspended);
        metrics
            .releases
            .set_conditions(&labels, status::abnormal_conditions(&next.status, phase));
    }

    /// Writes the status if it has changed, and schedules the next reconcile.
    pub(super) async fn report(
        &mut self,
        release: &mut Release,
        conclusion: impl Into<Conclusion>,
    ) -> ReconcileOutcome {
        let mut conclusion = conclusion.into();
        if conclusion.phase != Phase::Suspended
            && let Some(token) = self.scope.requested(release, Request::Reconcile)
        {
            release.record.handled.set(Request::Reconcile, &token);
        }
        let saved = RecordStore::new(self.scope).save_record(release).await;
        let is_saved = saved.is_continue();
        // The first failure explains more than the failed status write.
        if let Break(unsaved) = saved
            && conclusion.phase.is_well()
        {
            conclusion.phase = unsaved;
        }
        self.explain_missing_rights(&mut conclusion.phase).await;
        let phase = &conclusion.phase;
        traces::note_reason(&self.scope.span, phase.reason());
        release.retry.cache.after(phase);
        release.observed.was_healthy |= phase.is_ready();
        let failures = release.retry.backoff.failures;
        let mut again = self.next_look(release, &conclusion);
        note_hook_retry(release, phase, again);
        if self.is_only_put_off(release, phase) {
            return ReconcileOutcome {
                again,
                put_off: true,
                written: Some(self.scope.written.clone()),
                ..ReconcileOutcome::of(result(phase))
            };
        }
        release.stored.partial &= !phase.is_ready();
        let mut next = StatusBuilder::new(self.scope).status(release, &conclusion);
        self.measure(&next, phase);
        let refused = release.retry.refused_status;
        let mut written = self.write_status(release, &conclusion, &next).await;
        if written.is_done
            && release.retry.refused_status == StatusRefusal::Details
            && refused == StatusRefusal::Nothing
        {
            next = StatusBuilder::new(self.scope).status(release, &conclusion);
            written = self.write_status(release, &conclusion, &next).await;
        }
        // A contested status is written later.
        let contest = release.next_round().filter(|_| conclusion.phase != Phase::Suspended);
        again = contest.into_iter().chain(again).min();
        if !written.is_done {
            let wait = release.retry.backoff.failed_to_write(written.retry_after);
            // A failed status write must not shorten the backoff of the other failure.
            let failed = again.filter(|_| release.retry.backoff.failures > failures);
            again = Some(failed.map_or(wait, |failed| failed.max(wait)));
        } else if RecordStore::new(self.scope).drop_secrets(release).await {
            next = StatusBuilder::new(self.scope).status(release, &conclusion);
            self.write_status(release, &conclusion, &next).await;
        }
        if is_saved && written.is_done && !self.scope.missing && !JobTtls::new(self.scope).set_ttls(release).await {
            again = Some(again.map_or(RECHECK, |again| again.min(RECHECK)));
        }
        EventAnnouncer::new(self.scope)
            .announce(release, &conclusion, &next.status)
            .await;
        EventAnnouncer::new(self.scope)
            .announce_awaited(release, &conclusion.phase, next.is_news)
            .await;
        EventAnnouncer::new(self.scope)
            .announce_pods(release, &conclusion.phase)
            .await;
        ReconcileOutcome {
            again,
            put_off: conclusion.phase.retry_after().or(written.retry_after).is_some(),
            written: Some(self.scope.written.clone()),
            missing: self.scope.missing,
            ..ReconcileOutcome::of(result(&conclusion.phase))
        }
    }

    async fn explain_missing_rights(&mut self, phase: &mut Phase) {
        AccountStage::new(self.scope).explain_refusal(phase).await;
        let account = self.scope.account.as_ref().map(ToString::to_string);
        let namespaces = self.scope.context.settings.namespaces.as_ref();
        missing_rights::add_remedy(phase, account.as_deref(), namespaces);
    }

    /// True if the only problem is that the API server throttles requests. A status write would add to its load. A
    /// problem that lasts is reported.
    fn is_only_put_off(&self, release: &mut Release, phase: &Phase) -> bool {
        let Some(wait) = phase.retry_after() else {
            release.retry.backoff.throttled = 0;
            return false;
        };
        release.retry.backoff.throttled = release.retry.backoff.throttled.saturating_add(1);
        if release.retry.backoff.throttled > UNREPORTED {
            return false;
        }
        // Throttling does not count as a failure yet.
        release.retry.backoff.failures = release.retry.backoff.failures.saturating_sub(1);
        tracing::info!(
            kind = %self.scope.unit.group_kind, resource = %self.scope.written.key, ?wait,
            "the API server throttles requests: retried later"
        );
        true
    }

    /// Writes the status if it has changed.
    async fn write_status(&mut self, release: &mut Release, conclusion: &Conclusion, next: &NextStatus) -> StatusWrite {
        if !next.is_news {
            return StatusWrite::DONE;
        }
        let mut next = &next.status;
        let mut digest = digest_of(next);
        if !self.may_correct(release, digest).await {
            return StatusWrite::DONE;
        }
        if !self.scope.unit.resource.status {
            // The kind has no status, so all fields are dropped.
            RecordStore::new(self.scope).compare_status(release, next, &Value::Null);
            return StatusWrite::DONE;
        }
        let mut written = self.send_status(release, next).await;
        let mut accepted;
        // Without the refused fields of the template, then without the values that they had before.
        for _ in 0..2 {
            let Err(error) = &written else { break };
            let previous = StatusBuilder::new(self.scope).previous(release).clone();
            if !is_about_status(error)
                || !release
                    .observed
                    .template
                    .as_mut()
                    .is_some_and(|template| template.refuse(&error.to_string(), &refused_fields(error), &previous))
            {
                break;
            }
            accepted = StatusBuilder::new(self.scope).status(release, conclusion).status;
            next = &accepted;
            digest = digest_of(next);
            written = self.send_status(release, next).await;
        }
        match written {
            Ok(object) => {
                release.retry.backoff.unwritten = 0;
                release.announced.written = Some(digest);
                self.scope
                    .context
                    .metrics
                    .objects
                    .wrote("CustomResource", WriteOperation::Status);
                self.scope.set_written(object);
                if release.retry.refused_status == StatusRefusal::Everything {
                    release.retry.refused_status = StatusRefusal::Details;
                }
                RecordStore::new(self.scope).compare_status(release, next, self.scope.written_status());
                // The API server dropped the record from this status.
                RecordStore::new(self.scope).save_record(release).await.into()
            }
            Err(error) if error.is_not_found() => {
                self.scope.missing = true;
                StatusWrite::DONE
            }
            Err(error) if is_about_status(&error) => {
                self.note_refused_status(release, next, &error).await;
                RecordStore::new(self.scope).save_record(release).await.into()
            }
            Err(error) => {
                let text = format!("the status could not be written: {error}");
                match refusal(&error) {
                    Some(remedy) => self.scope.warn_once(release, "StatusUnwritten", text + remedy).await,
                    None => tracing::warn!(resource = %self.scope.written.key, "{text}"),
                }
                StatusWrite::failed(error.retry_after())
            }
        }
    }

    /// Counts the correction of a status that another client changed. Returns false while that client changes it each time: it is
    /// then corrected later.
    async fn may_correct(&self, release: &mut Release, digest: u64) -> bool {
        if release.announced.written != Some(digest) {
            return true;
        }
        let ResourceKey { namespace, name } = &self.scope.written.key;
        let id = ObjectId::new(self.scope.unit.group_kind.clone(), namespace, name);
        if release.must_wait(&id) {
            return false;
        }
        if release.contests.corrected(&id, "another client changes the status") {
            let note = format!(
                "{id}: another client changes the status again and again; it is corrected at growing intervals"
            );
            self.scope.warn("DriftContested", &note).await;
        }
        true
    }

    async fn send_status(&self, release: &Release, next: &Value) -> Result<CustomObject, Error> {
        let target = self.scope.written.target(&self.scope.unit.resource);
        let client = &self.scope.context.client;
        // Another release of the kind may detect it during this request.
        let merges = self.scope.unit.lossy.refuses.load(Relaxed);
        if !merges {
            let written = writes::apply_status(client, &target, next).await;
            if !written.as_ref().is_err_and(Error::is_schema_mismatch) {
                return written;
            }
        }
        let templated = Templated::of(StatusBuilder::new(self.scope).previous(release)).fields;
        let templated = templated.iter().map(String::as_str);
        let fields: Vec<&str> = status::FIELDS.iter().copied().chain(templated).collect();
        let written = writes::merge_status(client, &target, next, &fields).await;
        self.scope.unit.lossy.refuses.store(true, Relaxed);
        written
    }

    /// Requests a shorter status. If that is refused as well, an Event reports it.
    async fn note_refused_status(&self, release: &mut Release, next: &Value, error: &Error) {
        self.scope
            .context
            .metrics
            .release_counters
            .refused_write(&self.scope.unit.group_kind.kind);
        if release.retry.refused_status == StatusRefusal::Nothing {
            release.retry.refused_status = StatusRefusal::Details;
            tracing::info!(resource = %self.scope.written.key, %error, "the status is refused; a shorter one is tried");
            return;
        }
        release.retry.refused_status = StatusRefusal::Everything;
        // Do not retry before the status changes.
        release.announced.status = Some(next.clone());
        let note = format!(
            "the API server refuses the status, of {} bytes beside a custom resource of about {}: {error}. What must be \
             known of the release is kept in Secrets beside it, and Events replace its conditions",
            next.to_string().len(),
            self.scope.written.size(),
        );
        self.scope.warn_once(release, "StatusUnwritten", note).await;
    }

    /// Records the progress of hooks before the next step, from which it could not be reconstructed after a crash.
    pub(super) async fn store_progress(&mut self, release: &mut Release, message: String) -> Flow {
        let phase = self.scope.shown.clone();
        self.store_decision(
            release,
            phase.unwrap_or_else(|| Phase::waiting(Reason::HookRunning, message)),
        )
        .await
    }

    /// Records a decision in the status before it is carried out. Stops with the phase of the release if the status
    /// cannot be written.
    pub(super) async fn store_decision(&mut self, release: &mut Release, phase: Phase) -> Flow {
        RecordStore::new(self.scope).save_record(release).await?;
        let conclusion = phase.into();
        let next = StatusBuilder::new(self.scope).status(release, &conclusion);
        let written = self.write_status(release, &conclusion, &next).await;
        if written.is_done && !self.scope.missing {
            Continue(())
        } else {
            let message = "how far the release has come can't be written into the status now";
            Break(Phase::failed(Reason::Record, message).not_before(written.retry_after))
        }
    }

    /// Returns when the next reconcile is due: for the phase, or for the renewal of a certificate.
    fn next_look(&self, release: &mut Release, conclusion: &Conclusion) -> Option<Duration> {
        let phase = &conclusion.phase;
        let renewal = release.record.renewal.filter(|_| phase.is_ready()).map(|due| {
            let wait = Duration::try_from(due - jiff::Timestamp::now());
            wait.unwrap_or_default().max(Duration::from_secs(1))
        });
        let next = self.next_look_of(release, conclusion);
        let round = release.next_round().filter(|_| *phase != Phase::Suspended);
        renewal.into_iter().chain(next).chain(round).min()
    }

    fn next_look_of(&self, release: &mut Release, conclusion: &Conclusion) -> Option<Duration> {
        let phase = &conclusion.phase;
        // The owner may delete a refused object, which no watch of ours shows.
        if matches!(phase, Phase::Failed { .. } | Phase::Stalled { recheck: true, .. }) {
            return Some(release.back_off(phase.retry_after()));
        }
        if !is_attempt_in_progress(release, phase) {
            release.retry.backoff.failures = 0;
        }
        match phase {
            // A watch event reports its recovery. Until then, each reconcile renders if the chart looks something up.
            Phase::Waiting {
                reason: Reason::WatchFailed,
                ..
            } => Some(RECHECK_UNSEEN),
            Phase::Waiting { .. } => Some(release.observed.pods.next_look().unwrap_or(RECHECK).min(RECHECK)),
            Phase::Ready if conclusion.changes.gap.is_some() => Some(RECHECK),
            _ => {
                let jittered = jitter(self.resync()?, &self.scope.written.uid, release.record.revision as u32);
                Some(jittered.max(annotations::SHORTEST_PERIOD))
            }
        }
    }

    /// The resync period: annotation, then watch; the unit carries the flag's default.
    fn resync(&self) -> Option<Duration> {
        let period = annotations::reconcile_period(&self.scope.written.annotations)
            .and_then(|text| chartwright_watches::duration::parse(text).ok())
            .or(self.scope.unit.watch.reconcile_period);
        period.filter(|period| !period.is_zero())
    }
}

/// True if the API server refuses the status itself, and not fields of other clients in the custom resource.
fn is_about_status(error: &Error) -> bool {
    match error {
        Error::Invalid(_) | Error::TooLarge(_) => true,
        Error::Unprocessable { causes, .. } => causes
            .iter()
            .all(|cause| cause.field == "status" || cause.field.starts_with("status.")),
        _ => false,
    }
}

/// True if a release waits within an attempt that may fail as the last one did. Only a success or a new input ends its backoff.
fn is_attempt_in_progress(release: &Release, phase: &Phase) -> bool {
    let Phase::Waiting { reason, .. } = phase else {
        return false;
    };
    let record = &release.record;
    record.hooks.is_open() || record.plans.work.running.is_some() || *reason == Reason::DependencyNotReady
}

/// Remembers when a hook that failed may be retried.
fn note_hook_retry(release: &mut Release, phase: &Phase, again: Option<Duration>) {
    if matches!(
        phase,
        Phase::Failed {
            reason: Reason::HookFailed,
            ..
        }
    ) {
        let retry = tokio::time::Instant::now() + again.unwrap_or_default();
        release.retry.cache.hook_retry.get_or_insert(retry);
    }
}

/// A digest of a status without the times at which its conditions changed.
fn digest_of(status: &Value) -> u64 {
    let mut hash = DefaultHasher::new();
    hash_without_times(status, &mut hash);
    hash.finish()
}

fn hash_without_times(value: &Value, hash: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields.iter().filter(|(field, _)| *field != "lastTransitionTime") {
                field.hash(hash);
                hash_without_times(value, hash);
            }
        }
        Value::Array(items) => {
            items.len().hash(hash);
            items.iter().for_each(|item| hash_without_times(item, hash));
        }
        Value::String(text) => text.hash(hash),
        Value::Number(number) => number.hash(hash),
        Value::Bool(is_true) => is_true.hash(hash),
        Value::Null => 0_u8.hash(hash),
    }
}

/// The fields of the status that an error names.
fn refused_fields(error: &Error) -> Vec<String> {
    let name = |path: &str| {
        let end = path.find(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        path[..end.unwrap_or(path.len())].to_owned()
    };
    match error {
        Error::Unprocessable { causes, .. } => {
            let paths = causes.iter().filter_map(|cause| cause.field.strip_prefix("status."));
            paths.map(name).collect()
        }
        // As the structured merge names a field: `.status.color: ...`.
        Error::Invalid(text) => text.split(".status.").skip(1).map(name).collect(),
        _ => Vec::new(),
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
