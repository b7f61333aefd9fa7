//! `chartwright release-finalizers`: removes the finalizer from custom resources that no operator handles.

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
use chartwright_core::prune::{PruneVerdict, Purpose, verdict};
use chartwright_operator::cluster::custom_resource::{list_with_finalizer, remove_finalizer};
use chartwright_operator::cluster::discovery::{Resource, Snapshot};
use chartwright_operator::cluster::{self, Discovery, objects};
use chartwright_operator::reconcile::{CustomResource, MemberScopes};
use chartwright_watches::names::is_built_in;

const EXAMPLES: &str = "\
Examples:
  # Show which custom resources of the cluster would be released
  chartwright release-finalizers --all --dry-run

  # Release a kind whose watch was removed from watches.yaml
  chartwright release-finalizers --kind Memcached --group cache.example.com

  # Release one custom resource whose deletion hangs, and remove our labels from its members
  chartwright release-finalizers --kind Memcached --namespace shop --name web --orphan";

const ABOUT: &str = "\
Remove the finalizer from custom resources that no operator handles

Removes the finalizer chartwright.dev/release from the selected custom resources. Their members and the members' labels stay, \
so that an operator can take them over for a custom resource of the same name. If the custom resource is being deleted, its \
members lose their owner reference, so that the garbage collector does not delete them. If it is not being deleted, the \
members keep the owner reference, and a later deletion makes the garbage collector delete them; --orphan prevents that. First \
stop the operator, or remove the kind from its watches.yaml: an operator that still watches a custom resource adds the \
finalizer again, or deletes the members.";

/// Remove the finalizer from custom resources that no operator handles
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, long_about = ABOUT)]
pub struct ReleaseFinalizersArgs {
    #[command(flatten)]
    selection: ResourceSelection,
    /// Only CRs that are being deleted
    #[arg(long)]
    deleting: bool,
    /// Also remove labels, tracking annotation and owner reference from the members
    #[arg(long)]
    orphan: bool,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Arguments that select custom resources. Each one narrows the selection; at least one is required.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true)]
struct ResourceSelection {
    /// All CRs in the cluster that carry the finalizer
    #[arg(long, conflicts_with_all = ["group", "kind", "namespace", "name"])]
    all: bool,
    /// Only CRs of this API group
    #[arg(long)]
    group: Option<String>,
    /// Only CRs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only CRs in this namespace [default: all]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only CRs of this name
    #[arg(long)]
    name: Option<String>,
}

/// A selected custom resource.
struct FoundResource {
    group_kind: GroupKind,
    resource: Resource,
    custom: CustomResource,
}

pub fn run(args: &ReleaseFinalizersArgs) -> anyhow::Result<()> {
    block_on(release_all(args))
}

async fn release_all(args: &ReleaseFinalizersArgs) -> anyhow::Result<()> {
    let (client, discovery) = cluster::connect_with_discovery(args.kubeconfig.as_deref()).await?;
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
        note!("An operator that still watches a custom resource that is not being deleted adds the finalizer again.");
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

/// Returns one custom resource per finalizer of ours on an object.
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

/// Returns the selected kinds: the given one, or all that are not Kubernetes' own.
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
    let superset = MemberScopes::from_resource(custom);
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

/// Removes our labels and annotations from the members (`Orphan`), or only their owner reference (`Suspended`). Searches all kinds
/// and namespaces that the custom resource lists. Returns the changed members.
async fn orphan_members(
    args: &ReleaseFinalizersArgs,
    client: &Client,
    snapshot: &Snapshot,
    superset: &MemberScopes,
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
        let namespaces: Vec<Option<&str>> = if resource.namespaced {
            superset.namespaces.iter().map(|name| Some(name.as_str())).collect()
        } else {
            vec![None]
        };
        for namespace in namespaces {
            let listed = objects::list_applyset(client, resource, namespace, &owner.set).await;
            for (namespace, name, live) in listed.with_context(|| format!("{kind}"))? {
                let id = ObjectId::new(kind.clone(), namespace, name);
                let verdict = verdict(&id, &live, &owner, purpose);
                if !matches!(verdict, PruneVerdict::Release | PruneVerdict::Disown) {
                    continue;
                }
                let done = match verdict {
                    _ if args.dry_run => objects::DeleteOutcome::Accepted,
                    PruneVerdict::Disown => objects::remove_owner_reference(client, resource, &id, &live).await?,
                    _ => objects::release_member(client, resource, &id, &live, None).await?,
                };
                if done == objects::DeleteOutcome::Changed {
                    bail!("{id} changed during the command; try again");
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
