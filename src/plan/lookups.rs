//! What releases look up: the versions of those objects, as the watches saw them last, and who must hear when one
//! changes. Pure: the watches feed it.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

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

/// The index: for each scope that somebody looks into, the versions of the objects in it.
#[derive(Default)]
pub struct LookedUp {
    scopes: HashMap<Scope, State>,
    readers: HashMap<Target, BTreeSet<String>>,
    targets: HashMap<String, BTreeSet<Target>>,
}

#[derive(Default)]
struct State {
    synced: bool,
    failing: bool,
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
        let before: BTreeSet<Scope> = self.forget(set);
        let mut news = false;
        for target in &targets {
            let scope = target.scope();
            news |= !before.contains(&scope) && !self.scopes.contains_key(&scope);
            self.scopes.entry(scope).or_default();
            self.readers.entry(target.clone()).or_default().insert(set.to_owned());
        }
        if !targets.is_empty() {
            self.targets.insert(set.to_owned(), targets);
        }
        // Only what this release looked into can have lost its last reader.
        for scope in before {
            if !self.readers.keys().any(|target| target.scope() == scope) {
                news |= self.scopes.remove(&scope).is_some();
            }
        }
        news
    }

    fn forget(&mut self, set: &str) -> BTreeSet<Scope> {
        let targets = self.targets.remove(set).unwrap_or_default();
        for target in &targets {
            if let Some(readers) = self.readers.get_mut(target) {
                readers.remove(set);
                if readers.is_empty() {
                    self.readers.remove(target);
                }
            }
        }
        targets.iter().map(Target::scope).collect()
    }

    /// The scopes that should be watched.
    pub fn wanted(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.keys()
    }

    /// True if some scope has neither been listed nor failed to be.
    pub fn is_unsettled(&self) -> bool {
        self.scopes.values().any(|state| !state.synced && !state.failing)
    }

    /// The version of what a lookup would find now, comparable with [`version`]; `None` if no watch knows.
    pub fn version(&self, target: &Target) -> Option<String> {
        let state = self.scopes.get(&target.scope()).filter(|state| state.synced)?;
        let objects = state.objects.iter();
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
        let Some(state) = self.scopes.get_mut(scope) else {
            return Vec::new();
        };
        state.synced = true;
        state.failing = false;
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

    /// A watch broke: what it showed may be old.
    pub fn set_failing(&mut self, scope: &Scope) {
        if let Some(state) = self.scopes.get_mut(scope) {
            state.synced = false;
            state.failing = true;
        }
    }

    fn readers_of(&self, scope: &Scope, namespace: &str, name: &str) -> Vec<String> {
        let of = |namespace: &str, name: &str| Target {
            group_kind: scope.group_kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let scope_namespace = scope.namespace.as_deref().unwrap_or_default();
        let targets = [of(namespace, name), of(scope_namespace, "")];
        let sets: BTreeSet<&String> = targets
            .iter()
            .filter(|target| target.scope() == *scope)
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
        index.set_failing(&scope);
        assert_eq!(index.version(&target("shop", "")), None);
    }

    #[test]
    fn a_scope_that_nobody_looks_into_is_not_watched() {
        let mut index = LookedUp::default();
        assert!(index.read("a", [target("shop", "tls")].into()));
        assert!(!index.read("a", [target("shop", "tls")].into()), "known");
        assert!(!index.read("b", [target("shop", "x")].into()), "the same scope");
        assert!(index.is_unsettled());
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
