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
pub(super) fn carries_rights(group_kind: &GroupKind, object: &Value) -> bool {
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
    use serde_json::json;

    fn id(kind: &str) -> ObjectId {
        ObjectId::new(GroupKind::parse(kind), "", "x")
    }

    const ROLE: &str = "ClusterRole.rbac.authorization.k8s.io";
    const BINDING: &str = "ClusterRoleBinding.rbac.authorization.k8s.io";

    #[test]
    fn a_rule_may_be_narrower_and_not_wider() {
        let default = json!({"rules": [
            {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get", "list"]},
            {"apiGroups": ["*"], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["*"]},
            {"nonResourceURLs": ["/metrics", "/api/*"], "verbs": ["get"]},
        ]});
        let check = |rule: Value| beyond(&id(ROLE), &default, &json!({"rules": [rule]}));
        for narrower in [
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}),
            json!({"apiGroups": [""], "resources": ["pods"], "resourceNames": ["one"], "verbs": ["get"]}),
            json!({"apiGroups": ["x"], "resources": ["configmaps"], "resourceNames": ["b"], "verbs": ["delete"]}),
            json!({"nonResourceURLs": ["/api/v1", "/metrics"], "verbs": ["get"]}),
        ] {
            assert_eq!(check(narrower.clone()), None, "{narrower}");
        }
        for wider in [
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}),
            json!({"apiGroups": ["*"], "resources": ["pods"], "verbs": ["get"]}),
            json!({"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}),
            json!({"apiGroups": ["x"], "resources": ["configmaps"], "verbs": ["get"]}),
            json!({"apiGroups": ["x"], "resources": ["configmaps"], "resourceNames": [], "verbs": ["get"]}),
            json!({"apiGroups": ["x"], "resources": ["configmaps"], "resourceNames": ["*"], "verbs": ["get"]}),
            json!({"apiGroups": [""], "resources": "pods", "verbs": ["get"]}),
            json!({"nonResourceURLs": ["/*"], "verbs": ["get"]}),
            json!("rule"),
        ] {
            assert_eq!(check(wider.clone()).as_deref(), Some("rules[0]"), "{wider}");
        }
        assert_eq!(beyond(&id(ROLE), &default, &json!({"rules": []})), None);
        assert_eq!(beyond(&id(ROLE), &default, &json!({})), None, "no rules at all");
    }

    #[test]
    fn subjects_the_role_and_aggregation_are_those_of_the_default() {
        let account = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": "shop"});
        let binding = |role: &str, subjects: Value| json!({"roleRef": {"name": role}, "subjects": subjects});
        let default = binding("reader", json!([account("a"), account("b")]));
        let check = |role: &str, subjects: Value| beyond(&id(BINDING), &default, &binding(role, subjects));
        assert_eq!(check("reader", json!([account("b")])), None);
        assert_eq!(
            check("reader", json!([account("b"), account("default")])).as_deref(),
            Some("subjects[1]")
        );
        assert_eq!(
            check("cluster-admin", json!([account("a")])).as_deref(),
            Some("roleRef")
        );
        let labelled = |labels: Value| json!({"metadata": {"labels": labels}});
        let check = |labels: Value| beyond(&id(ROLE), &labelled(json!({"a": "b"})), &labelled(labels));
        assert_eq!(check(json!({"team": "blue"})), None);
        let to_view = "rbac.authorization.k8s.io/aggregate-to-view";
        assert!(check(json!({(to_view): "true"})).is_some());
        let all = json!({"aggregationRule": {"clusterRoleSelectors": [{}]}});
        assert_eq!(beyond(&id(ROLE), &json!({}), &all).as_deref(), Some("aggregationRule"));
    }

    #[test]
    fn a_webhook_is_called_for_what_the_default_is_called_for() {
        let kind = id("ValidatingWebhookConfiguration.admissionregistration.k8s.io");
        let hook = || {
            json!({
                "name": "a.example.com", "failurePolicy": "Fail", "rules": [{"resources": ["pods"]}],
                "clientConfig": {"service": {"name": "hook", "namespace": "shop"}, "caBundle": "b25l"},
                "namespaceSelector": {"matchLabels": {"a": "b"}},
            })
        };
        let default = json!({"webhooks": [hook()]});
        let check = |change: &dyn Fn(&mut Value)| {
            let mut hook = hook();
            change(&mut hook);
            beyond(&kind, &default, &json!({"webhooks": [hook]}))
        };
        assert_eq!(check(&|_| ()), None);
        assert_eq!(check(&|hook| hook["clientConfig"]["caBundle"] = json!("dHdv")), None);
        assert_eq!(check(&|hook| hook["failurePolicy"] = json!("Ignore")), None);
        assert_eq!(check(&|hook| hook["timeoutSeconds"] = json!(5)), None);
        let changes: [&dyn Fn(&mut Value); 4] = [
            &|hook| hook["clientConfig"]["service"]["name"] = json!("mine"),
            &|hook| hook["clientConfig"] = json!({"url": "https://example.com"}),
            &|hook| hook["rules"][0]["resources"] = json!(["*"]),
            &|hook| drop(hook.as_object_mut().unwrap().remove("namespaceSelector")),
        ];
        for change in changes {
            assert_eq!(check(change).as_deref(), Some("webhooks[0]"));
        }
        let service = id("APIService.apiregistration.k8s.io");
        let of = |name: &str, ca: &str| json!({"spec": {"service": {"name": name}, "caBundle": ca}});
        assert_eq!(beyond(&service, &of("a", "x"), &of("a", "y")), None);
        assert_eq!(beyond(&service, &of("a", "x"), &of("b", "x")).as_deref(), Some("spec"));
    }

    #[test]
    fn whatever_else_reaches_out_is_as_the_chart_has_it() {
        let volume = |path: &str| json!({"spec": {"hostPath": {"path": path}}, "status": path, "metadata": {"labels": {"a": path}}});
        let kind = id("PersistentVolume");
        assert_eq!(beyond(&kind, &volume("/data"), &volume("/")).as_deref(), Some("spec"));
        let mut other = volume("/data");
        other["metadata"] = json!({});
        other["status"] = json!(1);
        assert_eq!(beyond(&kind, &volume("/data"), &other), None);
        let space = |level: &str| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
        let kind = id("Namespace");
        assert_eq!(beyond(&kind, &space("baseline"), &space("baseline")), None);
        assert!(beyond(&kind, &space("baseline"), &space("privileged")).is_some());
        assert_eq!(beyond(&kind, &space("baseline"), &json!({})), None);
    }

    #[test]
    fn a_token_is_that_of_the_charts_service_account() {
        let token = |account: &str| json!({"type": TOKEN, "metadata": {"annotations": {(TOKEN_OF): account}}, "data": {"extra": account}});
        let kind = id("Secret");
        assert!(carries_rights(&kind.group_kind, &token("a")));
        assert!(!carries_rights(&kind.group_kind, &json!({"type": "Opaque"})));
        assert!(beyond(&kind, &token("a"), &token("b")).is_some());
        assert_eq!(beyond(&kind, &token("a"), &token("a")), None);
        let opaque = json!({"metadata": {"annotations": {(TOKEN_OF): "a"}}});
        assert_eq!(beyond(&kind, &opaque, &token("a")).as_deref(), Some("type"));
    }
}
