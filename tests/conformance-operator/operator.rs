//! A process of the operator.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::lane::{GROUP, KIND, OPERATOR_NAMESPACE, TrialLane};
use crate::support::{eventually, until};

/// Killed when it is dropped.
pub struct TrialOperator {
    child: Child,
    log: PathBuf,
}

impl TrialOperator {
    /// Starts one whose only watch binds the kind to a chart. `folder` takes its watches file and its log.
    pub fn start(lane: &TrialLane, folder: &Path, chart: &Path, number: usize) -> Result<TrialOperator> {
        let all = json!({"kinds": ["*"], "namespaces": ["*"]});
        let watch = json!([{
            "group": GROUP, "version": "v1", "kind": KIND, "chart": chart, "allow": all, "lookups": all,
        }]);
        let watches = folder.join(format!("watches-{number}.yaml"));
        fs::write(&watches, watch.to_string())?;
        let log = folder.join(format!("operator-{number}.log"));
        let file = File::create(&log)?;
        let mut command = Command::new(binary()?);
        command
            .args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .args(["--leader-elect=false", "--zap-log-level=debug", "--zap-encoder=console"])
            .arg(format!("--namespace={OPERATOR_NAMESPACE}"))
            .arg(format!("--watches-file={}", watches.display()))
            .env("KUBECONFIG", &lane.operator)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        for name in [
            "WATCH_NAMESPACE",
            "OPERATOR_NAME",
            "POD_NAMESPACE",
            "MEMORY_LIMIT",
            "RUST_LOG",
        ] {
            command.env_remove(name);
        }
        let child = lane.control_plane.adopt(&mut command).spawn();
        let child = child.context("cannot run the operator")?;
        Ok(TrialOperator { child, log })
    }

    /// Fails once it has ended.
    pub fn is_alive(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the operator ended by itself, {ended:?}");
        Ok(())
    }

    /// Waits until it has listed the custom resources.
    pub fn await_watching(&self, limit: Duration) -> Result<()> {
        until("the operator watches its kind", limit, || {
            Ok(String::from_utf8_lossy(&fs::read(&self.log)?).contains("watching"))
        })
    }

    /// The operator catches panics and retries, so only the log shows them.
    fn has_not_panicked(&self) -> Result<()> {
        let log = String::from_utf8_lossy(&fs::read(&self.log)?).into_owned();
        let panic = log.lines().find(|line| line.contains("panicked"));
        ensure!(panic.is_none(), "{}", panic.unwrap_or_default());
        Ok(())
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(mut self) -> Result<()> {
        let process = self.child.id().to_string();
        Command::new("kill").args(["-s", "TERM", &process]).status()?;
        let child = &mut self.child;
        let ended = eventually("the operator ends", Duration::from_secs(30), || Ok(child.try_wait()?))?;
        ensure!(ended.success(), "the operator ended with {ended}");
        self.has_not_panicked()
    }
}

impl Drop for TrialOperator {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The operator's program lies beside the examples' folder, in which cargo puts this one.
fn binary() -> Result<PathBuf> {
    let example = std::env::current_exe().context("where this program is")?;
    let folder = example.parent().and_then(Path::parent).context("cargo's folder")?;
    Ok(folder.join("chartwright"))
}
