//! Fetches the objects of a template's `lookup` calls.

use std::collections::{BTreeMap, HashMap};

use api_objects::Whole;
use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::cluster::connection::bounded;
use crate::cluster::connection::url_path::{check_names, segment};
use crate::cluster::discovery::{Resource, Snapshot};
use crate::cluster::error::{Error, Result};
use crate::cluster::objects::list_objects;
use chartwright_core::identity::GroupKind;
use chartwright_core::index::dependencies::ObjectDependency;
use helm_template::render::LookupKey;

/// Lookups and what they found.
pub type LookupAnswers = BTreeMap<LookupKey, Value>;

/// The kind and version of a lookup.
pub fn group_kind(key: &LookupKey) -> (GroupKind, String) {
    let (group, version) = key.api_version.split_once('/').unwrap_or(("", &key.api_version));
    (GroupKind::new(group, &key.kind), version.to_owned())
}

/// The text form of a lookup in messages and records: `v1/Secret/shop/tls`, with empty parts for "all".
pub fn describe(key: &LookupKey) -> String {
    format!("{}/{}/{}/{}", key.api_version, key.kind, key.namespace, key.name)
}

/// Parses the text of [`describe`].
pub fn parse(text: &str) -> Option<LookupKey> {
    let mut parts = text.rsplitn(4, '/');
    let (name, namespace, kind, api_version) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some(LookupKey {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// The dependency of a lookup. The namespace of a cluster-scoped kind is ignored.
pub fn dependency(snapshot: &Snapshot, key: &LookupKey) -> ObjectDependency {
    let (group_kind, version) = group_kind(key);
    let namespaced = snapshot.namespaced(&group_kind, &version).unwrap_or(true);
    ObjectDependency {
        group_kind,
        namespace: if namespaced {
            key.namespace.clone()
        } else {
            String::new()
        },
        name: key.name.clone(),
    }
}

/// Fetches one object, or a list if the name is empty. As with Helm, an absent object and a kind that is not served are an
/// empty mapping.
///
/// # Errors
/// Also if the API group does not answer: it is then unknown whether the object exists. `Invalid` for a name that
/// client-go refuses.
pub async fn fetch(client: &Client, snapshot: &Snapshot, key: &LookupKey) -> Result<Value> {
    let (group_kind, version) = group_kind(key);
    let Some(resource) = snapshot.resource(&group_kind, &version) else {
        return snapshot.has_answered(&group_kind.group).map(|()| json!({}));
    };
    let namespace = (!key.namespace.is_empty()).then_some(key.namespace.as_str());
    check_names(namespace.filter(|_| resource.namespaced).unwrap_or_default(), &key.name)?;
    if !key.name.is_empty() {
        let api = resource.api_in::<Whole>(client, namespace);
        return match bounded(api.get(&segment(&key.name))).await {
            Ok(object) => plain(&object),
            Err(error) if error.is_not_found() => Ok(json!({})),
            Err(error) => Err(error),
        };
    }
    let found = list_objects(client, resource, namespace).await?;
    let items = found.iter().map(|object| typed(object, resource));
    let items = items.collect::<Result<Vec<Value>>>()?;
    Ok(json!({
        "apiVersion": resource.api.api_version, "kind": format!("{}List", resource.api.kind), "metadata": {}, "items": items,
    }))
}

/// From this number of names of one kind and namespace, a LIST is cheaper than GETs.
const WORTH_A_LIST: usize = 20;
/// Complete objects in a page of such a list.
const PAGE: u32 = 100;
/// Concurrent lookup requests of one release.
const AT_ONCE: usize = 8;

/// Calls [`fetch`] for all keys concurrently. `gate` limits these requests in the process.
///
/// # Errors
/// The first error in the order of the keys, with its key.
pub async fn fetch_all(
    client: &Client,
    snapshot: &Snapshot,
    keys: &[LookupKey],
    gate: &Semaphore,
) -> std::result::Result<Vec<Value>, (LookupKey, Error)> {
    let mut places: HashMap<(&str, &str, &str), Vec<&str>> = HashMap::new();
    for key in keys.iter().filter(|key| is_plain(&key.name)) {
        places.entry(place(key)).or_default().push(&key.name);
    }
    let mut found: HashMap<&LookupKey, Value> = HashMap::new();
    places.retain(|_, names| names.len() >= WORTH_A_LIST);
    for key in keys.iter().filter(|key| is_plain(&key.name)) {
        let Some(names) = places.remove(&place(key)) else {
            continue;
        };
        let _permit = gate.acquire().await;
        // If the LIST fails, each object is fetched alone.
        let Ok(mut objects) = list_named(client, snapshot, key, &names).await else {
            continue;
        };
        for key in keys.iter().filter(|other| place(other) == place(key)) {
            if let Some(object) = objects.remove(&key.name) {
                found.insert(key, object);
            }
        }
    }
    let known: Vec<_> = keys.iter().map(|key| (key.clone(), found.remove(key))).collect();
    let fetched = known.into_iter().map(|(key, known)| async move {
        if let Some(known) = known {
            return Ok(known);
        }
        let _permit = gate.acquire().await;
        let fetched = fetch(client, snapshot, &key).await;
        fetched.map_err(|error| (key, error))
    });
    futures::stream::iter(fetched).buffered(AT_ONCE).try_collect().await
}

/// Version, kind and namespace.
fn place(key: &LookupKey) -> (&str, &str, &str) {
    (&key.api_version, &key.kind, &key.namespace)
}

/// True if this can be the name of an object. [`fetch`] reports other names.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    !name.is_empty() && name.bytes().all(is_plain) && check_names("", name).is_ok()
}

/// Lists the objects of a lookup's kind and namespace, and returns these names, as [`fetch`] does. Absent objects are
/// empty mappings. If there are too many objects to list all, names that were not found are left out.
async fn list_named(
    client: &Client,
    snapshot: &Snapshot,
    place: &LookupKey,
    names: &[&str],
) -> Result<HashMap<String, Value>> {
    let (group_kind, version) = group_kind(place);
    let Some(resource) = snapshot.resource(&group_kind, &version) else {
        return Ok(HashMap::new());
    };
    // A name of a namespaced kind without a namespace is an error of `fetch`.
    if resource.namespaced && place.namespace.is_empty() {
        return Ok(HashMap::new());
    }
    check_names(&place.namespace, "")?;
    let namespace = (!place.namespace.is_empty()).then_some(place.namespace.as_str());
    let api = resource.api_in::<Whole>(client, namespace);
    let mut parameters = ListParams::default().limit(PAGE);
    let mut found = HashMap::new();
    // One page per `WORTH_A_LIST` requests saved.
    for _ in 0..=names.len() / WORTH_A_LIST {
        let page = bounded(api.list(&parameters)).await?;
        for object in page.items {
            let name = object.metadata.name.clone().unwrap_or_default();
            if names.contains(&name.as_str()) {
                found.insert(name, typed(&object, resource)?);
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => {
                for name in names {
                    found.entry((*name).to_owned()).or_insert_with(|| json!({}));
                }
                break;
            }
        }
    }
    Ok(found)
}

/// Adds `apiVersion` and `kind`, which items of a list lack.
fn typed(object: &Whole, resource: &Resource) -> Result<Value> {
    let mut item = plain(object)?;
    item["apiVersion"] = resource.api.api_version.as_str().into();
    item["kind"] = resource.api.kind.as_str().into();
    Ok(item)
}

/// The object without `managedFields`: they change with every write, and a template that prints them would never converge.
fn plain(object: &Whole) -> Result<Value> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let mut value = object
        .value()
        .map_err(|error| Error::Invalid(format!("{name} {error}")))?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::discovery::Discovery;
    use crate::cluster::testing::client;

    /// Reads discovery.
    async fn snapshot(client: &Client) -> Arc<Snapshot> {
        Discovery::new(client.clone()).await.unwrap().snapshot()
    }

    /// A namespace with `count` widgets, and the log of requests.
    fn widgets(count: usize) -> (Client, Arc<std::sync::Mutex<Vec<String>>>) {
        let requests = Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = requests.clone();
        let client = client(move |request| {
            let path = request.path.strip_prefix("/apis/a.test/v1/namespaces/shop/widgets")?;
            log.lock().unwrap().push(path.to_owned());
            let widget = |number: usize| json!({"metadata": {"name": format!("w{number}"), "namespace": "shop"}, "spec": number});
            if !path.is_empty() {
                return Some((200, widget(path.trim_start_matches("/w").parse().unwrap())));
            }
            let from = request
                .query
                .split_once("continue=")
                .map_or("", |(_, rest)| rest.split('&').next().unwrap_or_default());
            let from: usize = from.parse().unwrap_or_default();
            let next = from + PAGE as usize;
            let items: Vec<Value> = (from..count.min(next)).map(widget).collect();
            let token = if next < count { next.to_string() } else { String::new() };
            let list = json!({"kind": "WidgetList", "apiVersion": "a.test/v1", "metadata": {"continue": token}, "items": items});
            Some((200, list))
        });
        (client, requests)
    }

    fn named(name: String) -> LookupKey {
        LookupKey {
            api_version: "a.test/v1".into(),
            kind: "Widget".into(),
            namespace: "shop".into(),
            name,
        }
    }

    #[tokio::test]
    async fn many_names_in_one_place_are_listed() {
        let (client, requests) = widgets(150);
        let snapshot = snapshot(&client).await;
        let gate = Semaphore::new(4);
        let look_up = async |numbers: &[usize]| {
            let keys: Vec<LookupKey> = numbers.iter().map(|number| named(format!("w{number}"))).collect();
            let found = fetch_all(&client, &snapshot, &keys, &gate).await.unwrap();
            let found: Vec<Option<u64>> = found.iter().map(|object| object["spec"].as_u64()).collect();
            let gets = std::mem::take(&mut *requests.lock().unwrap());
            let lists = gets.iter().filter(|path| path.is_empty()).count();
            (found, lists, gets.len() - lists)
        };
        let few: Vec<usize> = (0..WORTH_A_LIST - 1).collect();
        let numbers = |numbers: &[usize]| numbers.iter().map(|number| Some(*number as u64)).collect::<Vec<_>>();
        assert_eq!(look_up(&few).await, (numbers(&few), 0, few.len()));
        let many: Vec<usize> = (100..140).collect();
        assert_eq!(look_up(&many).await, (numbers(&many), 2, 0));
        let absent: Vec<usize> = (500..540).collect();
        assert_eq!(
            look_up(&absent).await,
            (vec![None; 40], 2, 0),
            "absent objects are empty"
        );

        // A large namespace is not read completely.
        let (client, requests) = widgets(2000);
        let keys: Vec<LookupKey> = (190..210).map(|number| named(format!("w{number}"))).collect();
        let found = fetch_all(&client, &snapshot, &keys, &gate).await.unwrap();
        assert_eq!(
            (found[0]["spec"].as_u64(), found[19]["spec"].as_u64()),
            (Some(190), Some(209))
        );
        assert_eq!(found[0].get("kind"), Some(&json!("Widget")));
        let requests = requests.lock().unwrap();
        assert_eq!(requests.iter().filter(|path| path.is_empty()).count(), 2);
        assert_eq!(requests.len(), 2 + 10, "{requests:?}");
    }

    #[tokio::test]
    async fn the_first_failure_in_key_order_is_returned() {
        let client = client(|_| None);
        let keys = ["a", "b/x", "c/x"].map(|name| named(name.to_owned()));
        let snapshot = snapshot(&client).await;
        let (key, error) = fetch_all(&client, &snapshot, &keys, &Semaphore::new(1))
            .await
            .unwrap_err();
        assert_eq!(key.name, "b/x", "{error}");
    }

    #[test]
    fn descriptions_can_be_read_back() {
        for text in [
            "v1/Secret/shop/tls",
            "apps/v1/Deployment/shop/",
            "v1/Node//",
            "v1/Secret//",
        ] {
            assert_eq!(parse(text).map(|key| describe(&key)).as_deref(), Some(text));
        }
        assert_eq!(parse("v1/Secret"), None);
    }

    #[tokio::test]
    async fn lookups_find_objects_by_name_and_namespace() {
        let server = fake_apiserver::FakeServer::with_kinds(fake_apiserver::BUILT_IN);
        for (plural, namespace, name) in [
            ("secrets", "shop", "a"),
            ("secrets", "other", "a"),
            ("storageclasses", "", "fast"),
        ] {
            let mut store = server.store();
            let kind = store.kind_by_key(plural).unwrap();
            let object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}});
            store.put(&kind, (kind.key, namespace.to_owned(), name.to_owned()), object);
        }
        let client = server.client("shop");
        let snapshot = snapshot(&client).await;
        for (api_version, kind, namespace, name, count) in [
            ("v1", "Secret", "shop", "a", 1),
            ("v1", "Secret", "shop", "b", 0),
            ("v1", "Secret", "shop", "", 1),
            ("v1", "Secret", "nowhere", "", 0),
            ("v1", "Secret", "", "", 2),
            ("storage.k8s.io/v1", "StorageClass", "", "fast", 1),
            ("storage.k8s.io/v1", "StorageClass", "", "", 1),
            // A kind without objects.
            ("v1", "ConfigMap", "shop", "a", 0),
        ] {
            let key = LookupKey {
                api_version: api_version.into(),
                kind: kind.into(),
                namespace: namespace.into(),
                name: name.into(),
            };
            let found = fetch(&client, &snapshot, &key).await.unwrap();
            let items = match found.get("items").and_then(Value::as_array) {
                Some(items) => items.len(),
                None => usize::from(found != json!({})),
            };
            assert_eq!(items, count, "{key:?}");
        }
    }
}
