//! `serviceAccountName`: a release reads and writes with the rights of a ServiceAccount.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::fields::text;
use crate::world::operator::{Launch, Operator, UNELECTED};
use crate::world::{World, config_map};

const ACCOUNT: &str = "deployer";

/// A world whose operator may impersonate the account `deployer`, with these keys of its watch.
fn world(name: &str, keys: &[&str]) -> Result<World> {
    let world = World::new(name)?;
    let mut all = vec!["serviceAccountName: deployer"];
    all.extend(keys);
    world.write_watches_of(&[("Widget", &world.chart(), &all)])?;
    let impersonate = json!({
        "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [ACCOUNT], "verbs": ["impersonate", "get"],
    });
    // The operator watches what the account applies.
    let watch = json!({
        "apiGroups": ["", "rbac.authorization.k8s.io"], "resources": ["secrets", "rolebindings"], "verbs": ["list", "watch"],
    });
    world.grant("impersonate", &[impersonate, watch])?;
    Ok(world)
}

/// Creates the account with rights on these resources of the core group.
fn give_rights(world: &World, resources: &[&str]) -> Result<()> {
    let verbs = ["get", "list", "create", "patch", "delete"];
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": ACCOUNT, "namespace": world.name});
    let rules = json!([{"apiGroups": [""], "resources": resources, "verbs": verbs}]);
    let version = "rbac.authorization.k8s.io/v1";
    let objects = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": world.name}],
        }),
    ];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    world.kubectl.apply(&list.to_string())
}

fn take_rights(world: &World) -> Result<()> {
    world.kubectl.delete("rolebinding", ACCOUNT)?;
    world.kubectl.delete("serviceaccount", ACCOUNT)
}

fn extra(objects: &[Value]) -> Value {
    json!({"extraDeploy": objects})
}

/// The requests of the operator that name the account.
fn start(world: &World) -> Result<Operator> {
    let operator = world.start()?;
    operator.await_log("watching")?;
    Ok(operator)
}

#[test]
fn an_author_gets_what_the_account_may_create_and_no_more() -> Result<()> {
    let world = world("impersonate", &[])?;
    give_rights(&world, &["configmaps"])?;
    let operator = start(&world)?;
    let widget = world.install("a", extra(&[config_map("more", json!({"a": "b"}))]))?;
    let account = &widget["status"]["release"]["serviceAccount"];
    ensure!(*account == "impersonate/deployer", "{account}");
    world.expect("configmap", "more")?;
    world.await_quiet(&operator)?;
    world.ensure_no_requests(&operator, 1.5)?;

    // Bindings would be refused without `allow`; the API server decides for the account.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "more"}, "stringData": {"a": "b"}});
    world.edit("a", extra(&[secret]))?;
    let texts = [
        "system:serviceaccount:impersonate:deployer",
        "secrets",
        "impersonate/deployer needs the rights",
    ];
    world.await_unready("a", "Forbidden", &texts)?;
    world.absent("secret", ["more"])?;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "more"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "mallory", "apiGroup": group}],
    });
    world.edit("a", extra(&[binding]))?;
    world.await_unready(
        "a",
        "Forbidden",
        &["system:serviceaccount:impersonate:deployer", "rolebindings"],
    )?;
    world.absent("rolebinding", ["more"])?;
    // More rights of the account take effect.
    let elsewhere = config_map("kube-public", json!({}));
    world.edit("a", extra(&[elsewhere]))?;
    world.await_ready("a")?;
    // Deletion runs as the account, too.
    world.delete("a")?;
    world.absent("configmap", ["a-main"])
}

/// KEP-5284, on by default from Kubernetes 1.36: the operator may do as the account only what its own rules name.
#[test]
fn constrained_impersonation_is_enough() -> Result<()> {
    let world = World::new("impersonate-less")?;
    world.write_watches_of(&[("Widget", &world.chart(), &["serviceAccountName: deployer"])])?;
    let on = ["get", "list", "create", "patch", "delete"].map(|verb| format!("impersonate-on:serviceaccount:{verb}"));
    let account = json!({
        "apiGroups": ["authentication.k8s.io"], "resources": ["serviceaccounts"], "resourceNames": [ACCOUNT],
        "verbs": ["impersonate:serviceaccount"],
    });
    let objects = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": on});
    // The operator watches what the account applies.
    let watch = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]});
    world.grant("impersonate", &[account, objects, watch])?;
    give_rights(&world, &["configmaps", "secrets"])?;
    let _operator = start(&world)?;
    world.install("a", json!({}))?;
    // The account may write Secrets, but not for this operator.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "more"}, "stringData": {"a": "b"}});
    world.edit("a", extra(&[secret]))?;
    world.await_unready("a", "Forbidden", &["impersonate"])?;
    world.absent("secret", ["more"])?;
    world.update("a", extra(&[]))?;
    world.delete("a")?;
    world.absent("configmap", ["a-main"])
}

#[test]
fn a_default_account_holds_for_watches_without_one() -> Result<()> {
    let world = World::new("impersonate-default")?;
    world.write_watches()?;
    let impersonate = json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate", "get"]});
    world.grant("impersonate", &[impersonate])?;
    let launch = Launch {
        arguments: &["--default-service-account=deployer", "--no-cross-namespace-refs"],
        ..UNELECTED
    };
    let _operator = world.launch(&launch)?;
    world.apply_widget("a", json!({}))?;
    world.await_unready(
        "a",
        "Forbidden",
        &["the ServiceAccount impersonate-default/deployer does not exist"],
    )?;
    give_rights(&world, &["configmaps"])?;
    world.await_ready("a").map(drop)
}

#[test]
fn a_missing_account_is_named_and_does_not_stop_others() -> Result<()> {
    let world = world("impersonate-missing", &[])?;
    let _operator = start(&world)?;
    world.apply_widget("a", json!({}))?;
    let texts = ["the ServiceAccount impersonate-missing/deployer does not exist"];
    world.await_unready("a", "Forbidden", &texts)?;
    give_rights(&world, &["configmaps"])?;
    world.await_ready("a")?;
    // Without the account, the deletion waits and says so.
    take_rights(&world)?;
    world.begin_delete("a")?;
    world.await_unready("a", "DeleteFailed", &texts)?;
    world.expect("configmap", "a-main")?;
    give_rights(&world, &["configmaps"])?;
    world.await_deleted("a")?;
    world.absent("configmap", ["a-main"])
}

#[test]
fn a_deletion_falls_back_to_the_operator_if_its_watch_says_so() -> Result<()> {
    let world = world("impersonate-fallback", &["deletionFallback: operator", "timeout: 3s"])?;
    give_rights(&world, &["configmaps"])?;
    let _operator = start(&world)?;
    world.install("a", json!({}))?;
    take_rights(&world)?;
    world.begin_delete("a")?;
    world.await_deleted("a")?;
    world.absent("configmap", ["a-main"])?;
    world
        .await_event("a", "DeletionFallback", &["with the rights of the operator"])
        .map(drop)
}

#[test]
fn lookups_and_values_are_read_by_the_account() -> Result<()> {
    let world = world(
        "impersonate-reads",
        &["valuesFrom: [{kind: Secret, name: colors, valuesKey: color, targetPath: color}]"],
    )?;
    give_rights(&world, &["configmaps"])?;
    world.run(["create", "secret", "generic", "colors", "--from-literal=color=green"])?;
    let _operator = start(&world)?;
    world.apply_widget("a", json!({}))?;
    let found = world.await_unready(
        "a",
        "LookupFailed",
        &["system:serviceaccount:impersonate-reads:deployer", "secrets"],
    )?;
    ensure!(!text(&found["message"]).contains("green"), "{found}");
    give_rights(&world, &["configmaps", "secrets"])?;
    world.await_color("a-main", "green").map(drop)
}
