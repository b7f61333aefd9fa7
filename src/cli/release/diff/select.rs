//! Finds the custom resources to preview, and what they would be.

use anyhow::{Context as _, bail};
use kube::Client;
use serde_json::Value;

use super::DiffArgs;
use super::edit::{FileObject, set_values};
use crate::cli::release::kinds::find_kind;
use crate::cli::release::release_list::{Unlisted, list_resources, read_resource};
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_operator::cluster::connection::bounded;
use chartwright_operator::cluster::connection::url_path::segment;
use chartwright_operator::cluster::discovery::{Resource, Snapshot};
use chartwright_preview::merge;
use chartwright_watches::{Watch, find_watch};
use kube::api::{Api, DynamicObject};

/// A custom resource with its watch.
pub(super) struct DiffTarget {
    pub watch: Watch,
    pub group_kind: GroupKind,
    pub resource: Resource,
    /// `None`: it does not exist yet.
    pub live: Option<Value>,
    /// As it would be.
    pub wanted: Value,
}

/// What is previewed, and kinds that could not be listed.
pub(super) struct Selected {
    pub targets: Vec<DiffTarget>,
    pub unlisted: Unlisted,
}

impl DiffTarget {
    /// Namespace and name.
    pub(super) fn key(&self) -> (String, String) {
        let text = |field: &str| self.wanted["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("namespace"), text("name"))
    }

    /// `Memcached.cache.example.com shop/web`.
    pub(super) fn name(&self) -> String {
        let (namespace, name) = self.key();
        ObjectId::new(self.group_kind.clone(), namespace, name).to_string()
    }
}

/// Finds the custom resources that the arguments name.
pub(super) async fn select(
    args: &DiffArgs,
    watches: &[Watch],
    client: &Client,
    snapshot: &Snapshot,
    files: Option<Vec<FileObject>>,
) -> anyhow::Result<Selected> {
    let mut selected = Selected {
        targets: Vec::new(),
        unlisted: Unlisted::new(),
    };
    match (files, &args.kind, &args.name) {
        (Some(files), ..) => {
            for file in files {
                let target = of_file(args, watches, client, snapshot, &file).await;
                selected.targets.push(target.with_context(|| file.place.clone())?);
            }
        }
        (None, Some(kind), Some(name)) => {
            let (group_kind, resource) = find_kind(snapshot, kind)?;
            let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace());
            let namespace = resource.namespaced.then_some(namespace);
            let live = read_resource(client, (group_kind, resource), namespace, name).await?;
            let watch = watch_of(args, watches, group_kind, resource, &live)?;
            selected
                .targets
                .push(target(args, watch, group_kind, resource, Some(live))?);
        }
        (None, kind, _) => select_all(args, watches, client, snapshot, kind.as_deref(), &mut selected).await?,
    }
    Ok(selected)
}

async fn of_file(
    args: &DiffArgs,
    watches: &[Watch],
    client: &Client,
    snapshot: &Snapshot,
    file: &FileObject,
) -> anyhow::Result<DiffTarget> {
    let (group_kind, version) = GroupKind::of(&file.object).context("apiVersion or kind is missing")?;
    let resource = snapshot.resource(&group_kind, &version);
    let resource = resource.with_context(|| format!("the API server does not serve {group_kind} in {version}"))?;
    let mut object = file.object.clone();
    let default = args.namespace.as_deref().unwrap_or(client.default_namespace());
    if !resource.namespaced {
        object["metadata"]
            .as_object_mut()
            .map(|metadata| metadata.remove("namespace"));
    } else if object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
        object["metadata"]["namespace"] = default.into();
    }
    let text = |field: &str| object["metadata"][field].as_str();
    let api: Api<DynamicObject> = resource.api_in(client, text("namespace"));
    let live = bounded(api.get_opt(&segment(text("name").unwrap_or_default()))).await?;
    let live = live.map(serde_json::to_value).transpose()?;
    let merged = merge(live.as_ref(), &object);
    let watch = watch_of(args, watches, &group_kind, resource, &merged)?;
    let mut target = target(args, watch, &group_kind, resource, live)?;
    target.wanted = merged;
    set_values(&mut target.wanted, &args.values, &args.set)?;
    Ok(target)
}

/// All custom resources of the watches, or of one kind.
async fn select_all(
    args: &DiffArgs,
    watches: &[Watch],
    client: &Client,
    snapshot: &Snapshot,
    kind: Option<&str>,
    selected: &mut Selected,
) -> anyhow::Result<()> {
    let only = kind.map(|kind| find_kind(snapshot, kind)).transpose()?;
    let mut kinds: Vec<(GroupKind, String)> = Vec::new();
    for watch in watches {
        let of_watch = (GroupKind::new(&watch.group, &watch.kind), watch.version.clone());
        if only.is_none_or(|(group_kind, _)| *group_kind == of_watch.0) && !kinds.contains(&of_watch) {
            kinds.push(of_watch);
        }
    }
    if kinds.is_empty() {
        let kind = only.map_or_else(String::new, |(group_kind, _)| format!(" for {group_kind}"));
        bail!("the watches file has no watch{kind}");
    }
    let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace());
    let namespace = (!args.all_namespaces).then_some(namespace);
    for (group_kind, version) in kinds {
        let Some(resource) = snapshot.resource(&group_kind, &version) else {
            bail!("the API server does not serve {group_kind} in {version}, which the watches file has a watch for");
        };
        let mut listed = match list_resources(client, resource, namespace, args.selector.as_deref()).await {
            Ok((listed, _)) => listed,
            Err(error) => {
                selected.unlisted.push((group_kind.to_string(), error));
                continue;
            }
        };
        listed.sort_by_key(|object| {
            (
                object["metadata"]["namespace"].to_string(),
                object["metadata"]["name"].to_string(),
            )
        });
        for mut live in listed {
            live["apiVersion"] = resource.api.api_version.as_str().into();
            live["kind"] = resource.api.kind.as_str().into();
            // A custom resource that no watch selects is no release.
            if let Ok(watch) = watch_of(args, watches, &group_kind, resource, &live) {
                selected
                    .targets
                    .push(target(args, watch, &group_kind, resource, Some(live))?);
            }
        }
    }
    Ok(())
}

fn watch_of<'w>(
    args: &DiffArgs,
    watches: &'w [Watch],
    group_kind: &GroupKind,
    resource: &Resource,
    object: &Value,
) -> anyhow::Result<&'w Watch> {
    let labels = serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default();
    let kind = (
        group_kind.group.as_str(),
        resource.api.version.as_str(),
        group_kind.kind.as_str(),
    );
    find_watch(watches, args.decorator.as_deref(), &kind, &labels).map_err(anyhow::Error::msg)
}

/// A live custom resource with the values of the command line.
fn target(
    args: &DiffArgs,
    watch: &Watch,
    group_kind: &GroupKind,
    resource: &Resource,
    live: Option<Value>,
) -> anyhow::Result<DiffTarget> {
    let mut wanted = live.clone().unwrap_or_default();
    if live.is_some() {
        set_values(&mut wanted, &args.values, &args.set)?;
    }
    Ok(DiffTarget {
        watch: watch.clone(),
        group_kind: group_kind.clone(),
        resource: resource.clone(),
        live,
        wanted,
    })
}
