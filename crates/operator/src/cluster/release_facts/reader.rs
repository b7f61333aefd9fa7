//! The requests of a report, each with a limit.

use std::collections::BTreeSet;
use std::fmt::Debug;

use api_objects::{MetadataOnly, Whole};
use futures::stream::{StreamExt as _, iter};
use kube::Client;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{AT_ONCE, Listed};
use crate::cluster::connection::bounded;
use crate::cluster::connection::url_path::segment;
use crate::cluster::discovery::{Resource, Snapshot};
use crate::cluster::error::{Error, Result};
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::report::IngressClasses;
use chartwright_core::report::reads::{DEFAULT_CLASS_ANNOTATION, ListRead, is_metadata_enough, is_secret, strip};

/// Objects in one answer, and how many answers of one list are read.
const PAGE: u32 = 500;
const PAGES: usize = 10;

/// The objects of a list.
pub(super) struct Page {
    pub(super) objects: Vec<Value>,
    /// There are more.
    pub(super) is_cut: bool,
}

pub(super) fn ingress_class() -> GroupKind {
    GroupKind::new("networking.k8s.io", "IngressClass")
}

pub(super) fn node() -> GroupKind {
    GroupKind::new("", "Node")
}

#[derive(Clone, Copy)]
pub(super) struct FactsReader<'a> {
    pub(super) client: &'a Client,
    pub(super) snapshot: &'a Snapshot,
}

impl FactsReader<'_> {
    fn resource(&self, kind: &GroupKind) -> Result<&Resource> {
        let found = self.snapshot.preferred(kind);
        found.ok_or_else(|| Error::NotServed(format!("the API server does not serve {kind}")))
    }

    /// Sends list requests concurrently. The answers have the order of the requests.
    pub(super) async fn list_all(&self, reads: &[ListRead]) -> Vec<Listed> {
        let answers = reads.iter().map(|read| async move {
            let parameters = ListParams::default().labels(&read.labels);
            (read.clone(), self.list(&read.kind, &read.namespace, parameters).await)
        });
        iter(answers).buffered(AT_ONCE).collect().await
    }

    /// The Events of namespaces that a field selector selects.
    pub(super) async fn events_of(&self, namespaces: &[&String], fields: &str) -> Vec<Listed> {
        let answers = namespaces.iter().map(|namespace| async move {
            let read = ListRead {
                kind: GroupKind::new("", "Event"),
                namespace: (*namespace).clone(),
                labels: String::new(),
            };
            let answer = self
                .list(&read.kind, namespace, ListParams::default().fields(fields))
                .await;
            (read, answer)
        });
        iter(answers).buffered(AT_ONCE).collect().await
    }

    async fn list(&self, kind: &GroupKind, namespace: &str, parameters: ListParams) -> Result<Page> {
        if is_secret(kind) {
            return Err(Error::Invalid("Secrets are not read".to_owned()));
        }
        let resource = self.resource(kind)?;
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        if is_metadata_enough(kind) {
            let api: Api<MetadataOnly> = resource.api_in(self.client, namespace);
            let metadata = |object: MetadataOnly| json!({"metadata": object.metadata});
            return self.pages(api, resource, parameters, metadata).await;
        }
        let api: Api<Whole> = resource.api_in(self.client, namespace);
        self.pages(api, resource, parameters, |object| object.outline()).await
    }

    async fn pages<K>(
        &self,
        api: Api<K>,
        resource: &Resource,
        parameters: ListParams,
        reduce: impl Fn(K) -> Value,
    ) -> Result<Page>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let mut parameters = parameters.limit(PAGE);
        let mut objects = Vec::new();
        for _ in 0..PAGES {
            let page = bounded(api.list(&parameters)).await?;
            objects.extend(page.items.into_iter().map(|object| named(reduce(object), resource)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(Page { objects, is_cut: false }),
            }
        }
        Ok(Page { objects, is_cut: true })
    }

    /// Reads one object. `None` if it does not exist.
    pub(super) async fn read(&self, id: &ObjectId) -> Result<Option<Value>> {
        if is_secret(&id.group_kind) {
            return Ok(None);
        }
        let resource = self.resource(&id.group_kind)?;
        let namespace = Some(id.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let api: Api<Whole> = resource.api_in(self.client, namespace);
        let found = bounded(api.get_opt(&segment(&id.name))).await?;
        Ok(found.map(|object| named(object.outline(), resource)))
    }

    /// Reads nodes by name.
    pub(super) async fn nodes(&self, names: BTreeSet<String>) -> Vec<(String, Result<Option<Value>>)> {
        let answers = names.into_iter().map(|name| async move {
            let answer = self.read(&ObjectId::new(node(), "", &name)).await;
            (name, answer)
        });
        iter(answers).buffered(AT_ONCE).collect().await
    }

    /// Reads the IngressClasses, if one of the members is an Ingress.
    pub(super) async fn ingress_classes(&self, members: &[ObjectId]) -> Option<Result<IngressClasses>> {
        let is_ingress = |id: &ObjectId| id.group_kind.kind == "Ingress";
        if !members.iter().any(is_ingress) {
            return None;
        }
        let page = self.list(&ingress_class(), "", ListParams::default()).await;
        Some(page.map(|page| {
            let name = |class: &Value| class["metadata"]["name"].as_str().map(str::to_owned);
            let is_default = |class: &Value| class["metadata"]["annotations"][DEFAULT_CLASS_ANNOTATION] == "true";
            IngressClasses {
                names: page.objects.iter().filter_map(name).collect(),
                has_default: page.objects.iter().any(is_default),
            }
        }))
    }
}

/// An object with the kind that items of a list lack, without what a report does not need.
fn named(mut object: Value, resource: &Resource) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), resource.api.api_version.clone().into());
        fields.insert("kind".to_owned(), resource.api.kind.clone().into());
    }
    strip(&mut object);
    object
}
