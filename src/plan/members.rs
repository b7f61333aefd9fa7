//! The index of live members: what the watches saw last, and what our own requests answered. Pure: the watches feed it.
//!
//! Scopes (a kind, cluster-wide or in one namespace) become *wanted* when a release needs them; the controller starts a
//! watch for each wanted scope and reports here when it is synced. Only what a synced scope doesn't show is gone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::health::Health;
use super::identity::{GroupKind, ObjectId};

/// What is known of a live object. Everything but `health` comes from its metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    pub uid: String,
    pub resource_version: String,
    /// Label `applyset.kubernetes.io/part-of`.
    pub part_of: Option<String>,
    /// Annotation `chartwright.dev/tracking-id`.
    pub tracking: Option<String>,
    /// Annotation `helm.sh/resource-policy: keep`.
    pub keep: bool,
    /// Annotation `chartwright.dev/prune: "true"`: may be pruned although its kind is protected.
    pub prune_allowed: bool,
    /// Annotation `chartwright.dev/reconcile: disabled`: somebody wants it left as it is.
    pub disabled: bool,
    /// Annotation `chartwright.dev/wave`, 0 where there is none.
    pub wave: i32,
    /// Annotation `chartwright.dev/force: "true"`: may be made anew where a field can't be changed.
    pub force: bool,
    /// The autoscaler that owns `spec.replicas` through the subresource `scale`.
    pub scaled_by: Option<String>,
    /// A Job that is complete, and that its TTL will remove.
    pub finished: bool,
    /// Hash of our own managedFields entry; `None` if we own nothing of it.
    pub fingerprint: Option<u64>,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// `Kind/name` of the controller in its ownerReferences, and that owner's UID.
    pub controller: Option<(String, String)>,
    /// The field manager that wrote last, other than ours.
    pub last_writer: Option<String>,
    /// `None` for kinds that are watched as metadata only: there, to exist is to be healthy.
    pub health: Option<Health>,
    /// The label selector of its pods, while it is a workload that isn't well.
    pub pods: Option<Box<str>>,
}

/// What one watch covers: a kind, in one namespace or (`None`) wherever it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Scope {
    pub group_kind: GroupKind,
    pub namespace: Option<String>,
}

/// The index. One for all watches of a process, behind a lock that is never held across I/O.
#[derive(Default)]
pub struct Members {
    objects: HashMap<Arc<ObjectId>, Live>,
    /// What carries the label of a set, in order. Most sets are small: a tree would keep ten times the room they take.
    sets: HashMap<String, Vec<Arc<ObjectId>>>,
    wanted: BTreeSet<Scope>,
    synced: HashSet<Scope>,
    failing: HashMap<Scope, String>,
    /// UIDs of Jobs that were complete when they went, until a release has taken note.
    finished: HashMap<ObjectId, String>,
    /// What requests that are under way ask about.
    asked: HashMap<ObjectId, Asked>,
}

/// What must be known of an object when a request about it is answered.
#[derive(Default)]
struct Asked {
    requests: usize,
    /// The UID and version in which it was last seen, if it went since.
    gone: Option<(String, String)>,
}

// === impl Live ===

impl Live {
    /// Metadata that was read, with what only the whole object tells, as far as that is known.
    fn with_state_of(self, known: Option<&Live>) -> Live {
        match known.filter(|known| known.uid == self.uid) {
            Some(known) if self.health.is_none() => Live {
                health: known.health.clone(),
                pods: known.pods.clone(),
                finished: known.finished,
                ..self
            },
            _ => self,
        }
    }
}

// === impl Members ===

impl Members {
    /// Asks for a watch of this scope. True if nothing covered it before.
    pub fn want(&mut self, scope: Scope) -> bool {
        let everywhere = Scope {
            group_kind: scope.group_kind.clone(),
            namespace: None,
        };
        if self.wanted.contains(&everywhere) {
            return false;
        }
        self.wanted.insert(scope)
    }

    /// The scopes that should be watched.
    pub fn wanted(&self) -> impl Iterator<Item = &Scope> {
        self.wanted.iter()
    }

    /// True if what is not in the index does not exist, as far as this namespace of this kind goes.
    pub fn is_synced(&self, group_kind: &GroupKind, namespace: &str) -> bool {
        let everywhere = Scope {
            group_kind: group_kind.clone(),
            namespace: None,
        };
        if self.synced.contains(&everywhere) {
            return true;
        }
        let scope = Scope {
            group_kind: group_kind.clone(),
            namespace: Some(namespace.to_owned()),
        };
        !namespace.is_empty() && self.synced.contains(&scope)
    }

    /// Scopes that are wanted and not synced, with the error of their watch if it has one.
    pub fn unsynced(&self) -> Vec<(Scope, Option<String>)> {
        let missing = self.wanted.iter().filter(|scope| !self.synced.contains(scope));
        missing
            .map(|scope| (scope.clone(), self.failing.get(scope).cloned()))
            .collect()
    }

    /// Why the watch of a kind does not work at present, if so.
    pub fn failure(&self, group_kind: &GroupKind) -> Option<&str> {
        self.failing
            .iter()
            .find(|(scope, _)| scope.group_kind == *group_kind)
            .map(|(_, error)| error.as_str())
    }

    pub fn set_synced(&mut self, scope: &Scope) {
        self.synced.insert(scope.clone());
        self.failing.remove(scope);
    }

    /// The watch of a scope broke: what it shows may be old.
    pub fn set_failing(&mut self, scope: &Scope, error: String) {
        self.synced.remove(scope);
        self.failing.insert(scope.clone(), error);
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
        self.objects.get(id)
    }

    /// The live objects of these that are known, each with what is known of it.
    pub fn known(&self, ids: impl IntoIterator<Item = ObjectId>) -> HashMap<ObjectId, Live> {
        ids.into_iter()
            .filter_map(|id| self.objects.get(&id).cloned().map(|live| (id, live)))
            .collect()
    }

    /// The live objects that carry the label of a set.
    pub fn of_set(&self, set: &str) -> Vec<ObjectId> {
        self.sets
            .get(set)
            .map(|ids| ids.iter().map(|id| ObjectId::clone(id)).collect())
            .unwrap_or_default()
    }

    /// Takes in what a watch or the answer to a request says. Returns the sets that must hear of it: none if nothing
    /// that matters changed, or if the news is older than what is known.
    pub fn observe(&mut self, id: &ObjectId, live: Live) -> Vec<String> {
        if let Some(old) = self.objects.get_mut(id) {
            if old.uid == live.uid && is_older(&live.resource_version, &old.resource_version) {
                return Vec::new();
            }
            if matters_alike(old, &live) {
                *old = live;
                return Vec::new();
            }
        }
        let mut sets = self.remove(id);
        self.finished.remove(id);
        let id = Arc::new(id.clone());
        if let Some(set) = &live.part_of {
            let ids = self.sets.entry(set.clone()).or_default();
            if let Err(place) = ids.binary_search(&id) {
                ids.insert(place, id.clone());
            }
            if !sets.contains(set) {
                sets.push(set.clone());
            }
        }
        self.objects.insert(id, live);
        sets
    }

    /// A request about this object is under way: a write, or a look.
    pub fn begin_request(&mut self, id: &ObjectId) {
        self.asked.entry(id.clone()).or_default().requests += 1;
    }

    /// It is over. What it answered is known at once, unless the watch was faster and told that this is gone already: no
    /// other event would ever take it out again.
    pub fn end_request(&mut self, id: &ObjectId, answer: Option<&Live>) {
        let gone = match self.asked.get_mut(id) {
            Some(asked) if asked.requests > 1 => {
                asked.requests -= 1;
                asked.gone.clone()
            }
            _ => self.asked.remove(id).and_then(|asked| asked.gone),
        };
        let is_over = |live: &Live| {
            gone.as_ref()
                .is_some_and(|(uid, version)| *uid == live.uid && !is_older(version, &live.resource_version))
        };
        if let Some(live) = answer.filter(|live| !is_over(live)) {
            let known = self.objects.get(id);
            self.observe(id, live.clone().with_state_of(known));
        }
    }

    /// After a complete list of a scope: drops what it did not contain. Returns the sets that must hear of it, once for
    /// each object.
    pub fn retain(&mut self, scope: &Scope, seen: &HashSet<ObjectId>) -> Vec<String> {
        let gone = self.missing_from(scope, seen);
        gone.iter().flat_map(|id| self.remove(id)).collect()
    }

    fn missing_from(&self, scope: &Scope, seen: &HashSet<ObjectId>) -> Vec<ObjectId> {
        self.objects
            .keys()
            .filter(|id| covers(scope, id) && !seen.contains(id.as_ref()))
            .map(|id| ObjectId::clone(id))
            .collect()
    }

    /// Our request to delete an object was accepted: from now on it is going, whatever its watch has told so far.
    pub fn is_going(&mut self, id: &ObjectId, uid: &str) {
        if let Some(live) = self.objects.get_mut(id).filter(|live| live.uid == uid) {
            live.deleting = true;
        }
    }

    /// True if this very object was a complete Job when it was last seen, though it may be gone now.
    pub fn has_finished(&self, id: &ObjectId, uid: &str) -> bool {
        self.finished.get(id).is_some_and(|known| known == uid)
            || self
                .objects
                .get(id)
                .is_some_and(|live| live.uid == uid && live.finished)
    }

    /// An object is gone, or left the label selector. Returns the sets that must hear of it.
    pub fn remove(&mut self, id: &ObjectId) -> Vec<String> {
        let old = self.objects.remove(id);
        if let Some(job) = old.as_ref().filter(|old| old.finished) {
            self.finished.insert(id.clone(), job.uid.clone());
        }
        if let (Some(old), Some(asked)) = (&old, self.asked.get_mut(id)) {
            asked.gone = Some((old.uid.clone(), old.resource_version.clone()));
        }
        let Some(set) = old.and_then(|old| old.part_of) else {
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

fn covers(scope: &Scope, id: &ObjectId) -> bool {
    scope.group_kind == id.group_kind
        && scope
            .namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == id.namespace)
}

/// Resource versions of one resource are comparable as numbers (KEP-5504); anything else counts as newer.
fn is_older(a: &str, b: &str) -> bool {
    matches!((a.parse::<u64>(), b.parse::<u64>()), (Ok(a), Ok(b)) if a < b)
}

/// True if two states of an object differ only in what no decision reads.
fn matters_alike(old: &Live, new: &Live) -> bool {
    let blank = |live: &Live| Live {
        resource_version: String::new(),
        last_writer: None,
        ..live.clone()
    };
    blank(old) == blank(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::health::Status;

    fn id(name: &str) -> ObjectId {
        ObjectId::new(GroupKind::new("", "ConfigMap"), "shop", name)
    }

    fn live(version: &str, set: Option<&str>, fingerprint: u64) -> Live {
        Live {
            uid: "u".into(),
            resource_version: version.into(),
            part_of: set.map(str::to_owned),
            fingerprint: Some(fingerprint),
            ..Live::default()
        }
    }

    #[test]
    fn only_news_that_matters_reaches_a_release() {
        let mut members = Members::default();
        assert_eq!(
            members.observe(&id("a"), live("5", Some("s"), 1)),
            ["s"],
            "a new object"
        );
        assert!(
            members.observe(&id("a"), live("6", Some("s"), 1)).is_empty(),
            "only the version moved"
        );
        assert!(
            members.observe(&id("a"), live("4", Some("s"), 9)).is_empty(),
            "older than what our write answered"
        );
        assert_eq!(
            members.observe(&id("a"), live("10", Some("s"), 2)),
            ["s"],
            "10 is newer than 6; a field was taken"
        );
        assert_eq!(
            members.observe(&id("a"), live("11", Some("t"), 2)),
            ["s", "t"],
            "moved to another set"
        );
        assert_eq!(members.of_set("s"), []);
        assert_eq!(members.remove(&id("a")), ["t"]);
        assert!(members.remove(&id("a")).is_empty());
    }

    #[test]
    fn an_answer_does_not_bring_back_what_its_watch_has_seen_go() {
        let answer = live("5", Some("s"), 1);
        let later = live("7", Some("s"), 1);
        for (name, seen, answered, stays) in [
            ("nothing else happened", vec![], &answer, true),
            ("it came and went", vec![Some("5"), None], &answer, false),
            (
                "it came, was changed and went",
                vec![Some("5"), Some("6"), None],
                &answer,
                false,
            ),
            (
                "its former state went: its labels were taken off",
                vec![Some("6"), None],
                &later,
                true,
            ),
            (
                "it came, went and was labelled again",
                vec![Some("5"), None, Some("6")],
                &answer,
                true,
            ),
        ] {
            let mut members = Members::default();
            members.begin_request(&id("a"));
            for version in seen {
                match version {
                    Some(version) => drop(members.observe(&id("a"), live(version, Some("s"), 1))),
                    None => drop(members.remove(&id("a"))),
                }
            }
            members.end_request(&id("a"), Some(answered));
            assert_eq!(members.get(&id("a")).is_some(), stays, "{name}");
            assert!(members.asked.is_empty());
        }
        let mut members = Members::default();
        members.observe(&id("a"), answer.clone());
        members.begin_request(&id("a"));
        members.remove(&id("a"));
        members.end_request(&id("a"), None);
        assert!(members.get(&id("a")).is_none(), "a request that failed tells nothing");
        let another = Live {
            uid: "other".into(),
            ..answer
        };
        members.begin_request(&id("a"));
        members.end_request(&id("a"), Some(&another));
        assert_eq!(members.get(&id("a")), Some(&another));
    }

    #[test]
    fn another_request_does_not_hide_what_went_during_the_first() {
        let mut members = Members::default();
        members.observe(&id("a"), live("5", Some("s"), 1));
        members.begin_request(&id("a"));
        members.begin_request(&id("a"));
        members.remove(&id("a"));
        members.begin_request(&id("a"));
        for answer in [None, Some(live("5", Some("s"), 1)), Some(live("4", Some("s"), 1))] {
            members.end_request(&id("a"), answer.as_ref());
            assert!(members.get(&id("a")).is_none(), "{answer:?}");
        }
        assert!(members.asked.is_empty());
    }

    #[test]
    fn a_look_at_the_metadata_forgets_nothing_of_the_same_object() {
        let state = |status, message: &str| Live {
            health: Some(Health {
                status,
                message: message.into(),
            }),
            pods: Some("app=web".into()),
            finished: true,
            ..live("1", None, 1)
        };
        let known = state(Status::InProgress, "0 of 1");
        let ask = |known: &Live, told: Option<Live>, answer: Live| {
            let mut members = Members::default();
            members.observe(&id("a"), known.clone());
            members.begin_request(&id("a"));
            if let Some(live) = told {
                members.observe(&id("a"), live);
            }
            members.end_request(&id("a"), Some(&answer));
            members.get(&id("a")).cloned()
        };
        let expected = Live {
            part_of: Some("s".into()),
            resource_version: "2".into(),
            fingerprint: Some(9),
            ..known.clone()
        };
        assert_eq!(ask(&known, None, live("2", Some("s"), 9)), Some(expected));
        let well = Live {
            resource_version: "2".into(),
            ..state(Status::Current, "")
        };
        assert_eq!(
            ask(&known, Some(well.clone()), live("2", None, 1)),
            Some(well.clone()),
            "the watch told more of it meanwhile"
        );
        assert_eq!(ask(&known, None, well.clone()), Some(well), "the whole object was read");
        let another = Live {
            uid: "other".into(),
            ..live("2", None, 1)
        };
        assert_eq!(ask(&known, None, another.clone()), Some(another));
    }

    #[test]
    fn a_recreated_object_is_news_whatever_its_version() {
        let mut members = Members::default();
        members.observe(&id("a"), live("50", Some("s"), 1));
        let recreated = Live {
            uid: "other".into(),
            ..live("7", Some("s"), 1)
        };
        assert_eq!(members.observe(&id("a"), recreated), ["s"]);
    }

    #[test]
    fn a_finished_job_is_remembered_after_it_went() {
        let mut members = Members::default();
        let job = Live {
            finished: true,
            ..live("1", Some("s"), 1)
        };
        members.observe(&id("job"), job);
        assert!(members.has_finished(&id("job"), "u") && !members.has_finished(&id("job"), "other"));
        members.remove(&id("job"));
        assert!(members.has_finished(&id("job"), "u"));
        members.observe(&id("job"), live("2", Some("s"), 1));
        assert!(!members.has_finished(&id("job"), "u"), "another Job of its name");
    }

    #[test]
    fn sync_is_per_scope_and_lost_with_the_watch() {
        let mut members = Members::default();
        let kind = GroupKind::new("", "ConfigMap");
        let shop = Scope {
            group_kind: kind.clone(),
            namespace: Some("shop".into()),
        };
        let all = Scope {
            group_kind: kind.clone(),
            namespace: None,
        };
        assert!(members.want(shop.clone()) && !members.want(shop.clone()));
        members.set_synced(&shop);
        assert!(
            members.is_synced(&kind, "shop") && !members.is_synced(&kind, "other") && !members.is_synced(&kind, "")
        );
        members.set_failing(&shop, "forbidden".into());
        assert!(!members.is_synced(&kind, "shop"));
        assert_eq!(members.unsynced(), [(shop.clone(), Some("forbidden".to_owned()))]);
        assert!(members.want(all.clone()));
        members.set_synced(&all);
        assert!(members.is_synced(&kind, "anywhere") && members.is_synced(&kind, ""));
        assert!(!members.want(shop), "the wider watch covers it");
    }

    #[test]
    fn what_we_deleted_is_going_before_its_watch_says_so() {
        let mut members = Members::default();
        members.observe(&id("a"), live("5", Some("s"), 1));
        members.is_going(&id("a"), "another");
        assert!(!members.get(&id("a")).unwrap().deleting);
        members.is_going(&id("a"), "u");
        let told = Live {
            deleting: true,
            ..live("6", Some("s"), 1)
        };
        assert!(members.get(&id("a")).unwrap().deleting);
        assert!(members.observe(&id("a"), told).is_empty(), "no news");
        assert_eq!(members.remove(&id("a")), ["s"]);
    }

    #[test]
    fn a_list_shows_what_is_gone() {
        let mut members = Members::default();
        members.observe(&id("a"), live("1", Some("s"), 1));
        members.observe(&id("b"), live("1", Some("s"), 1));
        let scope = Scope {
            group_kind: GroupKind::new("", "ConfigMap"),
            namespace: None,
        };
        assert_eq!(members.missing_from(&scope, &HashSet::from([id("a")])), [id("b")]);
        assert_eq!(members.forget(&scope).len(), 2);
        assert!(members.get(&id("a")).is_none());
    }
}
