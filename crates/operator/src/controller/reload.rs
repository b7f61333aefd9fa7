//! Reads `watches.yaml` and the charts again when they change on disk, or on SIGHUP.
//!
//! All of it is replaced, or all of it is refused. ConfigMap volumes change by the rename of a link, editors and
//! copies by many events: files are read when nothing has happened for [`QUIET`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;

use super::unit::Blueprint;
use crate::sync::lock;
use crate::telemetry::metrics::Metrics;
use chartwright_watches::{FileFinding, Watch};
use helm_template::chart::stamp::{Stamp, load_stable};
use helm_template::render::{Engine, Error, ReleaseObject};

/// Files that are being written are read when nothing has happened for this long.
const QUIET: Duration = Duration::from_millis(500);
/// Files that change all the time are read after this.
const LONGEST: Duration = Duration::from_secs(10);
/// How deep the folders of a chart nest.
const MAX_DEPTH: usize = 32;

/// How many links lead to a file, as in Linux.
const MAX_LINKS: usize = 40;

/// What the flags give to all watches.
#[derive(Clone, Debug)]
pub struct WatchDefaults {
    pub reconcile_period: Duration,
    /// Concurrent reconciles per watch, unless the watch sets its own number.
    pub concurrency: usize,
    /// The ServiceAccount of releases whose watch names none.
    pub service_account: Option<String>,
    /// Releases refer to nothing outside of their own namespace.
    pub no_cross_namespace_refs: bool,
}

/// What the operator works with.
#[derive(Clone, Default)]
pub(crate) struct Configuration {
    pub(crate) blueprints: Arc<Vec<Blueprint>>,
    /// Why what is on disk was refused.
    pub(super) refused: Option<Arc<str>>,
}

/// Loads watches with their charts.
pub(super) struct WatchesLoader {
    defaults: WatchDefaults,
}

/// What came of reading everything again.
struct Reading {
    /// The charts that the new file names. Empty if it cannot be read.
    charts: BTreeSet<PathBuf>,
    /// The error is about the whole.
    result: Result<Vec<Blueprint>, String>,
}

/// Files and charts, with what they were like when they were read.
type Stamps = BTreeMap<PathBuf, Stamp>;

impl WatchesLoader {
    pub(super) fn new(defaults: WatchDefaults) -> Self {
        WatchesLoader { defaults }
    }

    /// Loads each chart once. A chart of `former` that is unchanged on disk is not read again.
    pub(super) fn load(&self, watches: &[Watch], former: &[Blueprint]) -> Vec<Blueprint> {
        let mut loaded: HashMap<PathBuf, (Result<Arc<Engine>, String>, Stamp)> = HashMap::new();
        for Blueprint {
            watch, renderer, stamp, ..
        } in former
        {
            if Stamp::of(&watch.chart) == *stamp {
                loaded.insert(watch.chart.clone(), (renderer.clone(), stamp.clone()));
            }
        }
        let mut blueprints = Vec::new();
        for watch in watches {
            let (renderer, stamp) = loaded.entry(watch.chart.clone()).or_insert_with(|| {
                let (chart, stamp) = load_stable(&watch.chart);
                let renderer = chart
                    .map_err(|error| format!("chart {}: {error}", watch.chart.display()))
                    .and_then(|chart| Engine::for_releases(chart).map_err(|error| error.to_string()));
                (renderer.map(Arc::new), stamp)
            });
            let siblings = watches
                .iter()
                .filter(|other| (&other.group, &other.kind) == (&watch.group, &watch.kind) && other.id() != watch.id())
                .filter(|other| other.decorator == watch.decorator);
            blueprints.push(Blueprint {
                renderer: renderer.clone(),
                stamp: stamp.clone(),
                siblings: siblings.map(|other| other.selector.clone()).collect(),
                watch: self.with_defaults(watch),
            });
        }
        blueprints
    }

    fn with_defaults(&self, watch: &Watch) -> Watch {
        let defaults = &self.defaults;
        let mut watch = watch.clone();
        watch.reconcile_period.get_or_insert(defaults.reconcile_period);
        watch.max_concurrent_reconciles.get_or_insert(defaults.concurrency);
        let account = watch.service_account_name.take();
        watch.service_account_name = account.or_else(|| defaults.service_account.clone());
        if defaults.no_cross_namespace_refs {
            watch.lookups.namespaces.clear();
            watch.allow.namespaces.clear();
        }
        watch
    }

    fn read_again(&self, file: &Path, former: &[Blueprint]) -> Reading {
        match chartwright_watches::load(file) {
            Ok((watches, warnings)) => Reading {
                charts: watches.iter().map(|watch| watch.chart.clone()).collect(),
                result: self.accept(&watches, &warnings, former),
            },
            Err(errors) => Reading {
                charts: BTreeSet::new(),
                result: Err(errors.to_string()),
            },
        }
    }

    /// # Errors
    /// A chart that changed cannot be read, or one of its templates has a syntax error.
    fn accept(
        &self,
        watches: &[Watch],
        warnings: &[FileFinding],
        former: &[Blueprint],
    ) -> Result<Vec<Blueprint>, String> {
        let blueprints = self.load(watches, former);
        for blueprint in &blueprints {
            let is_known = former.iter().any(|known| known.has_chart_of(blueprint));
            match &blueprint.renderer {
                _ if is_known => {}
                Ok(engine) => check_syntax(engine)
                    .map_err(|error| format!("chart {}: {error}", blueprint.watch.chart.display()))?,
                Err(error) => return Err(error.clone()),
            }
        }
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        Ok(blueprints)
    }
}

/// What was read: the file with this stamp, and the charts as they were read.
fn stamps_of(file: (PathBuf, Stamp), blueprints: &[Blueprint]) -> Stamps {
    let charts = blueprints
        .iter()
        .map(|blueprint| (blueprint.watch.chart.clone(), blueprint.stamp.clone()));
    charts.chain([file]).collect()
}

/// A render with the chart's own values finds errors that are the same for all values.
fn check_syntax(engine: &Engine) -> Result<(), Error> {
    match engine.render(&ReleaseObject::install("release-name", "default"), json!({})) {
        Err(error @ (Error::Parse { .. } | Error::SchemaInvalid(_))) => Err(error),
        _ => Ok(()),
    }
}

/// The stamps of files and charts as they are on disk.
fn stamps(paths: impl IntoIterator<Item = PathBuf>) -> Stamps {
    let stamp = |path: PathBuf| {
        let stamp = Stamp::of(&path);
        (path, stamp)
    };
    paths.into_iter().map(stamp).collect()
}

/// Where changes of files and charts show. Links are followed; the folder of a link shows when the link changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places {
    folders: BTreeSet<PathBuf>,
    /// Every change inside of these counts.
    charts: Vec<PathBuf>,
    /// In other folders, only files and links of these names count.
    names: BTreeSet<OsString>,
}

impl Places {
    fn concerns(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        // The links of ConfigMap volumes: ..data and its kin.
        self.names.contains(name)
            || name.as_encoded_bytes().starts_with(b"..")
            || self.charts.iter().any(|chart| path.starts_with(chart))
    }
}

fn places(paths: &[PathBuf]) -> Places {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    };
    let mut places = Places::default();
    for path in paths {
        let mut step = path.clone();
        for _ in 0..MAX_LINKS {
            places.folders.insert(parent(&step));
            places.names.extend(step.file_name().map(OsStr::to_owned));
            let Ok(target) = step.read_link() else { break };
            step = parent(&step).join(target);
        }
        let Ok(target) = path.canonicalize() else { continue };
        if target.is_dir() {
            add_inner(&target, MAX_DEPTH, &mut places.folders);
            places.charts.push(target);
        }
    }
    places
}

fn add_inner(folder: &Path, depth: usize, folders: &mut BTreeSet<PathBuf>) {
    if !folders.insert(folder.to_owned()) || depth == 0 {
        return;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_inner(&path, depth - 1, folders);
        }
    }
}

/// Waits for changes on disk.
struct DiskEvents {
    watcher: Option<RecommendedWatcher>,
    places: Arc<Mutex<Places>>,
    watched: BTreeSet<PathBuf>,
    events: mpsc::Receiver<()>,
}

impl DiskEvents {
    fn new() -> Self {
        let (sender, events) = mpsc::channel(1);
        let places = Arc::new(Mutex::new(Places::default()));
        let of_events = places.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Who reads a file does not change it. An error may hide a change.
            let is_irrelevant = event.is_ok_and(|event| {
                let places = lock(&of_events);
                event.kind.is_access()
                    || !(event.paths.is_empty() || event.paths.iter().any(|path| places.concerns(path)))
            });
            if !is_irrelevant {
                let _ = sender.try_send(());
            }
        });
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!(%error, "changes of watches.yaml and of charts are not noticed: send SIGHUP after each change");
        });
        DiskEvents {
            watcher: watcher.ok(),
            places,
            watched: BTreeSet::new(),
            events,
        }
    }

    /// Watches these places and no others.
    fn watch(&mut self, places: Places) {
        let folders = places.folders.clone();
        *lock(&self.places) = places;
        let Some(watcher) = &mut self.watcher else { return };
        // A folder that was replaced has its old name, and is watched no longer.
        for folder in &self.watched {
            let _ = watcher.unwatch(folder);
        }
        self.watched.clear();
        for folder in folders {
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder);
                }
                Err(error) => {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, "its changes are not noticed: send SIGHUP after each change");
                }
            }
        }
    }

    /// Returns when something changed and nothing else did for [`QUIET`].
    async fn changed(&mut self) {
        if self.events.recv().await.is_none() {
            return std::future::pending().await;
        }
        let deadline = tokio::time::Instant::now() + LONGEST;
        while tokio::time::Instant::now() < deadline {
            if tokio::time::timeout(QUIET, self.events.recv()).await.is_err() {
                return;
            }
        }
    }
}

/// Reads the files again at each change and sends what is new. Runs until it is dropped.
pub(super) async fn run(
    file: PathBuf,
    loader: WatchesLoader,
    configuration: watch::Sender<Configuration>,
    metrics: Arc<Metrics>,
) {
    let loader = Arc::new(loader);
    let mut hangup = signal(SignalKind::hangup()).ok();
    let mut disk = DiskEvents::new();
    // What was read last, also if it was refused.
    let mut last = stamps_of((file.clone(), Stamp::of(&file)), &configuration.borrow().blueprints);
    loop {
        let paths: Vec<PathBuf> = last.keys().cloned().collect();
        let of_places = paths.clone();
        let Ok(places) = spawn_blocking(move || places(&of_places)).await else {
            return;
        };
        // The folders are watched before the files are looked at, so that no change is missed.
        disk.watch(places);
        let Ok(now) = spawn_blocking(move || stamps(paths)).await else {
            return;
        };
        let is_requested = now == last;
        if is_requested {
            tokio::select! {
                () = disk.changed() => continue,
                () = hung_up(&mut hangup) => {}
            }
        }
        let former = configuration.borrow().blueprints.clone();
        let (with, of, known) = (loader.clone(), file.clone(), former.clone());
        let Ok(Reading { charts, result }) = spawn_blocking(move || with.read_again(&of, &known)).await else {
            return;
        };
        last = now;
        let blueprints = match result {
            Ok(blueprints) => blueprints,
            Err(error) => {
                // A chart that is missing may appear.
                let unseen: Vec<PathBuf> = charts.into_iter().filter(|chart| !last.contains_key(chart)).collect();
                last.extend(stamps(unseen));
                metrics.rollout.count_reload(false);
                tracing::error!(%error, "the new watches.yaml or a new chart is refused; the operator goes on with the former ones");
                configuration.send_modify(|configuration| configuration.refused = Some(error.into()));
                continue;
            }
        };
        metrics.rollout.count_reload(true);
        if let Some(file) = last.remove_entry(&file) {
            last = stamps_of(file, &blueprints);
        }
        let is_same =
            blueprints.len() == former.len() && blueprints.iter().zip(former.iter()).all(|(new, old)| new.is_as(old));
        if is_same && configuration.borrow().refused.is_none() {
            if is_requested {
                tracing::info!("watches.yaml and the charts are unchanged");
            }
            continue;
        }
        tracing::info!(
            watches = blueprints.len(),
            "watches.yaml and the charts were read again"
        );
        configuration.send_replace(Configuration {
            blueprints: Arc::new(blueprints),
            refused: None,
        });
    }
}

async fn hung_up(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
