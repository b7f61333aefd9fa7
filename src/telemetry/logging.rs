//! Logs, set up by the flags of controller-runtime's zap logger, which helm-operator's deployments pass.
//!
//! Everything goes to standard error. A terminal gets readable lines; anything else (a pod, a file) gets JSON, one
//! object a line, with the keys that zap writes (`level`, `ts`, `logger`, `msg`), so that log pipelines made for
//! helm-operator go on working. `RUST_LOG`, where it is set, decides which events are logged.

use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, FormatFields, JsonFields, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::redact;
use super::zap::ZapJson;

/// How a line looks: `--zap-encoder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// One JSON object a line, with zap's keys.
    Json,
    /// Readable lines, coloured on a terminal.
    Console,
}

/// Which events are logged: `--zap-log-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Errors only. `panic` means this too: there is no level above errors here.
    Error,
    /// Errors and warnings; zap's flag has no word for it, `warn` is ours.
    Warn,
    /// What an administrator wants to know.
    Info,
    /// Verbosity above `info`; `debug` is 1. From 2 on the libraries' debug events are logged too.
    Verbose(u32),
}

/// How time stamps look: `--zap-time-encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TimeEncoding {
    /// Seconds since 1970, with a fraction.
    Epoch,
    /// Milliseconds since 1970, with a fraction.
    Millis,
    /// Nanoseconds since 1970.
    Nano,
    /// `2026-01-02T15:04:05.000Z`
    Iso8601,
    /// `2026-01-02T15:04:05Z`: what zap writes unless it is told otherwise.
    #[default]
    Rfc3339,
    /// `2026-01-02T15:04:05.123456789Z`
    Rfc3339Nano,
}

/// Readable lines without the secrets of the release that they are about.
struct Redacted<F>(F);

/// The value of a logging flag that nobody understands.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} {value:?}: use {allowed}")]
pub struct InvalidOption {
    what: &'static str,
    value: String,
    allowed: &'static str,
}

/// Everything that can be said about logging. The default is that of `--zap-devel=false` with no other flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Development defaults: readable lines, level debug.
    pub devel: bool,
    /// None: readable on a terminal, JSON elsewhere.
    pub encoder: Option<Encoder>,
    /// None: info, or debug with `devel`.
    pub level: Option<Level>,
    /// None: RFC 3339 in UTC.
    pub time: Option<TimeEncoding>,
}

/// Starts logging for the whole process. To be called once, first thing.
///
/// # Errors
/// When logging was already started.
pub fn init(options: &LogOptions) -> Result<(), TryInitError> {
    let terminal = std::io::stderr().is_terminal();
    let rust_log = std::env::var("RUST_LOG").ok();
    let (filter, problem) = options.filter(rust_log.as_deref());
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    subscriber(options, terminal, colour, filter, std::io::stderr).try_init()?;
    // What a panic says may quote what it stumbled over.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked: {}", panic.payload_as_str().unwrap_or("?"));
    }));
    if let Some(problem) = problem {
        tracing::warn!("RUST_LOG is ignored: {problem}");
    }
    Ok(())
}

fn subscriber<W>(
    options: &LogOptions,
    terminal: bool,
    colour: bool,
    filter: EnvFilter,
    writer: W,
) -> Box<dyn tracing::Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let time = options.time.unwrap_or_default();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match options.encoder(terminal) {
        Encoder::Json => Box::new(
            builder
                .fmt_fields(JsonFields::new())
                .event_format(ZapJson { time })
                .finish(),
        ),
        Encoder::Console => Box::new(
            builder
                .fmt_fields(DefaultFields::new())
                .with_ansi(colour)
                .event_format(Redacted(
                    tracing_subscriber::fmt::format().with_ansi(colour).with_timer(time),
                ))
                .finish(),
        ),
    }
}

// === impl Redacted ===

impl<S, N, F> FormatEvent<S, N> for Redacted<F>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        out.write_str(&redact::current(&line))
    }
}

// === impl LogOptions ===

impl LogOptions {
    fn encoder(&self, terminal: bool) -> Encoder {
        match self.encoder {
            Some(encoder) => encoder,
            None if self.devel || terminal => Encoder::Console,
            None => Encoder::Json,
        }
    }

    /// The filter's directives. The libraries below us stay at `info` for `debug`: their debug events drown ours. A watch
    /// that fails is told by who watches, with kind and namespace; kube's own line says less.
    fn directives(&self) -> &'static str {
        let default = if self.devel { Level::Verbose(1) } else { Level::Info };
        match self.level.unwrap_or(default) {
            Level::Error => "error",
            Level::Warn => "warn,kube_runtime=off",
            Level::Info | Level::Verbose(0) => "info,kube_runtime=off",
            Level::Verbose(1) => "info,kube_runtime=off,chartwright=debug",
            Level::Verbose(_) => "debug,chartwright=trace",
        }
    }

    /// The filter to use, and what is wrong with `RUST_LOG` if it can't be read.
    fn filter(&self, rust_log: Option<&str>) -> (EnvFilter, Option<String>) {
        let problem = match rust_log.map(str::trim) {
            None | Some("") => None,
            Some(directives) => match EnvFilter::try_new(directives) {
                Ok(filter) => return (filter, None),
                Err(error) => Some(error.to_string()),
            },
        };
        (EnvFilter::new(self.directives()), problem)
    }
}

// === impl Encoder ===

impl FromStr for Encoder {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "json" => Ok(Self::Json),
            "console" => Ok(Self::Console),
            _ => Err(InvalidOption::new("encoder", text, "json or console")),
        }
    }
}

// === impl Level ===

impl FromStr for Level {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "error" | "panic" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Verbose(1)),
            number => match number.parse() {
                Ok(verbosity) if verbosity > 0 => Ok(Self::Verbose(verbosity)),
                _ => Err(InvalidOption::new(
                    "log level",
                    text,
                    "debug, info, warn, error or a whole number above 0",
                )),
            },
        }
    }
}

// === impl TimeEncoding ===

impl FromStr for TimeEncoding {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "epoch" => Ok(Self::Epoch),
            "millis" => Ok(Self::Millis),
            // controller-runtime's help says `nano`, its parser wants `nanos`.
            "nano" | "nanos" => Ok(Self::Nano),
            "iso8601" => Ok(Self::Iso8601),
            "rfc3339" => Ok(Self::Rfc3339),
            "rfc3339nano" => Ok(Self::Rfc3339Nano),
            _ => Err(InvalidOption::new(
                "time encoding",
                text,
                "epoch, millis, nano, iso8601, rfc3339 or rfc3339nano",
            )),
        }
    }
}

impl TimeEncoding {
    /// Whether a time is written as a number.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Self::Epoch | Self::Millis | Self::Nano)
    }

    /// Writes `time` in UTC.
    ///
    /// # Errors
    /// Only those of `out`.
    pub(super) fn write(self, time: jiff::Timestamp, out: &mut dyn fmt::Write) -> fmt::Result {
        let nanos = time.as_nanosecond();
        match self {
            // Integers on both sides of the point: a float would lose digits.
            Self::Epoch => write!(
                out,
                "{}.{:06}",
                nanos.div_euclid(1_000_000_000),
                nanos.rem_euclid(1_000_000_000) / 1_000
            ),
            Self::Millis => write!(
                out,
                "{}.{:03}",
                nanos.div_euclid(1_000_000),
                nanos.rem_euclid(1_000_000) / 1_000
            ),
            Self::Nano => write!(out, "{nanos}"),
            Self::Iso8601 => write!(out, "{time:.3}"),
            Self::Rfc3339 => write!(out, "{time:.0}"),
            Self::Rfc3339Nano => write!(out, "{time:.9}"),
        }
    }
}

impl FormatTime for TimeEncoding {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        self.write(jiff::Timestamp::now(), writer)
    }
}

// === impl InvalidOption ===

impl InvalidOption {
    fn new(what: &'static str, value: &str, allowed: &'static str) -> Self {
        Self {
            what,
            value: value.to_owned(),
            allowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is logged by `events` under these options, away from a terminal.
    fn logged(options: &LogOptions, rust_log: Option<&str>, events: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let (filter, _) = options.filter(rust_log);
        let subscriber = subscriber(options, false, false, filter, move || writer.clone());
        tracing::subscriber::with_default(subscriber, events);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_lines_have_zaps_keys() {
        let text = logged(&LogOptions::default(), None, || {
            let span = tracing::info_span!("reconcile", kind = "Memcached", name = "a\"b");
            let _entered = span.enter();
            tracing::warn!(target: "chartwright::queue", count = 3, wait = ?Some(1), "late");
        });
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["level"], "warn");
        assert_eq!(line["msg"], "late");
        assert_eq!(line["logger"], "chartwright::queue");
        assert_eq!(line["count"], 3);
        assert_eq!(line["wait"], "Some(1)");
        assert_eq!(line["kind"], "Memcached");
        assert_eq!(line["name"], "a\"b");
        assert!(
            line["ts"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(),
            "{text}"
        );
        assert_eq!(text.matches('\n').count(), 1);
    }

    #[test]
    fn an_events_field_wins_over_its_spans_and_the_inner_span_over_the_outer() {
        let text = logged(&LogOptions::default(), None, || {
            let outer = tracing::info_span!("outer", kind = "A", name = "outer", zone = 1);
            let _outer = outer.enter();
            let inner = tracing::info_span!("inner", kind = "B", name = "inner");
            let _inner = inner.enter();
            tracing::info!(kind = "C", "x");
        });
        assert_eq!(text.matches("\"kind\"").count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["kind"], &line["name"], &line["zone"]),
            (&"C".into(), &"inner".into(), &1.into())
        );
    }

    #[test]
    fn lines_of_either_kind_hold_no_secret_of_the_release() {
        let secrets = std::sync::Arc::new(redact::Secrets::default());
        secrets.learn("hunt\"er2");
        secrets.learn(r#"","msg":""#);
        for encoder in [Encoder::Json, Encoder::Console] {
            let options = LogOptions {
                encoder: Some(encoder),
                ..LogOptions::default()
            };
            let text = logged(&options, None, || {
                let _entered = secrets.enter();
                let span = tracing::info_span!("reconcile", spanned = "hunt\"er2");
                let _span = span.enter();
                tracing::warn!(shown = %"hunt\"er2", debugged = ?"hunt\"er2", plain = "hunt\"er2", "says hunt\"er2");
            });
            assert!(!text.contains("er2"), "{text}");
            assert_eq!(text.matches(redact::MARK).count(), 5, "{text}");
            if encoder == Encoder::Json {
                let line: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(line["msg"], "says [redacted]");
            }
        }
    }

    #[test]
    fn development_is_readable_and_verbose() {
        let options = LogOptions {
            devel: true,
            ..LogOptions::default()
        };
        let text = logged(
            &options,
            None,
            || tracing::debug!(target: "chartwright::x", n = 1, "hello"),
        );
        assert!(text.contains("DEBUG chartwright::x: hello n=1"), "{text}");
    }

    #[test]
    fn levels_choose_events() {
        // (flag, RUST_LOG, the targets and levels that are logged)
        let table: &[(Option<&str>, Option<&str>, &str)] = &[
            (None, None, "our-info kube-info warning error "),
            (Some("error"), None, "error "),
            (Some("warn"), None, "warning error "),
            (Some("panic"), None, "error "),
            (Some("INFO"), None, "our-info kube-info warning error "),
            (Some("debug"), None, "our-debug our-info kube-info warning error "),
            (Some("1"), None, "our-debug our-info kube-info warning error "),
            (
                Some("5"),
                None,
                "our-trace our-debug kube-debug our-info kube-info warning error ",
            ),
            (Some("5"), Some("kube=debug"), "kube-debug kube-info "),
            (None, Some("  "), "our-info kube-info warning error "),
            (None, Some("kube=nonsense=3"), "our-info kube-info warning error "),
        ];
        for (flag, rust_log, expected) in table {
            let level = flag.map(|f| f.parse().unwrap());
            let options = LogOptions {
                level,
                ..LogOptions::default()
            };
            let text = logged(&options, *rust_log, || {
                tracing::trace!(target: "chartwright::a", "our-trace");
                tracing::debug!(target: "chartwright::a", "our-debug");
                tracing::debug!(target: "kube", "kube-debug");
                tracing::info!(target: "chartwright::a", "our-info");
                tracing::info!(target: "kube", "kube-info");
                tracing::warn!(target: "chartwright::a", "warning");
                tracing::error!(target: "chartwright::a", "error");
            });
            let seen: String = text
                .lines()
                .map(|line| {
                    serde_json::from_str::<serde_json::Value>(line).unwrap()["msg"]
                        .as_str()
                        .unwrap()
                        .to_owned()
                        + " "
                })
                .collect();
            assert_eq!(&seen, expected, "{flag:?} {rust_log:?}");
        }
    }

    #[test]
    fn a_broken_rust_log_is_reported() {
        let (_, problem) = LogOptions::default().filter(Some("kube=nonsense=3"));
        assert!(problem.is_some());
        assert!(LogOptions::default().filter(Some("kube=debug")).1.is_none());
    }

    #[test]
    fn times_as_zap_writes_them() {
        let time: jiff::Timestamp = "2026-01-02T15:04:05.012345678Z".parse().unwrap();
        let table = [
            ("epoch", "1767366245.012345"),
            ("millis", "1767366245012.345"),
            ("nano", "1767366245012345678"),
            ("nanos", "1767366245012345678"),
            ("ISO8601", "2026-01-02T15:04:05.012Z"),
            ("rfc3339", "2026-01-02T15:04:05Z"),
            ("rfc3339nano", "2026-01-02T15:04:05.012345678Z"),
        ];
        for (name, expected) in table {
            let mut out = String::new();
            name.parse::<TimeEncoding>().unwrap().write(time, &mut out).unwrap();
            assert_eq!(out, expected, "{name}");
        }
        let text = logged(
            &LogOptions {
                time: Some(TimeEncoding::Epoch),
                ..LogOptions::default()
            },
            None,
            || {
                tracing::info!("x");
            },
        );
        assert!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap()["ts"].is_f64(),
            "{text}"
        );
    }

    #[test]
    fn wrong_values_name_the_right_ones() {
        assert_eq!(
            "loud".parse::<Level>().unwrap_err().to_string(),
            r#"invalid log level "loud": use debug, info, warn, error or a whole number above 0"#
        );
        for bad in ["0", "-1", "", "1.5"] {
            assert!(bad.parse::<Level>().is_err(), "{bad}");
        }
        assert!(
            "xml"
                .parse::<Encoder>()
                .unwrap_err()
                .to_string()
                .contains("json or console")
        );
        assert!(
            "unix"
                .parse::<TimeEncoding>()
                .unwrap_err()
                .to_string()
                .contains("rfc3339nano")
        );
    }

    #[test]
    fn the_encoder_depends_on_where_lines_go() {
        let auto = LogOptions::default();
        let devel = LogOptions { devel: true, ..auto };
        let json = LogOptions {
            encoder: Some(Encoder::Json),
            devel: true,
            ..auto
        };
        assert_eq!(
            [auto.encoder(true), auto.encoder(false)],
            [Encoder::Console, Encoder::Json]
        );
        assert_eq!(
            [devel.encoder(false), json.encoder(true)],
            [Encoder::Console, Encoder::Json]
        );
    }
}
