//! `explain` and `tree` on a real API server.

mod faults;
mod outputs;
mod requests;
mod stateful_set;
mod wrong_input;

use anyhow::Result;

use crate::world::World;

/// The output of `explain` for a widget.
fn explain(world: &World, name: &str, more: &[&str]) -> Result<String> {
    succeed(world, "explain", name, more)
}

/// The output of a command for a widget.
fn succeed(world: &World, verb: &str, name: &str, more: &[&str]) -> Result<String> {
    let widgets = world.widgets();
    super::succeed(world, &[&[verb, &widgets, name, "-n", &world.name], more].concat())
}
