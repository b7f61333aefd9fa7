//! A log line as zap's JSON encoder writes it: `{"level":"info","ts":"…","logger":"…","msg":"…", fields…}`.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields as _, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::logging::{LONGEST_TEXT, TimeEncoding, quotes_bodies};
use super::redact;
use chartwright_watches::text::cut;

/// Writes one JSON object per event. Fields of the event and of its spans lie flat beside zap's own keys, as
/// `WithValues` does in controller-runtime; the innermost value of a name is the one that is written.
pub(super) struct ZapJson {
    /// How `ts` looks.
    pub time: TimeEncoding,
}

/// The keys of zap's own; a field of this name gets an underscore behind it rather than a second key in the object.
const OWN: [&str; 4] = ["level", "ts", "logger", "msg"];

impl<S> FormatEvent<S, JsonFields> for ZapJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let meta = event.metadata();
        if quotes_bodies(meta) {
            return Ok(());
        }
        let mut fields = Map::new();
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let formatted = extensions.get::<FormattedFields<JsonFields>>();
            add(&mut fields, formatted.map_or("", |formatted| &formatted.fields));
        }
        let mut own = String::new();
        context.format_fields(Writer::new(&mut own), event)?;
        add(&mut fields, &own);
        let message = fields.remove("message").unwrap_or_default();

        write!(out, r#"{{"level":"{}","ts":"#, level(*meta.level()))?;
        let quote = if self.time.is_number() { "" } else { "\"" };
        out.write_str(quote)?;
        self.time.write(jiff::Timestamp::now(), &mut out)?;
        write!(
            out,
            r#"{quote},"logger":{},"msg":{}"#,
            Value::from(meta.target()),
            Value::from(shown(message.as_str().unwrap_or_default()))
        )?;
        for (name, value) in fields {
            // Before it is JSON: a secret may look like a piece of the line.
            let value = match &value {
                Value::String(text) => Value::from(shown(text)),
                _ => value,
            };
            write!(out, ",{}:{value}", Value::from(name))?;
        }
        out.write_str("}\n")
    }
}

/// A text without secrets, and no longer than anybody reads.
fn shown(text: &str) -> String {
    cut(&redact::current(text), LONGEST_TEXT)
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        // zap knows nothing below debug
        _ => "debug",
    }
}

/// Takes in what is formatted as a JSON object.
fn add(fields: &mut Map<String, Value>, formatted: &str) {
    let formatted: Map<String, Value> = serde_json::from_str(formatted).unwrap_or_default();
    for (name, value) in formatted {
        let name = if OWN.contains(&name.as_str()) {
            format!("{name}_")
        } else {
            name
        };
        fields.insert(name, value);
    }
}
