//! What releases look up: the versions of those objects, as the watches saw them last, and who must hear when one
//! changes. Pure: the watches feed it.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use jiff::Timestamp;
use serde_json::Value;

use super::identity::GroupKind;
use super::members::Scope;

/// What one lookup asks for, whatever the version of its API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    pub group_kind: GroupKind,
    /// Empty for cluster-scoped kinds, and for a list over all namespaces.
    pub namespace: String,
    /// Empty for a list.
    pub name: String,
}

/// Lookups in so many namespaces of a kind share one watch of all of them.
const SHARED: usize = 5;

/// The index: for each scope that somebody looks into, the versions of the objects in it.
#[derive(Default)]
pub struct LookedUp {
    scopes: HashMap<Scope, State>,
    readers: HashMap<Target, BTreeSet<String>>,
    targets: HashMap<String, BTreeSet<Target>>,
    /// The namespaces (empty: all) that are looked into, by kind, with the number of targets in each.
    places: HashMap<GroupKind, BTreeMap<String, usize>>,
    /// Kinds of which a watch of all namespaces is refused; `None`: of any kind.
    refused: Option<HashSet<GroupKind>>,
}

#[derive(Default)]
struct State {
    synced: bool,
    failing: bool,
    /// Since when its watch is refused, and why.
    refused: Option<(Timestamp, String)>,
    /// It has lasted so long that releases tell of it.
    told: bool,
    /// By namespace and name: a hash of the resource version. Most objects in a scope are nobody's business.
    objects: HashMap<(String, String), u64>,
}

// === impl Target ===

impl Target {
    /// The scope whose watch shows it.
    pub fn scope(&self) -> Scope {
        Scope {
            group_kind: self.group_kind.clone(),
            namespace: (!self.namespace.is_empty()).then(|| self.namespace.clone()),
        }
    }

    fn is_list(&self) -> bool {
        self.name.is_empty()
    }
}

// === impl LookedUp ===

impl LookedUp {
    /// For an operator that looks at all namespaces: many of one kind may share a watch.
    pub fn of_all_namespaces() -> Self {
        LookedUp {
            refused: Some(HashSet::new()),
            ..LookedUp::default()
        }
    }

    /// A release (by its ApplySet id) looks up these, and nothing else any more. True if there are scopes that nobody
    /// looked into before, or nobody looks into any more.
    pub fn read(&mut self, set: &str, targets: BTreeSet<Target>) -> bool {
        if self
            .targets
            .get(set)
            .map_or(targets.is_empty(), |known| *known == targets)
        {
            return false;
        }
        let mut kinds = self.forget(set);
        for target in &targets {
            let readers = self.readers.entry(target.clone()).or_default();
            if readers.is_empty() {
                let places = self.places.entry(target.group_kind.clone()).or_default();
                *places.entry(target.namespace.clone()).or_default() += 1;
            }
            readers.insert(set.to_owned());
            kinds.insert(target.group_kind.clone());
        }
        if !targets.is_empty() {
            self.targets.insert(set.to_owned(), targets);
        }
        // Only of these kinds can somebody be the first or the last who looks into a scope.
        let changed: Vec<bool> = kinds.iter().map(|kind| self.settle(kind)).collect();
        changed.contains(&true)
    }

    /// The kinds of what it looked up.
    fn forget(&mut self, set: &str) -> BTreeSet<GroupKind> {
        let targets = self.targets.remove(set).unwrap_or_default();
        for target in &targets {
            let Some(readers) = self.readers.get_mut(target) else {
                continue;
            };
            readers.remove(set);
            if !readers.is_empty() {
                continue;
            }
            self.readers.remove(target);
            let Some(places) = self.places.get_mut(&target.group_kind) else {
                continue;
            };
            match places.get_mut(&target.namespace) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(places.remove(&target.namespace)),
            }
            if places.is_empty() {
                self.places.remove(&target.group_kind);
            }
        }
        targets.into_iter().map(|target| target.group_kind).collect()
    }

    /// Which scopes of a kind are watched. True if others than before.
    fn settle(&mut self, kind: &GroupKind) -> bool {
        let scope = |namespace: &str| Scope {
            group_kind: kind.clone(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        };
        let everywhere = scope("");
        let places = self.places.get(kind);
        let namespaces = places
            .into_iter()
            .flatten()
            .filter(|(namespace, _)| !namespace.is_empty());
        let may_share = self.refused.as_ref().is_some_and(|refused| !refused.contains(kind));
        let count = namespaces.clone().count();
        // Once it is there, it serves as long as anybody reads.
        let is_shared = may_share && (count >= SHARED || count > 0 && self.scopes.contains_key(&everywhere));
        let is_synced = self.scopes.get(&everywhere).is_some_and(|state| state.synced);
        let asks_for_all = places.is_some_and(|places| places.contains_key(""));
        let mut wanted: HashSet<Scope> = HashSet::new();
        if is_shared || asks_for_all {
            wanted.insert(everywhere.clone());
        }
        // What is known by a watch of a namespace counts until the other one has shown everything.
        if !(is_shared && is_synced) {
            let known = |scope: &Scope| !is_shared || self.scopes.contains_key(scope);
            wanted.extend(namespaces.map(|(namespace, _)| scope(namespace)).filter(known));
        }
        let before = self.scopes.len();
        self.scopes
            .retain(|scope, _| scope.group_kind != *kind || wanted.contains(scope));
        let mut changed = self.scopes.len() != before;
        for scope in wanted {
            changed |= !self.scopes.contains_key(&scope);
            self.scopes.entry(scope).or_default();
        }
        changed
    }

    /// The state that tells of a target.
    fn state(&self, target: &Target) -> Option<&State> {
        self.states(target).find(|state| state.synced)
    }

    /// Those of the watches that show a target.
    fn states(&self, target: &Target) -> impl Iterator<Item = &State> {
        let everywhere = Scope {
            group_kind: target.group_kind.clone(),
            namespace: None,
        };
        let states = [self.scopes.get(&everywhere), self.scopes.get(&target.scope())];
        states.into_iter().flatten()
    }

    /// True if no watch has yet said anything of a target, not even that it fails.
    pub fn is_unsettled(&self, target: &Target) -> bool {
        let mut states = self.states(target).peekable();
        states.peek().is_some() && states.all(|state| !state.synced && !state.failing)
    }

    /// The scopes that should be watched.
    pub fn wanted(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.keys()
    }

    /// What a release looks up.
    pub fn targets(&self, set: &str) -> impl Iterator<Item = &Target> {
        self.targets.get(set).into_iter().flatten()
    }

    /// The version of what a lookup would find now, comparable with [`version`]; `None` if no watch knows.
    pub fn version(&self, target: &Target) -> Option<String> {
        let state = self.state(target)?;
        // A shared watch shows other namespaces, too.
        let is_here = |namespace: &str| target.namespace.is_empty() || target.namespace == namespace;
        let objects = state.objects.iter().filter(|((namespace, _), _)| is_here(namespace));
        Some(match target.is_list() {
            true => of_list(objects.map(|((namespace, name), version)| (namespace.as_str(), name.as_str(), *version))),
            false => {
                let key = (target.namespace.clone(), target.name.clone());
                state
                    .objects
                    .get(&key)
                    .map(|version| of_object(*version))
                    .unwrap_or_default()
            }
        })
    }

    /// Takes in what a watch shows. Returns the releases that must hear of it.
    pub fn observe(&mut self, scope: &Scope, namespace: &str, name: &str, resource_version: &str) -> Vec<String> {
        let Some(state) = self.scopes.get_mut(scope) else {
            return Vec::new();
        };
        let version = hash(resource_version);
        let key = (namespace.to_owned(), name.to_owned());
        match state.objects.insert(key, version) {
            Some(old) if old == version => Vec::new(),
            _ => self.readers_of(scope, namespace, name),
        }
    }

    /// An object is gone. Returns the releases that must hear of it.
    pub fn remove(&mut self, scope: &Scope, namespace: &str, name: &str) -> Vec<String> {
        let state = self.scopes.get_mut(scope);
        match state.and_then(|state| state.objects.remove(&(namespace.to_owned(), name.to_owned()))) {
            Some(_) => self.readers_of(scope, namespace, name),
            None => Vec::new(),
        }
    }

    /// A list is complete: what it did not contain is gone. Returns the releases that must hear of anything.
    pub fn listed(&mut self, scope: &Scope, seen: &HashSet<(String, String)>) -> Vec<String> {
        let mut sets = self.retain(scope, seen);
        sets.extend(self.trust(scope));
        sets
    }

    /// From now on what a scope does not show is gone. Returns the releases that must hear of it.
    pub fn trust(&mut self, scope: &Scope) -> Vec<String> {
        let Some(state) = self.scopes.get_mut(scope) else {
            return Vec::new();
        };
        let first = !std::mem::replace(&mut state.synced, true);
        state.failing = false;
        state.refused = None;
        let told = std::mem::take(&mut state.told);
        if first {
            // Watches of single namespaces may have had their time.
            self.settle(&scope.group_kind);
        }
        match told {
            true => self.readers_in(scope),
            false => Vec::new(),
        }
    }

    /// As [`LookedUp::listed`], for a list that proves nothing of what comes after it.
    pub fn retain(&mut self, scope: &Scope, seen: &HashSet<(String, String)>) -> Vec<String> {
        let Some(state) = self.scopes.get_mut(scope) else {
            return Vec::new();
        };
        let gone: Vec<_> = state
            .objects
            .keys()
            .filter(|key| !seen.contains(*key))
            .cloned()
            .collect();
        gone.iter()
            .flat_map(|(namespace, name)| self.remove(scope, namespace, name))
            .collect()
    }

    /// A watch broke: what it showed may be old. `refused`: the right to it is missing. True if others are to be watched
    /// in its place.
    pub fn set_failing(&mut self, scope: &Scope, refused: bool) -> bool {
        if let Some(state) = self.scopes.get_mut(scope) {
            state.synced = false;
            state.failing = true;
        }
        let is_shared = scope.namespace.is_none() && refused;
        if let Some(known) = self.refused.as_mut().filter(|_| is_shared) {
            known.insert(scope.group_kind.clone());
        }
        scope.namespace.is_none() && self.settle(&scope.group_kind)
    }

    /// The same for one that the API server refuses; `error`: its words.
    pub fn set_refused(&mut self, scope: &Scope, error: String, now: Timestamp) -> bool {
        if let Some(state) = self.scopes.get_mut(scope) {
            let since = state.refused.take().map_or(now, |(since, _)| since);
            state.refused = Some((since, error.clone()));
        }
        self.set_failing(scope, error.contains("forbidden"))
    }

    /// It has been refused for long. Returns the releases that must hear of it: none if they did before.
    pub fn tell_failing(&mut self, scope: &Scope) -> Vec<String> {
        match self.scopes.get_mut(scope) {
            Some(state) if !state.told => state.told = true,
            _ => return Vec::new(),
        }
        self.readers_in(scope)
    }

    fn readers_in(&self, scope: &Scope) -> Vec<String> {
        let is_here = |target: &Target| {
            let namespace = scope.namespace.as_ref();
            target.group_kind == scope.group_kind && namespace.is_none_or(|namespace| *namespace == target.namespace)
        };
        let readers = self.readers.iter().filter(|(target, _)| is_here(target));
        let sets: BTreeSet<&String> = readers.flat_map(|(_, sets)| sets).collect();
        sets.into_iter().cloned().collect()
    }

    /// Since when it can't be told what a lookup finds, and why: for what a release should tell of it.
    pub fn unseen(&self, target: &Target) -> Option<&(Timestamp, String)> {
        if self.state(target).is_some() {
            return None;
        }
        let mut states = self.states(target).filter(|state| state.told);
        states.find_map(|state| state.refused.as_ref())
    }

    /// How many watches of kinds of this name do not work.
    pub fn count_failing(&self, kind: &str) -> usize {
        let states = self.scopes.iter().filter(|(scope, _)| scope.group_kind.kind == kind);
        states.filter(|(_, state)| state.failing).count()
    }

    fn readers_of(&self, scope: &Scope, namespace: &str, name: &str) -> Vec<String> {
        let of = |namespace: &str, name: &str| Target {
            group_kind: scope.group_kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let mut targets = vec![of(namespace, name), of(namespace, "")];
        if scope.namespace.is_none() && !namespace.is_empty() {
            targets.push(of("", ""));
        }
        let sets: BTreeSet<&String> = targets
            .iter()
            .filter_map(|target| self.readers.get(target))
            .flatten()
            .collect();
        sets.into_iter().cloned().collect()
    }
}

/// The version of what a lookup found: the same for the same objects in the same state, and empty for nothing.
pub fn version(answer: &Value) -> String {
    let resource_version = |object: &Value| {
        let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        hash(version.unwrap_or_default())
    };
    let text = |object: &Value, field: &str| {
        let text = object.pointer(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    match answer.get("items").and_then(Value::as_array) {
        Some(items) => {
            let rows: Vec<_> = items
                .iter()
                .map(|item| {
                    (
                        text(item, "/metadata/namespace"),
                        text(item, "/metadata/name"),
                        resource_version(item),
                    )
                })
                .collect();
            of_list(
                rows.iter()
                    .map(|(namespace, name, version)| (namespace.as_str(), name.as_str(), *version)),
            )
        }
        None if answer.get("metadata").is_none() => String::new(),
        None => of_object(resource_version(answer)),
    }
}

fn of_object(version: u64) -> String {
    format!("{version:016x}")
}

/// The order of a list says nothing: the sum is the same for any.
fn of_list<'a>(objects: impl Iterator<Item = (&'a str, &'a str, u64)>) -> String {
    of_object(objects.map(|object| hash(&object)).fold(1, u64::wrapping_add))
}

/// Stays the same from one run of the program to the next: std's default keys are fixed.
fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn target(namespace: &str, name: &str) -> Target {
        Target {
            group_kind: GroupKind::new("", "Secret"),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn index(readers: &[(&str, Target)]) -> LookedUp {
        let mut index = LookedUp::default();
        for (set, target) in readers {
            let mut targets = index.targets.get(*set).cloned().unwrap_or_default();
            targets.insert(target.clone());
            index.read(set, targets);
        }
        index
    }

    #[test]
    fn those_who_look_hear_of_changes_and_nobody_else() {
        let shop = target("shop", "").scope();
        let mut index = index(&[
            ("one", target("shop", "tls")),
            ("all", target("shop", "")),
            ("other", target("b", "tls")),
        ]);
        assert_eq!(index.observe(&shop, "shop", "tls", "1"), ["all", "one"]);
        assert_eq!(index.observe(&shop, "shop", "tls", "1"), [""; 0], "no news");
        assert_eq!(index.observe(&shop, "shop", "tls", "2"), ["all", "one"]);
        assert_eq!(index.observe(&shop, "shop", "else", "3"), ["all"]);
        assert_eq!(index.remove(&shop, "shop", "tls"), ["all", "one"]);
        assert_eq!(index.remove(&shop, "shop", "tls"), [""; 0]);
        let everywhere = target("", "").scope();
        assert_eq!(
            index.observe(&everywhere, "b", "tls", "1"),
            [""; 0],
            "nobody looks there"
        );
    }

    #[test]
    fn versions_of_answers_and_of_watches_agree() {
        let mut index = index(&[("a", target("shop", "tls")), ("a", target("shop", ""))]);
        let scope = target("shop", "").scope();
        assert_eq!(index.version(&target("shop", "tls")), None, "not synced");
        index.observe(&scope, "shop", "tls", "7");
        index.observe(&scope, "shop", "b", "9");
        index.listed(
            &scope,
            &[("shop".into(), "tls".into()), ("shop".into(), "b".into())].into(),
        );
        let object = |name: &str, version: &str| json!({"metadata": {"namespace": "shop", "name": name, "resourceVersion": version}});
        let list = json!({"metadata": {}, "items": [object("tls", "7"), object("b", "9")]});
        assert_eq!(
            index.version(&target("shop", "tls")),
            Some(version(&object("tls", "7")))
        );
        assert_eq!(index.version(&target("shop", "")), Some(version(&list)));
        assert_ne!(
            index.version(&target("shop", "tls")),
            Some(version(&object("tls", "8")))
        );
        assert_eq!(index.version(&target("shop", "gone")), Some(version(&json!({}))));
        let empty = json!({"metadata": {}, "items": []});
        assert_ne!(index.version(&target("shop", "")), Some(version(&empty)));
        index.listed(&scope, &HashSet::new());
        assert_eq!(
            index.version(&target("shop", "")),
            Some(version(&empty)),
            "a list forgets what it lacks"
        );
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        index.set_refused(&scope, "forbidden".into(), at(7));
        assert_eq!(index.version(&target("shop", "")), None);
        assert_eq!(
            (index.unseen(&target("shop", "")), index.count_failing("Secret")),
            (None, 1)
        );
        assert_eq!(
            (index.tell_failing(&scope), index.tell_failing(&scope)),
            (vec!["a".to_owned()], vec![])
        );
        index.set_refused(&scope, "gone".into(), at(9));
        assert_eq!(index.unseen(&target("shop", "tls")), Some(&(at(7), "gone".to_owned())));
        index.retain(&scope, &HashSet::new());
        assert_eq!(
            index.version(&target("shop", "")),
            None,
            "a list proves nothing of what comes after it"
        );
        assert_eq!(index.listed(&scope, &HashSet::new()), ["a"]);
        assert_eq!(
            (index.unseen(&target("shop", "tls")), index.count_failing("Secret")),
            (None, 0)
        );
    }

    fn namespaces(count: usize) -> BTreeSet<Target> {
        (0..count).map(|number| target(&format!("n{number}"), "tls")).collect()
    }

    #[test]
    fn lookups_in_many_namespaces_share_a_watch() {
        let mut index = LookedUp::of_all_namespaces();
        let everywhere = target("", "").scope();
        assert!(index.read("a", namespaces(SHARED - 1)));
        assert_eq!(index.wanted().count(), SHARED - 1);
        let first = target("n0", "tls");
        index.observe(&first.scope(), "n0", "tls", "1");
        index.listed(&first.scope(), &[("n0".into(), "tls".into())].into());
        let known = index.version(&first);
        assert!(known.is_some());

        assert!(index.read("b", namespaces(1000)));
        assert_eq!(
            index.wanted().count(),
            SHARED,
            "one more, and what was known still counts"
        );
        assert!(index.is_unsettled(&target("n9", "tls")));
        assert_eq!(index.version(&first), known, "nobody is rendered for it");
        let seen: HashSet<_> = [("n0", "tls"), ("n7", "tls"), ("n7", "other"), ("else", "tls")]
            .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
            .into();
        for (namespace, name) in &seen {
            index.observe(&everywhere, namespace, name, "1");
        }
        index.listed(&everywhere, &seen);
        assert_eq!(index.wanted().collect::<Vec<_>>(), [&everywhere]);
        assert_eq!(index.version(&first), known);
        assert_eq!(index.version(&target("n8", "tls")), Some(String::new()));
        assert_eq!(index.observe(&everywhere, "n0", "tls", "2"), ["a", "b"]);
        assert_eq!(index.observe(&everywhere, "n7", "tls", "2"), ["b"]);
        assert_eq!(index.observe(&everywhere, "else", "tls", "2"), [""; 0]);
        index.read("list", [target("n7", "")].into());
        assert_eq!(index.observe(&everywhere, "n7", "other", "2"), ["list"]);
        let object = |name: &str| json!({"metadata": {"namespace": "n7", "name": name, "resourceVersion": "2"}});
        let list = json!({"metadata": {}, "items": [object("tls"), object("other")]});
        assert_eq!(
            index.version(&target("n7", "")),
            Some(version(&list)),
            "of its namespace only"
        );

        index.read("b", BTreeSet::new());
        assert_eq!(
            index.wanted().collect::<Vec<_>>(),
            [&everywhere],
            "what is watched by now"
        );
        assert!(!index.read("a", BTreeSet::new()) && index.read("list", BTreeSet::new()));
        assert_eq!(index.wanted().count(), 0);
    }

    #[test]
    fn who_may_not_see_all_namespaces_watches_each() {
        let everywhere = target("", "").scope();
        let mut index = LookedUp::of_all_namespaces();
        index.read("a", namespaces(10));
        assert_eq!(index.wanted().count(), 1);
        assert!(!index.set_failing(&everywhere, false), "that may pass");
        assert!(index.set_failing(&everywhere, true));
        assert_eq!(index.wanted().count(), 10);
        index.read("b", namespaces(20));
        assert_eq!(index.wanted().count(), 20);
        let mut index = LookedUp::default();
        index.read("a", namespaces(10));
        assert_eq!(index.wanted().count(), 10, "an operator of some namespaces");
    }

    #[test]
    fn a_scope_that_nobody_looks_into_is_not_watched() {
        let mut index = LookedUp::default();
        assert!(index.read("a", [target("shop", "tls")].into()));
        assert!(!index.read("a", [target("shop", "tls")].into()), "known");
        assert!(!index.read("b", [target("shop", "x")].into()), "the same scope");
        assert!(index.is_unsettled(&target("shop", "x")) && !index.is_unsettled(&target("b", "x")));
        assert!(!index.read("a", BTreeSet::new()), "b still looks there");
        assert!(index.read("b", [target("", "node")].into()));
        assert_eq!(
            index.wanted().cloned().collect::<Vec<_>>(),
            [target("", "node").scope()]
        );
        assert!(index.read("b", BTreeSet::new()));
        assert_eq!(index.wanted().count(), 0);
    }
}
