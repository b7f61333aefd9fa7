//! Ends everything that a control plane started, even if the process that started it is killed.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits for the end of its input, which is the end of the process that holds the other side of the pipe. Then it kills
/// its own process group and removes the directory. The killer runs in a group of its own (`set -m`), so that it
/// survives the kill; zombies count as members of a group, so it doesn't wait for an empty one without bound.
const SCRIPT: &str = r#"
while read -r _; do :; done
set -m
{
  for _ in {1..100}; do
    kill -KILL -- "-$$" || break
    sleep 0.05
  done
  rm -rf -- "$1"
} &
wait
"#;

/// A shell that leads the process group of a control plane and kills the group when this process ends.
///
/// Not `PR_SET_PDEATHSIG`: that one fires when the *thread* that started a process ends, and test threads end before
/// the process does.
#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
    input: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts the shell. `remove` is the directory to remove when all is killed.
    pub fn start(remove: &Path) -> io::Result<Self> {
        let mut shell = Command::new("bash")
            .args(["--norc", "-c", SCRIPT, "watchdog"])
            .arg(remove)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let input = shell.stdin.take();
        Ok(Self { shell, input })
    }

    /// Makes a command a member of the group: it ends with the control plane, and a Ctrl-C at the terminal, which
    /// goes to the foreground group, doesn't reach it.
    pub fn adopt<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        // A process id is at most 2^22 on Linux and fits.
        command.process_group(i32::try_from(self.shell.id()).unwrap_or(0))
    }

    /// Kills the group. The shell's killer goes on until no member is left, so members that are children of this
    /// process have to be waited for.
    pub fn release(&mut self) {
        drop(self.input.take());
        // An error means that it is gone already.
        let _ = self.shell.wait();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.release();
    }
}
