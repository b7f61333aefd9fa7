//! Creates the CRDs of a chart's `crds/` folder. They belong to the watch, not to a release: created if absent, without our
//! labels, and never changed, pruned or deleted.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::objects;
use crate::reconcile::Context;
use chartwright_core::identity::{GroupKind, ObjectId};
use helm_template::chart::Chart;

/// How long to wait for the list of existing CRDs. Without it, each creation is attempted.
const LIST_WAIT: Duration = Duration::from_secs(10);

/// The outcome of an attempt to create the CRDs.
#[derive(Default)]
pub struct Created {
    pub count: usize,
    /// Problems with the other CRDs.
    pub problems: Vec<String>,
    /// True if a retry may succeed, for example after a missing permission.
    pub again: bool,
}

/// Creates the chart's absent CustomResourceDefinitions.
pub async fn create(context: &Context, chart: &Chart) -> Created {
    let crd = GroupKind::new("apiextensions.k8s.io", "CustomResourceDefinition");
    let mut created = Created::default();
    let objects = objects_of(chart, &mut created.problems);
    if objects.is_empty() {
        return created;
    }
    let mut known = context.crds.subscribe();
    let _ = tokio::time::timeout(LIST_WAIT, known.wait_for(Option::is_some)).await;
    let snapshot = context.discovery.snapshot();
    for (source, object) in objects {
        let Some((group_kind, version)) = GroupKind::of(&object) else {
            created.problems.push(format!("{source}: not a Kubernetes object"));
            continue;
        };
        if group_kind != crd {
            created.problems.push(format!(
                "{source}: {group_kind} is no CustomResourceDefinition; crds/ is for those only"
            ));
            continue;
        }
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let is_there = |known: &Option<HashSet<String>>| known.as_ref().is_some_and(|known| known.contains(&name));
        if is_there(&context.crds.borrow()) {
            continue;
        }
        let id = ObjectId::new(group_kind.clone(), "", name);
        let Some(resource) = snapshot.resource(&group_kind, &version) else {
            created.problems.push(format!(
                "{source}: the API server does not serve {group_kind} in {version}"
            ));
            continue;
        };
        match objects::create_if_absent(&context.client, resource, &id, &object).await {
            Ok(true) => created.count += 1,
            Ok(false) => {}
            Err(error) => {
                created.again |= !error.is_permanent();
                created.problems.push(format!("{source}: {id}: {error}"));
            }
        }
    }
    created
}

fn objects_of(chart: &Chart, problems: &mut Vec<String>) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for dependency in &chart.dependencies {
        found.extend(objects_of(dependency, problems));
    }
    for file in &chart.crds {
        let text = String::from_utf8_lossy(&file.data);
        let documents = match go_yaml::documents(&text) {
            Ok(documents) => documents,
            Err(error) => {
                problems.push(format!("{}: {error}", file.name));
                continue;
            }
        };
        for document in documents {
            match go_yaml::to_json(document.as_bytes()) {
                Ok(Value::Null) => {}
                Ok(object) => found.push((file.name.clone(), object)),
                Err(error) => problems.push(format!("{}: {error}", file.name)),
            }
        }
    }
    found
}
