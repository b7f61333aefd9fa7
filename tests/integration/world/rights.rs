//! RBAC rules of operators, and admission policies.

use std::fs;
use std::path::Path;

use super::{World, WorldSetup};
use anyhow::{Context, Result};
use serde_json::{Value, json};

impl World {
    /// The rules of a role in `config`, with this world's kind instead of Memcached and its names instead of the
    /// project's.
    pub fn project_rules(&self, role: &str) -> Result<Vec<Value>> {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
        let ours = |rule: Value| {
            let text = rule.to_string().replace("cache.example.com", &self.group());
            let text = text.replace("memcacheds", "widgets");
            let text = text.replace("chartwright-hmac-key", &format!("{}-hmac-key", self.name));
            let text = text.replace("chartwright-admission", &format!("{}-admission", self.name));
            let text = text.replace("chartwright-usage", &format!("{}-usage", self.name));
            // The names of the Leases in tests.
            serde_json::from_str(&text.replace("\"chartwright\"", &format!("{:?},\"widgets\"", self.name)))
        };
        let rules = rules_of(&config.join(role))?.into_iter().map(ours);
        Ok(rules.collect::<serde_json::Result<_>>()?)
    }

    /// Grants the project's rules, the same for the kind Gadget, and rules for two kinds of the tests' chart.
    pub(super) fn grant_project_rules(&self, setup: &WorldSetup<'_>) -> Result<()> {
        let role = match setup.only_in {
            [] => "rbac/role.yaml",
            _ => "namespaced/role.yaml",
        };
        let mut rules = self.project_rules(role)?;
        let own = rules
            .iter()
            .map(Value::to_string)
            .filter(|rule| rule.contains("widgets"));
        let gadgets = own.map(|rule| serde_json::from_str(&rule.replace("widgets", "gadgets")));
        let gadgets: Vec<Value> = gadgets.collect::<serde_json::Result<_>>()?;
        rules.extend(gadgets);
        rules.push(member_rule("apps", "deployments"));
        rules.push(member_rule("scheduling.k8s.io", "priorityclasses"));
        let mut own = self.project_rules("rbac/leader_election_role.yaml")?;
        own.extend(self.project_rules("rbac/hmac_key_role.yaml")?);
        for rule in rules.iter_mut().chain(&mut own) {
            if let Some(resources) = rule["resources"].as_array_mut() {
                resources.retain(|resource| !setup.without.iter().any(|without| resource == without));
            }
        }
        let is_some = |rule: &Value| rule["resources"] != json!([]);
        rules.retain(is_some);
        own.retain(is_some);
        let mut objects = vec![
            json!({"kind": "ClusterRole", "metadata": {"name": self.name}, "rules": rules}),
            json!({"kind": "Role", "metadata": {"name": "own", "namespace": self.name}, "rules": own}),
            self.binding("Role", "own", Some(&self.name)),
        ];
        match setup.only_in {
            [] => objects.push(self.binding("ClusterRole", &self.name, None)),
            names => objects.extend(
                names
                    .iter()
                    .map(|name| self.binding("ClusterRole", &self.name, Some(name))),
            ),
        }
        self.apply_rbac(objects)
    }

    /// Grants further rules, in the complete cluster.
    pub fn grant(&self, role: &str, rules: &[Value]) -> Result<()> {
        let name = format!("{}-{role}", self.name);
        let role = json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        self.apply_rbac(vec![role, self.binding("ClusterRole", &name, None)])
    }

    /// Makes the API server refuse operations on the world's ConfigMaps with a message, unless a CEL expression is true.
    /// The policy takes effect after some time.
    pub fn deny_writes(&self, operations: &str, unless: &str, message: &str) -> Result<()> {
        let policy = include_str!("../../fixtures/integration/policy.yaml").replace("NAME", &self.name);
        let policy = policy.replace("OPERATIONS", operations);
        let policy = policy.replace("EXPRESSION", unless).replace("MESSAGE", message);
        self.kubectl.apply(&policy)
    }

    /// Removes the policy of [`World::deny_writes`].
    pub fn allow_writes(&self) -> Result<()> {
        self.kubectl.delete("validatingadmissionpolicybinding", &self.name)?;
        self.kubectl.delete("validatingadmissionpolicy", &self.name)
    }

    /// Removes the rules of [`World::grant`].
    pub fn revoke(&self, role: &str) -> Result<()> {
        let name = format!("{}-{role}", self.name);
        self.kubectl.delete("clusterrolebinding", &name)
    }

    fn binding(&self, kind: &str, role: &str, namespace: Option<&str>) -> Value {
        let metadata = match namespace {
            Some(namespace) => json!({"name": role, "namespace": namespace}),
            None => json!({"name": role}),
        };
        let group = "rbac.authorization.k8s.io";
        json!({
            "kind": if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" }, "metadata": metadata,
            "subjects": [{"kind": "Group", "name": self.operators(), "apiGroup": group}],
            "roleRef": {"apiGroup": group, "kind": kind, "name": role},
        })
    }

    fn apply_rbac(&self, mut objects: Vec<Value>) -> Result<()> {
        for object in &mut objects {
            object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.control_plane.kubectl().apply(&list.to_string())
    }
}

/// The rights that an operator needs on a kind of members.
pub fn member_rule(group: &str, resource: &str) -> Value {
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

fn rules_of(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let role: Value = serde_yaml::from_str(&text)?;
    Ok(role["rules"].as_array().cloned().unwrap_or_default())
}
