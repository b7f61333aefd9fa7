//! Why a workload isn't well: what its pods say. A workload's own status only counts them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{conditions, text};
use crate::plan::identity::GroupKind;

/// The longest message of a container or a condition that is repeated, in characters.
const LONGEST: usize = 160;

/// What a container waits for while nothing is wrong.
const ON_ITS_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The pods of a workload as a label selector in the form that requests take. `None` for what has no pods of its own,
/// or says nothing about which.
pub fn selector(kind: &GroupKind, object: &Value) -> Option<String> {
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

/// True if labels are what such a selector asks for.
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
        let tells = !["", "ContainersNotReady"].contains(&condition.reason);
        tells.then(|| said(condition.reason, condition.message))
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

/// A reason and the first line of its message, cut.
fn said(reason: &str, message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() {
        short.push_str("...");
    }
    match (reason.is_empty(), short.is_empty()) {
        (true, _) => short,
        (_, true) => reason.to_owned(),
        _ => format!("{reason}: {short}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn why(pods: &[Value]) -> Option<String> {
        most(pods.iter().filter_map(trouble))
    }

    #[test]
    fn a_selector_finds_the_pods_that_the_api_server_would() {
        let kind = GroupKind::new("apps", "Deployment");
        let of = |spec: Value| selector(&kind, &json!({"spec": {"selector": spec}})).unwrap();
        let labels = |text: &str| -> BTreeMap<String, String> {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let expression = |operator: &str, values: &[&str]| {
            of(json!({
                "matchLabels": {"app": "a"},
                "matchExpressions": [{"key": "tier", "operator": operator, "values": values}],
            }))
        };
        for (selector, yes, no) in [
            (
                of(json!({"matchLabels": {"app": "a", "b": ""}})),
                "app=a b= c=d",
                "app=a",
            ),
            (expression("In", &["x", "y"]), "app=a tier=y", "app=a tier=z"),
            (expression("In", &["x", "y"]), "tier=x app=a", "tier=x"),
            (expression("NotIn", &["x", "y"]), "app=a", "app=a tier=x"),
            (expression("Exists", &[]), "app=a tier=", "app=a"),
            (expression("DoesNotExist", &[]), "app=a", "app=a tier=x"),
        ] {
            assert!(selects(&selector, &labels(yes)), "{selector}: {yes}");
            assert!(!selects(&selector, &labels(no)), "{selector}: {no}");
        }
    }

    fn pod(status: Value) -> Value {
        json!({"metadata": {"name": "p"}, "status": status})
    }

    fn state(state: Value) -> Value {
        let mut status = json!({"name": "app", "ready": false});
        status
            .as_object_mut()
            .unwrap()
            .extend(state.as_object().unwrap().clone());
        pod(json!({"phase": "Pending", "containerStatuses": [status]}))
    }

    #[test]
    fn what_a_pod_waits_for_is_told() {
        let long = "x".repeat(200);
        let cut = format!("ErrImagePull: {}...", "x".repeat(160));
        for (status, expected) in [
            (
                json!({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"a:1\"\nmore"}}}),
                Some("ImagePullBackOff: Back-off pulling image \"a:1\""),
            ),
            (
                json!({"state": {"waiting": {"reason": "ErrImagePull", "message": long}}}),
                Some(cut.as_str()),
            ),
            (json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), None),
            (
                json!({
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting"}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                }),
                Some("CrashLoopBackOff: container app ended with exit code 137 (OOMKilled)"),
            ),
            (
                json!({"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}}),
                Some("CrashLoopBackOff: back-off 20s"),
            ),
            (
                json!({"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}),
                Some("container app ended with exit code 1 (Error)"),
            ),
            (
                json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}),
                None,
            ),
            (
                json!({"state": {"running": {}}}),
                Some("container app runs but is not ready"),
            ),
            (
                json!({"state": {"running": {}}, "started": false}),
                Some("container app runs but has not passed its startup probe"),
            ),
            (json!({"state": {"running": {}}, "ready": true}), None),
            (json!({"state": 3}), None),
        ] {
            assert_eq!(why(&[state(status.clone())]).as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn pods_that_are_well_or_going_say_nothing() {
        let waiting = json!([{"name": "a", "state": {"waiting": {"reason": "ErrImagePull"}}}]);
        let ready = json!({"containerStatuses": waiting, "conditions": [{"type": "Ready", "status": "True"}]});
        let mut going = pod(json!({"containerStatuses": waiting}));
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let done = pod(json!({"containerStatuses": waiting, "phase": "Succeeded"}));
        assert_eq!(why(&[pod(ready), going, done, json!(null), json!(7)]), None);
    }

    #[test]
    fn the_most_frequent_reason_speaks_for_all() {
        let of = |reason: &str| state(json!({"state": {"waiting": {"reason": reason}}}));
        assert_eq!(why(&[of("A"), of("B"), of("B")]).as_deref(), Some("B"));
        let unscheduled = pod(json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"},
        ]}));
        assert_eq!(
            why(&[unscheduled]).as_deref(),
            Some("Unschedulable: 0/1 nodes are available")
        );
        let evicted = pod(json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}));
        assert_eq!(why(&[evicted]).as_deref(), Some("Evicted: low on memory"));
        let gate = pod(json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": "gate \"a\" is missing"},
        ]}));
        assert_eq!(
            why(&[gate]).as_deref(),
            Some("ReadinessGatesNotReady: gate \"a\" is missing")
        );
        let init = pod(json!({"phase": "Pending",
            "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 2}}}],
            "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "PodInitializing"}}}],
        }));
        assert_eq!(
            why(&[init]).as_deref(),
            Some("container init ended with exit code 2 (Error)")
        );
    }

    #[test]
    fn only_workloads_have_pods() {
        let deployment = GroupKind::new("apps", "Deployment");
        let object = |selector: Value| json!({"spec": {"selector": selector}});
        for (selector_of, expected) in [
            (json!({"matchLabels": {"a": "b", "c": "d"}}), Some("a=b,c=d")),
            (
                json!({"matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "NotIn", "values": ["z"]},
                    {"key": "c", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist"}, {"key": "e", "operator": "?"},
                ]}),
                Some("a in (x,y),b notin (z),c,!d"),
            ),
            (json!({}), None),
            (json!("x"), None),
        ] {
            assert_eq!(selector(&deployment, &object(selector_of)).as_deref(), expected);
        }
        let service = object(json!({"matchLabels": {"a": "b"}}));
        assert_eq!(selector(&GroupKind::new("", "Service"), &service), None);
    }
}
