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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::connection::unconnected_client;
    use crate::cluster::discovery::Discovery;
    use crate::telemetry::redact::MARK;
    use chartwright_core::members::policy::Policy;
    use chartwright_core::testing;
    use helm_template::chart::{Chart, File};
    use helm_template::render::{Capabilities, Engine, Input, ReleaseObject};

    const CHART: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {password: from-the-chart}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hook, annotations: {helm.sh/hook: plan-work}}
";

    /// Renders the chart with these `patches` of a watch.
    fn read(patches: &str, memory: u64, secrets: &Secrets) -> Result<(Desired, u64), RenderError> {
        let mut chart = Chart::default();
        chart.metadata.name = "shop".into();
        chart.templates.push(File {
            name: "templates/a.yaml".into(),
            data: CHART.into(),
        });
        let engine = Engine::for_releases(chart).unwrap();
        let input = Input {
            read_objects: true,
            ..Input::new(ReleaseObject::install("a", "shop"), json!({}))
        };
        let mut rendered = engine.render_with(&input).unwrap();
        let before = rendered.size;
        let watch = format!("- {{group: a.test, version: v1, kind: Shop, chart: x, patches: {patches}}}");
        let context = chartwright_watches::ReadContext {
            folder: std::path::Path::new("/"),
            env: &|_| None,
        };
        let (watches, _) = chartwright_watches::parse("watches.yaml", watch.as_bytes(), &context).unwrap();
        let discovery = Discovery::offline(unconnected_client().unwrap(), Capabilities::default(), []);
        let identity = Identity {
            owner: testing::owner(),
            operator: "chartwright".into(),
            namespace: "shop".into(),
        };
        let input = PatchInput {
            patches: &watches[0].patches,
            identity: &identity,
            snapshot: &discovery.snapshot(),
            key: &Key::new([0; 32]),
            limits: Limits {
                memory: rendered.used.memory + memory,
                ..Limits::default()
            },
            secrets,
            chart: ChartText::of(None),
        };
        let desired = patch_and_read(&mut rendered, &input)?;
        Ok((desired, rendered.size - before))
    }

    #[tokio::test]
    async fn members_and_hooks_are_those_of_the_patched_objects() {
        let patches = "[{target: {name: two}, patch: {metadata: {name: first, annotations: {chartwright.dev/wave: '-1', \
                       helm.sh/resource-policy: keep}}}}, {target: {name: hook, hooks: true}, patch: {kind: Secret}}, \
                       {target: {name: three}, patch: {a: b}}, {target: {name: one}, patch: [{op: remove, path: /a}]}]";
        let (desired, size) = read(patches, 1 << 20, &Secrets::default()).unwrap();
        let [member] = desired.members.as_slice() else {
            panic!("{:?}", desired.members)
        };
        assert_eq!(member.id, testing::id("ConfigMap", "first"));
        let policy = Policy {
            wave: -1,
            keep: true,
            ..Policy::default()
        };
        assert_eq!(member.policy, policy);
        assert_eq!(desired.hooks[0].member.id, testing::id("Secret", "hook"));
        assert_eq!(desired.hooks[0].events, ["plan-work"]);
        assert!(desired.patch_failures[0].contains("ConfigMap shop/one: patches[3].patch[0]"));
        assert_eq!(desired.unmatched_patches.len(), 1);
        assert!(desired.problems.is_empty() && size > 100);

        let twice = "[{target: {kind: ConfigMap}, patch: {metadata: {name: same}}}]";
        let (desired, _) = read(twice, 1 << 20, &Secrets::default()).unwrap();
        assert!(
            desired.problems[0].contains("ConfigMap shop/same is rendered twice"),
            "{:?}",
            desired.problems
        );
    }

    #[tokio::test]
    async fn what_a_patch_makes_secret_is_removed_from_messages() {
        let secrets = Secrets::default();
        let patches = "[{target: {name: one}, patch: {kind: Secret, data: null, stringData: {a: from-the-patch}}}]";
        read(patches, 1 << 20, &secrets).unwrap();
        assert_eq!(secrets.redact("from-the-patch"), MARK);
        let patches = "[{target: {name: one}, patch: [{op: replace, path: /kind, value: Secret}, \
                       {op: move, from: /data, path: /stringData}]}]";
        read(patches, 1 << 20, &secrets).unwrap();
        assert_eq!(secrets.redact("from-the-chart"), MARK);
    }

    #[tokio::test]
    async fn patches_share_the_memory_of_the_render() {
        let patches = "[{target: {name: one}, patch: {data: {a: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}}}]";
        assert!(read(patches, 1 << 20, &Secrets::default()).is_ok());
        let error = read(patches, 100, &Secrets::default()).unwrap_err();
        assert!(error.is_of_resources(), "{error}");
    }
}
