//! The index of objects that releases use but do not own, such as results of lookups: their versions, as the watches saw them
//! last, and the releases to requeue when one changes. It contains no client: the watches feed it.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use jiff::Timestamp;
use serde_json::Value;

use crate::identity::GroupKind;
use crate::index::members::Scope;

/// An object, or all of a kind in a namespace or everywhere, in any version of its API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectDependency {
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
    scopes: HashMap<Scope, ScopeState>,
    dependents: HashMap<ObjectDependency, BTreeSet<String>>,
    of_sets: HashMap<String, BTreeSet<ObjectDependency>>,
    /// The namespaces (empty: all) with dependencies, by kind, and how many there are in each.
    places: HashMap<GroupKind, BTreeMap<String, usize>>,
    /// Kinds of which a watch of all namespaces is refused; `None`: of any kind.
    refused: Option<HashSet<GroupKind>>,
}

#[derive(Default)]
struct ScopeState {
    synced: bool,
    failing: bool,
    /// Since when its watch is refused, and why.
    refused: Option<(Timestamp, String)>,
    /// It has lasted so long that releases report it.
    reported: bool,
    /// By namespace and name: a hash of the resource version. No release depends on most objects in a scope.
    objects: HashMap<(String, String), u64>,
}

/// No object has this name.
const UNHEARD: &str = "*";
impl ObjectDependency {
    /// That a kind is watched in a namespace. Who depends on it hears of its objects by other means.
    pub fn watch(group_kind: GroupKind, namespace: &str) -> Self {
        ObjectDependency {
            group_kind,
            namespace: namespace.to_owned(),
            name: UNHEARD.to_owned(),
        }
    }

    /// The scope whose watch shows it.
    pub fn scope(&self) -> Scope {
        Scope::of(&self.group_kind, &self.namespace)
    }

    fn is_list(&self) -> bool {
        self.name.is_empty()
    }
}
impl Dependencies {
    /// For an operator that looks at all namespaces: many of one kind may share a watch.
    pub fn of_all_namespaces() -> Self {
        Dependencies {
            refused: Some(HashSet::new()),
            ..Dependencies::default()
        }
    }

    /// A release (by its ApplySet id) depends on these, and on nothing else any more but [watches](Dependency::watch). True
    /// if other scopes are to be watched than before.
    pub fn depend_on(&mut self, set: &str, mut dependencies: BTreeSet<ObjectDependency>) -> bool {
        let known = self.of_sets.get(set).into_iter().flatten();
        dependencies.extend(known.filter(|known| known.name == UNHEARD).cloned());
        self.replace(set, dependencies)
    }

    /// A release needs these [watches](Dependency::watch), and no others any more.
    pub fn need(&mut self, set: &str, mut watches: BTreeSet<ObjectDependency>) -> bool {
        watches.extend(self.of_set(set).cloned());
        self.replace(set, watches)
    }

    fn replace(&mut self, set: &str, dependencies: BTreeSet<ObjectDependency>) -> bool {
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
        // Only for these kinds can a release be the first or the last that reads a scope.
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
        let everywhere = Scope::everywhere(kind);
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
            wanted.extend(
                namespaces
                    .map(|(namespace, _)| Scope::of(kind, namespace))
                    .filter(known),
            );
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

    /// The state of the scope that contains a dependency.
    fn state(&self, dependency: &ObjectDependency) -> Option<&ScopeState> {
        self.states(dependency).find(|state| state.synced)
    }

    /// Those of the watches that show a dependency.
    fn states(&self, dependency: &ObjectDependency) -> impl Iterator<Item = &ScopeState> {
        let everywhere = Scope::everywhere(&dependency.group_kind);
        let states = [self.scopes.get(&everywhere), self.scopes.get(&dependency.scope())];
        states.into_iter().flatten()
    }

    /// True if no watch has yet said anything of a dependency, not even that it fails.
    pub fn is_unsettled(&self, dependency: &ObjectDependency) -> bool {
        let mut states = self.states(dependency).peekable();
        states.peek().is_some() && states.all(|state| !state.synced && !state.failing)
    }

    /// The scopes that should be watched.
    pub fn wanted(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.keys()
    }

    /// The releases that depend on this very object.
    pub fn followers(&self, dependency: &ObjectDependency) -> Vec<String> {
        let sets = self.dependents.get(dependency);
        sets.into_iter().flatten().cloned().collect()
    }

    /// What a release depends on.
    pub fn of_set(&self, set: &str) -> impl Iterator<Item = &ObjectDependency> {
        let all = self.of_sets.get(set).into_iter().flatten();
        all.filter(|dependency| dependency.name != UNHEARD)
    }

    /// The version of what would be found there now, comparable with [`version`]; `None` if no watch knows.
    pub fn version(&self, dependency: &ObjectDependency) -> Option<String> {
        let state = self.state(dependency)?;
        // A shared watch shows other namespaces, too.
        let is_here = |namespace: &str| dependency.namespace.is_empty() || dependency.namespace == namespace;
        let objects = state.objects.iter().filter(|((namespace, _), _)| is_here(namespace));
        Some(if dependency.is_list() {
            of_list(objects.map(|((namespace, name), version)| (namespace.as_str(), name.as_str(), *version)))
        } else {
            let key = (dependency.namespace.clone(), dependency.name.clone());
            state
                .objects
                .get(&key)
                .map(|version| of_object(*version))
                .unwrap_or_default()
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
        let reported = std::mem::take(&mut state.reported);
        if first {
            // Watches of single namespaces may have had their time.
            self.settle(&scope.group_kind);
        }
        if reported {
            self.dependents_in(scope)
        } else {
            Vec::new()
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
    pub fn set_refused(&mut self, scope: &Scope, error: &str, now: Timestamp) -> bool {
        if let Some(state) = self.scopes.get_mut(scope) {
            let since = state.refused.take().map_or(now, |(since, _)| since);
            state.refused = Some((since, error.to_owned()));
        }
        self.set_failing(scope, error.contains("forbidden"))
    }

    /// It has been refused for long. Returns the releases that must hear of it: none if they did before.
    pub fn report_failing(&mut self, scope: &Scope) -> Vec<String> {
        match self.scopes.get_mut(scope) {
            Some(state) if !state.reported => state.reported = true,
            _ => return Vec::new(),
        }
        self.dependents_in(scope)
    }

    fn dependents_in(&self, scope: &Scope) -> Vec<String> {
        let is_here = |dependency: &ObjectDependency| scope.covers(&dependency.group_kind, &dependency.namespace);
        let dependents = self.dependents.iter().filter(|(dependency, _)| is_here(dependency));
        let sets: BTreeSet<&String> = dependents.flat_map(|(_, sets)| sets).collect();
        sets.into_iter().cloned().collect()
    }

    /// Since when the contents of the scope are unknown, and why, if releases should report it.
    pub fn unseen(&self, dependency: &ObjectDependency) -> Option<&(Timestamp, String)> {
        if self.state(dependency).is_some() {
            return None;
        }
        let mut states = self.states(dependency).filter(|state| state.reported);
        states.find_map(|state| state.refused.as_ref())
    }

    /// How many watches of kinds of this name do not work.
    pub fn count_failing(&self, kind: &str) -> usize {
        let states = self.scopes.iter().filter(|(scope, _)| scope.group_kind.kind == kind);
        states.filter(|(_, state)| state.failing).count()
    }

    fn dependents_of(&self, scope: &Scope, namespace: &str, name: &str) -> Vec<String> {
        let of = |namespace: &str, name: &str| ObjectDependency {
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
    match answer.get("items").and_then(Value::as_array) {
        Some(items) => {
            let text = |item: &Value, field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
            let row = |item| (text(item, "namespace"), text(item, "name"), resource_version(item));
            let rows: Vec<_> = items.iter().map(row).collect();
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
    use crate::testing::table;
    use serde_json::json;

    /// `place`: namespace/name.
    fn dependency(place: &str) -> ObjectDependency {
        let (namespace, name) = place.split_once('/').unwrap();
        ObjectDependency {
            group_kind: GroupKind::new("", "Secret"),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// What comes of one step of a story.
    fn step_result(index: &mut Dependencies, step: &str, about: &str, event: &Value) -> Value {
        let scope = Scope::of(&GroupKind::new("", "Secret"), about);
        let text = |place: usize| event[place].as_str().unwrap();
        let seen = || serde_json::from_value(event.clone()).unwrap();
        match step {
            "depend" => {
                let places = event.as_array().unwrap().iter().filter_map(Value::as_str);
                json!(index.depend_on(about, places.map(dependency).collect()))
            }
            "observe" => json!(index.observe(&scope, text(0), text(1), text(2))),
            "remove" => json!(index.remove(&scope, text(0), text(1))),
            "listed" => json!(index.listed(&scope, &seen())),
            "retain" => json!(index.retain(&scope, &seen())),
            "failing" => json!(index.set_failing(&scope, event.as_bool().unwrap())),
            "refuse" => {
                let now = Timestamp::from_second(event[1].as_i64().unwrap()).unwrap();
                json!(index.set_refused(&scope, text(0), now))
            }
            "report" => json!(index.report_failing(&scope)),
            "wanted" => {
                let wanted: BTreeSet<&Scope> = index.wanted().collect();
                let namespaces = wanted
                    .into_iter()
                    .map(|scope| scope.namespace.clone().unwrap_or_default());
                namespaces.collect()
            }
            "version" => json!(index.version(&dependency(about)).map(|found| found == version(event))),
            "unseen" => json!(index.unseen(&dependency(about))),
            "unsettled" => json!(index.is_unsettled(&dependency(about))),
            "count failing" => json!(index.count_failing(about)),
            unknown => panic!("{unknown}"),
        }
    }

    #[test]
    fn the_index_reports_to_those_who_look() {
        type Story = (String, bool, Vec<(String, String, Value, Value)>);
        for (story, all_namespaces, steps) in table::<Story>("dependencies", "stories") {
            let mut index = if all_namespaces {
                Dependencies::of_all_namespaces()
            } else {
                Dependencies::default()
            };
            for (step, about, event, expected) in steps {
                let found = step_result(&mut index, &step, &about, &event);
                assert_eq!(found, expected, "{story}: {step} {about} {event}");
            }
        }
    }
}
