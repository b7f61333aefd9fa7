//! Values that no template reads.

use go_yaml::{Data, Node};

use super::examine::Examined;
use crate::lint::report::{LintReport, join};
use crate::lint::{rules, yaml};
use chartwright_core::values::value_reads::ValueReads;

/// Keys of values.yaml that no template reads.
pub(in crate::lint) fn check(examined: &Examined, reads: &ValueReads, report: &mut LintReport) {
    if examined.chart.is_library() {
        return;
    }
    let file = join(&examined.folder, "values.yaml");
    let own = OwnValues::of(examined);
    for document in yaml::read(&report.root, &file) {
        for (path, at) in unread(&document.root, reads, &own) {
            let message = format!("no template reads `{path}`");
            report.add(rules::UNREAD_VALUE, file.as_str(), at, message);
        }
    }
}

/// Keys at the top that mean something to Helm or to subcharts.
pub(in crate::lint) struct OwnValues {
    others: Vec<String>,
}

impl OwnValues {
    pub(in crate::lint) fn of(examined: &Examined) -> Self {
        let chart = &examined.chart;
        // `enabled` at the top is a condition for charts that depend on this one.
        let mut others = ["global", "exports", "tags", "enabled"].map(str::to_owned).to_vec();
        others.extend(chart.dependencies.iter().map(|chart| chart.name().to_owned()));
        for dependency in &chart.metadata.dependencies {
            others.extend([dependency.name.clone(), dependency.alias.clone()]);
        }
        OwnValues { others }
    }
}

/// The outermost keys that are not read, with their places.
pub(in crate::lint) fn unread(values: &Node, reads: &ValueReads, own: &OwnValues) -> Vec<(String, (usize, usize))> {
    let mut found = Vec::new();
    for (name, key, value) in yaml::entries(values) {
        if !own.others.iter().any(|other| other == name) {
            visit(&mut vec![name.to_owned()], key, value, reads, &mut found);
        }
    }
    found
}

fn visit(
    path: &mut Vec<String>,
    key: &Node,
    value: &Node,
    reads: &ValueReads,
    found: &mut Vec<(String, (usize, usize))>,
) {
    if reads.whole(path) {
        return;
    }
    if !reads.part(path) {
        if !has_word(path, value, reads) {
            found.push((path.join("."), yaml::place(key)));
        }
        return;
    }
    for (name, key, value) in yaml::entries(value) {
        path.push(name.to_owned());
        visit(path, key, value, reads, found);
        path.pop();
    }
}

/// Whether Handlebars templates may read something below.
fn has_word(path: &mut Vec<String>, value: &Node, reads: &ValueReads) -> bool {
    yaml::entries(value).any(|(name, _, value)| {
        path.push(name.to_owned());
        let is_read = reads.whole(path) || matches!(value.data, Data::Map(_)) && has_word(path, value, reads);
        path.pop();
        is_read
    })
}
