//! Reads why a controller cannot create the pods of a workload or provision a claim. Only its Events say so.

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::cluster::connection::bounded;
use crate::cluster::error::Result;
use chartwright_core::health::pods::without_pod_name;
use chartwright_core::identity::ObjectId;

/// The reasons of Events that explain why nothing happens: of the workload controllers and of the volume controllers.
const REASONS: [&str; 5] = [
    "FailedCreate",
    "FailedBinding",
    "ProvisioningFailed",
    "WaitForFirstConsumer",
    "WaitForPodScheduled",
];

/// Events of one object that are read.
const FEW: u32 = 50;

/// The newest Event of a controller that could not create pods of a workload or provision a claim. `uid`: of the object.
///
/// # Errors
/// The Events cannot be listed.
pub async fn creation_failure(client: &Client, id: &ObjectId, uid: &str) -> Result<Option<String>> {
    let events: Api<Event> = Api::namespaced(client.clone(), &id.namespace);
    let parameters = ListParams::default()
        .fields(&format!("involvedObject.uid={uid}"))
        .limit(FEW);
    let found = bounded(events.list(&parameters)).await?.items.into_iter();
    let time = |event: &Event| {
        let series = event
            .series
            .as_ref()
            .and_then(|series| series.last_observed_time.as_ref());
        let micro = series.or(event.event_time.as_ref()).map(|time| time.0);
        event.last_timestamp.as_ref().map(|time| time.0).max(micro)
    };
    let is_failure = |event: &Event| event.reason.as_deref().is_some_and(|reason| REASONS.contains(&reason));
    let newest = found.filter(is_failure).max_by_key(time);
    Ok(newest.map(|event| {
        let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        format!("{reason}: {}", without_pod_name(&message, &id.name))
    }))
}
