//! The rules for one chart.

pub(super) mod examine;
mod names;
mod objects;
mod random;
pub(super) mod values;
mod words;

use std::sync::Arc;

use chartwright_core::values::value_reads::ValueReads;
use chartwright_watches::ObjectPatch;

use super::report::LintReport;
use examine::Examined;

/// Runs the rules for a chart alone. `folder` is relative to the linted folder. `given`: values from samples and watches. `patches`:
/// those of the watch. Returns None if the chart can't be read.
pub(super) fn check(
    folder: &str,
    given: Vec<serde_json::Value>,
    patches: Arc<[ObjectPatch]>,
    report: &mut LintReport,
) -> Option<Examined> {
    let examined = Examined::of(folder, given, patches, report)?;
    let reads = ValueReads::of(&examined.chart);
    if let Some(reads) = &reads {
        values::check(&examined, reads, report);
    }
    random::check(&examined, report);
    words::check(&examined, report);
    objects::check(&examined, report);
    names::check(&examined, report);
    Some(Examined { reads, ..examined })
}
