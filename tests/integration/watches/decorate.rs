//! `decorate: true`: charts attached to objects of others, several to one if need be, which go with it or before it.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::{Kubectl, eventually};
use crate::world::fields::uid;
use crate::world::operator::METERED;
use crate::world::{COLLECTED, SOON, World, member_rule};

/// A ConfigMap with what the chart sees of its object.
const SHOWS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-{{ .Chart.Name }}}
data:
  team: {{ .Object.metadata.labels.team | default "none" | quote }}
  annotations: {{ keys .Object.metadata.annotations | sortAlpha | join "," | quote }}
  replicas: {{ .Object.spec.replicas | default .Values.replicas | quote }}
"#;
const KEPT: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-kept
  annotations: {helm.sh/resource-policy: keep}
"#;

/// Name, selector and further templates.
type Decorator<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// A world whose decorators are of a kind (group, kind, resource).
fn world(name: &str, kind: [&str; 3], decorators: &[Decorator<'_>]) -> Result<World> {
    let world = World::new(name)?;
    let [group, kind, resource] = kind;
    let verbs = ["get", "list", "watch", "patch"];
    let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    world.grant("decorated", &[rule, member_rule("", "secrets")])?;
    let mut watches = String::new();
    for (decorator, selector, more) in decorators {
        let chart = world.write_chart(decorator, &[&[("shows.yaml", SHOWS)], *more].concat())?;
        writeln!(
            watches,
            "- {{group: {group:?}, version: v1, kind: {kind}, chart: {}, decorate: true, selector: {{matchLabels: {{{selector}}}}}}}",
            chart.display()
        )?;
    }
    fs::write(world.watches_file(), watches)?;
    Ok(world)
}

fn await_map(place: &Kubectl, name: &str, is_there: bool) -> Result<Value> {
    // What goes with its object is left to the garbage collector.
    let limit = if is_there { SOON } else { COLLECTED };
    eventually(&format!("{name} is there: {is_there}"), limit, || {
        let found = place.get("configmap", name)?;
        ensure!(found.is_some() == is_there, "{found:?}");
        Ok(Some(found.unwrap_or_default()))
    })
}

fn await_data(place: &Kubectl, name: &str, key: &str, value: &str) -> Result<Value> {
    eventually(&format!("{name} has {key}={value}"), SOON, || {
        let found = place.get("configmap", name)?.unwrap_or_default();
        ensure!(found["data"][key] == value, "{found}");
        Ok(Some(found))
    })
}

fn marks(object: &Value) -> Vec<String> {
    let metadata = &object["metadata"];
    let keys = |field: &str| {
        metadata[field]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect()
    };
    let mut all: Vec<String> = keys("labels");
    all.extend::<Vec<String>>(keys("annotations"));
    all.extend(
        metadata["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|name| name.as_str().unwrap_or_default().into()),
    );
    all.retain(|key| key.contains("chartwright"));
    all.sort();
    all
}

const DECORATED: &str = "chartwright.dev/decorated";

#[test]
fn a_namespace_has_the_members_of_its_decorators_while_their_selectors_match() -> Result<()> {
    let name = "decorate-ns";
    let selectors = ["decorate-ns/one: chosen", "decorate-ns/two: chosen"];
    let decorators = [("one", selectors[0], [].as_slice()), ("two", selectors[1], &[])];
    let world = world(name, ["", "Namespace", "namespaces"], &decorators)?;
    let operator = world.launch(&METERED)?;
    let target = format!("{name}-target");
    let place = world.kubectl.create_namespace(&target)?;
    let label = |labels: Value| world.patch("namespace", &target, &json!({"metadata": {"labels": labels}}));
    label(json!({"decorate-ns/one": "chosen", "decorate-ns/two": "chosen"}))?;
    let first = await_map(&place, &format!("{target}-one"), true).with_context(|| world.describe_failure(""))?;
    let second = await_map(&place, &format!("{target}-two"), true)?;
    for map in [&first, &second] {
        let owners = &map["metadata"]["ownerReferences"];
        ensure!(
            owners[0]["kind"] == "Namespace" && map["data"]["annotations"] == "",
            "{map}"
        );
    }
    world.await_quiet(&operator)?;
    let of = |name: &str| {
        [name.to_owned(), format!("{name}.namespaces")].map(|name| format!("decorator.chartwright.dev/{name}"))
    };
    let expected = |names: &[&str]| -> Vec<String> {
        let marks = names.iter().flat_map(|name| of(name));
        [DECORATED.to_owned()].into_iter().chain(marks).collect()
    };
    let namespace = world.expect("namespace", &target)?;
    ensure!(marks(&namespace) == expected(&["one", "two"]), "{namespace}");

    // What the chart can see is followed; an unchanged object costs nothing, nor does a restart.
    label(json!({"team": "x"}))?;
    await_data(&place, &format!("{target}-one"), "team", "x")?;
    await_data(&place, &format!("{target}-two"), "team", "x")?;
    place.run(["delete", "configmap", &format!("{target}-two")])?;
    await_map(&place, &format!("{target}-two"), true)?;
    world.await_quiet(&operator)?;
    world.ensure_no_requests(&operator, 2.0)?;
    let start = world.mark()?;
    let operator = world.replace_and_settle(operator)?;
    let requests = world.requests(&operator, start)?;
    ensure!(requests.clone().writes().is_empty(), "{requests}");

    // One leaves, the other stays. A mark that another client wrote as well is removed, too.
    world.run([
        "annotate",
        "namespace",
        &target,
        "--overwrite",
        &format!("{}=ConfigMap", of("one")[0]),
    ])?;
    label(json!({"decorate-ns/one": null}))?;
    await_map(&place, &format!("{target}-one"), false)?;
    world.await_quiet(&operator)?;
    await_map(&place, &format!("{target}-two"), true)?;
    let namespace = world.expect("namespace", &target)?;
    ensure!(marks(&namespace) == expected(&["two"]), "{namespace}");
    // The other leaves while no operator runs.
    operator.kill()?;
    label(json!({"decorate-ns/two": null}))?;
    let operator = world.start()?;
    await_map(&place, &format!("{target}-two"), false)?;
    world.await_quiet(&operator)?;
    let namespace = world.expect("namespace", &target)?;
    ensure!(marks(&namespace).is_empty(), "{namespace}");
    let left = world.list("secrets", "chartwright.dev/release-uid")?;
    ensure!(left.is_empty(), "{left:?}");

    label(json!({"decorate-ns/one": "chosen"}))?;
    await_map(&place, &format!("{target}-one"), true)?;
    world.run(["delete", "namespace", &target]).map(drop)
}

fn deployment(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "none"}]},
        }},
    })
}

#[test]
fn decorated_members_are_deleted_by_garbage_collector_or_finalizer() -> Result<()> {
    let selector = "decorate: here";
    let decorators = [
        ("plain", selector, [].as_slice()),
        ("keeps", selector, &[("kept.yaml", KEPT)]),
    ];
    let world = world("decorate-gc", ["apps", "Deployment", "deployments"], &decorators)?;
    let operator = world.start()?;
    world.apply(&deployment("other", json!({})))?;
    world.apply(&deployment("web", json!({"decorate": "here"})))?;
    await_data(&world.kubectl, "web-plain", "replicas", "2")?;
    await_map(&world.kubectl, "web-keeps", true)?;
    let kept = await_map(&world.kubectl, "web-kept", true)?;
    ensure!(kept["metadata"]["ownerReferences"].is_null(), "{kept}");
    world.await_quiet(&operator)?;
    let web = world.expect("deployment", "web")?;
    ensure!(
        web["metadata"]["finalizers"] == json!(["chartwright.dev/decorator-keeps"]),
        "{web}"
    );
    let is_theirs = |entry: &Value| entry["subresource"] == "status" && entry["manager"] == "chartwright-status";
    ensure!(
        !web["metadata"]["managedFields"]
            .as_array()
            .into_iter()
            .flatten()
            .any(is_theirs),
        "{web}"
    );
    ensure!(marks(&world.expect("deployment", "other")?).is_empty());
    world.patch("deployment", "web", &json!({"spec": {"replicas": 3}}))?;
    await_data(&world.kubectl, "web-plain", "replicas", "3")?;

    // What it is attached to is known to who looks for leftovers, and to who frees what is held.
    let (status, printed) =
        world.chartwright(&["leftovers", "--namespace", &world.name, "--operator-name", &world.name])?;
    ensure!(
        status.success() && printed.contains("No object without its custom resource"),
        "{printed}"
    );
    let free = [
        "release-finalizers",
        "--group",
        "apps",
        "--kind",
        "Deployment",
        "--namespace",
        &world.name,
        "--dry-run",
    ];
    let (status, printed) = world.chartwright(&free)?;
    let parts = [
        "decorate-gc/web (decorator keeps): would be freed",
        "kubectl get ConfigMap -A",
    ];
    ensure!(
        status.success() && parts.iter().all(|part| printed.contains(part)),
        "{printed}"
    );

    // Both are restored after a removal, also while no operator runs; forged marks on another object are removed.
    operator.kill()?;
    world.remove_finalizers("deployment", "web")?;
    let operator = world.start()?;
    let is_held = |web: &Value| web["metadata"]["finalizers"] == json!(["chartwright.dev/decorator-keeps"]);
    world.await_object("deployment", "web", "is held again", is_held)?;
    world.run(["annotate", "deployment", "web", "decorator.chartwright.dev/plain-"])?;
    let is_claimed = |web: &Value| web["metadata"]["annotations"]["decorator.chartwright.dev/plain"] == "ConfigMap";
    world.await_object("deployment", "web", "is claimed again", is_claimed)?;
    world.run([
        "annotate",
        "deployment",
        "other",
        "decorator.chartwright.dev/plain=ConfigMap",
    ])?;
    world.await_object("deployment", "other", "has no marks", |other| marks(other).is_empty())?;
    world.await_quiet(&operator)?;

    world.run(["delete", "deployment", "web"])?;
    await_map(&world.kubectl, "web-plain", false)?;
    await_map(&world.kubectl, "web-keeps", false)?;
    let kept = await_map(&world.kubectl, "web-kept", true)?;
    ensure!(marks(&kept) == ["chartwright.dev/kept-from"], "{kept}");
    eventually("no Secret is left", COLLECTED, || {
        let left = world.list("secrets", "chartwright.dev/release-uid")?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(Some(()))
    })?;
    ensure!(!operator.log().contains("FinalizerRemoved"), "{}", operator.log());

    // A chart that needs it no more, and an object whose decorator needs none, are free.
    world.apply(&deployment("api", json!({"decorate": "here"})))?;
    await_map(&world.kubectl, "api-kept", true)?;
    let operator = {
        operator.kill()?;
        fs::remove_file(world.dir.path().join("keeps/templates/kept.yaml"))?;
        world.start()?
    };
    await_map(&world.kubectl, "api-kept", true)?;
    world.await_object("deployment", "api", "is free", |api| {
        api["metadata"]["finalizers"].is_null()
    })?;
    drop(operator);
    world.run(["delete", "deployment", "api", "--wait=true"])?;
    await_map(&world.kubectl, "api-plain", false)?;
    await_map(&world.kubectl, "api-keeps", false).map(drop)
}

/// Two Jobs for the deletion, the first of which hangs.
const LEAVING: &str = r#"
{{- range $at, $labels := dict "pre-delete" (dict "chartwright.test/fails" "true") "post-delete" dict }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $.Release.Name }}-{{ $at }}
  annotations: {helm.sh/hook: {{ $at }}}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {{ toJson $labels }}}
    spec: {restartPolicy: Never, containers: [{name: main, image: example/main}]}
{{- end }}
"#;

#[test]
fn an_object_that_is_decorated_again_keeps_its_members() -> Result<()> {
    let decorators = [("leaves", "decorate: leaves", [("leaving.yaml", LEAVING)].as_slice())];
    let world = world("decorate-again", ["apps", "Deployment", "deployments"], &decorators)?;
    world.grant("jobs", &[member_rule("batch", "jobs")])?;
    let operator = world.start()?;
    world.apply(&deployment("web", json!({"decorate": "leaves"})))?;
    await_map(&world.kubectl, "web-leaves", true)?;
    world.await_quiet(&operator)?;
    let label = |value: Value| {
        world.patch(
            "deployment",
            "web",
            &json!({"metadata": {"labels": {"decorate": value}}}),
        )
    };
    label(Value::Null)?;
    let first = world.await_there("job", "web-pre-delete")?;
    label("leaves".into())?;
    world.await_gone("job", "web-pre-delete")?;
    world.await_quiet(&operator)?;
    await_map(&world.kubectl, "web-leaves", true)?;
    world.absent("job", ["web-post-delete"])?;

    // When it leaves in earnest, all that belongs to that runs.
    label(Value::Null)?;
    let second = world.await_there("job", "web-pre-delete")?;
    ensure!(uid(&first) != uid(&second));
    world.expect("configmap", "web-leaves")?;
    eventually("nothing is left of it", SOON, || {
        let _ = world.end_pods_of("web-pre-delete", "Succeeded");
        let web = world.expect("deployment", "web")?;
        ensure!(marks(&web).is_empty(), "{web}");
        Ok(Some(()))
    })?;
    world.absent("configmap", ["web-leaves"])?;
    ensure!(
        operator
            .log()
            .contains("post-delete hook Job web-post-delete succeeded")
    );
    Ok(())
}

#[test]
fn the_operators_own_releases_can_be_decorated() -> Result<()> {
    let world = World::new("decorate-own")?;
    world.grant("secrets", &[member_rule("", "secrets")])?;
    let (plain, shows) = (world.chart(), world.write_chart("shows", &[("shows.yaml", SHOWS)])?);
    let clash = world.write_chart(
        "clash",
        &[("shows.yaml", &SHOWS.replace("-{{ .Chart.Name }}", "-shows"))],
    )?;
    let decorate = ["decorate: true", "selector: {matchLabels: {show: all}}"];
    world.write_watches_of(&[
        ("Widget", &plain, &[]),
        ("Widget", &shows, &decorate),
        ("Widget", &clash, &decorate),
    ])?;
    let operator = world.start()?;
    world.install("a", json!({"replicas": 4}))?;
    world.patch_widget("a", &json!({"metadata": {"labels": {"show": "all", "team": "y"}}}))?;
    await_data(&world.kubectl, "a-shows", "team", "y")?;
    // The second one reports the collision and takes nothing.
    world.await_event("a", "Collision", &["a-shows", "it belongs to another release"])?;
    world.await_quiet(&operator)?;
    let widget = world.await_ready("a")?;
    let inventory = crate::world::fields::inventory(&widget);
    ensure!(inventory == ["ConfigMap a-main"], "{inventory:?}");
    let start = world.mark()?;
    let operator = world.replace_and_settle(operator)?;
    let requests = world.requests(&operator, start)?.writes();
    ensure!(
        !requests.iter().any(|request| request.resource != "events"),
        "{requests}"
    );
    world.delete("a")?;
    await_map(&world.kubectl, "a-main", false)?;
    world.await_gone_within(COLLECTED, "configmap", "a-shows")
}

#[test]
fn a_decorator_can_wait_for_the_decorated_object() -> Result<()> {
    let decorators = [("late", "decorate: late", [].as_slice())];
    let world = world("decorate-late", ["apps", "Deployment", "deployments"], &decorators)?;
    let watches = fs::read_to_string(world.watches_file())?;
    let itself = "dependsOn: [{group: apps, kind: Deployment, name: \"{{ .metadata.name }}\", readyWhen: self.spec.replicas > 2}]";
    let watches = watches.trim_end().trim_end_matches('}');
    fs::write(world.watches_file(), format!("{watches}}}}}, {itself}}}\n"))?;
    let operator = world.start()?;
    world.apply(&deployment("web", json!({"decorate": "late"})))?;
    eventually("an Event reports what it waits for", SOON, || {
        let printed = world.run(["get", "events", "-o", "yaml"])?;
        let is_reported = printed.contains("DependencyNotReady") && printed.contains("is false");
        ensure!(is_reported, "{printed}");
        Ok(Some(()))
    })?;
    world.await_quiet(&operator)?;
    world.absent("configmap", ["web-late"])?;
    ensure!(marks(&world.expect("deployment", "web")?).is_empty());
    world.patch("deployment", "web", &json!({"spec": {"replicas": 3}}))?;
    await_data(&world.kubectl, "web-late", "replicas", "3").map(drop)
}
