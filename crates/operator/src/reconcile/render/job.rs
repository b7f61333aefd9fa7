//! One render of a release: lookups, random results and capabilities included.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::{Arc, Mutex};

use kube::Client;
use serde_json::{Value, json};

use crate::cluster::discovery::Snapshot;
use crate::cluster::objects::lookup::{self, LookupAnswers};
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::load::input_digest;
use crate::reconcile::release::Release;
use crate::reconcile::render::memory_budget::MemoryShare;
use crate::reconcile::render::patched::{PatchInput, patch_and_read};
use crate::reconcile::render::pool::{PoolError, PoolLane, off_worker, off_worker_if_large};
use crate::reconcile::render::prepared::{PreparedRelease, RenderInputs, hooks_digest};
use crate::reconcile::render::previous_lookups::PreviousLookups;
use crate::reconcile::render::secret_values::{self, ChartText};
use crate::reconcile::render::stored_values::GeneratedValues;
use crate::reconcile::unit::{Unit, mentions_release_facts};
use crate::reconcile::values;
use crate::reconcile::values::error::ValuesError;
use crate::reconcile::values::release_name::release_name;
use crate::reconcile::values::release_namespace::release_namespace;
use crate::sync::lock;
use crate::telemetry::redact::{self, Secrets};
use chartwright_core::annotations::ON_DELETE;
use chartwright_core::digest::{Key, KeyUse};
use chartwright_core::hooks::{self, Hook};
use chartwright_core::index::dependencies;
use chartwright_core::members::desired::{Desired, Identity, Member, RenderedObject as Manifest};
use chartwright_core::members::owner;
use chartwright_core::members::policy::Update;
use chartwright_core::record::Entry;
use chartwright_core::record::history::is_watched;
use chartwright_core::status::{Phase, Reason};
use chartwright_core::{grants, plans};
use helm_template::render::{
    Engine, Error as RenderError, Input, Kept, Limits, LookupKey, ReleaseObject, Rendered, size_of_data,
};

/// The maximum size of a chart file that is rendered alone, in bytes. A status has less room.
pub(crate) const LONGEST_FILE: usize = 1 << 20;

/// The inputs that all renders of one reconcile share.
pub(crate) struct RenderJob<'a> {
    pub context: &'a Context,
    /// Reads the lookups and sources, with the rights of the release.
    pub client: &'a Client,
    pub unit: &'a Unit,
    pub resource: &'a CustomResource,
    pub renderer: &'a Arc<Engine>,
    /// The key of this release's digests.
    pub key: &'a Key,
    pub identity: Identity,
    pub data: TemplateData,
    pub lookups: JobLookups<'a>,
    pub snapshot: Arc<Snapshot>,
    /// Learns the secret values of the renders.
    pub secrets: Arc<Secrets>,
    /// The memory for the renders. A cancelled render keeps it until its thread ends.
    pub share: Arc<Mutex<MemoryShare>>,
}

/// What the templates read besides the cluster.
pub(crate) struct TemplateData {
    /// `.Release.Name`
    pub release_name: String,
    pub values: Value,
    /// `.Plan`
    pub plan: Value,
    /// `.Object`: the decorated object.
    pub object: Option<Value>,
    /// The result of `now`.
    pub clock: jiff::Timestamp,
}

/// The lookups that are answered before a render.
#[derive(Default)]
pub(crate) struct JobLookups<'a> {
    /// The Secrets and ConfigMaps of the values.
    pub sources: LookupAnswers,
    /// The lookups of the last attempt.
    pub known: Option<&'a LookupAnswers>,
    /// Lookups get the answers of the previous render.
    pub earlier: Option<&'a PreviousLookups>,
}

/// One of these renders.
pub(crate) struct RenderRequest {
    pub revision: i64,
    pub lookups: Arc<LookupAnswers>,
    pub kept: Kept,
    /// Set for a probe, a render that only shows which leaves of this result are random.
    pub probe: Option<Box<Rendered>>,
}

/// The result of a render.
pub(crate) enum RenderResult {
    Rendered(Box<Rendered>, Desired),
    /// The render failed. Missing answers of these lookups may be the cause.
    Needs(Vec<LookupKey>),
}

/// The result of one attempt. An error returns the request.
pub(crate) type RenderAttempt = Result<(Rendered, Desired), Box<(RenderError, RenderRequest)>>;

/// Renders the release of a custom resource. Fetches lookups and returns their answers in `answers`. Writes nothing.
/// The release remembers its stored random results even if the render fails. Reads with the operator's rights.
pub async fn prepare(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
    answers: &mut LookupAnswers,
) -> Flow<PreparedRelease> {
    prepare_plan((context, &context.client), unit, resource, release, answers, no_plan()).await
}

/// Returns `.Plan` for a render without a running plan.
pub(crate) fn no_plan() -> Value {
    json!({"Name": "", "Params": {}})
}

/// The same with this `.Plan`.
pub(crate) async fn prepare_plan(
    (context, client): (&Context, &Client),
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
    answers: &mut LookupAnswers,
    plan: Value,
) -> Flow<PreparedRelease> {
    let (depth, maker) = context.depth(&unit.group_kind, resource);
    grants::may_nest(depth, maker, &unit.watch.allow)
        .or_stop(|refused| Phase::stalled(Reason::Refused, refused.to_string()))?;
    let mut work = RenderJob::begin((context, client), unit, resource, release, answers).await?;
    work.data.plan = plan;
    let mut memory = GeneratedValues::read(context, resource, release).await?;
    release.retry.cache.kept = memory.known();
    let inputs =
        |asked: &[String]| input_digest::digest(release.key(&context.keys), unit, resource, &work.snapshot, asked);
    let since_settled = inputs(&release.record.capabilities);
    let earlier = PreviousLookups::of(release, &inputs(&release.render.last.capabilities))
        .filter(|_| !memory.must_draw(release, context.now()));
    let share = work.share.clone();
    work.lookups.known = Some(&release.retry.cache.answers);
    work.lookups.earlier = earlier.as_ref();
    let prepared = work.release(release, &mut memory, answers).await?;
    lock(&share).keep(prepared.size);
    // A failed render may not show all secrets, so it must not replace the known ones.
    work.secrets.turn();
    let values_digest = if is_watched(unit.watch.on_failure) {
        work.key
            .digest(KeyUse::Values, &[work.data.values.to_string().as_bytes()])
    } else {
        String::new()
    };
    Continue(PreparedRelease {
        generated_values: memory,
        inputs: RenderInputs {
            values_digest,
            values: std::mem::take(&mut work.data.values),
            since_settled,
            ..prepared.inputs
        },
        _share: Some(share),
        ..prepared
    })
}

/// True if this render differs from the recorded one, so that it is an upgrade.
pub(crate) fn differs(prepared: &PreparedRelease, release: &Release) -> bool {
    let record = &release.record;
    let members = &prepared.desired.members;
    let has_other_digest = |member: &Member, known: &Entry| known.digest != member.digest;
    if release.record.upgrading {
        return true;
    }
    if release.stored.partial {
        return members.iter().any(|member| {
            let known = record.entry(&member.id).filter(|known| !known.digest.is_empty());
            known.is_some_and(|known| has_other_digest(member, known))
        });
    }
    // Ignore orphans that wait for their deletion.
    let rendered = record.entries.iter().filter(|entry| !entry.digest.is_empty());
    // With `if-not-present`, an object of another owner satisfies the chart. It has no entry.
    let yields = |member: &Member| member.policy.update == Update::IfNotPresent && record.entry(&member.id).is_none();
    let members = || members.iter().filter(|member| !yields(member));
    (prepared.hooks_digest != record.hooks.hooks && !release.stored.under_takeover)
        || members().count() != rendered.count()
        || members().any(|member| {
            let known = record.entry(&member.id);
            known.is_none_or(|known| has_other_digest(member, known))
        })
}

impl TemplateData {
    /// Returns the data besides `.Release` and `.Values`.
    fn more(&self) -> Vec<(&'static str, Value)> {
        let object = self.object.clone().map(|object| ("Object", object));
        [("Plan", self.plan.clone())].into_iter().chain(object).collect()
    }
}

impl<'a> RenderJob<'a> {
    /// Prepares a render: reads values, capabilities and stored random results. Stops with the phase of the release if
    /// the chart or the values cannot be read.
    pub(crate) async fn begin(
        (context, client): (&'a Context, &'a Client),
        unit: &'a Unit,
        resource: &'a CustomResource,
        release: &Release,
        answers: &mut LookupAnswers,
    ) -> Flow<Self> {
        let renderer = unit.renderer.as_ref();
        let renderer = renderer.or_stop(|message| Phase::stalled(Reason::ChartInvalid, message))?;
        // Reserve memory before the values are read, because they need memory, too.
        let applyset_id = resource.applyset_id(&unit.group_kind);
        let share = context
            .render
            .budget
            .share(context.render.pool.lane(&applyset_id))
            .await;
        let share = Arc::new(Mutex::new(share));
        let spec = resource.spec().or_stop(|error| ValuesError::from(error).into())?;
        let release_name = release_name(unit, resource).or_stop(Phase::from)?;
        if let Some(recorded) = release.record.other_name(&resource.key.name, &release_name) {
            let (recorded, now) = (recorded.to_owned(), release_name);
            return Break(ValuesError::ReleaseRenamed { recorded, now }.into());
        }
        let mut work = RenderJob {
            context,
            client,
            unit,
            resource,
            renderer,
            key: release.key(&context.keys),
            identity: Identity {
                owner: resource.owner(&unit.group_kind),
                operator: context.settings.operator.clone(),
                namespace: release_namespace(unit, resource).or_stop(Phase::from)?,
            },
            data: TemplateData {
                release_name,
                values: Value::Null,
                plan: no_plan(),
                object: resource.decorator.is_some().then(|| resource.as_data(&unit.resource)),
                clock: context.now(),
            },
            lookups: JobLookups::default(),
            snapshot: context.discovery.snapshot(),
            secrets: release.secrets.clone(),
            share,
        };
        secret_values::publish_names(&work.secrets, resource, &unit.group_kind);
        work.secrets.publish(&work.data.release_name);
        let found = work.read_sources(&release.retry.cache.answers, answers).await?;
        let size = size_of_data(&spec) + found.iter().map(|(_, object)| size_of_data(object)).sum::<u64>();
        let values = || values::values(unit, &found, spec);
        work.data.values = if unit.watch.override_values.is_empty() {
            off_worker_if_large(size, values)
        } else {
            off_worker(values)
        }
        .or_stop(Phase::from)?;
        Continue(work)
    }

    /// Renders one file of the chart with additional data.
    pub(crate) async fn file(
        &self,
        name: &str,
        revision: i64,
        more: Vec<(&'static str, Value)>,
    ) -> Result<Vec<u8>, String> {
        loop {
            let (renderer, snapshot, share) = (self.renderer.clone(), self.snapshot.clone(), self.share.clone());
            let (clock, limits) = (self.data.clock, self.limits());
            let limits = Limits {
                output: limits.output.min(LONGEST_FILE),
                ..limits
            };
            let (facts, values, name) = (self.facts(revision), self.data.values.clone(), name.to_owned());
            let (secrets, more) = (self.secrets.clone(), more.clone());
            let job = move || {
                let _share = share;
                let input = Input {
                    capabilities: &snapshot.capabilities,
                    clock,
                    limits,
                    more,
                    ..Input::new(facts, values)
                };
                redact::during(&secrets, || renderer.render_file(&input, &name))
            };
            match self.on_pool(job).await.map_err(|lost| lost.to_string())? {
                Ok(rendered) => return Ok(rendered.unwrap_or_default()),
                Err(error) if self.was_short_of(&error) => self.widen().await,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Returns the limits of a render in the present lane.
    pub(crate) fn limits(&self) -> Limits {
        self.context.render.budget.limits(lock(&self.share).lane())
    }

    /// True if a render failed because of a limit of the short lane.
    pub(crate) fn was_short_of(&self, error: &RenderError) -> bool {
        lock(&self.share).lane() == PoolLane::Short && error.is_of_resources()
    }

    /// Moves to the long lane with a complete share of the memory.
    pub(crate) async fn widen(&self) {
        let context = self.context;
        context.render.pool.expect_long(&self.identity.owner.set);
        // While this render waits, it reserves only the memory of its values.
        lock(&self.share).keep(size_of_data(&self.data.values));
        let share = context.render.budget.another(PoolLane::Long).await;
        *lock(&self.share) = share;
    }

    /// Runs work in the lane of the share.
    pub(crate) async fn on_pool<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let lane = lock(&self.share).lane();
        let done = self.context.render.pool.run(&self.identity.owner.set, lane, work).await;
        self.context.count_panics(done)
    }

    /// Returns `.Release` of a revision.
    pub(crate) fn facts(&self, revision: i64) -> ReleaseObject {
        ReleaseObject {
            name: self.data.release_name.clone(),
            namespace: self.identity.namespace.clone(),
            revision,
            is_install: revision == 1,
            is_upgrade: revision > 1,
        }
    }

    /// Renders with the answers of the previous render if only the release itself has changed looked-up objects.
    /// Otherwise renders with the present answers.
    pub(crate) async fn release(
        &mut self,
        release: &Release,
        memory: &mut GeneratedValues,
        answers: &mut LookupAnswers,
    ) -> Flow<PreparedRelease> {
        let recorded = release.record.revision;
        let earlier = self.lookups.earlier;
        let remembered = memory.clone();
        let mut settled = self.settled(recorded.max(1), memory, answers).await;
        if earlier.is_some_and(PreviousLookups::has_answered) {
            match settled.map_continue(|settled| self.assemble(recorded, settled, answers)) {
                Continue(prepared) if !differs(&prepared, release) => return Continue(prepared),
                Break(phase @ Phase::Failed { .. }) => return Break(phase),
                // Other objects have changed, too.
                _ => {}
            }
            *memory = remembered;
            self.lookups.earlier = None;
            answers.clone_from(&self.lookups.sources);
            settled = self.settled(recorded.max(1), memory, answers).await;
        }
        let mut prepared = self.assemble(recorded.max(1), settled?, answers);
        if recorded == 0 || !differs(&prepared, release) {
            return Continue(prepared);
        }
        if earlier.is_some_and(|earlier| earlier.is_own_doing(answers)) {
            prepared.stay_as_applied(release);
            return Continue(prepared);
        }
        prepared.revision = recorded + 1;
        if self.unit.reads_release_facts || mentions_release_facts(self.data.values.to_string().as_bytes()) {
            self.lookups.earlier = None;
            let settled = self.settled(recorded + 1, memory, answers).await?;
            prepared = self.assemble(recorded + 1, settled, answers);
        }
        Continue(prepared)
    }

    /// Renders once on a thread of the pool.
    pub(crate) async fn once(&self, request: RenderRequest) -> Flow<RenderResult> {
        let started = std::time::Instant::now();
        let answer = match self.attempt(request).await {
            Ok(Err(failed)) if self.was_short_of(&failed.0) => {
                self.widen().await;
                self.attempt(failed.1).await
            }
            answer => answer,
        };
        let context = self.context;
        context
            .metrics
            .reconciles
            .render_duration
            .observe(started.elapsed().as_secs_f64());
        match answer {
            Ok(Ok((rendered, desired))) => Continue(RenderResult::Rendered(Box::new(rendered), desired)),
            Ok(Err(failed)) => {
                let error = match failed.0 {
                    RenderError::Unanswered { missing, .. } => return Continue(RenderResult::Needs(missing)),
                    error => error,
                };
                let reason = match (error.is_about_values(), error.is_about_chart()) {
                    (true, _) => Reason::ValuesInvalid,
                    (_, true) => Reason::ChartInvalid,
                    _ => Reason::RenderFailed,
                };
                let why = if error.is_of_memory() {
                    context.render.budget.why()
                } else {
                    String::new()
                };
                Break(Phase::stalled(reason, format!("{error}{why}")))
            }
            Err(PoolError::Panicked) => Break(Phase::stalled(
                Reason::Panicked,
                "the render stopped unexpectedly: this is a defect of chartwright; see its log",
            )),
            Err(lost) => Break(Phase::failed(Reason::RenderFailed, lost.to_string())),
        }
    }

    /// Renders within the limits of the share.
    pub(crate) async fn attempt(&self, mut request: RenderRequest) -> Result<RenderAttempt, PoolError> {
        let renderer = self.renderer.clone();
        let snapshot = self.snapshot.clone();
        let (clock, values) = (self.data.clock, self.data.values.clone());
        let more = self.data.more();
        let (secrets, learning) = (self.secrets.clone(), self.secrets.clone());
        let share = self.share.clone();
        let (limits, random) = (self.limits(), self.context.settings.random.clone());
        let (identity, key) = (self.identity.clone(), self.key.clone());
        let patches = self.unit.watch.patches.clone();
        let facts = self.facts(request.revision);
        let memo = self.context.render.memo.clone();
        let job = move || {
            let _share = share;
            let render = |request: &mut RenderRequest| {
                crate::reconcile::requested_panic::panic_if_requested(&format!("{}/render", facts.name), || {
                    serde_json::to_string(&request.kept).unwrap_or_default()
                });
                let input = Input {
                    capabilities: &snapshot.capabilities,
                    lookup: Arc::<LookupAnswers>::clone(&request.lookups),
                    clock,
                    kept: Some(&request.kept),
                    random,
                    limits,
                    guards_secrets: true,
                    read_objects: true,
                    more,
                    ..Input::new(facts, values)
                };
                let other = match (&request.probe, &memo) {
                    (None, None) => Some(renderer.render_with(&input)?),
                    (None, Some(memo)) => Some(memo.render(&renderer, &input, &request.lookups)?),
                    (Some(rendered), _) => renderer.probe(&input, rendered)?,
                };
                let mut rendered = other
                    .or_else(|| request.probe.take().map(|same| *same))
                    .unwrap_or_default();
                secret_values::learn_render(&learning, &ChartText::of(Some(renderer.chart())), &rendered);
                let patching = PatchInput {
                    patches: &patches,
                    identity: &identity,
                    snapshot: &snapshot,
                    key: &key,
                    limits,
                    secrets: &learning,
                    chart: ChartText::of(Some(renderer.chart())),
                };
                let desired = patch_and_read(&mut rendered, &patching)?;
                Ok((rendered, desired))
            };
            let rendered = helm_template::render::on_large_stack(|| redact::during(&secrets, || render(&mut request)));
            rendered.map_err(|error| Box::new((error, request)))
        };
        self.on_pool(job).await
    }

    pub(crate) fn assemble(
        &self,
        revision: i64,
        (rendered, mut desired): (Rendered, Desired),
        answers: &LookupAnswers,
    ) -> PreparedRelease {
        give_owners(self.unit, self.resource, &mut desired);
        desired.give_drift_rules(self.unit.watch.drift, &self.unit.watch.ignore_differences);
        self.secrets.publish(&self.identity.namespace);
        let hooks = desired.hooks.iter().map(|hook| &hook.member);
        for member in desired.members.iter().chain(hooks) {
            self.secrets.publish(&member.id.name);
            self.secrets.publish(&member.id.namespace);
            self.secrets.publish(&member.id.group_kind.kind);
        }
        let hooks_digest = hooks_digest(&desired, self.key);
        let version = |key: &LookupKey| answers.get(key).map(dependencies::version).unwrap_or_default();
        let now = |key: &LookupKey| self.lookups.earlier.and_then(|earlier| earlier.version_now(key));
        let used = &rendered.used_lookups;
        let (mut lookups, mut seen) = (Vec::with_capacity(used.len()), Vec::with_capacity(used.len()));
        for key in self
            .lookups
            .sources
            .keys()
            .filter(|key| !used.contains(key))
            .chain(used)
        {
            let (text, version) = (lookup::describe(key), version(key));
            seen.push(format!("{text}@{}", now(key).as_ref().unwrap_or(&version)));
            lookups.push(format!("{text}@{version}"));
        }
        let asked = &rendered.capability_queries;
        let inputs = input_digest::digest(self.key, self.unit, self.resource, &self.snapshot, asked);
        PreparedRelease {
            release_name: self.data.release_name.clone(),
            identity: self.identity.clone(),
            desired,
            hooks_digest,
            notes: rendered.notes,
            warnings: rendered
                .warnings
                .iter()
                .filter(|warning| {
                    warning
                        .attribute("hookTypes")
                        .is_none_or(|events| !hooks::knows(events))
                })
                .map(ToString::to_string)
                .collect(),
            inputs: RenderInputs {
                digest: inputs,
                lookups,
                seen,
                capabilities: rendered.capability_queries,
                failed_groups: self.snapshot.failed.clone(),
                ..RenderInputs::default()
            },
            stay: Vec::new(),
            held: Vec::new(),
            revision,
            rollback: None,
            generated_values: GeneratedValues::default(),
            size: rendered.size,
            _share: None,
        }
    }
}

/// Adds the owner reference to members and hooks that may have one.
pub(crate) fn give_owners(unit: &Unit, resource: &CustomResource, desired: &mut Desired) {
    // Without a UID, no custom resource exists: `render` without a cluster.
    if !unit.watch.has_owner_references() || resource.uid.is_empty() {
        return;
    }
    let (reference, namespace) = (
        Arc::new(resource.owner_reference(&unit.resource)),
        &resource.key.namespace,
    );
    let has_hooks =
        desired.hooks.iter().any(Hook::is_of_deletion) || !plans::marked(&desired.hooks, ON_DELETE).is_empty();
    owner::refer(&mut desired.members, namespace, &reference, has_hooks);
    let is_ordered = has_hooks || desired.members.iter().any(|member| member.policy.wave != 0);
    for hook in &mut desired.hooks {
        owner::refer(
            std::slice::from_mut(&mut hook.member),
            namespace,
            &reference,
            is_ordered,
        );
    }
}

pub(crate) fn manifests<'m>(objects: impl Iterator<Item = &'m helm_template::render::Manifest>) -> Vec<Manifest> {
    let flat = objects.flat_map(|manifest| {
        manifest.objects().into_iter().map(|object| Manifest {
            object: object.clone(),
            source: manifest.source.clone(),
        })
    });
    flat.collect()
}
