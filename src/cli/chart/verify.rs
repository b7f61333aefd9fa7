//! `chartwright verify`: unit tests for charts.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use crate::cli::stdout::note;
use chartwright_verify::{Options, Verified, output};

const EXAMPLES: &str = "\
Examples:
  # The cases of all charts of the project in this folder
  chartwright verify

  # Those of one chart, and of them the ones about upgrades
  chartwright verify charts/memcached --run upgrade

  # In CI: a report for its page of tests beside the text in its log
  chartwright verify --junit verify.xml

  # After a change that is meant: write the golden files anew, and look at what changed
  chartwright verify --update && git diff

Case files lie in charts/NAME/verify/*.yaml, or in charts/NAME.verify/ beside a chart of somebody else. A first one:

  cases:
    - name: three servers
      spec: {size: 3}
      expect:
        fields:
          StatefulSet: {spec.replicas: 3}

Exit codes: 0 all passed, 1 some failed, 2 wrong use. docs/reference/verify.md explains every key.";

/// Test charts without a cluster: what is made, and what an edit or another chart changes, prunes, restarts
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Projects (folders with a watches.yaml), charts (folders with a Chart.yaml), or case files
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// How to print it
    #[arg(short, long, value_enum, default_value = "text")]
    output: VerifyFormat,
    /// Also write a report as JUnit does
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write golden files instead of comparing with them
    #[arg(long)]
    update: bool,
    /// Only cases with this in their name; * stands for anything
    #[arg(long = "run", value_name = "PATTERN")]
    only: Option<String>,
    /// So many cases at a time; by default as many as there are processors
    #[arg(short, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    jobs: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum VerifyFormat {
    /// for people: what failed, and where
    Text,
    /// an object with all cases
    Json,
    /// JUnit's XML
    Junit,
}

/// Prints what came of the cases to standard output.
pub fn run(args: &VerifyArgs) -> ExitCode {
    let done = run_cases(args).and_then(|verified| Ok((format_result(args, &verified)?, verified)));
    match done {
        Ok((text, verified)) => {
            // Who closed the pipe has seen enough, and is told by the exit code.
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
    let options = Options {
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
