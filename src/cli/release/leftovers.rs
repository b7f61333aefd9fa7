//! `chartwright leftovers`: lists or deletes objects of an operator whose custom resource no longer exists.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use clap::Args;
use kube::Client;
use kube::core::ObjectMeta;

use super::release_list::{Unlisted, describe_unlisted};
use crate::cli::block_on;
use crate::cli::stdout::{note, print_line};
use chartwright_core::identity::applyset::{ID_LABEL, OPERATOR_LABEL};
use chartwright_core::identity::decorator;
use chartwright_core::identity::ownership::{Owner, owner_of};
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::live::Live;
use chartwright_core::members::desired::Stage;
use chartwright_core::prune::{PruneVerdict, Purpose, verdict};
use chartwright_operator::cluster::discovery::Resource;
use chartwright_operator::cluster::storage::secrets::UID_LABEL;
use chartwright_operator::cluster::{self, Discovery, Error, objects};
use chartwright_watches::names::is_built_in;

const EXAMPLES: &str = "\
Examples:
  # List the objects whose custom resource no longer exists
  chartwright leftovers

  # Delete the objects of one custom resource in a namespace
  chartwright leftovers --namespace shop --uid 0b9e6f3c-0d5e-4d0c-9a6e-6a3a7d9a1f5e --delete";

const ABOUT: &str = "\
List objects whose custom resource no longer exists

Lists the objects that carry the label of the operator and whose custom resource (the UID in their annotation \
chartwright.dev/tracking-id) does not exist, and the Secrets that the operator kept for such a custom resource. Possible \
causes: the custom resource was deleted while it was suspended, release-finalizers removed its finalizer, or another client \
removed the finalizer while no operator ran. Without --delete the command changes nothing.";

/// List objects whose custom resource no longer exists
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, long_about = ABOUT)]
pub struct LeftoversArgs {
    /// Delete the objects. An object with the resource policy keep only loses the operator's labels and annotations
    #[arg(long)]
    delete: bool,
    /// Only objects in this namespace [default: all, and cluster-scoped objects]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only objects of the custom resource with this UID [default: all]
    #[arg(long)]
    uid: Option<String>,
    /// The operator's name
    #[arg(long, env = "OPERATOR_NAME", default_value = "chartwright")]
    operator_name: String,
    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// An object whose custom resource may no longer exist.
struct Leftover {
    resource: Resource,
    id: ObjectId,
    live: Live,
    owner: Owner,
    /// A Secret with the operator's own data, not a member.
    is_operator_secret: bool,
}

pub fn run(args: &LeftoversArgs) -> anyhow::Result<()> {
    block_on(list_leftovers(args))
}

async fn list_leftovers(args: &LeftoversArgs) -> anyhow::Result<()> {
    let (client, discovery) = cluster::connect_with_discovery(args.kubeconfig.as_deref()).await?;
    let snapshot = discovery.snapshot();
    let failed = snapshot.failed.iter();
    let mut unlisted: Unlisted = failed
        .map(|group| {
            (
                format!("API group {group}"),
                Error::Unavailable("it does not answer".to_owned()),
            )
        })
        .collect();
    let found = find_candidates(args, &client, &discovery, &mut unlisted).await?;
    // Listed after the members: a custom resource is older than its members.
    let owners = if found.is_empty() {
        HashSet::new()
    } else {
        list_owner_uids(&client, &discovery).await?
    };
    let mut left: Vec<Leftover> = found
        .into_iter()
        .filter(|found| !owners.contains(decorator::object_uid(&found.owner.uid)))
        .collect();
    // In the order in which a release is deleted: objects that others may depend on come last.
    left.sort_by_cached_key(|found| {
        let turn = (Reverse(Stage::of(&found.id.group_kind)), Reverse(found.live.marks.wave));
        (
            found.owner.uid.clone(),
            found.is_operator_secret,
            turn,
            found.id.clone(),
        )
    });
    if let Some(line) = describe_unlisted(&unlisted) {
        note!("{line}");
    }
    let mut failures = 0;
    for found in &left {
        let outcome = if args.delete {
            remove_leftover(&client, found).await
        } else {
            Ok("left")
        };
        match outcome {
            Ok(done) => print_line!(
                "{}: {done} (of the custom resource with UID {})",
                found.id,
                found.owner.uid
            ),
            Err(error) => {
                failures += 1;
                note!("{}: {error:#}", found.id);
            }
        }
    }
    if left.is_empty() {
        note!("{}", describe_none(unlisted.is_empty()));
    }
    ensure!(
        failures == 0,
        "{failures} of {} objects could not be removed",
        left.len()
    );
    ensure!(unlisted.is_empty(), "some kinds could not be listed");
    Ok(())
}

/// The message if nothing was found. `is_complete`: everything could be listed.
fn describe_none(is_complete: bool) -> &'static str {
    if is_complete {
        "No object without its custom resource was found."
    } else {
        "The other kinds have no object without its custom resource."
    }
}

/// Lists possible leftovers: members, and the Secrets with the operator's records.
async fn find_candidates(
    args: &LeftoversArgs,
    client: &Client,
    discovery: &Discovery,
    unlisted: &mut Unlisted,
) -> anyhow::Result<Vec<Leftover>> {
    let snapshot = discovery.snapshot();
    let members = format!("{OPERATOR_LABEL}={}", args.operator_name);
    let secret = GroupKind::new("", "Secret");
    let mut kinds: Vec<_> = snapshot.kinds().filter(|(_, resource)| resource.watchable).collect();
    kinds.sort_by_key(|(group_kind, _)| *group_kind);
    let mut found = Vec::new();
    for kind in kinds {
        let (group_kind, resource) = kind;
        let namespace = args.namespace.as_deref();
        if namespace.is_some() && !resource.namespaced {
            continue;
        }
        let mut searches = vec![(members.as_str(), false)];
        if *group_kind == secret {
            searches.push((UID_LABEL, true));
        }
        for (labels, is_operator_secret) in searches {
            match objects::list_if_served(client, discovery, kind, namespace, labels).await {
                Ok(listed) => {
                    let all = listed.iter();
                    found.extend(
                        all.filter_map(|metadata| Leftover::of(group_kind, resource, metadata, is_operator_secret)),
                    );
                }
                Err(error) => {
                    unlisted.push((group_kind.to_string(), error));
                    break;
                }
            }
        }
    }
    found.retain(|found| {
        args.uid
            .as_ref()
            .is_none_or(|uid| *uid == decorator::object_uid(&found.owner.uid))
    });
    Ok(found)
}

impl Leftover {
    fn of(
        group_kind: &GroupKind,
        resource: &Resource,
        metadata: &ObjectMeta,
        is_operator_secret: bool,
    ) -> Option<Self> {
        let (id, live) = (objects::id_of(group_kind, metadata), objects::live(metadata));
        let owner = if is_operator_secret {
            Owner {
                uid: metadata.labels.as_ref()?.get(UID_LABEL)?.clone(),
                set: String::new(),
            }
        } else {
            owner_of(&id, &live)?
        };
        Some(Leftover {
            resource: resource.clone(),
            id,
            live,
            owner,
            is_operator_secret,
        })
    }
}

/// Lists the UIDs of all possible custom resources: all objects of custom kinds, and the objects of Kubernetes' own kinds that
/// carry the label of an ApplySet parent or of a decorator.
async fn list_owner_uids(client: &Client, discovery: &Discovery) -> anyhow::Result<HashSet<String>> {
    let (mut uids, snapshot) = (HashSet::new(), discovery.snapshot());
    if !snapshot.is_complete() {
        bail!("the custom resources cannot be listed: some API groups do not answer");
    }
    for kind in snapshot.kinds().filter(|(_, resource)| resource.watchable) {
        let group_kind = kind.0;
        let searches: &[&str] = if is_built_in(&group_kind.group) {
            &[ID_LABEL, decorator::LABEL]
        } else {
            &[""]
        };
        for labels in searches {
            match objects::list_if_served(client, discovery, kind, None, labels).await {
                Ok(listed) => uids.extend(listed.into_iter().filter_map(|metadata| metadata.uid)),
                Err(error) => bail!("the objects of kind {group_kind} cannot be listed: {error}"),
            }
        }
    }
    Ok(uids)
}

/// Deletes a leftover, or removes our labels and annotations. Returns a word for the result.
async fn remove_leftover(client: &Client, found: &Leftover) -> anyhow::Result<&'static str> {
    let Leftover {
        resource,
        id,
        live,
        owner,
        is_operator_secret,
    } = found;
    let decided = if *is_operator_secret {
        PruneVerdict::Delete
    } else {
        verdict(id, live, owner, Purpose::Delete)
    };
    let (request, done) = match decided {
        PruneVerdict::Delete => (objects::delete(client, resource, id, live).await, "deleted"),
        PruneVerdict::Release => {
            let request = objects::release_member(client, resource, id, live, None).await;
            (request, "kept, without our marks")
        }
        PruneVerdict::Going => return Ok("being deleted"),
        PruneVerdict::Controlled(_) => return Ok("left: a controller owns it"),
        PruneVerdict::Disown | PruneVerdict::Stay | PruneVerdict::Hold | PruneVerdict::Leave(_) => return Ok("left"),
    };
    match request? {
        objects::DeleteOutcome::Accepted => Ok(done),
        objects::DeleteOutcome::Absent => Ok("gone"),
        objects::DeleteOutcome::Changed => bail!("it changed during the command; try again"),
    }
}
