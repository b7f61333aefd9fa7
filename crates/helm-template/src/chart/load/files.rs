//! A chart's files, sorted by role into a [`Chart`]. Facts: Helm's `pkg/chart/v2/loader/load.go`.

use crate::chart::load::archive;
use crate::chart::schema::Schema;
use crate::chart::{Chart, Error, File, Frozen, Metadata, Warning, metadata, values};
use go_yaml as yaml;
use serde_json::{Map, Value};

/// Checks the format that a `Chart.yaml` names.
///
/// # Errors
/// One that Helm can't render.
pub(crate) fn check_format(file: &File) -> Result<(), Error> {
    let metadata = Metadata::read(&read(file)?).map_err(|e| within(file, e))?;
    let problem = match metadata.api_version.as_str() {
        "" | "v1" | "v2" => return Ok(()),
        "v3" => "invalid chart apiVersion",
        _ => "unsupported chart version",
    };
    Err(Error::Chart(problem.to_owned()))
}

/// Builds a chart, and the charts in its `charts/`, from files in the loader's order. The archives in it may take as many
/// bytes as are `left`, and values nest up to `max_depth` levels.
pub(crate) fn assemble(
    files: Vec<File>,
    left: u64,
    max_depth: usize,
    warnings: &mut Vec<Warning>,
) -> Result<Chart, Error> {
    let mut tree = ChartTree {
        warnings,
        left,
        max_depth,
        depth: 0,
    };
    tree.build(files)
}

/// The state that all charts of a tree share while they are built.
struct ChartTree<'w> {
    warnings: &'w mut Vec<Warning>,
    /// The remaining bytes for the archives in it.
    left: u64,
    /// The maximum nesting of values.
    max_depth: usize,
    /// The nesting of the chart that is built.
    depth: usize,
}

/// The maximum nesting of charts. Helm's limit is its stack.
const MAX_DEPTH: usize = 64;

impl ChartTree<'_> {
    fn build(&mut self, files: Vec<File>) -> Result<Chart, Error> {
        let mut chart = Chart::default();
        let mut subcharts: Vec<(String, Vec<File>)> = Vec::new();
        let Some(chart_yaml) = files.iter().rfind(|file| file.name == "Chart.yaml") else {
            return Err(Error::Chart("Chart.yaml file is missing".to_owned()));
        };
        let mut document = read(chart_yaml)?;
        chart.metadata = read_metadata(&document, chart_yaml)?;
        for file in files {
            match file.name.as_str() {
                "Chart.yaml" => {}
                "Chart.lock" => drop(read(&file)?),
                "values.yaml" => {
                    let values = values::read(&file.data, self.max_depth);
                    let values = values.map_err(|e| Error::Chart(format!("cannot load values.yaml: {e}")))?;
                    chart.values = Frozen::new(values);
                }
                "values.schema.json" => chart.schema = Some(Schema::new(file.data)),
                "requirements.yaml" => {
                    if !chart.is_v1() {
                        self.warnings.push(moved(
                            "Dependencies are handled in Chart.yaml",
                            "dependencies to Chart.yaml",
                        ));
                    }
                    document.extend(read(&file)?);
                    chart.metadata = read_metadata(&document, &file)?;
                    if chart.is_v1() {
                        chart.files.push(file);
                    }
                }
                "requirements.lock" => {
                    read(&file)?;
                    if chart.is_v1() {
                        chart.files.push(file)
                    } else {
                        self.warnings
                            .push(moved("Dependency locking is handled in Chart.lock", "to Chart.lock"))
                    }
                }
                name if name.starts_with("templates/") => chart.templates.push(file),
                name if name.starts_with("charts/") && !name.ends_with(".prov") => {
                    let inner = name["charts/".len()..].to_owned();
                    let folder = inner.split('/').next().unwrap_or_default().to_owned();
                    let file = File {
                        name: inner,
                        data: file.data,
                    };
                    match subcharts.iter_mut().find(|(known, _)| *known == folder) {
                        Some((_, files)) => files.push(file),
                        None => subcharts.push((folder, vec![file])),
                    }
                }
                _ => chart.files.push(file),
            }
        }
        chart.metadata.validate()?;
        chart.crds = chart.files.iter().filter(|file| is_crd(&file.name)).cloned().collect();
        for (folder, files) in subcharts {
            if !folder.starts_with(['_', '.']) {
                let subchart = self.subchart(folder, files, &chart.metadata.name)?;
                chart.dependencies.push(subchart);
            }
        }
        Ok(chart)
    }

    fn subchart(&mut self, folder: String, files: Vec<File>, parent: &str) -> Result<Chart, Error> {
        if folder.ends_with(".tgz")
            && let Some(file) = files.first().filter(|file| file.name != folder)
        {
            return Err(Error::Chart(format!(
                "error unpacking subchart tar in {parent}: expected {folder}, got {}",
                file.name
            )));
        }
        if self.depth == MAX_DEPTH {
            return Err(Error::Chart(format!(
                "charts nest deeper than the limit of {MAX_DEPTH} levels"
            )));
        }
        self.depth += 1;
        let subchart = self.load_subchart(&folder, files).map_err(|source| Error::Subchart {
            name: folder,
            parent: parent.to_owned(),
            source: Box::new(source),
        })?;
        self.depth -= 1;
        Ok(subchart)
    }

    fn load_subchart(&mut self, folder: &str, files: Vec<File>) -> Result<Chart, Error> {
        if folder.ends_with(".tgz") {
            let Some(file) = files.first() else {
                return Err(Error::Chart("no files in chart archive".to_owned()));
            };
            let files = archive::unpack(&file.name, &file.data, &mut self.left, archive::Special::AsFiles)?;
            return self.build(files);
        }
        let inner = files
            .into_iter()
            .filter_map(|file| {
                let (_, name) = file.name.split_once('/')?;
                Some(File {
                    name: name.to_owned(),
                    data: file.data,
                })
            })
            .collect();
        self.build(inner)
    }
}

fn read_metadata(document: &Map<String, Value>, file: &File) -> Result<Metadata, Error> {
    let mut metadata = Metadata::read(document).map_err(|e| within(file, e))?;
    if metadata.api_version.is_empty() {
        metadata.api_version = "v1".to_owned();
    }
    Ok(metadata)
}

/// The entries of a file: none if it says nothing.
fn read(file: &File) -> Result<Map<String, Value>, Error> {
    let problem = match yaml::to_json(&file.data) {
        Ok(Value::Object(entries)) => return Ok(entries),
        Ok(Value::Null) => return Ok(Map::new()),
        Ok(other) => format!("it is no map, but of the type {}", metadata::json_kind(&other)),
        Err(error) => error.to_string(),
    };
    Err(Error::Chart(format!("cannot load {}: {problem}", file.name)))
}

fn within(file: &File, error: Error) -> Error {
    match error {
        Error::Chart(text) => Error::Chart(format!("cannot load {}: {text}", file.name)),
        other => other,
    }
}

/// Helm's warnings about files that format v2 does not use. Charts of format v1 see them in `.Files`.
fn moved(what: &str, advice: &str) -> Warning {
    Warning::from(format!(
        "Warning: {what} since apiVersion \"v2\". We recommend migrating {advice}."
    ))
}

fn is_crd(name: &str) -> bool {
    let extension = name
        .rsplit_once('.')
        .map_or("", |(_, extension)| extension)
        .to_ascii_lowercase();
    name.starts_with("crds/") && matches!(extension.as_str(), "yaml" | "yml" | "json")
}
