//! Traces by OTLP: what a collector gets of reconciles, and what happens without one.

use anyhow::{Result, ensure};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::json;

use crate::support::until;
use crate::world::collector::{Collector, attribute};
use crate::world::operator::{Launch, Operator, UNELECTED};
use crate::world::{SOON, World};

/// What the log says of a collector that does not take spans.
const LOST: &str = "traces are lost until the collector takes them";

fn launch_traced(world: &World, endpoint: &str) -> Result<Operator> {
    let endpoint = format!("--otlp-endpoint={endpoint}");
    let operator = world.launch(&Launch {
        arguments: &[&endpoint],
        // Batches are sent every 100 ms instead of every 5 s.
        environment: &[
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc"),
        ],
        ..UNELECTED
    })?;
    operator.await_log("watching")?;
    Ok(operator)
}

#[test]
fn a_trace_shows_the_stages_of_a_reconcile() -> Result<()> {
    let world = World::new("traces")?;
    world.write_template("refusal.yaml", "{{ if .Values.refuse }}{{ fail \"no\" }}{{ end }}")?;
    let collector = Collector::start()?;
    let _operator = launch_traced(&world, &collector.endpoint)?;
    world.install("a", json!({}))?;

    let reconcile = collector.await_span("the span of the installation", |span| {
        span.name == "reconcile" && attribute(&span.attributes, "chartwright.reason").as_deref() == Some("Succeeded")
    })?;
    let expected = [
        ("chartwright.group", format!("{}.test", world.name)),
        ("chartwright.kind", "Widget".to_owned()),
        ("chartwright.name", "a".to_owned()),
        ("chartwright.result", "success".to_owned()),
        ("k8s.namespace.name", world.name.clone()),
    ];
    for (key, value) in expected {
        let found = attribute(&reconcile.attributes, key);
        ensure!(found.as_deref() == Some(value.as_str()), "{key}: {found:?}");
    }
    // Of all its reconciles; the last one only finds that the members are healthy.
    for stage in [
        "load", "render", "claim", "hooks", "apply", "prune", "observe", "report",
    ] {
        let span = collector.await_span(stage, |span| span.name == stage)?;
        let parent = collector.await_span("its reconcile", |parent| parent.span_id == span.parent_span_id)?;
        ensure!(
            parent.name == "reconcile" && parent.trace_id == span.trace_id,
            "{stage}: {parent:?}"
        );
        ensure!(
            parent.start_time_unix_nano <= span.start_time_unix_nano
                && span.end_time_unix_nano <= parent.end_time_unix_nano,
            "{stage} is not within its reconcile"
        );
    }
    let request = collector.requests().remove(0);
    ensure!(request.path == "/v1/traces", "{}", request.path);
    ensure!(request.headers["content-type"] == "application/x-protobuf");
    ensure!(request.headers["authorization"] == "Bearer abc");

    world.edit("a", json!({"refuse": true}))?;
    let failed = collector.await_span("the span of a failure", |span| {
        attribute(&span.attributes, "chartwright.reason").as_deref() == Some("RenderFailed")
    })?;
    ensure!(failed.status.is_some_and(|status| status.code() == StatusCode::Error));

    Ok(())
}

#[test]
fn an_operator_works_without_its_collector() -> Result<()> {
    let world = World::new("traces-lost")?;
    let collector = Collector::start()?;
    collector.refuse(true);
    let operator = launch_traced(&world, &collector.endpoint)?;
    world.install("a", json!({}))?;
    operator.await_log(LOST)?;
    let refused = || collector.requests().len();
    let before = refused();
    world.install("b", json!({}))?;
    until("another batch", SOON, || Ok(refused() > before))?;
    ensure!(operator.log().matches(LOST).count() == 1, "logged more than once");
    ensure!(!operator.log().contains("Bearer"), "the log shows the token");

    collector.refuse(false);
    world.install("c", json!({}))?;
    operator.await_log("the collector takes traces again")?;
    collector.await_span("a span after the outage", |span| {
        attribute(&span.attributes, "chartwright.name").as_deref() == Some("c")
    })?;
    Ok(())
}
