//! Memcached: a size that people, kubectl and autoscalers set.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{MEMCACHED, System};
use crate::support::until;
use crate::world::SOON;
use crate::world::fields::ensure_contains;

#[test]
fn a_size_out_of_range_is_refused() -> Result<()> {
    let system = System::new("memcached-refused", MEMCACHED)?;
    for size in [0, 6] {
        ensure_contains(&system.refused("none", json!({"size": size}))?, &["spec.size"])?;
    }
    system.install("cache", json!({}))?;
    ensure!(system.live("cache")?["spec"]["size"] == 1);
    system.end()
}

#[test]
fn kubectl_and_autoscalers_set_the_size() -> Result<()> {
    let system = System::new("memcached-scale", MEMCACHED)?;
    let world = &system.world;
    system.install("cache", json!({"size": 2}))?;
    let nodes = |of: i64| json!((0..of).map(|i| format!("cache-memcached-{i}")).collect::<Vec<_>>());
    system.await_status("cache", &[("/nodes", nodes(2)), ("/replicas", json!(2))])?;
    let target = format!("{}/cache", system.resource());
    world.run(["scale", &target, "--replicas=4"])?;
    system.await_status("cache", &[("/nodes", nodes(4)), ("/replicas", json!(4))])?;
    ensure!(system.live("cache")?["spec"]["size"] == 4);
    let beyond = world
        .run(["scale", &target, "--replicas=6"])
        .err()
        .context("it is accepted")?;
    ensure_contains(&format!("{beyond:#}"), &["spec.size"])?;

    // An autoscaler finds the pods by the selector, and sets the size as kubectl does.
    let scale = format!(
        "/apis/{}/v1alpha1/namespaces/{}/memcacheds/cache/scale",
        world.group(),
        world.name
    );
    let scale: Value = serde_json::from_str(&world.run(["get", "--raw", &scale])?)?;
    let selector = "app.kubernetes.io/instance=cache,app.kubernetes.io/name=memcached";
    ensure!(
        scale["status"] == json!({"replicas": 4, "selector": selector}),
        "{scale}"
    );
    let api = format!("{}/v1alpha1", world.group());
    let target = json!({"apiVersion": api, "kind": MEMCACHED, "name": "cache"});
    world.apply(&json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "cache"},
        "spec": {"scaleTargetRef": target, "minReplicas": 5, "maxReplicas": 5},
    }))?;
    // The controller learns of a new kind when it looks for new ones, twice a minute.
    until("the autoscaler has set the size", 3 * SOON, || {
        Ok(system.live("cache")?["spec"]["size"] == 5)
    })?;
    system.await_status("cache", &[("/nodes", nodes(5))])?;
    world.await_quiet(&system.operator)?;
    system.end()
}
