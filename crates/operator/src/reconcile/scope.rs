//! What the stages of one reconcile share: the custom resource as our last write left it, and facts that an earlier stage
//! found out. It decides nothing.

use std::sync::OnceLock;

use api_objects::CustomObject;
use kube::Client;
use serde_json::Value;

use crate::cluster::connection::impersonation::{ServiceAccount, as_service_account};
use crate::cluster::error::Error;
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::release::Release;
use crate::reconcile::release::former_release::FormerRelease;
use crate::reconcile::unit::Unit;
use crate::telemetry::metrics::WriteOperation;
use crate::telemetry::traces;
use chartwright_core::identity::ownership::Owner;
use chartwright_core::record::requests::Request;
use chartwright_core::status::{Phase, Reason, ReleaseChart};

/// The custom resource of a reconcile, and what its stages found out about it.
pub(crate) struct ReleaseScope<'a> {
    pub(crate) context: &'a Context,
    /// For everything that the release reads and writes: with the rights of its ServiceAccount, if it has one. The custom resource, its
    /// status and the operator's own objects are the operator's.
    pub(crate) client: Client,
    /// The ServiceAccount of `client`. `None`: the operator itself.
    pub(crate) account: Option<ServiceAccount>,
    pub(crate) unit: &'a Unit,
    /// The custom resource as our last write left it.
    pub(crate) written: CustomResource,
    /// Its status, parsed at first use.
    status_of_written: OnceLock<Value>,
    /// The owner that its members name.
    pub(crate) owner: Owner,
    /// The generation that this reconcile is about. That of `written` may be newer.
    pub(crate) generation: i64,
    pub(crate) claim: ClaimState,
    pub(crate) takeover: TakeoverState,
    /// The release keeps its former chart until the rollout of the new one reaches it.
    pub(crate) waits_for_rollout: bool,
    /// A write did not find the custom resource.
    pub(crate) missing: bool,
    /// The phase that the status shows while a plan runs.
    pub(crate) shown: Option<Phase>,
    /// The span of this reconcile in the traces.
    pub(crate) span: tracing::Span,
}

/// The claim of the custom resource.
pub(crate) struct ClaimState {
    /// There was none when the reconcile began, so that no member was ever applied for the custom resource.
    pub(crate) is_first: bool,
    /// The release needs the finalizer.
    pub(crate) holds_finalizer: bool,
}

/// What is known of a release's former owner.
#[derive(Default)]
pub(crate) struct TakeoverState {
    /// The release of Helm or helm-operator that is being taken over.
    pub(crate) former_release: Option<FormerRelease>,
    /// Why the release Secrets of Helm could not be listed.
    pub(crate) unlisted: Option<Error>,
}

impl TakeoverState {
    /// True if a release is being taken over.
    pub(crate) fn is_under_way(&self) -> bool {
        self.former_release.is_some()
    }
}

impl<'a> ReleaseScope<'a> {
    pub(crate) fn new(context: &'a Context, unit: &'a Unit, resource: &CustomResource) -> Self {
        ReleaseScope {
            context,
            client: context.client.clone(),
            account: None,
            unit,
            written: resource.clone(),
            status_of_written: OnceLock::new(),
            owner: resource.owner(&unit.group_kind),
            generation: resource.generation,
            claim: ClaimState {
                is_first: !resource.is_claimed(),
                holds_finalizer: true,
            },
            takeover: TakeoverState::default(),
            waits_for_rollout: false,
            missing: false,
            shown: None,
            span: traces::reconcile_span(
                &unit.group_kind,
                &resource.key.namespace,
                &resource.key.name,
                resource.generation,
            ),
        }
    }
}

impl ReleaseScope<'_> {
    /// From now on, the release reads and writes with the rights of an account; `None`: with those of the operator.
    ///
    /// # Errors
    /// The name cannot be part of a request.
    pub(crate) fn act_as(&mut self, account: Option<ServiceAccount>) -> Result<(), Error> {
        self.client = match &account {
            Some(account) => as_service_account(&self.context.client, account)?,
            None => self.context.client.clone(),
        };
        self.account = account;
        Ok(())
    }

    /// Takes in what a write of ours answered.
    pub(crate) fn set_written(&mut self, object: CustomObject) {
        self.written = self.unit.take_in(object);
        self.status_of_written = OnceLock::new();
    }

    /// What the status of the custom resource says.
    pub(crate) fn written_status(&self) -> &Value {
        self.status_of_written.get_or_init(|| self.written.status())
    }

    /// The chart that the operator has.
    pub(crate) fn chart(&self) -> Option<ReleaseChart> {
        let metadata = &self.unit.renderer.as_ref().ok()?.chart().metadata;
        Some(ReleaseChart {
            name: metadata.name.clone(),
            version: metadata.version.clone(),
            app_version: metadata.app_version.clone(),
        })
    }

    /// True if the custom resource says that there are kept results.
    pub(crate) fn has_generated_values(&self) -> bool {
        self.written.annotations.contains_key(&self.written.kept_annotation())
    }

    /// The text of a request that is not carried out yet.
    pub(crate) fn requested(&self, release: &Release, request: Request) -> Option<String> {
        let handled = &release.record.handled;
        handled.pending(request, &self.written.annotations).map(str::to_owned)
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
        self.context.metrics.objects.wrote("Event", WriteOperation::Event);
    }

    /// The same of what went well.
    pub(crate) async fn inform(&self, reason: &str, note: &str) {
        tracing::info!(kind = %self.unit.group_kind, resource = %self.written.key, reason, "{note}");
        let about = self.written.reference(&self.unit.resource);
        self.context.events.normal(&about, reason, self.action(), note).await;
        self.context.metrics.objects.wrote("Event", WriteOperation::Event);
    }

    fn action(&self) -> &'static str {
        if self.written.deleting { "Delete" } else { "Reconcile" }
    }
}

pub(crate) const CHANGED: &str = "the custom resource has changed: a new reconcile begins";

/// The phase of a release whose custom resource changed since it was rendered.
pub(crate) fn interrupted() -> Phase {
    Phase::waiting(Reason::Progressing, CHANGED)
}
