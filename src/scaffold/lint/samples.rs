//! The samples of a project, against CRD and chart.

use std::path::Path;

use super::examine::Examined;
use super::values::{Own, unread};
use super::watches::{Watched, values};
use super::yaml::{self, Document};
use super::{Report, rules, schema};
use crate::plan::identity::GroupKind;
use crate::watches::Watch;
use helm_template::render::{Engine, Input, Kept, Release};

const FOLDER: &str = "config/samples";

/// A custom resource in a file.
pub(super) struct Sample {
    pub(super) document: Document,
    group_kind: GroupKind,
    version: String,
}

/// All objects in the samples' folder.
pub(super) fn read(root: &Path) -> Vec<Sample> {
    let documents = yaml::read_folder(root, FOLDER).into_iter();
    let samples = documents.filter_map(|document| {
        let (group_kind, version) = GroupKind::of(&document.value)?;
        Some(Sample {
            document,
            group_kind,
            version,
        })
    });
    samples.collect()
}

pub(super) fn check(sample: &Sample, watched: &Watched<'_>, chart: Option<&Examined>, report: &mut Report) {
    let Document { file, root, value } = &sample.document;
    if sample.version != watched.watch.version {
        let at = yaml::at(root, &["apiVersion"]).map_or((1, 0), yaml::place);
        let message = format!(
            "the sample is of version {}, and watched is {}",
            sample.version, watched.watch.version
        );
        report.add(rules::SAMPLE_REFUSED, file.as_str(), at, message);
        return;
    }
    if let (Some(schema), Some(crd)) = (watched.schema(), watched.crd) {
        for (at, message) in schema::check(schema, root, value) {
            report.add(
                rules::SAMPLE_REFUSED,
                file.as_str(),
                at,
                format!("{message} ({})", crd.file()),
            );
        }
    }
    let Some(examined) = chart else { return };
    let spec = yaml::at(root, &["spec"]);
    if let (Some(spec), Some(reads)) = (spec, &examined.reads) {
        for (path, at) in unread(spec, reads, &Own::of(examined)) {
            let message = format!("the chart never reads spec.{path}");
            report.add(rules::SAMPLE_UNREAD, file.as_str(), at, message);
        }
    }
    // What isn't known here may be all that is missing.
    let has_unknown = watched
        .watch
        .values_from
        .iter()
        .any(|source| source.target_path.is_none());
    if has_unknown || watched.watch.values_from_field.is_some() {
        return;
    }
    if let Err(message) = renders(examined, values(watched.watch, &value["spec"])) {
        let at = spec.map_or((root.line, 0), yaml::place);
        report.add(rules::SAMPLE_FAILS, file.as_str(), at, message);
    }
}

fn renders(examined: &Examined, values: serde_json::Value) -> Result<(), String> {
    let text = |error: helm_template::render::Error| {
        let text = error.to_string();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ")
    };
    let engine = Engine::new(examined.chart.clone()).map_err(text)?;
    let kept = Kept::default();
    let input = Input {
        kept: Some(&kept),
        ..Input::new(Release::install("sample", super::examine::NAMESPACE), values)
    };
    engine.render_with(&input).map(drop).map_err(text)
}

// === impl Sample ===

impl Sample {
    pub(super) fn is_of(&self, watch: &Watch) -> bool {
        self.group_kind.group == watch.group && self.group_kind.kind == watch.kind
    }
}
