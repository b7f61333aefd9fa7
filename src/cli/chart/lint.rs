//! `chartwright lint`: finds mistakes in a project or a chart.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};

use crate::cli::stdout::note;
use chartwright_scaffold::lint::{self, Linted, Severity, output, rules};
use chartwright_watches::suggestion;

const EXAMPLES: &str = "\
Examples:
  # Check the project in this folder: watches.yaml, charts, CRDs, samples and rights
  chartwright lint

  # Check a chart, for GitHub's code scanning
  chartwright lint charts/memcached -o sarif > lint.sarif

  # Only errors, or all except some rules
  chartwright lint --severity error
  chartwright lint --ignore missing-pdb,long-name

Exit codes: 0 no finding, 1 a finding, 2 wrong usage. docs/reference/lint.md explains the rules. The comment
`# chartwright-lint: ignore=RULE` ignores a rule: on its line, on the next line if it stands alone, or in the complete file if
it stands at the top.";

/// Find mistakes in a project or a chart, without a cluster
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LintArgs {
    /// A project (a folder with a watches.yaml, or that file) or a chart (a folder with a Chart.yaml)
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: LintFormat,
    /// Only these rules, separated by commas. Repeatable [default: all rules]
    #[arg(long = "rule", value_name = "NAME", value_delimiter = ',')]
    rules: Vec<String>,
    /// All rules except these, separated by commas. Repeatable
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Only findings of this severity or higher
    #[arg(long, value_enum, default_value = "warning")]
    severity: MinimumSeverity,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LintFormat {
    /// for people: place, message, reason and remedy
    Text,
    /// a list of objects
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// workflow commands, which GitHub shows as annotations
    Github,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MinimumSeverity {
    Warning,
    Error,
}

/// Prints the findings to standard output.
pub fn run(args: &LintArgs) -> ExitCode {
    let linted = match find_problems(args) {
        Ok(linted) => linted,
        Err(error) => {
            note!("Error: {error:#}");
            return ExitCode::from(2);
        }
    };
    let text = match args.output {
        LintFormat::Text => output::text(&linted),
        LintFormat::Json => format!("{:#}\n", output::json(&linted)),
        LintFormat::Sarif => format!("{:#}\n", output::sarif(&linted)),
        LintFormat::Github => output::github(&linted),
    };
    // A closed pipe is ignored: the exit code has the result.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if linted.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn find_problems(args: &LintArgs) -> anyhow::Result<Linted> {
    for name in args.rules.iter().chain(&args.ignore) {
        if rules::named(name).is_none() {
            let best = suggestion(name, rules::ALL.iter().map(|rule| rule.name));
            let hint = best.map(|best| format!(": did you mean {best}?")).unwrap_or_default();
            bail!("there is no rule {name:?}{hint}");
        }
    }
    let mut linted = lint::lint(&args.path)?;
    let minimum = match args.severity {
        MinimumSeverity::Warning => Severity::Warning,
        MinimumSeverity::Error => Severity::Error,
    };
    linted.findings.retain(|finding| {
        let is_named = |names: &[String]| names.iter().any(|name| name == finding.rule.name);
        let is_wanted = args.rules.is_empty() || is_named(&args.rules);
        is_wanted && !is_named(&args.ignore) && finding.rule.severity >= minimum
    });
    Ok(linted)
}
