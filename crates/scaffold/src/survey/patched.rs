//! The objects of a render, after the patches of a watch.

use std::borrow::Cow;
use std::cell::Cell;

use serde_json::Value;

use chartwright_core::identity::GroupKind;
use chartwright_core::identity::cluster_scoped::is_cluster_scoped;
use chartwright_core::members::patches::{PatchFailure, Patched, Patcher};
use chartwright_watches::{ObjectPatch, PatchTarget};
use helm_template::render::{HookEvent, Limits, Manifest, Rendered};

/// The objects of a render, after the patches of a watch.
pub(crate) struct PatchedRender<'r> {
    pub(crate) objects: Vec<PatchedObject<'r>>,
    pub(crate) failures: Vec<PatchFailure>,
    /// For each patch: true if it selects an object under some name, in some namespace, with some labels. These may depend on the
    /// custom resource.
    pub(crate) may_select: Vec<bool>,
}

/// An object of a render.
pub(crate) struct PatchedObject<'r> {
    /// The template, as renders name it.
    pub(crate) source: &'r str,
    pub(crate) object: Cow<'r, Value>,
    /// Events of a hook. Empty for a step of a plan. `None` for a member.
    pub(crate) events: Option<&'r [HookEvent]>,
}

/// Patches the objects of a render for a release in this namespace. Leaves out objects whose patch fails.
pub(crate) fn patched<'r>(rendered: &'r Rendered, patches: &[ObjectPatch], namespace: &str) -> PatchedRender<'r> {
    let hooks = rendered
        .hooks
        .iter()
        .map(|hook| (&hook.manifest, Some(hook.events.as_slice())));
    let steps = rendered.unknown_hooks.iter().map(|manifest| (manifest, Some(&[][..])));
    let members = rendered.objects.iter().map(|manifest| (manifest, None));
    let namespaced = |group_kind: &GroupKind, _: &str| Some(!is_cluster_scoped(group_kind));
    let new_patcher = || Patcher::new(patches, namespace, &namespaced, Limits::default().memory);
    let mut patching = Patching {
        patches,
        exact: new_patcher(),
        possible: new_patcher(),
        found: PatchedRender {
            objects: Vec::new(),
            failures: Vec::new(),
            may_select: vec![false; patches.len()],
        },
    };
    for (manifest, events) in members.chain(hooks).chain(steps) {
        for object in manifest.objects() {
            patching.add(manifest, object, events);
        }
    }
    let Patching { exact, mut found, .. } = patching;
    found.failures = exact.failures().to_vec();
    found
}

struct Patching<'r, 'p> {
    patches: &'p [ObjectPatch],
    exact: Patcher<'p>,
    /// Patches objects that a target selects only for other custom resources.
    possible: Patcher<'p>,
    found: PatchedRender<'r>,
}

impl<'r> Patching<'r, '_> {
    fn add(&mut self, manifest: &'r Manifest, object: &'r Value, events: Option<&'r [HookEvent]>) {
        let (source, is_hook) = (manifest.source.as_str(), events.is_some());
        let add = |found: &mut PatchedRender<'r>, object: Cow<'r, Value>| {
            found.objects.push(PatchedObject { source, object, events });
        };
        if self.patches.is_empty() {
            add(&mut self.found, Cow::Borrowed(object));
            return;
        }
        let mut changed = object.clone();
        for (index, patch) in self.patches.iter().enumerate() {
            let may_select = Cell::new(false);
            let done = self
                .exact
                .apply(index, &mut changed, source, is_hook, |target, subject| {
                    may_select.set(target.may_select(subject));
                    target.selects(subject)
                });
            if let Some(known) = self.found.may_select.get_mut(index) {
                *known |= may_select.get();
            }
            match done {
                Ok(Patched::Changed) => {}
                Ok(Patched::Failed) | Err(_) => {
                    // What the later patches would select is unknown.
                    self.found
                        .may_select
                        .iter_mut()
                        .skip(index)
                        .for_each(|known| *known = true);
                    return;
                }
                Ok(Patched::Skipped) => {
                    if !may_select.get() || !patch.change.may_change_kind() {
                        continue;
                    }
                    let mut other = changed.clone();
                    let done = self
                        .possible
                        .apply(index, &mut other, source, is_hook, PatchTarget::may_select);
                    if done == Ok(Patched::Changed) {
                        add(&mut self.found, Cow::Owned(other));
                    }
                }
            }
        }
        add(&mut self.found, Cow::Owned(changed));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::survey::Survey;
    use crate::survey::tests::chart;

    /// Reads the text as the key `patches` of a watch.
    fn patches(text: &str) -> Vec<ObjectPatch> {
        let watch = format!("- {{group: a.test, version: v1, kind: Shop, chart: x, patches: {text}}}");
        let context = chartwright_watches::ReadContext {
            folder: Path::new("/"),
            env: &|_| None,
        };
        let (watches, _) = chartwright_watches::parse("watches.yaml", watch.as_bytes(), &context).unwrap();
        watches[0].patches.to_vec()
    }

    #[test]
    fn a_survey_has_the_kinds_roles_and_images_of_patched_objects() {
        let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n\
                    spec: {template: {spec: {containers: [{image: old}]}}}\n---\n\
                    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n";
        let chart = chart("templates/a.yaml", text);
        let survey = |text: &str| Survey::with_values(&chart, Vec::new(), &[], &patches(text));
        let made = |survey: &Survey| -> BTreeSet<String> {
            survey.made.iter().map(|(_, resource)| resource.clone()).collect()
        };
        let names = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        assert_eq!(made(&survey("[]")), names(&["configmaps", "deployments"]));

        let changed = survey(
            "[{target: {kind: Deployment}, patch: {kind: StatefulSet, spec: {template: {spec: {containers: [{image: new}]}}}}}]",
        );
        assert_eq!(made(&changed), names(&["configmaps", "statefulsets"]));
        assert_eq!(changed.images().collect::<Vec<_>>(), ["new"]);
        assert!(changed.unmade.is_empty(), "{changed:?}");

        // The name and the namespace depend on the custom resource: the object may be of either kind.
        let role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: fixed}, rules: []}";
        let possible = survey(&format!(
            "[{{target: {{kind: ConfigMap, name: shop, namespace: production}}, patch: {role}}}]"
        ));
        assert_eq!(made(&possible), names(&["clusterroles", "configmaps", "deployments"]));
        assert!(
            possible
                .roles
                .made
                .contains(&("clusterroles".to_owned(), "fixed".to_owned()))
        );

        // An object whose patch fails is never created.
        let failed = survey("[{target: {kind: ConfigMap}, patch: [{op: remove, path: /data}]}]");
        assert_eq!(made(&failed), names(&["deployments"]));
    }
}
