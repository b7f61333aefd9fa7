//! Conditions in CEL: members, hooks and plans wait for what they say of live objects.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::{ensure_contains, text};
use crate::world::{SOON, World, annotated_map, config_map};

const READY_WHEN: &str = "chartwright.dev/ready-when";

/// A ConfigMap with a condition, and one in the wave behind it.
fn gated(condition: &str) -> Value {
    let later = annotated_map("{{ .Release.Name }}-later", "chartwright.dev/wave", "1");
    json!([annotated_map("{{ .Release.Name }}-gate", READY_WHEN, condition), later])
}

fn open(world: &World, map: &str, state: &str) -> Result<()> {
    world.patch("configmap", map, &json!({"data": {"state": state}}))
}

#[test]
fn a_wave_waits_until_a_condition_is_true() -> Result<()> {
    let world = World::new("gates-wave")?;
    let operator = world.start()?;
    world.apply_widget("a", json!({"extraDeploy": gated("self.data.state == 'open'")}))?;
    world.await_unready("a", "Progressing", &["ConfigMap a-gate", "there is no data"])?;
    world.absent("configmap", ["a-later"])?;
    open(&world, "a-gate", "shut")?;
    world.await_unready("a", "Progressing", &["waits for self.data.state == 'open'"])?;
    world.absent("configmap", ["a-later"])?;
    open(&world, "a-gate", "open")?;
    world.await_ready("a")?;
    world.expect("configmap", "a-later")?;
    world.await_quiet(&operator)?;
    // It counts for as long as the release lives, and costs nothing while nothing changes.
    world.ensure_no_requests(&operator, 1.5)?;
    open(&world, "a-gate", "shut")?;
    world.await_unready("a", "Progressing", &["waits for"])?;
    let operator = world.restart(operator)?;
    world.await_unready("a", "Progressing", &["waits for"])?;
    open(&world, "a-gate", "open")?;
    world.await_ready("a")?;
    world.await_quiet(&operator)
}

#[test]
fn a_ready_when_condition_can_use_other_members_and_pods() -> Result<()> {
    let world = World::new("gates-members")?;
    let _operator = world.start()?;
    let condition = "members.ConfigMap['a-main'].data.state == 'open' && pods.exists(p, p.status.phase == 'Running')";
    let spec = json!({"extraDeploy": gated(condition), "deployment": {"enabled": true, "replicas": 1}});
    world.apply_widget("a", spec)?;
    world.await_unready("a", "Progressing", &["a-gate"])?;
    world.absent("configmap", ["a-later"])?;
    open(&world, "a-main", "open")?;
    world.await_ready("a")?;
    world.expect("configmap", "a-later").map(drop)
}

#[test]
fn conditions_cannot_read_secret_data() -> Result<()> {
    let world = World::new("gates-secret")?
        .granted("", "secrets")?
        .watch_key("timeout: 2s");
    let _operator = world.start()?;
    let secret = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"pin": "1234"},
            "metadata": {"name": format!("{{{{ .Release.Name }}}}-{name}"), "annotations": annotations},
        })
    };
    let sees = "self.data.pin == 'MTIzNA=='";
    let hook = secret("hook", json!({"helm.sh/hook": "pre-install", READY_WHEN: sees}));
    world.apply_widget("a", json!({"extraDeploy": [hook]}))?;
    world.await_unready(
        "a",
        "HookFailed",
        &["Secret a-hook", "did not end within 2s", "there is no data"],
    )?;
    let member = secret("member", json!({READY_WHEN: sees}));
    world.apply_widget("b", json!({"extraDeploy": [member]}))?;
    world.await_unready("b", "Progressing", &["Secret b-member", "there is no data"])?;
    let others = gated("members.Secret['c-member'].data.pin == 'MTIzNA=='");
    let spec = json!({"extraDeploy": [secret("member", json!({})), others[0], others[1]]});
    world.apply_widget("c", spec)?;
    world
        .await_unready("c", "Progressing", &["ConfigMap c-gate", "there is no data"])
        .map(drop)
}

#[test]
fn conditions_see_no_foreign_pods() -> Result<()> {
    let world = World::new("gates-pods")?;
    let _operator = world.start()?;
    let deployment = |name: &str| {
        let labels = json!({"app": "theirs"});
        let containers = json!([{"name": "main", "image": "example/main"}]);
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": containers},
            }},
        })
    };
    world.apply(&deployment("theirs"))?;
    world.kubectl.wait("Available", "deployment", "theirs", SOON)?;
    let gate = gated(
        "pods.exists(p, p.metadata.name.startsWith('ours')) && pods.exists(p, p.metadata.name.startsWith('theirs'))",
    );
    world.apply_widget("a", json!({"extraDeploy": [deployment("ours"), gate[0]]}))?;
    world.kubectl.wait("Available", "deployment", "ours", SOON)?;
    sleep(Duration::from_secs(3));
    world.await_unready("a", "Progressing", &["a-gate", "waits for"])?;
    let gate =
        gated("pods.exists(p, p.metadata.name.startsWith('ours')) && pods.all(p, p.metadata.name.startsWith('ours'))");
    world.edit("a", json!({"extraDeploy": [deployment("ours"), gate[0]]}))?;
    world.await_ready("a").map(drop)
}

#[test]
fn an_invalid_ready_when_condition_changes_nothing() -> Result<()> {
    let world = World::new("gates-wrong")?;
    let _operator = world.start()?;
    for (condition, why) in [
        ("self.data.", "does not compile"),
        (
            "other.data == 1",
            "there is no variable other, only self, members, pods",
        ),
    ] {
        world.apply_widget("a", json!({"extraDeploy": gated(condition)}))?;
        world.await_stalled(
            "a",
            "ManifestInvalid",
            &["templates/extra.yaml", "a-gate", READY_WHEN, why],
        )?;
        world.absent("configmap", ["a-gate", "a-main"])?;
    }
    Ok(())
}

#[test]
fn a_health_rule_of_the_watch_applies_to_a_foreign_kind() -> Result<()> {
    let world = World::new("gates-rule")?.with_gadgets()?;
    let group = world.group();
    let rule = format!(
        "health:\n- {{group: {group}, kind: Gadget, readyWhen: self.status.state == 'up', failedWhen: self.status.state == 'broken'}}"
    );
    let world = world.watch_key(&rule);
    let _operator = world.start()?;
    let gadget = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": "a-gadget"}, "spec": {},
    });
    world.apply_widget("a", json!({"extraDeploy": [gadget]}))?;
    world.await_unready("a", "Progressing", &["Gadget a-gadget"])?;
    let become_state = |state: &str| {
        let patch = json!({"status": {"state": state}}).to_string();
        let gadgets = format!("gadgets.{group}");
        world.run([
            "patch",
            &gadgets,
            "a-gadget",
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])
    };
    become_state("broken")?;
    world.await_unready("a", "MemberFailed", &["has failed: self.status.state == 'broken'"])?;
    become_state("up")?;
    world.await_ready("a").map(drop)
}

#[test]
fn a_health_rule_that_does_not_compile_is_an_error_in_watches_yaml() -> Result<()> {
    let world = World::new("gates-file")?.watch_key("health: [{kind: Pod, readyWhen: self.x +}]");
    world.write_watches()?;
    let file = world.watches_file();
    let file = file.to_string_lossy();
    let (status, printed) = world.chartwright(&["run", "--watches-file", &file])?;
    ensure!(!status.success(), "{printed}");
    ensure_contains(&printed, &["watches.yaml:5", "`readyWhen`", "does not compile"])
}

#[test]
fn a_step_of_a_plan_waits_until_its_condition_is_true() -> Result<()> {
    let world = World::staged("gates-plan", &[], &[])?;
    let _operator = world.start()?;
    let condition = "members.ConfigMap['a-main'].data.state == 'open'";
    let hooks = json!([
        {"name": "gate", "at": "plan-work", "kind": "ConfigMap",
            "annotations": {READY_WHEN: condition, "helm.sh/hook-weight": "1"}},
        {"name": "job", "at": "plan-work", "annotations": {"helm.sh/hook-weight": "2"}},
    ]);
    world.install("a", json!({"hooks": hooks}))?;
    world.annotate("a", json!({"chartwright.dev/run-plan": "work@1"}))?;
    world.await_there("configmap", "a-gate")?;
    sleep(Duration::from_millis(700));
    world.absent("job", ["a-job"])?;
    open(&world, "a-main", "open")?;
    world.await_event("a", "PlanSucceeded", &["plan work succeeded"])?;
    world.expect("job", "a-job").map(drop)
}

#[test]
fn a_hook_whose_condition_stays_false_fails_at_its_timeout() -> Result<()> {
    let world = World::staged("gates-hook", &["timeout: 2s"], &[])?;
    let _operator = world.start()?;
    let hooks = json!([{"name": "gate", "at": "pre-install", "kind": "ConfigMap",
        "annotations": {READY_WHEN: "self.data.color == 'never'"}}]);
    world.apply_widget("a", json!({"hooks": hooks}))?;
    let ready = world.await_unready(
        "a",
        "HookFailed",
        &["did not end within 2s", "waits for self.data.color"],
    )?;
    ensure!(!text(&ready["message"]).contains('\n'), "{ready}");
    world.absent("configmap", ["a-main"])?;
    world.apply(&config_map("unrelated", json!({})))
}
