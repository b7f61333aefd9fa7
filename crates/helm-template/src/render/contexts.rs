//! The enabled charts of a render, and the data that each of their templates sees. Facts: Helm's `recAllTpls` and
//! `sortTemplates` in `pkg/engine/engine.go`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::Input;
use super::templates::{ChartId, Enabled};
use crate::chart::dependencies::ChartNode;
use crate::chart::{File, Metadata, values};
use crate::helm::CapabilityQueries;
use crate::helm::objects::data;
use go_template::{Entries, Map, MapKind, Str, Value};

/// One template file of a render.
pub(super) struct TemplateFile {
    /// The full path, under which the template was parsed.
    pub name: String,
    base_path: String,
    context: Map,
}

impl TemplateFile {
    /// The file's `.`: its chart's context, with `.Template` set to this file. All files of a chart share the map.
    pub fn data(&self) -> Value {
        values::put(&self.context, "Template", data::template(&self.name, &self.base_path));
        Value::Map(self.context.with_kind(data::VALUES))
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The enabled charts by path.
pub(super) fn enabled(node: &ChartNode<'_>, found: &mut Enabled) {
    found.push((node.path.clone(), ChartId::of(node.chart)));
    node.dependencies.iter().for_each(|child| enabled(child, found));
}

/// The `crds/` files of the charts that take part, the parents' first.
pub(super) fn crds(node: &ChartNode<'_>, found: &mut Vec<File>) {
    let own = node.chart.crds.iter();
    found.extend(own.map(|file| File {
        name: format!("{}/{}", node.path, file.name),
        data: file.data.clone(),
    }));
    node.dependencies.iter().for_each(|child| crds(child, found));
}

/// The template files of the charts that take part with their full paths, in the order in which Helm parses and
/// renders them: the deepest first, within a depth the last by name first.
pub(super) fn sources<'n>(node: &ChartNode<'n>) -> Vec<(String, &'n File)> {
    let mut found = BTreeMap::new();
    collect_sources(node, &mut found);
    // By name they are sorted already.
    let mut files: Vec<(String, &File)> = found.into_iter().rev().collect();
    files.sort_by_cached_key(|(name, _)| Reverse(depth(name)));
    files
}

fn depth(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

fn collect_sources<'n>(node: &ChartNode<'n>, found: &mut BTreeMap<String, &'n File>) {
    node.dependencies.iter().for_each(|child| collect_sources(child, found));
    for file in &node.chart.templates {
        // A library contributes only its partials.
        if !node.chart.is_library() || base_name(&file.name).starts_with('_') {
            found.insert(format!("{}/{}", node.path, file.name), file);
        }
    }
}

/// The template files that are rendered, with their data, in the order of [`sources`]: partials only define templates
/// for others.
pub(super) fn files(
    cache: &HashMap<ChartId, Vec<(Str, Str)>>,
    node: &ChartNode<'_>,
    values: &Map,
    input: &Input<'_>,
    queries: &CapabilityQueries,
) -> Vec<TemplateFile> {
    let mut build = Build::new(cache, input, queries);
    build.chart(node, Some(values.clone()), true);
    let rendered = sources(node)
        .into_iter()
        .filter(|(name, _)| !base_name(name).starts_with('_'));
    let files = rendered.filter_map(|(name, file)| {
        let chart_path = name.strip_suffix(file.name.as_str())?.strip_suffix('/')?;
        let context = build.contexts.get(chart_path)?.clone();
        let base_path = format!("{chart_path}/templates");
        Some(TemplateFile {
            name,
            base_path,
            context,
        })
    });
    files.collect()
}

/// The data for a file of the root chart that is not one of its templates.
pub(super) fn of_root(
    cache: &HashMap<ChartId, Vec<(Str, Str)>>,
    node: &ChartNode<'_>,
    values: &Map,
    input: &Input<'_>,
    path: &str,
) -> Value {
    let context = Build::new(cache, input, &CapabilityQueries::default()).chart(node, Some(values.clone()), true);
    let file = TemplateFile {
        name: path.to_owned(),
        base_path: node.path.clone(),
        context,
    };
    file.data()
}

struct Build<'b> {
    cache: &'b HashMap<ChartId, Vec<(Str, Str)>>,
    release: Value,
    capabilities: Value,
    more: Vec<(&'static str, Value)>,
    /// The context maps by the charts' paths.
    contexts: HashMap<String, Map>,
}

impl<'b> Build<'b> {
    fn new(cache: &'b HashMap<ChartId, Vec<(Str, Str)>>, input: &Input<'_>, queries: &CapabilityQueries) -> Self {
        let more = input.more.iter().map(|(name, value)| (*name, Value::from_json(value)));
        Build {
            cache,
            release: input.release.to_value(),
            capabilities: input.capabilities.recording(queries),
            more: more.collect(),
            contexts: HashMap::new(),
        }
    }

    fn chart(&mut self, node: &ChartNode<'_>, own_values: Option<Map>, is_root: bool) -> Map {
        let own_values = own_values.unwrap_or_else(|| Map::new(MapKind::Any, Entries::new()));
        let files = self.cache.get(&ChartId::of(node.chart)).map_or(&[][..], Vec::as_slice);
        let subcharts = Map::new(MapKind::Any, Entries::new());
        let entries = [
            ("Chart", metadata(&node.metadata, is_root)),
            ("Files", data::files(files)),
            ("Release", self.release.clone()),
            ("Capabilities", self.capabilities.clone()),
            ("Values", Value::Map(own_values.with_kind(data::VALUES))),
            ("Subcharts", Value::Map(subcharts.clone())),
        ];
        let context = Map::new(
            MapKind::Any,
            entries
                .into_iter()
                .chain(self.more.iter().cloned())
                .map(|(key, value)| (Str::from(key), value))
                .collect(),
        );
        for child in &node.dependencies {
            // A subchart's values are the very map that stands in its parent's.
            let child_values = values::table(&own_values, child.name());
            let child_context = self.chart(child, child_values, false);
            values::put(&subcharts, child.name(), Value::Map(child_context));
        }
        self.contexts.insert(node.path.clone(), context.clone());
        context
    }
}

/// An entry of `import-values`: a `map[string]string` once the dependencies are processed.
fn import_value(entry: &serde_json::Value) -> Value {
    match Value::from_json(entry) {
        Value::Map(map) => Value::Map(map.with_kind(MapKind::String)),
        other => other,
    }
}

/// `.Chart`
fn metadata(metadata: &Metadata, is_root: bool) -> Value {
    let text = |text: &String| Value::string(text.as_str());
    let maintainers = metadata.maintainers.iter().map(|maintainer| {
        data::entries([
            ("Name", text(&maintainer.name)),
            ("Email", text(&maintainer.email)),
            ("URL", text(&maintainer.url)),
        ])
    });
    let dependencies = metadata.dependencies.iter().map(|dependency| {
        data::entries([
            ("Name", text(&dependency.name)),
            ("Version", text(&dependency.version)),
            ("Repository", text(&dependency.repository)),
            ("Condition", text(&dependency.condition)),
            ("Tags", data::texts(&dependency.tags)),
            ("Enabled", Value::Bool(dependency.enabled)),
            (
                "ImportValues",
                Value::list(dependency.import_values.iter().map(import_value).collect()),
            ),
            ("Alias", text(&dependency.alias)),
        ])
    });
    data::entries([
        ("Name", text(&metadata.name)),
        ("Home", text(&metadata.home)),
        ("Sources", data::texts(&metadata.sources)),
        ("Version", text(&metadata.version)),
        ("Description", text(&metadata.description)),
        ("Keywords", data::texts(&metadata.keywords)),
        ("Maintainers", Value::list(maintainers.collect())),
        ("Icon", text(&metadata.icon)),
        ("APIVersion", text(&metadata.api_version)),
        ("Condition", text(&metadata.condition)),
        ("Tags", text(&metadata.tags)),
        ("AppVersion", text(&metadata.app_version)),
        ("Deprecated", Value::Bool(metadata.deprecated)),
        ("Annotations", data::string_map(metadata.annotations.as_ref())),
        ("KubeVersion", text(&metadata.kube_version)),
        ("Dependencies", Value::list(dependencies.collect())),
        ("Type", text(&metadata.kind)),
        ("IsRoot", Value::Bool(is_root)),
    ])
}
