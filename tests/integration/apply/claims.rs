//! Claims in a storage class that binds them when a pod uses them.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::fields::is_ready;
use crate::world::{SOON, World};

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

#[test]
fn a_claim_that_was_enlarged_by_hand_keeps_its_size() -> Result<()> {
    let world = World::new("claims-large")?.granted("", "persistentvolumeclaims")?;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": world.name},
        "provisioner": "example.com/none", "allowVolumeExpansion": true,
    });
    world.apply(&class)?;
    let operator = world.start()?;
    let claim = |size: &str, color: &str| {
        json!({"extraDeploy": [{
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "labels": {"color": color}},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": world.name, "resources": {"requests": {"storage": size}}},
        }]})
    };
    let size = "/spec/resources/requests/storage";
    // Only a bound claim can be enlarged.
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": world.name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": world.name,
            "hostPath": {"path": "/none"}, "claimRef": {"name": "data", "namespace": world.name},
        },
    });
    world.apply(&volume)?;
    world.apply_widget("a", claim("1Gi", "blue"))?;
    eventually("the claim is bound", SOON, || {
        let claim = world.expect("persistentvolumeclaim", "data")?;
        ensure!(claim["status"]["phase"] == "Bound", "{claim}");
        Ok(Some(()))
    })?;
    let edit = json!({
        "metadata": {"labels": {"color": "red"}},
        "spec": {"resources": {"requests": {"storage": "5Gi"}}},
    });
    world.patch("persistentvolumeclaim", "data", &edit)?;
    let live = world.await_field("persistentvolumeclaim", "data", "/metadata/labels/color", "blue")?;
    ensure!(live.pointer(size) == Some(&json!("5Gi")), "{live}");
    let note = world.await_event("a", "DriftCorrected", &["labels.color"])?;
    ensure!(!note.contains("storage"), "{note}");
    world.await_quiet(&operator)?;
    // An edit that requests less than there is, then for more.
    world.edit("a", claim("2Gi", "green"))?;
    let live = world.await_field("persistentvolumeclaim", "data", "/metadata/labels/color", "green")?;
    ensure!(live.pointer(size) == Some(&json!("5Gi")), "{live}");
    world.force("a", "once")?;
    let live = world.expect("persistentvolumeclaim", "data")?;
    ensure!(live.pointer(size) == Some(&json!("5Gi")), "{live}");
    world.edit("a", claim("6Gi", "green"))?;
    world.await_field("persistentvolumeclaim", "data", size, "6Gi")?;
    // The chart itself requests less than its volume has.
    world.edit("a", claim("512Mi", "green"))?;
    world.await_stalled("a", "Immutable", &["spec.resources.requests.storage"])?;
    Ok(())
}
