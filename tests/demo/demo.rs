//! `make demo`: a control plane on this machine, the operator, a custom resource, and what comes of it. Stays up until
//! Ctrl-C; with `DEMO=once` it cleans up behind itself, shows that nothing is left, and ends.
//!
//! Exit codes: 0 done, 1 failed, 130 and 143 ended by Ctrl-C and SIGTERM before the end. Whatever happens, every process
//! that was started ends and the temporary directory goes: in an orderly way where this program can, else through the
//! watchdog of the control plane.

use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use playground::{Interrupted, Playground, Stop};
use terminal::Terminal;

mod cost;
mod playground;
mod story;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod tree;
// Once more, for what is started before there is a control plane.
#[allow(dead_code, clippy::duplicate_mod)]
#[path = "../support/watchdog.rs"]
mod watchdog;

/// How long an orderly end may take before the watchdog does the rest.
const ORDERLY: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    match supervise() {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("Error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Standard error may be closed; that is no reason to end in another way.
fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Runs the demo in a thread of its own and minds the signals meanwhile.
fn supervise() -> Result<ExitCode> {
    let stop = Stop::default();
    let once = match std::env::var("DEMO").as_deref() {
        Ok("once") => true,
        Ok("") | Err(_) => false,
        Ok(other) => anyhow::bail!("DEMO={other}: it is `once`, or not set"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("async runtime")?;
    let (sender, finished) = oneshot::channel();
    let player = {
        let stop = stop.clone();
        move || {
            // An error means that nobody waits any more.
            let _ = sender.send(demo(&Terminal::new(stop.clone()), &stop, once));
        }
    };
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
        let mut hangup = signal(SignalKind::hangup()).context("SIGHUP")?;
        std::thread::Builder::new().name("demo".to_owned()).spawn(player)?;
        tokio::pin!(finished);
        let interrupted = tokio::select! {
            outcome = &mut finished => return Ok(ended(outcome, ExitCode::FAILURE)),
            _ = interrupt.recv() => ExitCode::from(130),
            _ = terminate.recv() => ExitCode::from(143),
            _ = hangup.recv() => ExitCode::from(129),
        };
        // Further signals change nothing: whoever sends one to the group of a shell's job may send it twice.
        stop.set();
        complain("\nEnding: every process that was started, and the temporary directory.");
        let late = tokio::time::sleep(ORDERLY);
        tokio::pin!(late);
        let mut again = tokio::time::interval(Duration::from_millis(200));
        loop {
            tokio::select! {
                outcome = &mut finished => return Ok(ended(outcome, interrupted)),
                _ = again.tick() => end_what_starts(&stop),
                () = &mut late => break,
            }
        }
        complain("It takes long; the rest ends by itself now.");
        // The pipe to the watchdog closes with the process.
        std::process::exit(1);
    })
}

/// What came out, as an exit code.
fn ended(outcome: Result<Result<()>, oneshot::error::RecvError>, interrupted: ExitCode) -> ExitCode {
    let error = match outcome {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => error,
        // The panic has been printed.
        Err(_) => return ExitCode::from(101),
    };
    if error.is::<Interrupted>() {
        return interrupted;
    }
    let closed = error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if !closed {
        complain(&format!("Error: {error:#}"));
    }
    ExitCode::FAILURE
}

/// What the control plane starts while it starts, so that it gives up at once: it knows nothing of `stop`. Only children
/// of this process, and not the shell that cleans up behind it. Without `pkill` it just takes longer.
fn end_what_starts(stop: &Stop) {
    if stop.is_deaf() {
        let arguments = ["-KILL", "-P", &std::process::id().to_string(), "^(etcd|kube|kwok)"];
        let _ = Command::new("pkill").args(arguments).stderr(Stdio::null()).status();
    }
}

fn demo(terminal: &Terminal, stop: &Stop, once: bool) -> Result<()> {
    let told = play(terminal, stop, once);
    if told.is_err() {
        // A Ctrl-C reaches kubectl as well, whose failure may be known here before the signal is.
        stop.sleep(Duration::from_millis(100))?;
    }
    told
}

fn play(terminal: &Terminal, stop: &Stop, once: bool) -> Result<()> {
    let mut play = Playground::start(terminal, stop)?;
    let told = play
        .await_operator(terminal)
        .and_then(|()| story::tell(terminal, &mut play, once));
    if let Err(error) = &told
        && !error.is::<Interrupted>()
        && !error.is::<io::Error>()
    {
        stop.sleep(Duration::from_millis(100))?;
        complain(&format!("\nThe end of the operator's log:\n{}\n", play.log_tail()));
    }
    told
}
