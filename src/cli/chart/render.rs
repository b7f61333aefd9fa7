//! `chartwright render -f cr.yaml`: prints what `run` would apply for a custom resource.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use chartwright_operator::cluster::discovery::Resource;
use chartwright_operator::cluster::events::Events;
use chartwright_operator::cluster::{self, Discovery};
use chartwright_operator::reconcile::{self, Context, CustomResource, LookupAnswers, PreparedRelease, Release, Unit};
use chartwright_operator::telemetry::metrics::Metrics;
use clap::Args;
use go_yaml as yaml;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::cli::stdout::{note, stdout};
use chartwright_core::apply::{content, sign};
use chartwright_core::digest::{Key, Keyring};
use chartwright_core::identity::cluster_scoped::is_cluster_scoped;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::status::{Phase, Reason};
use chartwright_watches::Watch;
use helm_template::chart::stamp::{Stamp, load_stable};
use helm_template::render::{Capabilities, Engine};

const EXAMPLES: &str = "\
Examples:
  # Without a cluster: capabilities are Helm's defaults, and lookups find nothing
  chartwright render -f config/samples/cache_v1alpha1_memcached.yaml

  # With the cluster's capabilities and lookups, compared with the live objects
  chartwright render --server -f cr.yaml | kubectl diff -f -

  # From standard input
  kubectl get memcached web -o yaml | chartwright render -f -";

/// Print what `run` would apply for a custom resource
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RenderArgs {
    /// File with one or more CRs as YAML or JSON. - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// The watches file
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,
    /// The decorator to use if several watches match the object
    #[arg(long, value_name = "NAME")]
    decorator: Option<String>,
    /// Read capabilities, scopes and lookups from the cluster
    #[arg(long)]
    server: bool,
    /// The kubeconfig of --server [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of CRs that do not name one
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// The operator's name: the label on members, and the key that --server reads
    #[arg(long, env = "OPERATOR_NAME", default_value = "chartwright")]
    operator_name: String,
    /// The operator's own namespace, where --server reads its key [default: that of the kubeconfig's context]
    #[arg(long, value_name = "NAMESPACE")]
    operator_namespace: Option<String>,
}

pub fn run(args: &RenderArgs) -> anyhow::Result<()> {
    let (watches, warnings) = chartwright_watches::load(&args.watches_file)?;
    for warning in warnings {
        note!("warning: {warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut out = String::new();
    for object in read_objects(&args.filename)? {
        let (prepared, is_keyed) = runtime.block_on(prepare(args, &watches, object))?;
        print(&prepared, is_keyed, &mut out)?;
    }
    stdout().write_all(out.as_bytes())?;
    Ok(())
}

/// The template of each member and hook of a live custom resource, rendered without its cluster.
///
/// # Errors
/// No watch selects it, or it does not render without a cluster.
pub(in crate::cli) async fn find_templates(
    watches_file: &Path,
    object: Value,
) -> anyhow::Result<BTreeMap<ObjectId, String>> {
    let args = RenderArgs {
        filename: PathBuf::new(),
        watches_file: watches_file.to_owned(),
        decorator: None,
        server: false,
        kubeconfig: None,
        namespace: object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned(),
        operator_name: "chartwright".to_owned(),
        operator_namespace: None,
    };
    let (watches, _) = chartwright_watches::load(watches_file)?;
    let desired = prepare(&args, &watches, object).await?.0.desired;
    let hooks = desired.hooks.into_iter().map(|hook| hook.member);
    let members = desired.members.into_iter().chain(hooks);
    Ok(members.map(|member| (member.id, member.source)).collect())
}

/// Reads the objects of a file. A List is replaced by its items.
fn read_objects(path: &Path) -> anyhow::Result<Vec<Value>> {
    let mut text = String::new();
    match path.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text).context("standard input")?,
        _ => std::fs::File::open(path)
            .and_then(|mut file| file.read_to_string(&mut text))
            .with_context(|| path.display().to_string())?,
    };
    let mut objects = Vec::new();
    for document in yaml::documents(&text).with_context(|| path.display().to_string())? {
        match yaml::to_json(document.as_bytes()).with_context(|| path.display().to_string())? {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                objects.extend(
                    list.remove("items")
                        .and_then(|items| serde_json::from_value(items).ok())
                        .unwrap_or(vec![]),
                );
            }
            object => objects.push(object),
        }
    }
    if objects.is_empty() {
        bail!("{}: holds no object", path.display());
    }
    Ok(objects)
}

/// The cluster of `--server`, or a substitute that serves only the kind of the custom resource.
struct RenderCluster {
    client: Client,
    discovery: Discovery,
    /// Resource of the custom resource.
    resource: Resource,
    /// The operator's keys. `None` before its first start.
    keys: Option<Keyring>,
    own_namespace: String,
}

impl RenderCluster {
    async fn connect(args: &RenderArgs, group_kind: &GroupKind, version: &str) -> anyhow::Result<Self> {
        let (client, discovery) = cluster::connect_with_discovery(args.kubeconfig.as_deref()).await?;
        let resource = discovery.snapshot().resource(group_kind, version).cloned();
        let own_namespace = args
            .operator_namespace
            .as_deref()
            .unwrap_or(client.default_namespace())
            .to_owned();
        Ok(RenderCluster {
            discovery,
            client: client.clone(),
            resource: resource.with_context(|| format!("the API server does not serve {group_kind} in {version}"))?,
            keys: cluster::storage::keys::load(client, &own_namespace, &args.operator_name).await?,
            own_namespace,
        })
    }

    /// Returns the object as it would be after `kubectl apply` of the file: the file's spec, and from the live object its identity,
    /// status, and the labels and annotations of other clients.
    async fn merge_with_live(&self, args: &RenderArgs, mut file: DynamicObject) -> anyhow::Result<DynamicObject> {
        let namespace = file.metadata.namespace.take().filter(|namespace| !namespace.is_empty());
        if self.resource.namespaced {
            file.metadata.namespace = Some(namespace.unwrap_or_else(|| args.namespace.clone()));
        }
        let namespace = file.metadata.namespace.as_deref();
        let api = self.resource.api_in::<DynamicObject>(&self.client, namespace);
        let Some(live) = api.get_opt(file.metadata.name.as_deref().unwrap_or_default()).await? else {
            return Ok(file);
        };
        let written = std::mem::replace(&mut file.metadata, live.metadata);
        let metadata = &mut file.metadata;
        metadata
            .labels
            .get_or_insert_default()
            .extend(written.labels.unwrap_or_default());
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.extend(written.annotations.unwrap_or_default());
        if let (Some(fields), Some(status)) = (file.data.as_object_mut(), live.data.get("status")) {
            fields.insert("status".to_owned(), status.clone());
        }
        Ok(file)
    }

    fn offline(args: &RenderArgs, group_kind: &GroupKind, version: &str, namespaced: bool) -> anyhow::Result<Self> {
        let client = cluster::connection::unconnected_client()?;
        Ok(RenderCluster {
            discovery: Discovery::offline(client.clone(), Capabilities::default(), []),
            client,
            resource: Resource::offline(group_kind, version, namespaced),
            keys: None,
            own_namespace: args.namespace.clone(),
        })
    }
}

/// Renders a custom resource. Also returns whether the digests of its members are the operator's, which needs the operator's key.
async fn prepare(args: &RenderArgs, watches: &[Watch], object: Value) -> anyhow::Result<(PreparedRelease, bool)> {
    let (group_kind, version) =
        GroupKind::of(&object).context("an object without apiVersion and kind is no custom resource")?;
    let mut object: DynamicObject = serde_json::from_value(object).with_context(|| format!("{group_kind}"))?;
    let has_name = object.metadata.name.as_ref().is_some_and(|name| !name.is_empty());
    ensure!(has_name, "{group_kind}: metadata.name is missing");
    let cluster = if args.server {
        let cluster = RenderCluster::connect(args, &group_kind, &version).await?;
        object = cluster.merge_with_live(args, object).await?;
        Some(cluster)
    } else {
        None
    };
    let mut resource = CustomResource::from(object);
    let decorator = args.decorator.as_deref();
    let watch = chartwright_watches::find_watch(
        watches,
        decorator,
        &(&group_kind.group, &version, &group_kind.kind),
        &resource.labels,
    )
    .map_err(anyhow::Error::msg)?;
    resource = resource.decorated_by(watch.decorator.clone());
    let cluster = match cluster {
        Some(cluster) => cluster,
        None => {
            let namespaced = watch.target_namespace.is_none() || !resource.key.namespace.is_empty();
            let namespaced = namespaced && !is_cluster_scoped(&group_kind);
            RenderCluster::offline(args, &group_kind, &version, namespaced)?
        }
    };
    if cluster.resource.namespaced && resource.key.namespace.is_empty() {
        resource.key.namespace = args.namespace.clone();
    }
    let mut release = build_release(args, &mut resource);
    let unit = build_unit(watch, group_kind, cluster.resource)?;
    let own_namespace = cluster.own_namespace;
    let is_keyed = cluster.keys.is_some();
    if !is_keyed && release.record.revision > 0 {
        let secret = cluster::storage::keys::secret_name(&args.operator_name);
        note!(
            "warning: the operator's key, Secret {own_namespace}/{secret}, does not exist: without it an unchanged release \
             renders as an upgrade. --operator-name and --operator-namespace set its place"
        );
    }
    let context = Context::new(
        cluster.client.clone(),
        cluster.discovery,
        Events::new(cluster.client, &args.operator_name, None),
        Arc::new(Metrics::new()),
        cluster
            .keys
            .unwrap_or_else(|| Keyring::new(Key::new([0; 32]), Vec::new())),
        args.operator_name.clone(),
        own_namespace,
    );
    let prepared = reconcile::prepare(&context, &unit, &resource, &mut release, &mut LookupAnswers::new()).await;
    let hint = if watch.has_sources() && !args.server {
        " (the watch takes values from Secrets and ConfigMaps: --server reads them)"
    } else {
        ""
    };
    let prepared = match prepared {
        ControlFlow::Continue(prepared) => prepared,
        ControlFlow::Break(Phase::Stalled { reason, message, .. } | Phase::Failed { reason, message, .. }) => {
            bail!("{}: {message}{hint}", reason.as_str())
        }
        ControlFlow::Break(other) => bail!("{other:?}"),
    };
    if let Some(failure) = prepared.desired.patch_failures.first() {
        bail!("{}: {failure}", Reason::PatchFailed.as_str());
    }
    if let Some(problem) = prepared.desired.problems.first() {
        bail!("{problem}");
    }
    Ok((prepared, is_keyed))
}

/// Restores the release from its custom resource.
fn build_release(args: &RenderArgs, resource: &mut CustomResource) -> Release {
    let mut release = Release::default();
    if args.server {
        release.adopt(resource, None);
    } else {
        // These annotations describe a release in a cluster, and there is no cluster.
        let (kinds, namespaces) = resource.member_scope_annotations();
        for ours in [resource.kept_annotation(), kinds, namespaces] {
            resource.annotations.remove(&ours);
        }
    }
    release
}

/// Loads the chart of a watch, for one release.
pub(in crate::cli) fn build_unit(watch: &Watch, group_kind: GroupKind, resource: Resource) -> anyhow::Result<Unit> {
    let (renderer, stamp) = load_engine(&watch.chart)?;
    Ok(Unit::alone(watch.clone(), group_kind, resource, renderer, stamp))
}

/// Loads a chart that releases are rendered from.
pub(in crate::cli) fn load_engine(path: &Path) -> anyhow::Result<(Arc<Engine>, Stamp)> {
    let (chart, stamp) = load_stable(path);
    let chart = chart.with_context(|| format!("chart {}", path.display()))?;
    let engine = Engine::for_releases(chart).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok((Arc::new(engine), stamp))
}

/// Writes the documents to `out`. `is_keyed`: the digests of the members are the operator's.
fn print(prepared: &PreparedRelease, is_keyed: bool, out: &mut String) -> anyhow::Result<()> {
    for warning in prepared.warnings.iter().chain(&prepared.desired.unmatched_patches) {
        note!("warning: {warning}");
    }
    for unknown in &prepared.desired.unknown {
        note!(
            "warning: {}: {} {} is not served",
            unknown.source,
            unknown.group_kind,
            unknown.version
        );
    }
    for member in &prepared.desired.members {
        let mut object = content(member, None);
        if is_keyed {
            sign(&mut object, &member.digest);
        }
        out.push_str(&member.document(&object, &[])?);
    }
    for hook in &prepared.desired.hooks {
        out.push_str(&hook.member.document(&content(&hook.member, None), &hook.events)?);
    }
    Ok(())
}
