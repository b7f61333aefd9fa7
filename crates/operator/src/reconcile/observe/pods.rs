//! Reads the pods of workloads that are not ready, at growing intervals. Pods are not watched: there are many of them,
//! and the operator may lack the right.

use std::collections::HashMap;
use std::time::Instant;

use crate::cluster::error::Error;
use crate::cluster::workloads::warnings::creation_failure;
use crate::reconcile::release::Release;
use crate::reconcile::release::pod_problems::PodProblems;
use crate::reconcile::release::schedule::RequeueReason;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::{Ownership, ownership};

/// Reads the pods of workloads that are not ready, if a read is due.
pub(crate) async fn diagnose_pods(scope: &ReleaseScope<'_>, release: &mut Release, ids: &[ObjectId]) {
    let mut problems = std::mem::take(&mut release.observed.pods);
    diagnose(scope, &mut problems, ids).await;
    release.observed.pods = problems;
}

/// The same for the object of a hook that runs. Returns its problem, if one is known.
pub(crate) async fn diagnose_hook(scope: &ReleaseScope<'_>, release: &mut Release, id: &ObjectId) -> Option<String> {
    let mut problems = std::mem::take(&mut release.observed.hook_pods);
    diagnose(scope, &mut problems, std::slice::from_ref(id)).await;
    if let Some(wait) = problems.next_look() {
        release.schedule.at(wait, RequeueReason::HookStep);
    }
    let problem = problems.of(id).map(str::to_owned);
    release.observed.hook_pods = problems;
    problem
}

async fn diagnose(scope: &ReleaseScope<'_>, problems: &mut PodProblems, ids: &[ObjectId]) {
    let troubled: HashMap<ObjectId, (String, Box<str>)> = {
        let members = scope.context.members();
        // The status may name an object of another owner.
        let own = |id: &ObjectId| {
            let live = members.get(id)?;
            let is_own = ownership(id, live, &scope.owner) == Ownership::Ours;
            Some((live.uid.clone(), live.state.pods.clone().filter(|_| is_own)?))
        };
        ids.iter().filter_map(|id| Some((id.clone(), own(id)?))).collect()
    };
    let order: Vec<ObjectId> = ids.iter().filter(|id| troubled.contains_key(*id)).cloned().collect();
    for id in problems.due(&order, Instant::now()) {
        let Some((uid, selector)) = troubled.get(&id) else {
            continue;
        };
        // The workload's own status already reports that it is not ready, and the rights to read pods and Events are optional.
        let text = match explain(scope, &id, uid, selector).await {
            Ok(why) => why,
            Err(error) => {
                tracing::debug!(member = %id, %error, "the pods or Events of the member cannot be read");
                None
            }
        };
        problems.record_problem(&id, text, Instant::now());
    }
}

/// Why a workload is not ready: by its pods, or by the Events of the controller that cannot create them.
async fn explain(scope: &ReleaseScope<'_>, id: &ObjectId, uid: &str, selector: &str) -> Result<Option<String>, Error> {
    let client = &scope.context.client;
    if !selector.is_empty()
        && let Some(why) = scope.context.pods.explain(client, id, uid, selector).await?
    {
        return Ok(Some(why));
    }
    creation_failure(client, id, uid).await
}
