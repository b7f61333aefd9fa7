//! What `chartwright verify` knows of fields that can't be changed is what a real API server says.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::world::fields::text;
use crate::world::{World, WorldSetup};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/plan/immutable.yaml");
/// Ways in which the API server says that a change is none that can be made.
const REFUSALS: [&str; 5] = ["immutable", "Forbidden", "may not", "not allowed", "cannot"];

/// What is wrong with a row of the table; `None` if it is right.
fn wrong(world: &World, row: &Value) -> Result<Option<String>> {
    let (live, mut wanted) = (&row["live"], row["live"].clone());
    json_patch::merge(&mut wanted, &row["wanted"]);
    let (kind, name) = (text(&live["kind"]).to_lowercase(), text(&live["metadata"]["name"]));
    world.apply(live)?;
    let changed = world.apply(&wanted);
    world.kubectl.delete(&kind, name)?;
    let is_refused = row["fields"].as_array().is_some_and(|fields| !fields.is_empty());
    Ok(match changed {
        Ok(()) => is_refused.then(|| format!("the API server takes {row}")),
        Err(error) => {
            let message = format!("{error:#}");
            let is_known = REFUSALS.iter().any(|part| message.contains(part));
            (!is_refused || !is_known).then(|| format!("{row}: {message}"))
        }
    })
}

#[test]
fn the_table_of_immutable_fields_equals_the_api_servers() -> Result<()> {
    let world = World::with("immutable", WorldSetup::NO_CRD)?;
    let table: Value = serde_yaml::from_str(&fs::read_to_string(TABLE)?)?;
    let rows = table["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    ensure!(rows.len() > 30, "{} rows", rows.len());
    let mut found = Vec::new();
    for row in rows {
        found.extend(wrong(&world, row)?);
    }
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}
