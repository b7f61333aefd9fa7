//! Elects leaders: in each workload that the watch names, one ready pod carries the label. A Lease in the workload's
//! namespace holds the decision. `chartwright_core::leader` decides the next step. No other stage waits for an
//! election.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;

use crate::cluster::discovery::Resource;
use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::cluster::workloads::elect::{self, LeaseName, PodLabeler};
use crate::reconcile::hints::rights;
use crate::reconcile::release::Release;
use crate::reconcile::release::schedule::{RECHECK, RequeueReason};
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::values::name_templates::NameTemplates;
use chartwright_core::digest::KeyUse;
use chartwright_core::identity::ownership::owner_of;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::index::dependencies::ObjectDependency;
use chartwright_core::leader::pod_index::Workload;
use chartwright_core::leader::{Elected, Held, Holder, Label, LeaderStep, Pod, Round};

/// The maximum number of steps in one reconcile. Two changes of leaders with conflicting writes need fewer.
const STEPS: usize = 24;

/// Temporary problems are retried after this.
const SOON: Duration = Duration::from_secs(2);

const RIGHTS: &str = "electing a leader needs the rights to get, list, watch and patch pods, to get, create, update and \
                      delete leases, and to get the workload and replicasets (config/rbac/elect_role.yaml)";

/// A workload in which a leader is elected.
struct ElectionTarget {
    id: ObjectId,
    uid: String,
    place: LeaseName,
}

/// Why a leader can't be elected now.
enum ElectionError {
    Failed(Error),
    /// Only a change of the chart or the watch can help.
    Wrong(String),
    /// Another client owns the Lease. No watch shows when it is deleted.
    Taken(String),
    /// Another operator writes the same Lease.
    Busy,
}

impl From<Error> for ElectionError {
    fn from(error: Error) -> Self {
        ElectionError::Failed(error)
    }
}

/// Elects a leader for each workload that the watch names.
pub(crate) struct LeaderElector<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> LeaderElector<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        LeaderElector { scope }
    }
}

impl LeaderElector<'_> {
    /// Elects a leader for each workload in the watch's `elect`, and removes the leaders of workloads that the watch no
    /// longer names.
    pub(crate) async fn elect(&mut self, release: &mut Release) {
        // While a release is installed, members of later waves may wait for the leader.
        if release.stored.unread || release.record.entries.is_empty() {
            return;
        }
        let former = std::mem::take(&mut release.record.elected);
        let mut all = Vec::new();
        if !self.scope.unit.watch.elect.is_empty() || !former.is_empty() {
            self.elect_all(release, &former, &mut all).await;
        }
        release.record.elected = all;
    }

    /// `former`: the leaders in the record, `all`: the leaders to record.
    async fn elect_all(&self, release: &mut Release, former: &[Elected], all: &mut Vec<Elected>) {
        let wanted = self.wanted(former);
        let seats: Vec<Option<ElectionTarget>> = wanted.iter().map(|elected| self.seat(elected)).collect();
        let workloads = seats.iter().flatten().map(ElectionTarget::workload).collect();
        self.scope.context.follow_pods(&self.scope.owner.set, workloads);
        let is_wanted = |former: &Elected| wanted.iter().any(|one| one.key() == former.key());
        for former in former.iter().filter(|former| !is_wanted(former)) {
            all.extend(self.retire(release, former, &wanted).await);
        }
        for (mut elected, seat) in wanted.into_iter().zip(seats) {
            match seat {
                Some(seat) => self.lead(release, &mut elected, &seat).await,
                None if elected.name.is_empty() || is_recorded(release, &elected) || release.record.revision == 0 => {}
                None => elected.settle(None, "it is no member of this release"),
            }
            all.push(elected);
        }
    }

    /// Returns the elections of the watch, each with its leader in the record.
    fn wanted(&self, former: &[Elected]) -> Vec<Elected> {
        let texts = NameTemplates::new(self.scope.unit, &self.scope.written);
        let wanted = self.scope.unit.watch.elect.iter().map(|elect| {
            let name = texts.text("elect", &elect.name);
            let mut wanted = Elected {
                kind: elect.kind.to_owned(),
                label: elect.label.clone(),
                value: elect.value.clone(),
                ..Elected::default()
            };
            match name {
                Ok(name) => wanted.name = name.trim().to_owned(),
                Err(error) => wanted.message = Some(format!("the name {:?}: {error}", elect.name)),
            }
            let known = former.iter().find(|former| former.key() == wanted.key());
            known.cloned().unwrap_or(wanted)
        });
        wanted.collect()
    }

    /// Returns the live workload of an election, if it exists.
    fn seat(&self, elected: &Elected) -> Option<ElectionTarget> {
        let kind = GroupKind::new("apps", &elected.kind);
        let members = self.scope.context.members();
        members.of_set(&self.scope.owner.set).into_iter().find_map(|id| {
            let live = members
                .get(&id)
                .filter(|_| id.group_kind == kind && id.name == elected.name)?;
            let is_own = owner_of(&id, live)?.uid == self.scope.written.uid && !live.deleting;
            let place = LeaseName::of(&id.namespace, &elected.kind, &id.name);
            let uid = live.uid.clone();
            is_own.then_some(ElectionTarget { id, uid, place })
        })
    }

    /// Elects a leader among the pods that a watch shows, and reports it.
    async fn lead(&self, release: &mut Release, elected: &mut Elected, seat: &ElectionTarget) {
        elected.namespace.clone_from(&seat.id.namespace);
        let Some(mut pods) = self.scope.context.pod_index().pods(&seat.workload()) else {
            return self.warn_unwatched_pods(release, elected).await;
        };
        pods.retain(|pod| {
            release
                .observed
                .elections
                .is_of(&seat.id.group_kind.kind, &seat.uid, pod)
                != Some(false)
        });
        let Elected { label: key, value, .. } = elected.clone();
        let (key, value) = (key.as_str(), value.as_str());
        let label = Label { key, value };
        let mut round = Round::new(label, pods);
        // Send no request while the record matches the pods.
        round.read(elected.held());
        let before = elected.clone();
        if round.next() != LeaderStep::Nothing {
            round.doubt();
            match self.vote(release, seat, &mut round, label).await {
                Ok(lease) => {
                    elected.since = lease.as_ref().and_then(elect::since);
                    elected.transitions = lease.as_ref().map(elect::transitions).unwrap_or_default();
                }
                Err(hindrance) => {
                    let leader = round
                        .pods()
                        .iter()
                        .find(|pod| pod.uid == before.uid && label.leads(pod));
                    if leader.is_none() {
                        elected.settle(None, "");
                    }
                    return self.hindered(release, elected, hindrance).await;
                }
            }
        }
        elected.settle(round.leader(), &vacancy(round.pods(), label));
        if let Some(pod) = elected.pod.as_ref().filter(|_| elected.uid != before.uid) {
            let after = before.pod.map(|former| format!(", after {former}")).unwrap_or_default();
            let workload = format!("{} {}", elected.kind, elected.name);
            let note = format!("{workload}: {pod} is leader ({key}={value}){after}");
            self.scope.inform("LeaderElected", &note).await;
        }
    }

    /// The pods can't be watched, for long.
    async fn warn_unwatched_pods(&self, release: &mut Release, elected: &mut Elected) {
        let watch = ObjectDependency::watch(elect::pod_kind(), &elected.namespace);
        let unseen = self.scope.context.dependencies().unseen(&watch).cloned();
        if let Some((_, error)) = unseen {
            let note = format!("its pods can't be watched: {error}; {RIGHTS}");
            self.warn_of(release, elected, note).await;
        }
    }

    /// Carries out steps until the election needs none. Returns the Lease.
    async fn vote(
        &self,
        release: &mut Release,
        seat: &ElectionTarget,
        round: &mut Round<'_>,
        label: Label<'_>,
    ) -> Result<Option<Lease>, ElectionError> {
        self.check_template(seat, label).await?;
        self.keep_own(release, seat, round).await?;
        let labels = self.scope.context.pod_index().labels.clone();
        let resource = self.pods()?;
        let client = &self.scope.context.client;
        let pods = PodLabeler {
            client,
            resource: &resource,
            namespace: &seat.id.namespace,
            labels: &labels,
        };
        let mut lease: Option<Lease> = None;
        for _ in 0..STEPS {
            let (asked, answer) = match round.next() {
                LeaderStep::Nothing => return Ok(lease),
                LeaderStep::Read => {
                    lease = elect::read(client, &seat.place).await?;
                    round.read(self.believed(seat, lease.as_ref())?);
                    continue;
                }
                LeaderStep::Claim(pod) => {
                    let holder = Holder::of(&pod);
                    let mark = self.lease_mark(&seat.place);
                    match elect::claim(client, &seat.place, lease.take(), &holder, seat.reference(), mark).await {
                        Ok(claimed) => {
                            let kind = &self.scope.unit.group_kind;
                            self.scope
                                .context
                                .metrics
                                .release_counters
                                .elected(&kind.group, &kind.kind);
                            round.read(elect::held(Some(&claimed)));
                            lease = Some(claimed);
                        }
                        Err(Error::Conflict(_) | Error::NotFound(_)) => round.doubt(),
                        Err(error) => return Err(error.into()),
                    }
                    continue;
                }
                LeaderStep::Look(holder) => (holder.clone(), pods.read(&holder.name).await),
                LeaderStep::TakeOff(pod) => {
                    let mark = elect::held(lease.as_ref()).epoch;
                    (Holder::of(&pod), pods.remove_label(&pod, label, &mark).await.map(Some))
                }
                LeaderStep::Put(pod) => (Holder::of(&pod), pods.add_label(&pod, label).await.map(Some)),
            };
            let found = match answer {
                Err(Error::Conflict(_)) => {
                    round.doubt();
                    pods.read(&asked.name).await?
                }
                Err(error) if error.is_not_found() => None,
                answer => answer?,
            };
            // A Lease may name any pod: only the workload's own are written.
            let is_known = |pod: &Pod| round.pods().iter().any(|known| known.uid == pod.uid);
            let is_new = found.as_ref().is_some_and(|pod| !is_known(pod));
            self.take_in(seat, round, &asked, found);
            if is_new {
                self.keep_own(release, seat, round).await?;
            }
        }
        Err(ElectionError::Busy)
    }

    /// Passes the live state of a pod to the election.
    fn take_in(&self, seat: &ElectionTarget, round: &mut Round<'_>, asked: &Holder, found: Option<Pod>) {
        match found.filter(|pod| pod.uid == asked.uid) {
            Some(pod) => {
                self.scope.context.pod_index().learn(&seat.id.namespace, &pod);
                round.learn(pod);
            }
            None => round.gone(&asked.uid),
        }
    }

    /// Refuses a label that the pod template sets or that the workload's selector uses.
    async fn check_template(&self, seat: &ElectionTarget, label: Label<'_>) -> Result<(), ElectionError> {
        let snapshot = self.scope.context.discovery.snapshot();
        let Some(resource) = snapshot.preferred(&seat.id.group_kind) else {
            return Err(ElectionError::Busy);
        };
        let found = objects::read(&self.scope.context.client, resource, &seat.id).await?;
        let object = found.map(|(_, object)| object).unwrap_or_default();
        let places = ["/spec/selector/matchLabels", "/spec/template/metadata/labels"];
        let labels = places
            .iter()
            .filter_map(|place| object.pointer(place))
            .find(|labels| labels.get(label.key).is_some());
        match labels.map(Value::to_string) {
            Some(_) => Err(ElectionError::Wrong(format!(
                "its pods are made with the label {}: a leader's label is one that no template has",
                label.key
            ))),
            None => Ok(()),
        }
    }

    /// Removes pods whose ReplicaSet does not belong to the Deployment. The name of a ReplicaSet proves nothing.
    async fn keep_own(
        &self,
        release: &mut Release,
        seat: &ElectionTarget,
        round: &mut Round<'_>,
    ) -> Result<(), ElectionError> {
        let kind = GroupKind::new("apps", "ReplicaSet");
        let snapshot = self.scope.context.discovery.snapshot();
        let elections = &mut release.observed.elections;
        for pod in round.pods().to_vec() {
            let [_, name, uid] = &pod.controller;
            if elections.is_of(&seat.id.group_kind.kind, &seat.uid, &pod).is_none()
                && let Some(resource) = snapshot.preferred(&kind)
            {
                let id = ObjectId::new(kind.clone(), &*seat.id.namespace, &**name);
                let found = objects::read_live(&self.scope.context.client, resource, &id).await?;
                let controller = found
                    .filter(|found| found.uid == *uid)
                    .and_then(|found| found.ownership.controller);
                let controller = controller.map(|(_, controller)| controller).unwrap_or_default();
                elections.replica_sets.insert(uid.clone(), controller);
            }
            if elections.is_of(&seat.id.group_kind.kind, &seat.uid, &pod) != Some(true) {
                round.gone(&pod.uid);
            }
        }
        let used: Vec<String> = round.pods().iter().map(|pod| pod.controller[2].clone()).collect();
        elections
            .replica_sets
            .retain(|uid, controller| *controller != seat.uid || used.contains(uid));
        Ok(())
    }

    fn pods(&self) -> Result<Resource, ElectionError> {
        let snapshot = self.scope.context.discovery.snapshot();
        snapshot
            .preferred(&elect::pod_kind())
            .cloned()
            .ok_or(ElectionError::Busy)
    }

    /// Removes the label from the pod of a dropped election. Returns `Some` if work is left.
    async fn retire(&self, release: &mut Release, former: &Elected, wanted: &[Elected]) -> Option<Elected> {
        let mut left = former.clone();
        let is_used = wanted
            .iter()
            .any(|one| (&one.kind, &one.name) == (&former.kind, &former.name));
        match self.take_back(release, former, is_used).await {
            Ok(()) => None,
            Err(hindrance) => {
                self.hindered(release, &mut left, hindrance).await;
                Some(left)
            }
        }
    }

    /// Removes the label and Lease of a former election. The record alone is no proof: only objects of this release are
    /// changed.
    async fn take_back(&self, release: &mut Release, former: &Elected, keep_lease: bool) -> Result<(), ElectionError> {
        let seat = self.seat(former).filter(|seat| seat.id.namespace == former.namespace);
        let Some(seat) = seat else {
            let kind = GroupKind::new("apps", &*former.kind);
            let is_seen = self.scope.context.members().is_synced(&kind, &former.namespace);
            return if is_seen || !is_recorded(release, former) {
                Ok(())
            } else {
                Err(ElectionError::Busy)
            };
        };
        let client = &self.scope.context.client;
        let label = Label {
            key: &former.label,
            value: &former.value,
        };
        let resource = self.pods()?;
        let pods = PodLabeler {
            client,
            resource: &resource,
            namespace: &seat.id.namespace,
            labels: &[former.label.clone()].into(),
        };
        if let Some(name) = &former.pod
            && let Some(pod) = pods
                .read(name)
                .await?
                .filter(|pod| pod.uid == former.uid && label.is_on(pod))
        {
            let mut round = Round::new(label, vec![pod]);
            self.keep_own(release, &seat, &mut round).await?;
            for pod in round.pods() {
                pods.remove_label(pod, label, &pod.mark).await?;
            }
        }
        if !keep_lease
            && let Some(lease) = elect::read(client, &seat.place).await?
            && self.is_own_lease(&seat.place, &lease)
        {
            elect::remove(client, &seat.place, lease).await?;
        }
        Ok(())
    }

    /// Returns the signed mark of the Lease of a workload. Only the operator can create it.
    fn lease_mark(&self, place: &LeaseName) -> String {
        self.scope.context.keys.sign(KeyUse::Mark, &self.parts_of(place))
    }

    fn is_own_lease(&self, place: &LeaseName, lease: &Lease) -> bool {
        let mark = elect::mark_of(lease);
        self.scope
            .context
            .keys
            .is_signed(KeyUse::Mark, &self.parts_of(place), &mark)
    }

    fn parts_of<'p>(&'p self, place: &'p LeaseName) -> [&'p [u8]; 4] {
        ["Lease", &self.scope.written.uid, &place.namespace, &place.name].map(str::as_bytes)
    }

    /// Reads the decision in a Lease if the operator wrote it. A Lease with an invalid mark of an operator is
    /// overwritten: it is forged, signed with a lost key, or of an earlier custom resource, and would block the
    /// election.
    fn believed(&self, seat: &ElectionTarget, lease: Option<&Lease>) -> Result<Held, ElectionError> {
        let held = elect::held(lease);
        match lease {
            Some(lease) if !self.is_own_lease(&seat.place, lease) => {
                if elect::is_labelled_own(lease, &seat.uid) {
                    Ok(Held {
                        epoch: held.epoch,
                        ..Held::default()
                    })
                } else {
                    Err(ElectionError::Taken(format!(
                        "Lease {}/{} is there and is not the operator's, which reserves such names: delete it",
                        seat.place.namespace, seat.place.name
                    )))
                }
            }
            _ => Ok(held),
        }
    }

    /// Reports why the leader is unknown, and schedules a retry.
    async fn hindered(&self, release: &mut Release, elected: &mut Elected, hindrance: ElectionError) {
        let note = match hindrance {
            // The cause is a member, and its watch event starts the next reconcile.
            ElectionError::Wrong(why) => why,
            ElectionError::Taken(why) => {
                release.schedule.at(RECHECK, RequeueReason::Election);
                why
            }
            ElectionError::Busy | ElectionError::Failed(Error::Conflict(_)) => {
                return release.schedule.at(SOON, RequeueReason::Election);
            }
            ElectionError::Failed(error) => {
                release.schedule.at(
                    if error.is_transient() { SOON } else { RECHECK },
                    RequeueReason::Election,
                );
                format!("{error}{}", rights(&error, RIGHTS))
            }
        };
        self.warn_of(release, elected, note).await;
    }

    async fn warn_of(&self, release: &mut Release, elected: &mut Elected, note: String) {
        let text = format!("{} {}: no leader can be elected: {note}", elected.kind, elected.name);
        self.scope.warn_once(release, "ElectionFailed", text).await;
        elected.message = Some(note);
    }
}

impl ElectionTarget {
    fn workload(&self) -> Workload {
        Workload {
            namespace: self.id.namespace.clone(),
            kind: self.id.group_kind.kind.clone(),
            name: self.id.name.clone(),
        }
    }

    fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: self.id.group_kind.kind.clone(),
            name: self.id.name.clone(),
            uid: self.uid.clone(),
            block_owner_deletion: Some(false),
            controller: None,
        }
    }
}

/// Why there is no leader.
fn vacancy(pods: &[Pod], label: Label<'_>) -> String {
    match pods.iter().find(|pod| pod.ready && pod.labels.contains_key(label.key)) {
        Some(pod) => format!("{} has a label {} of another client", pod.name, label.key),
        None => "none of its pods is ready".to_owned(),
    }
}

/// True while a workload belongs to the release, though it may not be there.
fn is_recorded(release: &Release, elected: &Elected) -> bool {
    let kind = GroupKind::new("apps", &elected.kind);
    let id = ObjectId::new(kind, &*elected.namespace, &*elected.name);
    release.record.entry(&id).is_some()
}
