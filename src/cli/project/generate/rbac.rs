//! `chartwright generate rbac`: creates the operator's role.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::cli::stdout::{note, print_line, stdout};
use chartwright_scaffold::printable::to_yaml;
use chartwright_scaffold::project::{self, Project};
use chartwright_scaffold::rights::{self, GeneratedRole, RoleOptions};
use chartwright_scaffold::tree::FileTree;
use chartwright_watches as watches;

const EXAMPLES: &str = "\
Examples:
  # Print the role for the charts of watches.yaml
  chartwright generate rbac

  # Write it into a project; in CI: fail if it lacks a right
  chartwright generate rbac -o config/rbac/role.yaml
  chartwright generate rbac -o config/rbac/role.yaml --check

  # The Role for the operator's own namespace: its key and its Lease
  chartwright generate rbac --own -o config/rbac/own_role.yaml

  # For each namespace of WATCH_NAMESPACE
  chartwright generate rbac --namespaced | kubectl apply -n shop -f -";

/// Create the operator's role: the rights that the charts of watches.yaml need, and no more
///
/// Each chart is rendered with its default values, the values of the watch, of the samples in config/samples and of its ci/ folder,
/// and with every switch toggled. Hooks, plans, lookups and the keys of the watch count as well. If an object appears only with
/// other values, add a sample with these values.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RbacArgs {
    /// The watches file
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,
    /// A Role for one namespace, without cluster-scoped resources
    #[arg(long)]
    namespaced: bool,
    /// For watches with `serviceAccountName`: the verbs of constrained impersonation, for Kubernetes 1.36 or later
    #[arg(long)]
    constrained_impersonation: bool,
    /// The Role for the operator's own namespace, with its binding: key and Lease
    #[arg(long, conflicts_with_all = ["namespaced", "constrained_impersonation", "name", "check"])]
    own: bool,
    /// With --own: the operator's name
    #[arg(long, value_name = "NAME", requires = "own", default_value = "chartwright")]
    operator_name: String,
    /// With --own: name of the Lease [default: the operator's name]
    #[arg(long, value_name = "NAME", requires = "own")]
    leader_election_id: Option<String>,
    /// Name of the role
    #[arg(long, default_value = rights::ROLE_NAME)]
    name: String,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing, and fail if the file lacks a right. Further rights are no error
    #[arg(long, requires = "output")]
    check: bool,
}

pub fn run(args: &RbacArgs) -> Result<ExitCode> {
    if args.own {
        return write_own_role(args);
    }
    let (watches, warnings) = watches::load(&args.watches_file)?;
    for warning in warnings {
        note!("warning: {warning}");
    }
    if watches.is_empty() {
        bail!("{}: there is no watch", args.watches_file.display());
    }
    let root = std::env::current_dir()?;
    let options = RoleOptions {
        namespaced: args.namespaced,
        constrained_impersonation: args.constrained_impersonation,
    };
    let role = rights::role(&rights::surveys(&root, &watches, None)?, &args.name, options);
    let text = role.to_yaml()?;
    let GeneratedRole {
        object,
        notes,
        warnings,
    } = role;
    for warning in warnings {
        note!("warning: {warning}");
    }
    for note in notes {
        note!("note: {note}");
    }
    let rules = object["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !rights::may_have_key(rules) && !has_key_role(&root) {
        note!(
            "note: in its own namespace the operator needs rights on its key and its Lease: `chartwright generate rbac --own`"
        );
    }
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
    let present = go_yaml::to_json(before.as_bytes()).unwrap_or_default();
    if args.check {
        return Ok(check_rights(file, &object, &present));
    }
    // An equal file stays as it is, with its comments and the order of its fields.
    let same = present == object;
    if !same {
        std::fs::write(file, &text).with_context(|| shown.to_string())?;
    }
    if (!same || before == text) && !args.namespaced && args.name == rights::ROLE_NAME {
        record_in_project(file, text)?;
    }
    print_line!("{shown}: {}", if same { "unchanged" } else { "written" });
    Ok(ExitCode::SUCCESS)
}

/// Writes the role for the operator's own namespace.
fn write_own_role(args: &RbacArgs) -> Result<ExitCode> {
    let lease = args.leader_election_id.as_ref().unwrap_or(&args.operator_name);
    let objects = rights::own_role(&args.operator_name, lease);
    let documents: Vec<String> = objects.iter().map(to_yaml).collect::<Result<_, _>>()?;
    let text = documents.join("---\n");
    let Some(file) = &args.output else {
        stdout().write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::write(file, text).with_context(|| file.display().to_string())?;
    print_line!("{}: written", file.display());
    Ok(ExitCode::SUCCESS)
}

/// True if a file of config/rbac names the Secret with an operator's key.
fn has_key_role(root: &Path) -> bool {
    let files = std::fs::read_dir(root.join("config/rbac"))
        .into_iter()
        .flatten()
        .flatten();
    let mut texts = files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default());
    texts.any(|text| text.contains("-hmac-key"))
}

/// Prints the rights of the generated role that the role in the file lacks. Fails if it lacks any.
fn check_rights(file: &Path, made: &Value, present: &Value) -> ExitCode {
    let shown = file.display();
    if present["kind"] != made["kind"] {
        print_line!("{shown}: is no {}", made["kind"].as_str().unwrap_or_default());
        return ExitCode::FAILURE;
    }
    let lacking = rights::lacking(made, present);
    for sentence in &lacking {
        print_line!("{shown}: {sentence}");
    }
    if !lacking.is_empty() {
        return ExitCode::FAILURE;
    }
    print_line!("{shown}: lacks nothing");
    ExitCode::SUCCESS
}

/// Records in PROJECT that the role is as generated. Otherwise `create api` would take it for edited by hand and not update it.
fn record_in_project(file: &Path, text: String) -> Result<()> {
    let root = file.ancestors().nth(3).filter(|_| file.ends_with(rights::ROLE));
    let Some(root) = root else { return Ok(()) };
    let Some(project) = Project::find(root)? else {
        return Ok(());
    };
    let mut tree = FileTree::default();
    tree.add(rights::ROLE, text);
    let mut written = project.written();
    tree.compare(root, &written, true)?.remember(&mut written);
    if written != project.written() {
        let path = root.join(project::FILE);
        std::fs::write(&path, project.to_text(&written)?).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
