//! A chart's `crds/` folder belongs to the watch, not to a release: created when they are absent, without our labels,
//! never changed, pruned or deleted.

use serde_json::Value;

use crate::chart::Chart;
use crate::cluster::objects;
use crate::plan::identity::{GroupKind, ObjectId};
use crate::reconcile::Context;

/// Creates the chart's CustomResourceDefinitions that are not there yet. Returns how many it created, and what went
/// wrong with the others.
pub async fn create(context: &Context, chart: &Chart) -> (usize, Vec<String>) {
    let crd = GroupKind::new("apiextensions.k8s.io", "CustomResourceDefinition");
    let (mut created, mut problems) = (0, Vec::new());
    let snapshot = context.discovery.snapshot();
    for (source, object) in objects_of(chart, &mut problems) {
        let Some((group_kind, version)) = GroupKind::of(&object) else {
            problems.push(format!("{source}: not a Kubernetes object"));
            continue;
        };
        if group_kind != crd {
            problems.push(format!(
                "{source}: {group_kind} is no CustomResourceDefinition; crds/ is for those only"
            ));
            continue;
        }
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let id = ObjectId::new(group_kind.clone(), "", name);
        let Some(resource) = snapshot.resource(&group_kind, &version) else {
            problems.push(format!(
                "{source}: the API server does not serve {group_kind} in {version}"
            ));
            continue;
        };
        match objects::create_if_absent(&context.discovery, resource, &id, &object).await {
            Ok(true) => created += 1,
            Ok(false) => {}
            Err(error) => problems.push(format!("{source}: {id}: {error}")),
        }
    }
    (created, problems)
}

fn objects_of(chart: &Chart, problems: &mut Vec<String>) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for dependency in &chart.dependencies {
        found.extend(objects_of(dependency, problems));
    }
    for file in &chart.crds {
        let text = String::from_utf8_lossy(&file.data);
        let documents = match crate::yaml::documents(&text) {
            Ok(documents) => documents,
            Err(error) => {
                problems.push(format!("{}: {error}", file.name));
                continue;
            }
        };
        for document in documents {
            match crate::yaml::to_json(document.as_bytes()) {
                Ok(Value::Null) => {}
                Ok(object) => found.push((file.name.clone(), object)),
                Err(error) => problems.push(format!("{}: {error}", file.name)),
            }
        }
    }
    found
}
