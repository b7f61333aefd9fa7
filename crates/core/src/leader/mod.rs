//! Leader election among the pods of a workload: which pod leads, and the next request, so that only this pod carries the
//! label. Pods come from a watch or an answer of the API server; earlier decisions come from a Lease.
//!
//! Two operators may do this at the same time, and one of them may be disconnected or late. Only one of them can write the Lease,
//! but a label that was decided on before another operator wrote the Lease may arrive later. So the operator that takes the
//! Lease for another pod first marks the former leader. This changes the pod's version, and the API server refuses the late
//! label. After that, the new leader gets the label. Only then may an operator take the Lease again.

pub mod pod_index;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Annotation of pods that were leader: up to which state of the Lease.
pub const MARK: &str = "chartwright.dev/leader-epoch";

/// A pod, as far as the election of a leader needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize), serde(default))]
pub struct Pod {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    /// Kind, name and UID of the controller in its ownerReferences.
    pub controller: [String; 3],
    pub created: Timestamp,
    /// It is ready, and not being deleted.
    pub ready: bool,
    /// Those of its labels that some watch gives to leaders.
    pub labels: BTreeMap<String, String>,
    pub mark: String,
}

/// The UID of the pod: a later pod may have the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize))]
pub struct Holder {
    pub name: String,
    pub uid: String,
}

/// What the Lease of an election says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize), serde(default))]
pub struct Held {
    /// Who is to carry the label; `None`: no pod was chosen yet.
    pub holder: Option<Holder>,
    /// Who was to carry it before.
    pub former: Option<Holder>,
    /// The Lease and how often it changed hands.
    pub epoch: String,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderStep {
    Nothing,
    /// The Lease is read.
    Read,
    /// This former leader, which the watch doesn't show, is read.
    Look(Holder),
    /// This pod loses the label, if it has it, and is marked.
    TakeOff(Pod),
    /// The Lease is written for this pod.
    Claim(Pod),
    /// This pod, which the Lease names, gets the label.
    Put(Pod),
}

/// The label of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<'a> {
    pub key: &'a str,
    pub value: &'a str,
}

/// An election under way: what is known of the pods, and then of the Lease. The order matters: had the Lease been written for
/// another one since, a pod's version that was read before would be refused. So who finds that a pod has another version
/// [doubts](Round::doubt) the Lease.
#[derive(Clone, Debug)]
pub struct Round<'a> {
    label: Label<'a>,
    pods: Vec<Pod>,
    held: Option<Held>,
}

/// What the status shows of an election.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct Elected {
    /// Kind of the workload.
    pub kind: String,
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
    /// Key of the leader's label.
    pub label: String,
    /// Value of the leader's label.
    pub value: String,
    /// Name of the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// UID of the leader.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Since when this pod leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How often another pod became leader.
    pub transitions: i32,
    /// Why there is no leader, or what prevents an election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
impl Default for Pod {
    fn default() -> Self {
        Pod {
            name: String::new(),
            uid: String::new(),
            resource_version: String::new(),
            controller: Default::default(),
            created: Timestamp::UNIX_EPOCH,
            ready: false,
            labels: BTreeMap::new(),
            mark: String::new(),
        }
    }
}
impl Holder {
    pub fn of(pod: &Pod) -> Self {
        Holder {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }

    /// As the Lease has it.
    pub fn parse(identity: &str) -> Option<Self> {
        let (name, uid) = identity.split_once('/')?;
        Some(Holder {
            name: name.to_owned(),
            uid: uid.to_owned(),
        })
    }

    pub fn identity(&self) -> String {
        format!("{}/{}", self.name, self.uid)
    }

    pub fn among<'p>(&self, pods: &'p [Pod]) -> Option<&'p Pod> {
        pods.iter().find(|pod| pod.uid == self.uid)
    }
}
impl Elected {
    /// What distinguishes it from others, regardless of its outcome.
    pub fn key(&self) -> [&str; 4] {
        [&self.kind, &self.name, &self.label, &self.value]
    }

    /// This pod leads; or no pod does, and why.
    pub fn settle(&mut self, leader: Option<&Pod>, why: &str) {
        self.pod = leader.map(|pod| pod.name.clone());
        self.uid = leader.map(|pod| pod.uid.clone()).unwrap_or_default();
        self.message = (leader.is_none() && !why.is_empty()).then(|| why.to_owned());
        if leader.is_none() {
            self.since = None;
        }
    }

    /// What the Lease should say by this.
    pub fn held(&self) -> Held {
        let name = self.pod.clone().unwrap_or_default();
        let uid = self.uid.clone();
        Held {
            holder: (!uid.is_empty()).then_some(Holder { name, uid }),
            ..Held::default()
        }
    }
}
impl Label<'_> {
    pub fn is_on(&self, pod: &Pod) -> bool {
        pod.labels.get(self.key).is_some_and(|value| value == self.value)
    }

    /// True if a pod leads, as far as its own labels show.
    pub fn leads(&self, pod: &Pod) -> bool {
        pod.ready && self.is_on(pod)
    }

    /// With another value, the label was set by another client.
    fn may_be_on(&self, pod: &Pod) -> bool {
        pod.ready && (self.is_on(pod) || !pod.labels.contains_key(self.key))
    }
}
impl<'a> Round<'a> {
    pub fn new(label: Label<'a>, pods: Vec<Pod>) -> Self {
        Round {
            label,
            pods,
            held: None,
        }
    }

    /// The Lease was read, or written.
    pub fn read(&mut self, held: Held) {
        self.held = Some(held);
    }

    /// Another client wrote it, or a pod.
    pub fn doubt(&mut self) {
        self.held = None;
    }

    /// A pod was read, or written.
    pub fn learn(&mut self, pod: Pod) {
        self.pods.retain(|known| known.name != pod.name);
        self.pods.push(pod);
    }

    /// A pod is not there any more.
    pub fn gone(&mut self, uid: &str) {
        self.pods.retain(|pod| pod.uid != uid);
        let held = self.held.iter_mut();
        held.for_each(|held| drop(held.former.take_if(|former| former.uid == uid)));
    }

    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// Who carries the label, as the Lease has it.
    pub fn leader(&self) -> Option<&Pod> {
        let holder = self.held.as_ref()?.holder.as_ref()?.among(&self.pods)?;
        self.label.leads(holder).then_some(holder)
    }

    pub fn next(&self) -> LeaderStep {
        let Some(held) = &self.held else {
            return LeaderStep::Read;
        };
        let label = self.label;
        if let Some(chosen) = &held.holder {
            let holder = chosen.among(&self.pods);
            let is_other = |pod: &&Pod| label.is_on(pod) && pod.uid != chosen.uid;
            if let Some(other) = self.pods.iter().find(is_other) {
                return LeaderStep::TakeOff(other.clone());
            }
            match held.former.as_ref().map(|former| (former, former.among(&self.pods))) {
                Some((former, None)) => return LeaderStep::Look(former.clone()),
                Some((_, Some(pod))) if pod.mark != held.epoch => return LeaderStep::TakeOff(pod.clone()),
                _ => {}
            }
            match holder {
                Some(pod) if label.leads(pod) => return LeaderStep::Nothing,
                Some(pod) if label.may_be_on(pod) => return LeaderStep::Put(pod.clone()),
                _ => {}
            }
        }
        let fit = self.pods.iter().filter(|pod| label.may_be_on(pod));
        if let Some(best) = fit.min_by_key(|pod| (!label.is_on(pod), pod.created, &pod.name)) {
            return LeaderStep::Claim(best.clone());
        }
        let carries = self.pods.iter().find(|pod| label.is_on(pod));
        carries.map_or(LeaderStep::Nothing, |pod| LeaderStep::TakeOff(pod.clone()))
    }
}

#[cfg(test)]
mod tests;
