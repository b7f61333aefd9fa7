//! `chartwright template`: what `helm template` does, without Helm.
//!
//! Standard output, the `Error:` line and the exit code equal those of Helm 4.3.1.
//! Facts: Helm's `pkg/cmd/{template,install}.go` and `pkg/action/install.go`.

#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;

use crate::chart::options::ValueOptions;
use crate::chart::{self, Chart};
use crate::render::{
    Capabilities, HookEvent, Input, KubeVersion, Limits, Lookups, Release, Rendered, Renderer, StreamOptions,
    on_large_stack, render_text, show_only, to_stream,
};

/// The name that Helm gives a release without one.
const DEFAULT_NAME: &str = "release-name";
/// What Helm adds to errors that come from rendering.
const DEBUG_HINT: &str = "\n\nUse --debug flag to render out invalid YAML";

const EXAMPLES: &str = "\
Examples:
  chartwright template my-release ./mychart -n web -f values.yaml --set replicas=2
  chartwright template my-release ./mychart -s templates/service.yaml --kube-version 1.30";

/// Render a chart's templates and print them, as `helm template` does
///
/// Takes the arguments of `helm template` and prints what it prints: no cluster is asked, `lookup` finds nothing.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TemplateArgs {
    /// The release's name (optional), then the chart: a folder or a .tgz file
    #[arg(value_name = "[NAME] CHART", required = true, num_args = 1..)]
    pub names: Vec<String>,

    /// Namespace of the release
    #[arg(short, long, env = "HELM_NAMESPACE", default_value = "default")]
    pub namespace: String,

    /// Values from a YAML file, or from standard input with "-" (repeatable; later files win)
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    pub values: Vec<String>,

    /// Set values: key1=val1,key2=val2 (repeatable)
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub set: Vec<String>,

    /// Set values that stay strings (repeatable)
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub set_string: Vec<String>,

    /// Set values from files: key1=path1 (repeatable)
    #[arg(long, value_name = "KEY=FILE")]
    pub set_file: Vec<String>,

    /// Set values from JSON: key='{"a": 1}', or a whole object (repeatable)
    #[arg(long, value_name = "KEY=JSON")]
    pub set_json: Vec<String>,

    /// Set one value literally: nothing after the first "=" is special (repeatable)
    #[arg(long, value_name = "KEY=TEXT", allow_hyphen_values = true)]
    pub set_literal: Vec<String>,

    /// Print only what comes from this template, a path or pattern such as templates/*.yaml (repeatable)
    #[arg(short, long, value_name = "TEMPLATE")]
    pub show_only: Vec<String>,

    /// Print the manifests of crds/ too
    #[arg(long)]
    pub include_crds: bool,

    /// Leave hooks out
    #[arg(long)]
    pub no_hooks: bool,

    /// Leave test hooks out
    #[arg(long)]
    pub skip_tests: bool,

    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    pub is_upgrade: bool,

    /// Kubernetes API versions that .Capabilities has besides the usual ones (repeatable, or separated by commas)
    #[arg(short, long, value_name = "VERSION", value_delimiter = ',')]
    pub api_versions: Vec<String>,

    /// Kubernetes version that .Capabilities has
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,

    /// Template for the release's name
    #[arg(long, value_name = "TEMPLATE")]
    pub name_template: Option<String>,

    /// Write the manifests to files below this folder
    #[arg(long, value_name = "FOLDER")]
    pub output_dir: Option<String>,

    /// With --output-dir: below a folder with the release's name
    #[arg(long)]
    pub release_name: bool,

    /// Don't check the values against values.schema.json
    #[arg(long)]
    pub skip_schema_validation: bool,

    /// Print warnings, and errors without the hint at this flag
    #[arg(long)]
    pub debug: bool,

    /// The folder that relative paths start from; empty for the working directory.
    #[arg(skip)]
    pub base: PathBuf,
}

/// What a run prints and writes.
#[derive(Debug, Default)]
struct Outcome {
    stdout: String,
    warnings: Vec<String>,
}

/// What a run left behind, when it doesn't write to the process's own streams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The exit code.
    pub code: u8,
}

/// Runs the command and prints its result. What Helm reports as an error is printed, and the exit code is 1.
pub fn run(args: &TemplateArgs) -> ExitCode {
    let captured = capture(args, &mut io::stdin());
    let _ = io::stderr().write_all(&captured.stderr);
    let mut stdout = io::stdout().lock();
    match stdout.write_all(&captured.stdout).and_then(|()| stdout.flush()) {
        // A reader that closed the pipe has seen enough.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "Error: standard output: {e}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(captured.code),
    }
}

/// Runs the command within this process: `args` are those after `template`, relative paths start from `dir`.
/// Nothing is read from the process's streams or environment, and nothing written to its streams.
pub fn run_captured(args: &[&str], mut stdin: &[u8], dir: &Path) -> Captured {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: TemplateArgs,
    }
    match Command::try_parse_from(std::iter::once(&"template").chain(args)) {
        Ok(mut command) => {
            command.args.base = dir.to_path_buf();
            capture(&command.args, &mut stdin)
        }
        Err(e) => Captured {
            stderr: e.to_string().into_bytes(),
            code: 2,
            ..Captured::default()
        },
    }
}

fn capture(args: &TemplateArgs, stdin: &mut dyn Read) -> Captured {
    match execute(args, stdin) {
        Ok(outcome) => Captured {
            stdout: outcome.stdout.into_bytes(),
            stderr: outcome
                .warnings
                .iter()
                .flat_map(|line| format!("{line}\n").into_bytes())
                .collect(),
            code: 0,
        },
        Err(text) => Captured {
            stderr: format!("Error: {text}\n").into_bytes(),
            code: 1,
            ..Captured::default()
        },
    }
}

/// Renders and words the result. An error is the text after `Error: `.
fn execute(args: &TemplateArgs, stdin: &mut dyn Read) -> Result<Outcome, String> {
    let mut capabilities = Capabilities::default();
    if let Some(version) = args.kube_version.as_ref().filter(|version| !version.is_empty()) {
        capabilities.kube_version =
            KubeVersion::parse(version).map_err(|e| format!("invalid kube version '{version}': {e}"))?;
    }
    capabilities.api_versions.extend(args.api_versions.iter().cloned());
    let (name, chart) = name_and_chart(args)?;
    let path = locate(args, &chart)?;
    let values = args.value_options().merge(stdin).map_err(|e| e.to_string())?;
    let chart = chart::load(&path).map_err(|e| e.to_string())?;
    let renderer = check(chart)?;
    check_name(&name)?;
    let input = Input {
        values: serde_json::Value::Object(values),
        release: Release {
            name: name.clone(),
            namespace: args.namespace.clone(),
            revision: 1,
            is_install: !args.is_upgrade,
            is_upgrade: args.is_upgrade,
        },
        capabilities: &capabilities,
        lookups: &Lookups::none(),
        clock: jiff::Timestamp::now(),
        kept: None,
        seed: None,
        limits: Limits::default(),
        include_crds: args.include_crds,
        skip_schema: args.skip_schema_validation,
    };
    let rendered = on_large_stack(|| renderer.render(&input))?.map_err(|e| {
        let hint = if e.is_rendering() && !args.debug {
            DEBUG_HINT
        } else {
            ""
        };
        format!("{e}{hint}")
    })?;
    let options = StreamOptions {
        no_hooks: args.no_hooks,
        skip_tests: args.skip_tests,
    };
    let mut stdout = String::new();
    let stream = match &args.output_dir {
        Some(folder) if !folder.is_empty() => {
            write_files(args, &name, &args.base.join(folder), folder, &rendered, &mut stdout)?;
            "\n".to_owned()
        }
        _ => to_stream(&rendered, options),
    };
    if args.show_only.is_empty() {
        stdout.push_str(&stream);
    } else {
        let found = show_only(&stream, &args.show_only);
        stdout.push_str(&found.map_err(|pattern| format!("could not find template {pattern} in chart"))?);
    }
    let warnings = if args.debug { rendered.warnings } else { Vec::new() };
    Ok(Outcome { stdout, warnings })
}

impl TemplateArgs {
    fn value_options(&self) -> ValueOptions {
        ValueOptions {
            files: self.values.clone(),
            set: self.set.clone(),
            set_string: self.set_string.clone(),
            set_file: self.set_file.clone(),
            set_json: self.set_json.clone(),
            set_literal: self.set_literal.clone(),
            base: self.base.clone(),
        }
    }
}

fn check(chart: Chart) -> Result<Renderer, String> {
    Renderer::new(Arc::new(chart)).map_err(|e| e.to_string())
}

fn name_and_chart(args: &TemplateArgs) -> Result<(String, String), String> {
    let template = args.name_template.as_deref().filter(|template| !template.is_empty());
    match (args.names.as_slice(), template) {
        ([_, _], Some(_)) => Err("cannot set --name-template and also specify a name".to_owned()),
        ([name, chart], None) => Ok((name.clone(), chart.clone())),
        ([chart], Some(template)) => Ok((
            render_text("name-template", template, &serde_json::Value::Null)?,
            chart.clone(),
        )),
        ([chart], None) => Ok((DEFAULT_NAME.to_owned(), chart.clone())),
        ([], _) => Err(
            "\"helm template\" requires at least 1 argument\n\nUsage:  helm template [NAME] [CHART] [flags]".to_owned(),
        ),
        ([_, _, rest @ ..], _) => Err(format!(
            "expected at most two arguments, unexpected arguments: {}",
            rest.join(", ")
        )),
    }
}

/// The chart's path. Charts in repositories and registries must be fetched before.
fn locate(args: &TemplateArgs, chart: &str) -> Result<PathBuf, String> {
    let chart = chart.trim();
    let path = args.base.join(chart);
    if path.exists() {
        return Ok(path);
    }
    if chart.starts_with(['/', '.']) {
        return Err(format!("path {chart:?} not found"));
    }
    match chart.split_once('/') {
        Some((repository, _)) => Err(format!("repo {repository} not found")),
        None => Err(format!(
            "non-absolute URLs should be in form of repo_name/path_to_chart, got: {chart}"
        )),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let problem = if name.is_empty() {
        "no name provided"
    } else if name.len() > 53 || !name.split('.').all(is_label) {
        "invalid release name, must match regex ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and \
         the length must not be longer than 53"
    } else {
        return Ok(());
    };
    Err(format!("release name check failed: release name {name:?}: {problem}"))
}

fn is_label(text: &str) -> bool {
    let alphanumeric = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// Writes each manifest to a file of its template's name, several of one template to the same file.
fn write_files(
    args: &TemplateArgs,
    name: &str,
    root: &Path,
    shown: &str,
    rendered: &Rendered,
    stdout: &mut String,
) -> Result<(), String> {
    let named = |base: &str| {
        if args.release_name {
            format!("{base}/{name}")
        } else {
            base.to_owned()
        }
    };
    let below = if args.release_name {
        root.join(name)
    } else {
        root.to_path_buf()
    };
    let mut written: Vec<&str> = Vec::new();
    let mut write = |folder: &Path, shown: &str, source: &str, text: &str, append: bool| -> Result<(), String> {
        let path = folder.join(source);
        let io = |e: io::Error| format!("open {shown}/{source}: {e}");
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(io)?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .append(append)
            .truncate(!append)
            .open(&path)
            .map_err(io)?;
        write!(file, "---\n# Source: {source}\n{text}\n").map_err(io)?;
        stdout.push_str(&format!("wrote {shown}/{source}\n"));
        Ok(())
    };
    for crd in &rendered.crds {
        let append = written.contains(&crd.name.as_str());
        write(root, shown, &crd.name, &String::from_utf8_lossy(&crd.data), append)?;
        written.push(&crd.name);
    }
    let shown = named(shown);
    for manifest in &rendered.objects {
        let append = written.contains(&manifest.source.as_str());
        write(&below, &shown, &manifest.source, &manifest.text, append)?;
        written.push(&manifest.source);
    }
    for hook in &rendered.hooks {
        if args.no_hooks || args.skip_tests && hook.events.contains(&HookEvent::Test) {
            continue;
        }
        let append = below.join(&hook.manifest.source).exists();
        write(&below, &shown, &hook.manifest.source, &hook.manifest.text, append)?;
    }
    Ok(())
}
