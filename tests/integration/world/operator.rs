//! An operator process.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};

use crate::support::{ControlPlane, eventually, until};
use crate::world::SOON;

/// Options of an operator process. Most tests use a constant below.
pub struct Launch<'a> {
    pub arguments: &'a [&'a str],
    pub environment: &'a [(&'a str, &'a str)],
    /// The number of the replica. Each replica has its own user.
    pub replica: usize,
    /// Serves metrics, for [`Operator::metric`].
    pub metrics: bool,
}

/// Without leader election and metrics.
pub const UNELECTED: Launch<'static> = Launch {
    arguments: &[],
    environment: &[],
    replica: 0,
    metrics: false,
};

/// With metrics.
pub const METERED: Launch<'static> = Launch {
    metrics: true,
    ..UNELECTED
};

impl<'a> Launch<'a> {
    /// With environment variables.
    pub fn with(environment: &'a [(&'a str, &'a str)]) -> Self {
        Launch {
            environment,
            ..UNELECTED
        }
    }

    /// Adds metrics.
    pub fn metered(self) -> Self {
        Launch { metrics: true, ..self }
    }
}

/// With leader election.
pub const ELECTED: Launch<'static> = Launch {
    arguments: &["--leader-elect", "--leader-election-id=widgets"],
    ..UNELECTED
};

/// Retries failed watches, such as forbidden ones, within a second.
pub const IMPATIENT: Launch<'static> = Launch {
    environment: &[("CHARTWRIGHT_TEST_LONGEST_PAUSE_MS", "1000")],
    ..UNELECTED
};

/// A running operator. Killed when it is dropped.
pub struct Operator {
    child: Child,
    log: PathBuf,
    /// Its user name on the API server.
    pub user: String,
    metrics: Option<u16>,
    /// The test makes it panic.
    panics: bool,
}

/// Names the custom resource whose reconcile panics, in a debug build.
pub const PANIC: &str = "CHARTWRIGHT_TEST_PANIC";

impl Operator {
    /// `folder` takes the log, `operator-<n>.log`.
    pub fn start(
        control_plane: &ControlPlane,
        folder: &Path,
        kubeconfig: &Path,
        user: &str,
        arguments: &[String],
        launch: &Launch<'_>,
    ) -> Result<Self> {
        let mut logs = (0..).map(|number| folder.join(format!("operator-{number}.log")));
        let log = logs.find(|path| !path.exists()).context("no log file is free")?;
        let metrics = if launch.metrics {
            Some(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
        } else {
            None
        };
        let address = metrics.map_or("0".to_owned(), |port| format!("127.0.0.1:{port}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
        command
            .args(["run", "--health-probe-bind-address=0", "--zap-log-level=debug"])
            .arg(format!("--metrics-bind-address={address}"))
            .args(arguments)
            .args(launch.arguments)
            .env("KUBECONFIG", kubeconfig)
            .env_remove("WATCH_NAMESPACE")
            .env_remove("OPERATOR_NAME")
            .env_remove("POD_NAMESPACE")
            .envs(launch.environment.iter().copied())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?);
        let child = control_plane.adopt(&mut command).spawn()?;
        Ok(Operator {
            child,
            log,
            user: user.to_owned(),
            metrics,
            panics: launch.environment.iter().any(|(name, _)| *name == PANIC),
        })
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn await_log(&self, text: &str) -> Result<()> {
        until(&format!("the log says {text:?}"), SOON, || {
            Ok(self.log().contains(text))
        })
        .with_context(|| self.log())
    }

    /// SIGKILL.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM, and the exit status.
    pub fn terminate(mut self) -> Result<ExitStatus> {
        self.signal("TERM")?;
        self.wait()
    }

    /// Sends a signal, such as STOP or CONT.
    pub fn signal(&self, name: &str) -> Result<()> {
        let process = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &process]).status()?;
        ensure!(sent.success(), "SIG{name}: {sent}");
        Ok(())
    }

    /// Waits for the process to end by itself.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let child = &mut self.child;
        eventually("the operator ends", SOON, || Ok(child.try_wait()?))
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Peak memory in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("VmHWM")?;
        Ok(kib.trim().parse::<u64>()? << 10)
    }

    /// The number of renders.
    pub fn renders(&self) -> Result<f64> {
        self.metric("chartwright_render_duration_seconds_count")
    }

    /// The number of reconciles.
    pub fn reconciles(&self) -> usize {
        self.log().matches("\"reconciled\"").count()
    }

    /// The port of the metrics.
    pub fn metrics_port(&self) -> Result<u16> {
        self.metrics.context("this operator serves no metrics")
    }

    /// The metrics page.
    pub fn metrics(&self) -> Result<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.metrics_port()?))?;
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(answer)
    }

    /// The value of a series by a prefix of its line; 0 if absent.
    pub fn metric(&self, series: &str) -> Result<f64> {
        let answer = self.metrics()?;
        let line = answer.lines().find(|line| line.starts_with(series));
        let value = line.and_then(|line| line.rsplit(' ').next());
        Ok(value.map(str::parse).transpose()?.unwrap_or_default())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The operator catches panics and retries, so only the log shows them.
        if !std::thread::panicking() && !self.panics && self.log().contains("panicked") {
            panic!("the operator panicked:\n{}", self.log());
        }
    }
}
