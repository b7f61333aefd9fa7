//! The key `health`: CEL conditions for the health of kinds that the operator has no rule for.

use go_yaml::Data;

use crate::cel::{Expression, VARIABLES};
use crate::names;
use crate::reader::{Findings, MapFields};

/// One entry of `health`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRule {
    pub group: String,
    pub kind: String,
    /// The object has reached the state of its spec.
    pub ready_when: Expression,
    /// The object will not become ready without a change.
    pub failed_when: Option<Expression>,
}

/// Reads the key `health`.
pub(crate) fn read(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Vec<HealthRule> {
    const KNOWN: [&str; 4] = ["group", "kind", "readyWhen", "failedWhen"];
    let mut rules: Vec<HealthRule> = Vec::new();
    for node in findings.read_list(fields, "health") {
        let Some(fields) = MapFields::open(node, "an entry of `health`", &KNOWN, findings) else {
            continue;
        };
        for name in ["kind", "readyWhen"] {
            if fields.get(name).is_none() {
                findings.error(
                    node,
                    format!("`{name}` is missing: an entry of `health` needs kind and readyWhen"),
                );
            }
        }
        let group = findings.read_checked(&fields, "group", names::is_dns_subdomain, |group| {
            format!("`group` must be a DNS name such as cert-manager.io, not {group:?}")
        });
        let kind = findings.read_checked(&fields, "kind", names::is_kind, |kind| {
            format!("`kind` must be a kind such as Certificate, not {kind:?}")
        });
        let ready_when = read_expression(&fields, "readyWhen", &VARIABLES, findings);
        let failed_when = read_expression(&fields, "failedWhen", &VARIABLES, findings);
        let (Some(kind), Some(ready_when)) = (kind, ready_when) else {
            continue;
        };
        let group = group.unwrap_or_default();
        if rules.iter().any(|rule| rule.group == group && rule.kind == kind) {
            findings.error(node, format!("{kind} has a rule already: a kind has one"));
        }
        rules.push(HealthRule {
            group,
            kind,
            ready_when,
            failed_when,
        });
    }
    rules
}

/// Reads a CEL condition over these variables.
pub(crate) fn read_expression(
    fields: &MapFields<'_>,
    name: &str,
    variables: &[&str],
    findings: &mut Findings<'_>,
) -> Option<Expression> {
    let node = fields.get(name)?;
    let text = match node.data {
        // YAML parses `true` as a bool.
        Data::Bool(always) => always.to_string(),
        _ => findings.read_string(fields, name)?.0.to_owned(),
    };
    let compiled = Expression::compile_with(&text, variables);
    compiled
        .map_err(|error| findings.error(node, format!("`{name}`: {error}")))
        .ok()
}
