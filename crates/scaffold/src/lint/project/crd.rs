//! The CustomResourceDefinitions of a project, against its watches and charts.

use std::path::Path;

use go_yaml::Node;
use serde_json::Value;

use super::watches::Watched;
use crate::crd::definition::BASES;
use crate::lint::chart::examine::Examined;
use crate::lint::yaml::{self, Document};
use crate::lint::{LintReport, join, rules};
use crate::survey::plural_of;
use chartwright_watches::names::is_built_in;

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// One definition.
pub struct Crd {
    document: Document,
}

/// Where old projects of operator-sdk have definitions and samples.
pub(in crate::lint) const OLD_FOLDER: &str = "deploy/crds";
/// Where definitions may be.
pub const FOLDERS: [&str; 2] = [BASES, OLD_FOLDER];
/// Not served since Kubernetes 1.22.
const OLD_VERSION: &str = "apiextensions.k8s.io/v1beta1";

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

/// Whether the kind of a watch is served, and has a status.
pub(in crate::lint) fn check_watched(file: &str, watched: &Watched<'_>, report: &mut LintReport) {
    let watch = watched.watch;
    if watch.decorator.is_some() || is_built_in(&watch.group) {
        return;
    }
    let Some(crd) = watched.crd else {
        let message = format!(
            "there is no CustomResourceDefinition of {} in {BASES} or {OLD_FOLDER}",
            watch.group_kind()
        );
        report.add(rules::CRD_MISSING, file, (watch.line, 0), message);
        return;
    };
    if crd.document.value["apiVersion"] == OLD_VERSION {
        let message = format!("no API server from Kubernetes 1.22 on takes a definition of {OLD_VERSION}");
        let at = yaml::at(&crd.document.root, &["apiVersion"]).map_or((1, 0), yaml::place);
        report.add(rules::CRD_MISSING, crd.document.file.as_str(), at, message);
        return;
    }
    let Some(version) = crd.version(&watch.version).filter(|version| version["served"] == true) else {
        let message = format!(
            "{} doesn't serve {} in version {}",
            crd.document.file,
            watch.group_kind(),
            watch.version
        );
        report.add(rules::CRD_MISSING, file, (watch.line, 0), message);
        return;
    };
    if !crd.is_namespaced() && watch.target_namespace.is_none() {
        let message = format!(
            "{} is cluster-scoped, and the watch has no `targetNamespace`: its CRs have no namespace of their own",
            watch.group_kind()
        );
        report.add(rules::CRD_MISSING, file, (watch.line, 0), message);
    }
    let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
    let has_fields = status[OPEN] == true || status["properties"]["conditions"].is_object();
    if version["subresources"]["status"].is_null() || !has_fields {
        let at = yaml::at(&crd.document.root, &["spec", "versions"]).map_or((1, 0), yaml::place);
        let message = format!(
            "{} in version {} has no status subresource with room for conditions",
            watch.group_kind(),
            watch.version
        );
        report.add(rules::CRD_STATUS, crd.document.file.as_str(), at, message);
    }
}

/// Values of the chart that no custom resource can set.
pub(in crate::lint) fn check_values(examined: &Examined, watched: &Watched<'_>, report: &mut LintReport) {
    let Some(schema) = watched.schema() else { return };
    let Some((spec, crd)) = schema["properties"].get("spec").zip(watched.crd) else {
        return;
    };
    let file = join(&examined.folder, "values.yaml");
    for document in yaml::read(&report.root, &file) {
        let mut found = Vec::new();
        lacking(spec, &document.root, &mut Vec::new(), &mut found);
        for (path, at) in found {
            let is_read = examined
                .reads
                .as_ref()
                .is_none_or(|reads| reads.whole(&path) || reads.part(&path));
            if is_read && !is_set(watched, &path) {
                let message = format!("{} has no field spec.{}", crd.document.file, path.join("."));
                report.add(rules::CRD_LACKS_VALUE, file.as_str(), at, message);
            }
        }
    }
}

/// Whether the watch itself sets the value, so that no custom resource has to.
fn is_set(watched: &Watched<'_>, path: &[String]) -> bool {
    let set = super::watches::values(watched.watch, &Value::Null);
    let mut at = Some(&set);
    for name in path {
        at = at.and_then(|value| value.get(name));
    }
    at.is_some()
}

type Lacking = Vec<(Vec<String>, (usize, usize))>;

fn lacking(schema: &Value, values: &Node, path: &mut Vec<String>, found: &mut Lacking) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (name, key, value) in yaml::entries(values) {
        path.push(name.to_owned());
        match properties.get(name) {
            Some(property) => lacking(property, value, path, found),
            None if schema[OPEN] == true || !schema["additionalProperties"].is_null() => {}
            None => found.push((path.clone(), yaml::place(key))),
        }
        path.pop();
    }
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

    fn version(&self, name: &str) -> Option<&Value> {
        let mut versions = self.document.value["spec"]["versions"].as_array()?.iter();
        versions.find(|version| version["name"] == name)
    }
}

impl Watched<'_> {
    /// The schema of the version that is watched.
    pub(in crate::lint) fn schema(&self) -> Option<&Value> {
        self.crd?.schema(&self.watch.version)
    }
}
