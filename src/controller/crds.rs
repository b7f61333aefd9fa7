//! A chart's `crds/` folder belongs to the watch, not to a release: created when they are absent, without our labels,
//! never changed, pruned or deleted.

use serde_json::Value;

use crate::chart::Chart;
use crate::cluster::objects;
use crate::plan::identity::{GroupKind, ObjectId};
use crate::reconcile::Context;

/// What an attempt to create them came to.
#[derive(Default)]
pub struct Created {
    pub count: usize,
    /// What is wrong with the others.
    pub problems: Vec<String>,
    /// Some of it may pass: a right that is missing, a server that did not answer.
    pub again: bool,
}

/// Creates the chart's CustomResourceDefinitions that are not there yet.
pub async fn create(context: &Context, chart: &Chart) -> Created {
    let crd = GroupKind::new("apiextensions.k8s.io", "CustomResourceDefinition");
    let Created {
        mut count,
        mut problems,
        mut again,
    } = Created::default();
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
            Ok(true) => count += 1,
            Ok(false) => {}
            Err(error) => {
                again |= !error.is_permanent();
                problems.push(format!("{source}: {id}: {error}"));
            }
        }
    }
    Created { count, problems, again }
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
