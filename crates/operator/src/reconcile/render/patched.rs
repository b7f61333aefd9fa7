//! Turns a render into members and hooks, after the patches of its watch.

use chartwright_core::digest::Key;
use chartwright_core::identity::GroupKind;
use chartwright_core::members::desired::{self, Desired, Identity};
use chartwright_core::members::patches::{NoRoom, Patcher};
use chartwright_watches::ObjectPatch;
use helm_template::render::{Error as RenderError, Limit, Limits, Rendered};

use crate::cluster::discovery::Snapshot;
use crate::reconcile::render::job::manifests;
use crate::reconcile::render::secret_values::{self, ChartText};
use crate::telemetry::redact::Secrets;

/// The inputs besides the render.
pub(crate) struct PatchInput<'a> {
    pub patches: &'a [ObjectPatch],
    pub identity: &'a Identity,
    pub snapshot: &'a Snapshot,
    pub key: &'a Key,
    /// The limits of the render. The patches may use the memory that it left.
    pub limits: Limits,
    /// Learns the secret values of the patched objects.
    pub secrets: &'a Secrets,
    pub chart: ChartText<'a>,
}

/// Patches the objects of a render and reads them as members and hooks.
///
/// # Errors
/// The patches exceed the memory limit.
pub(crate) fn patch_and_read(rendered: &mut Rendered, input: &PatchInput<'_>) -> Result<Desired, RenderError> {
    let PatchInput {
        identity, key, limits, ..
    } = input;
    let namespaced = |group_kind: &GroupKind, version: &str| input.snapshot.namespaced(group_kind, version);
    let room = limits.memory.saturating_sub(rendered.used.memory);
    let mut patcher = Patcher::new(input.patches, &identity.namespace, &namespaced, room);
    let over = |NoRoom { source }| RenderError::Limit {
        template: source,
        limit: Limit::Memory(limits.memory),
        place: None,
    };
    let members = patcher
        .apply_to_all(manifests(rendered.objects.iter()), false)
        .map_err(over)?;
    let hooks = rendered.hooks.iter().map(|hook| &hook.manifest);
    let hooks = manifests(hooks.chain(&rendered.unknown_hooks));
    let hooks = patcher.apply_to_all(hooks, true).map_err(over)?;
    if !input.patches.is_empty() {
        for patched in members.iter().chain(&hooks) {
            secret_values::learn_object(input.secrets, &input.chart, &patched.object);
        }
    }
    let mut desired = desired::desired(members, identity, &namespaced, key);
    desired::add_hooks(&mut desired, hooks, identity, &namespaced, key);
    let failures = patcher.failures().iter();
    desired.patch_failures = failures.map(|failure| failure.message.clone()).collect();
    desired.unmatched_patches = patcher.unmatched();
    rendered.size += patcher.added();
    Ok(desired)
}
