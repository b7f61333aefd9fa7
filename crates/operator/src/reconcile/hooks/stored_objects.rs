//! Objects that are stored to be created later: hooks for the deletion, steps of plans. What permitted them is stored with
//! them, since they are checked again when they are used, by the watch as it is then, and without the chart.

use crate::reconcile::release::Release;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::values::release_namespace::release_namespace;
use chartwright_core::digest::KeyUse;
use chartwright_core::grants::{self, Own, StoredObject};
use chartwright_core::hooks::Hook;

/// Checks hooks and plan steps that were stored, each time they are used.
pub(crate) struct StoredObjects<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> StoredObjects<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        StoredObjects { scope }
    }
}

impl StoredObjects<'_> {
    /// Digest of what the chart renders by default; `None` without a chart.
    fn defaults_digest(&self, release: &Release) -> Option<String> {
        let chart = self.scope.unit.renderer.as_ref().ok()?.chart();
        let watch = self.scope.unit.watch.defaults_digest();
        let parts = [chart.digest().as_bytes(), watch.as_bytes()];
        Some(release.key(&self.scope.context.keys).digest(KeyUse::Defaults, &parts))
    }

    /// What permits hooks, after [`Reconcile::check`] has permitted them: how much of each the chart creates by default, and
    /// the digest of those defaults where it is something.
    pub(crate) fn permits(&self, release: &Release, hooks: &[&Hook]) -> Vec<(Own, String)> {
        let own = |hook: &&Hook| {
            release
                .render
                .permit
                .own
                .get(&hook.member.id)
                .copied()
                .unwrap_or_default()
        };
        let owns: Vec<Own> = hooks.iter().map(own).collect();
        let any = owns.iter().any(|own| *own != Own::Nothing);
        let defaults = any.then(|| self.defaults_digest(release)).flatten().unwrap_or_default();
        let permit = |own| match own {
            Own::Nothing => (own, String::new()),
            Own::Place | Own::Object => (own, defaults.clone()),
        };
        owns.into_iter().map(permit).collect()
    }

    /// Hooks as they are stored, with what permits them.
    pub(crate) fn to_store(hooks: &[&Hook], permits: Vec<(Own, String)>) -> Vec<StoredObject> {
        let stored = hooks.iter().zip(permits).map(|(hook, (own, defaults))| StoredObject {
            rendered: hook.member.rendered(),
            own,
            defaults,
        });
        stored.collect()
    }

    /// The hooks that were stored, each with what the present rules have against it.
    pub(crate) fn check_stored(&self, release: &Release, stored: Vec<StoredObject>) -> Vec<Hook> {
        let own_namespace = &self.scope.written.key.namespace;
        // Only authors with rights in the whole cluster can create a cluster-scoped custom resource.
        let is_checked = !own_namespace.is_empty();
        let namespace = release_namespace(self.scope.unit, &self.scope.written);
        let namespace = namespace.unwrap_or_else(|_| own_namespace.clone());
        let (defaults, allow) = (self.defaults_digest(release), &self.scope.unit.watch.allow);
        let read = |stored: StoredObject| {
            let mut hook = Hook::read(stored.rendered.clone())?;
            if is_checked {
                let checked = grants::may_use(&hook.member.id, &stored, &namespace, defaults.as_deref(), allow);
                hook.refused = checked.err().map(|refused| refused.to_string());
            }
            Some(hook)
        };
        stored.into_iter().filter_map(read).collect()
    }
}
