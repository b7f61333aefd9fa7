//! What the metadata of a live CustomResourceDefinition shows.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::CRD_MANAGER;
use super::chart::VersionMarks;
use crate::annotations::{ALLOW_UNSAFE_CRD, CRD_CHART, CRD_DIGEST, CRD_OPERATOR};
use crate::drift::managed_fields::{applied, fields, foreign, is_leaf};
use crate::identity::applyset::{PART_OF_LABEL, TRACKING_ANNOTATION};
use crate::takeover::{HELM_NAMESPACE, HELM_RELEASE};

/// The definitions of the cluster, as their watch shows them.
#[derive(Clone, Debug, Default)]
pub struct InstalledCrds {
    pub by_name: HashMap<String, Arc<LiveCrd>>,
    /// False while the watch fails: definitions may be missing here.
    pub is_watched: bool,
}

/// A live CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveCrd {
    pub uid: String,
    pub generation: i64,
    pub is_deleting: bool,
    /// The recorded digest of the chart's definition, if an operator applied one.
    pub digest: Option<String>,
    /// The name of the operator that applied it.
    pub operator: Option<String>,
    /// The digest of the definition that a user permits.
    pub permit: Option<String>,
    pub marks: VersionMarks,
    pub owner: Option<CrdOwner>,
    /// The last other field manager that wrote it.
    pub last_writer: Option<String>,
    /// `fieldsV1` of what the operator applied.
    applied: Option<Value>,
}

/// An owner of a live definition that is not a chart's `crds/` folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrdOwner {
    /// It is a member of a release: a chart renders it from its templates.
    Member,
    /// An object of a Helm release, or of a controller.
    Other(String),
}

impl LiveCrd {
    /// Reads the metadata.
    pub fn new(metadata: &ObjectMeta) -> Self {
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        let managed_fields = metadata.managed_fields.as_deref().unwrap_or_default();
        let texts = json!({"labels": metadata.labels, "annotations": metadata.annotations});
        LiveCrd {
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            digest: annotation(CRD_DIGEST),
            operator: annotation(CRD_OPERATOR),
            permit: annotation(ALLOW_UNSAFE_CRD),
            marks: VersionMarks::new(&texts, annotation(CRD_CHART)),
            owner: owner(metadata),
            last_writer: foreign(managed_fields, CRD_MANAGER)
                .first()
                .and_then(|entry| entry.manager.clone()),
            applied: applied(managed_fields, CRD_MANAGER).and_then(fields).cloned(),
        }
    }

    /// True if every field is still ours: no other field manager has changed or removed it since it was applied. `pointers`: as
    /// `/f:spec/f:scope`.
    pub fn owns(&self, pointers: &[String]) -> bool {
        let Some(applied) = &self.applied else { return false };
        pointers.iter().all(|pointer| is_owned(applied, pointer))
    }
}

/// A leaf stands for everything below it.
fn is_owned(set: &Value, pointer: &str) -> bool {
    let mut below = set;
    for key in pointer.split('/').skip(1) {
        match below.get(key) {
            Some(next) if is_leaf(next) => return true,
            Some(next) => below = next,
            None => return false,
        }
    }
    true
}

fn owner(metadata: &ObjectMeta) -> Option<CrdOwner> {
    let label = |key: &str| metadata.labels.as_ref()?.get(key);
    let annotation = |key: &str| metadata.annotations.as_ref()?.get(key);
    if label(PART_OF_LABEL).is_some() && annotation(TRACKING_ANNOTATION).is_some() {
        return Some(CrdOwner::Member);
    }
    if let Some(release) = annotation(HELM_RELEASE) {
        let namespace = annotation(HELM_NAMESPACE).map(String::as_str).unwrap_or_default();
        return Some(CrdOwner::Other(format!("the Helm release {namespace}/{release}")));
    }
    let mut owners = metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    Some(CrdOwner::Other(format!("{} {}", controller.kind, controller.name)))
}
