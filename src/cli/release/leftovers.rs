//! `chartwright leftovers`: what carries an operator's marks though its custom resource is gone.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use clap::Args;
use kube::Client;
use kube::core::ObjectMeta;

use crate::cli::block_on;
use crate::cli::stdout::{note, print_line};
use chartwright_core::identity::applyset::{ID_LABEL, OPERATOR_LABEL};
use chartwright_core::identity::decorator;
use chartwright_core::identity::ownership::{Owner, owner_of};
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::members::Live;
use chartwright_core::members::desired::Stage;
use chartwright_core::prune::{Purpose, Verdict, verdict};
use chartwright_operator::cluster::discovery::Resource;
use chartwright_operator::cluster::storage::secrets::UID_LABEL;
use chartwright_operator::cluster::{self, Discovery, objects};
use chartwright_watches::names::is_built_in;

const EXAMPLES: &str = "\
Examples:
  # What is left in the cluster of custom resources that are gone
  chartwright leftovers

  # Remove what one of them left in a namespace
  chartwright leftovers --namespace shop --uid 0b9e6f3c-0d5e-4d0c-9a6e-6a3a7d9a1f5e --delete";

const ABOUT: &str = "\
List what custom resources left behind that are gone

Lists the objects that carry the label of the operator, and whose custom resource (the UID in their annotation \
chartwright.dev/tracking-id) is not there, and the Secrets that were kept for such a custom resource. It may have been \
deleted while it was suspended, or been freed by release-finalizers, so that they were meant to stay; or it went in spite \
of its finalizer while no operator ran. Nothing is removed without --delete.";

/// List what custom resources left behind that are gone
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, long_about = ABOUT)]
pub struct LeftoversArgs {
    /// Remove them; what is annotated to be kept only loses our marks
    #[arg(long)]
    delete: bool,
    /// Only in this namespace [default: in all, and what has none]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only what the custom resource of this UID left
    #[arg(long)]
    uid: Option<String>,
    /// The operator's name
    #[arg(long, env = "OPERATOR_NAME", default_value = "chartwright")]
    operator_name: String,
    /// The kubeconfig to use [default: KUBECONFIG, else the cluster around the pod, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// One that was found.
struct Leftover {
    resource: Resource,
    id: ObjectId,
    live: Live,
    owner: Owner,
    /// A Secret of the operator's own: no member.
    is_operator_secret: bool,
}

pub fn run(args: &LeftoversArgs) -> anyhow::Result<()> {
    block_on(list_leftovers(args))
}

async fn list_leftovers(args: &LeftoversArgs) -> anyhow::Result<()> {
    let client = cluster::connect(args.kubeconfig.as_deref()).await?;
    let discovery = Discovery::new(client.clone()).await?;
    let snapshot = discovery.snapshot();
    let mut unlisted: Vec<String> = snapshot
        .failed
        .iter()
        .map(|group| format!("API group {group}"))
        .collect();
    let found = find_candidates(args, &client, &discovery, &mut unlisted).await?;
    // After them: a custom resource is older than what was made for it.
    let owners = match found.is_empty() {
        true => HashSet::new(),
        false => list_owner_uids(&client, &discovery).await?,
    };
    let mut left: Vec<Leftover> = found
        .into_iter()
        .filter(|found| !owners.contains(decorator::object_uid(&found.owner.uid)))
        .collect();
    // As a release goes: what others may depend on comes last.
    left.sort_by_cached_key(|found| {
        let turn = (Reverse(Stage::of(&found.id.group_kind)), Reverse(found.live.wave));
        (
            found.owner.uid.clone(),
            found.is_operator_secret,
            turn,
            found.id.clone(),
        )
    });
    let mut failures = 0;
    for found in &left {
        let outcome = match args.delete {
            true => remove_leftover(&client, found).await,
            false => Ok("left"),
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
        note!("Nothing is left of custom resources that are gone.");
    }
    for kind in &unlisted {
        note!("not looked at: {kind}");
    }
    ensure!(
        failures == 0,
        "{failures} of {} objects could not be removed",
        left.len()
    );
    ensure!(unlisted.is_empty(), "not everything could be looked at");
    Ok(())
}

/// Everything that may be left: members, and the Secrets in which the operator keeps what it must know.
async fn find_candidates(
    args: &LeftoversArgs,
    client: &Client,
    discovery: &Discovery,
    unlisted: &mut Vec<String>,
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
                Err(error) => unlisted.push(format!("{group_kind}: {error}")),
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
        let owner = match is_operator_secret {
            true => Owner {
                uid: metadata.labels.as_ref()?.get(UID_LABEL)?.clone(),
                set: String::new(),
            },
            false => owner_of(&id, &live)?,
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

/// The UIDs of all that may be a custom resource of ours: all objects of kinds that aren't Kubernetes' own, and of those
/// what carries the label of an ApplySet's parent, or is decorated.
async fn list_owner_uids(client: &Client, discovery: &Discovery) -> anyhow::Result<HashSet<String>> {
    let (mut uids, snapshot) = (HashSet::new(), discovery.snapshot());
    if !snapshot.is_complete() {
        bail!("which custom resources are there can't be told: not all API groups answer");
    }
    for kind in snapshot.kinds().filter(|(_, resource)| resource.watchable) {
        let group_kind = kind.0;
        let searches: &[&str] = match is_built_in(&group_kind.group) {
            true => &[ID_LABEL, decorator::LABEL],
            false => &[""],
        };
        for labels in searches {
            match objects::list_if_served(client, discovery, kind, None, labels).await {
                Ok(listed) => uids.extend(listed.into_iter().filter_map(|metadata| metadata.uid)),
                Err(error) => bail!("which {group_kind} are there can't be told: {error}"),
            }
        }
    }
    Ok(uids)
}

/// What became of it.
async fn remove_leftover(client: &Client, found: &Leftover) -> anyhow::Result<&'static str> {
    let Leftover {
        resource,
        id,
        live,
        owner,
        is_operator_secret,
    } = found;
    let decided = match is_operator_secret {
        true => Verdict::Delete,
        false => verdict(id, live, owner, Purpose::Delete),
    };
    let (request, done) = match decided {
        Verdict::Delete => (objects::delete(client, resource, id, live).await, "deleted"),
        Verdict::Release => {
            let request = objects::release_member(client, resource, id, live).await;
            (request, "kept, without our marks")
        }
        Verdict::Going => return Ok("being deleted"),
        Verdict::Controlled(_) => return Ok("left: a controller owns it"),
        Verdict::Disown | Verdict::Stay | Verdict::Hold | Verdict::Leave(_) => return Ok("left"),
    };
    match request? {
        objects::DeleteOutcome::Accepted => Ok(done),
        objects::DeleteOutcome::Absent => Ok("gone"),
        objects::DeleteOutcome::Changed => bail!("it was changed meanwhile; try again"),
    }
}
