//! A chart, and what its renders show with every switch turned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::random::RandomResults;
use crate::lint::project::crd;
use crate::lint::report::{LintReport, join};
use crate::lint::rules;
use crate::survey::patched::{PatchedObject, patched};
use crate::survey::{self, Survey};
use chartwright_core::identity::GroupKind;
use chartwright_core::members::patches::PatchFailure;
use chartwright_core::values::value_reads::ValueReads;
use chartwright_watches::ObjectPatch;
use helm_template::chart::Chart;
use helm_template::render::{Engine, Error, HookEvent, LookupKey};

/// The namespace of the releases that are rendered.
pub(in crate::lint) const NAMESPACE: &str = "default";

/// A chart, and what is known of it.
pub(in crate::lint) struct Examined {
    pub(in crate::lint) chart: Chart,
    /// Relative to what is looked at; empty if that is the chart.
    pub(in crate::lint) folder: String,
    /// The patches of the watch, which the objects have.
    pub(in crate::lint) patches: Arc<[ObjectPatch]>,
    /// The first failure of each patch, in any render.
    pub(in crate::lint) failures: BTreeMap<usize, PatchFailure>,
    /// For each patch: true if a render has an object of its group, version and kind.
    pub(in crate::lint) may_select: Vec<bool>,
    pub(in crate::lint) survey: Survey,
    /// Group and resource of what the chart makes with its own values or with those of the project's watches and samples.
    pub(in crate::lint) usual: BTreeSet<(String, String)>,
    /// Each once, as it was in the first render that had it.
    pub(in crate::lint) objects: Vec<ExaminedObject>,
    pub(in crate::lint) lookups: Vec<LookupKey>,
    pub(in crate::lint) random: RandomResults,
    /// `None` if that isn't known for certain.
    pub(in crate::lint) reads: Option<ValueReads>,
}

/// An object that a render had.
pub(in crate::lint) struct ExaminedObject {
    /// The template, as renders name it.
    pub(in crate::lint) source: String,
    pub(in crate::lint) group_kind: GroupKind,
    pub(in crate::lint) object: Value,
    /// Of a hook, when it runs.
    pub(in crate::lint) events: Option<Vec<HookEvent>>,
    /// Whether the chart makes it with its own values.
    pub(in crate::lint) by_default: bool,
}

type ObjectsByKey = BTreeMap<(String, GroupKind, String, String), ExaminedObject>;

impl Examined {
    /// Loads and renders a chart, and applies patches to its objects; `None`, and a finding, if it can't be loaded.
    pub(in crate::lint) fn of(
        folder: &str,
        given: Vec<Value>,
        patches: Arc<[ObjectPatch]>,
        report: &mut LintReport,
    ) -> Option<Self> {
        let chart = match Chart::load(report.root.join(folder)) {
            Ok(chart) => chart,
            Err(error) => {
                report.add(
                    rules::CHART_LOADS,
                    join(folder, "Chart.yaml"),
                    (1, 0),
                    error.to_string(),
                );
                return None;
            }
        };
        let mut survey = Survey::new(&chart, &crd::read(&report.root));
        let mut found = ObjectsByKey::new();
        let mut lookups = Vec::new();
        let mut random = RandomResults::default();
        // `None` where the first render fails as well, which is a finding.
        let engine = Engine::for_releases(chart.clone()).ok().map(Engine::with_memo);
        let mut problem = None;
        let mut renders = false;
        // Those after these turn a switch, or are of ci/.
        let last_usual = given.len();
        let mut usual = BTreeSet::new();
        let (mut failures, mut may_select) = (BTreeMap::new(), vec![false; patches.len()]);
        if !chart.is_library() {
            survey::each_render(&chart, given, &mut |at, values, result| match result {
                Ok(rendered) => {
                    renders |= at == 0;
                    let patched = patched(rendered, &patches, NAMESPACE);
                    survey.add(rendered, &patched.objects);
                    if at <= last_usual {
                        let objects = patched.objects.iter();
                        usual.extend(objects.filter_map(|patched| Some(GroupKind::of(&patched.object)?.0)));
                    }
                    for (known, now) in may_select.iter_mut().zip(&patched.may_select) {
                        *known |= now;
                    }
                    for failure in patched.failures {
                        failures.entry(failure.patch).or_insert(failure);
                    }
                    gather(patched.objects, at == 0, &mut found);
                    if let Some(engine) = &engine {
                        random.add(engine, values, rendered);
                    }
                    for key in &rendered.used_lookups {
                        if !lookups.contains(key) {
                            lookups.push(key.clone());
                        }
                    }
                }
                Err(error) if at == 0 && problem.is_none() => problem = Some(described(error)),
                Err(_) => {}
            });
        }
        let usual = usual
            .iter()
            .map(|kind| (kind.group.clone(), survey.resource(&kind.group, &kind.kind)));
        let examined = Examined {
            usual: usual.collect(),
            chart,
            folder: folder.to_owned(),
            patches,
            failures,
            may_select,
            survey,
            objects: found.into_values().collect(),
            lookups,
            random,
            reads: None,
        };
        if let (Some((source, line, message)), false) = (problem, renders) {
            let file = source.map_or_else(|| join(folder, "values.yaml"), |source| examined.file_of(&source));
            report.add(rules::CHART_RENDERS, file, (line, 0), message);
        }
        Some(examined)
    }

    /// The file of a template, as findings name it.
    pub(in crate::lint) fn file_of(&self, source: &str) -> String {
        let prefix = format!("{}/", self.chart.name());
        join(&self.folder, source.strip_prefix(&prefix).unwrap_or(source))
    }

    /// Whether the template is the chart's own. Problems in subcharts are for their authors to fix.
    pub(in crate::lint) fn is_own(&self, source: &str) -> bool {
        let prefix = format!("{}/templates/", self.chart.name());
        source.starts_with(&prefix)
    }

    /// The file and the line of a template where an object of that kind begins, and from there on the first line with each of
    /// these texts, one after the other, as far as there are such lines; line 1 if there is none.
    pub(in crate::lint) fn place(&self, source: &str, kind: &str, texts: &[&str]) -> (String, (usize, usize)) {
        let file = self.file_of(source);
        let text = self.chart.template(source).map(|file| file.data.as_bytes());
        let text = String::from_utf8_lossy(text.unwrap_or_default());
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let is_kind = |line: &&str| line.strip_prefix("kind:").is_some_and(|rest| rest.trim() == kind);
        let mut at = lines.iter().position(is_kind).unwrap_or_default();
        for text in texts {
            let starts = |line: &&str| line.strip_prefix("- ").unwrap_or(line).trim_start().starts_with(*text);
            let rest = lines.get(at..).unwrap_or_default();
            at += rest.iter().position(starts).unwrap_or_default();
        }
        (file, (at + 1, 0))
    }
}

/// Where an error is, and what.
fn described(error: &Error) -> (Option<String>, usize, String) {
    let place = error.place();
    (
        place.map(|place| place.file.clone()),
        place.map_or(1, |place| place.line),
        survey::one_line(error),
    )
}

fn gather(objects: Vec<PatchedObject<'_>>, by_default: bool, found: &mut ObjectsByKey) {
    for patched in objects {
        let Some((group_kind, _)) = GroupKind::of(&patched.object) else {
            continue;
        };
        let text = |pointer: &str| {
            let text = patched.object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let key = (
            patched.source.to_owned(),
            group_kind.clone(),
            text("/metadata/namespace"),
            text("/metadata/name"),
        );
        found.entry(key).or_insert_with(|| ExaminedObject {
            source: patched.source.to_owned(),
            group_kind,
            events: patched.events.map(<[HookEvent]>::to_vec),
            object: patched.object.into_owned(),
            by_default,
        });
    }
}

impl ExaminedObject {
    pub(in crate::lint) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(in crate::lint) fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE)
    }

    pub(in crate::lint) fn kind(&self) -> &str {
        &self.group_kind.kind
    }
}
