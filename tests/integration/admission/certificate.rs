//! Certificate and registration.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use data_encoding::BASE64;
use rcgen::{CertificateParams, KeyPair};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::Webhook;
use crate::security::operator_rights::unused;
use crate::support::until;
use crate::world::fields::ensure_contains;
use crate::world::{SOON, WorldSetup};

fn certificate_of(webhook: &Webhook) -> Result<String> {
    let secret = webhook.world.expect("secret", &webhook.name())?;
    let text = |field: &str| secret["data"][field].as_str().unwrap_or_default().to_owned();
    ensure!(!text("tls.key").is_empty());
    Ok(text("tls.crt"))
}

/// A Secret whose certificate is valid for this many more days.
fn certificate_for(days: i64) -> Result<Value> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    let now = jiff::Timestamp::now().as_second();
    let at = |second: i64| rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(second.unsigned_abs());
    params.not_before = at(now - 400 * 86_400);
    params.not_after = at(now + days * 86_400);
    let pem = params.self_signed(&key)?.pem();
    Ok(json!({"tls.crt": pem, "tls.key": key.serialize_pem(), "ca.crt": pem, "names": "127.0.0.1"}))
}

#[test]
fn the_operator_renews_its_certificate() -> Result<()> {
    let webhook = Webhook::new("admission-certificate")?;
    let world = &webhook.world;
    // One that expires soon, and one that has expired.
    for days in [30, -1] {
        world.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": webhook.name()}, "stringData": certificate_for(days)?,
        }))?;
        let before = certificate_of(&webhook)?;
        let operator = webhook.start()?;
        let after = certificate_of(&webhook)?;
        ensure!(before != after);
        let bundle = webhook.configuration()?["webhooks"][0]["clientConfig"]["caBundle"].clone();
        let trusted = world.expect("secret", &webhook.name())?["data"]["ca.crt"].clone();
        ensure!(bundle == trusted);
        let trusted = BASE64.decode(trusted.as_str().unwrap_or_default().as_bytes())?;
        let certificates = String::from_utf8(trusted)?.matches("BEGIN CERTIFICATE").count();
        ensure!(certificates == if days > 0 { 2 } else { 1 }, "{certificates}");
        let expiry = operator.metric("chartwright_admission_certificate_expiry_timestamp_seconds")?;
        let now = jiff::Timestamp::now().as_second() as f64;
        ensure!((300.0..370.0).contains(&((expiry - now) / 86_400.0)), "{expiry}");
        // The next start keeps it.
        operator.kill()?;
        let operator = webhook.launch(0)?;
        webhook.await_called()?;
        ensure!(certificate_of(&webhook)? == after);
        operator.kill()?;
    }
    Ok(())
}

#[test]
fn all_replicas_serve_the_same_certificate() -> Result<()> {
    let webhook = Webhook::new("admission-replicas")?;
    let first = webhook.start()?;
    let certificate = certificate_of(&webhook)?;
    let configuration = webhook.configuration()?;
    first.kill()?;
    let _second = webhook.launch(1)?;
    webhook.await_called()?;
    ensure!(certificate_of(&webhook)? == certificate);
    ensure!(webhook.configuration()?["metadata"]["resourceVersion"] == configuration["metadata"]["resourceVersion"]);
    Ok(())
}

#[test]
fn the_configuration_of_another_operator_is_left_alone() -> Result<()> {
    let webhook = Webhook::new("admission-other")?;
    let world = &webhook.world;
    let other = json!({"metadata": {"annotations": {"chartwright.dev/admission-of": "elsewhere/other"}}});
    world.patch("validatingwebhookconfiguration", &webhook.name(), &other)?;
    let operator = webhook.launch(0)?;
    operator.await_log("belongs to another operator: give this one another --admission-name")?;
    let left = webhook.configuration()?;
    ensure!(left["webhooks"].as_array().is_none_or(Vec::is_empty), "{left}");
    Ok(())
}

#[test]
fn the_roles_of_the_project_are_enough_and_none_is_unused() -> Result<()> {
    let webhook = Webhook::with("admission-rights", WorldSetup::USUAL)?;
    let world = &webhook.world;
    world.revoke("admission")?;
    let operator = webhook.launch(0)?;
    operator.await_log("the operator needs the rights of config/admission/role.yaml")?;
    let rules = world.project_rules("admission/role.yaml")?;
    world.grant("admission", &rules)?;
    webhook.await_called()?;
    operator.await_log("changes of custom resources are previewed again")?;
    // A certificate for other names is replaced.
    world.patch("secret", &webhook.name(), &json!({"data": {"names": ""}}))?;
    operator.kill()?;
    let operator = webhook.start()?;
    let requests = world.control_plane.audit().requests()?.by_user(&operator.user);
    for role in ["admission/role.yaml", "admission/certificate_role.yaml"] {
        let left = unused(role, &world.project_rules(role)?, &requests);
        ensure!(left.is_empty(), "{left:#?}");
    }
    Ok(())
}

/// A kind whose CRD is created after the start, and a watch that is added.
#[test]
fn the_configuration_follows_watches_and_kinds() -> Result<()> {
    let webhook = Webhook::of(crate::world::World::new("admission-reload")?.with_gadgets()?)?;
    let world = &webhook.world;
    let _operator = webhook.start()?;
    let resources = || -> Result<Vec<Value>> {
        let rules = webhook.configuration()?["webhooks"][0]["rules"].clone();
        let rules = rules.as_array().cloned().unwrap_or_default();
        Ok(rules.iter().map(|rule| rule["resources"][0].clone()).collect())
    };
    ensure!(resources()? == [json!("widgets")], "{:?}", resources()?);
    world.write_watches_of(&[("Widget", &world.chart(), &[]), ("Gadget", &world.chart(), &[])])?;
    until("the new watch is registered", SOON, || {
        Ok(resources()? == [json!("gadgets"), json!("widgets")])
    })
}

/// The component of `config/admission`, with the comment signs in `config/default` removed as its guide says.
#[test]
fn the_component_gives_its_objects_the_names_of_the_flags() -> Result<()> {
    let webhook = Webhook::new("admission-component")?;
    let folder = webhook.world.dir.path().join("config");
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let copied = Command::new("cp").arg("-r").args([&config, &folder]).status()?;
    ensure!(copied.success());
    let file = folder.join("default/kustomization.yaml");
    let text = fs::read_to_string(&file)?;
    let switched = text.replace("# components:\n#   - ../admission\n", "components:\n  - ../admission\n");
    ensure!(switched != text);
    fs::write(&file, switched)?;
    let built = webhook
        .world
        .run(["kustomize", &folder.join("default").display().to_string()])?;
    let objects: Vec<Value> = serde_yaml::Deserializer::from_str(&built)
        .map(Value::deserialize)
        .collect::<Result<_, _>>()?;
    let named = |kind: &str, name: &str| {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        objects.iter().find(is_it).with_context(|| format!("{kind} {name}"))
    };
    let name = "chartwright-admission";
    named("ValidatingWebhookConfiguration", name)?;
    let service = named("Service", name)?;
    ensure!(service["spec"]["ports"][0]["port"] == 443);
    let manager = named("Deployment", "chartwright-controller-manager")?;
    let container = &manager["spec"]["template"]["spec"]["containers"][0];
    ensure_contains(
        &container["args"].to_string(),
        &["--admission\"", "--admission-name=chartwright-admission"],
    )?;
    ensure!(container["ports"].to_string().contains("9443"), "{container}");
    Ok(())
}
