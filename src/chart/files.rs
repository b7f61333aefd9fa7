//! A chart's files, sorted by role into a [`Chart`]. Facts: Helm's `pkg/chart/v2/loader/load.go`.

use std::collections::HashMap;

use super::archive::Budget;
use super::schema::Schema;
use super::{Chart, Error, File, Format, Frozen, Metadata, Purpose, Schemas, Warning, archive, metadata};
use crate::template::go::Str;
use crate::template::go::parallel::Promise;
use crate::yaml::{self, GoType};

/// How many bytes of a schema or of values are worth another thread.
pub(super) const WORTH: usize = 16 << 10;

/// A file, and what was begun of it before its turn.
pub(super) struct Entry {
    pub file: File,
    begun: Begun,
}

enum Begun {
    Nothing,
    Values(Promise<Result<Frozen, String>>),
    Schema(Schema),
}

impl From<File> for Entry {
    fn from(file: File) -> Self {
        Entry {
            file,
            begun: Begun::Nothing,
        }
    }
}

impl Entry {
    /// An entry for a file that is read before the others. If it is large, the helper begins with it.
    pub fn ahead(file: File, purpose: &Purpose<'_>) -> Self {
        let mut entry = Entry::from(file);
        if entry.file.data.len() >= WORTH {
            entry.begin_schema(purpose);
            purpose.helper.fulfil(entry.promise().into_iter().collect());
        }
        entry
    }

    /// Has the helper begin with a schema that it hasn't begun with, if schemas are to be compiled at once.
    fn begin_schema(&mut self, purpose: &Purpose<'_>) {
        if purpose.schemas == Schemas::AtOnce && self.is_untouched("values.schema.json") {
            let text = self.file.data.clone();
            self.begun = Begun::Schema(Schema::compiling(text, &purpose.helper));
        }
    }

    /// The values, if it is a file of them that wasn't begun.
    fn promise(&mut self) -> Option<Promise<Result<Frozen, String>>> {
        if !self.is_untouched("values.yaml") {
            return None;
        }
        let (text, depth) = (self.file.data.clone(), yaml::max_depth());
        let promise = Promise::new(move || yaml::with_max_depth(depth, || Frozen::read(&text)));
        self.begun = Begun::Values(promise.clone());
        Some(promise)
    }

    fn is_untouched(&self, name: &str) -> bool {
        matches!(self.begun, Begun::Nothing) && role(&self.file.name) == name
    }
}

/// Has the helper begin with what is large of a chart's files.
pub(super) fn begin(mut files: Vec<Entry>, purpose: &Purpose<'_>) -> Vec<Entry> {
    let values = files.iter().filter(|entry| entry.is_untouched("values.yaml"));
    // Without the first, which this thread is busy with meanwhile.
    if values.skip(1).map(|entry| entry.file.data.len()).sum::<usize>() >= WORTH {
        // From the last on: whoever asks for them meanwhile starts with the first.
        let promises = files.iter_mut().rev().filter_map(Entry::promise);
        purpose.helper.fulfil(promises.collect());
    }
    let large = files.iter_mut().filter(|entry| entry.file.data.len() >= WORTH);
    large.for_each(|entry| entry.begin_schema(purpose));
    files
}

/// The name of a chart's file, or of a subchart's, within its chart.
fn role(mut name: &str) -> &str {
    while let Some((_, inner)) = name.strip_prefix("charts/").and_then(|name| name.split_once('/')) {
        name = inner;
    }
    name
}

/// The root's `Chart.yaml`, which is looked into before all else.
pub(super) struct Head {
    pub format: Format,
    pub name: String,
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
    let name = document.get("name").and_then(serde_json::Value::as_str);
    Ok(Head {
        format,
        name: name.unwrap_or_default().to_owned(),
        text: file.data.clone(),
        document,
    })
}

/// Builds a chart, and the charts in its `charts/`, from files in the loader's order.
pub(super) fn assemble(files: Vec<Entry>, head: &Head, warnings: &mut Vec<Warning>) -> Result<Chart, Error> {
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
    fn build(&mut self, files: Vec<Entry>, head: Option<&Head>) -> Result<Chart, Error> {
        let format = self.format;
        let mut chart = Chart {
            format,
            ..Chart::default()
        };
        let mut subcharts: Vec<(String, Vec<Entry>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut has_metadata = false;
        // An archive may hold it more than once: each is read over what those before it said.
        let own = files.iter().map(|entry| &entry.file);
        for file in own.filter(|file| file.name == "Chart.yaml") {
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
        for Entry { file, begun } in files {
            match file.name.as_str() {
                "Chart.yaml" => {}
                "Chart.lock" => check_lock(&file)?,
                "values.yaml" => {
                    let values = match begun {
                        Begun::Values(promise) => promise.get().clone(),
                        _ => Frozen::read(&file.data),
                    };
                    chart.values = values.map_err(|e| Error::Chart(format!("cannot load values.yaml: {e}")))?;
                }
                "values.schema.json" => {
                    chart.schema = Some(match begun {
                        Begun::Schema(schema) => schema,
                        _ => Schema::new(file.data),
                    });
                }
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
                    let entry = Entry { file, begun };
                    match places.get(&folder) {
                        Some(place) => subcharts[*place].1.push(entry),
                        None => {
                            places.insert(folder.clone(), subcharts.len());
                            subcharts.push((folder, vec![entry]));
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
                && let Some(Entry { file, .. }) = files.first().filter(|entry| entry.file.name != folder)
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

    fn load_subchart(&mut self, folder: &str, files: Vec<Entry>) -> Result<Chart, Error> {
        if folder.ends_with(".tgz") {
            let Some(Entry { file, .. }) = files.first() else {
                return Err(Error::Chart("no files in chart archive".to_owned()));
            };
            let files = archive::unpack(&file.data, &mut self.budget)?;
            return self.build(files.into_iter().map(Entry::from).collect(), None);
        }
        let inner = files
            .into_iter()
            .filter_map(|Entry { file, begun }| {
                let (_, name) = file.name.split_once('/')?;
                let file = File {
                    name: name.to_owned(),
                    data: file.data,
                };
                Some(Entry { file, begun })
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
        let file = |name: &str, data: &[u8]| {
            Entry::from(File {
                name: name.to_owned(),
                data: data.into(),
            })
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
            "error unpacking subchart b in x: error unpacking subchart c.tgz in x: archives take more than the limit of \
             20000 bytes when they are unpacked, names and headers included"
        );
    }

    #[test]
    fn what_was_begun_is_not_begun_again() {
        let large = |name: &str| File {
            name: name.to_owned(),
            data: " ".repeat(WORTH).into(),
        };
        let begun = |name: &str, begun: Begun| Entry {
            file: large(name),
            begun,
        };
        let purpose = Purpose {
            schemas: Schemas::AtOnce,
            ..Purpose::default()
        };
        let values = Promise::new(|| Err("mine".to_owned()));
        let schema = Schema::new("mine".into());
        let files = vec![
            begun("charts/a/values.yaml", Begun::Nothing),
            begun("charts/a/values.schema.json", Begun::Nothing),
            begun("charts/b/values.yaml", Begun::Nothing),
            begun("templates/values.yaml", Begun::Nothing),
            begun("values.schema.json", Begun::Schema(schema)),
            begun("values.yaml", Begun::Values(values)),
        ];
        let files = begin(files, &purpose);
        let told: Vec<String> = files
            .iter()
            .map(|entry| match &entry.begun {
                Begun::Nothing => "nothing".to_owned(),
                Begun::Values(promise) => format!("values {:?}", promise.get().as_ref().err()),
                Begun::Schema(schema) => format!("schema of {}", schema.text().len()),
            })
            .collect();
        let want = [
            "values None",
            "schema of 16384",
            "values None",
            "nothing",
            "schema of 4",
            "values Some(\"mine\")",
        ];
        assert_eq!(told, want);
    }
}
