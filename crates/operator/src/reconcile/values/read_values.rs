//! Which values a chart reads.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::Value;

use chartwright_core::values::value_reads::ValueReads;
use helm_template::chart::Chart;

/// So many names of one spec are looked at.
pub(crate) const LOOKED_AT: usize = 10;

/// What is known of the values that a chart reads, from the first release that is rendered on.
#[derive(Default)]
pub struct ReadValues {
    /// The names at the top of the chart's own values, and those that mean something to Helm.
    pub(crate) known: OnceLock<BTreeSet<String>>,
    /// `None`: it isn't known for certain.
    pub(crate) reads: OnceLock<Option<ValueReads>>,
}

impl ReadValues {
    /// The names at the top of a spec that aren't the chart's own values, up to [`LOOKED_AT`].
    pub(crate) fn unknown(&self, chart: &Chart, spec: &Value) -> Vec<String> {
        let known = self.known.get_or_init(|| known(chart));
        let fields = spec.as_object().into_iter().flatten();
        let names = fields.map(|(name, _)| name).filter(|name| !known.contains(*name));
        names.take(LOOKED_AT).cloned().collect()
    }
}

pub(crate) fn known(chart: &Chart) -> BTreeSet<String> {
    let mut known: BTreeSet<String> = chart.values.to_json().keys().cloned().collect();
    known.extend(["global", "exports", "tags", "enabled"].map(str::to_owned));
    known.extend(chart.dependencies.iter().map(|chart| chart.name().to_owned()));
    for dependency in &chart.metadata.dependencies {
        known.extend([dependency.name.clone(), dependency.alias.clone()]);
    }
    known
}
