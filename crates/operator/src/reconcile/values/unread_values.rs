//! Values of a custom resource that its chart never reads: most are misspelt.

use std::sync::Arc;

use crate::reconcile::release::Release;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::unit::Unit;
use chartwright_core::status::conditions::short_list;
use chartwright_core::values::value_reads::ValueReads;
use helm_template::chart::Chart;

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
        // Once for a chart, not for each release.
        let reads = tokio::task::spawn_blocking(move || ValueReads::of(renderer.chart())).await;
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
        let paths = short_list(unread.iter().map(|name| format!("spec.{}", name.escape_debug())));
        let note = format!("the chart never reads {paths}: the value has no effect; check its name");
        scope.warn("ValueUnread", &note).await;
    }
}
