//! Commands that need an API server or a chart repository.

use anyhow::{Result, ensure};

use crate::world::World;

pub mod argocd;
pub mod bundle;
mod dashboard;
pub mod diff;
pub mod explain;
pub mod fetch;
pub mod generated_crd;
pub mod releases;
pub mod render;
pub mod scaffold;
pub mod verify;

/// Runs a command of which success is expected.
fn succeed(world: &World, arguments: &[&str]) -> Result<String> {
    let (status, output) = world.chartwright(arguments)?;
    ensure!(status.success(), "{arguments:?}: {output}");
    Ok(output)
}

/// Runs a command of which failure is expected.
fn fail(world: &World, arguments: &[&str]) -> Result<String> {
    let (status, output) = world.chartwright(arguments)?;
    ensure!(status.code() == Some(1), "{arguments:?}: {status}: {output}");
    Ok(output)
}
