//! `diff` on a real API server: what it announces, and that it writes nothing.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::world::World;

mod announced;
mod edits;
mod many;
mod public_charts;
mod refusals;
mod selection;
mod wrong_use;

/// Runs `diff` as a user of its own, so that the audit log shows what it sent.
pub struct Differ<'w> {
    world: &'w World,
    user: String,
    kubeconfig: PathBuf,
}

/// What a run printed.
pub struct Printed {
    pub code: i32,
    pub out: String,
    pub err: String,
    /// The dry runs that it sent, as `patch configmaps a-main`.
    pub dry_runs: Vec<String>,
}

impl<'w> Differ<'w> {
    /// A user who may do everything.
    pub fn new(world: &'w World) -> Result<Self> {
        Self::with_groups(world, &["system:masters"])
    }

    pub fn with_groups(world: &'w World, groups: &[&str]) -> Result<Self> {
        let user = format!("differ-{}", world.name);
        let kubeconfig = world.control_plane.kubeconfig_for(&user, groups)?;
        Ok(Differ {
            world,
            user,
            kubeconfig,
        })
    }

    /// Runs `diff` with these arguments, in the world's namespace unless they name others. Fails if it wrote anything.
    pub fn run(&self, arguments: &[&str]) -> Result<Printed> {
        self.run_with(arguments, "")
    }

    /// The same with a text on standard input.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Result<Printed> {
        let mark = self.world.control_plane.audit().mark()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
        command.arg("diff").args(arguments);
        let has = |flag: &str| arguments.iter().any(|argument| argument.starts_with(flag));
        if !has("-n") && !has("-A") {
            command.args(["-n", &self.world.name]);
        }
        if !has("--watches-file") {
            command.arg("--watches-file").arg(self.world.watches_file());
        }
        if !has("--kubeconfig") {
            command.arg("--kubeconfig").arg(&self.kubeconfig);
        }
        command.env("OPERATOR_NAME", &self.world.name).env_remove("KUBECONFIG");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        // The audit log has a request only after its response.
        std::thread::sleep(Duration::from_millis(300));
        let sent = self.world.control_plane.audit().since(mark)?.by_user(&self.user);
        let writes = sent.writes();
        writes
            .clone()
            .filter(|request| !request.uri.contains("dryRun=All"))
            .none()?;
        Ok(Printed {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            dry_runs: writes
                .iter()
                .map(|request| format!("{} {} {}", request.verb, request.resource, request.name))
                .collect(),
        })
    }

    /// Runs it for one release. Returns the release of the JSON output.
    pub fn release(&self, name: &str, arguments: &[&str], code: i32) -> Result<Value> {
        let kind = self.world.resource("widget");
        let arguments = [&[kind.as_str(), name, "-o", "json"], arguments].concat();
        self.json(&arguments, code)
    }

    /// Runs it with JSON output, for one release.
    pub fn json(&self, arguments: &[&str], code: i32) -> Result<Value> {
        let printed = self.run(arguments)?.expect(code)?;
        let found: Value = serde_json::from_str(&printed.out)?;
        Ok(found["releases"][0].clone())
    }
}

impl Printed {
    /// Fails if it ended with another code.
    pub fn expect(self, code: i32) -> Result<Self> {
        ensure!(
            self.code == code,
            "exit code {}, not {code}:\n{}\n{}",
            self.code,
            self.out,
            self.err
        );
        Ok(self)
    }
}

/// What is announced, as `changed ConfigMap a-main`, sorted.
pub fn announced(release: &Value) -> Vec<String> {
    let changes = release["changes"].as_array().into_iter().flatten();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |change: &Value| {
        format!(
            "{} {} {}",
            word(&change["operation"]),
            word(&change["kind"]),
            word(&change["name"])
        )
    };
    let mut lines: Vec<String> = changes.map(line).collect();
    lines.sort();
    lines
}

pub fn ensure_announced(release: &Value, expected: &[&str]) -> Result<()> {
    ensure!(announced(release) == expected, "{release:#}");
    Ok(())
}

/// The difference of an object.
pub fn difference(release: &Value, name: &str) -> Result<String> {
    let mut changes = release["changes"].as_array().into_iter().flatten();
    let change = changes.find(|change| change["name"] == name);
    let change = change.with_context(|| format!("{name} is not announced: {release:#}"))?;
    Ok(change["diff"].as_str().unwrap_or_default().to_owned())
}
