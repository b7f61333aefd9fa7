//! CustomResourceDefinitions that a chart brings: how they are created and replaced.

pub mod install;
pub mod replace;

use anyhow::Result;

use crate::world::{World, member_rule};

/// Grants the rights to create CRDs, and objects of the kind `Part`.
fn grant(world: &World) -> Result<()> {
    let crds = member_rule("apiextensions.k8s.io", "customresourcedefinitions");
    world.grant("crds", &[crds, member_rule(&world.group(), "parts")])
}
