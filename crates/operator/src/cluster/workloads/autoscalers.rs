//! Lists HorizontalPodAutoscalers, while a replica count belongs to an autoscaler that may be gone.

use api_objects::Whole;
use kube::Client;
use serde_json::Value;

use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Result;
use crate::cluster::objects::list_objects;
use chartwright_core::members::autoscaling::autoscaler;

/// Lists those of a namespace. Empty if the API server does not serve the kind.
pub async fn list(client: &Client, snapshot: &Snapshot, namespace: &str) -> Result<Vec<Value>> {
    let Some(resource) = snapshot.served(&autoscaler())? else {
        return Ok(Vec::new());
    };
    let found = list_objects(client, resource, Some(namespace)).await?;
    Ok(found.iter().map(Whole::outline).collect())
}
