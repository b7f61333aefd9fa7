//! The cluster as a reconcile would leave it: the live objects, under those that this run has written.

mod journal;
mod read;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chartwright_core::identity::ObjectId;
use chartwright_operator::cluster::discovery::Resource;
use fake_apiserver::call::{ApiCall, BoxError, CallAnswer, CallTarget, answer, ask, failure};
use fake_apiserver::{BUILT_IN, FakeServer, ObjectKey, ServedKind};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use kube::Client;
use serde_json::Value;

pub(crate) use journal::{Journal, ObjectPlace, ObjectRole, Touched};

use crate::server::LiveServer;

/// Versions of objects in the overlay begin here, so that they are newer than each live one.
const FIRST_VERSION: u64 = 1 << 52;

/// Answers the requests of a reconcile.
#[derive(Clone)]
pub(crate) struct ClusterOverlay(Arc<OverlayState>);

struct OverlayState {
    live: LiveServer,
    /// The objects that were written or read for a write.
    fake: FakeServer,
    journal: Mutex<Journal>,
    custom_resource: ObjectPlace,
    /// Writes after this time are not checked by the API server. `None`: all are.
    checked_until: Option<Instant>,
}

/// Status and body of an answer.
type Answer = (u16, Value);

impl ClusterOverlay {
    /// An overlay in which the custom resource is as given. `checked_until`: the API server checks no write after this time.
    pub(crate) fn new(
        client: Client,
        kind: &ServedKind,
        mut custom_resource: Value,
        checked_until: Option<Instant>,
    ) -> Self {
        let version = &mut custom_resource["metadata"]["resourceVersion"];
        if !version.is_string() {
            // A status is written onto a version, and a new custom resource has none.
            *version = FIRST_VERSION.to_string().into();
        }
        let fake = FakeServer::with_kinds(BUILT_IN);
        let metadata = &custom_resource["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let place = ObjectPlace {
            group: kind.group.to_owned(),
            resource: kind.plural.to_owned(),
            namespace: text("namespace"),
            name: text("name"),
        };
        {
            let mut store = fake.store();
            store.version = FIRST_VERSION;
            store.serve(*kind);
        }
        let overlay = ClusterOverlay(Arc::new(OverlayState {
            live: LiveServer::new(client),
            fake,
            journal: Mutex::default(),
            custom_resource: place.clone(),
            checked_until,
        }));
        let object = Arc::new(custom_resource);
        overlay.seed(&place, kind, Some(object), ObjectRole::CustomResource);
        overlay
    }

    /// A client whose API server is this overlay.
    pub(crate) fn client(&self, namespace: &str) -> Client {
        let overlay = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let overlay = overlay.clone();
            async move { overlay.respond(ApiCall::read(request).await?).await }
        });
        Client::new(service, namespace)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.0.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a user waits for the preview.
    fn is_quick(&self) -> bool {
        self.0.checked_until.is_some()
    }

    /// True if no more writes are checked by the API server.
    fn is_out_of_time(&self) -> bool {
        self.0.checked_until.is_some_and(|until| Instant::now() >= until)
    }

    /// Notes that these members of the release exist.
    pub(crate) fn note_listed<'i>(&self, resource: &Resource, ids: impl Iterator<Item = &'i ObjectId>) {
        let place = |id: &ObjectId| ObjectPlace {
            group: resource.api.group.clone(),
            resource: resource.api.plural.clone(),
            namespace: id.namespace.to_string(),
            name: id.name.to_string(),
        };
        self.journal().existing.extend(ids.map(place));
    }

    pub(crate) fn fake(&self) -> &FakeServer {
        &self.0.fake
    }

    /// The object at a place, if it was touched and exists.
    pub(crate) fn object(&self, place: &ObjectPlace) -> Option<Arc<Value>> {
        let key = self.journal().key(place)?;
        self.fake().store().objects.get(&key).cloned()
    }

    pub(crate) fn custom_resource(&self) -> Option<Arc<Value>> {
        self.object(&self.0.custom_resource)
    }

    /// Where the custom resource lies in the fake API server.
    pub(crate) fn custom_resource_key(&self) -> Option<ObjectKey> {
        self.journal().key(&self.0.custom_resource)
    }

    /// Boxed, since a request within a request would make the future of unknown size.
    fn respond(&self, call: ApiCall) -> BoxFuture<'_, CallAnswer> {
        async move {
            let Some(target) = call.target() else {
                return self.0.live.send(call).await;
            };
            match call.verb() {
                "get" => self.get(call, &target).await,
                "list" => self.list(call, &target).await,
                "create" | "update" | "patch" | "delete" => self.write(call, target).await,
                verb => Ok(failure(405, "MethodNotAllowed", &format!("a preview does not {verb}"))),
            }
        }
        .boxed()
    }

    /// Takes over an object as it is live. `None`: it does not exist.
    fn seed(&self, place: &ObjectPlace, kind: &ServedKind, live: Option<Arc<Value>>, role: ObjectRole) {
        let mut store = self.fake().store();
        store.serve(*kind);
        let known = store
            .kinds
            .iter()
            .find(|known| known.group == kind.group && known.kind == kind.kind);
        let kind = known.copied().unwrap_or(*kind);
        let key: ObjectKey = (kind.key, place.namespace.clone(), place.name.clone());
        if let Some(live) = &live {
            store.objects.insert(key, live.clone());
        }
        drop(store);
        self.journal().touch(place, Touched::new(kind, live, role));
    }

    /// Answers from the overlay.
    async fn local(&self, call: &ApiCall) -> CallAnswer {
        use fake_apiserver::call::CallServer as _;
        self.fake().answer(call.clone()).await
    }

    async fn ask_local(&self, call: &ApiCall) -> Answer {
        let answered = ask(self.fake(), call.clone()).await;
        answered.unwrap_or_else(|error| (500, Value::String(error.to_string())))
    }

    /// Sends a call, and reads the answer.
    async fn ask_live(&self, call: ApiCall) -> Result<Answer, BoxError> {
        self.0.live.ask(call).await
    }

    /// Shows an object of the overlay to a caller, in the form that the call accepts.
    async fn show(&self, call: &ApiCall, target: &CallTarget, status: u16) -> CallAnswer {
        let mut response = self.local(&read_of(call, target)).await?;
        if response.status() == StatusCode::OK {
            *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        }
        Ok(response)
    }
}

/// A read of a call's object, with the headers of the call.
fn read_of(call: &ApiCall, target: &CallTarget) -> ApiCall {
    let path = path_of(target);
    ApiCall {
        method: http::Method::GET,
        uri: path.clone(),
        path,
        query: Vec::new(),
        headers: call.headers.clone(),
        body: Default::default(),
    }
}

/// An answer of the API server as it is passed on.
fn pass((status, body): Answer) -> CallAnswer {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok(answer(status, &body))
}

/// The path of a target without its subresource.
fn path_of(target: &CallTarget) -> String {
    let root = match target.group.as_str() {
        "" => format!("/api/{}", target.version),
        group => format!("/apis/{group}/{}", target.version),
    };
    let namespace = match target.namespace.as_str() {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    let name = match target.name.as_str() {
        "" => String::new(),
        name => format!(
            "/{}",
            chartwright_operator::cluster::connection::url_path::segment(name)
        ),
    };
    format!("{root}{namespace}/{}{name}", target.resource)
}

#[cfg(test)]
mod tests;
