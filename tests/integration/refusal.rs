//! What the operator refuses, though it has the rights: other owners' objects, and what values may not ask for.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::look::{is_marked, says, uid};
use crate::world::{World, member_rule};

#[test]
fn an_object_of_somebody_else_is_left_alone_until_it_is_gone() -> Result<()> {
    let world = World::new("fail-foreign")?;
    world
        .kubectl
        .apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-main}\ndata: {color: blue}\n")?;
    let foreign = world.expect("configmap", "a-main")?;
    let operator = world.start_and_settle()?;
    let start = world.mark()?;
    world.apply(&world.widget("a", json!({"extra": ["one"]})))?;
    let message = world.await_stalled("a", "Collision")?;
    says(&message, ["a-main", "exists already"])?;
    std::thread::sleep(Duration::from_secs(2));
    // Equal in every field, resourceVersion and managedFields among them.
    ensure!(world.expect("configmap", "a-main")? == foreign, "it was touched");
    // What was meant to create it was refused, once.
    let tried = world.requests(&operator, start)?.name("a-main").writes();
    ensure!(
        tried.len() == 1 && tried.iter().all(|request| request.status == 409),
        "{tried}"
    );

    world.kubectl.delete("configmap", "a-main")?;
    world.await_ready("a")?;
    ensure!(is_marked(&world.expect("configmap", "a-main")?));
    Ok(())
}

#[test]
fn a_foreign_object_outlives_a_release_that_was_refused_it() -> Result<()> {
    let world = World::new("fail-outlive")?;
    world
        .kubectl
        .apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-main}\ndata: {mine: 'yes'}\n")?;
    let foreign = world.expect("configmap", "a-main")?;
    let _operator = world.start()?;
    world.apply(&world.widget("a", json!({"extra": ["one"]})))?;
    world.await_stalled("a", "Collision")?;
    world.delete("a")?;
    ensure!(world.expect("configmap", "a-main")? == foreign && world.get("configmap", "a-one")?.is_none());

    // Somebody puts their own object in a member's place, with copies of its marks or without: the record is no proof.
    world.install("b", json!({"extra": ["one"]}))?;
    world.annotate("b", json!({"chartwright.dev/suspend": "true"}))?;
    world.await_condition("b", "Suspended", "True")?;
    world.kubectl.delete("configmap", "b-one")?;
    world
        .kubectl
        .apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b-one}\ndata: {mine: 'yes'}\n")?;
    let foreign = world.expect("configmap", "b-one")?;
    let resume = json!({"metadata": {"annotations": {"chartwright.dev/suspend": null}}, "spec": {"extra": []}});
    world.patch(&world.widgets(), "b", &resume)?;
    world.await_ready("b")?;
    ensure!(
        world.expect("configmap", "b-one")? == foreign,
        "pruned or changed on the word of the record"
    );
    world.delete("b")?;
    ensure!(world.expect("configmap", "b-one")? == foreign);
    Ok(())
}

#[test]
fn values_cannot_smuggle_in_rights_or_reach() -> Result<()> {
    let world = World::new("fail-smuggle")?;
    // Rights that the operator happens to have, so that nothing but its own refusal is in the way.
    let rbac = "rbac.authorization.k8s.io";
    let mut rules: Vec<Value> = ["clusterrolebindings", "rolebindings"]
        .map(|kind| member_rule(rbac, kind))
        .into();
    rules.push(json!({"apiGroups": [rbac], "resources": ["clusterroles"], "verbs": ["bind"]}));
    world.grant("rbac", &rules)?;
    let operator = world.start_and_settle()?;
    let binding = |kind: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "fail-smuggle-owned"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}],
        })
    };
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "namespace": "kube-system"}, "data": {"a": "b"},
    });
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "fail-smuggle-owned"}, "value": 1,
    });
    // Hidden in a List, as charts may write them.
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [binding("ClusterRoleBinding")]});
    let cases = [
        (
            "cluster",
            binding("ClusterRoleBinding"),
            "\"ClusterRoleBinding.rbac.authorization.k8s.io/fail-smuggle-owned\" to `allow.kinds`",
        ),
        (
            "list",
            list,
            "\"ClusterRoleBinding.rbac.authorization.k8s.io/fail-smuggle-owned\" to `allow.kinds`",
        ),
        (
            "own",
            binding("RoleBinding"),
            "\"RoleBinding.rbac.authorization.k8s.io/fail-smuggle-owned\" to `allow.kinds`",
        ),
        ("namespace", map, "\"kube-system\" to `allow.namespaces`"),
        (
            "class",
            class,
            "\"PriorityClass.scheduling.k8s.io/fail-smuggle-owned\" to `allow.kinds`",
        ),
    ];
    let start = world.mark()?;
    for (name, object, _) in &cases {
        world.apply(&world.widget(name, json!({"extraDeploy": [object]})))?;
    }
    for (name, _, advice) in &cases {
        let message = world.await_stalled(name, "Refused")?;
        ensure!(
            message.contains(advice) && message.contains("templates/extra.yaml"),
            "{name}: {message}"
        );
        ensure!(
            world.get("configmap", &format!("{name}-main"))?.is_none(),
            "{name}: the rest was applied"
        );
    }
    let writes = world.requests(&operator, start)?.writes();
    let elsewhere = writes.filter(|write| !["widgets", "events"].contains(&write.resource.as_str()));
    ensure!(elsewhere.is_empty(), "{elsewhere}");
    Ok(())
}

/// A chart that binds a role by itself, as the values say, and makes whatever else they say.
const BINDS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: '{{ .Values.fullnameOverride | default (printf "%s-%s" .Release.Namespace .Release.Name) }}'}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: '{{ .Values.role | default "view" }}'}
subjects: [{kind: ServiceAccount, name: '{{ .Values.account | default .Release.Name }}', namespace: '{{ .Release.Namespace }}'}]
{{- range .Values.extraDeploy }}
---
{{ tpl (toYaml .) $ }}
{{- end }}
"#;

#[test]
fn rights_that_the_chart_gives_by_itself_are_no_leave_for_others() -> Result<()> {
    let world = World::new("fail-rights")?;
    let rbac = "rbac.authorization.k8s.io";
    let bind = json!({"apiGroups": [rbac], "resources": ["clusterroles"], "verbs": ["bind"]});
    let rules = [
        member_rule(rbac, "clusterrolebindings"),
        member_rule("", "secrets"),
        bind,
    ];
    world.grant("rbac", &rules)?;
    let chart = world.write_chart("binds", &[("binds.yaml", BINDS)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    let binding = world.expect("clusterrolebinding", "fail-rights-a")?;
    ensure!(binding["roleRef"]["name"] == "view", "{binding}");

    let admin = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "fail-rights-admin"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "fail-rights"}],
    });
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "stolen", "annotations": {"kubernetes.io/service-account.name": "default"}},
    });
    let by_name = |name: &str| format!("\"ClusterRoleBinding.rbac.authorization.k8s.io/{name}\" to `allow.kinds`");
    let cases = [
        (
            "extra",
            json!({"extraDeploy": [admin]}),
            "does not create it",
            by_name("fail-rights-admin"),
        ),
        (
            "role",
            json!({"role": "cluster-admin"}),
            "no such `roleRef`",
            by_name("fail-rights-role"),
        ),
        (
            "account",
            json!({"account": "default"}),
            "no such `subjects[0]`",
            by_name("fail-rights-account"),
        ),
        (
            "name",
            json!({"fullnameOverride": "elsewhere"}),
            "does not create it",
            by_name("elsewhere"),
        ),
        (
            "token",
            json!({"extraDeploy": [token]}),
            "does not create it",
            "\"Secret/stolen\"".to_owned(),
        ),
    ];
    for (name, spec, _, _) in &cases {
        world.apply(&world.widget(name, spec.clone()))?;
    }
    for (name, _, why, advice) in &cases {
        let message = world.await_stalled(name, "Refused")?;
        ensure!(
            message.contains(why) && message.contains(advice.as_str()),
            "{name}: {message}"
        );
    }
    // So does a release that was permitted before.
    world.apply(&world.widget("a", json!({"account": "default"})))?;
    world.await_stalled("a", "Refused")?;
    ensure!(
        world.expect("clusterrolebinding", "fail-rights-a")? == binding,
        "it was changed"
    );
    drop(operator);

    let allow = "allow: {kinds: [ClusterRoleBinding.rbac.authorization.k8s.io/elsewhere]}";
    world.write_watches_of(&[("Widget", &chart, &[allow])])?;
    let _operator = world.start()?;
    world.await_ready("name")?;
    ensure!(world.get("clusterrolebinding", "elsewhere")?.is_some());
    world.await_stalled("extra", "Refused").map(drop)
}

/// Each release makes another custom resource, and so on.
const BRED: &str = r#"
{{- $name := printf "%s-x" .Release.Name }}
apiVersion: fail-nested.test/v1
kind: Widget
metadata: {name: {{ $name }}}
spec: {}
"#;

#[test]
fn a_chart_that_makes_its_own_kind_comes_to_an_end() -> Result<()> {
    let world = World::new("fail-nested")?;
    let chart = world.write_chart("bred", &[("bred.yaml", BRED)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    world.grant("breed", &[member_rule("fail-nested.test", "widgets")])?;
    let operator = world.start()?;
    world.apply(&world.widget("a", json!({})))?;
    let deepest = "a-x-x-x-x";
    let message = world.await_stalled(deepest, "Refused")?;
    says(
        &message,
        [
            "Widget.fail-nested.test fail-nested/a-x-x-x made this",
            "set `allow.depth` of the watch to 4",
        ],
    )?;
    world.await_quiet(&operator)?;
    let names = || -> Result<usize> { Ok(world.list(&world.widgets(), "")?.len()) };
    ensure!(names()? == 5, "{}", names()?);
    drop(operator);

    // An operator that starts counts as far.
    let operator = world.start_and_settle()?;
    ensure!(names()? == 5, "{}", names()?);
    drop(operator);
    world.write_watches_of(&[("Widget", &chart, &["allow: {depth: 5}"])])?;
    let operator = world.start()?;
    world.await_stalled(&format!("{deepest}-x-x"), "Refused")?;
    world.await_quiet(&operator)?;
    ensure!(names()? == 7, "{}", names()?);
    world.delete("a")?;
    world.await_gone(&world.widgets(), &format!("{deepest}-x-x"))
}

#[test]
fn lookups_of_values_stay_in_the_namespace() -> Result<()> {
    let world = World::new("fail-lookup")?.watch_key("lookups: {namespaces: [default]}");
    world.grant("secrets", &[member_rule("", "secrets")])?;
    let operator = world.start_and_settle()?;
    let reading = |lookup: &str| {
        let copy = format!("{{{{ {lookup} | toJson }}}}");
        json!({"extraDeploy": [{
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-copy"}, "data": {"copy": copy},
        }]})
    };
    let start = world.mark()?;
    let refused = [
        (
            "far",
            r#"lookup "v1" "ConfigMap" "kube-system" "extension-apiserver-authentication""#,
            "\"kube-system\" to `lookups.namespaces`",
        ),
        (
            "all",
            r#"lookup "v1" "ConfigMap" "" """#,
            "\"*\" to `lookups.namespaces`",
        ),
        (
            "cluster",
            r#"lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "admin""#,
            "to `lookups.kinds`",
        ),
    ];
    for (name, lookup, advice) in refused {
        world.apply(&world.widget(name, reading(lookup)))?;
        let message = world.await_stalled(name, "Refused")?;
        ensure!(message.contains(advice), "{name}: {message}");
    }
    world.apply(&world.widget("secret", reading(r#"lookup "v1" "Secret" .Release.Namespace "x""#)))?;
    let message = world.await_stalled("secret", "RenderFailed")?;
    says(&message, ["Secrets are not looked up for text that comes from values"])?;
    let requests = world.requests(&operator, start)?;
    let beyond = requests.filter(|request| !["widgets", "events"].contains(&request.resource.as_str()));
    ensure!(beyond.is_empty(), "refused after it was asked:\n{beyond}");

    // Its own namespace, the kinds that tell where a chart runs, and what the watch opens.
    world
        .kubectl
        .apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\ndata: {word: hello}\n")?;
    world.install("near", json!({"lookup": "words"}))?;
    ensure!(world.expect("configmap", "near-looked-up")?["data"]["copy"] == "hello");
    // A chart that can't do without finds it, though the first render doesn't.
    let needed = r#"required "no words" (lookup "v1" "ConfigMap" .Release.Namespace "words").data.word"#;
    world.install("needed", reading(needed))?;
    ensure!(world.expect("configmap", "needed-copy")?["data"]["copy"] == "\"hello\"");
    world.apply(&world.widget("missed", reading(&needed.replace("words", "none"))))?;
    let message = world.await_stalled("missed", "RenderFailed")?;
    ensure!(message.contains("nil pointer"), "{message}");
    world.install(
        "opened",
        reading(r#"lookup "v1" "ConfigMap" "default" "kube-root-ca.crt""#),
    )?;
    ensure!(
        world.expect("configmap", "opened-copy")?["data"]["copy"]
            .as_str()
            .is_some_and(|copy| copy.contains("CERTIFICATE"))
    );
    Ok(())
}

#[test]
fn an_object_belongs_to_one_release_at_a_time() -> Result<()> {
    let world = World::new("fail-shared")?;
    let _operator = world.start()?;
    let shared = |color: &str| json!({"extraDeploy": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"color": color}}]});
    world.install("a", shared("blue"))?;
    let before = world.expect("configmap", "shared")?;
    world.apply(&world.widget("b", shared("red")))?;
    let message = world.await_stalled("b", "Collision")?;
    says(&message, ["shared", "another release"])?;
    ensure!(
        world.expect("configmap", "shared")? == before,
        "it was taken from its release"
    );
    world.await_ready("a")?;

    world.delete("a")?;
    world.await_ready("b")?;
    let after = world.expect("configmap", "shared")?;
    ensure!(after["data"]["color"] == "red");
    ensure!(uid(&after) != uid(&before));
    Ok(())
}
