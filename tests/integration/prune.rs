//! Nothing is pruned on partial knowledge, and never everything at once.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::look::{condition, inventory, says, text, uid};
use crate::operator::{IMPATIENT, Launch};
use crate::support::eventually;
use crate::world::{SOON, Setup, World, member_rule};

#[test]
fn while_a_member_is_refused_by_the_api_server_nothing_is_pruned() -> Result<()> {
    let world = World::new("fail-apply")?;
    let _operator = world.start()?;
    world.install("a", json!({"extra": ["one"]}))?;
    let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, "dta": {"a": "b"}});
    world.edit("a", json!({"extra": ["two"], "extraDeploy": [odd]}))?;
    let message = world.await_stalled("a", "ObjectInvalid")?;
    says(&message, ["templates/extra.yaml", "dta"])?;
    ensure!(
        world.get("configmap", "a-two")?.is_some(),
        "the other members are applied"
    );
    std::thread::sleep(Duration::from_secs(1));
    ensure!(
        world.get("configmap", "a-one")?.is_some(),
        "pruned although a member could not be applied"
    );
    world.update("a", json!({"extraDeploy": []}))?;
    ensure!(world.get("configmap", "a-one")?.is_none() && world.get("configmap", "odd")?.is_none());
    Ok(())
}

#[test]
fn while_a_watch_is_forbidden_nothing_is_pruned() -> Result<()> {
    let world = World::new("fail-unsynced")?;
    let blind = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch", "delete"]});
    world.grant("blind", &[blind])?;
    let operator = world.launch(&IMPATIENT)?;
    world.apply(&world.widget(
        "a",
        json!({"extra": ["one"], "secret": {"enabled": true, "password": "hunter2"}}),
    ))?;
    world.await_object("secret", "a-secret", "is there", |secret| {
        secret["data"]["password"] == "aHVudGVyMg=="
    })?;
    world.await_condition("a", "Deployed", "True")?;
    world.edit("a", json!({"extra": [], "color": "red"}))?;
    world.await_color("a-main", "red")?;
    let told = eventually("the status says why nothing is pruned", Duration::from_secs(10), || {
        let widget = world.expect(&world.widgets(), "a")?;
        let text = widget["status"]["conditions"].to_string();
        Ok(Some(text.contains("not synced") && text.contains("Secret")).filter(|told| *told))
    });
    told.with_context(|| {
        world
            .expect(&world.widgets(), "a")
            .map(|widget| widget["status"].to_string())
            .unwrap_or_default()
    })?;
    ensure!(
        world.get("configmap", "a-one")?.is_some(),
        "pruned on partial knowledge"
    );

    world.grant("seeing", &[member_rule("", "secrets")])?;
    eventually("what had to wait is pruned", SOON, || {
        Ok(world.get("configmap", "a-one")?.is_none().then_some(()))
    })?;
    world.await_ready("a")?;
    ensure!(!operator.log().contains("hunter2"), "a secret value is in the log");
    Ok(())
}

/// The group of a member's kind; in the API server's eyes it moves from a CRD to a Service that isn't there, and back.
#[test]
fn while_an_api_group_does_not_answer_nothing_is_pruned() -> Result<()> {
    let setup = Setup {
        alone: true,
        ..Setup::default()
    };
    let world = World::with("fail-discovery", setup)?;
    world.grant("gizmos", &[member_rule("down.test", "gizmos")])?;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gizmos.down.test"},
        "spec": {
            "group": "down.test", "scope": "Namespaced",
            "names": {"kind": "Gizmo", "plural": "gizmos", "singular": "gizmo", "listKind": "GizmoList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    world.apply(&crd)?;
    world.kubectl.wait("Established", "crd", "gizmos.down.test", SOON)?;
    let operator = world.start()?;
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
    eventually("the group is down", SOON, || {
        Ok(world.list("gizmos.down.test", "").is_err().then_some(()))
    })?;
    // The operator hears of it by a watch, as it does of every APIService.
    std::thread::sleep(Duration::from_secs(4));
    world.update("a", json!({"extra": ["two"], "color": "red", "extraDeploy": []}))?;
    let widget = world.expect(&world.widgets(), "a")?;
    let ready = condition(&widget, "Ready").unwrap_or_default();
    says(text(&ready["message"]), ["down.test"])?;
    ensure!(
        world.expect("configmap", "a-main")?["data"]["color"] == "red",
        "the rest goes on"
    );
    ensure!(
        world.get("configmap", "a-one")?.is_some(),
        "pruned on partial knowledge"
    );
    ensure!(inventory(&widget).contains(&"Gizmo a-gizmo".to_owned()), "{widget}");
    // Of a release that still has one, the other members go on.
    world.edit("c", json!({"extra": ["two"], "color": "red"}))?;
    world.await_color("c-main", "red")?;
    let told = world.await_condition("c", "Ready", "False")?;
    says(text(&told["message"]), ["down.test"])?;
    ensure!(
        world.get("configmap", "c-one")?.is_some(),
        "pruned on partial knowledge"
    );
    let widget = world.expect(&world.widgets(), "c")?;
    ensure!(inventory(&widget).contains(&"Gizmo c-gizmo".to_owned()), "{widget}");
    // What holds a prune back does not hold a deletion: its kinds are known.
    world.install("b", json!({"extra": ["one"]}))?;
    world.delete("b")?;
    ensure!(world.get("configmap", "b-main")?.is_none() && world.get("configmap", "b-one")?.is_none());

    // The API server makes it anew, of the CRD.
    world.kubectl.delete("apiservice", "v1.down.test")?;
    eventually("what had to wait is pruned", Duration::from_secs(75), || {
        Ok(world.get("configmap", "a-one")?.is_none().then_some(()))
    })
    .with_context(|| operator.log())?;
    ensure!(world.get("configmap", "a-two")?.is_some());
    world.await_gone("gizmos.down.test", "a-gizmo")?;
    world.await_gone("configmap", "c-one")?;
    world.await_ready("c")?;
    let gizmo = world.expect("gizmos.down.test", "c-gizmo")?;
    ensure!(uid(&gizmo) == made, "it was made anew");
    Ok(())
}

/// A chart of one member, where `on` says so.
const SWITCH: &str =
    "{{ if .Values.on }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-only'}\n{{ end }}\n";

#[test]
fn an_edit_that_leaves_nothing_to_render_is_carried_out() -> Result<()> {
    let world = World::new("prune-edit")?;
    let chart = world.write_chart("switch", &[("map.yaml", SWITCH)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let operator = world.start()?;
    world.install("a", json!({"on": true}))?;
    world.edit("a", json!({"on": false}))?;
    world.await_gone("configmap", "a-only")?;
    let widget = world.await_ready("a")?;
    ensure!(condition(&widget, "PruneHeld").is_none(), "{widget}");
    ensure!(
        inventory(&widget).is_empty() && widget["status"]["release"]["revision"] == 2,
        "{widget}"
    );
    // Also if nobody was there when it was edited.
    world.edit("a", json!({"on": true}))?;
    world.await_object("configmap", "a-only", "is there", |_| true)?;
    world.await_ready("a")?;
    ensure!(operator.terminate()?.success());
    world.edit("a", json!({"on": false}))?;
    let _operator = world.start()?;
    world.await_gone("configmap", "a-only")?;
    Ok(())
}

#[test]
fn a_chart_that_renders_nothing_any_more_prunes_nothing_unless_it_is_allowed() -> Result<()> {
    let world = World::new("prune-empty")?;
    let chart = world.write_chart("switch", &[("map.yaml", SWITCH)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let operator = world.start()?;
    world.install("a", json!({"on": true}))?;
    ensure!(operator.terminate()?.success());
    fs::write(chart.join("templates/map.yaml"), "{{ if .Values.never }}{{ end }}")?;
    let _operator = world.start()?;
    let held = world.await_condition("a", "PruneHeld", "True")?;
    says(text(&held["message"]), ["chartwright.dev/prune=true"])?;
    let revision = |widget: &Value| widget["status"]["release"]["revision"].clone();
    let before = revision(&world.await_ready("a")?);
    ensure!(world.get("configmap", "a-only")?.is_some());
    // Looking again is no upgrade.
    world.annotate("a", json!({"chartwright.dev/requested-at": "now"}))?;
    eventually("it is looked at again", SOON, || {
        let widget = world.expect(&world.widgets(), "a")?;
        ensure!(widget["status"]["lastHandledReconcileAt"] == "now", "{widget}");
        ensure!(revision(&widget) == before, "{widget}");
        Ok(Some(()))
    })?;
    ensure!(world.get("configmap", "a-only")?.is_some());
    world.annotate("a", json!({"chartwright.dev/prune": "true"}))?;
    world.await_gone("configmap", "a-only")?;
    Ok(())
}

/// A template that asks for an API which is there, and one that is not.
const ASKS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-asks"}
data:
  batch: {{ .Capabilities.APIVersions.Has "batch/v1" | quote }}
  other: {{ .Capabilities.APIVersions.Has "other.test/v1/Other" | quote }}
"#;

#[test]
fn an_api_that_does_not_answer_and_that_nobody_uses_costs_nothing() -> Result<()> {
    let setup = Setup {
        alone: true,
        ..Setup::default()
    };
    let world = World::with("foreign-api", setup)?;
    std::fs::write(world.chart().join("templates/asks.yaml"), ASKS)?;
    let operator = world.launch(&Launch {
        metrics: true,
        ..Launch::default()
    })?;
    world.install("a", json!({"extra": ["one", "two"]}))?;
    world.install("b", json!({}))?;
    // Somebody else's: one kind that comes, and one whose API server is nowhere.
    let renders = || operator.metric("chartwright_render_duration_seconds_count");
    let before = renders()?;
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
    let requests = world.all_requests(&operator, start)?.without_idling();
    ensure!(requests.is_empty(), "{requests}");
    ensure!(renders()? == before, "rendered for an API that nobody asked for");

    world.edit("a", json!({"extra": ["two"]}))?;
    world.await_gone("configmap", "a-one")?;
    let widget = world.await_ready("a")?;
    ensure!(!widget["status"].to_string().contains("nowhere.test"), "{widget}");

    // What was asked for does count.
    world.kubectl.delete("apiservice", "v1.nowhere.test")?;
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "others.other.test"},
        "spec": {
            "group": "other.test", "scope": "Namespaced",
            "names": {"kind": "Other", "plural": "others", "singular": "other", "listKind": "OtherList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    });
    world.apply(&crd)?;
    for name in ["a-asks", "b-asks"] {
        world.await_object("configmap", name, "knows the other kind", |map| {
            map["data"]["other"] == "true"
        })?;
    }
    Ok(())
}
