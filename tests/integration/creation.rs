//! An apply creates or changes, whichever it finds to do. Ours says which one it is for, in a way that the API server
//! checks in the same step: no object that somebody puts in a member's place meanwhile is taken for ours (P9).

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use chartwright::cluster::objects::{self, Onto};
use chartwright::cluster::{self, Discovery, Error, Snapshot};
use chartwright::plan::identity::{GroupKind, ObjectId};
use chartwright::plan::members::Live;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::look::uid;
use crate::world::World;

struct Probe<'w> {
    world: &'w World,
    runtime: Runtime,
    client: kube::Client,
    snapshot: Arc<Snapshot>,
}

impl Probe<'_> {
    fn apply(&self, id: &ObjectId, version: &str, object: &Value, onto: Onto<'_>) -> Result<Result<Live, Error>> {
        let resource = self
            .snapshot
            .resource(&id.group_kind, version)
            .with_context(|| format!("{id} is served"))?;
        Ok(self
            .runtime
            .block_on(objects::apply(&self.client, resource, id, object, onto)))
    }

    fn get(&self, id: &ObjectId) -> Result<Option<Value>> {
        self.world.get(&id.group_kind.to_string(), &id.name)
    }
}

fn is_conflict(result: &Result<Live, Error>) -> bool {
    matches!(result, Err(Error::Conflict(_)))
}

/// What controllers do to a new object is none of our business here: its labels and what we add to them are.
fn labels(object: Option<&Value>) -> Value {
    object
        .map(|object| object["metadata"]["labels"].clone())
        .unwrap_or_default()
}

#[test]
fn an_apply_is_for_what_was_seen_whatever_the_kind() -> Result<()> {
    let world = World::new("creation")?;
    let runtime = Runtime::new()?;
    let (client, snapshot) = runtime.block_on(async {
        let client = cluster::connect(Some(world.control_plane.kubeconfig())).await?;
        let discovery = Discovery::new(client.clone()).await?;
        anyhow::Ok((client, discovery.snapshot()))
    })?;
    let probe = Probe {
        world: &world,
        runtime,
        client,
        snapshot,
    };
    let objects: Vec<Value> = serde_yaml::from_str(include_str!("../fixtures/integration/every-kind.yaml"))?;
    for mut object in objects {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let named = format!("{api_version} {kind}");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let group_kind = GroupKind::new(group, kind.as_str());
        let is_namespaced = probe.snapshot.namespaced(&group_kind, version);
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
        let changed = {
            let mut changed = object.clone();
            changed["metadata"]["labels"] = json!({"stolen": "1"});
            changed
        };
        let apply = |object: &Value, onto: Onto<'_>| {
            let answer = probe.apply(&id, version, object, onto);
            answer.with_context(|| named.clone())
        };

        let gone = apply(&changed, Onto::Object("nobody"))?;
        ensure!(is_conflict(&gone), "{named}, which is gone, came back: {gone:?}");
        ensure!(probe.get(&id)?.is_none(), "{named} came back");

        let created = apply(&object, Onto::Nothing)?.with_context(|| format!("{named} is not created"))?;
        let found = probe.get(&id)?.with_context(|| format!("{named} is not there"))?;
        ensure!(
            created.uid == uid(&found) && created.fingerprint.is_some(),
            "{named}: {created:?}"
        );
        let again = apply(&changed, Onto::Nothing)?;
        ensure!(is_conflict(&again), "{named}, which is there, was taken: {again:?}");
        let other = apply(&changed, Onto::Object("8d1b9a1c-0000-4000-8000-000000000000"))?;
        ensure!(is_conflict(&other), "the successor of {named} was taken: {other:?}");
        let after = probe.get(&id)?;
        ensure!(
            labels(after.as_ref()) == labels(Some(&found)),
            "{named} was written: {after:?}"
        );

        let same = apply(&object, Onto::Object(&created.uid))?.with_context(|| format!("{named}, as it is"))?;
        ensure!(
            same.fingerprint == created.fingerprint,
            "{named}: what is a condition became a field"
        );
        if !is_namespaced {
            world.run(["delete", &id.group_kind.to_string(), &id.name, "--wait=false"])?;
        }
    }
    Ok(())
}
