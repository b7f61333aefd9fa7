//! `chartwright explain` and `chartwright tree`: why a release is not ready, and what it consists of.

mod member;
mod text;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use tokio::time::sleep;

use self::member::find_named_release;
use self::text::Painter;
use super::target::{TargetArgs, TargetResource};
use crate::cli::block_on;
use crate::cli::chart::render::find_templates;
use crate::cli::stdout::{has_colors, note, stdout};
use chartwright_core::report::ReleaseReport;
use chartwright_core::status::summary::has_mark;
use chartwright_operator::cluster::Discovery;
use chartwright_operator::cluster::custom_resource::STATUS_MANAGER;
use chartwright_operator::cluster::release_facts::gather;
use chartwright_scaffold::printable::to_yaml;

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  # Show why a release is not ready, and what you can do
  chartwright explain memcached web -n shop

  # Also name the template of each member, in the folder of the project
  chartwright explain memcached web -n shop --watches-file watches.yaml

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
    /// Also name the template of a member, from this watches file and its charts on this machine
    #[arg(long, value_name = "FILE")]
    watches_file: Option<PathBuf>,
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
enum ExplainView {
    Explanation,
    Tree,
}

pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    block_on(print_reports(&args.report, ExplainView::Explanation))
}

pub fn tree(args: &TreeArgs) -> anyhow::Result<()> {
    block_on(print_reports(&args.report, ExplainView::Tree))
}

async fn print_reports(args: &ReportArgs, view: ExplainView) -> anyhow::Result<()> {
    let (target, discovery) = args.target.connect_with_discovery().await?;
    let report = args.read(&target, &discovery, true).await?;
    print(args, view, &report, true)?;
    if !args.watch {
        return Ok(());
    }
    let mut shown = comparable(report);
    let mut trouble = String::new();
    loop {
        sleep(INTERVAL).await;
        match args.read(&target, &discovery, false).await {
            Ok(report) => {
                trouble.clear();
                // A kind may be served since.
                if !report.unread.is_empty() {
                    let _ = discovery.refresh().await;
                }
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
    }
}

impl ReportArgs {
    /// Reads the release. `is_first`: problems of the watches file are printed.
    async fn read(
        &self,
        target: &TargetResource,
        discovery: &Discovery,
        is_first: bool,
    ) -> anyhow::Result<ReleaseReport> {
        let resource = target.read().await?;
        let templates = match &self.watches_file {
            Some(file) => find_templates(file, resource.clone()).await,
            None => Ok(BTreeMap::new()),
        };
        let snapshot = discovery.snapshot();
        let mut facts = gather(&target.client, &snapshot, &target.group_kind, resource).await;
        if !has_mark(&facts.resource, STATUS_MANAGER) {
            facts.named_release = find_named_release(&target.client, &snapshot, &facts.resource).await;
        }
        match templates {
            Ok(templates) => facts.templates = templates,
            // The release may have the same error: its message is in the report.
            Err(error) if is_first => note!("templates are not named: {error:#}"),
            Err(_) => {}
        }
        Ok(ReleaseReport::of(&facts, Timestamp::now()))
    }
}

/// What has to change before a report is printed again: everything but the time of the next attempt.
fn comparable(mut report: ReleaseReport) -> serde_json::Value {
    report.next.at = None;
    serde_json::to_value(report).unwrap_or_default()
}

fn print(args: &ReportArgs, view: ExplainView, report: &ReleaseReport, is_first: bool) -> anyhow::Result<()> {
    let is_coloured = has_colors(&std::io::stdout());
    let painter = Painter { is_coloured };
    let (separator, shown) = match (args.output, view) {
        (ReportFormat::Text, ExplainView::Explanation) => ("\n", text::explanation(report, painter)),
        (ReportFormat::Text, ExplainView::Tree) => ("\n", text::tree(report, painter)),
        (ReportFormat::Json, _) => ("", serde_json::to_string_pretty(report)? + "\n"),
        (ReportFormat::Yaml, _) => ("---\n", to_yaml(&serde_json::to_value(report)?)?),
    };
    let separator = if is_first { "" } else { separator };
    let mut out = stdout();
    write!(out, "{separator}{shown}").context("standard output")?;
    out.flush()?;
    Ok(())
}
