//! `chartwright suspend`, `resume`, `reconcile` and `force`: requests to the operator, by an annotation.

mod waiting;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use self::waiting::wait_for_all;
use super::kinds::find_kind;
use super::release_list::{check_custom, list_resources, read_resource};
use super::wait::parse_timeout;
use crate::cli::block_on;
use crate::cli::stdout::{note, print_line};
use chartwright_core::annotations::{FORCE_AT, REQUESTED_AT, SUSPEND, parse_bool};
use chartwright_core::identity::GroupKind;
use chartwright_core::status::conditions;
use chartwright_core::status::summary::has_mark;
use chartwright_operator::cluster;
use chartwright_operator::cluster::connection::bounded;
use chartwright_operator::cluster::custom_resource::STATUS_MANAGER;
use chartwright_operator::cluster::discovery::Resource;

const SUSPEND_EXAMPLES: &str = "\
Examples:
  # Let the operator change nothing of a release, and delete nothing with it
  chartwright suspend memcached web

  # Suspend all releases of a kind in all namespaces, and wait until the operator has seen it
  chartwright suspend memcached --all -A --wait";

const RESUME_EXAMPLES: &str = "\
Examples:
  # Undo `suspend`, and wait until the release is ready
  chartwright resume memcached web --wait

  # Resume the releases with a label
  chartwright resume memcached --all -l team=shop";

const RECONCILE_EXAMPLES: &str = "\
Examples:
  # Reconcile a release now, although nothing changed
  chartwright reconcile memcached web --wait --timeout 2m

  # See which releases would be reconciled
  chartwright reconcile memcached --all -A --dry-run";

const FORCE_EXAMPLES: &str = "\
Examples:
  # Apply all members again; members with changed immutable fields are recreated
  chartwright force memcached web --wait";

/// Let the operator change nothing of a release
#[derive(Args, Clone, Debug)]
#[command(after_help = SUSPEND_EXAMPLES)]
pub struct SuspendArgs {
    #[command(flatten)]
    request: RequestArgs,
}

/// Undo `suspend`
#[derive(Args, Clone, Debug)]
#[command(after_help = RESUME_EXAMPLES)]
pub struct ResumeArgs {
    #[command(flatten)]
    request: RequestArgs,
}

/// Reconcile a release now, although nothing changed
#[derive(Args, Clone, Debug)]
#[command(after_help = RECONCILE_EXAMPLES)]
pub struct ReconcileArgs {
    #[command(flatten)]
    request: RequestArgs,
}

/// Apply all members of a release once, and recreate members with changed immutable fields
#[derive(Args, Clone, Debug)]
#[command(after_help = FORCE_EXAMPLES)]
pub struct ForceArgs {
    #[command(flatten)]
    request: RequestArgs,
}

/// Arguments of all requests.
#[derive(Args, Clone, Debug)]
struct RequestArgs {
    /// Kind of the CR, singular or plural, with or without its group: memcached, memcacheds.cache.example.com
    kind: String,
    /// Name of the CR
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// All releases of the kind
    #[arg(long)]
    all: bool,
    /// With --all: only CRs with these labels, as for kubectl
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        requires = "all",
        conflicts_with = "name"
    )]
    selector: Option<String>,
    /// With --all: in all namespaces
    #[arg(short = 'A', long, requires = "all", conflicts_with_all = ["namespace", "name"])]
    all_namespaces: bool,
    /// Namespace of the CR [default: that of the kubeconfig's context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Wait until the operator has carried out the request and, except for suspend, the release is ready
    #[arg(long)]
    wait: bool,
    /// Limit of the wait, as a Go duration
    #[arg(long, default_value = "5m", value_parser = parse_timeout)]
    timeout: Duration,
    /// Send the request as a dry run, which checks the rights, and change nothing
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// What is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Suspend,
    Resume,
    Reconcile,
    Force,
}

/// The state of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestProgress {
    Done(String),
    Waiting(String),
    Failed(String),
}

pub fn suspend(args: &SuspendArgs) -> anyhow::Result<()> {
    block_on(request(Verb::Suspend, &args.request))
}

pub fn resume(args: &ResumeArgs) -> anyhow::Result<()> {
    block_on(request(Verb::Resume, &args.request))
}

pub fn reconcile(args: &ReconcileArgs) -> anyhow::Result<()> {
    block_on(request(Verb::Reconcile, &args.request))
}

pub fn force(args: &ForceArgs) -> anyhow::Result<()> {
    block_on(request(Verb::Force, &args.request))
}

impl Verb {
    /// The annotation of the request and its new value. `None`: it is removed.
    fn annotation(self, token: &str) -> (&'static str, Option<&str>) {
        match self {
            Verb::Suspend => (SUSPEND, Some("true")),
            Verb::Resume => (SUSPEND, None),
            Verb::Reconcile => (REQUESTED_AT, Some(token)),
            Verb::Force => (FORCE_AT, Some(token)),
        }
    }

    /// Why nothing has to be written. `None`: the request is to be written.
    fn needs_nothing(self, object: &Value) -> Option<&'static str> {
        match (self, is_suspended(object)) {
            (Verb::Suspend, true) => Some("is already suspended"),
            (Verb::Resume, false) => Some("is not suspended"),
            _ => None,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Verb::Suspend => "suspended",
            Verb::Resume => "resumed",
            Verb::Reconcile => "reconcile requested",
            Verb::Force => "force requested",
        }
    }

    /// Whether the operator has carried out the request.
    fn progress(self, object: &Value, token: &str) -> RequestProgress {
        let status = &object["status"];
        let conditions = conditions::of(status);
        let is_true = |kind: &str| conditions::get(&conditions, kind).is_some_and(|found| found.status == "True");
        let is_handled = match self {
            Verb::Suspend => is_true("Suspended"),
            Verb::Resume => !is_true("Suspended"),
            Verb::Reconcile => status["lastHandledReconcileAt"] == token,
            Verb::Force => status["lastHandledForceAt"] == token,
        };
        if !is_handled {
            return RequestProgress::Waiting("waiting for the operator".to_owned());
        }
        let Some(ready) = conditions::get(&conditions, "Ready") else {
            return match self {
                Verb::Suspend => RequestProgress::Done("is suspended".to_owned()),
                _ => RequestProgress::Waiting("waiting for the operator".to_owned()),
            };
        };
        let generation = object["metadata"]["generation"].as_i64();
        let is_current = ready.observed_generation.is_none() || ready.observed_generation == generation;
        let text = format!("{}: {}", ready.reason, ready.message);
        match self {
            Verb::Suspend => RequestProgress::Done("is suspended".to_owned()),
            _ if !is_current => RequestProgress::Waiting("waiting for the operator".to_owned()),
            _ if ready.status == "True" => RequestProgress::Done("is ready".to_owned()),
            _ if is_true("Stalled") => RequestProgress::Failed(text),
            _ => RequestProgress::Waiting(text),
        }
    }
}

fn is_suspended(object: &Value) -> bool {
    object["metadata"]["annotations"][SUSPEND].as_str().and_then(parse_bool) == Some(true)
}

/// `Kind.group namespace/name`
fn describe(group_kind: &GroupKind, object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => format!("{group_kind} {}", text("name")),
        namespace => format!("{group_kind} {namespace}/{}", text("name")),
    }
}

/// The kind of a request in a cluster.
struct RequestedKind {
    client: Client,
    group_kind: GroupKind,
    resource: Resource,
    /// `None`: all namespaces, or a cluster-scoped kind.
    namespace: Option<String>,
}

impl RequestedKind {
    async fn connect(args: &RequestArgs) -> anyhow::Result<Self> {
        let (client, discovery) = cluster::connect_with_discovery(args.kubeconfig.as_deref()).await?;
        let snapshot = discovery.snapshot();
        let (group_kind, resource) = find_kind(&snapshot, &args.kind)?;
        let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace());
        let is_narrowed = resource.namespaced && !args.all_namespaces;
        Ok(RequestedKind {
            group_kind: group_kind.clone(),
            resource: resource.clone(),
            namespace: is_narrowed.then(|| namespace.to_owned()),
            client,
        })
    }

    /// Reads the selected custom resources.
    async fn read(&self, args: &RequestArgs) -> anyhow::Result<Vec<Value>> {
        let namespace = self.namespace.as_deref();
        if let Some(name) = &args.name {
            let object = read_resource(&self.client, (&self.group_kind, &self.resource), namespace, name).await?;
            return Ok(vec![object]);
        }
        let listed = list_resources(&self.client, &self.resource, namespace, args.selector.as_deref()).await;
        let (objects, _) = listed.with_context(|| self.group_kind.to_string())?;
        Ok(objects)
    }

    /// Writes the annotation. The UID guards against an object that was replaced since the read.
    async fn write(&self, verb: Verb, object: &Value, token: &str, dry_run: bool) -> anyhow::Result<()> {
        let metadata = &object["metadata"];
        let (key, value) = verb.annotation(token);
        let patch = json!({"metadata": {"uid": metadata["uid"], "annotations": {key: value}}});
        let parameters = PatchParams {
            dry_run,
            ..PatchParams::default()
        };
        let api: Api<DynamicObject> = self.resource.api_in(&self.client, metadata["namespace"].as_str());
        let name = metadata["name"].as_str().unwrap_or_default();
        bounded(api.patch(name, &parameters, &Patch::Merge(&patch))).await?;
        Ok(())
    }
}

async fn request(verb: Verb, args: &RequestArgs) -> anyhow::Result<()> {
    let kind = RequestedKind::connect(args).await?;
    let mut objects = kind.read(args).await?;
    if args.all {
        check_custom(&kind.group_kind)?;
        if objects.is_empty() {
            note!("No {} is selected.", kind.group_kind);
            return Ok(());
        }
        ensure!(
            objects.iter().any(|object| has_mark(object, STATUS_MANAGER)),
            "no operator has handled one of the {} selected {}: is there a watch for this kind? Name one to write to it anyway",
            objects.len(),
            kind.group_kind
        );
    } else if objects.iter().any(|object| !has_mark(object, STATUS_MANAGER)) {
        note!(
            "warning: no operator has handled this object yet: is there a watch for {}?",
            kind.group_kind
        );
    }
    let is_blocked = |object: &&Value| matches!(verb, Verb::Reconcile | Verb::Force) && is_suspended(object);
    if let Some(blocked) = objects.iter().find(is_blocked).filter(|_| args.wait) {
        let name = describe(&kind.group_kind, blocked);
        bail!("{name} is suspended, so that nothing is carried out: run `chartwright resume` first");
    }
    let token = jiff::Timestamp::now().to_string();
    let (mut failures, count) = (Vec::new(), objects.len());
    let mut written = Vec::new();
    for object in objects.drain(..) {
        let name = describe(&kind.group_kind, &object);
        if let Some(why) = verb.needs_nothing(&object) {
            print_line!("{name} {why}");
            written.push(object);
            continue;
        }
        match kind.write(verb, &object, &token, args.dry_run).await {
            Ok(()) => {
                let dry = if args.dry_run { " (dry run)" } else { "" };
                print_line!("{name} {}{dry}", verb.describe());
                if is_blocked(&&object) {
                    note!("{name} is suspended: the request waits until it is resumed");
                }
                written.push(object);
            }
            Err(error) => {
                let failure = format!("{name}: {error:#}");
                note!("{failure}");
                failures.push(failure);
            }
        }
    }
    if args.wait {
        return wait_for_all(&kind, verb, args, &token, &written, failures).await;
    }
    ensure!(failures.is_empty(), "{} of {count} requests failed", failures.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(ready: &str, more: &Value) -> Value {
        let mut object = json!({
            "metadata": {"name": "web", "namespace": "shop", "generation": 1},
            "status": {"conditions": [
                {"type": "Ready", "status": ready, "reason": "A", "message": "why", "observedGeneration": 1},
            ]},
        });
        json_patch::merge(&mut object, more);
        object
    }

    fn add_condition(object: &mut Value, kind: &str) {
        let conditions = object["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": kind, "status": "True"}));
    }

    #[test]
    fn requests_are_annotations() {
        assert_eq!(Verb::Suspend.annotation("t"), (SUSPEND, Some("true")));
        assert_eq!(Verb::Resume.annotation("t"), (SUSPEND, None));
        assert_eq!(Verb::Reconcile.annotation("t"), (REQUESTED_AT, Some("t")));
        assert_eq!(Verb::Force.annotation("t"), (FORCE_AT, Some("t")));
        let suspended = object("True", &json!({"metadata": {"annotations": {SUSPEND: "1"}}}));
        let running = object("True", &json!({}));
        assert_eq!(Verb::Suspend.needs_nothing(&suspended), Some("is already suspended"));
        assert_eq!(Verb::Resume.needs_nothing(&running), Some("is not suspended"));
        for (verb, object) in [
            (Verb::Suspend, &running),
            (Verb::Resume, &suspended),
            (Verb::Force, &suspended),
        ] {
            assert_eq!(verb.needs_nothing(object), None);
        }
    }

    #[test]
    fn a_request_is_done_when_it_is_handled_and_ready() {
        let waiting = |text: &str| RequestProgress::Waiting(text.to_owned());
        let operator = || waiting("waiting for the operator");
        let done = || RequestProgress::Done("is ready".to_owned());
        let handled = json!({"status": {"lastHandledReconcileAt": "t"}});
        let of = |ready: &str, more: &Value| Verb::Reconcile.progress(&object(ready, more), "t");
        assert_eq!(
            of("True", &json!({"status": {"lastHandledReconcileAt": "s"}})),
            operator()
        );
        assert_eq!(of("True", &handled), done());
        assert_eq!(of("False", &handled), waiting("A: why"));
        let outdated = json!({"metadata": {"generation": 2}, "status": {"lastHandledReconcileAt": "t"}});
        assert_eq!(of("True", &outdated), operator());
        let mut stalled = object("False", &handled);
        add_condition(&mut stalled, "Stalled");
        let failed = RequestProgress::Failed("A: why".to_owned());
        assert_eq!(Verb::Reconcile.progress(&stalled, "t"), failed);
        let forced = json!({"status": {"lastHandledForceAt": "t"}});
        assert_eq!(Verb::Force.progress(&object("True", &forced), "t"), done());
        assert_eq!(Verb::Force.progress(&object("True", &handled), "t"), operator());
        let mut suspended = object("True", &json!({}));
        assert_eq!(Verb::Suspend.progress(&suspended, "t"), operator());
        assert_eq!(Verb::Resume.progress(&suspended, "t"), done());
        add_condition(&mut suspended, "Suspended");
        let is_suspended = RequestProgress::Done("is suspended".to_owned());
        assert_eq!(Verb::Suspend.progress(&suspended, "t"), is_suspended);
        assert_eq!(Verb::Resume.progress(&suspended, "t"), operator());
    }
}
