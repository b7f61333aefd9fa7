//! Values: reads values files, and coalesces a chart's defaults with the user's values.
//!
//! Coalescing works on the maps that templates see, because Helm shares nested maps of globals between a chart and its
//! subcharts, and a template can observe that. Facts: Helm's `pkg/chart/common/util/coalesce.go` and
//! `pkg/chart/v2/loader/load.go`.

pub(crate) mod frozen;
pub mod options;
pub mod strvals;

use std::borrow::Cow;

use serde_json::{Map as JsonMap, Value as Json};

use super::dependencies::ChartNode;
use super::metadata::undecodable;
use super::{Error, Warning};
use crate::helm::objects::data::VALUES;
use go_template::format;
use go_template::meter::Meter;
use go_template::printf::sprintf;
use go_template::quote::quote_go;
use go_template::value::{Entries, List, Map, MapKind, Str, Value};
use go_yaml as yaml;

/// The key of the values that every subchart sees.
const GLOBAL: &str = "global";

/// Reads values from YAML. Several documents are merged, later ones win. All numbers become floats.
///
/// ```
/// let values = helm_template::chart::values::read(b"replicas: 3\n", 100).unwrap();
/// assert_eq!(values["replicas"], 3.0);
/// ```
///
/// # Errors
/// Text that isn't YAML or nests deeper than `max_depth`, a document that isn't a map, text after a `---`; with Helm's
/// message.
pub fn read(text: &[u8], max_depth: usize) -> Result<JsonMap<String, Json>, String> {
    let mut text = Cow::Borrowed(text);
    // Helm ends the last line itself; without it a literal block would lose its newline.
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.to_mut().push(b'\n');
    }
    let mut values = JsonMap::new();
    // Each is parsed before the next is looked for.
    for document in yaml::Documents::new(&text) {
        let document = document.map_err(|e| format!("error reading yaml document: {e}"))?;
        match yaml::to_json_within(document, max_depth).map(yaml::all_floats) {
            Ok(Json::Null) => {}
            Ok(Json::Object(table)) => merge_maps(&mut values, table),
            Ok(other) => {
                let problem = undecodable(&other, "value of type map[string]interface {}");
                return Err(format!("cannot unmarshal yaml document: {problem}"));
            }
            Err(error) => return Err(format!("cannot unmarshal yaml document: {error}")),
        }
    }
    Ok(values)
}

/// Merges `from` over `into`, table by table; everything else, null included, is replaced.
///
/// ```
/// use serde_json::json;
///
/// let mut values = json!({"image": {"name": "web", "tag": "v1"}});
/// let from = json!({"image": {"tag": "v2"}});
/// let (Some(into), Some(from)) = (values.as_object_mut(), from.as_object()) else { unreachable!() };
/// helm_template::chart::values::merge_maps(into, from.clone());
/// assert_eq!(values, json!({"image": {"name": "web", "tag": "v2"}}));
/// ```
pub fn merge_maps(into: &mut JsonMap<String, Json>, from: JsonMap<String, Json>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Json::Object(old)), Json::Object(new)) => merge_maps(old, new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Merges the defaults of a chart and of its dependencies into a copy of the user's values (`CoalesceValues`). The
/// user's values win.
///
/// A null that the user gave deletes the chart's default. Warnings name keys, never values.
///
/// # Errors
/// A value that isn't a table where a subchart's values belong.
pub fn coalesce(node: &ChartNode<'_>, user: &Map, warnings: &mut Vec<Warning>) -> Result<Map, Error> {
    let values = copy_map(user);
    let merge = false;
    Fold { warnings, merge }.chart(node, &values, "")?;
    Ok(values)
}

/// Like [`coalesce`] without user values, but nulls stay (`MergeValues`).
pub fn merge_defaults(node: &ChartNode<'_>, warnings: &mut Vec<Warning>) -> Result<Map, Error> {
    let values = Map::new(MapKind::Any, Entries::new());
    Fold::merging(warnings).chart(node, &values, "")?;
    Ok(values)
}

/// Adds to `into` the keys that only `from` has, table by table; nulls stay (`MergeTables`). Tables that only `from`
/// has are shared afterwards, not copied.
pub fn merge_tables(into: &Map, from: &Map, warnings: &mut Vec<Warning>) {
    Fold::merging(warnings).tables(into, from, "", true);
}

/// A copy that shares nothing with `map` (lists can't be changed, so they are shared unless they hold maps).
pub fn copy_map(map: &Map) -> Map {
    // A tree is cloned as it is, where one that is built of entries compares their keys.
    let mut entries = map
        .entries
        .as_ref()
        .map_or_else(Entries::new, |entries| entries.borrow().clone());
    for value in entries.values_mut() {
        if matches!(value, Value::Map(_) | Value::List(_)) {
            *value = copy(value);
        }
    }
    Map::new(map.kind, entries)
}

fn copy(value: &Value) -> Value {
    match value {
        Value::Map(map) if map.entries.is_some() => Value::Map(copy_map(map)),
        Value::List(list) if !list.is_nil() => {
            Value::List(List::new(list.kind, list.items().iter().map(copy).collect()))
        }
        other => other.clone(),
    }
}

/// The table at a dotted path (`common.Values.Table`).
pub fn table(values: &Map, path: &str) -> Option<Map> {
    find_table(values, path).ok()
}

/// As [`table`]; the error is the text of Helm's, which names the part of the path that isn't a table.
pub(crate) fn find_table(values: &Map, path: &str) -> Result<Map, String> {
    path.split('.').try_fold(values.clone(), |map, key| {
        let value = map.get(key.as_bytes());
        value
            .as_ref()
            .and_then(as_table)
            .ok_or_else(|| format!("{} is not a table", quote_go(key)))
    })
}

/// The value that isn't a table at a dotted path (`common.Values.PathValue`).
pub fn path_value(values: &Map, path: &str) -> Option<Value> {
    let (parent, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (table(values, parent)?, key),
        None => (values.clone(), path),
    };
    parent.get(key.as_bytes()).filter(|value| as_table(value).is_none())
}

/// The value as a table, if it is one.
pub fn as_table(value: &Value) -> Option<Map> {
    match value {
        Value::Map(map) if map.kind == MapKind::Any || map.kind == VALUES => Some(map.clone()),
        _ => None,
    }
}

struct Fold<'w> {
    warnings: &'w mut Vec<Warning>,
    /// Keep nulls, for values that are coalesced again.
    merge: bool,
}

impl<'w> Fold<'w> {
    fn merging(warnings: &'w mut Vec<Warning>) -> Self {
        Fold { warnings, merge: true }
    }

    fn warn(&mut self, text: String) {
        self.warnings.push(Warning::from(text));
    }

    fn warn_about(&mut self, text: String, value: &Value) {
        let value = format::text(value);
        self.warnings.push(Warning::from(text).with_value(value));
    }

    fn chart(&mut self, node: &ChartNode<'_>, values: &Map, prefix: &str) -> Result<(), Error> {
        self.defaults(node, values, prefix);
        for dependency in &node.dependencies {
            let name = dependency.name();
            let own = match values.get(name.as_bytes()) {
                None => {
                    let empty = Map::new(MapKind::Any, Entries::new());
                    put(values, name, Value::Map(empty.clone()));
                    empty
                }
                Some(value) => as_table(&value)
                    .ok_or_else(|| Error::Values(format!("type mismatch on {name}: {}", printed(&value))))?,
            };
            let prefix = join(prefix, node.name());
            self.globals(&own, values);
            self.chart(dependency, &own, &prefix)?;
        }
        Ok(())
    }

    fn defaults(&mut self, node: &ChartNode<'_>, values: &Map, prefix: &str) {
        let prefix = join(prefix, node.name());
        for (key, default) in node.defaults.copy().snapshot() {
            match values.get(key.as_bytes()) {
                Some(Value::Nil) if !self.merge => remove(values, &key),
                Some(Value::Map(own)) => match as_table(&default) {
                    Some(default) => {
                        let is_subchart = node.dependencies.iter().any(|d| d.name().as_bytes() == key.as_bytes());
                        let merge = self.merge || is_subchart;
                        if !merge {
                            drop_nulls(&default);
                        }
                        self.tables(&own, &default, &join(&prefix, &key.to_text()), merge);
                    }
                    None if default.is_nil() => {}
                    None => self.warn(format!(
                        "warning: skipped value for {prefix}.{}: Not a table.",
                        key.to_text()
                    )),
                },
                Some(_) => {}
                None => {
                    if !self.merge {
                        if default.is_nil() {
                            continue;
                        }
                        if let Some(table) = as_table(&default) {
                            drop_nulls(&table);
                        }
                    }
                    put_key(values, key, default);
                }
            }
        }
    }

    fn globals(&mut self, own: &Map, parent: &Map) {
        let table_or_empty = |map: &Map| match map.get(GLOBAL.as_bytes()) {
            None => Some(Map::new(MapKind::Any, Entries::new())),
            Some(value) => as_table(&value),
        };
        let Some(own_global) = table_or_empty(own) else {
            return self.warn("warning: skipping globals because destination global is not a table.".to_owned());
        };
        let Some(parent_global) = table_or_empty(parent) else {
            return self.warn("warning: skipping globals because source global is not a table.".to_owned());
        };
        for (key, value) in parent_global.snapshot() {
            let existing = own_global.get(key.as_bytes());
            let existing_table = existing.as_ref().and_then(as_table);
            let name = key.to_text().into_owned();
            match as_table(&value) {
                Some(table) => {
                    // Only the first level is copied: deeper tables are the parent's own, so they alias.
                    let shallow = Map::new(table.kind, table.snapshot().into_iter().collect());
                    match (existing, existing_table) {
                        (None, _) => put_key(&own_global, key, Value::Map(shallow)),
                        (Some(_), Some(existing)) => {
                            self.tables(&shallow, &existing, &name, true);
                            put_key(&own_global, key, Value::Map(shallow));
                        }
                        (Some(_), None) => {
                            self.warn(format!(
                                "Conflict: cannot merge map onto non-map for {}. Skipping.",
                                quote_go(name)
                            ));
                        }
                    }
                }
                None if existing_table.is_some() => self.warn(format!("key {name} is table. Skipping")),
                None => put_key(&own_global, key, value),
            }
        }
        put(own, GLOBAL, Value::Map(own_global));
    }

    fn tables(&mut self, into: &Map, from: &Map, prefix: &str, merge: bool) {
        let mut sources = from.snapshot();
        let nulls = nulls(into);
        let mut non_null: Vec<Str> = Vec::new();
        if !nulls.is_empty() {
            let keys = sources.iter().filter(|(_, v)| !v.is_nil());
            non_null.extend(keys.map(|(k, _)| k.clone()));
            nulls.into_iter().for_each(|key| put_key(from, key, Value::Nil));
            sources = from.snapshot();
        }
        for (key, value) in sources {
            match into.get(key.as_bytes()) {
                Some(Value::Nil) if !merge && non_null.binary_search(&key).is_ok() => remove(into, &key),
                None => put_key(into, key, value),
                Some(existing) => {
                    let key = join(prefix, &key.to_text());
                    match (as_table(&existing), as_table(&value)) {
                        (Some(existing), Some(value)) => self.tables(&existing, &value, &key, merge),
                        (None, Some(_)) => {
                            self.warn_about(
                                format!("warning: cannot overwrite table with non table for {key}"),
                                &value,
                            );
                        }
                        (Some(_), None) if !value.is_nil() => {
                            self.warn_about(
                                format!("warning: destination for {key} is a table. Ignoring non-table value"),
                                &value,
                            );
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Go's `%t`, which Helm prints all values with here.
fn printed(value: &Value) -> String {
    String::from_utf8_lossy(&sprintf(&Meter::default(), b"%t", std::slice::from_ref(value))).into_owned()
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() {
        key.to_owned()
    } else {
        format!("{prefix}.{key}")
    }
}

/// Sets a key. Tables of values are never nil maps, for which this does nothing.
pub fn put(map: &Map, key: &str, value: Value) {
    put_key(map, Str::from(key), value);
}

fn put_key(map: &Map, key: Str, value: Value) {
    if let Some(entries) = &map.entries {
        entries.put(key, value);
    }
}

pub(super) fn remove(map: &Map, key: &Str) {
    if let Some(entries) = &map.entries {
        entries.remove(key.as_bytes());
    }
}

/// The keys whose values are null.
fn nulls(map: &Map) -> Vec<Str> {
    let Some(entries) = &map.entries else { return Vec::new() };
    let entries = entries.borrow();
    let nulls = entries.iter().filter(|(_, value)| value.is_nil());
    nulls.map(|(key, _)| key.clone()).collect()
}

fn drop_nulls(map: &Map) {
    nulls(map).iter().for_each(|key| remove(map, key));
    if let Some(entries) = &map.entries {
        entries
            .borrow()
            .values()
            .filter_map(as_table)
            .for_each(|table| drop_nulls(&table));
    }
}
