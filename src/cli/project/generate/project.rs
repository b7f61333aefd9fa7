//! `generate crd` without a chart: the definitions of all watches of a project.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use super::crd::{GeneratedCrd, read_overlay};
use crate::cli::stdout::note;
use chartwright_scaffold::crd::{ChartValues, Generated, Names, Surroundings, definition, generate};
use chartwright_watches::{Watch, names::is_built_in};

/// Generates the definitions of a project's watches. Watches of one kind become versions of one definition. Watches of one version
/// share a schema that accepts the values of each chart.
pub(super) fn generate_from_watches(file: &Path) -> Result<Vec<GeneratedCrd>> {
    let (watches, warnings) = chartwright_watches::load(file)?;
    for warning in warnings {
        note!("warning: {warning}");
    }
    let mut kinds: Vec<Vec<&Watch>> = Vec::new();
    for watch in watches.iter().filter(|watch| !is_built_in(&watch.group)) {
        let is_same = |other: &Watch| other.group == watch.group && other.kind == watch.kind;
        match kinds.iter_mut().find(|kind| is_same(kind[0])) {
            Some(kind) => kind.push(watch),
            None => kinds.push(vec![watch]),
        }
    }
    if kinds.is_empty() {
        bail!("{}: there is no watch of a custom resource", file.display());
    }
    kinds.iter().map(|watches| generate_for_kind(watches)).collect()
}

fn generate_for_kind(watches: &[&Watch]) -> Result<GeneratedCrd> {
    let present = definition::find(Path::new(""), &watches[0].group, &watches[0].kind);
    let old = present.as_ref().map(|found| &found.object);
    let mut versions: Vec<Generated> = Vec::new();
    for watch in watches {
        let generated = generate_for_watch(watch, old)?;
        match versions.iter().position(|made| made.names.version == watch.version) {
            Some(at) => {
                let earlier = versions.remove(at);
                versions.insert(at, earlier.or(generated));
            }
            None => versions.push(generated),
        }
    }
    let mut definition = old.cloned();
    for version in &versions {
        let new = version.definition();
        definition = Some(match definition {
            Some(old) => definition::laid_over(new, &old),
            None => new,
        });
    }
    let mut versions = versions.into_iter();
    let (Some(definition), Some(mut generated)) = (definition, versions.next()) else {
        bail!("there is no watch");
    };
    generated.warnings.extend(versions.flat_map(|version| version.warnings));
    let name = present.as_ref().map(|found| found.name.clone());
    Ok(GeneratedCrd {
        file: Some(Path::new(definition::BASES).join(name.unwrap_or_else(|| generated.names.file()))),
        present: present.map(|found| found.text),
        definition,
        generated,
    })
}

/// Generates the definition of a watch.
fn generate_for_watch(watch: &Watch, old: Option<&Value>) -> Result<Generated> {
    let mut names = Names {
        group: watch.group.clone(),
        version: watch.version.clone(),
        kind: watch.kind.clone(),
        ..Names::default()
    };
    let overlay = read_overlay(&watch.chart, None)?;
    // Names in the existing file stay, unless the overlay sets them.
    overlay.name(&mut names);
    if let Some(old) = old {
        definition::keep_names(&mut names, old);
    }
    names.columns.clear();
    generate(
        &ChartValues::load(&watch.chart)?,
        names,
        &overlay,
        Surroundings::of(watch),
    )
}
