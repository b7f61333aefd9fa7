//! Standard output and standard error, for what commands print.

use std::io::{self, Write};

use chartwright_scaffold::printable::printable;

/// The reader of standard output closed it: `chartwright history ... | head`.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
struct Closed;

/// Standard output whose broken pipe can be told from others, such as a connection's.
pub struct Stdout(io::Stdout);

/// Standard output.
pub fn stdout() -> Stdout {
    Stdout(io::stdout())
}

/// Prints a message on standard output. The command goes on if that was closed. Control characters of names and messages are
/// shown escaped.
pub fn show(text: std::fmt::Arguments<'_>) {
    let _ = io::stdout().write_all(printable(&text.to_string()).as_bytes());
}

/// Prints a message on standard error, likewise.
pub fn show_error(text: std::fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(printable(&text.to_string()).as_bytes());
}

/// A line on standard error.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::cli::stdout::show_error(format_args!("{}\n", format_args!($($text)*)))
    };
}
pub(in crate::cli) use note;

/// A line on standard output.
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::cli::stdout::show(format_args!("{}\n", format_args!($($text)*)))
    };
}
pub(in crate::cli) use tell;

/// True if a command ended because nobody reads any more what it prints.
pub fn is_closed(error: &anyhow::Error) -> bool {
    let is_ours = |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<Closed>());
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_ours))
}

fn marked(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, Closed),
        _ => error,
    }
}

// === impl Stdout ===

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(marked)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(marked)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn only_the_broken_pipe_of_standard_output_is_no_failure() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let ours = Err::<(), _>(marked(broken())).context("a page").unwrap_err();
        assert!(is_closed(&ours) && is_closed(&marked(broken()).into()));
        let connection = Err::<(), _>(broken()).context("GET /api").unwrap_err();
        assert!(!is_closed(&connection) && !is_closed(&broken().into()));
        assert!(!is_closed(&marked(io::Error::other("full")).into()));
    }
}
