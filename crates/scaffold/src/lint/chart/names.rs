//! Names that get too long, and names that two releases would share.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::examine::{Examined, NAMESPACE};
use crate::lint::report::LintReport;
use crate::lint::rules;
use crate::survey::patched::patched;
use chartwright_core::identity::GroupKind;
use chartwright_core::identity::cluster_scoped::is_cluster_scoped;
use helm_template::render::{Engine, Input, Kept, Random, ReleaseObject, Rendered, StandIns};

/// As long as Helm lets a release's name be.
const LONGEST: usize = 53;

/// Another namespace than that of the examined releases.
const OTHER_NAMESPACE: &str = "another-namespace";

pub(in crate::lint) fn check(examined: &Examined, report: &mut LintReport) {
    if examined.chart.is_library() {
        return;
    }
    let Ok(engine) = Engine::for_releases(examined.chart.clone()) else {
        return;
    };
    let random: Arc<dyn Random> = Arc::new(StandIns::new(0));
    let mut found = BTreeSet::new();
    if let Some(rendered) = render(&engine, &random, &"long-name-".repeat(6)[..LONGEST], NAMESPACE) {
        each(examined, &rendered, NAMESPACE, &mut |source, object| {
            too_long(source, object, &mut found)
        });
    }
    for (source, kind, message) in found {
        if examined.is_own(&source) {
            let (file, at) = examined.place(&source, &kind, &[]);
            report.add(rules::LONG_NAME, file, at, message);
        }
    }
    let Some(other) = render(&engine, &random, "release-name", OTHER_NAMESPACE) else {
        return;
    };
    let mut shared = Vec::new();
    each(examined, &other, OTHER_NAMESPACE, &mut |source, object| {
        let Some((group_kind, _)) = GroupKind::of(object) else {
            return;
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let is_same = examined
            .objects
            .iter()
            .any(|seen| seen.by_default && seen.group_kind == group_kind && seen.name() == name);
        // A CRD's name is that of its kind.
        let may_differ = is_cluster_scoped(&group_kind) && group_kind.kind != "CustomResourceDefinition";
        if may_differ && is_same && examined.is_own(source) {
            let place = examined.place(source, &group_kind.kind, &[]);
            shared.push((
                place,
                format!("{group_kind} {}", name.replace("release-name", "RELEASE")),
            ));
        }
    });
    let is_many = |count: usize| if count == 1 { "is" } else { "are" };
    report.add_one_of(rules::SHARED_NAME, shared, |names, count| {
        format!("{names} {} called the same in every namespace", is_many(count))
    });
}

fn render(engine: &Engine, random: &Arc<dyn Random>, name: &str, namespace: &str) -> Option<Rendered> {
    let kept = Kept::default();
    let input = Input {
        kept: Some(&kept),
        random: Some(Arc::clone(random)),
        read_objects: true,
        skip_schema: true,
        ..Input::new(ReleaseObject::install(name, namespace), json!({}))
    };
    engine.render_with(&input).ok()
}

/// Calls `observe` with template and object of each member and hook, after the patches.
fn each(examined: &Examined, rendered: &Rendered, namespace: &str, observe: &mut dyn FnMut(&str, &Value)) {
    for patched in patched(rendered, &examined.patches, namespace).objects {
        let is_step = patched.events.is_some_and(<[_]>::is_empty);
        if !is_step {
            observe(patched.source, &patched.object);
        }
    }
}

/// How long a name of that kind may be: what controllers add to it has to fit into a label.
fn limit(kind: &str) -> usize {
    match kind {
        // -<10 digits of the revision>
        "StatefulSet" => 52,
        // -<11 digits of the time>
        "CronJob" => 52,
        "Service" | "Namespace" | "Job" => 63,
        _ => 253,
    }
}

fn too_long(source: &str, object: &Value, found: &mut BTreeSet<(String, String, String)>) {
    let Some((group_kind, _)) = GroupKind::of(object) else {
        return;
    };
    let kind = group_kind.kind;
    let mut report = |message: String| found.insert((source.to_owned(), kind.clone(), message));
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let (length, limit) = (name.len(), limit(&kind));
    if length > limit {
        report(format!(
            "the {kind}'s name has {length} characters in a release whose name has {LONGEST}; {limit} are the most"
        ));
    }
    for labels in [
        "/metadata/labels",
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        let labels = object.pointer(labels).and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let length = value.as_str().map_or(0, str::len);
            if length > 63 {
                report(format!(
                    "the label {key} of the {kind} has {length} characters in a release whose name has {LONGEST}; 63 are the most"
                ));
            }
        }
    }
}
