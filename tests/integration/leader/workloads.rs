//! Leaders of workloads that have no election of their own.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::{eventually, until};
use crate::world::fields::{annotation, ensure_contains, label, text, uid};
use crate::world::operator::{Launch, METERED, Operator, UNELECTED};
use crate::world::{HANGS, PROMPT, SOON, World, WorldSetup, member_rule};

const LEADER: &str = "chartwright.dev/leader";
const LEASE: &str = "chartwright-elect-statefulset-a-db";
const DB: &str = "{kind: StatefulSet, name: '{{ .metadata.name }}-db'}";
const WEB: &str = "{kind: Deployment, name: '{{ .metadata.name }}-web', label: role, value: active}";

fn world(name: &str, elect: &str) -> Result<World> {
    let world = World::with(name, WorldSetup::USUAL)?.use_chart("elected")?;
    world.grant("elect", &world.project_rules("rbac/elect_role.yaml")?)?;
    Ok(world.watch_key(&format!("elect: [{elect}]")))
}

fn replica(replica: usize) -> Launch<'static> {
    Launch { replica, ..UNELECTED }
}

/// Everything that happens to pods, from before there are any.
struct PodEvents<'w> {
    world: &'w World,
    child: Child,
}

impl<'w> PodEvents<'w> {
    fn watch(world: &'w World) -> Result<Self> {
        let mut command = world.kubectl.command();
        command.args(["get", "pods", "--watch", "--output-watch-events", "-o", "json"]);
        command.stdout(File::create(world.dir.path().join("pods.json"))?);
        let child = world.control_plane.adopt(&mut command).stderr(Stdio::null()).spawn()?;
        Ok(PodEvents { world, child })
    }

    /// At no time two pods of an app had the label. Gives how often one got it.
    fn led_by_one(mut self, app: &str, key: &str) -> Result<usize> {
        std::thread::sleep(Duration::from_millis(500));
        self.child.kill()?;
        self.child.wait()?;
        let text = std::fs::read_to_string(self.world.dir.path().join("pods.json"))?;
        let mut labelled: BTreeMap<String, bool> = BTreeMap::new();
        let mut times = 0;
        for event in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            // The last one may be cut off.
            let Ok(event) = event else { break };
            let pod = &event["object"];
            if label(pod, "app") != Some(app) {
                continue;
            }
            let carries = event["type"] != "DELETED" && label(pod, key).is_some();
            let before = labelled.insert(uid(pod), carries).unwrap_or_default();
            times += usize::from(carries && !before);
            let now: Vec<_> = labelled.iter().filter(|(_, carries)| **carries).collect();
            ensure!(
                now.len() < 2,
                "two lead: {now:?} at {}",
                event["object"]["metadata"]["resourceVersion"]
            );
        }
        Ok(times)
    }
}

fn elected(world: &World, kind: &str) -> Result<Value> {
    let widget = world.live("a")?;
    let all = widget["status"]["elected"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|elected| elected["kind"] == kind);
    found.with_context(|| format!("no {kind} in {}", widget["status"]))
}

/// Waits for a leader other than this; its name.
fn await_leader(world: &World, kind: &str, selector: &str, former: &str) -> Result<String> {
    let led = eventually("a pod leads", PROMPT, || {
        let pods = world.list("pods", selector)?;
        let names: Vec<String> = pods.iter().map(uid).collect();
        let elected = elected(world, kind)?;
        ensure!(
            pods.len() == 1 && elected["uid"] == names[0].as_str(),
            "{names:?} {elected}"
        );
        Ok((names[0] != former).then(|| names[0].clone()))
    });
    led.with_context(|| world.describe_failure("a"))
}

fn await_db(world: &World, former: &str) -> Result<String> {
    await_leader(world, "StatefulSet", &format!("app=a-db,{LEADER}=true"), former)
}

fn pod(world: &World, uid_of_it: &str) -> Result<Value> {
    let pods = world.list("pods", "")?;
    pods.into_iter().find(|pod| uid(pod) == uid_of_it).context("it is gone")
}

fn set_ready(world: &World, name: &str, ready: bool) -> Result<()> {
    // kwok's first status of a pod would overwrite this one.
    let has_status = |pod: &Value| pod["status"]["containerStatuses"].is_array();
    world.await_object("pod", name, "has a status", has_status)?;
    let status = if ready { "True" } else { "False" };
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    world.kubectl.patch_status("pod", name, &patch)
}

/// What the Service leads to.
fn endpoints(world: &World) -> Result<Vec<String>> {
    let slices = world.list("endpointslices", "kubernetes.io/service-name=a-db-leader")?;
    let all = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    Ok(all
        .map(|endpoint| text(&endpoint["targetRef"]["uid"]).to_owned())
        .collect())
}

/// As [`World::ensure_no_requests`], Leases included.
fn ensure_no_requests(world: &World, operator: &Operator) -> Result<()> {
    world.await_quiet(operator)?;
    let start = world.mark()?;
    world.ensure_no_requests(operator, 1.5)?;
    world.all_requests(operator, start)?.resource("leases").none()
}

#[test]
fn another_pod_becomes_leader_when_the_leader_is_deleted() -> Result<()> {
    let world = world("elect-one", DB)?;
    let pods = PodEvents::watch(&world)?;
    let operator = world.launch(&METERED)?;
    world.install("a", json!({}))?;
    let first = await_db(&world, "")?;
    until("the Service leads to it alone", SOON, || {
        Ok(endpoints(&world)? == [first.clone()])
    })?;
    let leader = pod(&world, &first)?;
    let managers = leader["metadata"]["managedFields"].to_string();
    ensure_contains(&managers, &["\"chartwright-elect\""])?;
    let name = text(&leader["metadata"]["name"]);
    world.await_event(
        "a",
        "LeaderElected",
        &["StatefulSet a-db", name, "chartwright.dev/leader=true"],
    )?;
    let lease = world.expect("lease", LEASE)?;
    ensure!(lease["spec"]["holderIdentity"] == format!("{name}/{first}"), "{lease}");
    ensure_no_requests(&world, &operator)?;

    world.kubectl.delete("pod", name)?;
    let second = await_db(&world, &first)?;
    until("the Service leads to it alone", SOON, || {
        Ok(endpoints(&world)? == [second.clone()])
    })?;
    until("all are there again", SOON, || {
        Ok(world.list("pods", "app=a-db")?.len() == 3)
    })?;
    world.await_ready("a")?;
    let name = text(&pod(&world, &second)?["metadata"]["name"]).to_owned();
    set_ready(&world, &name, false)?;
    let third = await_db(&world, &second)?;
    ensure!(elected(&world, "StatefulSet")?["transitions"] == 2);
    set_ready(&world, &name, true)?;
    ensure_no_requests(&world, &operator)?;
    ensure!(await_db(&world, "")? == third, "it keeps it");
    let former = pod(&world, &second)?;
    ensure!(
        annotation(&former, "chartwright.dev/leader-epoch").is_some(),
        "{former}"
    );
    let series = format!(
        "chartwright_elections_total{{group=\"{}\",kind=\"Widget\"}}",
        world.group()
    );
    ensure!(operator.metric(&series)? == 3.0, "{}", operator.metrics()?);

    // An operator that starts knows it from the status.
    let start = world.mark()?;
    let operator = world.restart(operator)?;
    operator.await_log("watching")?;
    world.await_quiet(&operator)?;
    let requests = world.all_requests(&operator, start)?;
    requests.clone().resource("leases").none()?;
    requests
        .filter(|request| request.resource == "pods" && request.verb == "get")
        .none()?;
    ensure!(pods.led_by_one("a-db", LEADER)? == 3);
    world.delete("a")?;
    world.await_gone("lease", LEASE)
}

#[test]
fn a_hand_written_label_makes_no_leader_and_unready_pods_never_lead() -> Result<()> {
    let world = world("elect-hand", DB)?;
    let operator = world.start()?;
    world.install("a", json!({"replicas": 2}))?;
    let leader = await_db(&world, "")?;
    let pods = world.list("pods", "app=a-db")?;
    let name = |pod: &Value| text(&pod["metadata"]["name"]).to_owned();
    let other = pods.iter().find(|pod| uid(pod) != leader).context("only one")?;
    world.patch("pod", &name(other), &json!({"metadata": {"labels": {LEADER: "true"}}}))?;
    until("it loses the label", PROMPT, || {
        Ok(label(&pod(&world, &uid(other))?, LEADER).is_none())
    })?;
    ensure!(await_db(&world, "")? == leader);

    // Neither is one that only looks like it.
    let fake = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "other", "labels": {"app": "a-db", "chartwright.test/other": "yes"}},
        "spec": {"containers": [{"name": "db", "image": "example/db:1"}]},
    });
    world.apply(&fake)?;
    world.kubectl.wait("Ready", "pod", "other", SOON)?;
    for pod in &pods {
        set_ready(&world, &name(pod), false)?;
    }
    until("no pod leads, and the status says so", PROMPT, || {
        let unset = elected(&world, "StatefulSet")?;
        let labelled = world.list("pods", LEADER)?;
        Ok(labelled.is_empty() && unset["pod"].is_null() && unset["message"] == "none of its pods is ready")
    })
    .with_context(|| world.describe_failure("a"))?;
    ensure_no_requests(&world, &operator)?;
    set_ready(&world, &name(other), true)?;
    ensure!(await_db(&world, "")? == uid(other));

    // Nothing moves while it is suspended.
    world.suspend("a")?;
    world.await_condition("a", "Suspended", "True")?;
    set_ready(&world, &name(other), false)?;
    std::thread::sleep(Duration::from_millis(1500));
    ensure!(label(&pod(&world, &uid(other))?, LEADER).is_some());
    world.annotate("a", json!({"chartwright.dev/suspend": null}))?;
    until("it moves on", PROMPT, || Ok(world.list("pods", LEADER)?.is_empty()))
}

#[test]
fn an_elect_entry_removed_from_the_watch_removes_label_and_lease() -> Result<()> {
    let both = format!("{DB}, {WEB}");
    let world = world("elect-drop", &both)?;
    world.grant("web", &[member_rule("apps", "deployments")])?;
    let operator = world.start()?;
    world.install("a", json!({"web": 1}))?;
    await_db(&world, "")?;
    let web = |former: &str| await_leader(&world, "Deployment", "app=a-web,role=active", former);
    let first = web("")?;
    // All pods of the Deployment are replaced by those of another ReplicaSet.
    world.update("a", json!({"web": 2}))?;
    let second = web(&first)?;
    ensure_no_requests(&world, &operator)?;
    ensure!(web("")? == second);
    let chart = world.chart();
    let elect = format!("elect: [{}]", WEB.replace("role", "part"));
    world.write_watches_of(&[("Widget", &chart, &[&elect])])?;
    let operator = world.replace(operator)?;
    until("the new label is the only one", SOON, || {
        let of = |selector: &str| world.list("pods", selector);
        Ok(of(LEADER)?.is_empty() && of("role")?.is_empty() && of("part=active")?.len() == 1)
    })
    .with_context(|| world.describe_failure("a"))?;
    until("the status shows the leader", SOON, || {
        let elected = elected(&world, "Deployment")?;
        Ok(elected["label"] == "part" && elected["pod"].is_string())
    })?;
    world.await_gone("lease", LEASE)?;
    world.expect("lease", "chartwright-elect-deployment-a-web")?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let operator = world.replace(operator)?;
    until("nothing is left", SOON, || {
        Ok(world.live("a")?["status"]["elected"].is_null())
    })?;
    ensure!(world.list("pods", "part")?.is_empty());
    world.absent("lease", ["chartwright-elect-deployment-a-web"])?;
    ensure_no_requests(&world, &operator)
}

#[test]
fn obstacles_to_an_election_are_reported_and_affect_nothing_else() -> Result<()> {
    let world = World::new("elect-rights")?.use_chart("elected")?;
    let world = world.watch_key(&format!("elect: [{DB}, {{kind: DaemonSet, name: none}}]"));
    let operator = world.start()?;
    world.install("a", json!({}))?;
    // It may list pods, to report why a workload is unhealthy, but not watch them.
    operator.await_log("its pods can't be watched")?;
    ensure_contains(
        &operator.log(),
        &["elect_role.yaml", "cannot watch resource \\\"pods\\\""],
    )?;
    world.await_ready("a")?;
    let unset = elected(&world, "StatefulSet")?;
    ensure!(unset["pod"].is_null(), "{unset}");
    ensure!(elected(&world, "DaemonSet")?["message"] == "it is no member of this release");
    let mut rules = world.project_rules("rbac/elect_role.yaml")?;
    rules[0]["verbs"] = json!(["get", "list", "watch"]);
    world.grant("read", &rules)?;
    let operator = world.restart(operator)?;
    world.await_event(
        "a",
        "ElectionFailed",
        &["cannot patch resource \"pods\"", "the rights to"],
    )?;
    world.grant("elect", &world.project_rules("rbac/elect_role.yaml")?)?;
    let _operator = world.restart(operator)?;
    await_db(&world, "")?;

    // A label that every pod has is none to be moved.
    world.edit("a", json!({"labels": {LEADER: "true"}}))?;
    world.await_event(
        "a",
        "ElectionFailed",
        &["its pods are made with the label chartwright.dev/leader"],
    )?;
    world.await_ready("a").map(drop)
}

#[test]
fn two_operators_never_have_two_leaders() -> Result<()> {
    let world = world("elect-two", DB)?;
    let pods = PodEvents::watch(&world)?;
    let _operators = [world.launch(&replica(0))?, world.launch(&replica(1))?];
    world.install("a", json!({}))?;
    let mut leader = await_db(&world, "")?;
    for round in 0..6 {
        let name = text(&pod(&world, &leader)?["metadata"]["name"]).to_owned();
        match round % 2 {
            0 => world.kubectl.delete("pod", &name)?,
            _ => {
                set_ready(&world, &name, false)?;
                std::thread::sleep(Duration::from_millis(20 * round));
                set_ready(&world, &name, true)?;
            }
        }
        // It may have been ready again before anybody saw that it wasn't.
        let former = if round % 2 == 0 { leader.as_str() } else { "" };
        leader = await_db(&world, former)?;
    }
    ensure!(pods.led_by_one("a-db", LEADER)? >= 4);
    Ok(())
}

#[test]
fn foreign_writes_to_an_election_lease_are_not_trusted() -> Result<()> {
    let world = world("elect-forged", DB)?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    let first = await_db(&world, "")?;
    operator.kill()?;
    let containers = json!([{"name": "db", "image": "example/db:1"}]);
    let labels = json!({"app": "other", LEADER: "true"});
    world.apply(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other", "labels": labels}, "spec": {"containers": containers},
    }))?;
    let other = world.expect("pod", "other")?;
    let holder = format!("other/{}", uid(&other));
    let annotations = json!({"chartwright.dev/mark": "x", "chartwright.dev/former-holder": holder});
    let forged = json!({"metadata": {"annotations": annotations}, "spec": {"holderIdentity": holder}});
    world.patch("lease", LEASE, &forged)?;
    let name = |leader: &str| Ok::<_, anyhow::Error>(text(&pod(&world, leader)?["metadata"]["name"]).to_owned());
    set_ready(&world, &name(&first)?, false)?;
    let operator = world.start()?;
    let second = await_db(&world, &first)?;
    let lease = world.expect("lease", LEASE)?;
    ensure!(
        lease["spec"]["holderIdentity"] == format!("{}/{second}", name(&second)?),
        "{lease}"
    );
    ensure!(annotation(&lease, "chartwright.dev/mark") != Some("x"), "{lease}");
    let other = world.expect("pod", "other")?;
    ensure!(label(&other, LEADER) == Some("true"), "{other}");

    // One that doesn't even look like the operator's is left to its owner.
    world.kubectl.delete("lease", LEASE)?;
    let foreign = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}, "spec": {"holderIdentity": "me"},
    });
    world.apply(&foreign)?;
    set_ready(&world, &name(&second)?, false)?;
    world.await_event("a", "ElectionFailed", &["is not the operator's", "delete it"])?;
    ensure!(world.expect("lease", LEASE)?["spec"]["holderIdentity"] == "me");
    world.kubectl.delete("lease", LEASE)?;
    let _operator = world.restart(operator)?;
    await_db(&world, &second).map(drop)
}

#[test]
fn an_invalid_elect_entry_is_an_error_in_watches_yaml() -> Result<()> {
    let world = World::new("elect-file")?.watch_key("elect: [{kind: Job, name: x}]");
    world.write_watches()?;
    let file = world.watches_file();
    let (status, printed) = world.chartwright(&["run", "--watches-file", &file.to_string_lossy()])?;
    ensure!(!status.success(), "{printed}");
    ensure_contains(&printed, &["watches.yaml:5", "`kind` must be one of StatefulSet"])
}

#[test]
fn a_leader_is_elected_while_an_installation_waits_for_its_followers() -> Result<()> {
    let world = world("elect-waves", DB)?;
    let later = "{apiVersion: v1, kind: ConfigMap, metadata: {name: later, annotations: {chartwright.dev/wave: '1'}}}";
    world.write_template("later.yaml", later)?;
    let _operator = world.start()?;
    world.apply_widget("a", json!({"labels": {HANGS: "true"}}))?;
    world.await_there("pod", "a-db-2")?;
    set_ready(&world, "a-db-0", true)?;
    await_db(&world, "")?;
    world.absent("configmap", ["later"])?;
    ensure!(world.live("a")?["status"]["release"]["revision"] == 0);
    Ok(())
}
