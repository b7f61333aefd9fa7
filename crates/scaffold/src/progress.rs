//! A line on standard error that shows how far long work is.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// The progress of one piece of work. A terminal has one line, which is rewritten and disappears at the end. Any other standard
/// error, such as a CI log, gets plain lines.
pub struct ProgressLine {
    is_terminal: bool,
    /// When the next line is due.
    due: Instant,
    is_shown: bool,
}

impl Default for ProgressLine {
    fn default() -> Self {
        Self::new()
    }
}

impl ProgressLine {
    /// How often the line of a terminal is rewritten. Work that ends sooner has none.
    const PERIOD: Duration = Duration::from_millis(100);
    /// How long work takes before it has a plain line.
    const PLAIN_DELAY: Duration = Duration::from_secs(2);
    /// The time between plain lines.
    const PLAIN_PERIOD: Duration = Duration::from_secs(10);

    /// Starts with the work.
    pub fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let delay = if is_terminal { Self::PERIOD } else { Self::PLAIN_DELAY };
        ProgressLine {
            is_terminal,
            due: Instant::now() + delay,
            is_shown: false,
        }
    }

    /// Shows how far the work is, if a line is due.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        let period = if self.is_terminal {
            Self::PERIOD
        } else {
            Self::PLAIN_PERIOD
        };
        self.due = now + period;
        self.is_shown = true;
        self.write(&line());
    }

    /// Writes the last line, which stays on a terminal.
    pub fn end(mut self, line: &str) {
        if self.is_terminal {
            self.is_shown = false;
            self.write(&format!("{line}\n"));
        }
    }

    /// Errors are ignored: the work does not need a reader.
    fn write(&self, line: &str) {
        let text = if self.is_terminal {
            format!("\r\x1b[K{line}")
        } else {
            format!("{line}\n")
        };
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_shown && self.is_terminal {
            self.write("");
        }
    }
}
