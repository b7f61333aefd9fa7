//! The answer to a request: a refusal in the chart's own words, and warnings about pods that restart and objects that are deleted.

use serde_json::{Value, json};

use crate::diff::{ChangeOperation, ObjectChange, ReleaseDiff};
use crate::status::conditions;
use chartwright_watches::text::first_items;

/// The largest refusal, in bytes.
const MAX_REFUSAL: usize = 4 << 10;
/// The largest warning, in bytes. The API server may cut longer ones (`Warning` of `k8s.io/api/admission/v1`).
const MAX_WARNING: usize = 250;
/// Objects that one warning names.
const MAX_NAMES: usize = 5;
/// Warnings of one answer.
const MAX_WARNINGS: usize = 16;

/// What the API server is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionAnswer {
    /// Why the change is refused. `None`: it is admitted.
    pub refusal: Option<String>,
    /// What `kubectl` prints beside its result.
    pub warnings: Vec<String>,
}

impl AdmissionAnswer {
    /// Decides about a change with this preview. `live`: the custom resource before it.
    ///
    /// A release that stays `Stalled` for the same reason is admitted with a warning: the change may be one of several steps, and an edit
    /// of something else must stay possible.
    pub fn from_preview(diff: &ReleaseDiff, live: Option<&Value>) -> Self {
        let mut warnings = Vec::new();
        let mut refusal = None;
        if let Some(stalled) = &diff.stalled {
            if live.and_then(|live| conditions::stalled_text(&live["status"])).as_ref() == Some(stalled) {
                warnings.push(format!("the release stays Stalled: {stalled}"));
            } else {
                refusal = Some(cut(stalled, MAX_REFUSAL));
            }
        }
        warnings.extend(changes(diff));
        warnings.extend(
            diff.held
                .iter()
                .map(|held| format!("objects stay that the chart no longer has: {held}")),
        );
        warnings.truncate(MAX_WARNINGS);
        AdmissionAnswer {
            refusal,
            warnings: warnings.iter().map(|warning| header_text(warning)).collect(),
        }
    }

    /// Admits a change without a preview.
    pub fn without_preview(reason: &str) -> Self {
        AdmissionAnswer {
            refusal: None,
            warnings: vec![header_text(&format!("this change was not previewed: {reason}"))],
        }
    }

    /// Returns the AdmissionReview that answers the request `uid`.
    pub fn to_review(&self, uid: &str) -> Value {
        let mut response = json!({"uid": uid, "allowed": self.refusal.is_none()});
        if let Some(refusal) = &self.refusal {
            response["status"] = json!({"code": 422, "reason": "Invalid", "message": refusal});
        }
        if !self.warnings.is_empty() {
            response["warnings"] = json!(self.warnings);
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }
}

fn changes(diff: &ReleaseDiff) -> impl Iterator<Item = String> {
    let named = |what: &str, is_it: &dyn Fn(&&ObjectChange) -> bool| {
        let mut objects = diff
            .changes
            .iter()
            .filter(is_it)
            .map(|change| &change.object)
            .peekable();
        objects.peek()?;
        Some(format!("{what}: {}", first_items(MAX_NAMES, objects)))
    };
    [
        named("pods restart", &|change| change.restarts),
        named("deleted and created again", &|change| {
            change.operation == ChangeOperation::Recreated
        }),
        named("deleted", &|change| change.operation == ChangeOperation::Pruned),
    ]
    .into_iter()
    .flatten()
}

/// A text as the value of a warning header: the API server drops a warning with control characters
/// (`NewWarningHeader` of k8s.io/apimachinery/pkg/util/net).
fn header_text(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(&line, MAX_WARNING)
}

fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub("…".len()));
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{ChartChange, Summary};
    use crate::identity::{GroupKind, ObjectId};

    fn preview(changes: Vec<ObjectChange>) -> ReleaseDiff {
        ReleaseDiff {
            group_kind: GroupKind::new("a.test", "Web"),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            chart: ChartChange::default(),
            summary: Summary::default(),
            changes,
            hooks: Vec::new(),
            plans: Vec::new(),
            held: Vec::new(),
            refusals: Vec::new(),
            stalled: None,
            notes: Vec::new(),
        }
    }

    fn change(kind: &str, name: &str, operation: ChangeOperation, restarts: bool) -> ObjectChange {
        ObjectChange {
            object: ObjectId::new(GroupKind::new("", kind), "shop", name),
            operation,
            diff: String::new(),
            restarts,
            is_rendered_only: false,
        }
    }

    #[test]
    fn restarts_and_deletions_are_warnings() {
        let mut diff = preview(vec![
            change("Service", "new", ChangeOperation::Created, false),
            change("ConfigMap", "edited", ChangeOperation::Changed, false),
            change("Pod", "a", ChangeOperation::Changed, true),
            change("Pod", "b", ChangeOperation::Recreated, true),
            change("ConfigMap", "old", ChangeOperation::Pruned, false),
            change("ConfigMap", "left", ChangeOperation::Released, false),
        ]);
        diff.held = vec!["Secret shop/kept".to_owned()];
        let answer = AdmissionAnswer::from_preview(&diff, None);
        assert_eq!(answer.refusal, None);
        assert_eq!(
            answer.warnings,
            [
                "pods restart: Pod shop/a, Pod shop/b",
                "deleted and created again: Pod shop/b",
                "deleted: ConfigMap shop/old",
                "objects stay that the chart no longer has: Secret shop/kept",
            ]
        );
        let review = answer.to_review("u");
        assert_eq!(review["response"]["allowed"], true);
        assert_eq!(review["response"].get("status"), None);
        let bare = AdmissionAnswer::from_preview(&preview(Vec::new()), None).to_review("u");
        assert_eq!(bare["response"], json!({"uid": "u", "allowed": true}));
    }

    #[test]
    fn only_a_new_reason_to_be_stalled_is_refused() {
        let mut diff = preview(Vec::new());
        diff.stalled = Some("RenderFailed: size must be odd".to_owned());
        let stalled = |message: &str, status: &str| {
            json!({"status": {"conditions": [{
                "type": "Stalled", "status": status, "reason": "RenderFailed", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]}})
        };
        for (what, live, is_refused) in [
            ("a creation", None, true),
            ("a release without status", Some(json!({})), true),
            ("the same reason", Some(stalled("size must be odd", "True")), false),
            ("another reason", Some(stalled("size is missing", "True")), true),
            ("a former reason", Some(stalled("size must be odd", "False")), true),
        ] {
            let answer = AdmissionAnswer::from_preview(&diff, live.as_ref());
            assert_eq!(answer.refusal.is_some(), is_refused, "{what}");
            assert_eq!(answer.warnings.is_empty(), is_refused, "{what}");
        }
        let review = AdmissionAnswer::from_preview(&diff, None).to_review("u");
        assert_eq!(review["response"]["allowed"], false);
        assert_eq!(
            review["response"]["status"]["message"],
            "RenderFailed: size must be odd"
        );
    }

    #[test]
    fn hostile_names_and_long_texts_are_bounded() {
        let many = (0..2000).map(|number| change("Pod", &format!("p-{number}"), ChangeOperation::Pruned, true));
        let mut diff = preview(many.collect());
        diff.stalled = Some("é".repeat(10_000));
        diff.held = vec!["a\r\nb\u{1b}[31m".repeat(100); 100];
        let answer = AdmissionAnswer::from_preview(&diff, None);
        let refusal = answer.refusal.unwrap();
        assert!(
            refusal.len() <= MAX_REFUSAL && refusal.ends_with('…'),
            "{}",
            refusal.len()
        );
        assert_eq!(answer.warnings.len(), MAX_WARNINGS);
        assert!(
            answer.warnings[0].ends_with("Pod shop/p-4 and 1995 more"),
            "{}",
            answer.warnings[0]
        );
        for warning in &answer.warnings {
            assert!(
                warning.len() <= MAX_WARNING && !warning.contains(char::is_control),
                "{warning}"
            );
        }
    }
}
