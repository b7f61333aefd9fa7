//! Standard output and standard error of the commands.

use std::io::{self, IsTerminal, Write};

use chartwright_scaffold::printable::printable;

/// The reader closed standard output, as in `chartwright history ... | head`.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
struct StdoutClosed;

/// Standard output. Its broken pipe is distinguishable from other broken pipes, such as that of a connection.
pub struct Stdout(io::Stdout);

/// Returns standard output.
pub fn stdout() -> Stdout {
    Stdout(io::stdout())
}

/// True if colors are shown: the stream is a terminal, and `NO_COLOR` is not set.
pub fn has_colors(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Prints a message on standard output. A closed standard output is ignored. Control characters in names and messages are escaped.
pub fn show(text: std::fmt::Arguments<'_>) {
    let _ = io::stdout().write_all(printable(&text.to_string()).as_bytes());
}

/// Prints a message on standard error, as [`show`] does on standard output.
pub fn show_error(text: std::fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(printable(&text.to_string()).as_bytes());
}

/// Prints a line on standard error.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::cli::stdout::show_error(format_args!("{}\n", format_args!($($text)*)))
    };
}
pub(in crate::cli) use note;

/// Prints a line on standard output.
macro_rules! print_line {
    ($($text:tt)*) => {
        $crate::cli::stdout::show(format_args!("{}\n", format_args!($($text)*)))
    };
}
pub(in crate::cli) use print_line;

/// True if a command ended because the reader closed standard output.
pub fn is_closed(error: &anyhow::Error) -> bool {
    let is_ours = |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<StdoutClosed>());
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_ours))
}

fn mark_broken_pipe(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, StdoutClosed),
        _ => error,
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(mark_broken_pipe)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(mark_broken_pipe)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn only_the_broken_pipe_of_standard_output_is_no_failure() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let ours = Err::<(), _>(mark_broken_pipe(broken())).context("a page").unwrap_err();
        assert!(is_closed(&ours) && is_closed(&mark_broken_pipe(broken()).into()));
        let connection = Err::<(), _>(broken()).context("GET /api").unwrap_err();
        assert!(!is_closed(&connection) && !is_closed(&broken().into()));
        assert!(!is_closed(&mark_broken_pipe(io::Error::other("full")).into()));
    }
}
