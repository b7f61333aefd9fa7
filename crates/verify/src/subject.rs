//! What is tested: where the case files of a chart lie, the watch that it is for, and what is known of its kind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::{Map, Value, json};

use super::bounds::Bounds;
use chartwright_core::identity::GroupKind;
use chartwright_operator::cluster::discovery::Resource;
use chartwright_scaffold::lint::crd::{self, Crd};
use chartwright_scaffold::names::kind_of_chart;
use chartwright_scaffold::tree::normal;
use chartwright_watches::{ReadContext, Watch};
use helm_template::chart::Chart;
use helm_template::chart::stamp::{self, Stamp};
use helm_template::render::Engine;

const WATCHES: &str = "watches.yaml";
/// The folder of case files within a chart, and the ending of one beside it.
const FOLDER: &str = "verify";

/// A case file, and the chart that it is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundFile {
    pub file: PathBuf,
    /// `None` if the file has to say it.
    pub chart: Option<PathBuf>,
}

/// A chart, ready to render.
pub struct Loaded {
    pub engine: Arc<Engine>,
    pub stamp: Stamp,
    /// Where it was loaded from.
    pub path: PathBuf,
    /// Its case files count as files of the chart.
    pub packs_cases: bool,
}

/// Charts that were read, by their paths.
#[derive(Default)]
pub struct CaseCharts(BTreeMap<PathBuf, Result<Arc<Loaded>, String>>);

/// What surrounds a chart: the watches for it, as they are written, and the definitions of the project.
pub struct CaseSurroundings {
    /// Where paths of charts start from.
    root: PathBuf,
    /// Empty if there is no project.
    watches: Vec<Map<String, Value>>,
    pub crds: Vec<Crd>,
}

/// The case files that these paths are, or lead to: of projects, charts, folders with case files.
///
/// # Errors
/// A path that is none of it; or there are no case files at all.
pub fn find(paths: &[PathBuf]) -> anyhow::Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let mut looked_at = Vec::new();
    for path in paths {
        let is_there = path.try_exists().with_context(|| path.display().to_string())?;
        ensure!(is_there, "{}: there is no such file or folder", path.display());
        let is_watches = path.file_name().is_some_and(|name| name == WATCHES);
        if path.is_file() && !is_watches {
            let is_yaml = path
                .extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml");
            ensure!(
                is_yaml,
                "{}: name a project, a chart's folder, or case files (.yaml)",
                path.display()
            );
            found.push(FoundFile {
                chart: path.parent().and_then(chart_of),
                file: path.clone(),
            });
        } else if is_watches || path.join(WATCHES).is_file() {
            let root = if is_watches {
                path.parent().unwrap_or(Path::new(""))
            } else {
                path
            };
            let mut charts: Vec<PathBuf> = written(root)?
                .iter()
                .filter_map(|watch| own_chart(root, watch))
                .collect();
            charts.sort();
            charts.dedup();
            charts
                .iter()
                .for_each(|chart| of_chart(chart, &mut found, &mut looked_at));
        } else if path.join("Chart.yaml").is_file() {
            of_chart(path, &mut found, &mut looked_at);
        } else {
            let chart = chart_of(path);
            ensure!(
                chart.is_some() || !in_folder(path).is_empty(),
                "{}: there is neither a {WATCHES} nor a Chart.yaml nor a case file in this folder",
                path.display()
            );
            looked_at.push(path.clone());
            found.extend(in_folder(path).into_iter().map(|file| FoundFile {
                chart: chart.clone(),
                file,
            }));
        }
    }
    found.sort();
    found.dedup();
    if found.is_empty() {
        let folders: Vec<String> = looked_at.iter().map(|folder| folder.display().to_string()).collect();
        bail!(
            "there are no case files: none in {}",
            if folders.is_empty() {
                "a project without watches".to_owned()
            } else {
                folders.join(", ")
            }
        );
    }
    Ok(found)
}

/// A path for people.
pub fn shown(path: &Path) -> String {
    normal(path).display().to_string()
}

/// The case files of a chart: in its folder `verify`, and in `<chart>.verify` beside it.
fn of_chart(chart: &Path, found: &mut Vec<FoundFile>, looked_at: &mut Vec<PathBuf>) {
    let mut folders = vec![chart.join(FOLDER)];
    if let Some(name) = chart.file_name() {
        let name = name.to_string_lossy();
        let name = name.strip_suffix(".tgz").unwrap_or(&name);
        folders.push(chart.with_file_name(format!("{name}.{FOLDER}")));
    }
    for folder in folders {
        found.extend(in_folder(&folder).into_iter().map(|file| FoundFile {
            chart: Some(chart.to_owned()),
            file,
        }));
        looked_at.push(folder);
    }
}

/// The chart that the case files in a folder are about.
fn chart_of(folder: &Path) -> Option<PathBuf> {
    // The working directory has no name of its own.
    let folder = match folder.file_name() {
        Some(_) => folder.to_owned(),
        None => Path::new(".").join(folder).canonicalize().ok()?,
    };
    let name = folder.file_name()?.to_string_lossy().into_owned();
    if name == FOLDER {
        let chart = folder.parent()?.to_owned();
        let chart = if chart.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            chart
        };
        return chart.join("Chart.yaml").is_file().then_some(chart);
    }
    let chart = name.strip_suffix(&format!(".{FOLDER}"))?;
    let chart = folder.with_file_name(chart);
    let archive = chart.with_file_name(format!("{}.tgz", chart.file_name()?.to_string_lossy()));
    [chart, archive].into_iter().find(|chart| chart.exists())
}

/// The YAML files directly in a folder.
fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is_yaml = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        path.is_file() && matches!(extension, Some("yaml" | "yml"))
    };
    let mut files: Vec<PathBuf> = entries.filter(is_yaml).collect();
    files.sort();
    files
}

/// The entries of a project's watches.yaml, as they are written.
fn written(root: &Path) -> anyhow::Result<Vec<Map<String, Value>>> {
    let path = root.join(WATCHES);
    let text = fs::read(&path).with_context(|| path.display().to_string())?;
    // For its words about what is wrong.
    parse(&path.display().to_string(), &text, root)?;
    let entries = go_yaml::to_json(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok(serde_json::from_value::<Option<Vec<_>>>(entries)?.unwrap_or_default())
}

fn parse(name: &str, text: &[u8], root: &Path) -> Result<Vec<Watch>, chartwright_watches::FileErrors> {
    let outside = ReadContext {
        folder: root,
        env: &|name| Some(std::env::var(name).unwrap_or_default()),
    };
    chartwright_watches::parse(name, text, &outside).map(|(watches, _)| watches)
}

fn own_chart(root: &Path, watch: &Map<String, Value>) -> Option<PathBuf> {
    Some(root.join(watch.get("chart")?.as_str()?))
}

impl CaseCharts {
    /// # Errors
    /// Why the chart can't be loaded.
    pub fn load(&mut self, path: &Path) -> Result<Arc<Loaded>, String> {
        let key = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let loaded = self.0.entry(key).or_insert_with(|| {
            let (chart, stamp) = stamp::load_stable(path);
            let name_chart = |error: String| format!("chart {}: {error}", shown(path));
            let chart = chart.map_err(|error| name_chart(error.to_string()))?;
            let is_case = |file: &helm_template::chart::File| file.name.starts_with(&format!("{FOLDER}/"));
            let packs_cases = chart.files.iter().any(is_case);
            let engine = Engine::for_releases(chart).map_err(|error| name_chart(error.to_string()))?;
            Ok(Arc::new(Loaded {
                engine: Arc::new(engine),
                stamp,
                path: path.to_owned(),
                packs_cases,
            }))
        });
        loaded.clone()
    }
}

impl CaseSurroundings {
    /// Looks for a project around a chart: the watches.yaml in the nearest folder above it that has one, if it names the chart.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(chart: &Path) -> anyhow::Result<Self> {
        let absolute = chart.canonicalize().with_context(|| chart.display().to_string())?;
        let above = absolute.ancestors().skip(1);
        let Some(root) = above.into_iter().find(|folder| folder.join(WATCHES).is_file()) else {
            return Ok(CaseSurroundings {
                root: absolute.parent().unwrap_or(&absolute).to_owned(),
                watches: Vec::new(),
                crds: Vec::new(),
            });
        };
        let bounds = Bounds::of(&root.join(WATCHES), None);
        for definition in crd::FOLDERS.iter().flat_map(|folder| in_folder(&root.join(folder))) {
            bounds.check(&definition).map_err(|error| anyhow!(error))?;
        }
        let is_own = |watch: &Map<String, Value>| {
            let own = own_chart(root, watch).and_then(|own| own.canonicalize().ok());
            own.is_some_and(|own| own == absolute)
        };
        Ok(CaseSurroundings {
            root: root.to_owned(),
            watches: written(root)?.into_iter().filter(is_own).collect(),
            crds: crd::read(root),
        })
    }

    /// The watches for a chart, with further keys: those of the project, or one for a kind that is named after the chart.
    ///
    /// # Errors
    /// A key that a watch can't have.
    pub fn watches(&self, path: &Path, chart: &Chart, more: &Map<String, Value>) -> anyhow::Result<Vec<Watch>> {
        let mut entries = self.watches.clone();
        if entries.is_empty() {
            let kind = Some(kind_of_chart(chart.name())).filter(|kind| chartwright_watches::names::is_kind(kind));
            let entry = json!({
                "group": "charts.example.com", "version": "v1", "kind": kind.as_deref().unwrap_or("Release"),
            });
            entries.extend(entry.as_object().cloned());
        }
        let path = std::path::absolute(path)?;
        for entry in &mut entries {
            entry.insert("chart".to_owned(), path.to_string_lossy().into());
            entry.extend(more.clone());
        }
        let text = serde_json::to_vec(&entries)?;
        parse("watch", &text, &self.root).map_err(|errors| {
            let messages = errors.0.into_iter().map(|error| error.message);
            anyhow!("the watch: {}", messages.collect::<Vec<_>>().join("; "))
        })
    }

    /// The definition of a kind.
    pub fn crd(&self, group_kind: &GroupKind) -> Option<&Crd> {
        self.crds
            .iter()
            .find(|crd| crd.is_of(&group_kind.group, &group_kind.kind))
    }

    /// Kinds that definitions of the project, and those of a chart's `crds/`, bring.
    pub fn served(&self, chart: &Chart) -> Vec<Resource> {
        let own = self.crds.iter().map(Crd::value).cloned();
        let of_chart = chart.crds.iter().flat_map(|file| {
            let text = String::from_utf8_lossy(file.data.as_bytes()).into_owned();
            let documents = go_yaml::documents(&text).unwrap_or_default().into_iter();
            let documents = documents.filter_map(|document| go_yaml::to_json(document.as_bytes()).ok());
            documents.collect::<Vec<_>>()
        });
        let definitions = own
            .chain(of_chart)
            .filter(|object| object["kind"] == "CustomResourceDefinition");
        definitions.flat_map(|definition| resources(&definition)).collect()
    }
}

/// The kind that a definition brings, in each version.
fn resources(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group_kind = GroupKind::new(text(&spec["group"]), text(&spec["names"]["kind"]));
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .map(|version| Resource::offline(&group_kind, &text(&version["name"]), spec["scope"] != "Cluster"))
        .collect()
}
