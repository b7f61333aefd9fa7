//! `chartwright diff`: what the next reconcile of a release would do.

mod charts;
mod edit;
mod markdown;
mod output;
mod select;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use futures::stream::{StreamExt as _, iter};
use serde_json::Value;

use self::charts::{Choice, DiffCharts};
use self::output::{DiffResult, FailedRelease};
use self::select::DiffTarget;
use crate::cli::release::operator_keys::OperatorArgs;
use crate::cli::stdout::{is_closed, note, show_error};
use chartwright_core::diff::{DiffVerdict, Refusal, ReleaseDiff};
use chartwright_operator::STACK_BYTES;
use chartwright_operator::cluster;
use chartwright_operator::reconcile::Unit;
use chartwright_preview::{EditError, PreviewCluster, chart_change, check_edit, preview};
use chartwright_scaffold::progress::ProgressLine;

const EXAMPLES: &str = "\
Examples:
  # What would this edit do?
  chartwright diff -f cr.yaml

  # Would another value restart pods?
  chartwright diff memcached web -n shop --set image.tag=1.7

  # What would a newer chart change in all releases of a kind?
  chartwright diff memcached --all -A --chart ./memcached-1.3.0.tgz

  # A comment for a pull request
  chartwright diff -f cr.yaml -o markdown > comment.md";

const ABOUT: &str = "\
Show what the next reconcile would do

Runs the operator's own pipeline on the cluster, with server-side dry runs in place of writes: one request for each member that changes. \
Prints what would be created, changed, recreated, pruned and held, hooks and plans that would run, workloads whose pods restart, and what \
would be refused; and a difference of the fields that the operator sets. Values of Secrets are masked. It changes nothing.

Needs the watches file and the charts on this machine, and your rights: to read what the operator reads, and to write the members.

Exit codes: 0 nothing would change, 1 something would change, 2 something would be refused, or an error.";

/// Releases that are previewed concurrently.
const AT_ONCE: usize = 8;
/// Exit code for refusals and errors.
const FAILED: u8 = 2;

/// Show what the next reconcile would do
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, long_about = ABOUT, override_usage = usage("chartwright"))]
pub struct DiffArgs {
    /// Kind of the CR, singular or plural, with or without its group: memcached, memcacheds.cache.example.com
    kind: Option<String>,
    /// Name of the CR
    #[arg(conflicts_with_all = ["all", "selector", "all_namespaces"])]
    name: Option<String>,
    /// File with new or changed CRs as YAML or JSON. - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["kind", "all"])]
    filename: Option<PathBuf>,
    /// All releases of the watches, or of KIND
    #[arg(long)]
    all: bool,
    /// In all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace", requires = "all")]
    all_namespaces: bool,
    /// Namespace of the CRs [default: that of the kubeconfig's context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only CRs with these labels, as for kubectl
    #[arg(short = 'l', long, value_name = "SELECTOR", requires = "all")]
    selector: Option<String>,
    /// Set a field of the CR's spec, as `helm --set` does
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Merge a YAML file into the CR's spec
    #[arg(long, value_name = "FILE")]
    values: Vec<String>,
    /// Another chart: a folder, a .tgz archive, a URL or an oci:// address. With --all only for releases whose chart has the same name
    #[arg(long, value_name = "CHART")]
    chart: Option<String>,
    /// Version of a chart that is fetched, or a constraint such as ~1.2 [default: newest stable version]
    #[arg(
        long,
        value_name = "VERSION",
        requires = "chart",
        default_value = "",
        hide_default_value = true
    )]
    chart_version: String,
    /// The watches file
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,
    /// The decorator to use if several watches match the object
    #[arg(long, value_name = "NAME")]
    decorator: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = DiffFormat::Text)]
    output: DiffFormat,
    /// Colors in text
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
    #[command(flatten)]
    operator: OperatorArgs,
    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DiffFormat {
    Text,
    Json,
    Markdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

/// The usage line of a program that is called so.
pub(in crate::cli) fn usage(program: &str) -> String {
    format!("{program} diff [OPTIONS] <KIND> <NAME> | -f <FILE> | --all")
}

impl DiffArgs {
    /// How the releases are chosen.
    fn choice(&self) -> Choice {
        match (&self.kind, self.all) {
            (None, true) => Choice::AllKinds,
            (Some(_), true) => Choice::AllOfKind,
            (_, false) => Choice::Named,
        }
    }

    /// Checks that the arguments say what is previewed.
    ///
    /// # Errors
    /// They do not. The message names the three ways.
    pub(in crate::cli) fn check(&self) -> Result<(), String> {
        match (&self.kind, &self.name) {
            _ if self.all || self.filename.is_some() => Ok(()),
            (None, _) => Err(
                "say what is previewed: <KIND> <NAME> for one release, -f <FILE> for custom resources of a file, or --all"
                    .to_owned(),
            ),
            (Some(kind), None) => Err(format!(
                "the name of the release is missing: {kind} <NAME>, or {kind} --all for all releases of the kind"
            )),
            (Some(_), Some(_)) => Ok(()),
        }
    }
}

pub fn run(args: &DiffArgs) -> ExitCode {
    let result = previewed(args).and_then(|result| {
        output::print(args, &result)?;
        Ok(result.verdict())
    });
    match result {
        Ok(DiffVerdict::Unchanged) => ExitCode::SUCCESS,
        Ok(DiffVerdict::Changed) => ExitCode::FAILURE,
        Ok(DiffVerdict::Refused) => ExitCode::from(FAILED),
        Err(error) if is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            show_error(format_args!("Error: {error:#}\n"));
            ExitCode::from(FAILED)
        }
    }
}

fn previewed(args: &DiffArgs) -> anyhow::Result<DiffResult> {
    let (watches, warnings) = chartwright_watches::load(&args.watches_file)?;
    for warning in warnings {
        note!("warning: {warning}");
    }
    let files = args.filename.as_deref().map(edit::read_file).transpose()?;
    let mut charts = DiffCharts::new(args.chart.as_deref(), &args.chart_version)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .context("async runtime")?;
    let work = async {
        let (client, discovery) = cluster::connect_with_discovery(args.kubeconfig.as_deref()).await?;
        let client = cluster::with_time_limits(client);
        let mut selected = select::select(args, &watches, &client, &discovery.snapshot(), files).await?;
        if args.all && !args.all_namespaces && selected.targets.is_empty() && selected.unlisted.is_empty() {
            let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace());
            note!("No release is selected in the namespace {namespace}. -A previews all namespaces.");
        }
        let choice = args.choice();
        let lines = charts.keep_same_name(choice, &mut selected.targets);
        for line in lines {
            note!("{line}");
        }
        let live = selected.targets.iter().filter_map(|target| target.live.as_ref());
        let cluster = args.operator.preview_cluster(client, discovery, live).await?;
        let mut result = preview_all(&cluster, charts, selected.targets).await;
        result.merge_definitions();
        for (kind, error) in selected.unlisted {
            result.failed.push(FailedRelease {
                name: kind,
                error: error.to_string(),
            });
        }
        Ok(result)
    };
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Previews the releases concurrently. The result has their order.
async fn preview_all(cluster: &PreviewCluster, mut charts: DiffCharts, targets: Vec<DiffTarget>) -> DiffResult {
    let count = targets.len();
    let mut progress = ProgressLine::new();
    let mut prepared = Vec::with_capacity(count);
    for target in targets {
        let unit = charts.unit(&target);
        prepared.push((target, unit));
    }
    let previews = prepared.into_iter().map(|(target, unit)| {
        let cluster = cluster.clone();
        async move {
            let name = target.name();
            // A task of its own: renders block the thread of their task.
            let task = tokio::spawn(async move { preview_one(&cluster, target, unit?).await });
            let done = task.await.map_err(anyhow::Error::from).and_then(|done| done);
            (name, done)
        }
    });
    let mut previews = std::pin::pin!(iter(previews).buffered(AT_ONCE));
    let mut result = DiffResult::default();
    let mut done = 0;
    while let Some((name, preview)) = previews.next().await {
        done += 1;
        progress.show(|| format!("{done} of {count} releases"));
        match preview {
            Ok(diff) => result.releases.push(diff),
            Err(error) => result.failed.push(FailedRelease {
                name,
                error: format!("{error:#}"),
            }),
        }
    }
    result
}

async fn preview_one(cluster: &PreviewCluster, target: DiffTarget, unit: Arc<Unit>) -> anyhow::Result<ReleaseDiff> {
    let live = target.live.as_ref();
    let edited = check_edit(&cluster.client, &target.resource, live, target.wanted.clone()).await;
    let edited = match edited {
        Ok(edited) => edited,
        Err(EditError::Refused(message)) => return Ok(target.refused(&unit, message)),
        Err(error) => return Err(error.into()),
    };
    let mut diff = preview(cluster, &unit, live, edited.object).await?;
    if let Some(why) = edited.unchecked {
        diff.notes
            .insert(0, format!("the API server did not check the custom resource: {why}"));
    }
    Ok(diff)
}

impl DiffTarget {
    /// The release of an edit that the API server does not accept.
    fn refused(&self, unit: &Unit, message: String) -> ReleaseDiff {
        let mut diff = ReleaseDiff {
            group_kind: self.group_kind.clone(),
            namespace: self.key().0,
            name: self.key().1,
            chart: chart_change(unit, self.live.as_ref().unwrap_or(&Value::Null)),
            summary: Default::default(),
            changes: Vec::new(),
            hooks: Vec::new(),
            plans: Vec::new(),
            held: Vec::new(),
            refusals: vec![Refusal {
                object: None,
                reason: "CustomResourceInvalid".to_owned(),
                message,
            }],
            stalled: None,
            notes: Vec::new(),
        };
        diff.summary = chartwright_core::diff::summarize(&diff);
        diff
    }
}

/// Checks that an object names itself.
fn ensure_named(object: &Value) -> anyhow::Result<()> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    ensure!(!name.is_empty(), "metadata.name is missing");
    Ok(())
}
