//! What people ask for in annotations, what is told once, who fights over a member, and what becomes of Jobs that ended.

use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::reconcile::RECHECK;
use crate::reconcile::Reconcile;
use crate::reconcile::check::list;
use crate::reconcile::release::Release;
use crate::telemetry::metrics::Operation;
use chartwright_core::annotations;
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::{Ownership, ownership};
use chartwright_core::index::members::Live;
use chartwright_core::members::desired::Member;
use chartwright_core::record::requests::Request;

impl Reconcile<'_> {
    /// The text of a request that is not carried out yet.
    pub(crate) fn requested(&self, release: &Release, request: Request) -> Option<String> {
        let handled = &release.record.handled;
        handled.pending(request, &self.written.annotations).map(str::to_owned)
    }

    /// Tells what in the annotations of the custom resource has no effect.
    pub(crate) async fn check_annotations(&self, release: &mut Release) {
        for problem in annotations::problems(&self.written.annotations) {
            self.warn_once(release, "AnnotationInvalid", problem).await;
        }
    }

    /// Jobs that were complete when they were last seen may go.
    pub(crate) fn note_finished_jobs(&self, release: &mut Release) {
        let mut members = self.context.members();
        let gone = members.take_finished(&self.owner.set);
        for entry in &mut release.record.entries {
            if entry.id.group_kind.kind == "Job" && !entry.finished {
                let is_gone = gone.get(&entry.id).is_some_and(|uid| *uid == entry.uid);
                entry.finished = is_gone || members.is_finished(&entry.id, &entry.uid);
            }
        }
    }

    /// Lets the TTL controller remove the Jobs of runs that have ended, as their hooks ask for. To be called when that is
    /// written down: what is gone tells nothing any more. A crash before the next status does it once more, to no effect.
    /// False if one is to be tried again.
    pub(crate) async fn set_ttls(&self, release: &mut Release) -> bool {
        if annotations::is_suspended(&self.written.annotations) {
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
        let snapshot = self.context.discovery.snapshot();
        let Some(resource) = snapshot.preferred(&id.group_kind) else {
            return Ok(());
        };
        // What is recorded of a run is no proof that its object is ours.
        let watched = self.context.members().get(id).filter(|live| live.uid == uid).cloned();
        let live = match watched {
            Some(live) => Some(live),
            None => objects::read_live(&self.context.client, resource, id).await?,
        };
        let is_own = |live: &Live| live.uid == uid && ownership(id, live, &self.owner) == Ownership::Ours;
        if !live.is_some_and(|live| is_own(&live)) {
            return Ok(());
        }
        if objects::set_ttl(&self.context.client, resource, id, uid, ttl).await? {
            self.context.metrics.wrote(&id.group_kind.kind, Operation::Apply);
        }
        Ok(())
    }

    /// Takes note of a correction, and tells when it has become a contest.
    pub(crate) async fn corrected(&self, release: &mut Release, member: &Member, how: &str) {
        if release.contests.corrected(&member.id, how) {
            let note = format!(
                "{}: {how}, again and again; from now on it is put right at growing intervals",
                member.id
            );
            self.warn("DriftContested", &note).await;
        }
    }

    /// A member has a content of our field manager that is not the one recorded. Who wrote it, in words.
    pub(crate) async fn report_other_operator(&self, release: &mut Release) -> String {
        let name = &self.context.operator;
        // A content from before this process may be of one that died before it could note it.
        if release.was_seen_whole {
            let note = format!(
                "another operator of the name {name} writes the same members: run one of them, or all with --leader-elect \
                 and the same --leader-election-id, or give them different names (--operator-name)"
            );
            self.warn_once(release, "AnotherOperator", note).await;
            // It may be the last to write the status, too, and no watch tells of that.
            release.contests.wait_for(RECHECK);
        }
        format!("written by another operator of the name {name}, or by an earlier run of this one")
    }

    /// Tells of what an earlier custom resource of this name left behind and the chart doesn't render: it is never
    /// pruned, and nobody else looks after it.
    pub(crate) async fn warn_leftovers(&self, release: &mut Release) {
        let leftovers: Vec<ObjectId> = {
            let members = self.context.members();
            let is_left = |id: &ObjectId| {
                let live = members.get(id).filter(|live| !live.deleting);
                live.is_some_and(|live| ownership(id, live, &self.owner) == Ownership::Predecessor)
                    && release.record.entry(id).is_none()
            };
            members.of_set(&self.owner.set).into_iter().filter(is_left).collect()
        };
        if leftovers.is_empty() {
            return;
        }
        let note = format!(
            "left of an earlier custom resource of this name, and never pruned: {}; delete what nobody needs any more",
            list(leftovers)
        );
        self.warn_once(release, "Leftover", note).await;
    }

    /// A warning Event, once for each text while the process lives, and a bounded number for each state of the custom
    /// resource.
    pub(crate) async fn warn_once(&self, release: &mut Release, reason: &str, note: String) {
        if release.announced.is_news(&note) {
            self.warn(reason, &note).await;
        }
    }

    /// A warning Event, and a line in the log.
    pub(crate) async fn warn(&self, reason: &str, note: &str) {
        tracing::warn!(kind = %self.unit.group_kind, resource = %self.written.key, reason, "{note}");
        let about = self.written.reference(&self.unit.resource);
        self.context.events.warning(&about, reason, self.action(), note).await;
        self.context.metrics.wrote("Event", Operation::Event);
    }

    /// The same of what went well.
    pub(crate) async fn inform(&self, reason: &str, note: &str) {
        tracing::info!(kind = %self.unit.group_kind, resource = %self.written.key, reason, "{note}");
        let about = self.written.reference(&self.unit.resource);
        self.context.events.normal(&about, reason, self.action(), note).await;
        self.context.metrics.wrote("Event", Operation::Event);
    }

    fn action(&self) -> &'static str {
        match self.written.deleting {
            true => "Delete",
            false => "Reconcile",
        }
    }
}
