//! What can't be changed in place, what must not be changed, and what the API server doesn't take as it is rendered.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::{condition, ensure_contains, inventory, is_marked, uid};
use crate::world::{World, annotated_map, crd, member_rule};

fn job(image: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "{{ .Release.Name }}-job", "annotations": annotations},
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "job", "image": image}],
        }}},
    })
}

fn stateful_set(size: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 0, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "example/db"}]}},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
            }],
        },
    })
}

#[test]
fn an_immutable_field_of_a_stateful_set_is_named_with_a_step_that_keeps_its_pods() -> Result<()> {
    let world = World::new("immutable-sts")?.granted("apps", "statefulsets")?;
    let _operator = world.start()?;
    world.install("a", json!({"extraDeploy": [stateful_set("8Gi")]}))?;
    world.edit("a", json!({"extraDeploy": [stateful_set("16Gi")]}))?;
    let field = "spec.volumeClaimTemplates[0].spec.resources.requests.storage can't be changed";
    let step = "kubectl delete statefulset db -n immutable-sts --cascade=orphan";
    world.await_stalled("a", "Immutable", &[field, step, "claims keep their size"])?;
    world.run(["delete", "statefulset", "db", "--cascade=orphan"])?;
    world.await_ready("a")?;
    let set = world.expect("statefulset", "db")?;
    let size = &set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"];
    ensure!(*size == "16Gi", "{set}");
    Ok(())
}

#[test]
fn an_immutable_field_is_reported_and_other_members_are_applied() -> Result<()> {
    let world = World::new("immutable-job")?.granted("batch", "jobs")?;
    let _operator = world.start()?;
    world.install("a", json!({"extraDeploy": [job("example/app:1", json!({}))]}))?;
    let first = uid(&world.expect("job", "a-job")?);

    let second = job("example/app:2", json!({}));
    world.edit("a", json!({"color": "red", "extraDeploy": [second]}))?;
    let message = world.await_stalled("a", "Immutable", &["Job.batch immutable-job/a-job", "Recreate"])?;
    ensure_contains(&message, &["templates/extra.yaml", "spec.template", "can't be changed"])?;
    ensure!(!message.contains("example/app"), "values don't belong there: {message}");
    ensure!(uid(&world.expect("job", "a-job")?) == first, "it was replaced");
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");

    // Once, for everything, by the custom resource.
    world.annotate("a", json!({"chartwright.dev/force-at": "now"}))?;
    let widget = world.await_ready("a")?;
    ensure!(widget["status"]["lastHandledForceAt"] == "now", "{widget}");
    let second = world.expect("job", "a-job")?;
    ensure!(uid(&second) != first, "it was not recreated");
    ensure!(second["spec"]["template"]["spec"]["containers"][0]["image"] == "example/app:2");
    world.await_event("a", "UpgradeSuccessful", &["recreated", "spec.template"])?;

    // The request is spent.
    world.edit("a", json!({"extraDeploy": [job("example/app:3", json!({}))]}))?;
    world.await_stalled("a", "Immutable", &[])?;
    ensure!(uid(&world.expect("job", "a-job")?) == uid(&second));
    // By an annotation of the chart, or one that a user set with kubectl.
    world.run(["annotate", "job", "a-job", "chartwright.dev/force=true"])?;
    world.await_ready("a")?;
    let third = uid(&world.expect("job", "a-job")?);
    ensure!(third != uid(&second), "it was not recreated");
    let policy = json!({"chartwright.dev/update": "Recreate"});
    world.update("a", json!({"extraDeploy": [job("example/app:4", policy)]}))?;
    ensure!(uid(&world.expect("job", "a-job")?) != third, "it was not recreated");
    Ok(())
}

#[test]
fn objects_with_data_are_recreated_only_if_confirmed() -> Result<()> {
    let world = World::new("immutable-claim")?.granted("", "persistentvolumeclaims")?;
    let _operator = world.start()?;
    let claim = |mode: &str| {
        json!({"extraDeploy": [{
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "{{ .Release.Name }}-data", "annotations": {"chartwright.dev/update": "Recreate"}},
            "spec": {"storageClassName": "none", "accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
        }]})
    };
    world.apply_widget("a", claim("ReadWriteOnce"))?;
    let first = uid(&world.await_there("pvc", "a-data")?);
    world.edit("a", claim("ReadWriteMany"))?;
    world.await_stalled("a", "Immutable", &["data", "chartwright.dev/prune=true"])?;
    ensure!(uid(&world.expect("pvc", "a-data")?) == first, "its data went");
    world.run(["annotate", "pvc", "a-data", "chartwright.dev/prune=true"])?;
    world
        .await_object("pvc", "a-data", "is recreated", |claim| {
            uid(claim) != first && claim["spec"]["accessModes"][0] == "ReadWriteMany"
        })
        .map(drop)
}

/// Trap 9: "is immutable" is only text. An object that could not be recreated is never deleted.
#[test]
fn an_error_text_does_not_delete_a_healthy_object() -> Result<()> {
    let world = World::new("immutable-text")?;
    world.grant("picky", &[member_rule(&world.group(), "pickys")])?;
    let rule = json!({"rule": "self != 'pink'", "message": "field is immutable"});
    let mut crd = crd(&world.group(), "Picky");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
        "type": "object", "properties": {"color": {"type": "string", "x-kubernetes-validations": [rule]}},
    });
    world.serve(&crd)?;
    let _operator = world.start()?;
    let picky = |color: &str| {
        json!({"extraDeploy": [{
            "apiVersion": format!("{}/v1", world.group()), "kind": "Picky",
            "metadata": {"name": "{{ .Release.Name }}", "annotations": {"chartwright.dev/update": "Recreate"}},
            "spec": {"color": color},
        }]})
    };
    world.install("a", picky("blue"))?;
    let kind = world.resource("Picky");
    let before = uid(&world.expect(&kind, "a")?);
    world.edit("a", picky("pink"))?;
    world.await_stalled("a", "ObjectInvalid", &["field is immutable"])?;
    ensure!(uid(&world.expect(&kind, "a")?) == before);
    world.update("a", picky("green"))?;
    ensure!(uid(&world.expect(&kind, "a")?) == before);
    Ok(())
}

#[test]
fn the_reconcile_annotation_excludes_members() -> Result<()> {
    let world = World::new("leave-alone")?;
    let operator = world.start()?;
    let once = |color: &str| {
        let mut map = annotated_map("{{ .Release.Name }}-once", "chartwright.dev/update", "IfNotPresent");
        map["data"] = json!({"color": color});
        json!({"color": color, "extraDeploy": [map]})
    };
    // The chart only requires that this object of another owner exists; it is no member, and no release waits for it.
    world.run(["create", "configmap", "b-once", "--from-literal=color=theirs"])?;
    let widget = world.install("b", once("blue"))?;
    ensure!(inventory(&widget) == ["ConfigMap b-main"], "{widget}");
    let theirs = world.expect("configmap", "b-once")?;
    ensure!(theirs["data"]["color"] == "theirs" && !is_marked(&theirs), "{theirs}");
    // Nor is each look at it an upgrade.
    world.annotate("b", json!({"chartwright.dev/requested-at": "now"}))?;
    let looked = world.await_field(&world.widgets(), "b", "/status/lastHandledReconcileAt", "now")?;
    ensure!(looked["status"]["release"]["revision"] == 1, "{looked}");
    world.delete("b")?;
    ensure!(uid(&world.expect("configmap", "b-once")?) == uid(&theirs));

    world.install("a", once("blue"))?;
    world.update("a", once("red"))?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    ensure!(world.expect("configmap", "a-once")?["data"]["color"] == "blue");
    world.paint("a-once", "mine")?;
    std::thread::sleep(Duration::from_secs(1));
    ensure!(world.expect("configmap", "a-once")?["data"]["color"] == "mine");
    world.kubectl.delete("configmap", "a-once")?;
    world.await_color("a-once", "red")?;

    // A user excludes one member to try something.
    world.run(["annotate", "configmap", "a-main", "chartwright.dev/reconcile=disabled"])?;
    world.paint("a-main", "mine")?;
    world.update("a", json!({"color": "green", "size": 2}))?;
    std::thread::sleep(Duration::from_secs(1));
    let main = world.expect("configmap", "a-main")?;
    ensure!(main["data"] == json!({"color": "mine", "size": "1"}), "{main}");
    world.await_quiet(&operator)?;
    world.run(["annotate", "configmap", "a-main", "chartwright.dev/reconcile-"])?;
    world.await_object("configmap", "a-main", "follows the chart again", |main| {
        main["data"]["color"] == "green" && main["data"]["size"] == "2"
    })?;
    world.await_ready("a").map(drop)
}

#[test]
fn manifests_that_server_side_apply_refuses_are_corrected_or_reported() -> Result<()> {
    let world = World::new("untyped")?;
    world.add_template("odd.yaml")?;
    let _operator = world.start()?;
    world.install("a", json!({}))?;
    let odd = world.expect("deployment", "a-odd")?;
    let env = &odd["spec"]["template"]["spec"]["containers"][0]["env"];
    ensure!(*env == json!([{"name": "B", "value": "other"}, {"name": "A", "value": "last"}]));
    world.await_event("a", "DuplicateKeys", &["templates/odd.yaml", "name=\"A\""])?;

    world.edit("a", json!({"color": "red"}))?;
    world.await_stalled("a", "ObjectInvalid", &["templates/odd.yaml:10", "spec.repliccas"])?;
    let widget = world.update("a", json!({"color": "blue"}))?;
    ensure!(condition(&widget, "Stalled").is_null());
    Ok(())
}

/// Trap 12. Their pods are made by kwok, which ends those of Jobs.
#[test]
fn a_finished_job_that_its_ttl_removes_is_satisfied() -> Result<()> {
    let world = World::new("job-ttl")?.granted("batch", "jobs")?;
    let operator = world.start()?;
    let job = |image: &str| {
        let mut job = job(image, json!({}));
        job["spec"]["suspend"] = false.into();
        job["spec"]["ttlSecondsAfterFinished"] = 2.into();
        json!({"extraDeploy": [job]})
    };
    world.apply_widget("a", job("example/app:1"))?;
    let first = uid(&world.await_there("job", "a-job")?);
    world.await_gone("job", "a-job")?;
    let widget = world.await_ready("a")?;
    let rows = widget["status"]["inventory"].as_array().context("no inventory")?;
    let is_finished = |row: &Value| row["kind"] == "Job" && row["finished"] == true;
    ensure!(rows.iter().any(is_finished), "{rows:?}");
    std::thread::sleep(Duration::from_secs(1));
    world.absent("job", ["a-job"])?;
    // Nor after a restart, nor with another edit.
    ensure!(operator.terminate()?.success());
    let _operator = world.start_and_settle()?;
    world.update("a", json!({"color": "red"}))?;
    world.absent("job", ["a-job"])?;
    // Another Job is another matter.
    world.edit("a", job("example/app:2"))?;
    world
        .await_object("job", "a-job", "runs", |job| uid(job) != first)
        .map(drop)
}
