//! The first half of the demo: a custom resource, an edit, and manual changes.

use std::time::Instant;

use anyhow::{Result, ensure};
use chartwright_core::health::{self, HealthStatus};
use chartwright_core::identity::GroupKind;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::playground::{Playground, condition};
use crate::{Costs, heading, seconds, settled, show, text};

pub const SAMPLE: &str = "memcached-sample";
const RESOURCE: &str = "memcacheds.cache.example.com";

pub fn present(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    install(play, costs)?;
    edit(play, costs)?;
    repair(play, costs)?;
    status(play)
}

fn install(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    heading("1. A chart, an entry in watches.yaml, a custom resource");
    println!("charts/memcached is a Helm chart like any other. watches.yaml binds a kind to it:\n");
    let (_, entries) = include_str!("../../watches.yaml").split_once('\n').unwrap_or_default();
    println!("{}\n", entries.split("\n\n").next().unwrap_or_default());
    println!("The spec of a custom resource of that kind is the chart's values:\n");
    println!("{}", include_str!("../../config/samples/cache_v1alpha1_memcached.yaml"));
    let begin = play.control_plane.audit().mark()?;
    let since = Instant::now();
    show(
        play,
        &[
            "apply",
            "--server-side",
            "-f",
            "config/samples/cache_v1alpha1_memcached.yaml",
        ],
    )?;
    let resource = play.ready(RESOURCE, SAMPLE)?;
    println!("Ready after {}: every object is there, and healthy", seconds(since));
    costs.push(("the installation", settled(play, begin)?));
    show(play, &["get", "memcached,pods"])?;
    println!("\nWhat came of it, and how it is:\n");
    members(play, &resource)
}

fn edit(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    heading("2. An edit: two servers instead of three, and no list of servers");
    println!("The spec is patched; the StatefulSet follows, and what is no longer rendered goes.");
    let spec = json!({"spec": {"size": 2, "serverList": {"enabled": false}}}).to_string();
    let begin = play.control_plane.audit().mark()?;
    let since = Instant::now();
    show(play, &["patch", "memcached", SAMPLE, "--type=merge", "-p", &spec])?;
    let resource = play.ready(RESOURCE, SAMPLE)?;
    println!("Ready again after {}; the ConfigMap is pruned", seconds(since));
    let two = |play: &Playground| Ok((play.kubectl.list("pods", "")?.len() == 2).then_some(()));
    play.until("the third pod is gone", two)?;
    members(play, &resource)?;
    let requests = settled(play, begin)?;
    println!("\nWhat the operator wrote:\n\n{}", requests.clone().writes());
    costs.push(("the edit", requests));
    Ok(())
}

fn repair(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    heading("3. A member is deleted by hand");
    println!("You delete the Service.");
    let begin = play.control_plane.audit().mark()?;
    let uid = |service: Value| service["metadata"]["uid"].as_str().map(str::to_owned);
    let live = |play: &Playground| Ok::<_, anyhow::Error>(play.kubectl.get("service", SAMPLE)?.and_then(uid));
    let old = live(play)?;
    ensure!(old.is_some(), "the release has no Service");
    show(play, &["delete", "service", SAMPLE])?;
    let since = Instant::now();
    play.until("the Service is back", |play| {
        let new = live(play)?;
        Ok((new.is_some() && new != old).then_some(()))
    })?;
    println!("Back again {} later, by a watch and not by a timer", seconds(since));
    play.ready(RESOURCE, SAMPLE)?;
    costs.push(("the deleted Service", settled(play, begin)?));
    Ok(())
}

fn status(play: &mut Playground) -> Result<()> {
    heading("4. What the status says");
    let resource = play.ready(RESOURCE, SAMPLE)?;
    let status = &resource["status"];
    for found in status["conditions"].as_array().into_iter().flatten() {
        let (kind, value, reason) = (text(&found["type"]), text(&found["status"]), text(&found["reason"]));
        let message = text(&found["message"]).lines().next().unwrap_or_default();
        println!("{kind:<16} {value:<6} {reason:<20} {message}");
    }
    let release = &status["release"];
    let [name, chart, version] = ["name", "chart", "version"].map(|field| text(&release[field]));
    let revision = &release["revision"];
    println!("\nrelease {name}, revision {revision}, of the chart {chart} {version}");
    let members = status["inventory"].as_array().map_or(0, Vec::len);
    println!("inventory of {members} members, each with two digests and never its content");
    let notes = text(&status["notes"]).lines().count();
    println!("{notes} lines of notes: the chart's NOTES.txt, rendered");
    let nodes: Vec<&str> = status["nodes"].as_array().into_iter().flatten().map(text).collect();
    println!(
        "nodes: {}; a field of the chart's own, which its status.yaml computes",
        nodes.join(", ")
    );
    let about = format!("involvedObject.name={SAMPLE}");
    show(play, &["get", "events", "--field-selector", &about])
}

/// The members of a release, each with its health by the rules that the operator goes by.
fn members(play: &Playground, resource: &Value) -> Result<()> {
    let ready = condition(resource, "Ready").map_or("", |ready| text(&ready["message"]));
    println!("{} {SAMPLE}: {ready}", text(&resource["kind"]));
    for row in resource["status"]["inventory"].as_array().into_iter().flatten() {
        let (kind, name) = (text(&row["kind"]), text(&row["name"]));
        let Some(object) = play.kubectl.get(&format!("{kind}.{}", text(&row["group"])), name)? else {
            println!("  ✘ {kind} {name} is not there");
            continue;
        };
        let health = health::health(&GroupKind::new(text(&row["group"]), kind), &object, Timestamp::now());
        let (mark, message) = match health.status {
            HealthStatus::Current => ('✔', String::new()),
            HealthStatus::InProgress | HealthStatus::Terminating => ('…', health.message),
            HealthStatus::Failed => ('✘', health.message),
        };
        println!("  {mark} {kind} {name} {message}");
    }
    Ok(())
}
