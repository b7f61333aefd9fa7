//! `chartwright dashboard`: a page with all releases, on this machine. [`source`] is also what `run --dashboard` shows.

mod feed;
mod source;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

pub(super) use self::source::{ClusterSource, SourceOptions};
use super::block_on;
use super::release::operator_keys::OperatorArgs;
use super::stdout::stdout;
use chartwright_operator::cluster;
use chartwright_operator::dashboard::{DashboardAccess, PATH, routes};
use chartwright_operator::telemetry::server::{BindAddress, Servers, dashboard_site};

const EXAMPLES: &str = "\
Examples:
  # Show all releases of the cluster in a browser: open the printed address
  chartwright dashboard

  # Show the releases of one namespace, at a fixed port
  chartwright dashboard -n shop --port 8088

  # With effective values, which need the watches file and its charts
  chartwright dashboard --watches-file config/watches.yaml";

const ABOUT: &str = "\
Show all releases on a page in the browser

Serves the page on 127.0.0.1 with the rights of your kubeconfig until Ctrl-C, and prints its address. The address contains a random \
token: without it, other users of this machine get no data. The page changes nothing. The command finds the kinds as `chartwright get` \
does.";

/// Show all releases on a page in the browser
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, long_about = ABOUT)]
pub struct DashboardArgs {
    /// Port on 127.0.0.1. 0 is any free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Only releases in this namespace [default: all]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Take the kinds from this watches file. The views of values and changes need it, and the charts [default: ./watches.yaml for these
    /// views, none for the kinds]
    #[arg(long, value_name = "FILE")]
    watches_file: Option<PathBuf>,
    #[command(flatten)]
    operator: OperatorArgs,
    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub fn run(args: &DashboardArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.watches_file {
        chartwright_watches::load(file)?;
    }
    let heading = block_on(check_cluster(args))?;
    let source = ClusterSource::new(SourceOptions {
        heading,
        kubeconfig: args.kubeconfig.clone(),
        kinds_of: args.watches_file.clone(),
        values_of: args
            .watches_file
            .clone()
            .unwrap_or_else(|| PathBuf::from("./watches.yaml")),
        namespaces: args.namespace.clone().map(|namespace| BTreeSet::from([namespace])),
        operator: args.operator.clone(),
        selector: None,
    });
    let (access, token) = DashboardAccess::localhost().map_err(|error| anyhow!("no random token: {error}"))?;
    let site = dashboard_site(routes(Arc::new(source), access));
    let address = BindAddress::At {
        host: "127.0.0.1".to_owned(),
        port: args.port,
    };
    let mut servers = Servers::default();
    let served = servers.serve("--port", &address, site).map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => "it is in use".to_owned(),
            io::ErrorKind::PermissionDenied => "no permission".to_owned(),
            _ => error.to_string(),
        };
        anyhow!(
            "can't use port {}: {reason}; choose another with --port, or leave it out",
            args.port
        )
    })?;
    let port = served.map(|at| at.port()).unwrap_or_default();
    let mut out = stdout();
    writeln!(out, "http://127.0.0.1:{port}{PATH}#token={token}").context("standard output")?;
    out.flush()?;
    block_on(wait_for_signal())
}

/// Checks that the cluster answers. Returns its address.
async fn check_cluster(args: &DashboardArgs) -> anyhow::Result<String> {
    let config = cluster::config_without_retries(args.kubeconfig.as_deref()).await?;
    let heading = config.cluster_url.to_string();
    cluster::open_with_discovery(config, args.kubeconfig.as_deref()).await?;
    Ok(heading.trim_end_matches('/').to_owned())
}

async fn wait_for_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
