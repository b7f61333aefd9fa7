//! `crds: CreateReplace`: applies the chart's definitions, and replaces live ones if the change is safe or permitted.
//!
//! A definition that was applied and is unchanged costs no request: the watch of definitions shows the digest and the owned fields.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::read::{Definitions, crd_kind};
use super::{CrdAttempt, not_served};
use crate::cluster::Resource;
use crate::cluster::crds::{self, LiveDefinition};
use crate::cluster::error::{Error, Result};
use crate::reconcile::Context;
use crate::reconcile::chart_crd_index::ChartCrdClaims;
use chartwright_core::annotations::ALLOW_UNSAFE_CRD;
use chartwright_core::crds::chart::{ChartCrd, CrdClaim, CrdProvider};
use chartwright_core::crds::compare::{CrdChange, list};
use chartwright_core::crds::decide::{CrdStep, PastReplacement, decide, is_permitted, unsafe_changes};
use chartwright_core::crds::live::{InstalledCrds, LiveCrd};
use chartwright_core::identity::GroupKind;
use chartwright_watches::Watch;
use helm_template::render::Engine;

/// Attempts for one definition while other clients write it.
const TRIES: usize = 4;

/// The work on the definitions of one watch, with what is remembered of each by name.
#[derive(Default)]
pub struct Replacer {
    states: HashMap<String, CrdState>,
}

/// What is remembered of a definition.
#[derive(Default)]
struct CrdState {
    /// What the watch showed at the last attempt. `None` before the first.
    seen: Option<Option<Arc<LiveCrd>>>,
    result: CrdResult,
    past: Option<PastReplacement>,
}

/// The result of an attempt for one definition.
#[derive(Default)]
struct CrdResult {
    problem: Option<String>,
    needs_retry: bool,
    /// It existed. If a client deletes it later, only the next start creates it again.
    exists: bool,
    note: Option<String>,
    written: Option<PastReplacement>,
}

/// One definition, and what its attempt needs.
struct CrdWork<'a> {
    context: &'a Context,
    engine: &'a Arc<Engine>,
    claims: Arc<ChartCrdClaims>,
    claim: &'a CrdClaim,
    past: Option<&'a PastReplacement>,
}

impl Replacer {
    /// Handles the definitions that are new, have changed, or need a retry.
    pub async fn attempt(
        &mut self,
        context: &Context,
        watch: &Watch,
        engine: &Arc<Engine>,
        installed: &InstalledCrds,
    ) -> CrdAttempt {
        let claims = context.chart_crds.claims();
        let id = watch.id();
        let mut attempt = CrdAttempt::default();
        let Some(own) = claims.of(&id) else { return attempt };
        attempt.problems.clone_from(&own.problems);
        for claim in &own.claims {
            let live = installed.by_name.get(&claim.name);
            let state = self.states.entry(claim.name.clone()).or_default();
            if state.needs_attempt(live, installed.is_watched) {
                state.seen = Some(live.cloned());
                let provider = claims.provider(&claim.name, &id);
                let work = CrdWork {
                    context,
                    engine,
                    claims: claims.clone(),
                    claim,
                    past: state.past.as_ref(),
                };
                let mut result = work.run(provider, live).await;
                // Without the watch, no change of the live definition is noticed.
                result.needs_retry |= result.problem.is_some() && !installed.is_watched;
                if let Some(note) = result
                    .note
                    .as_ref()
                    .filter(|note| state.result.note.as_ref() != Some(note))
                {
                    tracing::info!(kind = %watch.group_kind(), "crds/: {note}");
                }
                if let Some(written) = result.written.take() {
                    attempt.written += 1;
                    state.past = Some(written);
                }
                state.result = result;
            }
            attempt.problems.extend(state.result.problem.clone());
            attempt.needs_retry |= state.result.needs_retry;
        }
        attempt
    }
}

impl CrdState {
    fn needs_attempt(&mut self, live: Option<&Arc<LiveCrd>>, is_watched: bool) -> bool {
        // A client deletes it: that is not undone before the next start.
        if is_watched && live.is_none_or(|live| live.is_deleting) && self.result.exists {
            self.seen = Some(live.cloned());
            self.result = CrdResult::existing(None);
            return false;
        }
        let is_news = self.seen.as_ref().is_none_or(|seen| seen.as_ref() != live);
        self.result.needs_retry || is_news && (is_watched || self.seen.is_none())
    }
}

impl CrdResult {
    /// It exists, and nothing was written.
    fn existing(note: Option<String>) -> Self {
        CrdResult {
            exists: true,
            note,
            ..CrdResult::default()
        }
    }
}

impl CrdWork<'_> {
    async fn run(&self, provider: CrdProvider, live: Option<&Arc<LiveCrd>>) -> CrdResult {
        match provider {
            CrdProvider::Own => {}
            CrdProvider::Other(id) => {
                let note = format!("{}: the watch of {id} provides it", self.subject());
                return CrdResult::existing(Some(note));
            }
            CrdProvider::Unclear(id) => {
                return self.refused(&format!(
                    "the watch of {id} has another definition, and no version shows which one is newer; set `crds: Skip` in one of the \
                     watches"
                ));
            }
        }
        // The watch may lag behind: only a definition that needs nothing is left without a read.
        match decide(
            self.claim,
            live.map(Arc::as_ref),
            &self.context.settings.operator,
            self.past,
        ) {
            CrdStep::Leave => return CrdResult::existing(None),
            CrdStep::Wait => return self.waiting(),
            _ => {}
        }
        match self.converge().await {
            Ok(result) => result,
            Err(error) => CrdResult {
                problem: Some(format!("{}: {error}", self.subject())),
                needs_retry: !error.is_permanent(),
                exists: live.is_some(),
                ..CrdResult::default()
            },
        }
    }

    /// Reads the live definition, decides, and applies.
    async fn converge(&self) -> Result<CrdResult> {
        let context = self.context;
        let snapshot = context.discovery.snapshot();
        let Some(preferred) = snapshot.preferred(&crd_kind()) else {
            return Err(Error::NotServed(crd_kind().to_string()));
        };
        let mut tries = 0;
        loop {
            let found = crds::read(&context.client, preferred, &self.claim.name).await?;
            let live = found.as_ref().map(|found| LiveCrd::new(&found.metadata));
            let applied = match decide(self.claim, live.as_ref(), &context.settings.operator, self.past) {
                CrdStep::Create | CrdStep::Replace => {
                    let crd = self.load().await?;
                    let version = GroupKind::of(&crd.object)
                        .map(|(_, version)| version)
                        .unwrap_or_default();
                    let Some(resource) = snapshot.resource(&crd_kind(), &version) else {
                        return Err(Error::Invalid(not_served(&version)));
                    };
                    match found.zip(live) {
                        Some((found, live)) => self.replace(resource, &crd, found, &live).await,
                        None => self.create(resource, &crd).await,
                    }
                }
                CrdStep::Wait => return Ok(self.waiting()),
                CrdStep::Leave => return Ok(CrdResult::existing(None)),
                CrdStep::Keep(why) => {
                    let note = format!("{} is not replaced: {why}", self.subject());
                    return Ok(CrdResult::existing(Some(note)));
                }
                CrdStep::Refuse { why, can_permit } => {
                    let permit = if can_permit {
                        format!("; {}", self.permit())
                    } else {
                        String::new()
                    };
                    return Ok(self.refused(&format!("{why}{permit}")));
                }
            };
            tries += 1;
            match applied {
                Err(Error::Conflict(_)) if tries < TRIES => {}
                applied => return applied,
            }
        }
    }

    async fn create(&self, resource: &Resource, crd: &ChartCrd) -> Result<CrdResult> {
        let mut object = crd.apply_object(&self.context.settings.operator, None);
        let client = &self.context.client;
        let created = crds::apply(client, resource, &self.claim.name, &mut object, None, false).await?;
        Ok(self.written(&created, false))
    }

    /// Asks the API server for the result before it is stored, and compares it with the live definition.
    async fn replace(
        &self,
        resource: &Resource,
        crd: &ChartCrd,
        found: LiveDefinition,
        live: &LiveCrd,
    ) -> Result<CrdResult> {
        let (context, name) = (self.context, self.claim.name.as_str());
        let mut object = crd.apply_object(&context.settings.operator, Some(&found.object));
        let before = Some(&found.metadata);
        let (target, refusal) = match crds::apply(&context.client, resource, name, &mut object, before, true).await {
            Ok(target) => (target.object, None),
            Err(error) if error.is_permanent() => (object.clone(), Some(error)),
            Err(error) => return Err(error),
        };
        let LiveDefinition { metadata, object: old } = found;
        let claims = self.claims.clone();
        let changes = spawn_blocking(move || unsafe_changes(&old, &target, &claims.watched));
        let changes = changes.await.map_err(|error| Error::Unavailable(error.to_string()))?;
        if let Some(error) = refusal {
            return Ok(self.refused(&format!("the API server refuses it: {error}{}", listed(&changes))));
        }
        let is_permitted = is_permitted(self.claim, live);
        if !changes.is_empty() && !is_permitted {
            let permit = self.permit();
            return Ok(self.refused(&format!("the change is unsafe; {permit}{}", listed(&changes))));
        }
        let applied = crds::apply(&context.client, resource, name, &mut object, Some(&metadata), false).await?;
        Ok(self.written(&applied, is_permitted))
    }

    /// Reads the chart's definition again: definitions may be large, and few are ever needed.
    async fn load(&self) -> Result<ChartCrd> {
        let (engine, digest) = (self.engine.clone(), self.claim.digest.clone());
        let read = spawn_blocking(move || {
            let (crds, _) = Definitions::of(engine.chart()).into_chart_crds();
            crds.into_iter().find(|crd| crd.claim.digest == digest)
        });
        let crd = read.await.map_err(|error| Error::Unavailable(error.to_string()))?;
        crd.ok_or_else(|| Error::Invalid("the chart no longer has it".to_owned()))
    }

    fn written(&self, result: &LiveDefinition, was_permitted: bool) -> CrdResult {
        let group = result.object["spec"]["group"].as_str().unwrap_or_default();
        self.context.schemas.changed(group);
        let versions = list(&result.object["spec"]["versions"]).len();
        tracing::info!(
            crd = self.claim.name,
            digest = self.claim.digest,
            versions,
            "applied a CustomResourceDefinition"
        );
        CrdResult {
            exists: true,
            written: Some(PastReplacement {
                uid: result.metadata.uid.clone().unwrap_or_default(),
                was_permitted,
            }),
            ..CrdResult::default()
        }
    }

    fn waiting(&self) -> CrdResult {
        CrdResult {
            problem: Some(format!(
                "{} is being deleted: it is created when it is gone",
                self.subject()
            )),
            ..CrdResult::default()
        }
    }

    fn refused(&self, why: &str) -> CrdResult {
        CrdResult {
            problem: Some(format!("{} is not replaced: {why}", self.subject())),
            exists: true,
            ..CrdResult::default()
        }
    }

    fn subject(&self) -> String {
        format!("{}: CustomResourceDefinition {}", self.claim.source, self.claim.name)
    }

    fn permit(&self) -> String {
        let CrdClaim { name, digest, .. } = self.claim;
        format!("to permit this definition: `kubectl annotate crd {name} {ALLOW_UNSAFE_CRD}={digest} --overwrite`")
    }
}

/// All changes, after a text.
fn listed(changes: &[CrdChange]) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let texts: Vec<String> = changes
        .iter()
        .map(|CrdChange { path, what, .. }| format!("{path}: {what}"))
        .collect();
    format!("; unsafe changes ({}): {}", changes.len(), texts.join("; "))
}
