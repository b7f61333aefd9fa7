//! A chart's files, sorted by role into a [`Chart`]. Facts: Helm's `pkg/chart/v2/loader/load.go`.

use super::schema::Schema;
use super::{Chart, Error, File, Format, Frozen, Metadata, Warning, archive, metadata, values};

/// The chart's format, from the root's `Chart.yaml`.
///
/// # Errors
/// A format that Helm doesn't know.
pub(super) fn detect_format(file: &File) -> Result<Format, Error> {
    let version = read(file).and_then(|document| metadata::api_version(&document).map_err(|e| within(file, e)))?;
    match version.as_str() {
        "" | "v1" | "v2" => Ok(Format::Released),
        "v3" => Ok(Format::V3),
        _ => Err(Error::Chart("unsupported chart version".to_owned())),
    }
}

/// Builds a chart, and the charts in its `charts/`, from files in the loader's order.
pub(super) fn assemble(files: Vec<File>, format: Format) -> Result<Chart, Error> {
    let mut chart = Chart {
        format,
        ..Chart::default()
    };
    let mut subcharts: Vec<(String, Vec<File>)> = Vec::new();
    let mut has_metadata = false;
    // An archive may hold it more than once: each is read over what those before it said.
    for file in files.iter().filter(|file| file.name == "Chart.yaml") {
        has_metadata = true;
        apply(&mut chart.metadata, file)?;
        if chart.metadata.api_version.is_empty() {
            chart.metadata.api_version = match format {
                Format::Released => "v1".to_owned(),
                Format::V3 => "v3".to_owned(),
            };
        }
    }
    let is_v1 = chart.metadata.api_version == "v1";
    for file in files {
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => check_lock(&file)?,
            "values.yaml" => {
                let values =
                    values::read(&file.data).map_err(|e| Error::Chart(format!("cannot load values.yaml: {e}")))?;
                chart.values = Frozen::new(&values);
            }
            "values.schema.json" => chart.schema = Some(Schema::new(file.data)),
            "requirements.yaml" if format == Format::Released => {
                has_metadata = true;
                apply(&mut chart.metadata, &file)?;
                keep_v1(
                    &mut chart,
                    file,
                    is_v1,
                    "Dependencies are handled in Chart.yaml",
                    "dependencies to Chart.yaml",
                );
            }
            "requirements.lock" if format == Format::Released => {
                has_metadata = true;
                check_lock(&file)?;
                keep_v1(
                    &mut chart,
                    file,
                    is_v1,
                    "Dependency locking is handled in Chart.lock",
                    "to Chart.lock",
                );
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
                    Some((_, list)) => list.push(file),
                    None => subcharts.push((folder, vec![file])),
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
        let subchart = load_subchart(&folder, files, format).map_err(|source| Error::Subchart {
            name: folder,
            parent: chart.metadata.name.clone(),
            source: Box::new(source),
        })?;
        chart.warnings.extend(subchart.warnings.iter().cloned());
        chart.dependencies.push(subchart);
    }
    Ok(chart)
}

fn load_subchart(folder: &str, files: Vec<File>, format: Format) -> Result<Chart, Error> {
    if folder.ends_with(".tgz") {
        let Some(file) = files.first() else {
            return Err(Error::Chart("no files in chart archive".to_owned()));
        };
        return assemble(archive::unpack(&file.data)?, format);
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
    assemble(inner, format)
}

fn read(file: &File) -> Result<serde_json::Value, Error> {
    metadata::read(&file.data).map_err(|e| Error::Chart(format!("cannot load {}: {e}", file.name)))
}

fn within(file: &File, error: Error) -> Error {
    match error {
        Error::Chart(text) => Error::Chart(format!("cannot load {}: {text}", file.name)),
        other => other,
    }
}

fn apply(metadata: &mut Metadata, file: &File) -> Result<(), Error> {
    metadata.apply(&read(file)?).map_err(|e| within(file, e))
}

/// A lock file is only used by commands that fetch dependencies, but a broken one is refused all the same.
fn check_lock(file: &File) -> Result<(), Error> {
    metadata::check_lock(&read(file)?).map_err(|e| within(file, e))
}

/// Charts of format v1 see their requirements files in `.Files`; others get a warning.
fn keep_v1(chart: &mut Chart, file: File, is_v1: bool, what: &str, advice: &str) {
    if is_v1 {
        chart.files.push(file);
    } else {
        chart.warnings.push(Warning::plain(format!(
            "Warning: {what} since apiVersion \"v2\". We recommend migrating {advice}."
        )));
    }
}

fn is_crd(name: &str) -> bool {
    let extension = name
        .rsplit_once('.')
        .map_or("", |(_, extension)| extension)
        .to_ascii_lowercase();
    name.starts_with("crds/") && matches!(extension.as_str(), "yaml" | "yml" | "json")
}
