//! What ails the pods of workloads that aren't well. Where many such workloads of a namespace are asked about at a time,
//! the namespace is listed once for all of them, as far as it isn't too large.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connect::bounded;
use super::error::{Error, Result};
use crate::plan::health::pods;
use crate::plan::identity::ObjectId;

/// Pods of one workload that are looked at: enough to see what ails them.
const FEW: u32 = 50;
/// Pods in a page of a namespace, and how many pages of it are read.
const PAGE: u32 = 250;
const PAGES: usize = 8;
/// Workloads of a namespace that are looked at one by one before the namespace is listed, within the time that a list
/// counts.
const ONE_BY_ONE: usize = 3;
const FRESH: Duration = Duration::from_secs(10);

/// What was seen of late. One for all reconciles of a process.
#[derive(Default)]
pub struct Pods {
    namespaces: std::sync::Mutex<HashMap<String, Arc<Mutex<Seen>>>>,
}

/// What was seen in a namespace.
struct Seen {
    since: Instant,
    /// Workloads that were asked about since then.
    asked: usize,
    list: Option<Arc<List>>,
}

/// The pods of a namespace that have a trouble, by their labels.
struct List {
    troubles: Vec<(BTreeMap<String, String>, String)>,
    /// There may be others.
    is_part: bool,
}

// === impl Pods ===

impl Pods {
    /// What most of the pods say that a label selector finds in a namespace, and that aren't well.
    ///
    /// # Errors
    /// They can't be listed.
    pub async fn why(&self, client: &Client, namespace: &str, selector: &str) -> Result<Option<String>> {
        let list = self.seen(namespace).lock().await.list(client, namespace).await?;
        if let Some(list) = list {
            let ours = list
                .troubles
                .iter()
                .filter(|(labels, _)| pods::selects(selector, labels));
            let why = pods::most(ours.map(|(_, trouble)| trouble.clone()));
            if why.is_some() || !list.is_part {
                return Ok(why);
            }
        }
        let parameters = ListParams::default().labels(selector).limit(FEW);
        let page = bounded(pods_in(client, namespace).list(&parameters)).await?;
        let pods: Vec<Value> = page.items.iter().map(whole).collect::<Result<_>>()?;
        Ok(pods::most(pods.iter().filter_map(pods::trouble)))
    }

    fn seen(&self, namespace: &str) -> Arc<Mutex<Seen>> {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |seen: &Mutex<Seen>| seen.try_lock().is_ok_and(|seen| seen.since.elapsed() < FRESH);
        namespaces.retain(|_, seen| Arc::strong_count(seen) > 1 || is_recent(seen));
        let seen = namespaces.entry(namespace.to_owned());
        seen.or_insert_with(|| Arc::new(Mutex::new(Seen::now()))).clone()
    }
}

// === impl Seen ===

impl Seen {
    fn now() -> Self {
        Seen {
            since: Instant::now(),
            asked: 0,
            list: None,
        }
    }

    /// The list that counts now, if it is worth one.
    async fn list(&mut self, client: &Client, namespace: &str) -> Result<Option<Arc<List>>> {
        if self.since.elapsed() >= FRESH {
            *self = Seen::now();
        }
        self.asked += 1;
        if self.list.is_none() && self.asked > ONE_BY_ONE {
            let list = List::read(client, namespace).await?;
            self.list = Some(Arc::new(list));
            self.since = Instant::now();
        }
        Ok(self.list.clone())
    }
}

// === impl List ===

impl List {
    async fn read(client: &Client, namespace: &str) -> Result<Self> {
        let mut parameters = ListParams::default().limit(PAGE);
        let (mut troubles, mut is_part) = (Vec::new(), true);
        for _ in 0..PAGES {
            let page = bounded(pods_in(client, namespace).list(&parameters)).await?;
            for pod in page.items {
                let trouble = pods::trouble(&whole(&pod)?);
                let labels = pod.metadata.labels.unwrap_or_default();
                troubles.extend(trouble.map(|trouble| (labels, trouble)));
            }
            let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
                is_part = false;
                break;
            };
            parameters = parameters.continue_token(&token);
        }
        Ok(List { troubles, is_part })
    }
}

/// The pods that a label selector finds in a namespace, whole, by their names: the first [`PAGE`] pods of it.
///
/// # Errors
/// They can't be listed.
pub async fn all(client: &Client, namespace: &str, selector: &str) -> Result<Vec<(String, Value)>> {
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

/// What a Job's last pod, or a Pod, wrote last: of the container that failed, or else of the first.
///
/// # Errors
/// The pods can't be listed, or the log can't be read.
pub async fn last_lines(client: &Client, id: &ObjectId) -> Result<String> {
    let api = pods_in(client, &id.namespace);
    let pod = match id.group_kind.kind.as_str() {
        "Pod" => bounded(api.get_opt(&id.name)).await?,
        _ => {
            let parameters = ListParams::default()
                .labels(&format!("batch.kubernetes.io/job-name={}", id.name))
                .limit(FEW);
            let pods = bounded(api.list(&parameters)).await?.items;
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
        ..LogParams::default()
    };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let logs: Api<Pod> = Api::namespaced(client.clone(), &id.namespace);
    let text = bounded(logs.logs(name, &parameters)).await?;
    let start = text.len().saturating_sub(LINES_BYTES);
    Ok(text[text.ceil_char_boundary(start)..].trim_end().to_owned())
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

    use super::super::testing::client;
    use super::*;

    /// A namespace of so many pods, one for each workload; and the requests for them.
    fn namespace(count: usize) -> (Client, Arc<Lock<Vec<String>>>) {
        let asked = Arc::new(Lock::new(Vec::new()));
        let log = asked.clone();
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
                    "metadata": {"name": format!("p{number}"), "labels": {"app": number.to_string()}},
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
        (client, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn one_list_of_a_namespace_serves_all_who_ask() {
        let (client, requests) = namespace(1000);
        let pods = Pods::default();
        let ask = async |numbers: std::ops::Range<usize>| {
            let asked = numbers.map(|number| {
                let (pods, client) = (&pods, &client);
                async move {
                    let why = pods.why(client, "shop", &format!("app={number}")).await;
                    assert_eq!(why.unwrap(), Some(format!("Why{number}")));
                }
            });
            futures::future::join_all(asked).await;
            std::mem::take(&mut *requests.lock().unwrap()).len()
        };
        assert_eq!(ask(0..1000).await, ONE_BY_ONE + 4, "and four pages");
        assert_eq!(ask(0..1000).await, 0, "at that time");
        tokio::time::advance(FRESH).await;
        assert_eq!(ask(0..1000).await, ONE_BY_ONE + 4, "and anew");
        tokio::time::advance(FRESH).await;
        assert_eq!(ask(0..2).await, 2, "few are looked at one by one");
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_namespace_that_is_too_large_the_others_are_looked_at_one_by_one() {
        let most = PAGES * PAGE as usize;
        let (client, requests) = namespace(most + 10);
        let pods = Pods::default();
        for number in [0, 1, 2, 3, 4, most - 1, most, most + 1] {
            let why = pods.why(&client, "shop", &format!("app={number}")).await;
            assert_eq!(why.unwrap(), Some(format!("Why{number}")));
        }
        assert_eq!(requests.lock().unwrap().len(), ONE_BY_ONE + PAGES + 2);
    }
}
