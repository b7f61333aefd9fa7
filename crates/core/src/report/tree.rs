//! The members and hooks of a release with what they own, and the health of each.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::facts::{LONGEST_TEXT, ReportFacts};
use super::live::{LiveObjects, id_of, list, text};
use super::reads;
use super::trouble::Trouble;
use crate::hooks::{HookRun, RunPhase};
use crate::identity::{GroupKind, ObjectId};
use crate::record::Record;
use crate::status::conditions::cut;

/// How deep owned objects are followed: a CronJob owns a Job, which owns a Pod, which uses a claim.
const DEEPEST: usize = 4;
/// The most children of one object that are listed. The unhealthy ones come first.
const CHILDREN: usize = 20;

/// Members that are applied together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wave {
    pub wave: i32,
    pub members: Vec<ObjectNode>,
}

/// A hook with what it owns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HookNode {
    #[serde(flatten)]
    pub run: HookRun,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ObjectNode>,
}

/// An object of a release.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectNode {
    #[serde(flatten)]
    pub id: ObjectId,
    pub health: NodeHealth,
    /// Why it is not `Current`; otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What it owns. Of a pod: the claims that it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ObjectNode>,
    /// Number of children that are not listed.
    #[serde(skip_serializing_if = "crate::serde_helpers::is_default")]
    pub more: usize,
    /// Only a deletion helps: see [`Trouble`].
    #[serde(skip)]
    pub(super) is_stuck: bool,
}

/// How an object is. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum NodeHealth {
    Failed,
    /// The API server does not have it.
    Missing,
    Terminating,
    InProgress,
    /// It is as its spec says, and yet something about it is wrong.
    Degraded,
    /// It was not read.
    Unknown,
    Current,
}

impl NodeHealth {
    /// True if something is known to be wrong.
    pub fn is_bad(self) -> bool {
        self < NodeHealth::Unknown
    }

    /// The health in small words, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeHealth::Failed => "failed",
            NodeHealth::Missing => "missing",
            NodeHealth::Terminating => "terminating",
            NodeHealth::InProgress => "in progress",
            NodeHealth::Degraded => "degraded",
            NodeHealth::Unknown => "unknown",
            NodeHealth::Current => "ok",
        }
    }
}

/// The members by wave, in the order of the record, and the hooks.
pub(super) struct Forest {
    pub(super) waves: Vec<Wave>,
    pub(super) hooks: Vec<HookNode>,
}

impl Forest {
    pub(super) fn of(record: &Record, facts: &ReportFacts, now: Timestamp) -> Self {
        let grower = Grower {
            objects: &LiveObjects::of(facts),
            facts,
            now,
        };
        let mut waves: BTreeMap<i32, Vec<ObjectNode>> = BTreeMap::new();
        let listed = record
            .entries
            .iter()
            .map(|entry| (&entry.id, entry.wave, entry.finished));
        let unlisted = facts.unlisted.iter().map(|id| (id, 0, false));
        for (id, wave, is_finished) in listed.chain(unlisted) {
            waves.entry(wave).or_default().push(grower.member(id, is_finished));
        }
        let wave = |(wave, members)| Wave { wave, members };
        Forest {
            waves: waves.into_iter().map(wave).collect(),
            hooks: record.hooks.runs.iter().map(|run| grower.hook(run)).collect(),
        }
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &ObjectNode> {
        self.waves.iter().flat_map(|wave| &wave.members)
    }
}

/// Builds the nodes.
#[derive(Clone, Copy)]
struct Grower<'f> {
    objects: &'f LiveObjects<'f>,
    facts: &'f ReportFacts,
    now: Timestamp,
}

impl Grower<'_> {
    fn member(&self, id: &ObjectId, is_finished: bool) -> ObjectNode {
        match (self.objects.get(id), self.objects.unread(id)) {
            (Some(object), _) => self.node(object, DEEPEST),
            (None, _) if reads::is_secret(&id.group_kind) => leaf(id, NodeHealth::Unknown, "Secrets are not read"),
            // A complete Job that its TTL removed.
            (None, _) if is_finished => leaf(id, NodeHealth::Current, ""),
            (None, Some(why)) => leaf(id, NodeHealth::Unknown, &format!("not read: {why}")),
            (None, None) => leaf(id, NodeHealth::Missing, "the API server does not have it"),
        }
    }

    fn hook(&self, run: &HookRun) -> HookNode {
        let is_open = matches!(run.phase, RunPhase::Running | RunPhase::Failed);
        let object = self.objects.get(&run.object).filter(|_| is_open);
        let mut run = run.clone();
        run.message = cut(&run.message, LONGEST_TEXT);
        HookNode {
            children: object.map_or_else(Vec::new, |object| self.children(object, DEEPEST - 1).0),
            run,
        }
    }

    fn node(&self, object: &Value, depth: usize) -> ObjectNode {
        let id = id_of(object);
        let (children, more) = match depth {
            0 => (Vec::new(), 0),
            _ => self.children(object, depth - 1),
        };
        let trouble = Trouble::of(&id, object, self.objects, self.facts, self.now);
        ObjectNode {
            id,
            health: trouble.health,
            message: cut(&trouble.message, LONGEST_TEXT),
            since: trouble.since,
            children,
            more,
            is_stuck: trouble.is_stuck,
        }
    }

    /// What an object owns, the unhealthy first, and the number of children that are left out.
    fn children(&self, object: &Value, depth: usize) -> (Vec<ObjectNode>, usize) {
        let is_cron_job = object["kind"] == "CronJob";
        let mut owned: Vec<&Value> = self.objects.owned_by(object).to_vec();
        owned.retain(|child| !is_spent(child));
        let all = owned.len();
        if is_cron_job {
            // Its last Job says how it is now.
            owned.sort_by_key(|job| Reverse(text(job, "/metadata/creationTimestamp")));
            owned.truncate(1);
        }
        let mut more = all - owned.len();
        let is_job = object["kind"] == "Job";
        // Of other workloads, an ended pod was replaced by another one.
        let is_replaced = |child: &Value| !is_job && child["status"]["phase"] == "Failed";
        let claims = self.claims(object);
        let mut children: Vec<(bool, ObjectNode)> = owned
            .into_iter()
            .chain(claims)
            .map(|child| (is_replaced(child), self.node(child, depth)))
            .collect();
        children.sort_by(|(replaced, one), (other_replaced, other)| {
            (replaced, one.health, &one.id).cmp(&(other_replaced, other.health, &other.id))
        });
        more += children.len().saturating_sub(CHILDREN);
        children.truncate(CHILDREN);
        (children.into_iter().map(|(_, node)| node).collect(), more)
    }

    /// The claims of a pod.
    fn claims(&self, pod: &Value) -> impl Iterator<Item = &Value> {
        let is_pod = pod["kind"] == "Pod";
        let names = list(pod, "/spec/volumes").map(|volume| text(volume, "/persistentVolumeClaim/claimName"));
        let namespace = text(pod, "/metadata/namespace");
        names
            .filter(move |name| is_pod && !name.is_empty())
            .filter_map(move |name| {
                let kind = GroupKind::new("", "PersistentVolumeClaim");
                self.objects.get(&ObjectId::new(kind, namespace, name))
            })
    }
}

fn leaf(id: &ObjectId, health: NodeHealth, message: &str) -> ObjectNode {
    ObjectNode {
        id: id.clone(),
        health,
        message: cut(message, LONGEST_TEXT),
        since: None,
        children: Vec::new(),
        more: 0,
        is_stuck: false,
    }
}

/// True for what a person need not see: ReplicaSets of former revisions, EndpointSlices, and revisions of a StatefulSet.
fn is_spent(object: &Value) -> bool {
    match text(object, "/kind") {
        "ReplicaSet" => object["spec"]["replicas"] == 0 && object["status"]["replicas"] == 0,
        kind => ["EndpointSlice", "ControllerRevision"].contains(&kind),
    }
}
