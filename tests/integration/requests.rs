//! Single requests, where only their preconditions stand between us and somebody else's object.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use chartwright::cluster::custom_resource::{Target, apply_metadata, apply_status};
use chartwright::cluster::objects::{self, Deleted};
use chartwright::cluster::{self, Discovery, Error, Snapshot};
use chartwright::plan::identity::{GroupKind, ObjectId};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::world::World;

fn connect(world: &World, runtime: &Runtime) -> Result<(kube::Client, Arc<Snapshot>)> {
    runtime.block_on(async {
        let client = cluster::connect(Some(world.control_plane.kubeconfig())).await?;
        let discovery = Discovery::new(client.clone()).await?;
        Ok((client, discovery.snapshot()))
    })
}

#[test]
fn a_delete_means_the_object_that_was_looked_at() -> Result<()> {
    let world = World::new("requests-delete")?;
    let runtime = Runtime::new()?;
    let (client, snapshot) = connect(&world, &runtime)?;
    let id = ObjectId::new(GroupKind::new("", "ConfigMap"), &world.name, "a");
    world.run(["create", "configmap", "a"])?;
    let resource = snapshot.preferred(&id.group_kind).context("ConfigMap is served")?;
    let seen = runtime
        .block_on(objects::look(&client, resource, &id))?
        .context("it is there")?;
    world.kubectl.delete("configmap", "a")?;
    world.run(["create", "configmap", "a"])?;

    let gone = runtime.block_on(objects::delete(&client, resource, &id, &seen))?;
    ensure!(
        gone == Deleted::Changed && world.get("configmap", "a")?.is_some(),
        "its successor stays"
    );
    let released = runtime.block_on(objects::release(&client, resource, &id, &seen))?;
    ensure!(released == Deleted::Changed, "its successor keeps its marks");

    let now = runtime
        .block_on(objects::look(&client, resource, &id))?
        .context("it is there")?;
    world.run(["annotate", "configmap", "a", "helm.sh/resource-policy=keep"])?;
    ensure!(
        runtime.block_on(objects::delete(&client, resource, &id, &now))? == Deleted::Changed,
        "the same object in another state may be one that is to be kept"
    );
    let now = runtime
        .block_on(objects::look(&client, resource, &id))?
        .context("it is there")?;
    ensure!(
        runtime.block_on(objects::delete(&client, resource, &id, &now))? == Deleted::Accepted,
        "the one that is there goes"
    );
    world.await_gone("configmap", "a")?;
    let again = runtime.block_on(objects::delete(&client, resource, &id, &now))?;
    ensure!(again == Deleted::Absent, "{again:?}");
    Ok(())
}

#[test]
fn no_write_brings_a_deleted_custom_resource_back() -> Result<()> {
    let world = World::new("requests-uid")?;
    let runtime = Runtime::new()?;
    let (client, snapshot) = connect(&world, &runtime)?;
    world.apply(&world.widget("a", json!({})))?;
    let metadata = world.expect(&world.widgets(), "a")?["metadata"].take();
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let kind = GroupKind::new(world.group(), "Widget");
    let resource = snapshot.resource(&kind, "v1").context("Widget is served")?.clone();
    let target = Target {
        resource,
        namespace: Some(world.name.clone()),
        name: "a".into(),
        uid: text("uid"),
        version: text("resourceVersion").parse()?,
    };
    world.kubectl.delete(&world.widgets(), "a")?;
    let (labels, annotations) = Default::default();
    let claimed = runtime
        .block_on(apply_metadata(&client, &target, &labels, &annotations))
        .map(drop);
    ensure!(matches!(claimed, Err(Error::Conflict(_))), "{claimed:?}");
    let reported = runtime.block_on(apply_status(&client, &target, &json!({}))).map(drop);
    ensure!(reported.is_err(), "{reported:?}");
    ensure!(world.get(&world.widgets(), "a")?.is_none(), "it stays deleted");
    // Nor does its successor get its status, whose subresource would take any UID.
    world.apply(&world.widget("a", json!({})))?;
    let status = json!({"observedGeneration": 1});
    let reported = runtime.block_on(apply_status(&client, &target, &status)).map(drop);
    ensure!(matches!(reported, Err(Error::NotFound(_))), "{reported:?}");
    let successor = world.expect(&world.widgets(), "a")?;
    ensure!(successor["status"].is_null(), "{successor}");
    // Who only lags behind is told what is there now.
    let metadata = &successor["metadata"];
    let late = Target {
        uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
        ..target
    };
    runtime.block_on(apply_status(&client, &late, &status))?;
    let successor = world.expect(&world.widgets(), "a")?;
    ensure!(successor["status"]["observedGeneration"] == 1, "{successor}");
    Ok(())
}
