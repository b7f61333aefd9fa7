//! The key `dependsOn`: what has to be ready before a release is begun or upgraded.

use go_yaml::Node;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::health::read_expression;
use crate::names;
use crate::reader::{Findings, MapFields};

/// So many entries may a custom resource's own list have.
const MOST: usize = 50;

/// One entry of `dependsOn`: another object, and what makes it ready.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependsOn {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// `None`: the one that the API server prefers.
    #[serde(default)]
    pub version: Option<String>,
    pub kind: String,
    /// A name, or a Go template over the custom resource that makes one.
    pub name: String,
    /// The same for its namespace. `None`: the custom resource's.
    #[serde(default)]
    pub namespace: Option<String>,
    /// In CEL, over `self`. `None`: it is ready when its condition `Ready` says so.
    #[serde(default, deserialize_with = "condition")]
    pub ready_when: Option<String>,
}

/// An expression; YAML has `true` as a bool.
fn condition<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ConditionText {
        Bool(bool),
        Text(String),
    }
    let read = Option::<ConditionText>::deserialize(deserializer)?;
    Ok(read.map(|condition| match condition {
        ConditionText::Bool(always) => always.to_string(),
        ConditionText::Text(text) => text,
    }))
}

// === impl DependsOn ===

impl DependsOn {
    /// Reads the list that a custom resource has; `place` names it in messages.
    ///
    /// # FileErrors
    /// What is wrong with it, and where. Its author has no templates: he knows the names.
    pub fn list(place: &str, list: &Value) -> Result<Vec<Self>, String> {
        let items = match list {
            Value::Null => return Ok(Vec::new()),
            Value::Array(items) if items.len() > MOST => return Err(format!("{place}: more than {MOST} entries")),
            Value::Array(items) => items,
            _ => return Err(format!("{place} must be a list of {{kind, name, ...}}")),
        };
        let read = |(index, item)| {
            let place = format!("{place}[{index}]");
            let entry = DependsOn::deserialize(item).map_err(|error| format!("{place}: {error}"))?;
            entry.check().map_err(|error| format!("{place}: {error}"))?;
            Ok(entry)
        };
        items.iter().enumerate().map(read).collect()
    }

    fn check(&self) -> Result<(), String> {
        let fits = |field: &str, text: &str, fits: bool| match fits {
            true => Ok(()),
            false => Err(format!("{field}: {text:?} can't be one")),
        };
        fits("kind", &self.kind, names::is_kind(&self.kind))?;
        let group = &self.group;
        fits("group", group, group.is_empty() || names::is_dns_subdomain(group))?;
        let version = self.version.as_deref().unwrap_or("v1");
        fits("version", version, names::is_version(version))?;
        fits("name", &self.name, names::is_path_segment(&self.name))?;
        let namespace = self.namespace.as_deref().unwrap_or("default");
        fits("namespace", namespace, names::is_dns_label(namespace))
    }
}

/// The key `dependsOn`.
pub(crate) fn read(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Vec<DependsOn> {
    let items = findings.read_list(fields, "dependsOn");
    items.iter().filter_map(|item| read_entry(item, findings)).collect()
}

fn read_entry(node: &Node, findings: &mut Findings<'_>) -> Option<DependsOn> {
    const KNOWN: [&str; 6] = ["group", "version", "kind", "name", "namespace", "readyWhen"];
    let fields = MapFields::open(node, "an entry of `dependsOn`", &KNOWN, &[], findings)?;
    for name in ["kind", "name"] {
        if fields.get(name).is_none() {
            findings.error(
                node,
                format!("`{name}` is missing: an entry of `dependsOn` needs kind and name"),
            );
        }
    }
    let is_group = |group: &str| group.is_empty() || names::is_dns_subdomain(group);
    let group = findings.read_checked(&fields, "group", is_group, |group| {
        format!("`group` must be a DNS name such as cache.example.com, not {group:?}")
    });
    let version = findings.read_checked(&fields, "version", names::is_version, |version| {
        format!("`version` must be an API version such as v1alpha1, not {version:?}")
    });
    let kind = findings.read_checked(&fields, "kind", names::is_kind, |kind| {
        format!("`kind` must be a kind such as Memcached, not {kind:?}")
    });
    let name = findings.read_checked(
        &fields,
        "name",
        |name| name.contains("{{") || names::is_path_segment(name),
        |name| {
            format!(
                "`name` must be the name of an object, or a template such as {{{{ .spec.database }}}}, not {name:?}"
            )
        },
    );
    let is_namespace = |name: &str| name.contains("{{") || names::is_dns_label(name);
    let namespace = findings.read_checked(&fields, "namespace", is_namespace, |name| {
        format!("`namespace` must be a namespace or a template such as x-{{{{ .metadata.name }}}}, not {name:?}")
    });
    let ready_when = read_expression(&fields, "readyWhen", &["self"], findings);
    Some(DependsOn {
        group: group.unwrap_or_default(),
        version,
        kind: kind?,
        name: name?,
        namespace,
        ready_when: ready_when.map(|condition| condition.text().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_custom_resources_own_list_is_checked() {
        let told = |list: Value| DependsOn::list("it", &list).err().unwrap_or_default();
        for (list, expected) in [
            (Value::Null, ""),
            (
                json!([{"kind": "Database", "group": "a.b", "name": "x", "readyWhen": "true"}]),
                "",
            ),
            (json!([{"kind": "Database", "name": "x", "readyWhen": true}]), ""),
            (json!([{"kind": "A", "name": "x", "readyWhen": 1}]), "it[0]:"),
            (json!({"kind": "A"}), "it must be a list of"),
            (json!([{"kind": "A"}]), "it[0]: missing field `name`"),
            (json!([{"kind": "A", "name": "x", "ready": 1}]), "unknown field `ready`"),
            (
                json!([{"kind": "A", "name": "x"}, {"kind": "a-b", "name": "x"}]),
                "it[1]: kind: \"a-b\"",
            ),
            (json!([{"kind": "A", "name": "{{ .spec.x }}"}]), "it[0]: name:"),
            (json!([{"kind": "A", "name": "../x"}]), "it[0]: name:"),
            (
                json!([{"kind": "A", "name": "x", "namespace": "A"}]),
                "it[0]: namespace:",
            ),
            (json!([{"kind": "A", "name": "x", "group": "/"}]), "it[0]: group:"),
            (json!([{"kind": "A", "name": "x", "version": "1"}]), "it[0]: version:"),
            (
                Value::Array(vec![json!({"kind": "A", "name": "x"}); 51]),
                "more than 50",
            ),
        ] {
            let told = told(list.clone());
            assert!(
                told.contains(expected) && told.is_empty() == expected.is_empty(),
                "{list}: {told}"
            );
        }
    }
}
