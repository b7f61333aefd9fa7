//! Warnings about annotations, leftovers, and corrections that another client reverts.

use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::{RECHECK, RequeueReason};
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::annotations;
use chartwright_core::drift::tolerated::ToleratedDrift;
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::ownership::{Ownership, ownership};
use chartwright_core::members::desired::Member;
use chartwright_core::status::conditions::short_list;
use chartwright_watches::CrdPolicy;

/// Warns about annotations, leftovers and contested corrections.
pub(crate) struct Warnings<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> Warnings<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        Warnings { scope }
    }
}

impl Warnings<'_> {
    /// Warns about annotations of the custom resource that have no effect.
    pub(crate) async fn check_annotations(&self, release: &mut Release) {
        for problem in annotations::problems(&self.scope.written.annotations) {
            self.scope.warn_once(release, "AnnotationInvalid", problem).await;
        }
    }

    /// Warns about definitions of the chart's `crds/` folder that do not replace the live ones.
    pub(crate) async fn check_chart_crds(&self, release: &mut Release) {
        let watch = &self.scope.unit.watch;
        if watch.crds == CrdPolicy::CreateReplace {
            for problem in self.scope.context.chart_crds.problems(watch) {
                self.scope.warn_once(release, "CrdNotReplaced", problem).await;
            }
        }
    }

    /// Counts a correction, and warns when it has become a contest.
    pub(crate) async fn corrected(&self, release: &mut Release, member: &Member, how: &str) {
        if release.contests.corrected(&member.id, how) {
            let note = format!(
                "{}: {how}, again and again; from now on it is corrected at growing intervals",
                member.id
            );
            self.scope.warn("DriftContested", &note).await;
        }
    }

    /// Warns about drift that stays, once for each change of its fields or their managers. `known`: what the record says of it.
    pub(crate) async fn tolerated(
        &self,
        member: &Member,
        drift: Option<&ToleratedDrift>,
        known: Option<&ToleratedDrift>,
    ) {
        let Some(drift) = drift.filter(|drift| drift.is_reported() && !drift.says_as(known)) else {
            return;
        };
        self.scope
            .context
            .metrics
            .objects
            .detected_drift(&member.id.group_kind.kind);
        let note = format!("{}: {}; it is left as it is", member.id, short_list(drift.texts()));
        self.scope.warn("DriftDetected", &note).await;
    }

    /// Describes who wrote a member with our field manager if its content is not the recorded one.
    pub(crate) async fn report_other_operator(&self, release: &mut Release) -> String {
        let name = &self.scope.context.settings.operator;
        // A process that crashed before it saved the record may have written this content.
        if release.observed.was_healthy {
            let note = format!(
                "another operator of the name {name} writes the same members: run one of them, or all with --leader-elect \
                 and the same --leader-election-id, or give them different names (--operator-name)"
            );
            self.scope.warn_once(release, "AnotherOperator", note).await;
            // The other operator may also be the last to write the status, which no watch of ours shows.
            release.schedule.at(RECHECK, RequeueReason::Leftovers);
        }
        format!("written by another operator of the name {name}, or by an earlier run of this one")
    }

    /// Warns about objects of an earlier custom resource of this name that the chart does not render: they are never
    /// pruned, and have no other owner.
    pub(crate) async fn warn_leftovers(&self, release: &mut Release) {
        let leftovers: Vec<ObjectId> = {
            let members = self.scope.context.members();
            let is_left = |id: &ObjectId| {
                let live = members.get(id).filter(|live| !live.deleting);
                live.is_some_and(|live| ownership(id, live, &self.scope.owner) == Ownership::Predecessor)
                    && release.record.entry(id).is_none()
            };
            members
                .of_set(&self.scope.owner.set)
                .into_iter()
                .filter(is_left)
                .collect()
        };
        if leftovers.is_empty() {
            return;
        }
        let note = format!(
            "left of an earlier custom resource of this name, and never pruned: {}; delete what is not needed any more",
            short_list(leftovers)
        );
        self.scope.warn_once(release, "Leftover", note).await;
    }
}
