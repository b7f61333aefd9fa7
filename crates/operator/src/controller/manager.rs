//! The operator process: connects, leads, and runs every unit until it is stopped.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::leader::{self, CandidacyEnd, LeaderElection};
use super::reload::{self, Configuration, WatchDefaults, WatchesLoader};
use super::unit::Blueprint;
use super::units::Units;
use super::usage_meter;
use super::watches::{discovery, scopes};
use crate::admission::Admission;
use crate::cluster::connection::fence::Fence;
use crate::cluster::events::Events;
use crate::cluster::{self, Connection, Discovery};
use crate::reconcile::{Context, RenderResources, lease_kind};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::probes::ProcessHealth;
use chartwright_core::digest::Keyring;
use chartwright_core::identity::ObjectId;
use chartwright_watches::Watch;

/// The options of `chartwright run`.
pub struct ControllerOptions {
    /// The file that `watches` was read from. It is read again when it changes. `None`: it never changes.
    pub watches_file: Option<PathBuf>,
    pub watches: Vec<Watch>,
    pub defaults: WatchDefaults,
    /// `None`: all.
    pub namespaces: Option<BTreeSet<String>>,
    /// Selects the custom resources of this process, in the API server's notation. `None`: all.
    pub watch_labels: Option<String>,
    /// The operator's id in labels.
    pub operator: String,
    /// Where its own Secret and Lease are.
    pub own_namespace: String,
    /// `None`: no leader election.
    pub lease: Option<LeaseOptions>,
    /// The memory limit of the process in bytes; `None`: no limit.
    pub memory: Option<u64>,
    /// The period of usage metering; `None`: off.
    pub usage_period: Option<Duration>,
    /// How long running reconciles may take to end.
    pub shutdown_timeout: Duration,
    /// The webhook that previews changes. `None`: off.
    pub admission: Option<Arc<Admission>>,
}

/// Where replicas elect the one that works.
#[derive(Clone)]
pub struct LeaseOptions {
    pub name: String,
    pub namespace: String,
    /// For the election's own client.
    pub config: kube::Config,
}

/// The memory of the program without charts, in bytes.
const PROGRAM: u64 = 30 << 20;

/// How long connecting is retried: the API server or the pod's network may be starting.
const CONNECT_WAIT: Duration = Duration::from_secs(60);

/// The pause before the next attempt to read the operator's key.
const RIGHTS_WAIT: Duration = Duration::from_secs(5);

/// Runs the operator. Returns when `stop` is cancelled and everything has ended.
///
/// # Errors
/// If the API server does not answer, the operator's own Secret is unavailable, or leadership is lost.
pub async fn run(
    connection: impl Into<Connection>,
    options: ControllerOptions,
    metrics: Arc<Metrics>,
    health: ProcessHealth,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let loader = WatchesLoader::new(options.defaults.clone());
    let blueprints = loader.load(&options.watches, &[]);
    for blueprint in &blueprints {
        if let Err(error) = &blueprint.renderer {
            tracing::error!(kind = blueprint.watch.kind, %error, "its releases are Stalled until the chart is repaired");
        }
    }
    report_chart_sizes(&options, &blueprints, &metrics);
    let configuration = watch::Sender::new(Configuration {
        blueprints: Arc::new(blueprints),
        refused: None,
    });
    let configured = configuration.subscribe();
    // A replica that waits for leadership reads changes, too.
    let mut reloads = JoinSet::new();
    if let Some(file) = options.watches_file.clone() {
        reloads.spawn(reload::run(file, loader, configuration, metrics.clone()));
    }
    let render = RenderResources::new(options.memory);
    if let Some(admission) = &options.admission {
        admission.begin(configured.clone(), &render);
    }
    let work = Work {
        options,
        configured,
        render,
        metrics,
        health,
    };
    let Some(lease) = work.options.lease.clone() else {
        work.metrics.process.leader.set(1);
        return work.lead(cluster::with_time_limits(connection), stop).await;
    };
    let fence = Arc::new(Fence::default());
    let client = cluster::with_fence(connection, fence.clone());
    let of_election = work.metrics.clone();
    let candidate = move || {
        let client = cluster::with_time_limits(cluster::open(lease.config)?);
        let candidate = LeaderElection::new(client, lease.namespace, lease.name, of_election)?;
        Ok(LeaderElection { fence, ..candidate })
    };
    // A replica that waits for leadership is ready.
    work.health.set_ready();
    let lead = |token| work.lead(client, token);
    match leader::thread::run(candidate, stop, lead, end_process).await? {
        CandidacyEnd::NeverLed => Ok(()),
        CandidacyEnd::Finished(result) => result,
        CandidacyEnd::Lost(reason) => anyhow::bail!("leadership lost: {reason}"),
    }
}

/// Ends a process that does not end by itself. Another replica may lead already.
fn end_process(reason: &str) {
    tracing::error!("leadership lost, and the operator is too busy to stop: the process ends now: {reason}");
    std::process::exit(1);
}

/// Reports the memory of the charts, and warns if they and the program need more than half of the limit.
fn report_chart_sizes(options: &ControllerOptions, blueprints: &[Blueprint], metrics: &Metrics) {
    let limit = options.memory.unwrap_or_default();
    metrics
        .process
        .memory_limit
        .set(i64::try_from(limit).unwrap_or(i64::MAX));
    let mut charts: HashMap<&PathBuf, u64> = HashMap::new();
    for blueprint in blueprints {
        let Ok(renderer) = &blueprint.renderer else { continue };
        let watch = &blueprint.watch;
        metrics.charts.set_size(&watch.group, &watch.kind, renderer.size());
        charts.insert(&watch.chart, renderer.size());
    }
    let charts = charts.values().sum::<u64>();
    if options.memory.is_some_and(|limit| charts + PROGRAM > limit / 2) {
        tracing::warn!(
            limit,
            charts,
            "the charts and the operator itself need more than half of the memory limit, and renders have the other half; \
             give the operator at least {} MiB",
            (2 * (charts + PROGRAM)).div_ceil(1 << 20)
        );
    }
}

/// What the leader works with.
struct Work {
    options: ControllerOptions,
    configured: watch::Receiver<Configuration>,
    render: RenderResources,
    metrics: Arc<Metrics>,
    health: ProcessHealth,
}

impl Work {
    /// The work of the leader.
    async fn lead(self, client: kube::Client, stop: CancellationToken) -> anyhow::Result<()> {
        let Work {
            options,
            configured,
            render,
            metrics,
            health,
        } = self;
        health.set_waiting("the API server");
        let (discovery, keys) = tokio::select! {
            started = start(&client, &options, &health) => started?,
            () = stop.cancelled() => return Ok(()),
        };
        let events = Events::new(client.clone(), &options.operator, std::env::var("HOSTNAME").ok());
        let context = Context::new(
            client,
            discovery,
            events,
            metrics,
            keys,
            options.operator.clone(),
            options.own_namespace.clone(),
        );
        let context = context
            .within(options.namespaces.clone(), options.watch_labels.clone())
            .rendering_with(render)
            .owning(own_objects(&options));
        let context = Arc::new(context);
        health.set_waiting("the first lists");

        // The watches outlive the units: ending reconciles still use them.
        let ended = CancellationToken::new();
        let mut services = JoinSet::new();
        services.spawn(discovery::run(context.clone(), ended.clone()));
        services.spawn(scopes::run(context.clone(), ended.clone()));
        if let Some(period) = options.usage_period {
            services.spawn(usage_meter::run(context.clone(), period, ended.clone()));
        }

        let mut units = Units::new(context.clone(), health, options.shutdown_timeout);
        run_units(&mut units, &options, configured, &stop).await;
        tracing::info!(
            "stopping: no new work; what runs may take {:?} to end",
            options.shutdown_timeout
        );
        drain(units.into_tasks(), options.shutdown_timeout, &context.events).await;
        ended.cancel();
        services.shutdown().await;
        tracing::info!("stopped");
        Ok(())
    }
}

/// The Lease of the leader, and what the admission webhook owns.
fn own_objects(options: &ControllerOptions) -> Vec<ObjectId> {
    let lease = options.lease.as_ref();
    let lease = lease.map(|lease| ObjectId::new(lease_kind(), lease.namespace.clone(), lease.name.clone()));
    let admission = options.admission.iter();
    let admission = admission.flat_map(|admission| admission.own_objects(&options.own_namespace));
    lease.into_iter().chain(admission).collect()
}

/// Runs the units of the present configuration until `stop`.
async fn run_units(
    units: &mut Units,
    options: &ControllerOptions,
    mut configured: watch::Receiver<Configuration>,
    stop: &CancellationToken,
) {
    let context = units.context.clone();
    // The sizes of the first charts are reported before the process leads.
    let mut is_new = configured.has_changed().unwrap_or_default();
    loop {
        let Configuration { blueprints, refused } = configured.borrow_and_update().clone();
        if let Some(error) = refused {
            report_refusal(&context, options.lease.as_ref(), &error).await;
        } else if is_new {
            report_chart_sizes(options, &blueprints, &context.metrics);
        }
        // Also after a refusal: a replica that has just become the leader starts with the former configuration.
        units.update(&blueprints, stop).await;
        tokio::select! {
            () = stop.cancelled() => return,
            changed = configured.changed() => if changed.is_err() {
                return stop.cancelled().await;
            },
        }
        is_new = true;
    }
}

/// Writes an Event on the leader's Lease.
async fn report_refusal(context: &Context, lease: Option<&LeaseOptions>, error: &str) {
    let Some(lease) = lease else { return };
    let about = ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        name: Some(lease.name.clone()),
        namespace: Some(lease.namespace.clone()),
        ..ObjectReference::default()
    };
    let note = format!("the new watches.yaml or a new chart is refused: {error}");
    context.events.warning(&about, "ReloadRefused", "Reload", &note).await;
}

/// What the leader needs before anything else.
async fn start(
    client: &kube::Client,
    options: &ControllerOptions,
    health: &ProcessHealth,
) -> anyhow::Result<(Discovery, Keyring)> {
    let ControllerOptions {
        own_namespace,
        operator,
        ..
    } = options;
    let discovery = retrying("the API server's discovery", || Discovery::new(client.clone())).await?;
    let secret = format!(
        "Secret {own_namespace}/{}",
        cluster::storage::keys::secret_name(operator)
    );
    let mut said = String::new();
    loop {
        let keys = retrying("the operator's Secret", || {
            cluster::storage::keys::load_or_create(client.clone(), own_namespace, operator)
        });
        let error = match keys.await {
            Ok(keys) => return Ok((discovery, keys)),
            Err(error) if !is_refused(&error) => return Err(error.context(secret)),
            Err(error) => format!("{error:#}"),
        };
        // Without a key that stays, stored hooks could not be distinguished from forged ones, and each start would apply everything.
        health.set_waiting("the rights to its key, which the log names");
        if error != said {
            tracing::error!(
                error,
                "no release is worked on before the operator may `get` {secret} and `create` secrets in its own namespace, for \
                 the key of its digests and signatures: `chartwright generate rbac --own` writes the role"
            );
            said = error;
        }
        tokio::time::sleep(RIGHTS_WAIT).await;
    }
}

fn is_refused(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(cluster::Error::Forbidden(_) | cluster::Error::Unauthorized(_))
    )
}

/// Waits until the units have ended and their Events are written, within so long.
async fn drain(mut units: JoinSet<()>, timeout: Duration, events: &Events) {
    let deadline = tokio::time::Instant::now() + timeout;
    let ended = async { while units.join_next().await.is_some() {} };
    if tokio::time::timeout_at(deadline, ended).await.is_err() {
        tracing::warn!("reconciles were cut off; the next start takes them up again");
        units.shutdown().await;
    } else if tokio::time::timeout_at(deadline, events.flush()).await.is_err() {
        tracing::warn!("Events of what was done last are lost; status and log say the same");
    }
}

/// Retries transient errors for [`CONNECT_WAIT`]. Refusals are not retried.
async fn retrying<T, Fut>(what: &str, mut ask: impl FnMut() -> Fut) -> anyhow::Result<T>
where
    Fut: Future<Output = cluster::Result<T>>,
{
    let deadline = tokio::time::Instant::now() + CONNECT_WAIT;
    let mut pause = Duration::from_millis(250);
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_transient() && tokio::time::Instant::now() + pause < deadline => {
                tracing::warn!(%error, "{what} could not be read; trying again");
                tokio::time::sleep(pause.max(error.retry_after().unwrap_or_default())).await;
                pause = (pause * 2).min(Duration::from_secs(5));
            }
            Err(error) => return Err(error).with_context(|| format!("{what} could not be read")),
        }
    }
}
