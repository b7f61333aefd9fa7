//! Helm's wording of template errors (`cleanupParseError` and `reformatExecErrorMsg` in `pkg/engine/engine.go`).

use super::functions::MARKERS;
use go_template::quote::quote_go;
use go_template::{Cause, ExecError, ParseError, Place};

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
            Some(Cause::Exec(inner)) => Some(inner),
            // An error that no template made ends the attempt: Helm then shows Go's line.
            Some(Cause::Text(_) | Cause::Wrapped { .. }) => return text,
        };
    }
    lines.iter().map(Trace::to_string).collect::<String>().trim().to_owned()
}

fn location(place: &Place) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn error(column: usize, node: &str, message: &str, cause: Option<Cause>) -> ExecError {
        let place = Place {
            file: "c/templates/t.yaml".to_owned(),
            line: 1,
            column,
            executing: "c/templates/t.yaml".to_owned(),
            node: node.to_owned(),
        };
        ExecError {
            place: Some(place),
            message: message.to_owned(),
            cause,
        }
    }

    #[test]
    fn nested_includes_are_listed() {
        let inner = error(26, ".Values.missing.b", "nil pointer evaluating interface {}.b", None);
        let outer = error(
            3,
            "include \"d\" .",
            "error calling include",
            Some(Cause::Exec(Box::new(inner))),
        );
        let want = "c/templates/t.yaml:1:3\n  executing \"c/templates/t.yaml\" at <include \"d\" .>:\n    error calling \
                    include:\nc/templates/t.yaml:1:26\n  executing \"c/templates/t.yaml\" at <.Values.missing.b>:\n    \
                    nil pointer evaluating interface {}.b";
        assert_eq!(exec_text("c/templates/t.yaml", &outer), want);
    }

    #[test]
    fn errors_of_functions_stay_on_one_line() {
        let plain = error(
            3,
            "eq 1 \"a\"",
            "error calling eq",
            Some(Cause::Text("incompatible types".to_owned())),
        );
        assert_eq!(exec_text("x", &plain), plain.to_string());
        let text = format!("{}no\n: name{}", MARKERS.0, MARKERS.1);
        let fail = error(3, "fail", "error calling fail", Some(Cause::Text(text)));
        assert_eq!(
            exec_text("x", &fail),
            "execution error at (c/templates/t.yaml:1:3): no\n: name"
        );
    }

    #[test]
    fn parse_errors_keep_the_last_part() {
        let error = ParseError {
            name: "c/t.yaml".to_owned(),
            line: 3,
            message: "bad: function \"x\" not defined".to_owned(),
        };
        assert_eq!(
            parse_text(&error),
            "parse error at (c/t.yaml:3): function \"x\" not defined"
        );
    }
}
