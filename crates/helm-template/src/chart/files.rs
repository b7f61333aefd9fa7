//! A chart's files, sorted by role into a [`Chart`]. Facts: Helm's `pkg/chart/v2/loader/load.go`.

use std::collections::HashMap;

use super::archive::Budget;
use super::schema::Schema;
use super::{Chart, Error, File, Format, Frozen, Metadata, Warning, archive, metadata};
use go_template::Str;
use go_yaml::{self as yaml, GoType};

/// The root's `Chart.yaml`, which is looked into before all else.
pub(super) struct Head {
    pub format: Format,
    text: Str,
    document: serde_json::Value,
}

/// Looks into the root's `Chart.yaml`.
///
/// # Errors
/// A format that Helm doesn't know.
pub(super) fn head(file: &File) -> Result<Head, Error> {
    let explain = |e: yaml::Error| Error::Chart(format!("cannot load {}: {e}", file.name));
    let [base, document] =
        yaml::to_json_of_each(&file.data, [&metadata::CHART_BASE, &metadata::CHART]).map_err(explain)?;
    let version = metadata::api_version(&base.map_err(explain)?).map_err(|e| within(file, e))?;
    let format = match version.as_str() {
        "" | "v1" | "v2" => Format::Released,
        "v3" => Format::V3,
        _ => return Err(Error::Chart("unsupported chart version".to_owned())),
    };
    let document = document.map_err(explain)?;
    Ok(Head {
        format,
        text: file.data.clone(),
        document,
    })
}

/// Builds a chart, and the charts in its `charts/`, from files in the loader's order.
pub(super) fn assemble(files: Vec<File>, head: &Head, warnings: &mut Vec<Warning>) -> Result<Chart, Error> {
    let mut tree = Tree {
        format: head.format,
        warnings,
        budget: Budget::of_all(),
        depth: 0,
    };
    tree.build(files, Some(head))
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
    fn build(&mut self, files: Vec<File>, head: Option<&Head>) -> Result<Chart, Error> {
        let format = self.format;
        let mut chart = Chart {
            format,
            ..Chart::default()
        };
        let mut subcharts: Vec<(String, Vec<File>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut has_metadata = false;
        // An archive may hold it more than once: each is read over what those before it said.
        for file in files.iter().filter(|file| file.name == "Chart.yaml") {
            has_metadata = true;
            match head.filter(|head| head.text == file.data) {
                Some(head) => chart.metadata.apply(&head.document).map_err(|e| within(file, e))?,
                None => apply(&mut chart.metadata, file)?,
            }
            if chart.metadata.api_version.is_empty() {
                chart.metadata.api_version = match format {
                    Format::Released => "v1".to_owned(),
                    Format::V3 => "v3".to_owned(),
                };
            }
        }
        for file in files {
            match file.name.as_str() {
                "Chart.yaml" => {}
                "Chart.lock" => check_lock(&file)?,
                "values.yaml" => {
                    let values = Frozen::read(&file.data);
                    chart.values = values.map_err(|e| Error::Chart(format!("cannot load values.yaml: {e}")))?;
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
                    apply(&mut chart.metadata, &file)?;
                    // It may have set another `apiVersion`.
                    if chart.is_v1() {
                        chart.files.push(file);
                    }
                }
                "requirements.lock" if format == Format::Released => {
                    has_metadata = true;
                    check_lock(&file)?;
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

    fn load_subchart(&mut self, folder: &str, files: Vec<File>) -> Result<Chart, Error> {
        if folder.ends_with(".tgz") {
            let Some(file) = files.first() else {
                return Err(Error::Chart("no files in chart archive".to_owned()));
            };
            let files = archive::unpack(&file.name, &file.data, &mut self.budget)?;
            return self.build(files, None);
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
        self.build(inner, None)
    }
}

fn read(file: &File, kind: &GoType) -> Result<serde_json::Value, Error> {
    yaml::to_json_of(&file.data, kind).map_err(|e| Error::Chart(format!("cannot load {}: {e}", file.name)))
}

fn within(file: &File, error: Error) -> Error {
    match error {
        Error::Chart(text) => Error::Chart(format!("cannot load {}: {text}", file.name)),
        other => other,
    }
}

fn apply(metadata: &mut Metadata, file: &File) -> Result<(), Error> {
    metadata
        .apply(&read(file, &metadata::CHART)?)
        .map_err(|e| within(file, e))
}

/// A lock file is only used by commands that fetch dependencies, but a broken one is refused all the same.
fn check_lock(file: &File) -> Result<(), Error> {
    metadata::check_lock(&read(file, &metadata::LOCK_FILE)?).map_err(|e| within(file, e))
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
            tree.build(files, None)
        };
        assert_eq!(build(30_000).unwrap().dependencies.len(), 2);
        assert_eq!(
            build(20_000).unwrap_err().to_string(),
            "error unpacking subchart b in x: error unpacking subchart c.tgz in x: file 'c.tgz' can't be unpacked: archives \
             take more than the limit of 20000 bytes when they are unpacked, names and headers included"
        );
    }
}
