//! What an object has beyond the one that the chart makes by default: rules, subjects, targets, or anything else that
//! could give or reach more.

use serde_json::{Map, Value};

use crate::plan::identity::{GroupKind, ObjectId};

/// The type of Secrets that the API server fills with the token of a ServiceAccount.
const TOKEN: &str = "kubernetes.io/service-account-token";
/// On such a Secret: the ServiceAccount.
const TOKEN_OF: &str = "kubernetes.io/service-account.name";
/// Groups whose kinds, namespaced ones too, hand out rights: Kubernetes' own, and OpenShift's.
const RIGHTS: [&str; 2] = ["rbac.authorization.k8s.io", "authorization.openshift.io"];
/// Groups whose objects name a service that the API server calls. Charts often draw its certificate anew.
const CALLED: [&str; 3] = [
    "admissionregistration.k8s.io",
    "apiregistration.k8s.io",
    "apiextensions.k8s.io",
];

/// True if an object hands out rights in whatever namespace it is: RBAC, and what asks for a ServiceAccount's token.
pub fn carries_rights(group_kind: &GroupKind, object: &Value) -> bool {
    RIGHTS.contains(&group_kind.group.as_str()) || is_token(group_kind, object)
}

fn is_token(group_kind: &GroupKind, object: &Value) -> bool {
    *group_kind == GroupKind::new("", "Secret") && object["type"] == TOKEN
}

/// The first part of an object that the default one doesn't have; `None` if there is none. Status and most metadata give
/// nothing and don't count.
pub(super) fn beyond(id: &ObjectId, default: &Value, wanted: &Value) -> Option<String> {
    let group_kind = &id.group_kind;
    if let Some(part) = metadata_beyond(group_kind, default, wanted) {
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

/// Labels by which others select: those that add a ClusterRole's rules to other roles, and those of a Namespace, by which
/// Pod Security, policies and webhooks let off. The annotation that says whose token a Secret gets.
fn metadata_beyond(group_kind: &GroupKind, default: &Value, wanted: &Value) -> Option<String> {
    let counts = |field: &str, key: &str| match (group_kind.group.as_str(), group_kind.kind.as_str()) {
        ("", "Namespace") => true,
        ("", "Secret") => field == "annotations" && key == TOKEN_OF,
        (group, "ClusterRole") if RIGHTS.contains(&group) => field == "labels" && key.contains("aggregate-to"),
        _ => false,
    };
    for field in ["labels", "annotations"] {
        let [default, wanted] = [default, wanted].map(|object| &object["metadata"][field]);
        for (key, value) in wanted.as_object().into_iter().flatten() {
            if counts(field, key) && default.get(key) != Some(value) {
                return Some(format!("metadata.{field}[{key}]"));
            }
        }
    }
    None
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

/// True if one rule of a role grants whatever the other does.
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
    use crate::plan::testing::table;

    #[test]
    fn what_the_default_has_not_is_beyond_it() {
        for (kind, default, wanted, expected) in table::<(String, Value, Value, Option<String>)>("grants", "beyond") {
            let id = ObjectId::new(GroupKind::parse(&kind), "", "x");
            assert_eq!(beyond(&id, &default, &wanted), expected, "{kind} {wanted}");
        }
    }
}
