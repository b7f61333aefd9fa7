//! Values and chart become members. Renders run on threads of their own, never on the async workers.

pub(crate) mod generated_values;
pub(crate) mod lookups;
pub(crate) mod memory_budget;
pub(crate) mod pool;
pub(crate) mod previous_lookups;
pub(crate) mod secret_values;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Error;
use crate::cluster::objects::{self, lookup};
use crate::reconcile::check::Checker;
use crate::reconcile::context::{Context, Unit, lock, mentions_release_facts};
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::load::input_digest;
use crate::reconcile::release::Release;
use crate::reconcile::render::generated_values::GeneratedValues;
use crate::reconcile::render::memory_budget::MemoryShare;
use crate::reconcile::render::pool::{PoolError, PoolLane, off_worker, off_worker_if_large};
use crate::reconcile::render::previous_lookups::PreviousLookups;
use crate::reconcile::render::secret_values::ChartText;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::values;
use crate::reconcile::values::unread_values::report_unread;
use crate::telemetry::redact::{self, Secrets};
use chartwright_core::annotations::{ON_CREATE, ON_DELETE};
use chartwright_core::digest::{Key, KeyUse};
use chartwright_core::hooks::{self, Hook};
use chartwright_core::identity::{GroupKind, ObjectId, owner_references};
use chartwright_core::index::dependencies;
use chartwright_core::members::desired::{self, Desired, Identity, Member, Rendered as Manifest};
use chartwright_core::members::policy::Update;
use chartwright_core::record::Entry;
use chartwright_core::record::history::is_watched;
use chartwright_core::status::{Phase, Reason};
use chartwright_core::{grants, plans};
use helm_template::render::{
    Engine, Error as RenderError, Input, Kept, Limits, LookupKey, Release as Facts, Rendered, size_of_data,
};

/// The longest text that a file of the chart makes which is rendered by itself, in bytes: a status has less room.
const LONGEST_FILE: usize = 1 << 20;

/// A release, rendered and checked, ready to be applied.
pub struct PreparedRelease {
    pub identity: Identity,
    pub desired: Desired,
    /// Keyed digest of the hooks that operations run; empty without.
    pub(super) hooks_digest: String,
    pub notes: Option<String>,
    pub warnings: Vec<String>,
    /// Digest of what this render depended on.
    pub inputs: String,
    /// The same by the answers to what the settled render asked of `.Capabilities`, to be compared with its digest: that
    /// other questions are asked is nobody's doing but his who edited the custom resource or the chart.
    pub(super) since_settled: String,
    /// What was looked up, with the versions that it was rendered from.
    pub lookups: Vec<String>,
    /// The same with the versions that there are by now.
    pub(super) seen: Vec<String>,
    /// Recorded members that stay as they were applied, though this render would have them otherwise or not at all; and
    /// what it would have otherwise or anew.
    pub(super) stay: Vec<ObjectId>,
    pub(super) held: Vec<String>,
    /// What it asked of `.Capabilities`.
    pub capabilities: Vec<String>,
    /// API groups that discovery could not read before this render.
    pub(super) failed_groups: Vec<String>,
    /// The revision that this render is.
    pub revision: i64,
    /// The one that it is made of, if it goes back to one.
    pub(super) rollback: Option<i64>,
    /// Its values, without the chart's own; and their digest, where a failure has consequences.
    pub(super) values: Value,
    pub(super) values_digest: String,
    /// Random results: what is stored, and what is to be.
    pub(super) generated_values: GeneratedValues,
    /// The memory for the members, while there are any.
    _share: Option<Arc<Mutex<MemoryShare>>>,
    /// About the bytes that they take.
    size: u64,
}

/// All that the renders of one reconcile have in common.
pub(super) struct RenderJob<'a> {
    pub context: &'a Context,
    pub unit: &'a Unit,
    pub resource: &'a CustomResource,
    pub renderer: &'a Arc<Engine>,
    /// Makes the digests of this release.
    pub key: &'a Key,
    pub identity: Identity,
    pub values: Value,
    /// `.Plan`
    pub plan: Value,
    /// `.Object`, of what is decorated.
    pub object: Option<Value>,
    /// What Secrets and ConfigMaps those come from.
    pub sources: LookupAnswers,
    pub snapshot: Arc<Snapshot>,
    /// What `now` answers.
    pub clock: jiff::Timestamp,
    /// What was looked up by the last attempt.
    pub known: Option<&'a LookupAnswers>,
    /// Lookups are answered as then.
    pub earlier: Option<&'a PreviousLookups>,
    /// Learns what the renders show to be secret.
    pub secrets: Arc<Secrets>,
    /// The memory for the renders. A render that nobody waits for any more has it all the same.
    pub share: Arc<Mutex<MemoryShare>>,
}

/// One of these renders.
pub(super) struct RenderRequest {
    pub revision: i64,
    pub lookups: Arc<LookupAnswers>,
    pub kept: Kept,
    /// Not the render itself, but what chance would make of it another time.
    pub probe: Option<Box<Rendered>>,
}

/// What came of it.
pub(super) enum RenderResult {
    Rendered(Box<Rendered>, Desired),
    /// It failed, perhaps only because these lookups had no answer yet.
    Needs(Vec<LookupKey>),
}

/// What one attempt made; with an error, the request comes back.
type RenderAttempt = Result<(Rendered, Desired), Box<(RenderError, RenderRequest)>>;

/// What was looked up so far, and what was found.
pub type LookupAnswers = BTreeMap<LookupKey, Value>;

/// Renders the release.
pub(crate) struct Renderer<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        Renderer { scope }
    }
}

impl Renderer<'_> {
    /// Steps 4 and 5: everything up to the first write.
    pub(super) async fn prepare(&self, release: &mut Release) -> Result<PreparedRelease, Phase> {
        let mut answers = LookupAnswers::new();
        let prepared = prepare(
            self.scope.context,
            self.scope.unit,
            &self.scope.written,
            release,
            &mut answers,
        )
        .await;
        // Also of what could not be rendered: what it asked for may come.
        self.scope.context.follow_lookups(&self.scope.owner.set, answers.keys());
        if prepared.is_err() {
            self.learn_recorded(release).await?;
        }
        let prepared = prepared?;
        release.knows_secrets = true;
        report_unread(self.scope, release).await;
        let checked = Checker::new(self.scope)
            .check_release(release, &prepared, &mut answers)
            .await;
        release.retry_cache.answers = answers;
        checked.map(|()| prepared)
    }

    /// Learns what Secrets among these objects hold, before anything could quote it.
    pub(super) fn learn<'m>(&self, release: &Release, members: impl IntoIterator<Item = &'m Member>) {
        let chart = self.scope.unit.renderer.as_ref().ok().map(|renderer| renderer.chart());
        let text = ChartText::of(chart);
        for member in members {
            secret_values::learn_object(&release.secrets, &text, &member.object);
        }
    }

    /// What the Secrets among the members hold is known from a render. After a start there was none, and the error of
    /// one that fails may quote it all the same: then it is read.
    async fn learn_recorded(&self, release: &mut Release) -> Result<(), Phase> {
        let snapshot = self.scope.context.discovery.snapshot();
        let secret = GroupKind::new("", "Secret");
        let Some(resource) = snapshot.preferred(&secret).filter(|_| !release.knows_secrets) else {
            return Ok(());
        };
        let entries = release.record.entries.iter();
        for entry in entries.filter(|entry| entry.id.group_kind == secret) {
            let found = objects::read(&self.scope.context.client, resource, &entry.id).await;
            if let Some((_, object)) = found.map_err(|error| unread(&entry.id, &error))? {
                let chart = self.scope.unit.renderer.as_ref().ok().map(|renderer| renderer.chart());
                secret_values::learn_object(&release.secrets, &ChartText::of(chart), &object);
            }
        }
        release.knows_secrets = true;
        Ok(())
    }
}

/// Renders the release of a custom resource. Reads what templates look up, and leaves the answers; writes nothing.
/// The release remembers what it reads of chance, also if it can't be rendered.
///
/// # Errors
/// The phase that the release is in when it can't be rendered.
pub async fn prepare(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
    answers: &mut LookupAnswers,
) -> Result<PreparedRelease, Phase> {
    prepare_plan(context, unit, resource, release, answers, no_plan()).await
}

/// `.Plan` where none runs.
pub(super) fn no_plan() -> Value {
    json!({"Name": "", "Params": {}})
}

/// The same with this `.Plan`.
pub(super) async fn prepare_plan(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &mut Release,
    answers: &mut LookupAnswers,
    plan: Value,
) -> Result<PreparedRelease, Phase> {
    let (depth, maker) = context.depth(&unit.group_kind, resource);
    grants::may_nest(depth, maker, &unit.watch.allow)
        .map_err(|refused| Phase::stalled(Reason::Refused, refused.to_string()))?;
    let mut work = RenderJob::begin(context, unit, resource, release, answers).await?;
    work.plan = plan;
    let mut memory = GeneratedValues::read(context, resource, release).await?;
    release.retry_cache.kept = memory.known();
    let inputs =
        |asked: &[String]| input_digest::digest(release.key(&context.keys), unit, resource, &work.snapshot, asked);
    let since_settled = inputs(&release.record.capabilities);
    let earlier = PreviousLookups::of(release, &inputs(&release.last_render.capabilities))
        .filter(|_| !memory.must_draw(release, context.now()));
    let share = work.share.clone();
    work.known = Some(&release.retry_cache.answers);
    work.earlier = earlier.as_ref();
    let prepared = work.release(release, &mut memory, answers).await?;
    lock(&share).keep(prepared.size);
    // Not for one that failed, which may tell of what it did not come to render.
    work.secrets.turn();
    let values_digest = match is_watched(unit.watch.on_failure) {
        true => work.key.digest(KeyUse::Values, &[work.values.to_string().as_bytes()]),
        false => String::new(),
    };
    Ok(PreparedRelease {
        generated_values: memory,
        values_digest,
        values: std::mem::take(&mut work.values),
        since_settled,
        _share: Some(share),
        ..prepared
    })
}

fn unread(id: &ObjectId, error: &Error) -> Phase {
    let message = format!(
        "the chart can't be rendered; why is not told before it is known what is secret in that: {id}: {error}"
    );
    Phase::failed(Reason::RenderFailed, message)
}

/// True if this render is not the one that was recorded: then it is an upgrade.
fn differs(prepared: &PreparedRelease, release: &Release) -> bool {
    let record = &release.record;
    let members = &prepared.desired.members;
    let has_other_digest = |member: &Member, known: &Entry| known.digest != member.digest;
    if release.record.upgrading {
        return true;
    }
    if release.partial {
        return members.iter().any(|member| {
            let known = record.entry(&member.id).filter(|known| !known.digest.is_empty());
            known.is_some_and(|known| has_other_digest(member, known))
        });
    }
    // Without those that only wait to be deleted.
    let rendered = record.entries.iter().filter(|entry| !entry.digest.is_empty());
    // Where somebody else's object will do, there is no entry, and never will be.
    let yields = |member: &Member| member.policy.update == Update::IfNotPresent && record.entry(&member.id).is_none();
    let members = || members.iter().filter(|member| !yields(member));
    (prepared.hooks_digest != record.hooks.hooks && !release.under_takeover)
        || members().count() != rendered.count()
        || members().any(|member| {
            let known = record.entry(&member.id);
            known.is_none_or(|known| has_other_digest(member, known))
        })
}

impl<'a> RenderJob<'a> {
    /// The values of a custom resource, with what is known of the cluster.
    ///
    /// # Errors
    /// The phase of a release whose chart or values can't be read.
    pub(super) async fn begin(
        context: &'a Context,
        unit: &'a Unit,
        resource: &'a CustomResource,
        release: &Release,
        answers: &mut LookupAnswers,
    ) -> Result<Self, Phase> {
        let renderer = unit.renderer.as_ref();
        let renderer = renderer.map_err(|message| Phase::stalled(Reason::ChartInvalid, message))?;
        // Before the values are read, which take memory as well.
        let set = resource.applyset_id(&unit.group_kind);
        let share = context.budget.share(context.pool.lane(&set)).await;
        let share = Arc::new(Mutex::new(share));
        let spec = resource.spec().map_err(values::ValuesError::from)?;
        let mut work = RenderJob {
            context,
            unit,
            resource,
            renderer,
            key: release.key(&context.keys),
            identity: Identity {
                owner: resource.owner(&unit.group_kind),
                operator: context.operator.clone(),
                namespace: values::release_namespace(unit, resource)?,
            },
            values: Value::Null,
            plan: no_plan(),
            object: resource.decorator.is_some().then(|| resource.as_data(&unit.resource)),
            sources: LookupAnswers::new(),
            snapshot: context.discovery.snapshot(),
            clock: context.now(),
            known: None,
            earlier: None,
            secrets: release.secrets.clone(),
            share,
        };
        secret_values::publish_names(&work.secrets, resource, &unit.group_kind);
        let found = work.read_sources(&release.retry_cache.answers, answers).await?;
        let size = size_of_data(&spec) + found.iter().map(|(_, object)| size_of_data(object)).sum::<u64>();
        let values = || values::values(unit, &found, spec);
        work.values = match unit.watch.override_values.is_empty() {
            true => off_worker_if_large(size, values)?,
            // They may have templates.
            false => off_worker(values)?,
        };
        Ok(work)
    }

    /// Renders a file of the chart with further data.
    ///
    /// # Errors
    /// Why it can't be rendered.
    pub(super) async fn file(
        &self,
        name: &str,
        revision: i64,
        more: Vec<(&'static str, Value)>,
    ) -> Result<Vec<u8>, String> {
        loop {
            let (renderer, snapshot, share) = (self.renderer.clone(), self.snapshot.clone(), self.share.clone());
            let (clock, limits) = (self.clock, self.limits());
            let limits = Limits {
                output: limits.output.min(LONGEST_FILE),
                ..limits
            };
            let (facts, values, name) = (self.facts(revision), self.values.clone(), name.to_owned());
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

    /// What a render may take now.
    fn limits(&self) -> Limits {
        self.context.budget.limits(lock(&self.share).lane())
    }

    /// Whether a render failed for what it has only in the short lane.
    fn was_short_of(&self, error: &RenderError) -> bool {
        lock(&self.share).lane() == PoolLane::Short && error.is_of_resources()
    }

    /// Goes on in the long lane, with a whole share of the memory.
    async fn widen(&self) {
        let context = self.context;
        context.pool.expect_long(&self.identity.owner.set);
        // Who waits holds nothing that others could use, but for the values.
        lock(&self.share).keep(size_of_data(&self.values));
        let share = context.budget.another(PoolLane::Long).await;
        *lock(&self.share) = share;
    }

    /// Does work in the lane of its share.
    async fn on_pool<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, PoolError> {
        let lane = lock(&self.share).lane();
        let done = self.context.pool.run(&self.identity.owner.set, lane, work).await;
        self.context.count_panics(done)
    }

    /// `.Release` of a revision.
    fn facts(&self, revision: i64) -> Facts {
        Facts {
            name: self.resource.key.name.clone(),
            namespace: self.identity.namespace.clone(),
            revision,
            is_install: revision == 1,
            is_upgrade: revision > 1,
        }
    }

    /// The release as it was rendered the last time, if nothing but its own doing has changed; else as it is now.
    async fn release(
        &mut self,
        release: &Release,
        memory: &mut GeneratedValues,
        answers: &mut LookupAnswers,
    ) -> Result<PreparedRelease, Phase> {
        let recorded = release.record.revision;
        let earlier = self.earlier;
        let remembered = memory.clone();
        let mut settled = self.settled(recorded.max(1), memory, answers).await;
        if earlier.is_some_and(PreviousLookups::was_asked) {
            match settled.map(|settled| self.assemble(recorded, settled, answers)) {
                Ok(prepared) if !differs(&prepared, release) => return Ok(prepared),
                Err(phase @ Phase::Failed { .. }) => return Err(phase),
                // Something else has changed, too.
                _ => {}
            }
            *memory = remembered;
            self.earlier = None;
            answers.clone_from(&self.sources);
            settled = self.settled(recorded.max(1), memory, answers).await;
        }
        let mut prepared = self.assemble(recorded.max(1), settled?, answers);
        if recorded == 0 || !differs(&prepared, release) {
            return Ok(prepared);
        }
        if earlier.is_some_and(|earlier| earlier.is_own_doing(answers)) {
            prepared.stay_as_applied(release);
            return Ok(prepared);
        }
        prepared.revision = recorded + 1;
        if self.unit.reads_release_facts || mentions_release_facts(self.values.to_string().as_bytes()) {
            self.earlier = None;
            let settled = self.settled(recorded + 1, memory, answers).await?;
            prepared = self.assemble(recorded + 1, settled, answers);
        }
        Ok(prepared)
    }

    /// One render, on a thread that may block.
    pub(super) async fn once(&self, request: RenderRequest) -> Result<RenderResult, Phase> {
        let started = std::time::Instant::now();
        let answer = match self.attempt(request).await {
            Ok(Err(failed)) if self.was_short_of(&failed.0) => {
                self.widen().await;
                self.attempt(failed.1).await
            }
            answer => answer,
        };
        let context = self.context;
        context.metrics.render_duration.observe(started.elapsed().as_secs_f64());
        match answer {
            Ok(Ok((rendered, desired))) => Ok(RenderResult::Rendered(Box::new(rendered), desired)),
            Ok(Err(failed)) => {
                let error = match failed.0 {
                    RenderError::Unanswered { missing, .. } => return Ok(RenderResult::Needs(missing)),
                    error => error,
                };
                let reason = match (error.is_about_values(), error.is_about_chart()) {
                    (true, _) => Reason::ValuesInvalid,
                    (_, true) => Reason::ChartInvalid,
                    _ => Reason::RenderFailed,
                };
                let why = match error.is_of_memory() {
                    true => context.budget.why(),
                    false => String::new(),
                };
                Err(Phase::stalled(reason, format!("{error}{why}")))
            }
            Err(PoolError::Panicked) => Err(Phase::stalled(
                Reason::Panicked,
                "the render stopped unexpectedly: this is a defect of chartwright; see its log",
            )),
            Err(lost) => Err(Phase::failed(Reason::RenderFailed, lost.to_string())),
        }
    }

    /// The same within the limits of its share.
    async fn attempt(&self, mut request: RenderRequest) -> Result<RenderAttempt, PoolError> {
        let renderer = self.renderer.clone();
        let snapshot = self.snapshot.clone();
        let (clock, values) = (self.clock, self.values.clone());
        let object = self.object.clone().map(|object| ("Object", object));
        let more: Vec<_> = [("Plan", self.plan.clone())].into_iter().chain(object).collect();
        let (secrets, learning) = (self.secrets.clone(), self.secrets.clone());
        let share = self.share.clone();
        let (limits, random) = (self.limits(), self.context.random.clone());
        let (identity, key) = (self.identity.clone(), self.key.clone());
        let facts = self.facts(request.revision);
        let job = move || {
            let _share = share;
            let render = |request: &mut RenderRequest| {
                crate::reconcile::panic_if_asked(&format!("{}/render", facts.name), || {
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
                let other = match &request.probe {
                    None => Some(renderer.render_with(&input)?),
                    Some(rendered) => renderer.probe(&input, rendered)?,
                };
                let rendered = other
                    .or_else(|| request.probe.take().map(|same| *same))
                    .unwrap_or_default();
                secret_values::learn_render(&learning, &ChartText::of(Some(renderer.chart())), &rendered);
                let namespaced = |group_kind: &GroupKind, version: &str| snapshot.namespaced(group_kind, version);
                let mut desired = desired::desired(manifests(rendered.objects.iter()), &identity, &namespaced, &key);
                let hooks = rendered.hooks.iter().map(|hook| &hook.manifest);
                let hooks = manifests(hooks.chain(&rendered.unknown_hooks));
                desired::add_hooks(&mut desired, hooks, &identity, &namespaced, &key);
                Ok((rendered, desired))
            };
            let rendered = helm_template::render::on_large_stack(|| redact::during(&secrets, || render(&mut request)));
            rendered.map_err(|error| Box::new((error, request)))
        };
        self.on_pool(job).await
    }

    fn assemble(
        &self,
        revision: i64,
        (rendered, mut desired): (Rendered, Desired),
        answers: &LookupAnswers,
    ) -> PreparedRelease {
        give_owners(self.unit, self.resource, &mut desired);
        self.secrets.publish(&self.identity.namespace);
        let hooks = desired.hooks.iter().map(|hook| &hook.member);
        for member in desired.members.iter().chain(hooks) {
            self.secrets.publish(&member.id.name);
            self.secrets.publish(&member.id.namespace);
            self.secrets.publish(&member.id.group_kind.kind);
        }
        let hooks_digest = hooks_digest(&desired, self.key);
        let version = |key: &LookupKey| answers.get(key).map(dependencies::version).unwrap_or_default();
        let now = |key: &LookupKey| self.earlier.and_then(|earlier| earlier.version_now(key));
        let used = &rendered.used_lookups;
        let (mut lookups, mut seen) = (Vec::with_capacity(used.len()), Vec::with_capacity(used.len()));
        for key in self.sources.keys().filter(|key| !used.contains(key)).chain(used) {
            let (text, version) = (lookup::describe(key), version(key));
            seen.push(format!("{text}@{}", now(key).as_ref().unwrap_or(&version)));
            lookups.push(format!("{text}@{version}"));
        }
        let asked = &rendered.capability_queries;
        let inputs = input_digest::digest(self.key, self.unit, self.resource, &self.snapshot, asked);
        PreparedRelease {
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
            inputs,
            since_settled: String::new(),
            lookups,
            seen,
            stay: Vec::new(),
            held: Vec::new(),
            capabilities: rendered.capability_queries,
            failed_groups: self.snapshot.failed.clone(),
            revision,
            rollback: None,
            values: Value::Null,
            values_digest: String::new(),
            generated_values: GeneratedValues::default(),
            size: rendered.size,
            _share: None,
        }
    }
}

/// Gives members and hooks the reference to their custom resource, where they may have one.
pub(super) fn give_owners(unit: &Unit, resource: &CustomResource, desired: &mut Desired) {
    // Without a UID, it is rendered for nobody.
    if !unit.watch.has_owner_references() || resource.uid.is_empty() {
        return;
    }
    let (reference, namespace) = (
        Arc::new(resource.owner_reference(&unit.resource)),
        &resource.key.namespace,
    );
    let has_hooks =
        desired.hooks.iter().any(Hook::is_of_deletion) || !plans::marked(&desired.hooks, ON_DELETE).is_empty();
    owner_references::refer(&mut desired.members, namespace, &reference, has_hooks);
    let is_ordered = has_hooks || desired.members.iter().any(|member| member.policy.wave != 0);
    for hook in &mut desired.hooks {
        owner_references::refer(
            std::slice::from_mut(&mut hook.member),
            namespace,
            &reference,
            is_ordered,
        );
    }
}

/// The digest of the hooks that operations run, and of plans that are part of an operation.
fn hooks_digest(desired: &Desired, key: &Key) -> String {
    let parts: Vec<String> = [ON_CREATE, ON_DELETE]
        .iter()
        .flat_map(|mark| plans::marked(&desired.hooks, mark))
        .collect();
    let runs = |hook: &&Hook| hook.is_of_an_operation() || hook.is_step_of(&parts);
    desired::digest(key, desired.hooks.iter().filter(runs).map(|hook| &hook.member))
}

impl PreparedRelease {
    /// True if it has results of chance, which are kept.
    pub fn is_random(&self) -> bool {
        self.generated_values.has_generated_values()
    }

    /// Has the render of an earlier revision, kept since, in the place of its own.
    pub(super) fn replace(&mut self, desired: Desired, notes: Option<String>, to: i64, revision: i64, key: &Key) {
        self.hooks_digest = hooks_digest(&desired, key);
        self.desired = desired;
        self.notes = notes;
        self.rollback = Some(to);
        self.revision = revision;
        self.stay.clear();
        self.held.clear();
    }
}

fn manifests<'m>(objects: impl Iterator<Item = &'m helm_template::render::Manifest>) -> Vec<Manifest> {
    let flat = objects.flat_map(|manifest| {
        manifest.objects().into_iter().map(|object| Manifest {
            object: object.clone(),
            source: manifest.source.clone(),
        })
    });
    flat.collect()
}

impl Renderer<'_> {
    /// True if the release's secret values are known, without which no log is shown. After a start that takes a render,
    /// which a deletion never makes.
    pub(crate) async fn knows_secrets(&self, release: &mut Release) -> bool {
        release.knows_secrets || !self.scope.written.deleting && Box::pin(self.prepare(release)).await.is_ok()
    }
}
