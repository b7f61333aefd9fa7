//! What is refused, and what is warned about.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Webhook;
use crate::support::until;
use crate::world::fields::ensure_contains;
use crate::world::{SOON, World, config_map};

#[test]
fn a_change_after_which_the_release_would_be_stalled_is_refused() -> Result<()> {
    let webhook = Webhook::new("admission-refusals")?;
    let world = &webhook.world;
    let _operator = webhook.start()?;
    let role = json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "mine"}, "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}]);
    let wrong = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-wrong"}, "data": {"a": 1}}]);
    let cases: [(Value, &[&str]); 5] = [
        (
            json!({"fail": "choose a color first"}),
            &["choose a color first", "templates/fail.yaml:"],
        ),
        (json!({"size": "large"}), &["ValuesInvalid", "size"]),
        (json!({"extraDeploy": role}), &["Role.rbac.authorization.k8s.io"]),
        (json!({"extraDeploy": wrong}), &["a-wrong", "data"]),
        (
            json!({"deployment": {"enabled": true, "replicas": -1}}),
            &["spec.replicas", "must be greater than or equal to 0"],
        ),
    ];
    for (spec, texts) in cases {
        webhook
            .dry_run(&world.widget("a", spec.clone()))?
            .expect_refused(texts)?;
        webhook.apply(&world.widget("a", spec))?.expect_refused(texts)?;
    }
    world.absent("widget", ["a"])?;

    // An object of this name exists, and is of no release.
    world.apply(&config_map("c-taken", json!({})))?;
    let collision = world.widget("c", json!({"extra": ["free", "taken"]}));
    webhook.dry_run(&collision)?.expect_refused(&["ConfigMap", "c-taken"])?;

    // The same for an edit, whose release then stays as it is.
    world.install("a", json!({}))?;
    let edit = world.widget("a", json!({"fail": "choose a color first"}));
    webhook.apply(&edit)?.expect_refused(&["choose a color first"])?;
    ensure!(world.live("a")?["spec"].get("fail").is_none());
    Ok(())
}

#[test]
fn restarts_and_deletions_are_warnings_of_kubectl() -> Result<()> {
    let webhook = Webhook::of(World::new("admission-warnings")?.granted("batch", "jobs")?)?;
    let world = &webhook.world;
    world.write_template("image.yaml", IMAGE_TEMPLATE)?;
    for (name, events) in [
        ("before", "pre-install,pre-upgrade"),
        ("after", "post-install,post-upgrade"),
    ] {
        let hook = HOOK_TEMPLATE.replace("$name", name).replace("$events", events);
        world.write_template(&format!("{name}.yaml"), &hook)?;
    }
    let operator = webhook.start()?;
    let before = world.widget("a", json!({"extra": ["one", "two"], "color": "blue"}));
    let warnings = webhook.apply(&before)?.warnings()?;
    ensure!(warnings.is_empty(), "{warnings:?}");
    world.await_ready("a")?;
    world.await_quiet(&operator)?;

    let after = world.widget("a", json!({"extra": ["one"], "color": "red"}));
    let start = world.mark()?;
    let expected = [
        "pods restart: Deployment.apps admission-warnings/a-image",
        "deleted: ConfigMap admission-warnings/a-two",
    ];
    let warnings = webhook.dry_run(&after)?.warnings()?;
    ensure!(warnings == expected, "{warnings:?}");
    // The preview itself writes nothing.
    let writes = world.all_requests(&operator, start)?.writes();
    ensure!(
        writes.iter().all(|request| request.uri.contains("dryRun=All")),
        "{writes}"
    );
    world.expect("configmap", "a-two")?;
    ensure!(webhook.apply(&after)?.warnings()? == expected);
    world.await_gone("configmap", "a-two")?;

    // A change of nothing, and one of metadata that is not ours.
    ensure!(webhook.apply(&after)?.warnings()?.is_empty());
    let reviews = Webhook::reviews(&operator)?;
    world.annotate("a", json!({"example.com/note": "1"}))?;
    world.await_quiet(&operator)?;
    ensure!(Webhook::reviews(&operator)? - reviews < 0.5);
    world.annotate("a", json!({"chartwright.dev/reconcile-period": "1h"}))?;
    until("one of ours is previewed", SOON, || {
        Ok(Webhook::reviews(&operator)? - reviews > 0.5)
    })?;
    Ok(())
}

const IMAGE_TEMPLATE: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ .Release.Name }}-image'}
spec:
  replicas: 1
  selector: {matchLabels: {app: image}}
  template:
    metadata: {labels: {app: image}}
    spec: {containers: [{name: app, image: 'example/app:{{ .Values.color }}'}]}
";

const HOOK_TEMPLATE: &str = "apiVersion: batch/v1
kind: Job
metadata:
  name: '{{ .Release.Name }}-$name'
  annotations: {helm.sh/hook: '$events'}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: example/app}]}
";

/// The operator claims a custom resource, and writes its status.
#[test]
fn writes_of_the_operator_are_not_previewed() -> Result<()> {
    let webhook = Webhook::new("admission-own-writes")?;
    let world = &webhook.world;
    let operator = webhook.start()?;
    world.await_quiet(&operator)?;
    let before = Webhook::reviews(&operator)?;
    world.install("a", json!({}))?;
    world.await_quiet(&operator)?;
    let after = Webhook::reviews(&operator)?;
    ensure!((after - before - 1.0).abs() < 0.5, "{before} {after}");
    world.delete("a")?;
    ensure!((Webhook::reviews(&operator)? - after).abs() < 0.5);
    Ok(())
}

#[test]
fn a_release_that_is_stalled_already_can_be_edited() -> Result<()> {
    let webhook = Webhook::new("admission-stalled")?;
    let world = &webhook.world;
    world.apply_widget("a", json!({"fail": "choose a color first"}))?;
    let _operator = webhook.start()?;
    world.await_stalled("a", "RenderFailed", &[])?;
    let warnings = webhook
        .apply(&world.widget("a", json!({"fail": "choose a color first", "color": "red"})))?
        .warnings()?;
    ensure!(warnings.len() == 1, "{warnings:?}");
    ensure_contains(&warnings[0], &["stays Stalled", "choose a color first"])?;
    // For another reason it is refused.
    webhook
        .apply(&world.widget("a", json!({"fail": "choose a size first"})))?
        .expect_refused(&["choose a size first"])?;
    ensure!(
        webhook
            .apply(&world.widget("a", json!({"color": "red"})))?
            .warnings()?
            .is_empty()
    );
    Ok(())
}

#[test]
fn no_answer_has_a_secret() -> Result<()> {
    let name = "admission-secrets";
    let world = World::new(name)?
        .watch_key("valuesFrom: [{kind: Secret, name: given, valuesKey: password, targetPath: secret.password}]");
    let webhook = Webhook::of(world.granted("", "secrets")?)?;
    let world = &webhook.world;
    world.write_template(
        "leak.yaml",
        "{{ if eq .Values.color \"leak\" }}{{ fail .Values.secret.password }}{{ end }}",
    )?;
    let password = "correct-horse-battery-staple";
    world.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "given"}, "stringData": {"password": password},
    }))?;
    world.apply(&config_map("foreign", json!({})))?;
    let operator = webhook.start()?;
    let refused = webhook.dry_run(&world.widget("a", json!({"color": "leak"})))?;
    ensure!(
        !refused.is_success && refused.err.contains("leak.yaml"),
        "{}",
        refused.err
    );
    ensure!(!refused.err.contains(password), "{}", refused.err);
    ensure!(!operator.log().contains(password));
    Ok(())
}
