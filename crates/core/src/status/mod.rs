//! Builds the status of a custom resource: conditions, release, inventory. The wording and the rules (which condition is removed,
//! when `observedGeneration` changes) are tested by table.

mod abnormal;
mod changes;
pub mod conditions;
pub(crate) mod fields;
pub(crate) mod phase;
mod redaction;
pub(crate) mod release_chart;
mod release_conditions;
pub mod summary;
pub mod template;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::record::Record;
use crate::record::signature::RecordSeal;
use crate::redact::Secrets;
use crate::status::template::{Computed, Templated};

pub use abnormal::{AbnormalCondition, abnormal_conditions};
pub use changes::{Changes, Event};
pub use fields::{FIELDS, RecordLocation, ReleaseStatus, Status, recorded, schema};
pub use phase::{Phase, Reason};
pub use release_chart::{ReleaseChart, chart_of};

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

/// A message where there is no room.
const BRIEF_BYTES: usize = 512;

/// NOTES.txt in a condition is cut here, in the status field at 8 times that.
const NOTES_BYTES: usize = 1024;

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
    for path in redaction::REDACTED {
        redaction::redact_path(&mut status, path, report.secrets);
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
