//! Logs, set up by the flags of controller-runtime's zap logger, which helm-operator's deployments pass.
//!
//! Everything goes to standard error. A terminal gets readable lines; anything else (a pod, a file) gets JSON, one
//! object a line, with the keys that zap writes (`level`, `ts`, `logger`, `msg`), so that log pipelines made for
//! helm-operator go on working. `RUST_LOG`, where it is set, decides which events are logged.

use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, FormatFields, JsonFields, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer};

use super::redact;
use super::traces::Traces;
use super::zap::ZapJson;
use chartwright_watches::text::cut;

/// How a line looks: `--zap-encoder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogEncoder {
    /// One JSON object a line, with zap's keys.
    Json,
    /// Readable lines, coloured on a terminal.
    Console,
}

/// Which events are logged: `--zap-log-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum)]
#[value(rename_all = "lower")]
pub enum TimeEncoding {
    /// Seconds since 1970, with a fraction.
    Epoch,
    /// Milliseconds since 1970, with a fraction.
    Millis,
    /// Nanoseconds since 1970. controller-runtime's help says `nano`, its parser wants `nanos`.
    #[value(alias = "nanos")]
    Nano,
    /// `2026-01-02T15:04:05.000Z`
    Iso8601,
    /// `2026-01-02T15:04:05Z`: the default of zap.
    #[default]
    Rfc3339,
    /// `2026-01-02T15:04:05.123456789Z`
    Rfc3339Nano,
}

/// A text of a line, in bytes; a chart or a server may quote megabytes.
pub(super) const LONGEST_TEXT: usize = 8 << 10;

/// The target of kube's log lines about unreadable responses. They quote the complete body, which may be a Secret.
const LOGS_BODIES: &str = "kube_client::client";

/// True for events that may quote whole answers of the API server. Who made the request says what is wrong with it.
pub(super) fn quotes_bodies(event: &tracing::Metadata<'_>) -> bool {
    event.target() == LOGS_BODIES
}

/// Readable lines without the secrets of the release that they are about.
struct Redacted<F>(F);

/// Everything that can be said about logging: the flags of controller-runtime's zap logger.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Logging (RUST_LOG wins over --zap-log-level)")]
pub struct LogOptions {
    /// Development defaults: readable lines, level debug
    #[arg(long = "zap-devel")]
    pub devel: bool,

    /// Format of log lines [default: console on a terminal, else json]
    #[arg(long = "zap-encoder", value_name = "ENCODER", ignore_case = true)]
    pub encoder: Option<LogEncoder>,

    /// Lowest level: debug, info, warn, error, or a number from 1 (debug) upwards [default: info]
    #[arg(long = "zap-log-level", value_name = "LEVEL")]
    pub level: Option<LogLevel>,

    /// Format of time stamps [default: rfc3339]
    #[arg(long = "zap-time-encoding", value_name = "ENCODING", ignore_case = true)]
    pub time: Option<TimeEncoding>,
}

/// Starts logging for the whole process, and the traces if there are any. To be called once, first thing.
///
/// # Errors
/// When logging was already started.
pub fn init(options: &LogOptions, traces: Option<&Traces>) -> Result<(), TryInitError> {
    let terminal = std::io::stderr().is_terminal();
    let rust_log = std::env::var("RUST_LOG").ok();
    let (filter, problem) = options.filter(rust_log.as_deref());
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    subscriber(options, terminal, colour, filter, std::io::stderr, traces).try_init()?;
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
    traces: Option<&Traces>,
) -> Box<dyn tracing::Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = line_layer(options, terminal, colour, writer);
    match traces {
        None => Box::new(tracing_subscriber::registry().with(lines).with(filter)),
        // The filter of the log is not that of the traces.
        Some(traces) => Box::new(
            tracing_subscriber::registry()
                .with(lines.with_filter(filter))
                .with(traces.layer()),
        ),
    }
}

/// Writes log lines.
fn line_layer<W>(
    options: &LogOptions,
    terminal: bool,
    colour: bool,
    writer: W,
) -> Box<dyn Layer<tracing_subscriber::Registry> + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let time = options.time.unwrap_or_default();
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    match options.encoder(terminal) {
        LogEncoder::Json => layer
            .fmt_fields(JsonFields::new())
            .event_format(ZapJson { time })
            .boxed(),
        LogEncoder::Console => {
            let lines = tracing_subscriber::fmt::format().with_ansi(colour).with_timer(time);
            layer
                .fmt_fields(DefaultFields::new())
                .with_ansi(colour)
                .event_format(Redacted(lines))
                .boxed()
        }
    }
}

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
        if quotes_bodies(event.metadata()) {
            return Ok(());
        }
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let line = redact::current(&line);
        match line.len() {
            ..=LONGEST_TEXT => out.write_str(&line),
            _ => writeln!(out, "{}", cut(&line, LONGEST_TEXT)),
        }
    }
}

impl LogOptions {
    fn encoder(&self, terminal: bool) -> LogEncoder {
        match self.encoder {
            Some(encoder) => encoder,
            None if self.devel || terminal => LogEncoder::Console,
            None => LogEncoder::Json,
        }
    }

    /// The filter's directives. Libraries stay at `info` for `debug`: their debug events drown ours. The caller of a
    /// failed request logs it with kind and namespace; kube's own lines about watches and requests say less.
    fn directives(&self) -> &'static str {
        let default = if self.devel {
            LogLevel::Verbose(1)
        } else {
            LogLevel::Info
        };
        match self.level.unwrap_or(default) {
            LogLevel::Error => "error,kube_client::client::builder=off",
            LogLevel::Warn => "warn,kube_runtime=off,kube_client::client::builder=off",
            LogLevel::Info | LogLevel::Verbose(0) => "info,kube_runtime=off,kube_client::client::builder=off",
            LogLevel::Verbose(1) => "info,kube_runtime=off,kube_client::client::builder=off,chartwright=debug",
            LogLevel::Verbose(_) => "debug,chartwright=trace",
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

impl FromStr for LogLevel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "error" | "panic" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Verbose(1)),
            number => match number.parse() {
                Ok(verbosity) if verbosity > 0 => Ok(Self::Verbose(verbosity)),
                _ => Err("use debug, info, warn, error or a whole number above 0"),
            },
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

#[cfg(test)]
mod tests;
