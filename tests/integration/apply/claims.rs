//! Claims in a storage class that binds them when a pod uses them.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::World;
use crate::world::fields::is_ready;

fn class(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer",
    })
}

#[test]
fn a_claim_that_waits_for_its_first_pod_holds_neither_waves_nor_readiness() -> Result<()> {
    let world = World::new("claims-first")?.granted("", "persistentvolumeclaims")?;
    world.apply(&class(&world.name))?;
    let _operator = world.start()?;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": world.name, "resources": {"requests": {"storage": "1Gi"}}},
    });
    let later = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later", "annotations": {"chartwright.dev/wave": "1"}},
    });
    world.apply_widget("a", json!({"extraDeploy": [claim, later]}))?;
    world.await_there("configmap", "later")?;
    eventually("ready without a pod", Duration::from_secs(60), || {
        let widget = world.live("a")?;
        ensure!(is_ready(&widget), "{}", widget["status"]);
        Ok(Some(()))
    })
}

#[test]
fn a_claim_that_nothing_provisions_says_why() -> Result<()> {
    let world = World::new("claims-why")?.granted("", "persistentvolumeclaims")?;
    let _operator = world.start()?;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "no-such-class", "resources": {"requests": {"storage": "1Gi"}}},
    });
    world.apply_widget("a", json!({"extraDeploy": [claim]}))?;
    world
        .await_unready("a", "Progressing", &["data", "no-such-class"])
        .map(drop)
}
