//! A line on the terminal that follows long work.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// The line; nothing where standard error is no terminal. It goes with this.
pub struct Progress {
    is_watched: bool,
    /// When the line was written last, or, before the first time, when the work began.
    told: Instant,
    is_there: bool,
}

// === impl Progress ===

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// How often the line is rewritten; work that ends sooner has none.
    const PERIOD: Duration = Duration::from_millis(100);

    /// Of work that begins now.
    pub fn new() -> Self {
        Progress {
            is_watched: std::io::stderr().is_terminal(),
            told: Instant::now(),
            is_there: false,
        }
    }

    /// How far it is.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.is_watched && self.told.elapsed() >= Self::PERIOD {
            self.told = Instant::now();
            self.is_there = true;
            write(&line());
        }
    }

    /// The last line, which stays.
    pub fn end(mut self, line: &str) {
        if self.is_watched {
            self.is_there = false;
            write(&format!("{line}\n"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_there {
            write("");
        }
    }
}

/// In the place of the line before. That nobody reads it any more loses nothing.
fn write(line: &str) {
    let _ = std::io::stderr().write_all(format!("\r\x1b[K{line}").as_bytes());
}
