//! What releases depend on without owning it, such as what their templates look up: the versions of those objects, as the
//! watches saw them last, and which releases must hear when one changes. Pure: the watches feed it.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use jiff::Timestamp;
use serde_json::Value;

use super::identity::GroupKind;
use super::members::Scope;

/// An object, or all of a kind in a namespace or everywhere, whatever the version of its API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dependency {
    pub group_kind: GroupKind,
    /// Empty for cluster-scoped kinds, and for a list over all namespaces.
    pub namespace: String,
    /// Empty for a list.
    pub name: String,
}

/// Dependencies in so many namespaces of a kind share one watch of all of them.
const SHARED: usize = 5;

/// The index: for each scope with a dependency in it, the versions of its objects.
#[derive(Default)]
pub struct Dependencies {
    scopes: HashMap<Scope, State>,
    dependents: HashMap<Dependency, BTreeSet<String>>,
    of_sets: HashMap<String, BTreeSet<Dependency>>,
    /// The namespaces (empty: all) with dependencies, by kind, and how many there are in each.
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

// === impl Dependency ===

impl Dependency {
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

// === impl Dependencies ===

impl Dependencies {
    /// For an operator that looks at all namespaces: many of one kind may share a watch.
    pub fn of_all_namespaces() -> Self {
        Dependencies {
            refused: Some(HashSet::new()),
            ..Dependencies::default()
        }
    }

    /// A release (by its ApplySet id) depends on these, and on nothing else any more. True if other scopes are to be watched
    /// than before.
    pub fn depend_on(&mut self, set: &str, dependencies: BTreeSet<Dependency>) -> bool {
        if self
            .of_sets
            .get(set)
            .map_or(dependencies.is_empty(), |known| *known == dependencies)
        {
            return false;
        }
        let mut kinds = self.forget(set);
        for dependency in &dependencies {
            let dependents = self.dependents.entry(dependency.clone()).or_default();
            if dependents.is_empty() {
                let places = self.places.entry(dependency.group_kind.clone()).or_default();
                *places.entry(dependency.namespace.clone()).or_default() += 1;
            }
            dependents.insert(set.to_owned());
            kinds.insert(dependency.group_kind.clone());
        }
        if !dependencies.is_empty() {
            self.of_sets.insert(set.to_owned(), dependencies);
        }
        // Only of these kinds can somebody be the first or the last who looks into a scope.
        let changed: Vec<bool> = kinds.iter().map(|kind| self.settle(kind)).collect();
        changed.contains(&true)
    }

    /// The kinds of what it depended on.
    fn forget(&mut self, set: &str) -> BTreeSet<GroupKind> {
        let dependencies = self.of_sets.remove(set).unwrap_or_default();
        for dependency in &dependencies {
            let Some(dependents) = self.dependents.get_mut(dependency) else {
                continue;
            };
            dependents.remove(set);
            if !dependents.is_empty() {
                continue;
            }
            self.dependents.remove(dependency);
            let Some(places) = self.places.get_mut(&dependency.group_kind) else {
                continue;
            };
            match places.get_mut(&dependency.namespace) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(places.remove(&dependency.namespace)),
            }
            if places.is_empty() {
                self.places.remove(&dependency.group_kind);
            }
        }
        dependencies
            .into_iter()
            .map(|dependency| dependency.group_kind)
            .collect()
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

    /// The state that tells of a dependency.
    fn state(&self, dependency: &Dependency) -> Option<&State> {
        self.states(dependency).find(|state| state.synced)
    }

    /// Those of the watches that show a dependency.
    fn states(&self, dependency: &Dependency) -> impl Iterator<Item = &State> {
        let everywhere = Scope {
            group_kind: dependency.group_kind.clone(),
            namespace: None,
        };
        let states = [self.scopes.get(&everywhere), self.scopes.get(&dependency.scope())];
        states.into_iter().flatten()
    }

    /// True if no watch has yet said anything of a dependency, not even that it fails.
    pub fn is_unsettled(&self, dependency: &Dependency) -> bool {
        let mut states = self.states(dependency).peekable();
        states.peek().is_some() && states.all(|state| !state.synced && !state.failing)
    }

    /// The scopes that should be watched.
    pub fn wanted(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.keys()
    }

    /// What a release depends on.
    pub fn of_set(&self, set: &str) -> impl Iterator<Item = &Dependency> {
        self.of_sets.get(set).into_iter().flatten()
    }

    /// The version of what would be found there now, comparable with [`version`]; `None` if no watch knows.
    pub fn version(&self, dependency: &Dependency) -> Option<String> {
        let state = self.state(dependency)?;
        // A shared watch shows other namespaces, too.
        let is_here = |namespace: &str| dependency.namespace.is_empty() || dependency.namespace == namespace;
        let objects = state.objects.iter().filter(|((namespace, _), _)| is_here(namespace));
        Some(match dependency.is_list() {
            true => of_list(objects.map(|((namespace, name), version)| (namespace.as_str(), name.as_str(), *version))),
            false => {
                let key = (dependency.namespace.clone(), dependency.name.clone());
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
            _ => self.dependents_of(scope, namespace, name),
        }
    }

    /// An object is gone. Returns the releases that must hear of it.
    pub fn remove(&mut self, scope: &Scope, namespace: &str, name: &str) -> Vec<String> {
        let state = self.scopes.get_mut(scope);
        match state.and_then(|state| state.objects.remove(&(namespace.to_owned(), name.to_owned()))) {
            Some(_) => self.dependents_of(scope, namespace, name),
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
            true => self.dependents_in(scope),
            false => Vec::new(),
        }
    }

    /// As [`Dependencies::listed`], for a list that proves nothing of what comes after it.
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
        self.dependents_in(scope)
    }

    fn dependents_in(&self, scope: &Scope) -> Vec<String> {
        let is_here = |dependency: &Dependency| {
            let namespace = scope.namespace.as_ref();
            dependency.group_kind == scope.group_kind
                && namespace.is_none_or(|namespace| *namespace == dependency.namespace)
        };
        let dependents = self.dependents.iter().filter(|(dependency, _)| is_here(dependency));
        let sets: BTreeSet<&String> = dependents.flat_map(|(_, sets)| sets).collect();
        sets.into_iter().cloned().collect()
    }

    /// Since when it can't be told what is there, and why: for what a release should tell of it.
    pub fn unseen(&self, dependency: &Dependency) -> Option<&(Timestamp, String)> {
        if self.state(dependency).is_some() {
            return None;
        }
        let mut states = self.states(dependency).filter(|state| state.told);
        states.find_map(|state| state.refused.as_ref())
    }

    /// How many watches of kinds of this name do not work.
    pub fn count_failing(&self, kind: &str) -> usize {
        let states = self.scopes.iter().filter(|(scope, _)| scope.group_kind.kind == kind);
        states.filter(|(_, state)| state.failing).count()
    }

    fn dependents_of(&self, scope: &Scope, namespace: &str, name: &str) -> Vec<String> {
        let of = |namespace: &str, name: &str| Dependency {
            group_kind: scope.group_kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let mut dependencies = vec![of(namespace, name), of(namespace, "")];
        if scope.namespace.is_none() && !namespace.is_empty() {
            dependencies.push(of("", ""));
        }
        let sets: BTreeSet<&String> = dependencies
            .iter()
            .filter_map(|dependency| self.dependents.get(dependency))
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

    fn dependency(namespace: &str, name: &str) -> Dependency {
        Dependency {
            group_kind: GroupKind::new("", "Secret"),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn index(dependents: &[(&str, Dependency)]) -> Dependencies {
        let mut index = Dependencies::default();
        for (set, dependency) in dependents {
            let mut dependencies = index.of_sets.get(*set).cloned().unwrap_or_default();
            dependencies.insert(dependency.clone());
            index.depend_on(set, dependencies);
        }
        index
    }

    #[test]
    fn those_who_look_hear_of_changes_and_nobody_else() {
        let shop = dependency("shop", "").scope();
        let mut index = index(&[
            ("one", dependency("shop", "tls")),
            ("all", dependency("shop", "")),
            ("other", dependency("b", "tls")),
        ]);
        assert_eq!(index.observe(&shop, "shop", "tls", "1"), ["all", "one"]);
        assert_eq!(index.observe(&shop, "shop", "tls", "1"), [""; 0], "no news");
        assert_eq!(index.observe(&shop, "shop", "tls", "2"), ["all", "one"]);
        assert_eq!(index.observe(&shop, "shop", "else", "3"), ["all"]);
        assert_eq!(index.remove(&shop, "shop", "tls"), ["all", "one"]);
        assert_eq!(index.remove(&shop, "shop", "tls"), [""; 0]);
        let everywhere = dependency("", "").scope();
        assert_eq!(
            index.observe(&everywhere, "b", "tls", "1"),
            [""; 0],
            "nobody looks there"
        );
    }

    #[test]
    fn versions_of_answers_and_of_watches_agree() {
        let mut index = index(&[("a", dependency("shop", "tls")), ("a", dependency("shop", ""))]);
        let scope = dependency("shop", "").scope();
        assert_eq!(index.version(&dependency("shop", "tls")), None, "not synced");
        index.observe(&scope, "shop", "tls", "7");
        index.observe(&scope, "shop", "b", "9");
        index.listed(
            &scope,
            &[("shop".into(), "tls".into()), ("shop".into(), "b".into())].into(),
        );
        let object = |name: &str, version: &str| json!({"metadata": {"namespace": "shop", "name": name, "resourceVersion": version}});
        let list = json!({"metadata": {}, "items": [object("tls", "7"), object("b", "9")]});
        assert_eq!(
            index.version(&dependency("shop", "tls")),
            Some(version(&object("tls", "7")))
        );
        assert_eq!(index.version(&dependency("shop", "")), Some(version(&list)));
        assert_ne!(
            index.version(&dependency("shop", "tls")),
            Some(version(&object("tls", "8")))
        );
        assert_eq!(index.version(&dependency("shop", "gone")), Some(version(&json!({}))));
        let empty = json!({"metadata": {}, "items": []});
        assert_ne!(index.version(&dependency("shop", "")), Some(version(&empty)));
        index.listed(&scope, &HashSet::new());
        assert_eq!(
            index.version(&dependency("shop", "")),
            Some(version(&empty)),
            "a list forgets what it lacks"
        );
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        index.set_refused(&scope, "forbidden".into(), at(7));
        assert_eq!(index.version(&dependency("shop", "")), None);
        assert_eq!(
            (index.unseen(&dependency("shop", "")), index.count_failing("Secret")),
            (None, 1)
        );
        assert_eq!(
            (index.tell_failing(&scope), index.tell_failing(&scope)),
            (vec!["a".to_owned()], vec![])
        );
        index.set_refused(&scope, "gone".into(), at(9));
        assert_eq!(
            index.unseen(&dependency("shop", "tls")),
            Some(&(at(7), "gone".to_owned()))
        );
        index.retain(&scope, &HashSet::new());
        assert_eq!(
            index.version(&dependency("shop", "")),
            None,
            "a list proves nothing of what comes after it"
        );
        assert_eq!(index.listed(&scope, &HashSet::new()), ["a"]);
        assert_eq!(
            (index.unseen(&dependency("shop", "tls")), index.count_failing("Secret")),
            (None, 0)
        );
    }

    fn namespaces(count: usize) -> BTreeSet<Dependency> {
        (0..count)
            .map(|number| dependency(&format!("n{number}"), "tls"))
            .collect()
    }

    #[test]
    fn lookups_in_many_namespaces_share_a_watch() {
        let mut index = Dependencies::of_all_namespaces();
        let everywhere = dependency("", "").scope();
        assert!(index.depend_on("a", namespaces(SHARED - 1)));
        assert_eq!(index.wanted().count(), SHARED - 1);
        let first = dependency("n0", "tls");
        index.observe(&first.scope(), "n0", "tls", "1");
        index.listed(&first.scope(), &[("n0".into(), "tls".into())].into());
        let known = index.version(&first);
        assert!(known.is_some());

        assert!(index.depend_on("b", namespaces(1000)));
        assert_eq!(
            index.wanted().count(),
            SHARED,
            "one more, and what was known still counts"
        );
        assert!(index.is_unsettled(&dependency("n9", "tls")));
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
        assert_eq!(index.version(&dependency("n8", "tls")), Some(String::new()));
        assert_eq!(index.observe(&everywhere, "n0", "tls", "2"), ["a", "b"]);
        assert_eq!(index.observe(&everywhere, "n7", "tls", "2"), ["b"]);
        assert_eq!(index.observe(&everywhere, "else", "tls", "2"), [""; 0]);
        index.depend_on("list", [dependency("n7", "")].into());
        assert_eq!(index.observe(&everywhere, "n7", "other", "2"), ["list"]);
        let object = |name: &str| json!({"metadata": {"namespace": "n7", "name": name, "resourceVersion": "2"}});
        let list = json!({"metadata": {}, "items": [object("tls"), object("other")]});
        assert_eq!(
            index.version(&dependency("n7", "")),
            Some(version(&list)),
            "of its namespace only"
        );

        index.depend_on("b", BTreeSet::new());
        assert_eq!(
            index.wanted().collect::<Vec<_>>(),
            [&everywhere],
            "what is watched by now"
        );
        assert!(!index.depend_on("a", BTreeSet::new()) && index.depend_on("list", BTreeSet::new()));
        assert_eq!(index.wanted().count(), 0);
    }

    #[test]
    fn who_may_not_see_all_namespaces_watches_each() {
        let everywhere = dependency("", "").scope();
        let mut index = Dependencies::of_all_namespaces();
        index.depend_on("a", namespaces(10));
        assert_eq!(index.wanted().count(), 1);
        assert!(!index.set_failing(&everywhere, false), "that may pass");
        assert!(index.set_failing(&everywhere, true));
        assert_eq!(index.wanted().count(), 10);
        index.depend_on("b", namespaces(20));
        assert_eq!(index.wanted().count(), 20);
        let mut index = Dependencies::default();
        index.depend_on("a", namespaces(10));
        assert_eq!(index.wanted().count(), 10, "an operator of some namespaces");
    }

    #[test]
    fn a_scope_that_nobody_looks_into_is_not_watched() {
        let mut index = Dependencies::default();
        assert!(index.depend_on("a", [dependency("shop", "tls")].into()));
        assert!(!index.depend_on("a", [dependency("shop", "tls")].into()), "known");
        assert!(
            !index.depend_on("b", [dependency("shop", "x")].into()),
            "the same scope"
        );
        assert!(index.is_unsettled(&dependency("shop", "x")) && !index.is_unsettled(&dependency("b", "x")));
        assert!(!index.depend_on("a", BTreeSet::new()), "b still looks there");
        assert!(index.depend_on("b", [dependency("", "node")].into()));
        assert_eq!(
            index.wanted().cloned().collect::<Vec<_>>(),
            [dependency("", "node").scope()]
        );
        assert!(index.depend_on("b", BTreeSet::new()));
        assert_eq!(index.wanted().count(), 0);
    }
}
