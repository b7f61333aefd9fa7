//! Values of a custom resource that its chart never reads: most are misspelt.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::reconcile::check::list;
use crate::reconcile::context::Unit;
use crate::reconcile::release::Release;
use crate::reconcile::scope::ReleaseScope;
use chartwright_core::values::value_reads::Reads;
use helm_template::chart::Chart;

/// So many names of one spec are looked at.
const LOOKED_AT: usize = 10;

/// What is known of the values that a chart reads, from the first release that is rendered on.
#[derive(Default)]
pub struct ReadValues {
    /// The names at the top of the chart's own values, and those that mean something to Helm.
    known: OnceLock<BTreeSet<String>>,
    /// `None`: it isn't known for certain.
    reads: OnceLock<Option<Reads>>,
}

impl ReadValues {
    /// The names at the top of a spec that aren't the chart's own values, up to [`LOOKED_AT`].
    fn unknown(&self, chart: &Chart, spec: &Value) -> Vec<String> {
        let known = self.known.get_or_init(|| known(chart));
        let fields = spec.as_object().into_iter().flatten();
        let names = fields.map(|(name, _)| name).filter(|name| !known.contains(*name));
        names.take(LOOKED_AT).cloned().collect()
    }
}

fn known(chart: &Chart) -> BTreeSet<String> {
    let mut known: BTreeSet<String> = chart.values.to_json().keys().cloned().collect();
    known.extend(["global", "exports", "tags", "enabled"].map(str::to_owned));
    known.extend(chart.dependencies.iter().map(|chart| chart.name().to_owned()));
    for dependency in &chart.metadata.dependencies {
        known.extend([dependency.name.clone(), dependency.alias.clone()]);
    }
    known
}

/// Whether the watch or a file of the chart names it: templates of the watch and of the status read the spec as well, and
/// Handlebars templates and schemas any part of it.
fn is_mentioned(unit: &Unit, chart: &Chart, name: &str) -> bool {
    let mut files = chart.files.iter().map(|file| file.data.as_bytes());
    let is_in = |text: &[u8]| String::from_utf8_lossy(text).contains(name);
    files.any(is_in)
        || chart.schema.as_ref().is_some_and(|schema| is_in(schema.text()))
        || format!("{:?}", unit.watch).contains(name)
}

/// Reports values that nothing reads, once for each generation that is rendered.
pub(crate) async fn report_unread(scope: &ReleaseScope<'_>, release: &mut Release) {
    if release.announced.generation == Some(scope.generation) || scope.written.decorator.is_some() {
        return;
    }
    release.announced.generation = Some(scope.generation);
    let (Ok(mut spec), Ok(renderer)) = (scope.written.spec(), &scope.unit.renderer) else {
        return;
    };
    crate::reconcile::values::sources::without_list(scope.unit, &mut spec);
    let read_values = &scope.unit.read_values;
    let mut unread = read_values.unknown(renderer.chart(), &spec);
    if unread.is_empty() {
        return;
    }
    if read_values.reads.get().is_none() {
        let renderer = Arc::clone(renderer);
        // Once for a chart, whatever its releases are.
        let reads = tokio::task::spawn_blocking(move || Reads::of(renderer.chart())).await;
        // Another release may have been faster.
        let _ = read_values.reads.set(reads.ok().flatten());
    }
    let Some(Some(reads)) = read_values.reads.get() else {
        return;
    };
    unread.retain(|name| {
        let path = std::slice::from_ref(name);
        !reads.whole(path) && !reads.part(path) && !is_mentioned(scope.unit, renderer.chart(), name)
    });
    if !unread.is_empty() {
        let paths = list(unread.iter().map(|name| format!("spec.{}", name.escape_debug())));
        let note = format!("the chart never reads {paths}: the value has no effect; check its name");
        scope.warn("ValueUnread", &note).await;
    }
}
