//! SampleDB: data that survives what happens to its servers.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{DATABASE, MOMENT, System, kinds, template};
use crate::support::eventually;
use crate::world::fields::{condition, ensure_contains, text, uid};
use crate::world::{CRASHES, HANGS, SOON};

pub(super) fn credentials(system: &System, name: &str) -> Result<()> {
    let metadata = json!({"name": format!("{name}-credentials")});
    let data = json!({"password": "app-secret-8842", "admin-password": "admin-secret-1177"});
    system
        .world
        .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}))
}

/// A database whose credentials are there.
pub(super) fn database(system: &System, name: &str, spec: Value) -> Result<Value> {
    credentials(system, name)?;
    system.install(name, spec)
}

/// The image of the first server's container.
pub(super) fn image(system: &System, name: &str) -> Result<String> {
    let set = system.world.expect("statefulset", &format!("{name}-sampledb"))?;
    Ok(text(&set["spec"]["template"]["spec"]["containers"][0]["image"]).to_owned())
}

fn migration(name: &str, sql: &str) -> Value {
    json!({"name": name, "sql": sql})
}

#[test]
fn a_database_waits_for_its_credentials_and_is_configured_once() -> Result<()> {
    let system = System::new("database-life", DATABASE)?;
    let world = &system.world;
    let spec = json!({"size": 2, "migrations": [migration("001-orders", "CREATE TABLE orders (id bigint);")]});
    system.apply("shop", spec)?;
    system.await_unready("shop", "ValuesInvalid", &["shop-credentials"])?;
    world.absent("statefulset", ["shop-sampledb"])?;
    credentials(&system, "shop")?;
    let shop = system.await_ready("shop")?;
    let texts = [
        ("/endpoint", json!("shop-sampledb.database-life.svc:5432")),
        ("/ready", json!("2/2")),
        ("/version", json!("17.5")),
    ];
    system.await_status("shop", &texts)?;
    ensure!(condition(&shop, "StatusInvalid").is_null(), "{shop}");
    for job in ["shop-sampledb-configure", "shop-sampledb-migrate"] {
        ensure!(world.expect("job", job)?["status"]["succeeded"] == 1);
    }
    let pods = world.list("pods", "app.kubernetes.io/component=database")?;
    ensure!(pods.len() == 2, "{pods:?}");
    for claim in ["data-shop-sampledb-0", "data-shop-sampledb-1", "shop-sampledb-backups"] {
        world.expect("persistentvolumeclaim", claim)?;
    }
    let plan = &shop["status"]["plans"][0];
    ensure!(plan["name"] == "backup" && plan["next"].is_string(), "{plan}");

    // Another size is not another revision of what the servers are.
    let first = uid(&pods[0]);
    system.update("shop", json!({"size": 3}))?;
    let pods = world.list("pods", "app.kubernetes.io/component=database")?;
    ensure!(pods.len() == 3 && pods.iter().any(|pod| uid(pod) == first), "{pods:?}");

    // No secret is reported.
    let texts = [
        system.live("shop")?["status"].to_string(),
        format!("{:?}", world.list("events", "")?),
        system.operator.log(),
    ];
    for said in texts {
        ensure!(!said.contains("secret-8842") && !said.contains("secret-1177"), "{said}");
    }
    for (spec, reason) in [
        (
            json!({"version": "18.0"}),
            "another major version needs a SampleDB of its own",
        ),
        (json!({"version": "latest"}), "a version is for example 17.5"),
        (json!({"size": 6}), "spec.size"),
    ] {
        system.edit("shop", json!({"version": "17.5"}))?;
        let error = system.edit("shop", spec).err().context("it is accepted")?;
        ensure_contains(&format!("{error:#}"), &[reason])?;
    }
    system.end()
}

#[test]
fn an_upgrade_whose_migration_fails_touches_no_server() -> Result<()> {
    let system = System::new("database-upgrade", DATABASE)?;
    let world = &system.world;
    let orders = migration("001-orders", "CREATE TABLE orders (id bigint);");
    database(&system, "shop", json!({"version": "17.4", "migrations": [orders]}))?;
    let ran = uid(&world.expect("job", "shop-sampledb-migrate")?);

    let names = migration("002-names", "ALTER TABLE orders ADD name text;");
    system.update("shop", json!({"version": "17.5", "migrations": [orders, names]}))?;
    ensure!(image(&system, "shop")? == "postgres:17.5");
    ensure!(uid(&world.expect("job", "shop-sampledb-migrate")?) != ran);
    let migrations = world.expect("configmap", "shop-sampledb-migrations")?;
    ensure!(migrations["data"]["001_002-names.sql"].is_string(), "{migrations}");

    // The third migration fails: no server was touched.
    let pods = |system: &System| {
        let pods = system.world.list("pods", "app.kubernetes.io/component=database")?;
        Ok::<_, anyhow::Error>(pods.iter().map(uid).collect::<Vec<_>>())
    };
    let before = pods(&system)?;
    let broken = migration("003-broken", "ALTER TABLE nothing ADD name text;");
    let fails =
        json!({"version": "17.6", "migrations": [orders, names, broken], "jobs": {"podLabels": {CRASHES: "true"}}});
    system.edit("shop", fails)?;
    let texts = [
        "HookFailed: pre-upgrade hook Job shop-sampledb-migrate failed",
        "runs as revision",
    ];
    system.await_unready("shop", "RolledBack", &texts)?;
    ensure!(image(&system, "shop")? == "postgres:17.5" && pods(&system)? == before);
    let status = &system.live("shop")?["status"]["history"];
    ensure!(status.as_array().is_some_and(|history| history.len() == 4), "{status}");

    // Without the broken one it goes on.
    let repaired = json!({"migrations": [orders, names], "jobs": {"podLabels": {CRASHES: null}}});
    system.update("shop", repaired)?;
    ensure!(image(&system, "shop")? == "postgres:17.6");
    world.await_quiet(&system.operator)?;
    system.end()
}

#[test]
fn an_upgrade_whose_servers_stay_unready_is_rolled_back() -> Result<()> {
    let system = System::with_keys("database-health", DATABASE, &[("timeout", "8s")])?;
    database(&system, "shop", json!({"size": 2, "version": "17.4"}))?;
    let pod = |number: u32| system.world.expect("pod", &format!("shop-sampledb-{number}"));
    let first = uid(&pod(0)?);
    system.edit("shop", json!({"version": "17.5", "podLabels": {HANGS: "true"}}))?;
    let texts = ["not healthy within 8s", "shop-sampledb", "runs as revision 3"];
    system.await_unready("shop", "RolledBack", &texts)?;
    ensure!(image(&system, "shop")? == "postgres:17.4");
    // The pod that couldn't start is recreated as it was; the first was never touched.
    system.await_status("shop", &[("/ready", json!("2/2")), ("/version", json!("17.4"))])?;
    ensure!(uid(&pod(0)?) == first);
    system.update("shop", json!({"podLabels": {HANGS: null}}))?;
    system.await_status("shop", &[("/ready", json!("2/2")), ("/version", json!("17.5"))])?;
    system.end()
}

#[test]
fn a_deletion_takes_a_final_backup_for_the_next_database() -> Result<()> {
    let system = System::new("database-deletion", DATABASE)?;
    let world = &system.world;
    database(&system, "shop", json!({}))?;
    ensure!(condition(&system.live("shop")?, "BackedUp")["status"] == "False");
    let (succeeded, said) = system.run_plan("shop", "backup", &[])?;
    ensure!(succeeded, "{said}");
    let ended = system.live("shop")?["status"]["plans"][0]["ended"].clone();
    let shop = system.await_status("shop", &[("/lastBackup", ended)])?;
    ensure!(condition(&shop, "BackedUp")["status"] == "True", "{shop}");
    let kept = uid(&world.expect("persistentvolumeclaim", "shop-sampledb-backups")?);
    let before = uid(&world.expect("job", "shop-sampledb-backup")?);
    let start = world.mark()?;
    system.delete("shop")?;
    let made = system.writes(start, "jobs", "shop-sampledb-backup")?;
    ensure!(
        made.iter().any(|request| request.verb == "patch"),
        "no last backup instead of {before}: {made}"
    );
    let order = world.all_requests(&system.operator, start)?.writes();
    let at = |resource: &str, verb: &str| {
        order
            .iter()
            .position(|request| request.resource == resource && request.verb == verb)
    };
    ensure!(at("jobs", "patch") < at("statefulsets", "delete"), "{order}");
    world.await_gone("persistentvolumeclaim", "data-shop-sampledb-0")?;
    let backups = world.expect("persistentvolumeclaim", "shop-sampledb-backups")?;
    ensure!(
        uid(&backups) == kept && backups["metadata"]["deletionTimestamp"].is_null(),
        "{backups}"
    );

    // The next one of the name finds them, and begins with the newest.
    let start = world.mark()?;
    system.install(
        "shop",
        json!({"restoreFrom": {"claim": "shop-sampledb-backups"}, "keepVolume": true}),
    )?;
    let order = world.all_requests(&system.operator, start)?.writes();
    let at = |resource: &str| {
        order
            .iter()
            .position(|request| request.resource == resource && request.verb == "patch")
    };
    let (claim, job) = (at("persistentvolumeclaims"), at("jobs"));
    ensure!(claim.is_some() && claim < job && job < at("statefulsets"), "{order}");
    world.absent("secret", ["shop-sampledb-restore"])?;
    ensure!(uid(&world.expect("persistentvolumeclaim", "shop-sampledb-backups")?) == kept);
    let volume = uid(&world.expect("persistentvolumeclaim", "data-shop-sampledb-0")?);
    world
        .list("pods", "app.kubernetes.io/component=database")?
        .first()
        .context("a server")?;
    system.delete("shop")?;
    std::thread::sleep(MOMENT);
    let left = world.expect("persistentvolumeclaim", "data-shop-sampledb-0")?;
    ensure!(
        uid(&left) == volume && left["metadata"]["deletionTimestamp"].is_null(),
        "{left}"
    );
    system.end()
}

#[test]
fn a_failed_final_backup_keeps_the_data() -> Result<()> {
    let system = System::new("database-last", DATABASE)?;
    let world = &system.world;
    database(&system, "shop", json!({"jobs": {"podLabels": {"team": "shop"}}}))?;
    // From now on no Job of its ends.
    let hangs = json!({"jobs": {"podLabels": {HANGS: "true"}}, "backup": {"schedule": ""}});
    system.edit("shop", hangs)?;
    eventually("the Job that configures hangs", SOON, || {
        world.end_pods_of("shop-sampledb-configure", "Succeeded")?;
        Ok(condition(&system.live("shop")?, "Ready")["status"]
            .eq("True")
            .then_some(()))
    })?;
    world.kubectl.begin_delete(&system.resource(), "shop")?;
    world.await_there("job", "shop-sampledb-backup")?;
    std::thread::sleep(MOMENT);
    world.expect("statefulset", "shop-sampledb")?;
    let skip = json!({"metadata": {"annotations": {"chartwright.dev/skip-plans": "true"}}});
    world.patch(&system.resource(), "shop", &skip)?;
    world.await_gone(&system.resource(), "shop")?;
    world.await_gone("statefulset", "shop-sampledb")?;
    system.end()
}

/// What the kubelet says of a server whose container falls again and again.
fn fallen() -> Value {
    let server = json!({"name": "postgres", "image": "postgres", "imageID": "", "ready": false, "restartCount": 6});
    let unready = json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({"status": {"conditions": [unready], "containerStatuses": [server]}})
}

#[test]
fn follower_data_survives_while_the_first_server_crashes_repeatedly() -> Result<()> {
    let mut system = System::new("database-stuck", DATABASE)?;
    // The rule as it is shipped, but for the minutes.
    let file = system.world.watches_file();
    let mut watches: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    watches[0]["remediation"][0]["for"] = "1s".into();
    std::fs::write(&file, watches.to_string())?;
    system.operator = system.world.replace(system.operator)?;
    database(&system, "shop", json!({"size": 2}))?;
    let world = &system.world;
    // While no server answers, there is no data.
    world.kubectl.patch_status("pod", "shop-sampledb-1", &fallen())?;
    world.kubectl.patch_status("pod", "shop-sampledb-0", &fallen())?;
    std::thread::sleep(MOMENT);
    world.absent("job", ["shop-sampledb-backup"])?;

    world.kubectl.delete("pod", "shop-sampledb-1")?;
    system.await_event("shop", "Remediated", &["rule save-from-follower: plan backup is run"])?;
    let job = world.await_there("job", "shop-sampledb-backup")?;
    let expected = r#"{"name":"PGHOST","value":"shop-sampledb-read"}"#;
    ensure_contains(&job["spec"]["template"]["spec"].to_string(), &[expected])?;
    let texts = [
        ("/plans/0/runs/0/by", json!("remediation")),
        ("/plans/0/phase", json!("Succeeded")),
        ("/remediation/0/count", json!(1)),
    ];
    system.await_status("shop", &texts)?;
    // A client reads the data of the first server.
    let (succeeded, said) = system.run_plan("shop", "backup", &[])?;
    ensure!(succeeded, "{said}");
    let job = world.expect("job", "shop-sampledb-backup")?;
    let expected = r#"{"name":"PGHOST","value":"shop-sampledb"}"#;
    ensure_contains(&job["spec"]["template"]["spec"].to_string(), &[expected])?;
    system.end()
}

#[test]
fn monitoring_is_made_where_its_api_is_and_each_alert_has_a_runbook() -> Result<()> {
    let passwords = ["--set", "auth.password=a,auth.adminPassword=b"];
    let without = template("sampledb", &passwords)?;
    ensure!(!kinds(&without).contains(&"PrometheusRule") && !kinds(&without).contains(&"ServiceMonitor"));
    let with = template(
        "sampledb",
        &[passwords[0], passwords[1], "--api-versions", "monitoring.coreos.com/v1"],
    )?;
    ensure!(kinds(&with).contains(&"ServiceMonitor"));
    let rules = with
        .iter()
        .find(|object| object["kind"] == "PrometheusRule")
        .context("alerts")?;
    let runbooks = std::fs::read_to_string(super::project("docs/guides/runbooks.md"))?;
    let mut alerts = 0;
    for rule in rules["spec"]["groups"][0]["rules"].as_array().into_iter().flatten() {
        let name = text(&rule["alert"]);
        let anchor = format!("#{}", name.to_lowercase());
        ensure!(text(&rule["annotations"]["runbook_url"]).ends_with(&anchor), "{rule}");
        ensure_contains(&runbooks, &[&format!("\n## {name}\n")])?;
        alerts += 1;
    }
    ensure!(alerts == 5, "{rules}");
    Ok(())
}
