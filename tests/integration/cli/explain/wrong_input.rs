//! Wrong names, no cluster, and no rights.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::explain;
use crate::cli::fail;
use crate::world::World;
use crate::world::fields::{ensure_contains, text};

#[test]
fn wrong_input_is_refused_with_what_to_do() -> Result<()> {
    let world = World::new("explain-wrong")?;
    world.apply_widget("shop", json!({}))?;
    let (kind, name) = (world.resource("widget"), world.name.clone());
    let stranger = world
        .control_plane
        .kubeconfig_for("explain-stranger", &[])?
        .display()
        .to_string();
    let typo = format!("widgtes.{}", world.group());
    let folder = tempfile::tempdir()?;
    let dead = folder.path().join("kubeconfig");
    std::fs::write(
        &dead,
        "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
         users: [{name: a, user: {}}], clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]}",
    )?;
    let dead = dead.display().to_string();
    for verb in ["explain", "tree"] {
        for (arguments, parts) in [
            (
                vec![&*typo, "shop"],
                vec!["the API server serves no kind", "did you mean"],
            ),
            (
                vec!["nowhere", "shop"],
                vec!["the API server serves no kind \"nowhere\""],
            ),
            (vec![&*kind, "shp"], vec!["there is no Widget", "did you mean shop?"]),
            (
                vec![&*kind, "shop", "--kubeconfig", &stranger],
                vec!["forbidden", "explain-stranger"],
            ),
            (
                vec![&*kind, "shop", "--kubeconfig", "/nowhere/kubeconfig"],
                vec!["/nowhere/kubeconfig"],
            ),
            (
                vec![&*kind, "shop", "--kubeconfig", &dead],
                vec![
                    "Error: the API server at http",
                    "does not answer: Connection refused; is the kubeconfig ",
                ],
            ),
        ] {
            let shown = fail(&world, &[&[verb, "-n", &name], &arguments[..]].concat())?;
            ensure_contains(&shown, &parts)?;
        }
        let (status, shown) = world.chartwright(&[verb, &kind])?;
        ensure!(status.code() == Some(2), "{shown}");
        ensure_contains(&shown, &["<NAME>"])?;
    }
    Ok(())
}

#[test]
fn a_release_that_no_operator_handles_is_named() -> Result<()> {
    let world = World::new("explain-unhandled")?;
    world.apply_widget("shop", json!({}))?;
    let shown = explain(&world, "shop", &[])?;
    let first = shown.lines().next().unwrap_or_default();
    ensure_contains(first, &["no operator has handled it", "watches this kind"])
}

#[test]
fn a_member_names_its_release() -> Result<()> {
    let world = World::new("explain-member")?;
    let _operator = world.start()?;
    let widget = world.install("shop", json!({}))?;
    let kind = format!("widget.{}", world.group());
    let command = format!("chartwright explain {kind} shop -n {}", world.name);
    let release = format!(
        "its labels name it as a member of the release Widget.{} {}/shop",
        world.group(),
        world.name
    );
    let member = |name: &str| succeed_on(&world, "configmap", name);
    ensure_contains(&member("shop-main")?, &[&release, &command])?;
    // A label alone names the release, too.
    let id = text(&widget["metadata"]["labels"]["applyset.kubernetes.io/id"]);
    let labelled = |id: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy", "labels": {"applyset.kubernetes.io/part-of": id}}});
    world.apply(&labelled(id))?;
    ensure_contains(&member("copy")?, &[&release, &command])?;
    world.apply(&labelled("applyset-other"))?;
    ensure_contains(
        &member("copy")?,
        &["a member of a release that was not found", "chartwright leftovers"],
    )
}

/// The output of `explain` for an object of any kind.
fn succeed_on(world: &World, kind: &str, name: &str) -> Result<String> {
    crate::cli::succeed(world, &["explain", kind, name, "-n", &world.name])
}

#[test]
fn what_may_not_be_read_is_named_and_the_rest_is_shown() -> Result<()> {
    let world = World::new("explain-rights")?;
    let _operator = world.start()?;
    world.install(
        "a",
        json!({"deployment": {"enabled": true, "replicas": 1}, "secret": {"enabled": false}}),
    )?;
    let user = "explain-reader";
    let list =
        |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list"]});
    let rules = [
        list(&world.group(), "widgets"),
        list("apps", "deployments"),
        list("", "pods"),
    ];
    grant_user(&world, user, &rules)?;
    let kubeconfig = world.control_plane.kubeconfig_for(user, &[])?.display().to_string();
    let shown = explain(&world, "a", &["--kubeconfig", &kubeconfig])?;
    let missed = |kind: &str| format!("not read: {kind} in {}: forbidden", world.name);
    ensure_contains(
        &shown,
        &[
            "ready",
            "ok Deployment a",
            "?? ConfigMap a-main: unknown: not read: forbidden",
            &missed("ConfigMap"),
            &missed("ReplicaSet.apps"),
            &missed("Event"),
        ],
    )
}

/// Grants a user rules in the complete cluster.
fn grant_user(world: &World, user: &str, rules: &[Value]) -> Result<()> {
    let (api, group) = ("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io");
    world.apply(&json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}))?;
    world.apply(&json!({
        "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
    }))
}
