//! A release that helm-operator made, put back while a lane's operator is away.

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::former;
use crate::lane::Lane;
use crate::look::uid;

fn by_helm_operator() -> PostParams {
    PostParams {
        field_manager: Some("helm-operator".to_owned()),
        ..PostParams::default()
    }
}

/// As [`former::restore_as`] does with kubectl, which takes a process for each object and each of its managedFields.
pub async fn former_release(lane: &Lane, release: &str, spec: Value) -> Result<()> {
    let mut items = former::read(&lane.world, "operator-sdk-widget", "plain", release)?;
    let mut widget = items.remove(0);
    let former_uid = uid(&widget);
    widget["spec"] = spec;
    let status = widget["status"].take();
    let fields = widget["metadata"]["managedFields"].take();
    let metadata = widget["metadata"].as_object_mut().context("metadata")?;
    metadata.retain(|field, _| field != "uid" && field != "managedFields");
    let widgets = lane.widgets();
    let made = widgets
        .create(&by_helm_operator(), &serde_json::from_value(widget)?)
        .await?;
    let parameters = PatchParams::default();
    let status = Patch::Merge(json!({"status": status}));
    widgets.patch_status(release, &parameters, &status).await?;
    let fields = Patch::Merge(json!({"metadata": {"managedFields": fields}}));
    widgets.patch(release, &parameters, &fields).await?;
    let now = made.metadata.uid.context("a UID")?;
    for object in former::packed(former::owned_by(&items, &former_uid, &now)?)? {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let objects = lane.of_kind(object["kind"].as_str().unwrap_or_default());
        let fields = Patch::Merge(json!({"metadata": {"managedFields": object["metadata"]["managedFields"]}}));
        objects
            .create(&by_helm_operator(), &serde_json::from_value(object)?)
            .await
            .with_context(|| name.clone())?;
        objects.patch(&name, &parameters, &fields).await?;
    }
    Ok(())
}
