//! Traces by OTLP: a span for each reconcile, and one for each of its stages.
//!
//! The spans are those of `tracing`, with a target of their own: without `--otlp-endpoint` nothing is interested in them, and
//! none is made. Log lines are not part of a trace, since they may quote what the operator reads. The attributes are
//! names of objects and constants of the operator.

mod exporter;

use std::time::Duration;

use clap::Args;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider};
use tracing::instrument::Instrumented;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

use self::exporter::ExportClient;
use crate::telemetry::metrics::{ReconcileResult, lower_case};
use chartwright_core::identity::GroupKind;

/// The target of the spans.
const TARGET: &str = "chartwright::traces";
/// The name of the program in a trace.
const SERVICE: &str = "chartwright";
/// How long a collector may take for a batch of spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the operator sends traces.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Traces (OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES are read as well)")]
pub struct TraceOptions {
    /// Sends a span for each reconcile and each of its stages to this collector, by OTLP over HTTP [default: no traces]
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true, default_value = "",
          hide_default_value = true, value_parser = parse_endpoint)]
    otlp_endpoint: Endpoint,

    /// File with the certificates of the authorities that the collector's certificate may come from, in PEM [default: those of the system]
    #[arg(
        long,
        value_name = "FILE",
        env = "OTEL_EXPORTER_OTLP_CERTIFICATE",
        hide_env_values = true
    )]
    otlp_certificate: Option<std::path::PathBuf>,

    /// Share of the reconciles that are traced, from 0 to 1
    #[arg(long, value_name = "RATIO", default_value = "1", value_parser = parse_ratio)]
    otlp_sample: f64,
}

/// The URL of a collector. `None`: no traces.
type Endpoint = Option<http::Uri>;

/// Traces while they are on. The last spans are sent when it ends.
pub struct Traces {
    provider: SdkTracerProvider,
}

impl TraceOptions {
    /// Returns what makes traces; `None` without an endpoint.
    ///
    /// # Errors
    /// The certificates cannot be read, or a variable of OpenTelemetry has a wrong value.
    pub fn start(&self, operator: &str) -> anyhow::Result<Option<Traces>> {
        let Some(endpoint) = &self.otlp_endpoint else {
            return Ok(None);
        };
        let client = ExportClient::start(endpoint, self.otlp_certificate.as_deref(), EXPORT_TIMEOUT)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(traces_url(endpoint))
            .with_timeout(EXPORT_TIMEOUT)
            .build()?;
        let resource = Resource::builder()
            .with_service_name(SERVICE)
            .with_attribute(opentelemetry::KeyValue::new(
                "service.version",
                env!("CARGO_PKG_VERSION"),
            ))
            .with_attribute(opentelemetry::KeyValue::new(
                "chartwright.operator",
                operator.to_owned(),
            ))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(BatchSpanProcessor::builder(exporter).build())
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
                self.otlp_sample,
            ))))
            .with_resource(resource)
            .build();
        Ok(Some(Traces { provider }))
    }
}

impl Traces {
    /// The layer that turns our spans into spans of OpenTelemetry.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let layer: OpenTelemetryLayer<S, SdkTracer> = tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        layer.with_filter(Targets::new().with_target(TARGET, LevelFilter::TRACE))
    }

    /// Sends the spans that are left.
    pub fn end(self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!("the last traces were not sent: {error}");
        }
    }
}

/// The span of one reconcile. [`note_reason`] and [`note_result`] complete it.
pub(crate) fn reconcile_span(kind: &GroupKind, namespace: &str, name: &str, generation: i64) -> Span {
    tracing::trace_span!(
        target: TARGET,
        "reconcile",
        "chartwright.group" = kind.group,
        "chartwright.kind" = kind.kind,
        "k8s.namespace.name" = namespace,
        "chartwright.name" = name,
        "chartwright.generation" = generation,
        "chartwright.result" = tracing::field::Empty,
        "chartwright.reason" = tracing::field::Empty,
        "otel.status_code" = tracing::field::Empty,
    )
}

/// Says in the span of a reconcile in which phase it ended.
pub(crate) fn note_reason(span: &Span, reason: &'static str) {
    span.record("chartwright.reason", reason);
}

/// Says in the span of a reconcile how it ended.
pub(crate) fn note_result(span: &Span, result: ReconcileResult) {
    if span.is_disabled() {
        return;
    }
    span.record("chartwright.result", lower_case(result));
    if matches!(
        result,
        ReconcileResult::Error | ReconcileResult::Stalled | ReconcileResult::Panic
    ) {
        span.record("otel.status_code", "ERROR");
    }
}

/// Stages of a reconcile, which have spans within its span.
pub(crate) trait InStage: Future + Sized {
    /// Traces the future as a stage of this name.
    fn in_stage(self, name: &'static str) -> Instrumented<Self> {
        self.instrument(tracing::trace_span!(target: TARGET, "stage", "otel.name" = name))
    }
}

impl<F: Future> InStage for F {}

/// As the specification of OTLP derives it from the endpoint of all signals.
fn traces_url(endpoint: &http::Uri) -> String {
    format!("{}/v1/traces", endpoint.to_string().trim_end_matches('/'))
}

fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let uri: http::Uri = text.parse().map_err(|error| format!("it is no URL: {error}"))?;
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    match uri.scheme_str() {
        _ if authority.contains('@') => {
            Err("it may not contain a password: put it into OTEL_EXPORTER_OTLP_HEADERS".to_owned())
        }
        Some("http" | "https") if uri.query().is_none() => Ok(Some(uri)),
        _ => Err(
            "an http:// or https:// URL of a collector is needed, such as http://collector.monitoring:4318".to_owned(),
        ),
    }
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio: Option<f64> = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "a number from 0 to 1 is needed".to_owned())
}
