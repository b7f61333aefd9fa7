//! Fields of which an object may have one: what the API server put beside the former one doesn't keep the next from
//! coming, and what others own does.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::look::{condition, uid};
use crate::operator::Operator;
use crate::support::eventually;
use crate::world::{SOON, World, member_rule};

fn world(name: &str) -> Result<(World, Operator)> {
    let world = World::new(name)?;
    world.grant(
        "workloads",
        &[
            member_rule("apps", "deployments"),
            member_rule("apps", "statefulsets"),
            member_rule("", "services"),
        ],
    )?;
    let operator = world.start()?;
    Ok((world, operator))
}

fn workload(kind: &str, fields: Value, pod: Value) -> Value {
    let mut container = json!({"name": "app", "image": "example/app"});
    let mut spec = json!({"terminationGracePeriodSeconds": 0});
    for (field, value) in pod.as_object().into_iter().flatten() {
        match field.as_str() {
            "volumes" => spec[field] = value.clone(),
            _ => container[field] = value.clone(),
        }
    }
    spec["containers"] = json!([container]);
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
        },
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

/// Renders one object after the other in the place of the first, and shows what became of it: it stays the same object,
/// nothing counts as drift, and afterwards nothing is written any more.
fn follow(world: &World, operator: &Operator, kind: &str, states: &[(Value, &str, Value)]) -> Result<()> {
    let mut first = None;
    for (index, (object, path, expected)) in states.iter().enumerate() {
        let case = format!("{kind} {index}: {path} {expected}");
        world.apply(&world.widget("a", json!({"extraDeploy": [object], "step": index})))?;
        eventually(&case, SOON, || {
            let widget = world.expect(&world.widgets(), "a")?;
            let stalled = condition(&widget, "Stalled");
            ensure!(stalled.is_none(), "{stalled:?}");
            let live = world.expect(kind, "web")?;
            let found = live.pointer(path).cloned().unwrap_or_default();
            ensure!(found == *expected, "{found}");
            Ok(Some(()))
        })?;
        let now = uid(&world.expect(kind, "web")?);
        ensure!(*first.get_or_insert(now.clone()) == now, "{case}: made anew");
    }
    let widget = world.await_ready("a")?;
    ensure!(condition(&widget, "Drifted").is_none(), "{widget}");
    world.await_quiet(operator)?;
    let start = world.mark()?;
    std::thread::sleep(Duration::from_millis(1500));
    let requests = world.requests(operator, start)?;
    ensure!(requests.clone().writes().is_empty(), "{requests}");
    let log = operator.log();
    ensure!(!log.contains("DriftCorrected"), "{log}");
    // Nothing is left that the chart could not take back.
    let live = world.run(["get", kind, "web", "--show-managed-fields", "-o", "json"])?;
    let live: Value = serde_json::from_str(&live)?;
    let managers = live["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let updates = managers
        .iter()
        .filter(|entry| entry["manager"] == "chartwright" && entry["operation"] != "Apply");
    ensure!(updates.count() == 0, "{managers:?}");
    world.delete("a")
}

#[test]
fn a_rollout_strategy_can_be_replaced() -> Result<()> {
    let (world, operator) = world("union-strategy")?;
    let strategy = |strategy: Value| workload("Deployment", json!({"strategy": strategy}), json!({}));
    let path = "/spec/strategy";
    let recreate = json!({"type": "Recreate"});
    let default = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    let half = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "25%"}});
    follow(
        &world,
        &operator,
        "deployment",
        &[
            (workload("Deployment", json!({}), json!({})), path, default.clone()),
            (strategy(recreate.clone()), path, recreate.clone()),
            (
                strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}})),
                path,
                half,
            ),
            (strategy(recreate.clone()), path, recreate),
            (workload("Deployment", json!({}), json!({})), path, default),
        ],
    )?;
    let update = |strategy: Value| {
        workload(
            "StatefulSet",
            json!({"updateStrategy": strategy, "serviceName": "web"}),
            json!({}),
        )
    };
    let plain = workload("StatefulSet", json!({"serviceName": "web"}), json!({}));
    let path = "/spec/updateStrategy";
    let on_delete = json!({"type": "OnDelete"});
    let default = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    follow(
        &world,
        &operator,
        "statefulset",
        &[
            (plain, path, default),
            (update(on_delete.clone()), path, on_delete.clone()),
            (
                update(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}})),
                "/spec/updateStrategy/rollingUpdate/partition",
                json!(1),
            ),
            (update(on_delete.clone()), path, on_delete),
        ],
    )
}

#[test]
fn the_source_of_a_volume_and_the_handler_of_a_probe_can_be_replaced() -> Result<()> {
    let (world, operator) = world("union-pod")?;
    let volume = |source: Value| {
        let mut volume = json!({"name": "data"});
        for (field, value) in source.as_object().into_iter().flatten() {
            volume[field] = value.clone();
        }
        let other = json!({"name": "other", "configMap": {"name": "other"}});
        workload("Deployment", json!({}), json!({"volumes": [volume, other]}))
    };
    let path = "/spec/template/spec/volumes/0";
    let map = json!({"configMap": {"name": "settings"}});
    let mapped = json!({"name": "data", "configMap": {"name": "settings", "defaultMode": 420}});
    let secret = json!({"secret": {"secretName": "settings"}});
    let kept_secret = json!({"name": "data", "secret": {"secretName": "settings", "defaultMode": 420}});
    let projected = json!({"projected": {"sources": [{"configMap": {"name": "settings"}}]}});
    let host = json!({"hostPath": {"path": "/tmp"}});
    follow(
        &world,
        &operator,
        "deployment",
        &[
            // An emptyDir by default, which nobody owns.
            (volume(json!({})), path, json!({"name": "data", "emptyDir": {}})),
            (volume(map.clone()), path, mapped.clone()),
            (
                volume(json!({"emptyDir": {}})),
                path,
                json!({"name": "data", "emptyDir": {}}),
            ),
            (volume(secret), path, kept_secret),
            (volume(map.clone()), path, mapped.clone()),
            (
                volume(projected),
                "/spec/template/spec/volumes/0/configMap",
                Value::Null,
            ),
            (
                volume(host),
                "/spec/template/spec/volumes/0/hostPath/path",
                json!("/tmp"),
            ),
            (volume(map), path, mapped),
        ],
    )?;
    let probe = |handler: Value| workload("Deployment", json!({}), json!({"livenessProbe": handler}));
    let path = "/spec/template/spec/containers/0/livenessProbe";
    let http = probe(json!({"httpGet": {"port": 80}, "periodSeconds": 3}));
    follow(
        &world,
        &operator,
        "deployment",
        &[
            (
                http.clone(),
                &format!("{path}/httpGet"),
                json!({"path": "/", "port": 80, "scheme": "HTTP"}),
            ),
            (
                probe(json!({"tcpSocket": {"port": 81}})),
                &format!("{path}/tcpSocket"),
                json!({"port": 81}),
            ),
            (
                probe(json!({"grpc": {"port": 82}})),
                &format!("{path}/grpc/port"),
                json!(82),
            ),
            (
                probe(json!({"exec": {"command": ["true"]}})),
                &format!("{path}/exec"),
                json!({"command": ["true"]}),
            ),
            (http, &format!("{path}/exec"), Value::Null),
        ],
    )?;
    let variable = |source: Value| {
        let mut variable = json!({"name": "WHO"});
        for (field, value) in source.as_object().into_iter().flatten() {
            variable[field] = value.clone();
        }
        workload("Deployment", json!({}), json!({"env": [variable]}))
    };
    let path = "/spec/template/spec/containers/0/env/0";
    let field = json!({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    follow(
        &world,
        &operator,
        "deployment",
        &[
            (
                variable(field.clone()),
                &format!("{path}/valueFrom/fieldRef/fieldPath"),
                json!("metadata.name"),
            ),
            (
                variable(json!({"value": "x"})),
                path,
                json!({"name": "WHO", "value": "x"}),
            ),
            (variable(field), &format!("{path}/value"), Value::Null),
        ],
    )
}

#[test]
fn the_type_of_a_service_can_be_changed() -> Result<()> {
    let (world, operator) = world("union-service")?;
    let service = |fields: Value| {
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        });
        for (field, value) in fields.as_object().into_iter().flatten() {
            service["spec"][field] = value.clone();
        }
        service
    };
    let path = "/spec/type";
    follow(
        &world,
        &operator,
        "service",
        &[
            (service(json!({})), path, json!("ClusterIP")),
            (service(json!({"type": "NodePort"})), path, json!("NodePort")),
            (
                service(json!({"sessionAffinity": "ClientIP"})),
                "/spec/sessionAffinityConfig/clientIP/timeoutSeconds",
                json!(10800),
            ),
            (
                service(json!({"sessionAffinity": "None"})),
                "/spec/sessionAffinityConfig",
                Value::Null,
            ),
            (
                service(json!({"type": "ExternalName", "externalName": "a.example"})),
                path,
                json!("ExternalName"),
            ),
            (service(json!({})), path, json!("ClusterIP")),
        ],
    )
}

#[test]
fn what_somebody_else_owns_is_not_taken_away() -> Result<()> {
    let (world, operator) = world("union-others")?;
    world.install(
        "a",
        json!({"extraDeploy": [workload("Deployment", json!({}), json!({}))]}),
    )?;
    let theirs = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}}).to_string();
    world.run([
        "patch",
        "deployment",
        "web",
        "--type=merge",
        "--field-manager=somebody",
        "-p",
        &theirs,
    ])?;
    world.await_quiet(&operator)?;
    let recreate = workload("Deployment", json!({"strategy": {"type": "Recreate"}}), json!({}));
    world.edit("a", json!({"extraDeploy": [recreate]}))?;
    let message = world.await_stalled("a", "Immutable")?;
    ensure!(message.contains("spec.strategy.rollingUpdate"), "{message}");
    ensure!(world.expect("deployment", "web")?["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 3);
    Ok(())
}
