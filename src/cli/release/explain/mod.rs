//! `chartwright explain` and `chartwright tree`: why a release is not ready, and what it consists of.

mod text;

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use tokio::time::sleep;

use self::text::Painter;
use super::target::{TargetArgs, TargetResource};
use crate::cli::block_on;
use crate::cli::stdout::{note, stdout};
use chartwright_core::report::ReleaseReport;
use chartwright_operator::cluster::Discovery;
use chartwright_operator::cluster::release_facts::gather;
use chartwright_scaffold::printable::to_yaml;

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  # Show why a release is not ready, and what you can do
  chartwright explain memcached web -n shop

  # Print the explanation again at each change
  chartwright explain memcached web -n shop --watch

  # For a script
  chartwright explain memcached web -n shop -o json";

const EXPLAIN_ABOUT: &str = "\
Show why a release is not ready, and what you can do

The first lines name the cause: the member and its pod, their words, since when, what the operator waits for, and a command. The members \
follow as a tree. The command reads the custom resource, its members, what they own, and Events. It reads no Secret and changes nothing. \
What you may not read is left out and named.";

const TREE_EXAMPLES: &str = "\
Examples:
  # Show the members of a release, what they own, and the health of each
  chartwright tree memcached web -n shop

  # Print the tree again at each change
  chartwright tree memcached web -n shop --watch";

const TREE_ABOUT: &str = "\
Show the members of a release, what they own, and the health of each

Lists waves, members, their ReplicaSets, pods and claims, and hooks. It reads no Secret and changes nothing. What you may not read is \
left out and named.";

/// Time between two reads with `--watch`.
const INTERVAL: Duration = Duration::from_secs(2);

/// Show why a release is not ready, and what you can do
#[derive(Args, Clone, Debug)]
#[command(after_help = EXPLAIN_EXAMPLES, long_about = EXPLAIN_ABOUT)]
pub struct ExplainArgs {
    #[command(flatten)]
    report: ReportArgs,
}

/// Show the members of a release, what they own, and the health of each
#[derive(Args, Clone, Debug)]
#[command(after_help = TREE_EXAMPLES, long_about = TREE_ABOUT)]
pub struct TreeArgs {
    #[command(flatten)]
    report: ReportArgs,
}

#[derive(Args, Clone, Debug)]
struct ReportArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Go on, and print again at each change
    #[arg(short, long)]
    watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    Text,
    Json,
    Yaml,
}

/// What is printed of a report as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Explanation,
    Tree,
}

pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    block_on(print_reports(&args.report, View::Explanation))
}

pub fn tree(args: &TreeArgs) -> anyhow::Result<()> {
    block_on(print_reports(&args.report, View::Tree))
}

async fn print_reports(args: &ReportArgs, view: View) -> anyhow::Result<()> {
    let (target, discovery) = args.target.connect_with_discovery().await?;
    let report = read_report(&target, &discovery).await?;
    print(args, view, &report, true)?;
    if !args.watch {
        return Ok(());
    }
    let mut shown = comparable(report);
    let mut trouble = String::new();
    loop {
        sleep(INTERVAL).await;
        match read_report(&target, &discovery).await {
            Ok(report) => {
                trouble.clear();
                let next = comparable(report.clone());
                if next != shown {
                    print(args, view, &report, false)?;
                    shown = next;
                }
            }
            Err(error) if target.is_gone().await => return Err(error),
            // The API server may answer again.
            Err(error) if format!("{error:#}") != trouble => {
                trouble = format!("{error:#}");
                note!("{trouble}");
            }
            Err(_) => {}
        }
        if let Err(error) = discovery.refresh().await {
            tracing::debug!("discovery: {error}");
        }
    }
}

async fn read_report(target: &TargetResource, discovery: &Discovery) -> anyhow::Result<ReleaseReport> {
    let resource = target.read().await?;
    let facts = gather(&target.client, &discovery.snapshot(), &target.group_kind, resource).await;
    Ok(ReleaseReport::of(&facts, Timestamp::now()))
}

/// What has to change before a report is printed again: everything but the time of the next attempt.
fn comparable(mut report: ReleaseReport) -> serde_json::Value {
    report.next.at = None;
    serde_json::to_value(report).unwrap_or_default()
}

fn print(args: &ReportArgs, view: View, report: &ReleaseReport, is_first: bool) -> anyhow::Result<()> {
    let is_coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let painter = Painter { is_coloured };
    let (separator, shown) = match (args.output, view) {
        (ReportFormat::Text, View::Explanation) => ("\n", text::explanation(report, painter)),
        (ReportFormat::Text, View::Tree) => ("\n", text::tree(report, painter)),
        (ReportFormat::Json, _) => ("", serde_json::to_string_pretty(report)? + "\n"),
        (ReportFormat::Yaml, _) => ("---\n", to_yaml(&serde_json::to_value(report)?)?),
    };
    let separator = if is_first { "" } else { separator };
    let mut out = stdout();
    write!(out, "{separator}{shown}").context("standard output")?;
    out.flush()?;
    Ok(())
}
