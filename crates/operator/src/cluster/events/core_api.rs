//! Events of the core API (`v1`), for operators whose role names `events` of the core group only, as roles of
//! operator-sdk do. Both APIs show the same objects; RBAC distinguishes them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::sync::lock;
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::events::{Event, EventType, Reporter};
use kube::{Client, Error};
use serde_json::json;

/// Bytes of the name of the object that begin the name of an Event; a name may have 253.
const NAME_BYTES: usize = 220;

/// Counts repetitions of an Event instead of writing it again.
pub(in crate::cluster) struct CoreRecorder {
    client: Client,
    reporter: Reporter,
    window: Duration,
    written: Mutex<HashMap<u64, WrittenEvent>>,
}

#[derive(Clone)]
struct WrittenEvent {
    name: String,
    count: i32,
    at: Instant,
}

impl CoreRecorder {
    /// `window`: how long an Event is remembered.
    pub(in crate::cluster) fn new(client: Client, reporter: Reporter, window: Duration) -> Self {
        CoreRecorder {
            client,
            reporter,
            window,
            written: Mutex::default(),
        }
    }

    /// Writes an Event, or counts one more where `key` was written within the window.
    pub(in crate::cluster) async fn publish(
        &self,
        key: u64,
        event: &Event,
        about: &ObjectReference,
    ) -> kube::Result<()> {
        // As kube's recorder does for objects without a namespace.
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let api: Api<CoreEvent> = Api::namespaced(self.client.clone(), namespace);
        let now = jiff::Timestamp::now();
        if let Some(written) = self.recall(key) {
            let count = written.count.saturating_add(1);
            let repeated = Patch::Merge(json!({"count": count, "lastTimestamp": Time(now)}));
            match api.patch(&written.name, &PatchParams::default(), &repeated).await {
                Ok(_) => {
                    self.remember(key, written.name, count);
                    return Ok(());
                }
                // Old roles allow `create` only. The first Event says everything but how often.
                Err(Error::Api(status)) if status.is_forbidden() => return Ok(()),
                // It was deleted: it is written again.
                Err(Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let event = self.event(event, about, namespace, now);
        let name = api.create(&PostParams::default(), &event).await?.metadata.name;
        self.remember(key, name.unwrap_or_default(), 1);
        Ok(())
    }

    fn event(&self, event: &Event, about: &ObjectReference, namespace: &str, now: jiff::Timestamp) -> CoreEvent {
        let Reporter { controller, instance } = &self.reporter;
        let object = about.name.as_deref().unwrap_or("operator");
        let name = format!(
            "{}.{:x}",
            &object[..object.floor_char_boundary(NAME_BYTES)],
            now.as_nanosecond()
        );
        CoreEvent {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: about.clone(),
            reason: Some(event.reason.clone()),
            message: event.note.clone(),
            action: Some(event.action.clone()),
            type_: Some(match event.type_ {
                EventType::Normal => "Normal".to_owned(),
                EventType::Warning => "Warning".to_owned(),
            }),
            count: Some(1),
            event_time: Some(MicroTime(now)),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            reporting_component: Some(controller.clone()),
            reporting_instance: Some(instance.as_ref().unwrap_or(controller).clone()),
            source: Some(EventSource {
                component: Some(controller.clone()),
                ..EventSource::default()
            }),
            ..CoreEvent::default()
        }
    }

    fn recall(&self, key: u64) -> Option<WrittenEvent> {
        let mut known = lock(&self.written);
        known.retain(|_, written| written.at.elapsed() < self.window);
        known.get(&key).cloned()
    }

    fn remember(&self, key: u64, name: String, count: i32) {
        let written = WrittenEvent {
            name,
            count,
            at: Instant::now(),
        };
        lock(&self.written).insert(key, written);
    }
}
