//! Which kinds are watched, and for which release: annotations begin no watch, watches without a user end, and what
//! one release can't see delays no other.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::until;
use crate::world::operator::{Launch, METERED};
use crate::world::{PROMPT, SOON, World, member_rule};

const KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";

fn quota() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "{{ .Release.Name }}-quota"},
        "spec": {"hard": {"pods": "100"}},
    })
}

#[test]
fn kinds_named_only_in_annotations_are_not_watched() -> Result<()> {
    let world = World::new("forged")?;
    let kinds = "ReplicaSet.apps,DaemonSet.apps,StatefulSet.apps,CronJob.batch,Job.batch,LimitRange";
    let rules = kinds.split(',').map(|kind| {
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        member_rule(group, &format!("{}s", kind.to_lowercase()))
    });
    world.grant("all", &rules.collect::<Vec<_>>())?;
    let operator = world.launch(&METERED)?;
    world.install("a", json!({"extra": ["one"]}))?;
    let watches = operator.metric("chartwright_watches")?;
    let mut forged = world.widget("b", json!({}));
    forged["metadata"]["annotations"] = json!({(KINDS): kinds, (NAMESPACES): "default,kube-system"});
    world.apply(&forged)?;
    world.await_ready("b")?;
    std::thread::sleep(Duration::from_secs(1));
    ensure!(operator.metric("chartwright_watches")? == watches);
    let widget = world.live("b")?;
    let named = &widget["metadata"]["annotations"][KINDS];
    ensure!(!named.to_string().contains("CronJob"), "{named}");

    // Nor by a start.
    ensure!(operator.terminate()?.success());
    world.annotate("a", json!({(KINDS): kinds}))?;
    let operator = world.launch(&METERED)?;
    operator.await_log("\"reconciled\"")?;
    world.await_quiet(&operator)?;
    ensure!(operator.metric("chartwright_watches")? == watches);
    Ok(())
}

#[test]
fn an_unused_watch_ends() -> Result<()> {
    let world = World::new("unneeded")?.granted("", "resourcequotas")?;
    let launch = Launch::with(&[("CHARTWRIGHT_TEST_UNNEEDED_MS", "500")]);
    let operator = world.launch(&launch.metered())?;
    world.install("a", json!({}))?;
    let watches = || operator.metric("chartwright_watches");
    // Watches of the start that no release needs have ended by then.
    std::thread::sleep(Duration::from_secs(5));
    let before = watches()?;
    world.install("b", json!({"extraDeploy": [quota()]}))?;
    let ended = |what: &str, expected: f64| until(what, SOON, || Ok(watches()? == expected));
    ended("quotas are watched", before + 1.0)?;
    world.update("b", json!({"extraDeploy": []}))?;
    ended("no release has a quota", before)?;
    world.update("b", json!({"extraDeploy": [quota()]}))?;
    ended("it is watched again", before + 1.0)?;
    world.kubectl.delete("resourcequota", "b-quota")?;
    world.await_there("resourcequota", "b-quota")?;
    world.delete("b")?;
    ended("the release is gone", before)
}

#[test]
fn members_named_in_annotations_and_proven_by_labels_are_found() -> Result<()> {
    let world = World::new("forged-not")?.granted("", "resourcequotas")?;
    let operator = world.start()?;
    world.install("a", json!({"extraDeploy": [quota()]}))?;
    ensure!(operator.terminate()?.success());
    // As if the operator had died after the apply and before the status: the annotation and the label are all there is.
    let nothing = json!({"status": {"inventory": null, "release": null, "observedGeneration": -1}});
    world.patch_status("a", &nothing)?;
    world.edit("a", json!({"extraDeploy": []}))?;
    let _operator = world.start()?;
    world.await_gone("resourcequota", "a-quota")?;
    world.await_ready("a").map(drop)
}

#[test]
fn a_missing_right_of_one_release_delays_no_other() -> Result<()> {
    let world = World::new("needs-right")?.granted("", "resourcequotas")?;
    let operator = world.start()?;
    world.install("a", json!({"color": "green"}))?;
    world.install("b", json!({"extraDeploy": [quota()]}))?;
    ensure!(operator.terminate()?.success());
    world.revoke("resourcequotas")?;
    world.edit("a", json!({"color": "red"}))?;
    let begun = Instant::now();
    let _operator = world.start()?;
    world.await_color("a-main", "red")?;
    ensure!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    Ok(())
}
