//! From the first apply of a custom resource to its deletion.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::until;
use crate::world::fields::{
    OPERATOR, PART_OF, TRACKING, annotation, ensure_contains, inventory, is_marked, label, text, uid, versions,
};
use crate::world::{COLLECTED, World, config_map};

#[test]
fn a_release_is_installed_updated_and_deleted() -> Result<()> {
    let world = World::new("life-whole")?;
    world.apply_widget("a", json!({"extra": ["one", "two"]}))?;
    let _operator = world.start()?;
    let widget = world.await_ready("a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-main", "ConfigMap a-one", "ConfigMap a-two"]);
    ensure!(widget["metadata"]["finalizers"] == json!(["chartwright.dev/release"]));
    ensure!(widget["status"]["observedGeneration"] == widget["metadata"]["generation"]);
    let release = &widget["status"]["release"];
    ensure!(release["name"] == "a" && release["namespace"] == world.name.as_str() && release["revision"] == 1);
    ensure!(release["chart"] == "widget" && release["version"] == "1.2.3" && release["appVersion"] == "7");

    let main = world.expect("configmap", "a-main")?;
    ensure!(main["data"] == json!({"color": "blue", "size": "1"}), "{main}");
    ensure!(label(&main, "app.kubernetes.io/instance") == Some("a"), "{main}");
    let set = label(&widget, "applyset.kubernetes.io/id");
    ensure!(set.is_some() && label(&main, PART_OF) == set, "{set:?}: {main}");
    ensure!(label(&main, OPERATOR) == Some(&world.name), "{main}");
    let tracking = format!("{}:ConfigMap:{}/a-main", uid(&widget), world.name);
    ensure!(annotation(&main, TRACKING) == Some(&tracking), "{tracking}: {main}");

    let others = || Ok::<_, anyhow::Error>([world.expect("configmap", "a-one")?, world.expect("configmap", "a-two")?]);
    let before = others()?;
    let widget = world.update("a", json!({"color": "red", "size": 3}))?;
    let main = world.expect("configmap", "a-main")?;
    ensure!(main["data"] == json!({"color": "red", "size": "3"}), "{main}");
    ensure!(widget["status"]["release"]["revision"] == 2, "{widget}");
    ensure!(versions(&before) == versions(&others()?));

    world.delete("a")?;
    ensure!(world.labelled("configmaps")?.is_empty());
    Ok(())
}

#[test]
fn a_value_that_the_chart_never_reads_is_reported_for_each_generation() -> Result<()> {
    let world = World::new("life-unread")?;
    let operator = world.start()?;
    let reports = || operator.log().matches("the chart never reads").count();
    world.install("a", json!({"color": "red"}))?;
    ensure!(reports() == 0, "{}", operator.log());
    world.update("a", json!({"colour": "blue"}))?;
    world.await_event("a", "ValueUnread", &["the chart never reads spec.colour:"])?;
    world.annotate("a", json!({"chartwright.dev/requested-at": "now"}))?;
    world.await_quiet(&operator)?;
    ensure!(reports() == 1, "{}", operator.log());
    world.update("a", json!({"color": "green"}))?;
    ensure!(reports() == 2, "{}", operator.log());
    Ok(())
}

#[test]
fn orphans_are_pruned_single_objects_and_complete_kinds() -> Result<()> {
    let world = World::new("life-prune")?;
    let _operator = world.start()?;
    let widget = world.install("a", json!({"extra": ["one", "two"], "deployment": {"enabled": true}}))?;
    let kinds = "applyset.kubernetes.io/contains-group-kinds";
    ensure!(annotation(&widget, kinds) == Some("ConfigMap,Deployment.apps"));
    // Of the same name as a member might have, and with the labels that the chart gives: still another owner's.
    let mut three = config_map("a-three", json!({}));
    three["metadata"]["labels"] = json!({"app.kubernetes.io/instance": "a"});
    world.apply(&three)?;
    let kept = uid(&world.expect("configmap", "a-two")?);

    let widget = world.update("a", json!({"extra": ["two"]}))?;
    ensure!(inventory(&widget) == ["ConfigMap a-main", "ConfigMap a-two", "Deployment a"]);
    world.absent("configmap", ["a-one"])?;
    ensure!(uid(&world.expect("configmap", "a-two")?) == kept);

    let widget = world.update("a", json!({"deployment": {"enabled": false}}))?;
    world.await_gone("deployment", "a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-main", "ConfigMap a-two"]);
    ensure!(annotation(&widget, kinds) == Some("ConfigMap"));
    ensure!(uid(&world.expect("configmap", "a-two")?) == kept);
    world.expect("configmap", "a-three")?;
    // The garbage collector takes what the Deployment made: it was deleted in the background, not orphaned.
    until("no pods are left", COLLECTED, || {
        Ok(world.list("pods,replicasets", "")?.is_empty())
    })
}

#[test]
fn cluster_scoped_members_are_deleted_and_kept_ones_lose_our_labels() -> Result<()> {
    let world = World::new("life-keep")?.watch_key("allow: {kinds: [PriorityClass.scheduling.k8s.io]}");
    let _operator = world.start()?;
    let class = |name: &str| format!("life-keep-{name}");
    world.install("a", json!({"kept": true, "priorityClass": {"enabled": true}}))?;
    let spec = json!({"kept": true, "priorityClass": {"enabled": true, "keep": true}});
    world.install("b", spec)?;
    ensure!(is_marked(&world.expect("priorityclass", &class("a"))?));

    world.delete("a")?;
    world.await_gone("priorityclass", &class("a"))?;
    world.absent("configmap", ["a-main"])?;
    let kept = world.expect("configmap", "a-kept")?;
    ensure!(!is_marked(&kept) && kept["data"]["kept"] == "yes", "{kept}");

    // The same when the chart no longer renders it.
    world.update("b", json!({"kept": false}))?;
    let kept = world.expect("configmap", "b-kept")?;
    ensure!(!is_marked(&kept), "{kept}");
    world.delete("b")?;
    let kept = world.expect("priorityclass", &class("b"))?;
    ensure!(!is_marked(&kept) && kept["value"] == 10, "{kept}");
    Ok(())
}

#[test]
fn a_member_in_another_namespace_is_created_pruned_and_deleted() -> Result<()> {
    let world = World::new("life-elsewhere")?.watch_key("allow: {namespaces: [life-elsewhere-2]}");
    let elsewhere = world.kubectl.create_namespace("life-elsewhere-2")?;
    let _operator = world.start()?;
    let key = "applyset.kubernetes.io/additional-namespaces";
    let there = || elsewhere.get("configmap", "a-elsewhere");

    let widget = world.install("a", json!({"elsewhere": "life-elsewhere-2"}))?;
    ensure!(there()?.is_some_and(|object| object["data"]["from"] == "life-elsewhere"));
    ensure!(annotation(&widget, key) == Some("life-elsewhere-2"), "{widget}");
    let widget = world.update("a", json!({"elsewhere": ""}))?;
    ensure!(there()?.is_none(), "{widget}");
    ensure!(annotation(&widget, key).unwrap_or_default().is_empty(), "{widget}");
    world.update("a", json!({"elsewhere": "life-elsewhere-2"}))?;
    ensure!(there()?.is_some());
    world.delete("a")?;
    ensure!(there()?.is_none());
    Ok(())
}

#[test]
fn ready_requires_healthy_members() -> Result<()> {
    let world = World::new("life-health")?;
    let operator = world.start()?;
    world.apply_widget("a", json!({"deployment": {"enabled": true, "failing": true}}))?;
    let unready = world.await_condition("a", "Reconciling", "True")?;
    ensure_contains(text(&unready["message"]), &["Deployment a"])?;
    world.await_condition("a", "Ready", "False")?;
    let deployed = world.await_condition("a", "Deployed", "True")?;
    ensure!(deployed["reason"] == "InstallSuccessful", "{deployed}");

    // A new process knows the Deployment from a list, whose items don't say what kind they are.
    drop(operator);
    let _operator = world.start_and_settle()?;
    world.await_unready("a", "Progressing", &[])?;
    // A pod says why, once the Deployment has had its time.
    world.await_object(&world.widgets(), "a", "Ready shows why", |widget| {
        let ready = crate::world::fields::condition(widget, "Ready");
        ready["message"] == "Deployment a: 0 of 1 available: ImagePullBackOff: Back-off pulling image \"example/app:7\""
    })?;

    let widget = world.update("a", json!({"deployment": {"failing": false}}))?;
    let deployment = world.expect("deployment", "a")?;
    ensure!(deployment["status"]["readyReplicas"] == 1, "{deployment}");
    ensure!(
        crate::world::fields::condition(&widget, "Reconciling").is_null(),
        "{widget}"
    );
    Ok(())
}

/// A custom resource that comes at the very moment at which the one before it goes: the operator still has that one in
/// hand, for it writes an Event after its last word.
#[test]
fn a_recreated_custom_resource_is_installed_again() -> Result<()> {
    let world = World::new("life-replace")?;
    let _operator = world.start()?;
    let mut before = world.install("a", json!({"color": "c0"}))?;
    for round in 1..9 {
        let main = uid(&world.expect("configmap", "a-main")?);
        let color = format!("c{round}");
        let widget = world.widget("a", json!({"color": color})).to_string();
        world
            .kubectl
            .run_with_input(["replace", "--force", "-f", "-"], &widget)?;
        let again = world.await_color("a-main", &color)?;
        let after = world.await_ready("a")?;
        ensure!(uid(&after) != uid(&before), "{after}");
        ensure!(after["status"]["release"]["revision"] == 1, "{after}");
        let tracking = annotation(&again, TRACKING).unwrap_or_default();
        ensure!(uid(&again) != main && tracking.starts_with(&uid(&after)), "{again}");
        before = after;
    }
    Ok(())
}
