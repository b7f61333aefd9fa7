//! `chartwright run`: the operator, until SIGTERM or Ctrl-C.

mod admission;
mod flags;
mod memory;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub use self::flags::RunArgs;
use crate::cli::dashboard::{ClusterSource, SourceOptions};
use crate::cli::release::operator_keys::OperatorArgs;
use crate::cli::stdout::note;
use chartwright_core::access::{DASHBOARD_PATH, METRICS_PATH};
use chartwright_operator::admission::Admission;
use chartwright_operator::dashboard::{DashboardAccess, routes};
use chartwright_operator::telemetry::logging;
use chartwright_operator::telemetry::metrics::Metrics;
use chartwright_operator::telemetry::probes::ProcessHealth;
use chartwright_operator::telemetry::server::{BindAddress, MetricsProtection, Servers, metrics_site, probes_site};
use chartwright_operator::{STACK_BYTES, cluster, controller};
use chartwright_watches as watches;

/// Exit code for wrong usage.
const USAGE_ERROR: u8 = 2;

pub fn run(args: RunArgs) -> ExitCode {
    if let Err(error) = args.check() {
        note!("Error: {error}");
        return ExitCode::from(USAGE_ERROR);
    }
    let traces = match args.traces.start(&args.operator_name) {
        Ok(traces) => traces,
        Err(error) => {
            note!("Error: traces: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = logging::init(&args.log, traces.as_ref()) {
        note!("Error: logging: {error}");
        return ExitCode::FAILURE;
    }
    let result = serve_and_operate(args);
    if let Some(traces) = traces {
        traces.end();
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Plain text on standard error, independently of the log format: the reason why the operator did not start.
            note!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve_and_operate(args: RunArgs) -> anyhow::Result<()> {
    let (watches, warnings) = watches::load(&args.watches_file)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let metrics = Arc::new(Metrics::new());
    let health = ProcessHealth::default();
    let mut servers = Servers::default();
    serve_metrics(&mut servers, &args, metrics.clone())?;
    servers.serve(
        "--health-probe-bind-address",
        &args.health_probe_bind_address,
        probes_site(health.clone()),
    )?;
    let webhook = admission::webhook(&args, &metrics);
    if let (Some(webhook), Some(address)) = (&webhook, args.admission.bind_address()) {
        servers.serve("--admission-bind-address", address, webhook.site())?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .context("async runtime")?;
    let result = runtime.block_on(operate(args, watches, metrics, health, webhook));
    servers.end();
    // A render that ignores the stop must not hold the process.
    runtime.shutdown_background();
    result
}

/// Binds the metrics' address and serves there.
fn serve_metrics(servers: &mut Servers, args: &RunArgs, metrics: Arc<Metrics>) -> anyhow::Result<()> {
    if args.metrics_bind_address == BindAddress::Off {
        return Ok(());
    }
    let protection = MetricsProtection {
        certificate: args.metrics_certificate(),
        review: args
            .needs_right_for_metrics()
            .then(|| cluster::reviews::reviewer(args.kubeconfig.clone(), METRICS_PATH)),
    };
    let dashboard = args.has_dashboard().then(|| dashboard_routes(args));
    let site = metrics_site(metrics, protection, dashboard).context("the certificate of --metrics-secure")?;
    servers.serve("--metrics-bind-address", &args.metrics_bind_address, site)?;
    Ok(())
}

/// The page with all releases of this operator.
fn dashboard_routes(args: &RunArgs) -> Router {
    let source = ClusterSource::new(SourceOptions {
        heading: format!("operator {}", args.operator_name),
        kubeconfig: args.kubeconfig.clone(),
        kinds_of: Some(args.watches_file.clone()),
        values_of: args.watches_file.clone(),
        namespaces: args.watch_namespace.clone(),
        operator: OperatorArgs {
            operator_name: Some(args.operator_name.clone()),
            operator_namespace: args.namespace.clone().filter(|namespace| !namespace.is_empty()),
        },
        selector: args.watch_label_selector.clone(),
    });
    let review = cluster::reviews::reviewer(args.kubeconfig.clone(), DASHBOARD_PATH);
    routes(Arc::new(source), DashboardAccess::Review(review))
}

async fn operate(
    args: RunArgs,
    watches: Vec<watches::Watch>,
    metrics: Arc<Metrics>,
    health: ProcessHealth,
    admission: Option<Arc<Admission>>,
) -> anyhow::Result<()> {
    let stop = stop_on_signal()?;
    let config = cluster::config_without_retries(args.kubeconfig.as_deref()).await?;
    let connection = cluster::open(config.clone())?;
    let given = args.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let own_namespace = given.unwrap_or(connection.default_namespace()).to_owned();
    let lease = args.lease().map(|(id, namespace)| controller::LeaseOptions {
        name: id.to_owned(),
        namespace: namespace.unwrap_or(&own_namespace).to_owned(),
        config,
    });
    let memory = args
        .memory_limit
        .or_else(memory::read_container_limit)
        .or_else(memory::derive_machine_limit);
    let operator = controller::ControllerOptions {
        watches_file: Some(args.watches_file),
        watches,
        defaults: controller::WatchDefaults {
            reconcile_period: args.reconcile_period,
            concurrency: args.max_concurrent_reconciles,
            service_account: args.default_service_account,
            no_cross_namespace_refs: args.no_cross_namespace_refs,
        },
        namespaces: args.watch_namespace,
        watch_labels: args.watch_label_selector,
        operator: args.operator_name,
        own_namespace,
        lease,
        memory: memory.filter(|limit| *limit > 0),
        usage_period: (!args.meter_usage.is_zero()).then_some(args.meter_usage),
        shutdown_timeout: args.shutdown_timeout,
        admission,
    };
    controller::run(connection, operator, metrics, health, stop).await
}

/// Returns a token that the first SIGTERM or SIGINT cancels. The second signal ends the process.
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
        tracing::warn!("stopped immediately on the second signal");
        std::process::exit(1);
    });
    Ok(stop)
}
