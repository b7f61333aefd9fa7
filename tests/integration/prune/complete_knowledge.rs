//! Nothing is pruned on partial knowledge, and never all members without permission.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::until;
use crate::world::fields::{condition, ensure_contains, inventory, text, uid};
use crate::world::operator::{IMPATIENT, METERED};
use crate::world::{PROMPT, SOON, World, WorldSetup, crd, member_rule};

#[test]
fn while_a_member_is_refused_by_the_api_server_nothing_is_pruned() -> Result<()> {
    let world = World::new("fail-apply")?;
    let _operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, "dta": {"a": "b"}});
    world.edit("a", json!({"extra": ["two"], "extraDeploy": [odd]}))?;
    world.await_stalled("a", "ObjectInvalid", &["templates/extra.yaml", "dta"])?;
    world.expect("configmap", "a-two")?;
    std::thread::sleep(Duration::from_secs(1));
    world.expect("configmap", "a-one")?;
    world.update("a", json!({"extraDeploy": []}))?;
    world.absent("configmap", ["a-one", "odd"])
}

#[test]
fn while_a_watch_is_forbidden_nothing_is_pruned() -> Result<()> {
    let world = World::new("fail-unsynced")?;
    let blind = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch", "delete"]});
    world.grant("blind", &[blind])?;
    let operator = world.launch(&IMPATIENT)?;
    let spec = json!({"extra": ["one"], "secret": {"enabled": true, "password": "hunter2"}});
    world.apply_widget("a", spec)?;
    world.await_field("secret", "a-secret", "/data/password", "aHVudGVyMg==")?;
    world.await_condition("a", "Deployed", "True")?;
    world.edit("a", json!({"extra": [], "color": "red"}))?;
    world.await_color("a-main", "red")?;
    world.await_object(&world.widgets(), "a", "says why nothing is pruned", |widget| {
        let text = widget["status"]["conditions"].to_string();
        text.contains("not synced") && text.contains("Secret")
    })?;
    world.expect("configmap", "a-one")?;

    world.grant("seeing", &[member_rule("", "secrets")])?;
    // As soon as it works.
    world.await_gone_within(PROMPT, "configmap", "a-one")?;
    world.await_ready("a")?;
    ensure!(!operator.log().contains("hunter2"), "a secret value is in the log");
    Ok(())
}

/// The group of a member's kind; in the API server's eyes it moves from a CRD to a Service that isn't there, and back.
#[test]
fn while_an_api_group_does_not_answer_nothing_is_pruned() -> Result<()> {
    let world = World::with("fail-discovery", WorldSetup::ALONE)?.granted("down.test", "gizmos")?;
    world.serve(&crd("down.test", "Gizmo"))?;
    let _operator = world.start()?;
    let gizmo = json!([{
        "apiVersion": "down.test/v1", "kind": "Gizmo", "metadata": {"name": "{{ .Release.Name }}-gizmo"},
    }]);
    world.install("a", json!({"extra": ["one", "two"], "extraDeploy": gizmo}))?;
    world.install("c", json!({"extra": ["one", "two"], "extraDeploy": gizmo}))?;
    let made = uid(&world.expect("gizmos.down.test", "c-gizmo")?);
    let down = json!({
        "metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
        "spec": {"insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "nowhere"}},
    });
    world.patch("apiservice", "v1.down.test", &down)?;
    let is_down = || Ok(world.list("gizmos.down.test", "").is_err());
    until("the group is down", SOON, is_down)?;
    // The operator hears of it by a watch, as it does of every APIService.
    std::thread::sleep(Duration::from_secs(4));
    world.update("a", json!({"extra": ["two"], "color": "red", "extraDeploy": []}))?;
    let widget = world.live("a")?;
    ensure_contains(text(&condition(&widget, "Ready")["message"]), &["down.test"])?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    world.expect("configmap", "a-one")?;
    ensure!(inventory(&widget).contains(&"Gizmo a-gizmo".to_owned()), "{widget}");
    // Of a release that still has one, the other members go on.
    world.edit("c", json!({"extra": ["two"], "color": "red"}))?;
    world.await_color("c-main", "red")?;
    let ready = world.await_condition("c", "Ready", "False")?;
    ensure_contains(text(&ready["message"]), &["down.test"])?;
    world.expect("configmap", "c-one")?;
    let listed = inventory(&world.live("c")?);
    ensure!(listed.contains(&"Gizmo c-gizmo".to_owned()), "{listed:?}");
    // What holds a prune back does not hold a deletion: its kinds are known.
    world.install("b", json!({"extra": ["one"]}))?;
    world.delete("b")?;
    world.absent("configmap", ["b-main", "b-one"])?;

    // The API server recreates it from the CRD.
    world.kubectl.delete("apiservice", "v1.down.test")?;
    world.await_gone_within(Duration::from_secs(75), "configmap", "a-one")?;
    world.expect("configmap", "a-two")?;
    world.await_gone("gizmos.down.test", "a-gizmo")?;
    world.await_gone("configmap", "c-one")?;
    world.await_ready("c")?;
    ensure!(uid(&world.expect("gizmos.down.test", "c-gizmo")?) == made, "recreated");
    Ok(())
}

#[test]
fn a_spec_edit_to_an_empty_render_prunes_all_members() -> Result<()> {
    let world = World::of_chart("prune-edit", "switch")?;
    let operator = world.start()?;
    world.install("a", json!({"on": true}))?;
    world.edit("a", json!({"on": false}))?;
    world.await_gone("configmap", "a-only")?;
    let widget = world.await_ready("a")?;
    ensure!(condition(&widget, "PruneHeld").is_null(), "{widget}");
    ensure!(inventory(&widget).is_empty(), "{widget}");
    ensure!(widget["status"]["release"]["revision"] == 2, "{widget}");
    // Also if no operator ran when it was edited.
    world.edit("a", json!({"on": true}))?;
    world.await_there("configmap", "a-only")?;
    world.await_ready("a")?;
    ensure!(operator.terminate()?.success());
    world.edit("a", json!({"on": false}))?;
    let _operator = world.start()?;
    world.await_gone("configmap", "a-only")
}

#[test]
fn an_empty_render_prunes_nothing_unless_allowed() -> Result<()> {
    let world = World::of_chart("prune-empty", "switch")?;
    let template = fs::read_to_string(world.chart().join("templates/map.yaml"))?;
    let operator = world.start()?;
    world.install("a", json!({"on": true}))?;
    let made = uid(&world.expect("configmap", "a-only")?);
    ensure!(operator.terminate()?.success());
    world.write_template("map.yaml", "{{ if .Values.never }}{{ end }}")?;
    let operator = world.start()?;
    let held = world.await_condition("a", "PruneHeld", "True")?;
    ensure_contains(text(&held["message"]), &["chartwright.dev/prune=true"])?;
    let revision = |widget: &Value| widget["status"]["release"]["revision"].clone();
    let before = revision(&world.await_ready("a")?);
    // Looking again is no upgrade.
    world.annotate("a", json!({"chartwright.dev/requested-at": "now"}))?;
    let widget = world.await_field(&world.widgets(), "a", "/status/lastHandledReconcileAt", "now")?;
    ensure!(revision(&widget) == before, "{widget}");
    // A new process holds it, too; and nothing is lost when it was a mistake.
    let operator = world.replace_and_settle(operator)?;
    world.expect("configmap", "a-only")?;
    ensure!(operator.terminate()?.success());
    world.write_template("map.yaml", &template)?;
    let operator = world.start()?;
    world.await_released("a")?;
    ensure!(uid(&world.expect("configmap", "a-only")?) == made);
    ensure!(operator.terminate()?.success());

    world.write_template("map.yaml", "")?;
    let _operator = world.start()?;
    world.await_condition("a", "PruneHeld", "True")?;
    world.annotate("a", json!({"chartwright.dev/prune": "true"}))?;
    world.await_gone("configmap", "a-only")
}

#[test]
fn an_unused_api_that_does_not_answer_costs_no_requests() -> Result<()> {
    let world = World::with("foreign-api", WorldSetup::ALONE)?;
    world.add_template("asks.yaml")?;
    let operator = world.launch(&METERED)?;
    world.install("a", json!({"extra": ["one", "two"]}))?;
    world.install("b", json!({}))?;
    // Unrelated kinds: one that appears, and one whose API server does not exist.
    let before = operator.renders()?;
    world.install_crd("Foreign")?;
    let down = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.nowhere.test"},
        "spec": {
            "group": "nowhere.test", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "nowhere"},
        },
    });
    world.kubectl.apply(&down.to_string())?;
    std::thread::sleep(Duration::from_secs(15));
    let start = world.mark()?;
    std::thread::sleep(Duration::from_secs(15));
    world.all_requests(&operator, start)?.without_idling().none()?;
    ensure!(operator.renders()? == before, "rendered for nothing");

    world.edit("a", json!({"extra": ["two"]}))?;
    world.await_gone("configmap", "a-one")?;
    let widget = world.await_ready("a")?;
    ensure!(!widget["status"].to_string().contains("nowhere.test"), "{widget}");

    // A requested change does count.
    world.kubectl.delete("apiservice", "v1.nowhere.test")?;
    world.apply(&crd("other.test", "Other"))?;
    for name in ["a-asks", "b-asks"] {
        world.await_field("configmap", name, "/data/other", "true")?;
    }
    Ok(())
}
