//! How releases go: the three policies, and everything that may stand in the way. None of it needs chart or values.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::look::{PART_OF, condition, inventory, is_marked, is_ready, label, uid};
use crate::support::eventually;
use crate::world::{SOON, World, member_rule, objects, served_changed};

#[test]
fn a_member_with_a_foreign_finalizer_keeps_nothing_but_itself() -> Result<()> {
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
    world.let_go("configmap", "a-main")?;
    world.await_ready("a")?;
    ensure!(uid(&world.expect("configmap", "a-main")?) != uid(&main));
    Ok(())
}

#[test]
fn wait_for_termination_means_that_the_last_member_is_gone() -> Result<()> {
    let world = World::new("del-wait")?.watch_key("deletionPolicy: WaitForTermination");
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one", "two"]}))?;
    world.hold("configmap", "a-one")?;
    world.kubectl.begin_delete(&world.widgets(), "a")?;
    world.await_unready("a", "Uninstalling", &["ConfigMap del-wait/a-one"])?;
    world.await_gone("configmap", "a-main")?;
    // Its watch tells when it is gone; until then nothing is asked.
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    world.asks_nothing(&operator, 6.0)?;
    let widget = world.expect(&world.widgets(), "a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-one"], "{widget}");
    let deployed = condition(&widget, "Deployed").unwrap_or_default();
    ensure!(deployed["status"] == "False", "{deployed}");
    ensure!(deployed["reason"] == "UninstallSuccessful", "{deployed}");
    world.let_go("configmap", "a-one")?;
    world.await_gone(&world.widgets(), "a")?;
    let deletes = world.requests(&operator, start)?.verb("delete");
    ensure!(deletes.is_empty(), "deleted once is enough:\n{deletes}");

    // operator-sdk's annotation wins over the watch.
    world.install("b", json!({}))?;
    world.annotate("b", json!({"helm.sdk.operatorframework.io/uninstall-wait": "false"}))?;
    world.hold("configmap", "b-main")?;
    world.delete("b")?;
    world.let_go("configmap", "b-main")
}

#[test]
fn the_annotation_of_operator_sdk_makes_a_release_wait() -> Result<()> {
    let world = World::new("del-sdk-wait")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.annotate("a", json!({"helm.sdk.operatorframework.io/uninstall-wait": "true"}))?;
    world.hold("configmap", "a-main")?;
    world.kubectl.begin_delete(&world.widgets(), "a")?;
    world.await_unready("a", "Uninstalling", &["a-main"])?;
    // Nor does a new process forget it.
    operator.kill()?;
    let _operator = world.start_and_settle()?;
    world.expect(&world.widgets(), "a")?;
    world.let_go("configmap", "a-main")?;
    world.await_gone(&world.widgets(), "a")
}

#[test]
fn orphans_stay_as_they_are_without_the_marks_of_a_release() -> Result<()> {
    let world = World::new("del-orphan")?.watch_key("deletionPolicy: Orphan");
    let _operator = world.start()?;
    world.install(
        "a",
        json!({"extra": ["one"], "kept": true, "deployment": {"enabled": true}}),
    )?;
    let names = [
        ("configmap", "a-main"),
        ("configmap", "a-one"),
        ("configmap", "a-kept"),
        ("deployment", "a"),
    ];
    let before: Vec<Value> = names
        .iter()
        .map(|(kind, name)| world.expect(kind, name))
        .collect::<Result<_>>()?;
    world.delete("a")?;
    for ((kind, name), before) in names.iter().zip(before) {
        let after = world.expect(kind, name)?;
        ensure!(!is_marked(&after), "{after}");
        ensure!(uid(&after) == uid(&before));
        ensure!(after["data"] == before["data"]);
        ensure!(after["spec"] == before["spec"]);
        let chart_label = label(&before, "app.kubernetes.io/instance");
        ensure!(label(&after, "app.kubernetes.io/instance") == chart_label, "{after}");
    }
    // Nobody's, from now on: a successor doesn't take what may have another owner by then.
    world.apply_widget("a", json!({}))?;
    world.await_stalled("a", "Collision", &[])?;
    Ok(())
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
    // The garbage collector learns of a new kind every 30 s, and takes its finalizers off only then.
    let minute = Duration::from_secs(75);
    let gone = |name: &str| Ok(world.get(&world.widgets(), name)?.is_none().then_some(()));
    eventually("c is gone at once", SOON, || gone("c"))?;
    eventually("a is gone", minute, || gone("a"))?;
    for name in ["a-main", "a-one"] {
        let orphan = world.expect("configmap", name)?;
        ensure!(!is_marked(&orphan), "{orphan}");
        ensure!(orphan["metadata"]["deletionTimestamp"].is_null(), "{orphan}");
    }
    // Its own finalizer is long gone when its members are.
    eventually("the collector is through with b", minute, || {
        let widget = world.expect(&world.widgets(), "b")?;
        let finalizers = &widget["metadata"]["finalizers"];
        Ok((*finalizers == json!(["chartwright.dev/release"])).then_some(()))
    })?;
    world.absent("configmap", ["b-main"])?;
    world.let_go("configmap", "b-one")?;
    world.await_gone(&world.widgets(), "b")?;
    world.let_go("configmap", "c-one")
}

#[test]
fn a_suspended_release_goes_and_leaves_everything_as_it_is() -> Result<()> {
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
        let strip = |object: &mut Value| {
            let metadata = object["metadata"].as_object_mut();
            metadata.map(|metadata| {
                metadata
                    .retain(|key, _| !["ownerReferences", "resourceVersion", "managedFields"].contains(&key.as_str()))
            })
        };
        let mut after = after.clone();
        ensure!(before["metadata"]["ownerReferences"].is_array() && after["metadata"]["ownerReferences"].is_null());
        strip(&mut before);
        strip(&mut after);
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
fn members_whose_crd_is_gone_keep_no_release() -> Result<()> {
    let world = World::new("del-crdless")?;
    world.install_crd("Gadget")?;
    world.grant("gadgets", &[member_rule(&world.group(), "gadgets")])?;
    let operator = world.start()?;
    let gadget = world.custom("Gadget", "made", json!({}));
    for name in ["a", "b"] {
        let mut gadget = gadget.clone();
        gadget["metadata"]["name"] = name.into();
        world.install(name, json!({"extraDeploy": [gadget]}))?;
    }
    let crd = world.resource("Gadget");
    served_changed();
    world.kubectl.delete("crd", &crd)?;
    world.delete("a")?;
    world.absent("configmap", ["a-main"])?;
    // The same for an operator that has never seen the kind.
    operator.kill()?;
    let _operator = world.start()?;
    world.delete("b")?;
    world.absent("configmap", ["b-main"])
}

#[test]
fn a_namespace_that_terminates_takes_its_releases_along() -> Result<()> {
    let world = World::new("del-namespace")?;
    let operator = world.start()?;
    let elsewhere = world.kubectl.create_namespace("del-namespace-2")?;
    let mut widget = world.widget("a", json!({"extra": ["one"], "deployment": {"enabled": true}}));
    widget["metadata"]["namespace"] = "del-namespace-2".into();
    elsewhere.apply(&widget.to_string())?;
    eventually("it is ready", SOON, || {
        let widget = elsewhere.get(&world.widgets(), "a")?.context("it is there")?;
        Ok(is_ready(&widget).then_some(()))
    })?;
    world.kubectl.begin_delete("namespace", "del-namespace-2")?;
    eventually("the namespace is gone", Duration::from_secs(60), || {
        let space = world.get("namespace", "del-namespace-2")?;
        ensure!(
            space.is_none(),
            "{}\n{}",
            space.unwrap_or_default()["status"],
            operator.log()
        );
        Ok(Some(()))
    })
}

/// Refuses to delete ConfigMaps whose name ends in `-held`, with words of its own.
fn forbid_deletes(world: &World) -> Result<()> {
    let may_go = "!oldObject.metadata.name.endsWith('-held')";
    world.deny("DELETE", may_go, "not before the audit")?;
    world.run(["create", "configmap", "probe-held"])?;
    eventually("the policy is in force", SOON, || {
        let refused = world
            .run(["delete", "configmap", "probe-held", "--dry-run=server"])
            .is_err();
        Ok(refused.then_some(()))
    })
}

#[test]
fn a_refused_delete_is_told_and_tried_again_whether_it_is_a_prune_or_not() -> Result<()> {
    let world = World::new("del-refused")?;
    let operator = world.start()?;
    for name in ["a", "b"] {
        world.install(name, json!({"extra": ["one", "held"]}))?;
    }
    forbid_deletes(&world)?;
    world.kubectl.begin_delete(&world.widgets(), "a")?;
    world.edit("b", json!({"extra": []}))?;
    world.await_unready("a", "DeleteFailed", &["a-held", "not before the audit"])?;
    world.await_event("a", "DeleteFailed", &["not before the audit"])?;
    world.absent("configmap", ["a-one"])?;
    let widget = world.expect(&world.widgets(), "a")?;
    ensure!(inventory(&widget).contains(&"ConfigMap a-held".to_owned()), "{widget}");
    world.await_unready("b", "PruneFailed", &["b-held", "not before the audit"])?;
    let widget = world.expect(&world.widgets(), "b")?;
    ensure!(inventory(&widget) == ["ConfigMap b-held", "ConfigMap b-main"]);
    // A crash doesn't lose it.
    operator.kill()?;
    let _operator = world.start()?;
    world.deny_no_more()?;
    world.await_gone(&world.widgets(), "a")?;
    world.absent("configmap", ["a-held"])?;
    world.await_gone("configmap", "b-held")?;
    let widget = world.await_ready("b")?;
    ensure!(inventory(&widget) == ["ConfigMap b-main"], "{widget}");
    Ok(())
}

#[test]
fn what_a_forged_status_or_annotation_names_is_not_deleted() -> Result<()> {
    let world = World::new("del-forged")?.watch_key("allow: {kinds: [PriorityClass.scheduling.k8s.io]}");
    let operator = world.start()?;
    let other = world.kubectl.create_namespace("del-forged-2")?;
    world.run(["create", "configmap", "victim"])?;
    other.run(["create", "configmap", "victim"])?;
    world.run(["create", "priorityclass", "del-forged-victim", "--value=7"])?;
    world.install("b", json!({}))?;
    let widget = world.install("a", json!({"extra": ["one"]}))?;
    ensure!(operator.terminate()?.success());

    // All that whoever may write this custom resource and its status can say.
    let mut forged = objects("forged-rows")?;
    forged[0]["uid"] = uid(&world.expect("configmap", "victim")?).into();
    forged[1]["uid"] = uid(&world.expect("configmap", "b-main")?).into();
    world
        .kubectl
        .patch_status(&world.widgets(), "a", &json!({"status": {"inventory": forged}}))?;
    let annotations = json!({
        "applyset.kubernetes.io/contains-group-kinds": "ConfigMap,PriorityClass.scheduling.k8s.io,Nothing.nowhere.test",
        "applyset.kubernetes.io/additional-namespaces": "del-forged-2",
    });
    world.patch(
        &world.widgets(),
        "a",
        &json!({"metadata": {"annotations": annotations}}),
    )?;
    // Half a disguise: the label without the annotation that only the operator gives.
    let set = label(&widget, "applyset.kubernetes.io/id")
        .unwrap_or_default()
        .to_owned();
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
fn what_a_forged_status_leaves_out_is_deleted_all_the_same() -> Result<()> {
    let world = World::new("del-emptied")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    ensure!(operator.terminate()?.success());
    world
        .kubectl
        .patch_status(&world.widgets(), "a", &json!({"status": null}))?;
    let _operator = world.start()?;
    world.delete("a")?;
    ensure!(world.labelled("configmaps")?.is_empty());
    Ok(())
}

#[test]
fn a_kind_that_may_not_be_listed_keeps_the_custom_resource_and_is_named() -> Result<()> {
    let world = World::new("del-unlisted")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let kinds =
        |text: &str| json!({"metadata": {"annotations": {"applyset.kubernetes.io/contains-group-kinds": text}}});
    // Nothing of this release is there, but that is not known: the right may have been taken away.
    world.patch(&world.widgets(), "a", &kinds("ConfigMap,Lease.coordination.k8s.io"))?;
    world.kubectl.begin_delete(&world.widgets(), "a")?;
    world.await_unready("a", "DeleteFailed", &["leases"])?;
    world.patch(&world.widgets(), "a", &kinds("ConfigMap"))?;
    world.await_gone(&world.widgets(), "a")?;
    world.absent("configmap", ["a-main"])
}

#[test]
fn a_deletion_asks_for_nothing_that_the_watches_have_told() -> Result<()> {
    let world = World::new("del-cost")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one", "two"], "deployment": {"enabled": true}}))?;
    world.install("b", json!({}))?;
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    world.delete("a")?;
    world.await_quiet(&operator)?;
    let requests = world.requests(&operator, start)?;
    let mut asked: Vec<String> = requests
        .iter()
        .map(|request| format!("{} {}", request.verb, request.resource))
        .collect();
    asked.sort();
    let expected = [
        "create events",
        "delete configmaps",
        "delete configmaps",
        "delete configmaps",
        "delete deployments",
        "patch widgets",
    ];
    ensure!(asked == expected, "{requests}");
    Ok(())
}

#[test]
fn a_member_that_changed_since_its_watch_told_is_looked_at_again() -> Result<()> {
    let world = World::new("del-stale")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    // Kept at the last moment, and handed to somebody else: while the operator can't see it.
    ensure!(operator.terminate()?.success());
    world.kubectl.begin_delete(&world.widgets(), "a")?;
    world.run(["annotate", "configmap", "a-one", "helm.sh/resource-policy=keep"])?;
    world.run([
        "annotate",
        "--overwrite",
        "configmap",
        "a-main",
        "chartwright.dev/tracking-id=x",
    ])?;
    let _operator = world.start()?;
    world.await_gone(&world.widgets(), "a")?;
    ensure!(!is_marked(&world.expect("configmap", "a-one")?));
    world.expect("configmap", "a-main")?;
    Ok(())
}
