//! What is tried again, how often, and what ends it. P7 and P11.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::look::condition;
use crate::operator::{Launch, PANIC};
use crate::support::eventually;
use crate::world::{SOON, World, member_rule};

fn limits() -> Value {
    json!({"extraDeploy": [{
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "{{ .Release.Name }}"},
        "spec": {"limits": [{"type": "Container", "max": {"memory": "4Gi"}}]},
    }]})
}

fn failures(world: &World, at_least: u64) -> Result<Value> {
    eventually(&format!("{at_least} failures"), SOON, || {
        let widget = world.expect(&world.widgets(), "a")?;
        let count = widget["status"]["failures"].as_u64().unwrap_or_default();
        ensure!(count >= at_least, "{}", widget["status"]);
        Ok(Some(widget))
    })
}

#[test]
fn failures_are_counted_until_they_pass_or_something_changes() -> Result<()> {
    let world = World::new("retry")?;
    let operator = world.start_and_settle()?;
    let start = world.mark()?;
    world.apply(&world.widget("a", limits()))?;
    let widget = failures(&world, 3)?;
    let retrying = condition(&widget, "Reconciling").unwrap_or_default();
    ensure!(retrying["reason"] == "ProgressingWithRetry", "{widget}");
    ensure!(
        condition(&widget, "Stalled").is_none(),
        "a right may be granted any time: {widget}"
    );
    // Trap 22: a generation is observed when it is decided, not when it is tried.
    let observed = &widget["status"]["observedGeneration"];
    ensure!(
        observed.as_i64() != widget["metadata"]["generation"].as_i64(),
        "{observed}"
    );
    let tries = world.requests(&operator, start)?.resource("limitranges").verb("get");
    ensure!(tries.len() <= 5, "1 s, 2 s, 4 s, ...:\n{tries}");
    let told = world.events("a")?;
    let events = told.iter().filter(|(reason, _)| reason == "Forbidden");
    ensure!(events.count() == 1, "a failure is told once: {told:?}");

    // A new process goes on counting: nothing has changed.
    ensure!(operator.terminate()?.success());
    let count = || -> Result<u64> {
        let widget = world.expect(&world.widgets(), "a")?;
        Ok(widget["status"]["failures"].as_u64().unwrap_or_default())
    };
    let before = count()?;
    let _operator = world.start()?;
    let next = eventually("it is tried again", SOON, || {
        Ok(Some(count()?).filter(|next| *next != before))
    })?;
    ensure!(next > before, "{next} after {before}");

    // A change starts it afresh, whatever it was waiting for.
    let reset = json!({"metadata": {"annotations": {"chartwright.dev/reset-at": "now"}}});
    world.kubectl.patch(&world.widgets(), "a", &reset)?;
    let widget = eventually("it counts afresh", SOON, || {
        let widget = world.expect(&world.widgets(), "a")?;
        ensure!(widget["status"]["lastHandledResetAt"] == "now", "{}", widget["status"]);
        Ok(Some(widget))
    })?;
    ensure!(widget["status"]["failures"].as_u64() < Some(3), "{}", widget["status"]);
    failures(&world, 2)?;
    world.update("a", json!({"extraDeploy": []}))?;
    let widget = world.expect(&world.widgets(), "a")?;
    ensure!(widget["status"]["failures"].is_null(), "{}", widget["status"]);

    // And without one it is tried until it works.
    world.edit("a", limits())?;
    failures(&world, 1)?;
    world.grant("limits", &[member_rule("", "limitranges")])?;
    world.await_ready("a")?;
    Ok(())
}

#[test]
fn what_a_policy_denies_is_tried_until_the_policy_goes() -> Result<()> {
    let world = World::new("denied")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let admin = world.control_plane.kubectl();
    let group = "admissionregistration.k8s.io";
    let policy = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-pink"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "denied"}},
                    "resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
                    }],
                },
                "validations": [{
                    "expression": "!has(object.data) || !('color' in object.data) || object.data.color != 'pink'",
                    "message": "pink is immutable",
                }],
            },
        },
        {
            "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "no-pink"}, "spec": {"policyName": "no-pink", "validationActions": ["Deny"]},
        },
    ]});
    admin.apply(&policy.to_string())?;
    let pink = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: probe}\ndata: {color: pink}\n";
    eventually("the policy is at work", SOON, || {
        let refused = world
            .kubectl
            .run_with_input(["create", "--dry-run=server", "-f", "-"], pink);
        Ok(refused.is_err().then_some(()))
    })?;
    world.edit("a", json!({"color": "pink"}))?;
    let ready = eventually("it is denied", SOON, || {
        let ready = world.await_condition("a", "Ready", "False")?;
        ensure!(ready["reason"] == "Denied", "{ready}");
        Ok(Some(ready))
    })?;
    ensure!(
        ready["message"]
            .as_str()
            .is_some_and(|text| text.contains("pink is immutable")),
        "{ready}"
    );
    admin.run([
        "delete",
        "validatingadmissionpolicybinding,validatingadmissionpolicy",
        "no-pink",
    ])?;
    world.await_ready("a")?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "pink");
    Ok(())
}

/// P11.
#[test]
fn one_release_that_panics_does_not_stop_the_others() -> Result<()> {
    let world = World::new("panic")?.watch_key("maxConcurrentReconciles: 1");
    let operator = world.start()?;
    world.install("bad", json!({"extra": ["one"]}))?;
    ensure!(operator.terminate()?.success());
    let mut operator = world.launch(&Launch {
        environment: &[(PANIC, "bad")],
        metrics: true,
        ..Launch::default()
    })?;
    world.edit("bad", json!({"color": "red"}))?;
    let ready = world.await_condition("bad", "Ready", "False")?;
    ensure!(ready["reason"] == "Panicked", "{ready}");
    let before = world.expect(&world.widgets(), "bad")?;
    ensure!(
        before["status"]["inventory"]
            .as_array()
            .is_some_and(|rows| rows.len() == 2),
        "the record is lost: {before}"
    );
    world.install("good", json!({}))?;
    world.kubectl.run(["delete", "configmap", "good-main"])?;
    world.await_object("configmap", "good-main", "is made anew", |_| true)?;
    ensure!(operator.is_running() && operator.metric("chartwright_panics_total")? >= 1.0);
    // It goes as any other: a deletion doesn't come that far.
    world.delete("bad")?;
    ensure!(world.get("configmap", "bad-one")?.is_none());
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}

/// A newer generation ends what an older one has begun, and so does suspending: nothing is finished in vain.
#[test]
fn a_change_ends_what_is_under_way() -> Result<()> {
    const MANY: usize = 300;
    let world = World::new("outdated")?;
    // So many members are recorded in Secrets.
    world.grant("secrets", &[member_rule("", "secrets")])?;
    let _operator = world.start()?;
    let names: Vec<String> = (0..MANY).map(|number| format!("m{number:03}")).collect();
    let count = || -> Result<usize> { Ok(world.labelled("configmaps")?.len()) };
    world.apply(&world.widget("a", json!({"extra": names})))?;
    world.await_object("configmap", "a-m010", "has begun", |_| true)?;
    let suspend = |value: Value| json!({"metadata": {"annotations": {"chartwright.dev/suspend": value}}});
    world.kubectl.patch(&world.widgets(), "a", &suspend("true".into()))?;
    world.await_condition("a", "Suspended", "True")?;
    let made = count()?;
    ensure!(made < MANY, "it was finished although it was suspended: {made}");
    // What is recorded is what is there.
    let widget = world.expect(&world.widgets(), "a")?;
    let recorded = widget["status"]["inventory"].as_array().map(Vec::len);
    ensure!(recorded == Some(made), "{recorded:?} of {made}");
    world.kubectl.patch(&world.widgets(), "a", &suspend(Value::Null))?;
    eventually("it goes on", SOON, || Ok((count()? > made).then_some(())))?;
    world.update("a", json!({"extra": ["last"]}))?;
    ensure!(world.labelled("configmaps")?.len() == 2, "{}", count()?);
    Ok(())
}
