//! `make demo`: a control plane on this machine, the operator, custom resources, and what comes of them. Stays up until
//! Ctrl-C; with `DEMO=once` it deletes the custom resources, shows what is left, and ends. `DEMO=cluster` is `make cluster`.
//!
//! However this program ends, the watchdog of the control plane ends all that was started and removes its files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use playground::{OPERATOR, Playground};
use serde_json::{Value, json};
use support::{AuditMark, AuditedRequests};

mod cache;
mod cluster;
mod database;
mod playground;
#[path = "../support/mod.rs"]
mod support;

/// How long the operator is watched doing nothing.
const QUIET: Duration = Duration::from_secs(5);

/// The operator's requests in each part of the demo, watches apart.
type Costs = Vec<(&'static str, AuditedRequests)>;

fn main() -> Result<()> {
    let once = match std::env::var("DEMO").as_deref() {
        Ok("once") => true,
        Ok("cluster") => return cluster::stay(),
        Ok("") | Err(_) => false,
        Ok(other) => bail!("DEMO={other}: it is `once`, `cluster`, or not set"),
    };
    heading("Chartwright: a Helm chart becomes a Kubernetes operator");
    println!("A control plane starts on this machine. Ctrl-C ends the demo at any time; nothing of it stays.");
    println!(
        "No container runs here: kwok says of each pod that it is ready, and of each Job's pod that it is done.\n"
    );
    let mut play = Playground::start()?;
    let outcome = present(&mut play, once);
    if outcome.is_err() {
        eprintln!("\nThe end of the operator's log:\n{}\n", play.log_tail());
    }
    outcome
}

fn present(play: &mut Playground, once: bool) -> Result<()> {
    let mut costs = Costs::new();
    cache::present(play, &mut costs)?;
    database::present(play, &mut costs)?;
    cost(play, costs)?;
    if once { clean_up(play) } else { stay_up(play) }
}

fn heading(text: &str) {
    println!("\n=== {text}\n");
}

/// Runs kubectl and shows the command and what it prints.
fn show(play: &Playground, arguments: &[&str]) -> Result<()> {
    // As one would type it.
    let quoted = |argument: &&str| {
        if argument.starts_with('{') {
            format!("'{argument}'")
        } else {
            (*argument).to_owned()
        }
    };
    let words: Vec<String> = arguments.iter().map(quoted).collect();
    println!("\n$ kubectl {}", words.join(" "));
    println!("{}", play.kubectl.run(arguments)?.trim_end());
    Ok(())
}

fn cost(play: &mut Playground, mut costs: Costs) -> Result<()> {
    heading("8. What it cost");
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
    heading("9. The custom resources go, and everything with them but the backups");
    println!("The chart is not needed: the objects themselves show which release they belong to.");
    show(play, &["delete", "memcached", cache::SAMPLE])?;
    println!("\nThe database takes one more backup first: a step of a plan that is marked chartwright.dev/on-delete.");
    show(play, &["delete", "sampledb", database::SAMPLE])?;
    // Every kind that there is, so that nothing hides in one that the release isn't known to have.
    let kinds = play.kubectl.run(["api-resources", "--verbs=list", "--output=name"])?;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    println!(
        "\nWhat is left of both, in all {} kinds that this cluster has:\n",
        kinds.len()
    );
    let kept = format!("persistentvolumeclaim/{}-backups\n", database::SAMPLE);
    for (sample, expected) in [(cache::SAMPLE, ""), (database::SAMPLE, &kept)] {
        let selector = format!("app.kubernetes.io/instance={sample}");
        let left = play.until(&format!("nothing else is labelled {selector}"), |play| {
            let left = play
                .kubectl
                .run(["get", &kinds.join(","), "-A", "-l", &selector, "-o", "name"])?;
            anyhow::ensure!(left == expected, "left are: {left}");
            Ok(Some(left))
        })?;
        let left = left.trim();
        println!("{sample:<18} {}", if left.is_empty() { "nothing" } else { left });
    }
    println!("\nThat was all; the operator and the control plane end now.");
    Ok(())
}

fn stay_up(play: &mut Playground) -> Result<()> {
    heading("9. Your turn");
    let kubectl = play.kubectl.command();
    let folder = std::path::Path::new(kubectl.get_program())
        .parent()
        .context("kubectl")?;
    let (kubeconfig, binary) = (play.kubectl.kubeconfig().display(), play.binary()?);
    let own = binary.parent().context("cargo's folder")?.display();
    println!("In another terminal:\n");
    println!(
        "  export KUBECONFIG={kubeconfig} PATH=\"$PATH:{}:{own}\"",
        folder.display()
    );
    let five = json!({"spec": {"size": 5}});
    println!("  kubectl patch memcached {} --type=merge -p '{five}'", cache::SAMPLE);
    println!("  chartwright plan run sampledb {} backup --wait", database::SAMPLE);
    println!("  kubectl apply --server-side -k config/samples    # an etcd cluster and a flight ticket, too");
    println!("\nIt stays up until Ctrl-C. The operator's Events show up here:\n");
    let columns = "custom-columns=KIND:.involvedObject.kind,NAME:.involvedObject.name,REASON:.reason,MESSAGE:.message";
    let mut watch = play.kubectl.command();
    watch.args(["get", "events", "-A", "--watch-only", "--no-headers", "-o", columns]);
    watch
        .args(["--field-selector", "reportingComponent=chartwright.dev/chartwright"])
        .status()?;
    bail!("kubectl has ended")
}

/// The operator's requests since `begin`, once it has been quiet for a moment: an audit event arrives after its request.
fn settled(play: &Playground, begin: AuditMark) -> Result<AuditedRequests> {
    let mut requests = AuditedRequests::default();
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

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn seconds(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}
