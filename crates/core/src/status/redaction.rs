//! Takes secret values out of a status.

use std::borrow::Cow;

use serde_json::Value;

use crate::redact::Secrets;

/// Texts that may contain values, by path. Programs alone read the other texts: the inventory must name objects exactly, and a Secret
/// may contain the time at which a condition changed. Conditions are redacted before they are cut.
pub(super) const REDACTED: [&str; 12] = [
    "notes",
    "planRun.refused",
    "release.lookups",
    "release.capabilities",
    "release.fallback.why",
    "hooks.runs[].message",
    "planRun.steps.runs[].message",
    "plans[].message",
    "plans[].invalid",
    "elected[].message",
    "history[].failed",
    "remediation[].message",
];

/// Redacts the text at a path of [`REDACTED`].
pub(super) fn redact_path(value: &mut Value, path: &str, secrets: &Secrets) {
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some(found) = value.get_mut(step.trim_end_matches("[]")) else {
        return;
    };
    if rest.is_empty() {
        redact(found, secrets);
    } else if step.ends_with("[]") {
        let items = found.as_array_mut().into_iter().flatten();
        items.for_each(|item| redact_path(item, rest, secrets));
    } else {
        redact_path(found, rest, secrets);
    }
}

/// Takes secret values out of every text. What only programs read is spared: the inventory must name objects as they
/// are named, and a Secret may well hold the time at which a condition changed.
pub(super) fn redact(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = secrets.redact(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, secrets)),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, field)| redact(field, secrets)),
        _ => {}
    }
}
