//! Operator processes of a world, and its kubectl.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Output};

use anyhow::{Result, ensure};

use super::World;
use super::operator::{Launch, Operator, UNELECTED};

impl World {
    /// Runs a command as admin. Returns its exit status and output.
    pub fn chartwright(&self, arguments: &[&str]) -> Result<(ExitStatus, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
        command
            .args(arguments)
            .env("KUBECONFIG", self.control_plane.kubeconfig());
        let Output { status, stdout, stderr } = command.output()?;
        Ok((status, String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned()))
    }

    /// Starts the operator of this world on its watches file.
    pub fn start(&self) -> Result<Operator> {
        self.launch(&UNELECTED)
    }

    /// Like `start`, and waits until the operator sends no more requests.
    pub fn start_and_settle(&self) -> Result<Operator> {
        let operator = self.start()?;
        operator.await_log("watching")?;
        self.await_quiet(&operator)?;
        Ok(operator)
    }

    /// Ends an operator by SIGTERM and starts the next.
    pub fn restart(&self, operator: Operator) -> Result<Operator> {
        ensure!(operator.terminate()?.success());
        self.start()
    }

    /// Kills an operator, and starts the next.
    pub fn replace(&self, operator: Operator) -> Result<Operator> {
        operator.kill()?;
        self.start()
    }

    /// Like `replace`, and waits until the new operator sends no more requests.
    pub fn replace_and_settle(&self, operator: Operator) -> Result<Operator> {
        operator.kill()?;
        self.start_and_settle()
    }

    pub fn launch(&self, launch: &Launch<'_>) -> Result<Operator> {
        if !self.watches_file().exists() {
            self.write_watches()?;
        }
        let user = format!("system:serviceaccount:{}:operator-{}", self.name, launch.replica);
        let kubeconfig = self.control_plane.kubeconfig_for(&user, &[&self.operators()])?;
        self.launch_as(&user, &kubeconfig, launch)
    }

    /// Like `launch`, with the credentials in a kubeconfig.
    pub fn launch_as(&self, user: &str, kubeconfig: &Path, launch: &Launch<'_>) -> Result<Operator> {
        let watches = format!("--watches-file={}", self.watches_file().display());
        let (name, namespace) = (
            format!("--operator-name={}", self.name),
            format!("--namespace={}", self.name),
        );
        let arguments = [watches, name, namespace];
        Operator::start(
            self.control_plane,
            self.dir.path(),
            kubeconfig,
            user,
            &arguments,
            launch,
        )
    }

    /// Describes a failure: the status of a widget and the end of each log.
    pub fn describe_failure(&self, name: &str) -> String {
        let widget = self.get(&self.widgets(), name).ok().flatten().unwrap_or_default();
        let mut describe_failure = format!("status: {}\n", widget["status"]);
        for number in 0..9 {
            let Ok(log) = fs::read_to_string(self.dir.path().join(format!("operator-{number}.log"))) else {
                break;
            };
            let lines: Vec<&str> = log.lines().collect();
            describe_failure += &format!("log:\n{}\n", lines[lines.len().saturating_sub(25)..].join("\n"));
        }
        describe_failure
    }
}
