//! Reads the pods of workloads that are not ready, at growing intervals. Pods are not watched: there are many of them,
//! and the operator may lack the right.

use std::collections::HashMap;
use std::time::Instant;

use crate::reconcile::release::Release;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::{Ownership, ownership};

/// Reads the pods of workloads that are not ready, if a read is due.
pub(crate) async fn diagnose_pods(scope: &ReleaseScope<'_>, release: &mut Release, ids: &[ObjectId]) {
    let troubled: HashMap<ObjectId, (String, Box<str>)> = {
        let members = scope.context.members();
        // The status may name an object of another owner.
        let own = |id: &ObjectId| {
            let live = members.get(id)?;
            let is_own = ownership(id, live, &scope.owner) == Ownership::Ours;
            Some((live.uid.clone(), live.pods.clone().filter(|_| is_own)?))
        };
        ids.iter().filter_map(|id| Some((id.clone(), own(id)?))).collect()
    };
    let order: Vec<ObjectId> = ids.iter().filter(|id| troubled.contains_key(*id)).cloned().collect();
    for id in release.observed.pods.due(&order, Instant::now()) {
        let Some((uid, selector)) = troubled.get(&id) else {
            continue;
        };
        let pods = &scope.context.pods;
        let text = match pods.explain(&scope.context.client, &id, uid, selector).await {
            Ok(why) => why,
            // The workload's own status already reports that it is not ready, and the right to read pods is optional.
            Err(error) => {
                tracing::debug!(member = %id, %error, "the pods of the member cannot be read");
                None
            }
        };
        release.observed.pods.record_problem(&id, text, Instant::now());
    }
}
