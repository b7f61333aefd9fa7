//! What the operator refuses, though it has the rights: other owners' objects, and what values may not ask for.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::AuditedRequest;
use crate::world::fields::{ensure_contains, is_marked, text, uid};
use crate::world::{World, config_map, objects};

fn may_bind() -> Value {
    json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"]})
}

/// Not about custom resources, nor about their Events.
fn is_elsewhere(request: &AuditedRequest) -> bool {
    !["widgets", "events"].contains(&request.resource.as_str())
}

#[test]
fn a_foreign_object_is_refused_until_it_is_deleted() -> Result<()> {
    let world = World::new("fail-foreign")?;
    world.apply(&config_map("a-main", json!({"color": "blue"})))?;
    let foreign = world.expect("configmap", "a-main")?;
    let operator = world.start_and_settle()?;
    let start = world.mark()?;
    world.apply_widget("a", json!({"extra": ["one"]}))?;
    world.await_stalled("a", "Collision", &["a-main", "exists already"])?;
    std::thread::sleep(Duration::from_secs(2));
    // Equal in every field, resourceVersion and managedFields among them.
    ensure!(world.expect("configmap", "a-main")? == foreign, "it was touched");
    // What was meant to create it was refused, once.
    let tried = world.requests(&operator, start)?.name("a-main").writes();
    ensure!(tried.len() == 1, "{tried}");
    ensure!(tried.iter().all(|request| request.status == 409), "{tried}");

    world.kubectl.delete("configmap", "a-main")?;
    world.await_ready("a")?;
    ensure!(is_marked(&world.expect("configmap", "a-main")?));
    Ok(())
}

#[test]
fn a_foreign_object_outlives_a_release_that_was_refused_it() -> Result<()> {
    let world = World::new("fail-outlive")?;
    world.apply(&config_map("a-main", json!({"mine": "yes"})))?;
    let foreign = world.expect("configmap", "a-main")?;
    let _operator = world.start()?;
    world.apply_widget("a", json!({"extra": ["one"]}))?;
    world.await_stalled("a", "Collision", &[])?;
    world.delete("a")?;
    ensure!(world.expect("configmap", "a-main")? == foreign);
    world.absent("configmap", ["a-one"])?;

    // Another client puts an object in a member's place, with copies of its marks or without: the record is no proof.
    world.install("b", json!({"extra": ["one"]}))?;
    world.suspend("b")?;
    world.kubectl.delete("configmap", "b-one")?;
    world.apply(&config_map("b-one", json!({"mine": "yes"})))?;
    let foreign = world.expect("configmap", "b-one")?;
    let resume = json!({"metadata": {"annotations": {"chartwright.dev/suspend": null}}, "spec": {"extra": []}});
    world.patch_widget("b", &resume)?;
    world.await_ready("b")?;
    ensure!(world.expect("configmap", "b-one")? == foreign);
    world.delete("b")?;
    ensure!(world.expect("configmap", "b-one")? == foreign);
    Ok(())
}

#[test]
fn values_cannot_add_rights_or_reach() -> Result<()> {
    let world = World::new("fail-smuggle")?;
    // Rights that the operator happens to have, so that nothing but its own refusal is in the way.
    let rbac = "rbac.authorization.k8s.io";
    let world = world
        .granted(rbac, "clusterrolebindings")?
        .granted(rbac, "rolebindings")?;
    world.grant("bind", &[may_bind()])?;
    let operator = world.start_and_settle()?;
    let cases = objects("smuggled")?;
    let start = world.mark()?;
    for case in &cases {
        world.apply_widget(text(&case["name"]), json!({"extraDeploy": [case["object"]]}))?;
    }
    for case in &cases {
        let name = text(&case["name"]);
        world.await_stalled(name, "Refused", &[text(&case["advice"]), "templates/extra.yaml"])?;
        // Nor is the rest applied.
        world.absent("configmap", [&format!("{name}-main")])?;
    }
    let writes = world.requests(&operator, start)?.writes();
    writes.filter(is_elsewhere).none()
}

#[test]
fn default_rights_of_the_chart_allow_no_other_rights() -> Result<()> {
    let world = World::of_chart("fail-rights", "binds")?.granted("", "secrets")?;
    let world = world.granted("rbac.authorization.k8s.io", "clusterrolebindings")?;
    world.grant("bind", &[may_bind()])?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    let binding = world.expect("clusterrolebinding", "fail-rights-a")?;
    ensure!(binding["roleRef"]["name"] == "view", "{binding}");
    let common = json!({"annotations": {"example.com/team": "blue"}, "labels": {"team": "blue"}});
    world.install("common", json!({"commonMetadata": common}))?;

    let cases = objects("rights")?;
    for case in &cases {
        world.apply_widget(text(&case["name"]), case["spec"].clone())?;
    }
    for case in &cases {
        let [why, advice] = [0, 1].map(|part| text(&case["says"][part]));
        world.await_stalled(text(&case["name"]), "Refused", &[why, advice])?;
    }
    // So does a release that was permitted before.
    world.apply_widget("a", json!({"account": "default"}))?;
    world.await_stalled("a", "Refused", &[])?;
    ensure!(world.expect("clusterrolebinding", "fail-rights-a")? == binding);
    drop(operator);

    let allow = "allow: {kinds: [ClusterRoleBinding.rbac.authorization.k8s.io/elsewhere]}";
    let world = world.watch_key(allow);
    world.write_watches()?;
    let _operator = world.start()?;
    world.await_ready("name")?;
    world.expect("clusterrolebinding", "elsewhere")?;
    world.await_stalled("extra", "Refused", &[]).map(drop)
}

#[test]
fn a_chart_that_creates_its_own_kind_is_limited_in_depth() -> Result<()> {
    let world = World::of_chart("fail-nested", "bred")?.granted("fail-nested.test", "widgets")?;
    let operator = world.start()?;
    world.apply_widget("a", json!({}))?;
    let deepest = "a-x-x-x-x";
    let made = "Widget.fail-nested.test fail-nested/a-x-x-x made this";
    world.await_stalled(deepest, "Refused", &[made, "set `allow.depth` of the watch to 4"])?;
    world.await_quiet(&operator)?;
    let count = |world: &World| world.list(&world.widgets(), "").map(|widgets| widgets.len());
    ensure!(count(&world)? == 5);
    drop(operator);

    // An operator that starts counts as far.
    let operator = world.start_and_settle()?;
    ensure!(count(&world)? == 5);
    drop(operator);
    let world = world.watch_key("allow: {depth: 5}");
    world.write_watches()?;
    let operator = world.start()?;
    world.await_stalled(&format!("{deepest}-x-x"), "Refused", &[])?;
    world.await_quiet(&operator)?;
    ensure!(count(&world)? == 7);
    world.delete("a")?;
    world.await_deleted(&format!("{deepest}-x-x"))
}

#[test]
fn lookups_of_values_stay_in_the_namespace() -> Result<()> {
    let world = World::new("fail-lookup")?
        .watch_key("lookups: {namespaces: [default]}")
        .granted("", "secrets")?;
    let operator = world.start_and_settle()?;
    let reading = |lookup: &str| {
        let copy = format!("{{{{ {lookup} | toJson }}}}");
        json!({"extraDeploy": [config_map("{{ .Release.Name }}-copy", json!({"copy": copy}))]})
    };
    let start = world.mark()?;
    for case in objects("lookups")? {
        let [name, lookup, reason, ensure_contains] =
            ["name", "lookup", "reason", "says"].map(|field| text(&case[field]));
        world.apply_widget(name, reading(lookup))?;
        world.await_stalled(name, reason, &[ensure_contains])?;
    }
    let requests = world.requests(&operator, start)?;
    requests
        .filter(|request| !["widgets", "events"].contains(&request.resource.as_str()))
        .none()?;

    // Its own namespace, the kinds that show where a chart runs, and what the watch opens.
    world.apply(&config_map("words", json!({"word": "hello"})))?;
    world.install("near", json!({"lookup": "words"}))?;
    ensure!(world.expect("configmap", "near-looked-up")?["data"]["copy"] == "hello");
    // A chart that can't do without finds it, though the first render doesn't.
    let needed = r#"required "no words" (lookup "v1" "ConfigMap" .Release.Namespace "words").data.word"#;
    world.install("needed", reading(needed))?;
    ensure!(world.expect("configmap", "needed-copy")?["data"]["copy"] == "\"hello\"");
    world.apply_widget("missed", reading(&needed.replace("words", "none")))?;
    world.await_stalled("missed", "RenderFailed", &["nil pointer"])?;
    let opened = r#"lookup "v1" "ConfigMap" "default" "kube-root-ca.crt""#;
    world.install("opened", reading(opened))?;
    let copy = world.expect("configmap", "opened-copy")?;
    ensure_contains(text(&copy["data"]["copy"]), &["CERTIFICATE"])
}

#[test]
fn an_object_belongs_to_one_release_at_a_time() -> Result<()> {
    let world = World::new("fail-shared")?.watch_key("allow: {kinds: [PriorityClass.scheduling.k8s.io]}");
    let _operator = world.start()?;
    let map = |color: &str| config_map("shared", json!({"color": color}));
    let class = |value: u32| {
        let metadata = json!({"name": "fail-shared"});
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value})
    };
    for (kind, name, [ours, theirs]) in [
        ("configmap", "shared", [map("blue"), map("red")]),
        ("priorityclass", "fail-shared", [class(5), class(6)]),
    ] {
        world.install("a", json!({"extraDeploy": [ours]}))?;
        let before = world.expect(kind, name)?;
        world.apply_widget("b", json!({"extraDeploy": [theirs]}))?;
        world.await_stalled("b", "Collision", &[name, "another release"])?;
        ensure!(world.expect(kind, name)? == before);
        world.await_ready("a")?;
        // Neither does its end take what is the other's.
        world.delete("b")?;
        ensure!(world.expect(kind, name)? == before);

        world.apply_widget("b", json!({"extraDeploy": [theirs]}))?;
        world.await_stalled("b", "Collision", &[name])?;
        world.delete("a")?;
        world.await_ready("b")?;
        let after = world.expect(kind, name)?;
        ensure!(after["data"] == theirs["data"], "{after}");
        ensure!(after["value"] == theirs["value"], "{after}");
        ensure!(uid(&after) != uid(&before));
        world.delete("b")?;
        world.await_gone(kind, name)?;
    }
    Ok(())
}
