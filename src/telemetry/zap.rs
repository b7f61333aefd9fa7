//! A log line as zap's JSON encoder writes it: `{"level":"info","ts":"…","logger":"…","msg":"…", fields…}`.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::logging::{LONGEST_TEXT, TimeEncoding, quotes_bodies};
use super::{chain, cut, redact};

/// Writes one JSON object per event. Fields of the event and of its spans lie flat beside zap's own keys, as
/// `WithValues` does in controller-runtime; the innermost value of a name is the one that is written.
pub(super) struct ZapJson {
    /// How `ts` looks.
    pub time: TimeEncoding,
}

/// The keys of zap's own; a field of this name gets an underscore behind it rather than a second key in the object.
const OWN: [&str; 4] = ["level", "ts", "logger", "msg"];

/// An event's fields as JSON, its message apart.
#[derive(Default)]
struct Collected {
    message: String,
    fields: Map<String, Value>,
}

// === impl ZapJson ===

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
        let mut collected = Collected::default();
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let Some(formatted) = extensions.get::<FormattedFields<JsonFields>>() else {
                continue;
            };
            if let Ok(Value::Object(fields)) = serde_json::from_str(&formatted.fields) {
                fields.into_iter().for_each(|(name, value)| collected.put(&name, value));
            }
        }
        event.record(&mut collected);

        write!(out, r#"{{"level":"{}","ts":"#, level(*meta.level()))?;
        let quote = if self.time.is_number() { "" } else { "\"" };
        out.write_str(quote)?;
        self.time.write(jiff::Timestamp::now(), &mut out)?;
        write!(
            out,
            r#"{quote},"logger":{},"msg":{}"#,
            Value::from(meta.target()),
            Value::from(shown(&collected.message))
        )?;
        for (name, value) in collected.fields {
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

// === impl Collected ===

impl Collected {
    fn put(&mut self, name: &str, value: Value) {
        let name = if OWN.contains(&name) {
            format!("{name}_")
        } else {
            name.to_owned()
        };
        self.fields.insert(name, value);
    }
}

impl Visit for Collected {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.put(name, Value::from(format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            name => self.put(name, Value::from(value)),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), Value::from(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field.name(), Value::from(chain(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_never_doubles_one_of_zaps_keys() {
        let mut collected = Collected::default();
        collected.put("msg", 1.into());
        collected.put("kind", 2.into());
        assert_eq!(collected.fields.keys().collect::<Vec<_>>(), ["kind", "msg_"]);
    }
}
