//! Single requests whose preconditions protect the object of another owner.
//!
//! An apply creates or changes, whichever it finds to do. Ours says which one it is for, in a way that the API server
//! checks in the same step: an object that another client creates in a member's place in between is not taken for ours (P9).

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::live::Live;
use chartwright_operator::cluster::custom_resource::{OwnedMetadata, WriteTarget, apply_metadata, apply_status};
use chartwright_operator::cluster::objects::{self, ApplyTarget, DeleteOutcome};
use chartwright_operator::cluster::{self, Discovery, Error, Snapshot};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::world::fields::{text, uid};
use crate::{world, world::World};

fn connect(world: &World, runtime: &Runtime) -> Result<(kube::Client, Arc<Snapshot>)> {
    runtime.block_on(async {
        let client = cluster::connect(Some(world.control_plane.kubeconfig())).await?;
        let discovery = Discovery::new(client.clone()).await?;
        Ok((client, discovery.snapshot()))
    })
}

#[test]
fn a_delete_names_the_uid_that_was_read() -> Result<()> {
    let world = World::new("requests-delete")?;
    let runtime = Runtime::new()?;
    let (client, snapshot) = connect(&world, &runtime)?;
    let id = ObjectId::new(GroupKind::new("", "ConfigMap"), &world.name, "a");
    world.run(["create", "configmap", "a"])?;
    let resource = snapshot.preferred(&id.group_kind).context("ConfigMap is served")?;
    let look = || {
        runtime
            .block_on(objects::read_live(&client, resource, &id))?
            .context("it is there")
    };
    let delete = |seen: &Live| runtime.block_on(objects::delete(&client, resource, &id, seen));
    let seen = look()?;
    world.kubectl.delete("configmap", "a")?;
    world.run(["create", "configmap", "a"])?;

    ensure!(delete(&seen)? == DeleteOutcome::Changed);
    world.expect("configmap", "a")?;
    let released = runtime.block_on(objects::release_member(&client, resource, &id, &seen, None))?;
    ensure!(released == DeleteOutcome::Changed, "its successor keeps its marks");

    let now = look()?;
    world.run(["annotate", "configmap", "a", "helm.sh/resource-policy=keep"])?;
    // The same object in another state may be one that is to be kept.
    ensure!(delete(&now)? == DeleteOutcome::Changed);
    let now = look()?;
    ensure!(delete(&now)? == DeleteOutcome::Accepted, "the one that is there goes");
    world.await_gone("configmap", "a")?;
    ensure!(delete(&now)? == DeleteOutcome::Absent);
    Ok(())
}

#[test]
fn no_write_recreates_a_deleted_custom_resource() -> Result<()> {
    let world = World::new("requests-uid")?;
    let runtime = Runtime::new()?;
    let (client, snapshot) = connect(&world, &runtime)?;
    world.apply_widget("a", json!({}))?;
    let metadata = world.live("a")?["metadata"].take();
    let kind = GroupKind::new(world.group(), "Widget");
    let resource = snapshot.resource(&kind, "v1").context("Widget is served")?.clone();
    let target = WriteTarget {
        resource,
        namespace: Some(world.name.clone()),
        name: "a".into(),
        uid: text(&metadata["uid"]).to_owned(),
        version: text(&metadata["resourceVersion"]).parse()?,
    };
    world.delete("a")?;
    let claimed = runtime.block_on(apply_metadata(&client, &target, &OwnedMetadata::default(), None));
    ensure!(matches!(claimed, Err(Error::Conflict(_))));
    ensure!(runtime.block_on(apply_status(&client, &target, &json!({}))).is_err());
    world.absent(&world.widgets(), ["a"])?;
    // Nor does its successor get its status, whose subresource would take any UID.
    world.apply_widget("a", json!({}))?;
    let status = json!({"observedGeneration": 1});
    let reported = runtime.block_on(apply_status(&client, &target, &status)).map(drop);
    ensure!(matches!(reported, Err(Error::NotFound(_))), "{reported:?}");
    let successor = world.live("a")?;
    ensure!(successor["status"].is_null(), "{successor}");
    // A client that lags behind receives the live object.
    let late = WriteTarget {
        uid: uid(&successor),
        ..target
    };
    runtime.block_on(apply_status(&client, &late, &status))?;
    let successor = world.live("a")?;
    ensure!(successor["status"]["observedGeneration"] == 1, "{successor}");
    Ok(())
}

fn is_conflict(result: &Result<Live, Error>) -> bool {
    matches!(result, Err(Error::Conflict(_)))
}

#[test]
fn a_ttl_patch_names_the_finished_job() -> Result<()> {
    let world = World::new("requests-ttl")?;
    let runtime = Runtime::new()?;
    let (client, snapshot) = connect(&world, &runtime)?;
    let id = ObjectId::new(GroupKind::new("batch", "Job"), &world.name, "a");
    let resource = snapshot.preferred(&id.group_kind).context("Job is served")?;
    let set = |uid: &str| runtime.block_on(objects::set_ttl(&client, resource, &id, uid, 900));
    ensure!(!set("unknown")?, "it came into being");
    world.run(["create", "job", "a", "--image=example/main"])?;
    ensure!(!set("8d1b9a1c-0000-4000-8000-000000000000")?, "its successor was taken");
    let job = world.expect("job", "a")?;
    ensure!(job["spec"]["ttlSecondsAfterFinished"].is_null(), "{job}");
    ensure!(set(&uid(&job))? && set(&uid(&job))?);
    world
        .await_field("job", "a", "/spec/ttlSecondsAfterFinished", 900)
        .map(drop)
}

/// What controllers do to a new object is none of our business here: its labels and what we add to them are.
fn labels(object: Option<&Value>) -> Value {
    object.map_or(Value::Null, |object| object["metadata"]["labels"].clone())
}

#[test]
fn an_apply_names_the_state_that_was_read_for_every_kind() -> Result<()> {
    let world = World::new("creation")?;
    let runtime = Runtime::new()?;
    let (client, snapshot) = connect(&world, &runtime)?;
    for mut object in world::objects("every-kind")? {
        let [api_version, kind] = ["apiVersion", "kind"].map(|field| text(&object[field]).to_owned());
        let named = format!("{api_version} {kind}");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let group_kind = GroupKind::new(group, kind.as_str());
        let is_namespaced = snapshot.namespaced(&group_kind, version);
        let is_namespaced = is_namespaced.with_context(|| named.clone())?;
        let name = match kind.as_str() {
            "CustomResourceDefinition" => "things.creation.example.com".to_owned(),
            _ => format!("creation-{}", kind.to_lowercase()),
        };
        let id = ObjectId::new(group_kind, if is_namespaced { &world.name } else { "" }, name.as_str());
        object["metadata"] = json!({"name": name, "labels": {"l": "1"}});
        if is_namespaced {
            object["metadata"]["namespace"] = world.name.as_str().into();
        }
        let mut changed = object.clone();
        changed["metadata"]["labels"] = json!({"stolen": "1"});
        let resource = snapshot.resource(&id.group_kind, version);
        let resource = resource.with_context(|| format!("{named} is served"))?;
        let apply =
            |object: &Value, onto| runtime.block_on(objects::apply(&client, resource, &id, &mut object.clone(), onto));
        let get = || world.get(&id.group_kind.to_string(), &id.name);

        let gone = apply(&changed, ApplyTarget::Object("unknown"));
        ensure!(is_conflict(&gone), "{named}, which is gone, came back: {gone:?}");
        ensure!(get()?.is_none(), "{named} came back");

        let created = apply(&object, ApplyTarget::Nothing).with_context(|| format!("{named} is not created"))?;
        let found = get()?.with_context(|| format!("{named} is not there"))?;
        ensure!(created.uid == uid(&found), "{named}: {created:?}");
        ensure!(created.managers.fingerprint.is_some(), "{named}: {created:?}");
        let again = apply(&changed, ApplyTarget::Nothing);
        ensure!(is_conflict(&again), "{named}, which is there, was taken: {again:?}");
        let other = apply(&changed, ApplyTarget::Object("8d1b9a1c-0000-4000-8000-000000000000"));
        ensure!(is_conflict(&other), "the successor of {named} was taken: {other:?}");
        let after = labels(get()?.as_ref());
        ensure!(after == labels(Some(&found)), "{named} was written: {after}");

        let same = apply(&object, ApplyTarget::Object(&created.uid)).with_context(|| format!("{named}, as it is"))?;
        // What is a condition became no field.
        ensure!(same.managers.fingerprint == created.managers.fingerprint, "{named}");
        if !is_namespaced {
            world.run(["delete", &id.group_kind.to_string(), &id.name, "--wait=false"])?;
        }
    }
    Ok(())
}
