//! The schema of everything that a custom resource may say: a chart's values, and under their keys those of its subcharts.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use helm_template::Chart;
use helm_template::chart::{self, File, version};
use serde_json::{Map, Value};

use super::comments::Comments;
use super::infer::{self, infer};
use super::schema::{FieldSchema, SchemaType, like_both};
use super::structural::{At, Converter};
use super::usage::Usage;

/// The values of a chart with their text, which the loader of charts doesn't keep.
pub struct ChartValues {
    pub chart: Chart,
    values: String,
    subcharts: Vec<ChartValues>,
}

/// What a custom resource's values are made of.
pub struct Values {
    pub schema: FieldSchema,
    /// The default values, those of subcharts under their keys.
    pub defaults: Map<String, Value>,
    pub warnings: Vec<String>,
}

impl ChartValues {
    /// Reads a folder or a `.tgz`.
    ///
    /// # Errors
    /// What is no chart.
    pub fn load(path: &Path) -> Result<Self> {
        let chart = Chart::load(path).with_context(|| path.display().to_string())?;
        let files = chart::read_files(path).with_context(|| path.display().to_string())?;
        ChartValues::of(chart, files)
    }

    /// The same from the files of a folder, which make this chart.
    ///
    /// # Errors
    /// A subchart that is no chart.
    pub fn of(mut chart: Chart, files: Vec<File>) -> Result<Self> {
        let text = files.iter().find(|file| file.name == "values.yaml");
        let values = text.map_or_else(String::new, |file| file.data.to_text().into_owned());
        let mut subcharts = Vec::new();
        let mut loaded = std::mem::take(&mut chart.dependencies);
        for files in folders(files)? {
            let about = files.iter().find(|file| file.name == "Chart.yaml");
            let about = about
                .and_then(|file| go_yaml::to_json(file.data.as_bytes()).ok())
                .unwrap_or_default();
            let text = |key: &str| about.get(key).and_then(go_yaml::text).unwrap_or_default();
            let (name, version) = (text("name"), text("version"));
            let is_it = |chart: &Chart| chart.metadata.name == name && chart.metadata.version == version;
            if let Some(at) = loaded.iter().position(is_it) {
                subcharts.push(ChartValues::of(loaded.swap_remove(at), files)?);
            }
        }
        Ok(ChartValues {
            chart,
            values,
            subcharts,
        })
    }

    /// The subcharts under the keys of their values. What isn't there is named in `missing`.
    fn keyed(&self, missing: &mut Vec<String>) -> Vec<(String, &ChartValues)> {
        let mut keyed = Vec::new();
        let mut declared = vec![false; self.subcharts.len()];
        for dependency in &self.chart.metadata.dependencies {
            let key = [&dependency.alias, &dependency.name]
                .into_iter()
                .find(|name| !name.is_empty());
            let key = key.cloned().unwrap_or_default();
            let is_it = |source: &ChartValues| {
                let found = &source.chart.metadata;
                found.name == dependency.name && version::compatible(&dependency.version, &found.version)
            };
            match self.subcharts.iter().position(is_it) {
                Some(at) => {
                    declared[at] = true;
                    keyed.push((key, &self.subcharts[at]));
                }
                None => missing.push(key),
            }
        }
        let others = self.subcharts.iter().zip(declared).filter(|(_, declared)| !declared);
        keyed.extend(others.map(|(source, _)| (source.chart.metadata.name.clone(), source)));
        keyed.retain(|(_, source)| !source.chart.is_library());
        keyed
    }

    /// How the templates use the chart's own values. A library of a subchart's may print them as well.
    fn usage(&self) -> Usage {
        let mut usage = Usage::of(&self.chart.templates);
        usage.text_for_all |= self.subcharts.iter().any(|source| source.usage().text_for_all);
        usage
    }

    /// The values that a custom resource of this chart may have. `alone`: it is the only source of values.
    pub fn values(&self, alone: bool) -> Result<Values> {
        let mut warnings = Vec::new();
        let defaults = self.defaults();
        let at = Value::Object(defaults.clone());
        let mut schema = self.declared(&at, alone, &mut warnings);
        schema.refine(self.inferred(&mut warnings)?);
        schema.description = String::new();
        schema.default = None;
        Ok(Values {
            schema,
            defaults,
            warnings,
        })
    }

    fn defaults(&self) -> Map<String, Value> {
        let mut defaults = Map::new();
        for (key, source) in self.keyed(&mut Vec::new()) {
            defaults.insert(key, Value::Object(source.defaults()));
        }
        chart::values::merge_maps(&mut defaults, self.chart.values.to_json());
        defaults
    }

    /// What the charts' own schemas say.
    fn declared(&self, defaults: &Value, alone: bool, warnings: &mut Vec<String>) -> FieldSchema {
        let mut schema = match self.own_schema(warnings) {
            Some(text) => {
                let mut converter = Converter::new(&text);
                let schema = converter.values(At::root(defaults, alone));
                let name = self.chart.name();
                warnings.extend(
                    converter
                        .warnings
                        .iter()
                        .map(|warning| format!("{name}/values.schema.json: {warning}")),
                );
                schema
            }
            None => FieldSchema::open_object(),
        };
        for (key, source) in self.keyed(&mut Vec::new()) {
            let child = source.declared(defaults.get(&key).unwrap_or(&Value::Null), alone, warnings);
            let joined = match schema.properties.remove(&key) {
                Some(own) if own.kind == SchemaType::Object => own.meet(child),
                Some(own) => FieldSchema {
                    description: own.description,
                    ..child
                },
                // The schema refuses this key, so no user can set it.
                None if !schema.open => continue,
                None => child,
            };
            schema.properties.insert(key, joined);
        }
        schema
    }

    fn own_schema(&self, warnings: &mut Vec<String>) -> Option<Value> {
        let text = self.chart.schema.as_ref()?.text();
        let parsed = serde_json::from_slice(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text));
        if let Err(error) = &parsed {
            let (name, line) = (self.chart.name(), error.line());
            warnings.push(format!(
                "{name}/values.schema.json:{line}: {error}: it is left out of account"
            ));
        }
        parsed.ok()
    }

    /// What the charts' default values suggest.
    fn inferred(&self, warnings: &mut Vec<String>) -> Result<FieldSchema> {
        let name = self.chart.name();
        let parsed = go_yaml::parse(self.values.as_bytes()).with_context(|| format!("{name}/values.yaml"))?;
        let mut schema = infer(&parsed, &Comments::read(&self.values), &self.usage());
        let mut missing = Vec::new();
        for (key, source) in self.keyed(&mut missing) {
            let child = source.inferred(warnings)?;
            let about = &source.chart.metadata;
            let described = format!("Values of the chart {} {}.", about.name, about.version);
            let joined = match schema.properties.remove(&key) {
                Some(own) => laid_over(own, child),
                None => child,
            };
            let description = [&joined.description, &described]
                .into_iter()
                .find(|text| !text.is_empty());
            let description = description.cloned().unwrap_or_default();
            schema.properties.insert(key, FieldSchema { description, ..joined });
        }
        if !missing.is_empty() {
            warnings.push(format!(
                "{name}: not in charts/, so their values are open: {}; `helm dependency build` fetches them",
                missing.join(", ")
            ));
        }
        // What the charts below read of the values for all of them.
        let globals = schema
            .properties
            .values()
            .filter_map(|child| child.properties.get("global"))
            .cloned();
        let globals: Vec<FieldSchema> = globals.filter(|global| global.kind == SchemaType::Object).collect();
        if let Some(below) = globals.into_iter().reduce(like_both) {
            let joined = match schema.properties.remove("global") {
                Some(own) if own.kind == SchemaType::Object => laid_over(own, below),
                Some(own) => own,
                None => below,
            };
            schema.properties.insert("global".into(), joined);
        }
        Ok(schema)
    }
}

/// What a chart has in its own `values.yaml` for a subchart, over that one's: its defaults and words win, its types only where
/// they have to.
fn laid_over(own: FieldSchema, child: FieldSchema) -> FieldSchema {
    if own.kind != SchemaType::Object || child.kind != SchemaType::Object {
        let (description, default) = (own.description.clone(), own.default.clone());
        let child_description = child.description.clone();
        let mut joined = own.union(child);
        joined.description = if description.is_empty() {
            child_description
        } else {
            description
        };
        joined.default = default;
        return joined;
    }
    let mut joined = child;
    for (key, value) in own.properties {
        let value = match joined.properties.remove(&key) {
            Some(below) => laid_over(value, below),
            None => value,
        };
        joined.properties.insert(key, value);
    }
    if !own.description.is_empty() {
        joined.description = own.description;
    }
    joined
}

/// The files of each chart below `charts/`.
fn folders(files: Vec<File>) -> Result<Vec<Vec<File>>> {
    let mut folders: Vec<(String, Vec<File>)> = Vec::new();
    for file in files {
        let Some(rest) = file.name.strip_prefix("charts/") else {
            continue;
        };
        let (folder, name) = rest.split_once('/').unwrap_or((rest, ""));
        if folder.starts_with(['_', '.']) || folder.ends_with(".prov") {
            continue;
        }
        if name.is_empty() {
            if folder.ends_with(".tgz") {
                let unpacked = chart::unpack_files(&PathBuf::from(folder), file.data.as_bytes());
                folders.push((folder.to_owned(), unpacked.with_context(|| folder.to_owned())?));
            }
            continue;
        }
        let inner = File {
            name: name.to_owned(),
            data: file.data.clone(),
        };
        match folders.iter_mut().find(|(known, _)| known == folder) {
            Some((_, files)) => files.push(inner),
            None => folders.push((folder.to_owned(), vec![inner])),
        }
    }
    Ok(folders.into_iter().map(|(_, files)| files).collect())
}

/// The default values as a custom resource can say them, with those of subcharts.
pub fn as_spec(source: &ChartValues) -> Result<Value> {
    let mut spec = Map::new();
    for (key, below) in source.keyed(&mut Vec::new()) {
        spec.insert(key, as_spec(below)?);
    }
    if let Value::Object(own) = own_as_spec(source)? {
        chart::values::merge_maps(&mut spec, own);
    }
    Ok(Value::Object(spec))
}

/// What the chart's own `values.yaml` says; whole numbers stay such.
pub fn own_as_spec(source: &ChartValues) -> Result<Value> {
    Ok(infer::to_json(&go_yaml::parse(source.values.as_bytes())?))
}
