//! Values and chart become members. Renders run on threads of their own, never on the async workers, and answer
//! `lookup` in rounds: what a render missed is fetched, and it renders again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::context::{Context, RELEASE_FACTS, Unit, lock, mentions};
use super::custom_resource::CustomResource;
use super::release::Release;
use super::{Run, inputs, values};
use crate::cluster::discovery::Snapshot;
use crate::cluster::lookup;
use crate::plan::desired::{self, Desired, Identity, Rendered as Manifest};
use crate::plan::grants::{self, Baseline};
use crate::plan::identity::GroupKind;
use crate::plan::status::{Phase, Reason};
use crate::render::{Hook, Input, Limits, LookupKey, Lookups, Release as Facts, Rendered, Renderer};

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
    /// The revision that this render is.
    pub revision: i64,
}

/// What the facts of a release are before anything is rendered.
struct Frame {
    identity: Identity,
    values: Value,
    snapshot: Arc<Snapshot>,
    seed: [u8; 32],
}

impl Run<'_> {
    /// Steps 4 and 5: everything up to the first write.
    pub(super) async fn prepare(&self, release: &Release) -> Result<Prepared, Phase> {
        let prepared = prepare(self.context, self.unit, &self.written, release).await?;
        self.preflight(&prepared).await?;
        Ok(prepared)
    }
}

/// Renders the release of a custom resource. Reads what templates look up; writes nothing.
///
/// # Errors
/// The phase that the release is in when it can't be rendered.
pub async fn prepare(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    release: &Release,
) -> Result<Prepared, Phase> {
    let stalled = |reason, message| Phase::Stalled {
        reason,
        message,
        recheck: false,
    };
    let renderer = unit
        .renderer
        .clone()
        .map_err(|message| stalled(Reason::ChartInvalid, message))?;
    let invalid = |error: values::Error| stalled(Reason::ValuesInvalid, error.to_string());
    let frame = Frame {
        identity: Identity {
            owner: resource.owner(&unit.group_kind),
            operator: context.operator.clone(),
            namespace: values::release_namespace(unit, resource).map_err(invalid)?,
        },
        values: values::values(unit, resource.spec()).map_err(invalid)?,
        snapshot: context.discovery.snapshot(),
        seed: context.key.derive(&[b"random", resource.uid.as_bytes()]),
    };
    let recorded = release.record.revision;
    let mut lookups = BTreeMap::new();
    let rendered = rounds(
        context,
        unit,
        resource,
        &renderer,
        &frame,
        recorded.max(1),
        &mut lookups,
    )
    .await?;
    let mut prepared = assemble(
        context,
        unit,
        resource,
        frame.clone_for(recorded.max(1)),
        rendered,
        &lookups,
    );
    if recorded > 0 && differs(&prepared, release) {
        prepared.revision = recorded + 1;
        if unit.reads.release_facts || mentions(resource.spec_bytes(), RELEASE_FACTS) {
            let rendered = rounds(context, unit, resource, &renderer, &frame, recorded + 1, &mut lookups).await?;
            prepared = assemble(
                context,
                unit,
                resource,
                frame.clone_for(recorded + 1),
                rendered,
                &lookups,
            );
        }
    }
    Ok(prepared)
}

impl Frame {
    fn clone_for(&self, revision: i64) -> (Identity, Arc<Snapshot>, i64) {
        (self.identity.clone(), self.snapshot.clone(), revision)
    }
}

/// True if this render is not the one that was recorded: then it is an upgrade.
fn differs(prepared: &Prepared, release: &Release) -> bool {
    let entries = &release.record.entries;
    prepared.desired.members.len() != entries.len()
        || prepared.desired.members.iter().any(|member| {
            release
                .record
                .entry(&member.id)
                .is_none_or(|entry| entry.digest != member.digest)
        })
}

/// Renders until nothing is missing.
async fn rounds(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    renderer: &Arc<Renderer>,
    frame: &Frame,
    revision: i64,
    lookups: &mut BTreeMap<LookupKey, Value>,
) -> Result<Rendered, Phase> {
    for _ in 0..LOOKUP_ROUNDS {
        let table = Lookups::table(lookups.clone());
        let rendered = once(
            context,
            resource,
            renderer,
            frame,
            frame.values.clone(),
            revision,
            table,
        )
        .await?;
        if rendered.missing_lookups.is_empty() {
            return Ok(rendered);
        }
        for key in &rendered.missing_lookups {
            let (group_kind, version) = lookup::group_kind(key);
            if !resource.key.namespace.is_empty() {
                let namespaced = frame.snapshot.namespaced(&group_kind, &version).unwrap_or(true);
                let namespace = namespaced.then_some(key.namespace.as_str());
                grants::may_look_up(
                    &group_kind,
                    namespace,
                    &lookup::describe(key),
                    &frame.identity.namespace,
                    &unit.watch.lookups,
                )
                .map_err(|refused| Phase::Stalled {
                    reason: Reason::Refused,
                    message: refused.to_string(),
                    recheck: false,
                })?;
            }
            let answer = lookup::fetch(&context.discovery, &frame.snapshot, key)
                .await
                .map_err(|error| Phase::Failed {
                    reason: Reason::LookupFailed,
                    message: format!("lookup of {}: {error}", lookup::describe(key)),
                })?;
            lookups.insert(key.clone(), answer);
        }
    }
    Err(Phase::Stalled {
        reason: Reason::RenderFailed,
        message: format!("the chart still looks up new objects after {LOOKUP_ROUNDS} renders"),
        recheck: false,
    })
}

/// One render, on a thread of its own.
async fn once(
    context: &Context,
    resource: &CustomResource,
    renderer: &Arc<Renderer>,
    frame: &Frame,
    values: Value,
    revision: i64,
    lookups: Lookups,
) -> Result<Rendered, Phase> {
    let started = std::time::Instant::now();
    let failed = |reason, message| Phase::Stalled {
        reason,
        message,
        recheck: false,
    };
    let Ok(_permit) = context.renders.clone().acquire_owned().await else {
        return Err(Phase::Failed {
            reason: Reason::RenderFailed,
            message: "the operator is stopping".into(),
        });
    };
    let renderer = renderer.clone();
    let snapshot = frame.snapshot.clone();
    let facts = Facts {
        name: resource.key.name.clone(),
        namespace: frame.identity.namespace.clone(),
        revision,
        is_install: revision == 1,
        is_upgrade: revision > 1,
    };
    let (clock, seed) = (resource.created, frame.seed);
    let job = move || {
        let render = || {
            renderer.render(&Input {
                values,
                release: facts,
                capabilities: &snapshot.capabilities,
                lookups: &lookups,
                clock,
                kept: None,
                seed: Some(seed),
                limits: Limits::default(),
                include_crds: false,
                skip_schema: false,
            })
        };
        crate::render::on_large_stack(render)
    };
    let answer = tokio::task::spawn_blocking(job).await;
    context.metrics.render_duration.observe(started.elapsed().as_secs_f64());
    match answer {
        Ok(Ok(Ok(rendered))) => Ok(rendered),
        Ok(Ok(Err(error))) => {
            let reason = if error.is_about_values() {
                Reason::ValuesInvalid
            } else {
                Reason::RenderFailed
            };
            Err(failed(reason, error.to_string()))
        }
        Ok(Err(_)) | Err(_) => {
            context.metrics.panics.inc();
            Err(failed(
                Reason::Panicked,
                "the render stopped unexpectedly: this is a defect of chartwright; see its log".into(),
            ))
        }
    }
}

fn assemble(
    context: &Context,
    unit: &Unit,
    resource: &CustomResource,
    (identity, snapshot, revision): (Identity, Arc<Snapshot>, i64),
    rendered: Rendered,
    lookups: &BTreeMap<LookupKey, Value>,
) -> Prepared {
    let hooks = rendered.hooks.iter().map(describe_hook).collect();
    let used: Vec<String> = rendered.used_lookups.iter().map(lookup::describe).collect();
    let looked_up: String = rendered
        .used_lookups
        .iter()
        .filter_map(|key| Some(format!("{}={}\n", lookup::describe(key), lookups.get(key)?)))
        .collect();
    let inputs = inputs::digest(&context.key, unit, resource, &snapshot, looked_up.as_bytes());
    let namespaced = |group_kind: &GroupKind, version: &str| snapshot.namespaced(group_kind, version);
    let desired = desired::desired(manifests(rendered.objects), &identity, &namespaced, &context.key);
    Prepared {
        identity,
        desired,
        hooks,
        notes: rendered.notes,
        warnings: rendered.warnings,
        inputs,
        lookups: used,
        revision,
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

fn manifests(objects: Vec<crate::render::Manifest>) -> Vec<Manifest> {
    let flat = objects.into_iter().flat_map(|manifest| {
        let source = manifest.source.clone();
        let objects: Vec<Value> = manifest.objects().into_iter().cloned().collect();
        objects.into_iter().map(move |object| Manifest {
            object,
            source: source.clone(),
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
            let frame = Frame {
                identity,
                values: values.clone(),
                snapshot: snapshot.clone(),
                seed: [0; 32],
            };
            once(context, resource, renderer, &frame, values, 1, Lookups::none())
                .await
                .ok()
        }
        _ => None,
    };
    let mut kinds = BTreeSet::new();
    for manifest in rendered.map(|rendered| manifests(rendered.objects)).unwrap_or_default() {
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
