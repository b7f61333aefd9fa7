//! A takeover of more members than a status lists: the record goes to Secrets.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::world::World;
use crate::world::fields::{is_marked, text, uid};
use crate::world::helm_releases;

const MANY: usize = 310;
fn maps(world: &World) -> Result<BTreeMap<String, Value>> {
    let all = world.list("configmaps", "")?.into_iter();
    let named = all.map(|map| (text(&map["metadata"]["name"]).to_owned(), map));
    Ok(named.filter(|(name, _)| name.starts_with("shop-")).collect())
}

#[test]
fn a_release_with_its_record_in_secrets_is_taken_over() -> Result<()> {
    let world = World::of_chart("take-many", "shop")?;
    helm_releases::grant(&world)?;
    helm_releases::restore_many(&world, "operator-sdk-store", "shop", MANY)?;
    let before = maps(&world)?;
    ensure!(before.len() == MANY, "{}", before.len());

    let operator = world.start()?;
    let widget = helm_releases::await_taken_over(&world, "shop", Duration::from_secs(120))?;
    ensure!(widget["status"]["release"]["record"]["members"] == MANY);
    ensure!(widget["status"]["deployedRelease"].is_null());
    world.await_ready("shop")?;
    for (name, map) in maps(&world)? {
        ensure!(before.get(&name).map(uid) == Some(uid(&map)), "{name} was recreated");
        let owners = map["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
        ensure!(is_marked(&map) && owners == 1, "{map}");
    }
    ensure!(world.list("secrets", "owner=helm")?.is_empty());
    let of_release = format!("chartwright.dev/release-uid={}", uid(&widget));
    ensure!(!world.list("secrets", &of_release)?.is_empty(), "there is no record");

    // It is read again by the next process, which finds nothing to do.
    world.await_quiet(&operator)?;
    ensure!(operator.terminate()?.success());
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    world.requests(&operator, start)?.writes().none()?;
    world.delete("shop")?;
    ensure!(maps(&world)?.is_empty() && world.list("secrets", &of_release)?.is_empty());
    Ok(())
}
