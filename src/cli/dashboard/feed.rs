//! Keeps the rows of the dashboard current: a watch for each kind with releases, as long as the page is used.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use futures::stream::StreamExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{Selector, SelectorExt as _};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};

use super::source::Shared;
use crate::cli::release::release_list::{ServedKind, Unlisted, find_release_kinds};
use chartwright_core::dashboard::{ReleaseKey, ReleaseRow};
use chartwright_core::identity::GroupKind;
use chartwright_operator::cluster::discovery::Snapshot;
use chartwright_operator::dashboard::Board;
use chartwright_operator::telemetry::chain;

/// After this time without a request the watches end. The next request starts them again.
const IDLE: Duration = Duration::from_secs(600);
/// Time between two looks for kinds in a watches file, or by the marks of the operator.
const FILE_PERIOD: Duration = Duration::from_secs(15);
const MARKS_PERIOD: Duration = Duration::from_secs(120);
/// The pause after a failed request.
const PAUSE: Duration = Duration::from_secs(5);
/// How long the first lists may take before the page shows what there is.
const FIRST_LISTS: Duration = Duration::from_secs(30);

/// What a problem is about that concerns all kinds.
const KINDS: &str = "the kinds";

/// A kind whose releases are shown.
struct FedKind {
    kind: ServedKind,
    /// Selectors of its watches. Empty: all custom resources are releases.
    selectors: Vec<Selector>,
}

/// The watches of one kind. They end when this is dropped.
struct KindWatches {
    selectors: Vec<Selector>,
    version: String,
    _tasks: JoinSet<()>,
}

/// Runs until the page is not used for [`IDLE`]. `running`: the place of this task.
pub(super) async fn run(shared: Arc<Shared>, running: Arc<Mutex<Option<JoinHandle<()>>>>) {
    let board = shared.board.clone();
    let mut watches: HashMap<GroupKind, KindWatches> = HashMap::new();
    loop {
        let period = match look(&shared, &mut watches).await {
            Ok(()) => {
                board.set_problem(KINDS, None);
                match shared.options.kinds_of {
                    Some(_) => FILE_PERIOD,
                    None => MARKS_PERIOD,
                }
            }
            Err(error) => {
                board.set_problem(KINDS, Some(format!("{error:#}")));
                PAUSE
            }
        };
        board.set_listed(true);
        sleep(period).await;
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if board.unused_for() > IDLE {
            *running = None;
            board.clear();
            return;
        }
    }
}

/// Finds the kinds, and starts and ends watches. Waits for the lists of new ones.
async fn look(shared: &Arc<Shared>, watches: &mut HashMap<GroupKind, KindWatches>) -> anyhow::Result<()> {
    let (client, discovery) = shared.connect().await?;
    discovery.refresh().await?;
    let snapshot = discovery.snapshot();
    let board = &shared.board;
    let kinds = match &shared.options.kinds_of {
        Some(file) => kinds_of_file(file, &snapshot)?,
        None => kinds_with_marks(shared, client, &snapshot).await,
    };
    let (kinds, unwatched) = kinds;
    board.set_unwatched(unwatched);
    let wanted: HashSet<&GroupKind> = kinds.iter().map(|fed| &fed.kind.0).collect();
    board.retain_problems(|about| about == KINDS || wanted.iter().any(|kind| is_about(about, kind)));
    watches.retain(|kind, _| wanted.contains(kind));
    board.change(|index| index.retain(|key| wanted.contains(&key.kind)) > 0);
    let (listed, mut lists) = mpsc::unbounded_channel();
    let mut awaited = 0;
    for fed in kinds {
        let (kind, resource) = &fed.kind;
        let is_same = |known: &KindWatches| known.selectors == fed.selectors && known.version == resource.api.version;
        if watches.get(kind).is_some_and(is_same) {
            continue;
        }
        let namespaces: Vec<Option<String>> = match &shared.options.namespaces {
            Some(namespaces) if resource.namespaced => namespaces.iter().cloned().map(Some).collect(),
            _ => vec![None],
        };
        let mut tasks = JoinSet::new();
        for namespace in namespaces {
            awaited += 1;
            let follower = KindFollower {
                kind: kind.clone(),
                api: resource.api_in(client, namespace.as_deref()),
                selectors: fed.selectors.clone(),
                labels: shared.options.selector.clone(),
                namespace,
                board: board.clone(),
            };
            tasks.spawn(follower.run(listed.clone()));
        }
        let started = KindWatches {
            selectors: fed.selectors.clone(),
            version: resource.api.version.clone(),
            _tasks: tasks,
        };
        watches.insert(kind.clone(), started);
    }
    drop(listed);
    let deadline = Instant::now() + FIRST_LISTS;
    while awaited > 0 && matches!(timeout_at(deadline, lists.recv()).await, Ok(Some(()))) {
        awaited -= 1;
    }
    Ok(())
}

/// Between a kind and a namespace.
const IN: &str = " in ";

/// True if a problem is about the watches of a kind.
fn is_about(about: &str, kind: &GroupKind) -> bool {
    about.split(IN).next() == Some(kind.to_string().as_str())
}

/// The kinds to watch, and those that cannot be watched, with the reason.
type FoundKinds = (Vec<FedKind>, Vec<String>);

/// The kinds of a watches file, each with the selectors of its watches.
fn kinds_of_file(file: &Path, snapshot: &Snapshot) -> anyhow::Result<FoundKinds> {
    let (all, _) = chartwright_watches::load(file).map_err(|error| anyhow!("{error}"))?;
    let (mut kinds, mut unwatched): FoundKinds = (Vec::new(), Vec::new());
    for watch in all {
        let kind = GroupKind::new(&watch.group, &watch.kind);
        if let Some(known) = kinds.iter_mut().find(|known| known.kind.0 == kind) {
            known.selectors.push(watch.selector);
            continue;
        }
        match snapshot.resource(&kind, &watch.version) {
            Some(resource) => kinds.push(FedKind {
                kind: (kind, resource.clone()),
                selectors: vec![watch.selector],
            }),
            None => unwatched.push(format!("{kind}: the API server does not serve it in {}", watch.version)),
        }
    }
    Ok((kinds, unwatched))
}

/// The kinds with a mark of the operator.
async fn kinds_with_marks(shared: &Shared, client: &Client, snapshot: &Snapshot) -> FoundKinds {
    let mut unlisted = Unlisted::new();
    let namespaces = shared
        .options
        .namespaces
        .iter()
        .flatten()
        .map(|name| Some(name.as_str()));
    let mut namespaces: Vec<Option<&str>> = namespaces.collect();
    if namespaces.is_empty() {
        namespaces.push(None);
    }
    let mut found: Vec<ServedKind> = Vec::new();
    for namespace in namespaces {
        for kind in find_release_kinds(client, snapshot, namespace, &mut unlisted).await {
            if found.iter().all(|known| known.0 != kind.0) {
                found.push(kind);
            }
        }
    }
    let fed = |kind| FedKind {
        kind,
        selectors: Vec::new(),
    };
    let unwatched = unlisted.iter().map(|(kind, error)| format!("{kind}: {error}"));
    (found.into_iter().map(fed).collect(), unwatched.collect())
}

/// The watch of one kind in one namespace, or in all.
struct KindFollower {
    kind: GroupKind,
    api: Api<DynamicObject>,
    selectors: Vec<Selector>,
    labels: Option<String>,
    namespace: Option<String>,
    board: Arc<Board>,
}

impl KindFollower {
    /// Runs until it is aborted. Reports the end of the first list, or its failure.
    async fn run(self, listed: mpsc::UnboundedSender<()>) {
        let mut config = watcher::Config::default();
        if let Some(labels) = &self.labels {
            config = config.labels(labels);
        }
        let about = match &self.namespace {
            Some(namespace) => format!("{}{IN}{namespace}", self.kind),
            None => self.kind.to_string(),
        };
        let mut listed = Some(listed);
        let mut events = watcher(self.api.clone(), config).boxed();
        let mut seen: HashSet<ReleaseKey> = HashSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let is_complete = matches!(event, Event::InitDone);
                    self.take(event, &mut seen);
                    if is_complete {
                        self.board.set_problem(&about, None);
                        if let Some(listed) = listed.take() {
                            let _ = listed.send(());
                        }
                    }
                }
                // The watcher tries again.
                Err(error) => {
                    self.board.set_problem(&about, Some(chain(&error)));
                    if let Some(listed) = listed.take() {
                        let _ = listed.send(());
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn take(&self, event: Event<DynamicObject>, seen: &mut HashSet<ReleaseKey>) {
        match event {
            Event::Init => seen.clear(),
            Event::InitApply(object) => {
                if let Some(row) = self.row(object) {
                    seen.insert(row.key());
                    self.board.change(|index| index.put(row));
                }
            }
            Event::InitDone => {
                let is_ours = |key: &ReleaseKey| {
                    key.kind == self.kind && self.namespace.as_ref().is_none_or(|name| *name == key.namespace)
                };
                let is_kept = |key: &ReleaseKey| !is_ours(key) || seen.contains(key);
                self.board.change(|index| index.retain(is_kept) > 0);
                *seen = HashSet::new();
            }
            Event::Apply(object) => {
                let key = self.key(&object);
                match self.row(object) {
                    Some(row) => self.board.change(|index| index.put(row)),
                    None => self.board.change(|index| index.remove(&key)),
                }
            }
            Event::Delete(object) => {
                let key = self.key(&object);
                self.board.change(|index| index.remove(&key));
            }
        }
    }

    fn key(&self, object: &DynamicObject) -> ReleaseKey {
        ReleaseKey {
            kind: self.kind.clone(),
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
        }
    }

    /// The row of a custom resource. `None` if no watch selects it.
    fn row(&self, object: DynamicObject) -> Option<ReleaseRow> {
        let labels = object.metadata.labels.clone().unwrap_or_default();
        let is_selected = self.selectors.is_empty() || self.selectors.iter().any(|selector| selector.matches(&labels));
        let object: Value = is_selected.then(|| serde_json::to_value(object).ok()).flatten()?;
        Some(ReleaseRow::of(&self.kind, &object))
    }
}
