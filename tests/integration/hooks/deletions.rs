//! What a deletion does with hooks and plans that have not run, and what remains of the objects of hooks.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::fields::uid;
use crate::world::{HANGS, SOON, World};

fn hook(name: &str, at: &str) -> Value {
    json!({"name": name, "at": at})
}

fn snapshot() -> Value {
    let on_delete = json!({"chartwright.dev/on-delete": "true"});
    json!({"name": "snapshot", "at": "plan-snapshot", "annotations": on_delete})
}

#[test]
fn a_deletion_during_an_installation_runs_the_plans_and_hooks_of_the_deletion() -> Result<()> {
    let world = World::staged("deletions-early", &[], &[])?;
    let operator = world.start()?;
    let mut wait = hook("wait", "pre-install");
    wait["pod"] = json!({HANGS: "true"});
    let hooks = json!([wait, snapshot(), hook("bye", "pre-delete"), hook("gone", "post-delete")]);
    let start = world.mark()?;
    world.apply_widget("a", json!({"hooks": hooks}))?;
    world.await_there("job", "a-wait")?;
    world.await_quiet(&operator)?;
    world.delete("a")?;
    let requests = world.all_requests(&operator, start)?;
    let position = |verb: &str, name: &str| {
        let found = requests
            .iter()
            .position(|request| request.verb == verb && request.name == name);
        found.with_context(|| format!("{verb} {name}:\n{requests}"))
    };
    let order = [
        position("delete", "a-wait")?,
        position("patch", "a-snapshot")?,
        position("patch", "a-bye")?,
        position("patch", "a-gone")?,
    ];
    ensure!(order.is_sorted(), "{requests}");
    ensure!(
        position("patch", "a-main").is_err(),
        "no member was applied:\n{requests}"
    );
    for name in ["a-wait", "a-snapshot", "a-bye", "a-gone"] {
        world.await_gone("job", name)?;
    }
    let mut left = world.list("secrets", "")?;
    left.retain(|secret| secret["type"] == "chartwright.dev/delete-hooks");
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

#[test]
fn a_terminating_namespace_does_not_wait_for_a_plan_on_delete() -> Result<()> {
    let world = World::staged("deletions-namespace", &[], &[])?;
    let operator = world.start()?;
    let start = world.mark()?;
    let elsewhere = world.kubectl.create_namespace("deletions-namespace-2")?;
    let mut widget = world.widget("a", json!({"hooks": [snapshot()]}));
    widget["metadata"]["namespace"] = "deletions-namespace-2".into();
    elsewhere.apply(&widget.to_string())?;
    elsewhere.wait("Ready", &world.widgets(), "a", SOON)?;
    world.kubectl.begin_delete("namespace", "deletions-namespace-2")?;
    eventually("the namespace is gone", Duration::from_secs(60), || {
        let space = world.get("namespace", "deletions-namespace-2")?;
        ensure!(space.is_none(), "{space:?}\n{}", operator.log());
        Ok(Some(()))
    })?;
    let jobs = world.all_requests(&operator, start)?.resource("jobs").verb("patch");
    ensure!(jobs.iter().all(|request| request.status == 403), "the plan ran: {jobs}");
    Ok(())
}

#[test]
fn a_claim_of_a_hook_stays_until_the_release_is_deleted() -> Result<()> {
    let world = World::new("deletions-claim")?.granted("", "persistentvolumeclaims")?;
    let _operator = world.start()?;
    let claim = |name: &str, policy: Value| {
        let mut annotations = json!({
            "helm.sh/hook": "pre-install,pre-upgrade",
            "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
        });
        if !policy.is_null() {
            annotations["helm.sh/resource-policy"] = policy;
        }
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })
    };
    let claims = json!([claim("data", Value::Null), claim("kept", "keep".into())]);
    world.install("a", json!({"extraDeploy": claims}))?;
    let uids = || -> Result<[String; 2]> {
        let claim = |name: &str| world.expect("persistentvolumeclaim", name);
        let (data, kept) = (claim("data")?, claim("kept")?);
        for claim in [&data, &kept] {
            ensure!(claim["metadata"]["deletionTimestamp"].is_null(), "{claim}");
        }
        Ok([uid(&data), uid(&kept)])
    };
    let first = uids()?;
    // The hook runs again, and then the chart drops it.
    for spec in [json!({"color": "red"}), json!({"extraDeploy": []})] {
        world.update("a", spec)?;
        ensure!(uids()? == first);
    }
    world.delete("a")?;
    // Kubernetes protects a claim for a moment.
    world.await_gone("persistentvolumeclaim", "data")?;
    let kept = world.expect("persistentvolumeclaim", "kept")?;
    ensure!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");
    Ok(())
}
