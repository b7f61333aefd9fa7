//! The last lines of the logs of hooks: read of what the release's own Job or Pod has, and cleaned of secrets.

use crate::cluster::objects;
use crate::cluster::workloads::pods::{last_lines, tail};
use crate::reconcile::release::Release;
use crate::reconcile::render::Renderer;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::hooks::{Hook, HookRun};
use chartwright_core::identity::ownership::{Ownership, ownership};
use chartwright_core::members::desired::Member;

/// Reads the logs of a hook's pods.
pub(crate) struct HookLogs<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> HookLogs<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        HookLogs { scope }
    }
}

impl HookLogs<'_> {
    /// What the pods of a hook wrote last, as a part of a sentence, without secrets; empty if there is nothing to be had.
    /// Only of the object that this run created: one of the same name may be another owner's.
    pub(crate) async fn last_lines(&self, release: &mut Release, hook: &Hook, run: &HookRun) -> String {
        if !hook.is_awaited() || run.uid.is_empty() || !Renderer::new(self.scope).knows_secrets(release).await {
            return String::new();
        }
        let Member { id, version, .. } = &hook.member;
        let snapshot = self.scope.context.discovery.snapshot();
        let Some(resource) = snapshot.resource(&id.group_kind, version) else {
            return String::new();
        };
        let client = &self.scope.context.client;
        let lines = match objects::read_live(client, resource, id).await {
            Ok(Some(live)) if live.uid == run.uid && ownership(id, &live, &self.scope.owner) == Ownership::Ours => {
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
