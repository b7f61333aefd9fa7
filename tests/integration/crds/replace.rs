//! `crds` of a watch: what becomes of the definitions in a chart's `crds/` folder.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use serde_json::{Value, json};

use super::grant;
use crate::support::{eventually, until};
use crate::world::fields::{annotation, ensure_contains, text};
use crate::world::operator::{IMPATIENT, Operator};
use crate::world::{RequestsStart, SOON, World, WorldSetup, crd};

const REPLACE: &str = "crds: CreateReplace";
const ALLOW: &str = "chartwright.dev/allow-unsafe-crd";
const DIGEST: &str = "chartwright.dev/crd-digest";

/// A world whose watch replaces definitions, with the rights for it and for objects of the kind `Part`.
fn replacing(name: &str) -> Result<World> {
    let world = World::new(name)?.watch_key(REPLACE);
    grant(&world)?;
    Ok(world)
}

/// A definition of `Part` with these fields in its spec, all of them strings.
fn part(world: &World, fields: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> = fields
        .iter()
        .map(|field| ((*field).to_owned(), json!({"type": "string"})))
        .collect();
    let mut part = crd(&world.group(), "Part");
    *schema(&mut part) = json!({"type": "object", "properties": properties});
    part
}

fn schema(crd: &mut Value) -> &mut Value {
    &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
}

/// The fields of the live definition of `Part`.
fn fields(live: &Value) -> Vec<&str> {
    let spec = &live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let properties = spec["properties"].as_object().into_iter().flatten();
    properties.map(|(name, _)| name.as_str()).collect()
}

/// Writes the definition into the chart, as another version of it.
fn write_crd(chart: &Path, version: &str, crd: &Value) -> Result<()> {
    let about = fs::read_to_string(chart.join("Chart.yaml"))?;
    let about: String = about
        .lines()
        .map(|line| {
            if line.starts_with("version:") {
                format!("version: {version}\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    fs::write(chart.join("Chart.yaml"), about)?;
    fs::create_dir_all(chart.join("crds"))?;
    fs::write(chart.join("crds/part.yaml"), crd.to_string())?;
    Ok(())
}

/// Waits until the live definition has these fields.
fn await_fields(world: &World, expected: &[&str]) -> Result<Value> {
    let is_it = |live: &Value| fields(live) == expected;
    world.await_object("crd", &world.resource("Part"), &format!("has {expected:?}"), is_it)
}

/// Checks that an operator only listed and watched definitions since a mark.
fn ensure_only_watched(world: &World, operator: &Operator, start: RequestsStart) -> Result<()> {
    let requests = world
        .all_requests(operator, start)?
        .resource("customresourcedefinitions");
    requests
        .filter(|request| !["list", "watch"].contains(&request.verb.as_str()))
        .none()
}

#[test]
fn a_newer_definition_replaces_the_live_one() -> Result<()> {
    let world = replacing("crds-replace")?;
    // One that is too large for the annotation of `kubectl apply`.
    let mut first = part(&world, &["size"]);
    schema(&mut first)["description"] = "x".repeat(300 << 10).into();
    write_crd(&world.chart(), "1.0.0", &first)?;
    let other = crd(&world.group(), "Sub");
    let sub = world.chart().join("charts/sub");
    fs::create_dir_all(sub.join("crds"))?;
    fs::write(sub.join("Chart.yaml"), "apiVersion: v2\nname: sub\nversion: 0.3.0\n")?;
    fs::write(sub.join("crds/sub.yaml"), other.to_string())?;
    let operator = world.start()?;
    let live = world.await_there("crd", &world.resource("Part"))?;
    ensure!(live["metadata"]["labels"].is_null(), "it is no member: {live}");
    ensure!(
        annotation(&live, "chartwright.dev/crd-chart") == Some("widget 1.0.0"),
        "{live}"
    );
    ensure!(
        annotation(&live, "chartwright.dev/crd-operator") == Some(&world.name),
        "{live}"
    );
    let sub = world.await_there("crd", &world.resource("Sub"))?;
    ensure!(
        annotation(&sub, "chartwright.dev/crd-chart") == Some("sub 0.3.0"),
        "{sub}"
    );
    let spec = json!({"extraDeploy": [world.custom("Part", "one", json!({"size": "1"}))]});
    world.install("a", spec)?;
    world.await_quiet(&operator)?;
    ensure!(operator.terminate()?.success());

    // Unchanged: a restart costs no request, and another version of the chart neither.
    for version in ["1.0.0", "1.1.0"] {
        write_crd(&world.chart(), version, &first)?;
        let start = world.mark()?;
        let operator = world.start_and_settle()?;
        ensure_only_watched(&world, &operator, start)?;
        ensure!(operator.terminate()?.success());
    }
    // Changed: one write, and releases use the new field.
    write_crd(&world.chart(), "1.2.0", &part(&world, &["color", "size"]))?;
    let start = world.mark()?;
    let operator = world.start()?;
    await_fields(&world, &["color", "size"])?;
    let spec = json!({"extraDeploy": [world.custom("Part", "one", json!({"size": "1", "color": "red"}))]});
    world.install("a", spec)?;
    world.await_field(&world.resource("Part"), "one", "/spec/color", "red")?;
    let requests = world
        .all_requests(&operator, start)?
        .resource("customresourcedefinitions");
    let requests = requests.filter(|request| !["list", "watch"].contains(&request.verb.as_str()));
    requests
        .clone()
        .are("get customresourcedefinitions, 2 patch customresourcedefinitions")?;
    let dry_runs = requests
        .verb("patch")
        .filter(|request| request.uri.contains("dryRun=All"));
    ensure!(dry_runs.len() == 1, "{dry_runs}");

    // An older chart does not revert it.
    ensure!(operator.terminate()?.success());
    write_crd(&world.chart(), "1.1.0", &part(&world, &["shape", "size"]))?;
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    operator.await_log("the live one is newer (chart widget 1.2.0)")?;
    let writes = world
        .all_requests(&operator, start)?
        .resource("customresourcedefinitions")
        .writes();
    writes.none()?;
    // The deletion of a release leaves the definition. A deleted definition is created again only at the next start.
    world.delete("a")?;
    world.expect("crd", &world.resource("Part"))?;
    world.kubectl.delete("crd", &world.resource("Part"))?;
    world.await_quiet(&operator)?;
    world.absent("crd", [&world.resource("Part")])?;
    Ok(())
}

#[test]
fn create_and_skip_leave_a_live_definition_alone() -> Result<()> {
    for (name, key, creates) in [
        ("crds-create", "crds: Create", true),
        ("crds-skip", "crds: Skip", false),
    ] {
        let world = World::new(name)?.watch_key(key);
        grant(&world)?;
        world.serve(&part(&world, &["size"]))?;
        write_crd(&world.chart(), "2.0.0", &part(&world, &["color", "size"]))?;
        fs::write(
            world.chart().join("crds/new.yaml"),
            crd(&world.group(), "Fresh").to_string(),
        )?;
        let start = world.mark()?;
        let operator = world.start_and_settle()?;
        let live = world.expect("crd", &world.resource("Part"))?;
        ensure!(
            fields(&live) == ["size"] && annotation(&live, DIGEST).is_none(),
            "{live}"
        );
        let writes = world
            .all_requests(&operator, start)?
            .resource("customresourcedefinitions")
            .writes();
        ensure!(writes.len() == usize::from(creates), "{writes}");
        ensure!(
            world.get("crd", &world.resource("Fresh"))?.is_some() == creates,
            "{name}"
        );
        ensure!(operator.terminate()?.success());

        // With another policy the next start replaces what kubectl and `Create` had created, and then leaves it.
        world.write_watches_of(&[("Widget", &world.chart(), &[REPLACE])])?;
        let operator = world.start_and_settle()?;
        await_fields(&world, &["color", "size"])?;
        let fresh = world.expect("crd", &world.resource("Fresh"))?;
        ensure!(annotation(&fresh, DIGEST).is_some(), "{fresh}");
        ensure!(operator.terminate()?.success());
        let start = world.mark()?;
        let operator = world.start_and_settle()?;
        ensure_only_watched(&world, &operator, start)?;
    }
    Ok(())
}

/// The digest in the command that the log names.
fn named_digest(operator: &Operator) -> Result<String> {
    let log = operator.log();
    let (_, rest) = log
        .rsplit_once(&format!("{ALLOW}="))
        .context("the log names no command")?;
    Ok(rest.chars().take_while(char::is_ascii_hexdigit).collect())
}

#[test]
fn an_unsafe_change_is_refused_until_it_is_permitted() -> Result<()> {
    let world = replacing("crds-unsafe")?;
    world.serve(&part(&world, &["name", "size"]))?;
    let mut next = part(&world, &["color", "size"]);
    schema(&mut next)["properties"]["size"]["maxLength"] = 5.into();
    write_crd(&world.chart(), "2.0.0", &next)?;
    let name = world.resource("Part");
    let before = world.expect("crd", &name)?;
    let operator = world.launch(&IMPATIENT.metered())?;
    eventually("the log lists the changes", SOON, || {
        let log = operator.log();
        ensure_contains(
            &log,
            &[
                "v1.spec.name: is gone: its values would be dropped",
                "maxLength was none, is 5",
            ],
        )?;
        ensure_contains(
            &log,
            &["unsafe changes (2)", &format!("kubectl annotate crd {name} {ALLOW}=")],
        )?;
        Ok(Some(()))
    })?;
    let series = "chartwright_chart_crd_problems";
    ensure!(operator.metric(series)? == 1.0, "{}", operator.metrics()?);

    // A release says so, and can't have the new field.
    let spec = json!({"extraDeploy": [world.custom("Part", "one", json!({"color": "red"}))]});
    world.apply_widget("a", spec)?;
    world.await_event(
        "a",
        "CrdNotReplaced",
        &["crds/part.yaml", "the change is unsafe", "kubectl annotate crd"],
    )?;
    world.await_condition("a", "Ready", "False")?;

    // The digest of another definition permits nothing.
    world.patch("crd", &name, &json!({"metadata": {"annotations": {ALLOW: "0123"}}}))?;
    world.await_quiet(&operator)?;
    let same = world.expect("crd", &name)?;
    ensure!(same["spec"] == before["spec"], "{same}");

    // The permitted one is applied, and the waiting release goes on.
    let digest = named_digest(&operator)?;
    world.patch("crd", &name, &json!({"metadata": {"annotations": {ALLOW: digest}}}))?;
    let live = await_fields(&world, &["color", "size"])?;
    ensure!(
        annotation(&live, ALLOW) == Some(&digest) && annotation(&live, DIGEST) == Some(&digest),
        "{live}"
    );
    world.await_ready("a")?;
    world.await_field(&world.resource("Part"), "one", "/spec/color", "red")?;
    until("the metric is 0", SOON, || Ok(operator.metric(series)? == 0.0))?;

    // Another field manager changes it: it is not corrected, also not after a restart.
    let mut theirs = part(&world, &["size", "theirs"]);
    theirs["metadata"]["annotations"] = Value::Null;
    world.kubectl.take_over("argo", &theirs.to_string())?;
    operator.await_log("the field manager argo changed it again after it was applied")?;
    world.await_quiet(&operator)?;
    await_fields(&world, &["size", "theirs"])?;
    world.patch("crd", &name, &json!({"metadata": {"annotations": {ALLOW: null}}}))?;
    let start = world.mark()?;
    let operator = world.restart(operator)?;
    operator.await_log("the field manager argo changed it after it was applied")?;
    let writes = world
        .all_requests(&operator, start)?
        .resource("customresourcedefinitions")
        .writes();
    writes.none()?;
    Ok(())
}

#[test]
fn fields_of_other_field_managers_survive() -> Result<()> {
    let world = replacing("crds-foreign")?;
    let name = world.resource("Part");
    let webhook = |bundle: &str| {
        let service = json!({"name": "hook", "namespace": "default", "path": "/convert", "port": 443});
        let config = json!({"caBundle": bundle, "service": service});
        json!({"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}})
    };
    // As charts have it: a placeholder for the CA that cert-manager injects.
    let mut first = part(&world, &["size"]);
    first["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": "default/ca"});
    first["spec"]["conversion"] = webhook("Cg==");
    world.apply(&first)?;
    let kubeconfig: Value = serde_yaml::from_str(&fs::read_to_string(world.control_plane.kubeconfig())?)?;
    let ca = text(&kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]).to_owned();
    let rotated = BASE64.encode(&BASE64.decode(ca.as_bytes())?.repeat(2));
    let foreign = json!({
        "metadata": {"labels": {"team": "a"}, "annotations": {"x.test/note": "b"}},
        "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": ca}}}},
    });
    let inject = |patch: &Value| {
        let patch = patch.to_string();
        world.run([
            "patch",
            "crd",
            &name,
            "--type=merge",
            "--field-manager=injector",
            "-p",
            &patch,
        ])
    };
    inject(&foreign)?;
    world.kubectl.wait("Established", "crd", &name, SOON)?;
    let mut next = part(&world, &["color", "size"]);
    next["metadata"]["annotations"] = first["metadata"]["annotations"].clone();
    next["spec"]["conversion"] = webhook("Cg==");
    write_crd(&world.chart(), "2.0.0", &next)?;
    let operator = world.start()?;
    let live = await_fields(&world, &["color", "size"])?;
    ensure!(live["metadata"]["labels"]["team"] == "a", "{live}");
    ensure!(annotation(&live, "x.test/note") == Some("b"), "{live}");
    ensure!(
        live["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == ca,
        "{live}"
    );
    ensure!(live["status"]["storedVersions"] == json!(["v1"]), "{live}");

    // A new CA is left as it is, and costs nothing at a restart.
    inject(&json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": rotated}}}}}))?;
    let start = world.mark()?;
    let operator = world.replace_and_settle(operator)?;
    ensure_only_watched(&world, &operator, start)?;
    let live = world.expect("crd", &name)?;
    ensure!(
        live["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == rotated,
        "{live}"
    );
    Ok(())
}

#[test]
fn stored_and_watched_versions_and_the_scope_stay() -> Result<()> {
    let world = World::with("crds-versions", WorldSetup::NO_CRD)?.watch_key(REPLACE);
    grant(&world)?;
    let version = |name: &str, storage: bool| {
        let mut version = crd(&world.group(), "Widget")["spec"]["versions"][0].clone();
        version["name"] = name.into();
        version["storage"] = storage.into();
        version["subresources"] = json!({"status": {}});
        version
    };
    let versions = |kind: &str, versions: Vec<Value>| {
        let mut crd = crd(&world.group(), kind);
        crd["spec"]["versions"] = versions.into();
        crd
    };
    let folder = world.chart().join("crds");
    fs::create_dir(&folder)?;
    let write = |crd: &Value| {
        let kind = text(&crd["spec"]["names"]["kind"]).to_lowercase();
        fs::write(folder.join(format!("{kind}.yaml")), crd.to_string())
    };
    // The kind that is watched is among them.
    for kind in ["Widget", "Stored", "Migrated", "Scoped"] {
        let storage = if kind == "Stored" { "v1" } else { "v2" };
        write(&versions(
            kind,
            vec![version("v1", storage == "v1"), version("v2", storage == "v2")],
        ))?;
    }
    let operator = world.start()?;
    world.await_there("crd", &world.resource("Scoped"))?;
    world.kubectl.wait("Established", "crd", &world.widgets(), SOON)?;
    world.install("a", json!({}))?;
    ensure!(operator.terminate()?.success());

    write(&versions("Widget", vec![version("v2", true)]))?;
    write(&versions("Stored", vec![version("v2", true)]))?;
    write(&versions("Migrated", vec![version("v2", true)]))?;
    let mut scoped = versions("Scoped", vec![version("v1", false), version("v2", true)]);
    scoped["spec"]["scope"] = "Cluster".into();
    write(&scoped)?;
    let operator = world.start()?;
    // No object is stored in its v1.
    let migrated = world.await_object("crd", &world.resource("Migrated"), "has one version", |crd| {
        crd["spec"]["versions"]
            .as_array()
            .is_some_and(|versions| versions.len() == 1)
    })?;
    ensure!(migrated["spec"]["versions"][0]["name"] == "v2", "{migrated}");
    for (part, more) in [
        ("watches.yaml watches this version", "the change is unsafe"),
        (
            "objects may be stored in it (status.storedVersions)",
            "the API server refuses it",
        ),
        (
            r#"the scope \"Namespaced\" becomes \"Cluster\""#,
            "the API server refuses it",
        ),
    ] {
        operator.await_log(part)?;
        let log = operator.log();
        let line = log.lines().find(|line| line.contains(part)).context("no line")?;
        ensure!(line.contains(more), "{line}");
    }
    for kind in ["Widget", "Stored", "Scoped"] {
        let live = world.expect("crd", &world.resource(kind))?;
        ensure!(
            live["spec"]["versions"]
                .as_array()
                .is_some_and(|versions| versions.len() == 2),
            "{live}"
        );
        ensure!(live["spec"]["scope"] == "Namespaced", "{live}");
    }
    world.await_ready("a")?;
    Ok(())
}

#[test]
fn watches_and_operators_with_one_definition_never_take_turns() -> Result<()> {
    let world = World::new("crds-turns")?;
    grant(&world)?;
    world.install_crd("Gadget")?;
    let name = world.resource("Part");
    let other = world.write_chart("widget", &[])?;
    let watches = |first: &str, second: &str| {
        let charts = [world.chart(), other.clone()];
        world.write_watches_of(&[(first, &charts[0], &[REPLACE]), (second, &charts[1], &[REPLACE])])
    };
    // The newer version of one chart, in any order.
    write_crd(&world.chart(), "2.0.0", &part(&world, &["newer", "size"]))?;
    write_crd(&other, "1.0.0", &part(&world, &["older", "size"]))?;
    watches("Widget", "Gadget")?;
    let operator = world.start_and_settle()?;
    operator.await_log(&format!("the watch of Widget.{} provides it", world.group()))?;
    await_fields(&world, &["newer", "size"])?;
    ensure!(operator.terminate()?.success());
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    ensure_only_watched(&world, &operator, start)?;
    ensure!(operator.terminate()?.success());

    // Of versions that can't be compared, the first watch of the file provides it, and the second one reports it.
    world.kubectl.delete("crd", &name)?;
    let about = fs::read_to_string(other.join("Chart.yaml"))?;
    fs::write(other.join("Chart.yaml"), about.replace("name: widget", "name: gadget"))?;
    for _ in 0..2 {
        let operator = world.start_and_settle()?;
        operator.await_log("has another definition, and no version shows which one is newer")?;
        await_fields(&world, &["newer", "size"])?;
        ensure!(operator.terminate()?.success());
    }

    // Another operator with an unrelated chart leaves it, and so does one with the same version.
    let first = world.start_and_settle()?;
    let second = replacing("crds-turns-two")?;
    let version = |version: &str, field: &str| write_crd(&second.chart(), version, &part(&world, &[field, "size"]));
    version("2.0.0", "third")?;
    let start = world.mark()?;
    let operator = second.start_and_settle()?;
    operator.await_log("the operator crds-turns applied another definition of chart widget 2.0.0")?;
    let writes = world
        .all_requests(&operator, start)?
        .resource("customresourcedefinitions")
        .writes();
    writes.none()?;
    ensure!(operator.terminate()?.success());
    // One of a newer version replaces it, here with a permit, and the first operator leaves that.
    version("3.0.0", "third")?;
    let start = world.mark()?;
    let newer = second.start()?;
    newer.await_log("v1.spec.newer: is gone")?;
    await_fields(&world, &["newer", "size"])?;
    let digest = named_digest(&newer)?;
    world.patch("crd", &name, &json!({"metadata": {"annotations": {ALLOW: digest}}}))?;
    await_fields(&world, &["size", "third"])?;
    first.await_log("the live one is newer (chart widget 3.0.0)")?;
    world.await_quiet(&first)?;
    let writes = world
        .all_requests(&first, start)?
        .resource("customresourcedefinitions")
        .writes();
    writes.none()?;
    await_fields(&world, &["size", "third"])?;
    Ok(())
}

#[test]
fn a_missing_right_is_named_and_a_deletion_is_awaited() -> Result<()> {
    let world = World::new("crds-rights")?.watch_key(REPLACE);
    let name = world.resource("Part");
    let rule = |verbs: &[&str]| json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": verbs});
    world.grant("get", &[rule(&["get", "list", "watch", "create"])])?;
    world.serve(&part(&world, &["size"]))?;
    write_crd(&world.chart(), "2.0.0", &part(&world, &["color", "size"]))?;
    let operator = world.launch(&IMPATIENT)?;
    operator.await_log("cannot patch resource \\\"customresourcedefinitions\\\"")?;
    // As `generate rbac` limits it.
    let mut named = rule(&["get", "patch"]);
    named["resourceNames"] = json!([name]);
    world.grant("patch", &[named])?;
    await_fields(&world, &["color", "size"])?;
    ensure!(operator.terminate()?.success());

    world.hold("crd", &name)?;
    world.run(["delete", "crd", &name, "--wait=false"])?;
    let operator = world.launch(&IMPATIENT)?;
    operator.await_log("is being deleted: it is created when it is gone")?;
    let uid = world.expect("crd", &name)?["metadata"]["uid"].clone();
    world.remove_finalizers("crd", &name)?;
    world.await_object("crd", &name, "is another one", |crd| crd["metadata"]["uid"] != uid)?;
    Ok(())
}

/// Without the right to watch definitions, the operator reads them, and reads those with a problem again.
#[test]
fn without_the_watch_definitions_are_read() -> Result<()> {
    let world = World::with("crds-blind", WorldSetup::without(&["customresourcedefinitions"]))?.watch_key(REPLACE);
    let name = world.resource("Part");
    let rule = |verbs: &[&str]| json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": verbs});
    world.grant("crds", &[rule(&["get", "create", "patch"])])?;
    world.serve(&part(&world, &["name", "size"]))?;
    write_crd(&world.chart(), "2.0.0", &part(&world, &["size"]))?;
    let operator = world.launch(&IMPATIENT)?;
    operator.await_log("v1.spec.name: is gone")?;
    let digest = named_digest(&operator)?;
    world.patch("crd", &name, &json!({"metadata": {"annotations": {ALLOW: digest}}}))?;
    await_fields(&world, &["size"])?;
    let start = world.mark()?;
    let operator = world.restart(operator)?;
    operator.await_log("watching")?;
    world.await_quiet(&operator)?;
    let requests = world
        .all_requests(&operator, start)?
        .resource("customresourcedefinitions");
    let requests = requests.filter(|request| !["list", "watch"].contains(&request.verb.as_str()));
    requests.are("get customresourcedefinitions")?;
    Ok(())
}

#[test]
fn definitions_of_other_owners_stay() -> Result<()> {
    let world = replacing("crds-owners")?;
    let name = world.resource("Part");
    let mut theirs = part(&world, &["size"]);
    theirs["metadata"]["annotations"] =
        json!({"meta.helm.sh/release-name": "cm", "meta.helm.sh/release-namespace": "ops"});
    world.serve(&theirs)?;
    write_crd(&world.chart(), "2.0.0", &part(&world, &["color", "size"]))?;
    let operator = world.launch(&IMPATIENT)?;
    operator.await_log("it belongs to the Helm release ops/cm")?;
    world.await_quiet(&operator)?;
    await_fields(&world, &["size"])?;
    let digest = named_digest(&operator)?;
    world.patch("crd", &name, &json!({"metadata": {"annotations": {ALLOW: digest}}}))?;
    await_fields(&world, &["color", "size"])?;
    Ok(())
}
