//! Values and chart become members. Renders run on threads of their own, never on the async workers, and answer
//! `lookup` in rounds: what a render missed is fetched, and it renders again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::context::{Context, RELEASE_FACTS, Unit, lock, mentions};
use super::custom_resource::CustomResource;
use super::kept::Memory;
use super::release::Release;
use super::{Run, inputs, secrets, values};
use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Error;
use crate::cluster::{lookup, objects};
use crate::plan::desired::{self, Desired, Identity, Member, Rendered as Manifest};
use crate::plan::grants::{self, Baseline};
use crate::plan::identity::{GroupKind, ObjectId};
use crate::plan::lookups;
use crate::plan::record::Entry;
use crate::plan::status::{Phase, Reason};
use crate::render::{
    Error as RenderError, Hook, Input, Kept, LookupKey, Lookups, Randomness, Release as Facts, Rendered, Renderer,
};
use crate::telemetry::redact::Secrets;

/// A chart whose lookups depend on each other may need several rounds; one that never ends is an error.
const LOOKUP_ROUNDS: usize = 16;

/// A release, rendered and checked, ready to be applied.
pub struct Prepared {
    pub identity: Identity,
    pub desired: Desired,
    /// Hooks that were rendered and are not run.
    pub hooks: Vec<String>,
    pub notes: Option<String>,
    pub warnings: Vec<String>,
    /// Digest of what this render depended on.
    pub inputs: String,
    pub lookups: Vec<String>,
    /// API groups that discovery could not read before this render.
    pub(super) failed_groups: Vec<String>,
    /// The revision that this render is.
    pub revision: i64,
    /// Random results: what is stored, and what is to be.
    pub(super) memory: Memory,
}

/// What the facts of a release are before anything is rendered.
pub(super) struct Frame {
    pub identity: Identity,
    pub values: Value,
    pub snapshot: Arc<Snapshot>,
    /// What `now` answers.
    pub clock: jiff::Timestamp,
}

/// All that the renders of one reconcile have in common.
pub(super) struct Work<'a> {
    pub context: &'a Context,
    pub unit: &'a Unit,
    pub resource: &'a CustomResource,
    pub renderer: &'a Arc<Renderer>,
    pub frame: Frame,
    /// Learns what the renders show to be secret.
    pub secrets: Arc<Secrets>,
}

/// One of these renders.
#[derive(Clone)]
pub(super) struct Request {
    pub values: Value,
    pub revision: i64,
    pub lookups: Lookups,
    /// `None`: random results are of no interest.
    pub kept: Option<Kept>,
    /// Not the render itself, but what chance would make of it another time.
    pub probe: Option<Box<Rendered>>,
}

/// What came of it.
pub(super) enum Made {
    Rendered(Box<Rendered>),
    /// It failed, perhaps only because these lookups had no answer yet.
    Needs(Vec<LookupKey>),
}

/// What was looked up so far, and what was found.
pub type Answers = BTreeMap<LookupKey, Value>;

impl Run<'_> {
    /// Steps 4 and 5: everything up to the first write.
    pub(super) async fn prepare(&self, release: &mut Release) -> Result<Prepared, Phase> {
        let mut answers = Answers::new();
        let prepared = prepare(self.context, self.unit, &self.written, release, &mut answers).await;
        // Also of what could not be rendered: what it asked for may come.
        let set = self.written.set(&self.unit.group_kind);
        self.context.follow_lookups(&set, answers.keys());
        if prepared.is_err() {
            self.learn_recorded(release).await?;
        }
        let prepared = prepared?;
        release.knows_secrets = true;
        self.preflight(&prepared).await?;
        Ok(prepared)
    }

    /// What the Secrets among the members hold is known from a render. After a start there was none, and the error of
    /// one that fails may quote it all the same: then it is read.
    async fn learn_recorded(&self, release: &mut Release) -> Result<(), Phase> {
        let snapshot = self.context.discovery.snapshot();
        let secret = GroupKind::new("", "Secret");
        let Some(resource) = snapshot.preferred(&secret).filter(|_| !release.knows_secrets) else {
            return Ok(());
        };
        for entry in release
            .record
            .entries
            .iter()
            .filter(|entry| entry.id.group_kind == secret)
        {
            let found = objects::read(&self.context.discovery, resource, &entry.id).await;
            if let Some((_, object)) = found.map_err(|error| unread(&entry.id, &error))? {
                secrets::learn_object(&release.secrets, &object);
            }
        }
        release.knows_secrets = true;
        Ok(())
    }
}

/// Renders the release of a custom resource. Reads what templates look up, and leaves the answers; writes nothing.
///
/// # Errors
/// The phase that the release is in when it can't be rendered.
pub async fn prepare(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &Release,
    answers: &mut Answers,
) -> Result<Prepared, Phase> {
    let renderer = unit
        .renderer
        .as_ref()
        .map_err(|message| stalled(Reason::ChartInvalid, message.clone()))?;
    let invalid = |error: values::Error| stalled(Reason::ValuesInvalid, error.to_string());
    let work = Work {
        context,
        unit,
        resource,
        renderer,
        frame: Frame {
            identity: Identity {
                owner: resource.owner(&unit.group_kind),
                operator: context.operator.clone(),
                namespace: values::release_namespace(unit, resource).map_err(invalid)?,
            },
            values: values::values(unit, resource.spec()).map_err(invalid)?,
            snapshot: context.discovery.snapshot(),
            clock: jiff::Timestamp::now(),
        },
        secrets: release.secrets.clone(),
    };
    secrets::publish_names(&work.secrets, resource, &unit.group_kind);
    let recorded = release.record.revision;
    let mut memory = Memory::read(context, resource, release).await?;
    let settled = work.settled(recorded.max(1), &mut memory, answers).await?;
    let mut prepared = work.assemble(recorded.max(1), settled, answers);
    if recorded > 0 && differs(&prepared, release) {
        prepared.revision = recorded + 1;
        if unit.reads.release_facts || mentions(resource.spec_bytes(), RELEASE_FACTS) {
            let settled = work.settled(recorded + 1, &mut memory, answers).await?;
            prepared = work.assemble(recorded + 1, settled, answers);
        }
    }
    prepared.memory = memory;
    // Not for one that failed, which may tell of what it did not come to render.
    work.secrets.turn();
    Ok(prepared)
}

fn unread(id: &ObjectId, error: &Error) -> Phase {
    Phase::Failed {
        reason: Reason::RenderFailed,
        message: format!(
            "the chart can't be rendered; why is not told before it is known what is secret in that: {id}: {error}"
        ),
    }
}

fn stalled(reason: Reason, message: String) -> Phase {
    Phase::Stalled {
        reason,
        message,
        recheck: false,
    }
}

/// True if this render is not the one that was recorded: then it is an upgrade.
fn differs(prepared: &Prepared, release: &Release) -> bool {
    let entries = &release.record.entries;
    if release.partial {
        let known = |entry: &&Entry| !entry.digest.is_empty();
        let digest = |member: &Member| {
            release
                .record
                .entry(&member.id)
                .filter(known)
                .map(|entry| &entry.digest)
        };
        let mut members = prepared.desired.members.iter();
        return members.any(|member| digest(member).is_some_and(|digest| *digest != member.digest));
    }
    prepared.desired.members.len() != entries.len()
        || prepared.desired.members.iter().any(|member| {
            release
                .record
                .entry(&member.id)
                .is_none_or(|entry| entry.digest != member.digest)
        })
}

// === impl Work ===

impl Work<'_> {
    /// Renders until no lookup is missing.
    pub(super) async fn rounds(&self, revision: i64, kept: &Kept, answers: &mut Answers) -> Result<Rendered, Phase> {
        let mut kept = kept.clone();
        let mut first: Option<Randomness> = None;
        for _ in 0..LOOKUP_ROUNDS {
            let request = Request {
                values: self.frame.values.clone(),
                revision,
                lookups: Lookups::table(answers.clone()),
                kept: Some(kept.clone()),
                probe: None,
            };
            let mut rendered = match self.once(request).await? {
                Made::Rendered(rendered) => *rendered,
                Made::Needs(missing) => {
                    self.answer(&missing, answers).await?;
                    continue;
                }
            };
            if let Some(first) = &first {
                // What an earlier round drew came back as kept; it is new all the same.
                rendered.randomness.include(first);
            }
            if rendered.missing_lookups.is_empty() {
                return Ok(rendered);
            }
            self.answer(&rendered.missing_lookups, answers).await?;
            kept = rendered.randomness.kept.clone();
            first = Some(rendered.randomness);
        }
        Err(stalled(
            Reason::RenderFailed,
            format!("the chart still looks up new objects after {LOOKUP_ROUNDS} renders"),
        ))
    }

    async fn answer(&self, missing: &[LookupKey], answers: &mut Answers) -> Result<(), Phase> {
        for key in missing {
            let answer = self.look_up(key).await?;
            secrets::learn_object(&self.secrets, &answer);
            answers.insert(key.clone(), answer);
        }
        Ok(())
    }

    /// What stands in the cluster, if the release may know.
    async fn look_up(&self, key: &LookupKey) -> Result<Value, Phase> {
        let (group_kind, version) = lookup::group_kind(key);
        let snapshot = &self.frame.snapshot;
        if !self.resource.key.namespace.is_empty() {
            let namespaced = snapshot.namespaced(&group_kind, &version).unwrap_or(true);
            let namespace = namespaced.then_some(key.namespace.as_str());
            grants::may_look_up(
                &group_kind,
                namespace,
                &lookup::describe(key),
                &self.frame.identity.namespace,
                &self.unit.watch.lookups,
            )
            .map_err(|refused| stalled(Reason::Refused, refused.to_string()))?;
        }
        lookup::fetch(&self.context.discovery, snapshot, key)
            .await
            .map_err(|error| Phase::Failed {
                reason: Reason::LookupFailed,
                message: format!("lookup of {}: {error}", lookup::describe(key)),
            })
    }

    /// One render, on a thread of its own.
    pub(super) async fn once(&self, request: Request) -> Result<Made, Phase> {
        let started = std::time::Instant::now();
        let context = self.context;
        let Ok(_permit) = context.renders.clone().acquire_owned().await else {
            return Err(Phase::Failed {
                reason: Reason::RenderFailed,
                message: "the operator is stopping".into(),
            });
        };
        let renderer = self.renderer.clone();
        let snapshot = self.frame.snapshot.clone();
        let clock = self.frame.clock;
        let secrets = self.secrets.clone();
        let facts = Facts {
            name: self.resource.key.name.clone(),
            namespace: self.frame.identity.namespace.clone(),
            revision: request.revision,
            is_install: request.revision == 1,
            is_upgrade: request.revision > 1,
        };
        let job = move || {
            let render = || {
                let _entered = secrets.enter();
                super::panic_if_asked(&format!("{}/render", facts.name), || {
                    serde_json::to_string(&request.kept).unwrap_or_default()
                });
                let input = Input {
                    values: request.values,
                    clock,
                    kept: request.kept.as_ref(),
                    ..Input::new(facts, &snapshot.capabilities, &request.lookups)
                };
                match request.probe {
                    None => renderer.render(&input),
                    Some(rendered) => Ok(renderer.probe(&input, &rendered)?.unwrap_or(*rendered)),
                }
            };
            crate::render::on_large_stack(render)
        };
        let answer = tokio::task::spawn_blocking(job).await;
        context.metrics.render_duration.observe(started.elapsed().as_secs_f64());
        match answer {
            Ok(Ok(Ok(rendered))) => {
                secrets::learn_render(&self.secrets, &rendered);
                Ok(Made::Rendered(Box::new(rendered)))
            }
            Ok(Ok(Err(RenderError::Unanswered { missing, .. }))) => Ok(Made::Needs(missing)),
            Ok(Ok(Err(error))) => {
                let reason = if error.is_about_values() {
                    Reason::ValuesInvalid
                } else {
                    Reason::RenderFailed
                };
                Err(stalled(reason, error.to_string()))
            }
            Ok(Err(_)) | Err(_) => {
                context.metrics.panics.inc();
                Err(stalled(
                    Reason::Panicked,
                    "the render stopped unexpectedly: this is a defect of chartwright; see its log".into(),
                ))
            }
        }
    }

    /// What a render wants to be there.
    pub(super) fn desired(&self, objects: &[crate::render::Manifest]) -> Desired {
        let snapshot = &self.frame.snapshot;
        let namespaced = |group_kind: &GroupKind, version: &str| snapshot.namespaced(group_kind, version);
        desired::desired(manifests(objects), &self.frame.identity, &namespaced, &self.context.key)
    }

    fn assemble(&self, revision: i64, (rendered, desired): (Rendered, Desired), answers: &Answers) -> Prepared {
        self.secrets.publish(&self.frame.identity.namespace);
        for member in &desired.members {
            self.secrets.publish(&member.id.name);
            self.secrets.publish(&member.id.namespace);
        }
        let hooks = rendered.hooks.iter().map(describe_hook).collect();
        let version = |key: &LookupKey| answers.get(key).map(lookups::version).unwrap_or_default();
        let used = rendered
            .used_lookups
            .iter()
            .map(|key| format!("{}@{}", lookup::describe(key), version(key)));
        let inputs = inputs::digest(&self.context.key, self.unit, self.resource, &self.frame.snapshot);
        Prepared {
            identity: self.frame.identity.clone(),
            desired,
            hooks,
            notes: rendered.notes,
            warnings: rendered.warnings.iter().map(ToString::to_string).collect(),
            inputs,
            lookups: used.collect(),
            failed_groups: self.frame.snapshot.failed.clone(),
            revision,
            memory: Memory::default(),
        }
    }
}

/// A hook as the status lists it: what it is, when it would run, and where it comes from.
fn describe_hook(hook: &Hook) -> String {
    let name = hook.manifest.object().pointer("/metadata/name");
    let name = name.and_then(Value::as_str).unwrap_or("?");
    let events: Vec<String> = hook.events.iter().map(|event| event.name().to_owned()).collect();
    format!(
        "{} {name} ({}; {})",
        hook.manifest.kind(),
        events.join(","),
        hook.manifest.source
    )
}

fn manifests(objects: &[crate::render::Manifest]) -> Vec<Manifest> {
    let flat = objects.iter().flat_map(|manifest| {
        manifest.objects().into_iter().map(|object| Manifest {
            object: object.clone(),
            source: manifest.source.clone(),
        })
    });
    flat.collect()
}

/// What the chart renders with nobody's values but the operator's. A chart that needs values to render has no baseline.
pub(super) async fn baseline(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    namespace: &str,
) -> Arc<Baseline> {
    let snapshot = context.discovery.snapshot();
    let cache_key = (namespace.to_owned(), snapshot.digest.clone());
    if let Some(known) = lock(&unit.baselines).get(&cache_key) {
        return known.clone();
    }
    let rendered = match (&unit.renderer, values::values(unit, Value::Object(Default::default()))) {
        (Ok(renderer), Ok(values)) => {
            let identity = Identity {
                owner: resource.owner(&unit.group_kind),
                operator: context.operator.clone(),
                namespace: namespace.to_owned(),
            };
            let work = Work {
                context,
                unit,
                resource,
                renderer,
                frame: Frame {
                    identity,
                    values: Value::Null,
                    snapshot: snapshot.clone(),
                    clock: resource.created,
                },
                secrets: Arc::default(),
            };
            let request = Request {
                values,
                revision: 1,
                lookups: Lookups::none(),
                kept: None,
                probe: None,
            };
            match work.once(request).await {
                Ok(Made::Rendered(rendered)) => Some(*rendered),
                _ => None,
            }
        }
        _ => None,
    };
    let mut kinds = BTreeSet::new();
    for manifest in rendered
        .map(|rendered| manifests(&rendered.objects))
        .unwrap_or_default()
    {
        let Some((group_kind, version)) = GroupKind::of(&manifest.object) else {
            continue;
        };
        let namespaced = snapshot.namespaced(&group_kind, &version).unwrap_or(true);
        let own = manifest
            .object
            .pointer("/metadata/namespace")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let reach = match (namespaced, own) {
            (false, _) => grants::Reach::Cluster,
            (true, own) if own.is_empty() || own == namespace => grants::Reach::Own,
            (true, other) => grants::Reach::Other(other.to_owned()),
        };
        kinds.insert((group_kind, reach));
    }
    let baseline = Arc::new(Baseline(kinds));
    let mut cache = lock(&unit.baselines);
    // One entry a namespace; a change of the capabilities makes the old ones useless.
    cache.retain(|(_, digest), _| *digest == cache_key.1);
    cache.insert(cache_key, baseline.clone());
    baseline
}
