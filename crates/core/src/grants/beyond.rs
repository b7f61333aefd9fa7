//! What an object has beyond the one that the chart makes by default: rules, subjects, targets, or anything else that
//! could give or reach more.

use serde_json::{Map, Value};

use super::Reach;
use crate::identity::GroupKind;
use chartwright_watches::names::is_within;

/// The type of Secrets that the API server fills with the token of a ServiceAccount.
const TOKEN: &str = "kubernetes.io/service-account-token";
/// Groups whose kinds, namespaced ones too, hand out rights: Kubernetes' own, and OpenShift's.
const RIGHTS: [&str; 2] = ["rbac.authorization.k8s.io", "authorization.openshift.io"];
/// Groups whose objects name a service that the API server calls. Charts often regenerate its certificate.
const CALLED: [&str; 3] = [
    "admissionregistration.k8s.io",
    "apiregistration.k8s.io",
    "apiextensions.k8s.io",
];
/// Cluster-scoped kinds of other groups of Kubernetes that nothing finds by their labels.
const CLASSES: [&str; 4] = [
    "networking.k8s.io",
    "node.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];
/// Labels that differ from the default in ordinary values (`image.tag`, another version of the chart), and by which nothing
/// is selected across releases.
const VERSIONS: [&str; 4] = ["app.kubernetes.io/version", "chart", "helm.sh/chart", "heritage"];
/// Labels that name an application, of which Kubernetes and this operator take no notice.
const NAMES: &str = "app.kubernetes.io/";
/// Domains of labels and annotations on which Kubernetes, Helm or this operator act, with those below them.
const ACTED_ON: [&str; 5] = [
    "chartwright.dev",
    "helm.sh",
    "k8s.io",
    "kubernetes.io",
    "operatorframework.io",
];

/// True if an object grants rights in any namespace: RBAC, and requests for a ServiceAccount's token.
pub fn carries_rights(group_kind: &GroupKind, object: &Value) -> bool {
    RIGHTS.contains(&group_kind.group.as_str()) || is_token(group_kind, object)
}

fn is_token(group_kind: &GroupKind, object: &Value) -> bool {
    *group_kind == GroupKind::new("", "Secret") && object["type"] == TOKEN
}

/// The first part of an object that the default one doesn't have; `None` if there is none. The status gives nothing and
/// doesn't count.
pub(super) fn beyond(group_kind: &GroupKind, reach: &Reach, default: &Value, wanted: &Value) -> Option<String> {
    if let Some(part) = metadata_beyond(group_kind, reach, default, wanted) {
        return Some(part);
    }
    if is_token(group_kind, wanted) {
        return (default["type"] != TOKEN).then(|| "type".to_owned());
    }
    let empty = Map::new();
    let [default, wanted] = [default, wanted].map(|object| object.as_object().unwrap_or(&empty));
    let is_called = CALLED.contains(&group_kind.group.as_str());
    let carries_rights = RIGHTS.contains(&group_kind.group.as_str());
    let fields = wanted
        .keys()
        .chain(default.keys().filter(|key| !wanted.contains_key(*key)));
    for field in fields.filter(|field| !["kind", "metadata", "status"].contains(&field.as_str())) {
        let [default, wanted] = [default, wanted].map(|object| object.get(field).unwrap_or(&Value::Null));
        let extra = match field.as_str() {
            "rules" if carries_rights => extra(default, wanted, covers_rule),
            "subjects" if carries_rights => extra(default, wanted, is_same_subject),
            "webhooks" if is_called => extra(default, wanted, covers_webhook),
            _ if is_called => (without_certificates(default) != without_certificates(wanted)).then(String::new),
            _ => (default != wanted).then(String::new),
        };
        if let Some(place) = extra {
            return Some(format!("{field}{place}"));
        }
    }
    None
}

/// The first part of the metadata that gives or reaches more than the default's: an annotation that is acted on, a label
/// that may be selected by, a finalizer, an owner. What the default has and the object lacks counts as well, such as
/// `helm.sh/resource-policy: keep` on a CRD; but a label less adds a ClusterRole to nothing.
fn metadata_beyond(group_kind: &GroupKind, reach: &Reach, default: &Value, wanted: &Value) -> Option<String> {
    let [default, wanted] = [default, wanted].map(|object| &object["metadata"]);
    for (field, counts) in [
        ("labels", is_selected_by as fn(&GroupKind, &Reach, &str) -> bool),
        ("annotations", is_acted_on),
    ] {
        let [default, wanted] = [default, wanted].map(|metadata| metadata[field].as_object());
        let only_adds = field == "labels" && is_cluster_role(group_kind);
        let lacking = default
            .into_iter()
            .flatten()
            .filter(|(key, _)| !only_adds && wanted.is_none_or(|wanted| !wanted.contains_key(*key)));
        let other = wanted
            .into_iter()
            .flatten()
            .filter(|(key, value)| default.and_then(|default| default.get(*key)) != Some(*value));
        let mut differing = other.chain(lacking).map(|(key, _)| key);
        if let Some(key) = differing.find(|key| counts(group_kind, reach, key)) {
            return Some(format!("metadata.{field}[{key}]"));
        }
    }
    let mut lists = ["finalizers", "ownerReferences"].into_iter();
    let differing = lists.find(|field| items(&default[*field]) != items(&wanted[*field]));
    differing.map(|field| format!("metadata.{field}"))
}

/// The items of a list in an order that doesn't depend on theirs.
fn items(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let mut items: Vec<String> = items.map(Value::to_string).collect();
    items.sort();
    items
}

fn is_namespace(group_kind: &GroupKind) -> bool {
    *group_kind == GroupKind::new("", "Namespace")
}

fn is_cluster_role(group_kind: &GroupKind) -> bool {
    group_kind.kind == "ClusterRole" && RIGHTS.contains(&group_kind.group.as_str())
}

/// True if others may find an object of this kind by this label: a ClusterRole that takes in the rules of all that have it,
/// Pod Security and policies a Namespace, a claim a PersistentVolume, a Service or a Prometheus what is in another namespace,
/// and who knows what the objects of other operators.
fn is_selected_by(group_kind: &GroupKind, reach: &Reach, key: &str) -> bool {
    if is_namespace(group_kind) {
        return true;
    }
    if VERSIONS.contains(&key) {
        return false;
    }
    let group = group_kind.group.as_str();
    let is_found_by_name = match reach {
        // The author of the custom resource can choose what is selected there.
        Reach::Own => true,
        _ if is_cluster_role(group_kind) => false,
        Reach::Other(_) => RIGHTS.contains(&group),
        Reach::Cluster => RIGHTS.contains(&group) || CALLED.contains(&group) || CLASSES.contains(&group),
    };
    !is_found_by_name || !key.starts_with(NAMES) && is_of_domain(key)
}

/// True if something acts on this annotation of an object of this kind: of objects of other operators, and of those in other
/// namespaces (a cloud role of a ServiceAccount), any may be acted on.
fn is_acted_on(group_kind: &GroupKind, reach: &Reach, key: &str) -> bool {
    let group = group_kind.group.as_str();
    let is_of_kubernetes = group.is_empty() || !group.contains('.') || group.ends_with(".k8s.io");
    let only_ours = match reach {
        _ if is_namespace(group_kind) => false,
        Reach::Own => true,
        Reach::Other(_) => RIGHTS.contains(&group),
        Reach::Cluster => is_of_kubernetes || RIGHTS.contains(&group),
    };
    !only_ours || is_of_domain(key)
}

/// True if a key is of a domain in [`ACTED_ON`], or of one below.
fn is_of_domain(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    ACTED_ON.iter().any(|acted_on| is_within(domain, acted_on))
}

/// The place of the first item that no item of the default covers.
fn extra(default: &Value, wanted: &Value, covers: fn(&Value, &Value) -> bool) -> Option<String> {
    let (defaults, items) = match (default, wanted) {
        (_, Value::Null) => return None,
        (default, Value::Array(items)) => (default.as_array().map(Vec::as_slice).unwrap_or_default(), items),
        (default, wanted) => return (default != wanted).then(String::new),
    };
    let uncovered = |item: &Value| !defaults.iter().any(|default| covers(default, item));
    items.iter().position(uncovered).map(|place| format!("[{place}]"))
}

/// True if one rule of a role grants everything that the other does.
fn covers_rule(default: &Value, wanted: &Value) -> bool {
    let (Some(default), Some(wanted)) = (default.as_object(), wanted.as_object()) else {
        return false;
    };
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(value) => value.as_array().is_some_and(Vec::is_empty),
    };
    // Without names a rule is for all of them.
    let (some, names) = (default.get("resourceNames"), wanted.get("resourceNames"));
    if !is_empty(some) && is_empty(names) {
        return false;
    }
    wanted.iter().all(|(field, value)| {
        let default = default.get(field);
        if is_empty(Some(value)) || (field == "resourceNames" && is_empty(default)) {
            return true;
        }
        let (Some(default), Some(value)) = (default.and_then(Value::as_array), value.as_array()) else {
            return default == Some(value);
        };
        let has_all = field != "resourceNames" && default.iter().any(|item| item == "*");
        let is_below = |item: &Value| {
            let parents = default.iter().filter_map(|parent| parent.as_str()?.strip_suffix('*'));
            let item = item.as_str().unwrap_or_default();
            field == "nonResourceURLs" && parents.into_iter().any(|parent| item.starts_with(parent))
        };
        has_all || value.iter().all(|item| default.contains(item) || is_below(item))
    })
}

fn is_same_subject(default: &Value, wanted: &Value) -> bool {
    ["kind", "name", "namespace"]
        .iter()
        .all(|field| default.get(field) == wanted.get(field))
}

/// True if a webhook is called for nothing that the other isn't called for, and is the same service. It may be less
/// strict.
fn covers_webhook(default: &Value, wanted: &Value) -> bool {
    let lenient = wanted["failurePolicy"] == "Ignore";
    let bare = |webhook: &Value| {
        let mut webhook = without_certificates(webhook);
        if let Some(fields) = webhook.as_object_mut() {
            fields.retain(|field, _| field != "timeoutSeconds" && !(lenient && field == "failurePolicy"));
        }
        webhook
    };
    bare(default) == bare(wanted)
}

/// Without any `caBundle`: whom the API server calls is what counts.
fn without_certificates(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(field, _)| *field != "caBundle");
            Value::Object(
                kept.map(|(field, value)| (field.clone(), without_certificates(value)))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(without_certificates).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn what_the_default_has_not_is_beyond_it() {
        for (kind, default, wanted, expected) in table::<(String, Value, Value, Option<String>)>("grants", "beyond") {
            let reach = match kind.as_str() {
                "Secret" => Reach::Own,
                _ => Reach::Cluster,
            };
            let found = beyond(&GroupKind::parse(&kind), &reach, &default, &wanted);
            assert_eq!(found, expected, "{kind} {wanted}");
        }
    }

    #[test]
    fn metadata_that_something_acts_on_is_as_the_chart_has_it() {
        type Row = (String, String, Value, Value, Option<String>);
        for (kind, namespace, default, wanted, expected) in table::<Row>("grants", "metadata") {
            let reach = match namespace.as_str() {
                "" => Reach::Cluster,
                "shop" => Reach::Own,
                other => Reach::Other(other.to_owned()),
            };
            let [default, wanted] = [default, wanted].map(|metadata| serde_json::json!({"metadata": metadata}));
            let found = beyond(&GroupKind::parse(&kind), &reach, &default, &wanted);
            assert_eq!(found, expected, "{kind} {namespace} {default} {wanted}");
        }
    }
}
