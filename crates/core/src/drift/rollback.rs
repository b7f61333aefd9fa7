//! Finds what `kubectl rollout undo` brought back: fields of a former pod template beside those of the render.
//!
//! The command replaces `spec.template` by that of a former revision. Server-side apply corrects the rendered fields and leaves others,
//! such as a sidecar that the chart no longer has, to kubectl.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Value, json};

use crate::drift::DriftedField;
use crate::drift::managed_fields::{applied, fields, is_leaf, move_fields, owned_paths, remove_set, unite};

/// The field manager of `kubectl rollout undo`. Other commands have managers of their own, such as `kubectl-edit`, `kubectl-set` and, for
/// `rollout restart`, `kubectl-rollout` (`FieldManager` in k8s.io/kubectl/pkg/cmd).
const UNDO: &str = "kubectl";

/// Restarts pods without a change. A former revision may have it.
const RESTARTED_AT: &str = "f:kubectl.kubernetes.io/restartedAt";

/// Fields that `kubectl rollout undo` brought back, and who owns them once `manager` takes them.
#[derive(Clone, Debug, PartialEq)]
pub struct UndoneRollout {
    /// The entries that make our field manager the owner of the fields, so that the next apply removes those that are not rendered.
    pub managed_fields: Vec<ManagedFieldsEntry>,
    pub fields: Vec<DriftedField>,
}

/// Returns what of the pod template `kubectl rollout undo` brought back. `None` if there is nothing, or `manager` never applied the object.
pub fn undone_rollout(entries: &[ManagedFieldsEntry], manager: &str) -> Option<UndoneRollout> {
    let own = applied(entries, manager)?;
    let undone = |entry: &ManagedFieldsEntry| {
        (entry.api_version == own.api_version)
            .then(|| undone_by(entry))
            .flatten()
    };
    let mut set = json!({});
    for more in entries.iter().filter_map(undone) {
        unite(&mut set, &more);
    }
    if is_leaf(&set) {
        return None;
    }
    let managed_fields = move_fields(entries, own, &set, |entry| undone(entry).is_some());
    let mut owned = Vec::new();
    owned_paths(&set, &[(UNDO, &set)], "", &mut owned);
    let fields = owned.into_iter().map(|(field, by)| DriftedField {
        field,
        by: Some(by.to_owned()),
        at: None,
    });
    Some(UndoneRollout {
        managed_fields,
        fields: fields.collect(),
    })
}

/// The fields of the pod template in an entry of `kubectl rollout undo`.
fn undone_by(entry: &ManagedFieldsEntry) -> Option<Value> {
    let is_undo = entry.manager.as_deref() == Some(UNDO)
        && entry.operation.as_deref() == Some("Update")
        && entry.subresource.as_deref().unwrap_or_default().is_empty();
    let template = fields(entry).filter(|_| is_undo)?.pointer("/f:spec/f:template")?;
    let mut set = json!({"f:spec": {"f:template": template}});
    let restarted = json!({"f:spec": {"f:template": {"f:metadata": {"f:annotations": {(RESTARTED_AT): {}}}}}});
    remove_set(&mut set, &restarted);
    (!is_leaf(&set)).then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Managed, managed_fields, table};

    #[derive(serde::Deserialize)]
    struct Case {
        entries: Vec<Managed>,
        /// The fields, as an Event names them.
        fields: Vec<String>,
        #[serde(default)]
        moved: Vec<Managed>,
    }

    #[test]
    fn what_an_undo_brought_back_moves_to_our_field_manager() {
        for case in table::<Case>("fields", "undone") {
            let found = undone_rollout(&managed_fields(case.entries), "chartwright");
            let fields: Vec<String> = found
                .iter()
                .flat_map(|found| &found.fields)
                .map(DriftedField::to_string)
                .collect();
            assert_eq!(fields, case.fields);
            let moved = found.map(|found| found.managed_fields).unwrap_or_default();
            assert_eq!(moved, managed_fields(case.moved), "{fields:?}");
        }
    }
}
