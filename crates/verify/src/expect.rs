//! Holds what a step came to against what is expected of it.

use std::fmt::Write as _;

use serde_json::Value;

use super::case::{CaseStep, Check, Expectation, ExpectedChange, What};
use super::outcome::{DoneStep, MemberChange, Performed, Stopped};
use super::refer::{Reference, ReferencePath, differences};
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::applyset;
use chartwright_watches::suggestion;

/// What is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In the case file.
    pub line: usize,
    /// The first line says what, further ones show it.
    pub message: String,
}

/// What is wrong with a step, but for its golden file.
pub fn failures(step: &CaseStep, done: &DoneStep) -> Vec<Failure> {
    let stops = step
        .expect
        .iter()
        .find(|expectation| matches!(expectation.check, Check::Stops(..)));
    let stopped = match done {
        Err(stopped) => Some(stopped.clone()),
        Ok(performed) => performed.stopped.clone(),
    };
    let mut failures = Vec::new();
    let mut report = |line: usize, message: String| failures.push(Failure { line, message });
    if let (Some(Stopped { reason, message }), None) = (&stopped, stops) {
        report(step.line, format!("the release stops with {reason}:\n{message}"));
    }
    for Expectation { line, check } in &step.expect {
        let complaint = match (check, done) {
            (Check::Stops(reason, text), _) => not_stopped(reason.as_deref(), text.as_deref(), stopped.as_ref()),
            // The stop was reported above.
            (_, Err(_)) if stops.is_none() => None,
            (_, Err(_)) => Some("nothing is known of a release that stops before anything is done".to_owned()),
            (check, Ok(performed)) => complaint(check, performed),
        };
        if let Some(message) = complaint {
            report(*line, message);
        }
    }
    failures
}

fn not_stopped(reason: Option<&str>, text: Option<&str>, stopped: Option<&Stopped>) -> Option<String> {
    let wanted = match (reason, text) {
        (Some(reason), Some(text)) => format!("{reason} with {text:?}"),
        (Some(reason), None) => reason.to_owned(),
        (None, text) => format!("an error with {:?}", text.unwrap_or_default()),
    };
    let Some(Stopped { reason: found, message }) = stopped else {
        return Some(format!("the release doesn't stop, expected {wanted}"));
    };
    let is_it = reason.is_none_or(|reason| reason == found) && text.is_none_or(|text| message.contains(text));
    (!is_it).then(|| format!("the release stops with {found}, expected {wanted}:\n{message}"))
}

/// What is wrong; `None` if it is as expected.
fn complaint(check: &Check, performed: &Performed) -> Option<String> {
    match check {
        Check::Objects(wanted) => exactly("objects", wanted, &rendered(performed)),
        Check::Contains(wanted) => missing("isn't rendered", wanted, &rendered(performed)),
        Check::Lacks(unwanted) => {
            let rendered = rendered(performed);
            let found = rendered.iter().filter(|id| unwanted.iter().any(|one| one.is_to(id)));
            let lines: Vec<String> = found.map(|id| format!("{id} is rendered")).collect();
            (!lines.is_empty()).then(|| lines.join("\n"))
        }
        Check::Field(reference, path, expected) => {
            let object = match one(reference, performed) {
                Ok(object) => object,
                Err(message) => return Some(message),
            };
            let complaint = expected.complaint(path.find(&object))?;
            Some(format!("{path} of {reference} {complaint}"))
        }
        Check::Notes(part) => {
            let notes = performed.prepared.notes.as_deref().unwrap_or_default();
            (!notes.contains(part.as_str())).then(|| match notes.trim() {
                "" => format!("there are no notes, expected {part:?}"),
                notes => format!("the notes lack {part:?}:\n{notes}"),
            })
        }
        Check::Warning(part) => {
            let warnings: Vec<&str> = warnings(performed).collect();
            (!warnings.iter().any(|warning| warning.contains(part.as_str()))).then(|| match warnings.as_slice() {
                [] => format!("there are no warnings, expected {part:?}"),
                warnings => format!("no warning has {part:?}:\n{}", warnings.join("\n")),
            })
        }
        Check::Hooks(wanted) => hooks(wanted, &performed.hooks),
        Check::Members(What::Unchanged, wanted) => {
            missing("doesn't stay as it is", wanted, &members(What::Unchanged, performed))
        }
        Check::Members(what, wanted) => exactly(what.describe(), wanted, &members(*what, performed)),
        Check::Changed(wanted) => changed(wanted, performed),
        Check::Stops(..) | Check::Snapshot => None,
    }
}

/// The warnings for the chart's authors and for users of Helm.
pub fn warnings(performed: &Performed) -> impl Iterator<Item = &str> {
    let prepared = &performed.prepared;
    let all = prepared.warnings.iter().chain(&prepared.desired.warnings);
    all.chain(&prepared.desired.unmatched_patches).map(String::as_str)
}

impl What {
    fn describe(self) -> &'static str {
        match self {
            What::Created => "created",
            What::Recreated => "recreated",
            What::Pruned => "pruned",
            What::Kept => "kept",
            What::Restarts => "restarts",
            What::Unchanged => "unchanged",
        }
    }
}

/// What the chart makes, but for hooks.
fn rendered(performed: &Performed) -> Vec<ObjectId> {
    let members = performed.prepared.desired.members.iter();
    members.map(|member| member.id.clone()).collect()
}

fn members(what: What, performed: &Performed) -> Vec<ObjectId> {
    let of = |is_it: fn(&MemberChange) -> bool| {
        let members = performed.members.iter().filter(|(_, outcome)| is_it(outcome));
        members.map(|(id, _)| id.clone()).collect()
    };
    match what {
        What::Created => of(|outcome| matches!(outcome, MemberChange::Created)),
        What::Recreated => of(|outcome| matches!(outcome, MemberChange::Recreated)),
        What::Unchanged => of(|outcome| matches!(outcome, MemberChange::Unchanged)),
        What::Pruned => performed.pruned.clone(),
        What::Kept => performed.kept.clone(),
        What::Restarts => performed.restarts.clone(),
    }
}

/// The lines in which a list differs from what is expected.
fn exactly(what: &str, wanted: &[Reference], found: &[ObjectId]) -> Option<String> {
    let mut text = String::new();
    for reference in wanted.iter().filter(|one| !found.iter().any(|id| one.is_to(id))) {
        let _ = write!(text, "\n- {reference}");
    }
    for id in found.iter().filter(|id| !wanted.iter().any(|one| one.is_to(id))) {
        let _ = write!(text, "\n+ {id}");
    }
    (!text.is_empty()).then(|| format!("{what}: - is expected, + is found{text}"))
}

fn missing(how: &str, wanted: &[Reference], found: &[ObjectId]) -> Option<String> {
    let missing = wanted.iter().filter(|one| !found.iter().any(|id| one.is_to(id)));
    let lines: Vec<String> = missing.map(|one| format!("{one} {how}{}", hint(one, found))).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// An object of nearly the same name.
fn hint(reference: &Reference, found: &[ObjectId]) -> String {
    let texts: Vec<String> = found
        .iter()
        .flat_map(|id| {
            let ObjectId { group_kind, name, .. } = id;
            [
                group_kind.kind.clone(),
                format!("{} {name}", group_kind.kind),
                format!("{group_kind} {name}"),
                id.to_string(),
            ]
        })
        .collect();
    let best = suggestion(&reference.to_string(), texts.iter().map(String::as_str));
    best.map(|best| format!(": did you mean {best}?")).unwrap_or_default()
}

/// The object that is meant, a member's or a hook's, as the chart makes it.
fn one(reference: &Reference, performed: &Performed) -> Result<Value, String> {
    let desired = &performed.prepared.desired;
    let hooks = desired.hooks.iter().map(|hook| &hook.member);
    let all: Vec<_> = desired.members.iter().chain(hooks).collect();
    let found: Vec<_> = all.iter().filter(|member| reference.is_to(&member.id)).collect();
    match found.as_slice() {
        [one] => {
            let mut object = one.object.clone();
            applyset::unmark(&mut object);
            Ok(object)
        }
        [] => {
            let ids: Vec<ObjectId> = all.iter().map(|member| member.id.clone()).collect();
            Err(format!("there is no {reference}{}", hint(reference, &ids)))
        }
        several => {
            let names: Vec<String> = several.iter().map(|member| member.id.to_string()).collect();
            Err(format!("{reference} may be any of: {}", names.join(", ")))
        }
    }
}

fn hooks(wanted: &[(String, Vec<Reference>)], found: &[(String, Vec<ObjectId>)]) -> Option<String> {
    let is_same = |(event, references): &(String, Vec<Reference>), (other, ids): &(String, Vec<ObjectId>)| {
        let pairs = references.iter().zip(ids);
        event == other && references.len() == ids.len() && pairs.into_iter().all(|(one, id)| one.is_to(id))
    };
    let wanted: Vec<_> = wanted.iter().filter(|(_, references)| !references.is_empty()).collect();
    let mut text = String::new();
    for one in wanted
        .iter()
        .filter(|one| !found.iter().any(|other| is_same(one, other)))
    {
        let (event, references) = one;
        let names: Vec<String> = references.iter().map(ToString::to_string).collect();
        let _ = write!(text, "\n- {event}: {}", names.join(", "));
    }
    for other in found
        .iter()
        .filter(|other| !wanted.iter().any(|one| is_same(one, other)))
    {
        let (event, ids) = other;
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let _ = write!(text, "\n+ {event}: {}", names.join(", "));
    }
    (!text.is_empty()).then(|| format!("hooks: - is expected, + is found{text}"))
}

fn changed(wanted: &[ExpectedChange], performed: &Performed) -> Option<String> {
    let mut text = String::new();
    let mut known: Vec<&ObjectId> = Vec::new();
    for (id, outcome) in &performed.members {
        let MemberChange::Changed(before, after) = outcome else {
            continue;
        };
        known.push(id);
        let found = differences(before, after);
        match wanted.iter().find(|(one, _)| one.is_to(id)) {
            None => {
                let _ = write!(text, "\n+ {id}: {}", found.join(", "));
            }
            Some((_, None)) => {}
            Some((_, Some(paths))) => {
                let covers = |path: &ReferencePath, field: &str| {
                    ReferencePath::parse(field)
                        .is_ok_and(|field| path.covers(&field, after) || path.covers(&field, before))
                };
                for path in paths
                    .iter()
                    .filter(|path| !found.iter().any(|field| covers(path, field)))
                {
                    let _ = write!(text, "\n- {id}: {path}");
                }
                for field in found
                    .iter()
                    .filter(|field| !paths.iter().any(|path| covers(path, field)))
                {
                    let _ = write!(text, "\n+ {id}: {field}");
                }
            }
        }
    }
    for (reference, _) in wanted.iter().filter(|(one, _)| !known.iter().any(|id| one.is_to(id))) {
        let _ = write!(text, "\n- {reference}");
    }
    (!text.is_empty()).then(|| format!("changed: - is expected, + is found{text}"))
}
