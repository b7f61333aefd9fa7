//! What the demo writes: headings, steps with their times, wrapped text and tables. Colours and moving lines only where
//! standard output is a terminal that can show them; plain lines everywhere else.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::playground::Stop;

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Bold,
    Dim,
    Good,
    Busy,
    Bad,
    Accent,
}

/// Standard output.
pub struct Terminal {
    colours: bool,
    /// Whether a line may be written over.
    moving: bool,
    stop: Stop,
}

/// A step that is under way: a moving line on a terminal. The line goes when this is dropped.
pub struct Step<'t> {
    terminal: &'t Terminal,
    since: Instant,
    spinner: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

/// Clears the line and returns to its beginning.
const CLEAR: &str = "\r\x1b[2K";

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

// === impl Style ===

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Busy => "33",
            Style::Bad => "31",
            Style::Accent => "36",
        }
    }
}

// === impl Terminal ===

impl Terminal {
    /// Looks at standard output and the environment once. A `stop` ends moving lines.
    pub fn new(stop: Stop) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let moving = io::stdout().is_terminal() && !dumb;
        Terminal {
            colours: moving && !set("NO_COLOR"),
            moving,
            stop,
        }
    }

    /// The width now, in columns; a terminal may have been made narrower since the last time.
    pub fn width(&self) -> usize {
        let width = if self.moving { terminal_width() } else { None };
        width.unwrap_or(100).max(20)
    }

    /// The text in a style, if there are colours.
    pub fn paint(&self, style: Style, text: impl std::fmt::Display) -> String {
        if self.colours {
            format!("\x1b[{}m{text}\x1b[0m", style.code())
        } else {
            text.to_string()
        }
    }

    /// One line as it is; one that is too long is the terminal's to break, so that it can be copied whole.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn line(&self, line: impl std::fmt::Display) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }

    /// An empty line.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn gap(&self) -> io::Result<()> {
        self.line("")
    }

    /// A paragraph, broken between words.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn text(&self, text: &str) -> io::Result<()> {
        wrap(text, "", "", self.width())
            .iter()
            .try_for_each(|line| self.line(line))
    }

    /// A heading after an empty line.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn heading(&self, text: &str) -> io::Result<()> {
        self.gap()?;
        for line in wrap(text, "", "", self.width()) {
            self.line(self.paint(Style::Bold, line))?;
        }
        self.gap()
    }

    /// What to type to do the same.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn command(&self, lines: &[&str]) -> io::Result<()> {
        for (number, line) in lines.iter().enumerate() {
            let prompt = if number == 0 { "$" } else { " " };
            self.line(format!(
                "  {} {}",
                self.paint(Style::Dim, prompt),
                self.paint(Style::Accent, line)
            ))?;
        }
        Ok(())
    }

    /// The lines of a file or of a program's output, indented. They are cut where a terminal would break them, since
    /// broken columns say nothing.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn quote(&self, text: &str) -> io::Result<()> {
        let width = if self.moving { self.width() } else { usize::MAX };
        text.lines()
            .try_for_each(|line| self.line(cut(&format!("    {line}"), width)))
    }

    /// A mark and a sentence.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn item(&self, style: Style, mark: char, text: &str) -> io::Result<()> {
        let first = format!("{} ", self.paint(style, mark));
        wrap(text, &first, "  ", self.width())
            .iter()
            .try_for_each(|line| self.line(line))
    }

    /// Columns under a header, two spaces apart. Where the terminal is too narrow, the last column is broken between
    /// words; if that leaves too little of it, each row becomes a block of lines instead.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn table(&self, header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let header: Vec<String> = header.iter().map(|&title| title.to_owned()).collect();
        let all = || std::iter::once(&header).chain(rows);
        let last = header.len().saturating_sub(1);
        let widths: Vec<usize> = (0..last)
            .map(|column| all().map(|row| columns(&cell(row, column))).max().unwrap_or(0))
            .collect();
        let left: usize = 2 + widths.iter().map(|width| width + 2).sum::<usize>();
        let width = self.width();
        if left + 16 > width {
            for row in rows {
                for (number, title) in header.iter().enumerate() {
                    let first = if number == 0 { "  " } else { "    " };
                    let title = self.paint(Style::Dim, title);
                    let text = format!("{title} {}", cell(row, number));
                    wrap(&text, first, "      ", width)
                        .iter()
                        .try_for_each(|line| self.line(line))?;
                }
            }
            return Ok(());
        }
        for (number, row) in all().enumerate() {
            let mut first = "  ".to_owned();
            for (column, width) in widths.iter().enumerate() {
                let text = cell(row, column);
                let padding = " ".repeat(width.saturating_sub(columns(&text)) + 2);
                // Writing to a string cannot fail.
                let _ = write!(
                    first,
                    "{}{padding}",
                    if number == 0 {
                        self.paint(Style::Dim, &text)
                    } else {
                        text
                    }
                );
            }
            let text = cell(row, last);
            let text = if number == 0 {
                self.paint(Style::Dim, text)
            } else {
                text
            };
            for line in wrap(&text, &first, &" ".repeat(left), width) {
                self.line(line.trim_end())?;
            }
        }
        Ok(())
    }

    /// Begins a step that takes a while, and says so.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn step(&self, text: &str) -> io::Result<Step<'_>> {
        if !self.moving {
            self.line(format!("… {text}"))?;
            return Ok(Step {
                terminal: self,
                since: Instant::now(),
                spinner: None,
            });
        }
        let ended = Arc::new(AtomicBool::new(false));
        let spinner = Spinner {
            text: text.to_owned(),
            since: Instant::now(),
            width: self.width(),
            ended: ended.clone(),
            stop: self.stop.clone(),
            colours: self.colours,
        };
        let thread = std::thread::spawn(move || spinner.run());
        Ok(Step {
            terminal: self,
            since: Instant::now(),
            spinner: Some((ended, thread)),
        })
    }
}

// === impl Step ===

impl Step<'_> {
    /// How long it has taken.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ends it with a sentence and the time it took.
    ///
    /// # Errors
    /// As [`Terminal::line`].
    pub fn done(mut self, text: &str) -> io::Result<()> {
        // A number and its unit stay together.
        let took = format!("({})", duration(self.elapsed()).replace(' ', "\u{a0}"));
        self.end();
        self.terminal.item(
            Style::Good,
            '✔',
            &format!("{text} {}", self.terminal.paint(Style::Dim, took)),
        )
    }

    fn end(&mut self) {
        if let Some((ended, thread)) = self.spinner.take() {
            ended.store(true, Ordering::Relaxed);
            thread.thread().unpark();
            // It panics only if it cannot write, which the next line will tell.
            let _ = thread.join();
        }
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

struct Spinner {
    text: String,
    since: Instant,
    width: usize,
    ended: Arc<AtomicBool>,
    stop: Stop,
    colours: bool,
}

impl Spinner {
    /// A line that is as long as the terminal is wide would scroll it.
    fn run(self) {
        for frame in FRAMES.iter().cycle() {
            if self.ended.load(Ordering::Relaxed) || self.stop.is_set() {
                break;
            }
            let line = cut(
                &format!("{frame} {} {}", self.text, duration(self.since.elapsed())),
                self.width - 1,
            );
            let line = if self.colours {
                format!("\x1b[33m{line}\x1b[0m")
            } else {
                line
            };
            if show(&format!("{CLEAR}{line}")).is_err() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        // The next line that is written tells an error.
        let _ = show(CLEAR);
    }
}

fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// As `stty` knows it: the standard library has no call for it.
fn terminal_width() -> Option<usize> {
    let terminal = File::open("/dev/tty").ok()?;
    let output = Command::new("stty")
        .arg("size")
        .stdin(terminal)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    // A terminal that doesn't know its size says 0.
    text.split_whitespace().nth(1)?.parse().ok().filter(|&width| width > 0)
}

/// A time as people read it.
pub fn duration(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1000 => format!("{millis} ms"),
        millis @ 1000..60_000 => format!("{:.1} s", millis as f64 / 1000.0),
        millis => format!("{} min {} s", millis / 60_000, millis / 1000 % 60),
    }
}

/// How many columns a text takes, colours apart.
pub fn columns(text: &str) -> usize {
    let mut count = 0;
    let mut escape = false;
    for c in text.chars() {
        match (escape, c) {
            (false, '\x1b') => escape = true,
            (false, _) => count += 1,
            (true, 'm') => escape = false,
            (true, _) => {}
        }
    }
    count
}

/// Cuts a plain text to a number of columns.
pub fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Breaks a text between words. A word that is longer than a line stays whole: it may be a path to copy.
pub fn wrap(text: &str, first: &str, next: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::replace(&mut line, next.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrap("one two three", "- ", "  ", 9), ["- one two", "  three"]);
        assert_eq!(wrap("/a/very/long/path x", "", "", 5), ["/a/very/long/path", "x"]);
        assert_eq!(wrap("\x1b[1mone\x1b[0m two", "", "", 7), ["\x1b[1mone\x1b[0m two"]);
        assert_eq!(wrap("", "- ", "", 9), ["- "]);
    }

    #[test]
    fn times_are_for_people() {
        for (millis, text) in [(7, "7 ms"), (1240, "1.2 s"), (125_000, "2 min 5 s")] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_moving_line_never_fills_the_terminal() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
    }
}
