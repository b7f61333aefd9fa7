//! Checks the CustomResourceDefinitions of a project against its watches and charts.

use go_yaml::Node;
use serde_json::Value;

use super::crd::OLD_FOLDER;
use super::watch_values::values;
use super::watched::Watched;
use crate::crd::definition::BASES;
use crate::lint::chart::examine::Examined;
use crate::lint::report::{LintReport, join};
use crate::lint::{rules, yaml};
use chartwright_watches::names::is_built_in;

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// Not served since Kubernetes 1.22.
const OLD_VERSION: &str = "apiextensions.k8s.io/v1beta1";

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
    let set = values(watched.watch, &Value::Null);
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
