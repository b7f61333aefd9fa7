//! The conditions of a release: which of them are set, which are removed, and their messages.

use std::borrow::Cow;

use serde_json::Value;

use super::{BRIEF_BYTES, NOTES_BYTES, StatusReport};
use crate::status::changes::shown;
use crate::status::conditions::{self, Condition};
use crate::status::phase::{Phase, Reason};
use crate::status::template::{INVALID, Templated};

/// What a condition is to say: whether it holds, its reason, its message. `None`: it is removed.
type Said = Option<(bool, String, String)>;

fn said(holds: bool, reason: &str, message: &str) -> Said {
    Some((holds, reason.to_owned(), message.to_owned()))
}

/// What stands in the place of the previous ones. Those of others stay.
pub(super) fn all(report: &StatusReport<'_>, previous: &Value) -> Vec<Condition> {
    let mut list = conditions::of(previous);
    let initialized = ("Initialized", said(true, "Initialized", ""));
    let all = [initialized]
        .into_iter()
        .chain(own_conditions(report))
        .chain(sdk_conditions(report, previous));
    for (kind, said) in all {
        let Some((holds, reason, message)) = said else {
            list.retain(|condition| condition.kind != kind);
            continue;
        };
        // Before it is cut: half a secret is none that could be found.
        let message = report.secrets.redact(&message);
        let message = if report.brief {
            Cow::from(conditions::cut(&message, BRIEF_BYTES))
        } else {
            message
        };
        conditions::set(&mut list, kind, holds, &reason, &message, report.generation, report.now);
    }
    if let (Some((computed, _)), false) = (report.template.computed, report.brief) {
        computed.set_conditions(&mut list, &Templated::of(previous), report.generation, report.now);
    }
    // What stays may say what only since is known to be secret.
    for condition in &mut list {
        if let Cow::Owned(clean) = report.secrets.redact(&condition.message) {
            condition.message = clean;
        }
    }
    list
}

/// How the release is. What isn't named stays.
fn own_conditions(report: &StatusReport<'_>) -> Vec<(&'static str, Said)> {
    let reason = report.phase.reason();
    let mut list = match report.phase {
        Phase::Ready => {
            let message = match (&report.changes.gap, report.record.entries.len()) {
                (Some(gap), _) => format!("all members are ready; {gap}"),
                (None, 1) => "1 member is ready".to_owned(),
                (None, members) => format!("{members} members are ready"),
            };
            vec![
                ("Ready", said(true, reason, &message)),
                ("Reconciling", None),
                ("Stalled", None),
            ]
        }
        Phase::Waiting { message, .. } => {
            let reconciling = said(true, reason, message);
            vec![
                ("Ready", said(false, reason, message)),
                ("Reconciling", reconciling),
                ("Stalled", None),
            ]
        }
        Phase::Failed { message, .. } => {
            let reconciling = said(true, "ProgressingWithRetry", message);
            let ready = said(false, reason, message);
            vec![("Ready", ready), ("Reconciling", reconciling), ("Stalled", None)]
        }
        Phase::Stalled { message, .. } => {
            let stalled = said(true, reason, message);
            vec![
                ("Ready", said(false, reason, message)),
                ("Stalled", stalled),
                ("Reconciling", None),
            ]
        }
        Phase::Suspended => {
            let message = "nothing is changed while the custom resource is suspended";
            return vec![("Suspended", said(true, reason, message)), ("Reconciling", None)];
        }
    };
    if report.phase.is_well() {
        let held = report.changes.held.as_deref();
        list.push(("PruneHeld", held.and_then(|held| said(true, "Protected", held))));
    }
    list.push(("Drifted", drifted(report)));
    let troubles = report.record.plans.troubles();
    let troubles = (!troubles.is_empty()).then(|| shown(&troubles).join("; "));
    list.push((
        "PlanFailed",
        troubles.and_then(|message| said(true, "PlanFailed", &message)),
    ));
    let invalid = report
        .template
        .invalid
        .and_then(|why| said(true, "TemplateFailed", why));
    list.push((INVALID, invalid));
    list.push(("Suspended", None));
    list
}

/// Drift that is corrected again and again, and drift that stays.
fn drifted(report: &StatusReport<'_>) -> Said {
    let tolerated = report.record.entries.iter().filter_map(|entry| {
        let drift = entry.drift.as_ref().filter(|drift| drift.is_reported())?;
        Some(format!("{}: {}", entry.id, conditions::short_list(drift.texts())))
    });
    let tolerated = conditions::short_list(tolerated);
    let detected = (!tolerated.is_empty()).then(|| tolerated + "; it is left as it is");
    match (report.contested.as_deref(), detected) {
        (Some(contested), Some(detected)) => said(true, "Contested", &format!("{contested}; {detected}")),
        (Some(contested), None) => said(true, "Contested", contested),
        (None, Some(detected)) => said(true, "DriftDetected", &detected),
        (None, None) => None,
    }
}

/// operator-sdk's conditions, for those who wait on them; their meaning is "Helm returned", not "ready".
fn sdk_conditions(report: &StatusReport<'_>, previous: &Value) -> Vec<(&'static str, Said)> {
    let revision = report.record.revision;
    let mut list = match report.phase {
        Phase::Waiting {
            reason: Reason::Uninstalling,
            message,
        } => vec![("Deployed", said(false, "UninstallSuccessful", message))],
        Phase::Ready | Phase::Waiting { .. } if revision > 0 => {
            let notes = match &report.render {
                Some(render) => render.notes,
                None => previous.get("notes").and_then(Value::as_str),
            };
            let notes = conditions::cut(&report.secrets.redact(notes.unwrap_or_default()), NOTES_BYTES);
            let reason = if revision == 1 {
                "InstallSuccessful"
            } else {
                "UpgradeSuccessful"
            };
            vec![("Deployed", said(true, reason, &notes))]
        }
        Phase::Failed { reason, message, .. } | Phase::Stalled { reason, message, .. } => {
            let reason = match reason {
                Reason::DeleteFailed => "UninstallError",
                _ if revision == 0 => "InstallError",
                _ => "UpgradeError",
            };
            let irreconcilable = said(true, "ReconcileError", message);
            vec![
                ("ReleaseFailed", said(true, reason, message)),
                ("Irreconcilable", irreconcilable),
            ]
        }
        _ => Vec::new(),
    };
    if report.phase.is_well() {
        list.extend([("ReleaseFailed", None), ("Irreconcilable", None)]);
    }
    list
}
