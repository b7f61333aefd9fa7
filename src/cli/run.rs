//! `chartwright run`: the operator, until SIGTERM or Ctrl-C.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::flags::{RunArgs, RunOptions, operator_namespace};
use super::memory;
use crate::telemetry::logging;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::probes::Health;
use crate::telemetry::server::{Servers, metrics_router, probes_router};
use crate::{cluster, controller, watches};

/// Wrong use of the command line.
const USAGE: u8 = 2;

pub fn run(args: &RunArgs) -> ExitCode {
    let options = match args.clone().settle() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("Error: {error}");
            return ExitCode::from(USAGE);
        }
    };
    if let Err(error) = logging::init(&options.log) {
        eprintln!("Error: logging: {error}");
        return ExitCode::FAILURE;
    }
    for warning in &options.warnings {
        tracing::warn!("{warning}");
    }
    match start(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // On standard error as plain text, whatever the log looks like: this is why there is no operator.
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(options: RunOptions) -> anyhow::Result<()> {
    let (watches, warnings) = watches::load(&options.watches_file)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let metrics = Arc::new(Metrics::new());
    let health = Health::new();
    let mut servers = Servers::new().context("async runtime")?;
    servers.serve(
        "--metrics-bind-address",
        &options.metrics_address,
        metrics_router(metrics.clone()),
    )?;
    servers.serve(
        "--health-probe-bind-address",
        &options.probe_address,
        probes_router(health.clone()),
    )?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("async runtime")?;
    let result = runtime.block_on(operate(options, watches, metrics, health));
    servers.end();
    // A render that ignores the stop must not hold the process.
    runtime.shutdown_background();
    result
}

async fn operate(
    options: RunOptions,
    watches: Vec<watches::Watch>,
    metrics: Arc<Metrics>,
    health: Health,
) -> anyhow::Result<()> {
    let stop = stop_on_signal()?;
    let client = cluster::connect_without_retries(options.kubeconfig.as_deref()).await?;
    let own_namespace = operator_namespace(options.namespace.as_deref(), client.default_namespace());
    let lease = options
        .leader_election
        .map(|election| (election.id, election.namespace.unwrap_or_else(|| own_namespace.clone())));
    let operator = controller::Options {
        watches,
        namespaces: options.watch_namespaces,
        operator: options.operator_name,
        own_namespace,
        lease,
        reconcile_period: options.reconcile_period,
        concurrency: options.max_concurrent_reconciles,
        memory: options
            .memory_limit
            .or_else(memory::of_container)
            .filter(|limit| *limit > 0),
        shutdown_timeout: options.shutdown_timeout,
    };
    controller::run(client, operator, metrics, health, stop).await
}

/// A token that the first SIGTERM or SIGINT cancels; the second one ends the process.
fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let token = stop.clone();
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        next().await;
        token.cancel();
        next().await;
        tracing::warn!("stopped at once, on the second signal");
        std::process::exit(1);
    });
    Ok(stop)
}
