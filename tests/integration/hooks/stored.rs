//! What was stored to be created later is checked again by the rules of the moment at which it is created.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::{AuditedRequest, AuditedRequests, eventually};
use crate::world::fields::{ensure_contains, text};
use crate::world::{HANGS, SOON, World, config_map, widget_chart};

const ALLOW: &str = "allow: {kinds: [ClusterRoleBinding.rbac.authorization.k8s.io]}";

fn world(name: &str) -> Result<World> {
    let world = World::new(name)?.granted("", "secrets")?.granted("batch", "jobs")?;
    let world = world.granted("rbac.authorization.k8s.io", "clusterrolebindings")?;
    let bind = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"]});
    world.grant("bind", &[bind])?;
    Ok(world)
}

fn annotated(mut object: Value, annotations: Value) -> Value {
    object["metadata"]["annotations"] = annotations;
    object
}

/// Gives `cluster-admin` to the author of a custom resource.
fn binding(name: &str, annotations: Value) -> Value {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "author"}],
    });
    annotated(binding, annotations)
}

fn writes(requests: &AuditedRequests, name: &str) -> usize {
    let is_it = |request: &&AuditedRequest| request.verb == "patch" && request.name == name;
    requests.iter().filter(is_it).count()
}

#[test]
fn a_stored_delete_hook_is_not_created_once_the_watch_no_longer_allows_it() -> Result<()> {
    let world = world("stored-hooks")?;
    world.write_watches_of(&[("Widget", &widget_chart(), &[ALLOW])])?;
    let operator = world.start()?;
    let keep = json!({"helm.sh/hook": "pre-delete", "helm.sh/resource-policy": "keep"});
    let bye = annotated(config_map("a-bye", json!({})), json!({"helm.sh/hook": "pre-delete"}));
    world.install("a", json!({"extraDeploy": [binding("stored-hooks-a", keep), bye]}))?;
    let snapshot = json!({"helm.sh/hook": "plan-snapshot", "chartwright.dev/on-delete": "true"});
    world.install(
        "b",
        json!({"extraDeploy": [binding("stored-hooks-b", snapshot.clone())]}),
    )?;
    // It is allowed, and has nothing to lose.
    world.install("c", json!({"extraDeploy": [binding("stored-hooks-c", snapshot)]}))?;
    world.begin_delete("c")?;
    world.await_deleted("c")?;
    operator.terminate()?;

    world.write_watches_of(&[("Widget", &widget_chart(), &[])])?;
    let start = world.mark()?;
    let operator = world.start()?;
    world.await_stalled("a", "Refused", &["stored-hooks-a"])?;
    world.delete("a")?;
    let refused = [
        "pre-delete hook ClusterRoleBinding stored-hooks-a is not run: the deletion goes on",
        "`allow.kinds`",
    ];
    world.await_event("a", "HookRefused", &refused)?;
    let requests = world.all_requests(&operator, start)?;
    ensure!(
        writes(&requests, "stored-hooks-a") == 0 && writes(&requests, "a-bye") == 1,
        "{requests}"
    );

    // A plan that saves something before the deletion holds it, unless the author gives that up.
    world.begin_delete("b")?;
    world.await_unready(
        "b",
        "HookFailed",
        &["plan-snapshot", "stored-hooks-b is refused", "`allow.kinds`"],
    )?;
    world.expect("configmap", "b-main")?;
    world.annotate("b", json!({"chartwright.dev/skip-plans": "true"}))?;
    world.await_deleted("b")?;
    ensure!(writes(&world.all_requests(&operator, start)?, "stored-hooks-b") == 0);
    world.absent(
        "clusterrolebinding",
        ["stored-hooks-a", "stored-hooks-b", "stored-hooks-c"],
    )
}

#[test]
fn default_delete_hooks_need_the_unchanged_chart() -> Result<()> {
    let world = world("stored-own")?;
    let template = binding(
        "stored-own-{{ .Release.Name }}",
        json!({"helm.sh/hook": "post-delete", "helm.sh/hook-delete-policy": "before-hook-creation"}),
    );
    let template = template.to_string();
    let chart = world.write_chart("own", &[("binding.yaml", &template)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let operator = world.start()?;
    for name in ["a", "b", "c"] {
        world.install(name, json!({}))?;
    }
    // Without a chart it runs as it was stored.
    operator.terminate()?;
    world.write_watches_of(&[("Widget", Path::new("/nowhere"), &[])])?;
    let start = world.mark()?;
    let operator = world.start()?;
    world.delete("a")?;
    let requests = world.all_requests(&operator, start)?;
    ensure!(writes(&requests, "stored-own-a") == 1, "{requests}");
    operator.terminate()?;

    // Another chart stores it again, unless the author keeps that from happening.
    let chart = world.write_chart(
        "own",
        &[
            ("binding.yaml", &template),
            ("new.yaml", "{{ if .Values.fails }}{{ fail \"no\" }}{{ end }}"),
        ],
    )?;
    world.edit("c", json!({"fails": true}))?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let start = world.mark()?;
    let operator = world.start()?;
    world.await_ready("b")?;
    world.await_quiet(&operator)?;
    world.delete("b")?;
    world.await_stalled("c", "RenderFailed", &["no"])?;
    world.delete("c")?;
    world.await_event(
        "c",
        "HookRefused",
        &[
            "stored-own-c",
            "the chart, its default values or the patches of the watch have changed",
        ],
    )?;
    let requests = world.all_requests(&operator, start)?;
    ensure!(
        writes(&requests, "stored-own-b") == 1 && writes(&requests, "stored-own-c") == 0,
        "{requests}"
    );
    world.absent("clusterrolebinding", ["stored-own-a", "stored-own-b", "stored-own-c"])
}

#[test]
fn a_running_plan_creates_nothing_that_the_watch_no_longer_allows() -> Result<()> {
    let world = world("stored-plan")?;
    world.write_watches_of(&[("Widget", &widget_chart(), &[ALLOW])])?;
    let operator = world.start()?;
    let pod = json!({
        "metadata": {"labels": {HANGS: "true"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example/main"}]},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a-first"},
        "spec": {"backoffLimit": 0, "template": pod},
    });
    let steps = [
        annotated(job, json!({"helm.sh/hook": "plan-work"})),
        binding(
            "stored-plan-work",
            json!({"helm.sh/hook": "plan-work", "helm.sh/hook-weight": "1"}),
        ),
    ];
    world.install("a", json!({"extraDeploy": steps}))?;
    world.annotate("a", json!({"chartwright.dev/run-plan": "work@1"}))?;
    world.await_there("job", "a-first")?;
    world.await_quiet(&operator)?;
    operator.terminate()?;
    world.write_watches_of(&[("Widget", &widget_chart(), &[])])?;
    let _operator = world.start()?;
    world.await_stalled("a", "Refused", &["stored-plan"])?;
    world.end_pods_of("a-first", "Succeeded")?;
    let parts = ["plan work failed", "stored-plan-work is refused", "`allow.kinds`"];
    world.await_event("a", "PlanFailed", &parts)?;
    eventually("the plan has failed", SOON, || {
        let plans = world.live("a")?["status"]["plans"].clone();
        ensure!(plans[0]["phase"] == "Failed", "{plans}");
        Ok(Some(ensure_contains(
            text(&plans[0]["message"]),
            &["stored-plan-work is refused"],
        )?))
    })?;
    world.absent("clusterrolebinding", ["stored-plan-work"])
}
