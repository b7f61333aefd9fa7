//! A reader at a terminal, who does what a page says in an empty folder.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::blocks::{self, DocStep};
use crate::support::{ControlPlane, Kubectl, eventually};

/// How long a block may take; pages wait for at most two minutes.
const LIMIT: Duration = Duration::from_secs(180);

/// Keeps folder and variables from one block to the next, as a shell does.
const SHELL: &str = r#"
. "$STATE/variables"
cd "$(cat "$STATE/folder")"
trap 'pwd > "$STATE/folder"; export -p > "$STATE/variables"' EXIT
set -e -o pipefail
"#;

/// The program as on a reader's machine, but for the ports of `run`: others may have them here.
const PROGRAM: &str = r#"#!/bin/sh
if [ "$1" = run ]; then set -- "$@" --metrics-bind-address=0 --health-probe-bind-address=0; fi
exec "$CHARTWRIGHT_TO_TEST" "$@"
"#;

/// A reader with an empty folder, and a namespace of a cluster as its administrator.
pub struct TerminalReader {
    control_plane: &'static ControlPlane,
    dir: tempfile::TempDir,
    /// In the namespace that is theirs.
    pub kubectl: Kubectl,
    /// What pages say, and what is there instead.
    instead: Vec<(&'static str, String)>,
    /// What was left running, and its log.
    running: Vec<(Child, PathBuf)>,
    /// What the last commands printed.
    printed: String,
}

impl TerminalReader {
    pub fn new(control_plane: &'static ControlPlane, namespace: &str) -> Result<Self> {
        let reader = TerminalReader {
            control_plane,
            dir: tempfile::tempdir()?,
            kubectl: control_plane.kubectl().create_namespace(namespace)?,
            instead: Vec::new(),
            running: Vec::new(),
            printed: String::new(),
        };
        for folder in ["bin", "home", "state", "work"] {
            fs::create_dir(reader.path(folder))?;
        }
        fs::write(reader.path("state/variables"), "")?;
        fs::write(reader.path("state/folder"), reader.path("work").display().to_string())?;
        fs::copy(control_plane.kubeconfig(), reader.path("home/kubeconfig"))?;
        let program = reader.path("bin/chartwright");
        fs::write(&program, PROGRAM)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let kubectl = control_plane.kubectl().command();
        std::os::unix::fs::symlink(kubectl.get_program(), reader.path("bin/kubectl"))?;
        let mut reader = reader;
        reader.run(&format!("kubectl config set-context --current --namespace={namespace}"))?;
        Ok(reader)
    }

    /// Has something else in the place of what the page says.
    pub fn instead(mut self, said: &'static str, given: &str) -> Self {
        self.instead.push((said, given.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Does what a page of the project says, block by block.
    pub fn follow(&mut self, page: &str) -> Result<()> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let mut text = fs::read_to_string(&path).with_context(|| page.to_owned())?;
        for (said, given) in &self.instead {
            ensure!(text.contains(said), "{page} doesn't say {said:?} any more");
            text = text.replace(said, given);
        }
        let blocks = blocks::read(&text).with_context(|| page.to_owned())?;
        ensure!(
            blocks.iter().any(|block| block.step != DocStep::NotRun),
            "{page} has nothing to be run"
        );
        for block in blocks {
            let done = self.take(&block.step);
            done.with_context(|| format!("{page}:{}{}", block.line, self.logs()))?;
        }
        Ok(())
    }

    fn take(&mut self, step: &DocStep) -> Result<()> {
        match step {
            DocStep::Run(commands) => self.run(commands),
            DocStep::Fail(commands) => {
                if self.shell(commands)? {
                    bail!("this succeeds:\n{commands}{}", self.printed)
                } else {
                    Ok(())
                }
            }
            DocStep::Leave(commands) => self.leave(commands),
            DocStep::Write { path, text } => {
                let folder = fs::read_to_string(self.path("state/folder"))?;
                let path = Path::new(folder.trim_end()).join(path);
                fs::create_dir_all(path.parent().context("a folder")?)?;
                Ok(fs::write(path, text)?)
            }
            DocStep::Shows(text) => shows(text, &self.printed),
            DocStep::NotRun => Ok(()),
        }
    }

    fn run(&mut self, commands: &str) -> Result<()> {
        if self.shell(commands)? {
            Ok(())
        } else {
            bail!("this fails:\n{commands}{}", self.printed)
        }
    }

    fn command(&self, commands: &str, log: &Path) -> Result<Command> {
        let mut command = Command::new("bash");
        command.args(["--norc", "-c", &format!("{SHELL}{commands}")]);
        for (name, _) in std::env::vars() {
            // Settings that `make test` passes to other makes, and a user's settings for operators or Helm.
            let is_others = [
                "MAKE",
                "MFLAGS",
                "HELM_",
                "DOCKER_",
                "KUBE",
                "WATCH_",
                "OPERATOR_",
                "POD_",
                "RUST_LOG",
            ];
            if is_others.iter().any(|start| name.starts_with(start)) {
                command.env_remove(name);
            }
        }
        let search = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{}:{search}", self.path("bin").display()))
            .env("HOME", self.path("home"))
            .env("STATE", self.path("state"))
            .env("KUBECONFIG", self.path("home/kubeconfig"))
            .env("KUBERC", "off")
            .env("CHARTWRIGHT_TO_TEST", env!("CARGO_BIN_EXE_chartwright"))
            .stdin(Stdio::null())
            .stdout(File::create(log)?)
            .stderr(File::options().append(true).open(log)?);
        self.control_plane.adopt(&mut command);
        Ok(command)
    }

    /// Whether commands succeed; keeps what they print.
    fn shell(&mut self, commands: &str) -> Result<bool> {
        let log = self.path("printed");
        let mut child = self.command(commands, &log)?.spawn()?;
        let ended = eventually(commands, LIMIT, || Ok(child.try_wait()?));
        if ended.is_err() {
            child.kill()?;
            child.wait()?;
        }
        self.printed = fs::read_to_string(&log)?;
        Ok(ended.with_context(|| self.printed.clone())?.success())
    }

    /// Leaves a command running, as soon as it says that it watches.
    fn leave(&mut self, commands: &str) -> Result<()> {
        let log = self.path(&format!("running-{}", self.running.len()));
        let mut child = self.command(commands, &log)?.spawn()?;
        let watches = eventually("the operator watches", LIMIT, || {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(Err(status)));
            }
            Ok(fs::read_to_string(&log)?.contains("watching").then_some(Ok(())))
        });
        self.running.push((child, log));
        match watches? {
            Ok(()) => Ok(()),
            Err(status) => bail!("it ends with {status}:\n{commands}"),
        }
    }

    /// The ends of the logs of what runs.
    fn logs(&self) -> String {
        let tail = |(_, path): &(Child, PathBuf)| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines.iter().skip(lines.len().saturating_sub(15));
            tail.map(|line| format!("\n  | {line}")).collect::<String>()
        };
        self.running.iter().map(tail).collect()
    }
}

impl Drop for TerminalReader {
    fn drop(&mut self) {
        // What it has started itself ends with the control plane.
        for (child, _) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether each line that a page shows was printed: all its words in their order, `...` for any number of them. Ages differ.
fn shows(text: &str, printed: &str) -> Result<()> {
    let is_age = |word: &str| word.ends_with(['s', 'm']) && word.starts_with(|c: char| c.is_ascii_digit());
    for line in text.lines() {
        let words: Vec<&str> = line
            .split_whitespace()
            .filter(|word| *word != "..." && !is_age(word))
            .collect();
        let is_this = |line: &str| {
            let mut there = line.split_whitespace();
            words.iter().all(|word| there.any(|other| other == *word))
        };
        ensure!(
            printed.lines().any(is_this),
            "{line:?} isn't in what was printed:\n{printed}"
        );
    }
    Ok(())
}

#[test]
fn output_shown_on_a_page_must_be_printed() {
    let printed = "NAME   READY   AGE\nweb    3/3     17s\n";
    for (text, is_true) in [
        ("NAME READY AGE\nweb 3/3 5s\n", true),
        ("... 3/3 ...\n", true),
        ("web 2/3 5s\n", false),
        ("3/3 web\n", false),
    ] {
        assert_eq!(shows(text, printed).is_ok(), is_true, "{text}");
    }
}
