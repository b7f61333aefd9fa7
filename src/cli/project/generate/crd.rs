//! `chartwright generate crd`: creates the CustomResourceDefinition of a chart's releases.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;
use similar::TextDiff;

use super::{against, project};
use crate::cli::stdout::{note, stdout};
use chartwright_scaffold::crd::{ChartValues, Generated, Names, Overlay, Scale, Surroundings, definition, generate};
use chartwright_scaffold::printable::to_yaml;
use chartwright_watches as watches;

const EXAMPLES: &str = "\
Examples:
  # Of a chart, to standard output
  chartwright generate crd charts/memcached --group cache.example.com --version v1alpha1 --kind Memcached

  # Of all watches of a project, into config/crd/bases; in CI: fail if a file is outdated
  chartwright generate crd
  chartwright generate crd --check

  # Check whether it can replace the one in the cluster
  chartwright generate crd charts/memcached --group cache.example.com --version v1alpha1 --kind Memcached --against cluster";

/// Largest object that `kubectl apply` can store in its annotation, in bytes.
const MAX_APPLY_BYTES: usize = 256 << 10;

/// Create the CustomResourceDefinition of a chart's releases
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    long_about = "Create the CustomResourceDefinition of a chart's releases\n\n\
        The schema of spec is derived from values.schema.json and values.yaml of the chart and its subcharts, and from an overlay, \
        the file CHART.crd.yaml beside the chart. Without CHART: for every watch, into config/crd/bases. Other versions and \
        annotations in an existing file stay."
)]
pub struct CrdArgs {
    /// The chart, a folder or a .tgz archive [default: the charts of all watches]
    #[arg(requires_all = ["group", "version", "kind"])]
    chart: Option<PathBuf>,
    /// API group. Required with CHART
    #[arg(long, requires = "chart", value_parser = parse_group)]
    group: Option<String>,
    /// API version. Required with CHART
    #[arg(long, requires = "chart", value_parser = parse_version)]
    version: Option<String>,
    /// The kind. Required with CHART
    #[arg(long, requires = "chart", value_parser = parse_kind)]
    kind: Option<String>,
    /// Plural name, in lower case [default: an English plural]
    #[arg(long, requires = "chart")]
    plural: Option<String>,
    /// Short name for kubectl. Repeatable
    #[arg(long = "short-name", requires = "chart", value_name = "NAME")]
    short_names: Vec<String>,
    /// Category for kubectl, such as all. Repeatable
    #[arg(long = "category", requires = "chart", value_name = "NAME")]
    categories: Vec<String>,
    /// CRs are cluster-scoped
    #[arg(long, requires = "chart")]
    cluster: bool,
    /// Value that `kubectl scale` sets, such as replicaCount
    #[arg(long, requires = "chart", value_name = "PATH")]
    scale: Option<String>,
    /// Status field with the number of replicas
    #[arg(long, requires = "scale", value_name = "PATH", default_value = ".status.replicas")]
    scale_status: String,
    /// Status field with the pods' label selector. Autoscalers need it
    #[arg(long, requires = "scale", value_name = "PATH")]
    scale_selector: Option<String>,
    /// The overlay, a file with further facts about the values [default: CHART.crd.yaml, if it exists]
    #[arg(long, requires = "chart", value_name = "FILE")]
    overlay: Option<PathBuf>,
    /// Check whether the definition can safely replace another one: that of a file, or that of the `cluster`, whose CRs are checked
    /// as well
    #[arg(long, value_name = "FILE|cluster")]
    against: Option<PathBuf>,
    /// The kubeconfig of `--against cluster` [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, requires = "against", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// File to write [default: standard output]
    #[arg(short, long, requires = "chart", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing, and fail if a file would change
    #[arg(long)]
    check: bool,
    /// The watches file
    #[arg(
        long,
        value_name = "FILE",
        default_value = "./watches.yaml",
        conflicts_with = "chart"
    )]
    watches_file: PathBuf,
}

/// A generated definition and its file.
pub(super) struct GeneratedCrd {
    pub definition: Value,
    pub generated: Generated,
    pub file: Option<PathBuf>,
    /// Current text of the file.
    pub present: Option<String>,
}

pub fn run(args: &CrdArgs) -> Result<ExitCode> {
    let made = match &args.chart {
        Some(chart) => vec![generate_from_chart(args, chart)?],
        None => project::generate_from_watches(&args.watches_file)?,
    };
    let mut succeeded = true;
    for made in made {
        for warning in &made.generated.warnings {
            note!("warning: {warning}");
        }
        if let Some(against) = &args.against {
            succeeded &= against::compare_definition(args.kubeconfig.as_deref(), against, &made)?;
        }
        succeeded &= write_definition(args, &made)?;
    }
    Ok(if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes or prints a definition. Returns false if `--check` finds a difference.
fn write_definition(args: &CrdArgs, made: &GeneratedCrd) -> Result<bool> {
    let text = to_yaml(&made.definition)?;
    if text.len() > MAX_APPLY_BYTES {
        note!(
            "warning: {} takes {} KiB: apply it with `kubectl apply --server-side`, or `kubectl create`",
            made.generated.names.crd(),
            text.len() >> 10
        );
    }
    let mut out = stdout();
    let Some(file) = &made.file else {
        if args.against.is_none() {
            out.write_all(text.as_bytes())?;
        }
        return Ok(true);
    };
    let before = made.present.clone().unwrap_or_default();
    if before == text {
        return Ok(true);
    }
    write!(out, "{}", unified_diff(file, &before, &text))?;
    if args.check {
        return Ok(false);
    }
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(file, text).with_context(|| file.display().to_string())?;
    Ok(true)
}

/// Returns the change of a file as `diff -u` does. For a new file returns its name.
fn unified_diff(file: &Path, before: &str, after: &str) -> String {
    if before.is_empty() {
        return format!("new: {}\n", file.display());
    }
    let file = file.display().to_string();
    let difference = TextDiff::from_lines(before, after);
    difference.unified_diff().header(&file, &file).to_string()
}

fn generate_from_chart(args: &CrdArgs, chart: &Path) -> Result<GeneratedCrd> {
    let names = Names {
        group: args.group.clone().unwrap_or_default(),
        version: args.version.clone().unwrap_or_default(),
        kind: args.kind.clone().unwrap_or_default(),
        plural: args.plural.clone(),
        short_names: args.short_names.clone(),
        categories: args.categories.clone(),
        cluster: args.cluster,
        scale: args.scale.as_ref().map(|path| Scale {
            spec_replicas_path: path_below_spec(path),
            status_replicas_path: args.scale_status.clone(),
            label_selector_path: args.scale_selector.clone(),
        }),
        selectable: Vec::new(),
        columns: Vec::new(),
    };
    let overlay = read_overlay(chart, args.overlay.as_deref())?;
    let generated = generate(&ChartValues::load(chart)?, names, &overlay, Surroundings::default())?;
    let present = args.output.as_deref().map(read_definition_file).transpose()?.flatten();
    let mut definition = generated.definition();
    if let Some((_, old)) = &present {
        definition = definition::laid_over(definition, old);
    }
    Ok(GeneratedCrd {
        definition,
        generated,
        file: args.output.clone(),
        present: present.map(|(text, _)| text),
    })
}

fn path_below_spec(path: &str) -> String {
    let path = path.trim_start_matches('.');
    format!(".spec.{}", path.strip_prefix("spec.").unwrap_or(path))
}

/// Reads the named overlay, or the one beside the chart if it exists.
pub(in crate::cli) fn read_overlay(chart: &Path, named: Option<&Path>) -> Result<Overlay> {
    let file = named.map_or_else(|| overlay_beside(chart), Path::to_owned);
    if named.is_none() && !file.exists() {
        return Ok(Overlay::default());
    }
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(&file).with_context(|| shown.clone())?;
    Overlay::read(&shown, &text).map_err(anyhow::Error::msg)
}

fn overlay_beside(chart: &Path) -> PathBuf {
    let mut stem: OsString = chart.components().collect::<PathBuf>().into_os_string();
    if let Some(text) = stem.to_str().and_then(|text| text.strip_suffix(".tgz")) {
        stem = text.into();
    }
    stem.push(".crd.yaml");
    stem.into()
}

/// Reads text and definition of a file. `None`: the file does not exist.
pub(super) fn read_definition_file(file: &Path) -> Result<Option<(String, Value)>> {
    if !file.exists() {
        return Ok(None);
    }
    let shown = || file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(shown)?;
    let value = go_yaml::to_json(text.as_bytes()).with_context(shown)?;
    if value["kind"] != "CustomResourceDefinition" {
        bail!("{}: is not a CustomResourceDefinition", file.display());
    }
    Ok(Some((text, value)))
}

fn parse_group(text: &str) -> Result<String, String> {
    let is_group = text.contains('.') && text.split('.').all(watches::names::is_dns_label);
    if is_group {
        Ok(text.to_owned())
    } else {
        Err("a group is a domain name in lower case, such as cache.example.com".to_owned())
    }
}

fn parse_version(text: &str) -> Result<String, String> {
    if watches::names::is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("a version is a word in lower case, such as v1alpha1".to_owned())
    }
}

fn parse_kind(text: &str) -> Result<String, String> {
    let is_kind = text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric());
    if is_kind && text.len() <= 63 {
        Ok(text.to_owned())
    } else {
        Err("a kind is a word in camel case, such as Memcached".to_owned())
    }
}
