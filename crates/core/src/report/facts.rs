//! What was read from the cluster about a release.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::identity::{GroupKind, ObjectId};

/// The longest text of a report, in bytes.
pub(super) const LONGEST_TEXT: usize = 2048;

/// What was read from the cluster about a release.
#[derive(Clone, Debug)]
pub struct ReportFacts {
    /// The kind of the custom resource.
    pub kind: GroupKind,
    /// The custom resource.
    pub resource: Value,
    /// The field manager of the operator's status.
    pub status_manager: String,
    /// Members that are not in the inventory of the status, because the status has not room for all.
    pub unlisted: Vec<ObjectId>,
    /// Live members, hooks, and the objects that they own, in any order.
    pub objects: Vec<Value>,
    /// Events about any of them, or about the custom resource.
    pub events: Vec<Value>,
    /// Nodes that are not ready or do not exist, with the reason.
    pub unavailable_nodes: BTreeMap<String, String>,
    /// `None`: not needed, or they could not be read.
    pub ingress_classes: Option<IngressClasses>,
    /// The template of each member, if the chart was rendered for the report.
    pub templates: BTreeMap<ObjectId, String>,
    /// What could not be read, and why.
    pub unread: Vec<Unread>,
    /// The release that the labels of `resource` name, if it is marked as a member.
    pub named_release: Option<ObjectId>,
}

impl ReportFacts {
    /// The facts of a custom resource of this kind, without anything about its members.
    pub fn new(kind: GroupKind, resource: Value) -> Self {
        ReportFacts {
            kind,
            resource,
            status_manager: String::new(),
            unlisted: Vec::new(),
            objects: Vec::new(),
            events: Vec::new(),
            unavailable_nodes: BTreeMap::new(),
            ingress_classes: None,
            templates: BTreeMap::new(),
            unread: Vec::new(),
            named_release: None,
        }
    }
}

/// The IngressClasses of the cluster.
#[derive(Clone, Debug, Default)]
pub struct IngressClasses {
    pub names: Vec<String>,
    /// True if one of them is the default.
    pub has_default: bool,
}

/// A kind that was not read in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    #[serde(flatten)]
    pub kind: GroupKind,
    /// Empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Why it was not read.
    pub message: String,
}
