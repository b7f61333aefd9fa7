//! The HorizontalPodAutoscalers of a namespace: asked for while replicas are given up to one that may be gone.

use serde_json::Value;

use super::decoding::Whole;
use super::discovery::Discovery;
use super::error::Result;
use super::objects::list_whole;
use crate::plan::scale::autoscaler;

/// All of them. None where the API server doesn't serve the kind.
pub async fn list(discovery: &Discovery, namespace: &str) -> Result<Vec<Value>> {
    let snapshot = discovery.snapshot();
    let Some(resource) = snapshot.served(&autoscaler())? else {
        return Ok(Vec::new());
    };
    let found = list_whole(discovery, resource, Some(namespace)).await?;
    Ok(found.iter().map(Whole::outline).collect())
}
