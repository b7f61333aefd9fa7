//! What Helm logs beside its result.

use std::fmt;
use std::path::Path;

use go_template::quote::quote_go;

/// How Helm ranks a line of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Info,
    Warn,
    Error,
}

/// A line that Helm logs while it loads a chart or folds values.
///
/// Its `Display` names keys, never values, so that it may go into an operator's logs and events;
/// [`log_line`](Self::log_line) is the line that Helm's command prints, values included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    level: Level,
    /// What it is about, where the command doesn't say so.
    about: Option<String>,
    text: String,
    /// What Helm adds to the text in parentheses: a value as Go prints it.
    value: Option<String>,
    attributes: Vec<(&'static str, String)>,
}

impl Warning {
    /// A line that Helm logs with structure.
    pub(super) fn warn(text: &str, attributes: Vec<(&'static str, String)>) -> Self {
        Warning {
            level: Level::Warn,
            about: None,
            text: text.to_owned(),
            value: None,
            attributes,
        }
    }

    /// A link is followed.
    pub(super) fn link(path: &Path, resolved: &Path) -> Self {
        Warning {
            level: Level::Info,
            ..Warning::warn(
                "found symbolic link in path. Contents of linked file included and used",
                vec![
                    ("path", path.display().to_string()),
                    ("resolved", resolved.display().to_string()),
                ],
            )
        }
    }

    /// Why the command fails; Helm tells it twice.
    pub fn error(text: &str, attributes: Vec<(&'static str, String)>) -> Self {
        Warning {
            level: Level::Error,
            ..Warning::warn(text, attributes)
        }
    }

    /// A manifest is left out, as an event of its hook is unknown.
    pub fn unknown_hook(path: &str, events: &str) -> Self {
        Warning {
            level: Level::Info,
            about: Some(path.to_owned()),
            ..Warning::warn("skipping unknown hooks", vec![("hookTypes", events.to_owned())])
        }
    }

    /// The error that follows comes from the dependencies.
    pub(super) fn dependencies_failed(error: String) -> Self {
        Warning::error("chart dependencies processing failed", vec![("error", error)])
    }

    /// A line that Helm logs as mere text.
    pub(super) fn plain(text: String) -> Self {
        Warning {
            level: Level::Info,
            about: None,
            text,
            value: None,
            attributes: Vec::new(),
        }
    }

    /// As [`plain`](Self::plain), with a value that follows in parentheses.
    pub(super) fn about(text: String, value: String) -> Self {
        Warning {
            value: Some(value),
            ..Warning::plain(text)
        }
    }

    /// The line as `helm template` prints it on standard error, without a line break (Go's `slog.TextHandler`).
    pub fn log_line(&self) -> String {
        let level = match self.level {
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        };
        let text = match &self.value {
            Some(value) => format!("{} ({value})", self.text),
            None => self.text.clone(),
        };
        let mut line = format!("level={level} msg={}", quoted(&text));
        for (key, value) in &self.attributes {
            line.push_str(&format!(" {key}={}", quoted(value)));
        }
        line
    }
}

impl From<String> for Warning {
    fn from(text: String) -> Self {
        Warning::plain(text)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(about) = &self.about {
            write!(f, "{about}: ")?;
        }
        f.write_str(&self.text)?;
        for (key, value) in &self.attributes {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}

/// Quotes what `slog` quotes: nothing, blanks, quotes, `=`, and what doesn't print.
fn quoted(text: &str) -> String {
    let plain = |b: u8| b != b'\\' && (b.is_ascii_graphic() && b != b'"' && b != b'=' || b >= 0x80);
    let quoted = quote_go(text);
    let printable = quoted.len() == text.len() + 2;
    if !text.is_empty() && printable && text.bytes().all(plain) {
        text.to_owned()
    } else {
        quoted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_out_of_what_others_may_see() {
        let warning = Warning::about("skipped s.key".to_owned(), "hunter2".to_owned());
        assert_eq!(warning.to_string(), "skipped s.key");
        assert_eq!(warning.log_line(), "level=INFO msg=\"skipped s.key (hunter2)\"");
        let warning = Warning::warn("no bool", vec![("path", "a.b".to_owned()), ("chart", "x y".to_owned())]);
        assert_eq!(warning.log_line(), "level=WARN msg=\"no bool\" path=a.b chart=\"x y\"");
        assert_eq!(warning.to_string(), "no bool path=a.b chart=x y");
    }
}
