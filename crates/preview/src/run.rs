//! Reconciles a release on an overlay of the cluster until nothing changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chartwright_core::crds::live::{InstalledCrds, LiveCrd};
use chartwright_core::diff::ReleaseDiff;
use chartwright_core::digest::Keyring;
use chartwright_core::hooks::stand_in;
use chartwright_core::identity::GroupKind;
use chartwright_core::operation::{Operation, OperationPhase};
use chartwright_operator::cluster::Discovery;
use chartwright_operator::cluster::discovery::Resource;
use chartwright_operator::cluster::error::Error;
use chartwright_operator::cluster::events::Events;
use chartwright_operator::cluster::objects;
use chartwright_operator::controller::{apply_chart_crds, chart_crd_names};
use chartwright_operator::reconcile::{Context, CustomResource, Release, RenderResources, Unit, load, reconcile};
use chartwright_operator::telemetry::metrics::{Metrics, ReconcileResult};
use fake_apiserver::{ServedKind, fields};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::Client;
use kube::api::DynamicObject;
use serde_json::Value;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use crate::announce::{DiffBuilder, PreviewEnd};
use crate::events::EventSink;
use crate::index::MemberFeed;
use crate::overlay::{ClusterOverlay, ObjectRole};

/// The most reconciles of a preview. Each run of a hook and each wave needs one.
const MAX_RECONCILES: usize = 500;

/// Definitions that are read concurrently.
const AT_ONCE: usize = 8;

/// The cluster and the operator whose next reconcile is previewed.
#[derive(Clone)]
pub struct PreviewCluster {
    pub client: Client,
    pub discovery: Discovery,
    /// The operator's keys. Without them no record and no stored result is genuine.
    pub keys: Keyring,
    /// The operator's name.
    pub operator: String,
    /// The operator's own namespace.
    pub own_namespace: String,
    /// What renders share with other work of the process. `None`: no limit.
    pub render: Option<RenderResources>,
    /// A user waits for the preview: dry runs of members are sent for this long, and further members count as the chart renders them. The
    /// definitions of the chart's `crds/` folder are left out, and so are the hooks after the last member. `None`: the preview is complete.
    pub quick: Option<Duration>,
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    #[error("the custom resource can't be read: {0}")]
    Unreadable(String),
    #[error(
        "{kind} can't be read: {error}; a preview needs the right to get and list the kinds of the release's members"
    )]
    Unlisted { kind: GroupKind, error: Error },
    #[error(
        "the namespaces of the release's members are not known: a preview needs the right to list their kinds in all namespaces"
    )]
    Unseen,
    #[error("the release still changes after {MAX_RECONCILES} reconciles")]
    Endless,
}

/// Returns what the next reconciles of a release would do. `live`: the custom resource as it is, `None` if it does not exist. `resource`:
/// the same as it is, or as an edit would leave it. Sends reads and dry runs only.
///
/// # Errors
/// What keeps a preview from being made. A release that the operator would refuse is no error: its refusals are part of the result.
pub async fn preview(
    cluster: &PreviewCluster,
    unit: &Arc<Unit>,
    live: Option<&Value>,
    resource: Value,
) -> Result<ReleaseDiff, PreviewError> {
    let previewed = async {
        let mut run = PreviewRun::begin(cluster, unit, resource)?;
        if cluster.quick.is_none() {
            run.apply_definitions().await?;
        }
        if let Some(live) = live {
            let live = read(unit, live.clone())?;
            load(&run.context, unit, &live, &mut run.release).await;
        }
        let result = run.converge().await?;
        Ok(run.announce(result))
    };
    // An operator's logs and traces are about what it does.
    previewed.with_subscriber(NoSubscriber::default()).await
}

struct PreviewRun<'a> {
    unit: &'a Arc<Unit>,
    context: Context,
    overlay: ClusterOverlay,
    events: EventSink,
    feed: MemberFeed,
    release: Release,
    /// The custom resource before the first reconcile.
    before: Value,
    /// A user waits for the preview.
    is_quick: bool,
}

impl<'a> PreviewRun<'a> {
    fn begin(cluster: &PreviewCluster, unit: &'a Arc<Unit>, object: Value) -> Result<Self, PreviewError> {
        let api = &unit.resource.api;
        let kind = ServedKind::defined(
            &api.group,
            &api.version,
            &api.kind,
            &api.plural,
            unit.resource.namespaced,
        );
        let checked_until = cluster.quick.map(|time| Instant::now() + time);
        let overlay = ClusterOverlay::new(cluster.client.clone(), &kind, object.clone(), checked_until);
        let events = EventSink::default();
        let namespace = cluster.own_namespace.as_str();
        let client = overlay.client(namespace);
        let mut context = Context::new(
            client.clone(),
            cluster.discovery.fork(client),
            Events::new(events.client(namespace), &cluster.operator, None),
            Arc::new(Metrics::new()),
            cluster.keys.clone(),
            cluster.operator.clone(),
            cluster.own_namespace.clone(),
        );
        let render = cluster.render.clone().unwrap_or_else(|| RenderResources::new(None));
        context = context.rendering_with(render.for_preview());
        // What would be pruned after the lookup hold is shown as pruned.
        context.settings.lookup_hold = Duration::ZERO;
        let resource = read(unit, object.clone())?;
        Ok(PreviewRun {
            unit,
            context,
            overlay,
            events,
            feed: MemberFeed::new(resource.applyset_id(&unit.group_kind)),
            release: Release::default(),
            before: object,
            is_quick: cluster.quick.is_some(),
        })
    }

    /// Writes the chart's CustomResourceDefinitions into the overlay, as the watch of the release does before its releases.
    async fn apply_definitions(&self) -> Result<(), PreviewError> {
        let Ok(engine) = &self.unit.renderer else { return Ok(()) };
        let names = chart_crd_names(&self.unit.watch, engine.chart());
        if names.is_empty() {
            return Ok(());
        }
        let kind = GroupKind::new("apiextensions.k8s.io", "CustomResourceDefinition");
        let snapshot = self.context.discovery.snapshot();
        let Some(resource) = snapshot.preferred(&kind) else {
            return Ok(());
        };
        let client = &self.context.client;
        let reads = names.into_iter().map(|name| async move {
            let found = objects::metadata(client, resource, "", &name).await?;
            Ok(found.map(|metadata| (name, Arc::new(LiveCrd::new(&metadata)))))
        });
        let found: Vec<_> = futures::stream::iter(reads)
            .buffered(AT_ONCE)
            .try_collect()
            .await
            .map_err(|error| PreviewError::Unlisted {
                kind: kind.clone(),
                error,
            })?;
        let installed = InstalledCrds {
            by_name: found.into_iter().flatten().collect(),
            is_watched: true,
        };
        let problems = apply_chart_crds(&self.context, &self.unit.watch, engine, installed).await;
        for problem in problems {
            self.events.warn("CrdNotReplaced", &problem);
        }
        self.serve_new_kinds();
        Ok(())
    }

    /// Reconciles until neither the operator nor a controller changes anything. What the release looked up is not watched, so that it is
    /// read again.
    async fn converge(&mut self) -> Result<Option<ReconcileResult>, PreviewError> {
        let mut result = None;
        let first = self.release.operation().cloned();
        for _ in 0..MAX_RECONCILES {
            let began = self.overlay.fake().store().changes.len();
            let Some(object) = self.overlay.custom_resource() else {
                // It was deleted with its release.
                return Ok(result);
            };
            let resource = read(self.unit, Value::clone(&object))?;
            self.context.register_owner(self.unit, &resource, || ());
            let outcome = reconcile(&self.context, self.unit, &resource, &mut self.release).await;
            result = Some(outcome.result);
            let is_listed = self.list_wanted(&resource).await?;
            self.run_controllers();
            self.serve_new_kinds();
            let is_notified = self.feed.show_written(&self.context, &self.overlay);
            if self.release.is_waiting() {
                if is_listed {
                    continue;
                }
                return Err(PreviewError::Unseen);
            }
            let is_unchanged = !is_notified && !self.has_written(began);
            if is_unchanged || self.is_quick && self.has_only_hooks_left(first.as_ref(), outcome.result) {
                return Ok(result);
            }
        }
        Err(PreviewError::Endless)
    }

    /// True if every member is applied and pruned. What follows are hooks, which succeed in a preview. `first`: the operation before the
    /// edit.
    fn has_only_hooks_left(&self, first: Option<&Operation>, result: ReconcileResult) -> bool {
        let operation = self.release.operation().filter(|operation| Some(*operation) != first);
        let runs_hooks = operation.is_some_and(|operation| operation.phase == OperationPhase::PostHooks);
        runs_hooks || result == ReconcileResult::Success
    }

    /// True if something was written after which the operator may have more to do. Its status changes with each attempt.
    fn has_written(&self, began: usize) -> bool {
        let own = self.overlay.custom_resource_key();
        let store = self.overlay.fake().store();
        let changes = store.changes.get(began..).unwrap_or_default();
        changes.iter().any(|change| Some(&change.key) != own.as_ref())
    }

    async fn list_wanted(&mut self, resource: &CustomResource) -> Result<bool, PreviewError> {
        let listed = self.feed.list_wanted(&self.context, &self.overlay, resource).await;
        listed.map_err(|(kind, error)| PreviewError::Unlisted { kind, error })
    }

    /// The hooks of this run succeed.
    fn run_controllers(&self) {
        let places = {
            let journal = self.overlay.journal();
            let hooks = journal
                .objects
                .iter()
                .filter(|(_, touched)| touched.role == ObjectRole::Hook && touched.is_written);
            hooks.map(|(place, _)| place.clone()).collect::<Vec<_>>()
        };
        let manager = ("controllers".to_owned(), "Update".to_owned(), String::new());
        for place in places {
            let Some(object) = self.overlay.object(&place) else {
                continue;
            };
            let Some(changed) = stand_in::completed(&object) else {
                continue;
            };
            let Some(key) = self.overlay.journal().key(&place) else {
                continue;
            };
            let mut store = self.overlay.fake().store();
            if let Some(kind) = store.kind_by_key(key.0) {
                let changed = fields::update(&object, &changed, &manager, &store.now());
                store.put(&kind, key, changed);
            }
        }
    }

    /// Serves the kinds of CustomResourceDefinitions that this run has created.
    fn serve_new_kinds(&self) {
        let places: Vec<_> = {
            let journal = self.overlay.journal();
            let definitions = journal.objects.iter().filter(|(place, touched)| {
                place.is("apiextensions.k8s.io", "customresourcedefinitions") && touched.live.is_none()
            });
            definitions.map(|(place, _)| place.clone()).collect()
        };
        for definition in places.iter().filter_map(|place| self.overlay.object(place)) {
            for resource in resources_of(&definition) {
                self.context.discovery.add_kind(resource);
            }
        }
    }

    fn announce(&self, result: Option<ReconcileResult>) -> ReleaseDiff {
        let after = self.overlay.custom_resource();
        let ended = PreviewEnd {
            is_refused: matches!(
                result,
                Some(ReconcileResult::Stalled | ReconcileResult::Error | ReconcileResult::Panic)
            ),
            is_stalled: result == Some(ReconcileResult::Stalled),
            status: after.map(|object| object["status"].clone()).unwrap_or_default(),
            warnings: self.events.warnings(),
        };
        DiffBuilder {
            unit: self.unit,
            overlay: &self.overlay,
            secrets: &self.release.secrets,
            before: &self.before,
        }
        .announce(&ended)
    }
}

fn read(unit: &Unit, object: Value) -> Result<CustomResource, PreviewError> {
    let object: DynamicObject =
        serde_json::from_value(object).map_err(|error| PreviewError::Unreadable(error.to_string()))?;
    Ok(unit.take_in(object))
}

/// The kinds that a CustomResourceDefinition serves.
fn resources_of(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group_kind = GroupKind::new(text(&spec["group"]), text(&spec["names"]["kind"]));
    let versions = spec["versions"].as_array().into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    let resource = |version: &Value| {
        let mut resource = Resource::offline(&group_kind, &text(&version["name"]), spec["scope"] != "Cluster");
        resource.api.plural = text(&spec["names"]["plural"]);
        resource
    };
    served.map(resource).collect()
}
