//! The cost of an operator beside the necessary writes: `make bench-operator`.
//!
//! One run on a local control plane: a bare client that sends the five applies of each release (the floor), then the
//! operator: converge, left alone, restart, one edit on every custom resource, delete. Then the bare client once more,
//! with the operator's status and with watches (the watched floor): what the API server takes for an operator in any case.
//!
//! Environment: `N` (custom resources, default 1000), `IDLE` (seconds to be left alone, default 60), `PEER` (the command
//! line of another operator for the same custom resources, run by `sh` with `KUBECONFIG`, `WATCHES` and `CHART` set),
//! `JSON=1` (one line for each operator instead of a table), `LOGS` (a folder for the operators' logs).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

mod cluster;
mod process;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use cluster::Load;
use process::{MeasuredProcess, ProcessUsage};
use support::{AuditMark, AuditedRequests, ControlPlane};

/// The operator may pause after a start or an edit. After this time without requests, the phase is over.
const QUIET: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-operator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str, default: usize) -> Result<usize> {
    let text = variable(name).unwrap_or_else(|| default.to_string());
    let number = text.parse();
    number.with_context(|| format!("{name}={text}: a whole number is wanted"))
}

fn run() -> Result<()> {
    let (count, idle) = (number("N", 1000)?.max(1), number("IDLE", 60)?);
    let scratch = tempfile::tempdir()?;
    // Not in the folder of watches.yaml, where the operator notices every write.
    let logs = variable("LOGS").map_or_else(|| scratch.path().join("logs"), PathBuf::from);
    std::fs::create_dir_all(&logs)?;
    eprintln!("starting a control plane ...");
    let control_plane = ControlPlane::builder().start()?;
    let runtime = tokio::runtime::Runtime::new()?;
    cluster::install(control_plane.kubectl())?;
    let client = runtime.block_on(cluster::client(control_plane.kubeconfig()))?;

    eprintln!("floor: {count} x 5 applies by a bare client ...");
    let bare = |namespace: &str, status: &Value, watched: bool| {
        let load = Load::new(control_plane.kubectl(), &client, namespace, count)?;
        runtime.block_on(async {
            load.create().await?;
            let written = if watched {
                load.watched_writes(status).await?
            } else {
                load.bare_writes(status).await?
            };
            load.clear().await?;
            anyhow::Ok(written.as_secs_f64())
        })
    };
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let floor = bare("floor", &ready, false)?;
    let bench = OperatorBench {
        control_plane: &control_plane,
        runtime: &runtime,
        client: &client,
        count,
        idle: Duration::from_secs(idle as u64),
        floor,
        scratch: scratch.path(),
        logs: &logs,
    };
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/charts/three");
    std::fs::write(scratch.path().join("watches.yaml"), cluster::watches(&chart))?;
    let mut rows = vec![bench.measure("chartwright", ours)?];
    if let Some(peer) = variable("PEER") {
        rows.push(bench.measure("peer", |watches| {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("exec {peer}"));
            command.env("WATCHES", watches).env("CHART", &chart);
            command
        })?);
    }
    let as_json = variable("JSON").is_some_and(|value| value != "0");
    for (at, row) in rows.iter_mut().enumerate() {
        let status = row.as_object_mut().and_then(|row| row.remove("status"));
        let status = status.filter(Value::is_object).unwrap_or_else(|| json!({}));
        eprintln!("watched floor: {count} x 5 applies by a bare client, with watches ...");
        let watched = bare(&format!("watched-{at}"), &status, true)?;
        row["watched_floor_seconds"] = round(watched);
        let converge = &mut row["phases"]["converge"];
        converge["ratio_to_watched_floor"] = round(converge["seconds"].as_f64().unwrap_or_default() / watched);
        let row = &*row;
        if as_json { println!("{row}") } else { print(row) }
    }
    Ok(())
}

fn ours(watches: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command.args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.args(["--leader-elect=false", "--namespace=default"]);
    command.arg(format!("--watches-file={}", watches.display()));
    command
}

/// What all operators are measured with.
struct OperatorBench<'a> {
    control_plane: &'a ControlPlane,
    runtime: &'a tokio::runtime::Runtime,
    client: &'a kube::Client,
    count: usize,
    idle: Duration,
    /// Seconds that the bare client took.
    floor: f64,
    scratch: &'a Path,
    logs: &'a Path,
}

/// Where a phase begins.
struct Begun {
    at: Instant,
    cpu: f64,
    mark: AuditMark,
}

impl OperatorBench<'_> {
    /// One operator through all phases.
    fn measure(&self, name: &str, command: impl Fn(&Path) -> Command) -> Result<Value> {
        let is_ours = name == "chartwright";
        let user = format!("bench-{name}");
        let kubeconfig = self.control_plane.kubeconfig_for(&user, &["system:masters"])?;
        let start = |number: usize| {
            let mut command = command(&self.scratch.join("watches.yaml"));
            command.env("KUBECONFIG", &kubeconfig);
            let log = self.logs.join(format!("{name}-{number}.log"));
            MeasuredProcess::start(self.control_plane, command, &log)
        };
        let load = Load::new(self.control_plane.kubectl(), self.client, name, self.count)?;
        self.runtime.block_on(load.create())?;
        let mut phases = serde_json::Map::new();

        let count = self.count;
        eprintln!("{name}: {count} custom resources, from the start to the last one ...");
        let begun = self.begin(None)?;
        let mut operator = start(1)?;
        self.runtime.block_on(async {
            if is_ours {
                load.all_ready().await
            } else {
                load.all_members().await
            }
        })?;
        let mut converge = self.phase(&begun, &mut operator, &user)?;
        converge["ratio_to_floor"] = round(converge["seconds"].as_f64().unwrap_or_default() / self.floor);
        phases.insert("converge".into(), converge);
        let status = self.runtime.block_on(load.a_status())?;

        eprintln!("{name}: left alone for {:?} ...", self.idle);
        let begun = self.begin(Some(&mut operator))?;
        std::thread::sleep(self.idle);
        phases.insert("idle".into(), self.phase(&begun, &mut operator, &user)?);

        eprintln!("{name}: restart ...");
        operator.end()?;
        let begun = self.begin(None)?;
        let mut operator = start(2)?;
        std::thread::sleep(QUIET);
        self.await_quiet(&user)?;
        phases.insert("restart".into(), self.phase(&begun, &mut operator, &user)?);

        eprintln!("{name}: one edit on every custom resource ...");
        let begun = self.begin(Some(&mut operator))?;
        self.runtime.block_on(async {
            load.edit("red").await?;
            load.all_colored("red").await?;
            if is_ours {
                load.all_ready().await?;
            }
            anyhow::Ok(())
        })?;
        phases.insert("edit".into(), self.phase(&begun, &mut operator, &user)?);

        eprintln!("{name}: delete ...");
        let begun = self.begin(Some(&mut operator))?;
        self.runtime.block_on(async {
            load.delete().await?;
            load.all_gone().await
        })?;
        phases.insert("delete".into(), self.phase(&begun, &mut operator, &user)?);
        operator.end()?;
        Ok(json!({
            "operator": name, "custom_resources": self.count, "floor_seconds": round(self.floor), "phases": phases,
            "status": status,
        }))
    }

    /// `None`: with the start of an operator.
    fn begin(&self, operator: Option<&mut MeasuredProcess>) -> Result<Begun> {
        let usage = operator.map_or(Ok(ProcessUsage::default()), MeasuredProcess::usage)?;
        Ok(Begun {
            at: Instant::now(),
            cpu: usage.cpu,
            mark: self.control_plane.audit().mark()?,
        })
    }

    fn phase(&self, begun: &Begun, operator: &mut MeasuredProcess, user: &str) -> Result<Value> {
        let elapsed = begun.at.elapsed();
        let ProcessUsage { cpu, resident, peak } = operator.usage()?;
        // What it does when it has time, such as Events, belongs to the phase as well.
        self.await_quiet(user)?;
        let requests = self.requests(begun.mark, user)?;
        Ok(json!({
            "seconds": round(elapsed.as_secs_f64()), "cpu_seconds": round(cpu - begun.cpu), "resident_mib": round(resident),
            "peak_mib": round(peak), "requests": requests.len(), "by_verb": requests.kinds(),
        }))
    }

    fn requests(&self, mark: AuditMark, user: &str) -> Result<AuditedRequests> {
        Ok(self.control_plane.audit().since(mark)?.by_user(user).without_idling())
    }

    /// Waits until an operator sends no requests, up to a limit.
    fn await_quiet(&self, user: &str) -> Result<()> {
        for _ in 0..10 {
            let mark = self.control_plane.audit().mark()?;
            std::thread::sleep(QUIET);
            if self.requests(mark, user)?.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

fn round(number: f64) -> Value {
    json!((number * 100.0).round() / 100.0)
}

fn print(row: &Value) {
    println!(
        "\n{}: {} custom resources x 3 objects; the bare client's five applies each took {} s, with its status and \
         watches {} s (converge: x {})",
        row["operator"].as_str().unwrap_or_default(),
        row["custom_resources"],
        row["floor_seconds"],
        row["watched_floor_seconds"],
        row["phases"]["converge"]["ratio_to_watched_floor"],
    );
    let heads = ["s", "x floor", "CPU s", "MiB", "peak MiB", "requests"];
    println!("{:<10}{}", "phase", heads.map(|head| format!(" {head:>9}")).concat());
    for phase in ["converge", "idle", "restart", "edit", "delete"] {
        let row = &row["phases"][phase];
        let cell = |column: &str| row.get(column).map(Value::to_string).unwrap_or_default();
        let columns = "seconds ratio_to_floor cpu_seconds resident_mib peak_mib requests";
        let cells = columns.split(' ').map(|column| format!(" {:>9}", cell(column)));
        println!("{phase:<10}{}", cells.collect::<String>());
        for (verb, count) in row["by_verb"].as_object().into_iter().flatten() {
            println!("{:<10} {count:>9} {verb}", "");
        }
    }
}
