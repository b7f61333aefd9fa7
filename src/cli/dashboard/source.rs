//! What the dashboard shows, read from a cluster. Nothing is read before the first request.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use super::feed;
use crate::cli::chart::render::build_unit;
use crate::cli::release::operator_keys::OperatorArgs;
use chartwright_core::dashboard::{ReleaseDetail, ReleaseKey};
use chartwright_operator::cluster::connection::bounded;
use chartwright_operator::cluster::discovery::Resource;
use chartwright_operator::cluster::release_facts::gather;
use chartwright_operator::cluster::{self, Discovery};
use chartwright_operator::dashboard::{Board, DashboardSource};
use chartwright_operator::reconcile::{CustomResource, Unit, explain_values};
use chartwright_preview::preview;

/// Which releases are shown.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Where the releases are, for people.
    pub heading: String,
    pub kubeconfig: Option<PathBuf>,
    /// The watches file whose kinds are shown. `None`: the kinds with a mark of the operator.
    pub kinds_of: Option<PathBuf>,
    /// The watches file for effective values.
    pub values_of: PathBuf,
    /// `None`: all.
    pub namespaces: Option<BTreeSet<String>>,
    /// The operator whose next reconcile is previewed.
    pub operator: OperatorArgs,
    /// Selects custom resources by their labels, in the API server's notation. `None`: all.
    pub selector: Option<String>,
}

/// A cluster, connected at the first request.
pub struct ClusterSource {
    shared: Arc<Shared>,
    /// Keeps the rows current while they are used. The lock also guards the decision that they no longer are.
    feed: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// What reads of the cluster need.
pub(super) struct Shared {
    pub(super) options: SourceOptions,
    pub(super) board: Arc<Board>,
    connection: OnceCell<(Client, Discovery)>,
}

impl Shared {
    /// The connection, on the runtime of the first caller.
    pub(super) async fn connect(&self) -> anyhow::Result<&(Client, Discovery)> {
        let connect = || cluster::connect_with_discovery(self.options.kubeconfig.as_deref());
        self.connection.get_or_try_init(connect).await
    }
}

impl ClusterSource {
    pub fn new(options: SourceOptions) -> Self {
        ClusterSource {
            shared: Arc::new(Shared {
                board: Arc::new(Board::new(options.heading.clone())),
                options,
                connection: OnceCell::new(),
            }),
            feed: Arc::default(),
        }
    }
}

impl DashboardSource for ClusterSource {
    fn board(&self) -> Arc<Board> {
        let mut running = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.board.note_use();
        if running.as_ref().is_none_or(JoinHandle::is_finished) {
            *running = Some(tokio::spawn(feed::run(self.shared.clone(), self.feed.clone())));
        }
        self.shared.board.clone()
    }

    fn release(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let shared = self.shared.clone();
        on_own_thread(move |runtime| runtime.block_on(read_release(&shared, &key)))
    }

    fn values(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Value, String>> {
        let shared = self.shared.clone();
        on_own_thread(move |runtime| runtime.block_on(read_values(&shared, &key)))
    }

    fn changes(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Value, String>> {
        let shared = self.shared.clone();
        on_own_thread(move |runtime| runtime.block_on(preview_changes(&shared, &key)))
    }
}

/// Runs a read on a thread of its own: reports and renders take processor time, and scrapes wait for nothing.
fn on_own_thread<T: Send + 'static>(
    read: impl FnOnce(&Handle) -> anyhow::Result<T> + Send + 'static,
) -> BoxFuture<'static, Result<T, String>> {
    let runtime = Handle::current();
    let read = tokio::task::spawn_blocking(move || read(&runtime));
    async move {
        let read = read.await.map_err(|error| error.to_string())?;
        read.map_err(|error| format!("{error:#}"))
    }
    .boxed()
}

/// The custom resource of a release and its kind. `None`: it does not exist.
async fn read_object(shared: &Shared, key: &ReleaseKey) -> anyhow::Result<Option<(DynamicObject, Resource)>> {
    let (client, discovery) = shared.connect().await?;
    let snapshot = discovery.snapshot();
    let Some(resource) = snapshot.preferred(&key.kind) else {
        return Ok(None);
    };
    let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let api: Api<DynamicObject> = resource.api_in(client, namespace);
    let found = bounded(api.get_opt(&key.name)).await?;
    Ok(found.map(|object| (object, resource.clone())))
}

async fn read_release(shared: &Shared, key: &ReleaseKey) -> anyhow::Result<Option<Value>> {
    let Some((object, _)) = read_object(shared, key).await? else {
        return Ok(None);
    };
    let (client, discovery) = shared.connect().await?;
    let facts = gather(client, &discovery.snapshot(), &key.kind, serde_json::to_value(object)?).await;
    let detail = ReleaseDetail::of(&facts, Timestamp::now());
    Ok(Some(serde_json::to_value(detail)?))
}

/// A release with the watch and the chart of the files.
struct LoadedRelease {
    object: DynamicObject,
    unit: Unit,
    decorator: Option<Arc<str>>,
    /// The text of the watches file.
    text: String,
}

/// Reads a release and its chart.
async fn load_release(shared: &Shared, key: &ReleaseKey) -> anyhow::Result<LoadedRelease> {
    let Some((object, resource)) = read_object(shared, key).await? else {
        anyhow::bail!("this release no longer exists");
    };
    let file = shared.options.values_of.clone();
    let labels = object.metadata.labels.clone().unwrap_or_default();
    let kind = key.kind.clone();
    // Reads files, and parses the chart.
    let loaded = tokio::task::spawn_blocking(move || {
        let (watches, _) = chartwright_watches::load(&file)?;
        let text = std::fs::read_to_string(&file)?;
        let version = resource.api.version.clone();
        let names = (kind.group.as_str(), version.as_str(), kind.kind.as_str());
        let watch = chartwright_watches::find_watch(&watches, None, &names, &labels).map_err(anyhow::Error::msg)?;
        let decorator = watch.decorator.clone();
        let unit = build_unit(watch, kind, resource)?;
        anyhow::Ok(LoadedRelease {
            object,
            unit,
            decorator,
            text,
        })
    });
    loaded.await?
}

/// The effective values, as `chartwright values` shows them: those of Secrets and environment variables are masked.
async fn read_values(shared: &Shared, key: &ReleaseKey) -> anyhow::Result<Value> {
    let loaded = load_release(shared, key).await?;
    let (client, discovery) = shared.connect().await?;
    let custom = CustomResource::from(loaded.object).decorated_by(loaded.decorator);
    // A text that is not in the file comes from an environment variable.
    let is_public = |value: &str| loaded.text.contains(value);
    let found = explain_values(client, &discovery.snapshot(), &loaded.unit, &custom, is_public).await?;
    Ok(serde_json::to_value(found)?)
}

/// What the next reconcile would do, as `chartwright diff` shows it.
async fn preview_changes(shared: &Shared, key: &ReleaseKey) -> anyhow::Result<Value> {
    let loaded = load_release(shared, key).await?;
    let (client, discovery) = shared.connect().await?;
    let object = serde_json::to_value(loaded.object)?;
    let client = cluster::with_time_limits(client.clone());
    let operator = &shared.options.operator;
    let cluster = operator.preview_cluster(client, discovery.clone(), [&object]).await?;
    let found = preview(&cluster, &Arc::new(loaded.unit), Some(&object), object.clone()).await?;
    Ok(serde_json::to_value(found)?)
}
