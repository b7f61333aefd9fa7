//! What bit well-known neighbours when they applied and compared objects. The others of the list are tested elsewhere:
//!
//! | trap | test |
//! |---|---|
//! | random values rendered again in each loop | `values::random_results::random_results_survive_edits_restarts_and_a_deleted_member` |
//! | a CRD that is made and used in one pass | `crds::install::a_crd_among_the_templates_comes_before_its_objects` |
//! | kinds without a generation | `apply::drift::a_deleted_or_changed_member_is_restored` |
//! | labels that drift don't move the generation | `apply::drift::removed_labels_and_annotations_of_members_are_restored` |
//! | "is immutable" is only text | `apply::immutable::an_error_text_does_not_delete_a_healthy_object` |
//! | a namespace on an object that has none | `pitfalls::apply::server_defaults_are_no_drift` |
//! | a Job that its TTL removes | `apply::immutable::a_finished_job_that_its_ttl_removes_is_satisfied` |
//! | a retry wrapper for each reconcile | none is made: `drift::correction_backoff` and the Events of a release are bounded |
//! | a request without a time limit | `cluster::connection::tests::a_request_without_an_answer_ends` |
//! | labels that an owner copies to its children | `prune::guards::objects_with_copied_labels_are_no_prune_candidates` |
//! | one cluster-scoped name in two releases | `security::refusals::an_object_belongs_to_one_release_at_a_time` |
//! | a field manager that is renamed | `apply::drift::a_deployment_scaled_or_edited_by_hand_is_corrected` |
//! | a generation observed by a retry | `rollout::retry::failures_are_counted_until_success_or_an_edit` |

use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::{ensure_contains, inventory, text, versions};
use crate::world::operator::Operator;
use crate::world::{World, objects};

/// No requests for some seconds: live objects equal the render.
fn rests(world: &World, operator: &Operator) -> Result<()> {
    world.await_quiet(operator)?;
    world.ensure_no_requests(operator, 1.5)
}

/// Order, blanks and comments of a manifest are not its content.
#[test]
fn manifests_are_not_compared_as_text() -> Result<()> {
    let world = World::new("trap-02")?;
    world.add_template("text.yaml")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    let before = versions(&world.labelled("configmaps")?);
    ensure!(operator.terminate()?.success());
    fs::remove_file(world.chart().join("templates/text.yaml"))?;
    world.add_template("text-otherwise.yaml")?;
    let operator = world.start_and_settle()?;
    let widget = world.await_ready("a")?;
    ensure!(versions(&world.labelled("configmaps")?) == before);
    ensure!(widget["status"]["release"]["revision"] == 1, "{widget}");
    rests(&world, &operator)
}

/// What the API server makes of a manifest (defaults, dropped empty lists, rules of an aggregated role) is no drift.
#[test]
fn server_defaults_are_no_drift() -> Result<()> {
    let rbac = "rbac.authorization.k8s.io";
    let world = World::new("trap-10")?.watch_key(
        "allow: {kinds: [Role.rbac.authorization.k8s.io, ClusterRole.rbac.authorization.k8s.io, PriorityClass.scheduling.k8s.io]}",
    );
    let free = json!({"apiGroups": [rbac], "resources": ["roles", "clusterroles"], "verbs": ["escalate"]});
    world.grant("free", &[free])?;
    let world = world
        .granted(rbac, "roles")?
        .granted(rbac, "clusterroles")?
        .granted("", "services")?;
    let operator = world.start()?;
    world.install("a", json!({"extraDeploy": objects("defaulted")?}))?;
    world.await_object("clusterrole", "trap-10-views", "is aggregated", |role| {
        role["rules"].as_array().is_some_and(|rules| !rules.is_empty())
    })?;
    rests(&world, &operator)?;
    let drifted = world.events("a")?.iter().any(|(reason, _)| reason.contains("Drift"));
    ensure!(!drifted, "{:?}", world.events("a")?);
    world.delete("a")?;
    world.await_gone("priorityclass", "trap-10")
}

/// operator-sdk takes both for one release.
#[test]
fn releases_of_two_kinds_with_one_name_are_separate() -> Result<()> {
    let world = World::new("trap-14")?;
    world.install_crd("Gadget")?;
    let gadget = world.second_chart("rival")?;
    world.write_watches_of(&[("Widget", &world.chart(), &[]), ("Gadget", &gadget, &[])])?;
    let _operator = world.start()?;
    world.apply(&world.custom("Gadget", "a", json!({})))?;
    world.await_condition_of(&world.resource("Gadget"), "a", "Ready", "True")?;
    let before = world.expect("configmap", "a-main")?;
    world.apply_widget("a", json!({"extra": ["one"]}))?;
    let message = world.await_stalled("a", "Collision", &[])?;
    let owner = format!("Gadget.{} trap-14/a", world.group());
    ensure_contains(&message, &["another release", &owner])?;
    world.await_event("a", "Collision", &[&owner])?;
    ensure!(world.expect("configmap", "a-main")? == before, "it was touched");
    world.await_there("configmap", "a-one")?;
    // Each goes with its own.
    world.delete("a")?;
    ensure!(world.expect("configmap", "a-main")? == before);
    Ok(())
}

/// A status in a manifest says nothing of how the object is, and no two write it.
#[test]
fn a_status_in_a_manifest_does_not_count_as_health() -> Result<()> {
    let world = World::new("trap-16")?.with_gadgets()?;
    let operator = world.start()?;
    let mut gadget = world.custom("Gadget", "made", json!({}));
    gadget["status"] = json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]});
    world.install("a", json!({"extraDeploy": [gadget]}))?;
    let status = world.expect(&world.resource("Gadget"), "made")?["status"].clone();
    ensure!(status.is_null(), "{status}");
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "not yet"}]}});
    world
        .kubectl
        .patch_status(&world.resource("Gadget"), "made", &unready)?;
    let ready = world.await_condition("a", "Ready", "False")?;
    ensure_contains(text(&ready["message"]), &["made"])?;
    rests(&world, &operator)?;
    Ok(())
}

#[test]
fn lists_are_expanded_and_empty_documents_skipped() -> Result<()> {
    let world = World::new("trap-19")?;
    world.add_template("lists.yaml")?;
    world.write_template("empty.yaml", "# nothing\n---\n---\n")?;
    let operator = world.start()?;
    let widget = world.install("a", json!({}))?;
    ensure!(inventory(&widget) == ["ConfigMap a-main", "ConfigMap first", "ConfigMap second"]);
    rests(&world, &operator)
}

/// Lists with keys are shared item by item; lists without keys have one owner.
#[test]
fn lists_with_and_without_keys_are_merged_correctly() -> Result<()> {
    let world = World::new("trap-23")?;
    let operator = world.start()?;
    world.install("a", json!({"extraDeploy": objects("keyed")?}))?;
    let container = |object: &Value| object["spec"]["template"]["spec"]["containers"][0].clone();
    // An item and a container of another field manager.
    let foreign = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "app", "env": [{"name": "THEIRS", "value": "2"}]},
        {"name": "sidecar", "image": "example/sidecar:1"},
    ]}}}});
    world.patch_by("strategic", "deployment", "a", &foreign)?;
    rests(&world, &operator)?;
    let drift = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "app", "command": ["run", "slowly"], "env": [{"name": "OURS", "value": "9"}]},
    ]}}}});
    world.patch_by("strategic", "deployment", "a", &drift)?;
    let after = world.await_object("deployment", "a", "is as rendered", |object| {
        let container = container(object);
        let env = container["env"].as_array().cloned().unwrap_or_default();
        env.contains(&json!({"name": "OURS", "value": "1"})) && container["command"] == json!(["run", "fast"])
    })?;
    let env = container(&after)["env"].clone();
    ensure!(env.as_array().is_some_and(|env| env.len() == 2), "{env}");
    let containers = &after["spec"]["template"]["spec"]["containers"];
    ensure!(containers.as_array().map(Vec::len) == Some(2), "{containers}");
    let texts = [
        "containers[name=app].command changed by kubectl-patch",
        "env[name=OURS].value",
    ];
    world.await_event("a", "DriftCorrected", &texts)?;
    rests(&world, &operator)
}
