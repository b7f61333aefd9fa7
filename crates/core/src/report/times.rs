//! When a custom resource and its conditions changed.

use jiff::Timestamp;
use serde_json::Value;

use super::live::{list, text};
use crate::status::conditions::Condition;

/// The field managers of the operator are this one, and others that begin with it and a hyphen.
const OWN_MANAGER: &str = "chartwright";

/// When a condition got its status. `None` if that is not known.
pub(super) fn since(condition: &Condition) -> Option<String> {
    let time = condition.last_transition_time;
    (time > Timestamp::UNIX_EPOCH).then(|| time.to_string())
}

/// When a client other than the operator changed the custom resource last, apart from its status. `None` if that is not known.
pub(super) fn changed(resource: &Value) -> Option<String> {
    let is_other = |entry: &&Value| {
        let manager = text(entry, "/manager");
        let is_own = manager == OWN_MANAGER || manager.starts_with(&format!("{OWN_MANAGER}-"));
        !is_own && text(entry, "/subresource") != "status"
    };
    let entries = list(resource, "/metadata/managedFields").filter(is_other);
    let times = entries.filter_map(|entry| text(entry, "/time").parse::<Timestamp>().ok());
    times.max().map(|time| time.to_string())
}
