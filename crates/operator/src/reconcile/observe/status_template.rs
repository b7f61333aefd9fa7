//! The status template of a chart: rendered over the live members when one of them has changed, and written into the
//! status. An error is a condition and stops nothing else.

use std::ops::ControlFlow::{Break, Continue};

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::cluster::objects::lookup::LookupAnswers;
use crate::reconcile::load::input_digest;
use crate::reconcile::observe::live_members::MemberObserver;
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::{RECHECK, RequeueReason};
use crate::reconcile::release::status_template::{REFUSED_FOR, StatusTemplate};
use crate::reconcile::render::Renderer;
use crate::reconcile::render::job::RenderJob;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::digest::KeyUse;
use chartwright_core::identity::ObjectId;
use chartwright_core::status::template::{Computed, Templated};
use chartwright_core::status::{Phase, Reason};
use chartwright_watches::STATUS_TEMPLATE;
use helm_template::chart::Chart;

/// Why there is no new result.
enum TemplateFailure {
    /// The template is wrong, or what it prints.
    Invalid(String),
    /// Something could not be read; a later attempt may succeed.
    Unread(String),
}

/// Evaluates the chart's status template.
pub(crate) struct StatusEvaluator<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> StatusEvaluator<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        StatusEvaluator { scope }
    }
}

impl StatusEvaluator<'_> {
    /// Evaluates the status template, if the chart has one and what it reads has changed.
    pub(crate) async fn evaluate_status_template(&mut self, release: &mut Release, phase: &Phase) {
        let Some(name) = self.status_template(release, phase) else {
            return;
        };
        let Ok(renderer) = &self.scope.unit.renderer else {
            return;
        };
        let reads = |word: &str| mentions(renderer.chart(), word);
        let pods = reads("Pods");
        // Listed once: a list of the watch may end in between, and the digest must stand for what is read.
        let ids = MemberObserver::new(self.scope).members_if(reads("Members") || pods);
        let seen = self.status_inputs(release, &ids, phase.is_ready());
        let template = release.observed.template.get_or_insert_default();
        let retries = template
            .refused
            .as_ref()
            .is_some_and(|refused| refused.since.elapsed() >= REFUSED_FOR);
        let is_known = if template.seen.is_empty() {
            Templated::of(self.scope.written_status()).seen == seen
        } else {
            template.seen == seen && !retries
        };
        if is_known {
            template.seen = seen;
            // What it reads is followed, and remembered.
            MemberObserver::new(self.scope).attend(release);
            return;
        }
        let now = Instant::now();
        if let Some(wait) = template.wait(now) {
            release.schedule.at(wait, RequeueReason::StatusTemplate);
            MemberObserver::new(self.scope).attend(release);
            return;
        }
        // The result is public, so the secret values must be known.
        if !Renderer::new(self.scope).knows_secrets(release).await {
            return;
        }
        release.observed.template.get_or_insert_default().recent.push_back(now);
        let made = match self.compute_status(release, name, &ids, pods).await {
            Ok(mut computed) => {
                computed.redact(&release.secrets);
                Ok(computed)
            }
            Err(TemplateFailure::Invalid(why)) => Err(release.secrets.redact(&why).into_owned()),
            Err(TemplateFailure::Unread(why)) => {
                tracing::info!(resource = %self.scope.written.key, why, "the status template can't be evaluated now");
                release.schedule.at(RECHECK, RequeueReason::StatusTemplate);
                return;
            }
        };
        let template = release.observed.template.get_or_insert_default();
        template.seen = seen;
        template.record_result(made, phase.is_ready());
        if template.invalid.is_some() {
            release.schedule.at(REFUSED_FOR, RequeueReason::StatusTemplate);
        }
    }

    /// The name of the template that is to be evaluated; `None` if there is none, or now is not the time.
    fn status_template(&self, release: &mut Release, phase: &Phase) -> Option<String> {
        let is_readable = !matches!(
            phase,
            Phase::Suspended
                | Phase::Stalled {
                    reason: Reason::ChartInvalid | Reason::ValuesInvalid | Reason::Record,
                    ..
                }
        );
        let renderer = self.scope.unit.renderer.as_ref().ok()?;
        if !is_readable || release.stored.unread || self.scope.written.deleting {
            return None;
        }
        let name = &self.scope.unit.watch.status_template;
        if renderer.chart().files.iter().any(|file| file.name == *name) {
            return Some(name.clone());
        }
        let is_asked_for = name != STATUS_TEMPLATE;
        let missing = || format!("the chart has no file {name}, which `statusTemplate` names");
        // What an earlier chart printed goes.
        let was_there = Templated::of(self.scope.written_status()) != Templated::default();
        release.observed.template = (is_asked_for || was_there).then(|| {
            Box::new(StatusTemplate {
                invalid: is_asked_for.then(missing),
                computed: (!is_asked_for).then(Computed::default),
                ..StatusTemplate::default()
            })
        });
        None
    }

    /// Digest of what the template reads: values come from the custom resource, its sources and the chart.
    fn status_inputs(&self, release: &Release, ids: &[ObjectId], is_ready: bool) -> String {
        let mut parts = MemberObserver::new(self.scope).versions(ids);
        let record = &release.record;
        parts.push(
            json!([
                record.hooks.runs,
                record.plans.plans,
                record.revision,
                record.lookups,
                is_ready
            ])
            .to_string(),
        );
        let snapshot = self.scope.context.discovery.snapshot();
        parts.push(input_digest::digest(
            release.key(&self.scope.context.keys),
            self.scope.unit,
            &self.scope.written,
            &snapshot,
            &[],
        ));
        let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
        self.scope.context.keys.current().digest(KeyUse::StatusTemplate, &parts)
    }

    async fn compute_status(
        &mut self,
        release: &mut Release,
        name: String,
        ids: &[ObjectId],
        pods: bool,
    ) -> Result<Computed, TemplateFailure> {
        let facts = MemberObserver::new(self.scope)
            .live_facts(release, ids, pods)
            .await
            .map_err(TemplateFailure::Unread)?;
        let named = |items: Value| -> Value {
            let items = items.as_array().cloned().unwrap_or_default().into_iter();
            let named = items.filter_map(|item| Some((item["name"].as_str()?.to_owned(), item)));
            Value::Object(named.collect::<Map<_, _>>())
        };
        let record = &release.record;
        let more = vec![
            ("Members", facts.members),
            ("Pods", facts.pods),
            ("Hooks", named(json!(record.hooks.runs))),
            ("Plans", named(json!(record.plans.plans))),
        ];
        let revision = record.revision.max(1);
        let mut answers = LookupAnswers::new();
        let work = RenderJob::begin(
            (self.scope.context, &self.scope.client),
            self.scope.unit,
            &self.scope.written,
            release,
            &mut answers,
        )
        .await;
        let work = match work {
            Continue(work) => work,
            Break(Phase::Stalled { message, .. }) => return Err(TemplateFailure::Invalid(message)),
            Break(Phase::Failed { message, .. } | Phase::Waiting { message, .. }) => {
                return Err(TemplateFailure::Unread(message));
            }
            Break(Phase::Ready | Phase::Suspended) => return Err(TemplateFailure::Unread(String::new())),
        };
        let printed = work
            .file(&name, revision, more)
            .await
            .map_err(TemplateFailure::Invalid)?;
        Computed::read(&printed).map_err(|why| TemplateFailure::Invalid(format!("{name}: {why}")))
    }
}

/// True if something of the chart has a word, which may be executed by the template. It may be too much, and is never
/// too little: what values bring in from elsewhere sees nothing of the members.
fn mentions(chart: &Chart, word: &str) -> bool {
    let mut texts = chart.files.iter().chain(&chart.templates);
    texts.any(|file| memchr::memmem::find(&file.data, word.as_bytes()).is_some())
        || chart.dependencies.iter().any(|child| mentions(child, word))
}
