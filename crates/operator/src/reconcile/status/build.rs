//! Builds the status from the state of the release.

use serde_json::Value;

use crate::reconcile::record::RecordStore;
use crate::reconcile::release::Release;
use crate::reconcile::release::saved_record::StatusRefusal;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::status::conclusion::{Conclusion, NextStatus};
use chartwright_core::record::history::Revision;
use chartwright_core::status::{self, Phase, RecordStorage, StatusReport, TemplateOutcome};

/// Builds the status of the custom resource from the state of the release.
pub(crate) struct StatusBuilder<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> StatusBuilder<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        StatusBuilder { scope }
    }
}

impl StatusBuilder<'_> {
    /// Builds the complete status.
    pub(crate) fn previous<'r>(&'r self, release: &'r Release) -> &'r Value {
        release
            .announced
            .status
            .as_ref()
            .unwrap_or_else(|| self.scope.written_status())
    }

    pub(crate) fn status(&self, release: &Release, conclusion: &Conclusion) -> NextStatus {
        let record = &release.record;
        let earlier = record
            .fallback
            .as_ref()
            .and_then(|fallback| record.history.get(fallback.to?));
        let chart = if self.scope.waits_for_rollout {
            status::chart_of(self.previous(release))
        } else {
            earlier.map(Revision::chart).or_else(|| self.scope.chart())
        };
        let template = release.observed.template.as_deref();
        let store = RecordStore::new(self.scope);
        let report = StatusReport {
            generation: self.scope.generation,
            release_name: &self.scope.written.key.name,
            phase: &conclusion.phase,
            changes: &conclusion.changes,
            chart,
            record: &release.record,
            storage: RecordStorage {
                seal: store.record_seal(release),
                in_secret: release.stored.saved.exists,
                unread: release.stored.unread,
            },
            brief: release.retry.refused_status > StatusRefusal::Nothing,
            render: conclusion.prepared.as_ref().map(|prepared| status::Render {
                namespace: &prepared.identity.namespace,
                notes: prepared.notes.as_deref(),
            }),
            template: TemplateOutcome {
                computed: template.and_then(|template| template.computed_status()),
                invalid: template.and_then(|template| template.invalid.as_deref()),
            },
            contested: release.contests.message(),
            failures: match conclusion.phase {
                Phase::Failed { .. } | Phase::Waiting { .. } => release.retry.backoff.failures,
                Phase::Ready | Phase::Stalled { .. } | Phase::Suspended => 0,
            },
            secrets: &release.secrets,
            now: jiff::Timestamp::now(),
        };
        let previous = self.previous(release);
        let status = status::status(&report, previous);
        NextStatus {
            is_news: !status::says_the_same(&status, previous),
            status,
        }
    }
}
