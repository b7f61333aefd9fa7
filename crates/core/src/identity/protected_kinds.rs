//! The kinds whose pruning takes data or other objects with it.

use crate::identity::GroupKind;

const PROTECTED: [(&str, &str); 3] = [
    ("", "Namespace"),
    ("", "PersistentVolumeClaim"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

/// True if objects of this kind are pruned only where a user allows it.
pub fn is_protected(group_kind: &GroupKind) -> bool {
    PROTECTED.contains(&(group_kind.group.as_str(), group_kind.kind.as_str()))
}
