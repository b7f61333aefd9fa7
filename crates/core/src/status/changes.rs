//! What a reconcile did to the members, and the events that report it.

use crate::status::conditions;

/// Of a list that a custom resource's author can make longer, this many are shown, each cut at so many bytes.
const SHOWN: usize = 50;
const SHOWN_BYTES: usize = 512;

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

impl Changes {
    /// What an event calls them; `None` if there are none that anybody should hear of.
    pub(super) fn reason(&self) -> Option<&'static str> {
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

    pub(super) fn summary(&self) -> String {
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

/// The first of a list, and how many more there are.
pub(super) fn shown(texts: &[String]) -> Vec<String> {
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
