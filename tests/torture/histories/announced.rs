//! Promise P13: what a preview announces is what the next reconciles do. Random edits, drift, other charts and looked-up objects; before
//! each, a preview on the same model, which it must not change.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use chartwright_core::annotations::HOOK_RUN;
use chartwright_core::diff::ReleaseDiff;
use chartwright_core::identity::GroupKind;
use chartwright_operator::cluster::Discovery;
use chartwright_operator::cluster::storage::keys;
use chartwright_operator::reconcile::Unit;
use chartwright_preview::{PreviewCluster, check_edit, merge, preview};
use helm_template::chart::stamp::load_stable;
use helm_template::render::Engine;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::histories::history::{MEMBERS, ModelHistory, NAMESPACE, SECOND, SOURCE};
use crate::histories::place::ReleasePlace;
use crate::model::new_model;
use crate::report::{drawn, everything};
use crate::world::fields::{is_marked, text, uid};

const RELEASE: &str = "a";
/// Within this time the operator has finished, prunes that wait for a lookup included.
const SETTLED: u64 = 200;
const KEYS: [&str; 6] = [
    "",
    "",
    "  drift: warn\n",
    "  releaseName: 'x-{{ .metadata.name }}'\n",
    "  rollout: {maxInFlight: 1, maxFailed: 1}\n",
    "  ignoreDifferences: [{kind: ConfigMap, jsonPointers: [/data/mine], managers: [hand]}]\n",
];

/// What happens next.
#[derive(Clone, Debug)]
enum AnnouncedStep {
    Edit(Value),
    /// While no operator runs: a member and what becomes of it.
    ByHand(usize, usize),
    /// While no operator runs, a looked-up object changes.
    Source(Option<&'static str>),
    /// While no operator runs, the chart changes.
    OtherChart,
}

fn spec() -> impl Strategy<Value = Value> {
    let extras = proptest::sample::subsequence(vec!["one", "two", "three"], 0..=3);
    let color = proptest::sample::select(vec!["blue", "red"]);
    let hooks = proptest::sample::select(vec!["", "", "ends"]);
    let flags = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        proptest::bool::weighted(0.1),
    );
    (color, extras, hooks, flags).prop_map(|(color, extra, hooks, (secret, class, lookup, part, fail))| {
        json!({
            "color": color, "extra": extra, "secret": {"enabled": secret, "password": color},
            "priorityClass": {"enabled": class}, "fail": if fail { "on purpose" } else { "" },
            "lookup": if lookup { SOURCE } else { "" }, "part": part, "hooks": hooks, "plan": false,
        })
    })
}

fn step() -> impl Strategy<Value = AnnouncedStep> {
    let word = proptest::sample::select(vec![None, Some("first"), Some("second")]);
    prop_oneof![
        6 => spec().prop_map(AnnouncedStep::Edit),
        2 => (0..4_usize, 0..5_usize).prop_map(|(member, what)| AnnouncedStep::ByHand(member, what)),
        1 => word.prop_map(AnnouncedStep::Source),
        1 => Just(AnnouncedStep::OtherChart),
    ]
}

/// The unit of the release, with the present chart.
async fn unit(history: &ModelHistory, discovery: &Discovery) -> Result<Arc<Unit>> {
    let watch = history.watches()?.into_iter().next().context("no watch")?;
    let group_kind = GroupKind::new(watch.group.as_str(), watch.kind.as_str());
    let resource = discovery.snapshot().resource(&group_kind, &watch.version).cloned();
    let (chart, stamp) = load_stable(&watch.chart);
    let engine = Engine::for_releases(chart?).map_err(|error| anyhow::anyhow!("{error}"))?;
    let resource = resource.context("its kind is not served")?;
    Ok(Arc::new(Unit::alone(
        watch,
        group_kind,
        resource,
        Arc::new(engine),
        stamp,
    )))
}

/// What would be done for the release, with another spec.
async fn announce(history: &ModelHistory, spec: Option<&Value>) -> Result<ReleaseDiff> {
    let before = history.model.store().version;
    let client = history.model.client(NAMESPACE);
    let discovery = Discovery::new(client.clone()).await?;
    let unit = unit(history, &discovery).await?;
    let live = history.widget(RELEASE);
    let file = spec.map(|spec| ReleasePlace::of(RELEASE).resource(json!({}), spec.clone()));
    let mut wanted = match (&live, &file) {
        (live, Some(file)) => merge(live.as_ref(), file),
        (Some(live), None) => live.clone(),
        (None, None) => anyhow::bail!("there is no custom resource"),
    };
    wanted["metadata"]["namespace"] = NAMESPACE.into();
    let edited = check_edit(&client, &unit.resource, live.as_ref(), wanted).await?;
    let keys = keys::load(client.clone(), NAMESPACE, "torture")
        .await?
        .context("no key")?;
    let cluster = PreviewCluster {
        client,
        discovery,
        keys,
        operator: "torture".into(),
        own_namespace: NAMESPACE.into(),
        render: None,
        quick: None,
    };
    let diff = preview(&cluster, &unit, live.as_ref(), edited.object).await?;
    ensure!(history.model.store().version == before, "the preview wrote something");
    Ok(diff)
}

/// The announced operations on members, and the hooks.
fn announced(diff: &ReleaseDiff) -> BTreeSet<String> {
    let changes = diff.changes.iter().map(|change| {
        let id = &change.object;
        format!(
            "{} {} {}/{}",
            change.operation.as_str(),
            id.group_kind.kind,
            id.namespace,
            id.name
        )
    });
    let hooks = diff.hooks.iter().flat_map(|run| &run.objects);
    changes
        .chain(hooks.map(|id| format!("hook {} {}/{}", id.group_kind.kind, id.namespace, id.name)))
        .collect()
}

/// What was done since a change.
fn done(history: &ModelHistory, since: usize) -> BTreeSet<String> {
    let store = history.model.store();
    let changes = store.changes.get(since..).unwrap_or_default();
    let mut found = BTreeSet::new();
    let mut keys = BTreeSet::new();
    for change in changes {
        let object = change.after.as_ref().or(change.before.as_ref());
        let Some(object) = object else { continue };
        let (_, namespace, name) = &change.key;
        let run = |object: &Option<Arc<Value>>| {
            let object = object.as_deref()?;
            object["metadata"]["annotations"][HOOK_RUN].as_str().map(str::to_owned)
        };
        if run(&change.before).is_some() || run(&change.after).is_some() {
            if run(&change.after).is_some() && run(&change.after) != run(&change.before) {
                found.insert(format!("hook {} {namespace}/{name}", text(&object["kind"])));
            }
            continue;
        }
        let was_member = [&change.before, &change.after]
            .into_iter()
            .flatten()
            .any(|object| is_marked(object));
        if was_member && MEMBERS.iter().any(|plural| change.key.0.starts_with(plural)) {
            keys.insert(change.key.clone());
        }
    }
    for key in keys {
        let own = || changes.iter().filter(|change| change.key == key);
        let before = own().next().and_then(|change| change.before.clone());
        let after = own().next_back().and_then(|change| change.after.clone());
        let what = match (&before, &after) {
            (None, None) => continue,
            (None, Some(_)) => "created",
            (Some(_), None) => "pruned",
            (Some(before), Some(after)) if uid(before) != uid(after) => "recreated",
            (Some(before), Some(after)) if content(before) == content(after) => continue,
            (Some(before), Some(after)) if is_marked(before) && !is_marked(after) => "released",
            (Some(_), Some(_)) => "changed",
        };
        let object = after.or(before).unwrap_or_default();
        found.insert(format!("{what} {} {}/{}", text(&object["kind"]), key.1, key.2));
    }
    found
}

fn content(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["managedFields", "resourceVersion", "generation"] {
        object["metadata"][field] = Value::Null;
    }
    object
}

/// Carries out a step, and compares what was announced with what was done.
async fn check_step(history: &mut ModelHistory, step: &AnnouncedStep) -> Result<()> {
    tokio::time::sleep(SETTLED as u32 * SECOND).await;
    let is_halted = !matches!(step, AnnouncedStep::Edit(_));
    if is_halted {
        if history.widget(RELEASE).is_none() {
            return Ok(());
        }
        history.halt().await?;
    }
    match step {
        AnnouncedStep::Edit(_) => {}
        AnnouncedStep::ByHand(member, what) => {
            let member = ["main", "one", "two", "three"][*member];
            history.by_hand(&format!("{RELEASE}-{member}"), *what).await?;
        }
        AnnouncedStep::Source(word) => history.source(NAMESPACE, *word).await?,
        AnnouncedStep::OtherChart => history.chart = 1 - history.chart,
    }
    let spec = match step {
        AnnouncedStep::Edit(spec) => Some(spec),
        _ => None,
    };
    let diff = announce(history, spec).await?;
    let since = history.model.store().changes.len();
    if is_halted {
        history.resume()?;
    }
    if let Some(spec) = spec {
        history.edit(RELEASE, spec.clone()).await?;
    }
    tokio::time::sleep(SETTLED as u32 * SECOND).await;
    let (announced, done) = (announced(&diff), done(history, since));
    ensure!(announced == done, "announced {announced:#?}, done {done:#?}: {diff:#?}");
    // Then nothing is left to do.
    let rest = announce(history, None).await?;
    ensure!(rest.changes.is_empty(), "afterwards: {rest:#?}");
    Ok(())
}

async fn run(keys: &'static str, steps: &[AnnouncedStep]) -> Result<()> {
    let mut history = ModelHistory::begin_on_with_keys(new_model(), keys).await?;
    for (number, step) in steps.iter().enumerate() {
        check_step(&mut history, step)
            .await
            .with_context(|| format!("step {number}: {step:?}"))?;
    }
    history.close().await
}

#[test]
fn what_is_announced_is_what_the_next_reconciles_do() -> Result<()> {
    let cases = if everything() { 500 } else { 15 };
    let keys = proptest::sample::select(KEYS.to_vec());
    let steps = proptest::collection::vec(step(), 1..8);
    let run = async |(keys, steps): &(&'static str, Vec<AnnouncedStep>)| run(keys, steps).await;
    drawn("announced", cases, None, &(keys, steps), run)
}
