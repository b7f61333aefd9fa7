//! The server: answers requests from a [`Store`] as kube-apiserver does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::call::{ApiCall, BoxError, CallAnswer, CallBody, CallServer, CallTarget, answer, failure, full_body};
use super::fields::{self, Manager, text};
use super::kinds::ServedKind;
use super::store::{ObjectKey, Store, StoreChange, discovery};

/// A Kubernetes API server in memory. A clone is the same server.
#[derive(Clone, Default)]
pub struct FakeServer(Arc<Mutex<Store>>);

/// Code, reason and message of a failure.
type ApiRefusal = (u16, &'static str, String);

/// What was written, and whether it was created.
type WrittenObject = Result<(StatusCode, Arc<Value>), ApiRefusal>;

/// The annotation of a Pod with its log. No container runs.
pub const LOG: &str = "fake-apiserver.test/log";

/// The API server's words about an immutable field.
const IMMUTABLE: &str = "Invalid value: field is immutable";

/// The time between two bookmarks of a watch.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// The time from a lost event until the watch ends with 410 Gone.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// The time from a change until the garbage collector has run.
const COLLECTED_WITHIN: Duration = Duration::from_secs(1);

impl CallServer for FakeServer {
    fn answer(&self, call: ApiCall) -> BoxFuture<'static, CallAnswer> {
        let server = self.clone();
        async move {
            Ok(match server.respond(&call).await {
                Ok(response) => response,
                Err((422, reason, message)) => invalid(reason, &message),
                Err((code, reason, message)) => failure(code, reason, &message),
            })
        }
        .boxed()
    }
}

impl FakeServer {
    /// A server of these kinds only.
    pub fn with_kinds(kinds: &[ServedKind]) -> Self {
        FakeServer(Arc::new(Mutex::new(Store::with_kinds(kinds))))
    }

    /// A client of this server. Must be called within a tokio runtime.
    pub fn client(&self, default_namespace: &str) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let server = server.clone();
            async move { server.answer(ApiCall::read(request).await?).await }
        });
        kube::Client::new(service, default_namespace)
    }

    /// The objects, locked.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn respond(&self, call: &ApiCall) -> Result<Response<CallBody>, ApiRefusal> {
        let not_found = || (404, "NotFound", format!("the server could not find {}", call.path));
        match call.path.as_str() {
            "/version" => {
                let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "",
                    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
                return Ok(answer(StatusCode::OK, &version));
            }
            "/api" => return Ok(answer(StatusCode::OK, &discovery(&self.store(), true))),
            "/apis" => return Ok(answer(StatusCode::OK, &discovery(&self.store(), false))),
            _ => {}
        }
        let target = call.target().ok_or_else(not_found)?;
        let kind = &self.store().kind_of(&target).ok_or_else(not_found)?;
        let key: ObjectKey = (kind.key, target.namespace.clone(), target.name.clone());
        let view = ListView::of(call, kind, &target);
        let (status, object) = match call.verb() {
            "watch" => return Ok(self.watch(call, view)),
            "list" => return Ok(self.list(call, &view)),
            "get" => {
                let store = self.store();
                let object = store.read().get(&key).cloned().ok_or_else(|| gone(kind, &key))?;
                if target.subresource == "log" {
                    let text = text(&object["metadata"]["annotations"][LOG]);
                    return Ok(Response::new(full_body(text.to_owned())));
                }
                (StatusCode::OK, object)
            }
            "update" => self.replace(call, kind, key)?,
            "create" => self.create(call, kind, key)?,
            "patch" if call.header("content-type").starts_with("application/apply-patch") => {
                self.apply(call, kind, key, &target.subresource)?
            }
            "patch" => self.patch(call, kind, key, &target.subresource)?,
            "delete" => return self.delete(call, kind, key).await,
            verb => return Err((405, "MethodNotAllowed", format!("{verb} is not supported"))),
        };
        Ok(answer(status, &view.show(&object)))
    }

    /// All of it, or a page: its token names the last object, and the objects stay as they are between two pages.
    fn list(&self, call: &ApiCall, view: &ListView) -> Response<CallBody> {
        let store = self.store();
        let after = call.parameter("continue").and_then(|token| token.split_once('/'));
        let objects = store.read();
        let comes_after = |key: &ObjectKey| after.is_none_or(|last| (key.1.as_str(), key.2.as_str()) > last);
        let found = objects
            .iter()
            .filter(|(key, object)| view.covers(key) && view.selects(object));
        let found: Vec<_> = found.filter(|(key, _)| comes_after(key)).collect();
        let limit = call.parameter("limit").and_then(|text| text.parse().ok());
        let page = &found[..found.len().min(limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX))];
        let items: Vec<Value> = page.iter().map(|(_, object)| view.show(object)).collect();
        let (api_version, kind) = if view.metadata_only {
            ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned())
        } else {
            (view.api_version(), format!("{}List", view.kind.kind))
        };
        let mut metadata = json!({"resourceVersion": store.read_version().to_string()});
        if let Some((key, _)) = page.last().filter(|_| page.len() < found.len()) {
            metadata["continue"] = format!("{}/{}", key.1, key.2).into();
        }
        let list = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items});
        answer(StatusCode::OK, &list)
    }

    fn watch(&self, call: &ApiCall, view: ListView) -> Response<CallBody> {
        let number = |name: &str| call.parameter(name).and_then(|text| text.parse().ok());
        let mut from: u64 = number("resourceVersion").unwrap_or(0);
        let end = Instant::now() + Duration::from_secs(number("timeoutSeconds").unwrap_or(300));
        let bookmarks = call.parameter("allowWatchBookmarks") == Some("true");
        let server = self.clone();
        let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
        tokio::spawn(async move {
            let mut latest = server.store().latest.subscribe();
            // When it has lost an event.
            let mut expires = None;
            loop {
                latest.borrow_and_update();
                let delay = server.store().delay(view.kind.key);
                if !delay.is_zero() && server.store().news(from).iter().any(|change| view.covers(&change.key)) {
                    tokio::time::sleep(delay).await;
                }
                let (news, lost) = server.pending_events(&view, &mut from);
                if lost {
                    expires = Some(Instant::now() + MAX_SILENCE);
                }
                if !news.is_empty() && sender.send(news.into()).is_err() {
                    return;
                }
                tokio::select! {
                    () = sender.closed() => return,
                    () = tokio::time::sleep_until(expires.unwrap_or(end)) => {
                        if expires.is_some() {
                            let _ = sender.send(expired());
                        }
                        return;
                    }
                    changed = latest.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(BOOKMARKS), if bookmarks => {
                        let metadata = json!({"resourceVersion": from.to_string()});
                        let object = json!({
                            "apiVersion": view.api_version(), "kind": view.kind.kind, "metadata": metadata,
                        });
                        let _ = sender.send(line(&json!({"type": "BOOKMARK", "object": object})).into());
                    }
                }
            }
        });
        let lines = futures::stream::unfold(receiver, async |mut receiver| {
            let line = receiver.recv().await?;
            Some((Ok::<_, BoxError>(Frame::data(line)), receiver))
        });
        Response::new(StreamBody::new(lines).boxed_unsync())
    }

    /// The lines that a watch sends next, and whether it lost an event. Moves `from` to the version that the watch has then.
    fn pending_events(&self, view: &ListView, from: &mut u64) -> (String, bool) {
        let mut store = self.store();
        let events = store.news(*from);
        let events = events.iter().filter_map(|change| view.event(change));
        let mut lines: Vec<String> = events.map(|event| line(&event)).collect();
        let loses = !lines.is_empty() && store.loses_event(view.kind.key);
        if loses {
            lines.remove(0);
        }
        // Changes after the read version are sent when it advances.
        let until = store.read_version();
        let is_late = until < store.version;
        *from = if is_late { until.max(*from) } else { until };
        (lines.concat(), loses)
    }

    fn create(&self, call: &ApiCall, kind: &ServedKind, mut key: ObjectKey) -> WrittenObject {
        let mut object = object_of(call)?;
        if let Some(what) = mistyped(&object) {
            return Err((400, "BadRequest", what));
        }
        key.2 = text(&object["metadata"]["name"]).to_owned();
        let mut store = self.store();
        if store.objects.contains_key(&key) {
            let why = format!("{} \"{}\" already exists", kind.plural, key.2);
            return Err((409, "AlreadyExists", why));
        }
        if kind.custom {
            keep(&mut object, &Value::Null, "status");
        }
        let object = fields::update(&bare(&object), &object, &manager(call, "Update", ""), &store.now());
        Ok((StatusCode::CREATED, write(call, &mut store, kind, key, object)))
    }

    /// An object in the place of the version that it names.
    fn replace(&self, call: &ApiCall, kind: &ServedKind, key: ObjectKey) -> WrittenObject {
        let mut object = object_of(call)?;
        let mut store = self.store();
        let live = store.objects.get(&key).cloned().ok_or_else(|| gone(kind, &key))?;
        let version = &object["metadata"]["resourceVersion"];
        if !version.is_null() && *version != live["metadata"]["resourceVersion"] {
            return Err(conflict(kind, &key, "the object has been modified"));
        }
        for field in SYSTEM.split(' ') {
            keep(&mut object["metadata"], &live["metadata"], field);
        }
        if kind.custom {
            keep(&mut object, &live, "status");
        }
        check_immutable(&store, kind, &live, &object)?;
        let object = fields::update(&live, &object, &manager(call, "Update", ""), &store.now());
        Ok((StatusCode::OK, write(call, &mut store, kind, key, object)))
    }

    /// Server-side apply.
    fn apply(&self, call: &ApiCall, kind: &ServedKind, key: ObjectKey, subresource: &str) -> WrittenObject {
        let mut applied = object_of(call)?;
        let mut store = self.store();
        let live = store.objects.get(&key).cloned();
        let there = live.as_ref().map(|live| &live["metadata"]);
        let (version, uid) = (&applied["metadata"]["resourceVersion"], &applied["metadata"]["uid"]);
        if there.is_some_and(|there| !version.is_null() && *version != there["resourceVersion"]) {
            return Err(conflict(kind, &key, "the object has been modified"));
        }
        // A status is written with any UID.
        if !uid.is_null() && (subresource.is_empty() || there.is_none()) {
            // A request for a deleted object is a conflict, one for its successor a bad request.
            let there = there.ok_or_else(|| conflict(kind, &key, "uid mismatch"))?;
            if *uid != there["uid"] {
                return Err(immutable_uid());
            }
        }
        if live.is_none() && !subresource.is_empty() {
            return Err(gone(kind, &key));
        }
        if kind.custom {
            let dropped = if subresource == "status" { "spec" } else { "status" };
            keep(&mut applied, &Value::Null, dropped);
        }
        if let Some(what) = mistyped(&applied) {
            return Err((500, "", format!("failed to create typed patch object (x): {what}")));
        }
        let status = if live.is_none() {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        let base = live.unwrap_or_else(|| Arc::new(bare(&applied)));
        let force = call.parameter("force") == Some("true");
        let manager = manager(call, "Apply", subresource);
        let merged = fields::apply(&base, &applied, &manager, force, kind.custom, &store.now());
        let object = merged.map_err(|managers| {
            let text = format!("Apply failed with conflicts: conflicts with {}", managers.join(", "));
            (409, "Conflict", text)
        })?;
        if status == StatusCode::OK {
            check_immutable(&store, kind, &base, &object)?;
        }
        Ok((status, write(call, &mut store, kind, key, object)))
    }

    /// A merge patch or a JSON patch.
    fn patch(&self, call: &ApiCall, kind: &ServedKind, key: ObjectKey, subresource: &str) -> WrittenObject {
        let patch = body(call)?;
        let mut store = self.store();
        let live = store.objects.get(&key).cloned().ok_or_else(|| gone(kind, &key))?;
        let mut changed = (*live).clone();
        if call.header("content-type").starts_with("application/json-patch") {
            let patch: json_patch::Patch =
                serde_json::from_value(patch).map_err(|error| (400, "BadRequest", error.to_string()))?;
            json_patch::patch(&mut changed, &patch).map_err(|error| (422, "Invalid", error.to_string()))?;
        } else {
            json_patch::merge(&mut changed, &patch);
        }
        if !changed["metadata"].is_object() {
            return Err((422, "Invalid", "the patch takes the metadata away".to_owned()));
        }
        if let Some(what) = mistyped(&changed) {
            return Err((422, "Invalid", what));
        }
        if changed["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"] {
            return Err(conflict(kind, &key, "the object has been modified"));
        }
        if changed["metadata"]["uid"] != live["metadata"]["uid"] && subresource.is_empty() {
            return Err(immutable_uid());
        }
        for field in SYSTEM.split(' ') {
            keep(&mut changed["metadata"], &live["metadata"], field);
        }
        if kind.custom {
            let kept = if subresource == "status" { "spec" } else { "status" };
            keep(&mut changed, &live, kept);
        }
        check_immutable(&store, kind, &live, &changed)?;
        let object = fields::update(&live, &changed, &manager(call, "Update", subresource), &store.now());
        Ok((StatusCode::OK, write(call, &mut store, kind, key, object)))
    }

    /// Deletes in two steps, as kube-apiserver does (`Store.Delete` of its registry): it reads whether there are
    /// finalizers. An object without any is then removed from etcd, also if it has changed in between. Only
    /// preconditions are checked again. An object with finalizers is changed in one step.
    async fn delete(
        &self,
        call: &ApiCall,
        kind: &ServedKind,
        key: ObjectKey,
    ) -> Result<Response<CallBody>, ApiRefusal> {
        let options: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let check = |store: &Store| {
            let live = store.objects.get(&key).cloned().ok_or_else(|| gone(kind, &key))?;
            for field in ["uid", "resourceVersion"] {
                let wanted = &options["preconditions"][field];
                if !wanted.is_null() && *wanted != live["metadata"][field] {
                    let why = format!("Precondition failed: {field} in precondition");
                    return Err(conflict(kind, &key, &why));
                }
            }
            Ok(live)
        };
        let (read, duration) = {
            let store = self.store();
            (check(&store)?, store.deletions_take)
        };
        if !duration.is_zero() {
            tokio::time::sleep(duration).await;
        }
        let mut store = self.store();
        let live = check(&store)?;
        if call.parameter("dryRun") == Some("All") || options["dryRun"] == json!(["All"]) {
            return Ok(answer(StatusCode::OK, &live));
        }
        let finalizers = read["metadata"]["finalizers"].as_array();
        if finalizers.is_none_or(Vec::is_empty) {
            store.remove(key.clone())
        } else {
            drop(store.delete(kind, key.clone()))
        }
        Ok(match store.objects.get(&key) {
            Some(dying) => answer(StatusCode::OK, dying),
            None => {
                let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
                answer(StatusCode::OK, &success)
            }
        })
    }

    /// Runs the garbage collector: one second after a change it deletes objects whose owners are all gone. Never returns
    /// while the server exists.
    pub async fn collect_garbage(self) {
        let mut latest = self.store().latest.subscribe();
        while latest.changed().await.is_ok() {
            tokio::time::sleep(COLLECTED_WITHIN).await;
            latest.borrow_and_update();
            while self.store().collect_garbage() {}
        }
    }
}

/// Writes an object, or with `dryRun=All` only returns what the write makes of it.
fn write(call: &ApiCall, store: &mut Store, kind: &ServedKind, key: ObjectKey, object: Value) -> Arc<Value> {
    if call.parameter("dryRun") == Some("All") {
        store.dry_run(kind, &key, object)
    } else {
        store.put(kind, key, object)
    }
}

fn body(call: &ApiCall) -> Result<Value, ApiRefusal> {
    serde_json::from_slice(&call.body).map_err(|error| (400, "BadRequest", error.to_string()))
}

/// The body as an object with metadata.
fn object_of(call: &ApiCall) -> Result<Value, ApiRefusal> {
    let mut object = body(call)?;
    let is_object = object.as_object().is_some_and(|map| {
        let metadata = map.get("metadata");
        metadata.is_none_or(|metadata| metadata.is_object() || metadata.is_null())
    });
    if !is_object {
        return Err((400, "BadRequest", "the body is no object with metadata".to_owned()));
    }
    if object["metadata"].is_null() {
        object["metadata"] = json!({});
    }
    Ok(object)
}

/// Refuses a write that changes immutable fields.
fn check_immutable(store: &Store, kind: &ServedKind, live: &Value, written: &Value) -> Result<(), ApiRefusal> {
    let changed = store
        .immutable_fields
        .map(|changed| changed(kind, live, written))
        .unwrap_or_default();
    let causes = changed.iter().map(|field| format!("{field}: {IMMUTABLE}"));
    if changed.is_empty() {
        Ok(())
    } else {
        Err((422, "Invalid", causes.collect::<Vec<_>>().join("; ")))
    }
}

fn gone(kind: &ServedKind, key: &ObjectKey) -> ApiRefusal {
    (404, "NotFound", format!("{} \"{}\" not found", kind.plural, key.2))
}

fn conflict(kind: &ServedKind, key: &ObjectKey, why: &str) -> ApiRefusal {
    let why = format!("Operation cannot be fulfilled on {} \"{}\": {why}", kind.plural, key.2);
    (409, "Conflict", why)
}

/// As [`failure`], with the fields that the parts of the message begin with.
fn invalid(reason: &str, message: &str) -> Response<CallBody> {
    let fields = message.split("; ").filter_map(|part| part.split_once(": "));
    let fields = fields.filter(|(field, why)| field.starts_with("metadata.") || *why == IMMUTABLE);
    let cause = |(field, _)| json!({"reason": "FieldValueInvalid", "message": message, "field": field});
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": 422, "details": {"causes": fields.map(cause).collect::<Vec<_>>()},
    });
    answer(StatusCode::UNPROCESSABLE_ENTITY, &status)
}

/// Labels or annotations that are no texts.
fn mistyped(object: &Value) -> Option<String> {
    let is_text = |value: &Value| value.is_string() || value.is_null();
    let is_wrong = |field: &&str| match &object["metadata"][*field] {
        Value::Null => false,
        Value::Object(map) => !map.values().all(is_text),
        _ => true,
    };
    let wrong = ["labels", "annotations"].into_iter().find(is_wrong);
    wrong.map(|field| format!(".metadata.{field}: expected string"))
}

fn immutable_uid() -> ApiRefusal {
    let why = "metadata.uid: Invalid value: field is immutable";
    (422, "Invalid", why.to_owned())
}

fn manager(call: &ApiCall, operation: &str, subresource: &str) -> Manager {
    let agent = call.header("user-agent").split('/').next().unwrap_or_default();
    let name = call.parameter("fieldManager").unwrap_or(agent);
    (name.to_owned(), operation.to_owned(), subresource.to_owned())
}

/// An object without anything in it, of the same kind.
fn bare(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {}})
}

/// Metadata that no client writes.
const SYSTEM: &str =
    "uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds managedFields";

pub fn is_system(field: &str) -> bool {
    SYSTEM.split(' ').any(|known| known == field)
}

/// A field stays as it is, or absent.
fn keep(object: &mut Value, live: &Value, field: &str) {
    if let Some(map) = object.as_object_mut() {
        match live.get(field) {
            Some(value) => drop(map.insert(field.to_owned(), value.clone())),
            None => drop(map.remove(field)),
        }
    }
}

/// What a list or watch shows, and how.
struct ListView {
    kind: ServedKind,
    namespace: String,
    /// Labels with the values that they must have.
    labels: Vec<(String, String)>,
    metadata_only: bool,
}

impl ListView {
    fn of(call: &ApiCall, kind: &ServedKind, target: &CallTarget) -> Self {
        let selector = call.parameter("labelSelector").unwrap_or_default();
        let terms = selector.split(',').filter_map(|term| term.split_once('='));
        let terms = terms.map(|(key, value)| (key.to_owned(), value.trim_start_matches('=').to_owned()));
        ListView {
            kind: *kind,
            namespace: target.namespace.clone(),
            labels: terms.collect(),
            metadata_only: call.is_of_metadata(),
        }
    }

    fn api_version(&self) -> String {
        self.kind.api_version()
    }

    fn covers(&self, key: &ObjectKey) -> bool {
        key.0 == self.kind.key && (self.namespace.is_empty() || key.1 == self.namespace)
    }

    fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|(key, value)| labels[key] == value.as_str())
    }

    fn show(&self, object: &Value) -> Value {
        if self.metadata_only {
            json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"],
            })
        } else {
            let mut object = object.clone();
            object["apiVersion"] = self.api_version().into();
            object["kind"] = self.kind.kind.into();
            object
        }
    }

    /// As a watcher of this view sees a change: what leaves the selection is deleted for him.
    fn event(&self, change: &StoreChange) -> Option<Value> {
        if !self.covers(&change.key) {
            return None;
        }
        let was = change.before.as_deref().is_some_and(|object| self.selects(object));
        let is = change.after.as_deref().is_some_and(|object| self.selects(object));
        let (kind, object) = match (was, is) {
            (false, false) => return None,
            (false, true) => ("ADDED", &change.after),
            (true, true) => ("MODIFIED", &change.after),
            (true, false) => ("DELETED", &change.before),
        };
        let mut object = self.show(object.as_deref()?);
        object["metadata"]["resourceVersion"] = change.version.to_string().into();
        Some(json!({"type": kind, "object": object}))
    }
}

/// The last line of a watch that cannot go on: the client has to list again.
pub fn expired() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
        "message": "too old resource version",
    });
    format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into()
}

/// A line of a watch. The type comes first, as the API server writes it.
fn line(event: &Value) -> String {
    format!("{{\"type\":{},\"object\":{}}}\n", event["type"], event["object"])
}
