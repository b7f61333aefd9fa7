//! The samples of a project, against CRD and chart.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::watches::{Watched, values};
use crate::lint::chart::examine::Examined;
use crate::lint::chart::values::{OwnValues, unread};
use crate::lint::yaml::{self, Document};
use crate::lint::{LintReport, rules, schema};
use crate::survey::{apis_named, one_line};
use chartwright_core::identity::GroupKind;
use chartwright_watches::Watch;
use helm_template::render::{Capabilities, Engine, Input, Kept, Release, StandIns};

const FOLDER: &str = "config/samples";

/// A custom resource in a file.
pub(crate) struct SampleFile {
    pub(in crate::lint) document: Document,
    group_kind: GroupKind,
    version: String,
}

/// All objects in the samples' folder, or beside the definitions of an old project.
pub(crate) fn read(root: &Path) -> Vec<SampleFile> {
    let folders = [FOLDER, super::crd::OLD_FOLDER].into_iter();
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

pub(in crate::lint) fn check(
    sample: &SampleFile,
    watched: &Watched<'_>,
    chart: Option<&Examined>,
    report: &mut LintReport,
) {
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
        for (path, at) in unread(spec, reads, &OwnValues::of(examined)) {
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
    let name = value["metadata"]["name"].as_str().unwrap_or("sample");
    if let Err(message) = renders(examined, name, &values(watched.watch, &value["spec"])) {
        let at = spec.map_or((root.line, 0), yaml::place);
        report.add(rules::SAMPLE_FAILS, file.as_str(), at, message);
    }
}

/// Whether the chart renders with these values, without APIs of others or with those that its templates name.
fn renders(examined: &Examined, name: &str, values: &Value) -> Result<(), String> {
    let engine = Engine::for_releases(examined.chart.clone()).map_err(|error| one_line(&error))?;
    let kept = Kept::default();
    let mut capabilities = Capabilities::default();
    let render = |capabilities: &Capabilities| {
        let input = Input {
            kept: Some(&kept),
            random: Some(Arc::new(StandIns::new(0))),
            capabilities,
            ..Input::new(
                Release::install(name, crate::lint::chart::examine::NAMESPACE),
                values.clone(),
            )
        };
        engine.render_with(&input).map(drop)
    };
    if render(&capabilities).is_ok() {
        return Ok(());
    }
    Arc::make_mut(&mut capabilities.api_versions).extend(apis_named(&examined.chart));
    render(&capabilities).map_err(|error| one_line(&error))
}

impl SampleFile {
    pub(in crate::lint) fn is_of(&self, watch: &Watch) -> bool {
        self.group_kind.group == watch.group && self.group_kind.kind == watch.kind
    }
}
