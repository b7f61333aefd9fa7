//! What is tried again, how often, and what ends it. P7 and P11.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::{AuditedRequest, eventually, until};
use crate::world::fields::{condition, inventory};
use crate::world::operator::{Launch, PANIC};
use crate::world::{SOON, World, any_fields, config_map, crd, member_rule};

fn limit_range() -> Value {
    json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "{{ .Release.Name }}"},
        "spec": {"limits": [{"type": "Container", "max": {"memory": "4Gi"}}]},
    })
}

fn limits() -> Value {
    json!({"extraDeploy": [limit_range()]})
}

fn failures(world: &World, name: &str, at_least: u64) -> Result<Value> {
    eventually(&format!("{at_least} failures"), SOON, || {
        let widget = world.live(name)?;
        let count = widget["status"]["failures"].as_u64().unwrap_or_default();
        ensure!(count >= at_least, "{}", widget["status"]);
        Ok(Some(widget))
    })
}

#[test]
fn failures_are_counted_until_success_or_an_edit() -> Result<()> {
    let world = World::new("retry")?;
    let operator = world.start_and_settle()?;
    let start = world.mark()?;
    world.apply_widget("a", limits())?;
    let widget = failures(&world, "a", 3)?;
    let retrying = condition(&widget, "Reconciling");
    ensure!(retrying["reason"] == "ProgressingWithRetry", "{widget}");
    ensure!(condition(&widget, "Stalled").is_null(), "{widget}");
    // Trap 22: a generation is observed when it is decided, not when it is tried.
    let observed = &widget["status"]["observedGeneration"];
    ensure!(observed.as_i64() != widget["metadata"]["generation"].as_i64());
    let tries = world.requests(&operator, start)?.resource("limitranges").verb("get");
    ensure!(tries.len() <= 5, "1 s, 2 s, 4 s, ...:\n{tries}");
    let all = world.events("a")?;
    let events = all.iter().filter(|(reason, _)| reason == "Forbidden");
    ensure!(events.count() == 1, "a failure is all once: {all:?}");

    // A new process goes on counting: nothing has changed.
    ensure!(operator.terminate()?.success());
    let count = || anyhow::Ok(world.live("a")?["status"]["failures"].as_u64());
    let before = count()?;
    let _operator = world.start()?;
    let next = eventually("it is tried again", SOON, || {
        Ok(Some(count()?).filter(|next| *next != before))
    })?;
    ensure!(next > before, "{next:?} after {before:?}");

    // A change restarts it.
    world.annotate("a", json!({"chartwright.dev/reset-at": "now"}))?;
    let widget = world.await_field(&world.widgets(), "a", "/status/lastHandledResetAt", "now")?;
    ensure!(widget["status"]["failures"].as_u64() < Some(3), "{}", widget["status"]);
    failures(&world, "a", 2)?;
    world.update("a", json!({"extraDeploy": []}))?;
    let widget = world.live("a")?;
    ensure!(widget["status"]["failures"].is_null(), "{}", widget["status"]);

    // And without one it is tried until it works.
    world.edit("a", limits())?;
    failures(&world, "a", 1)?;
    world.grant("limits", &[member_rule("", "limitranges")])?;
    world.await_ready("a").map(drop)
}

#[test]
fn a_write_denied_by_a_policy_is_retried_until_the_policy_is_removed() -> Result<()> {
    let world = World::new("denied")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let not_pink = "!has(object.data) || !('color' in object.data) || object.data.color != 'pink'";
    world.deny_writes("CREATE, UPDATE", not_pink, "pink is immutable")?;
    let pink = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: probe}\ndata: {color: pink}\n";
    let probe = || {
        world
            .kubectl
            .run_with_input(["create", "--dry-run=server", "-f", "-"], pink)
    };
    until("the policy is at work", SOON, || Ok(probe().is_err()))?;
    world.edit("a", json!({"color": "pink"}))?;
    world.await_unready("a", "Denied", &["pink is immutable"])?;
    world.allow_writes()?;
    world.await_ready("a")?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "pink");
    Ok(())
}

/// Where a CRD has the schema of `spec`.
const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

/// ConfigMaps and a Secret of chance, beside other objects.
fn drawn(others: Value) -> Value {
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "{{ .Release.Name }}-drawn"},
        "stringData": {"password": "{{ randAlphaNum 20 }}"},
    })];
    objects.extend(others.as_array().cloned().unwrap_or_default());
    json!({"extra": ["one", "two"], "extraDeploy": objects})
}

#[test]
fn a_retry_sends_nothing_that_was_refused_and_deletes_nothing_that_is_gone() -> Result<()> {
    let world = World::new("retry-rest")?;
    let group = format!("{}.other", world.name);
    let gadgets = format!("gadgets.{group}");
    // Its size is a number.
    let mut gadget = crd(&group, "Gadget");
    *gadget.pointer_mut(SPEC).context("the schema")? =
        json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    world.serve(&gadget)?;
    world.grant("gadgets", &[member_rule(&group, "gadgets")])?;
    world.grant("secrets", &[member_rule("", "secrets")])?;
    // What may be made and not deleted.
    let mut limits = member_rule("", "limitranges");
    limits["verbs"] = json!(["get", "list", "watch", "create", "patch"]);
    world.grant("limits", &[limits])?;
    let operator = world.start_and_settle()?;
    let reconciles = |name: &str| {
        let about = format!("{}/{name}", world.name);
        let log = operator.log();
        let lines = log.lines().filter(|line| line.contains("\"reconciled\""));
        lines.filter(|line| line.contains(&about)).count()
    };
    // One member is refused.
    let gadget = |size: Value| {
        json!([{
            "apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": "{{ .Release.Name }}"},
            "spec": {"size": size},
        }])
    };
    let start = world.mark()?;
    world.apply_widget("a", drawn(gadget("large".into())))?;
    world.await_stalled("a", "ObjectInvalid", &[])?;
    // What it is judged by stays: another kind comes, and nothing is said of the spec of its own.
    let admin = world.control_plane.kubectl();
    world.install_crd("Gizmo")?;
    admin.run(["label", "crd", &gadgets, "team=x"])?;
    let enough = (reconciles("a") + 1).max(4);
    until("it is tried again", SOON, || Ok(reconciles("a") >= enough))?;
    let requests = world.requests(&operator, start)?;
    let is_of = |request: &AuditedRequest| ["configmaps", "secrets", "gadgets"].contains(&request.resource.as_str());
    let members = requests
        .clone()
        .filter(|request| is_of(request) && request.name.starts_with('a'));
    members.are("3 patch configmaps, patch gadgets, patch secrets")?;
    let kept = requests.filter(|request| request.name.starts_with("chartwright-kept-"));
    kept.are("patch secrets")?;

    // What it is judged by changes.
    let start = world.mark()?;
    let any = json!([{"op": "replace", "path": SPEC, "value": any_fields()}]);
    world.patch_by("json", "crd", &gadgets, &any)?;
    until("it is sent again", 2 * SOON, || Ok(world.get(&gadgets, "a")?.is_some()))?;
    world.await_ready("a")?;
    world.requests(&operator, start)?.resource("configmaps").none()?;

    // One can't be pruned; the random results went with the Secret that had them.
    world.install("b", drawn(json!([limit_range()])))?;
    let start = world.mark()?;
    world.edit("b", json!({"extraDeploy": []}))?;
    failures(&world, "b", 4)?;
    let requests = world.requests(&operator, start)?;
    let deleted = requests.clone().resource("limitranges").verb("delete");
    ensure!(deleted.len() >= 4, "it is tried again:\n{requests}");
    let secrets = requests.clone().resource("secrets");
    let (looks, deletes) = (secrets.clone().verb("get"), secrets.clone().verb("delete"));
    // A second look says that the Secret is the operator's before it is deleted.
    ensure!(looks.len() <= 2 && deletes.len() == 2, "{secrets}");
    requests.resource("configmaps").none()?;

    // One can't be rendered, for want of a right.
    world.install("c", drawn(json!([])))?;
    let start = world.mark()?;
    let lookup = "{{ lookup \"v1\" \"ResourceQuota\" .Release.Namespace \"a\" | toYaml }}";
    let quota = config_map("{{ .Release.Name }}-quota", json!({"quota": lookup}));
    world.edit("c", drawn(json!([quota])))?;
    failures(&world, "c", 4)?;
    let requests = world.requests(&operator, start)?.resource("secrets");
    ensure!(requests.len() <= 1, "what was drawn is known:\n{requests}");
    Ok(())
}

/// P11.
#[test]
fn one_release_that_panics_does_not_stop_the_others() -> Result<()> {
    let world = World::new("panic")?.watch_key("maxConcurrentReconciles: 1");
    let operator = world.start()?;
    world.install("bad", json!({"extra": ["one"]}))?;
    ensure!(operator.terminate()?.success());
    let mut operator = world.launch(&Launch::with(&[(PANIC, "bad")]).metered())?;
    world.edit("bad", json!({"color": "red"}))?;
    world.await_unready("bad", "Panicked", &[])?;
    ensure!(inventory(&world.live("bad")?).len() == 2, "the record is lost");
    world.install("good", json!({}))?;
    world.kubectl.delete("configmap", "good-main")?;
    world.await_there("configmap", "good-main")?;
    ensure!(operator.is_running() && operator.metric("chartwright_panics_total")? >= 1.0);
    // It goes as any other: a deletion doesn't come that far.
    world.delete("bad")?;
    world.absent("configmap", ["bad-one"])?;
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}

/// A newer generation ends the work of an older one, and so does suspending: no outdated work is finished.
#[test]
fn an_edit_cancels_the_running_reconcile() -> Result<()> {
    const MANY: usize = 300;
    let world = World::new("outdated")?;
    // So many members are recorded in Secrets.
    world.grant("secrets", &[member_rule("", "secrets")])?;
    let _operator = world.start()?;
    let names: Vec<String> = (0..MANY).map(|number| format!("m{number:03}")).collect();
    let count = || -> Result<usize> { Ok(world.labelled("configmaps")?.len()) };
    world.apply_widget("a", json!({"extra": names}))?;
    world.await_there("configmap", "a-m010")?;
    world.suspend("a")?;
    let made = count()?;
    ensure!(made < MANY, "it was finished although it was suspended: {made}");
    // What is recorded is what is there.
    let recorded = inventory(&world.live("a")?).len();
    ensure!(recorded == made, "{recorded} of {made}");
    world.annotate("a", json!({"chartwright.dev/suspend": null}))?;
    until("it goes on", SOON, || Ok(count()? > made))?;
    world.update("a", json!({"extra": ["last"]}))?;
    ensure!(world.labelled("configmaps")?.len() == 2, "{}", count()?);
    Ok(())
}
