//! A chart's files, sorted by role into a [`Chart`]. Facts: Helm's `pkg/chart/v2/loader/load.go`.

use std::collections::HashMap;

use super::archive::Budget;
use super::schema::Schema;
use super::{Chart, Error, File, Format, Frozen, Metadata, Warning, archive, metadata, values};
use go_yaml as yaml;
use serde_json::{Map, Value};

/// Which of Helm's loaders reads the chart with this `Chart.yaml`.
///
/// # Errors
/// A format that Helm doesn't know.
pub(super) fn format(file: &File) -> Result<Format, Error> {
    let metadata = Metadata::read(&read(file)?).map_err(|e| within(file, e))?;
    match metadata.api_version.as_str() {
        "" | "v1" | "v2" => Ok(Format::Released),
        "v3" => Ok(Format::V3),
        _ => Err(Error::Chart("unsupported chart version".to_owned())),
    }
}

/// Builds a chart, and the charts in its `charts/`, from files in the loader's order.
pub(super) fn assemble(files: Vec<File>, format: Format, warnings: &mut Vec<Warning>) -> Result<Chart, Error> {
    let mut tree = Tree {
        format,
        warnings,
        budget: Budget::of_all(),
        depth: 0,
    };
    tree.build(files)
}

/// What all charts of a tree have in common while they are built.
struct Tree<'w> {
    format: Format,
    warnings: &'w mut Vec<Warning>,
    /// For the archives in it.
    budget: Budget,
    /// How many charts are around the one that is built.
    depth: usize,
}

/// How deep charts may nest. Helm bounds it by its stack.
const MAX_DEPTH: usize = 64;

impl Tree<'_> {
    fn build(&mut self, files: Vec<File>) -> Result<Chart, Error> {
        let format = self.format;
        let mut chart = Chart {
            format,
            ..Chart::default()
        };
        let mut subcharts: Vec<(String, Vec<File>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut metadata = None;
        if let Some(file) = files.iter().rfind(|file| file.name == "Chart.yaml") {
            let document = metadata.insert(read(file)?);
            chart.metadata = self.metadata(document, file)?;
        }
        let mut has_metadata = metadata.is_some();
        for file in files {
            match file.name.as_str() {
                "Chart.yaml" => {}
                "Chart.lock" => drop(read(&file)?),
                "values.yaml" => {
                    let values = values::read(&file.data);
                    let values = values.map_err(|e| Error::Chart(format!("cannot load values.yaml: {e}")))?;
                    chart.values = Frozen::new(values);
                }
                "values.schema.json" => chart.schema = Some(Schema::new(file.data)),
                "requirements.yaml" if format == Format::Released => {
                    has_metadata = true;
                    if !chart.is_v1() {
                        self.warnings.push(moved(
                            "Dependencies are handled in Chart.yaml",
                            "dependencies to Chart.yaml",
                        ));
                    }
                    let document = metadata.get_or_insert_default();
                    document.extend(read(&file)?);
                    chart.metadata = self.metadata(document, &file)?;
                    if chart.is_v1() {
                        chart.files.push(file);
                    }
                }
                "requirements.lock" if format == Format::Released => {
                    has_metadata = true;
                    read(&file)?;
                    match chart.is_v1() {
                        true => chart.files.push(file),
                        false => self
                            .warnings
                            .push(moved("Dependency locking is handled in Chart.lock", "to Chart.lock")),
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
                    match places.get(&folder) {
                        Some(place) => subcharts[*place].1.push(file),
                        None => {
                            places.insert(folder.clone(), subcharts.len());
                            subcharts.push((folder, vec![file]));
                        }
                    }
                }
                _ => chart.files.push(file),
            }
        }
        if !has_metadata {
            return Err(Error::Chart("Chart.yaml file is missing".to_owned()));
        }
        chart.metadata.validate()?;
        chart.crds = chart.files.iter().filter(|file| is_crd(&file.name)).cloned().collect();
        for (folder, files) in subcharts {
            if folder.starts_with(['_', '.']) {
                continue;
            }
            if folder.ends_with(".tgz")
                && let Some(file) = files.first().filter(|file| file.name != folder)
            {
                return Err(Error::Chart(format!(
                    "error unpacking subchart tar in {}: expected {folder}, got {}",
                    chart.metadata.name, file.name
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
                parent: chart.metadata.name.clone(),
                source: Box::new(source),
            })?;
            self.depth -= 1;
            chart.dependencies.push(subchart);
        }
        Ok(chart)
    }

    fn metadata(&self, document: &Map<String, Value>, file: &File) -> Result<Metadata, Error> {
        let mut metadata = Metadata::read(document).map_err(|e| within(file, e))?;
        if metadata.api_version.is_empty() {
            metadata.api_version = match self.format {
                Format::Released => "v1".to_owned(),
                Format::V3 => "v3".to_owned(),
            };
        }
        Ok(metadata)
    }

    fn load_subchart(&mut self, folder: &str, files: Vec<File>) -> Result<Chart, Error> {
        if folder.ends_with(".tgz") {
            let Some(file) = files.first() else {
                return Err(Error::Chart("no files in chart archive".to_owned()));
            };
            let files = archive::unpack(&file.name, &file.data, &mut self.budget)?;
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

/// What Helm says of the files that format v2 has no use for. Charts of format v1 see them in `.Files`.
fn moved(what: &str, advice: &str) -> Warning {
    Warning::plain(format!(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::archive;

    #[test]
    fn archives_of_a_chart_have_one_budget() {
        let chart_yaml = "apiVersion: v2\nname: x\nversion: 1.0.0\n";
        let sub = archive(&[("x/Chart.yaml", chart_yaml.as_bytes()), ("x/large", &[b'-'; 10_000])]);
        let file = |name: &str, data: &[u8]| File {
            name: name.to_owned(),
            data: data.into(),
        };
        let build = |limit| {
            let mut tree = Tree {
                format: Format::Released,
                warnings: &mut Vec::new(),
                budget: Budget::new(limit),
                depth: 0,
            };
            let files = vec![
                file("Chart.yaml", chart_yaml.as_bytes()),
                file("charts/a.tgz", &sub),
                file("charts/b/Chart.yaml", chart_yaml.as_bytes()),
                file("charts/b/charts/c.tgz", &sub),
            ];
            tree.build(files)
        };
        assert_eq!(build(30_000).unwrap().dependencies.len(), 2);
        assert_eq!(
            build(20_000).unwrap_err().to_string(),
            "error unpacking subchart b in x: error unpacking subchart c.tgz in x: file 'c.tgz' can't be unpacked: archives \
             take more than the limit of 20000 bytes when they are unpacked, names and headers included"
        );
    }
}
