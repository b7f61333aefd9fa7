//! The HorizontalPodAutoscalers of a namespace: asked for while replicas are given up to one that may be gone.

use api_objects::Whole;
use kube::Client;
use serde_json::Value;

use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Result;
use crate::cluster::objects::list_objects;
use chartwright_core::members::autoscaling::autoscaler;

/// All of them. None where the API server doesn't serve the kind.
pub async fn list(client: &Client, snapshot: &Snapshot, namespace: &str) -> Result<Vec<Value>> {
    let Some(resource) = snapshot.served(&autoscaler())? else {
        return Ok(Vec::new());
    };
    let found = list_objects(client, resource, Some(namespace)).await?;
    Ok(found.iter().map(Whole::outline).collect())
}
