//! `chartwright verify`: unit tests for charts.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use crate::cli::stdout::note;
use chartwright_verify::{Verified, VerifyOptions, output};

const EXAMPLES: &str = "\
Examples:
  # Run the cases of all charts of the project in this folder
  chartwright verify

  # Run the cases of one chart whose names contain upgrade
  chartwright verify charts/memcached --run upgrade

  # In CI: write a JUnit report besides the text in the log
  chartwright verify --junit verify.xml

  # After an intended change: update the golden files, and review the difference
  chartwright verify --update && git diff

Case files are charts/NAME/verify/*.yaml, or charts/NAME.verify/*.yaml beside a third party's chart. An example:

  cases:
    - name: three servers
      spec: {size: 3}
      expect:
        fields:
          StatefulSet: {spec.replicas: 3}

Exit codes: 0 all cases passed, 1 some failed, 2 wrong usage. docs/reference/verify.md explains every key.";

/// Run unit tests of charts, without a cluster: what a CR creates, and what an edit changes, prunes and restarts
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Projects (folders with a watches.yaml), charts (folders with a Chart.yaml), or case files
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: VerifyFormat,
    /// Also write a JUnit report to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write golden files instead of comparing with them
    #[arg(long)]
    update: bool,
    /// Only cases whose name contains this pattern. * matches any text [default: all cases]
    #[arg(long = "run", value_name = "PATTERN")]
    only: Option<String>,
    /// Number of cases that run concurrently [default: number of processors]
    #[arg(short, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    jobs: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum VerifyFormat {
    /// text for people: failures and their places
    Text,
    /// a JSON object with all cases
    Json,
    /// JUnit XML
    Junit,
}

/// Runs the cases and prints the result to standard output.
pub fn run(args: &VerifyArgs) -> ExitCode {
    let done = run_cases(args).and_then(|verified| Ok((format_result(args, &verified)?, verified)));
    match done {
        Ok((text, verified)) => {
            // A closed pipe is ignored: the exit code has the result.
            let _ = std::io::stdout().write_all(text.as_bytes());
            match verified.counts() {
                (_, 0) => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            note!("Error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run_cases(args: &VerifyArgs) -> anyhow::Result<Verified> {
    let options = VerifyOptions {
        update: args.update,
        only: args.only.clone(),
        at_once: args.jobs,
    };
    let verified = chartwright_verify::verify(&args.paths, &options)?;
    for warning in &verified.warnings {
        note!("warning: {warning}");
    }
    Ok(verified)
}

fn format_result(args: &VerifyArgs, verified: &Verified) -> anyhow::Result<String> {
    if let Some(path) = &args.junit {
        std::fs::write(path, output::junit(verified)?).with_context(|| format!("--junit {}", path.display()))?;
    }
    Ok(match args.output {
        VerifyFormat::Text => output::text(verified),
        VerifyFormat::Json => format!("{:#}\n", output::json(verified)),
        VerifyFormat::Junit => output::junit(verified)?,
    })
}
