//! From what a run has written to what is announced.

use std::sync::Arc;

use chartwright_core::annotations::HOOK_RUN;
use chartwright_core::crds::CRD_MANAGER;
use chartwright_core::diff::{
    self, ChartChange, ComparedObject, HookRuns, ObjectChange, Refusal, ReleaseDiff, Summary,
};
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::applyset::TRACKING_ANNOTATION;
use chartwright_core::redact::Secrets;
use chartwright_core::status::conditions;
use chartwright_operator::cluster::objects::FIELD_MANAGER;
use chartwright_operator::reconcile::{Unit, learn_secrets};
use serde_json::Value;

use crate::events::PreviewWarning;
use crate::overlay::{ClusterOverlay, ObjectPlace, ObjectRole, Touched};

/// What the events of plans begin with.
const PLAN: &str = "plan-";
/// Reasons of a release whose members the API server refuses: the refusals of the members say more.
const OF_MEMBERS: [&str; 4] = ["ObjectInvalid", "Denied", "Forbidden", "ApplyFailed"];

/// How the last reconcile ended.
pub(crate) struct PreviewEnd {
    /// It failed, or only a change can help.
    pub is_refused: bool,
    /// Only a change can help.
    pub is_stalled: bool,
    /// The status that it wrote.
    pub status: Value,
    pub warnings: Vec<PreviewWarning>,
}

/// Collects what is announced.
pub(crate) struct DiffBuilder<'a> {
    pub unit: &'a Unit,
    pub overlay: &'a ClusterOverlay,
    pub secrets: &'a Arc<Secrets>,
    /// The custom resource before the first reconcile.
    pub before: &'a Value,
}

impl DiffBuilder<'_> {
    pub(crate) fn announce(&self, ended: &PreviewEnd) -> ReleaseDiff {
        let changes = self.changes();
        let (plans, hooks): (Vec<HookRuns>, Vec<HookRuns>) =
            self.runs().into_iter().partition(|run| run.name.starts_with(PLAN));
        let unprefixed = |run: HookRuns| HookRuns {
            name: run.name.trim_start_matches(PLAN).to_owned(),
            ..run
        };
        let metadata = &self.before["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let conditions = conditions::of(&ended.status);
        let held = conditions::get(&conditions, "PruneHeld").filter(|held| held.status == "True");
        let mut diff = ReleaseDiff {
            group_kind: self.unit.group_kind.clone(),
            namespace: text("namespace"),
            name: text("name"),
            chart: chart_change(self.unit, self.before),
            summary: Summary::default(),
            changes,
            hooks,
            plans: plans.into_iter().map(unprefixed).collect(),
            held: held.map(|held| self.clean(&held.message)).into_iter().collect(),
            refusals: self.refusals(ended),
            stalled: self.stalled(ended),
            notes: self.notes(ended),
        };
        diff.summary = diff::summarize(&diff);
        diff
    }

    fn clean(&self, text: &str) -> String {
        self.secrets.redact(text).into_owned()
    }

    fn changes(&self) -> Vec<ObjectChange> {
        let written: Vec<(ObjectPlace, Touched)> = {
            let journal = self.overlay.journal();
            let order = journal.order.iter();
            let written = order.filter_map(|place| Some((place.clone(), journal.get(place)?.clone())));
            written
                .filter(|(_, touched)| touched.role == ObjectRole::Member)
                .collect()
        };
        let states: Vec<(ObjectId, Touched, Option<Arc<Value>>)> = written
            .into_iter()
            .map(|(place, touched)| (touched.id(&place), touched, self.overlay.object(&place)))
            .collect();
        let chart = self.unit.renderer.as_ref().ok().map(|renderer| renderer.chart());
        let objects = states
            .iter()
            .flat_map(|(_, touched, after)| [touched.live.as_deref(), after.as_deref()]);
        learn_secrets(self.secrets, chart, objects.flatten());
        let change = |(id, touched, after): &(ObjectId, Touched, Option<Arc<Value>>)| {
            let compared = ComparedObject {
                id,
                before: touched.live.as_deref(),
                after: after.as_deref(),
                is_recreated: touched.was_deleted,
                manager: manager_of(touched, after.as_deref()),
            };
            let change = diff::compare(&compared, self.secrets)?;
            Some(ObjectChange {
                is_rendered_only: touched.is_unchecked,
                ..change
            })
        };
        states.iter().filter_map(change).collect()
    }

    /// The hooks that ran, in their order, by their events.
    fn runs(&self) -> Vec<HookRuns> {
        let store = self.overlay.fake().store();
        let mut runs: Vec<HookRuns> = Vec::new();
        let mut seen: Vec<(String, ObjectId)> = Vec::new();
        for change in &store.changes {
            let run = |object: &Option<Arc<Value>>| {
                let object = object.as_deref()?;
                object["metadata"]["annotations"][HOOK_RUN].as_str().map(str::to_owned)
            };
            let Some(name) = run(&change.after).filter(|name| run(&change.before).as_ref() != Some(name)) else {
                continue;
            };
            let Some(kind) = store.kind_by_key(change.key.0) else {
                continue;
            };
            let group_kind = chartwright_core::identity::GroupKind::new(kind.group, kind.kind);
            let id = ObjectId::new(group_kind, change.key.1.as_str(), change.key.2.as_str());
            // Event, revision, attempt and digest.
            let event = name.rsplitn(4, '.').last().unwrap_or_default().to_owned();
            if seen.contains(&(name.clone(), id.clone())) {
                continue;
            }
            seen.push((name, id.clone()));
            match runs.last_mut().filter(|last| last.name == event) {
                Some(last) => last.objects.push(id),
                None => runs.push(HookRuns {
                    name: event,
                    objects: vec![id],
                }),
            }
        }
        runs
    }

    fn refusals(&self, ended: &PreviewEnd) -> Vec<Refusal> {
        let journal = self.overlay.journal();
        let of_members = journal
            .refusals
            .iter()
            .map(|(place, (status, reason, message))| Refusal {
                object: journal
                    .get(place)
                    .map(|touched| touched.id(place))
                    .or_else(|| Some(unknown(place))),
                reason: if reason.is_empty() {
                    format!("status {status}")
                } else {
                    reason.clone()
                },
                message: self.clean(message),
            });
        let mut refusals: Vec<Refusal> = of_members.collect();
        refusals.extend(journal.forbidden.iter().map(|right| Refusal {
            object: None,
            reason: "Forbidden".to_owned(),
            message: format!(
                "you need the right to {right}: without it the preview may differ from what the operator does"
            ),
        }));
        let conditions = conditions::of(&ended.status);
        if let Some(ready) =
            conditions::get(&conditions, "Ready").filter(|ready| ended.is_refused && ready.status != "True")
            && (refusals.is_empty() || !OF_MEMBERS.contains(&ready.reason.as_str()))
        {
            let (reason, message) = (ready.reason.clone(), self.clean(&ready.message));
            refusals.push(Refusal {
                object: None,
                reason,
                message,
            });
        }
        refusals
    }

    fn stalled(&self, ended: &PreviewEnd) -> Option<String> {
        let stalled = ended
            .is_stalled
            .then(|| conditions::stalled_text(&ended.status))
            .flatten();
        stalled.map(|text| self.clean(&text))
    }

    /// What the release waits for, and warnings.
    fn notes(&self, ended: &PreviewEnd) -> Vec<String> {
        let conditions = conditions::of(&ended.status);
        let mut notes = Vec::new();
        let suspended = conditions::get(&conditions, "Suspended").filter(|suspended| suspended.status == "True");
        if suspended.is_some() {
            notes.push("the release is suspended: nothing is changed before it is resumed".to_owned());
        }
        let ready = conditions::get(&conditions, "Ready").filter(|ready| ready.status != "True");
        let waits = ready.filter(|_| !ended.is_refused && suspended.is_none());
        notes.extend(waits.map(|ready| format!("it would wait: {}: {}", ready.reason, self.clean(&ready.message))));
        let reasons: Vec<&str> = conditions.iter().map(|condition| condition.reason.as_str()).collect();
        let others = ended
            .warnings
            .iter()
            .filter(|warning| !reasons.contains(&warning.reason.as_str()));
        notes.extend(others.map(|warning| format!("{}: {}", warning.reason, self.clean(&warning.note))));
        notes
    }
}

/// The field manager that writes an object: the definitions of a chart's `crds/` folder have their own.
fn manager_of(touched: &Touched, after: Option<&Value>) -> &'static str {
    let is_definition = touched.kind.kind == "CustomResourceDefinition";
    let object = after.or(touched.live.as_deref());
    let is_member = object.is_some_and(|object| object["metadata"]["annotations"][TRACKING_ANNOTATION].is_string());
    if is_definition && !is_member {
        CRD_MANAGER
    } else {
        FIELD_MANAGER
    }
}

/// An object that was refused before its kind was known: by its plural.
fn unknown(place: &ObjectPlace) -> ObjectId {
    let group_kind = chartwright_core::identity::GroupKind::new(place.group.as_str(), place.resource.as_str());
    ObjectId::new(group_kind, place.namespace.as_str(), place.name.as_str())
}
/// The chart of a release before and after the next reconcile. `before`: the custom resource as it is.
pub fn chart_change(unit: &Unit, before: &Value) -> ChartChange {
    let renderer = unit.renderer.as_ref().ok();
    let metadata = renderer.map(|renderer| &renderer.chart().metadata);
    let from = &before["status"]["release"]["version"];
    ChartChange {
        name: metadata.map(|metadata| metadata.name.clone()).unwrap_or_default(),
        from: conditions::cut(from.as_str().unwrap_or_default(), 100),
        to: metadata.map(|metadata| metadata.version.clone()).unwrap_or_default(),
    }
}
