//! The key `dependsOn`: objects that must be ready before a release is installed or upgraded.

use go_yaml::Node;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::health::read_expression;
use crate::names;
use crate::reader::{Findings, MapFields};

/// Maximum number of entries in the list of a custom resource.
const MAX_ENTRIES: usize = 50;

/// One entry of `dependsOn`: an object and its readiness condition.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependsOn {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// `None`: the preferred version of the API server.
    #[serde(default)]
    pub version: Option<String>,
    pub kind: String,
    /// A name, or a Go template over the custom resource that renders one.
    pub name: String,
    /// A namespace, or a template that renders one. `None`: the namespace of the custom resource.
    #[serde(default)]
    pub namespace: Option<String>,
    /// A CEL condition over `self`. `None`: the object is ready if its condition `Ready` is true.
    #[serde(default, deserialize_with = "condition")]
    pub ready_when: Option<String>,
}

/// Reads an expression. YAML parses `true` as a bool.
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

impl DependsOn {
    /// Reads the list of a custom resource. `place` names it in messages. Templates are not allowed.
    ///
    /// # Errors
    /// The first problem and its place.
    pub fn list(place: &str, list: &Value) -> Result<Vec<Self>, String> {
        let items = match list {
            Value::Null => return Ok(Vec::new()),
            Value::Array(items) if items.len() > MAX_ENTRIES => {
                return Err(format!("{place}: more than {MAX_ENTRIES} entries"));
            }
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
        let fits = |field: &str, text: &str, fits: bool| {
            if fits {
                Ok(())
            } else {
                Err(format!("{field}: {text:?} can't be one"))
            }
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

/// Reads the key `dependsOn`.
pub(crate) fn read(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Vec<DependsOn> {
    let items = findings.read_list(fields, "dependsOn");
    items.iter().filter_map(|item| read_entry(item, findings)).collect()
}

fn read_entry(node: &Node, findings: &mut Findings<'_>) -> Option<DependsOn> {
    const KNOWN: [&str; 6] = ["group", "version", "kind", "name", "namespace", "readyWhen"];
    let fields = MapFields::open(node, "an entry of `dependsOn`", &KNOWN, findings)?;
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
    fn the_list_of_a_custom_resource_is_checked() {
        let message_of = |list: Value| DependsOn::list("it", &list).err().unwrap_or_default();
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
            let message = message_of(list.clone());
            assert!(
                message.contains(expected) && message.is_empty() == expected.is_empty(),
                "{list}: {message}"
            );
        }
    }
}
