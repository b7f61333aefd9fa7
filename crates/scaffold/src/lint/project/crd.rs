//! The CustomResourceDefinitions of a project.

use std::path::Path;

use serde_json::Value;

use crate::crd::definition::BASES;
use crate::lint::yaml::{self, Document};
use crate::survey::plural_of;

/// One definition.
pub struct Crd {
    pub(super) document: Document,
}

/// Where old projects of operator-sdk have definitions and samples.
pub(in crate::lint) const OLD_FOLDER: &str = "deploy/crds";
/// Where definitions may be.
pub const FOLDERS: [&str; 2] = [BASES, OLD_FOLDER];
/// All that a project has.
pub fn read(root: &Path) -> Vec<Crd> {
    let documents = FOLDERS.into_iter().flat_map(|folder| yaml::read_folder(root, folder));
    let crds = documents.filter(|document| document.value["kind"] == "CustomResourceDefinition");
    crds.map(|document| Crd { document }).collect()
}

/// The plural of a kind: that of its definition, or the usual one of such a kind.
pub fn plural(crds: &[Crd], group: &str, kind: &str) -> String {
    let crd = crds.iter().find(|crd| crd.is_of(group, kind));
    crd.map_or_else(|| plural_of(kind), |crd| crd.plural().to_owned())
}

impl Crd {
    pub fn value(&self) -> &Value {
        &self.document.value
    }

    /// The schema of a version.
    pub fn schema(&self, version: &str) -> Option<&Value> {
        self.version(version)?["schema"].get("openAPIV3Schema")
    }

    pub fn is_of(&self, group: &str, kind: &str) -> bool {
        let spec = &self.document.value["spec"];
        spec["group"] == group && spec["names"]["kind"] == kind
    }

    pub fn is_namespaced(&self) -> bool {
        self.document.value["spec"]["scope"] != "Cluster"
    }

    pub fn plural(&self) -> &str {
        let names = &self.document.value["spec"]["names"];
        names["plural"].as_str().unwrap_or_default()
    }

    pub fn file(&self) -> &str {
        &self.document.file
    }

    pub(super) fn version(&self, name: &str) -> Option<&Value> {
        let mut versions = self.document.value["spec"]["versions"].as_array()?.iter();
        versions.find(|version| version["name"] == name)
    }
}
