//! An operator as a process, and what it takes: CPU and memory from `/proc`.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::support::ControlPlane;

/// The kernel's unit of CPU times on every architecture that Linux runs on today.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running operator; one that fails is killed with its control plane.
pub struct MeasuredProcess {
    child: Child,
}

/// What a process has taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    /// Seconds of CPU, user and system.
    pub cpu: f64,
    /// MiB in memory now.
    pub resident: f64,
    /// MiB at the most.
    pub peak: f64,
}

impl MeasuredProcess {
    /// Starts a command with its output in a file.
    pub fn start(control_plane: &ControlPlane, mut command: Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| log.display().to_string())?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = control_plane.adopt(&mut command).spawn().with_context(|| {
            let program = command.get_program().to_string_lossy().into_owned();
            format!("cannot run {program}")
        })?;
        Ok(MeasuredProcess { child })
    }

    /// # Errors
    /// The process has ended.
    pub fn usage(&mut self) -> Result<ProcessUsage> {
        ensure!(self.child.try_wait()?.is_none(), "the operator ended; see its log");
        let folder = format!("/proc/{}", self.child.id());
        let stat = fs::read_to_string(format!("{folder}/stat"))?;
        // The second field is the name in parentheses, which may hold spaces.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse().ok()).unwrap_or(0.0);
        let status = fs::read_to_string(format!("{folder}/status"))?;
        let mib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
            kib.unwrap_or(0.0) / 1024.0
        };
        Ok(ProcessUsage {
            cpu: (ticks(11) + ticks(12)) / TICKS_PER_SECOND,
            resident: mib("VmRSS:"),
            peak: mib("VmHWM:"),
        })
    }

    /// SIGTERM, then waits until it has ended.
    pub fn end(mut self) -> Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        for _ in 0..300 {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        anyhow::bail!("the operator does not end")
    }
}
