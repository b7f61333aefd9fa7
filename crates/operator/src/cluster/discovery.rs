//! The kinds that the API server serves, with plural and scope, and `.Capabilities` for charts.
//!
//! Aggregated discovery needs two requests. A change of a CRD or an APIService replaces the complete snapshot, so a reader
//! always holds a consistent one.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use kube::api::ApiResource;
use kube::core::discovery::v2::APIVersionDiscovery;
use kube::core::{DynamicResourceScope, GroupVersionKind};
use kube::{Api, Client};
use tokio::sync::{Mutex, Notify, watch};

use crate::cluster::connection::bounded;
use crate::cluster::connection::url_path::segment;
use crate::cluster::error::{Error, Result};
use crate::sync::lock;
use chartwright_core::identity::GroupKind;
use chartwright_core::identity::cluster_scoped::is_cluster_scoped;
use helm_template::render::{Capabilities, KubeVersion};

/// One served kind and version.
#[derive(Clone, Debug)]
pub struct Resource {
    pub api: ApiResource,
    pub namespaced: bool,
    /// Supports `list` and `watch`, as members must.
    pub watchable: bool,
    /// Has the subresource `status`.
    pub status: bool,
}

/// Everything that was served at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By kind; the versions in the server's order of preference.
    kinds: HashMap<GroupKind, Vec<Resource>>,
    /// Group versions whose discovery is stale: their aggregated API server is down.
    pub failed: Vec<String>,
    pub capabilities: Capabilities,
    /// Digest of `capabilities` and `failed`.
    pub digest: String,
    /// Digest of `capabilities.api_versions`.
    pub versions: String,
    /// Not read from an API server.
    offline: bool,
    missed: Arc<MissedGroups>,
}

/// API groups that a caller needed while they did not answer.
#[derive(Debug, Default)]
struct MissedGroups {
    groups: std::sync::Mutex<BTreeSet<String>>,
    added: Notify,
}

/// The shared current snapshot, and the reads that replace it.
#[derive(Clone)]
pub struct Discovery {
    client: Client,
    snapshot: watch::Sender<Arc<Snapshot>>,
    reads: Arc<SharedReads>,
    reread: Arc<Notify>,
}

/// Merges concurrent requests for a read into one.
struct SharedReads {
    /// The number of reads that have begun.
    begun: AtomicU64,
    /// The number and result of the last completed read. Locked during a read.
    last: Mutex<(u64, Result<()>)>,
}

impl Resource {
    /// The API for its objects in one namespace, or (`None`) in all.
    pub fn api_in<K>(&self, client: &Client, namespace: Option<&str>) -> Api<K>
    where
        K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), &segment(namespace), &self.api),
            None => Api::all_with(client.clone(), &self.api),
        }
    }

    /// A kind for use without an API server.
    pub fn offline(group_kind: &GroupKind, version: &str, namespaced: bool) -> Self {
        let kind = GroupVersionKind::gvk(&group_kind.group, version, &group_kind.kind);
        Resource {
            api: ApiResource::from_gvk(&kind),
            namespaced,
            watchable: true,
            status: true,
        }
    }
}

impl Default for SharedReads {
    fn default() -> Self {
        SharedReads {
            begun: AtomicU64::new(0),
            last: Mutex::new((0, Ok(()))),
        }
    }
}

impl Snapshot {
    /// Adds the kinds of a group version, and its entries of `.Capabilities`.
    fn add(&mut self, group: &str, served: APIVersionDiscovery, api_versions: &mut BTreeSet<String>) {
        let version = served.version.unwrap_or_default();
        let api_version = match group {
            "" => version.clone(),
            group => format!("{group}/{version}"),
        };
        if served.freshness.is_some_and(|freshness| freshness != "Current") {
            self.failed.push(api_version.clone());
        }
        api_versions.insert(api_version.clone());
        for resource in served.resources {
            // `.Capabilities` contains the kinds of subresources too, such as `v1/Scale`.
            let kinds = resource.subresources.iter();
            let kinds = kinds.filter_map(|sub| sub.response_kind.as_ref()?.kind.as_ref());
            api_versions.extend(kinds.map(|kind| format!("{api_version}/{kind}")));
            let response = resource.response_kind.unwrap_or_default();
            let (Some(kind), Some(plural)) = (response.kind, resource.resource) else {
                continue;
            };
            api_versions.insert(format!("{api_version}/{kind}"));
            // Some resources return a kind of another group, such as TokenRequest.
            if response.group.is_some_and(|other| !other.is_empty() && other != group) {
                continue;
            }
            let mut subresources = resource.subresources.iter();
            let has = |verb: &str| resource.verbs.iter().any(|served| served == verb);
            self.kinds
                .entry(GroupKind::new(group, &kind))
                .or_default()
                .push(Resource {
                    namespaced: resource.scope.as_deref() == Some("Namespaced"),
                    watchable: has("list") && has("watch"),
                    status: subresources.any(|sub| sub.subresource.as_deref() == Some("status")),
                    api: ApiResource {
                        group: group.to_owned(),
                        version: version.clone(),
                        api_version: api_version.clone(),
                        kind,
                        plural,
                    },
                });
        }
    }

    fn add_kind(&mut self, resource: Resource) {
        let group_kind = GroupKind::new(resource.api.group.as_str(), resource.api.kind.as_str());
        let versions = self.kinds.entry(group_kind).or_default();
        if versions.iter().all(|known| known.api.version != resource.api.version) {
            versions.push(resource);
        }
    }

    /// The resource of a kind and version.
    pub fn resource(&self, group_kind: &GroupKind, version: &str) -> Option<&Resource> {
        self.kinds
            .get(group_kind)?
            .iter()
            .find(|resource| resource.api.version == version)
    }

    /// The resource of a kind in its preferred version.
    pub fn preferred(&self, group_kind: &GroupKind) -> Option<&Resource> {
        self.kinds.get(group_kind)?.first()
    }

    /// The CustomResourceDefinition name of each served kind: `<plural>.<group>`.
    pub fn definitions(&self) -> HashSet<String> {
        let served = self.kinds.values().filter_map(|versions| Some(&versions.first()?.api));
        served.map(|api| format!("{}.{}", api.plural, api.group)).collect()
    }

    /// All served kinds, each in its preferred version.
    pub fn kinds(&self) -> impl Iterator<Item = (&GroupKind, &Resource)> {
        self.kinds
            .iter()
            .filter_map(|(kind, versions)| Some((kind, versions.first()?)))
    }

    /// Whether a kind and version is namespaced; `None` if it is not served.
    pub fn namespaced(&self, group_kind: &GroupKind, version: &str) -> Option<bool> {
        let known = self.resource(group_kind, version).map(|resource| resource.namespaced);
        known.or_else(|| self.offline.then(|| !is_cluster_scoped(group_kind)))
    }

    /// As [`preferred`](Self::preferred).
    ///
    /// # Errors
    /// It is unknown whether the kind is served.
    pub fn served(&self, group_kind: &GroupKind) -> Result<Option<&Resource>> {
        match self.preferred(group_kind) {
            None => self.has_answered(&group_kind.group).map(|()| None),
            found => Ok(found),
        }
    }

    /// Checks that discovery of a group is complete, and records the group as missed if not.
    ///
    /// # Errors
    /// A version of the group was not read, so this snapshot may lack served kinds.
    pub fn has_answered(&self, group: &str) -> Result<()> {
        let mut failed = self.failed.iter();
        if !failed.any(|failed| group_of(failed) == group) {
            return Ok(());
        }
        if self.missed.groups().insert(group.to_owned()) {
            self.missed.added.notify_one();
        }
        Err(Error::Unavailable(format!("API group {group} does not answer")))
    }

    /// True if discovery of all groups succeeded.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    /// True if a kind is certainly not served in any version. A failed group version hides its kinds.
    pub fn is_gone(&self, group_kind: &GroupKind) -> bool {
        matches!(self.served(group_kind), Ok(None))
    }
}

/// The group of `group/version`, or of `group/version/Kind`.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl MissedGroups {
    fn groups(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.groups)
    }
}

impl Discovery {
    /// Reads the first snapshot.
    pub async fn new(client: Client) -> Result<Self> {
        let discovery = Discovery {
            client,
            snapshot: watch::Sender::default(),
            reads: Arc::default(),
            reread: Arc::default(),
        };
        discovery.refresh().await?;
        Ok(discovery)
    }

    /// A discovery without an API server: these capabilities and kinds, and the scopes of built-in kinds. Any other kind
    /// counts as namespaced. The client sends requests for these kinds only.
    pub fn offline(client: Client, capabilities: Capabilities, served: impl IntoIterator<Item = Resource>) -> Self {
        let mut snapshot = Snapshot {
            versions: capabilities.api_versions.join(","),
            capabilities,
            offline: true,
            ..Snapshot::default()
        };
        for resource in served {
            snapshot.add_kind(resource);
        }
        Discovery {
            client,
            snapshot: watch::Sender::new(Arc::new(snapshot)),
            reads: Arc::default(),
            reread: Arc::default(),
        }
    }

    /// A discovery of its own that begins with the same snapshot, and rereads with this client.
    #[must_use]
    pub fn fork(&self, client: Client) -> Self {
        Discovery {
            client,
            snapshot: watch::Sender::new(self.snapshot()),
            reads: Arc::default(),
            reread: Arc::default(),
        }
    }

    /// Adds a kind to the snapshot, as a new CustomResourceDefinition does. Does nothing if the kind is known in this version.
    pub fn add_kind(&self, resource: Resource) {
        self.snapshot
            .send_modify(|snapshot| Arc::make_mut(snapshot).add_kind(resource));
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Receives every new snapshot whose kinds or failures differ.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    /// True if a caller needs a group that does not answer.
    pub fn has_missed_groups(&self) -> bool {
        !self.snapshot().missed.groups().is_empty()
    }

    /// Requests another read, after a discovered kind could not be watched: it may have changed since the read.
    pub fn request_reread(&self) {
        self.reread.notify_one();
    }

    /// Waits for a call of [`Discovery::request_reread`].
    pub async fn reread_requested(&self) {
        self.reread.notified().await;
    }

    /// Waits until a caller needs a group that does not answer and was not needed before.
    pub async fn group_missed(&self) {
        let missed = self.snapshot().missed.clone();
        missed.added.notified().await;
    }

    /// Reads discovery again, or waits for a read that began after this call.
    ///
    /// # Errors
    /// As [`Discovery::read`].
    pub async fn refresh(&self) -> Result<()> {
        let begun = self.reads.begun.load(Ordering::SeqCst);
        let mut last = self.reads.last.lock().await;
        if last.0 > begun {
            return last.1.clone();
        }
        let number = self.reads.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let read = self.read().await;
        *last = (number, read.clone());
        read
    }

    /// SharedReads discovery once the server is ready. A starting API server answers before it has read its
    /// CustomResourceDefinitions, and its discovery silently lacks their kinds. Trusting it would drop releases and leave
    /// members behind.
    ///
    /// # Errors
    /// If the server is not ready or does not answer. The snapshot stays.
    async fn read(&self) -> Result<()> {
        self.await_ready().await?;
        let version = bounded(self.client.apiserver_version()).await?;
        let core = bounded(self.client.list_core_api_versions_aggregated()).await?;
        let groups = bounded(self.client.list_api_groups_aggregated()).await?;
        let mut snapshot = Snapshot {
            missed: self.snapshot().missed.clone(),
            ..Snapshot::default()
        };
        let mut api_versions = BTreeSet::new();
        for group in core.items.into_iter().chain(groups.items) {
            let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
            for served in group.versions {
                snapshot.add(&name, served, &mut api_versions);
            }
        }
        snapshot.capabilities = Capabilities {
            kube_version: KubeVersion::of_server(&version.git_version, &version.major, &version.minor),
            api_versions: Arc::new(api_versions.into_iter().collect()),
        };
        let version = &snapshot.capabilities.kube_version.version;
        snapshot.versions = digest(snapshot.capabilities.api_versions.iter());
        snapshot.digest = digest([version, &snapshot.versions].into_iter().chain(&snapshot.failed));
        let is_missed = |group: &String| snapshot.failed.iter().any(|failed| group_of(failed) == group);
        snapshot.missed.groups().retain(is_missed);
        self.snapshot.send_if_modified(|known| {
            let changed = known.digest != snapshot.digest;
            *known = Arc::new(snapshot);
            changed
        });
        Ok(())
    }

    /// Checks `/readyz`. By default every user may read it; where it is forbidden, the server counts as ready.
    async fn await_ready(&self) -> Result<()> {
        let request = http::Request::get("/readyz").body(Vec::new());
        let request = request.map_err(|error| Error::Invalid(error.to_string()))?;
        match bounded(self.client.request_text(request)).await {
            // No server answered.
            Err(error @ (Error::Unreachable { .. } | Error::TimedOut(_))) => Err(error),
            Err(error) if error.is_transient() => {
                let message = format!("the API server is not ready, and may not list all kinds: {error}");
                Err(match error {
                    Error::Throttled { after, .. } => Error::Throttled { message, after },
                    _ => Error::Unavailable(message),
                })
            }
            _ => Ok(()),
        }
    }
}

fn digest<'a>(texts: impl Iterator<Item = &'a String>) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text);
        hash.update([0]);
    }
    data_encoding::HEXLOWER.encode(&hash.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet as Set;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use serde_json::json;

    use super::*;
    use crate::cluster::testing::{client, served};

    #[tokio::test]
    async fn concurrent_refreshes_share_a_read() {
        let reads = Arc::new(AtomicUsize::new(0));
        let count = reads.clone();
        let client = client(move |request| {
            count.fetch_add(usize::from(request.path == "/apis"), Ordering::SeqCst);
            None
        });
        let discovery = Discovery::new(client).await.unwrap();
        assert_eq!(reads.swap(0, Ordering::SeqCst), 1);
        let all = (0..50).map(|_| discovery.refresh());
        assert!(futures::future::join_all(all).await.iter().all(Result::is_ok));
        let first = reads.swap(0, Ordering::SeqCst);
        assert!(
            (1..=2).contains(&first),
            "a read in progress does not serve later callers: {first}"
        );
        discovery.refresh().await.unwrap();
        assert_eq!(reads.load(Ordering::SeqCst), 1, "a later refresh reads again");
    }

    #[tokio::test]
    async fn a_needed_group_that_does_not_answer_is_recorded_as_missed() {
        let down = Arc::new(AtomicBool::new(true));
        let is_down = down.clone();
        let client = client(move |request| {
            let is_down = is_down.load(Ordering::SeqCst);
            is_down.then(|| (200, served(&request.path, &["a.test", "down.test!"])))
        });
        let discovery = Discovery::new(client).await.unwrap();
        let snapshot = discovery.snapshot();
        let kind = |group: &str| GroupKind::new(group, "Widget");
        assert!(!discovery.has_missed_groups(), "not needed yet");
        assert!(snapshot.served(&kind("a.test")).is_ok() && snapshot.is_gone(&kind("none.test")));
        assert!(!discovery.has_missed_groups());
        assert!(!snapshot.is_gone(&kind("down.test")));
        assert!(discovery.has_missed_groups());
        tokio::time::timeout(std::time::Duration::from_secs(5), discovery.group_missed())
            .await
            .unwrap();
        discovery.refresh().await.unwrap();
        assert!(discovery.has_missed_groups(), "until it answers");
        let digests: Set<_> = [snapshot.digest.clone(), discovery.snapshot().digest.clone()].into();
        assert_eq!(digests.len(), 1);
        down.store(false, Ordering::SeqCst);
        discovery.refresh().await.unwrap();
        assert!(!discovery.has_missed_groups());
    }

    /// kube-apiserver 1.36.3 that was killed and started again listed its own 20 groups, none of them stale, and no group
    /// of a CustomResourceDefinition for 0.2 s; `/readyz` was 500 until a second after that.
    #[tokio::test]
    async fn discovery_of_a_server_that_is_not_ready_is_ignored() {
        let state = Arc::new(Mutex::new((200, vec!["a.test", "b.test"])));
        let now = state.clone();
        let client = client(move |request| {
            let (status, groups) = now.lock().unwrap().clone();
            Some(match request.path.as_str() {
                "/readyz" => (status, json!("[-]poststarthook/crd-informer-synced failed")),
                path => (200, served(path, &groups)),
            })
        });
        let discovery = Discovery::new(client).await.unwrap();
        let serves = |group: &str| {
            discovery
                .snapshot()
                .preferred(&GroupKind::new(group, "Widget"))
                .is_some()
        };
        assert!(serves("a.test") && serves("b.test"));
        for not_ready in [500, 503, 429] {
            *state.lock().unwrap() = (not_ready, vec![]);
            let error = discovery.refresh().await.unwrap_err();
            assert!(error.to_string().contains("not ready"), "{error}");
            assert!(serves("a.test") && serves("b.test"), "{not_ready}");
        }
        // Where `/readyz` is forbidden or absent, the server counts as ready.
        for ready in [200, 403, 404] {
            *state.lock().unwrap() = (ready, vec!["a.test"]);
            discovery.refresh().await.unwrap();
            assert!(serves("a.test") && !serves("b.test"), "{ready}");
            *state.lock().unwrap() = (200, vec!["a.test", "b.test"]);
            discovery.refresh().await.unwrap();
        }
    }
}
