//! The admission policies of config/policies: a tenant with every right in a namespace writes neither the operator's bookkeeping
//! nor a status, and everything else goes on as without them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::{Kubectl, until};
use crate::world::fields::{ensure_contains, is_ready, uid};
use crate::world::{COLLECTED, SOON, World, WorldSetup, config_map, member_rule, staged_chart};

/// The objects of config/policies, for this world's kind and operator.
fn policies(world: &World) -> Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/policies");
    let objects = world.kubectl.run(["kustomize", &folder.display().to_string()])?;
    for name in [
        "cache.example.com",
        "memcacheds/status",
        "chartwright-controller-manager",
        "chartwright-system",
    ] {
        ensure!(objects.contains(name), "{name} is not in {objects}");
    }
    let ours = objects.replace("cache.example.com", &world.group());
    let ours = ours.replace("memcacheds/status", "widgets/status");
    let ours = ours.replace("chartwright-controller-manager", "operator-0");
    Ok(ours.replace("chartwright-system", &world.name))
}

/// A user with every right in the world's namespace.
fn tenant(world: &World) -> Result<Kubectl> {
    let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let metadata = json!({"name": "tenant", "namespace": world.name});
    let role = json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [everything]});
    let binding = json!({
        "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
        "subjects": [{"kind": "User", "name": "tenant", "apiGroup": group}],
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "tenant"},
    });
    world.kubectl.apply(&role.to_string())?;
    world.kubectl.apply(&binding.to_string())?;
    let kubeconfig = world.control_plane.kubeconfig_for("tenant", &[])?;
    Ok(world.kubectl.with_kubeconfig(&kubeconfig))
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"a": "b"}})
}

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": "api-0/uid"},
    })
}

/// A control plane of its own: the policies hold for every namespace.
#[test]
fn only_the_operator_and_cluster_admins_write_bookkeeping_and_status() -> Result<()> {
    let world = World::with("policies", WorldSetup::ALONE)?;
    world.write_watches_of(&[("Widget", &staged_chart(), &[])])?;
    world.grant("secrets", &[member_rule("", "secrets")])?;
    let tenant = tenant(&world)?;
    world.kubectl.apply(&policies(&world)?)?;
    let probe = secret("chartwright-record-probe").to_string();
    until("the policies hold", SOON, || Ok(tenant.apply(&probe).is_err()))?;

    // The operator makes its key, and what it stores for the deletion.
    let _operator = world.start()?;
    let widget = world.install("a", spec())?;
    let stored = format!("chartwright-hooks-{}", uid(&widget));
    let before = world.expect("secret", &stored)?;
    tenant_is_refused(&world, &tenant, &stored)?;
    ensure!(world.expect("secret", &stored)? == before);

    // The policies ignore everything else that a tenant may do.
    for name in [
        "mine",
        "chartwright",
        "chartwright-registry-login",
        "my-chartwright-record-x",
    ] {
        tenant.apply(&secret(name).to_string())?;
        tenant.delete("secret", name)?;
    }
    tenant.apply(&lease("mine").to_string())?;
    tenant.patch(&world.widgets(), "a", &json!({"metadata": {"labels": {"mine": "yes"}}}))?;
    world.update("a", json!({"color": "red"}))?;
    tenant.begin_delete(&world.widgets(), "a")?;
    world.await_deleted("a")?;
    world.await_gone("secret", &stored)?;
    admins_and_controllers_are_not(&world)
}

/// One hook for the deletion, which is stored in a Secret.
fn spec() -> Value {
    json!({"hooks": [{"name": "bye", "at": "pre-delete", "kind": "ConfigMap"}]})
}

fn tenant_is_refused(world: &World, tenant: &Kubectl, stored: &str) -> Result<()> {
    let refused = |what: &str, outcome: Result<()>| {
        let error = outcome.err().with_context(|| format!("{what} was allowed"))?;
        ensure_contains(&format!("{error:#}"), &["denied request", "Chartwright alone"])
            .with_context(|| what.to_owned())
    };
    for name in [
        "chartwright-record-x",
        "chartwright-kept-x",
        "chartwright-hooks-x",
        "chartwright-plan-x",
        "chartwright-render-x-1",
        "chartwright-hmac-key",
    ] {
        refused(name, tenant.apply(&secret(name).to_string()))?;
    }
    let name = "chartwright-elect-statefulset-db";
    refused(name, tenant.apply(&lease(name).to_string()))?;
    refused(
        "a change",
        tenant.patch("secret", stored, &json!({"data": {"signature": "AAAA"}})),
    )?;
    refused("a deletion", tenant.delete("secret", stored))?;
    let all = format!("/api/v1/namespaces/{}/secrets", world.name);
    refused("a deletion of all", tenant.run(["delete", "--raw", &all]).map(drop))?;
    let status = json!({"status": {"elected": []}});
    refused("a status", tenant.patch_status(&world.widgets(), "a", &status))
}

fn admins_and_controllers_are_not(world: &World) -> Result<()> {
    world.install("b", spec())?;
    let status = json!({"status": {"notes": "by an admin"}});
    world.kubectl.patch_status(&world.widgets(), "b", &status)?;
    world.delete("b")?;
    // A kind that the garbage collector has known from the beginning.
    world.apply(&config_map("owner", json!({})))?;
    let owner = world.expect("configmap", "owner")?;
    let mut owned = secret("chartwright-record-owned");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(&owner)}]);
    world.apply(&owned)?;
    world.kubectl.delete("configmap", "owner")?;
    world.await_gone_within(COLLECTED, "secret", "chartwright-record-owned")?;

    let admin = world.control_plane.kubectl();
    let gone = admin.create_namespace("policies-gone")?;
    let mut widget = world.widget("c", spec());
    widget["metadata"]["namespace"] = "policies-gone".into();
    gone.apply(&widget.to_string())?;
    until("it is ready", SOON, || {
        let widget = gone.get(&world.widgets(), "c")?;
        Ok(widget.is_some_and(|widget| is_ready(&widget)))
    })?;
    gone.apply(&secret("chartwright-record-of-another-time").to_string())?;
    gone.apply(&lease("chartwright-elect-statefulset-db").to_string())?;
    admin.begin_delete("namespace", "policies-gone")?;
    until("the namespace is gone", COLLECTED, || {
        Ok(admin.get("namespace", "policies-gone")?.is_none())
    })
}
