//! Counts which releases need a watch of which scope.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::index::members::Scope;

/// By the ApplySet ids of releases. There are few scopes, and many releases.
#[derive(Default)]
pub struct WatchRefs {
    sets: HashMap<String, Vec<Arc<Scope>>>,
    known: HashSet<Arc<Scope>>,
    /// Some set needs less than before.
    released: bool,
}
impl WatchRefs {
    /// A set needs this as well.
    pub fn add(&mut self, set: &str, scope: Scope) {
        let scope = self.shared(scope);
        let needs = self.sets.entry(set.to_owned()).or_default();
        if !needs.contains(&scope) {
            needs.push(scope);
        }
    }

    /// A set needs these, and no others any more.
    pub fn replace(&mut self, set: &str, scopes: BTreeSet<Scope>) {
        let needs: Vec<Arc<Scope>> = scopes.into_iter().map(|scope| self.shared(scope)).collect();
        let before = self.sets.remove(set).unwrap_or_default();
        self.released |= before.iter().any(|scope| !needs.contains(scope));
        if !needs.is_empty() {
            self.sets.insert(set.to_owned(), needs);
        }
    }

    fn shared(&mut self, scope: Scope) -> Arc<Scope> {
        if let Some(known) = self.known.get(&scope) {
            return known.clone();
        }
        let scope = Arc::new(scope);
        self.known.insert(scope.clone());
        scope
    }

    /// Those of the scopes that no set needs, if any set has come to need less.
    pub fn unneeded(&mut self, scopes: &BTreeSet<Scope>) -> BTreeSet<Scope> {
        if !self.released {
            return BTreeSet::new();
        }
        let needed: HashSet<&Scope> = self.sets.values().flatten().map(Arc::as_ref).collect();
        let unneeded = scopes.iter().filter(|scope| !needed.contains(scope));
        let unneeded: BTreeSet<Scope> = unneeded.cloned().collect();
        self.released = !unneeded.is_empty();
        self.known.retain(|scope| Arc::strong_count(scope) > 1);
        unneeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::GroupKind;
    use crate::index::live::Live;
    use crate::index::members::Members;
    use crate::testing::id;

    #[test]
    fn a_scope_that_no_set_needs_is_given_up() {
        let scope = |kind: &str| Scope::everywhere(&GroupKind::new("", kind));
        let mut members = Members::default();
        assert!(members.need("a", [scope("ConfigMap"), scope("Secret")]));
        assert!(!members.need("b", [scope("ConfigMap")]));
        assert!(members.unneeded().is_empty());
        members.need_only("a", [scope("Secret")].into());
        assert!(members.unneeded().is_empty(), "b needs it");
        members.need_only("b", BTreeSet::new());
        assert_eq!(members.unneeded(), [scope("ConfigMap")].into());
        assert_eq!(members.unneeded(), [scope("ConfigMap")].into(), "until it is given up");
        members.set_synced(&scope("ConfigMap"));
        let one = id("ConfigMap", "one");
        members.observe(&one, Live::default());
        members.release(&scope("ConfigMap"));
        members.lose(&scope("ConfigMap"));
        assert!(members.unneeded().is_empty() && !members.is_synced(&one.group_kind, "shop"));
        assert!(members.get(&one).is_none());
        assert_eq!(members.wanted().collect::<Vec<_>>(), [&scope("Secret")]);
    }
}
