//! A hostile author has every right on custom resources of his own, and on Secrets and Leases that he makes beside them. He writes
//! any metadata, any status, any value and list of values, forges what the operator keeps, and creates and deletes as fast as he
//! can. The promises hold for all other owners: nothing that was there before him is written or deleted, releases that are ready stay
//! ready, an edit of theirs has its effect, their secrets and logs appear in no status and no Event, and when the author is
//! gone, nothing of his is left.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chartwright_core::record::secret::pack;
use data_encoding::BASE64;
use proptest::prelude::*;
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::histories::history::{self, ModelHistory, SECOND, in_virtual_time};
use crate::histories::place::ReleasePlace;
use crate::model::kinds::{KINDS, LEASE};
use crate::model::store::ObjectKey;
use crate::real_server::release::{claims_ready, spec};
use crate::report::{TortureReport, drawn, everything};
use crate::world::fields::{annotation, condition, uid};

/// The releases of other owners.
const OTHERS: [&str; 3] = ["a", "yard/a", "gadgets/shop/g"];
/// The author's.
const HIS: [&str; 2] = ["e", "e2"];
/// A finalizer of his.
const MINE: &str = "example.com/evil";
/// What others keep secret: in a member of `a`; in Secrets and logs of `bystanders.yaml`.
const SECRETS: [&str; 4] = [
    SECRET,
    "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5",
    "bogus-swan-lake",
    "Ym9ndXMtc3dhbi1sYWtl",
];
const SECRET: &str = "correct-horse-battery";
/// The custom resources of the Widgets' authors may name sources of values. The patches select objects that only he makes: the first
/// two would give them rights and another owner's name, the third doubles their content twelve times.
const WATCH_KEYS: &str = r#"  valuesFromField: spec.valuesFrom
  patches:
  - target: {kind: ConfigMap, name: e-role-*}
    patch:
      apiVersion: rbac.authorization.k8s.io/v1
      kind: Role
      data: null
      rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
  - target: {kind: ConfigMap, name: e-moved-*}
    patch: {metadata: {name: a-main, namespace: yard}}
  - target: {kind: ConfigMap, name: e-long-*}
    patch:
    - {op: copy, from: /data, path: /data/a}
    - {op: copy, from: /data, path: /data/b}
    - {op: copy, from: /data, path: /data/c}
    - {op: copy, from: /data, path: /data/d}
    - {op: copy, from: /data, path: /data/e}
    - {op: copy, from: /data, path: /data/f}
    - {op: copy, from: /data, path: /data/g}
    - {op: copy, from: /data, path: /data/h}
    - {op: copy, from: /data, path: /data/i}
    - {op: copy, from: /data, path: /data/j}
    - {op: copy, from: /data, path: /data/k}
    - {op: copy, from: /data, path: /data/l}
"#;
/// Namespaces in which others have something.
const NAMESPACES: [&str; 2] = ["shop", "yard"];

/// What he writes: `malice.yaml` says how.
static IDEAS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let lines = include_str!("../../fixtures/torture/malice.yaml").lines();
    lines.filter(|line| line.starts_with("- ")).collect()
});

/// The order in which he writes what an idea consists of.
const ORDER: [&str; 5] = ["secrets", "leases", "spec", "status", "metadata"];

/// One of his ideas about one of his custom resources: what he writes, and where.
fn idea(history: &ModelHistory, his: &str, number: usize) -> Result<Vec<(String, Value)>> {
    static REPEATED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<(.+?) \* (\d+)>").expect("a pattern"));
    static UIDS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\$uid\(([a-z]+)/([a-z]+)/([a-z0-9-]+)\)").expect("a pattern"));
    let mut a = history.widget("a").unwrap_or_default();
    let mut status = a["status"].take();
    status["observedGeneration"] = 1_000_000.into();
    let status = status.to_string();
    let yard = status.replace("\"namespace\":\"shop\"", "\"namespace\":\"yard\"");
    let set = a["metadata"]["labels"]["applyset.kubernetes.io/id"].as_str();
    let line = IDEAS[number]
        .replace("$UID", &uid(&a))
        .replace("$HIS", &uid(&history.widget(his).unwrap_or_default()))
        .replace("$SET", set.unwrap_or_default())
        .replace("$STATUS", &status)
        .replace("$YARD", &yard);
    let line = REPEATED.replace_all(&line, |found: &Captures| -> String {
        let count: usize = found[2].parse().unwrap_or_default();
        (0..count).map(|at| found[1].replace('#', &at.to_string())).collect()
    });
    let line = UIDS.replace_all(&line, |found: &Captures| {
        let kind = KINDS.iter().find(|kind| kind.plural == &found[1]).expect("a kind");
        let object = history.object(&(kind.plural, found[2].to_owned(), found[3].to_owned()));
        uid(&object.unwrap_or_default())
    });
    let [mut one]: [serde_json::Map<String, Value>; 1] = serde_yaml::from_str(&line)?;
    let parts = ORDER
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), one.remove(*field)?)));
    let parts: Vec<(String, Value)> = parts.collect();
    ensure!(one.is_empty() && !parts.is_empty(), "{line}");
    Ok(parts)
}

/// The data of a Secret that he forges.
fn forged(history: &ModelHistory, files: &Value) -> Result<Value> {
    if let Some(name) = files["copy"].as_str() {
        let secret = history.object(&("secrets", "shop".to_owned(), name.to_owned()));
        return Ok(secret.unwrap_or_default()["data"].take());
    }
    let file = |(name, content): (&String, &Value)| {
        let bytes = match content.get("pack") {
            Some(json) => pack(json.to_string().as_bytes()),
            None => content.as_str().unwrap_or_default().as_bytes().to_vec(),
        };
        (name.clone(), Value::from(BASE64.encode(&bytes)))
    };
    Ok(files.as_object().context("files")?.iter().map(file).collect())
}

/// He writes Secrets and Leases in the namespace of his custom resources.
async fn forge(history: &ModelHistory, field: &str, objects: &Value, made: &mut BTreeSet<ObjectKey>) -> Result<()> {
    for (name, content) in objects.as_object().context("objects by name")? {
        let (plural, path, object) = match field {
            "secrets" => {
                let object = json!({
                    "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": forged(history, content)?,
                });
                ("secrets", "/api/v1", object)
            }
            _ => {
                let object = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
                    "spec": {"holderIdentity": content},
                });
                (LEASE.plural, "/apis/coordination.k8s.io/v1", object)
            }
        };
        made.insert((plural, "shop".to_owned(), name.clone()));
        let path = format!("{path}/namespaces/shop/{plural}/{name}?force=true");
        ask(history, "APPLY", &path, object).await?;
    }
    Ok(())
}

/// The author excludes an object from reconciles, or sets a foreign controller on it, so that only he can delete
/// it then.
fn leaves_members(number: usize) -> bool {
    IDEAS[number].contains("chartwright.dev/suspend") || IDEAS[number].contains("name: e-fake, ownerReferences")
}

/// What an operator begins with, and doesn't follow later.
fn is_read_at_the_start(number: usize) -> bool {
    IDEAS[number].contains("status: ") || IDEAS[number].contains("secrets: ")
}

#[derive(Clone, Debug)]
enum HostileStep {
    /// He writes something on one of his.
    Idea(usize, usize),
    /// The same while no operator runs, so that the next one begins with it.
    Behind(usize, usize),
    Delete(usize),
    /// The number at the same time, and the milliseconds after which each is deleted.
    Burst(usize, u64),
    Restart(bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = HostileStep> {
    let his = 0..HIS.len();
    prop_oneof![
        12 => (his.clone(), 0..IDEAS.len()).prop_map(|(his, idea)| HostileStep::Idea(his, idea)),
        4 => (his.clone(), 0..IDEAS.len()).prop_map(|(his, idea)| HostileStep::Behind(his, idea)),
        2 => his.prop_map(HostileStep::Delete),
        1 => (1..30_usize, prop_oneof![Just(0), Just(20), Just(1_000)]).prop_map(|(count, after)| HostileStep::Burst(count, after)),
        2 => any::<bool>().prop_map(HostileStep::Restart),
        3 => prop_oneof![Just(0), Just(200), Just(5_000), Just(60_000)].prop_map(HostileStep::Wait),
    ]
}

fn innocent(color: &str) -> Value {
    let mut spec = spec(color, &["one", "two"], true);
    spec["secret"]["password"] = SECRET.into();
    spec["lookup"] = history::SOURCE.into();
    spec
}

/// The author sends a request; a refusal by the API server is no failure.
async fn ask(history: &ModelHistory, verb: &str, path: &str, body: Value) -> Result<()> {
    history.ask(verb, path, "evil", body).await.map(drop)
}

async fn create(history: &ModelHistory, name: &str, spec: Value) -> Result<()> {
    let place = ReleasePlace::of(name);
    let path = format!("{}?force=true", place.path());
    ask(history, "APPLY", &path, place.resource(json!({}), spec)).await
}

async fn delete(history: &ModelHistory, name: &str) -> Result<()> {
    ask(history, "DELETE", &ReleasePlace::of(name).path(), json!({})).await
}

/// `made`: the Secrets and Leases that he wrote by himself.
async fn act(history: &mut ModelHistory, step: &HostileStep, made: &mut BTreeSet<ObjectKey>) -> Result<()> {
    match step {
        HostileStep::Behind(his, number) => {
            history.halt().await?;
            // Written while the operator is away, and read by the next one before it writes anything.
            Box::pin(act(history, &HostileStep::Idea(*his, *number), made)).await?;
            history.resume()?;
        }
        HostileStep::Idea(his, number) => {
            let path = ReleasePlace::of(HIS[*his]).path();
            for (field, content) in idea(history, HIS[*his], *number)? {
                match field.as_str() {
                    "secrets" | "leases" => forge(history, &field, &content, made).await?,
                    "spec" => create(history, HIS[*his], content).await?,
                    "status" => ask(history, "MERGE", &format!("{path}/status"), json!({(field): content})).await?,
                    _ => ask(history, "MERGE", &path, json!({(field): content})).await?,
                }
            }
        }
        HostileStep::Delete(his) => delete(history, HIS[*his]).await?,
        HostileStep::Burst(count, after) => {
            for number in 0..*count {
                create(history, &format!("burst{number}"), json!({"extra": ["x", "y"]})).await?;
            }
            tokio::time::sleep(Duration::from_millis(*after)).await;
            for number in 0..*count {
                delete(history, &format!("burst{number}")).await?;
            }
        }
        HostileStep::Restart(killed) => history.restart(*killed).await?,
        HostileStep::Wait(milliseconds) => tokio::time::sleep(Duration::from_millis(*milliseconds)).await,
    }
    Ok(())
}

/// What there was before him, and what he made by himself since.
struct HostileScene {
    since: u64,
    there: BTreeSet<ObjectKey>,
    made: BTreeSet<ObjectKey>,
}

impl HostileScene {
    fn of(history: &ModelHistory) -> Self {
        let store = history.model.store();
        let is_of_others = |key: &&ObjectKey| key.0 != "events" && !ReleasePlace::PLURALS.contains(&key.0);
        HostileScene {
            since: store.version,
            there: store.objects.keys().filter(is_of_others).cloned().collect(),
            made: BTreeSet::new(),
        }
    }

    /// Nothing that was there is written or deleted, and nothing is made for him outside his namespace.
    fn allows(&self, key: &ObjectKey) -> Result<()> {
        let is_his_own = self.made.contains(key);
        ensure!(
            is_his_own || !self.there.contains(key),
            "{key:?} was there before him, and was written"
        );
        let is_in_reach = key.1 == "shop" && !key.0.contains("role") || key.0 == "events";
        ensure!(
            is_in_reach || ReleasePlace::PLURALS.contains(&key.0),
            "{key:?} was made for him"
        );
        Ok(())
    }
}

/// The others' custom resources and members since he came: nothing of theirs was written, no status of theirs reports a problem, and
/// nothing else was touched that he has no right to.
fn is_unharmed(history: &ModelHistory, scene: &HostileScene) -> Result<()> {
    let store = history.model.store();
    for change in store.changes.iter().filter(|change| change.version > scene.since) {
        scene.allows(&change.key)?;
        let (plural, namespace, name) = &change.key;
        for other in OTHERS.map(ReleasePlace::of) {
            let is_member =
                !ReleasePlace::PLURALS.contains(plural) && *plural != "events" && other.has(namespace, name);
            let after = &change.after;
            ensure!(!is_member, "{plural} {name} of {other} was written: {after:?}");
            if change.key == other.key() {
                let ready = condition(change.after.as_deref().unwrap_or(&Value::Null), "Ready");
                ensure!(ready["status"] == "True", "{other}: {ready}");
            }
        }
    }
    Ok(())
}

/// Statuses and Events quote no secret of others.
fn tells_no_secret(history: &ModelHistory) -> Result<()> {
    let store = history.model.store();
    for change in &store.changes {
        let Some(object) = change.after.as_deref() else {
            continue;
        };
        let written = match change.key.0 {
            "events" => object.to_string(),
            plural if ReleasePlace::PLURALS.contains(&plural) => object["status"].to_string(),
            _ => continue,
        };
        let secret = SECRETS.iter().find(|secret| written.contains(**secret));
        ensure!(secret.is_none(), "{:?} quotes {secret:?}: {written}", change.key);
    }
    Ok(())
}

/// How many things an operator may watch here: kinds by all namespaces there are.
const FEW_WATCHES: usize = 60;

fn watches_little(history: &ModelHistory) -> Result<()> {
    let log = history.faults().log();
    let watches = log.iter().filter(|entry| entry.call.is_watch());
    let watched: BTreeSet<&str> = watches.map(|entry| entry.call.path.as_str()).collect();
    ensure!(watched.len() <= FEW_WATCHES, "{} watches: {watched:?}", watched.len());
    Ok(())
}

async fn run(steps: &[HostileStep]) -> Result<()> {
    let mut history = ModelHistory::begin_with_keys(WATCH_KEYS).await?;
    history.model.store().deletions_take = Duration::from_millis(50);
    history.source("shop", Some("word")).await?;
    history.source("yard", Some("word")).await?;
    for other in OTHERS {
        history.edit(other, innocent("blue")).await?;
    }
    tokio::time::sleep(60 * SECOND).await;
    history.is_as_wanted().context("before he comes")?;
    bystanders(&history).await?;
    let mut scene = HostileScene::of(&history);
    let mut watched = Ok(());
    for step in steps {
        watched = watched.and(watches_little(&history));
        act(&mut history, step, &mut scene.made).await?;
    }
    tokio::time::sleep(30 * SECOND).await;
    is_unharmed(&history, &scene)?;
    watched.and(watches_little(&history))?;
    // He is still there.
    for other in OTHERS {
        history.edit(other, innocent("red")).await?;
    }
    let red = |history: &ModelHistory| OTHERS.iter().try_for_each(|other| is_red(history, other));
    let edited = history.until(60, red).await;
    edited.context("an edit has no effect while he is there")?;
    leaves(&mut history, steps, &scene).await?;
    tells_no_secret(&history)?;
    history.end().await.context("when he is gone")
}

/// Objects of no release, which others have in each of [`NAMESPACES`].
static BYSTANDERS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    serde_yaml::from_str(include_str!("../../fixtures/torture/bystanders.yaml")).expect("a list of objects")
});

fn is_at(object: &Value, key: &ObjectKey) -> bool {
    let kind = KINDS.iter().find(|kind| kind.plural == key.0);
    kind.is_some_and(|kind| object["kind"] == kind.kind) && object["metadata"]["name"] == key.2
}

async fn bystanders(history: &ModelHistory) -> Result<()> {
    for namespace in NAMESPACES {
        for object in BYSTANDERS.iter() {
            let kind = KINDS
                .iter()
                .find(|kind| object["kind"] == kind.kind)
                .context("a kind")?;
            let root = match kind.group {
                "" => "/api/v1".to_owned(),
                group => format!("/apis/{group}/{}", kind.version),
            };
            let path = format!("{root}/namespaces/{namespace}/{}", kind.plural);
            let (status, answer) = history.ask("POST", &path, "other", object.clone()).await?;
            ensure!(status == 201, "{answer}");
        }
    }
    Ok(())
}

fn is_red(history: &ModelHistory, other: &str) -> Result<()> {
    let place = ReleasePlace::of(other);
    let main = history.map(&format!("{}/{}-main", place.namespace, place.name));
    let main = main.unwrap_or_default();
    let widget = history.widget(other).unwrap_or_default();
    ensure!(main["data"]["color"] == "red", "{other}: {main}");
    ensure!(claims_ready(&widget), "{other}: {}", widget["status"]["conditions"]);
    Ok(())
}

/// He goes with all that is his. Where he took the operator's finalizer off, the garbage collector sees to it; what he
/// was excluded at his request is his own loss.
async fn leaves(history: &mut ModelHistory, steps: &[HostileStep], scene: &HostileScene) -> Result<()> {
    let his: Vec<String> = {
        let store = history.model.store();
        let keys = store
            .objects
            .keys()
            .filter(|key| ReleasePlace::PLURALS.contains(&key.0));
        let places = keys.map(|key| ReleasePlace::by_key(key).to_string());
        places
            .filter(|place| !OTHERS.iter().any(|other| ReleasePlace::of(other).to_string() == *place))
            .collect()
    };
    for place in &his {
        let path = ReleasePlace::of(place).path();
        let finalizers = history.widget(place).unwrap_or_default()["metadata"]["finalizers"].take();
        // There is nothing that a garbage collector would wait for.
        let is_his = |one: &&Value| **one == MINE || **one == "foregroundDeletion";
        let left = finalizers.as_array().into_iter().flatten().filter(|one| !is_his(one));
        let left: Vec<&Value> = left.collect();
        let metadata = json!({"annotations": {"chartwright.dev/suspend": null}, "finalizers": left});
        ask(history, "MERGE", &path, json!({"metadata": metadata})).await?;
        delete(history, place).await?;
    }
    let gone = |history: &ModelHistory| {
        let left = his.iter().find_map(|place| history.widget(place));
        ensure!(left.is_none(), "his custom resource never goes: {left:?}");
        Ok(())
    };
    history.until(600, gone).await?;
    let changes = history.model.store().changes.clone();
    for change in changes.iter().filter(|change| change.version > scene.since) {
        let is_of_nobody = BYSTANDERS.iter().any(|object| is_at(object, &change.key));
        ensure!(!is_of_nobody, "{:?} was written: {:?}", change.key, change.after);
    }
    for key in scene.made.iter().chain(
        scene
            .there
            .iter()
            .filter(|key| BYSTANDERS.iter().any(|object| is_at(object, key))),
    ) {
        history.model.store().remove(key.clone());
    }
    let loses = |step: &HostileStep| matches!(step, HostileStep::Idea(_, number) | HostileStep::Behind(_, number) if leaves_members(*number));
    if steps.iter().any(loses) {
        let widgets = OTHERS.iter().filter_map(|other| history.widget(other));
        let theirs: Vec<String> = widgets.map(|widget| uid(&widget)).collect();
        for (key, object) in history.live() {
            let tracking = annotation(&object, crate::world::fields::TRACKING).unwrap_or_default();
            // One UID may begin as another.
            let owner = tracking.split(':').next().unwrap_or_default();
            if !theirs.iter().any(|uid| uid == owner) {
                history.model.store().remove(key);
            }
        }
    }
    Ok(())
}

#[test]
fn a_hostile_author_harms_no_other_owner() -> Result<()> {
    let cases = if everything() { 200 } else { 12 };
    let steps = proptest::collection::vec(step(), 1..20);
    drawn("hostile", cases, None, &steps, async |steps| run(steps).await)
}

/// Each of his ideas, right after one restart and before another: with `make torture` alone, else some at a time.
#[test]
fn no_single_attack_harms_another_owner() -> Result<()> {
    let mut report = TortureReport::new("hostile-ideas");
    let ideas: Vec<usize> = (0..IDEAS.len()).collect();
    for ideas in ideas.chunks(if everything() { 1 } else { 6 }) {
        let each = || {
            ideas
                .iter()
                .flat_map(|idea| [HostileStep::Idea(0, *idea), HostileStep::Wait(1_000)])
        };
        let mut steps = vec![HostileStep::Idea(0, 0), HostileStep::Wait(5_000)];
        steps.extend(each());
        steps.extend([HostileStep::Restart(true), HostileStep::Wait(5_000)]);
        let again = |idea: &usize| {
            if is_read_at_the_start(*idea) {
                HostileStep::Behind(0, *idea)
            } else {
                HostileStep::Idea(0, *idea)
            }
        };
        steps.extend(ideas.iter().flat_map(|idea| [again(idea), HostileStep::Wait(1_000)]));
        steps.extend([HostileStep::Wait(5_000), HostileStep::Delete(0), HostileStep::Wait(200)]);
        report.case(ideas, in_virtual_time(run(&steps)));
    }
    report.end("")
}
