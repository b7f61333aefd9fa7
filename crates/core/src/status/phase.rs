//! How a reconcile ended, and why a release is not ready.

use std::time::Duration;

use crate::status::changes::{Changes, Event};

/// Why a release is not ready: the `reason` of its conditions, in the words that users can wait on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub enum Reason {
    /// The chart can't be loaded.
    ChartInvalid,
    /// Values, names or the schema.
    ValuesInvalid,
    /// A template failed.
    RenderFailed,
    /// A rendered object is malformed, or rendered twice.
    ManifestInvalid,
    /// A patch of the watch fails on a rendered object.
    PatchFailed,
    /// The custom resource's author may not create or read something.
    Refused,
    /// An object exists that belongs to another owner.
    Collision,
    /// The API server refuses an object as it is written.
    ObjectInvalid,
    /// A field of a live object can't be changed.
    Immutable,
    /// An admission webhook or policy is against an object.
    Denied,
    /// The operator lacks a right.
    Forbidden,
    /// A request failed for a reason that may pass.
    ApplyFailed,
    LookupFailed,
    /// The Secret with the random results could not be read or written.
    KeptResults,
    /// The Secrets with the record could not be read or written, or a later version of the operator wrote it.
    Record,
    PruneFailed,
    DeleteFailed,
    /// The custom resource is being deleted, and waits for its members.
    Uninstalling,
    /// Something of the release's former owner could not be read or written.
    Takeover,
    /// The finalizer and the ApplySet annotations could not be written.
    Claim,
    /// The API server doesn't serve a kind (yet).
    KindUnknown,
    /// Members are not ready yet.
    Progressing,
    /// The state of members, or what a lookup finds, is unknown: their watch does not work.
    WatchFailed,
    /// Something that it depends on is not ready.
    DependencyNotReady,
    /// What it depends on waits for it.
    DependencyCycle,
    /// An edit waits for the end of a plan.
    PlanRunning,
    /// A hook runs, or what an earlier one left is on its way out.
    HookRunning,
    /// A hook failed, or took too long.
    HookFailed,
    /// An earlier revision runs in place of what the custom resource requests.
    RolledBack,
    /// It is on its way there.
    RollingBack,
    /// An upgrade failed, and is not tried again.
    UpgradeFailed,
    /// An installation failed, and is not tried again.
    InstallFailed,
    /// A member says that it failed.
    MemberFailed,
    /// A member is being deleted and will be recreated.
    Terminating,
    /// The render failed unexpectedly: a defect of the operator.
    Panicked,
}

impl Reason {
    /// The reason as it stands in conditions and Events. Part of the API: it never changes.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::ChartInvalid => "ChartInvalid",
            Reason::ValuesInvalid => "ValuesInvalid",
            Reason::RenderFailed => "RenderFailed",
            Reason::ManifestInvalid => "ManifestInvalid",
            Reason::PatchFailed => "PatchFailed",
            Reason::Refused => "Refused",
            Reason::Collision => "Collision",
            Reason::ObjectInvalid => "ObjectInvalid",
            Reason::Immutable => "Immutable",
            Reason::Denied => "Denied",
            Reason::Forbidden => "Forbidden",
            Reason::ApplyFailed => "ApplyFailed",
            Reason::LookupFailed => "LookupFailed",
            Reason::KeptResults => "KeptResults",
            Reason::Record => "Record",
            Reason::PruneFailed => "PruneFailed",
            Reason::DeleteFailed => "DeleteFailed",
            Reason::Uninstalling => "Uninstalling",
            Reason::Takeover => "Takeover",
            Reason::Claim => "Claim",
            Reason::KindUnknown => "KindUnknown",
            Reason::Progressing => "Progressing",
            Reason::WatchFailed => "WatchFailed",
            Reason::DependencyNotReady => "DependencyNotReady",
            Reason::DependencyCycle => "DependencyCycle",
            Reason::PlanRunning => "PlanRunning",
            Reason::HookRunning => "HookRunning",
            Reason::HookFailed => "HookFailed",
            Reason::RolledBack => "RolledBack",
            Reason::RollingBack => "RollingBack",
            Reason::UpgradeFailed => "UpgradeFailed",
            Reason::InstallFailed => "InstallFailed",
            Reason::MemberFailed => "MemberFailed",
            Reason::Terminating => "Terminating",
            Reason::Panicked => "Panicked",
        }
    }
}

/// How a reconcile ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub enum Phase {
    Ready,
    /// Applied; members are not healthy yet, or something else has to come first.
    Waiting {
        reason: Reason,
        message: String,
    },
    /// Failed, and retried.
    Failed {
        reason: Reason,
        message: String,
        /// The API server requested this wait before the retry.
        #[cfg_attr(test, serde(default))]
        retry_after: Option<Duration>,
    },
    /// Failed, and only a change can help. `recheck`: something that no watch shows may be that change.
    Stalled {
        reason: Reason,
        message: String,
        recheck: bool,
    },
    Suspended,
}

impl Phase {
    /// The reason of the condition `Ready`; `Suspended` for a release that nothing changes.
    pub fn reason(&self) -> &'static str {
        match self {
            Phase::Ready => "Succeeded",
            Phase::Waiting { reason, .. } | Phase::Failed { reason, .. } | Phase::Stalled { reason, .. } => {
                reason.as_str()
            }
            Phase::Suspended => "Suspended",
        }
    }
}

impl Phase {
    pub fn waiting(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Phase::Waiting { reason, message }
    }

    pub fn failed(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Phase::Failed {
            reason,
            message,
            retry_after: None,
        }
    }

    /// The same phase. If it is `Failed`, the retry waits at least as long as the API server requested.
    #[must_use]
    pub fn not_before(mut self, requested: Option<Duration>) -> Self {
        if let Phase::Failed { retry_after, .. } = &mut self {
            *retry_after = (*retry_after).max(requested);
        }
        self
    }

    /// The wait that the API server requested before the retry.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Phase::Failed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Without a recheck.
    pub fn stalled(reason: Reason, message: impl Into<String>) -> Self {
        let (message, recheck) = (message.into(), false);
        Phase::Stalled {
            reason,
            message,
            recheck,
        }
    }

    pub fn is_ready(&self) -> bool {
        *self == Phase::Ready
    }

    /// True if nothing went wrong, though members may not be healthy yet.
    pub fn is_well(&self) -> bool {
        matches!(self, Phase::Ready | Phase::Waiting { .. })
    }

    /// What is worth an event: failures, and changes that were made.
    pub fn event(&self, changes: &Changes) -> Option<Event> {
        let (warning, reason, note) = match self {
            Phase::Failed { reason, message, .. } | Phase::Stalled { reason, message, .. } => {
                (true, reason.as_str().to_owned(), message.clone())
            }
            Phase::Suspended => return None,
            Phase::Ready | Phase::Waiting { .. } => (false, changes.reason()?.to_owned(), changes.summary()),
        };
        Some(Event {
            warning,
            reason,
            note,
            once: warning,
        })
    }

    /// What a release waits for, where others have to do something about it.
    pub fn awaited(&self) -> Option<Event> {
        let (reason, message) = match self {
            Phase::Waiting { reason, message } => (*reason, message.clone()),
            _ => return None,
        };
        let warning = match reason {
            Reason::KindUnknown => true,
            Reason::DependencyNotReady => false,
            _ => return None,
        };
        Some(Event {
            warning,
            reason: reason.as_str().to_owned(),
            note: message,
            once: true,
        })
    }
}
