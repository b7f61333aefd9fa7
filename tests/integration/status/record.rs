//! The record of a release: in the status, in Secrets where the status can't hold it, and found again where it is lost.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use chartwright_core::digest::KeyUse;
use serde_json::{Value, json};

use crate::security::forged_status::keys;
use crate::support::{eventually, until};
use crate::world::fields::{PART_OF, is_ready, label, text, uid, versions};
use crate::world::operator::Operator;
use crate::world::{SOON, World, WorldSetup};

fn world(name: &str, setup: WorldSetup<'_>) -> Result<World> {
    let world = World::with(name, setup)?.use_chart("many")?.granted("", "secrets")?;
    Ok(world)
}

/// The Secrets that hold records, by name.
fn records(world: &World) -> Result<BTreeMap<String, Value>> {
    let secrets = world.list("secrets", "app.kubernetes.io/managed-by=chartwright")?;
    let records = secrets
        .into_iter()
        .filter(|secret| secret["type"] == "chartwright.dev/record");
    Ok(records
        .map(|secret| (text(&secret["metadata"]["name"]).to_owned(), secret))
        .collect())
}

fn members(world: &World) -> Result<Vec<Value>> {
    world.labelled("configmaps")
}

fn await_members(world: &World, count: usize) -> Result<Vec<Value>> {
    eventually(&format!("{count} members"), SOON, || {
        let members = members(world)?;
        ensure!(members.len() == count, "there are {}", members.len());
        Ok(Some(members))
    })
}

fn restart(world: &World, operator: Operator) -> Result<Operator> {
    operator.kill()?;
    world.start_and_settle()
}

#[test]
fn a_long_inventory_is_stored_in_secrets() -> Result<()> {
    let world = world("record-long", WorldSetup::USUAL)?;
    let operator = world.start_and_settle()?;
    let widget = world.install("a", json!({"members": 350}))?;
    let stored = &widget["status"]["release"]["record"];
    ensure!(*stored == json!({"version": 1, "members": 350, "secrets": 1}));
    ensure!(widget["status"]["inventory"].as_array().map(Vec::len) == Some(300));
    let secrets = records(&world)?;
    let (name, secret) = secrets.first_key_value().context("no record is stored")?;
    ensure!(*name == format!("chartwright-record-{}", uid(&widget)), "{name}");
    ensure!(secret["metadata"]["labels"]["chartwright.dev/release-uid"] == uid(&widget).as_str());
    ensure!(secret["metadata"]["ownerReferences"].is_null());
    world.await_quiet(&operator)?;

    // All of it comes back with one GET, and nothing is written.
    let before = versions(&members(&world)?);
    operator.kill()?;
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    let requests = world.requests(&operator, start)?;
    let writes = requests.clone().writes();
    ensure!(writes.is_empty() && versions(&members(&world)?) == before, "{writes}");
    let gets = requests.clone().resource("secrets").verb("get");
    // The other Secret is the operator's key.
    ensure!(gets.filter(|get| get.name.starts_with("chartwright-record")).len() == 1);
    ensure!(requests.resource("configmaps").verb("get").is_empty());

    // Facts beyond the status are known as well: a terminating member, and one whose label was removed.
    world.run(["label", "configmap", "a-340", "applyset.kubernetes.io/part-of-"])?;
    let is_labelled = |member: &Value| label(member, PART_OF).is_some();
    world.await_object("configmap", "a-340", "is labelled again", is_labelled)?;
    world.update("a", json!({"members": 320}))?;
    await_members(&world, 320)?;

    // Short again, it lies in the status alone.
    world.update("a", json!({"members": 3}))?;
    await_members(&world, 3)?;
    eventually("the Secrets are gone", SOON, || {
        let widget = world.live("a")?;
        let status = &widget["status"];
        ensure!(records(&world)?.is_empty(), "{status}");
        ensure!(status["release"]["record"].is_null(), "{status}");
        ensure!(status["inventory"].as_array().map(Vec::len) == Some(3), "{status}");
        Ok(Some(()))
    })?;
    world.update("a", json!({"members": 310}))?;
    ensure!(records(&world)?.len() == 1);
    let operator = restart(&world, operator)?;
    world.delete("a")?;
    ensure!(members(&world)?.is_empty() && records(&world)?.is_empty());
    drop(operator);
    Ok(())
}

/// Far more members than any chart makes: their record fits into one Secret.
#[test]
#[ignore = "slow: make torture runs it"]
fn three_thousand_members_are_recorded() -> Result<()> {
    let world = world("record-huge", WorldSetup::USUAL)?;
    let operator = world.start_and_settle()?;
    world.apply_widget("a", json!({"members": 3000}))?;
    until("the widget is ready", 12 * SOON, || Ok(is_ready(&world.live("a")?)))?;
    ensure!(records(&world)?.len() == 1);
    world.await_quiet(&operator)?;
    operator.kill()?;
    let mark = world.mark()?;
    let operator = world.start_and_settle()?;
    let requests = world.requests_until_quiet(&operator, mark)?;
    let writes = requests.clone().writes();
    ensure!(writes.is_empty(), "{writes}");
    ensure!(requests.resource("configmaps").verb("get").is_empty());
    Ok(())
}

#[test]
fn a_lost_record_is_rebuilt_from_live_objects() -> Result<()> {
    for (members, what) in [(3, "status"), (310, "secret")] {
        let world = world(&format!("record-lost-{what}"), WorldSetup::USUAL)?;
        let operator = world.start_and_settle()?;
        world.install("a", json!({"members": members}))?;
        world.update("a", json!({"members": members, "color": "red"}))?;
        world.await_quiet(&operator)?;
        operator.kill()?;
        let before = world.labelled("configmaps")?;
        match what {
            "status" => wipe_status(&world)?,
            _ => {
                let name = records(&world)?.into_keys().next().context("no record")?;
                world.kubectl.delete("secret", &name)?;
            }
        }
        // The chart no longer renders this one: labels find it.
        world.edit("a", json!({"members": members - 1}))?;
        let operator = world.start_and_settle()?;
        world.await_ready("a")?;
        let after = await_members(&world, members - 1)?;
        let uids = |objects: &[Value]| -> BTreeMap<String, String> {
            let name = |object: &Value| text(&object["metadata"]["name"]).to_owned();
            objects.iter().map(|object| (name(object), uid(object))).collect()
        };
        let (mut before, after) = (uids(&before), uids(&after));
        before.remove(&format!("a-{}", members - 1));
        ensure!(before == after, "an object was recreated");
        let widget = world.live("a")?;
        let release = &widget["status"]["release"];
        match what {
            // Only the status recorded it; an Event says why the count restarts.
            "status" => {
                ensure!(release["revision"] == 1, "{release}");
                let note = world.await_event("a", "InstallSuccessful", &[])?;
                let events = world.events("a")?;
                let is_reported = events.iter().any(|(_, note)| note.contains("found without a record"));
                ensure!(is_reported, "{note} {events:?}");
            }
            // What isn't known to have changed is no upgrade.
            _ => ensure!(release["revision"] == 2, "{release}"),
        }
        world.delete("a")?;
        ensure!(records(&world)?.is_empty());
        drop(operator);
    }
    Ok(())
}

/// Takes the whole status away, as a restore from a backup does.
fn wipe_status(world: &World) -> Result<()> {
    let mut widget = world.live("a")?;
    widget["status"] = json!({});
    widget["metadata"]["managedFields"] = Value::Null;
    world
        .kubectl
        .run_with_input(["replace", "--subresource=status", "-f", "-"], &widget.to_string())
        .map(drop)
}

#[test]
fn foreign_writes_to_the_record_are_not_trusted() -> Result<()> {
    let world = world("record-forged", WorldSetup::USUAL)?;
    let operator = world.start_and_settle()?;
    let widget = world.install("a", json!({"members": 305}))?;
    world.run(["create", "configmap", "bystander"])?;
    world.await_quiet(&operator)?;
    operator.kill()?;
    let name = format!("chartwright-record-{}", uid(&widget));
    let secret = world.expect("secret", &name)?;
    let stored = stored_record(&secret)?;
    let bystander = world.expect("configmap", "bystander")?;
    let mut record: Value = serde_json::from_str(&stored)?;
    // A member that was none, under the UID that it really has.
    record["record"]["entries"][0]["name"] = "bystander".into();
    record["record"]["entries"][0]["uid"] = uid(&bystander).into();
    let packed = |text: &str| -> Result<Vec<u8>> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes())?;
        Ok(packed.finish()?)
    };
    let write = |text: &str| {
        let packed = data_encoding::BASE64.encode(&packed(text)?);
        world.patch("secret", &name, &json!({"data": {FILE: packed}}))
    };
    write(&record.to_string())?;
    let operator = world.start_and_settle()?;
    world.edit("a", json!({"members": 304}))?;
    world.await_ready("a")?;
    await_members(&world, 304)?;
    world.expect("configmap", "bystander")?;
    world.await_quiet(&operator)?;
    operator.kill()?;

    // What can't be read is lost.
    let before = versions(&members(&world)?);
    write("\u{0}no JSON")?;
    let operator = world.start_and_settle()?;
    world.await_ready("a")?;
    ensure!(versions(&members(&world)?) == before, "applied again without a change");
    let stored = stored_record(&world.expect("secret", &name)?)?;
    ensure!(stored.contains("\"a-303\""), "it is written again");
    world.await_quiet(&operator)?;
    operator.kill()?;

    // What a later version of the operator wrote is left alone, until the custom resource goes.
    let later = packed(r#"{"version":2,"new":"format"}"#)?;
    let uid = uid(&widget);
    let parts = ["Secret", &uid, &world.name, &name, FILE].map(str::as_bytes);
    let parts: Vec<&[u8]> = parts.into_iter().chain([later.as_slice()]).collect();
    let signature = keys(&world)?.sign(KeyUse::Content, &parts);
    let encode = |bytes: &[u8]| data_encoding::BASE64.encode(bytes);
    let data = json!({FILE: encode(&later), "signature": encode(signature.as_bytes())});
    world.patch("secret", &name, &json!({"data": data}))?;
    world.edit("a", json!({"members": 301}))?;
    let _operator = world.start_and_settle()?;
    world.await_stalled("a", "Record", &["version 2"])?;
    ensure!(members(&world)?.len() == 304);
    let stored = stored_record(&world.expect("secret", &name)?)?;
    ensure!(stored.contains("\"version\":2"), "{stored}");
    let status = &world.live("a")?["status"];
    ensure!(status["release"]["record"]["members"] == 304, "{status}");
    world.delete("a")?;
    ensure!(members(&world)?.is_empty());
    world.expect("configmap", "bystander").map(drop)
}

/// The file of the Secret.
const FILE: &str = "record.json.gz";

/// The text of a record that a Secret holds.
fn stored_record(secret: &Value) -> Result<String> {
    let packed = secret["data"][FILE].as_str().context("no record")?;
    let packed = data_encoding::BASE64.decode(packed.as_bytes())?;
    let unpacked = flate2::read::GzDecoder::new(packed.as_slice());
    Ok(std::io::read_to_string(unpacked)?)
}

/// A release without a status: Events report its changes, Secrets store its record.
fn lives_without_status(world: &World, warning: &str) -> Result<()> {
    let operator = world.start_and_settle()?;
    world.apply_widget("a", json!({"members": 3}))?;
    await_members(world, 3)?;
    world.await_event("a", "InstallSuccessful", &[])?;
    world.await_event("a", "Ready", &[])?;
    world.apply_widget("b", json!({"members": 1}))?;
    world.await_event("b", "Ready", &[])?;
    operator.await_log(warning)?;
    ensure!(operator.log().matches(warning).count() == 1, "{}", operator.log());
    ensure!(records(world)?.len() == 2);
    world.await_quiet(&operator)?;

    let before = versions(&members(world)?);
    let events = world.events("a")?;
    operator.kill()?;
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    let requests = world.requests(&operator, start)?;
    let writes = requests.writes();
    // Where there is a status, it is compared by writing it: a write without effect for each custom resource, and once
    // the question whether it can be applied.
    ensure!(writes.iter().all(|write| write.resource == "widgets"), "{writes}");
    ensure!(writes.len() <= 4, "{writes}");
    ensure!(versions(&members(world)?) == before);
    ensure!(world.events("a")? == events, "{:?}", world.events("a")?);

    world.edit("a", json!({"members": 2}))?;
    await_members(world, 3)?;
    world.await_event("a", "UpgradeSuccessful", &[])?;
    world.delete("a")?;
    ensure!(members(world)?.len() == 1 && records(world)?.len() == 1);
    world.delete("b")?;
    ensure!(records(world)?.is_empty());
    Ok(())
}

#[test]
fn a_kind_without_a_status_subresource_works() -> Result<()> {
    let world = world("record-none", WorldSetup::NO_CRD)?;
    world.install_crd_with("Widget", None)?;
    lives_without_status(&world, "has no subresource status")
}

#[test]
fn a_kind_whose_schema_drops_the_status_works() -> Result<()> {
    let world = world("record-pruned", WorldSetup::NO_CRD)?;
    // Some of ours stays, as in a schema that was made for another operator.
    let text = json!({"type": "string"});
    let status = json!({"type": "object", "properties": {
        "release": {"type": "object", "properties": {"name": text, "revision": {"type": "integer"}}}, "phase": text,
    }});
    world.install_crd_with("Widget", Some(status))?;
    lives_without_status(&world, "drops these fields: conditions, history, inventory")
}

#[test]
fn without_the_right_to_write_secrets_no_member_is_created() -> Result<()> {
    let world = World::of_chart("record-forbidden", "many")?;
    let _operator = world.start_and_settle()?;
    world.apply_widget("a", json!({"members": 301}))?;
    world.await_unready("a", "Record", &["rights to get, create, patch and delete Secrets"])?;
    ensure!(members(&world)?.is_empty());
    world.update("a", json!({"members": 300}))?;
    await_members(&world, 300)?;
    Ok(())
}
