//! What the next reconcile of a release would change: from objects before and after to the fields that change.
//!
//! - [`compare`]: one object, from its live state and what a dry run makes of it
//! - [`ReleaseDiff`]: everything that is announced about a release
//!
//! Only the fields that our field manager owns, before or after, are compared. So the defaults of the API server, the fields of other
//! managers and the status are no part of a difference.

mod mask;
mod owned;
mod report;
mod text;

use serde_json::Value;

use crate::identity::ObjectId;
use crate::members::rollout;
use crate::redact::Secrets;

pub use report::{
    ChangeOperation, ChartChange, DiffVerdict, HookRuns, ObjectChange, Refusal, ReleaseDiff, Summary, summarize,
};
pub use text::MAX_LINES;

/// One object before and after.
#[derive(Clone, Copy, Debug)]
pub struct ComparedObject<'a> {
    pub id: &'a ObjectId,
    /// `None`: the object does not exist.
    pub before: Option<&'a Value>,
    /// `None`: the object is deleted.
    pub after: Option<&'a Value>,
    /// It is deleted and created again in between.
    pub is_recreated: bool,
    /// Our field manager.
    pub manager: &'a str,
}

/// What becomes of an object. `None`: it is written with no difference, or not at all.
pub fn compare(compared: &ComparedObject<'_>, secrets: &Secrets) -> Option<ObjectChange> {
    let ComparedObject { id, before, after, .. } = *compared;
    let operation = match (before, after) {
        (None, None) => return None,
        (None, Some(_)) => ChangeOperation::Created,
        (Some(_), None) => ChangeOperation::Pruned,
        (Some(_), Some(_)) if compared.is_recreated => ChangeOperation::Recreated,
        (Some(before), Some(after)) if content(before) == content(after) => return None,
        (Some(before), Some(after)) if owned::is_released(before, after) => ChangeOperation::Released,
        (Some(_), Some(_)) => ChangeOperation::Changed,
    };
    let fields = owned::fields(before, after, compared.manager);
    let (before_fields, after_fields) = mask::masked(
        &id.group_kind,
        before.map(|object| owned::project(object, &fields)),
        after.map(|object| owned::project(object, &fields)),
        secrets,
    );
    let restarts = match (operation, before, after) {
        (ChangeOperation::Changed, Some(before), Some(after)) => rollout::restarts(&id.group_kind, before, after),
        (ChangeOperation::Recreated, ..) => rollout::has_pods(&id.group_kind),
        _ => false,
    };
    Some(ObjectChange {
        object: id.clone(),
        operation,
        diff: text::unified(before_fields.as_ref(), after_fields.as_ref(), secrets),
        restarts,
        is_rendered_only: false,
    })
}

/// An object without the metadata that every write changes.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "managedFields",
            "resourceVersion",
            "generation",
            "uid",
            "creationTimestamp",
            "selfLink",
        ] {
            metadata.remove(field);
        }
    }
    object
}

#[cfg(test)]
mod tests;
