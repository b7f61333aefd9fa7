//! The samples of a project, and the values that they give its charts.

use std::path::Path;

use serde_json::{Value, json};

use super::crd::OLD_FOLDER;
use super::watch_values::values;
use crate::lint::yaml::{self, Document};
use chartwright_core::identity::GroupKind;
use chartwright_watches::Watch;

const FOLDER: &str = "config/samples";

/// A custom resource in a file.
pub(crate) struct SampleFile {
    pub(in crate::lint) document: Document,
    group_kind: GroupKind,
    pub(super) version: String,
}

/// All objects in the samples' folder, or beside the definitions of an old project.
pub(crate) fn read(root: &Path) -> Vec<SampleFile> {
    let folders = [FOLDER, OLD_FOLDER].into_iter();
    let documents = folders.flat_map(|folder| yaml::read_folder(root, folder));
    let samples = documents.filter_map(|document| {
        let (group_kind, version) = GroupKind::of(&document.value)?;
        Some(SampleFile {
            document,
            group_kind,
            version,
        })
    });
    samples.collect()
}

/// The values that a chart is known to be used with: those of each of its watches alone, and with each sample.
pub(crate) fn given(chart: &Path, watches: &[Watch], samples: &[SampleFile]) -> Vec<Value> {
    let of_watch = |watch| {
        let own = samples.iter().filter(move |sample: &&SampleFile| sample.is_of(watch));
        let specs = own.map(|sample| &sample.document.value["spec"]);
        let specs = [&Value::Null].into_iter().chain(specs);
        specs.map(move |spec| values(watch, spec))
    };
    let given = watches.iter().filter(|watch| watch.chart == chart).flat_map(of_watch);
    // Without any, a chart is rendered in any case.
    given.filter(|values| *values != json!({})).collect()
}

impl SampleFile {
    pub(in crate::lint) fn is_of(&self, watch: &Watch) -> bool {
        self.group_kind.group == watch.group && self.group_kind.kind == watch.kind
    }
}
