//! What a step came to.

use serde_json::Value;

use chartwright_core::identity::ObjectId;
use chartwright_core::members::rollout;
use chartwright_core::status::Phase;
use chartwright_operator::reconcile::PreparedRelease;

/// What the reconciles of a step did.
pub struct Performed {
    pub prepared: PreparedRelease,
    /// What became of each member, in the order of the render.
    pub members: Vec<(ObjectId, MemberChange)>,
    /// Deleted, since the chart no longer renders them.
    pub pruned: Vec<ObjectId>,
    /// Not deleted, though the chart no longer renders them.
    pub kept: Vec<ObjectId>,
    /// Workloads whose running pods are replaced.
    pub restarts: Vec<ObjectId>,
    /// The hooks that ran, in their order, by their events.
    pub hooks: Vec<(String, Vec<ObjectId>)>,
    /// Why not all of it could be done.
    pub stopped: Option<Stopped>,
}

/// What became of a member.
pub enum MemberChange {
    Created,
    /// As it was before, and as it is rendered now.
    Changed(Value, Value),
    /// Deleted and created again.
    Recreated,
    Unchanged,
    Refused,
}

/// Why a release stops, before anything is done or in the middle of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub reason: String,
    pub message: String,
}

/// The result of a step.
pub type DoneStep = Result<Performed, Stopped>;

/// The reason if the API server does not accept the custom resource.
const REFUSED: &str = "CustomResourceInvalid";

impl Stopped {
    /// The API server does not accept the custom resource.
    pub fn by_api_server(message: String) -> Self {
        Stopped {
            reason: REFUSED.to_owned(),
            message,
        }
    }

    /// True if the API server does not accept the custom resource: it stays as it was.
    pub fn is_of_api_server(&self) -> bool {
        self.reason == REFUSED
    }
}

impl From<Phase> for Stopped {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Stalled { reason, message, .. }
            | Phase::Failed { reason, message, .. }
            | Phase::Waiting { reason, message } => Stopped {
                reason: reason.as_str().to_owned(),
                message,
            },
            Phase::Suspended | Phase::Ready => Stopped {
                reason: "Suspended".to_owned(),
                message: "the custom resource is suspended: nothing of the release is changed".to_owned(),
            },
        }
    }
}

/// The workloads whose running pods their controllers replace.
pub fn restarts(members: &[(ObjectId, MemberChange)]) -> Vec<ObjectId> {
    let restarts = members.iter().filter(|(id, change)| match change {
        MemberChange::Changed(before, after) => rollout::restarts(&id.group_kind, before, after),
        MemberChange::Recreated => rollout::has_pods(&id.group_kind),
        _ => false,
    });
    restarts.map(|(id, _)| id.clone()).collect()
}
