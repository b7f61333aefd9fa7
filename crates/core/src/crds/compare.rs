//! Compares two definitions: which objects that the old one accepts would the new one refuse or change?

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// The keyword of a schema that keeps keys which it does not list.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// Schemas nested deeper than this are not compared. Kubernetes' own types nest less than 30 levels.
const MAX_DEPTH: usize = 100;

/// One difference between two definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdChange {
    /// Existing objects or clients may stop working.
    pub breaks: bool,
    pub path: String,
    pub what: String,
}

impl fmt::Display for CrdChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.breaks { "unsafe" } else { "safe" };
        write!(f, "{kind}: {}: {}", self.path, self.what)
    }
}

/// Lists the differences of `new` from `old`.
pub fn compare(old: &Value, new: &Value) -> Vec<CrdChange> {
    let mut differences = CrdDifferences::default();
    for (path, what) in [
        ("/spec/group", "group"),
        ("/spec/scope", "scope"),
        ("/spec/names/kind", "kind"),
        ("/spec/names/plural", "plural"),
    ] {
        let (before, after) = (old.pointer(path), new.pointer(path));
        if before != after {
            let shown = |value: Option<&Value>| value.cloned().unwrap_or_default();
            differences.add(
                true,
                "spec",
                format!("the {what} {} becomes {}", shown(before), shown(after)),
            );
        }
    }
    differences.conversion(old, new);
    for before in list(&old["spec"]["versions"]) {
        let name = before["name"].as_str().unwrap_or_default();
        match list(&new["spec"]["versions"])
            .iter()
            .find(|after| after["name"] == before["name"])
        {
            None => differences.removed_version(name, old, new),
            Some(after) => differences.version(name, before, after),
        }
    }
    for after in list(&new["spec"]["versions"]) {
        if !list(&old["spec"]["versions"])
            .iter()
            .any(|before| before["name"] == after["name"])
        {
            differences.add(false, after["name"].as_str().unwrap_or_default(), "this version is new");
        }
    }
    differences.changes
}

#[derive(Default)]
struct CrdDifferences {
    changes: Vec<CrdChange>,
    /// How deep the current schema is nested.
    depth: usize,
}

/// Limits, and whether more of them is tighter.
const LIMITS: [(&str, bool); 8] = [
    ("minimum", true),
    ("maximum", false),
    ("minLength", true),
    ("maxLength", false),
    ("minItems", true),
    ("maxItems", false),
    ("minProperties", true),
    ("maxProperties", false),
];

impl CrdDifferences {
    fn add(&mut self, breaks: bool, path: &str, what: impl Into<String>) {
        self.changes.push(CrdChange {
            breaks,
            path: path.to_owned(),
            what: what.into(),
        });
    }

    /// A version may go if no object is stored in it and another version still serves the objects. A definition that is not
    /// from an API server does not show in which versions objects are stored.
    fn removed_version(&mut self, name: &str, old: &Value, new: &Value) {
        let Some(stored) = old.pointer("/status/storedVersions").and_then(Value::as_array) else {
            return self.add(true, name, "this version is gone");
        };
        if stored.iter().any(|stored| stored == name) {
            let what = "this version is gone, and objects may be stored in it (status.storedVersions)";
            return self.add(true, name, what);
        }
        match served_versions(new).find(|served| served_versions(old).any(|before| before == *served)) {
            Some(other) => self.add(
                false,
                name,
                format!("this version is gone; no object is stored in it, and {other} serves them"),
            ),
            None => self.add(
                true,
                name,
                "this version is gone, and no other version of before serves its objects",
            ),
        }
    }

    fn conversion(&mut self, old: &Value, new: &Value) {
        fn strategy(crd: &Value) -> &str {
            let strategy = crd.pointer("/spec/conversion/strategy").and_then(Value::as_str);
            strategy.unwrap_or("None")
        }
        match (strategy(old), strategy(new)) {
            (was, is) if was == is => {}
            ("None", is) => self.add(false, "spec", format!("versions are converted by {is}")),
            (was, is) => {
                let has_several = list(&new["spec"]["versions"]).len() > 1;
                let what = format!("versions were converted by {was}, are converted by {is}");
                self.add(has_several, "spec", what);
            }
        }
        let keeps = |crd: &Value| crd["spec"]["preserveUnknownFields"] == true;
        if keeps(old) && !keeps(new) {
            self.add(true, "spec", "fields that no schema lists are no longer kept");
        }
    }

    fn version(&mut self, name: &str, before: &Value, after: &Value) {
        if before["served"] == true && after["served"] != true {
            self.add(true, name, "this version is no longer served");
        }
        if before["storage"] != after["storage"] {
            self.add(false, name, "it is another version now that is stored");
        }
        for subresource in ["status", "scale"] {
            let has = |version: &Value| version["subresources"].get(subresource).is_some();
            match (has(before), has(after)) {
                (true, false) => self.add(true, name, format!("the subresource {subresource} is gone")),
                (false, true) => self.add(false, name, format!("the subresource {subresource} is new")),
                _ => {}
            }
        }
        self.node(
            name,
            &before["schema"]["openAPIV3Schema"],
            &after["schema"]["openAPIV3Schema"],
        );
    }

    fn node(&mut self, path: &str, before: &Value, after: &Value) {
        if self.depth >= MAX_DEPTH {
            return self.add(true, path, "nested too deep to be compared");
        }
        self.depth += 1;
        self.compare_node(path, before, after);
        self.depth -= 1;
    }

    fn compare_node(&mut self, path: &str, before: &Value, after: &Value) {
        self.types(path, before, after);
        self.defaults(path, before, after);
        self.enumeration(path, before, after);
        for (name, more_is_tighter) in LIMITS {
            self.limit(path, name, more_is_tighter, before, after);
        }
        self.list_type(path, before, after);
        for name in ["pattern", "multipleOf", "format", "x-kubernetes-list-map-keys"] {
            self.exact(path, name, before, after);
        }
        self.validations(path, before, after);
        self.required(path, before, after);
        self.properties(path, before, after);
        if let (Some(before), Some(after)) = (before.get("items"), after.get("items")) {
            self.node(&format!("{path}[]"), before, after);
        }
        if let (Some(before), Some(after)) = (before.get("additionalProperties"), after.get("additionalProperties")) {
            self.node(&format!("{path}.*"), before, after);
        }
    }

    fn types(&mut self, path: &str, before: &Value, after: &Value) {
        let (was, is) = (kind(before), kind(after));
        let widens = match (was, is) {
            (was, is) if was == is => None,
            (_, "any") | ("integer", "number" | "int-or-string") | ("string", "int-or-string") => Some(true),
            _ => Some(false),
        };
        if let Some(widens) = widens {
            self.add(!widens, path, format!("was {was}, is {is}"));
        }
        let nullable = |node: &Value| node["nullable"] == true;
        match (nullable(before), nullable(after)) {
            (true, false) => self.add(true, path, "null is no longer accepted"),
            (false, true) => self.add(false, path, "null is accepted"),
            _ => {}
        }
        let has_map = |node: &Value| node.get("additionalProperties").is_some_and(|schema| *schema != false);
        let loses_keys = is_open(before) || has_map(before) && !has_map(after);
        if loses_keys && !is_open(after) && kind(after) == "object" && kind(before) == "object" {
            self.add(true, path, "keys that aren't listed are no longer kept");
        }
    }

    /// Lists that are sets or maps refuse duplicates.
    fn list_type(&mut self, path: &str, before: &Value, after: &Value) {
        fn list_type(node: &Value) -> &str {
            node["x-kubernetes-list-type"].as_str().unwrap_or("atomic")
        }
        let (was, is) = (list_type(before), list_type(after));
        if was != is && kind(before) == "array" && kind(after) == "array" {
            self.add(is != "atomic", path, format!("the list was {was}, is {is}"));
        }
    }

    fn defaults(&mut self, path: &str, before: &Value, after: &Value) {
        match (before.get("default"), after.get("default")) {
            (was, is) if was == is => {}
            (Some(was), Some(is)) => self.add(true, path, format!("the default {was} becomes {is}")),
            (Some(was), None) => self.add(true, path, format!("the default {was} is gone")),
            (None, is) => self.add(
                true,
                path,
                format!("the default {} is new", is.cloned().unwrap_or_default()),
            ),
        }
    }

    fn enumeration(&mut self, path: &str, before: &Value, after: &Value) {
        let values =
            |node: &Value| enumeration(node).map(|values| values.iter().map(Value::to_string).collect::<BTreeSet<_>>());
        let shown = |values: Vec<&String>| values.into_iter().cloned().collect::<Vec<_>>().join(", ");
        match (values(before), values(after)) {
            (None, Some(only)) => self.add(true, path, format!("accepts only {}", shown(only.iter().collect()))),
            (Some(_), None) => self.add(false, path, "accepts more than an enumeration"),
            (Some(was), Some(is)) => {
                let gone: Vec<&String> = was.difference(&is).collect();
                let new: Vec<&String> = is.difference(&was).collect();
                if !gone.is_empty() {
                    self.add(true, path, format!("no longer accepts {}", shown(gone)));
                }
                if !new.is_empty() {
                    self.add(false, path, format!("accepts {}", shown(new)));
                }
            }
            (None, None) => {}
        }
    }

    fn limit(&mut self, path: &str, name: &str, more_is_tighter: bool, before: &Value, after: &Value) {
        let (was, is) = (before[name].as_f64(), after[name].as_f64());
        let tighter = match (was, is) {
            (None, None) => return,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some(was), Some(is)) if (was - is).abs() < f64::EPSILON => return,
            (Some(was), Some(is)) => (is > was) == more_is_tighter,
        };
        let shown = |value: &Value| {
            if value.is_null() {
                "none".to_owned()
            } else {
                value.to_string()
            }
        };
        self.add(
            tighter,
            path,
            format!("{name} was {}, is {}", shown(&before[name]), shown(&after[name])),
        );
    }

    fn exact(&mut self, path: &str, name: &str, before: &Value, after: &Value) {
        match (before.get(name), after.get(name)) {
            (was, is) if was == is => {}
            (_, None) => self.add(false, path, format!("{name} is gone")),
            (_, Some(is)) => self.add(true, path, format!("{name} is {is}")),
        }
    }

    /// Rules in CEL, and combinators but for enumerations.
    fn validations(&mut self, path: &str, before: &Value, after: &Value) {
        for name in ["x-kubernetes-validations", "allOf", "anyOf", "oneOf", "not"] {
            let parts = |node: &Value| -> Vec<Value> {
                match &node[name] {
                    Value::Array(parts) if name == "allOf" || name.starts_with('x') => {
                        let parts = parts.iter().filter(|part| part.get("enum").is_none());
                        parts.map(|part| part.get("rule").unwrap_or(part).clone()).collect()
                    }
                    Value::Null => Vec::new(),
                    other => vec![other.clone()],
                }
            };
            let (was, is) = (parts(before), parts(after));
            for part in is.iter().filter(|part| !was.contains(part)) {
                self.add(true, path, format!("{name} is new: {part}"));
            }
            for part in was.iter().filter(|part| !is.contains(part)) {
                self.add(false, path, format!("{name} is gone: {part}"));
            }
        }
    }

    fn required(&mut self, path: &str, before: &Value, after: &Value) {
        let has = |node: &Value, key: &Value| list(&node["required"]).contains(key);
        for key in list(&after["required"]).iter().filter(|key| !has(before, key)) {
            self.add(true, &below(path, key), "is required");
        }
        for key in list(&before["required"]).iter().filter(|key| !has(after, key)) {
            self.add(false, &below(path, key), "is no longer required");
        }
    }

    fn properties(&mut self, path: &str, before: &Value, after: &Value) {
        let empty = serde_json::Map::new();
        let of = |node| Value::as_object(node).unwrap_or(&empty);
        let (was, is) = (of(&before["properties"]), of(&after["properties"]));
        for (key, node) in was {
            let path = below(path, &key.as_str().into());
            match is.get(key) {
                Some(new) => self.node(&path, node, new),
                None if is_open(after) || after.get("additionalProperties").is_some() => {
                    self.add(false, &path, "is no longer described");
                }
                None => self.add(true, &path, "is gone: its values would be dropped"),
            }
        }
        for (key, node) in is.iter().filter(|(key, _)| !was.contains_key(*key)) {
            // Where any value was kept, this one may have others.
            let narrows = is_open(before) && kind(node) != "any";
            let what = if narrows {
                format!("is described as {}, any value was accepted", kind(node))
            } else {
                "is new".to_owned()
            };
            self.add(narrows, &below(path, &key.as_str().into()), what);
        }
    }
}

/// The names of the versions that a definition serves.
fn served_versions(crd: &Value) -> impl Iterator<Item = &str> {
    let served = list(&crd["spec"]["versions"])
        .iter()
        .filter(|version| version["served"] == true);
    served.filter_map(|version| version["name"].as_str())
}

fn below(path: &str, key: &Value) -> String {
    format!("{path}.{}", key.as_str().unwrap_or_default())
}

/// The items of a list; none of anything else.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// True if an object of this schema keeps keys that are not listed.
pub fn is_open(node: &Value) -> bool {
    node[PRESERVE] == true
}

/// The values of an enumeration, which may be a conjunct.
fn enumeration(node: &Value) -> Option<&[Value]> {
    let conjuncts = list(&node["allOf"]).iter();
    std::iter::once(node)
        .chain(conjuncts)
        .find_map(|node| node.get("enum")?.as_array().map(Vec::as_slice))
}

/// The type of a schema: its `type`, `int-or-string` or `any`.
pub fn kind(node: &Value) -> &str {
    match node["type"].as_str() {
        Some(kind) => kind,
        None if node["x-kubernetes-int-or-string"] == true => "int-or-string",
        None => "any",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use serde_json::json;

    /// Two schemas, and the difference that is reported.
    #[derive(serde::Deserialize)]
    struct Difference {
        before: Value,
        after: Value,
        breaks: Option<bool>,
        #[serde(default)]
        says: String,
    }

    fn with_schema(schema: &Value) -> Value {
        let version = json!({"name": "s", "served": true, "schema": {"openAPIV3Schema": schema}});
        json!({"spec": {"versions": [version]}})
    }

    #[test]
    fn differences_of_schemas_are_safe_or_unsafe() {
        for case in table::<Difference>("crd-compare", "schemas") {
            let changes = compare(&with_schema(&case.before), &with_schema(&case.after));
            let found = changes.first().map(|change| change.breaks);
            let expected = (usize::from(case.breaks.is_some()), case.breaks);
            let (before, after) = (&case.before, &case.after);
            assert_eq!((changes.len(), found), expected, "{before} {after}: {changes:?}");
            let says = |change: &CrdChange| change.to_string().contains(&case.says);
            assert!(changes.first().is_none_or(says), "{}: {changes:?}", case.says);
        }
    }

    /// Two definitions, and the beginnings of the differences that are reported.
    #[derive(serde::Deserialize)]
    struct Definitions {
        before: Value,
        after: Value,
        changes: Vec<String>,
    }

    #[test]
    fn versions_names_and_conversions_are_compared() {
        for case in table::<Definitions>("crd-compare", "definitions") {
            let found: Vec<String> = compare(&case.before, &case.after)
                .iter()
                .map(ToString::to_string)
                .collect();
            let fits = found
                .iter()
                .zip(&case.changes)
                .all(|(change, says)| change.starts_with(says));
            assert!(fits && found.len() == case.changes.len(), "{}: {found:?}", case.after);
        }
    }

    #[test]
    fn schemas_nested_too_deep_are_unsafe() {
        let nested = |levels: usize, leaf: Value| {
            let wrap = |inner: Value, _| json!({"type": "object", "properties": {"a": inner}});
            with_schema(&(0..levels).fold(leaf, wrap))
        };
        let (was, is) = (json!({"type": "string"}), json!({"type": "integer"}));
        let changes = compare(&nested(90, was.clone()), &nested(90, is.clone()));
        assert!(
            changes.len() == 1 && changes[0].what.starts_with("was string"),
            "{changes:?}"
        );
        let changes = compare(&nested(300, was), &nested(300, is));
        assert!(changes.len() == 1 && changes[0].breaks, "{changes:?}");
    }
}
