//! Explains why a workload is unhealthy, from its pods. A workload's own status only counts them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{conditions, text};
use crate::identity::{GroupKind, ObjectId};

/// The longest message of a container or a condition that is repeated, in characters, and of an Event.
const LONGEST: usize = 160;
const LONGEST_EVENT: usize = 240;

/// What a container waits for while nothing is wrong.
const ON_ITS_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The pods of a workload as a label selector in the form that requests take. `None` for what has no pods of its own,
/// or says nothing about which. Empty for a claim: its Events say what it waits for.
pub fn selector(kind: &GroupKind, object: &Value) -> Option<String> {
    if kind.group.is_empty() && kind.kind == "PersistentVolumeClaim" {
        return Some(String::new());
    }
    let workload = match kind.group.as_str() {
        "apps" => ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"].contains(&kind.kind.as_str()),
        "batch" => kind.kind == "Job",
        _ => false,
    };
    if !workload {
        return None;
    }
    let selector = object.pointer("/spec/selector")?;
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let labels = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let expressions = expressions.into_iter().flatten().filter_map(|expression| {
        let key = text(expression, "/key")?;
        let values = expression.get("values").and_then(Value::as_array);
        let values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
        match text(expression, "/operator")? {
            "In" => Some(format!("{key} in ({})", values.join(","))),
            "NotIn" => Some(format!("{key} notin ({})", values.join(","))),
            "Exists" => Some(key.to_owned()),
            "DoesNotExist" => Some(format!("!{key}")),
            _ => None,
        }
    });
    let parts: Vec<String> = labels.chain(expressions).collect();
    // An empty selector would be all pods of the namespace.
    (!parts.is_empty()).then(|| parts.join(","))
}

/// True if labels match such a selector.
pub fn selects(selector: &str, labels: &BTreeMap<String, String>) -> bool {
    let has_one_of = |key: &str, values: &str| {
        let values = values.strip_prefix('(').and_then(|values| values.strip_suffix(')'));
        let mut values = values.unwrap_or_default().split(',');
        labels.get(key).is_some_and(|label| values.any(|value| value == label))
    };
    let mut depth = 0;
    let parts = selector.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    });
    parts.into_iter().all(|part| {
        if let Some((key, values)) = part.split_once(" in ") {
            return has_one_of(key, values);
        }
        if let Some((key, values)) = part.split_once(" notin ") {
            return !has_one_of(key, values);
        }
        match (part.split_once('='), part.strip_prefix('!')) {
            (Some((key, value)), _) => labels.get(key).is_some_and(|label| label == value),
            (None, Some(key)) => !labels.contains_key(key),
            (None, None) => labels.contains_key(part),
        }
    })
}

/// The label by which a Deployment distinguishes the pods of its ReplicaSets.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The controller of a pod, and the label that names its ReplicaSet's template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    kind: String,
    name: String,
    uid: String,
    template_hash: String,
}
impl Controller {
    /// Of a pod; `None` if it has none.
    pub fn of(pod: &Value) -> Option<Self> {
        let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
        let controller = owners.iter().find(|owner| owner["controller"] == true)?;
        let field = |name: &str| controller[name].as_str().unwrap_or_default().to_owned();
        let hash = pod
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(TEMPLATE_HASH)?.as_str());
        Some(Controller {
            kind: field("kind"),
            name: field("name"),
            uid: field("uid"),
            template_hash: hash.unwrap_or_default().to_owned(),
        })
    }

    /// True if the pod is one of a workload, or of a ReplicaSet of it: that is named after the Deployment and the pods'
    /// template, so that no right to read ReplicaSets is needed. A selector proves nothing: it may find the pods of others.
    pub fn is_below(&self, id: &ObjectId, uid: &str) -> bool {
        match id.group_kind.kind.as_str() {
            "Deployment" => {
                let hash = self.template_hash.as_str();
                let name = self.name.strip_suffix(hash).and_then(|name| name.strip_suffix('-'));
                self.kind == "ReplicaSet" && !hash.is_empty() && name == Some(id.name.as_str())
            }
            _ => !uid.is_empty() && self.uid == uid,
        }
    }
}

/// True if a pod is one of a live workload, and not of one that had its name before.
pub fn is_of_workload(pod: &Value, id: &ObjectId, workload: &Value) -> bool {
    let uid = text(workload, "/metadata/uid").unwrap_or_default();
    let created = |object| {
        text(object, "/metadata/creationTimestamp")
            .unwrap_or_default()
            .to_owned()
    };
    // The API server writes all times in the same form.
    Controller::of(pod).is_some_and(|controller| controller.is_below(id, uid)) && created(pod) >= created(workload)
}

/// What keeps pods from being ready, as most of those that aren't say; `None` if none of them says anything.
pub fn most(troubles: impl Iterator<Item = String>) -> Option<String> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for reason in troubles {
        *reasons.entry(reason).or_default() += 1;
    }
    let most = reasons.values().copied().max()?;
    reasons
        .into_iter()
        .find(|(_, count)| *count == most)
        .map(|(reason, _)| reason)
}

/// What keeps a pod from being ready, if it says so. Its name is left out, since it changes while the reason stays.
pub fn trouble(pod: &Value) -> Option<String> {
    let ready = conditions(pod).any(|condition| condition.kind == "Ready" && condition.is_true());
    let going = text(pod, "/metadata/deletionTimestamp").is_some();
    if ready || going || text(pod, "/status/phase") == Some("Succeeded") {
        return None;
    }
    let unscheduled = conditions(pod).find(|condition| condition.kind == "PodScheduled" && condition.status == "False");
    if let Some(condition) = unscheduled {
        return Some(said(condition.reason, condition.message));
    }
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = statuses
        .into_iter()
        .filter_map(|list| pod.pointer(list)?.as_array())
        .flatten();
    // An evicted pod says so itself, and its containers nothing; a readiness gate or a lost node is in the condition.
    let evicted = || {
        let reason = text(pod, "/status/reason")?;
        Some(said(reason, text(pod, "/status/message").unwrap_or_default()))
    };
    let unready = || {
        let condition = conditions(pod).find(|condition| condition.kind == "Ready")?;
        let has_reason = !["", "ContainersNotReady"].contains(&condition.reason);
        has_reason.then(|| said(condition.reason, condition.message))
    };
    containers
        .filter_map(container)
        .next()
        .or_else(evicted)
        .or_else(unready)
}

fn container(status: &Value) -> Option<String> {
    let name = text(status, "/name").unwrap_or("?");
    let ended = ended(status, "/state/terminated").or_else(|| ended(status, "/lastState/terminated"));
    match (text(status, "/state/waiting/reason"), ended) {
        (Some(reason), _) if ON_ITS_WAY.contains(&reason) => None,
        // Its message counts the seconds until the next start.
        (Some(reason @ "CrashLoopBackOff"), Some(ended)) => Some(format!("{reason}: container {name} {ended}")),
        (Some(reason), _) => Some(said(reason, text(status, "/state/waiting/message").unwrap_or_default())),
        (None, Some(ended)) => Some(format!("container {name} {ended}")),
        (None, None) if status.pointer("/state/running").is_some() => {
            let started = status.get("started").and_then(Value::as_bool) != Some(false);
            let ready = status.get("ready").and_then(Value::as_bool) == Some(true);
            match (ready, started) {
                (true, _) => None,
                (false, true) => Some(format!("container {name} runs but is not ready")),
                (false, false) => Some(format!("container {name} runs but has not passed its startup probe")),
            }
        }
        (None, None) => None,
    }
}

/// How a container ended, unless it did so well.
fn ended(status: &Value, state: &str) -> Option<String> {
    let state = status.pointer(state)?;
    let code = state.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
    let reason = text(state, "/reason").unwrap_or("Error");
    (code != 0).then(|| format!("ended with exit code {code} ({reason})"))
}

/// The reason of the Event of a claim that no pod uses, in a storage class with `volumeBindingMode: WaitForFirstConsumer`.
const NO_CONSUMER: &str = "WaitForFirstConsumer";

/// True if a problem is that of a claim which no pod uses now: nothing waits for it.
pub fn is_unused_claim(id: &ObjectId, problem: &str) -> bool {
    id.group_kind.kind == "PersistentVolumeClaim" && problem.starts_with(NO_CONSUMER)
}

/// The first line of a message about a pod that a controller could not create, cut. Names of pods are left out: each attempt has
/// another one. `workload`: the name that they start with.
pub fn without_pod_name(message: &str, workload: &str) -> String {
    let quoted = format!("\"{workload}-");
    let line = match message.split_once(&quoted) {
        Some((before, rest)) => {
            let after = rest.split_once('"').map_or("", |(_, after)| after);
            format!("{before}\"{workload}-...\"{after}")
        }
        None => message.to_owned(),
    };
    cut_line(&line, LONGEST_EVENT)
}

/// The first line of a message, cut.
fn cut_line(message: &str, longest: usize) -> String {
    let line = message.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(longest).collect();
    if short.len() < line.len() {
        short.push_str("...");
    }
    short
}

/// A reason and the first line of its message, cut.
fn said(reason: &str, message: &str) -> String {
    let short = cut_line(message, LONGEST);
    match (reason.is_empty(), short.is_empty()) {
        (true, _) => short,
        (_, true) => reason.to_owned(),
        _ => format!("{reason}: {short}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;
    use serde_json::json;

    #[test]
    fn a_selector_finds_the_pods_that_the_api_server_would() {
        let kind = GroupKind::new("apps", "Deployment");
        type Labels = BTreeMap<String, String>;
        for (of, expected, yes, no) in table::<(Value, Option<String>, Labels, Labels)>("pods", "selectors") {
            let object = json!({"spec": {"selector": of}});
            let selector = selector(&kind, &object);
            assert_eq!(selector, expected, "{of}");
            if let Some(selector) = selector {
                assert!(
                    selects(&selector, &yes) && !selects(&selector, &no),
                    "{selector}: {yes:?} {no:?}"
                );
            }
        }
        let message = "Error creating: pods \"web-x7k2p\" is forbidden: violates PodSecurity\nmore";
        let expected = "Error creating: pods \"web-...\" is forbidden: violates PodSecurity";
        assert_eq!(without_pod_name(message, "web"), expected);
        assert_eq!(without_pod_name("no volume plugin", "web"), "no volume plugin");
        let service = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
        assert_eq!(
            selector(&GroupKind::new("", "Service"), &service),
            None,
            "only workloads have pods"
        );
    }

    #[test]
    fn a_pod_is_that_of_its_controller_whoever_selects_it() {
        let pod = |kind: &str, name: &str, uid: &str, hash: &str| {
            json!({"metadata": {
                "creationTimestamp": "2026-01-01T00:00:05Z", "labels": {"app": "x", TEMPLATE_HASH: hash},
                "ownerReferences": [{"kind": "X", "name": "x", "uid": "w"},
                    {"kind": kind, "name": name, "uid": uid, "controller": true}],
            }})
        };
        let since = |second: u8| {
            let created = format!("2026-01-01T00:00:0{second}Z");
            json!({"metadata": {"uid": "w", "creationTimestamp": created}})
        };
        let id = |kind: &str| ObjectId::new(GroupKind::new("apps", kind), "shop", "web");
        for (kind, pod, expected) in [
            ("StatefulSet", pod("StatefulSet", "web", "w", ""), true),
            ("StatefulSet", pod("StatefulSet", "web", "v", ""), false),
            ("StatefulSet", json!({"metadata": {"labels": {"app": "x"}}}), false),
            ("Deployment", pod("ReplicaSet", "web-5d4c", "r", "5d4c"), true),
            ("Deployment", pod("ReplicaSet", "web-db-5d4c", "r", "5d4c"), false),
            ("Deployment", pod("ReplicaSet", "db-5d4c", "r", "5d4c"), false),
            ("Deployment", pod("ReplicaSet", "web-5d4c", "r", ""), false),
            ("Deployment", pod("ReplicaSet", "web-", "r", ""), false),
            ("Deployment", pod("Job", "web-5d4c", "r", "5d4c"), false),
        ] {
            assert_eq!(is_of_workload(&pod, &id(kind), &since(0)), expected, "{kind} {pod}");
            assert!(!is_of_workload(&pod, &id(kind), &since(9)), "of a former {kind} {pod}");
        }
    }

    #[test]
    fn what_a_pod_waits_for_is_reported() {
        for (mut status, expected) in table::<(Value, Option<String>)>("pods", "containers") {
            status["name"] = "app".into();
            let pod = json!({"status": {"phase": "Pending", "containerStatuses": [status]}});
            assert_eq!(trouble(&pod), expected, "{pod}");
        }
    }

    #[test]
    fn the_most_frequent_reason_speaks_for_all() {
        for (pods, expected) in table::<(Vec<Value>, Option<String>)>("pods", "pods") {
            assert_eq!(most(pods.iter().filter_map(trouble)), expected, "{pods:?}");
        }
    }
}
