//! What is wrong with one live object: by its status, its pods' containers, its Events, and by checks of its references.

use jiff::Timestamp;
use serde_json::Value;

use super::facts::ReportFacts;
use super::live::{LiveObjects, list, text};
use super::tree::NodeHealth;
use super::{checks, rollout};
use crate::health::{self, HealthStatus, pods};
use crate::identity::ObjectId;

/// What is wrong with an object, and since when.
pub(super) struct Trouble {
    pub(super) health: NodeHealth,
    pub(super) message: String,
    pub(super) since: Option<String>,
    /// Only a deletion of the object helps: its controller does not replace it.
    pub(super) is_stuck: bool,
}

/// Reasons of Events that are no warnings, and still explain why a claim is not bound.
const OF_CLAIMS: [&str; 3] = ["FailedBinding", "ProvisioningFailed", "WaitForFirstConsumer"];

impl Trouble {
    pub(super) fn of(
        id: &ObjectId,
        object: &Value,
        objects: &LiveObjects<'_>,
        facts: &ReportFacts,
        now: Timestamp,
    ) -> Self {
        let found = health::health(&id.group_kind, object, now);
        let problem = || checks::problem(id, object, objects, facts);
        let stuck = rollout::stuck(id, object, objects);
        let (health, message) = match found.status {
            HealthStatus::Terminating => (NodeHealth::Terminating, terminating(object, found.message)),
            HealthStatus::Failed => (NodeHealth::Failed, explained(id, object, objects, found.message)),
            HealthStatus::InProgress => match problem() {
                Some(problem) => (NodeHealth::InProgress, problem),
                None => (NodeHealth::InProgress, explained(id, object, objects, found.message)),
            },
            HealthStatus::Current => match problem() {
                Some(problem) => (NodeHealth::Degraded, problem),
                None => (NodeHealth::Current, String::new()),
            },
        };
        let stuck = stuck.filter(|_| health.is_bad());
        Trouble {
            since: health.is_bad().then(|| since(object, objects)).flatten(),
            health,
            is_stuck: stuck.is_some(),
            message: match stuck {
                Some(stuck) if message.is_empty() => stuck.to_owned(),
                Some(stuck) => format!("{message}; {stuck}"),
                None => message,
            },
        }
    }
}

/// The words of a pod's containers, else of the object's newest Event, with those of its health.
fn explained(id: &ObjectId, object: &Value, objects: &LiveObjects<'_>, health: String) -> String {
    let is_pod = id.group_kind.group.is_empty() && id.group_kind.kind == "Pod";
    let short = |text: &str| pods::without_pod_name(text, &id.name);
    let event = event_of(object, objects).map(|event| short(&said(event)));
    match (is_pod.then(|| pods::trouble(object)).flatten(), event) {
        // The container only runs: an Event has the answer of its probe.
        (Some(words), Some(event)) if words.contains(" runs but ") => format!("{words}: {event}"),
        (Some(words), _) => words,
        (None, Some(event)) if health.is_empty() => event,
        // A condition repeats the Event of a controller, with another name of a pod.
        (None, Some(event)) if event.contains(start_of(&short(&health))) => short(&health),
        (None, Some(event)) => format!("{health}: {event}"),
        (None, None) => health,
    }
}

/// Enough of a text to recognize it in another one that is cut elsewhere.
fn start_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(80)]
}

/// Why a deletion takes its time: finalizers.
fn terminating(object: &Value, message: String) -> String {
    let names: Vec<&str> = list(object, "/metadata/finalizers")
        .filter_map(Value::as_str)
        .take(5)
        .collect();
    if names.is_empty() {
        message
    } else {
        format!("{message}; it waits for the finalizers {}", names.join(", "))
    }
}

/// The newest Event about an object that explains a problem.
fn event_of<'f>(object: &Value, objects: &LiveObjects<'f>) -> Option<&'f Value> {
    let explains = |event: &&&Value| text(event, "/type") == "Warning" || OF_CLAIMS.contains(&text(event, "/reason"));
    let events = objects.events_of(object).iter().filter(explains);
    events.copied().max_by_key(|event| time_of(event))
}

/// Reason and words of an Event.
fn said(event: &Value) -> String {
    format!("{}: {}", text(event, "/reason"), text(event, "/message").trim())
}

/// When an Event happened last, in RFC 3339. The API server writes all times with the same form.
fn time_of(event: &Value) -> &str {
    let times = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    let mut found = times.into_iter().map(|pointer| text(event, pointer));
    found.find(|time| !time.is_empty()).unwrap_or_default()
}

/// Since when an object is as it is: the transition of its first bad condition, else its first Event, else its creation.
fn since(object: &Value, objects: &LiveObjects<'_>) -> Option<String> {
    const GOOD_IF_TRUE: [&str; 6] = [
        "PodScheduled",
        "Ready",
        "Available",
        "Progressing",
        "ScalingActive",
        "AbleToScale",
    ];
    const GOOD_IF_FALSE: [&str; 3] = ["ReplicaFailure", "Failed", "Stalled"];
    let is_bad = |condition: &&Value| match text(condition, "/status") {
        "True" => GOOD_IF_FALSE.contains(&text(condition, "/type")),
        _ => GOOD_IF_TRUE.contains(&text(condition, "/type")),
    };
    let transition = list(object, "/status/conditions").find(is_bad);
    let transition = transition.map(|condition| text(condition, "/lastTransitionTime"));
    let event = event_of(object, objects).map(|event| text(event, "/firstTimestamp"));
    let deleted = text(object, "/metadata/deletionTimestamp");
    [
        Some(deleted),
        transition,
        event,
        Some(text(object, "/metadata/creationTimestamp")),
    ]
    .into_iter()
    .flatten()
    .find(|time| !time.is_empty())
    // Not trusted: only times are shown.
    .and_then(|time| time.parse::<Timestamp>().ok())
    .map(|time| time.to_string())
}
