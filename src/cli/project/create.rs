//! `chartwright create api` and `delete api`: adds a kind to a project, or removes it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};

use super::generate::read_overlay;
use super::init::WriteArgs;
use crate::cli::stdout::{note, print_line};
use chartwright_scaffold::api::{self, ApiRequest, Kind};
use chartwright_scaffold::chart::ChartFiles;
use chartwright_scaffold::crd::definition;
use chartwright_scaffold::fetch::{self, ChartRequest, http};
use chartwright_scaffold::project::Project;
use chartwright_scaffold::{crd, names};

const EXAMPLES: &str = "\
Examples:
  # From a chart in a folder or an archive
  chartwright create api --group cache --kind Memcached --helm-chart ./memcached-7.9.6.tgz

  # From a chart repository: the newest 7.9
  chartwright create api --helm-chart memcached --helm-chart-repo https://charts.example.com --helm-chart-version \"~7.9\"

  # From an OCI registry, with a verified signature
  chartwright create api --helm-chart oci://registry.example.com/charts/memcached:7.9.6 --verify --keyring keys.gpg

  # With a password
  chartwright create api --helm-chart https://charts.example.com/memcached-7.9.6.tgz --username me --password-stdin <token

  # With a new chart
  chartwright create api --group shop --version v1 --kind Web

  # Only show what would change
  chartwright create api --helm-chart ./memcached --dry-run";

const DELETE_EXAMPLES: &str = "\
Examples:
  chartwright delete api --group cache --kind Memcached";

/// Add to a project
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CreateArgs {
    #[command(subcommand)]
    command: CreateCommand,
}

#[derive(Subcommand, Debug)]
enum CreateCommand {
    Api(Box<ApiArgs>),
}

/// Add a kind to a project: its chart, watch, CustomResourceDefinition, sample and roles
///
/// The chart is copied into the project and is yours to edit. Dependencies that are not in its charts/ folder are fetched, in the
/// versions of its lock file. You can run the command again: it updates the files that it created and does not change files that
/// you edited. With --force another chart replaces the existing one.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct ApiArgs {
    /// API group, to which the project's domain is appended [default: charts if you give a chart]
    #[arg(long, default_value = "", hide_default_value = true)]
    group: String,
    /// API version [default: v1alpha1]
    #[arg(long, default_value = "", hide_default_value = true)]
    version: String,
    /// The kind [default: named after the chart]
    #[arg(long, default_value = "", hide_default_value = true)]
    kind: String,
    /// Plural name, used in URLs [default: derived from the kind]
    #[arg(long, default_value = "", hide_default_value = true)]
    plural: String,
    /// The kind is cluster-scoped. The watch then needs a targetNamespace
    #[arg(long)]
    cluster: bool,
    /// The chart: a folder, a .tgz archive, a URL, oci://..., or a name in a repository [default: the project's own, or a new one]
    #[arg(long, value_name = "CHART")]
    helm_chart: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    source: SourceArgs,
}

/// Arguments of a chart that is fetched.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options of fetched charts")]
struct SourceArgs {
    /// Repository of the chart: a URL, oci://..., or a name from `helm repo add`
    #[arg(long, value_name = "REPOSITORY", requires = "helm_chart")]
    helm_chart_repo: Option<String>,
    /// Version of the chart, or a constraint such as ~1.2 [default: newest stable version]
    #[arg(
        long,
        value_name = "VERSION",
        requires = "helm_chart",
        default_value = "",
        hide_default_value = true
    )]
    helm_chart_version: String,
    /// User name for the chart's server. Needs --password-stdin [default: credentials of Docker or Helm]
    #[arg(long, requires_all = ["password_stdin", "helm_chart"])]
    username: Option<String>,
    /// Read the password from standard input
    #[arg(long, requires = "username")]
    password_stdin: bool,
    /// PEM certificates to trust when the chart is fetched [default: certificates of the system]
    #[arg(long, value_name = "FILE", requires = "helm_chart")]
    ca_file: Option<PathBuf>,
    /// Use OCI registries without TLS
    #[arg(long, requires = "helm_chart")]
    plain_http: bool,
    /// Accept the chart only if a key of --keyring signed its .prov file. Needs GnuPG's gpgv
    #[arg(long, requires_all = ["keyring", "helm_chart"])]
    verify: bool,
    /// Public keys, as `gpg --export` writes them
    #[arg(long, value_name = "FILE", requires = "verify")]
    keyring: Option<PathBuf>,
}

impl SourceArgs {
    /// Fetches the chart, and prints what was downloaded.
    fn fetch(&self, chart: &str) -> anyhow::Result<ChartFiles> {
        let mut password = String::new();
        if self.password_stdin {
            let mut input = std::io::stdin();
            input.read_to_string(&mut password).context("--password-stdin")?;
        }
        let asked = ChartRequest {
            chart: chart.to_owned(),
            repository: self.helm_chart_repo.clone(),
            version: self.helm_chart_version.clone(),
            username: self.username.clone(),
            password: password.trim_end_matches(['\r', '\n']).to_owned(),
            ca_file: self.ca_file.clone(),
            plain_http: self.plain_http,
            keyring: self.keyring.clone(),
        };
        let shown = http::without_password(chart);
        let fetched = fetch::fetch(&asked).with_context(|| format!("--helm-chart {shown}"))?;
        for line in fetched.notes.fetched {
            print_line!("fetched {line}");
        }
        for line in fetched.notes.left_out {
            note!("warning: {line}");
        }
        Ok(fetched.chart)
    }
}

/// Remove from a project
#[derive(Args, Debug)]
#[command(after_help = DELETE_EXAMPLES)]
pub struct DeleteArgs {
    #[command(subcommand)]
    command: DeleteCommand,
}

#[derive(Subcommand, Debug)]
enum DeleteCommand {
    Api(Box<DeleteApiArgs>),
}

/// Remove a kind from a project: its watch, CustomResourceDefinition, sample and roles
///
/// The chart stays.
#[derive(Args, Debug)]
#[command(after_help = DELETE_EXAMPLES)]
struct DeleteApiArgs {
    /// API group, with or without the project's domain
    #[arg(long)]
    group: String,
    /// The kind
    #[arg(long)]
    kind: String,
    /// API version, if the project watches several versions
    #[arg(long)]
    version: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

pub fn create(args: &CreateArgs) -> anyhow::Result<()> {
    let CreateCommand::Api(args) = &args.command;
    let mut project = Project::open(args.write.root())?;
    let chart = match &args.helm_chart {
        Some(chart) => args.source.fetch(chart)?,
        None if args.kind.is_empty() => bail!("--kind is missing, or --helm-chart with a chart that it is named after"),
        None => ChartFiles::fresh(&names::chart_of_kind(&args.kind))?,
    };
    let placed = chart.into_place(&project, args.helm_chart.is_some(), args.write.force())?;
    let chart = &placed.chart;
    // The overlay that a user wrote beside the chart.
    let overlay = read_overlay(&project.root.join(&placed.folder), None)?;
    let mut named = crd::Names {
        plural: Some(args.plural.clone()).filter(|plural| !plural.is_empty()),
        cluster: args.cluster,
        ..crd::Names::default()
    };
    overlay.name(&mut named);
    // The overlay is applied again when the definition is generated.
    named.columns.clear();
    let wanted = ApiRequest {
        group: args.group.clone(),
        version: args.version.clone(),
        kind: args.kind.clone(),
        plural: named.plural.clone().unwrap_or_default(),
        cluster_scoped: named.cluster,
    };
    let mut kind = Kind::of(&project, &wanted, &chart.name)?;
    let group = kind.resource.full_group();
    let present = definition::find(&project.root, &group, &kind.resource.kind);
    if let Some(present) = &present {
        definition::keep_names(&mut named, &present.object);
        let plural = definition::plural(&present.object).unwrap_or_default();
        ensure!(
            named.plural.as_deref() == Some(plural),
            "{}/{}: {} has the plural {plural}: remove the file to use another plural",
            definition::BASES,
            present.name,
            kind.resource.kind
        );
        kind.plural = plural.to_owned();
        kind.resource.api.namespaced = !named.cluster;
    }
    let names = crd::Names {
        group,
        version: kind.resource.version.clone(),
        kind: kind.resource.kind.clone(),
        plural: Some(kind.plural.clone()),
        ..named
    };
    let is_cluster_scoped = names.cluster;
    let watch = api::watch_of(&project, &kind)?;
    let surroundings = watch.as_ref().map(crd::Surroundings::of).unwrap_or_default();
    let source = crd::ChartValues::of(chart.load()?, chart.files.clone())?;
    let generated = crd::generate(&source, names, &overlay, surroundings)?;
    for warning in &generated.warnings {
        note!("warning: {warning}");
    }
    let mut crd = generated.definition();
    if let Some(present) = &present {
        crd = definition::laid_over(crd, &present.object);
    }
    let tree = api::create(&mut project, &kind, &placed, &crd)?;
    let sample = kind.sample_path();
    args.write.finish(&project, tree, &placed.removed)?;
    let unset = definition::required(&crd, &kind.resource.version);
    let unset = find_unset(&project.root.join(&sample), unset);
    if !unset.is_empty() {
        note!("warning: {sample} is refused until it sets {}", unset.join(", "));
    }
    if is_cluster_scoped && watch.is_none() {
        print_line!(
            "watches.yaml: add `targetNamespace` to the watch: a cluster-scoped kind has no namespace of its own"
        );
    }
    print_line!("next: make install run, and in another terminal: make samples");
    Ok(())
}

/// Returns the paths below `spec` that a custom resource does not set. Returns all paths if the file does not exist.
fn find_unset(file: &Path, mut paths: Vec<String>) -> Vec<String> {
    let text = std::fs::read(file).unwrap_or_default();
    let object = go_yaml::to_json(&text).unwrap_or_default();
    let is_unset = |path: &String| {
        path.split('.')
            .fold(&object["spec"], |value, key| &value[key])
            .is_null()
    };
    paths.retain(is_unset);
    paths
}

pub fn delete(args: &DeleteArgs) -> anyhow::Result<()> {
    let DeleteCommand::Api(args) = &args.command;
    let mut project = Project::open(args.write.root())?;
    let kinds = Kind::all(&project)?;
    let is_selected = |kind: &Kind| {
        let group = kind.resource.full_group();
        let is_version = args
            .version
            .as_ref()
            .is_none_or(|version| *version == kind.resource.version);
        kind.resource.kind == args.kind
            && is_version
            && (group == args.group || group == format!("{}.{}", args.group, project.domain()))
    };
    let selected: Vec<usize> = (0..kinds.len()).filter(|at| is_selected(&kinds[*at])).collect();
    let Some(at) = selected.first().copied() else {
        let known: Vec<String> = kinds
            .iter()
            .map(|kind| {
                let resource = &kind.resource;
                format!("{}.{} {}", resource.kind, resource.full_group(), resource.version)
            })
            .collect();
        let version = args.version.as_ref().map(|version| format!(" in version {version}"));
        bail!(
            "the project has no kind {} in the group {}{}; it has: {}",
            args.kind,
            args.group,
            version.unwrap_or_default(),
            known.join(", ")
        );
    };
    let kind = &kinds[at];
    if selected.len() > 1 {
        let versions = selected.iter().map(|at| kinds[*at].resource.version.as_str());
        let versions: Vec<&str> = versions.collect();
        let remedy = match &args.version {
            None => "select one with --version",
            Some(_) => "remove one from watches.yaml by hand",
        };
        bail!(
            "{}.{} is watched {} times, in {}: {remedy}",
            args.kind,
            kind.resource.full_group(),
            versions.len(),
            versions.join(", ")
        );
    }
    let (tree, removed) = api::delete(&mut project, &kinds, at)?;
    args.write.finish(&project, tree, &removed)?;
    print_line!("{} stays: remove it if nothing else uses it", kind.chart);
    if api::another_watch(&kinds, at).is_some() {
        print_line!("definition and roles stay because {} has another watch", args.kind);
    }
    Ok(())
}
