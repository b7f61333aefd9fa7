//! `chartwright generate crd`: the CustomResourceDefinition of a chart's releases.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::Value;
use similar::{Algorithm, DiffTag, capture_diff_slices, group_diff_ops};

use crate::cli::block_on;
use crate::cluster::{self, connect::bounded};
use crate::scaffold::crd::compare::{Change, compare};
use crate::scaffold::crd::{Generated, Names, Overlay, Scale, Source, Surroundings, definition, generate, validate};
use crate::watches::sources::ValuesFromField;
use crate::watches::{self, Watch, names::is_built_in};

const EXAMPLES: &str = "\
Examples:
  # Of a chart, to the standard output
  chartwright generate crd charts/memcached --group cache.example.com --version v1alpha1 --kind Memcached

  # Of all watches of a project, into config/crd/bases; in CI: fail if a file is not up to date
  chartwright generate crd
  chartwright generate crd --check

  # Is it safe to have it in the place of the one in the cluster?
  chartwright generate crd charts/memcached --group cache.example.com --version v1alpha1 --kind Memcached --against cluster";

/// Where a project has its definitions.
const BASES: &str = "config/crd/bases";
/// What `kubectl apply` can remember in an annotation.
const APPLIED: usize = 256 << 10;

/// Make the CustomResourceDefinition of a chart's releases
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    long_about = "Make the CustomResourceDefinition of a chart's releases\n\n\
        The schema of spec is made of the chart's values.schema.json and values.yaml and those of its subcharts, and of an overlay, \
        the file CHART.crd.yaml beside the chart. Without CHART: for every watch, into config/crd/bases. What a file has beside \
        that (other versions, annotations) stays."
)]
pub struct CrdArgs {
    /// The chart: a folder or a .tgz
    #[arg(requires_all = ["group", "version", "kind"])]
    chart: Option<PathBuf>,
    /// The kind's API group
    #[arg(long, requires = "chart", value_parser = group)]
    group: Option<String>,
    /// The version of the API
    #[arg(long, requires = "chart", value_parser = version)]
    version: Option<String>,
    /// The kind
    #[arg(long, requires = "chart", value_parser = kind)]
    kind: Option<String>,
    /// Its plural, in lower case [default: an English one]
    #[arg(long, requires = "chart")]
    plural: Option<String>,
    /// A short name for kubectl; may be repeated
    #[arg(long = "short-name", requires = "chart", value_name = "NAME")]
    short_names: Vec<String>,
    /// A category for kubectl, such as all; may be repeated
    #[arg(long = "category", requires = "chart", value_name = "NAME")]
    categories: Vec<String>,
    /// Custom resources are cluster-scoped
    #[arg(long, requires = "chart")]
    cluster: bool,
    /// The value that `kubectl scale` sets, such as replicaCount
    #[arg(long, requires = "chart", value_name = "PATH")]
    scale: Option<String>,
    /// Where the status tells the replicas that there are
    #[arg(long, requires = "scale", value_name = "PATH", default_value = ".status.replicas")]
    scale_status: String,
    /// Where the status has the label selector of the pods, which autoscalers need
    #[arg(long, requires = "scale", value_name = "PATH")]
    scale_selector: Option<String>,
    /// What to say of values beyond the chart [default: CHART.crd.yaml, if it is there]
    #[arg(long, requires = "chart", value_name = "FILE")]
    overlay: Option<PathBuf>,
    /// Tell whether it can safely replace another one: a file, or `cluster`, whose custom resources are checked as well
    #[arg(long, value_name = "FILE|cluster")]
    against: Option<PathBuf>,
    /// The kubeconfig of `--against cluster`
    #[arg(long, requires = "against", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Write it there
    #[arg(short, long, requires = "chart", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing; fail if a file would change
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

/// A definition, and the file that it belongs into.
struct Made {
    generated: Generated,
    file: Option<PathBuf>,
    /// What stands there.
    present: Option<String>,
}

pub fn run(args: &CrdArgs) -> Result<ExitCode> {
    let made = match &args.chart {
        Some(chart) => vec![of_chart(args, chart)?],
        None => of_watches(args)?,
    };
    let mut is_well = true;
    for made in made {
        for warning in &made.generated.warnings {
            eprintln!("warning: {warning}");
        }
        if let Some(against) = &args.against {
            is_well &= compare_with(args, against, &made)?;
        }
        is_well &= deliver(args, &made)?;
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes or prints it; false if `--check` finds that it would be another.
fn deliver(args: &CrdArgs, made: &Made) -> Result<bool> {
    let text = serde_yaml::to_string(&made.generated.definition)?;
    if text.len() > APPLIED {
        eprintln!(
            "warning: {} takes {} KiB: apply it with `kubectl apply --server-side`, or `kubectl create`",
            made.generated.names.crd(),
            text.len() >> 10
        );
    }
    let mut out = std::io::stdout().lock();
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
    write!(out, "{}", difference(file, &before, &text))?;
    if args.check {
        return Ok(false);
    }
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(file, text).with_context(|| file.display().to_string())?;
    Ok(true)
}

/// What would change in a file, as `diff -u` shows it; of a new file its name.
fn difference(file: &Path, before: &str, after: &str) -> String {
    if before.is_empty() {
        return format!("new: {}\n", file.display());
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut text = format!("--- {0}\n+++ {0}\n", file.display());
    for group in group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), 3) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let (was, is) = (
            first.old_range().start..last.old_range().end,
            first.new_range().start..last.new_range().end,
        );
        text += &format!(
            "@@ -{},{} +{},{} @@\n",
            was.start + 1,
            was.len(),
            is.start + 1,
            is.len()
        );
        for operation in &group {
            let mut lines =
                |sign: char, lines: &[&str]| lines.iter().for_each(|line| text += &format!("{sign}{line}\n"));
            match operation.tag() {
                DiffTag::Equal => lines(' ', &old[operation.old_range()]),
                _ => {
                    lines('-', &old[operation.old_range()]);
                    lines('+', &new[operation.new_range()]);
                }
            }
        }
    }
    text
}

fn of_chart(args: &CrdArgs, chart: &Path) -> Result<Made> {
    let names = Names {
        group: args.group.clone().unwrap_or_default(),
        version: args.version.clone().unwrap_or_default(),
        kind: args.kind.clone().unwrap_or_default(),
        plural: args.plural.clone(),
        short_names: args.short_names.clone(),
        categories: args.categories.clone(),
        cluster: args.cluster,
        scale: args.scale.as_ref().map(|path| Scale {
            spec_replicas_path: below_spec(path),
            status_replicas_path: args.scale_status.clone(),
            label_selector_path: args.scale_selector.clone(),
        }),
        columns: Vec::new(),
    };
    let overlay = read_overlay(chart, args.overlay.as_deref())?;
    let mut generated = generate(&Source::load(chart)?, names, &overlay, Surroundings::default())?;
    let present = args.output.as_deref().map(read_present).transpose()?.flatten();
    if let Some((_, old)) = &present {
        generated.definition = definition::laid_over(generated.definition, old);
    }
    Ok(Made {
        generated,
        file: args.output.clone(),
        present: present.map(|(text, _)| text),
    })
}

fn below_spec(path: &str) -> String {
    let path = path.trim_start_matches('.');
    format!(".spec.{}", path.strip_prefix("spec.").unwrap_or(path))
}

/// The overlay that is named, or the one beside the chart, if there is one.
fn read_overlay(chart: &Path, named: Option<&Path>) -> Result<Overlay> {
    let file = named.map_or_else(|| beside(chart), Path::to_owned);
    if named.is_none() && !file.exists() {
        return Ok(Overlay::default());
    }
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(&file).with_context(|| shown.clone())?;
    Overlay::read(&shown, &text).map_err(anyhow::Error::msg)
}

fn beside(chart: &Path) -> PathBuf {
    let mut stem: OsString = chart.components().collect::<PathBuf>().into_os_string();
    if let Some(text) = stem.to_str().and_then(|text| text.strip_suffix(".tgz")) {
        stem = text.into();
    }
    stem.push(".crd.yaml");
    stem.into()
}

/// The definition in a file, if there is one.
fn read_present(file: &Path) -> Result<Option<(String, Value)>> {
    if !file.exists() {
        return Ok(None);
    }
    let shown = || file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(shown)?;
    let value = go_yaml::to_json(text.as_bytes()).with_context(shown)?;
    if value["kind"] != "CustomResourceDefinition" {
        bail!("{}: is no CustomResourceDefinition", file.display());
    }
    Ok(Some((text, value)))
}

/// The definitions of a project's watches. Watches of one kind make versions of one definition.
fn of_watches(args: &CrdArgs) -> Result<Vec<Made>> {
    let (watches, warnings) = watches::load(&args.watches_file)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    let mut all: Vec<Made> = Vec::new();
    for watch in watches.iter().filter(|watch| !is_built_in(&watch.group)) {
        let is_same = |names: &Names| names.group == watch.group && names.kind == watch.kind;
        let earlier = all.iter().position(|made| is_same(&made.generated.names));
        match earlier {
            // Two watches of one version, with selectors: what either accepts can't be told; the first counts.
            Some(at)
                if versions(&all[at].generated.definition).contains(&watch.version) && is_made(&all[at], watch) =>
            {
                eprintln!(
                    "warning: {}:{}: an earlier watch makes {} {}",
                    args.watches_file.display(),
                    watch.line,
                    watch.kind,
                    watch.version
                );
            }
            Some(at) => {
                let further = of_watch(watch, None)?;
                let made = &mut all[at].generated;
                made.definition = definition::laid_over(further.definition, &made.definition);
                made.warnings.extend(further.warnings);
                made.names.version.clone_from(&watch.version);
            }
            None => {
                let present = find_present(watch)?;
                let old = present.as_ref().map(|(_, _, old)| old);
                let generated = of_watch(watch, old)?;
                let file = present.as_ref().map(|(file, ..)| file.clone());
                let file = file.unwrap_or_else(|| Path::new(BASES).join(generated.names.file()));
                all.push(Made {
                    generated,
                    file: Some(file),
                    present: present.map(|(_, text, _)| text),
                });
            }
        }
    }
    if all.is_empty() {
        bail!(
            "{}: there is no watch of a custom resource",
            args.watches_file.display()
        );
    }
    Ok(all)
}

/// Whether it is this run that made the version, not an earlier one.
fn is_made(made: &Made, watch: &Watch) -> bool {
    made.generated.names.version == watch.version
}

fn versions(definition: &Value) -> Vec<String> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter_map(|version| version["name"].as_str().map(str::to_owned))
        .collect()
}

fn of_watch(watch: &Watch, old: Option<&Value>) -> Result<Generated> {
    let mut names = Names {
        group: watch.group.clone(),
        version: watch.version.clone(),
        kind: watch.kind.clone(),
        ..Names::default()
    };
    let overlay = read_overlay(&watch.chart, None)?;
    // What the file says of the kind stays, unless the overlay says it.
    overlay.name(&mut names);
    if let Some(old) = old {
        definition::keep_names(&mut names, old);
    }
    names.columns.clear();
    let surroundings = Surroundings {
        has_sources: !watch.values.is_empty()
            || !watch.values_from.is_empty()
            || watch.values_from_field.is_some()
            || !watch.override_values.is_empty(),
        sources_field: match &watch.values_from_field {
            Some(ValuesFromField::Spec(path)) => Some(path),
            _ => None,
        },
    };
    let mut generated = generate(&Source::load(&watch.chart)?, names, &overlay, surroundings)?;
    if let Some(old) = old {
        generated.definition = definition::laid_over(generated.definition, old);
    }
    Ok(generated)
}

/// The file in `config/crd/bases` that defines the kind of a watch.
fn find_present(watch: &Watch) -> Result<Option<(PathBuf, String, Value)>> {
    let Ok(entries) = std::fs::read_dir(BASES) else {
        return Ok(None);
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml" || end == "yml"));
    files.sort();
    for file in files {
        if let Ok(Some((text, value))) = read_present(&file)
            && value["spec"]["group"] == watch.group.as_str()
            && value["spec"]["names"]["kind"] == watch.kind.as_str()
        {
            return Ok(Some((file, text, value)));
        }
    }
    Ok(None)
}

/// Tells what is different; false if it isn't safe.
fn compare_with(args: &CrdArgs, against: &Path, made: &Made) -> Result<bool> {
    let new = &made.generated.definition;
    let mut problems = Vec::new();
    let old = match against.to_str() {
        Some("cluster") => block_on_value(async {
            let client = cluster::connect(args.kubeconfig.as_deref()).await?;
            let old = live_definition(&client, &made.generated.names.crd()).await?;
            if let Some(old) = &old {
                problems = live_problems(&client, old, &laid_over_old(made, old)).await?;
            }
            Ok(old)
        })?,
        _ => match read_present(against)? {
            Some((_, old)) => Some(old),
            None => bail!("{}: there is no such file", against.display()),
        },
    };
    let mut out = std::io::stdout().lock();
    let name = made.generated.names.crd();
    let Some(old) = old else {
        writeln!(out, "{name}: the cluster doesn't have it yet")?;
        return Ok(true);
    };
    let new = match made.file {
        Some(_) => new.clone(),
        None => laid_over_old(made, &old),
    };
    let changes = compare(&old, &new);
    for change in &changes {
        writeln!(out, "{change}")?;
    }
    for problem in &problems {
        writeln!(out, "{problem}")?;
    }
    let unsafe_changes = changes.iter().filter(|change: &&Change| change.breaks).count();
    let verdict = match (unsafe_changes, problems.len()) {
        (0, 0) => "safe".to_owned(),
        (0, count) => format!("not safe: {count} problems with custom resources that exist"),
        (count, 0) => format!("not safe: {count} of {} changes", changes.len()),
        (count, found) => format!(
            "not safe: {count} of {} changes, and {found} problems with custom resources",
            changes.len()
        ),
    };
    writeln!(out, "{name}: {verdict}")?;
    Ok(unsafe_changes == 0 && problems.is_empty())
}

/// What would stand there if it took the place of another one, whose other versions stay.
fn laid_over_old(made: &Made, old: &Value) -> Value {
    match made.file {
        Some(_) => made.generated.definition.clone(),
        None => definition::laid_over(made.generated.definition.clone(), old),
    }
}

fn block_on_value<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut value = None;
    block_on(async {
        value = Some(work.await?);
        Ok(())
    })?;
    value.context("nothing was done")
}

async fn live_definition(client: &kube::Client, name: &str) -> Result<Option<Value>> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let found = bounded(api.get_opt(name))
        .await
        .with_context(|| format!("CustomResourceDefinition {name}"))?;
    Ok(found.map(serde_json::to_value).transpose()?)
}

/// How many custom resources are read at once.
const PAGE: u32 = 250;

/// What the new definition has against the custom resources that exist. Each is checked in the version that is made.
async fn live_problems(client: &kube::Client, old: &Value, new: &Value) -> Result<Vec<String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = |definition: &Value| definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let served = versions(old)
        .into_iter()
        .find(|version| version["served"] == true && version["storage"] == true);
    let served = served.or_else(|| versions(old).into_iter().find(|version| version["served"] == true));
    let Some(served) = served else {
        return Ok(Vec::new());
    };
    let kind = GroupVersionKind::gvk(
        &text(&old["spec"]["group"]),
        &text(&served["name"]),
        &text(&old["spec"]["names"]["kind"]),
    );
    let resource = ApiResource::from_gvk_with_plural(&kind, &text(&old["spec"]["names"]["plural"]));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut problems = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = bounded(api.list(&page)).await.with_context(|| kind.kind.clone())?;
        for object in list.items {
            let (namespace, name) = (object.metadata.namespace.as_deref(), object.metadata.name.as_deref());
            let place = [namespace, name].into_iter().flatten().collect::<Vec<_>>().join("/");
            let spec = object
                .data
                .get("spec")
                .cloned()
                .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            for version in versions(new) {
                let schema = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
                let found = validate::problems(schema, &spec, ".spec");
                let version = text(&version["name"]);
                problems.extend(
                    found
                        .into_iter()
                        .map(|problem| format!("{} {place} in {version}: {problem}", kind.kind)),
                );
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(problems),
        }
    }
}

fn group(text: &str) -> Result<String, String> {
    let is_group = text.contains('.') && text.split('.').all(watches::names::is_dns_label);
    match is_group {
        true => Ok(text.to_owned()),
        false => Err("a group is a domain name in lower case, such as cache.example.com".to_owned()),
    }
}

fn version(text: &str) -> Result<String, String> {
    match watches::names::is_dns_label(text) {
        true => Ok(text.to_owned()),
        false => Err("a version is a word in lower case, such as v1alpha1".to_owned()),
    }
}

fn kind(text: &str) -> Result<String, String> {
    let is_kind = text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric());
    match is_kind && text.len() <= 63 {
        true => Ok(text.to_owned()),
        false => Err("a kind is a word in camel case, such as Memcached".to_owned()),
    }
}
