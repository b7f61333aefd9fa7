//! Answers the API server.
//!
//! What a request may cost is bounded: its size, the previews at a time, the time of each, and the memory of its renders, which is that of
//! the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use chartwright_core::admission::answer::AdmissionAnswer;
use chartwright_core::admission::request::{AdmissionRequest, ReleaseChange};
use kube::api::DynamicObject;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Admission, Connected, PreviewJob};
use crate::controller::Configuration;
use crate::reconcile::{CustomResource, RenderResources, Unit};
use crate::telemetry::metrics::AdmissionResult;

/// The largest request, in bytes: the API server takes objects of 3 MiB, and sends two.
const MAX_BODY: usize = 7 << 20;

/// How long a request waits for its turn.
const WAIT: Duration = Duration::from_secs(1);

/// How long a preview may take. The API server waits 3 s.
const PREVIEW_TIMEOUT: Duration = Duration::from_millis(1800);

pub(super) async fn serve(State(admission): State<Arc<Admission>>, Path(path): Path<String>, body: Body) -> Response {
    let workload = admission.workload.borrow().clone();
    let (Some(connected), Some(workload)) = (admission.connected.get(), workload) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the operator is starting\n").into_response();
    };
    if !connected.is_signed(&path) {
        return StatusCode::NOT_FOUND.into_response();
    }
    // Waits before it reads: a body takes memory.
    let place = timeout(WAIT, admission.places.acquire()).await;
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the request is too large\n").into_response();
    };
    let request = match AdmissionRequest::parse(&body) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("no AdmissionReview: {error}\n")).into_response(),
    };
    drop(body);
    let started = Instant::now();
    let uid = request.uid.clone();
    let (group, kind) = (request.kind.group.clone(), request.kind.kind.clone());
    let (answer, result) = match place {
        Ok(Ok(_place)) => {
            let (configured, render) = (workload.configured, workload.render);
            admission.decide(connected, &configured, render, request).await
        }
        _ => (
            AdmissionAnswer::without_preview("the operator previews others at the moment"),
            AdmissionResult::Unknown,
        ),
    };
    admission
        .metrics
        .admission
        .reviewed(&group, &kind, result, started.elapsed());
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, answer.to_review(&uid).to_string()).into_response()
}

impl Admission {
    async fn decide(
        &self,
        connected: &Connected,
        configured: &watch::Receiver<Configuration>,
        render: RenderResources,
        request: AdmissionRequest,
    ) -> (AdmissionAnswer, AdmissionResult) {
        let irrelevant = (AdmissionAnswer::default(), AdmissionResult::Allowed);
        let (group_kind, version) = (request.group_kind(), request.kind.version.clone());
        let Some(ReleaseChange { live, resource }) = request.into_change() else {
            return irrelevant;
        };
        let Ok(object) = serde_json::from_value::<DynamicObject>(resource.clone()) else {
            return irrelevant;
        };
        let custom = CustomResource::from(object);
        let is_ours = |unit: &Unit| unit.is_ours(&custom.labels, custom.is_marked());
        let Some(unit) = self.unit(connected, configured, (&group_kind, &version), is_ours) else {
            return irrelevant;
        };
        let job = PreviewJob {
            client: connected.client.clone(),
            discovery: connected.discovery.clone(),
            keys: connected.keys.clone(),
            operator: self.options.operator.clone(),
            own_namespace: connected.own_namespace.clone(),
            render,
            unit,
            live: live.clone(),
            resource,
        };
        match timeout(PREVIEW_TIMEOUT, (self.preview)(job)).await {
            Ok(Ok(preview)) => {
                let answer = AdmissionAnswer::from_preview(&preview, live.as_ref());
                let result = match answer.refusal {
                    Some(_) => AdmissionResult::Refused,
                    None => AdmissionResult::Allowed,
                };
                (answer, result)
            }
            Ok(Err(error)) => {
                tracing::warn!(kind = %group_kind, release = %custom.key, error, "a change was not previewed");
                (
                    AdmissionAnswer::without_preview("the operator's log has the reason"),
                    AdmissionResult::Unknown,
                )
            }
            Err(_) => (
                AdmissionAnswer::without_preview(&format!("it takes more than {PREVIEW_TIMEOUT:?}")),
                AdmissionResult::Unknown,
            ),
        }
    }
}
