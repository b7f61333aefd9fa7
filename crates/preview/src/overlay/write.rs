//! Writes: members are checked by the API server as dry runs, everything else stays in the overlay.

use std::sync::Arc;

use chartwright_core::annotations::HOOK_RUN;
use chartwright_core::identity::applyset::TRACKING_ANNOTATION;
use chartwright_operator::cluster::objects::{FIELD_MANAGER, NO_VERSION};
use fake_apiserver::ServedKind;
use fake_apiserver::call::{ApiCall, BoxError, CallAnswer, CallTarget, answer, failure};
use http::{HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::read::describe;
use super::{Answer, ClusterOverlay, ObjectPlace, ObjectRole, Touched, pass, path_of, read_of};
use crate::server::dry_run;

/// Metadata that a change keeps as it is live.
const SYSTEM: [&str; 6] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
];

impl ClusterOverlay {
    pub(super) async fn write(&self, call: ApiCall, mut target: CallTarget) -> CallAnswer {
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        if target.name.is_empty() {
            target.name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        }
        let place = ObjectPlace::of(&target);
        if is_event(&place) {
            return pass((201, body));
        }
        if call.parameter("dryRun").is_some() {
            return self.check(call, &target).await;
        }
        if self.journal().get(&place).is_none() {
            if let Some(answer) = self.create(&call, &target, &body).await? {
                return Ok(answer);
            }
            self.read_for_write(&call, &target, &body).await?;
        }
        let Some(touched) = self.journal().get(&place).cloned() else {
            let message = format!("{} \"{}\" not found", target.resource, target.name);
            return Ok(failure(404, "NotFound", &message));
        };
        if touched.role != ObjectRole::Member {
            return self.write_local(&call, &target, false).await;
        }
        if call.method == Method::DELETE {
            return self.delete(call, &target, &touched).await;
        }
        if self.is_out_of_time() {
            return self.write_local(&call, &target, true).await;
        }
        if touched.is_written || touched.live.is_none() {
            return self.write_again(call, &target, &touched).await;
        }
        let checked = self.ask_live(dry_run(complete(&call))).await?;
        if is_without_dry_run(&checked) {
            return self.write_local(&call, &target, true).await;
        }
        self.take_answer(&call, &target, checked).await
    }

    /// A dry run of the operator itself.
    async fn check(&self, call: ApiCall, target: &CallTarget) -> CallAnswer {
        if self.journal().is_new_kind(target) {
            return self.local(&call).await;
        }
        self.0.live.send(dry_run(call)).await
    }

    /// A write that can only create a member: the API server itself reports whether there is one. `None`: another kind of write.
    async fn create(
        &self,
        call: &ApiCall,
        target: &CallTarget,
        body: &Value,
    ) -> Result<Option<fake_apiserver::call::CallResponse>, BoxError> {
        let creates = call.method == Method::POST || body["metadata"]["resourceVersion"] == NO_VERSION;
        if !creates || self.role_of(&ObjectPlace::of(target), body) != ObjectRole::Member {
            return Ok(None);
        }
        let Some(kind) = kind_of(target, body) else {
            return Ok(None);
        };
        let place = ObjectPlace::of(target);
        let is_unchecked = self.is_unchecked(target);
        let (status, object) = if is_unchecked {
            (404, Value::Null)
        } else {
            self.ask_live(dry_run(complete(call))).await?
        };
        if status == 409 {
            self.journal().existing.insert(place);
            return Ok(Some(pass((status, object))?));
        }
        let answer = (status, object);
        if is_unchecked || is_without_dry_run(&answer) || self.lacks_prerequisite(target, &answer) {
            self.seed(&place, &kind, None, ObjectRole::Member);
            let answer = self.write_local(call, target, true).await?;
            self.note_new_kinds(target);
            return Ok(Some(answer));
        }
        if status < 300 {
            self.seed(&place, &kind, None, ObjectRole::Member);
        }
        Ok(Some(self.take_answer(call, target, answer).await?))
    }

    /// True if the API server is not asked about a write.
    fn is_unchecked(&self, target: &CallTarget) -> bool {
        self.is_out_of_time() || self.journal().is_new_kind(target)
    }

    /// Reads the object that a write is about.
    async fn read_for_write(&self, call: &ApiCall, target: &CallTarget, body: &Value) -> Result<(), BoxError> {
        let place = ObjectPlace::of(target);
        // A hook runs again even if objects of its last run are left.
        let role_of_body = self.role_of(&place, body);
        let is_unread = self.is_quick() && role_of_body == ObjectRole::Hook;
        let (status, object) = if is_unread || self.journal().is_new_kind(target) {
            (404, Value::Null)
        } else {
            self.ask_live(complete(&read_of(call, target))).await?
        };
        let live = match status {
            200 => Some(object),
            404 => None,
            _ => {
                let message = object["message"].as_str().unwrap_or("no answer").to_owned();
                if status == 403 {
                    self.journal()
                        .forbidden
                        .insert(format!("get {} {}", describe(target), target.name));
                }
                return Err(message.into());
            }
        };
        let shown = live.as_ref().unwrap_or(body);
        let Some(kind) = kind_of(target, shown) else {
            return Ok(());
        };
        let role = match (&live, call.method == Method::PATCH && body["kind"].is_string()) {
            // The writer states what the object is to be.
            (_, true) => role_of_body,
            (Some(live), false) => self.role_of(&place, live),
            (None, false) => ObjectRole::Own,
        };
        self.seed(&place, &kind, live.map(Arc::new), role);
        Ok(())
    }

    /// What an object is. `object`: as it is written, or live.
    fn role_of(&self, place: &ObjectPlace, object: &Value) -> ObjectRole {
        let annotations = &object["metadata"]["annotations"];
        if *place == self.0.custom_resource {
            ObjectRole::CustomResource
        } else if annotations[HOOK_RUN].is_string() {
            ObjectRole::Hook
        } else if place.is("coordination.k8s.io", "leases")
            || place.is("", "pods") && !annotations[TRACKING_ANNOTATION].is_string()
        {
            ObjectRole::Own
        } else if place.is("", "secrets") && !annotations[TRACKING_ANNOTATION].is_string() {
            // Record, random results, hooks and renders of the release; and the release Secrets of Helm.
            ObjectRole::Own
        } else {
            ObjectRole::Member
        }
    }

    /// Takes over what the API server would make of a write.
    async fn take_answer(&self, call: &ApiCall, target: &CallTarget, (status, object): Answer) -> CallAnswer {
        let place = ObjectPlace::of(target);
        if status >= 300 {
            self.note_refusal(&place, status, &object);
            return pass((status, object));
        }
        let key = self.journal().key(&place);
        if let Some(key) = key {
            let mut store = self.fake().store();
            if let Some(kind) = store.kind_by_key(key.0) {
                let live = store.objects.get(&key).cloned();
                if live.is_none_or(|live| !is_same(&live, &object)) {
                    store.put(&kind, key, object);
                    drop(store);
                    self.journal().wrote(&place, |_| {});
                }
            }
        }
        self.journal().refusals.remove(&place);
        self.note_new_kinds(target);
        self.show(call, target, status).await
    }

    /// Writes a member that this run has written before. The API server knows only the live object, so the write is merged here, and the
    /// API server checks the change from the live object.
    async fn write_again(&self, call: ApiCall, target: &CallTarget, touched: &Touched) -> CallAnswer {
        let place = ObjectPlace::of(target);
        let current = self.object(&place);
        let uid = |object: &Value| object["metadata"]["uid"].clone();
        let base = touched
            .live
            .as_ref()
            .filter(|live| current.as_ref().is_some_and(|current| uid(live) == uid(current)));
        let Some(live) = base else {
            return self.write_local(&call, target, true).await;
        };
        let (status, merged) = self.ask_local(&dry_run(complete(&call))).await;
        if status >= 300 {
            return pass((status, merged));
        }
        let mut wanted = merged.clone();
        for field in SYSTEM {
            match live["metadata"].get(field) {
                Some(value) => wanted["metadata"][field] = value.clone(),
                None => drop(
                    wanted["metadata"]
                        .as_object_mut()
                        .map(|metadata| metadata.remove(field)),
                ),
            }
        }
        let (status, mut checked) = self.ask_live(change(&call, target, live, &wanted)).await?;
        if status >= 300 {
            self.note_refusal(&place, status, &checked);
            return pass((status, checked));
        }
        checked["metadata"]["managedFields"] = merged["metadata"]["managedFields"].clone();
        checked["metadata"]["resourceVersion"] = Value::Null;
        self.take_answer(&call, target, (status, checked)).await
    }

    /// Deletes a member: the API server checks whether it may be deleted. Finalizers of others do not delay it here.
    async fn delete(&self, call: ApiCall, target: &CallTarget, touched: &Touched) -> CallAnswer {
        let place = ObjectPlace::of(target);
        let (refusal, object) = self.ask_local(&dry_run(complete(&call))).await;
        if refusal >= 300 {
            return pass((refusal, object));
        }
        let is_unchecked = self.is_unchecked(target);
        if touched.live.is_some() && !touched.was_deleted && !is_unchecked {
            let mut checked = dry_run(complete(&call));
            if touched.is_written {
                checked = without_version(checked);
            }
            let (status, body) = self.ask_live(checked).await?;
            if status >= 300 && status != 404 {
                self.note_refusal(&place, status, &body);
                return pass((status, body));
            }
        }
        if let Some(key) = self.journal().key(&place) {
            self.fake().store().remove(key);
        }
        self.journal().wrote(&place, |touched| touched.was_deleted = true);
        let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
        Ok(answer(StatusCode::OK, &success))
    }

    /// Writes into the overlay only.
    async fn write_local(&self, call: &ApiCall, target: &CallTarget, is_unchecked: bool) -> CallAnswer {
        let place = ObjectPlace::of(target);
        let before = self.object(&place);
        // The version of a live object that the call names is that of the overlay's copy.
        let response = self.local(call).await?;
        if response.status().is_success() {
            let is_deleted = call.method == Method::DELETE;
            if is_deleted && let Some(key) = self.journal().key(&place) {
                self.fake().store().remove(key);
            }
            if is_deleted || before != self.object(&place) {
                self.journal().wrote(&place, |touched| {
                    touched.was_deleted |= is_deleted;
                    touched.is_unchecked |= is_unchecked;
                });
            }
        }
        Ok(response)
    }

    fn note_refusal(&self, place: &ObjectPlace, status: u16, body: &Value) {
        // The operator reads the object and tries again.
        if status == 409 {
            return;
        }
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        let refusal = (status, text("reason"), text("message"));
        self.journal().refusals.insert(place.clone(), refusal);
    }

    /// True if the API server refuses a creation because a namespace does not exist that this run creates.
    fn lacks_prerequisite(&self, target: &CallTarget, (status, body): &Answer) -> bool {
        let namespace = ObjectPlace {
            group: String::new(),
            resource: "namespaces".to_owned(),
            namespace: String::new(),
            name: target.namespace.clone(),
        };
        let is_created = || {
            self.journal()
                .get(&namespace)
                .is_some_and(|touched| touched.live.is_none())
        };
        let details = &body["details"];
        *status == 404
            && details["kind"] == "namespaces"
            && details["name"] == target.namespace.as_str()
            && is_created()
    }

    /// Remembers the kinds that a written CustomResourceDefinition defines.
    fn note_new_kinds(&self, target: &CallTarget) {
        if target.group != "apiextensions.k8s.io" {
            return;
        }
        let place = ObjectPlace::of(target);
        let Some(definition) = self.object(&place) else {
            return;
        };
        let is_created = self.journal().get(&place).is_some_and(|touched| touched.live.is_none());
        let text = |pointer: &str| {
            definition
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        if is_created {
            let kind = (text("/spec/group"), text("/spec/names/plural"));
            self.journal().new_kinds.insert(kind);
        }
    }
}

/// True if an admission webhook keeps the API server from a dry run
/// (`NewDryRunUnsupportedErr` of k8s.io/apiserver/pkg/admission/plugin/webhook/errors).
fn is_without_dry_run((status, body): &Answer) -> bool {
    let message = body["message"].as_str().unwrap_or_default();
    *status == 400 && message.contains("does not support dry run")
}

fn is_event(place: &ObjectPlace) -> bool {
    place.resource == "events" && matches!(place.group.as_str(), "" | "events.k8s.io")
}

/// The kind of a target, which only the object itself names.
fn kind_of(target: &CallTarget, object: &Value) -> Option<ServedKind> {
    let kind = object["kind"].as_str().filter(|kind| !kind.is_empty())?;
    let is_it = |known: &&ServedKind| known.group == target.group && known.plural == target.resource;
    let built_in = fake_apiserver::BUILT_IN.iter().find(is_it);
    let built_in = built_in.map(|known| ServedKind {
        version: ServedKind::defined(&target.group, &target.version, kind, &target.resource, known.namespaced).version,
        ..*known
    });
    Some(built_in.unwrap_or_else(|| {
        let namespaced = !target.namespace.is_empty();
        ServedKind::defined(&target.group, &target.version, kind, &target.resource, namespaced)
    }))
}

/// A call whose answer is the complete object.
fn complete(call: &ApiCall) -> ApiCall {
    let mut call = call.clone();
    let json = HeaderValue::from_static("application/json");
    call.headers.insert(http::header::ACCEPT, json);
    call
}

/// A dry run of the change from a live object, with the user of another call.
fn change(call: &ApiCall, target: &CallTarget, live: &Value, wanted: &Value) -> ApiCall {
    let patch = serde_json::to_value(json_patch::diff(live, wanted)).unwrap_or_default();
    let uri = format!(
        "{}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict",
        path_of(target)
    );
    let mut patched = ApiCall::new("PATCH", &uri, &patch);
    let content = patched.headers.remove(http::header::CONTENT_TYPE);
    patched.headers = complete(call).headers;
    if let Some(content) = content {
        patched.headers.insert(http::header::CONTENT_TYPE, content);
    }
    patched.headers.remove(http::header::CONTENT_LENGTH);
    dry_run(patched)
}

/// A deletion without the version of the overlay's object, which the API server does not know.
fn without_version(mut call: ApiCall) -> ApiCall {
    let mut options: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    if let Some(preconditions) = options["preconditions"].as_object_mut() {
        preconditions.remove("resourceVersion");
    }
    call.body = options.to_string().into();
    call
}

/// True if a write changes nothing that the API server stores.
fn is_same(live: &Value, written: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        object
    };
    bare(live) == bare(written)
}
