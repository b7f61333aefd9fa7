//! A CustomResourceDefinition around the schema of a chart's values.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::schema::FieldSchema;
use crate::names;
use chartwright_core::status;

/// What the kind is called, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: Option<String>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub cluster: bool,
    pub scale: Option<Scale>,
    pub columns: Vec<Column>,
    /// JSON paths of the fields that `--field-selector` selects by.
    pub selectable: Vec<String>,
}

/// Where the `scale` subresource finds what it reads and writes, in Kubernetes' notation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    pub spec_replicas_path: String,
    #[serde(default = "status_replicas")]
    pub status_replicas_path: String,
    pub label_selector_path: Option<String>,
}

/// A further column of `kubectl get`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Column {
    pub name: String,
    #[serde(rename = "type", default = "text")]
    pub kind: String,
    pub json_path: String,
    pub priority: Option<i32>,
}

fn status_replicas() -> String {
    ".status.replicas".to_owned()
}

fn text() -> String {
    "string".to_owned()
}

/// Where a project has its definitions.
pub const BASES: &str = "config/crd/bases";
/// The label by which ApplySet tools find kinds whose objects are parents.
const PARENT: &str = "applyset.kubernetes.io/is-parent-type";

impl Names {
    pub fn plural(&self) -> String {
        self.plural.clone().unwrap_or_else(|| names::plural(&self.kind))
    }

    /// The object's name.
    pub fn crd(&self) -> String {
        format!("{}.{}", self.plural(), self.group)
    }

    /// Where a project has it.
    pub fn file(&self) -> String {
        format!("{}_{}.yaml", self.group, self.plural())
    }
}

/// The definition with one version. `about` is the chart.
pub fn definition(names: &Names, spec: &FieldSchema, rules: &[Value], about: &str) -> Value {
    let mut version = json!({
        "name": names.version,
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": root(names, spec, rules, about)},
        "subresources": subresources(names),
        "additionalPrinterColumns": columns(names),
    });
    if !names.selectable.is_empty() {
        let fields = names.selectable.iter().map(|path| json!({"jsonPath": path}));
        version["selectableFields"] = fields.collect();
    }
    let singular = names.kind.to_lowercase();
    let mut named = Map::new();
    named.insert("kind".into(), names.kind.clone().into());
    named.insert("listKind".into(), format!("{}List", names.kind).into());
    named.insert("plural".into(), names.plural().into());
    named.insert("singular".into(), singular.into());
    for (key, words) in [("shortNames", &names.short_names), ("categories", &names.categories)] {
        if !words.is_empty() {
            named.insert(key.into(), json!(words));
        }
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names.crd(), "labels": {PARENT: "true"}},
        "spec": {
            "group": names.group,
            "names": named,
            "scope": if names.cluster { "Cluster" } else { "Namespaced" },
            "versions": [version],
        },
    })
}

/// The schema of the whole object.
fn root(names: &Names, spec: &FieldSchema, rules: &[Value], about: &str) -> Value {
    let mut spec_schema = spec.to_json(true, spec.required.is_empty());
    let last_word = "Values for the chart: what isn't set here has the chart's default, null takes a default away. The chart's own \
                     checks have the last word.";
    if let Some(spec) = spec_schema.as_object_mut() {
        spec.insert("description".into(), last_word.into());
    }
    let mut properties = Map::new();
    properties.insert("apiVersion".into(), json!({"type": "string"}));
    properties.insert("kind".into(), json!({"type": "string"}));
    properties.insert("metadata".into(), json!({"type": "object"}));
    properties.insert("spec".into(), spec_schema);
    properties.insert("status".into(), status::schema());
    let mut root = json!({
        "description": format!("{} is a release of the chart {about}.", names.kind),
        "type": "object",
        "properties": properties,
    });
    if !spec.required.is_empty() {
        root["required"] = json!(["spec"]);
    }
    if !rules.is_empty() {
        root["x-kubernetes-validations"] = json!(rules);
    }
    root
}

fn subresources(names: &Names) -> Value {
    let mut subresources = json!({"status": {}});
    if let Some(scale) = &names.scale {
        subresources["scale"] = json!({
            "specReplicasPath": scale.spec_replicas_path,
            "statusReplicasPath": scale.status_replicas_path,
        });
        if let Some(path) = &scale.label_selector_path {
            subresources["scale"]["labelSelectorPath"] = path.as_str().into();
        }
    }
    subresources
}

fn columns(names: &Names) -> Value {
    let ready = |field: &str| format!(".status.conditions[?(@.type==\"Ready\")].{field}");
    let mut columns: Vec<Value> = Vec::new();
    for column in &names.columns {
        let mut own = json!({"name": column.name, "type": column.kind, "jsonPath": column.json_path});
        if let Some(priority) = column.priority {
            own["priority"] = priority.into();
        }
        columns.push(own);
    }
    columns.extend([
        json!({"name": "Ready", "type": "string", "jsonPath": ready("status")}),
        json!({"name": "Reason", "type": "string", "jsonPath": ready("reason")}),
        json!({
            "name": "Version", "type": "string", "jsonPath": ".status.release.version",
            "description": "Version of the chart that the release was made from",
        }),
        json!({"name": "Revision", "type": "integer", "jsonPath": ".status.release.revision", "priority": 1}),
        json!({"name": "Message", "type": "string", "jsonPath": ready("message"), "priority": 1}),
        json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}),
    ]);
    Value::Array(columns)
}

/// A definition in a project.
pub struct DefinitionFile {
    /// The file's name in [`BASES`].
    pub name: String,
    pub text: String,
    pub object: Value,
}

/// The file in [`BASES`] that defines a kind.
pub fn find(root: &Path, group: &str, kind: &str) -> Option<DefinitionFile> {
    let entries = fs::read_dir(root.join(BASES)).ok()?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".yaml") || name.ends_with(".yml"))
        .collect();
    names.sort();
    names.into_iter().find_map(|name| {
        let text = fs::read_to_string(root.join(BASES).join(&name)).ok()?;
        let object = go_yaml::to_json(text.as_bytes()).ok()?;
        let is_meant = object["kind"] == "CustomResourceDefinition"
            && object["spec"]["group"] == group
            && object["spec"]["names"]["kind"] == kind;
        is_meant.then_some(DefinitionFile { name, text, object })
    })
}

/// What a definition calls its objects.
pub fn plural(definition: &Value) -> Option<&str> {
    definition["spec"]["names"]["plural"].as_str()
}

/// The paths below `spec` that have to be set in a version.
pub fn required(definition: &Value, version: &str) -> Vec<String> {
    fn collect(schema: &Value, path: &str, found: &mut Vec<String>) {
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            let path = match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            let before = found.len();
            collect(&schema["properties"][name], &path, found);
            if found.len() == before {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    for known in versions.filter(|known| known["name"] == version) {
        collect(
            &known["schema"]["openAPIV3Schema"]["properties"]["spec"],
            "",
            &mut found,
        );
    }
    found
}

/// Lays a new definition over the one that is there: what that one has beside it stays, its other versions too.
pub fn laid_over(mut new: Value, old: &Value) -> Value {
    for field in ["labels", "annotations"] {
        for (key, value) in old["metadata"][field].as_object().into_iter().flatten() {
            let kept = &mut new["metadata"][field];
            if kept.get(key).is_none() {
                kept[key] = value.clone();
            }
        }
    }
    if let Some(conversion) = old["spec"].get("conversion") {
        new["spec"]["conversion"] = conversion.clone();
    }
    let mut versions: Vec<Value> = old["spec"]["versions"].as_array().cloned().unwrap_or_default();
    for mut version in new["spec"]["versions"].as_array().cloned().unwrap_or_default() {
        match versions.iter_mut().find(|known| known["name"] == version["name"]) {
            Some(known) => {
                for field in ["served", "storage", "deprecated", "deprecationWarning"] {
                    if let Some(value) = known.get(field) {
                        version[field] = value.clone();
                    }
                }
                *known = version;
            }
            None => {
                // The storage version changes only by a user's edit.
                let has_storage = versions.iter().any(|known| known["storage"] == true);
                version["storage"] = (!has_storage).into();
                versions.push(version);
            }
        }
    }
    versions.sort_by(|a, b| priority(&b["name"]).cmp(&priority(&a["name"])));
    new["spec"]["versions"] = Value::Array(versions);
    new
}

/// Keeps the names that stand only in the old definition, such as short names.
pub fn keep_names(names: &mut Names, old: &Value) {
    let words = |field: &str| -> Vec<String> {
        let words = old["spec"]["names"][field].as_array().into_iter().flatten();
        words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    names.plural = names.plural.take().or_else(|| plural(old).map(str::to_owned));
    if names.short_names.is_empty() {
        names.short_names = words("shortNames");
    }
    if names.categories.is_empty() {
        names.categories = words("categories");
    }
    names.cluster |= old["spec"]["scope"] == "Cluster";
}

/// By how much the API server prefers a version: `v2` before `v1` before `v1beta1` before `v1alpha1`.
fn priority(name: &Value) -> (u8, u32, u32) {
    let name = name.as_str().unwrap_or_default();
    let Some(rest) = name.strip_prefix('v') else {
        return (0, 0, 0);
    };
    let digits = |text: &str| text.parse::<u32>().unwrap_or_default();
    let split = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at(split);
    match stage {
        "" => (3, digits(major), 0),
        _ if stage.starts_with("beta") => (2, digits(major), digits(&stage[4..])),
        _ if stage.starts_with("alpha") => (1, digits(major), digits(&stage[5..])),
        _ => (0, 0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_and_versions_are_those_of_kubernetes() {
        for (word, expected) in [
            ("memcached", "memcacheds"),
            ("redis", "redises"),
            ("proxy", "proxies"),
            ("gateway", "gateways"),
        ] {
            assert_eq!(names::plural(word), expected);
        }
        let mut versions = ["v1alpha1", "v1", "v2beta1", "v10", "v2beta3", "x"].map(Value::from);
        versions.sort_by_key(|name| std::cmp::Reverse(priority(name)));
        assert_eq!(
            versions,
            ["v10", "v1", "v2beta3", "v2beta1", "v1alpha1", "x"].map(Value::from)
        );
    }

    #[test]
    fn what_is_there_stays_beside_a_new_version() {
        let names = |version: &str| Names {
            group: "a.b".into(),
            version: version.into(),
            kind: "Web".into(),
            ..Names::default()
        };
        let make = |version| definition(&names(version), &FieldSchema::open_object(), &[], "web");
        let mut old = make("v1alpha1");
        old["metadata"]["annotations"] = json!({"a": "b"});
        old["spec"]["versions"][0]["deprecated"] = true.into();
        let joined = laid_over(make("v1"), &old);
        let versions = joined["spec"]["versions"].as_array().unwrap();
        let stored: Vec<_> = versions
            .iter()
            .map(|version| (version["name"].clone(), version["storage"].clone()))
            .collect();
        assert_eq!(stored, [("v1".into(), false.into()), ("v1alpha1".into(), true.into())]);
        assert_eq!(joined["metadata"]["annotations"]["a"], "b");
        assert_eq!(laid_over(make("v1alpha1"), &joined), joined);
    }
}
