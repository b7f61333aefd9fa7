//! Samples what pods and volume claims request, and stores the counters in a ConfigMap.

use std::collections::{BTreeMap, BTreeSet};

use api_objects::MetadataOnly;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ApiResource, ObjectMeta, Patch, PatchParams};
use kube::core::Object;
use kube::{Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cluster::connection::bounded;
use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Result;
use crate::cluster::objects::{FIELD_MANAGER, list};
use chartwright_core::identity::GroupKind;
use chartwright_core::usage::requests::{self, ClaimSpec, PodSpec};
use chartwright_core::usage::sample::{BETWEEN, Consumer, Sample};

/// The key of the counters in the ConfigMap.
const FIELD: &str = "usage.json";

#[derive(Clone, Debug, Default, Deserialize)]
struct StorageStatus {
    phase: Option<String>,
}

/// The ConfigMap's name; each operator of a namespace has its own.
pub fn config_map_name(operator: &str) -> String {
    format!("{operator}-usage")
}

/// Samples the requests in these namespaces (`None`: in all).
///
/// # Errors
/// A list failed: an incomplete sample would be wrong.
pub async fn sample(client: &Client, snapshot: &Snapshot, namespaces: Option<&BTreeSet<String>>) -> Result<Sample> {
    let scopes: Vec<Option<&str>> = match namespaces {
        None => vec![None],
        Some(names) => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let mut sample = Sample::default();
    for scope in &scopes {
        sample.pods.extend(
            list(api::<v1::Pod, _>(client, *scope), "", pod)
                .await?
                .into_iter()
                .flatten(),
        );
        let claims = api::<v1::PersistentVolumeClaim, _>(client, *scope);
        sample.claims.extend(list(claims, "", claim).await?);
    }
    // After the pods: their owners are older.
    for (group, kind) in BETWEEN {
        let kind = GroupKind::new(group, kind);
        let resource = snapshot.served(&kind)?.filter(|_| sample.has_owner(&kind));
        let Some(resource) = resource else { continue };
        for scope in &scopes {
            let owners = |object: MetadataOnly| {
                let metadata = object.metadata;
                Some((metadata.uid?, metadata.owner_references?))
            };
            let found = list(resource.api_in(client, *scope), "", owners).await?;
            sample.between.extend(found.into_iter().flatten());
        }
    }
    Ok(sample)
}

/// `None` for a pod that has ended: it uses nothing.
fn pod(pod: Object<PodSpec, StorageStatus>) -> Option<Consumer> {
    let phase = pod.status.and_then(|status| status.phase);
    let has_ended = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
    (!has_ended).then(|| Consumer::new(pod.metadata, requests::of_pod(&pod.spec)))
}

fn claim(claim: Object<ClaimSpec, StorageStatus>) -> Consumer {
    Consumer::new(claim.metadata, requests::of_claim(&claim.spec))
}

/// Objects of the kind `K`, of which only the fields of `T` are read.
fn api<K: Resource<DynamicType = ()>, T>(client: &Client, namespace: Option<&str>) -> Api<Object<T, StorageStatus>>
where
    T: Clone + DeserializeOwned,
{
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Reads the counters; `None` if there are none.
pub async fn read(client: &Client, namespace: &str, operator: &str) -> Result<Option<String>> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = bounded(api.get_opt(&config_map_name(operator))).await?;
    Ok(found.map(|map| map.data.and_then(|mut data| data.remove(FIELD)).unwrap_or_default()))
}

/// Writes them, also over other content.
pub async fn write(client: &Client, namespace: &str, operator: &str, text: String) -> Result<()> {
    let name = config_map_name(operator);
    let label = ("app.kubernetes.io/managed-by".to_owned(), FIELD_MANAGER.to_owned());
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(BTreeMap::from([label])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(FIELD.to_owned(), text)])),
        ..ConfigMap::default()
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    bounded(api.patch(&name, &parameters, &Patch::Apply(&map)))
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;
    use crate::cluster::testing::client;
    use chartwright_core::identity::ObjectId;
    use chartwright_core::usage::Requests;

    #[tokio::test]
    async fn each_namespace_is_listed_in_pages_and_pods_that_ended_take_nothing() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = sent.clone();
        let client = client(move |request| {
            log.lock().unwrap().push(request.path.clone());
            let is_second = request.query.contains("continue=");
            let (phase, cpu) = if is_second {
                ("Pending", "2")
            } else {
                ("Succeeded", "1")
            };
            let item = if request.path.ends_with("pods") {
                json!({
                    "metadata": {"name": "p", "namespace": "a", "uid": "u"}, "status": {"phase": phase},
                    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
                })
            } else {
                json!({"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "5"}}}})
            };
            let token = if is_second { "" } else { "more" };
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": token}, "items": [item]});
            Some((200, list))
        });
        let names = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let found = sample(&client, &Snapshot::default(), Some(&names)).await.unwrap();
        let all = found.by_release(&|_: &ObjectId, _: Option<&str>| Some(()));
        let expected: Requests = [4000, 0, 20].into();
        assert_eq!(all[&()], expected);
        let sent = std::mem::take(&mut *sent.lock().unwrap());
        let paths = ["a", "b"]
            .map(|name| ["pods", "persistentvolumeclaims"].map(|kind| format!("/api/v1/namespaces/{name}/{kind}")));
        let twice = paths.iter().flatten().flat_map(|path| [path.clone(), path.clone()]);
        assert_eq!(sent, twice.collect::<Vec<_>>());
    }
}
