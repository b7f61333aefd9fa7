//! How releases go: the three policies, and everything that may stand in the way. None of it needs chart or values.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::until;
use crate::world::fields::{PART_OF, condition, inventory, is_marked, label, text, uid};
use crate::world::{COLLECTED, SOON, World, objects};

#[test]
fn a_member_with_a_foreign_finalizer_does_not_block_the_deletion() -> Result<()> {
    let world = World::new("del-finalizer")?;
    let _operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.hold("configmap", "a-main")?;
    world.delete("a")?;
    let main = world.expect("configmap", "a-main")?;
    ensure!(!main["metadata"]["deletionTimestamp"].is_null(), "{main}");
    world.absent("configmap", ["a-one"])?;

    // A successor of the same name waits for it, and then has one of its own.
    world.apply_widget("a", json!({}))?;
    world.await_condition("a", "Ready", "False")?;
    world.remove_finalizers("configmap", "a-main")?;
    world.await_ready("a")?;
    ensure!(uid(&world.expect("configmap", "a-main")?) != uid(&main));
    Ok(())
}

#[test]
fn wait_for_termination_waits_for_the_last_member() -> Result<()> {
    let world = World::new("del-wait")?.watch_key("deletionPolicy: WaitForTermination");
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one", "two"]}))?;
    world.hold("configmap", "a-one")?;
    world.begin_delete("a")?;
    world.await_unready("a", "Uninstalling", &["ConfigMap del-wait/a-one"])?;
    world.await_gone("configmap", "a-main")?;
    // Its watch reports when it is gone; until then no request is sent.
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    world.ensure_no_requests(&operator, 6.0)?;
    let widget = world.live("a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-one"], "{widget}");
    let deployed = condition(&widget, "Deployed");
    ensure!(deployed["status"] == "False", "{deployed}");
    ensure!(deployed["reason"] == "UninstallSuccessful", "{deployed}");
    world.remove_finalizers("configmap", "a-one")?;
    world.await_deleted("a")?;
    // Deleted once is enough.
    world.requests(&operator, start)?.verb("delete").none()?;

    // operator-sdk's annotation wins over the watch.
    world.install("b", json!({}))?;
    world.annotate("b", json!({"helm.sdk.operatorframework.io/uninstall-wait": "false"}))?;
    world.hold("configmap", "b-main")?;
    world.delete("b")?;
    world.remove_finalizers("configmap", "b-main")
}

#[test]
fn the_wait_annotation_of_operator_sdk_is_followed() -> Result<()> {
    let world = World::new("del-sdk-wait")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.annotate("a", json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}))?;
    world.hold("configmap", "a-main")?;
    world.begin_delete("a")?;
    world.await_unready("a", "Uninstalling", &["a-main"])?;
    // Nor does a new process forget it.
    let _operator = world.replace_and_settle(operator)?;
    world.live("a")?;
    world.remove_finalizers("configmap", "a-main")?;
    world.await_deleted("a")
}

#[test]
fn orphaned_members_stay_without_release_labels() -> Result<()> {
    let world = World::new("del-orphan")?.watch_key("deletionPolicy: Orphan");
    let _operator = world.start()?;
    let spec = json!({"extra": ["one"], "kept": true, "deployment": {"enabled": true}});
    world.install("a", spec)?;
    let maps = ["a-main", "a-one", "a-kept"].map(|name| world.expect("configmap", name));
    let members = maps.into_iter().chain([world.expect("deployment", "a")]);
    let members = members.collect::<Result<Vec<Value>>>()?;
    world.delete("a")?;
    for before in members {
        let after = world.expect(text(&before["kind"]), text(&before["metadata"]["name"]))?;
        ensure!(!is_marked(&after) && uid(&after) == uid(&before), "{after}");
        ensure!(after["data"] == before["data"] && after["spec"] == before["spec"]);
        let chart_label = label(&before, "app.kubernetes.io/instance");
        ensure!(label(&after, "app.kubernetes.io/instance") == chart_label, "{after}");
    }
    // Without an owner from now on: a successor doesn't adopt it, since it may have another owner by then.
    world.apply_widget("a", json!({}))?;
    world.await_stalled("a", "Collision", &[]).map(drop)
}

#[test]
fn kubectl_cascade_orphan_leaves_the_members_and_foreground_waits_for_them() -> Result<()> {
    let world = World::new("del-cascade")?;
    let _operator = world.start()?;
    for name in ["a", "b", "c"] {
        world.install(name, json!({"extra": ["one"]}))?;
    }
    world.hold("configmap", "b-one")?;
    world.hold("configmap", "c-one")?;
    let cascade = |name: &str, how: &str| world.run(["delete", &world.widgets(), name, "--wait=false", how]);
    cascade("a", "--cascade=orphan")?;
    cascade("b", "--cascade=foreground")?;
    cascade("c", "--cascade=background")?;
    world.await_unready("b", "Uninstalling", &["b-one"])?;
    world.await_deleted("c")?;
    world.await_gone_within(COLLECTED, &world.widgets(), "a")?;
    for name in ["a-main", "a-one"] {
        let orphan = world.expect("configmap", name)?;
        ensure!(!is_marked(&orphan), "{orphan}");
        ensure!(orphan["metadata"]["deletionTimestamp"].is_null(), "{orphan}");
    }
    // Its own finalizer is long gone when its members are.
    until("the collector is through with b", COLLECTED, || {
        let widget = world.live("b")?;
        let finalizers = &widget["metadata"]["finalizers"];
        Ok(*finalizers == json!(["chartwright.dev/release"]))
    })?;
    world.absent("configmap", ["b-main"])?;
    world.remove_finalizers("configmap", "b-one")?;
    world.await_deleted("b")?;
    world.remove_finalizers("configmap", "c-one")
}

#[test]
fn deleting_a_suspended_release_leaves_its_members() -> Result<()> {
    let world = World::new("del-suspended")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.suspend("a")?;
    let before = world.labelled("configmaps")?;
    let start = world.mark()?;
    world.delete("a")?;
    let left = world.labelled("configmaps")?;
    ensure!(left.len() == 2 && before.len() == 2, "{left:?}");
    for (after, mut before) in left.iter().zip(before) {
        // The reference alone goes, or they would go with their owner.
        let mut after = after.clone();
        ensure!(before["metadata"]["ownerReferences"].is_array() && after["metadata"]["ownerReferences"].is_null());
        for field in ["ownerReferences", "resourceVersion", "managedFields"] {
            before["metadata"][field].take();
            after["metadata"][field].take();
        }
        ensure!(after == before, "{after}");
    }
    let writes = world.requests(&operator, start)?.writes().resource("configmaps");
    ensure!(writes.len() == 2, "{writes}");
    // What comes after it under the same name takes them over.
    world.install("a", json!({"extra": ["one"]}))?;
    let after = world.labelled("configmaps")?;
    let uids = |objects: &[Value]| objects.iter().map(uid).collect::<Vec<_>>();
    ensure!(uids(&after) == uids(&left), "{after:?}");
    Ok(())
}

#[test]
fn members_without_their_crd_do_not_block_the_deletion() -> Result<()> {
    let world = World::new("del-crdless")?.with_gadgets()?;
    let operator = world.start()?;
    for name in ["a", "b"] {
        world.install(name, json!({"extraDeploy": [world.custom("Gadget", name, json!({}))]}))?;
    }
    world.kubectl.delete("crd", &world.resource("Gadget"))?;
    world.delete("a")?;
    world.absent("configmap", ["a-main"])?;
    // The same for an operator that has never seen the kind.
    let _operator = world.replace(operator)?;
    world.delete("b")?;
    world.absent("configmap", ["b-main"])
}

#[test]
fn a_terminating_namespace_deletes_its_releases() -> Result<()> {
    let world = World::new("del-namespace")?;
    let _operator = world.start()?;
    let elsewhere = world.kubectl.create_namespace("del-namespace-2")?;
    let mut widget = world.widget("a", json!({"extra": ["one"], "deployment": {"enabled": true}}));
    widget["metadata"]["namespace"] = "del-namespace-2".into();
    elsewhere.apply(&widget.to_string())?;
    elsewhere.wait("Ready", &world.widgets(), "a", SOON)?;
    world.kubectl.begin_delete("namespace", "del-namespace-2")?;
    world.await_gone_within(Duration::from_secs(60), "namespace", "del-namespace-2")
}

/// Refuses to delete ConfigMaps whose name ends in `-held`, with words of its own.
fn forbid_deletes(world: &World) -> Result<()> {
    let may_go = "!oldObject.metadata.name.endsWith('-held')";
    world.deny_writes("DELETE", may_go, "not before the audit")?;
    world.run(["create", "configmap", "probe-held"])?;
    let probe = ["delete", "configmap", "probe-held", "--dry-run=server"];
    until("the policy is in force", SOON, || Ok(world.run(probe).is_err()))
}

#[test]
fn a_refused_delete_is_reported_and_retried() -> Result<()> {
    let world = World::new("del-refused")?;
    let operator = world.start()?;
    for name in ["a", "b"] {
        world.install(name, json!({"extra": ["one", "held"]}))?;
    }
    forbid_deletes(&world)?;
    world.begin_delete("a")?;
    world.edit("b", json!({"extra": []}))?;
    world.await_unready("a", "DeleteFailed", &["a-held", "not before the audit"])?;
    world.await_event("a", "DeleteFailed", &["not before the audit"])?;
    world.absent("configmap", ["a-one"])?;
    let widget = world.live("a")?;
    ensure!(inventory(&widget).contains(&"ConfigMap a-held".to_owned()), "{widget}");
    world.await_unready("b", "PruneFailed", &["b-held", "not before the audit"])?;
    let widget = world.live("b")?;
    ensure!(inventory(&widget) == ["ConfigMap b-held", "ConfigMap b-main"]);
    // A crash doesn't lose it.
    let _operator = world.replace(operator)?;
    world.allow_writes()?;
    world.await_deleted("a")?;
    world.absent("configmap", ["a-held"])?;
    world.await_gone("configmap", "b-held")?;
    let widget = world.await_ready("b")?;
    ensure!(inventory(&widget) == ["ConfigMap b-main"], "{widget}");
    Ok(())
}

#[test]
fn foreign_objects_named_in_a_forged_status_are_not_deleted() -> Result<()> {
    let world = World::new("del-forged")?.watch_key("allow: {kinds: [PriorityClass.scheduling.k8s.io]}");
    let operator = world.start()?;
    let other = world.kubectl.create_namespace("del-forged-2")?;
    world.run(["create", "configmap", "victim"])?;
    other.run(["create", "configmap", "victim"])?;
    world.run(["create", "priorityclass", "del-forged-victim", "--value=7"])?;
    world.install("b", json!({}))?;
    let widget = world.install("a", json!({"extra": ["one"]}))?;
    ensure!(operator.terminate()?.success());

    // Everything that a writer of this custom resource and its status can set.
    let mut forged = objects("forged-rows")?;
    forged[0]["uid"] = uid(&world.expect("configmap", "victim")?).into();
    forged[1]["uid"] = uid(&world.expect("configmap", "b-main")?).into();
    world.patch_status("a", &json!({"status": {"inventory": forged}}))?;
    let annotations = json!({
        "applyset.kubernetes.io/contains-group-kinds": "ConfigMap,PriorityClass.scheduling.k8s.io,Nothing.nowhere.test",
        "applyset.kubernetes.io/additional-namespaces": "del-forged-2",
    });
    world.annotate("a", annotations)?;
    // Half a disguise: the label without the annotation that only the operator gives.
    let set = label(&widget, "applyset.kubernetes.io/id");
    let disguise = json!({"metadata": {"labels": {PART_OF: set, "chartwright.dev/operator": world.name}}});
    other.patch("configmap", "victim", &disguise)?;

    let _operator = world.start()?;
    // First as a prune, then as a deletion.
    world.update("a", json!({"color": "red", "extra": []}))?;
    world.delete("a")?;
    world.absent("configmap", ["a-main", "a-one"])?;
    for (kubectl, kind, name) in [
        (&world.kubectl, "configmap", "victim"),
        (&other, "configmap", "victim"),
        (&world.kubectl, "priorityclass", "del-forged-victim"),
        (&world.kubectl, "configmap", "b-main"),
    ] {
        ensure!(kubectl.get(kind, name)?.is_some(), "{kind} {name} is gone");
    }
    Ok(())
}

#[test]
fn members_missing_from_a_forged_status_are_deleted() -> Result<()> {
    let world = World::new("del-emptied")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    ensure!(operator.terminate()?.success());
    world.patch_status("a", &json!({"status": null}))?;
    let _operator = world.start()?;
    world.delete("a")?;
    ensure!(world.labelled("configmaps")?.is_empty());
    Ok(())
}

#[test]
fn a_kind_that_cannot_be_listed_keeps_the_custom_resource_and_is_reported() -> Result<()> {
    let world = World::new("del-unlisted")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let kinds = |text: &str| json!({"applyset.kubernetes.io/contains-group-kinds": text});
    // Nothing of this release is there, but that is not known: the right may have been taken away.
    world.annotate("a", kinds("ConfigMap,Lease.coordination.k8s.io"))?;
    world.begin_delete("a")?;
    world.await_unready("a", "DeleteFailed", &["leases"])?;
    world.annotate("a", kinds("ConfigMap"))?;
    world.await_deleted("a")?;
    world.absent("configmap", ["a-main"])
}

#[test]
fn a_deletion_reads_nothing_that_the_caches_hold() -> Result<()> {
    let world = World::new("del-cost")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one", "two"], "deployment": {"enabled": true}}))?;
    world.install("b", json!({}))?;
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    world.delete("a")?;
    let requests = world.requests_until_quiet(&operator, start)?;
    requests.are("create events, 3 delete configmaps, delete deployments, patch widgets")
}

#[test]
fn a_member_that_changed_since_its_watch_event_is_read_again() -> Result<()> {
    let world = World::new("del-stale")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    // Kept at the last moment, and given to another owner, while the operator can't see it.
    ensure!(operator.terminate()?.success());
    world.begin_delete("a")?;
    world.run(["annotate", "configmap", "a-one", "helm.sh/resource-policy=keep"])?;
    let theirs = json!({"metadata": {"annotations": {"chartwright.dev/tracking-id": "x"}}});
    world.patch("configmap", "a-main", &theirs)?;
    let _operator = world.start()?;
    world.await_deleted("a")?;
    ensure!(!is_marked(&world.expect("configmap", "a-one")?));
    // The garbage collector has no reason to delete it.
    let main = world.expect("configmap", "a-main")?;
    ensure!(main["metadata"]["ownerReferences"].is_null(), "{main}");
    Ok(())
}
