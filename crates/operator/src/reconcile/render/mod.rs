//! Renders values and chart into members. Renders run on their own threads, never on the async workers.

pub(crate) mod generated_values;
pub(crate) mod job;
pub(crate) mod lookups;
pub(crate) mod memo;
pub(crate) mod memory_budget;
pub(crate) mod patched;
pub(crate) mod pool;
pub(crate) mod prepared;
pub(crate) mod previous_lookups;
pub(crate) mod secret_values;
pub(crate) mod stored_values;

use std::ops::ControlFlow::Continue;

use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::cluster::objects::lookup::LookupAnswers;
use crate::reconcile::check::Checker;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::release::Release;
use crate::reconcile::render::job::{no_plan, prepare_plan};
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::render::secret_values::ChartText;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::values::unread_values::report_unread;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::members::desired::Member;
use chartwright_core::status::{Phase, Reason};

/// Renders the release.
pub(crate) struct Renderer<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        Renderer { scope }
    }
}

impl Renderer<'_> {
    /// Reads the values, renders the chart and checks the result. Writes nothing.
    pub(super) async fn prepare(&self, release: &mut Release) -> Flow<PreparedRelease> {
        let mut answers = LookupAnswers::new();
        let prepared = prepare_plan(
            (self.scope.context, &self.scope.client),
            self.scope.unit,
            &self.scope.written,
            release,
            &mut answers,
            no_plan(),
        )
        .await;
        // Keep the answers also after a failure: a looked-up object may be created later.
        self.scope.context.follow_lookups(&self.scope.owner.set, answers.keys());
        if prepared.is_break() {
            self.learn_recorded(release).await?;
        }
        let prepared = prepared?;
        release.render.knows_secrets = true;
        report_unread(self.scope, release).await;
        let checked = Checker::new(self.scope)
            .check_release(release, &prepared, &mut answers)
            .await;
        release.retry.cache.answers = answers;
        checked.map_continue(|()| prepared)
    }

    /// Learns the secret values of these members, so that no message quotes them.
    pub(super) fn learn_secrets<'m>(&self, release: &Release, members: impl IntoIterator<Item = &'m Member>) {
        let chart = self.scope.unit.renderer.as_ref().ok().map(|renderer| renderer.chart());
        let text = ChartText::of(chart);
        for member in members {
            secret_values::learn_object(&release.secrets, &text, &member.object);
        }
    }

    /// Reads the recorded Secrets after a start. Usually a render shows the secret values, but the error of a failed
    /// render may quote them before.
    async fn learn_recorded(&self, release: &mut Release) -> Flow {
        let snapshot = self.scope.context.discovery.snapshot();
        let secret = GroupKind::new("", "Secret");
        let Some(resource) = snapshot.preferred(&secret).filter(|_| !release.render.knows_secrets) else {
            return Continue(());
        };
        let entries = release.record.entries.iter();
        for entry in entries.filter(|entry| entry.id.group_kind == secret) {
            let found = objects::read(&self.scope.client, resource, &entry.id).await;
            if let Some((_, object)) = found.or_stop(|error| unread(&entry.id, &error))? {
                let chart = self.scope.unit.renderer.as_ref().ok().map(|renderer| renderer.chart());
                secret_values::learn_object(&release.secrets, &ChartText::of(chart), &object);
            }
        }
        release.render.knows_secrets = true;
        Continue(())
    }

    /// True if the secret values of the release are known, so that logs may be shown. Renders the release after a
    /// start, except for a deletion.
    pub(crate) async fn knows_secrets(&self, release: &mut Release) -> bool {
        release.render.knows_secrets
            || !self.scope.written.deleting && Box::pin(self.prepare(release)).await.is_continue()
    }
}

fn unread(id: &ObjectId, error: &Error) -> Phase {
    let message = format!(
        "the chart can't be rendered; the error is shown once it is known which values are secret: {id}: {error}"
    );
    Phase::failed(Reason::RenderFailed, message)
}
