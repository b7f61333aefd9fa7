//! Reads: the live objects, except those that the run has touched.

use chartwright_core::identity::applyset::PART_OF_LABEL;
use fake_apiserver::call::{ApiCall, CallAnswer, CallTarget, failure};
use serde_json::Value;

use super::{Answer, ClusterOverlay, ObjectPlace, pass};

impl ClusterOverlay {
    pub(super) async fn get(&self, call: ApiCall, target: &CallTarget) -> CallAnswer {
        let place = ObjectPlace::of(target);
        let touched = self.journal().get(&place).map(|touched| touched.kind);
        if let Some(kind) = touched {
            self.serve_version(kind, target);
            return self.local(&call).await;
        }
        if self.journal().is_new_kind(target) || self.counts_as_absent(&call, &place) {
            return Ok(failure(
                404,
                "NotFound",
                &format!("{} \"{}\" not found", target.resource, target.name),
            ));
        }
        let answer = self.0.live.send(call).await?;
        if answer.status() == http::StatusCode::FORBIDDEN {
            let place = format!("get {} in {}", describe(target), describe_namespace(target));
            self.journal().forbidden.insert(place);
        }
        Ok(answer)
    }

    /// True if a user waits, and the operator looks whether an object exists that is no member of the release: its creation shows it.
    fn counts_as_absent(&self, call: &ApiCall, place: &ObjectPlace) -> bool {
        self.is_quick() && call.is_of_metadata() && !self.journal().existing.contains(place)
    }

    pub(super) async fn list(&self, call: ApiCall, target: &CallTarget) -> CallAnswer {
        let (touches, is_new) = {
            let journal = self.journal();
            (
                journal.touches(&target.group, &target.resource),
                journal.is_new_kind(target),
            )
        };
        if is_new {
            return self.local(&call).await;
        }
        if !touches {
            // Members that cannot be listed end the preview, unless their namespaces can.
            let selector = call.parameter("labelSelector").unwrap_or_default();
            let is_of_members = selector.starts_with(PART_OF_LABEL);
            let answer = self.0.live.send(call).await?;
            if answer.status() == http::StatusCode::FORBIDDEN && !is_of_members {
                let place = format!("list {} in {}", describe(target), describe_namespace(target));
                self.journal().forbidden.insert(place);
            }
            return Ok(answer);
        }
        let (status, mut live) = self.ask_live(call.clone()).await?;
        if status != 200 {
            return pass((status, live));
        }
        if let Some(items) = live["items"].as_array_mut() {
            let journal = self.journal();
            items.retain(|item| journal.get(&place_of(item, target)).is_none());
        }
        let is_last = live["metadata"]["continue"].as_str().is_none_or(str::is_empty);
        if is_last {
            let local = self.touched_items(call, target).await;
            if let Some(items) = live["items"].as_array_mut() {
                items.extend(local);
            }
        }
        pass((status, live))
    }

    /// The touched objects that a list shows.
    async fn touched_items(&self, mut call: ApiCall, target: &CallTarget) -> Vec<Value> {
        let kind = {
            let journal = self.journal();
            let mut touched = journal.objects.iter();
            let found = touched.find(|(place, _)| place.is(&target.group, &target.resource));
            found.map(|(_, touched)| touched.kind)
        };
        if let Some(kind) = kind {
            self.serve_version(kind, target);
        }
        call.query
            .retain(|(key, _)| !matches!(key.as_str(), "limit" | "continue"));
        let (_, listed): Answer = self.ask_local(&call).await;
        let mut items = match listed {
            Value::Object(mut list) => list.remove("items").and_then(|items| match items {
                Value::Array(items) => Some(items),
                _ => None,
            }),
            _ => None,
        }
        .unwrap_or_default();
        // The only field that the operator selects by.
        let selector = call
            .parameter("fieldSelector")
            .and_then(|text| text.strip_prefix("metadata.name="));
        if let Some(name) = selector {
            items.retain(|item| item["metadata"]["name"] == name);
        }
        items
    }

    /// Serves a kind also in the version that a call names.
    fn serve_version(&self, kind: fake_apiserver::ServedKind, target: &CallTarget) {
        let mut store = self.fake().store();
        if store.kind_of(target).is_none() {
            let group = target.group.as_str();
            let served =
                fake_apiserver::ServedKind::defined(group, &target.version, kind.kind, kind.plural, kind.namespaced);
            store.serve(served);
        }
    }
}

fn place_of(item: &Value, target: &CallTarget) -> ObjectPlace {
    let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
    ObjectPlace {
        group: target.group.clone(),
        resource: target.resource.clone(),
        namespace: text("namespace"),
        name: text("name"),
    }
}

/// `deployments.apps`.
pub(super) fn describe(target: &CallTarget) -> String {
    match target.group.as_str() {
        "" => target.resource.clone(),
        group => format!("{}.{group}", target.resource),
    }
}

fn describe_namespace(target: &CallTarget) -> String {
    match target.namespace.as_str() {
        "" => "the cluster".to_owned(),
        namespace => format!("the namespace {namespace}"),
    }
}
