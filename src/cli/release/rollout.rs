//! `chartwright rollout status`: shows how far a new chart has reached the releases.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::release_list::list_resources;
use super::table::align_columns;
use super::wait::{POLL_INTERVAL, parse_timeout};
use crate::cli::block_on;
use crate::cli::stdout::{note, print_line, stdout};
use chartwright_core::identity::GroupKind;
use chartwright_core::record::Record;
use chartwright_core::rollout::RolloutState;
use chartwright_core::status::conditions;
use chartwright_operator::cluster::{self, Discovery};
use chartwright_watches::{self as watches, Watch};
use helm_template::chart::Chart;

const EXAMPLES: &str = "\
Examples:
  # Wait until the new charts of watches.yaml have reached all releases
  chartwright rollout status

  # Print how far the chart of a kind is, and do not wait
  chartwright rollout status memcached --watch=false

  # For a script
  chartwright rollout status --watch=false -o json";

/// Names of failed releases that the result lists.
const NAMED: usize = 10;

/// Show how far a new chart has reached the releases
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RolloutArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum RolloutCommand {
    /// Wait until the charts of watches.yaml have reached all releases. Fails if a rollout is stopped
    #[command(after_help = EXAMPLES)]
    Status(RolloutStatusArgs),
}

#[derive(Args, Clone, Debug)]
struct RolloutStatusArgs {
    /// Kind of the watch, with or without its group: memcached, memcached.cache.example.com [default: all]
    kind: Option<String>,
    /// The watches file of the operator
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,
    /// Wait until the rollout is complete or stopped
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    watch: bool,
    /// Limit of the wait, as a Go duration [default: none]
    #[arg(long, value_parser = parse_timeout)]
    timeout: Option<Duration>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = RolloutFormat::Table)]
    output: RolloutFormat,
    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RolloutFormat {
    Table,
    Json,
}

/// The releases of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RolloutProgress {
    kind: String,
    /// Name and version of the chart in `watches.yaml`.
    chart: String,
    releases: usize,
    updated: usize,
    ready: usize,
    in_flight: usize,
    waiting: usize,
    /// Releases that failed, with their messages. Those that do not count for the limit as well.
    failed: Vec<String>,
    is_stopped: bool,
}

pub fn run(args: &RolloutArgs) -> anyhow::Result<()> {
    let RolloutCommand::Status(args) = &args.command;
    let (found, _) = watches::load(&args.watches_file)?;
    let selected = select(&found, args.kind.as_deref())?;
    let charts: Vec<(&Watch, Chart)> = selected
        .into_iter()
        .map(|watch| anyhow::Ok((watch, load_chart(&watch.chart)?)))
        .collect::<Result<_, _>>()?;
    block_on(follow(args, &charts))
}

fn load_chart(path: &Path) -> anyhow::Result<Chart> {
    Chart::load(path).with_context(|| path.display().to_string())
}

fn select<'w>(all: &'w [Watch], kind: Option<&str>) -> anyhow::Result<Vec<&'w Watch>> {
    let is_selected = |watch: &&Watch| {
        kind.is_none_or(|kind| {
            kind.eq_ignore_ascii_case(&watch.kind)
                || kind.eq_ignore_ascii_case(&watch.group_kind())
                || kind.eq_ignore_ascii_case(&format!("{}s", watch.kind))
        })
    };
    let selected: Vec<&Watch> = all.iter().filter(is_selected).collect();
    if let (Some(kind), true) = (kind, selected.is_empty()) {
        let known: Vec<String> = all.iter().map(Watch::group_kind).collect();
        bail!(
            "no watch is for the kind {kind:?}; the watches are for: {}",
            known.join(", ")
        );
    }
    Ok(selected)
}

async fn follow(args: &RolloutStatusArgs, charts: &[(&Watch, Chart)]) -> anyhow::Result<()> {
    let (client, discovery) = cluster::connect_with_discovery(args.kubeconfig.as_deref()).await?;
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let mut printed = Vec::new();
    loop {
        let mut all = Vec::new();
        for (watch, chart) in charts {
            all.push(measure(&client, &discovery, watch, chart).await?);
        }
        let is_open = all
            .iter()
            .any(|progress| !progress.is_complete() && !progress.is_stopped);
        if !args.watch || !is_open {
            print(args.output, &all)?;
            return conclude(&all);
        }
        if printed != all {
            for progress in all.iter().filter(|progress| !progress.is_complete()) {
                note!("{}", progress.line());
            }
            printed = all;
        }
        ensure!(
            deadline.is_none_or(|deadline| Instant::now() < deadline),
            "the rollout is not complete after {:?}",
            args.timeout.unwrap_or_default()
        );
        sleep(POLL_INTERVAL).await;
    }
}

/// Counts the releases of a watch by their statuses.
async fn measure(
    client: &Client,
    discovery: &Discovery,
    watch: &Watch,
    chart: &Chart,
) -> anyhow::Result<RolloutProgress> {
    let metadata = &chart.metadata;
    let mut progress = RolloutProgress {
        kind: watch.group_kind(),
        chart: format!("{} {}", metadata.name, metadata.version),
        ..RolloutProgress::default()
    };
    let kind = GroupKind::new(&watch.group, &watch.kind);
    let snapshot = discovery.snapshot();
    let Some(resource) = snapshot.resource(&kind, &watch.version) else {
        bail!(
            "the API server does not serve {}/{} {}",
            watch.group,
            watch.version,
            watch.kind
        );
    };
    let selector = (!watch.selector.selects_all()).then(|| watch.selector.to_string());
    let listed = list_resources(client, resource, None, selector.as_deref()).await;
    let (objects, _) = listed.with_context(|| kind.to_string())?;
    let counted = objects
        .iter()
        .filter(|object| progress.add(object, &metadata.version))
        .count();
    progress.is_stopped = progress.waiting > 0 && counted >= watch.rollout.max_failed;
    Ok(progress)
}

impl RolloutProgress {
    /// Adds a custom resource. Returns true if it failed and counts for the limit.
    fn add(&mut self, object: &Value, version: &str) -> bool {
        let status = &object["status"];
        // Not installed yet, or about to be deleted: no part of a rollout.
        if status["release"]["revision"].as_i64().unwrap_or_default() == 0
            || !object["metadata"]["deletionTimestamp"].is_null()
        {
            return false;
        }
        self.releases += 1;
        let conditions = conditions::of(status);
        let ready = conditions::get(&conditions, "Ready");
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        self.ready += usize::from(is_ready);
        let rollout = Record::from_status(status, None).into_record().rollout;
        match rollout.as_ref().map(|rollout| rollout.state) {
            Some(RolloutState::Waiting) => self.waiting += 1,
            Some(RolloutState::InFlight) => self.in_flight += 1,
            Some(RolloutState::Failed) => {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let name = match text("namespace") {
                    "" => text("name").to_owned(),
                    namespace => format!("{namespace}/{}", text("name")),
                };
                let why = ready.map(|ready| ready.message.as_str()).unwrap_or_default();
                self.failed.push(format!("{name}: {why}"));
            }
            None if status["release"]["version"].as_str() == Some(version) => self.updated += 1,
            // It has another version, and its turn has not come or the operator does not have the chart yet.
            None => self.waiting += 1,
        }
        rollout.is_some_and(|rollout| rollout.state == RolloutState::Failed && rollout.counts)
    }

    fn is_complete(&self) -> bool {
        self.waiting == 0 && self.in_flight == 0
    }

    fn state(&self) -> &'static str {
        if self.is_stopped {
            "stopped"
        } else if !self.is_complete() {
            "in progress"
        } else if self.failed.is_empty() {
            "complete"
        } else {
            "complete, with failures"
        }
    }

    fn line(&self) -> String {
        format!(
            "{}: {} of {} releases have {}, {} in flight, {} waiting, {} failed",
            self.kind,
            self.updated,
            self.releases,
            self.chart,
            self.in_flight,
            self.waiting,
            self.failed.len()
        )
    }
}

fn print(format: RolloutFormat, all: &[RolloutProgress]) -> anyhow::Result<()> {
    match format {
        RolloutFormat::Table => write!(stdout(), "{}", table(all))?,
        RolloutFormat::Json => print_line!("{}", serde_json::to_string_pretty(&to_json(all))?),
    }
    Ok(())
}

fn table(all: &[RolloutProgress]) -> String {
    let header = [
        "KIND",
        "CHART",
        "RELEASES",
        "UPDATED",
        "READY",
        "IN FLIGHT",
        "WAITING",
        "FAILED",
        "STATE",
    ];
    let rows = all.iter().map(|progress| {
        [
            progress.kind.clone(),
            progress.chart.clone(),
            progress.releases.to_string(),
            progress.updated.to_string(),
            progress.ready.to_string(),
            progress.in_flight.to_string(),
            progress.waiting.to_string(),
            progress.failed.len().to_string(),
            progress.state().to_owned(),
        ]
    });
    align_columns(
        &std::iter::once(header.map(str::to_owned))
            .chain(rows)
            .collect::<Vec<_>>(),
    )
}

fn to_json(all: &[RolloutProgress]) -> Value {
    let items = all.iter().map(|progress| {
        json!({
            "kind": progress.kind, "chart": progress.chart, "releases": progress.releases, "updated": progress.updated,
            "ready": progress.ready, "inFlight": progress.in_flight, "waiting": progress.waiting, "failed": progress.failed,
            "state": progress.state(),
        })
    });
    json!({"items": items.collect::<Vec<_>>()})
}

/// Fails if releases failed, and names them.
fn conclude(all: &[RolloutProgress]) -> anyhow::Result<()> {
    let failed: Vec<String> = all
        .iter()
        .flat_map(|progress| {
            progress
                .failed
                .iter()
                .map(|failed| format!("{} {failed}", progress.kind))
        })
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    let mut shown = failed.iter().take(NAMED).cloned().collect::<Vec<_>>().join("\n  ");
    if failed.len() > NAMED {
        shown += &format!("\n  and {} more", failed.len() - NAMED);
    }
    let is_stopped = all.iter().any(|progress| progress.is_stopped);
    let what = if is_stopped {
        "the rollout is stopped, because releases failed"
    } else {
        "releases failed"
    };
    bail!("{what}:\n  {shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, rollout: Option<(&str, bool)>, version: &str, ready: bool) -> Value {
        let rollout = rollout.map(|(state, counts)| {
            json!({"state": state, "since": "2026-01-01T00:00:00Z", "inputs": "a.b", "counts": counts})
        });
        let ready = json!({
            "type": "Ready", "status": if ready { "True" } else { "False" }, "reason": "A", "message": "it broke",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        json!({
            "metadata": {"name": name, "namespace": "shop"},
            "status": {"release": {"revision": 1, "version": version, "rollout": rollout}, "conditions": [ready]},
        })
    }

    #[test]
    fn releases_are_counted_by_their_statuses() {
        let mut progress = RolloutProgress {
            kind: "Web.example.com".into(),
            chart: "web 2.0.0".into(),
            ..RolloutProgress::default()
        };
        let mut installing = object("new", None, "2.0.0", false);
        installing["status"]["release"]["revision"] = 0.into();
        let mut deleting = object("old", None, "1.0.0", true);
        deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let counted: Vec<bool> = [
            object("a", None, "2.0.0", true),
            object("b", None, "1.0.0", true),
            object("c", Some(("Waiting", true)), "1.0.0", true),
            object("d", Some(("InFlight", true)), "2.0.0", false),
            object("e", Some(("Failed", true)), "2.0.0", false),
            object("f", Some(("Failed", false)), "2.0.0", false),
            installing,
            deleting,
        ]
        .iter()
        .map(|object| progress.add(object, "2.0.0"))
        .collect();
        assert_eq!(counted, [false, false, false, false, true, false, false, false]);
        let line = "Web.example.com: 1 of 6 releases have web 2.0.0, 1 in flight, 2 waiting, 2 failed";
        assert_eq!(progress.line(), line);
        let expected = "\
KIND             CHART      RELEASES  UPDATED  READY  IN FLIGHT  WAITING  FAILED  STATE
Web.example.com  web 2.0.0  6         1        3      1          2        2       in progress
";
        assert_eq!(table(&[progress.clone()]), expected);
        progress.is_stopped = true;
        let error = conclude(&[progress]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the rollout is stopped, because releases failed:\n  Web.example.com shop/e: it broke\n  Web.example.com shop/f: it broke"
        );
        assert!(conclude(&[RolloutProgress::default()]).is_ok());
    }
}
