//! Reads one entry of `watches.yaml` into a [`Watch`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use go_yaml::{Data, Node};
use kube::core::{Expression, Selector};

use super::keys::{decorate, depends, differences, elect, health, overrides, patches, remediation, rollout, sources};
use super::names;
use super::reader::{Findings, MapFields, describe, suggestion};
use super::{
    AllowList, Collisions, CrdPolicy, DeletionFallback, DeletionPolicy, DriftPolicy, OnFailure, ReadContext,
    STATUS_TEMPLATE, Watch,
};

const KNOWN: [&str; 38] = [
    "group",
    "version",
    "kind",
    "chart",
    "overrideValues",
    "selector",
    "reconcilePeriod",
    "watchDependentResources",
    "maxConcurrentReconciles",
    "dryRunOption",
    "timeout",
    "wait",
    "values",
    "valuesFrom",
    "valuesFromField",
    "dependsOn",
    "targetNamespace",
    "deletionPolicy",
    "ownerReferences",
    "collisions",
    "crds",
    "allow",
    "lookups",
    "patches",
    "onFailure",
    "retries",
    "health",
    "statusTemplate",
    "remediation",
    "decorate",
    "name",
    "elect",
    "drift",
    "ignoreDifferences",
    "releaseName",
    "serviceAccountName",
    "deletionFallback",
    "rollout",
];
const DRY_RUN_OPTIONS: [&str; 6] = ["", "client", "server", "none", "true", "false"];

/// Reads an entry. Returns `None` if a required key is missing or invalid. Adds all problems to the findings.
pub(super) fn read(node: &Node, context: &ReadContext<'_>, findings: &mut Findings<'_>) -> Option<Watch> {
    let fields = MapFields::open(node, "a watch", &KNOWN, findings)?;
    check_required(&fields, findings);
    let (group, version, kind) = read_kind(&fields, findings);
    let chart = read_chart(&fields, context, findings);
    let override_values = fields
        .get("overrideValues")
        .map(|node| overrides::read(node, context.env, findings));
    let selector = fields
        .get("selector")
        .map(|node| read_selector(node, "selector", findings))
        .unwrap_or_default();
    let decorator = decorate::read(&fields, chart.as_deref(), &selector, findings);
    if decorator.is_none() {
        check_built_in(&fields, group.as_deref(), kind.as_deref(), &selector, findings);
    }
    check_dry_run_option(&fields, findings);
    let is_namespace = |name: &str| name.contains("{{") || names::is_dns_label(name);
    let target_namespace = findings.read_checked(&fields, "targetNamespace", is_namespace, |name| {
        format!("`targetNamespace` must be a namespace or a template such as x-{{{{ .metadata.name }}}}, not {name:?}")
    });
    let release_name = findings.read_checked(&fields, "releaseName", is_release_name, |name| {
        format!("`releaseName` must be a template such as x-{{{{ .metadata.name }}}}, not {name:?}: releases of one name would collide")
    });
    let watch = Watch {
        release_name,
        service_account_name: findings.read_checked(&fields, "serviceAccountName", is_account, |name| {
            format!("`serviceAccountName` must be the name of a ServiceAccount, or a template such as {{{{ .metadata.name }}}}, not {name:?}")
        }),
        deletion_fallback: findings.read_choice(&fields, "deletionFallback", DeletionFallback::NAMES),
        group: group.unwrap_or_default(),
        values: sources::read_values(&fields, findings),
        values_from: sources::read_sources(&fields, findings),
        values_from_field: sources::read_field(&fields, findings),
        override_values: override_values.unwrap_or_default(),
        decorator,
        depends_on: depends::read(&fields, findings),
        selector,
        reconcile_period: findings.read_duration(
            &fields,
            "reconcilePeriod",
            "means the period of the flag --reconcile-period, not never",
        ),
        timeout: findings.read_duration(&fields, "timeout", "means 5 minutes, not for ever"),
        on_failure: findings.read_choice(&fields, "onFailure", OnFailure::NAMES),
        retries: findings.read_count(&fields, "retries", 0).unwrap_or_default(),
        wait: findings.read_bool(&fields, "wait", false),
        watch_dependent_resources: findings.read_bool(&fields, "watchDependentResources", true),
        max_concurrent_reconciles: findings.read_count(&fields, "maxConcurrentReconciles", 1),
        target_namespace,
        deletion_policy: findings.read_choice(&fields, "deletionPolicy", DeletionPolicy::NAMES),
        owner_references: findings.read_bool(&fields, "ownerReferences", true),
        collisions: findings.read_choice(&fields, "collisions", Collisions::NAMES),
        crds: findings.read_choice(&fields, "crds", CrdPolicy::NAMES),
        allow: read_allow(&fields, "allow", findings),
        lookups: read_allow(&fields, "lookups", findings),
        patches: patches::read(&fields, findings),
        health: health::read(&fields, findings),
        status_template: read_status_template(&fields, findings),
        remediation: remediation::read(&fields, findings),
        elect: elect::read(&fields, findings),
        drift: findings.read_choice(&fields, "drift", DriftPolicy::NAMES),
        ignore_differences: differences::read(&fields, findings),
        rollout: rollout::read(&fields, findings),
        line: node.line,
        version: version?,
        kind: kind?,
        chart: chart?,
    };
    warn_about_pitfalls(&watch, &fields, findings);
    Some(watch)
}

/// True for a name of a ServiceAccount, or a template of one.
fn is_account(text: &str) -> bool {
    text.contains("{{") || names::is_dns_subdomain(text)
}

/// True for a template of names. A fixed name would be that of all releases.
fn is_release_name(text: &str) -> bool {
    text.contains("{{")
}

/// Reads `statusTemplate`, a file of the chart outside of `templates/`.
fn read_status_template(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> String {
    let is_file = |name: &str| !name.starts_with(['/', '.']) && !name.starts_with("templates/") && !name.contains("..");
    let name = findings.read_checked(fields, "statusTemplate", is_file, |name| {
        format!("`statusTemplate` must be a file in the chart's folder, outside of templates/, such as {STATUS_TEMPLATE}, not {name:?}")
    });
    name.unwrap_or_else(|| STATUS_TEMPLATE.to_owned())
}

fn check_required(fields: &MapFields<'_>, findings: &mut Findings<'_>) {
    for name in ["version", "kind", "chart"] {
        if fields.get(name).is_none() {
            findings.error(
                fields.at(),
                format!("`{name}` is missing: every watch needs version, kind and chart"),
            );
        }
    }
}

fn warn_about_pitfalls(watch: &Watch, fields: &MapFields<'_>, findings: &mut Findings<'_>) {
    if let (None, Some(at)) = (&watch.service_account_name, fields.get("deletionFallback")) {
        findings.warn(
            at,
            "`deletionFallback` has no effect without `serviceAccountName` or --default-service-account",
        );
    }
    if let (Some(_), Some(at)) = (&watch.service_account_name, fields.get("allow")) {
        findings.warn(
            at,
            "`allow` has no effect on objects with `serviceAccountName`: the API server decides by the rights of the account",
        );
    }
    if let (false, Some(at)) = (watch.watch_dependent_resources, fields.get("watchDependentResources")) {
        findings.warn(
            at,
            "`watchDependentResources: false`: changed or deleted members are corrected only at the next resync, and \
             readiness is evaluated only then",
        );
    }
    if let (OnFailure::Retry, Some(at)) = (watch.on_failure, fields.get("retries")) {
        findings.warn(
            at,
            "`retries` has no effect without `onFailure: rollback` or `onFailure: stall`: a failed upgrade is retried until it succeeds",
        );
    }
    if let (Collisions::AdoptUnowned, Some(at)) = (watch.collisions, fields.get("collisions")) {
        findings.warn(
            at,
            "`collisions: AdoptUnowned`: every author of a custom resource of this kind can take over and overwrite any object that \
             no controller and no Helm release owns, and whose name the chart can render",
        );
    }
    if let (Collisions::Force, Some(at)) = (watch.collisions, fields.get("collisions")) {
        findings.warn(
            at,
            "`collisions: Force`: every author of a custom resource of this kind can overwrite any object whose name the \
             chart can render, and delete it with the custom resource",
        );
    }
}

/// Reads group, version and kind.
fn read_kind(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> (Option<String>, Option<String>, Option<String>) {
    let is_group = |group: &str| group.is_empty() || names::is_dns_subdomain(group);
    let group = findings.read_checked(fields, "group", is_group, |group| {
        let hint = if group.contains('/') {
            ": write the part after `/` as `version`"
        } else {
            ""
        };
        format!("`group` must be a DNS name such as cache.example.com, not {group:?}{hint}")
    });
    let version = findings.read_checked(fields, "version", names::is_version, |version| {
        format!("`version` must be an API version such as v1alpha1, not {version:?}")
    });
    let kind = findings.read_checked(fields, "kind", names::is_kind, |kind| {
        format!("`kind` must be a kind such as Memcached, letters and digits only, not {kind:?}")
    });
    if let (Some(kind), Some(at)) = (&kind, fields.get("kind"))
        && kind.starts_with(|c: char| c.is_ascii_lowercase())
    {
        findings.warn(
            at,
            format!("kinds are written in CamelCase: `{kind}` only matches a CRD that has it in lower case"),
        );
    }
    (group, version, kind)
}

/// Reads the path of the chart. A missing chart is a warning.
fn read_chart(fields: &MapFields<'_>, context: &ReadContext<'_>, findings: &mut Findings<'_>) -> Option<PathBuf> {
    let chart = findings.read_checked(fields, "chart", |_| true, str::to_owned)?;
    let path = context.folder.join(&chart);
    if let (false, Some(at), Err(message)) = (chart.is_empty(), fields.get("chart"), check_chart(&path)) {
        findings.warn(at, format!("{message}; its releases can only be deleted"));
    }
    Some(path)
}

/// Checks that the path is a chart folder or an archive. Does not read the chart.
fn check_chart(path: &Path) -> Result<(), String> {
    let shown: PathBuf = path.components().collect();
    let shown = shown.display();
    let Ok(metadata) = std::fs::metadata(path) else {
        return Err(format!(
            "there is no chart at {shown}: paths are relative to the working directory"
        ));
    };
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    match metadata.is_dir() {
        true if path.join("Chart.yaml").is_file() => Ok(()),
        true => Err(format!("{shown} is no chart: it has no Chart.yaml")),
        false if name.ends_with(".tgz") || name.ends_with(".tar.gz") => Ok(()),
        false => Err(format!("{shown} is no chart: a chart is a folder or a .tgz archive")),
    }
}

/// Checks a watch of one of Kubernetes' own kinds. Each object that the selector matches becomes a release and gets a finalizer, so
/// a selector is required. operator-sdk accepts such a watch without a selector.
fn check_built_in(
    fields: &MapFields<'_>,
    group: Option<&str>,
    kind: Option<&str>,
    selector: &Selector,
    findings: &mut Findings<'_>,
) {
    // An invalid group was reported already, and is not the core group.
    let is_built_in = group.map_or(fields.get("group").is_none(), names::is_built_in);
    let (Some(kind), Some(at), true) = (kind, fields.get("kind"), is_built_in) else {
        return;
    };
    if selector.selects_all() {
        let group = group.unwrap_or_default();
        let hint = match group {
            "" => " If it is a kind of your own, its `group` is missing.",
            _ => "",
        };
        findings.error(
            at,
            format!(
                "{kind} is one of Kubernetes' own kinds, and without a `selector` every {kind} in the cluster would \
                 become a release: give it one, such as `selector: {{matchLabels: {{example.com/chart: app}}}}`.{hint}"
            ),
        );
        return;
    }
    findings.warn(
        at,
        format!(
            "{kind} is one of Kubernetes' own kinds: every {kind} that the selector matches becomes a release and waits \
             for it when it is deleted; values come from its `.spec` alone, and its status is never written"
        ),
    );
}

/// Checks `dryRunOption` of operator-sdk. It has no effect: `lookup` always reads the cluster.
fn check_dry_run_option(fields: &MapFields<'_>, findings: &mut Findings<'_>) {
    let Some(node) = fields.get("dryRunOption") else { return };
    match &node.data {
        Data::Bool(_) => {}
        Data::String(text) if DRY_RUN_OPTIONS.contains(&text.as_str()) => {}
        Data::String(text) => {
            let hint = suggestion(text, DRY_RUN_OPTIONS[1..].iter().copied());
            let hint = hint.map(|best| format!(": did you mean {best:?}?")).unwrap_or_default();
            findings.error(
                node,
                format!("`dryRunOption` must be client, server or none, not {text:?}{hint}"),
            );
        }
        _ => findings.type_error(node, "dryRunOption", "client, server or none"),
    }
}

/// Reads a label selector. `what` names it in messages.
pub(crate) fn read_selector(node: &Node, what: &str, findings: &mut Findings<'_>) -> Selector {
    let mut selector = Selector::default();
    let Some(fields) = MapFields::open(node, what, &["matchLabels", "matchExpressions"], findings) else {
        return selector;
    };
    match fields.get("matchLabels").map(|labels| (labels, &labels.data)) {
        Some((_, Data::Map(map))) => {
            selector.extend(read_labels(map, findings));
        }
        Some((labels, _)) => findings.type_error(labels, "matchLabels", "a map of labels"),
        None => {}
    }
    for item in findings.read_list(&fields, "matchExpressions") {
        selector.extend(read_expression(item, findings).into_iter().flatten());
    }
    selector
}

/// Reads the entries of `matchLabels`, sorted by key.
fn read_labels(map: &[(Node, Node)], findings: &mut Findings<'_>) -> Selector {
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in map {
        let Data::String(name) = &key.data else {
            findings.error(
                key,
                format!("a label's key must be a string, not {}", describe(&key.data)),
            );
            continue;
        };
        check_label_key(name, key, findings);
        match label_value(value, findings) {
            Some(_) if labels.contains_key(name) => findings.error(key, format!("`{name}` is there twice; remove one")),
            Some(text) => drop(labels.insert(name.clone(), text)),
            None => {}
        }
    }
    labels.into_iter().collect()
}

/// Reads an entry of `matchExpressions`.
fn read_expression(node: &Node, findings: &mut Findings<'_>) -> Option<Expression> {
    const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
    let fields = MapFields::open(node, "a match expression", &["key", "operator", "values"], findings)?;
    for name in ["key", "operator"] {
        if fields.get(name).is_none() {
            findings.error(
                node,
                format!("`{name}` is missing: a match expression has key, operator and values"),
            );
        }
    }
    let key = findings.read_string(&fields, "key").map(|(key, at)| {
        check_label_key(key, at, findings);
        key.to_owned()
    });
    let items = findings.read_list(&fields, "values");
    let values = items.iter().filter_map(|item| label_value(item, findings)).collect();
    let operator = findings.read_choice(&fields, "operator", OPERATORS.map(|name| (name, name)));
    let takes_values = match operator {
        "" => return None,
        "In" | "NotIn" => true,
        _ => false,
    };
    if takes_values && items.is_empty() {
        findings.error(node, format!("`values` is empty: {operator} needs at least one"));
    }
    if !takes_values && !items.is_empty() {
        findings.error(node, format!("`values` must be empty with {operator}"));
    }
    let key = key?;
    Some(match operator {
        "In" => Expression::In(key, values),
        "NotIn" => Expression::NotIn(key, values),
        "Exists" => Expression::Exists(key),
        _ => Expression::DoesNotExist(key),
    })
}

fn check_label_key(key: &str, at: &Node, findings: &mut Findings<'_>) {
    if !names::is_label_key(key) {
        findings.error(
            at,
            format!("{key:?} cannot be a label's key: write it like app or example.com/app"),
        );
    }
}

/// Reads the value of a label. Unquoted numbers and bools count as their text, as in operator-sdk.
fn label_value(node: &Node, findings: &mut Findings<'_>) -> Option<String> {
    let text = match &node.data {
        Data::String(text) => text.clone(),
        Data::Bool(value) => value.to_string(),
        Data::Number(number) if !number.is_f64() => number.to_string(),
        other => {
            findings.error(
                node,
                format!("a label's value must be a string, not {}", describe(other)),
            );
            return None;
        }
    };
    if !names::is_label_value(&text) {
        findings.error(
            node,
            format!("{text:?} cannot be a label's value: at most 63 of A-Z a-z 0-9 . _ -"),
        );
    }
    Some(text)
}

fn read_allow(fields: &MapFields<'_>, name: &str, findings: &mut Findings<'_>) -> AllowList {
    let Some(node) = fields.get(name) else {
        return AllowList::default();
    };
    let known: &[&str] = match name {
        "allow" => &["kinds", "namespaces", "depth"],
        _ => &["kinds", "namespaces"],
    };
    let Some(fields) = MapFields::open(node, name, known, findings) else {
        return AllowList::default();
    };
    let depth = findings.read_count(&fields, "depth", 0);
    let kinds = findings.read_strings(&fields, "kinds", |text| {
        let (kind, object) = text
            .split_once('/')
            .map_or((text, None), |(kind, object)| (kind, Some(object)));
        let (bare, group) = kind
            .split_once('.')
            .map_or((kind, None), |(bare, group)| (bare, Some(group)));
        let valid = kind == "*" && object.is_none()
            || bare.starts_with(|c: char| c.is_ascii_uppercase())
                && names::is_kind(bare)
                && group.is_none_or(names::is_dns_subdomain);
        if !valid {
            return Err(format!(
                "{text:?} is no kind: write Kind.group, as in ClusterRole.rbac.authorization.k8s.io, or \"*\""
            ));
        }
        match object {
            None => Ok(()),
            Some(_) if name != "allow" => Err(format!("{text:?} names an object: `{name}` is for whole kinds")),
            Some(object) if object.is_empty() || object == "*" || object.contains(['/', '%']) => Err(format!(
                "{text:?} names no object: write Kind.group/name, or Kind.group for all of them"
            )),
            Some(_) => Ok(()),
        }
    });
    let namespaces = findings.read_strings(&fields, "namespaces", |namespace| {
        (namespace == "*" || names::is_dns_label(namespace))
            .then_some(())
            .ok_or_else(|| format!("{namespace:?} is no namespace: write its name, or \"*\" for all"))
    });
    AllowList {
        kinds,
        namespaces,
        depth,
    }
}
