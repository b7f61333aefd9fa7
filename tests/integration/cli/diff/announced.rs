//! Prunes, hooks, plans, waves and Secrets.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Differ, difference, ensure_announced};
use crate::world::fields::ensure_contains;
use crate::world::{World, member_rule};

#[test]
fn members_that_are_no_longer_rendered_are_pruned_kept_or_held() -> Result<()> {
    let world = World::new("diff-prune")?;
    let _operator = world.start()?;
    world.install("a", json!({"extra": ["one", "two"], "kept": true}))?;
    let differ = Differ::new(&world)?;
    let release = differ.release("a", &["--set", "extra={one}", "--set", "kept=false"], 1)?;
    ensure_announced(&release, &["pruned ConfigMap a-two", "released ConfigMap a-kept"])?;
    ensure_contains(&difference(&release, "a-two")?, &["-  extra: two"])?;
    world.expect("configmap", "a-two")?;
    // A chart that renders nothing any more is no intent of the author.
    let empty = world.write_chart("widget", &[])?.display().to_string();
    let release = differ.release("a", &["--chart", &empty], 0)?;
    ensure_announced(&release, &[])?;
    ensure!(release["summary"]["held"] == 1, "{release:#}");
    ensure_contains(
        &release["held"][0].to_string(),
        &["the chart renders no objects any more", "chartwright.dev/prune"],
    )
}

#[test]
fn protected_members_are_held() -> Result<()> {
    let world = World::staged(
        "diff-held",
        &[],
        &[("", "persistentvolumeclaims"), ("apps", "statefulsets")],
    )?;
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: '{{ .Release.Name }}-data'}\n\
                 spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-map'}\n";
    let chart = world.write_chart("claims", &[("claim.yaml", claim), ("map.yaml", map)])?;
    world.write_watches_of(&[("Widget", &chart, &[])])?;
    let _operator = world.start()?;
    world.apply_widget("a", json!({}))?;
    world.await_there("persistentvolumeclaim", "a-data")?;
    let without = world
        .write_chart("without", &[("map.yaml", map)])?
        .display()
        .to_string();
    let release = Differ::new(&world)?.release("a", &["--chart", &without], 0)?;
    ensure_announced(&release, &[])?;
    ensure_contains(&release["held"].to_string(), &["a-data", "would also delete data"])
}

#[test]
fn hooks_and_plans_are_announced_and_not_sent() -> Result<()> {
    let world = World::staged("diff-hooks", &[], &[])?;
    let hook = |name: &str, at: &str| json!({"name": name, "at": at});
    let hooks = json!([hook("before", "pre-install,pre-upgrade"), hook("after", "post-upgrade")]);
    let file = world.dir.path().join("cr.json");
    fs::write(&file, world.widget("new", json!({"hooks": hooks})).to_string())?;
    let _operator = world.start()?;
    let differ = Differ::new(&world)?;
    let release = differ.json(&["-f", &file.display().to_string(), "-o", "json"], 1)?;
    ensure_announced(&release, &["created ConfigMap new-main"])?;
    let names = |runs: &Value| -> Vec<String> {
        let runs = runs.as_array().into_iter().flatten();
        runs.map(|run| format!("{} {}", run["name"], run["objects"][0]["name"]))
            .collect()
    };
    ensure!(
        names(&release["hooks"]) == [r#""pre-install" "new-before""#],
        "{release:#}"
    );
    // An upgrade runs the hooks before and after.
    world.install("a", json!({}))?;
    let mut edited = world.widget("a", json!({"color": "red", "hooks": hooks}));
    fs::write(&file, edited.to_string())?;
    let release = differ.json(&["-f", &file.display().to_string(), "-o", "json"], 1)?;
    ensure_announced(&release, &["changed ConfigMap a-main"])?;
    ensure!(
        names(&release["hooks"]) == [r#""pre-upgrade" "a-before""#, r#""post-upgrade" "a-after""#],
        "{release:#}"
    );
    // A plan that the custom resource requests.
    edited["spec"] = json!({"hooks": [hook("step", "plan-work")]});
    edited["metadata"]["annotations"] = json!({"chartwright.dev/run-plan": "work"});
    fs::write(&file, edited.to_string())?;
    let printed = differ.run(&["-f", &file.display().to_string()])?.expect(1)?;
    ensure_contains(&printed.out, &["plan work would run: Job.batch diff-hooks/a-step"])?;
    world.absent("job", ["new-before", "a-before", "a-after", "a-step"])
}

#[test]
fn later_waves_are_previewed_too() -> Result<()> {
    let world = World::of_chart("diff-waves", "waves")?.granted("batch", "jobs")?;
    // The first wave waits for a Deployment that never becomes ready here.
    world.write_template(
        "slow.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: '{{ .Release.Name }}-slow'}\nspec:\n  \
         selector: {matchLabels: {app: slow}}\n  template:\n    metadata: {labels: {app: slow, chartwright.test/fails: 'true'}}\n    \
         spec: {containers: [{name: main, image: example/main}]}\n",
    )?;
    let _operator = world.start()?;
    let file = world.dir.path().join("cr.json");
    fs::write(&file, world.widget("a", json!({})).to_string())?;
    let release = Differ::new(&world)?.json(&["-f", &file.display().to_string(), "-o", "json"], 1)?;
    ensure_announced(
        &release,
        &[
            "created ConfigMap a-high",
            "created ConfigMap a-low",
            "created Deployment a-slow",
        ],
    )
}

#[test]
fn values_of_secrets_are_masked_in_every_form() -> Result<()> {
    let world = World::new("diff-secret")?.watch_key("valuesFrom: [{kind: Secret, name: creds}]");
    world.grant("sources", &[member_rule("", "secrets")])?;
    world.write_template(
        "copy.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-copy'}\ndata: {url: 'db://{{ .Values.secret.password }}@db'}\n",
    )?;
    let creds = |password: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"},
            "stringData": {"values.yaml": format!("secret: {{enabled: true, password: {password}}}\n")},
        })
    };
    world.apply(&creds("first-hidden-word"))?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    // Only the preview sees the new value.
    operator.kill()?;
    world.apply(&creds("second-hidden-word"))?;
    let differ = Differ::new(&world)?;
    for format in ["text", "json", "markdown"] {
        let printed = differ.run(&[&world.resource("widget"), "a", "-o", format])?.expect(1)?;
        for hidden in ["hidden-word", "Zmlyc3QtaGlkZGVu", "c2Vjb25kLWhpZGRlb"] {
            ensure!(
                !printed.out.contains(hidden) && !printed.err.contains(hidden),
                "{format}: {}",
                printed.out
            );
        }
        ensure_contains(
            &printed.out,
            &["password: (secret, changed)", "[redacted]", "(changed)"],
        )?;
    }
    Ok(())
}

#[test]
fn kinds_and_namespaces_of_the_same_run_are_shown_as_rendered() -> Result<()> {
    let world = World::new("diff-same-run")?
        .watch_key("allow: {kinds: [CustomResourceDefinition.apiextensions.k8s.io, Namespace], namespaces: ['*']}");
    let group = world.group();
    let definition = serde_json::to_string(&crate::world::crd(&group, "Part"))?;
    world.write_template("crd.yaml", &definition)?;
    world.write_template(
        "part.yaml",
        &format!(
            "apiVersion: {group}/v1\nkind: Part\nmetadata: {{name: '{{{{ .Release.Name }}}}-part'}}\nspec: {{a: 1}}\n"
        ),
    )?;
    world.write_template(
        "there.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: diff-same-run-there}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: \
         {name: '{{ .Release.Name }}-there', namespace: diff-same-run-there}\ndata: {a: '1'}\n",
    )?;
    world.write_watches()?;
    let file = world.dir.path().join("cr.json");
    fs::write(&file, world.widget("a", json!({})).to_string())?;
    let release = Differ::new(&world)?.json(&["-f", &file.display().to_string(), "-o", "json"], 1)?;
    ensure_announced(
        &release,
        &[
            "created ConfigMap a-main",
            "created ConfigMap a-there",
            "created CustomResourceDefinition parts.diff-same-run.test",
            "created Namespace diff-same-run-there",
            "created Part a-part",
        ],
    )?;
    let changes = release["changes"].as_array().cloned().unwrap_or_default();
    for change in changes {
        let is_of_run = ["a-there", "a-part"].iter().any(|name| change["name"] == *name);
        ensure!(change["isRenderedOnly"] == is_of_run, "{change}");
    }
    world.absent("namespace", ["diff-same-run-there"])
}

#[test]
fn definitions_of_the_chart_are_created_once_for_all_releases() -> Result<()> {
    let world = World::new("diff-crds")?;
    let group = world.group();
    fs::create_dir_all(world.chart().join("crds"))?;
    let definition = serde_json::to_string(&crate::world::crd(&group, "Part"))?;
    fs::write(world.chart().join("crds/part.yaml"), &definition)?;
    world.write_template(
        "part.yaml",
        &format!(
            "apiVersion: {group}/v1\nkind: Part\nmetadata: {{name: '{{{{ .Release.Name }}}}-part'}}\nspec: {{a: 1}}\n"
        ),
    )?;
    world.write_watches()?;
    let file = world.dir.path().join("cr.json");
    let items = [world.widget("a", json!({})), world.widget("b", json!({}))];
    fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string(),
    )?;
    let differ = Differ::new(&world)?;
    let printed = differ.run(&["-f", &file.display().to_string()])?.expect(1)?;
    let created = format!("created CustomResourceDefinition.apiextensions.k8s.io parts.{group}");
    ensure!(printed.out.matches(&created).count() == 1, "{}", printed.out);
    for name in ["a-part", "b-part"] {
        let part = format!("created Part.{group} diff-crds/{name} (as rendered, without defaults of the API server)");
        ensure_contains(&printed.out, &[&part])?;
    }
    world.absent("customresourcedefinition", [&format!("parts.{group}")])?;
    // `CreateReplace` changes a definition that exists.
    let mut live = crate::world::crd(&group, "Part");
    live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object"});
    world.serve(&live)?;
    world.write_watches_of(&[("Widget", &world.chart(), &["crds: CreateReplace"])])?;
    let printed = differ.run(&["-f", &file.display().to_string()])?.expect(1)?;
    ensure_contains(
        &printed.out,
        &[&format!(
            "changed CustomResourceDefinition.apiextensions.k8s.io parts.{group}"
        )],
    )?;
    ensure!(!printed.out.contains("as rendered"), "{}", printed.out);
    Ok(())
}

#[test]
fn the_deletion_of_a_release_is_announced() -> Result<()> {
    let world = World::new("diff-deletion")?;
    let operator = world.start()?;
    world.install("a", json!({"extra": ["one"], "kept": true}))?;
    operator.kill()?;
    world.begin_delete("a")?;
    let release = Differ::new(&world)?.release("a", &[], 1)?;
    ensure_announced(
        &release,
        &[
            "pruned ConfigMap a-main",
            "pruned ConfigMap a-one",
            "released ConfigMap a-kept",
        ],
    )?;
    world.expect("configmap", "a-main").map(drop)
}
