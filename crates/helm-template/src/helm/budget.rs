//! What a render has used of its limits.

use std::time::Duration;

use super::limits::{Limit, Limits};
use go_template::ExecError;
use go_template::meter::{self, Meter, Overrun};

/// The number of steps between two readings of the clock.
const STEPS_A_LOOK: u64 = 1024;
/// The number of bytes that a function reads or writes in about the time of one step.
const BYTES_A_STEP: u64 = 64;
/// The evaluator's message for runaway recursion.
const TOO_DEEP: &str = "exceeded maximum template depth";

/// The usage of [`Limits`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    pub steps: u64,
    /// The deepest nesting that was reached.
    pub depth: usize,
    pub output: usize,
    pub memory: u64,
    /// Processor time of the thread.
    pub time: Duration,
}

/// The limits of a render, and what it has used of them.
pub(super) struct RenderBudget {
    pub(super) limits: Limits,
    pub(super) steps: u64,
    started: Duration,
    deepest: usize,
    /// Bytes of the files that are done.
    pub(super) written: usize,
    pub(super) exceeded: Option<Limit>,
    /// The remaining budget of functions.
    pub(super) meter: Meter,
}

impl RenderBudget {
    pub(super) fn new(limits: Limits) -> Self {
        RenderBudget {
            limits,
            steps: 0,
            started: meter::cpu_time(),
            deepest: 0,
            written: 0,
            exceeded: None,
            meter: Meter::new(limits.memory, meter::cpu_time().checked_add(limits.time)),
        }
    }

    pub(super) fn used(&self) -> Used {
        Used {
            steps: self.steps,
            depth: self.deepest,
            output: self.written,
            memory: self.limits.memory.saturating_sub(self.meter.left()),
            // Since the budget was made.
            time: meter::cpu_time().saturating_sub(self.started),
        }
    }

    /// Notes the limit that was the cause of an error, if one was.
    pub(super) fn note_failure(&mut self, error: &ExecError) {
        if self.exceeded.is_none() && self.meter.has_overrun() {
            self.exceeded = Some(self.overrun());
        }
        if self.exceeded.is_none() && error.to_string().contains(TOO_DEEP) {
            self.exceeded = Some(Limit::Depth(self.limits.depth));
        }
    }

    /// Spends what a file took in an earlier render. `None` if the limits don't allow it; then nothing is spent.
    pub(super) fn spend(&mut self, steps: u64, length: usize, memory: u64) -> Option<()> {
        let steps = self.steps.saturating_add(steps);
        let written = self.written.saturating_add(length);
        if steps > self.limits.steps || written > self.limits.output || self.meter.left() < memory {
            return None;
        }
        self.meter.spend(memory).ok()?;
        (self.steps, self.written) = (steps, written);
        Some(())
    }

    /// Counts steps.
    pub(super) fn work(&mut self, steps: u64) -> Result<(), String> {
        let before = self.steps;
        self.steps = before.saturating_add(steps);
        if self.steps > self.limits.steps {
            return self.exceed(Limit::Steps(self.limits.steps));
        }
        // The clock is read seldom: it costs more than a step.
        if before / STEPS_A_LOOK != self.steps / STEPS_A_LOOK && !self.meter.in_time() {
            return self.exceed(Limit::Time(self.limits.time));
        }
        Ok(())
    }

    /// Counts one step of the evaluator, and how deep it is.
    pub(super) fn step(&mut self) -> Result<(), String> {
        self.deepest = self.deepest.max(self.meter.depth());
        self.work(1)
    }

    /// Counts a call by the bytes that it was given, that it made, and of them the fresh ones.
    pub(super) fn called(&mut self, given: usize, made: usize, fresh: u64) -> Result<(), String> {
        if self.meter.spend(fresh).is_err() || self.meter.has_overrun() {
            let limit = self.overrun();
            return self.exceed(limit);
        }
        match (given + made) as u64 / BYTES_A_STEP + self.meter.take_steps() {
            0 => Ok(()),
            steps => self.work(steps),
        }
    }

    /// Checks the output of the present file, which has so many bytes, and counts those that were added.
    pub(super) fn output(&mut self, bytes: usize, added: usize) -> Result<(), String> {
        // A growing buffer may reserve twice its size.
        if self.meter.spend(2 * added as u64).is_err() {
            let limit = self.overrun();
            return self.exceed(limit);
        }
        if self.written.saturating_add(bytes) > self.limits.output {
            return self.exceed(Limit::Output(self.limits.output));
        }
        Ok(())
    }

    /// The limit that a function reported.
    fn overrun(&self) -> Limit {
        match self.meter.take_overrun() {
            Some(Overrun::Text) => Limit::Text(meter::MAX_TEXT),
            Some(Overrun::Depth) => Limit::Nesting(meter::MAX_VALUE_DEPTH),
            Some(Overrun::Regex) => Limit::Regex,
            Some(Overrun::Time) => Limit::Time(self.limits.time),
            Some(Overrun::Memory) | None => Limit::Memory(self.limits.memory),
        }
    }

    fn exceed(&mut self, limit: Limit) -> Result<(), String> {
        self.exceeded = Some(limit);
        Err(format!("over {limit} of one render"))
    }
}
