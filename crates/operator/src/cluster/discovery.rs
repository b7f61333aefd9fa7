//! What the API server serves: kinds with their plural and scope, and the `.Capabilities` that charts ask for.
//!
//! Two requests (aggregated discovery) answer everything, so the snapshot is replaced as a whole when a CRD or an
//! APIService changes, and readers hold a consistent one.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use kube::api::ApiResource;
use kube::core::discovery::v2::APIVersionDiscovery;
use kube::core::{DynamicResourceScope, GroupVersionKind};
use kube::{Api, Client};
use tokio::sync::{Mutex, Notify, watch};

use crate::cluster::connection::bounded;
use crate::cluster::connection::throttle;
use crate::cluster::connection::url_path::segment;
use crate::cluster::error::{Error, Result};
use chartwright_core::identity::GroupKind;
use helm_template::render::{Capabilities, KubeVersion};

/// One served kind and version.
#[derive(Clone, Debug)]
pub struct Resource {
    pub api: ApiResource,
    pub namespaced: bool,
    /// Can be listed and watched, as members must be.
    pub watchable: bool,
    /// Has a subresource `status`.
    pub status: bool,
}

/// All that was served at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By kind; the versions in the server's order of preference.
    kinds: HashMap<GroupKind, Vec<Resource>>,
    /// Group versions whose discovery is stale: their aggregated API server is down.
    pub failed: Vec<String>,
    pub capabilities: Capabilities,
    /// Changes whenever `capabilities` do, or what does not answer.
    pub digest: String,
    /// Changes whenever `capabilities.api_versions` do.
    pub versions: String,
    /// Not read from an API server.
    offline: bool,
    missed: Arc<Missed>,
}

/// The groups that somebody needed while they did not answer, until they do.
#[derive(Debug, Default)]
struct Missed {
    groups: std::sync::Mutex<BTreeSet<String>>,
    told: Notify,
}

/// Kinds without a namespace that charts bring, for renders without an API server (Kubernetes API reference, 1.37).
const CLUSTER_SCOPED: [&str; 21] = [
    "APIService.apiregistration.k8s.io",
    "CSIDriver.storage.k8s.io",
    "CSINode.storage.k8s.io",
    "CertificateSigningRequest.certificates.k8s.io",
    "ClusterRole.rbac.authorization.k8s.io",
    "ClusterRoleBinding.rbac.authorization.k8s.io",
    "CustomResourceDefinition.apiextensions.k8s.io",
    "DeviceClass.resource.k8s.io",
    "FlowSchema.flowcontrol.apiserver.k8s.io",
    "IngressClass.networking.k8s.io",
    "MutatingWebhookConfiguration.admissionregistration.k8s.io",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass.scheduling.k8s.io",
    "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
    "RuntimeClass.node.k8s.io",
    "StorageClass.storage.k8s.io",
    "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
    "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
];

/// True for one of Kubernetes' own kinds that has no namespaces: known without asking.
pub fn is_cluster_scoped(group_kind: &GroupKind) -> bool {
    CLUSTER_SCOPED.contains(&group_kind.to_string().as_str())
}

/// The current snapshot, shared, and who reads it.
#[derive(Clone)]
pub struct Discovery {
    client: Client,
    snapshot: watch::Sender<Arc<Snapshot>>,
    reads: Arc<Reads>,
    doubted: Arc<Notify>,
}

/// Those who want discovery to be read anew at one time share a read.
struct Reads {
    /// How many have begun.
    begun: AtomicU64,
    /// The last one that ended, by its number, and what came of it. Locked while one is under way.
    last: Mutex<(u64, Result<()>)>,
}

// === impl Resource ===

impl Resource {
    /// The API for its objects: in one namespace, or everywhere for `None`.
    pub fn api_in<K>(&self, client: &Client, namespace: Option<&str>) -> Api<K>
    where
        K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), &segment(namespace), &self.api),
            None => Api::all_with(client.clone(), &self.api),
        }
    }

    /// A kind without an API server that could be asked about it.
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

// === impl Reads ===

impl Default for Reads {
    fn default() -> Self {
        Reads {
            begun: AtomicU64::new(0),
            last: Mutex::new((0, Ok(()))),
        }
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Takes in what a version of a group serves, and what `.Capabilities` have of it.
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
            // `.Capabilities` has the kinds of subresources too, `v1/Scale` for one.
            let kinds = resource.subresources.iter();
            let kinds = kinds.filter_map(|sub| sub.response_kind.as_ref()?.kind.as_ref());
            api_versions.extend(kinds.map(|kind| format!("{api_version}/{kind}")));
            let response = resource.response_kind.unwrap_or_default();
            let (Some(kind), Some(plural)) = (response.kind, resource.resource) else {
                continue;
            };
            api_versions.insert(format!("{api_version}/{kind}"));
            // A few resources answer with a kind of another group (TokenRequest and the like).
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

    /// The resource of a kind and version.
    pub fn resource(&self, group_kind: &GroupKind, version: &str) -> Option<&Resource> {
        self.kinds
            .get(group_kind)?
            .iter()
            .find(|resource| resource.api.version == version)
    }

    /// The resource of a kind in the version that the server prefers.
    pub fn preferred(&self, group_kind: &GroupKind) -> Option<&Resource> {
        self.kinds.get(group_kind)?.first()
    }

    /// What a CustomResourceDefinition would be called of each kind that is served: `<plural>.<group>`.
    pub fn definitions(&self) -> HashSet<String> {
        let served = self.kinds.values().filter_map(|versions| Some(&versions.first()?.api));
        served.map(|api| format!("{}.{}", api.plural, api.group)).collect()
    }

    /// Every kind that is served, in the version that the server prefers.
    pub fn kinds(&self) -> impl Iterator<Item = (&GroupKind, &Resource)> {
        self.kinds
            .iter()
            .filter_map(|(kind, versions)| Some((kind, versions.first()?)))
    }

    /// Whether objects of a kind and version have a namespace; `None` if it is not served.
    pub fn namespaced(&self, group_kind: &GroupKind, version: &str) -> Option<bool> {
        let known = self.resource(group_kind, version).map(|resource| resource.namespaced);
        known.or_else(|| self.offline.then(|| !is_cluster_scoped(group_kind)))
    }

    /// As [`preferred`](Self::preferred).
    ///
    /// # Errors
    /// Whether the kind is served can't be told.
    pub fn served(&self, group_kind: &GroupKind) -> Result<Option<&Resource>> {
        match self.preferred(group_kind) {
            None => self.has_answered(&group_kind.group).map(|()| None),
            found => Ok(found),
        }
    }

    /// # Errors
    /// A version of the group could not be read: kinds of it may be served though this snapshot lacks them.
    pub fn has_answered(&self, group: &str) -> Result<()> {
        let mut failed = self.failed.iter();
        if !failed.any(|failed| group_of(failed) == group) {
            return Ok(());
        }
        if self.missed.groups().insert(group.to_owned()) {
            self.missed.told.notify_one();
        }
        Err(Error::Unavailable(format!("API group {group} does not answer")))
    }

    /// True if nothing is known to be missing.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    /// True if a kind is certainly not served in any version. A failed group version hides the kinds it serves.
    pub fn is_gone(&self, group_kind: &GroupKind) -> bool {
        matches!(self.served(group_kind), Ok(None))
    }
}

/// The group of `group/version`, or of `group/version/Kind`.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

// === impl Missed ===

impl Missed {
    fn groups(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Discovery ===

impl Discovery {
    /// Reads the first snapshot.
    pub async fn new(client: Client) -> Result<Self> {
        let discovery = Discovery {
            client,
            snapshot: watch::Sender::default(),
            reads: Arc::default(),
            doubted: Arc::default(),
        };
        discovery.refresh().await?;
        Ok(discovery)
    }

    /// A discovery without an API server: the capabilities given, the kinds given, and the scopes that Kubernetes' own
    /// kinds have; any other kind counts as namespaced. The client makes no requests but for these kinds.
    pub fn offline(client: Client, capabilities: Capabilities, served: impl IntoIterator<Item = Resource>) -> Self {
        let mut snapshot = Snapshot {
            versions: capabilities.api_versions.join(","),
            capabilities,
            offline: true,
            ..Snapshot::default()
        };
        for resource in served {
            let group_kind = GroupKind::new(resource.api.group.as_str(), resource.api.kind.as_str());
            let versions = snapshot.kinds.entry(group_kind).or_default();
            if versions.iter().all(|known| known.api.version != resource.api.version) {
                versions.push(resource);
            }
        }
        Discovery {
            client,
            snapshot: watch::Sender::new(Arc::new(snapshot)),
            reads: Arc::default(),
            doubted: Arc::default(),
        }
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Tells of every change of what is served, or of the failures, whoever noticed it.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.subscribe()
    }

    /// True if somebody needs a group that does not answer, as far as is known.
    pub fn misses(&self) -> bool {
        !self.snapshot().missed.groups().is_empty()
    }

    /// A kind that was discovered can't be watched: it may have changed between the reading of discovery and the first look
    /// at what changes it.
    pub fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Until somebody [doubts](Discovery::doubt) what was read.
    pub async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Until somebody needs one that nobody needed before.
    pub async fn missed(&self) {
        let missed = self.snapshot().missed.clone();
        missed.told.notified().await;
    }

    /// Reads everything anew, or waits for another who does, if he began later than this was called.
    ///
    /// # Errors
    /// As [`Discovery::read`].
    pub async fn refresh(&self) -> Result<()> {
        let asked = self.reads.begun.load(Ordering::SeqCst);
        let mut last = self.reads.last.lock().await;
        if last.0 > asked {
            return last.1.clone().inspect_err(throttle::note);
        }
        let number = self.reads.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let read = self.read().await;
        *last = (number, read.clone());
        read
    }

    /// An API server that starts answers before it knows its CustomResourceDefinitions, and its discovery then lacks
    /// their kinds without a sign of it. To take that for the truth is to forget releases and to leave members behind,
    /// so nothing is read before the server says that it is ready.
    ///
    /// # Errors
    /// If it is not ready, or does not answer; what was read before stands.
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

    /// Whether the API server is ready, as far as it tells us: `/readyz` is for everybody by default, and not everywhere.
    async fn await_ready(&self) -> Result<()> {
        let request = http::Request::get("/readyz").body(Vec::new());
        let request = request.map_err(|error| Error::Invalid(error.to_string()))?;
        match bounded(self.client.request_text(request)).await {
            Err(error) if error.may_pass() => {
                let message = format!("the API server is not ready, and may not tell of all kinds: {error}");
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
    async fn those_who_want_it_read_at_one_time_share_a_read() {
        let reads = Arc::new(AtomicUsize::new(0));
        let count = reads.clone();
        let client = client(move |asked| {
            count.fetch_add(usize::from(asked.path == "/apis"), Ordering::SeqCst);
            None
        });
        let discovery = Discovery::new(client).await.unwrap();
        assert_eq!(reads.swap(0, Ordering::SeqCst), 1);
        let all = (0..50).map(|_| discovery.refresh());
        assert!(futures::future::join_all(all).await.iter().all(Result::is_ok));
        let first = reads.swap(0, Ordering::SeqCst);
        assert!(
            (1..=2).contains(&first),
            "one that is under way says nothing of what came since: {first}"
        );
        discovery.refresh().await.unwrap();
        assert_eq!(
            reads.load(Ordering::SeqCst),
            1,
            "who comes later wants to know what is then"
        );
    }

    #[tokio::test]
    async fn a_group_that_does_not_answer_is_missed_by_who_needs_it() {
        let down = Arc::new(AtomicBool::new(true));
        let is_down = down.clone();
        let client = client(move |asked| {
            let is_down = is_down.load(Ordering::SeqCst);
            is_down.then(|| (200, served(&asked.path, &["a.test", "down.test!"])))
        });
        let discovery = Discovery::new(client).await.unwrap();
        let snapshot = discovery.snapshot();
        let kind = |group: &str| GroupKind::new(group, "Widget");
        assert!(!discovery.misses(), "nobody needs it");
        assert!(snapshot.served(&kind("a.test")).is_ok() && snapshot.is_gone(&kind("none.test")));
        assert!(!discovery.misses());
        assert!(!snapshot.is_gone(&kind("down.test")));
        assert!(discovery.misses());
        tokio::time::timeout(std::time::Duration::from_secs(5), discovery.missed())
            .await
            .unwrap();
        discovery.refresh().await.unwrap();
        assert!(discovery.misses(), "until it answers");
        let asked: Set<_> = [snapshot.digest.clone(), discovery.snapshot().digest.clone()].into();
        assert_eq!(asked.len(), 1);
        down.store(false, Ordering::SeqCst);
        discovery.refresh().await.unwrap();
        assert!(!discovery.misses());
    }

    /// kube-apiserver 1.36.3 that was killed and started again listed its own 20 groups, none of them stale, and no group
    /// of a CustomResourceDefinition for 0.2 s; `/readyz` was 500 until a second after that.
    #[tokio::test]
    async fn a_server_that_is_not_ready_is_not_believed() {
        let state = Arc::new(Mutex::new((200, vec!["a.test", "b.test"])));
        let now = state.clone();
        let client = client(move |asked| {
            let (status, groups) = now.lock().unwrap().clone();
            Some(match asked.path.as_str() {
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
        // Who may not ask for it must do without.
        for ready in [200, 403, 404] {
            *state.lock().unwrap() = (ready, vec!["a.test"]);
            discovery.refresh().await.unwrap();
            assert!(serves("a.test") && !serves("b.test"), "{ready}");
            *state.lock().unwrap() = (200, vec!["a.test", "b.test"]);
            discovery.refresh().await.unwrap();
        }
    }
}
