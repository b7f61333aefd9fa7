//! The key `elect`: workloads without a leader election of their own, for which the operator elects one pod.

use crate::names;
use crate::reader::{Findings, MapFields};

/// Default label of the leader.
const LABEL: &str = "chartwright.dev/leader";
const VALUE: &str = "true";

const KINDS: [&str; 4] = ["StatefulSet", "Deployment", "DaemonSet", "ReplicaSet"];

/// One entry of `elect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectRule {
    /// A kind of the group `apps`.
    pub kind: &'static str,
    /// A name, or a Go template over the custom resource that renders one.
    pub name: String,
    /// Key of the label that only the leader carries.
    pub label: String,
    pub value: String,
}

/// Reads the key `elect`.
pub(crate) fn read(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Vec<ElectRule> {
    const KNOWN: [&str; 4] = ["kind", "name", "label", "value"];
    let mut all: Vec<ElectRule> = Vec::new();
    for node in findings.read_list(fields, "elect") {
        let Some(fields) = MapFields::open(node, "an entry of `elect`", &KNOWN, findings) else {
            continue;
        };
        for name in ["kind", "name"] {
            if fields.get(name).is_none() {
                findings.error(
                    node,
                    format!("`{name}` is missing: an entry of `elect` needs kind and name"),
                );
            }
        }
        let kind = findings.read_choice(&fields, "kind", KINDS.map(|kind| (kind, kind)));
        let is_name = |name: &str| name.contains("{{") || names::is_dns_subdomain(name);
        let name = findings.read_checked(&fields, "name", is_name, |name| {
            format!(
                "`name` must be the name of an object, or a template such as {{{{ .metadata.name }}}}, not {name:?}"
            )
        });
        let label = findings.read_checked(&fields, "label", names::is_label_key, |label| {
            format!("`label` must be a label's key such as {LABEL}, not {label:?}")
        });
        let value = findings.read_checked(&fields, "value", names::is_label_value, |value| {
            format!("{value:?} cannot be a label's value: at most 63 of A-Z a-z 0-9 . _ -")
        });
        let Some(name) = name else { continue };
        if all.iter().any(|other| other.kind == kind && other.name == name) {
            findings.error(
                node,
                format!("{kind} {name} elects a leader already: a workload has one"),
            );
        }
        all.push(ElectRule {
            kind,
            name,
            label: label.unwrap_or_else(|| LABEL.to_owned()),
            value: value.unwrap_or_else(|| VALUE.to_owned()),
        });
    }
    all
}
