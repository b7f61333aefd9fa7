//! `chartwright generate argocd`: creates the configuration of Argo CD.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cli::stdout::{note, print_line, stdout};
use chartwright_scaffold::argocd;
use chartwright_scaffold::rights;
use chartwright_scaffold::tree::{Fate, WrittenDigests};
use chartwright_watches as watches;

const EXAMPLES: &str = "\
Examples:
  # Add the entries to the ConfigMap argocd-cm. A field manager of its own keeps the other entries
  chartwright generate argocd | kubectl apply -n argocd --server-side --field-manager=chartwright-argocd -f -

  # Write a kustomize component; in CI: fail if it is outdated
  chartwright generate argocd -o config/argocd
  chartwright generate argocd -o config/argocd --check";

/// Create the configuration of Argo CD: health checks, actions and ignored differences
///
/// Writes entries of the ConfigMap argocd-cm for each kind of watches.yaml. With them, Argo CD shows the health of custom resources
/// by their conditions, offers the actions suspend, resume, reconcile, force, rollback and one for each plan, and ignores what the
/// operator writes into the metadata of custom resources.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ArgoCdArgs {
    /// The watches file
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,
    /// Folder of a kustomize component to write [default: a ConfigMap on standard output]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Write nothing, and fail if a file would change
    #[arg(long, requires = "output")]
    check: bool,
}

pub fn run(args: &ArgoCdArgs) -> Result<ExitCode> {
    let (watches, warnings) = watches::load(&args.watches_file)?;
    for warning in warnings {
        note!("warning: {warning}");
    }
    if watches.is_empty() {
        bail!("{}: there is no watch", args.watches_file.display());
    }
    let surveys = rights::surveys(&std::env::current_dir()?, &watches, None)?;
    let surveys: Vec<_> = surveys.iter().map(|(_, survey)| survey).collect();
    for (watch, survey) in watches.iter().zip(&surveys) {
        if let Some(problem) = survey.problem() {
            note!(
                "warning: {}: plans that have an action of their own are unknown, because the chart cannot be rendered: {problem}; \
                 add a sample of {} to config/samples with which it can be rendered",
                watch.chart.display(),
                watch.kind
            );
        }
    }
    let pairs: Vec<_> = watches.iter().zip(surveys).collect();
    let entries = argocd::entries(&pairs)?;
    let Some(folder) = &args.output else {
        stdout().write_all(argocd::config_map(&entries)?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let shown = folder.display();
    if !args.check {
        std::fs::create_dir_all(folder).with_context(|| shown.to_string())?;
    }
    let changes = argocd::component(&entries)?.compare(folder, &WrittenDigests::new(), true);
    let changes = changes.with_context(|| shown.to_string())?;
    let is_due = changes.files.iter().any(|file| file.fate != Fate::Unchanged);
    if !args.check {
        changes.write(folder).with_context(|| shown.to_string())?;
    }
    print_line!(
        "{shown}: {}",
        match (is_due, args.check) {
            (false, _) => "unchanged",
            (true, false) => "written",
            (true, true) => "outdated: run `chartwright generate argocd` with this folder again",
        }
    );
    Ok(if is_due && args.check {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
