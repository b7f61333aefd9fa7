//! The second half of the demo: hooks, a plan, and an upgrade that fails and is rolled back.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::playground::{Playground, condition};
use crate::{Costs, heading, seconds, settled, show, text};

pub const SAMPLE: &str = "sampledb-sample";
const RESOURCE: &str = "sampledbs.sample.example.com";

/// Has kwok let the pods of Jobs fail, as a container does whose command ends with 1.
const FAILS: &str = "chartwright.test/crashes";

pub fn present(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    install(play, costs)?;
    back_up(play, costs)?;
    fail(play, costs)
}

fn install(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    heading("5. A database: work that is done once, by hooks");
    println!(
        "charts/sampledb is PostgreSQL. Jobs that the chart marks as Helm hooks configure it after the installation and"
    );
    println!("migrate its schema before each upgrade. Its passwords come from a Secret, which watches.yaml names.");
    let begin = play.control_plane.audit().mark()?;
    let since = Instant::now();
    show(
        play,
        &["apply", "--server-side", "-f", "config/samples/sample_v1_sampledb.yaml"],
    )?;
    let resource = play.ready(RESOURCE, SAMPLE)?;
    println!("Ready after {}: servers, hooks and all", seconds(since));
    costs.push(("the database, with its hooks", settled(play, begin)?));
    show(play, &["get", "sampledb,statefulsets,pvc"])?;
    hooks(&resource);
    Ok(())
}

/// What the status says of the hooks.
fn hooks(resource: &Value) {
    println!("\nWhat its status says of the hooks:\n");
    for run in resource["status"]["hooks"]["runs"].as_array().into_iter().flatten() {
        let [event, kind, name, phase] = ["event", "kind", "name", "phase"].map(|field| text(&run[field]));
        println!("  {event:<13} {kind:<10} {name:<28} {phase}");
    }
}

fn back_up(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    heading("6. A plan: work that runs on request or on a schedule");
    println!("A Job that the chart marks with `helm.sh/hook: plan-backup` is a plan: it runs on request, and by the");
    println!("schedule in the spec. (What its log says here was put there: kwok runs no commands.)");
    play.write_pod_log("backup: /backups/20260102T030405Z.dump, 48213 bytes")?;
    let begin = play.control_plane.audit().mark()?;
    play.chartwright(&["plan", "run", "sampledb", SAMPLE, "backup", "--wait"])?;
    play.chartwright(&["plan", "list", "sampledb", SAMPLE])?;
    costs.push(("the backup", settled(play, begin)?));
    Ok(())
}

fn fail(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    heading("7. An upgrade whose migration fails is rolled back");
    println!("PostgreSQL 17.6, and a migration with a typing error. The watch says `onFailure: rollback`.");
    println!(
        "(No SQL runs here: the label has kwok let the pods of Jobs fail, and the log says what PostgreSQL would.)"
    );
    play.write_pod_log("psql:/migrations/001_002-prices.sql:1: ERROR:  relation \"ordres\" does not exist")?;
    let before = play.kubectl.get(RESOURCE, SAMPLE)?.context("the database is gone")?;
    let mut migrations = before["spec"]["migrations"].clone();
    let broken = json!({"name": "002-prices", "sql": "ALTER TABLE ordres ADD price numeric;"});
    migrations
        .as_array_mut()
        .context("the sample has migrations")?
        .push(broken);
    let patch = json!({"spec": {"version": "17.6", "migrations": migrations, "jobs": {"podLabels": {FAILS: "true"}}}});
    let begin = play.control_plane.audit().mark()?;
    let since = Instant::now();
    show(
        play,
        &["patch", "sampledb", SAMPLE, "--type=merge", "-p", &patch.to_string()],
    )?;
    let ready = play.until("the upgrade is rolled back", |play| {
        let resource = play.kubectl.get(RESOURCE, SAMPLE)?.context("the database is gone")?;
        let ready = condition(&resource, "Ready").context("it has no condition")?;
        ensure!(ready["reason"] == "RolledBack", "{ready}");
        Ok(Some(ready.clone()))
    })?;
    println!(
        "Rolled back after {}: the servers were not touched. Ready is {}, {}:\n",
        seconds(since),
        text(&ready["status"]),
        text(&ready["reason"])
    );
    for line in text(&ready["message"]).split(['\n', ';']) {
        println!("  {}", line.trim());
    }
    show(play, &["get", "sampledb", SAMPLE])?;
    play.chartwright(&["history", "sampledb", SAMPLE])?;
    costs.push(("the failed upgrade, and back", settled(play, begin)?));

    println!("\nYou repair the migration:");
    let last = migrations
        .as_array_mut()
        .and_then(|all| all.last_mut())
        .context("the broken one")?;
    last["sql"] = "ALTER TABLE orders ADD price numeric;".into();
    let patch = json!({"spec": {"migrations": migrations, "jobs": null}});
    let since = Instant::now();
    show(
        play,
        &["patch", "sampledb", SAMPLE, "--type=merge", "-p", &patch.to_string()],
    )?;
    play.ready(RESOURCE, SAMPLE)?;
    println!("Ready after {}", seconds(since));
    show(
        play,
        &[
            "get",
            "pods",
            "--selector=app.kubernetes.io/component=database",
            "-o",
            "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image",
        ],
    )
}
