//! The log lines of Helm.

use std::fmt;

use go_template::quote::quote_go;

/// The level of a line in Helm's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
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
    text: String,
    /// A value that Helm adds to the text in parentheses, as Go prints it.
    value: Option<String>,
    attributes: Vec<(&'static str, String)>,
    /// The subject of the line, where the command does not name it.
    about: Option<String>,
}

impl Warning {
    pub(crate) fn new<const N: usize>(level: Level, text: &str, attributes: [(&'static str, String); N]) -> Self {
        Warning {
            level,
            text: text.to_owned(),
            value: None,
            attributes: attributes.into(),
            about: None,
        }
    }

    /// Adds a value that follows in parentheses.
    pub(crate) fn with_value(self, value: String) -> Self {
        let value = Some(value);
        Warning { value, ..self }
    }

    /// Adds the subject of the line.
    pub(crate) fn about(self, about: &str) -> Self {
        let about = Some(about.to_owned());
        Warning { about, ..self }
    }

    /// The attribute that Helm adds after the text as `name=value`.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.as_str())
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

/// A line of mere text.
impl From<String> for Warning {
    fn from(text: String) -> Self {
        Warning::new(Level::Info, &text, [])
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

/// Quotes the texts that `slog` quotes: empty ones, and those with blanks, quotes, `=` or characters that do not print.
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
        let warning = Warning::new(Level::Info, "skipped s.key", []).with_value("hunter2".to_owned());
        assert_eq!(warning.to_string(), "skipped s.key");
        assert_eq!(warning.log_line(), "level=INFO msg=\"skipped s.key (hunter2)\"");
        let attributes = [("path", "a.b".to_owned()), ("chart", "x y".to_owned())];
        let warning = Warning::new(Level::Warn, "no bool", attributes);
        assert_eq!(warning.log_line(), "level=WARN msg=\"no bool\" path=a.b chart=\"x y\"");
        assert_eq!(warning.to_string(), "no bool path=a.b chart=x y");
    }
}
