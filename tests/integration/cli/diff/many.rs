//! Many releases, and that the next reconcile does what was announced.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{Differ, announced};
use crate::world::World;
use crate::world::fields::ensure_contains;

#[test]
fn many_releases_are_selected_by_namespace_and_label() -> Result<()> {
    let world = World::new("diff-many")?;
    let _operator = world.start()?;
    let names: Vec<String> = (0..12).map(|number| format!("r{number}")).collect();
    world.install_all(&names, |_| json!({}))?;
    world.run(["label", &world.widgets(), "r3", "team=one"])?;
    let differ = Differ::new(&world)?;
    let kind = world.resource("widget");
    let printed = differ.run(&[&kind, "--all", "-A"])?.expect(0)?;
    ensure!(printed.out == "12 releases: 12 unchanged\n", "{}", printed.out);
    let printed = differ
        .run(&[&kind, "--all", "-l", "team=one", "--set", "color=red"])?
        .expect(1)?;
    ensure_contains(&printed.out, &["diff-many/r3-main", "1 release: 1 changed"])?;
    let printed = differ.run(&["--all", "-n", "default"])?.expect(0)?;
    ensure!(printed.out == "no release is selected\n", "{}", printed.out);
    ensure_contains(&printed.err, &["No release is selected in the namespace default. -A"])?;
    // Colors only on request: standard output is no terminal here.
    let printed = differ.run(&[&kind, "r1", "--set", "color=red"])?.expect(1)?;
    ensure!(!printed.out.contains('\u{1b}'), "{}", printed.out);
    let printed = differ
        .run(&[&kind, "r1", "--set", "color=red", "--color", "always"])?
        .expect(1)?;
    ensure!(
        printed.out.contains("\u{1b}[32m+  color: red\u{1b}[0m"),
        "{}",
        printed.out
    );
    Ok(())
}

/// A random spec of the tests' chart.
fn spec() -> impl Strategy<Value = Value> {
    let extras = proptest::sample::subsequence(vec!["one", "two", "three"], 0..=3);
    let color = proptest::sample::select(vec!["blue", "red", "green"]);
    (color, extras, any::<bool>(), any::<bool>(), 0..3_u8).prop_map(|(color, extra, secret, kept, replicas)| {
        json!({
            "color": color, "extra": extra, "kept": kept, "secret": {"enabled": secret, "password": format!("{color}-password")},
            "deployment": {"enabled": replicas > 0, "replicas": replicas},
        })
    })
}

/// The members in the namespace, by kind and name, with UID and resource version.
fn members(world: &World) -> Result<Vec<(String, Value)>> {
    let found = world.list("configmaps,secrets,deployments", "")?;
    let is_member = |object: &Value| {
        object["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name == "a" || name.starts_with("a-"))
    };
    let key = |object: Value| {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            format!("{} {}", word(&object["kind"]), word(&object["metadata"]["name"])),
            object,
        )
    };
    Ok(found.into_iter().filter(is_member).map(key).collect())
}

/// Promise P13 on a real API server: what is announced is what the next reconcile does.
#[test]
fn the_next_reconcile_writes_what_was_announced() -> Result<()> {
    let world = World::new("diff-promise")?.granted("", "secrets")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    let differ = Differ::new(&world)?;
    let mut runner = TestRunner::deterministic();
    for _ in 0..8 {
        let spec = spec().new_tree(&mut runner).map_err(anyhow::Error::msg)?.current();
        let file = world.dir.path().join("cr.json");
        std::fs::write(&file, world.widget("a", spec.clone()).to_string())?;
        world.await_quiet(&operator)?;
        let before = members(&world)?;
        let printed = differ.run(&["-f", &file.display().to_string(), "-o", "json"])?;
        ensure!(printed.code < 2, "{}{}", printed.out, printed.err);
        let found: Value = serde_json::from_str(&printed.out)?;
        let expected: BTreeSet<String> = announced(&found["releases"][0]).into_iter().collect();
        world.apply_widget("a", spec.clone())?;
        world.await_ready("a")?;
        world.await_quiet(&operator)?;
        let after = members(&world)?;
        ensure!(
            changes(&before, &after) == expected,
            "{spec}: announced {expected:?}, done {:?}",
            changes(&before, &after)
        );
        // Nothing is left to do.
        differ
            .run(&["-f", &file.display().to_string()])?
            .expect(0)
            .context("afterwards")?;
    }
    Ok(())
}

/// What has happened to the members, in the words of an announcement.
fn changes(before: &[(String, Value)], after: &[(String, Value)]) -> BTreeSet<String> {
    let content = |object: &Value| {
        let mut object = object.clone();
        // Controllers write these.
        object["status"] = Value::Null;
        for field in ["resourceVersion", "managedFields", "generation"] {
            object["metadata"][field] = Value::Null;
        }
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove("deployment.kubernetes.io/revision");
        }
        object
    };
    let is_member = |object: &Value| object["metadata"]["labels"]["applyset.kubernetes.io/part-of"].is_string();
    let mut found = BTreeSet::new();
    for (key, object) in before {
        match after.iter().find(|(other, _)| other == key) {
            None => drop(found.insert(format!("pruned {key}"))),
            Some((_, now)) if now["metadata"]["uid"] != object["metadata"]["uid"] => {
                found.insert(format!("recreated {key}"));
            }
            Some((_, now)) if content(now) == content(object) => {}
            Some((_, now)) if is_member(object) && !is_member(now) => drop(found.insert(format!("released {key}"))),
            Some(_) => drop(found.insert(format!("changed {key}"))),
        }
    }
    let created = after
        .iter()
        .filter(|(key, _)| !before.iter().any(|(other, _)| other == key));
    found.extend(created.map(|(key, _)| format!("created {key}")));
    found
}
