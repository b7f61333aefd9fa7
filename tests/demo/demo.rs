//! `make demo`: a control plane on this machine, the operator, a custom resource, and what comes of it. Stays up until
//! Ctrl-C; with `DEMO=once` it deletes the custom resource, shows that nothing is left, and ends.
//!
//! However this program ends, the watchdog of the control plane ends all that was started and removes its files.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use chartwright::plan::health::{self, Status};
use chartwright::plan::identity::GroupKind;
use jiff::Timestamp;
use playground::{OPERATOR, Playground, condition};
use serde_json::{Value, json};
use support::{Mark, Requests};

mod playground;
#[path = "../support/mod.rs"]
mod support;

/// The custom resource of `config/samples`.
const SAMPLE: &str = "memcached-sample";

/// How long the operator is watched doing nothing.
const QUIET: Duration = Duration::from_secs(5);

/// The operator's requests in each part of the demo, watches apart.
type Costs = Vec<(&'static str, Requests)>;

fn main() -> Result<()> {
    let once = match std::env::var("DEMO").as_deref() {
        Ok("once") => true,
        Ok("") | Err(_) => false,
        Ok(other) => bail!("DEMO={other}: it is `once`, or not set"),
    };
    heading("Chartwright: a Helm chart becomes a Kubernetes operator");
    println!("A control plane starts on this machine. Ctrl-C ends the demo at any time; nothing of it stays.");
    let mut play = Playground::start()?;
    let told = tell(&mut play, once);
    if told.is_err() {
        eprintln!("\nThe end of the operator's log:\n{}\n", play.log_tail());
    }
    told
}

fn heading(text: &str) {
    println!("\n=== {text}\n");
}

fn tell(play: &mut Playground, once: bool) -> Result<()> {
    let mut costs = Costs::new();
    install(play, &mut costs)?;
    edit(play, &mut costs)?;
    repair(play, &mut costs)?;
    status(play)?;
    cost(play, costs)?;
    if once { clean_up(play) } else { stay_up(play) }
}

/// Runs kubectl and shows the command and what it prints.
fn show(play: &Playground, arguments: &[&str]) -> Result<()> {
    println!("\n$ kubectl {}", arguments.join(" "));
    println!("{}", play.kubectl.run(arguments)?.trim_end());
    Ok(())
}

fn install(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    heading("1. A chart, an entry in watches.yaml, a custom resource");
    println!("charts/memcached is a Helm chart like any other. watches.yaml binds a kind to it:\n");
    println!("{}", include_str!("../../watches.yaml"));
    println!("The spec of a custom resource of that kind is the chart's values:\n");
    println!("{}", include_str!("../../config/samples/cache_v1alpha1_memcached.yaml"));
    let begin = play.control_plane.audit().mark()?;
    let since = Instant::now();
    show(play, &["apply", "--server-side", "-k", "config/samples"])?;
    let resource = play.ready(SAMPLE)?;
    println!("Ready after {}: every object is there, and healthy", seconds(since));
    costs.push(("the installation", settled(play, begin)?));
    show(play, &["get", "memcached,pods"])?;
    heading("2. What came of it, and how it is");
    members(play, &resource)
}

fn edit(play: &mut Playground, costs: &mut Costs) -> Result<()> {
    heading("3. An edit: two servers instead of three, and no list of servers");
    let spec = json!({"spec": {"size": 2, "serverList": {"enabled": false}}}).to_string();
    let begin = play.control_plane.audit().mark()?;
    let since = Instant::now();
    show(play, &["patch", "memcached", SAMPLE, "--type=merge", "-p", &spec])?;
    let resource = play.ready(SAMPLE)?;
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
    heading("4. A member is deleted by hand");
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
    play.ready(SAMPLE)?;
    costs.push(("the deleted Service", settled(play, begin)?));
    Ok(())
}

fn status(play: &mut Playground) -> Result<()> {
    heading("5. What the status says");
    let resource = play.ready(SAMPLE)?;
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
    let about = format!("involvedObject.name={SAMPLE}");
    show(play, &["get", "events", "--field-selector", &about])
}

fn cost(play: &mut Playground, mut costs: Costs) -> Result<()> {
    heading("6. What it cost");
    let begin = play.control_plane.audit().mark()?;
    std::thread::sleep(QUIET);
    let idle = settled(play, begin)?;
    println!("The operator's requests, from the API server's audit log (watches apart):\n");
    let is_quiet = idle.is_empty();
    costs.push(("5 s in which nothing happened", idle));
    println!("READS  WRITES  FOR");
    for (what, requests) in &costs {
        let writes = requests.clone().writes().len();
        println!("{:>5}  {writes:>6}  {what}", requests.len() - writes);
    }
    if let (false, Some((_, requests))) = (is_quiet, costs.last()) {
        println!("\nIn the quiet seconds there should have been none:\n{requests}");
    }
    Ok(())
}

fn clean_up(play: &mut Playground) -> Result<()> {
    heading("7. The custom resource goes, and everything with it");
    let resource = play.ready(SAMPLE)?;
    let id = text(&resource["metadata"]["labels"]["applyset.kubernetes.io/id"]);
    ensure!(!id.is_empty(), "it has no ApplySet ID");
    show(play, &["delete", "memcached", SAMPLE])?;
    // Every kind that there is, so that nothing hides in one that the release isn't known to have.
    let kinds = play.kubectl.run(["api-resources", "--verbs=list", "--output=name"])?;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    for selector in [
        format!("applyset.kubernetes.io/part-of={id}"),
        format!("app.kubernetes.io/instance={SAMPLE}"),
    ] {
        play.until(&format!("no object is labelled {selector}"), |play| {
            let arguments = ["get", &kinds.join(","), "-A", "-l", &selector, "-o", "name"];
            let left = play.kubectl.run(arguments)?;
            ensure!(left.trim().is_empty(), "left are: {left}");
            Ok(Some(()))
        })?;
        println!("Of {} kinds no object is labelled {selector}", kinds.len());
    }
    println!("\nThat was all; the operator and the control plane end now.");
    Ok(())
}

fn stay_up(play: &mut Playground) -> Result<()> {
    heading("7. Your turn");
    let kubectl = play.kubectl.command();
    let folder = std::path::Path::new(kubectl.get_program())
        .parent()
        .context("kubectl")?;
    let kubeconfig = play.kubectl.kubeconfig().display();
    println!("In another terminal:\n");
    println!("  export KUBECONFIG={kubeconfig} PATH=\"$PATH:{}\"", folder.display());
    let five = json!({"spec": {"size": 5}});
    println!("  kubectl patch memcached {SAMPLE} --type=merge -p '{five}'");
    println!("\nIt stays up until Ctrl-C. What the operator tells in Events shows up here:\n");
    let columns = "custom-columns=NAME:.involvedObject.name,REASON:.reason,MESSAGE:.message";
    let about = "involvedObject.kind=Memcached";
    let mut watch = play.kubectl.command();
    watch.args(["get", "events", "-A", "--watch-only", "--no-headers", "-o", columns]);
    watch.args(["--field-selector", about]).status()?;
    bail!("kubectl has ended")
}

/// What the operator has asked for since `begin`, once it has been quiet for a moment: an event comes after what it tells.
fn settled(play: &Playground, begin: Mark) -> Result<Requests> {
    let mut requests = Requests::default();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(500));
        let before = requests.len();
        let all = play.control_plane.audit().since(begin)?;
        requests = all.by_user(OPERATOR).without_idling();
        if requests.len() == before {
            break;
        }
    }
    Ok(requests)
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
            Status::Current => ('✔', String::new()),
            Status::InProgress | Status::Terminating => ('…', health.message),
            Status::Failed => ('✘', health.message),
        };
        println!("  {mark} {kind} {name} {message}");
    }
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn seconds(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}
