//! Custom resources that go in spite of their finalizer. A DELETE whose custom resource was read before our finalizer was
//! on it takes it out of etcd after that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chartwright_operator::cluster;
use futures::{StreamExt, TryStreamExt};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::support::eventually;
use crate::world::fields::uid;
use crate::world::operator::METERED;
use crate::world::{SOON, World};

/// How many are created and deleted at the same time.
const AT_ONCE: usize = 16;

/// Creates custom resources and deletes each after its delay, from 0 to 100 ms.
async fn create_and_delete(world: &World, count: u32) -> Result<()> {
    let admin = cluster::connect(Some(world.control_plane.kubeconfig())).await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&world.group(), "v1", "Widget"));
    let api: Api<DynamicObject> = Api::namespaced_with(admin, &world.name, &resource);
    let all = (0..count).map(|number| {
        let api = api.clone();
        async move {
            let name = format!("r{number}");
            let widget = world.widget(&name, json!({"extra": ["one"], "secret": {"enabled": true}}));
            api.create(&PostParams::default(), &serde_json::from_value(widget)?)
                .await?;
            // Neighbours have different delays, so that all see the same load.
            let delay = Duration::from_millis(100) * (number * 37 % 101) / 100;
            tokio::time::sleep(delay).await;
            api.delete(&name, &DeleteParams::default()).await?;
            anyhow::Ok(())
        }
    });
    futures::stream::iter(all).buffer_unordered(AT_ONCE).try_collect().await
}

/// Nothing is left of custom resources that live for a moment.
fn nothing_is_left(name: &str, keys: &[&str], count: u32) -> Result<()> {
    let world = World::new(name)?.granted("", "secrets")?;
    let world = keys.iter().fold(world, |world, key| world.watch_key(key));
    world.add_template("password-only.yaml")?;
    let operator = world.start()?;
    world.install("first", json!({}))?;
    let begun = std::time::Instant::now();
    Runtime::new()?.block_on(create_and_delete(&world, count))?;
    println!("{name}: {count} came and went in {:?}", begun.elapsed());
    let limit = SOON + Duration::from_millis(100) * count;
    eventually("all are gone with all that was theirs", limit, || {
        let widgets = world.list(&world.widgets(), "")?.len();
        let maps = world.labelled("configmaps")?.len();
        let secrets = world.labelled("secrets")?.len();
        let kept = world.list("secrets", "chartwright.dev/release-uid")?.len();
        let left = (widgets, maps, secrets, kept);
        // Custom resources, ConfigMaps, Secrets and what was kept.
        ensure!(left == (1, 1, 1, 1), "{left:?}");
        Ok(Some(()))
    })
    .with_context(|| world.describe_failure(""))?;
    let vanished = operator.log().matches("it went although it had our finalizer").count();
    println!("{name}: {vanished} went although they had their finalizer");
    world.await_quiet(&operator)?;
    world.delete("first")
}

#[test]
fn short_lived_custom_resources_leave_nothing() -> Result<()> {
    nothing_is_left("lost-moment", &[], 150)
}

/// The operator alone.
#[test]
fn short_lived_custom_resources_leave_nothing_without_the_garbage_collector() -> Result<()> {
    nothing_is_left("lost-alone", &["ownerReferences: false"], 150)
}

#[test]
#[ignore = "minutes"]
fn nothing_is_left_of_thousands_of_custom_resources_that_live_for_a_moment() -> Result<()> {
    nothing_is_left("lost-thousands", &[], 3000)?;
    nothing_is_left("lost-thousands-alone", &["ownerReferences: false"], 3000)
}

#[test]
fn a_custom_resource_without_its_finalizer_is_released_and_reported() -> Result<()> {
    let world = World::new("lost-freed")?.watch_key("deletionPolicy: WaitForTermination");
    let world = world.watch_key("ownerReferences: false");
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.hold("configmap", "a-one")?;
    world.begin_delete("a")?;
    world.await_condition("a", "Ready", "False")?;
    world.await_quiet(&operator)?;
    world.remove_finalizers(&world.widgets(), "a")?;
    world.await_event("a", "FinalizerRemoved", &["chartwright leftovers"])?;
    world.remove_finalizers("configmap", "a-one")?;
    world.await_gone("configmap", "a-one")
}

fn leftovers(world: &World, arguments: &[&str]) -> Result<(bool, String)> {
    let (status, text) = world.chartwright(&[&["leftovers", "--operator-name", &world.name], arguments].concat())?;
    Ok((status.success(), text))
}

#[test]
fn leftovers_are_counted_listed_and_removed_on_request() -> Result<()> {
    let world = World::new("lost-leftovers")?.watch_key("ownerReferences: false");
    let operator = world.start()?;
    for name in ["here", "gone", "suspended"] {
        world.install(name, json!({"extra": ["one"], "kept": name == "gone"}))?;
    }
    world.suspend("suspended")?;
    let suspended = uid(&world.live("suspended")?);
    world.delete("suspended")?;
    operator.kill()?;
    // It is deleted while no operator runs.
    world.remove_finalizers(&world.widgets(), "gone")?;
    world.delete("gone")?;
    ensure!(world.labelled("configmaps")?.len() == 7);

    let operator = world.launch(&METERED)?;
    operator.await_log("objects of custom resources that are not there")?;
    world.await_quiet(&operator)?;
    let log = operator.log();
    ensure!(log.contains("ConfigMap lost-leftovers/gone-main"), "{log}");
    ensure!(!log.contains("/here-main"), "{log}");
    ensure!(operator.metric("chartwright_leftovers")? == 5.0);
    ensure!(world.labelled("configmaps")?.len() == 7, "nothing is removed by itself");

    // Other tests have leftovers of their own for a moment.
    let here = ["--namespace", world.name.as_str()];
    let (done, text) = leftovers(&world, &here)?;
    ensure!(done, "{text}");
    ensure!(text.matches(": left").count() == 5, "{text}");
    ensure!(!text.contains("here"), "{text}");
    let (done, text) = leftovers(&world, &[&here[..], &["--delete", "--uid", &suspended]].concat())?;
    ensure!(done && text.matches(": deleted").count() == 2, "{text}");
    ensure!(world.labelled("configmaps")?.len() == 5);
    let (done, text) = leftovers(&world, &[&here[..], &["--delete"]].concat())?;
    ensure!(done && text.matches(": deleted").count() == 2, "{text}");
    ensure!(text.contains("gone-kept: kept, without our marks"), "{text}");
    let (done, text) = leftovers(&world, &here)?;
    ensure!(done && text.contains("No object without its custom resource"), "{text}");
    ensure!(world.labelled("configmaps")?.len() == 2);
    world.expect("configmap", "gone-kept").map(drop)
}
