//! What the Kubernetes documentation says that people write operators for, one test each, by the project's charts. Only
//! choosing a leader needs another one: no follower of SampleDB takes writes because it has a label, and the members of
//! EtcdCluster choose theirs.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::databases::{credentials, database, image};
use super::etcd::set_ready;
use super::{CLUSTER, DATABASE, MEMCACHED, System};
use crate::support::eventually;
use crate::world::fields::{condition, ensure_contains, text, uid};
use crate::world::{CRASHES, HANGS, SOON, World, WorldSetup};

/// The names of the pods that the EndpointSlices of a Service lead to.
fn behind(world: &World, service: &str) -> Result<Vec<String>> {
    let slices = world.list("endpointslices", &format!("kubernetes.io/service-name={service}"))?;
    let endpoints = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
    let mut names: Vec<String> = ready
        .map(|endpoint| text(&endpoint["targetRef"]["name"]).to_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn await_behind(system: &System, service: &str, names: &[&str]) -> Result<()> {
    eventually(&format!("{service} leads to {names:?}"), SOON, || {
        let found = behind(&system.world, service)?;
        ensure!(found == names, "{found:?}");
        Ok(Some(()))
    })
}

#[test]
fn an_application_is_deployed_from_a_custom_resource() -> Result<()> {
    let system = System::new("automation-deploy", DATABASE)?;
    database(&system, "shop", json!({"size": 2}))?;
    let texts = [
        ("/ready", json!("2/2")),
        ("/endpoint", json!("shop-sampledb.automation-deploy.svc:5432")),
    ];
    system.await_status("shop", &texts)?;
    // Writes go to the first server, reads to any.
    await_behind(&system, "shop-sampledb", &["shop-sampledb-0"])?;
    await_behind(&system, "shop-sampledb-read", &["shop-sampledb-0", "shop-sampledb-1"])?;
    let secret = system.world.expect("secret", "shop-sampledb")?;
    ensure!(secret["data"]["uri"].is_string() && secret["data"]["password"].is_string());
    system.delete("shop")?;
    system.world.await_gone("statefulset", "shop-sampledb")?;
    system.end()
}

#[test]
fn the_database_state_is_backed_up_and_restored() -> Result<()> {
    let system = System::new("automation-backup", DATABASE)?;
    let world = &system.world;
    let shop = database(&system, "shop", json!({"backup": {"schedule": "@daily", "keep": 3}}))?;
    ensure!(shop["status"]["plans"][0]["next"].is_string(), "{shop}");
    let (succeeded, said) = system.run_plan("shop", "backup", &[])?;
    ensure!(succeeded, "{said}");
    let backup = &world.expect("job", "shop-sampledb-backup")?["spec"]["template"]["spec"];
    ensure_contains(
        &backup.to_string(),
        &["pg_dump", r#"{"name":"KEEP","value":"3"}"#, "shop-sampledb-backups"],
    )?;

    // Into another one, beside it.
    credentials(&system, "copy")?;
    system.install("copy", json!({"restoreFrom": {"claim": "shop-sampledb-backups"}}))?;
    let job = world.expect("job", "copy-sampledb-restore")?;
    ensure!(job["status"]["succeeded"] == 1, "{job}");
    ensure_contains(
        &job["spec"]["template"]["spec"].to_string(),
        &["pg_restore", "shop-sampledb-backups", "data-copy-sampledb-0"],
    )?;
    // The first server has the volume that was restored to.
    let volumes = &world.expect("pod", "copy-sampledb-0")?["spec"]["volumes"];
    ensure_contains(&volumes.to_string(), &["data-copy-sampledb-0"])?;
    system.end()
}

#[test]
fn the_database_and_its_schema_are_upgraded_together() -> Result<()> {
    let system = System::new("automation-upgrade", DATABASE)?;
    let world = &system.world;
    database(&system, "shop", json!({"version": "17.4"}))?;
    let migrations = json!([{"name": "001-orders", "sql": "CREATE TABLE orders (id bigint);"}]);
    let start = world.mark()?;
    system.update("shop", json!({"version": "17.5", "migrations": migrations}))?;
    // First the schema, then the servers.
    let order = world.all_requests(&system.operator, start)?.writes();
    let at = |name: &str, resource: &str| {
        let is_it = |request: &crate::support::AuditedRequest| request.name == name && request.resource == resource;
        order.iter().position(is_it)
    };
    let (schema, servers) = (at("shop-sampledb-migrate", "jobs"), at("shop-sampledb", "statefulsets"));
    ensure!(schema.is_some() && schema < servers, "{order}");
    system.await_status("shop", &[("/version", json!("17.5"))])?;

    // A schema that can't be migrated keeps the servers as they are.
    let migrations = json!([migrations[0], {"name": "002-broken", "sql": "ALTER TABLE nothing ADD name text;"}]);
    let fails = json!({"version": "17.6", "migrations": migrations, "jobs": {"podLabels": {CRASHES: "true"}}});
    system.edit("shop", fails)?;
    system.await_unready("shop", "RolledBack", &["shop-sampledb-migrate failed"])?;
    ensure!(image(&system, "shop")? == "postgres:17.5");
    system.await_status("shop", &[("/version", json!("17.5")), ("/ready", json!("1/1"))])?;
    system.end()
}

#[test]
fn a_service_leads_applications_that_know_nothing_of_kubernetes_to_it() -> Result<()> {
    let system = System::new("automation-service", MEMCACHED)?;
    system.install("cache", json!({"size": 2, "serverList": {"enabled": true}}))?;
    await_behind(&system, "cache-memcached", &["cache-memcached-0", "cache-memcached-1"])?;
    // They have names in DNS, or read the list as a file.
    let servers = |of: usize| -> String {
        (0..of)
            .map(|i| format!("cache-memcached-{i}.cache-memcached.automation-service.svc:11211\n"))
            .collect()
    };
    let listed = |of: usize| {
        let list = system.world.expect("configmap", "cache-memcached-servers")?;
        ensure!(text(&list["data"]["servers"]).trim() == servers(of).trim(), "{list}");
        Ok::<_, anyhow::Error>(())
    };
    listed(2)?;
    system.update("cache", json!({"size": 3}))?;
    listed(3)?;
    await_behind(
        &system,
        "cache-memcached",
        &["cache-memcached-0", "cache-memcached-1", "cache-memcached-2"],
    )?;
    system.end()
}

#[test]
fn a_leader_is_chosen_for_an_application_that_can_not_choose_one() -> Result<()> {
    let world = World::with("automation-leader", WorldSetup::USUAL)?.use_chart("elected")?;
    world.grant("elect", &world.project_rules("rbac/elect_role.yaml")?)?;
    let world = world.watch_key("elect: [{kind: StatefulSet, name: '{{ .metadata.name }}-db'}]");
    let operator = world.start()?;
    world.install("a", json!({}))?;
    // A Service leads to the one that has the label, and to the next one when that goes.
    let await_leader = |former: &str| {
        eventually("the Service leads to one other pod", SOON, || {
            let found = behind(&world, "a-db-leader")?;
            let [leader] = found.as_slice() else {
                anyhow::bail!("{found:?}");
            };
            ensure!(leader != former, "{leader}");
            Ok(Some(leader.clone()))
        })
    };
    let first = await_leader("")?;
    world.kubectl.delete("pod", &first)?;
    let second = await_leader(&first)?;
    let pod = uid(&world.expect("pod", &second)?);
    let elected = eventually("the status shows the leader", SOON, || {
        let elected = world.live("a")?["status"]["elected"][0].clone();
        ensure!(elected["uid"] == pod.as_str(), "{elected}");
        Ok(Some(elected))
    });
    elected.with_context(|| operator.log())?;
    ensure!(operator.terminate()?.success());
    Ok(())
}

/// The account that the plan's Job has, and what it may.
fn account(system: &System) -> Result<()> {
    let (group, name) = ("rbac.authorization.k8s.io", "chaos");
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": system.world.name});
    let items = json!([
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
        {
            "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}],
        },
        {
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": name},
            "subjects": [subject], "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        },
    ]);
    system
        .world
        .apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// What the Job's command does for one member, with the Job's rights.
fn evict(system: &System, pod: &str) -> Result<String> {
    let namespace = &system.world.name;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}});
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
    let account = format!("--as=system:serviceaccount:{namespace}:chaos");
    let arguments = ["create", "--raw", &path, "-f", "-", &account];
    system.world.kubectl.run_with_input(arguments, &eviction.to_string())
}

/// No container runs here, so the test does what the Job's command would, with the Job's rights.
#[test]
fn a_simulated_failure_is_recovered_and_measured() -> Result<()> {
    let system = System::new("automation-chaos", CLUSTER)?;
    let world = &system.world;
    account(&system)?;
    let spec = json!({"chaos": {"serviceAccountName": "chaos"}, "jobs": {"podLabels": {HANGS: "true"}}});
    system.install("kv", spec)?;
    let before: Vec<String> = world
        .list("pods", "app.kubernetes.io/component=database")?
        .iter()
        .map(uid)
        .collect();

    // A request beyond the quorum is refused before any change.
    let (succeeded, said) = system.run_plan("kv", "chaos", &["k=2"])?;
    ensure!(!succeeded, "{said}");
    let failed = condition(&system.live("kv")?, "PlanFailed");
    ensure_contains(
        text(&failed["message"]),
        &["k is 2, and a cluster of 3 keeps its quorum without at most 1"],
    )?;
    world.absent("job", ["kv-etcd-chaos"])?;

    let request = json!({"chartwright.dev/run-plan": "chaos@1", "chartwright.dev/plan-params": r#"{"k": "1"}"#});
    world.patch(&system.resource(), "kv", &json!({"metadata": {"annotations": request}}))?;
    let job = world.await_there("job", "kv-etcd-chaos")?;
    let pod = &job["spec"]["template"]["spec"];
    ensure_contains(
        &pod.to_string(),
        &[
            r#"{"name":"PODS","value":"kv-etcd-2"}"#,
            "/eviction",
            r#""serviceAccountName":"chaos""#,
        ],
    )?;
    // While another member is away, the PodDisruptionBudget refuses what the plan would take.
    set_ready(&system, "kv-etcd-0", false)?;
    world.await_field("poddisruptionbudget", "kv-etcd", "/status/disruptionsAllowed", 0)?;
    let refused = evict(&system, "kv-etcd-2").err().context("it is evicted")?;
    ensure_contains(&format!("{refused:#}"), &["disruption budget"])?;
    set_ready(&system, "kv-etcd-0", true)?;
    world.await_field("poddisruptionbudget", "kv-etcd", "/status/disruptionsAllowed", 1)?;
    evict(&system, "kv-etcd-2")?;
    world.end_pods_of("kv-etcd-chaos", "Succeeded")?;
    let recovered = eventually(
        "all members are healthy again, and the status shows how long that took",
        SOON,
        || {
            let kv = system.live("kv")?;
            let recovery = text(&kv["status"]["recovery"])
                .strip_suffix('s')
                .and_then(|seconds| seconds.parse::<u32>().ok());
            recovery.with_context(|| kv["status"].to_string())?;
            Ok(Some(kv))
        },
    )?;
    ensure!(
        recovered["status"]["quorum"] == "3 of 3 members in quorum",
        "{recovered}"
    );
    let after: Vec<String> = world
        .list("pods", "app.kubernetes.io/component=database")?
        .iter()
        .map(uid)
        .collect();
    ensure!(
        after.len() == 3 && after.iter().filter(|pod| !before.contains(pod)).count() == 1,
        "{after:?}"
    );
    system.end()
}
