//! An operator's bundle for OLM in the format registry+v1: what a project's config/ applies, as a ClusterServiceVersion, with the
//! definitions of its kinds, and what people write about it by hand.
//!
//! Facts: the Operator Framework's documentation of bundles, and the sources of what reads them: operator-framework/api (its
//! validation), operator-registry (`pkg/lib/bundle`), operator-controller (OLM v1's `rukpak`), operator-sdk (`generate bundle`).

mod base;
pub mod catalog;
pub mod check;
mod csv;
mod descriptors;
mod install;
mod kustomize;
mod metadata;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value};

use super::api::project_watches;
use super::project::Project;
use super::survey::Survey;
use super::tree::FileTree;
use crate::printable::to_yaml;
use chartwright_core::identity::GroupKind;
use chartwright_watches::names::{is_built_in, is_dns_subdomain};
use check::BundleFinding;
use helm_template::chart::Chart;

/// What is applied, and the custom resources that show how.
const MANIFESTS: &str = "config/default";
const SAMPLES: &str = "config/samples";
/// A project of operator-sdk has its own tests there.
const SCORECARD: &str = "config/scorecard";

/// The files of a bundle by their names within it: `manifests/...`, `metadata/...`, `tests/...`.
pub type BundleFiles = BTreeMap<String, String>;

/// What is wanted of a bundle. What is empty is taken from the bundle that is there, or else from the project.
#[derive(Clone, Debug, Default)]
pub struct BundleOptions {
    /// Without a `v`.
    pub version: Option<String>,
    pub package: Option<String>,
    pub channels: Vec<String>,
    pub default_channel: Option<String>,
    /// The operator's image.
    pub image: Option<String>,
    /// A version, or a bundle's name.
    pub replaces: Option<String>,
    pub skip_range: Option<String>,
    /// Manifests in the place of config/default: a folder, or a text.
    pub input: Option<Manifests>,
    /// Where the bundle lies.
    pub output: PathBuf,
    /// annotations.yaml and the Dockerfile are kept if they are there.
    pub keep_metadata: bool,
}

/// Manifests that are ready for a cluster.
#[derive(Clone, Debug)]
pub enum Manifests {
    Folder(PathBuf),
    Text(String),
}

/// A bundle, and what belongs to it.
#[derive(Debug)]
pub struct Made {
    /// Of the ClusterServiceVersion.
    pub name: String,
    pub files: BundleFiles,
    pub dockerfile: String,
    /// The manifest that users edit by hand. None if the project already has one.
    pub base: Option<(PathBuf, String)>,
    /// The project, if it is one.
    pub project: Option<Project>,
    /// What is to be known, and what is wrong.
    pub findings: Vec<BundleFinding>,
}

/// A kind of the project, and what its chart shows.
struct BundleKind {
    group_kind: GroupKind,
    /// Those that are watched, with their lines in watches.yaml.
    versions: Vec<(String, usize)>,
    chart: Chart,
    survey: Survey,
}

/// What a bundle is made of.
struct BundleSource {
    package: String,
    domain: String,
    kinds: Vec<BundleKind>,
    manifests: Vec<Value>,
    samples: Vec<Value>,
    scorecard: Option<Value>,
}

/// Makes the bundle of the project in a folder. Nothing is written.
///
/// # Errors
/// The project or the options are so wrong that there is no bundle to check. Other problems are findings.
pub fn generate(root: &Path, asked: &BundleOptions) -> anyhow::Result<Made> {
    let project = Project::find(root)?;
    let source = BundleSource::read(root, project.as_ref(), asked)?;
    let (base, fresh) = read_base(root, project.as_ref(), &source)?;
    let present = Present::read(&asked.output)?;
    let version = wanted_version(asked, &present, &base)?;
    let asked = &present.completed(asked, &base, &version);
    let mut findings = Vec::new();
    let (csv, mut objects) = csv::make(&source, &base, &version, asked, &mut findings)?;
    let name = csv["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    objects.insert(format!("{}.clusterserviceversion.yaml", source.package), csv);
    let mut files = BundleFiles::new();
    for (file, object) in objects {
        files.insert(format!("manifests/{file}"), to_yaml(&object)?);
    }
    let labels = metadata::BundleLabels::of(&source.package, asked, &present)?;
    let kept = present.annotations.clone().filter(|_| asked.keep_metadata);
    let annotations = kept.map_or_else(|| labels.annotations(), Ok)?;
    files.insert(metadata::ANNOTATIONS.to_owned(), annotations);
    files.insert(
        metadata::SCORECARD.to_owned(),
        metadata::scorecard(source.scorecard.as_ref())?,
    );
    let folder = asked
        .output
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let dockerfile = labels.dockerfile(&folder)?;
    findings.extend(check::check(&files));
    Ok(Made {
        name,
        files,
        dockerfile,
        base: fresh,
        project,
        findings,
    })
}

impl BundleSource {
    fn read(root: &Path, project: Option<&Project>, asked: &BundleOptions) -> anyhow::Result<Self> {
        let is_project = project.is_some() || root.join(MANIFESTS).is_dir();
        if !is_project {
            // Says that there is none.
            Project::open(root)?;
        }
        let package = match (&asked.package, project) {
            (Some(package), _) => package.clone(),
            (None, Some(project)) if !project.name().is_empty() => project.name().to_owned(),
            _ => prefix(root)
                .context("--package is missing: PROJECT names none, nor does config/default/kustomization.yaml")?,
        };
        // Files and labels of the image are named after it.
        ensure!(
            is_dns_subdomain(&package),
            "--package {package:?} can't be the name of a package: lower-case letters, digits, `-` and `.`, as in shop-operator"
        );
        let kinds = kinds(root, project)?;
        let (manifests, samples, scorecard) = match &asked.input {
            None => {
                let samples = if root.join(SAMPLES).is_dir() {
                    kustomize::build(root, Path::new(SAMPLES))?
                } else {
                    Vec::new()
                };
                let scorecard = if root.join(SCORECARD).is_dir() {
                    kustomize::build(root, Path::new(SCORECARD))?
                        .into_iter()
                        .find(is_scorecard)
                } else {
                    None
                };
                (kustomize::build(root, Path::new(MANIFESTS))?, samples, scorecard)
            }
            Some(input) => {
                let all = input.read()?;
                let scorecard = all.iter().find(|object| is_scorecard(object)).cloned();
                let is_sample = |object: &Value| {
                    let group_kind = GroupKind::of(object).map(|(group_kind, _)| group_kind);
                    kinds.iter().any(|kind| Some(&kind.group_kind) == group_kind.as_ref())
                };
                let (mut samples, rest): (Vec<Value>, Vec<Value>) = all.into_iter().partition(is_sample);
                if samples.is_empty() && root.join(SAMPLES).is_dir() {
                    samples = kustomize::build(root, Path::new(SAMPLES))?;
                }
                let is_other = |object: &Value| !is_scorecard(object) && object["kind"] != "ClusterServiceVersion";
                (rest.into_iter().filter(is_other).collect(), samples, scorecard)
            }
        };
        let source = BundleSource {
            package,
            domain: project.map(|project| project.domain().to_owned()).unwrap_or_default(),
            kinds,
            manifests,
            samples,
            scorecard,
        };
        source.check_kinds()?;
        Ok(source)
    }

    /// Every kind that is watched is defined, in the versions that are watched, and has a sample.
    fn check_kinds(&self) -> anyhow::Result<()> {
        for kind in &self.kinds {
            let is_of = |crd: &&Value| kind_of(crd) == kind.group_kind;
            let crd = self.definitions().find(is_of);
            for (version, line) in &kind.versions {
                let crd = crd.with_context(|| {
                    format!(
                        "watches.yaml:{line}: {} is watched, and no CustomResourceDefinition of it is among the manifests: `chartwright \
                         generate crd` writes one, and config/crd/kustomization.yaml has to list it",
                        kind.group_kind
                    )
                })?;
                let served = served(crd);
                ensure!(
                    served.contains(&version.as_str()),
                    "watches.yaml:{line}: {} is watched in version {version}, and its CustomResourceDefinition serves {}",
                    kind.group_kind,
                    served.join(", ")
                );
            }
            let is_sample = |sample: &Value| GroupKind::of(sample).is_some_and(|(known, _)| known == kind.group_kind);
            ensure!(
                self.samples.iter().any(is_sample),
                "{SAMPLES} has no {}: add one, and list it in its kustomization.yaml; it is the example that OLM shows",
                kind.group_kind
            );
        }
        Ok(())
    }

    /// The CustomResourceDefinitions.
    fn definitions(&self) -> impl Iterator<Item = &Value> {
        self.manifests
            .iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition")
    }
}

/// The kind that a definition is of.
fn kind_of(crd: &Value) -> GroupKind {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    GroupKind::new(text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["kind"]))
}

/// The versions of a definition that are served.
fn served(crd: &Value) -> Vec<&str> {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let versions = versions.filter(|version| version["served"] == true);
    versions.filter_map(|version| version["name"].as_str()).collect()
}

fn is_scorecard(object: &Value) -> bool {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    object["kind"] == "Configuration" && api_version.starts_with("scorecard.operatorframework.io/")
}

/// What config/default gives all names, without its `-`.
fn prefix(root: &Path) -> Option<String> {
    let text = fs::read(root.join(MANIFESTS).join("kustomization.yaml")).ok()?;
    let kustomization = go_yaml::to_json(&text).ok()?;
    let prefix = kustomization["namePrefix"].as_str()?.trim_end_matches('-');
    (!prefix.is_empty()).then(|| prefix.to_owned())
}

/// The kinds that are watched and that a CustomResourceDefinition has to be of.
fn kinds(root: &Path, project: Option<&Project>) -> anyhow::Result<Vec<BundleKind>> {
    let none = Project::new(root, "", "");
    let mut kinds: Vec<BundleKind> = Vec::new();
    for watch in project_watches(project.unwrap_or(&none))? {
        if watch.decorator.is_some() || is_built_in(&watch.group) {
            continue;
        }
        let group_kind = GroupKind::new(watch.group.as_str(), watch.kind.as_str());
        match kinds.iter_mut().find(|kind| kind.group_kind == group_kind) {
            Some(kind) => kind.versions.push((watch.version.clone(), watch.line)),
            None => {
                let chart = Chart::load(&watch.chart).with_context(|| watch.chart.display().to_string())?;
                kinds.push(BundleKind {
                    group_kind,
                    versions: vec![(watch.version.clone(), watch.line)],
                    survey: Survey::with_values(&chart, Vec::new(), &[], &watch.patches),
                    chart,
                });
            }
        }
    }
    ensure!(
        !kinds.is_empty(),
        "watches.yaml has no kind yet: `chartwright create api` adds one"
    );
    Ok(kinds)
}

impl Manifests {
    fn read(&self) -> anyhow::Result<Vec<Value>> {
        let objects = match self {
            Manifests::Text(text) => kustomize::parse(text).context("--input-dir -")?,
            Manifests::Folder(folder) => {
                let shown = || format!("--input-dir {}", folder.display());
                let mut files = Vec::new();
                for entry in fs::read_dir(folder).with_context(shown)? {
                    let name = PathBuf::from(entry.with_context(shown)?.file_name());
                    if name.extension().is_some_and(|end| end == "yaml" || end == "yml") {
                        files.push(name);
                    }
                }
                files.sort();
                let mut objects = Vec::new();
                for file in files {
                    objects.extend(kustomize::read(folder, &file).with_context(shown)?);
                }
                objects
            }
        };
        if objects.is_empty() {
            bail!("--input-dir: there are no manifests");
        }
        Ok(objects)
    }
}

/// Reads the manifest that users edit by hand. If there is none, returns its default as well.
fn read_base(
    root: &Path,
    project: Option<&Project>,
    source: &BundleSource,
) -> anyhow::Result<(Value, Option<(PathBuf, String)>)> {
    let path = PathBuf::from(format!(
        "config/manifests/bases/{}.clusterserviceversion.yaml",
        source.package
    ));
    let shown = || path.display().to_string();
    let written = project.map(Project::written).unwrap_or_default();
    let text = match fs::read_to_string(root.join(&path)) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(shown),
    };
    if let Some(text) = text
        && !super::tree::is_as_written(&written, &path, text.as_bytes())
    {
        let base = go_yaml::to_json(text.as_bytes()).with_context(shown)?;
        ensure!(
            base["kind"] == "ClusterServiceVersion" && base["spec"].is_object() && base["metadata"].is_object(),
            "{}: is no ClusterServiceVersion with `metadata` and `spec`: remove it, and another one is written",
            shown()
        );
        return Ok((base, None));
    }
    let base = base::default(source);
    let text = to_yaml(&base)?;
    Ok((base, Some((path, text))))
}

/// The bundle that is there.
#[derive(Debug, Default)]
struct Present {
    version: Option<String>,
    image: Option<String>,
    replaces: Option<String>,
    skip_range: Option<String>,
    /// The text of annotations.yaml, and what it says.
    annotations: Option<String>,
    labels: Map<String, Value>,
}

impl Present {
    fn read(output: &Path) -> anyhow::Result<Self> {
        let mut present = Present::default();
        let file = output.join(metadata::ANNOTATIONS);
        if let Ok(text) = fs::read_to_string(&file) {
            let value = go_yaml::to_json(text.as_bytes()).with_context(|| file.display().to_string())?;
            present.labels = value["annotations"].as_object().cloned().unwrap_or_default();
            present.annotations = Some(text);
        }
        for file in manifests_in(output)? {
            if !file.ends_with(".clusterserviceversion.yaml") {
                continue;
            }
            let text = fs::read(output.join("manifests").join(file))?;
            let csv = go_yaml::to_json(&text).unwrap_or_default();
            let text = |value: &Value| value.as_str().map(str::to_owned);
            present.version = text(&csv["spec"]["version"]);
            present.image = csv::operator_image(&csv["spec"]["install"]);
            present.replaces = text(&csv["spec"]["replaces"]);
            present.skip_range = text(&csv["metadata"]["annotations"][csv::SKIP_RANGE]);
        }
        Ok(present)
    }

    /// Completes the options with those of this bundle if the version is the same. Another version has another image and other
    /// predecessors. The hand-written manifest and an image in given manifests take precedence.
    fn completed(&self, asked: &BundleOptions, base: &Value, version: &str) -> BundleOptions {
        let mut all = asked.clone();
        if self.version.as_deref() == Some(version) {
            let known =
                |asked: &mut Option<String>, known: &Option<String>| *asked = asked.take().or_else(|| known.clone());
            if asked.input.is_none() {
                known(&mut all.image, &self.image);
            }
            if base["spec"]["replaces"].is_null() {
                known(&mut all.replaces, &self.replaces);
            }
            if base["metadata"]["annotations"][csv::SKIP_RANGE].is_null() {
                known(&mut all.skip_range, &self.skip_range);
            }
        }
        all
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).and_then(Value::as_str)
    }
}

/// The names of the files in a bundle's `manifests`.
fn manifests_in(output: &Path) -> anyhow::Result<Vec<String>> {
    let folder = output.join("manifests");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.collect())
}

fn wanted_version(asked: &BundleOptions, present: &Present, base: &Value) -> anyhow::Result<String> {
    if let Some(version) = &asked.version {
        ensure!(
            check::is_version(version),
            "--version {version}: is no semantic version, such as 0.1.0"
        );
        return Ok(version.clone());
    }
    let own = base["spec"]["version"]
        .as_str()
        .filter(|version| *version != base::NO_VERSION);
    let known = present.version.clone().or_else(|| own.map(str::to_owned));
    known.context("--version is missing, such as 0.1.0")
}

impl Made {
    /// Whether it may be published.
    pub fn is_valid(&self) -> bool {
        !self.findings.iter().any(|finding| finding.is_error)
    }

    /// All files, beside and in the folder of the bundle.
    pub fn tree(&self, asked: &BundleOptions) -> FileTree {
        let mut tree = FileTree::default();
        let folder = PathBuf::from(asked.output.file_name().unwrap_or_default());
        for (name, text) in &self.files {
            tree.merge(folder.join(name), text.as_bytes());
        }
        if !(asked.keep_metadata && asked.output.with_file_name(metadata::DOCKERFILE).exists()) {
            tree.merge(metadata::DOCKERFILE, self.dockerfile.as_bytes());
        }
        tree
    }

    /// What lies in the bundle's `manifests` and isn't made any more. Everything there would be installed.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn stale(&self, asked: &BundleOptions) -> anyhow::Result<Vec<PathBuf>> {
        let names = manifests_in(&asked.output)?.into_iter();
        let names = names.map(|name| format!("manifests/{name}"));
        let stale = names.filter(|name| name.ends_with(".yaml") && !self.files.contains_key(name));
        Ok(stale.map(|name| asked.output.join(name)).collect())
    }
}
