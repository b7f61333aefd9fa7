//! `chartwright generate rbac`: the operator's role.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cli::stdout::stdout;
use crate::cli::stdout::tell;
use crate::scaffold::rights::{self, Role};
use crate::watches;

const EXAMPLES: &str = "\
Examples:
  # What the operator needs for the charts of watches.yaml
  chartwright generate rbac

  # Into a project, and for CI: fail if it would change
  chartwright generate rbac -o config/rbac/role.yaml
  chartwright generate rbac -o config/rbac/role.yaml --check

  # For each namespace of WATCH_NAMESPACE
  chartwright generate rbac --namespaced | kubectl apply -n shop -f -";

/// Make the operator's role: what it may have to do with the charts of watches.yaml, and no more
///
/// Each chart is rendered with its own values, those of the watch and of samples in config/samples, those in its ci/, and with
/// every switch turned; hooks, plans, lookups and what the watch asks for are counted. For what only other values bring in, add
/// a sample with these.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RbacArgs {
    /// The watches file
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,
    /// A Role for one namespace, without what lies in none
    #[arg(long)]
    namespaced: bool,
    /// What the role is called
    #[arg(long, default_value = rights::ROLE_NAME)]
    name: String,
    /// Write it to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing, and fail if the file would change
    #[arg(long, requires = "output")]
    check: bool,
}

pub fn run(args: &RbacArgs) -> Result<ExitCode> {
    let (watches, warnings) = watches::load(&args.watches_file)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    if watches.is_empty() {
        bail!("{}: there is no watch", args.watches_file.display());
    }
    let root = std::env::current_dir()?;
    let Role {
        object,
        notes,
        warnings,
    } = rights::role(&rights::surveys(&root, &watches)?, &args.name, args.namespaced);
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    for note in notes {
        eprintln!("note: {note}");
    }
    let text = serde_yaml::to_string(&object)?;
    let Some(file) = &args.output else {
        stdout().write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let shown = file.display();
    let before = match std::fs::read_to_string(file) {
        Ok(before) => before,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| shown.to_string()),
    };
    // Comments and the order of fields are whoever's who wrote them.
    let same = go_yaml::to_json(before.as_bytes()).is_ok_and(|before| before == object);
    if same {
        tell!("{shown}: unchanged");
        return Ok(ExitCode::SUCCESS);
    }
    if args.check {
        tell!("{shown}: would change");
        return Ok(ExitCode::FAILURE);
    }
    std::fs::write(file, text).with_context(|| shown.to_string())?;
    tell!("{shown}: written");
    Ok(ExitCode::SUCCESS)
}
