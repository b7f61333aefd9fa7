//! Decides which step a chart's CustomResourceDefinition needs.

use std::cmp::Ordering;

use serde_json::Value;

use super::chart::CrdClaim;
use super::compare::{CrdChange, compare, list};
use super::live::{CrdOwner, LiveCrd};

/// What a definition needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrdStep {
    /// Nothing: it was applied and is unchanged.
    Leave,
    /// Nothing, with a note for the log: the live one is newer.
    Keep(String),
    /// Its deletion has to end before it is created again.
    Wait,
    Create,
    /// It replaces the live one, if the comparison finds no unsafe change or a user permits it.
    Replace,
    Refuse {
        why: String,
        /// True if the annotation on the live definition permits it.
        can_permit: bool,
    },
}

/// A replacement that this process made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastReplacement {
    pub uid: String,
    /// The live definition permitted it.
    pub was_permitted: bool,
}

/// True if the live definition permits exactly this content.
pub fn is_permitted(claim: &CrdClaim, live: &LiveCrd) -> bool {
    live.permit.as_deref() == Some(&claim.digest)
}

/// Decides on a definition. `operator`: the name of this operator; definitions that it applied are its own. `past`: its last replacement
/// by this process.
///
/// Two operators never replace each other's definition in turn: a definition of another operator is replaced only by a newer version, or
/// by a permit. Nothing is replaced twice in one process, but for a permit that was not there before.
pub fn decide(claim: &CrdClaim, live: Option<&LiveCrd>, operator: &str, past: Option<&PastReplacement>) -> CrdStep {
    let Some(live) = live else { return CrdStep::Create };
    if live.is_deleting {
        return CrdStep::Wait;
    }
    if live.owner == Some(CrdOwner::Member) {
        return CrdStep::Refuse {
            why: "it is a member of a release: a chart has it among its templates".to_owned(),
            can_permit: false,
        };
    }
    let is_permitted = is_permitted(claim, live);
    match step_for(claim, live, operator, is_permitted) {
        CrdStep::Replace => match past.filter(|past| past.uid == live.uid) {
            Some(past) if past.was_permitted || !is_permitted => CrdStep::Refuse {
                why: format!("{} changed it again after it was applied", last_writer(live)),
                can_permit: !past.was_permitted,
            },
            _ => CrdStep::Replace,
        },
        step => step,
    }
}

fn step_for(claim: &CrdClaim, live: &LiveCrd, operator: &str, is_permitted: bool) -> CrdStep {
    let order = claim.marks.compare(&live.marks);
    let newer = || CrdStep::Keep(format!("the live one is newer ({})", live.marks.describe()));
    let refuse = |why| CrdStep::Refuse { why, can_permit: true };
    if live.digest.as_ref() == Some(&claim.digest) {
        return match order {
            _ if live.owns(&claim.fields) => CrdStep::Leave,
            Some(Ordering::Less) => newer(),
            _ if is_permitted => CrdStep::Replace,
            _ => refuse(format!("{} changed it after it was applied", last_writer(live))),
        };
    }
    if let (Some(CrdOwner::Other(owner)), None, false) = (&live.owner, &live.digest, is_permitted) {
        return refuse(format!("it belongs to {owner}"));
    }
    let other = live.operator.as_deref().filter(|applied_by| *applied_by != operator);
    match (other, order) {
        (Some(_), Some(Ordering::Less)) => newer(),
        (None, Some(Ordering::Less)) if !is_permitted => newer(),
        (Some(other), None | Some(Ordering::Equal)) if !is_permitted => refuse(format!(
            "the operator {other} applied another definition{}, and no version shows which one is newer",
            live.marks
                .chart
                .as_ref()
                .map(|chart| format!(" of chart {chart}"))
                .unwrap_or_default()
        )),
        _ => CrdStep::Replace,
    }
}

fn last_writer(live: &LiveCrd) -> String {
    match &live.last_writer {
        Some(writer) => format!("the field manager {writer}"),
        None => "another client".to_owned(),
    }
}

/// Lists the unsafe changes from the live definition to the one that would replace it. `watched`: group, kind and version of the watches
/// of this operator, which need their version.
pub fn unsafe_changes(live: &Value, result: &Value, watched: &[(String, String, String)]) -> Vec<CrdChange> {
    let mut changes = compare(live, result);
    changes.retain(|change| change.breaks);
    let serves = |crd: &Value, version: &str| {
        let mut versions = list(&crd["spec"]["versions"]).iter();
        versions.any(|known| known["name"] == version && known["served"] == true)
    };
    let spec = &live["spec"];
    for (group, kind, version) in watched {
        let is_of_kind = spec["group"] == group.as_str() && spec["names"]["kind"] == kind.as_str();
        if is_of_kind && serves(live, version) && !serves(result, version) {
            changes.push(CrdChange {
                breaks: true,
                path: version.clone(),
                what: "watches.yaml watches this version, which would no longer be served".to_owned(),
            });
        }
    }
    changes
}
