//! Objects with `helm.sh/resource-policy: keep` are taken up again by a release of the same name.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::World;
use crate::world::fields::{is_marked, uid};

fn claim() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "{{ .Release.Name }}-data", "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}},
    })
}

#[test]
fn a_kept_object_is_taken_up_again_by_its_release_only() -> Result<()> {
    let world = World::new("kept-again")?.granted("", "persistentvolumeclaims")?;
    let _operator = world.start()?;
    let with_claim = json!({"extraDeploy": [claim()]});
    world.apply_widget("a", with_claim.clone())?;
    let first = uid(&world.await_there("pvc", "a-data")?);
    world.edit("a", json!({"extraDeploy": []}))?;
    world.await_object("pvc", "a-data", "is left behind", |claim| !is_marked(claim))?;
    // Enabled again.
    world.edit("a", with_claim.clone())?;
    world.await_object("pvc", "a-data", "is a member again", is_marked)?;
    // Deleted and created again.
    world.delete("a")?;
    ensure!(!is_marked(&world.expect("pvc", "a-data")?));
    world.apply_widget("a", with_claim)?;
    let again = world.await_object("pvc", "a-data", "is a member again", is_marked)?;
    ensure!(uid(&again) == first, "{again}");
    // Another release may not have it.
    let mut theirs = claim();
    theirs["metadata"]["name"] = "a-data".into();
    world.edit("a", json!({"extraDeploy": []}))?;
    world.await_object("pvc", "a-data", "is left behind", |claim| !is_marked(claim))?;
    world.apply_widget("b", json!({"extraDeploy": [theirs]}))?;
    world
        .await_stalled("b", "Collision", &["a-data", "was not made by this operator"])
        .map(drop)
}
