//! The status template of a chart: rendered over the live members when one of them has changed, and told in the status.
//! What is wrong with it is a condition, and keeps nothing else from being done.

use serde_json::{Map, Value, json};

use super::release::Release;
use super::render::{Answers, Work};
use super::{Run, inputs};
use crate::plan::identity::ObjectId;
use crate::plan::status::{Phase, Reason};
use crate::plan::status_template::{Computed, Templated};
use crate::watches::STATUS_TEMPLATE;
use helm_template::chart::Chart;

/// What the template of a release made last.
#[derive(Debug, Default)]
pub struct StatusTemplate {
    /// Digest of what it read.
    seen: String,
    pub(super) computed: Option<Computed>,
    pub(super) invalid: Option<String>,
    /// What the API server refused as it is, and why.
    refused: Option<(Computed, String)>,
}

// === impl StatusTemplate ===

impl StatusTemplate {
    pub(super) fn told(&self) -> Option<(&Computed, &str)> {
        Some((self.computed.as_ref()?, self.seen.as_str()))
    }

    /// The API server refuses a status with these fields. False if there are none, so that it isn't for them.
    pub(super) fn refuse(&mut self, error: &str) -> bool {
        let Some(computed) = self.computed.take_if(|computed| !computed.fields.is_empty()) else {
            return false;
        };
        self.invalid = Some(refused(error));
        self.refused = Some((computed, error.to_owned()));
        // Without the fields that are there, one of which may be at fault.
        self.computed = Some(Computed::default());
        true
    }

    /// `is_ready`: while a release is on its way, a template may fail for what isn't there yet.
    fn learn(&mut self, made: Result<Computed, String>, is_ready: bool) {
        let known = self.refused.as_ref();
        let made = made.and_then(|computed| match known.filter(|(refused, _)| *refused == computed) {
            Some((_, why)) => Err(refused(why)),
            None => Ok(computed),
        });
        match made {
            Ok(computed) => {
                self.computed = Some(computed);
                self.invalid = None;
            }
            Err(why) if is_ready => self.invalid = Some(why),
            Err(why) => tracing::debug!(why, "the status template failed; the release isn't ready yet"),
        }
    }
}

fn refused(why: &str) -> String {
    format!("the API server refuses a status with the fields that it prints: {why}")
}

impl Run<'_> {
    /// Evaluates the status template, if the chart has one and what it reads has changed.
    pub(super) async fn look_at_status(&mut self, release: &mut Release, phase: &Phase) {
        let is_readable = !matches!(
            phase,
            Phase::Suspended
                | Phase::Stalled {
                    reason: Reason::ChartInvalid | Reason::ValuesInvalid | Reason::Record,
                    ..
                }
        );
        let Ok(renderer) = &self.unit.renderer else { return };
        let name = &self.unit.watch.status_template;
        if !is_readable || release.unread || self.written.deleting {
            return;
        }
        let chart = renderer.chart();
        if !chart.files.iter().any(|file| file.name == *name) {
            let is_asked_for = name != STATUS_TEMPLATE;
            let missing = || format!("the chart has no file {name}, which `statusTemplate` names");
            release.template.invalid = is_asked_for.then(missing);
            // What an earlier chart printed goes.
            let was_there = Templated::of(&self.written.status()) != Templated::default();
            release.template.computed = (was_there && !is_asked_for).then(Computed::default);
            return;
        }
        let set = self.written.set(&self.unit.group_kind);
        self.context.members().attend(&set);
        let seen = self.status_inputs(release, &self.own_members(&set), phase.is_ready());
        let stored = Templated::of(&self.written.status()).seen;
        let is_known = release.template.seen == seen || release.template.seen.is_empty() && stored == seen;
        if is_known {
            release.template.seen = seen;
            return;
        }
        // What it prints is told, so that it must be known what is secret.
        if !self.knows_secrets(release).await {
            return;
        }
        let made = self.compute_status(release, name.clone()).await;
        let made = made.map(|mut computed| {
            computed.redact(&release.secrets);
            computed
        });
        release.template.seen = seen;
        let made = made.map_err(|why| release.secrets.redact(&why).into_owned());
        release.template.learn(made, phase.is_ready());
    }

    /// Digest of what the template reads: values come from the custom resource, its sources and the chart.
    fn status_inputs(&self, release: &Release, ids: &[ObjectId], is_ready: bool) -> String {
        let mut parts = self.versions(ids);
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
        let snapshot = self.context.discovery.snapshot();
        parts.push(inputs::digest(
            &self.context.key,
            self.unit,
            &self.written,
            &snapshot,
            &[],
        ));
        let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
        self.context.key.digest(&parts)
    }

    async fn compute_status(&mut self, release: &mut Release, name: String) -> Result<Computed, String> {
        let Ok(renderer) = &self.unit.renderer else {
            return Err("the chart can't be read".to_owned());
        };
        let reads = |word: &str| mentions(renderer.chart(), &name, word);
        let facts = self.live_facts(release, reads("Members"), reads("Pods")).await;
        let named = |items: Value, key: &str| -> Value {
            let items = items.as_array().cloned().unwrap_or_default().into_iter();
            let named = items.filter_map(|item| Some((item[key].as_str()?.to_owned(), item)));
            Value::Object(named.collect::<Map<_, _>>())
        };
        let record = &release.record;
        let more = vec![
            ("Members", facts.members),
            ("Pods", facts.pods),
            ("Hooks", named(json!(record.hooks.runs), "name")),
            ("Plans", named(json!(record.plans.plans), "name")),
        ];
        let revision = record.revision.max(1);
        let mut answers = Answers::new();
        let work = Work::begin(self.context, self.unit, &self.written, release, &mut answers).await;
        let work = work.map_err(|phase| match phase {
            Phase::Failed { message, .. } | Phase::Stalled { message, .. } | Phase::Waiting { message, .. } => message,
            Phase::Ready | Phase::Suspended => String::new(),
        })?;
        let printed = work.file(&name, revision, more).await?;
        Computed::read(&printed).map_err(|why| format!("{name}: {why}"))
    }
}

/// True if the file or a template that it may include has a word. It may be too much, and is never too little.
fn mentions(chart: &Chart, name: &str, word: &str) -> bool {
    let files = chart.files.iter().filter(|file| file.name == name);
    let mut texts = files.chain(&chart.templates);
    texts.any(|file| memchr::memmem::find(&file.data, word.as_bytes()).is_some())
        || chart.dependencies.iter().any(|child| mentions(child, "", word))
}
