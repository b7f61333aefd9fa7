//! A rollout of a StatefulSet that does not go on by itself. The real StatefulSet controller and the real scheduler act.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::explain;
use crate::support::eventually;
use crate::world::fields::ensure_contains;
use crate::world::{SOON, World};

/// A StatefulSet whose pod needs these labels of a node.
fn stateful_set(nodes: &Value) -> Value {
    let labels = json!({"app": "db"});
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 1, "serviceName": "db", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "nodeSelector": nodes, "terminationGracePeriodSeconds": 0, "containers": [{"name": "db", "image": "example/db"}],
            }},
        },
    })
}

#[test]
fn a_pod_that_its_stateful_set_does_not_replace_is_to_be_deleted() -> Result<()> {
    let world = World::new("explain-stuck")?.granted("apps", "statefulsets")?;
    let _operator = world.start()?;
    let first_lines_with = |words: &str| -> Result<String> {
        eventually("explain names the pod", SOON, || {
            let shown = explain(&world, "a", &[])?;
            let first: Vec<&str> = shown.lines().take(3).collect();
            Ok(first.join("\n").contains(words).then(|| first.join("\n")))
        })
    };
    world.apply_widget("a", json!({"extraDeploy": [stateful_set(&json!({"disk": "fast"}))]}))?;
    let first = first_lines_with("Unschedulable")?;
    ensure!(
        !first.contains("former template") && !first.contains("delete"),
        "{first}"
    );

    world.edit("a", json!({"extraDeploy": [stateful_set(&json!({}))]}))?;
    let first = first_lines_with("the pod still has the former template")?;
    let delete = format!("try: kubectl delete pod db-0 -n {}", world.name);
    ensure_contains(
        &first,
        &[
            "StatefulSet db, Pod db-0: Unschedulable",
            "does not replace a pod that is not ready",
            &delete,
        ],
    )?;
    // The command helps.
    world.run(["delete", "pod", "db-0"])?;
    world.await_ready("a")?;
    Ok(())
}
