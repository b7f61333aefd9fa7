//! The keys `decorate` and `name`: a watch whose releases are attached to objects of other owners.

use std::path::Path;
use std::sync::Arc;

use kube::core::Selector;

use crate::names;
use crate::reader::{Findings, MapFields};

/// Longest name of a decorator, in bytes: annotations and Secret names add a prefix and a suffix to it.
const MAX_NAME_BYTES: usize = 39;

/// Reads the decorator's name. `None`: the watch is not a decorator.
pub(crate) fn read(
    fields: &MapFields<'_>,
    chart: Option<&Path>,
    selector: &Selector,
    findings: &mut Findings<'_>,
) -> Option<Arc<str>> {
    let is_name = |name: &str| name.len() <= MAX_NAME_BYTES && names::is_dns_label(name);
    let name = findings.read_checked(fields, "name", is_name, |name| {
        format!("`name` must be at most {MAX_NAME_BYTES} of a-z, 0-9 and -, beginning and ending with a letter or digit, not {name:?}")
    });
    if !findings.read_bool(fields, "decorate", false) {
        if let Some(at) = fields.get("name") {
            findings.error(at, "`name` is for watches with `decorate: true`");
        }
        return None;
    }
    let at = fields.get("decorate").unwrap_or(fields.at());
    if selector.selects_all() {
        findings.error(
            at,
            "`decorate: true` needs a `selector`: without, every object of the kind would be decorated",
        );
    }
    let folder = chart.filter(|path| path.extension().is_none_or(|end| end != "tgz" && end != "gz"));
    let folder = folder
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().to_string());
    let name = name.or(folder.filter(|name| is_name(name)));
    if name.is_none() {
        findings.error(
            at,
            "`decorate: true` needs a `name` where the chart's folder has none that can be one: it marks what this watch \
             makes, and has to stay the same",
        );
    }
    // A missing name was reported above.
    Some(name.unwrap_or_default().into())
}
