//! Releases that operator-sdk's helm-operator or Helm made, with our operator in their place.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::AuditedRequest;
use crate::world::fields::{TRACKING, annotation, ensure_contains, inventory, is_marked, label, text, uid};
use crate::world::helm_releases::{self, FormerRelease, kind, pods, restore, restore_as, store_chart};
use crate::world::operator::Operator;
use crate::world::{World, widget_chart};

const SDK: &str = "operator-sdk-store";

/// A world whose Widget is the store of the fixtures.
fn store(name: &str, keys: &[&str]) -> Result<World> {
    of_chart(name, &store_chart(), keys)
}

fn of_chart(name: &str, chart: &Path, keys: &[&str]) -> Result<World> {
    let world = World::new(name)?;
    helm_releases::grant(&world)?;
    world.write_watches_of(&[("Widget", chart, keys)])?;
    Ok(world)
}

fn as_it_was(_: &mut Value) {}

/// Every member is the same object as before, and only ours.
fn members_are_ours(world: &World, former: &FormerRelease) -> Result<()> {
    for before in former.members() {
        let name = text(&before["metadata"]["name"]);
        let now = world.expect(&kind(before), name)?;
        ensure!(uid(&now) == uid(before), "{name} was recreated");
        ensure!(is_marked(&now), "{now}");
        // The former owner reference is replaced by ours, which has no controller.
        let references = now["metadata"]["ownerReferences"].as_array();
        let is_ours = references.is_some_and(|all| all.len() == 1 && all[0].get("controller").is_none());
        let had = before["metadata"]["ownerReferences"].is_array();
        ensure!(is_ours || !had && references.is_none(), "{now}");
        ensure!(label(&now, "helm.sdk.operatorframework.io/chart").is_none(), "{now}");
        let annotations = now["metadata"]["annotations"].to_string();
        let former = ["meta.helm.sh/release-name", "operator-sdk/primary-resource"];
        ensure!(!former.iter().any(|gone| annotations.contains(gone)), "{now}");
        let entries = now["metadata"]["managedFields"].as_array().into_iter().flatten();
        let entries = entries.filter(|entry| entry["subresource"] != "status");
        let managers: Vec<_> = entries
            .map(|entry| (text(&entry["manager"]), text(&entry["operation"])))
            .collect();
        ensure!(managers == [("chartwright", "Apply")], "{name}: {managers:?}");
        if !before["spec"].is_null() && kind(before) != "job.v1.batch" {
            ensure!(now["spec"] == before["spec"]);
        }
        ensure!(now["data"] == before["data"]);
    }
    Ok(())
}

/// A complete takeover of an unchanged release: nothing is recreated, no pod ends, nothing of the former owner remains.
fn takes_over(world: &World, former: &FormerRelease) -> Result<Operator> {
    let before = former.await_pods(world)?;
    ensure!(former.secrets(world)? > 0);
    let operator = world.start()?;
    let widget = former.await_taken_over(world)?;
    world.await_ready(&former.name)?;
    members_are_ours(world, former)?;
    ensure!(pods(world)? == before, "pods were restarted");
    ensure!(former.secrets(world)? == 0, "release Secrets are left");
    ensure!(widget["status"]["deployedRelease"].is_null(), "{}", widget["status"]);
    let managers = widget["metadata"]["managedFields"].to_string();
    ensure!(!managers.contains("helm-operator"), "{managers}");
    let listed = inventory(&widget).len();
    ensure!(listed == former.members().count(), "{listed}: {widget}");
    world.await_quiet(&operator)?;
    Ok(operator)
}

#[test]
fn a_helm_operator_release_is_taken_over_without_touching_a_pod() -> Result<()> {
    let world = store("take-store", &[])?;
    let former = restore(&world, SDK, "shop", as_it_was)?;
    let start = world.mark()?;
    let operator = takes_over(&world, &former)?;
    // The revision goes on, and an unchanged render is none.
    let widget = world.live("shop")?;
    ensure!(widget["status"]["release"]["revision"] == 5);
    world.await_event("shop", "TakenOver", &["helm-operator"])?;

    // In this order: our finalizer before the members, the release Secrets after everything but our own annotation.
    let all = world.all_requests(&operator, start)?.writes();
    let named = |request: &AuditedRequest| format!("{} {}/{}", request.verb, request.resource, request.subresource);
    let writes: Vec<String> = all.iter().map(named).collect();
    let count = |text: &str, among: &[String]| among.iter().filter(|write| *write == text).count();
    let at = |text: &str| writes.iter().position(|write| write == text);
    let claim = at("patch widgets/").with_context(|| format!("{writes:?}"))?;
    let (before, after) = writes.split_at(at("delete secrets/").with_context(|| format!("{writes:?}"))?);
    let member = at("patch configmaps/");
    ensure!(member.is_some_and(|member| claim < member), "{writes:?}");
    ensure!(count("patch widgets/", before) >= 2, "{writes:?}");
    ensure!(count("patch widgets/status", before) >= 2, "{writes:?}");
    ensure!(count("patch deployments/", after) == 0, "{writes:?}");
    ensure!(count("patch widgets/", after) == 1, "{writes:?}");

    // What the chart drops later goes, though it was helm-operator that had set it; what others set stays.
    world.run(["annotate", "configmap", "shop-config", "other=note"])?;
    world.update("shop", json!({"dropped": false, "extra": false}))?;
    let config = world.expect("configmap", "shop-config")?;
    ensure!(config["data"] == json!({"color": "red"}), "{config}");
    ensure!(label(&config, "dropped").is_none(), "{config}");
    ensure!(annotation(&config, "other") == Some("note"), "{config}");
    let deployment = world.expect("deployment", "shop")?;
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    ensure!(*env == json!([{"name": "COLOR", "value": "red"}]), "{env}");
    world.await_gone("configmap", "shop-extra")?;
    world.delete("shop")?;
    world.await_gone("priorityclass", "take-store-shop")?;
    ensure!(!is_marked(&world.expect("configmap", "shop-kept")?));
    Ok(())
}

#[test]
fn a_takeover_runs_no_install_hooks_again() -> Result<()> {
    let world = World::new("take-hooks")?.use_chart("../takeover/charts/store")?;
    helm_releases::grant(&world)?;
    world.write_watches()?;
    let hook = |at: &str| {
        let container = json!([{"name": "main", "image": "example/main"}]);
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "shop-hook", "annotations": {"helm.sh/hook": at}},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": container}}},
        })
    };
    let events = "post-install,pre-upgrade";
    world.write_template("hook.yaml", &hook(events).to_string())?;
    let former = restore(&world, SDK, "shop", as_it_was)?;
    world.apply(&hook(events))?;
    let left = uid(&world.expect("job", "shop-hook")?);
    let _operator = takes_over(&world, &former)?;
    let widget = world.expect(&world.widgets(), "shop")?;
    ensure!(widget["status"]["hooks"]["runs"].is_null(), "{widget}");
    ensure!(uid(&world.expect("job", "shop-hook")?) == left, "it ran again");

    // The next upgrade runs it, in the place of what helm-operator left.
    world.patch(&world.widgets(), "shop", &json!({"spec": {"color": "green"}}))?;
    let job = world.await_object("job", "shop-hook", "is recreated", |job| uid(job) != left)?;
    ensure!(is_marked(&job), "{job}");
    world.await_ready("shop").map(drop)
}

#[test]
fn the_memcached_release_is_taken_over() -> Result<()> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/memcached");
    let world = of_chart("take-memcached", &chart, &[])?;
    let former = restore(&world, "operator-sdk-memcached", "cache", as_it_was)?;
    takes_over(&world, &former).map(drop)
}

#[test]
fn a_release_with_kept_secret_and_cluster_scoped_members_is_taken_over() -> Result<()> {
    let allow = "allow: {kinds: [PriorityClass.scheduling.k8s.io]}";
    let world = of_chart("take-widget", &widget_chart(), &[allow])?;
    // The finalizer of helm-operator's early versions and of helm-operator-plugins.
    let legacy = |widget: &mut Value| widget["metadata"]["finalizers"] = json!(["uninstall-helm-release"]);
    let former = restore(&world, "operator-sdk-widget", "plain", legacy)?;
    takes_over(&world, &former).map(drop)
}

#[test]
fn a_custom_resource_that_is_being_deleted_is_uninstalled_without_its_chart() -> Result<()> {
    let world = store("take-delete", &[])?;
    let former = restore(&world, SDK, "shop", as_it_was)?;
    former.await_pods(&world)?;
    // No operator serves it: helm-operator is gone, and ours has not started.
    world.begin_delete("shop")?;
    let broken = world.second_chart("broken")?;
    world.write_watches_of(&[("Widget", &broken, &[])])?;
    let _operator = world.start()?;
    world.await_deleted("shop")?;
    for member in former.members() {
        let name = text(&member["metadata"]["name"]);
        if name != "shop-kept" {
            world.await_gone(&kind(member), name)?;
        }
    }
    let kept = world.expect("configmap", "shop-kept")?;
    ensure!(!is_marked(&kept), "{kept}");
    ensure!(former.secrets(&world)? == 0);
    Ok(())
}

#[test]
fn a_suspended_release_stays_helm_operators_and_outlives_its_custom_resource() -> Result<()> {
    let world = store("take-suspend", &[])?;
    let suspend = |widget: &mut Value| widget["metadata"]["annotations"]["chartwright.dev/suspend"] = "true".into();
    let former = restore(&world, SDK, "shop", suspend)?;
    let before = former.await_pods(&world)?;
    let operator = world.start()?;
    world.await_condition("shop", "Suspended", "True")?;
    world.await_quiet(&operator)?;
    let same = |object: &Value| {
        let name = text(&object["metadata"]["name"]);
        let now = world.expect(&kind(object), name)?;
        let metadata = |object: &Value, field: &str| object["metadata"][field].clone();
        for field in ["labels", "annotations", "ownerReferences"] {
            let mut was = metadata(object, field);
            // The Deployment's controller counts in an annotation.
            if field == "annotations" && object["kind"] == "Deployment" {
                was["deployment.kubernetes.io/revision"] = "1".into();
            }
            ensure!(metadata(&now, field) == was, "{field} of {now}");
        }
        Ok::<_, anyhow::Error>(())
    };
    let mut members = former.members().filter(|member| member["kind"] != "Job");
    members.try_for_each(same)?;

    world.delete("shop")?;
    // The garbage collector would have taken what the custom resource owned.
    std::thread::sleep(Duration::from_secs(3));
    for member in former.members() {
        let name = text(&member["metadata"]["name"]);
        let now = world.expect(&kind(member), name)?;
        ensure!(uid(&now) == uid(member), "{now}");
        ensure!(now["metadata"]["deletionTimestamp"].is_null(), "{now}");
    }
    ensure!(pods(&world)? == before);
    Ok(())
}

#[test]
fn a_helm_release_is_refused_by_name_and_adopted_if_the_watch_allows() -> Result<()> {
    for (world, file, name) in [
        ("take-helm-apply", "helm-4-apply", "mart"),
        ("take-helm-update", "helm-4-update", "wares"),
    ] {
        let world = store(world, &[])?;
        let former = restore(&world, file, name, as_it_was)?;
        let before = former.await_pods(&world)?;
        let operator = world.start()?;
        world.apply_widget(name, json!({"color": "red"}))?;
        let message = world.await_stalled(name, "Collision", &[])?;
        let owner = format!("it belongs to the Helm release {}/{name}", world.name);
        let advice = format!("{owner}; to take it over, set `collisions: Adopt`");
        ensure_contains(&message, &[&advice])?;
        let untouched = world.expect("deployment", name)?;
        ensure!(!is_marked(&untouched) && former.secrets(&world)? == 1, "{untouched}");
        drop(operator);

        world.write_watches_of(&[("Widget", &store_chart(), &["collisions: Adopt"])])?;
        let _operator = world.start()?;
        former.await_taken_over(&world)?;
        world.await_ready(name)?;
        members_are_ours(&world, &former)?;
        ensure!(pods(&world)? == before, "pods were restarted");
        // Helm's Secret goes after the status is written, and this is reported after that.
        world.await_event(name, "TakenOver", &["from Helm"])?;
        ensure!(former.secrets(&world)? == 0);
        world.update(name, json!({"dropped": false}))?;
        let config = world.expect("configmap", &format!("{name}-config"))?;
        ensure!(config["data"] == json!({"color": "red"}), "{config}");
        ensure!(label(&config, "dropped").is_none(), "{config}");
    }
    Ok(())
}

#[test]
fn a_custom_resource_cannot_request_the_takeover_of_a_helm_release() -> Result<()> {
    let sdk = json!({"finalizers": ["helm.sdk.operatorframework.io/uninstall-release"]});
    let legacy = json!({"finalizers": ["uninstall-helm-release"]});
    let taken = json!({"annotations": {"chartwright.dev/takeover": "operator-sdk"}});
    for (letter, forged) in [("a", sdk), ("b", legacy), ("c", taken)] {
        let world = &format!("take-forged-{letter}");
        let world = World::new(world)?;
        helm_releases::grant(&world)?;
        world.write_watches()?;
        // The chart has nothing in common with what Helm installed, so that no object is in the way.
        let former = restore(&world, "helm-4-apply", "mart", as_it_was)?;
        let operator = world.start()?;
        let mut widget = world.widget("mart", json!({}));
        for (field, value) in forged.as_object().into_iter().flatten() {
            widget["metadata"][field] = value.clone();
        }
        world.apply(&widget)?;
        let exists = format!("the Helm release {}/mart exists", world.name);
        world.await_stalled("mart", "Collision", &[&exists])?;
        world.absent("configmap", ["mart-main"])?;
        world.delete("mart")?;
        ensure!(former.secrets(&world)? == 1, "Helm's Secret is gone");
        for member in former.members() {
            let name = text(&member["metadata"]["name"]);
            let now = world.expect(&kind(member), name)?;
            ensure!(uid(&now) == uid(member) && !is_marked(&now), "{now}");
        }

        // Nor does one that is a release already, or goes.
        world.install("other", json!({}))?;
        let former = restore_as(&world, "helm-4-update", "wares", "other", as_it_was)?;
        world.patch_widget("other", &json!({"metadata": forged}))?;
        world.await_quiet(&operator)?;
        ensure!(former.secrets(&world)? == 1, "Helm's Secret is gone");
        world.delete("other")?;
        ensure!(former.secrets(&world)? == 1);
    }
    Ok(())
}

#[test]
fn members_missing_from_the_chart_stay_with_helm() -> Result<()> {
    let world = store("take-helm-part", &["collisions: Adopt"])?;
    let former = restore(&world, "helm-4-apply", "mart", as_it_was)?;
    let _operator = world.start()?;
    world.install("mart", json!({"color": "red", "extra": false}))?;
    former.await_taken_over(&world)?;
    let left = world.expect("configmap", "mart-extra")?;
    ensure!(!is_marked(&left), "{left}");
    ensure!(annotation(&left, "meta.helm.sh/release-name") == Some("mart"), "{left}");
    ensure!(former.secrets(&world)? == 1);
    world
        .await_event("mart", "TakenOver", &["ConfigMap take-helm-part/mart-extra"])
        .map(drop)
}

#[test]
fn foreign_objects_are_adopted_only_by_force_and_never_from_another_release() -> Result<()> {
    let world = World::new("take-force")?;
    let make = |name: &str, annotations: Value| {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "old", "old": "yes"},
            "metadata": {"name": name, "annotations": annotations},
        });
        world.kubectl.run_with_input(["apply", "-f", "-"], &object.to_string())
    };
    make("a-main", json!({}))?;
    let helm = json!({"meta.helm.sh/release-name": "another", "meta.helm.sh/release-namespace": "take-force"});
    make("b-main", helm)?;

    world.write_watches_of(&[("Widget", &world.chart(), &["collisions: Adopt"])])?;
    let operator = world.start()?;
    world.apply_widget("a", json!({}))?;
    world.apply_widget("b", json!({}))?;
    world.await_stalled("a", "Collision", &["not made by this operator"])?;
    world.await_stalled("b", "Collision", &["take-force/another, and this one is take-force/b"])?;
    drop(operator);

    world.write_watches_of(&[("Widget", &world.chart(), &["collisions: Force"])])?;
    let _operator = world.start()?;
    for name in ["a", "b"] {
        world.await_ready(name)?;
        let main = world.expect("configmap", &format!("{name}-main"))?;
        ensure!(is_marked(&main), "{main}");
        ensure!(main["data"] == json!({"color": "blue", "size": "1"}), "{main}");
        let applied = annotation(&main, "kubectl.kubernetes.io/last-applied-configuration");
        let release = annotation(&main, "meta.helm.sh/release-name");
        ensure!(applied.is_none() && release.is_none(), "{main}");
    }
    // The name of a member of a, rendered by c.
    let stolen = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-main"}});
    let owner = annotation(&world.expect("configmap", "a-main")?, TRACKING).map(str::to_owned);
    world.apply_widget("c", json!({"extraDeploy": [stolen]}))?;
    world.await_stalled("c", "Collision", &["another release"])?;
    let main = world.expect("configmap", "a-main")?;
    ensure!(annotation(&main, TRACKING).map(str::to_owned) == owner, "{main}");
    owner.context("a-main is tracked").map(drop)
}
