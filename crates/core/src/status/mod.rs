//! Builds the status of a custom resource: conditions, release, inventory. The wording and the rules (which condition is removed,
//! when `observedGeneration` changes) are tested by table.

mod abnormal;
pub mod conditions;
pub(crate) mod fields;
pub mod summary;
pub mod template;

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::record::Record;
use crate::record::signature::RecordSeal;
use crate::redact::Secrets;
use crate::status::template::{Computed, Templated};

pub use abnormal::{AbnormalCondition, abnormal_conditions};
pub use fields::{FIELDS, RecordLocation, ReleaseStatus, Status, recorded, schema};

mod release_conditions;

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

/// What happened to the members in this reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// First complete apply, or a later one.
    pub installed: bool,
    pub upgraded: bool,
    pub applied: usize,
    /// Corrected members, with the field managers that had changed them.
    pub corrected: Vec<String>,
    /// Members deleted and recreated, since a field can't be changed.
    pub recreated: Vec<String>,
    pub pruned: Vec<String>,
    /// Members whose replicas no autoscaler sets any more.
    pub reclaimed: Vec<String>,
    /// Members that were there though no record named them.
    pub found: usize,
    /// Why nothing could be pruned yet, although nothing else is missing.
    pub gap: Option<String>,
    /// What a guard holds back, and how to allow it.
    pub held: Option<String>,
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

/// The chart of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseChart {
    pub name: String,
    pub version: String,
    pub app_version: String,
}

/// What only a render shows. Without one, the status keeps what it said.
#[derive(Clone, Debug)]
pub struct Render<'a> {
    pub namespace: &'a str,
    pub notes: Option<&'a str>,
}

/// How the record of a release is stored.
#[derive(Clone, Copy)]
pub struct RecordStorage<'a> {
    /// Signs what the status says of the record.
    pub seal: RecordSeal<'a>,
    /// A Secret holds the record.
    pub in_secret: bool,
    /// The record could not be read: what the status says of it stays.
    pub unread: bool,
}

/// What became of the chart's status template.
#[derive(Clone, Copy, Default)]
pub struct TemplateOutcome<'a> {
    /// What it makes of the release, and of what; `None`: that stays as it is.
    pub computed: Option<(&'a Computed, &'a str)>,
    /// Why it can't be used.
    pub invalid: Option<&'a str>,
}

/// Everything that the status is made of.
pub struct StatusReport<'a> {
    pub generation: i64,
    pub release_name: &'a str,
    pub phase: &'a Phase,
    /// Message of a release that is ready or waits.
    pub changes: &'a Changes,
    pub chart: Option<ReleaseChart>,
    pub record: &'a Record,
    pub storage: RecordStorage<'a>,
    /// There is no room for more than how the release is.
    pub brief: bool,
    pub render: Option<Render<'a>>,
    pub template: TemplateOutcome<'a>,
    /// Members whose fields another client changes again and again.
    pub contested: Option<String>,
    /// Failed attempts since something changed.
    pub failures: u32,
    /// What must not be in the status.
    pub secrets: &'a Secrets,
    pub now: Timestamp,
}

/// An event to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub warning: bool,
    pub reason: String,
    pub note: String,
    /// Not repeated while it says the same.
    pub once: bool,
}

impl Event {
    /// What it says, to know whether it was said before.
    pub fn text(&self) -> String {
        format!("{}\n{}", self.reason, self.note)
    }
}

/// Of a list that a custom resource's author can make longer, this many are shown, each cut at so many bytes.
const SHOWN: usize = 50;
const SHOWN_BYTES: usize = 512;
/// A message where there is no room.
const BRIEF_BYTES: usize = 512;

/// NOTES.txt in a condition is cut here, in the status field at 8 times that.
const NOTES_BYTES: usize = 1024;
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
impl Changes {
    /// What an event calls them; `None` if there are none that anybody should hear of.
    fn reason(&self) -> Option<&'static str> {
        let reasons = [
            (self.installed, "InstallSuccessful"),
            (self.upgraded, "UpgradeSuccessful"),
            (!self.recreated.is_empty(), "Recreated"),
            (!self.pruned.is_empty(), "Pruned"),
            (!self.corrected.is_empty(), "DriftCorrected"),
            (!self.reclaimed.is_empty(), "ReplicasTakenBack"),
        ];
        reasons.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason))
    }

    fn summary(&self) -> String {
        let mut parts = Vec::new();
        if self.applied > 0 {
            let objects = if self.applied == 1 { "object" } else { "objects" };
            parts.push(format!("{} {objects} applied", self.applied));
        }
        if self.found > 0 {
            parts.push(format!("{} of them found without a record", self.found));
        }
        for (what, items) in [
            ("corrected", &self.corrected),
            ("recreated", &self.recreated),
            ("pruned", &self.pruned),
            ("replicas set by the chart again", &self.reclaimed),
        ] {
            if !items.is_empty() {
                parts.push(format!("{what}: {}", shown(items).join(", ")));
            }
        }
        if parts.is_empty() {
            "no object had to be changed".to_owned()
        } else {
            parts.join("; ")
        }
    }
}

/// What the conditions of a status say, as events: for a kind whose status doesn't keep them.
pub fn condition_events(status: &Value) -> Vec<Event> {
    let conditions = conditions::of(status);
    let event = |(kind, warning): (&str, bool)| {
        let condition = conditions::get(&conditions, kind)?;
        let reason = match condition.status.as_str() {
            "True" => kind.to_owned(),
            _ => format!("Not{kind}"),
        };
        Some(Event {
            warning,
            reason,
            note: format!("{}: {}", condition.reason, condition.message),
            once: true,
        })
    };
    let reported = [("Ready", false), ("PruneHeld", true), ("Suspended", false)];
    reported.into_iter().filter_map(event).collect()
}

/// True if what was sent is what was read back. Other clients may have added fields.
pub fn survives(sent: &Value, read: &Value) -> bool {
    match (sent, read) {
        (Value::Object(sent), Value::Object(read)) => sent
            .iter()
            .all(|(key, value)| read.get(key).is_some_and(|read| survives(value, read))),
        (Value::Array(sent), Value::Array(read)) if sent.len() == read.len() => {
            sent.iter().zip(read).all(|(sent, read)| survives(sent, read))
        }
        // Others may have added conditions of their own.
        (Value::Array(sent), Value::Array(read)) => {
            sent.iter().all(|sent| read.iter().any(|read| survives(sent, read)))
        }
        (sent, read) => sent == read,
    }
}

/// The part of a status that is ours, to compare with a new one.
pub fn ours(status: &Value) -> Value {
    let fields = status.as_object().into_iter().flatten();
    let templated = Templated::of(status).fields;
    let own = fields.filter(|(field, _)| FIELDS.contains(&field.as_str()) || templated.contains(field));
    Value::Object(own.map(|(field, value)| (field.clone(), value.clone())).collect())
}

/// True if a new status says nothing else than what there is of ours in another one: of what a template was computed is no news by itself.
pub fn says_the_same(one: &Value, other: &Value) -> bool {
    let other = ours(other);
    let without = |mut status: Value| {
        if let Some(templated) = status.get_mut("templated").and_then(Value::as_object_mut) {
            templated.remove("seen");
        }
        status
    };
    *one == other || one.get("templated").is_some() && without(one.clone()) == without(other)
}

/// The new status, from the report and the one before.
pub fn status(report: &StatusReport<'_>, previous: &Value) -> Value {
    let mut status = Status {
        observed_generation: match report.phase {
            Phase::Ready | Phase::Stalled { .. } => Some(report.generation),
            _ => previous.get("observedGeneration").and_then(Value::as_i64),
        },
        conditions: release_conditions::all(report, previous),
        failures: report.failures,
        notes: notes(report, previous),
        ..Status::default()
    };
    if !report.storage.unread {
        record_into(report, previous, &mut status);
    }
    let mut status = json!(status);
    if report.storage.unread
        && let Some(status) = status.as_object_mut()
    {
        // With its signature, which is of all of these.
        let kept = recorded().filter_map(|field| Some((field.to_owned(), previous.get(field)?.clone())));
        status.extend(kept);
    }
    for path in fields::REDACTED {
        fields::redact_path(&mut status, path, report.secrets);
    }
    // Invariant: what is signed comes from the record alone, never from the status that was there.
    if !report.storage.unread {
        report.storage.seal.sign(&mut status);
    }
    if let Some(fields) = status.as_object_mut() {
        templated(report, previous, fields);
    }
    status
}

/// The fields of the chart's status template.
fn templated(report: &StatusReport<'_>, previous: &Value, status: &mut Map<String, Value>) {
    let mut kept = Templated::of(previous);
    let fields = match report.template.computed {
        _ if report.brief => {
            kept.fields.clear();
            Map::new()
        }
        Some((computed, seen)) => {
            kept = computed.templated(seen);
            computed.fields.clone()
        }
        None => {
            // What the status says of them is no proof that they are the template's.
            kept.fields.retain(|field| !FIELDS.contains(&field.as_str()));
            let fields = kept
                .fields
                .iter()
                .filter_map(|field| Some((field.clone(), previous.get(field)?.clone())));
            fields.collect()
        }
    };
    if kept.fields.is_empty() && kept.conditions.is_empty() {
        return;
    }
    status.insert("templated".into(), json!(kept));
    status.extend(fields);
}

/// The chart's notes. A reconcile that renders nothing keeps those of before.
fn notes(report: &StatusReport<'_>, previous: &Value) -> Option<String> {
    if report.brief {
        return None;
    }
    let Some(render) = &report.render else {
        return previous["notes"].as_str().map(str::to_owned);
    };
    let notes = render.notes.filter(|notes| !notes.trim().is_empty())?;
    Some(conditions::cut(&report.secrets.redact(notes), 8 * NOTES_BYTES))
}

/// Writes the record into a status.
fn record_into(report: &StatusReport<'_>, previous: &Value, status: &mut Status) {
    let record = report.record;
    record.handled.write_into(status);
    status.release = Some(release(report, previous));
    if report.brief {
        return;
    }
    status.inventory = record.shown_entries().to_vec();
    status.hooks = record.hooks.clone();
    status.history = record.history.clone();
    status.plans.clone_from(&record.plans.plans);
    status.plan_run = record.plans.work.clone();
    status.remediation.clone_from(&record.remediation);
    status.elected.clone_from(&record.elected);
}

/// Takes secret values out of every text. What only programs read is spared: the inventory must name objects as they
/// are named, and a Secret may well hold the time at which a condition changed.
pub(crate) fn redact(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = secrets.redact(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, secrets)),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, field)| redact(field, secrets)),
        _ => {}
    }
}

/// The first of a list, and how many more there are.
fn shown(texts: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = texts
        .iter()
        .take(SHOWN)
        .map(|text| conditions::cut(text, SHOWN_BYTES))
        .collect();
    if texts.len() > SHOWN {
        shown.push(format!("and {} more", texts.len() - SHOWN));
    }
    shown
}

/// The chart that a status names.
pub fn chart_of(status: &Value) -> Option<ReleaseChart> {
    let text = |field: &str| status["release"][field].as_str().map(str::to_owned);
    Some(ReleaseChart {
        name: text("chart")?,
        version: text("version")?,
        app_version: text("appVersion").unwrap_or_default(),
    })
}

fn release(report: &StatusReport<'_>, previous: &Value) -> ReleaseStatus {
    let record = report.record;
    let chart = report.chart.as_ref();
    let namespace = match &report.render {
        Some(render) => Some(render.namespace),
        None => previous["release"]["namespace"].as_str(),
    };
    let is_settled = record.settled.is_empty() || record.done_for.as_ref() == Some(&record.settled);
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    ReleaseStatus {
        name: record
            .release_name
            .clone()
            .unwrap_or_else(|| report.release_name.to_owned()),
        given_name: record.release_name.clone(),
        service_account: record.service_account.clone(),
        namespace: namespace.map(str::to_owned),
        chart: chart.map(|chart| chart.name.clone()),
        version: chart.map(|chart| chart.version.clone()),
        app_version: chart.and_then(|chart| given(&chart.app_version)),
        revision: record.revision,
        inputs: record.done_for.clone(),
        settled: (!is_settled).then(|| record.settled.clone()),
        key: given(&record.key),
        signature: None,
        renewal: record.renewal,
        upgrading: record.upgrading,
        attempt: record.attempt.clone(),
        fallback: record.fallback.clone(),
        rollout: record.rollout.clone(),
        lookups: if report.brief {
            Vec::new()
        } else {
            record.shown_lookups().to_vec()
        },
        capabilities: record.capabilities.clone(),
        record: record.location(report.storage.in_secret),
    }
}

#[cfg(test)]
mod tests;
