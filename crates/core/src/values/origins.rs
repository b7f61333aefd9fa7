//! Where each effective value of a release comes from. Values of Secrets are masked and never leave this module.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Values that one source adds to the values of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct ValuesLayer {
    /// Name of the source, as it is shown.
    pub origin: String,
    /// The values are secret.
    pub is_secret: bool,
    /// The values of this source alone.
    pub own: Value,
    /// The values of this source over those of all weaker sources.
    pub merged: Value,
}

/// An effective value and its origin.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValueOrigin {
    /// Path of the value, such as `image.tag` or `hosts[0].name`.
    pub path: String,
    /// The value. `None`: it is masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    pub secret: bool,
    pub origin: String,
}

/// What the chart's own values are called.
pub const CHART_DEFAULT: &str = "chart default";
/// What a value is called that a chart copies from another place, by `global` or `import-values`.
const COPIED: &str = "copied by the chart";

/// The leaves of values by their paths. An empty mapping or list is a leaf.
type Leaves = BTreeMap<String, Value>;

/// Returns the leaves of the effective values, each with the strongest source that set it.
///
/// `defaults`: the effective values without any layer. `layers`: the weakest first. `effective`: what templates see.
pub fn value_origins(defaults: &Value, layers: &[ValuesLayer], effective: &Value) -> Vec<ValueOrigin> {
    let defaults = leaves(defaults);
    let own: Vec<Leaves> = layers.iter().map(|layer| leaves(&layer.own)).collect();
    let merged: Vec<Leaves> = layers.iter().map(|layer| leaves(&layer.merged)).collect();
    let empty = Leaves::new();
    let user = merged.last().unwrap_or(&empty);
    let has_secrets = layers.iter().any(|layer| layer.is_secret);
    let effective = leaves(effective);
    let mut found = Vec::new();
    for (path, value) in &effective {
        let source = if user.get(path) == Some(value) {
            strongest(path, value, &own, &merged)
        } else {
            global_path(path)
                .filter(|global| user.get(*global) == Some(value))
                .and_then(|global| strongest(global, value, &own, &merged))
        };
        let (origin, secret) = match source.and_then(|index| layers.get(index)) {
            Some(layer) => (layer.origin.as_str(), layer.is_secret),
            None if defaults.get(path) == Some(value) => (CHART_DEFAULT, false),
            // It may be the copy of a secret.
            None => (COPIED, has_secrets),
        };
        found.push(ValueOrigin {
            path: path.clone(),
            value: (!secret).then(|| value.clone()),
            secret,
            origin: origin.to_owned(),
        });
    }
    let removed = user.iter().filter(|(path, value)| {
        let below = [format!("{path}."), format!("{path}[")];
        value.is_null()
            && !effective.contains_key(*path)
            && defaults
                .keys()
                .any(|known| known == *path || below.iter().any(|start| known.starts_with(start)))
    });
    for (path, value) in removed {
        if let Some(layer) = strongest(path, value, &own, &merged).and_then(|index| layers.get(index)) {
            found.push(ValueOrigin {
                path: path.clone(),
                value: Some(Value::Null),
                secret: false,
                origin: format!("{} (removes the chart default)", layer.origin),
            });
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// The index of the strongest layer that set a leaf: the last one that has the value itself, not below the last change.
fn strongest(path: &str, value: &Value, own: &[Leaves], merged: &[Leaves]) -> Option<usize> {
    let last_change = (0..merged.len())
        .rev()
        .take_while(|&index| merged[index].get(path) == Some(value))
        .last()?;
    let restated = (last_change..own.len())
        .rev()
        .find(|&index| own[index].get(path) == Some(value));
    Some(restated.unwrap_or(last_change))
}

/// The path in the chart's own `global` that Helm copies to a subchart: `global.a` of `sub.global.a`.
fn global_path(path: &str) -> Option<&str> {
    path.find(".global.").and_then(|at| path.get(at + 1..))
}

fn leaves(value: &Value) -> Leaves {
    let mut found = Leaves::new();
    add_leaves(String::new(), value, &mut found);
    found
}

fn add_leaves(path: String, value: &Value, found: &mut Leaves) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let key = escape_key(key);
                let below = if path.is_empty() { key } else { format!("{path}.{key}") };
                add_leaves(below, value, found);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (index, value) in list.iter().enumerate() {
                add_leaves(format!("{path}[{index}]"), value, found);
            }
        }
        // Without values there is no leaf.
        Value::Object(_) | Value::Null if path.is_empty() => {}
        leaf => {
            found.insert(path, leaf.clone());
        }
    }
}

/// A key as `--set` reads it.
fn escape_key(key: &str) -> String {
    let special: BTreeSet<char> = ['.', ',', '=', '[', ']', '\\'].into();
    let mut text = String::with_capacity(key.len());
    for letter in key.chars() {
        if special.contains(&letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(origin: &str, is_secret: bool, own: Value, merged: Value) -> ValuesLayer {
        let origin = origin.to_owned();
        ValuesLayer {
            origin,
            is_secret,
            own,
            merged,
        }
    }

    fn rows(found: &[ValueOrigin]) -> Vec<(String, Value, &str)> {
        let shown = |row: &ValueOrigin| row.value.clone().unwrap_or_else(|| "***".into());
        found
            .iter()
            .map(|row| (row.path.clone(), shown(row), row.origin.as_str()))
            .collect()
    }

    #[test]
    fn each_value_has_its_strongest_source() {
        let defaults = json!({"a": 1, "b": {"c": 2, "d": 3}, "gone": {"x": 1}, "l": [1], "e": {}, "k.ey": 1});
        let layers = [
            layer(
                "watch",
                false,
                json!({"a": 5, "b": {"c": 9}}),
                json!({"a": 5, "b": {"c": 9}}),
            ),
            layer(
                "Secret",
                true,
                json!({"p": "hidden", "a": 6}),
                json!({"a": 6, "b": {"c": 9}, "p": "hidden"}),
            ),
            layer(
                "CR",
                false,
                json!({"a": 6, "gone": null, "l": ["x"]}),
                json!({"a": 6, "b": {"c": 9}, "p": "hidden", "gone": null, "l": ["x"]}),
            ),
        ];
        let effective = json!({"a": 6, "b": {"c": 9, "d": 3}, "p": "hidden", "l": ["x"], "e": {}, "k.ey": 1});
        let found = value_origins(&defaults, &layers, &effective);
        let expected = [
            ("a", json!(6), "CR"),
            ("b.c", json!(9), "watch"),
            ("b.d", json!(3), CHART_DEFAULT),
            ("e", json!({}), CHART_DEFAULT),
            ("gone", json!(null), "CR (removes the chart default)"),
            ("k\\.ey", json!(1), CHART_DEFAULT),
            ("l[0]", json!("x"), "CR"),
            ("p", json!("***"), "Secret"),
        ];
        assert_eq!(
            rows(&found),
            expected.map(|(path, value, origin)| (path.to_owned(), value, origin))
        );
    }

    #[test]
    fn a_secret_is_masked_wherever_the_chart_copies_it() {
        let own = json!({"global": {"p": "hidden"}, "q": "hidden"});
        let layers = [layer("Secret", true, own.clone(), own.clone())];
        let effective = json!({
            "global": {"p": "hidden"}, "q": "hidden", "sub": {"global": {"p": "hidden"}, "size": 1}, "imported": "hidden",
        });
        let found = value_origins(&json!({"sub": {"size": 1}}), &layers, &effective);
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("hidden"), "{text}");
        let at = |path: &str| found.iter().find(|row| row.path == path).unwrap().origin.clone();
        assert_eq!(at("sub.global.p"), "Secret");
        assert_eq!(at("imported"), COPIED);
        assert_eq!(at("sub.size"), CHART_DEFAULT);
    }

    #[test]
    fn no_values_are_no_rows() {
        assert!(value_origins(&json!({}), &[], &json!({})).is_empty());
        assert!(value_origins(&Value::Null, &[], &Value::Null).is_empty());
    }
}
