//! The index of live members, from watch events and answers to our own requests. It contains no client: the watches feed it.
//!
//! A scope (a kind, cluster-wide or in one namespace) is *wanted* while a release needs it. The controller starts a watch for each
//! wanted scope and reports here when it is synced. Invariant: only a synced scope can show that an object is gone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::identity::ownership::owner_of;
use crate::identity::{GroupKind, ObjectId};
use crate::index::live::Live;
use crate::index::watch_refs::WatchRefs;

/// What one watch covers: a kind, in one namespace or (`None`) in all namespaces.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Scope {
    pub group_kind: GroupKind,
    pub namespace: Option<String>,
}

/// The index. One for all watches of a process, behind a lock that is never held across I/O.
#[derive(Default)]
pub struct Members {
    /// Boxed: a hash table has unused slots.
    objects: HashMap<Arc<ObjectId>, Box<Live>>,
    /// What carries the label of a set, in order. Most sets are small: a tree would keep ten times the room they take.
    sets: HashMap<String, Vec<Arc<ObjectId>>>,
    wanted: BTreeSet<Scope>,
    needs: WatchRefs,
    synced: HashSet<Scope>,
    failing: HashMap<Scope, Failing>,
    /// UIDs of Jobs that were complete when they went, by set, until its release has taken note.
    finished: HashMap<String, HashMap<ObjectId, String>>,
    /// What was learned of otherwise while a list of a scope is under way.
    lists: HashMap<Scope, HashSet<ObjectId>>,
    /// What requests that are under way ask about.
    pending: HashMap<ObjectId, PendingRequest>,
    /// Sets that hear of every change of their members, not only of those that matter to drift and health.
    attentive: HashSet<String>,
}

/// A watch that does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub since: Timestamp,
    /// Why, in the API server's words.
    pub error: String,
    /// It has lasted so long that releases report it.
    reported: bool,
}

/// What must be known of an object when a request about it is answered.
#[derive(Default)]
struct PendingRequest {
    requests: usize,
    /// The UID and version in which it was last seen, if it went since.
    gone: Option<(String, String)>,
}
impl Scope {
    pub fn everywhere(group_kind: &GroupKind) -> Self {
        Scope {
            group_kind: group_kind.clone(),
            namespace: None,
        }
    }

    /// Of one namespace; of all of them if it is empty.
    pub fn of(group_kind: &GroupKind, namespace: &str) -> Self {
        Scope {
            group_kind: group_kind.clone(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        }
    }

    pub(crate) fn covers(&self, group_kind: &GroupKind, namespace: &str) -> bool {
        self.group_kind == *group_kind && self.namespace.as_ref().is_none_or(|covered| covered == namespace)
    }
}
impl Members {
    /// A set needs these scopes, besides those that it needs already. True if nothing covered one of them before.
    pub fn need(&mut self, set: &str, scopes: impl IntoIterator<Item = Scope>) -> bool {
        let mut news = false;
        for scope in scopes {
            self.needs.add(set, scope.clone());
            let is_covered = self.wanted.contains(&Scope::everywhere(&scope.group_kind));
            news |= !is_covered && self.wanted.insert(scope);
        }
        news
    }

    /// From now on a set hears of every change of its members.
    pub fn attend(&mut self, set: &str) {
        if !self.attentive.contains(set) {
            self.attentive.insert(set.to_owned());
        }
    }

    /// It hears of what matters only, again.
    pub fn ignore(&mut self, set: &str) {
        self.attentive.remove(set);
    }

    /// A set needs these scopes, and no others any more.
    pub fn need_only(&mut self, set: &str, scopes: BTreeSet<Scope>) {
        if scopes.is_empty() {
            self.attentive.remove(set);
        }
        self.needs.replace(set, scopes);
    }

    /// The scopes that are wanted and that no set needs.
    pub fn unneeded(&mut self) -> BTreeSet<Scope> {
        self.needs.unneeded(&self.wanted)
    }

    /// A scope isn't wanted any more; what its watch showed is known until that has ended.
    pub fn release(&mut self, scope: &Scope) {
        self.wanted.remove(scope);
    }

    /// The watch of a scope has ended: nothing is known of it.
    pub fn lose(&mut self, scope: &Scope) {
        self.synced.remove(scope);
        self.failing.remove(scope);
        self.retain(scope, &HashSet::new());
    }

    /// The scopes that should be watched.
    pub fn wanted(&self) -> impl Iterator<Item = &Scope> {
        self.wanted.iter()
    }

    /// True if what is not in the index does not exist, as far as this namespace of this kind goes.
    pub fn is_synced(&self, group_kind: &GroupKind, namespace: &str) -> bool {
        let is_synced = |scope| self.synced.contains(&scope);
        is_synced(Scope::everywhere(group_kind)) || is_synced(Scope::of(group_kind, namespace))
    }

    /// True if what is known of this namespace of this kind is all that can be known for now: it is synced, or its watch
    /// fails.
    pub fn is_settled(&self, group_kind: &GroupKind, namespace: &str) -> bool {
        let mut failing = self.failing.keys();
        self.is_synced(group_kind, namespace) || failing.any(|scope| scope.covers(group_kind, namespace))
    }

    /// Scopes that are wanted and not synced, with the error of their watch if it has one.
    pub fn unsynced(&self) -> Vec<(Scope, Option<String>)> {
        let missing = self.wanted.iter().filter(|scope| !self.synced.contains(scope));
        let error = |scope| Some(self.failing.get(scope)?.error.clone());
        missing.map(|scope| (scope.clone(), error(scope))).collect()
    }

    /// Why the watch of a kind does not work at present, if so.
    pub fn failure(&self, group_kind: &GroupKind) -> Option<&str> {
        self.failing
            .iter()
            .find(|(scope, _)| scope.group_kind == *group_kind)
            .map(|(_, failing)| failing.error.as_str())
    }

    /// Since when the state of a member is unknown, and why, if releases should report it.
    pub fn unseen(&self, id: &ObjectId) -> Option<&Failing> {
        if self.is_synced(&id.group_kind, &id.namespace) {
            return None;
        }
        let failing = self.failing.get(&Scope::everywhere(&id.group_kind));
        let failing = failing.or_else(|| self.failing.get(&Scope::of(&id.group_kind, &id.namespace)));
        failing.filter(|failing| failing.reported)
    }

    /// How many watches of kinds of this name do not work.
    pub fn count_failing(&self, kind: &str) -> usize {
        let scopes = self.failing.keys();
        scopes.filter(|scope| scope.group_kind.kind == kind).count()
    }

    /// What is not in the index does not exist. Returns the sets that must hear of it.
    pub fn set_synced(&mut self, scope: &Scope) -> Vec<String> {
        self.synced.insert(scope.clone());
        match self.failing.remove(scope) {
            Some(failing) if failing.reported => self.sets_in(scope),
            _ => Vec::new(),
        }
    }

    /// The watch of a scope broke: what it shows may be old.
    pub fn set_failing(&mut self, scope: &Scope, error: String, now: Timestamp) {
        self.synced.remove(scope);
        let known = self.failing.remove(scope);
        let (since, reported) = known.map_or((now, false), |failing| (failing.since, failing.reported));
        self.failing.insert(scope.clone(), Failing { since, error, reported });
    }

    /// It has been broken for long. Returns the sets that must hear of it: none if they did before.
    pub fn report_failing(&mut self, scope: &Scope) -> Vec<String> {
        match self.failing.get_mut(scope) {
            Some(failing) if !failing.reported => failing.reported = true,
            _ => return Vec::new(),
        }
        self.sets_in(scope)
    }

    fn sets_in(&self, scope: &Scope) -> Vec<String> {
        let objects = self
            .objects
            .iter()
            .filter(|(id, _)| scope.covers(&id.group_kind, &id.namespace));
        let sets: BTreeSet<&String> = objects
            .filter_map(|(_, live)| live.ownership.part_of.as_ref())
            .collect();
        sets.into_iter().cloned().collect()
    }

    /// The kind is gone from the API server: nothing of it exists, and nothing is to be watched. Returns the sets that
    /// must hear of it, as [`Members::retain`].
    pub fn forget(&mut self, scope: &Scope) -> Vec<String> {
        self.wanted.remove(scope);
        self.synced.remove(scope);
        self.failing.remove(scope);
        self.retain(scope, &HashSet::new())
    }

    pub fn get(&self, id: &ObjectId) -> Option<&Live> {
        self.objects.get(id).map(Box::as_ref)
    }

    /// The live objects of these that are known, each with what is known of it.
    pub fn known(&self, ids: impl IntoIterator<Item = ObjectId>) -> HashMap<ObjectId, Live> {
        ids.into_iter()
            .filter_map(|id| self.get(&id).cloned().map(|live| (id, live)))
            .collect()
    }

    /// The live objects that carry the label of a set.
    pub fn of_set(&self, set: &str) -> Vec<ObjectId> {
        self.sets
            .get(set)
            .map(|ids| ids.iter().map(|id| ObjectId::clone(id)).collect())
            .unwrap_or_default()
    }

    /// The live members of unknown sets, in order: objects that deleted custom resources left behind.
    pub fn leftovers(&self, is_known: impl Fn(&str) -> bool) -> Vec<ObjectId> {
        let unknown = self.sets.iter().filter(|(set, _)| !is_known(set));
        let ids = unknown.flat_map(|(_, ids)| ids);
        let is_member = |id: &&Arc<ObjectId>| {
            let live = self.objects.get(*id);
            live.is_some_and(|live| !live.deleting && owner_of(id, live).is_some())
        };
        let mut found: Vec<ObjectId> = ids.filter(is_member).map(|id| ObjectId::clone(id)).collect();
        found.sort();
        found
    }

    /// A list of a scope begins.
    pub fn list_starts(&mut self, scope: &Scope) {
        self.lists.insert(scope.clone(), HashSet::new());
    }

    /// Records what a list shows, as [`Members::observe`]. A list shows the state at its request: what was known before it
    /// began can't be newer, even with a higher version, unless etcd went back in time. Then the list is right.
    pub fn listed(&mut self, scope: &Scope, id: &ObjectId, live: Live) -> Vec<String> {
        let learned = self.lists.get(scope).is_none_or(|learned| learned.contains(id));
        if let Some(old) = self.objects.get_mut(id).filter(|_| !learned) {
            // Nothing of it is newer.
            old.resource_version.clear();
        }
        self.learn(id, live)
    }

    /// Takes in what a watch or the answer to a request says. Returns the sets that must hear of it: none if nothing
    /// that matters changed, or if the news is older than what is known.
    pub fn observe(&mut self, id: &ObjectId, live: Live) -> Vec<String> {
        for (_, learned) in self
            .lists
            .iter_mut()
            .filter(|(scope, _)| scope.covers(&id.group_kind, &id.namespace))
        {
            learned.insert(id.clone());
        }
        self.learn(id, live)
    }

    fn learn(&mut self, id: &ObjectId, live: Live) -> Vec<String> {
        if let Some(old) = self.objects.get_mut(id) {
            if old.uid == live.uid && is_older(&live.resource_version, &old.resource_version) {
                return Vec::new();
            }
            if matters_alike(old, &live) {
                let is_news = old.resource_version != live.resource_version;
                let attentive = live
                    .ownership
                    .part_of
                    .iter()
                    .filter(|set| is_news && self.attentive.contains(*set));
                let sets = attentive.cloned().collect();
                **old = live;
                return sets;
            }
        }
        let mut sets = self.remove(id);
        if let Some(gone) = live
            .ownership
            .part_of
            .as_ref()
            .and_then(|set| self.finished.get_mut(set))
        {
            gone.remove(id);
        }
        let id = Arc::new(id.clone());
        if let Some(set) = &live.ownership.part_of {
            let ids = self.sets.entry(set.clone()).or_default();
            if let Err(place) = ids.binary_search(&id) {
                ids.insert(place, id.clone());
            }
            if !sets.contains(set) {
                sets.push(set.clone());
            }
        }
        self.objects.insert(id, Box::new(live));
        sets
    }

    /// A request about this object is under way: a write, or a look.
    pub fn begin_request(&mut self, id: &ObjectId) {
        self.pending.entry(id.clone()).or_default().requests += 1;
    }

    /// The request ended. Its answer is recorded, unless the watch was faster and reported a deletion: no
    /// later event would remove the object again.
    pub fn end_request(&mut self, id: &ObjectId, answer: Option<&Live>) {
        let gone = match self.pending.get_mut(id) {
            Some(pending) if pending.requests > 1 => {
                pending.requests -= 1;
                pending.gone.clone()
            }
            _ => self.pending.remove(id).and_then(|pending| pending.gone),
        };
        let is_over = |live: &Live| {
            gone.as_ref()
                .is_some_and(|(uid, version)| *uid == live.uid && !is_older(version, &live.resource_version))
        };
        if let Some(live) = answer.filter(|live| !is_over(live)) {
            let known = self.get(id);
            self.observe(id, live.clone().with_state_of(known));
        }
    }

    /// After a complete list of a scope: drops what it did not contain. Returns the sets that must hear of it, once for
    /// each object.
    pub fn retain(&mut self, scope: &Scope, seen: &HashSet<ObjectId>) -> Vec<String> {
        self.lists.remove(scope);
        let is_gone = |id: &&Arc<ObjectId>| scope.covers(&id.group_kind, &id.namespace) && !seen.contains(id.as_ref());
        let gone: Vec<Arc<ObjectId>> = self.objects.keys().filter(is_gone).cloned().collect();
        gone.iter().flat_map(|id| self.remove(id)).collect()
    }

    /// Our request to delete an object was accepted: from now on it is terminating, even if its watch has not shown that yet.
    pub fn is_going(&mut self, id: &ObjectId, uid: &str) {
        if let Some(live) = self.objects.get_mut(id).filter(|live| live.uid == uid) {
            live.deleting = true;
        }
    }

    /// True if this very object is a complete Job.
    pub fn is_finished(&self, id: &ObjectId, uid: &str) -> bool {
        let live = self.objects.get(id);
        live.is_some_and(|live| live.uid == uid && live.state.finished)
    }

    /// The Jobs of a set that were complete when they went, with their UIDs, since this was pending last.
    pub fn take_finished(&mut self, set: &str) -> HashMap<ObjectId, String> {
        self.finished.remove(set).unwrap_or_default()
    }

    /// An object is gone, or left the label selector. Returns the sets that must hear of it.
    pub fn remove(&mut self, id: &ObjectId) -> Vec<String> {
        let old = self.objects.remove(id);
        if let Some(job) = old.as_ref().filter(|old| old.state.finished)
            && let Some(set) = &job.ownership.part_of
        {
            let gone = self.finished.entry(set.clone()).or_default();
            gone.insert(id.clone(), job.uid.clone());
        }
        if let (Some(old), Some(pending)) = (&old, self.pending.get_mut(id)) {
            pending.gone = Some((old.uid.clone(), old.resource_version.clone()));
        }
        let Some(set) = old.and_then(|old| old.ownership.part_of) else {
            return Vec::new();
        };
        if let Some(ids) = self.sets.get_mut(&set) {
            if let Ok(place) = ids.binary_search_by(|known| known.as_ref().cmp(id)) {
                ids.remove(place);
            }
            if ids.is_empty() {
                self.sets.remove(&set);
            }
        }
        vec![set]
    }
}

/// Resource versions of one resource are comparable as numbers (KEP-5504); anything else counts as newer.
pub(crate) fn is_older(a: &str, b: &str) -> bool {
    matches!((a.parse::<u64>(), b.parse::<u64>()), (Ok(a), Ok(b)) if a < b)
}

/// True if two states of an object differ only in what no decision reads.
fn matters_alike(old: &Live, new: &Live) -> bool {
    let blank = |live: &Live| {
        let mut live = live.clone();
        live.resource_version.clear();
        live.managers.others = None;
        live
    };
    blank(old) == blank(new)
}

#[cfg(test)]
mod tests;
