//! A hostile author: somebody with every right on custom resources of his own, and none beyond. He writes any metadata,
//! any status and any value, and creates and deletes as fast as he can. The promises hold for everybody else: releases that
//! are well stay as they are, to the version of every member; who edits one meanwhile gets what he asks for; what they keep
//! secret is told nowhere; and when the author is gone, nothing of his is left.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::history::{self, History, SECOND};
use crate::look::{condition, uid};
use crate::malice::{self, MINE};
use crate::place::Place;
use crate::report::{Report, everything};
use crate::sample::seed;

/// Everybody else's releases.
const OTHERS: [&str; 3] = ["a", "yard/a", "gadgets/shop/g"];
/// The author's.
const HIS: [&str; 2] = ["e", "e2"];
/// What `a` keeps secret.
const SECRET: &str = "correct-horse-battery";

#[derive(Clone, Debug)]
enum Step {
    /// He writes a spec, metadata or a status on one of his.
    Spec(usize, usize),
    Metadata(usize, usize),
    Status(usize, usize),
    Delete(usize),
    /// So many at once, each deleted so many milliseconds later.
    Burst(usize, u64),
    Restart(bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let his = 0..HIS.len();
    prop_oneof![
        4 => (his.clone(), 0..malice::SPECS).prop_map(|(his, spec)| Step::Spec(his, spec)),
        4 => (his.clone(), 0..malice::METADATA).prop_map(|(his, what)| Step::Metadata(his, what)),
        4 => (his.clone(), 0..malice::STATUSES).prop_map(|(his, what)| Step::Status(his, what)),
        2 => his.prop_map(Step::Delete),
        1 => (1..30_usize, prop_oneof![Just(0), Just(20), Just(1_000)]).prop_map(|(count, after)| Step::Burst(count, after)),
        2 => any::<bool>().prop_map(Step::Restart),
        3 => prop_oneof![Just(0), Just(200), Just(5_000), Just(60_000)].prop_map(Step::Wait),
    ]
}

fn innocent(color: &str) -> Value {
    json!({
        "color": color, "extra": ["one", "two"], "secret": {"enabled": true, "password": SECRET},
        "priorityClass": {"enabled": true}, "fail": "", "lookup": history::SOURCE,
    })
}

/// The author asks for something; what the API server refuses is no failure.
async fn ask(history: &History, method: Method, path: &str, content: &str, body: Value) -> Result<()> {
    history.ask(method, path, "evil", content, body).await.map(drop)
}

async fn create(history: &History, name: &str, spec: Value) -> Result<()> {
    let place = Place::of(name);
    let widget = json!({
        "apiVersion": "torture.test/v1", "kind": "Widget", "metadata": {"name": place.name}, "spec": spec,
    });
    let path = format!("{}?force=true", place.path());
    ask(history, Method::PATCH, &path, "application/apply-patch+yaml", widget).await
}

async fn delete(history: &History, name: &str) -> Result<()> {
    let path = Place::of(name).path();
    ask(history, Method::DELETE, &path, "application/json", json!({})).await
}

const MERGE: &str = "application/merge-patch+json";

async fn act(history: &mut History, step: &Step) -> Result<()> {
    match step {
        Step::Spec(his, spec) => create(history, HIS[*his], malice::spec(history, *spec)).await,
        Step::Metadata(his, what) => {
            let path = Place::of(HIS[*his]).path();
            let patch = json!({"metadata": malice::metadata(history, *what)});
            ask(history, Method::PATCH, &path, MERGE, patch).await
        }
        Step::Status(his, what) => {
            let path = format!("{}/status", Place::of(HIS[*his]).path());
            let patch = json!({"status": malice::status(history, *what)});
            ask(history, Method::PATCH, &path, MERGE, patch).await
        }
        Step::Delete(his) => delete(history, HIS[*his]).await,
        Step::Burst(count, after) => {
            for number in 0..*count {
                create(history, &format!("burst{number}"), json!({"extra": ["x", "y"]})).await?;
            }
            tokio::time::sleep(Duration::from_millis(*after)).await;
            for number in 0..*count {
                delete(history, &format!("burst{number}")).await?;
            }
            Ok(())
        }
        Step::Restart(killed) => history.restart(*killed).await,
        Step::Wait(milliseconds) => {
            tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
            Ok(())
        }
    }
}

/// The others' custom resources and members since a version: nothing of theirs was written, nor were they told to be
/// unwell.
fn is_unharmed(history: &History, since: u64) -> Result<()> {
    let store = history.model.store();
    for change in store.changes.iter().filter(|change| change.version > since) {
        let (plural, namespace, name) = &change.key;
        for other in OTHERS.map(Place::of) {
            let is_member = !Place::PLURALS.contains(plural) && *plural != "events" && other.has(namespace, name);
            ensure!(
                !is_member,
                "{plural} {namespace}/{name} of {other} was written: {:?}",
                change.after
            );
            if change.key == other.key() {
                let ready = change.after.as_deref().and_then(|widget| condition(widget, "Ready"));
                let ready = ready.unwrap_or_default();
                ensure!(ready["status"] == "True", "{other}: {ready}");
            }
        }
    }
    Ok(())
}

/// What the operator tells anybody: statuses and Events.
fn tells_no_secret(history: &History) -> Result<()> {
    let store = history.model.store();
    for change in &store.changes {
        let Some(object) = change.after.as_deref() else {
            continue;
        };
        let told = match change.key.0 {
            "events" => object.to_string(),
            plural if Place::PLURALS.contains(&plural) => object["status"].to_string(),
            _ => continue,
        };
        ensure!(!told.contains(SECRET), "{:?} tells a secret: {told}", change.key);
    }
    Ok(())
}

/// How many things an operator may watch here: kinds by all namespaces there are.
const FEW_WATCHES: usize = 60;

fn watches_little(history: &History) -> Result<()> {
    let log = history.faults().map(|faults| faults.log()).unwrap_or_default();
    let watched: std::collections::BTreeSet<String> = log
        .iter()
        .filter(|entry| entry.call.is_watch())
        .map(|entry| entry.call.path.clone())
        .collect();
    ensure!(watched.len() <= FEW_WATCHES, "{} watches: {watched:?}", watched.len());
    Ok(())
}

async fn run(steps: &[Step]) -> Result<()> {
    let mut history = History::begin().await?;
    history.model.store().deletions_take = Duration::from_millis(50);
    history.source("shop", Some("word")).await?;
    history.source("yard", Some("word")).await?;
    for other in OTHERS {
        history.edit(other, innocent("blue")).await?;
    }
    tokio::time::sleep(60 * SECOND).await;
    history.is_as_wanted().context("before he comes")?;
    let since = history.model.store().version();
    let mut watched = Ok(());
    for step in steps {
        watched = watched.and(watches_little(&history));
        act(&mut history, step).await?;
    }
    tokio::time::sleep(30 * SECOND).await;
    is_unharmed(&history, since)?;
    watched.and(watches_little(&history))?;
    // He is still there.
    for other in OTHERS {
        history.edit(other, innocent("red")).await?;
    }
    let mut last = Ok(());
    for _ in 0..30 {
        tokio::time::sleep(2 * SECOND).await;
        last = OTHERS.iter().try_for_each(|other| is_red(&history, other));
        if last.is_ok() {
            break;
        }
    }
    last.context("an edit has no effect while he is there")?;
    leaves(&mut history, steps).await?;
    tells_no_secret(&history)?;
    history.end().await.context("when he is gone")
}

fn is_red(history: &History, other: &str) -> Result<()> {
    let place = Place::of(other);
    let main = history
        .map(&format!("{}/{}-main", place.namespace, place.name))
        .unwrap_or_default();
    let widget = history.widget(other).unwrap_or_default();
    let ready = condition(&widget, "Ready").unwrap_or_default();
    let is_ready = ready["status"] == "True" && ready["observedGeneration"] == widget["metadata"]["generation"];
    ensure!(main["data"]["color"] == "red" && is_ready, "{other}: {main} {ready}");
    Ok(())
}

/// He goes with all that is his. Where he took the operator's finalizer off, the garbage collector sees to it; what he
/// asked to be left alone is his own loss.
async fn leaves(history: &mut History, steps: &[Step]) -> Result<()> {
    let his: Vec<String> = {
        let store = history.model.store();
        let keys = store.objects.keys().filter(|key| Place::PLURALS.contains(&key.0));
        let places = keys.map(|key| Place::by_key(key).to_string());
        places
            .filter(|place| !OTHERS.iter().any(|other| Place::of(other).to_string() == *place))
            .collect()
    };
    for place in &his {
        let path = Place::of(place).path();
        let metadata = json!({"annotations": {"chartwright.dev/suspend": null}});
        ask(history, Method::PATCH, &path, MERGE, json!({"metadata": metadata})).await?;
        let finalizers = history.widget(place).unwrap_or_default()["metadata"]["finalizers"].take();
        // There is nothing that a garbage collector would wait for.
        let is_his = |one: &&Value| **one == MINE || **one == "foregroundDeletion";
        let left = finalizers.as_array().into_iter().flatten().filter(|one| !is_his(one));
        let left: Vec<&Value> = left.collect();
        ask(
            history,
            Method::PATCH,
            &path,
            MERGE,
            json!({"metadata": {"finalizers": left}}),
        )
        .await?;
        delete(history, place).await?;
    }
    let mut left = Vec::new();
    for _ in 0..120 {
        tokio::time::sleep(5 * SECOND).await;
        left = his.iter().filter_map(|place| history.widget(place)).collect();
        if left.is_empty() {
            break;
        }
    }
    ensure!(left.is_empty(), "his custom resources never go: {left:?}");
    let loses = |step: &Step| match step {
        Step::Metadata(_, what) => malice::leaves_members(*what),
        Step::Spec(_, what) => malice::gives_members_away(*what),
        _ => false,
    };
    if steps.iter().any(loses) {
        let theirs: Vec<String> = OTHERS
            .iter()
            .filter_map(|other| history.widget(other))
            .map(|one| uid(&one))
            .collect();
        for (id, object) in history.live() {
            let tracking = object["metadata"]["annotations"][crate::look::TRACKING]
                .as_str()
                .unwrap_or_default();
            // One UID may begin as another.
            let owner = tracking.split(':').next().unwrap_or_default();
            if !theirs.iter().any(|uid| uid == owner) {
                history.sweep(&id);
            }
        }
    }
    Ok(())
}

#[test]
fn a_hostile_author_harms_nobody_else() {
    let cases = if everything() { 200 } else { 12 };
    let report = std::cell::RefCell::new(Report::new("hostile"));
    let config = Config {
        cases,
        max_shrink_iters: 200,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(seed()),
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&proptest::collection::vec(step(), 1..20), |steps| {
        report.borrow_mut().case();
        history::in_virtual_time(run(&steps)).map_err(|error| TestCaseError::fail(format!("{error:#}")))
    });
    if let Err(error) = outcome {
        panic!("seed {}: {error}", seed());
    }
    report.into_inner().end(&format!("seed {}", seed()));
}

/// Each of his ideas, right after one restart and before another: with `make torture` alone, else some at a time.
#[test]
fn no_single_idea_of_a_hostile_author_harms_anybody_else() -> Result<()> {
    let mut report = Report::new("hostile-ideas");
    let mut failures = Vec::new();
    let specs = (0..malice::SPECS).map(|what| Step::Spec(0, what));
    let metadata = (0..malice::METADATA).map(|what| Step::Metadata(0, what));
    let statuses = (0..malice::STATUSES).map(|what| Step::Status(0, what));
    let ideas: Vec<Step> = specs.chain(metadata).chain(statuses).collect();
    for ideas in ideas.chunks(if everything() { 1 } else { 6 }) {
        let mut steps = vec![Step::Spec(0, 0), Step::Wait(5_000)];
        steps.extend(ideas.iter().flat_map(|idea| [idea.clone(), Step::Wait(1_000)]));
        steps.extend([Step::Restart(true), Step::Wait(5_000)]);
        steps.extend(ideas.iter().flat_map(|idea| [idea.clone(), Step::Wait(1_000)]));
        steps.extend([Step::Wait(5_000), Step::Delete(0), Step::Wait(200)]);
        report.case();
        if let Err(error) = history::in_virtual_time(run(&steps)) {
            failures.push(format!("{ideas:?}: {error:#}"));
        }
    }
    report.end_but_for(&failures, "")
}
