//! Wrong input: no cluster, no rights, unknown kinds and names, files with mistakes.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Differ;
use crate::world::World;
use crate::world::fields::ensure_contains;

#[test]
fn wrong_input_ends_with_2_and_says_what_to_do() -> Result<()> {
    let world = World::new("diff-wrong")?;
    let operator = world.start()?;
    world.install("web", json!({}))?;
    let differ = Differ::new(&world)?;
    let file = |name: &str, text: &str| -> Result<String> {
        let path = world.dir.path().join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let kind = world.resource("widget");
    let broken = file(
        "broken.yaml",
        "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\na: [\n",
    )?;
    let nameless = file(
        "nameless.yaml",
        &format!("apiVersion: {}/v1\nkind: Widget\n", world.group()),
    )?;
    let unknown = file(
        "unknown.yaml",
        "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: a}\n",
    )?;
    let map = file("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")?;
    let watches = file("other.yaml", "- group: a\n")?;
    let away = "/nonexistent/cr.yaml";
    let unreachable = file(
        "unreachable",
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n\
         contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n",
    )?;
    let mut expired: Value = serde_yaml::from_str(&fs::read_to_string(world.control_plane.kubeconfig())?)?;
    expired["users"][0]["user"] = json!({"token": "expired"});
    let stranger = file("stranger", &expired.to_string())?;
    for (arguments, words) in [
        (vec!["wigdet", "web"], vec!["serves no kind \"wigdet\""]),
        (
            vec![kind.as_str(), "wbe"],
            vec!["there is no Widget.diff-wrong.test wbe", "did you mean web?"],
        ),
        (
            vec!["configmap", "web-main"],
            vec!["no watch is for ConfigMap", "the watches are for"],
        ),
        (vec!["-f", &broken], vec!["broken.yaml", "line 5"]),
        (vec!["-f", &nameless], vec!["nameless.yaml:1: metadata.name is missing"]),
        (
            vec!["-f", &unknown],
            vec!["unknown.yaml:1", "does not serve Nothing.example.com in v1"],
        ),
        (vec!["-f", &map], vec!["map.yaml:1", "no watch is for ConfigMap"]),
        (vec!["-f", away], vec![away]),
        (vec!["--all", "--watches-file", &watches], vec!["other.yaml:1"]),
        (
            vec!["--all", "--chart", "/nonexistent/chart"],
            vec!["--chart /nonexistent/chart: No such file"],
        ),
        (
            vec![kind.as_str(), "web", "--set", "a"],
            vec!["failed parsing --set data"],
        ),
        (
            vec![kind.as_str(), "web", "--operator-namespace", "default"],
            vec!["Secret default/diff-wrong-hmac-key", "--operator-namespace"],
        ),
        (
            vec!["--all", "--kubeconfig", &unreachable],
            vec![
                "Error: the API server at http://127.0.0.1:9 does not answer: Connection refused",
                "is the kubeconfig ",
                "unreachable the right one?",
            ],
        ),
        (
            vec!["--all", "--kubeconfig", &stranger],
            vec!["Error: unauthorized: the API server refuses the credentials of the kubeconfig "],
        ),
        (
            vec![
                kind.as_str(),
                "web",
                "--operator-name",
                "nothing",
                "--operator-namespace",
                &world.name,
            ],
            vec![
                "nothing-hmac-key, does not exist",
                "found diff-wrong in diff-wrong: --operator-name diff-wrong",
            ],
        ),
        (
            vec!["--all", "-o", "yaml"],
            vec!["possible values: text, json, markdown"],
        ),
        (
            vec![],
            vec![
                "<KIND> <NAME> for one release, -f <FILE>",
                "or --all",
                "Usage: chartwright diff ",
            ],
        ),
    ] {
        let printed = differ.run(&arguments)?;
        ensure!(
            printed.code == 2,
            "{arguments:?}: {}: {}{}",
            printed.code,
            printed.out,
            printed.err
        );
        ensure!(!printed.err.contains("panicked"), "{}", printed.err);
        ensure_contains(&printed.err, &words)?;
    }
    drop(operator);
    Ok(())
}

#[test]
fn a_missing_right_is_named() -> Result<()> {
    let world = World::new("diff-rights")?;
    let _operator = world.start()?;
    world.install("a", json!({"deployment": {"enabled": true}}))?;
    let group = "diff-rights:readers";
    let grant = |name: &str, rules: serde_json::Value| {
        let names = json!({"name": format!("diff-rights-{name}")});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": names, "rules": rules},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": names,
             "subjects": [{"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"}],
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": names["name"]}},
        ]});
        world.control_plane.kubectl().apply(&list.to_string())
    };
    let differ = Differ::with_groups(&world, &[group])?;
    let kind = world.resource("widget");
    let run = |code: i32| {
        differ
            .run(&[&kind, "a", "--set", "color=red", "--operator-namespace", &world.name])?
            .expect(code)
    };
    ensure_contains(&run(2)?.err, &["widgets.diff-rights.test", "cannot get"])?;
    grant(
        "widgets",
        json!([{"apiGroups": [world.group()], "resources": ["widgets"], "verbs": ["get", "list"]}]),
    )?;
    ensure_contains(
        &run(2)?.err,
        &["you need the right to get the operator's key", "diff-rights-hmac-key"],
    )?;
    grant(
        "key",
        json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]),
    )?;
    let printed = run(2)?;
    ensure_contains(&printed.out, &["can't be read", "the right to get and list the kinds"])?;
    let rules = json!([{"apiGroups": ["", "apps"], "resources": ["configmaps", "deployments", "secrets"], "verbs": ["get", "list"]}]);
    grant("members", rules)?;
    let printed = run(2)?;
    ensure_contains(
        &printed.out,
        &["refused: ConfigMap diff-rights/a-main: Forbidden", "cannot patch"],
    )?;
    grant(
        "patch",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]),
    )?;
    let printed = run(1)?;
    ensure_contains(&printed.out, &["+  color: red", "did not check the custom resource"])
}

#[test]
fn rights_in_the_namespace_are_enough() -> Result<()> {
    let world = World::new("diff-narrow")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    let group = "diff-narrow:editors";
    let verbs = json!(["get", "list", "patch"]);
    let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let rules = [
        rule(&world.group(), "widgets"),
        rule("", "configmaps"),
        rule("", "secrets"),
    ];
    let api_group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "editors", "namespace": world.name});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
         "subjects": [{"kind": "Group", "name": group, "apiGroup": api_group}],
         "roleRef": {"apiGroup": api_group, "kind": "Role", "name": "editors"}},
    ]});
    world.control_plane.kubectl().apply(&list.to_string())?;
    let differ = Differ::with_groups(&world, &[group])?;
    let kind = world.resource("widget");
    let arguments = [kind.as_str(), "a", "--operator-namespace", &world.name];
    differ.run(&arguments)?.expect(0)?;
    let printed = differ
        .run(&[&arguments[..], &["--set", "color=red"]].concat())?
        .expect(1)?;
    ensure_contains(&printed.out, &["1 changed", "+  color: red", "1 release: 1 changed"])?;
    drop(operator);
    Ok(())
}
