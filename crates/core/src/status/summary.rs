//! One line about a release, read from its custom resource. Every text in it comes from a client of the API server and is not trusted.

use serde_json::Value;

use crate::annotations::SUSPEND;
use crate::annotations::parse_bool;
use crate::identity::applyset::{FINALIZER, ID_LABEL};
use crate::status::conditions::{self, cut};

/// The longest reason, chart name or version in a summary, in bytes.
const LONGEST_WORD: usize = 100;
/// The longest message in a summary, in bytes.
const LONGEST_MESSAGE: usize = 2048;

/// What is shown of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseSummary {
    /// Empty for a cluster-scoped custom resource.
    pub namespace: String,
    pub name: String,
    /// `True`, `False` or `Unknown`.
    pub ready: String,
    /// Reason of `Ready`; `Suspended`, `Deleting`, `NotHandled` or `NewGeneration` where that says more.
    pub reason: String,
    /// Message of `Ready`.
    pub message: String,
    pub suspended: bool,
    /// Name of the chart. Empty before the first apply.
    pub chart: String,
    /// Version of the chart.
    pub version: String,
    /// 0 before the first complete apply.
    pub revision: i64,
    /// Creation time of the custom resource, in RFC 3339.
    pub created: String,
}

/// True if a custom resource has a mark of the operator: the ApplySet label, the finalizer, or a status that `status_manager` wrote.
pub fn has_mark(object: &Value, status_manager: &str) -> bool {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    let managers = metadata["managedFields"].as_array().into_iter().flatten();
    !metadata["labels"][ID_LABEL].is_null()
        || finalizers.into_iter().any(|name| name == FINALIZER)
        || managers.into_iter().any(|entry| entry["manager"] == status_manager)
}

impl ReleaseSummary {
    /// Reads the summary of a custom resource.
    pub fn of(object: &Value) -> Self {
        let (metadata, status) = (&object["metadata"], &object["status"]);
        let word = |value: &Value| cut(value.as_str().unwrap_or_default(), LONGEST_WORD);
        let name = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let conditions = conditions::of(status);
        let condition = conditions::get(&conditions, "Ready");
        let is_outdated = condition.is_some_and(|ready| {
            let generation = metadata["generation"].as_i64();
            ready.observed_generation.is_some() && generation.is_some() && ready.observed_generation != generation
        });
        let suspended = metadata["annotations"][SUSPEND].as_str().and_then(parse_bool) == Some(true);
        let (ready, reason) = match condition {
            _ if !metadata["deletionTimestamp"].is_null() => ("False", "Deleting"),
            None if suspended => ("Unknown", "Suspended"),
            None => ("Unknown", "NotHandled"),
            Some(ready) if suspended => (ready.status.as_str(), "Suspended"),
            Some(_) if is_outdated => ("Unknown", "NewGeneration"),
            Some(ready) => (ready.status.as_str(), ready.reason.as_str()),
        };
        let ready = if matches!(ready, "True" | "False") {
            ready
        } else {
            "Unknown"
        };
        ReleaseSummary {
            namespace: name("namespace"),
            name: name("name"),
            ready: ready.to_owned(),
            reason: cut(reason, LONGEST_WORD),
            message: cut(condition.map_or("", |ready| &ready.message), LONGEST_MESSAGE),
            suspended,
            chart: word(&status["release"]["chart"]),
            version: word(&status["release"]["version"]),
            revision: status["release"]["revision"].as_i64().unwrap_or_default(),
            created: name("creationTimestamp"),
        }
    }

    /// True if the release is known to be ready.
    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(ready: &Value) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "generation": 2, "creationTimestamp": "2026-01-02T03:04:05Z"},
            "status": {"conditions": [ready], "release": {"chart": "app", "version": "1.0.0", "revision": 3}},
        })
    }

    fn ready(status: &str, generation: i64) -> Value {
        json!({"type": "Ready", "status": status, "reason": "MembersNotReady", "message": "web: 0 of 1 pods", "observedGeneration": generation})
    }

    #[test]
    fn a_summary_says_what_is_known() {
        let of = |object: &Value| {
            let summary = ReleaseSummary::of(object);
            (summary.ready, summary.reason)
        };
        let pair = |ready: &str, reason: &str| (ready.to_owned(), reason.to_owned());
        let current = object(&ready("False", 2));
        assert_eq!(of(&current), pair("False", "MembersNotReady"));
        assert_eq!(of(&object(&ready("True", 1))), pair("Unknown", "NewGeneration"));
        assert_eq!(of(&object(&ready("yes", 2))), pair("Unknown", "MembersNotReady"));
        assert_eq!(of(&json!({"metadata": {"name": "a"}})), pair("Unknown", "NotHandled"));
        let mut changed = current.clone();
        changed["metadata"]["annotations"] = json!({SUSPEND: "true"});
        assert_eq!(of(&changed), pair("False", "Suspended"));
        changed["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        assert_eq!(of(&changed), pair("False", "Deleting"));
        let summary = ReleaseSummary::of(&current);
        assert_eq!((summary.chart.as_str(), summary.revision), ("app", 3));
    }

    #[test]
    fn a_hostile_status_is_bounded_and_no_status_is_no_panic() {
        let mut long = object(&ready("False", 2));
        long["status"]["release"]["chart"] = "x".repeat(10_000).into();
        long["status"]["conditions"][0]["message"] = "y".repeat(100_000).into();
        let summary = ReleaseSummary::of(&long);
        assert!(summary.chart.len() <= LONGEST_WORD && summary.message.len() <= LONGEST_MESSAGE);
        for odd in [json!(null), json!([]), json!({"metadata": 1, "status": "x"})] {
            assert_eq!(ReleaseSummary::of(&odd).ready, "Unknown");
        }
    }

    #[test]
    fn marks_are_the_label_the_finalizer_and_the_status() {
        let has = |metadata: Value| has_mark(&json!({"metadata": metadata}), "chartwright-status");
        assert!(has(json!({"labels": {ID_LABEL: "x"}})));
        assert!(has(json!({"finalizers": [FINALIZER]})));
        assert!(has(json!({"managedFields": [{"manager": "chartwright-status"}]})));
        assert!(!has(
            json!({"managedFields": [{"manager": "kubectl"}], "finalizers": ["other"]})
        ));
    }
}
