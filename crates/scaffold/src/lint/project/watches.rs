//! A project: its watches, and what belongs to each of them.

use std::path::Path;

use super::crd::{self, Crd};
use super::samples::{self, SampleFile};
use super::watch_values::UNKNOWN;
use super::watched::Watched;
use super::{crd_checks, privileges, rights, sample_checks};
use crate::lint::chart::examine::Examined;
use crate::lint::report::LintReport;
use crate::lint::{chart, rules};
use chartwright_watches::{ReadContext, Watch};

pub(in crate::lint) fn check(file: &str, report: &mut LintReport) {
    let root = report.root.clone();
    let Some(watches) = read(file, &root, report) else {
        return;
    };
    let crds = crd::read(&root);
    let samples = samples::read(&root);
    let watched: Vec<Watched> = watches.iter().map(|watch| Watched::of(watch, &root, &crds)).collect();
    let mut charts: Vec<Examined> = Vec::new();
    for one in &watched {
        crd_checks::check_watched(file, one, report);
        let own: Vec<&SampleFile> = samples.iter().filter(|sample| sample.is_of(one.watch)).collect();
        if own.is_empty() && one.watch.decorator.is_none() {
            let message = format!("there is no {} in config/samples", one.watch.group_kind());
            report.add(rules::SAMPLE_MISSING, file, (one.watch.line, 0), message);
        }
        let is_known = charts.iter().any(|chart| one.is_of(chart));
        if !is_known && root.join(&one.kind.chart).is_dir() {
            let given = samples::given(&one.watch.chart, &watches, &samples);
            charts.extend(chart::check(&one.kind.chart, given, one.watch.patches.clone(), report));
        }
        let chart = charts.iter().find(|chart| one.is_of(chart));
        if let Some(examined) = chart {
            check_patches(file, examined, report);
            // Who may make cluster-scoped custom resources may have all this anyway.
            if one.crd.is_none_or(Crd::is_namespaced) {
                privileges::check(examined, Some(one.watch), report);
            }
            crd_checks::check_values(examined, one, report);
        }
        own.into_iter()
            .for_each(|sample| sample_checks::check(sample, one, chart, report));
    }
    rights::check(&watched, &charts, report);
}

/// Reports patches that fail, and patches that select nothing in any render.
fn check_patches(file: &str, examined: &Examined, report: &mut LintReport) {
    if examined.objects.is_empty() && examined.failures.is_empty() {
        // Without a render, nothing is known of the patches.
        return;
    }
    let patches = examined.patches.iter().zip(&examined.may_select);
    for (index, (patch, may_select)) in patches.enumerate() {
        if let Some(failure) = examined.failures.get(&index) {
            report.add(rules::PATCH_FAILS, file, (patch.line, 0), failure.message.clone());
        } else if !may_select {
            let chart = &examined.folder;
            let message = format!(
                "patches[{index}] selects no object of {chart}: no render has one of its group, version and kind"
            );
            report.add(rules::PATCH_UNMATCHED, file, (patch.line, 0), message);
        }
    }
}

/// The watches of a file; `None`, and findings, if it is wrong.
fn read(file: &str, root: &Path, report: &mut LintReport) -> Option<Vec<Watch>> {
    let text = match std::fs::read(root.join(file)) {
        Ok(text) => text,
        Err(error) => {
            report.add(rules::WATCHES, file, (1, 0), format!("cannot be read: {error}"));
            return None;
        }
    };
    let outside = ReadContext {
        folder: root,
        env: &|_| Some(UNKNOWN.to_owned()),
    };
    match chartwright_watches::parse(file, &text, &outside) {
        Ok((watches, warnings)) => {
            for found in warnings {
                let message = found.message.replace(&format!("{}/", root.display()), "");
                report.add(rules::WATCHES_TRAP, file, (found.line, found.column), message);
            }
            Some(watches)
        }
        Err(errors) => {
            for found in errors.0 {
                report.add(rules::WATCHES, file, (found.line, found.column), found.message);
            }
            None
        }
    }
}
