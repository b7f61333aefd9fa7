//! Explains why workloads are unhealthy by their pods, and reads pod logs. For many unhealthy workloads of one namespace,
//! its pods are listed once for all of them, up to a limit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cluster::connection::bounded;
use crate::cluster::error::{Error, Result};
use crate::sync::lock;
use chartwright_core::health::pods::{self, Controller};
use chartwright_core::identity::ObjectId;

/// Pods of one workload that are looked at: enough to see what ails them.
const FEW: u32 = 50;
/// Pods in a page of a namespace, and how many pages of it are read.
const PAGE: u32 = 250;
const PAGES: usize = 8;
/// Workloads of a namespace that are read one by one before the namespace is listed, and how long that list is used.
const ONE_BY_ONE: usize = 3;
const FRESH: Duration = Duration::from_secs(10);

/// Recent pod lists, shared by all reconciles of a process.
#[derive(Default)]
pub struct PodTroubles {
    namespaces: std::sync::Mutex<HashMap<String, Arc<Mutex<NamespacePods>>>>,
}

/// Recent requests and the pod list of a namespace.
struct NamespacePods {
    since: Instant,
    /// Requests about workloads since then.
    requests: usize,
    list: Option<Arc<TroubleList>>,
}

/// Unhealthy pods of a namespace: labels, controller and trouble.
struct TroubleList {
    troubles: Vec<(BTreeMap<String, String>, Controller, String)>,
    /// True if the namespace has more pods.
    is_partial: bool,
}

impl PodTroubles {
    /// The most common trouble of a workload's unhealthy pods. `uid`: of the workload; `selector`: of its pods.
    ///
    /// # Errors
    /// The pods cannot be listed.
    pub async fn explain(&self, client: &Client, id: &ObjectId, uid: &str, selector: &str) -> Result<Option<String>> {
        let namespace = id.namespace.as_str();
        let list = self.seen(namespace).lock().await.list(client, namespace).await?;
        if let Some(list) = list {
            let ours = list
                .troubles
                .iter()
                .filter(|(labels, controller, _)| controller.is_below(id, uid) && pods::selects(selector, labels));
            let why = pods::most(ours.map(|(.., trouble)| trouble.clone()));
            if why.is_some() || !list.is_partial {
                return Ok(why);
            }
        }
        let parameters = ListParams::default().labels(selector).limit(FEW);
        let page = bounded(pods_in(client, namespace).list(&parameters)).await?;
        let pods: Vec<Value> = page.items.iter().map(whole).collect::<Result<_>>()?;
        let is_own = |pod: &&Value| Controller::of(pod).is_some_and(|controller| controller.is_below(id, uid));
        Ok(pods::most(pods.iter().filter(is_own).filter_map(pods::trouble)))
    }

    fn seen(&self, namespace: &str) -> Arc<Mutex<NamespacePods>> {
        let mut namespaces = lock(&self.namespaces);
        let is_recent = |seen: &Mutex<NamespacePods>| seen.try_lock().is_ok_and(|seen| seen.since.elapsed() < FRESH);
        namespaces.retain(|_, seen| Arc::strong_count(seen) > 1 || is_recent(seen));
        let seen = namespaces.entry(namespace.to_owned());
        seen.or_insert_with(|| Arc::new(Mutex::new(NamespacePods::now())))
            .clone()
    }
}

impl NamespacePods {
    fn now() -> Self {
        NamespacePods {
            since: Instant::now(),
            requests: 0,
            list: None,
        }
    }

    /// The current list, read if there were enough requests.
    async fn list(&mut self, client: &Client, namespace: &str) -> Result<Option<Arc<TroubleList>>> {
        if self.since.elapsed() >= FRESH {
            *self = NamespacePods::now();
        }
        self.requests += 1;
        if self.list.is_none() && self.requests > ONE_BY_ONE {
            let list = TroubleList::read(client, namespace).await?;
            self.list = Some(Arc::new(list));
            self.since = Instant::now();
        }
        Ok(self.list.clone())
    }
}

impl TroubleList {
    async fn read(client: &Client, namespace: &str) -> Result<Self> {
        let mut parameters = ListParams::default().limit(PAGE);
        let (mut troubles, mut is_partial) = (Vec::new(), true);
        for _ in 0..PAGES {
            let page = bounded(pods_in(client, namespace).list(&parameters)).await?;
            for pod in page.items {
                let whole = whole(&pod)?;
                let found = Controller::of(&whole).zip(pods::trouble(&whole));
                let labels = pod.metadata.labels.unwrap_or_default();
                troubles.extend(found.map(|(controller, trouble)| (labels, controller, trouble)));
            }
            let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
                is_partial = false;
                break;
            };
            parameters = parameters.continue_token(&token);
        }
        Ok(TroubleList { troubles, is_partial })
    }
}

/// Lists the complete pods of a label selector with their names, at most [`PAGE`].
///
/// # Errors
/// The pods cannot be listed.
pub async fn list_pods(client: &Client, namespace: &str, selector: &str) -> Result<Vec<(String, Value)>> {
    let parameters = ListParams::default().labels(selector).limit(PAGE);
    let page = bounded(pods_in(client, namespace).list(&parameters)).await?;
    let pods = page.items.into_iter().map(|mut pod| {
        pod.metadata.managed_fields = None;
        Ok((pod.metadata.name.clone().unwrap_or_default(), whole(&pod)?))
    });
    pods.collect()
}

/// Lines of a log that are shown, and bytes of them.
const LINES: i64 = 10;
const LINES_BYTES: usize = 1000;
/// Bytes of a log that are read: lines have no limit.
const READ_BYTES: i64 = 256 << 10;

/// The last log lines of a Pod or of a Job's newest pod: of the failed container, or else the first. `uid`: of the Job or
/// Pod. With an empty `uid` nothing is read, because other pods may have the same label or name.
///
/// The text may contain secrets; [`tail`] shortens it.
///
/// # Errors
/// The pods cannot be listed, or the log cannot be read.
pub async fn last_lines(client: &Client, id: &ObjectId, uid: &str) -> Result<String> {
    let api = pods_in(client, &id.namespace);
    let pod = match id.group_kind.kind.as_str() {
        _ if uid.is_empty() => None,
        "Pod" => pod_of_uid(&api, &id.name, uid).await?,
        _ => {
            let parameters = ListParams::default()
                .labels(&format!("batch.kubernetes.io/controller-uid={uid}"))
                .limit(FEW);
            let mut pods = bounded(api.list(&parameters)).await?.items;
            pods.retain(|pod| {
                let mut owners = pod.metadata.owner_references.iter().flatten();
                owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
            });
            pods.into_iter()
                .max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
        }
    };
    let Some(pod) = pod else {
        return Ok(String::new());
    };
    let named = |containers: &str| {
        pod.data
            .pointer(containers)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let failed = named("/status/containerStatuses").find(|container| {
        let code = container.pointer("/state/terminated/exitCode").and_then(Value::as_i64);
        code.is_some_and(|code| code != 0)
    });
    let container = failed.or_else(|| named("/spec/containers").next());
    let parameters = LogParams {
        container: container
            .and_then(|container| container["name"].as_str())
            .map(str::to_owned),
        tail_lines: Some(LINES),
        limit_bytes: Some(READ_BYTES),
        ..LogParams::default()
    };
    let [name, uid] = [&pod.metadata.name, &pod.metadata.uid].map(|text| text.as_deref().unwrap_or_default());
    let logs: Api<Pod> = Api::namespaced(client.clone(), &id.namespace);
    let text = bounded(logs.logs(name, &parameters)).await?;
    // A log is read by name. If the pod still exists, the log is its own.
    match pod_of_uid(&api, name, uid).await? {
        Some(_) => Ok(whole_lines(text)),
        None => Ok(String::new()),
    }
}

/// Reads the pod with this name and UID. By LIST, since that permission is needed anyway.
async fn pod_of_uid(api: &Api<DynamicObject>, name: &str, uid: &str) -> Result<Option<DynamicObject>> {
    let parameters = ListParams::default().fields(&format!("metadata.name={name}"));
    let pods = bounded(api.list(&parameters)).await?.items.into_iter();
    Ok(pods.into_iter().find(|pod| pod.metadata.uid.as_deref() == Some(uid)))
}

/// Drops the last, incomplete line of a log that was too long: half a secret would not be redacted.
fn whole_lines(mut text: String) -> String {
    if text.len() as i64 >= READ_BYTES {
        text.truncate(text.rfind('\n').unwrap_or_default());
    }
    text
}

/// The part of a log that is shown.
pub fn tail(text: &str) -> &str {
    let text = text.trim_end();
    let start = text.len().saturating_sub(LINES_BYTES);
    &text[text.ceil_char_boundary(start)..]
}

fn pods_in(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Pod>(&()))
}

fn whole(pod: &DynamicObject) -> Result<Value> {
    serde_json::to_value(pod).map_err(|error| Error::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as Lock;

    use serde_json::json;

    use super::*;
    use crate::cluster::testing::client;
    use chartwright_core::identity::GroupKind;

    fn workload() -> ObjectId {
        ObjectId::new(GroupKind::new("apps", "StatefulSet"), "shop", "a")
    }

    #[tokio::test(start_paused = true)]
    async fn pods_of_other_workloads_are_ignored() {
        let (client, _) = namespace(10);
        let pods = PodTroubles::default();
        for number in 0..5 {
            let why = pods
                .explain(&client, &workload(), "other", &format!("app={number}"))
                .await;
            assert_eq!(why.unwrap(), None, "listed by workload or by namespace");
        }
    }

    /// Serves the pods of two Jobs, a log, and a pod `p` that is replaced before the second read.
    fn logging(requests: &Arc<Lock<Vec<String>>>) -> Client {
        let log = requests.clone();
        client(move |request| {
            log.lock().unwrap().push(format!("{}?{}", request.path, request.query));
            let pod = |name: &str, uid: &str, job: &str| {
                json!({"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "main"}]}, "metadata": {
                    "name": name, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z",
                    "ownerReferences": [{"kind": "Job", "name": "a", "uid": job, "controller": true, "apiVersion": "batch/v1"}],
                }})
            };
            let is_of_p = |request: &&String| request.contains("metadata.name%3Dp");
            let reads = log.lock().unwrap().iter().filter(is_of_p).count();
            if request.path.ends_with("/log") {
                return Some((200, "a line".into()));
            }
            let items = match reads {
                0 => vec![pod("theirs", "u1", "other"), pod("ours", "u2", "job")],
                1 => vec![pod("p", "u3", "")],
                _ => vec![pod("p", "u4", "")],
            };
            let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items});
            Some((200, list))
        })
    }

    #[tokio::test]
    async fn logs_are_read_only_from_the_pod_with_the_uid() {
        let lines = async |kind: &str, name: &str, uid: &str| {
            let requests = Arc::default();
            let client = logging(&requests);
            let id = ObjectId::new(GroupKind::parse(kind), "shop", name);
            let lines = last_lines(&client, &id, uid).await.unwrap();
            let requests = std::mem::take(&mut *requests.lock().unwrap());
            (lines.trim_matches('"').to_owned(), requests.join(" "))
        };
        let (text, requests) = lines("Job.batch", "a", "job").await;
        assert!(
            text == "a line" && requests.contains("/pods/ours/log?"),
            "{text:?} {requests}"
        );
        let (text, requests) = lines("Job.batch", "a", "neither").await;
        assert!(text.is_empty() && !requests.contains("/log?"), "{requests}");
        assert_eq!(lines("Job.batch", "a", "").await, Default::default(), "never created");
        let (text, requests) = lines("Pod", "p", "u4").await;
        assert!(text.is_empty() && !requests.contains("/log?"), "{requests}");
        let (text, requests) = lines("Pod", "p", "u3").await;
        assert!(text.is_empty() && requests.contains("/log?"), "replaced: {requests}");
    }

    #[test]
    fn half_a_line_of_a_log_is_left_out() {
        assert_eq!(whole_lines("a\nb".into()), "a\nb");
        let long = "x".repeat(READ_BYTES as usize - 2);
        assert_eq!(whole_lines(format!("a\n{long}")), "a");
        assert_eq!(whole_lines(format!("aa{long}")), "");
        assert_eq!(tail(&format!("{}\n", "é".repeat(LINES_BYTES))).len(), LINES_BYTES);
    }

    /// A namespace of `count` pods, one per workload, and the log of requests.
    fn namespace(count: usize) -> (Client, Arc<Lock<Vec<String>>>) {
        let sent = Arc::new(Lock::new(Vec::new()));
        let log = sent.clone();
        let client = client(move |request| {
            let query = &request.query;
            let from: usize = match query.split_once("continue=") {
                Some((_, rest)) => rest.split('&').next().unwrap_or_default().parse().unwrap_or_default(),
                None => 0,
            };
            let only = query
                .split_once("labelSelector=app%3D")
                .map(|(_, rest)| rest.split('&').next().unwrap_or_default());
            let only: Option<usize> = only.and_then(|number| number.parse().ok());
            log.lock().unwrap().push(query.clone());
            let pod = |number: usize| {
                json!({
                    "metadata": {
                        "name": format!("p{number}"), "labels": {"app": number.to_string()},
                        "ownerReferences": [{"kind": "StatefulSet", "name": "", "uid": number.to_string(), "controller": true, "apiVersion": "apps/v1"}],
                    },
                    "status": {"containerStatuses": [{
                        "name": "app", "ready": false, "image": "", "imageID": "", "restartCount": 0,
                        "state": {"waiting": {"reason": format!("Why{number}")}},
                    }]},
                })
            };
            let numbers: Vec<usize> = match only {
                Some(number) => vec![number],
                None => (from..count.min(from + PAGE as usize)).collect(),
            };
            let next = from + PAGE as usize;
            let token = if only.is_none() && next < count {
                next.to_string()
            } else {
                String::new()
            };
            let items: Vec<Value> = numbers.into_iter().map(pod).collect();
            let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": token}, "items": items});
            Some((200, list))
        });
        (client, sent)
    }

    #[tokio::test(start_paused = true)]
    async fn one_list_of_a_namespace_serves_all_workloads() {
        let (client, requests) = namespace(1000);
        let pods = PodTroubles::default();
        let ask = async |numbers: std::ops::Range<usize>| {
            let sent = numbers.map(|number| {
                let (pods, client) = (&pods, &client);
                async move {
                    let (uid, selector) = (number.to_string(), format!("app={number}"));
                    let why = pods.explain(client, &workload(), &uid, &selector).await;
                    assert_eq!(why.unwrap(), Some(format!("Why{number}")));
                }
            });
            futures::future::join_all(sent).await;
            std::mem::take(&mut *requests.lock().unwrap()).len()
        };
        assert_eq!(ask(0..1000).await, ONE_BY_ONE + 4, "and four pages");
        assert_eq!(ask(0..1000).await, 0, "from the cache");
        tokio::time::advance(FRESH).await;
        assert_eq!(ask(0..1000).await, ONE_BY_ONE + 4, "listed again");
        tokio::time::advance(FRESH).await;
        assert_eq!(ask(0..2).await, 2, "a few are read one by one");
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_large_namespace_the_remaining_workloads_are_read_one_by_one() {
        let most = PAGES * PAGE as usize;
        let (client, requests) = namespace(most + 10);
        let pods = PodTroubles::default();
        for number in [0, 1, 2, 3, 4, most - 1, most, most + 1] {
            let (uid, selector) = (number.to_string(), format!("app={number}"));
            let why = pods.explain(&client, &workload(), &uid, &selector).await;
            assert_eq!(why.unwrap(), Some(format!("Why{number}")));
        }
        assert_eq!(requests.lock().unwrap().len(), ONE_BY_ONE + PAGES + 2);
    }
}
