//! What an operator does without a right that it needs, and when it gets it: it says which, goes on by itself, and
//! deletes nothing until then.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::{AuditedRequests, eventually, until};
use crate::world::fields::{condition, ensure_contains, inventory, is_ready, text, uid};
use crate::world::operator::{ELECTED, IMPATIENT, Launch};
use crate::world::{SOON, World, WorldSetup, crd, member_rule};

fn without(name: &str, resources: &[&str]) -> Result<World> {
    World::with(name, WorldSetup::without(resources))
}

const NEEDS_RIGHTS: &str = "the operator needs the rights";

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

/// Takes rights away, and waits until the API server knows.
fn revoke(world: &World, role: &str) -> Result<()> {
    world.revoke(role)?;
    std::thread::sleep(Duration::from_secs(1));
    Ok(())
}

#[test]
fn a_forbidden_status_write_is_reported_by_an_event_and_retried_with_backoff() -> Result<()> {
    let world = without("rights-status", &["widgets/status"])?;
    let operator = world.start()?;
    world.apply_widget("a", json!({"extra": ["one"]}))?;
    let texts = ["cannot patch resource \"widgets/status\"", NEEDS_RIGHTS];
    world.await_event("a", "StatusUnwritten", &texts)?;
    world.await_there("configmap", "a-one")?;
    let start = world.mark()?;
    std::thread::sleep(Duration::from_secs(6));
    let attempts = world.requests(&operator, start)?.resource("widgets");
    ensure!((1..=3).contains(&attempts.len()), "{attempts}");

    // The inventory was not recorded.
    operator.kill()?;
    world.edit("a", json!({"extra": ["two"]}))?;
    let _operator = world.start()?;
    world.await_there("configmap", "a-two")?;
    world.await_gone("configmap", "a-one")?;
    world.grant("status", &[rule(&world.group(), "widgets/status", &["patch"])])?;
    let widget = world.await_ready("a")?;
    ensure!(inventory(&widget) == ["ConfigMap a-main", "ConfigMap a-two"]);
    Ok(())
}

#[test]
fn forbidden_events_are_reported_in_the_log() -> Result<()> {
    let world = without("rights-events", &["events"])?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.update("a", json!({"color": "green"}))?;
    let count = operator.log().matches("Events can't be written").count();
    ensure!(count == 1, "{count} times in\n{}", operator.log());
    world.grant("events", &[rule("events.k8s.io", "events", &["create", "patch"])])?;
    std::thread::sleep(Duration::from_secs(1));
    world.update("a", json!({"color": "red"}))?;
    world.await_event("a", "UpgradeSuccessful", &[]).map(drop)
}

#[test]
fn without_lease_rights_no_replica_leads_and_a_leader_that_loses_them_ends() -> Result<()> {
    let world = without("rights-leases", &["leases"])?;
    let mut operator = world.launch(&ELECTED)?;
    world.apply_widget("a", json!({}))?;
    operator.await_log("leader election needs get, create and update on leases")?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(operator.is_running() && world.labelled("configmaps")?.is_empty());
    let leases = rule("coordination.k8s.io", "leases", &["get", "create", "update"]);
    world.grant("leases", &[leases])?;
    world.await_ready("a")?;

    let theirs = json!({"spec": {"holderIdentity": "another"}});
    world.patch("lease", "widgets", &theirs)?;
    ensure!(operator.wait()?.code() == Some(1), "{}", operator.log());
    let text = "leadership lost: lease rights-leases/widgets is held by another";
    ensure_contains(&operator.log(), &[text])
}

/// As projects of operator-sdk have it: Events of the core group, and a Lease that may be looked at.
#[test]
fn a_role_that_can_only_read_leases_is_enough_for_one_replica() -> Result<()> {
    let world = without("rights-old", &["events", "leases"])?;
    let look = rule("coordination.k8s.io", "leases", &["get"]);
    world.grant("old", &[rule("", "events", &["create"]), look])?;
    let start = world.mark()?;
    let mut operator = world.launch(&ELECTED)?;
    world.apply_widget("a", json!({}))?;
    operator.await_log("leader election needs get, create and update on leases")?;
    operator.await_log("working without the Lease, as the only replica")?;
    world.await_ready("a")?;
    world.await_event("a", "InstallSuccessful", &[])?;
    operator.await_log("Events are written through the core API")?;
    for color in ["red", "green"] {
        world.update("a", json!({"color": color}))?;
    }
    world.await_event("a", "UpgradeSuccessful", &[])?;
    let requests = world.all_requests(&operator, start)?.resource("events");
    let groups: BTreeSet<(String, u16)> = requests.iter().map(|one| (one.group.clone(), one.status)).collect();
    ensure!(groups.contains(&(String::new(), 201)), "{groups:?}");
    let refused = requests
        .iter()
        .filter(|one| one.status == 403 && one.group == "events.k8s.io");
    ensure!(refused.count() == 1, "requested repeatedly");

    // Another process that may write it has the Lease: this one ends.
    let held = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "widgets"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 15, "leaseTransitions": 0}});
    world.kubectl.apply(&held.to_string())?;
    ensure!(operator.wait()?.code() == Some(1), "{}", operator.log());
    ensure_contains(&operator.log(), &["lease rights-old/widgets is held by another now"])
}

#[test]
fn the_operator_waits_for_the_right_to_its_key_and_continues() -> Result<()> {
    let world = without("rights-key", &["secrets"])?;
    let mut operator = world.start()?;
    world.apply_widget("a", json!({}))?;
    operator.await_log("before the operator may `get` Secret rights-key/rights-key-hmac-key")?;
    std::thread::sleep(Duration::from_secs(7));
    let count = operator.log().matches("no release is worked on").count();
    ensure!(
        count == 1 && operator.is_running(),
        "{count} times in\n{}",
        operator.log()
    );
    ensure!(world.labelled("configmaps")?.is_empty());
    let mut key = rule("", "secrets", &["get"]);
    key["resourceNames"] = json!(["rights-key-hmac-key"]);
    world.grant("key", &[rule("", "secrets", &["create"]), key])?;
    world.await_ready("a").map(drop)
}

#[test]
fn a_member_kind_without_rights_is_reported_and_blocks_prune() -> Result<()> {
    let world = without("rights-member", &["configmaps"])?.granted("", "secrets")?;
    let _operator = world.start()?;
    let spec =
        |color: &str, secret: bool| json!({"color": color, "secret": {"enabled": secret, "password": "hunter2"}});
    let parts = [
        "ConfigMap",
        "resource \"configmaps\"",
        "needs the rights get, list, watch, create, patch, delete on configmaps",
        "`chartwright generate rbac -o config/rbac/role.yaml`",
    ];
    let await_forbidden = || world.await_unready("a", "Forbidden", &parts);
    world.apply_widget("a", spec("blue", true))?;
    await_forbidden()?;
    world.await_event("a", "Forbidden", &parts)?;
    world.grant("maps", &[member_rule("", "configmaps")])?;
    world.await_ready("a")?;

    revoke(&world, "maps")?;
    world.edit("a", spec("red", false))?;
    await_forbidden()?;
    std::thread::sleep(Duration::from_secs(2));
    world.expect("secret", "a-secret")?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "blue");
    world.grant("maps", &[member_rule("", "configmaps")])?;
    world.await_ready("a")?;
    ensure!(world.expect("configmap", "a-main")?["data"]["color"] == "red");
    // As soon as the watch of the ConfigMaps, which may have been refused in between, shows all of them again.
    world.await_gone("secret", "a-secret")
}

#[test]
fn missing_rights_on_the_watched_kind_are_reported() -> Result<()> {
    let world = without("rights-own", &["widgets"])?;
    let operator = world.start()?;
    world.apply_widget("a", json!({}))?;
    operator.await_log("cannot list resource \\\"widgets\\\"")?;
    world.grant("look", &[rule(&world.group(), "widgets", &["get", "list", "watch"])])?;
    world.await_event("a", "Claim", &["finalizer", NEEDS_RIGHTS])?;
    ensure!(world.labelled("configmaps")?.is_empty(), "made without a claim");
    let touch = [rule(&world.group(), "widgets", &["patch"])];
    world.grant("touch", &touch)?;
    world.await_ready("a")?;

    revoke(&world, "touch")?;
    world.begin_delete("a")?;
    world.await_event("a", "DeleteFailed", &["chartwright.dev/release", NEEDS_RIGHTS])?;
    let widget = world.live("a")?;
    ensure!(condition(&widget, "Ready")["reason"] == "DeleteFailed", "{widget}");
    world.grant("touch", &touch)?;
    world.await_deleted("a")
}

#[test]
fn a_namespace_without_rights_affects_no_other() -> Result<()> {
    let world = World::with("rights-one", WorldSetup::only_in(&["rights-one"]))?;
    let other = world.control_plane.kubectl().create_namespace("rights-other")?;
    let operator = world.launch(&Launch {
        arguments: &["--watch-namespace=rights-one,rights-other"],
        ..IMPATIENT
    })?;
    operator.await_log("in the namespace \\\"rights-other\\\"")?;
    world.install("a", json!({"extra": ["one"]}))?;
    world.update("a", json!({"extra": []}))?;
    world.await_gone("configmap", "a-one")?;

    let mut widget = world.widget("b", json!({}));
    widget["metadata"]["namespace"] = "rights-other".into();
    other.apply(&widget.to_string())?;
    let own = rule(&world.group(), "widgets", &["get", "list", "watch", "patch"]);
    let status = rule(&world.group(), "widgets/status", &["patch"]);
    world.grant("other", &[member_rule("", "configmaps"), own, status])?;
    eventually("the other namespace works, too", SOON, || {
        Ok(other.get(&world.widgets(), "b")?.filter(is_ready))
    })
    .map(drop)
}

#[test]
fn force_keeps_replicas_while_their_manager_is_unknown() -> Result<()> {
    let world = without("rights-scale", &["horizontalpodautoscalers"])?.use_chart("web")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.kubectl.scale("kube-controller-manager", "a", 4)?;
    world.await_quiet(&operator)?;
    world.force("a", "once")?;
    let texts = ["Deployment.apps rights-scale/a", "list horizontalpodautoscalers"];
    world.await_event("a", "ReplicasLeft", &texts)?;
    world.await_quiet(&operator)?;
    ensure!(world.expect("deployment", "a")?["spec"]["replicas"] == 4);
    world.await_ready("a")?;
    world.grant("look", &[rule("autoscaling", "horizontalpodautoscalers", &["list"])])?;
    std::thread::sleep(Duration::from_secs(1));
    world.force("a", "twice")?;
    world.await_field("deployment", "a", "/spec/replicas", 2).map(drop)
}

const ROLES: [&str; 3] = [
    "rbac/role.yaml",
    "rbac/leader_election_role.yaml",
    "rbac/hmac_key_role.yaml",
];
const MEMBER_VERBS: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
const CUSTOM_RESOURCE_VERBS: [&str; 4] = ["get", "list", "watch", "patch"];

fn memcached() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/memcached")
}

/// Everything that charts/memcached can make.
fn all_of_memcached() -> Value {
    json!({
        "serverList": {"enabled": true}, "networkPolicy": {"enabled": true},
        "metrics": {"enabled": true, "serviceMonitor": {"enabled": true}},
    })
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

#[test]
fn each_right_of_the_role_is_needed() -> Result<()> {
    let whole = World::new("rights-missed")?;
    let mut resources = BTreeSet::new();
    for role in ROLES {
        let rules = whole.project_rules(role)?;
        resources.extend(rules.iter().flat_map(|rule| texts(&rule["resources"])));
    }
    // Autoscalers have a test of their own, and no server has ServiceMonitors here.
    resources.retain(|resource| !["horizontalpodautoscalers", "servicemonitors"].contains(&resource.as_str()));
    ensure!(resources.len() >= 14, "{resources:?}");
    let mut running = Vec::new();
    for (number, resource) in resources.iter().enumerate() {
        let world = without(&format!("rights-missed-{number}"), &[resource])?;
        world.write_watches_of(&[("Widget", &memcached(), &[])])?;
        let start = world.mark()?;
        let operator = world.launch(&ELECTED)?;
        let mut spec = all_of_memcached();
        // Its pods find no node, so that it is asked why they don't run.
        spec["nodeSelector"] = json!({"none": "has-it"});
        world.apply_widget("a", spec)?;
        running.push((resource, world, operator, start));
    }
    for (resource, world, operator, start) in &running {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        until(&format!("{resource}/{subresource} is missed"), SOON, || {
            let requests = world.all_requests(operator, *start)?.resource(resource);
            let refused = requests.filter(|request| request.status == 403 && request.subresource == subresource);
            Ok(!refused.is_empty())
        })?;
    }
    Ok(())
}

/// The API server refuses a request without a rule, and this test refuses a rule without a request.
#[test]
fn every_right_of_the_project_is_used_and_none_is_missing() -> Result<()> {
    let world = World::with("rights-used", WorldSetup::ALONE)?;
    world.serve(&crd("monitoring.coreos.com", "ServiceMonitor"))?;

    world.write_watches_of(&[("Widget", &memcached(), &[])])?;
    let operator = world.launch(&ELECTED)?;
    world.apply_widget("a", all_of_memcached())?;
    // No pod runs here, so that it is asked why.
    let members = [
        "configmap",
        "networkpolicy",
        "servicemonitors.monitoring.coreos.com",
        "statefulset",
        "service",
        "poddisruptionbudget",
    ];
    let all = |there: bool| {
        eventually("all members come, or go", SOON, || {
            for kind in members {
                let found = world.list(kind, "app.kubernetes.io/instance=a")?;
                ensure!(found.is_empty() != there, "{kind}: {found:?}\n{}", operator.log());
            }
            Ok(Some(()))
        })
    };
    all(true)?;
    // Events that say the same become one, which is patched from the third on.
    for _ in 0..3 {
        let maps = world.list("configmap", "app.kubernetes.io/instance=a")?;
        let (name, before) = (text(&maps[0]["metadata"]["name"]), uid(&maps[0]));
        world.kubectl.delete("configmap", name)?;
        world.await_object("configmap", name, "is back", |map| uid(map) != before)?;
    }
    world.await_condition("a", "Deployed", "True")?;
    // The status template lists the pods immediately, and a new kind is watched a moment later.
    for (resource, verb) in [("pods", "list"), ("events", "list"), ("servicemonitors", "watch")] {
        until(&format!("{resource} are requested: {verb}"), SOON, || {
            let requests = world.control_plane.audit().requests()?.by_user(&operator.user);
            Ok(!requests.resource(resource).verb(verb).is_empty())
        })?;
    }
    world.delete("a")?;
    all(false)?;
    ensure!(!operator.log().contains("forbidden"), "{}", operator.log());
    let user = operator.user.clone();
    ensure!(operator.terminate()?.success());

    let requests = world.control_plane.audit().requests()?.by_user(&user);
    let mut left = Vec::new();
    for role in ROLES {
        left.extend(unused(role, &world.project_rules(role)?, &requests));
    }
    ensure!(left.is_empty(), "{left:#?}");
    Ok(())
}

/// The rights of a role that none of these requests needed.
pub fn unused(role: &str, rules: &[Value], requests: &AuditedRequests) -> Vec<String> {
    let is_used = |group: &str, resource: &str, verb: &str, names: &[String]| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        requests.iter().any(|request| {
            (request.group.as_str(), request.resource.as_str()) == (group, resource)
                && (request.subresource.as_str(), request.verb.as_str()) == (subresource, verb)
                && request.status != 403
                && (names.is_empty() || names.contains(&request.name))
        })
    };
    let mut unused = Vec::new();
    for rule in rules {
        let [groups, resources, verbs, names] =
            ["apiGroups", "resources", "verbs", "resourceNames"].map(|field| texts(&rule[field]));
        let of_members = verbs == MEMBER_VERBS;
        for (group, resource) in groups
            .iter()
            .flat_map(|group| resources.iter().map(move |one| (group, one)))
        {
            for verb in &verbs {
                let is_used = match (verb.as_str(), resource.as_str()) {
                    // What an apply needs beside patch where nothing is there yet: one request, of the verb patch.
                    ("create", _) if of_members => is_used(group, resource, "patch", &[]),
                    // One look at each member, or a list where there are many: it depends on who is first.
                    ("get", _) if of_members => is_used("", "configmaps", "get", &[]),
                    // A write that is refused asks why, and a takeover reads what is there.
                    ("get", _) if verbs == CUSTOM_RESOURCE_VERBS => true,
                    // force_keeps_replicas_while_their_manager_is_unknown
                    ("list", "horizontalpodautoscalers") => true,
                    _ => is_used(group, resource, verb, &names),
                };
                if !is_used {
                    unused.push(format!("{role}: {verb} {resource} of {group:?}"));
                }
            }
        }
    }
    unused
}

/// Leases can be limited to the names of workloads, but for their creation.
#[test]
fn every_right_of_elections_is_used_and_they_work_with_named_leases() -> Result<()> {
    const ROLE: &str = "rbac/elect_role.yaml";
    const DB: &str = "elect: [{kind: StatefulSet, name: '{{ .metadata.name }}-db'}]";
    let world = World::new("rights-elect")?.use_chart("elected")?.watch_key(
        "elect: [{kind: StatefulSet, name: '{{ .metadata.name }}-db'}, {kind: Deployment, name: '{{ .metadata.name }}-web'}]",
    );
    let mut rules = world.project_rules(ROLE)?;
    let mut named = 0;
    for rule in &mut rules {
        if rule["resources"] == json!(["leases"]) && rule["verbs"] != json!(["create"]) {
            rule["resourceNames"] = json!([
                "chartwright-elect-statefulset-a-db",
                "chartwright-elect-deployment-a-web"
            ]);
            named += 1;
        }
    }
    ensure!(named == 1, "{rules:?}");
    world.grant("elect", &rules)?;
    let operator = world.start()?;
    world.install("a", json!({"web": "1"}))?;
    let leaders = || {
        let widget = world.live("a")?;
        let all = widget["status"]["elected"].as_array().cloned().unwrap_or_default();
        let pods = all
            .iter()
            .map(|one| text(&one["pod"]).to_owned())
            .filter(|pod| !pod.is_empty());
        Ok::<Vec<String>, anyhow::Error>(pods.collect())
    };
    until("both have a leader", SOON, || Ok(leaders()?.len() == 2))?;
    let first = leaders()?;
    for pod in &first {
        world.kubectl.delete("pod", pod)?;
    }
    until("both have another", SOON, || {
        let second = leaders()?;
        Ok(second.len() == 2
            && world.live("a")?["status"]["elected"]
                .as_array()
                .into_iter()
                .flatten()
                .all(|one| one["transitions"] == 1))
    })?;
    world.write_watches_of(&[("Widget", &world.chart(), &[DB])])?;
    let operator = world.restart(operator)?;
    world.await_gone("lease", "chartwright-elect-deployment-a-web")?;
    world.delete("a")?;
    world.await_gone("lease", "chartwright-elect-statefulset-a-db")?;
    ensure!(!operator.log().contains("forbidden"), "{}", operator.log());
    let requests = world.control_plane.audit().requests()?.by_user(&operator.user);
    let left = unused(ROLE, &world.project_rules(ROLE)?, &requests);
    ensure!(left.is_empty(), "{left:#?}");
    Ok(())
}

#[test]
fn the_namespaced_rules_are_the_cluster_rules_without_cluster_scoped_kinds() -> Result<()> {
    let world = World::new("rights-namespaced")?;
    let whole = world.project_rules("rbac/role.yaml")?;
    let lies_in_none = |rule: &Value| {
        let text = rule.to_string();
        text.contains("customresourcedefinitions") || text.contains("apiservices")
    };
    let rest: Vec<Value> = whole.into_iter().filter(|rule| !lies_in_none(rule)).collect();
    ensure!(world.project_rules("namespaced/role.yaml")? == rest);
    ensure!(world.project_rules("namespaced/elect_role.yaml")? == world.project_rules("rbac/elect_role.yaml")?);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/namespaced");
    let dry = ["apply", "--dry-run=server", "-k", &folder.display().to_string()];
    let printed = world.kubectl.run(dry)?;
    ensure_contains(&printed, &["rolebinding", "chartwright-manager-role "])
}

#[test]
fn without_the_right_to_watch_crds_discovery_is_polled() -> Result<()> {
    let world = without("rights-crds", &["customresourcedefinitions", "apiservices"])?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    // A kind that is not installed: a release that waits for it must not send requests repeatedly.
    let absent = json!({"apiVersion": "absent.test/v1", "kind": "Absent", "metadata": {"name": "absent"}});
    world.apply_widget("b", json!({"extraDeploy": [absent]}))?;
    world.await_condition("b", "Ready", "False")?;
    let start = world.mark()?;
    std::thread::sleep(Duration::from_secs(6));
    let requests = world.all_requests(&operator, start)?;
    let reads = requests.filter(|request| request.uri == "/apis" || request.uri == "/api");
    ensure!(reads.len() <= 4, "{reads}");
    Ok(())
}
