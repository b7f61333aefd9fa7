//! The HorizontalPodAutoscalers of a namespace: asked for while replicas are given up to one that may be gone.

use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

use super::connect::bounded;
use super::discovery::Discovery;
use super::error::{Error, Result};
use crate::plan::scale::autoscaler;

/// Objects in one request; a larger list comes in pages.
const PAGE: u32 = 500;

/// All of them, whole. None where the API server doesn't serve the kind.
pub async fn list(discovery: &Discovery, namespace: &str) -> Result<Vec<Value>> {
    let snapshot = discovery.snapshot();
    let Some(resource) = snapshot.preferred(&autoscaler()) else {
        return match snapshot.has_failed(&autoscaler().group) {
            true => Err(Error::Unavailable("API group autoscaling does not answer".into())),
            false => Ok(Vec::new()),
        };
    };
    let api = discovery.api::<DynamicObject>(resource, Some(namespace));
    let mut parameters = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = bounded(api.list(&parameters)).await?;
        found.extend(page.items.into_iter().map(|object| object.data));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(found),
        }
    }
}
