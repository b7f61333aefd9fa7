//! Decides which subcharts are enabled in a render, with their names and defaults. Facts: Helm's
//! `pkg/chart/v2/util/dependencies.go`.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Value as Json, json};

use super::warning::Level;
use super::{Chart, Dependency, Error, Metadata, Warning, values, version};
use go_template::format;
use go_template::value::{Entries, Map, MapKind, Str, Value};
use go_yaml as yaml;

/// A chart as one render uses it: renamed by its alias, without disabled dependencies, with imported values.
pub struct ChartNode<'a> {
    pub chart: &'a Chart,
    /// Where the chart stands in the tree: `root/charts/sub`. Below a declared chart, Helm's paths can have another's names
    /// ([`ChartNode::is_copy`]).
    pub path: String,
    /// The chart's metadata; its `dependencies` hold the enabled ones only.
    pub metadata: Cow<'a, Metadata>,
    pub defaults: Defaults<'a>,
    pub dependencies: Vec<ChartNode<'a>>,
    /// Whether the charts below it name another as their parent. For a dependency that is declared, Helm copies its chart
    /// and the charts one level below; those below them stay in the original, which has no alias.
    is_copy: bool,
}

/// The default values of a [`ChartNode`].
pub enum Defaults<'a> {
    /// The chart's own `values.yaml`.
    Own(&'a Chart),
    /// `values.yaml` with the subcharts' defaults and the imported values folded in.
    Folded(Map),
}

/// Resolves aliases, tags, conditions and `import-values` for these user values.
///
/// # Errors
/// Values of a wrong type where a subchart's table belongs.
pub fn process<'a>(chart: &'a Chart, user: &Map, warnings: &mut Vec<Warning>) -> Result<ChartNode<'a>, Error> {
    let mut node = ChartNode::new(chart);
    enable(&mut node, user, "", warnings)
        .and_then(|()| import(&mut node, warnings))
        .map_err(|e| {
            let failed = "chart dependencies processing failed";
            warnings.push(Warning::new(Level::Error, failed, [("error", e.to_string())]));
            Error::Values(format!("{failed}: {e}"))
        })?;
    Ok(node)
}

/// Whether a dependency that the chart declares takes part in the render of this node.
pub fn is_on(node: &ChartNode<'_>, dependency: &Dependency) -> bool {
    let name = dependency.effective_name();
    node.metadata.dependencies.iter().any(|enabled| enabled.name == name)
}

/// The dependencies that a chart's own values switch off, by their conditions and tags.
pub fn switched_off(chart: &Chart) -> Vec<&Dependency> {
    let node = process(chart, &Map::new(MapKind::Any, Entries::new()), &mut Vec::new());
    let declared = chart.metadata.dependencies.iter();
    let is_off = |dependency: &&Dependency| node.as_ref().is_ok_and(|node| !is_on(node, dependency));
    declared.filter(is_off).collect()
}

impl<'a> ChartNode<'a> {
    /// The chart with all its dependencies, as they stand on disk.
    pub fn new(chart: &'a Chart) -> Self {
        let mut node = ChartNode::unplaced(chart);
        node.place(None);
        node
    }

    fn unplaced(chart: &'a Chart) -> Self {
        ChartNode {
            chart,
            path: String::new(),
            metadata: Cow::Borrowed(&chart.metadata),
            defaults: Defaults::Own(chart),
            dependencies: chart.dependencies.iter().map(ChartNode::unplaced).collect(),
            is_copy: false,
        }
    }

    /// Sets the path of the chart, and of those that name it as their parent.
    fn place(&mut self, parent: Option<&str>) {
        let path = match parent {
            Some(parent) => format!("{parent}/charts/{}", self.name()),
            None => self.name().to_owned(),
        };
        // A chart can have the name `/`, which is lost when paths are joined.
        self.path = path.trim_end_matches('/').to_owned();
        if !self.is_copy {
            self.place_dependencies();
        }
    }

    fn place_dependencies(&mut self) {
        for child in &mut self.dependencies {
            child.place(Some(&self.path));
        }
    }

    /// The chart as the dependency of another that declares it.
    fn declared(&self, alias: &str) -> Self {
        let mut node = self.original();
        if !alias.is_empty() {
            node.metadata.to_mut().name = alias.to_owned();
        }
        node.is_copy = false;
        node.dependencies.iter_mut().for_each(|child| child.is_copy = true);
        node
    }

    /// A copy of a chart that is not processed yet.
    fn original(&self) -> Self {
        ChartNode {
            chart: self.chart,
            path: self.path.clone(),
            metadata: Cow::Borrowed(&self.chart.metadata),
            defaults: Defaults::Own(self.chart),
            dependencies: self.dependencies.iter().map(ChartNode::original).collect(),
            is_copy: self.is_copy,
        }
    }

    /// The name, or the alias.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl Defaults<'_> {
    /// A copy that the caller may change.
    pub fn copy(&self) -> Map {
        match self {
            Defaults::Own(chart) => chart.values.thaw(),
            Defaults::Folded(map) => values::copy_map(map),
        }
    }
}

fn enable(node: &mut ChartNode<'_>, outer: &Map, path: &str, warnings: &mut Vec<Warning>) -> Result<(), Error> {
    if !node.metadata.has_dependencies {
        return Ok(());
    }
    resolve(node);
    let values = values::coalesce(node, outer, warnings)?;
    let metadata = node.metadata.to_mut();
    let declared = &mut metadata.dependencies;
    for dependency in declared.iter_mut() {
        dependency.enabled = by_tags(dependency, &values, warnings);
    }
    for dependency in declared.iter_mut() {
        if let Some(enabled) = by_condition(dependency, &values, path, warnings) {
            dependency.enabled = enabled;
        }
    }
    // A name is disabled for every chart that has it.
    let disabled = declared.iter().filter(|dependency| !dependency.enabled);
    let disabled: HashSet<String> = disabled.map(|dependency| dependency.name.clone()).collect();
    declared.retain(|dependency| !disabled.contains(&dependency.name));
    metadata.has_dependencies = !declared.is_empty();
    node.dependencies.retain(|child| !disabled.contains(child.name()));
    for child in &mut node.dependencies {
        let path = format!("{path}{}.", child.name());
        enable(child, &values, &path, warnings)?;
    }
    Ok(())
}

/// Replaces the charts on disk by those that `Chart.yaml` declares, with their aliases. A chart that isn't declared,
/// or not in that version, stays as it is and is always enabled.
fn resolve(node: &mut ChartNode<'_>) {
    let matches = |dependency: &Dependency, chart: &Chart| {
        chart.metadata.name == dependency.name && version::compatible(&dependency.version, &chart.metadata.version)
    };
    let metadata = node.metadata.to_mut();
    let declared = |child: &ChartNode<'_>| metadata.dependencies.iter().any(|d| matches(d, child.chart));
    let (on_disk, mut resolved): (Vec<_>, Vec<_>) =
        std::mem::take(&mut node.dependencies).into_iter().partition(declared);
    for dependency in &mut metadata.dependencies {
        if let Some(child) = on_disk.iter().find(|child| matches(dependency, child.chart)) {
            resolved.push(child.declared(&dependency.alias));
        }
        if !dependency.alias.is_empty() {
            dependency.name = dependency.alias.clone();
        }
    }
    node.dependencies = resolved;
    node.place_dependencies();
}

/// Helm's warning about a condition or tag whose value is not a boolean.
fn not_bool(what: &'static str, name: &str, dependency: &Dependency) -> Warning {
    let attributes = [(what, name.to_owned()), ("chart", dependency.name.clone())];
    Warning::new(Level::Warn, "returned non-bool value", attributes)
}

/// One true tag enables; without one, a false tag disables.
fn by_tags(dependency: &Dependency, values: &Map, warnings: &mut Vec<Warning>) -> bool {
    let Some(tags) = values::table(values, "tags") else {
        return true;
    };
    let (mut any_true, mut any_false) = (false, false);
    for tag in &dependency.tags {
        match tags.get(tag.as_bytes()) {
            Some(Value::Bool(true)) => any_true = true,
            Some(Value::Bool(false)) => any_false = true,
            Some(_) => warnings.push(not_bool("tag", tag, dependency)),
            None => {}
        }
    }
    any_true || !any_false
}

/// The first path of the condition that holds a boolean decides.
fn by_condition(dependency: &Dependency, values: &Map, path: &str, warnings: &mut Vec<Warning>) -> Option<bool> {
    for condition in dependency
        .condition
        .trim()
        .split(',')
        .filter(|condition| !condition.is_empty())
    {
        match values::path_value(values, &format!("{path}{condition}")) {
            Some(Value::Bool(enabled)) => return Some(enabled),
            Some(_) => warnings.push(not_bool("path", condition, dependency)),
            None => {}
        }
    }
    None
}

/// Imports values from subcharts into their parents, the deepest first.
fn import(node: &mut ChartNode<'_>, warnings: &mut Vec<Warning>) -> Result<(), Error> {
    for child in &mut node.dependencies {
        import(child, warnings)?;
    }
    if !node.metadata.has_dependencies {
        return Ok(());
    }
    let folded = values::merge_defaults(node, warnings)?;
    let imported = Map::new(MapKind::Any, Entries::new());
    for dependency in &mut node.metadata.to_mut().dependencies {
        let mut resolved = Vec::new();
        for entry in &dependency.import_values {
            let (child, parent, named) = match entry {
                Json::Object(map) => (plain(map.get("child")), plain(map.get("parent")), false),
                Json::String(name) => (format!("exports.{name}"), ".".to_owned(), true),
                _ => continue,
            };
            resolved.push(json!({"child": child, "parent": parent}));
            match values::find_table(&folded, &format!("{}.{child}", dependency.name)) {
                Ok(table) => {
                    // A copy, because the next import could otherwise change the table itself.
                    let table = nested(&parent, values::copy_map(&table))?;
                    values::merge_tables(&imported, &table, warnings);
                }
                Err(error) if named => {
                    let text = "ImportValues missing table";
                    warnings.push(Warning::new(Level::Warn, text, [("error", error)]));
                }
                Err(error) => {
                    let text = "ImportValues missing table from chart";
                    let attributes = [("chart", dependency.name.clone()), ("error", error)];
                    warnings.push(Warning::new(Level::Warn, text, attributes));
                }
            }
        }
        dependency.import_values = resolved;
    }
    // A copy shares no table, unlike globals after coalescing and tables that are imported twice.
    let mut defaults = values::copy_map(&folded);
    if !imported.is_empty() {
        values::merge_tables(&defaults, &imported, warnings);
        defaults = values::copy_map(&defaults);
    }
    node.defaults = Defaults::Folded(defaults);
    Ok(())
}

/// `table`, put below the dotted path `parent`.
fn nested(parent: &str, table: Map) -> Result<Map, Error> {
    if parent == "." {
        return Ok(table);
    }
    if parent.split('.').count() > yaml::MAX_DEPTH {
        return Err(Error::Values("import-values nest tables too deeply".to_owned()));
    }
    Ok(parent.split('.').rev().fold(table, |inner, key| {
        Map::new(MapKind::Any, Entries::from([(Str::from(key), Value::Map(inner))]))
    }))
}

/// Go's `%v` of a field of an entry in `import-values`.
fn plain(value: Option<&Json>) -> String {
    format::text(&Value::from_json(&yaml::all_floats(value.cloned().unwrap_or_default())))
}
