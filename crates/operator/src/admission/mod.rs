//! The validating webhook of `chartwright run --admission`: a change of a custom resource is previewed before the API server stores it.
//!
//! - [`review`]: answers requests. Its preview is that of `chartwright diff`, which the program provides
//! - [`certificate`]: the certificate that all replicas serve, in a Secret of the operator's namespace
//! - [`registration`]: the ValidatingWebhookConfiguration
//!
//! Each replica answers, also one that does not lead, with a client of its own. A failure here admits the change: the API server
//! ignores a webhook that gives no answer.
//!
//! Only the API server and the operator know the path of the webhook, which is signed with the operator's key. So other clients of the
//! port cannot have changes previewed with the operator's rights.

mod certificate;
mod registration;
mod review;

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::routing::post;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use url::Url;

use crate::cluster::{self, Discovery};
use crate::controller::{Blueprint, Configuration};
use crate::reconcile::{RenderResources, Unit, reads_release_facts};
use crate::sync::lock;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::server::{ServedCertificate, ServedSite, admission_site};
use chartwright_core::admission::registration::{Registration, WebhookAddress};
use chartwright_core::diff::ReleaseDiff;
use chartwright_core::digest::{KeyUse, Keyring};
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_watches::names::is_built_in;

/// The path of the webhook, before the part that only the API server knows.
const PATH: &str = "/admission/";

/// How often certificate, registration and served kinds are checked.
const CHECK_PERIOD: Duration = Duration::from_secs(60);

/// The pause before the next attempt after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Previews at a time. Each takes memory for a custom resource and its members.
const MAX_PREVIEWS: usize = 4;

/// The options of `chartwright run --admission`.
#[derive(Clone, Debug)]
pub struct AdmissionOptions {
    pub kubeconfig: Option<PathBuf>,
    /// The operator's name.
    pub operator: String,
    /// The operator's own namespace. `None`: that of the kubeconfig's context, else the pod's.
    pub own_namespace: Option<String>,
    /// The name of the ValidatingWebhookConfiguration, of the Secret with the certificate, and of the Service.
    pub name: String,
    /// Where the API server reaches an operator outside of the cluster. `None`: the Service.
    pub url: Option<WebhookUrl>,
    /// The namespaces of the custom resources. `None`: all.
    pub namespaces: Option<BTreeSet<String>>,
}

/// An HTTPS address without user, path and query, such as `https://192.0.2.1:9443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookUrl(Url);

impl FromStr for WebhookUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "an HTTPS address without user, path and query is needed, such as https://192.0.2.1:9443";
        let url: Url = text.parse().map_err(|error| format!("{error}: {wanted}"))?;
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let is_anonymous = url.username().is_empty() && url.password().is_none();
        if url.scheme() == "https" && url.host_str().is_some() && is_bare && is_anonymous {
            Ok(WebhookUrl(url))
        } else {
            Err(wanted.to_owned())
        }
    }
}

impl WebhookUrl {
    /// Name or address, without the brackets of an IPv6 address.
    fn host(&self) -> String {
        self.0
            .host_str()
            .unwrap_or_default()
            .trim_matches(['[', ']'])
            .to_owned()
    }
}

impl Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// A change of a custom resource that is previewed.
pub struct PreviewJob {
    pub client: Client,
    pub discovery: Discovery,
    pub keys: Keyring,
    pub operator: String,
    pub own_namespace: String,
    pub render: RenderResources,
    pub unit: Arc<Unit>,
    /// The custom resource as it is. `None`: it does not exist.
    pub live: Option<Value>,
    pub resource: Value,
}

/// Previews a change. The error is for people.
pub type PreviewFn = Arc<dyn Fn(PreviewJob) -> BoxFuture<'static, Result<ReleaseDiff, String>> + Send + Sync>;

/// The webhook of a process.
pub struct Admission {
    options: AdmissionOptions,
    preview: PreviewFn,
    metrics: Arc<Metrics>,
    certificate: Arc<ServedCertificate>,
    /// What the operator works with. `None` before it has read its charts.
    workload: watch::Sender<Option<PreviewInputs>>,
    connected: OnceLock<Connected>,
    places: Semaphore,
    release_facts: Mutex<ReleaseFactsCache>,
}

/// What the operator works with.
#[derive(Clone)]
struct PreviewInputs {
    configured: watch::Receiver<Configuration>,
    render: RenderResources,
}

/// The webhook's own connection.
struct Connected {
    client: Client,
    discovery: Discovery,
    keys: Keyring,
    own_namespace: String,
    /// `<namespace>/<name>` of the operator.
    owner: String,
}

/// Which charts mention release facts: a search through all of their text. For one configuration, by the place of the watch in it.
#[derive(Default)]
struct ReleaseFactsCache {
    configuration: Option<Arc<Vec<Blueprint>>>,
    known: HashMap<usize, bool>,
}

impl Admission {
    pub fn new(options: AdmissionOptions, preview: PreviewFn, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Admission {
            options,
            preview,
            metrics,
            certificate: Arc::default(),
            workload: watch::Sender::default(),
            connected: OnceLock::new(),
            places: Semaphore::new(MAX_PREVIEWS),
            release_facts: Mutex::default(),
        })
    }

    /// Serves the webhook, and keeps it registered.
    pub fn site(self: &Arc<Self>) -> ServedSite {
        let router = Router::new().route("/admission/{path}", post(review::serve));
        let router = router.with_state(self.clone());
        admission_site(router, self.certificate.clone(), self.clone().run().boxed())
    }

    /// Gives the webhook what the operator works with. Changes are admitted without a preview before.
    pub(crate) fn begin(&self, configured: watch::Receiver<Configuration>, render: &RenderResources) {
        let render = render.for_previews();
        self.workload.send_replace(Some(PreviewInputs { configured, render }));
    }

    /// What the webhook owns in the cluster. `namespace`: the operator's own.
    pub(crate) fn own_objects(&self, namespace: &str) -> [ObjectId; 3] {
        let name = self.options.name.as_str();
        let configuration = GroupKind::new("admissionregistration.k8s.io", "ValidatingWebhookConfiguration");
        [
            ObjectId::new(configuration, "", name),
            ObjectId::new(GroupKind::new("", "Secret"), namespace, name),
            ObjectId::new(GroupKind::new("", "Service"), namespace, name),
        ]
    }

    async fn run(self: Arc<Self>) {
        let mut workload = self.workload.subscribe();
        let Ok(Some(PreviewInputs { mut configured, .. })) =
            workload.wait_for(Option::is_some).await.map(|it| it.clone())
        else {
            return;
        };
        let mut reported = String::new();
        loop {
            let registered = self.register(&configured).await;
            self.metrics.admission.registered(registered.is_ok());
            let pause = match registered {
                Ok(()) => {
                    if !std::mem::take(&mut reported).is_empty() {
                        tracing::info!("changes of custom resources are previewed again");
                    }
                    CHECK_PERIOD
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if error != reported {
                        tracing::error!(error, "changes of custom resources are not previewed");
                        reported = error;
                    }
                    RETRY_PAUSE
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = configured.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Connects, and makes certificate and registration what they are to be.
    async fn register(&self, configured: &watch::Receiver<Configuration>) -> anyhow::Result<()> {
        let connected = match self.connected.get() {
            Some(connected) => {
                connected
                    .discovery
                    .refresh()
                    .await
                    .context("the API server's discovery")?;
                connected
            }
            None => {
                let connected = self.connect().await?;
                self.connected.get_or_init(|| connected)
            }
        };
        let blueprints = configured.borrow().blueprints.clone();
        let (address, host) = self.address(connected);
        let certificate = certificate::load(connected, &self.options.name, &[host]).await?;
        let registration = Registration {
            name: &self.options.name,
            owner: &connected.owner,
            address: &address,
            path: &format!("{PATH}{}", connected.sign_path()),
            ca_bundle: &certificate.trusted,
            rules: &registration::rules(connected, &blueprints),
            namespaces: self.options.namespaces.as_ref(),
        };
        registration::apply(&connected.client, &registration).await?;
        // Not before the API server trusts it.
        self.certificate.set(&certificate.used);
        self.metrics
            .admission
            .set_certificate_expiry(certificate.used.not_after);
        Ok(())
    }

    async fn connect(&self) -> anyhow::Result<Connected> {
        let options = &self.options;
        let config = cluster::config_without_retries(options.kubeconfig.as_deref()).await?;
        let client = cluster::with_time_limits(cluster::open(config)?);
        let given = options
            .own_namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty());
        let own_namespace = given.unwrap_or(client.default_namespace()).to_owned();
        let keys = cluster::storage::keys::load_or_create(client.clone(), &own_namespace, &options.operator).await;
        let keys = keys.context("the operator's key")?;
        let discovery = Discovery::new(client.clone())
            .await
            .context("the API server's discovery")?;
        Ok(Connected {
            client,
            discovery,
            keys,
            owner: format!("{own_namespace}/{}", options.operator),
            own_namespace,
        })
    }

    /// Where the API server reaches the webhook, and the name or address there that the certificate is for.
    fn address(&self, connected: &Connected) -> (WebhookAddress, String) {
        match &self.options.url {
            Some(url) => (WebhookAddress::Url(url.to_string()), url.host()),
            None => {
                let (namespace, name) = (connected.own_namespace.clone(), self.options.name.clone());
                let host = service_host(&namespace, &name);
                (WebhookAddress::Service { namespace, name }, host)
            }
        }
    }

    /// The unit of a custom resource with these labels. `None`: no watch has it, or its kind is not served.
    fn unit(
        &self,
        connected: &Connected,
        configured: &watch::Receiver<Configuration>,
        (group_kind, version): (&GroupKind, &str),
        is_ours: impl Fn(&Unit) -> bool,
    ) -> Option<Arc<Unit>> {
        let resource = connected.discovery.snapshot().resource(group_kind, version).cloned()?;
        let blueprints = configured.borrow().blueprints.clone();
        let named = blueprints
            .iter()
            .enumerate()
            .filter(|(_, blueprint)| is_previewed(blueprint) && blueprint.group_kind() == *group_kind)
            .filter(|(_, blueprint)| blueprint.watch.version == version);
        named
            .map(|(place, blueprint)| {
                let facts = lock(&self.release_facts).of(&blueprints, place);
                blueprint.unit(resource.clone(), facts)
            })
            .find(|unit| is_ours(unit))
            .map(Arc::new)
    }
}

impl Connected {
    fn signed(&self) -> [&[u8]; 1] {
        [self.owner.as_bytes()]
    }

    /// The part of the path that only the API server knows.
    fn sign_path(&self) -> String {
        self.keys.sign(KeyUse::AdmissionPath, &self.signed())
    }

    fn is_signed(&self, path: &str) -> bool {
        self.keys.is_signed(KeyUse::AdmissionPath, &self.signed(), path)
    }
}

impl ReleaseFactsCache {
    fn of(&mut self, blueprints: &Arc<Vec<Blueprint>>, place: usize) -> bool {
        if !self
            .configuration
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, blueprints))
        {
            *self = ReleaseFactsCache {
                configuration: Some(blueprints.clone()),
                known: HashMap::new(),
            };
        }
        let renderer = blueprints
            .get(place)
            .and_then(|blueprint| blueprint.renderer.as_ref().ok());
        let read = || renderer.is_some_and(|renderer| reads_release_facts(renderer.chart()));
        *self.known.entry(place).or_insert_with(read)
    }
}

/// The name by which the API server calls a Service.
fn service_host(namespace: &str, name: &str) -> String {
    format!("{name}.{namespace}.svc")
}

/// True if changes of a watch's custom resources are previewed: not those of decorators, nor of built-in kinds, which the cluster itself
/// writes all the time.
fn is_previewed(blueprint: &Blueprint) -> bool {
    blueprint.watch.decorator.is_none() && !is_built_in(&blueprint.watch.group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::server::NewCertificate;

    #[test]
    fn the_url_of_a_webhook_is_checked() {
        for (text, expected) in [
            ("https://192.0.2.1:9443", true),
            ("https://192.0.2.1:9443/", true),
            ("https://[2001:db8::1]:9443", true),
            ("https://a.test", true),
            ("http://a.test", false),
            ("a.test:9443", false),
            ("https://user@a.test", false),
            ("https://:secret@a.test", false),
            ("https://a.test/hook", false),
            ("https://a.test?x", false),
            ("https://a.test#x", false),
            ("https://", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<WebhookUrl>().is_ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_certificate_is_for_the_address_of_the_webhook() {
        assert_eq!(service_host("ops", "x"), "x.ops.svc");
        for (url, expected) in [
            ("https://192.0.2.1:9443/", "192.0.2.1"),
            ("https://[2001:db8::1]", "2001:db8::1"),
            ("https://a.test:1", "a.test"),
        ] {
            let found: WebhookUrl = url.parse().unwrap();
            assert_eq!(found.host(), expected);
            assert_eq!(found.to_string(), url.trim_end_matches('/'));
            assert!(
                NewCertificate::create(vec![found.host()], 1_800_000_000).is_ok(),
                "{url}"
            );
        }
    }
}
