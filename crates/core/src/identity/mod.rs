//! The identity of an object: group, kind, namespace and name. The API version is not part of it.

pub mod applyset;
pub mod cluster_scoped;
pub mod decorator;
pub mod owner_references;
pub mod ownership;
pub mod protected_kinds;
pub mod reserved_names;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A kind of object, across its versions. Prints as `Deployment.apps`, core kinds as `ConfigMap`: the form of the
/// ApplySet annotation `contains-group-kinds`, of `allow:` and of tracking ids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupKind {
    /// API group of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind of the object.
    pub kind: String,
}

/// One object in a cluster. `namespace` is empty for a cluster-scoped object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ObjectId {
    #[serde(flatten)]
    pub group_kind: GroupKind,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}
impl GroupKind {
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        GroupKind {
            group: group.into(),
            kind: kind.into(),
        }
    }

    /// Reads the printed form: everything after the first dot is the group.
    pub fn parse(text: &str) -> Self {
        match text.split_once('.') {
            Some((kind, group)) => GroupKind::new(group, kind),
            None => GroupKind::new("", text),
        }
    }

    /// The kind of a manifest, with the version part of its `apiVersion`; `None` if either field is missing or empty.
    pub fn of(object: &Value) -> Option<(Self, String)> {
        let api_version = object.get("apiVersion")?.as_str()?;
        let kind = object.get("kind")?.as_str().filter(|kind| !kind.is_empty())?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        (!version.is_empty()).then(|| (GroupKind::new(group, kind), version.to_owned()))
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}
impl ObjectId {
    pub fn new(group_kind: GroupKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        ObjectId {
            group_kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectId {
    /// As kubectl's users say it: `Deployment.apps shop/web`, `ClusterRole.rbac.authorization.k8s.io reader`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.group_kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn group_kinds_print_and_parse() {
        for (text, group, kind) in [
            ("ConfigMap", "", "ConfigMap"),
            ("Deployment.apps", "apps", "Deployment"),
            (
                "ClusterRole.rbac.authorization.k8s.io",
                "rbac.authorization.k8s.io",
                "ClusterRole",
            ),
        ] {
            let group_kind = GroupKind::parse(text);
            assert_eq!(group_kind, GroupKind::new(group, kind));
            assert_eq!(group_kind.to_string(), text);
        }
    }

    #[test]
    fn a_manifest_without_a_kind_has_no_identity() {
        let (group_kind, version) = GroupKind::of(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})).unwrap();
        assert_eq!(
            (group_kind.to_string().as_str(), version.as_str()),
            ("Deployment.apps", "v1")
        );
        for broken in [
            json!({"kind": "A"}),
            json!({"apiVersion": "v1"}),
            json!({"apiVersion": "g/", "kind": "A"}),
            json!(3),
        ] {
            assert!(GroupKind::of(&broken).is_none(), "{broken}");
        }
    }
}
