//! The install section of a ClusterServiceVersion: Deployments and the rights of their accounts. OLM creates accounts, roles and
//! bindings itself.

use anyhow::{bail, ensure};
use serde_json::{Value, json};

/// The field in which OLM passes the namespaces that the operator watches. Empty means all namespaces.
const TARGET_NAMESPACES: &str = "metadata.annotations['olm.targetNamespaces']";
/// An account that every namespace has.
const DEFAULT_ACCOUNT: &str = "default";

/// What becomes of the manifests of an operator.
pub(super) struct Split {
    /// `spec.install` of a ClusterServiceVersion.
    pub install: Value,
    /// What is not part of that.
    pub rest: Vec<Value>,
}

/// Takes out of the manifests what a ClusterServiceVersion says itself.
///
/// # Errors
/// There is no Deployment, or it has rights that a ClusterServiceVersion can't say.
pub(super) fn split(manifests: &[Value]) -> anyhow::Result<Split> {
    let mut deployments = Vec::new();
    let mut accounts: Vec<String> = Vec::new();
    let mut rest: Vec<Value> = Vec::new();
    for object in manifests {
        if object["kind"] != "Deployment" {
            rest.push(object.clone());
            continue;
        }
        let mut spec = object["spec"].clone();
        follow_namespaces(&mut spec);
        let account = spec
            .pointer("/template/spec/serviceAccountName")
            .and_then(Value::as_str);
        let account = account.unwrap_or(DEFAULT_ACCOUNT).to_owned();
        if !accounts.contains(&account) {
            accounts.push(account);
        }
        let mut deployment = json!({"name": object["metadata"]["name"], "spec": spec});
        if let Some(labels) = object["metadata"].get("labels") {
            deployment["label"] = labels.clone();
        }
        deployments.push(deployment);
    }
    ensure!(
        !deployments.is_empty(),
        "there is no Deployment among the manifests: OLM would have nothing to run"
    );
    let is_own = |object: &Value| {
        object["kind"] == "ServiceAccount" && accounts.iter().any(|name| object["metadata"]["name"] == name.as_str())
    };
    rest.retain(|object| !is_own(object));
    let mut spec = json!({"deployments": deployments});
    let mut granted = Vec::new();
    for (field, binding) in [
        ("clusterPermissions", "ClusterRoleBinding"),
        ("permissions", "RoleBinding"),
    ] {
        let mut permissions = Vec::new();
        for account in &accounts {
            let mut rules: Vec<Value> = Vec::new();
            for bound in rest.iter_mut().filter(|object| object["kind"] == binding) {
                if !unbind(bound, account) {
                    continue;
                }
                let role = bound["roleRef"].clone();
                let name = bound["metadata"]["name"].clone();
                let found = manifests.iter().find(|object| is_role(object, &role));
                let Some(found) = found else {
                    bail!(
                        "the {binding} {name} gives the operator the {} {}, which isn't among the manifests: OLM needs its rules",
                        role["kind"],
                        role["name"]
                    );
                };
                rules.extend(found["rules"].as_array().into_iter().flatten().cloned());
                granted.push(role);
            }
            if !rules.is_empty() {
                permissions.push(json!({"serviceAccountName": account, "rules": rules}));
            }
        }
        if !permissions.is_empty() {
            spec[field] = permissions.into();
        }
    }
    let is_empty = |object: &Value| object["subjects"].as_array().is_some_and(Vec::is_empty);
    rest.retain(|object| !is_empty(object));
    // A role with other subjects stays.
    let still = |role: &Value| rest.iter().any(|object| object["roleRef"] == *role);
    let gone: Vec<&Value> = granted.iter().filter(|role| !still(role)).collect();
    let gone: Vec<bool> = rest
        .iter()
        .map(|object| gone.iter().any(|role| is_role(object, role)))
        .collect();
    let mut gone = gone.into_iter();
    rest.retain(|_| !gone.next().unwrap_or_default());
    Ok(Split {
        install: json!({"strategy": "deployment", "spec": spec}),
        rest,
    })
}

/// Replaces the namespaces that the manifests name with the ones that OLM passes.
fn follow_namespaces(spec: &mut Value) {
    let containers = spec
        .pointer_mut("/template/spec/containers")
        .and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        let env = container.get_mut("env").and_then(Value::as_array_mut);
        for variable in env.into_iter().flatten() {
            if variable["name"] == "WATCH_NAMESPACE" {
                *variable = json!({
                    "name": "WATCH_NAMESPACE",
                    "valueFrom": {"fieldRef": {"fieldPath": TARGET_NAMESPACES}},
                });
            }
        }
    }
}

/// Takes an account out of a binding; false if it isn't in there.
fn unbind(binding: &mut Value, account: &str) -> bool {
    let Some(subjects) = binding.get_mut("subjects").and_then(Value::as_array_mut) else {
        return false;
    };
    let before = subjects.len();
    subjects.retain(|subject| subject["kind"] != "ServiceAccount" || subject["name"] != account);
    subjects.len() < before
}

fn is_role(object: &Value, reference: &Value) -> bool {
    object["kind"] == reference["kind"] && object["metadata"]["name"] == reference["name"]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(kind: &str, name: &str, resource: &str) -> Value {
        json!({"kind": kind, "metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]})
    }

    fn binding(kind: &str, role: (&str, &str), accounts: &[&str]) -> Value {
        let subjects: Vec<Value> = accounts
            .iter()
            .map(|name| json!({"kind": "ServiceAccount", "name": name}))
            .collect();
        json!({
            "kind": kind, "metadata": {"name": format!("{}-binding", role.1)},
            "roleRef": {"kind": role.0, "name": role.1}, "subjects": subjects,
        })
    }

    fn deployment() -> Value {
        json!({
            "kind": "Deployment", "metadata": {"name": "manager", "labels": {"a": "b"}},
            "spec": {"template": {"spec": {
                "serviceAccountName": "manager",
                "containers": [{"env": [{"name": "WATCH_NAMESPACE", "value": ""}, {"name": "B", "value": "c"}]}],
            }}},
        })
    }

    #[test]
    fn rights_are_those_of_the_bindings() {
        let account = |name: &str| json!({"kind": "ServiceAccount", "metadata": {"name": name}});
        let manifests = [
            account("manager"),
            account("other"),
            role("ClusterRole", "all", "pods"),
            role("ClusterRole", "shared", "nodes"),
            role("ClusterRole", "people", "secrets"),
            role("Role", "own", "leases"),
            binding("ClusterRoleBinding", ("ClusterRole", "all"), &["manager"]),
            binding("ClusterRoleBinding", ("ClusterRole", "shared"), &["manager", "other"]),
            binding("RoleBinding", ("Role", "own"), &["manager"]),
            deployment(),
        ];
        let Split { install, rest } = split(&manifests).unwrap();
        let spec = &install["spec"];
        let resources = |field: &str| -> Vec<&Value> {
            let rules = spec[field][0]["rules"].as_array().unwrap();
            rules.iter().map(|rule| &rule["resources"][0]).collect()
        };
        assert_eq!(resources("clusterPermissions"), ["pods", "nodes"]);
        assert_eq!(resources("permissions"), ["leases"]);
        assert_eq!(spec["permissions"][0]["serviceAccountName"], "manager");
        assert_eq!(spec["deployments"][0]["label"]["a"], "b");
        let env = &spec["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["env"];
        assert_eq!(env[0]["valueFrom"]["fieldRef"]["fieldPath"], TARGET_NAMESPACES);
        assert_eq!(env[1]["value"], "c");
        let left: Vec<String> = rest
            .iter()
            .map(|object| {
                format!(
                    "{} {}",
                    object["kind"].as_str().unwrap(),
                    object["metadata"]["name"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(
            left,
            [
                "ServiceAccount other",
                "ClusterRole shared",
                "ClusterRole people",
                "ClusterRoleBinding shared-binding"
            ]
        );
        assert_eq!(
            rest[3]["subjects"],
            json!([{"kind": "ServiceAccount", "name": "other"}])
        );
    }

    #[test]
    fn rights_that_nobody_states_are_refused() {
        let manifests = [
            deployment(),
            binding("RoleBinding", ("ClusterRole", "view"), &["manager"]),
        ];
        let error = split(&manifests).err().unwrap().to_string();
        assert!(
            error.contains("\"view\"") && error.contains("OLM needs its rules"),
            "{error}"
        );
        let error = split(&manifests[1..]).err().unwrap().to_string();
        assert!(error.contains("no Deployment"), "{error}");
    }
}
