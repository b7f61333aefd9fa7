//! Which custom resources an operator looks after, and which of several operators does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::{AuditedRequest, eventually, until};
use crate::world::fields::{ensure_contains, inventory, text, uid, versions};
use crate::world::operator::{ELECTED, Launch, METERED, UNELECTED};
use crate::world::{PROMPT, SOON, World, WorldSetup, member_rule};

#[test]
fn one_of_two_replicas_works_and_the_other_takes_over() -> Result<()> {
    let world = World::new("scope-leader")?;
    let replica = |replica: usize| world.launch(&Launch { replica, ..ELECTED });
    let first = replica(1)?;
    world.install("a", json!({}))?;
    let start = world.mark()?;
    let second = replica(2)?;
    world.install("b", json!({}))?;
    std::thread::sleep(Duration::from_secs(3));
    world.requests(&second, start)?.none()?;
    let waiting = world.all_requests(&second, start)?.resource("leases");
    ensure!(!waiting.is_empty(), "it does not even look at the lease");

    first.kill()?;
    world.apply_widget("c", json!({}))?;
    // The lease lasts fifteen seconds.
    let works = || Ok(world.get("configmap", "c-main")?.is_some());
    until("the other replica works", Duration::from_secs(45), works)?;
    world.await_ready("c")?;
    ensure!(!world.requests(&second, start)?.writes().is_empty());

    let third = replica(3)?;
    third.await_log("lease")?;
    let stopped = Instant::now();
    ensure!(second.terminate()?.success());
    world.apply_widget("d", json!({}))?;
    world.await_ready("d")?;
    let took = stopped.elapsed();
    ensure!(took < Duration::from_secs(12), "the lease was not given back: {took:?}");
    Ok(())
}

#[test]
fn the_operator_waits_for_a_missing_crd() -> Result<()> {
    let world = World::with("scope-late", WorldSetup::NO_CRD)?;
    let mut operator = world.start()?;
    operator.await_log("waiting for its CustomResourceDefinition")?;
    std::thread::sleep(Duration::from_secs(1));
    ensure!(operator.is_running());
    world.install_crd("Widget")?;
    world.install("a", json!({"extra": ["one"]}))?;

    // The same for the kind of a member.
    world.grant("gadgets", &[member_rule(&world.group(), "gadgets")])?;
    let gadget = world.custom("Gadget", "made", json!({"by": "a"}));
    world.edit("a", json!({"extraDeploy": [gadget], "color": "red", "extra": []}))?;
    let waiting = world.await_condition("a", "Reconciling", "True")?;
    ensure!(waiting["reason"] == "KindUnknown", "{waiting}");
    ensure_contains(text(&waiting["message"]), &["Gadget", "templates/extra.yaml"])?;
    world.await_event("a", "KindUnknown", &["Gadget", "templates/extra.yaml"])?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    world.expect("configmap", "a-one")?;
    world.install_crd("Gadget")?;
    let begun = Instant::now();
    let widget = world.await_ready("a")?;
    // Its watch reports it, long before the next resync.
    ensure!(begun.elapsed() < Duration::from_secs(20), "after {:?}", begun.elapsed());
    ensure!(inventory(&widget) == ["ConfigMap a-main", "Gadget made"], "{widget}");

    // And when the CRD goes and comes again, there is nothing left over, and all is well.
    world.delete("a")?;
    world.control_plane.kubectl().delete("crd", &world.widgets())?;
    operator.await_log("no longer serves")?;
    world.install_crd("Widget")?;
    world.install("b", json!({}))?;
    ensure!(operator.is_running());
    Ok(())
}

fn is_untouched(widget: &Value) -> Result<()> {
    let (status, finalizers) = (&widget["status"], &widget["metadata"]["finalizers"]);
    ensure!(status.is_null() && finalizers.is_null(), "{widget}");
    Ok(())
}

/// The operator has rights in these namespaces and nowhere else.
fn confined(name: &str, also: &[&str]) -> Result<()> {
    let mut namespaces = vec![name];
    namespaces.extend(also);
    let outside = format!("{name}-outside");
    let kubectl = crate::support::ControlPlane::shared().kubectl();
    for namespace in also.iter().copied().chain([outside.as_str()]) {
        kubectl.create_namespace(namespace)?;
    }
    let world = World::with(name, WorldSetup::only_in(&namespaces))?;
    let widget = |namespace: &str| {
        let mut widget = world.widget("a", json!({"extra": ["one"]}));
        widget["metadata"]["namespace"] = namespace.into();
        widget.to_string()
    };
    let start = world.mark()?;
    let value = namespaces.join(",");
    let operator = world.launch(&Launch::with(&[("WATCH_NAMESPACE", &value)]))?;
    kubectl.apply(&widget(&outside))?;
    for namespace in &namespaces {
        let place = kubectl.in_namespace(namespace);
        place.apply(&widget(namespace))?;
        place.wait("Ready", &world.widgets(), "a", SOON)?;
        let has_one = || Ok(place.get("configmap", "a-one")?.is_some());
        place.run(["delete", "configmap", "a-one"])?;
        until("a member is back", PROMPT, has_one)?;
        place.patch(&world.widgets(), "a", &json!({"spec": {"extra": []}}))?;
        until("a member is pruned", PROMPT, || Ok(!has_one()?))?;
        place.delete(&world.widgets(), "a")?;
        ensure!(place.get("configmap", "a-main")?.is_none());
    }
    let untouched = kubectl.in_namespace(&outside).get(&world.widgets(), "a")?;
    is_untouched(&untouched.context("it is gone")?)?;
    let requests = world.all_requests(&operator, start)?;
    let beyond = requests.filter(|request| {
        let ours = ["widgets", "configmaps", "secrets", "events", "leases"].contains(&request.resource.as_str());
        ours && !namespaces.contains(&request.namespace.as_str())
    });
    ensure!(beyond.is_empty(), "outside its namespaces:\n{beyond}");
    Ok(())
}

#[test]
fn watch_namespace_confines_the_operator_to_one() -> Result<()> {
    confined("scope-one", &[])
}

#[test]
fn watch_namespace_confines_the_operator_to_several() -> Result<()> {
    confined("scope-two", &["scope-two-b"])
}

#[test]
fn a_selector_applies_to_new_releases_and_keeps_existing_ones() -> Result<()> {
    let world = World::new("scope-selector")?.watch_key("selector: {matchLabels: {team: blue}}");
    let operator = world.start()?;
    let start = world.mark()?;
    world.apply_widget("other", json!({}))?;
    world.apply_widget("a", json!({}))?;
    let team = |team: Value| world.patch_widget("a", &json!({"metadata": {"labels": {"team": team}}}));
    team("blue".into())?;
    world.await_ready("a")?;
    is_untouched(&world.live("other")?)?;
    world.requests(&operator, start)?.name("other").none()?;

    // Its members exist, so the operator keeps reconciling them.
    team(Value::Null)?;
    world.update("a", json!({"color": "red"}))?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    world.delete("a")?;
    world.absent("configmap", ["a-main"])?;
    world.delete("other")
}

#[test]
fn cluster_scoped_custom_resources_have_a_target_namespace() -> Result<()> {
    let world = World::with("scope-cluster", WorldSetup::CLUSTER_SCOPED)?;
    let operator = world.start()?;
    world.apply_widget("one", json!({}))?;
    world.await_stalled("one", "ValuesInvalid", &["targetNamespace"])?;
    ensure!(operator.terminate()?.success());

    world.kubectl.create_namespace("scope-cluster-one")?;
    let world = world.watch_key("targetNamespace: \"scope-cluster-{{ .metadata.name }}\"");
    world.write_watches()?;
    let _operator = world.start()?;
    // What carries reach is theirs to create: who may make cluster-scoped objects has that right anyway.
    world.edit("one", json!({"extra": ["two"], "priorityClass": {"enabled": true}}))?;
    let widget = world.await_ready("one")?;
    ensure!(widget["status"]["release"]["namespace"] == "scope-cluster-one");
    let target = world.kubectl.in_namespace("scope-cluster-one");
    ensure!(target.get("configmap", "one-main")?.is_some() && target.get("configmap", "one-two")?.is_some());
    target.run(["delete", "configmap", "one-main"])?;
    world.await_object("namespace", "scope-cluster-one", "has its member back", |_| {
        matches!(target.get("configmap", "one-main"), Ok(Some(_)))
    })?;
    world.update("one", json!({"extra": []}))?;
    ensure!(target.get("configmap", "one-two")?.is_none());
    world.delete("one")?;
    ensure!(target.get("configmap", "one-main")?.is_none());
    world.await_gone("priorityclass", "scope-cluster-one-one")
}

#[test]
fn a_custom_resource_name_cannot_move_a_release_to_another_namespace() -> Result<()> {
    let world = World::new("scope-target")?;
    let chart = world.chart();
    let of_allowed = |allowed: &str| {
        let allow = format!("allow: {{namespaces: [{allowed}]}}");
        world.write_watches_of(&[("Widget", &chart, &["targetNamespace: '{{ .metadata.name }}'", &allow])])
    };
    world.kubectl.create_namespace("scope-target-2")?;
    of_allowed("none")?;
    let operator = world.start_and_settle()?;
    let start = world.mark()?;
    for name in ["kube-system", "scope-target-2"] {
        // Nothing is read there, either.
        world.apply_widget(name, json!({"lookup": "words"}))?;
        world.await_stalled(name, "Refused", &[&format!("add \"{name}\" to `allow.namespaces`")])?;
    }
    world.install("scope-target", json!({}))?;
    let requests = world.requests(&operator, start)?;
    let beyond = |request: &AuditedRequest| ["kube-system", "scope-target-2"].contains(&request.namespace.as_str());
    requests.filter(beyond).none()?;
    drop(operator);

    of_allowed("scope-target-2")?;
    let _operator = world.start()?;
    world.await_ready("scope-target-2")?;
    let there = world.kubectl.in_namespace("scope-target-2");
    ensure!(there.get("configmap", "scope-target-2-main")?.is_some());
    world.await_stalled("kube-system", "Refused", &[])?;
    // Who deletes it needs no namespace.
    world.delete("kube-system")?;
    world.delete("scope-target-2")?;
    ensure!(there.get("configmap", "scope-target-2-main")?.is_none());
    Ok(())
}

#[test]
fn an_absent_spec_gives_the_chart_defaults() -> Result<()> {
    let world = World::new("scope-specless")?;
    let operator = world.start()?;
    for (name, spec) in [("absent", None), ("empty", Some(json!({})))] {
        let mut widget = world.widget(name, json!({}));
        match spec {
            None => drop(widget.as_object_mut().and_then(|widget| widget.remove("spec"))),
            Some(spec) => widget["spec"] = spec,
        }
        world.apply(&widget)?;
        world.await_ready(name)?;
        ensure!(world.expect("configmap", &format!("{name}-main"))?["data"]["color"] == "blue");
    }
    world.await_quiet(&operator)?;
    world.update("absent", json!({"color": "red"}))?;
    ensure!(world.expect("configmap", "absent-main")?["data"]["color"] == "red");
    Ok(())
}

#[test]
fn several_kinds_live_in_one_process_and_the_same_name_in_two_of_them() -> Result<()> {
    let world = World::new("scope-kinds")?;
    world.install_crd("Gadget")?;
    let gadget = world.second_chart("gadgets")?;
    world.write_watches_of(&[
        ("Widget", &world.chart(), &["overrideValues: {color: $COLOR}"]),
        ("Gadget", &gadget, &["overrideValues: {word: fixed}"]),
    ])?;
    let _operator = world.launch(&Launch::with(&[("COLOR", "green")]))?;
    let gadgets = world.resource("Gadget");
    let gadget_ready = || world.await_condition_of(&gadgets, "a", "Ready", "True");
    world.apply(&world.custom("Gadget", "a", json!({"more": true, "word": "mine"})))?;
    let widget = world.install("a", json!({"extra": ["one"], "color": "blue"}))?;
    gadget_ready()?;
    let gadget = world.expect(&gadgets, "a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-main", "ConfigMap a-one"]);
    ensure!(inventory(&gadget) == ["ConfigMap a-gadget", "ConfigMap a-more"]);
    ensure!(world.expect("configmap", "a-gadget")?["data"] == json!({"by": "gadgets", "word": "fixed"}));
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "green");

    let map = |name: &str| world.expect("configmap", name);
    let maps = || anyhow::Ok([map("a-main")?, map("a-one")?]);
    let widgets = maps()?;
    world.patch(&gadgets, "a", &json!({"spec": {"more": false}}))?;
    world.await_gone("configmap", "a-more")?;
    gadget_ready()?;
    world.kubectl.delete(&gadgets, "a")?;
    world.absent("configmap", ["a-gadget"])?;
    ensure!(versions(&maps()?) == versions(&widgets));
    ensure!(uid(&world.await_ready("a")?) == uid(&widget));
    Ok(())
}

#[test]
fn two_charts_can_share_a_kind_with_exclusive_selectors() -> Result<()> {
    let world = World::new("scope-share")?;
    let other = world.second_chart("other")?;
    let first = "selector: {matchLabels: {chart: first}}";
    let rest = "selector: {matchExpressions: [{key: chart, operator: NotIn, values: [first]}]}";
    world.write_watches_of(&[("Widget", &world.chart(), &[first]), ("Widget", &other, &[rest])])?;
    let operator = world.launch(&METERED)?;
    let mut widget = world.widget("a", json!({}));
    widget["metadata"]["labels"] = json!({"chart": "first"});
    world.apply(&widget)?;
    ensure!(inventory(&world.await_ready("a")?) == ["ConfigMap a-main"]);
    ensure!(inventory(&world.install("b", json!({}))?) == ["ConfigMap b-other"]);
    // A custom resource that goes over to the other watch takes its release along.
    world.patch_widget("a", &json!({"metadata": {"labels": {"chart": "second"}}}))?;
    world.await_there("configmap", "a-other")?;
    world.await_gone("configmap", "a-main")?;
    world.await_quiet(&operator)?;
    let series =
        "chartwright_release_ready{group=\"scope-share.test\",kind=\"Widget\",namespace=\"scope-share\",name=\"a\"}";
    ensure!(operator.metric(series)? == 1.0, "{}", operator.metrics()?);
    world.kubectl.delete("configmap", "a-other")?;
    world.await_there("configmap", "a-other").map(drop)
}

const VERSIONED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-chart'}\n\
    data: {chart: VERSION}\n";

/// A rolling update without leader election: the old operator takes the new one's upgrades for drift.
#[test]
fn two_operators_of_one_name_converge_to_the_remaining_one() -> Result<()> {
    let world = World::new("scope-twins")?;
    let chart = |version: &str| world.write_chart(version, &[("map.yaml", &VERSIONED.replace("VERSION", version))]);
    let start = |chart: &std::path::Path, replica: usize| {
        world.write_watches_of(&[("Widget", chart, &[])])?;
        world.launch(&Launch { replica, ..UNELECTED })
    };
    let old = start(&chart("old")?, 1)?;
    let names: Vec<String> = (0..10).map(|n| format!("w{n}")).collect();
    world.install_all(&names, |_| json!({}))?;
    let new = start(&chart("new")?, 2)?;
    new.await_log("another operator of the name")?;
    std::thread::sleep(Duration::from_secs(2));
    old.kill()?;
    // Corrections that two contest slow down to this.
    let at_last = Duration::from_secs(300);
    eventually("all are of the new chart", at_last, || {
        for name in &names {
            let map = world.expect("configmap", &format!("{name}-chart"))?;
            ensure!(map["data"]["chart"] == "new", "{map}\n{}", new.log());
        }
        Ok(Some(()))
    })?;
    // The old one may have written the last status before it went.
    eventually("and they report it", at_last, || {
        for name in &names {
            let widget = world.live(name)?;
            ensure!(widget["status"]["release"]["chart"] == "new", "{widget}\n{}", new.log());
        }
        Ok(Some(()))
    })?;
    // Which the shipped Deployment sees to.
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/manager/manager.yaml");
    ensure!(std::fs::read_to_string(shipped)?.contains("- --leader-elect\n"));
    Ok(())
}
