//! What a watch has to allow: objects that carry rights or reach far, and lookups.

use std::collections::BTreeMap;

use go_template::commands::{self, Word};

use crate::lint::chart::examine::{Examined, ExaminedObject, NAMESPACE};
use crate::lint::report::{LintReport, join};
use crate::lint::rules;
use chartwright_core::grants::{carries_rights, may_look_up};
use chartwright_core::identity::GroupKind;
use chartwright_core::identity::cluster_scoped::is_cluster_scoped;
use chartwright_watches::{AllowList, Watch};

/// `watch`: whose chart it is; `None` for a chart alone.
pub(in crate::lint) fn check(examined: &Examined, watch: Option<&Watch>, report: &mut LintReport) {
    check_objects(examined, watch, report);
    check_lookups(examined, watch, report);
}

fn check_objects(examined: &Examined, watch: Option<&Watch>, report: &mut LintReport) {
    let of = watch.map_or_else(
        || "a watch of this chart".to_owned(),
        |watch| format!("the watch of {}", watch.group_kind()),
    );
    let none = AllowList::default();
    let allow = watch.map_or(&none, |watch| &watch.allow);
    // One finding for each entry that `allow` lacks.
    let mut found: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for seen in examined.objects.iter().filter(|seen| !seen.by_default) {
        if let Some(missing) = missing(seen, allow) {
            let place = examined.place(&seen.source, seen.kind(), &[]);
            let name = format!("{} {}", seen.group_kind, seen.name().replace("release-name", "RELEASE"));
            found.entry(missing).or_default().push((place, name));
        }
    }
    for (missing, objects) in found {
        report.add_one_of(rules::NEEDS_ALLOW, objects, |names, count| {
            let made = if count == 1 { "isn't" } else { "aren't" };
            format!("{names} {made} made with the chart's own values: {of} needs `allow: {missing}`")
        });
    }
}

/// What `allow` lacks for an object that the chart doesn't make by itself.
fn missing(seen: &ExaminedObject, allow: &AllowList) -> Option<String> {
    let kind = seen.group_kind.to_string();
    let of_kind = |allowed: &String| {
        allowed == "*" || *allowed == kind || allowed.split_once('/').is_some_and(|(allowed, _)| allowed == kind)
    };
    let is_far = is_cluster_scoped(&seen.group_kind);
    if is_far || carries_rights(&seen.group_kind, &seen.object) {
        return (!allow.kinds.iter().any(of_kind)).then(|| format!("{{kinds: [{kind}]}}"));
    }
    let namespace = seen.namespace();
    let is_allowed = namespace == NAMESPACE || allow.namespaces.iter().any(|name| name == "*" || name == namespace);
    (!is_allowed).then(|| format!("{{namespaces: [{namespace}]}}"))
}

fn check_lookups(examined: &Examined, watch: Option<&Watch>, report: &mut LintReport) {
    let none = AllowList::default();
    let allowed = watch.map_or(&none, |watch| &watch.lookups);
    for key in &examined.lookups {
        let group = key.api_version.split_once('/').map_or("", |(group, _)| group);
        let group_kind = GroupKind::new(group, key.kind.as_str());
        let namespace = (!is_cluster_scoped(&group_kind)).then_some(key.namespace.as_str());
        let Err(refused) = may_look_up(&group_kind, namespace, &group_kind.to_string(), NAMESPACE, allowed) else {
            continue;
        };
        let (file, at) = place(examined, &key.kind);
        report.add(rules::LOOKUP, file, at, refused.to_string());
    }
}

/// Where something of that kind is looked up.
fn place(examined: &Examined, kind: &str) -> (String, (usize, usize)) {
    let mut some = None;
    for file in &examined.chart.templates {
        for command in commands::commands(&file.name, &file.data).unwrap_or_default() {
            let is_lookup = matches!(command.words.first(), Some(Word::Function(name)) if name == "lookup");
            if !is_lookup {
                continue;
            }
            let place = (join(&examined.folder, &file.name), (command.line, command.column + 1));
            if matches!(command.words.get(2), Some(Word::Text(text)) if text == kind) {
                return place;
            }
            some.get_or_insert(place);
        }
    }
    some.unwrap_or_else(|| (join(&examined.folder, "Chart.yaml"), (1, 0)))
}
