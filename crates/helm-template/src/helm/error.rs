//! Helm's wording of template errors (`cleanupParseError` and `reformatExecErrorMsg` in `pkg/engine/engine.go`).

use super::functions::MARKERS;
use go_template::quote::quote_go;
use go_template::{CallError, ExecError, ExecutionPlace, ParseError};

/// The text for a file that doesn't parse. Helm shows the last part of the message.
pub fn parse_text(error: &ParseError) -> String {
    let message = error.message.rsplit(": ").next().unwrap_or_default();
    format!("parse error at ({}:{}): {message}", error.name, error.line)
}

/// The text for a failed execution of the file `name`.
pub fn exec_text(name: &str, error: &ExecError) -> String {
    let text = error.to_string();
    let Some(place) = &error.place else {
        return format!("execution error in ({name}): {text}");
    };
    if let Some(message) = marked(&text) {
        return format!("execution error at ({}): {message}", location(place));
    }
    let mut lines: Vec<Trace> = Vec::new();
    let mut current = Some(error);
    while let Some(link) = current {
        let trace = Trace::of(link);
        if lines.last() != Some(&trace) {
            lines.push(trace);
        }
        current = match &link.cause {
            None => None,
            Some(CallError::Exec(inner)) => Some(inner),
            // An error that no template made ends the attempt: Helm then shows Go's line.
            Some(CallError::Text(_) | CallError::Wrapped { .. }) => return text,
        };
    }
    lines.iter().map(Trace::to_string).collect::<String>().trim().to_owned()
}

fn location(place: &ExecutionPlace) -> String {
    format!("{}:{}:{}", place.file, place.line, place.column)
}

/// The text between the markers of `fail` and `required`: from the first start to the last end.
fn marked(text: &str) -> Option<&str> {
    let start = text.find(MARKERS.0)? + MARKERS.0.len();
    let end = text.rfind(MARKERS.1)?;
    text.get(start..end)
}

/// One level of a nested error.
#[derive(PartialEq, Eq)]
struct Trace {
    location: String,
    executing: String,
    message: String,
}

impl Trace {
    fn of(link: &ExecError) -> Self {
        let Some(place) = &link.place else {
            return Trace {
                location: String::new(),
                executing: String::new(),
                message: link.to_string(),
            };
        };
        // Helm takes the line apart at what it takes for the start of the cause.
        let message = link.message.split(" template:").next().unwrap_or_default();
        let colon = if link.cause.is_some() { ":" } else { "" };
        Trace {
            location: location(place),
            executing: format!("executing {} at <{}>:", quote_go(&place.executing), place.node),
            message: format!("{message}{colon}"),
        }
    }
}

impl std::fmt::Display for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (text, end) in [
            (&self.location, "\n  "),
            (&self.executing, "\n    "),
            (&self.message, "\n"),
        ] {
            if !text.is_empty() {
                write!(f, "{text}{end}")?;
            }
        }
        Ok(())
    }
}
