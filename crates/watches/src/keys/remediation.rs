//! The key `remediation`: actions that the operator takes for an unhealthy release.

use std::time::Duration;

use go_yaml::{Data, Node};
use serde_json::{Map, Value};

use super::health::read_expression;
use super::sources::json;
use crate::cel::{Expression, VARIABLES};
use crate::names;
use crate::reader::{Findings, MapFields};

/// Defaults: actions per hour, and time between two actions.
const DEFAULT_BUDGET: usize = 3;
const DEFAULT_COOL_DOWN: Duration = Duration::from_secs(600);

/// One rule of `remediation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemediationRule {
    pub name: String,
    /// The action is due after this condition is true...
    pub when: Expression,
    /// ... for this long.
    pub lasting: Duration,
    pub action: RemediationAction,
    /// Maximum number of actions per hour.
    pub budget: usize,
    /// Minimum time between two actions.
    pub cool_down: Duration,
    /// The operator only reports the action.
    pub dry_run: bool,
}

/// The action of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemediationAction {
    /// Runs a plan of the chart.
    Plan { name: String, params: Map<String, Value> },
    /// Deletes a member, so that it is recreated. `name`: a Go template over the custom resource.
    Recreate { kind: String, name: String },
}

/// Reads the key `remediation`.
pub(crate) fn read(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Vec<RemediationRule> {
    let mut rules: Vec<RemediationRule> = Vec::new();
    for node in findings.read_list(fields, "remediation") {
        let Some(rule) = read_rule(node, findings) else {
            continue;
        };
        if rules.iter().any(|other| other.name == rule.name) {
            findings.error(
                node,
                format!("`{}` is there twice: each rule has a name of its own", rule.name),
            );
        }
        rules.push(rule);
    }
    rules
}

fn read_rule(node: &Node, findings: &mut Findings<'_>) -> Option<RemediationRule> {
    const KNOWN: [&str; 7] = ["name", "when", "for", "do", "budget", "coolDown", "dryRun"];
    let fields = MapFields::open(node, "an entry of `remediation`", &KNOWN, findings)?;
    for name in ["name", "when", "do"] {
        if fields.get(name).is_none() {
            findings.error(
                node,
                format!("`{name}` is missing: an entry of `remediation` needs name, when and do"),
            );
        }
    }
    let name = findings.read_checked(&fields, "name", names::is_dns_label, |name| {
        format!("`name` must be a name such as restart-stuck, not {name:?}")
    });
    let when = read_expression(&fields, "when", &VARIABLES, findings);
    let action = fields.get("do").and_then(|node| read_action(node, findings));
    let lasting = findings.read_duration(&fields, "for", "means immediately");
    let cool_down = findings.read_duration(&fields, "coolDown", "means 10 minutes");
    let budget = findings.read_count(&fields, "budget", 1);
    let dry_run = findings.read_bool(&fields, "dryRun", false);
    Some(RemediationRule {
        name: name?,
        when: when?,
        lasting: lasting.unwrap_or_default(),
        action: action?,
        budget: budget.unwrap_or(DEFAULT_BUDGET),
        cool_down: cool_down.unwrap_or(DEFAULT_COOL_DOWN),
        dry_run,
    })
}

fn read_action(node: &Node, findings: &mut Findings<'_>) -> Option<RemediationAction> {
    let fields = MapFields::open(node, "`do`", &["plan", "params", "recreate"], findings)?;
    match (fields.get("plan"), fields.get("recreate")) {
        (Some(_), None) => {
            let name = findings.read_checked(
                &fields,
                "plan",
                |name| !name.is_empty(),
                |_| "`plan` is empty".to_owned(),
            );
            let params = match fields.get("params").map(|node| (node, json(node, findings))) {
                None => Map::new(),
                Some((_, Value::Object(params))) => params,
                Some((node, _)) => {
                    findings.type_error(node, "params", "a map: the parameters of the plan");
                    Map::new()
                }
            };
            Some(RemediationAction::Plan { name: name?, params })
        }
        (None, Some(member)) => {
            if let Some(params) = fields.get("params") {
                findings.error(params, "`params` are those of a plan");
            }
            read_member(member, findings)
        }
        _ => {
            findings.error(
                node,
                "`do` says one thing: plan, the name of a plan, or recreate, a member",
            );
            None
        }
    }
}

fn read_member(node: &Node, findings: &mut Findings<'_>) -> Option<RemediationAction> {
    if !matches!(node.data, Data::Map(_)) {
        findings.type_error(node, "recreate", "a member, such as {kind: Deployment, name: web}");
        return None;
    }
    let fields = MapFields::open(node, "`recreate`", &["kind", "name"], findings)?;
    let kind = findings.read_checked(&fields, "kind", names::is_kind, |kind| {
        format!("`kind` must be a kind such as Deployment, not {kind:?}")
    });
    let is_name = |name: &str| name.contains("{{") || names::is_dns_subdomain(name);
    let name = findings.read_checked(&fields, "name", is_name, |name| {
        format!("`name` must be the name of a member, or a template such as {{{{ .metadata.name }}}}-web, not {name:?}")
    });
    for name in ["kind", "name"] {
        if fields.get(name).is_none() {
            findings.error(node, format!("`{name}` is missing: `recreate` needs kind and name"));
        }
    }
    Some(RemediationAction::Recreate {
        kind: kind?,
        name: name?,
    })
}
