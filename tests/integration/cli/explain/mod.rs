//! `explain` and `tree` on a real API server.

mod faults;
mod outputs;
mod requests;
mod wrong_input;

use anyhow::{Result, ensure};

use crate::world::World;

/// The output of `explain` for a widget.
fn explain(world: &World, name: &str, more: &[&str]) -> Result<String> {
    succeed(world, "explain", name, more)
}

/// The output of a command for a widget.
fn succeed(world: &World, verb: &str, name: &str, more: &[&str]) -> Result<String> {
    let widgets = world.widgets();
    let arguments = [&[verb, &widgets, name, "-n", &world.name], more].concat();
    let (status, output) = world.chartwright(&arguments)?;
    ensure!(status.success(), "{arguments:?}: {output}");
    Ok(output)
}

/// Runs a command of which failure is expected.
fn fail(world: &World, arguments: &[&str]) -> Result<String> {
    let (status, output) = world.chartwright(arguments)?;
    ensure!(status.code() == Some(1), "{arguments:?}: {status}: {output}");
    Ok(output)
}
