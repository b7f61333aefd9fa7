//! Checks the samples of a project against its definitions and charts.

use std::sync::Arc;

use serde_json::Value;

use super::samples::SampleFile;
use super::watch_values::values;
use super::watched::Watched;
use crate::lint::chart::examine::{Examined, NAMESPACE};
use crate::lint::chart::values::{OwnValues, unread};
use crate::lint::report::LintReport;
use crate::lint::yaml::{self, Document};
use crate::lint::{rules, schema};
use crate::survey::{apis_named, one_line};
use helm_template::render::{Capabilities, Engine, Input, Kept, ReleaseObject, StandIns};

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
            ..Input::new(ReleaseObject::install(name, NAMESPACE), values.clone())
        };
        engine.render_with(&input).map(drop)
    };
    if render(&capabilities).is_ok() {
        return Ok(());
    }
    Arc::make_mut(&mut capabilities.api_versions).extend(apis_named(&examined.chart));
    render(&capabilities).map_err(|error| one_line(&error))
}
