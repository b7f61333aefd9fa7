//! TTLs of finished Jobs among the members. They are set after the status has recorded the Job as finished.

use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::reconcile::release::Release;
use crate::reconcile::scope::ReleaseScope;
use crate::telemetry::metrics::WriteOperation;
use chartwright_core::annotations;
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::{Ownership, ownership};
use chartwright_core::index::live::Live;

/// Remembers finished Jobs, and sets their TTL once the status has them.
pub(crate) struct JobTtls<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> JobTtls<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        JobTtls { scope }
    }
}

impl JobTtls<'_> {
    /// Jobs that were complete when they were last seen may go.
    pub(crate) fn note_finished_jobs(&self, release: &mut Release) {
        let mut members = self.scope.context.members();
        let gone = members.take_finished(&self.scope.owner.set);
        for entry in &mut release.record.entries {
            if entry.id.group_kind.kind == "Job" && !entry.finished {
                let is_gone = gone.get(&entry.id).is_some_and(|uid| *uid == entry.uid);
                entry.finished = is_gone || members.is_finished(&entry.id, &entry.uid);
            }
        }
    }

    /// Sets the TTLs that hooks request on Jobs whose runs have ended. Call it after the status has recorded these
    /// runs, because a deleted Job cannot show its result. After a crash it is set once more, without effect. Returns
    /// false if it must be retried.
    pub(crate) async fn set_ttls(&self, release: &mut Release) -> bool {
        if annotations::is_suspended(&self.scope.written.annotations) {
            return true;
        }
        let record = &mut release.record;
        let runs = record.hooks.runs.iter_mut().chain(&mut record.plans.work.steps.runs);
        let mut all = true;
        for run in runs {
            let Some(ttl) = run.ttl_due() else { continue };
            match self.set_ttl(&run.object, &run.uid, ttl).await {
                Err(error) if error.is_transient() || matches!(error, Error::Conflict(_)) => {
                    tracing::debug!(object = %run.object, %error, "its TTL can't be set yet");
                    all = false;
                    continue;
                }
                Err(error) => tracing::warn!(object = %run.object, %error, "its TTL can't be set: it stays"),
                Ok(()) => {}
            }
            run.ttl = None;
        }
        all
    }

    async fn set_ttl(&self, id: &ObjectId, uid: &str, ttl: u32) -> Result<(), Error> {
        let snapshot = self.scope.context.discovery.snapshot();
        let Some(resource) = snapshot.preferred(&id.group_kind) else {
            return Ok(());
        };
        // What is recorded of a run is no proof that its object is ours.
        let watched = self
            .scope
            .context
            .members()
            .get(id)
            .filter(|live| live.uid == uid)
            .cloned();
        let live = match watched {
            Some(live) => Some(live),
            None => objects::read_live(&self.scope.client, resource, id).await?,
        };
        let is_own = |live: &Live| live.uid == uid && ownership(id, live, &self.scope.owner) == Ownership::Ours;
        if !live.is_some_and(|live| is_own(&live)) {
            return Ok(());
        }
        if objects::set_ttl(&self.scope.client, resource, id, uid, ttl).await? {
            self.scope
                .context
                .metrics
                .objects
                .wrote(&id.group_kind.kind, WriteOperation::Apply);
        }
        Ok(())
    }
}
