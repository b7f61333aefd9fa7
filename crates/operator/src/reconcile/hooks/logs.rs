//! The last lines of the logs of hooks: read of what the release's own Job or Pod has, and cleaned of secrets.

use crate::cluster::objects;
use crate::cluster::workloads::pods::{last_lines, tail};
use crate::reconcile::Reconcile;
use crate::reconcile::release::Release;
use chartwright_core::hooks::{Hook, HookRun};
use chartwright_core::identity::ownership::{Ownership, ownership};
use chartwright_core::members::desired::Member;

impl Reconcile<'_> {
    /// True if the release's secret values are known, without which no log is shown. After a start that takes a render,
    /// which a deletion never makes.
    pub(crate) async fn knows_secrets(&self, release: &mut Release) -> bool {
        release.knows_secrets || !self.written.deleting && Box::pin(self.prepare(release)).await.is_ok()
    }

    /// What the pods of a hook wrote last, as a part of a sentence, without secrets; empty if there is nothing to be had.
    /// Only of the object that this run created: one of the same name may be another owner's.
    pub(crate) async fn last_lines(&self, release: &mut Release, hook: &Hook, run: &HookRun) -> String {
        if !hook.is_awaited() || run.uid.is_empty() || !self.knows_secrets(release).await {
            return String::new();
        }
        let Member { id, version, .. } = &hook.member;
        let snapshot = self.context.discovery.snapshot();
        let Some(resource) = snapshot.resource(&id.group_kind, version) else {
            return String::new();
        };
        let client = &self.context.client;
        let lines = match objects::read_live(client, resource, id).await {
            Ok(Some(live)) if live.uid == run.uid && ownership(id, &live, &self.owner) == Ownership::Ours => {
                last_lines(client, id, &live.uid).await
            }
            Ok(_) => return String::new(),
            Err(error) => Err(error),
        };
        // Before they are cut: half of a secret would not be recognised.
        let lines = lines.map(|lines| tail(&release.secrets.redact(&lines)).to_owned());
        match lines {
            Ok(lines) if lines.is_empty() => String::new(),
            Ok(lines) => format!("; its log ends with:\n{lines}"),
            Err(error) => {
                tracing::debug!(object = %hook.member.id, %error, "its log can't be read");
                String::new()
            }
        }
    }
}
