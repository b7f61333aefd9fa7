//! `chartwright release-finalizers`: frees custom resources that no operator looks after any more.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use kube::Client;
use kube::api::DynamicObject;
use kube::core::ObjectMeta;

use crate::cli::block_on;
use crate::cli::stdout::{self, note};
use chartwright_core::identity::applyset::{FINALIZER, PART_OF_LABEL};
use chartwright_core::identity::decorator;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::prune::{Purpose, Verdict, verdict};
use chartwright_operator::cluster::custom_resource::{list_with_finalizer, remove_finalizer};
use chartwright_operator::cluster::discovery::{Resource, Snapshot};
use chartwright_operator::cluster::{self, Discovery, objects};
use chartwright_operator::reconcile::{CustomResource, Superset};
use chartwright_watches::names::is_built_in;

const EXAMPLES: &str = "\
Examples:
  # What would be freed, in the whole cluster
  chartwright release-finalizers --all --dry-run

  # A kind whose watch was removed from watches.yaml
  chartwright release-finalizers --kind Memcached --group cache.example.com

  # One custom resource that hangs in its deletion, and take our labels off what it leaves behind
  chartwright release-finalizers --kind Memcached --namespace shop --name web --orphan";

const ABOUT: &str = "\
Free custom resources that no operator looks after any more

Takes the finalizer chartwright.dev/release off the custom resources that are selected. Their members stay, with their \
labels, so that an operator can take them over for a custom resource of the same name: those of one that is being deleted \
lose their owner reference, or the garbage collector would take them. One that is not keeps what it owns, and when it is \
deleted one day, the garbage collector takes what has an owner reference, unless --orphan took that off. Stop the operator \
before, or take the kind out of its watches.yaml: one that still watches a custom resource puts its finalizer \
on again, or would have deleted its members.";

/// Free custom resources that no operator looks after any more
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, long_about = ABOUT)]
pub struct ReleaseFinalizersArgs {
    #[command(flatten)]
    selection: ResourceSelection,
    /// Only those that are being deleted
    #[arg(long)]
    deleting: bool,
    /// Take our labels, our annotation and the owner reference off the members as well, so that nothing takes them for members again
    #[arg(long)]
    orphan: bool,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The kubeconfig to use [default: KUBECONFIG, else the cluster around the pod, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Which custom resources. What is given narrows it; nothing given is wrong use.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true)]
struct ResourceSelection {
    /// Every custom resource that carries the finalizer
    #[arg(long, conflicts_with_all = ["group", "kind", "namespace", "name"])]
    all: bool,
    /// Of this API group
    #[arg(long)]
    group: Option<String>,
    /// Of this kind
    #[arg(long)]
    kind: Option<String>,
    /// In this namespace [default: in all]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Of this name
    #[arg(long)]
    name: Option<String>,
}

/// One that was found.
struct FoundResource {
    group_kind: GroupKind,
    resource: Resource,
    custom: CustomResource,
}

pub fn run(args: &ReleaseFinalizersArgs) -> anyhow::Result<()> {
    block_on(release_all(args))
}

async fn release_all(args: &ReleaseFinalizersArgs) -> anyhow::Result<()> {
    let client = cluster::connect(args.kubeconfig.as_deref()).await?;
    let discovery = Discovery::new(client.clone()).await?;
    let found = find_resources(args, &client, &discovery).await?;
    if found.is_empty() {
        note!("No custom resource with the finalizer {FINALIZER} is selected.");
        return Ok(());
    }
    let mut failures = 0;
    for found in &found {
        match release_one(args, &client, &discovery.snapshot(), found).await {
            Ok(text) => stdout::show(format_args!("{text}")),
            Err(error) => {
                failures += 1;
                note!("{}: {error:#}", describe(found));
            }
        }
    }
    if found.iter().any(|found| !found.custom.deleting) {
        note!("Those that are not being deleted get their finalizer again from any operator that still watches them.");
    }
    if failures > 0 {
        bail!("{failures} of {} custom resources could not be freed", found.len());
    }
    Ok(())
}

async fn find_resources(
    args: &ReleaseFinalizersArgs,
    client: &Client,
    discovery: &Discovery,
) -> anyhow::Result<Vec<FoundResource>> {
    let (selection, snapshot) = (&args.selection, discovery.snapshot());
    let mut found = Vec::new();
    for kind in select_kinds(selection, &snapshot)? {
        let (group_kind, resource) = kind;
        let namespace = selection.namespace.as_deref();
        if namespace.is_some() && !resource.namespaced {
            continue;
        }
        let listed = list_with_finalizer(client, discovery, kind, namespace)
            .await
            .with_context(|| format!("{group_kind}"))?;
        let customs = listed.into_iter().flat_map(split_by_finalizer);
        let selected = customs.filter(|custom| {
            let is_named = selection.name.as_ref().is_none_or(|name| *name == custom.key.name);
            is_named && (custom.deleting || !args.deleting)
        });
        found.extend(selected.map(|custom| FoundResource {
            group_kind: group_kind.clone(),
            resource: resource.clone(),
            custom,
        }));
    }
    Ok(found)
}

/// An object once for each of our finalizers on it.
fn split_by_finalizer(metadata: ObjectMeta) -> Vec<CustomResource> {
    let custom = CustomResource::from(DynamicObject {
        types: None,
        metadata,
        data: serde_json::Value::Null,
    });
    let decorators = custom
        .finalizers
        .iter()
        .filter_map(|name| decorator::of_finalizer(name));
    let decorators = decorators.map(|name| Some(name.into()));
    let usual = custom.has_finalizer().then_some(None);
    let all: Vec<_> = usual.into_iter().chain(decorators).collect();
    all.into_iter()
        .map(|decorator| custom.clone().decorated_by(decorator))
        .collect()
}

/// The kinds that are is_selected: one, or those of them that aren't Kubernetes' own.
fn select_kinds<'s>(
    selection: &ResourceSelection,
    snapshot: &'s Snapshot,
) -> anyhow::Result<Vec<(&'s GroupKind, &'s Resource)>> {
    let is_selected = |group_kind: &GroupKind| {
        selection.group.as_ref().is_none_or(|group| *group == group_kind.group)
            && selection.kind.as_ref().is_none_or(|kind| *kind == group_kind.kind)
    };
    let mut kinds: Vec<_> = snapshot
        .kinds()
        .filter(|(group_kind, _)| is_selected(group_kind))
        .collect();
    kinds.sort_by_key(|(group_kind, _)| *group_kind);
    if kinds.is_empty() {
        let kind = selection.kind.as_deref().unwrap_or("a kind");
        let group = selection.group.as_deref().map(|group| format!(" in group {group}"));
        bail!("the API server does not serve {kind}{}", group.unwrap_or_default());
    }
    if selection.group.is_none() || selection.kind.is_none() {
        kinds.retain(|(group_kind, resource)| resource.watchable && !is_built_in(&group_kind.group));
    }
    Ok(kinds)
}

async fn release_one(
    args: &ReleaseFinalizersArgs,
    client: &Client,
    snapshot: &Snapshot,
    found: &FoundResource,
) -> anyhow::Result<String> {
    let custom = &found.custom;
    let owner = custom.owner(&found.group_kind);
    let mut text = String::new();
    let superset = Superset::of_resource(custom);
    if args.orphan {
        for id in orphan_members(args, client, snapshot, &superset, found, Purpose::Orphan).await? {
            let done = if args.dry_run {
                "would lose its marks"
            } else {
                "stays, without our marks"
            };
            writeln!(text, "  {id}: {done}")?;
        }
    } else if !superset.is_empty() {
        if custom.deleting {
            orphan_members(args, client, snapshot, &superset, found, Purpose::Suspended).await?;
        }
        let kinds: Vec<String> = superset.kinds.iter().map(ToString::to_string).collect();
        writeln!(
            text,
            "  its members stay; to see them: kubectl get {} -A -l {PART_OF_LABEL}={}",
            kinds.join(","),
            owner.set
        )?;
    }
    if let Some(place) = custom.annotations.get(&custom.kept_annotation()) {
        writeln!(text, "  its random results stay: {place}")?;
    }
    if !args.dry_run {
        let target = custom.target(&found.resource);
        remove_finalizer(client, &target, &custom.finalizers, &custom.finalizer()).await?;
    }
    let state = if custom.deleting { ", being deleted" } else { "" };
    let done = if args.dry_run {
        "would be freed (dry run)"
    } else {
        "freed"
    };
    Ok(format!("{}{state}: {done}\n{text}", describe(found)))
}

/// Takes our marks off the members (`Orphan`), or only the reference to their owner (`Suspended`), wherever the custom
/// resource says that there may be any.
async fn orphan_members(
    args: &ReleaseFinalizersArgs,
    client: &Client,
    snapshot: &Snapshot,
    superset: &Superset,
    found: &FoundResource,
    purpose: Purpose,
) -> anyhow::Result<Vec<ObjectId>> {
    let owner = found.custom.owner(&found.group_kind);
    let mut orphans = Vec::new();
    for kind in &superset.kinds {
        // A kind that is no longer served has no objects.
        let Some(resource) = snapshot.preferred(kind) else {
            continue;
        };
        let namespaces: Vec<Option<&str>> = match resource.namespaced {
            true => superset.namespaces.iter().map(|name| Some(name.as_str())).collect(),
            false => vec![None],
        };
        for namespace in namespaces {
            let listed = objects::list_applyset(client, resource, namespace, &owner.set).await;
            for (namespace, name, live) in listed.with_context(|| format!("{kind}"))? {
                let id = ObjectId::new(kind.clone(), namespace, name);
                let verdict = verdict(&id, &live, &owner, purpose);
                if !matches!(verdict, Verdict::Release | Verdict::Disown) {
                    continue;
                }
                let done = match verdict {
                    _ if args.dry_run => objects::DeleteOutcome::Accepted,
                    Verdict::Disown => objects::remove_owner_reference(client, resource, &id, &live).await?,
                    _ => objects::release_member(client, resource, &id, &live).await?,
                };
                if done == objects::DeleteOutcome::Changed {
                    bail!("{id} was changed meanwhile; try again");
                }
                orphans.push(id);
            }
        }
    }
    Ok(orphans)
}

/// `Memcached.cache.example.com shop/web`
fn describe(found: &FoundResource) -> String {
    let decorator = found
        .custom
        .decorator
        .as_ref()
        .map(|name| format!(" (decorator {name})"));
    format!(
        "{} {}{}",
        found.group_kind,
        found.custom.key,
        decorator.unwrap_or_default()
    )
}
