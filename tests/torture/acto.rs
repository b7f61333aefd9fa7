//! Every property of a chart's values, as Acto (Gu et al., SOSP 2023) does it: set to something else, to nothing, to the
//! bounds and to what it can't be, and then back. The way doesn't matter: what comes of an edit is what comes of the same
//! spec from the beginning. And back is back: all that was there is there again, and what needed no change had none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use crate::history::{History, NAMESPACE, SECOND, in_virtual_time};
use crate::look::{condition, is_marked, uid};
use crate::model::Model;
use crate::model::fields::leaves;
use crate::model::store::{KINDS, Key};
use crate::report::{Report, everything};

const CHARTS: [&str; 3] = ["charts/memcached", "benches/charts/webstack", "benches/charts/three"];

fn folder(chart: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(chart)
}

type Pointer = Vec<String>;

/// All properties with their defaults: every leaf, and what it is in.
fn properties(values: &Value, at: &Pointer, found: &mut Vec<(Pointer, Value)>) {
    for (key, value) in values.as_object().into_iter().flatten() {
        let mut path = at.clone();
        path.push(key.clone());
        properties(value, &path, found);
        found.push((path, value.clone()));
    }
}

/// What a property is set to. The first is another value of the same type.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(flag) => vec![json!(!flag), Value::Null, json!("text"), json!(2)],
        Value::Number(number) => {
            let next = number.as_i64().map_or(json!(1.5), |number| json!(number + 1));
            vec![
                next,
                json!(0),
                json!(-1),
                json!(i64::MAX),
                Value::Null,
                json!("text"),
                json!([]),
            ]
        }
        Value::String(text) => vec![
            json!(format!("{text}x")),
            json!(""),
            json!("x".repeat(300)),
            json!("{{ fail \"no\" }}"),
            Value::Null,
            json!(5),
            json!({"a": {}}),
        ],
        Value::Array(list) => vec![
            list.first().map_or(json!(["x"]), |first| json!([first, first])),
            json!([]),
            Value::Null,
            json!("text"),
            json!({}),
        ],
        Value::Object(map) if map.is_empty() => vec![json!({"k": "v"}), Value::Null, json!("text"), json!([])],
        Value::Object(_) => vec![Value::Null, json!("text"), json!([])],
        Value::Null => vec![json!("text"), json!(1), json!({})],
    }
}

/// A spec that sets one property.
fn setting(path: &[String], value: &Value) -> Value {
    path.iter()
        .rev()
        .fold(value.clone(), |inner, key| json!({(key): inner}))
}

/// Takes out maps without fields. Where one lost its last field, the API server leaves nothing, a null or an empty map,
/// as the kind and the server's version have it.
fn without_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(without_empty);
            map.retain(|_, value| !value.is_null() && !value.as_object().is_some_and(Map::is_empty));
        }
        Value::Array(list) => list.iter_mut().for_each(without_empty),
        _ => {}
    }
}

/// One release as it is: what stops it, and its members without what only says when and by whom they were made.
#[derive(Clone, Debug, PartialEq)]
struct Picture {
    stalled: String,
    members: BTreeMap<Key, Value>,
}

/// UIDs of the members.
type Uids = BTreeMap<Key, String>;

fn picture(history: &History) -> Result<(Picture, Uids)> {
    let widget = history.widget("a").context("the custom resource is gone")?;
    let condition = |kind: &str| condition(&widget, kind).unwrap_or_default();
    let (ready, stalled) = (condition("Ready"), condition("Stalled"));
    ensure!(
        ready["observedGeneration"] == widget["metadata"]["generation"],
        "nothing is said of this generation: {}",
        widget["status"]
    );
    let store = history.model.store();
    let (mut members, mut uids) = (BTreeMap::new(), Uids::new());
    for (key, object) in store.objects.iter().filter(|(_, object)| is_marked(object)) {
        uids.insert(key.clone(), uid(object));
        let text = object.to_string().replace(&uid(&widget), "UID");
        let mut object: Value = serde_json::from_str(&text)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "generation",
                "managedFields",
            ] {
                metadata.remove(field);
            }
        }
        without_empty(&mut object);
        members.insert(key.clone(), object);
    }
    let reason = |condition: &Value| condition["reason"].as_str().unwrap_or_default().to_owned();
    let stalled = if stalled["status"] == "True" {
        reason(&stalled)
    } else {
        String::new()
    };
    Ok((Picture { stalled, members }, uids))
}

/// What the second has otherwise than the first.
fn difference(first: &Picture, second: &Picture) -> String {
    let mut told = Vec::new();
    if first.stalled != second.stalled {
        told.push(format!("Stalled {:?}, not {:?}", second.stalled, first.stalled));
    }
    let keys: BTreeSet<&Key> = first.members.keys().chain(second.members.keys()).collect();
    for key in keys {
        match (first.members.get(key), second.members.get(key)) {
            (Some(_), None) => told.push(format!("no {key:?}")),
            (None, Some(_)) => told.push(format!("{key:?} besides")),
            (Some(first), Some(second)) => {
                let (first, second) = (leaves(first), leaves(second));
                let paths: BTreeSet<_> = first.keys().chain(second.keys()).collect();
                let differ = paths.into_iter().filter(|path| first.get(*path) != second.get(*path));
                told.extend(differ.map(|path| {
                    let (was, is) = (first.get(path), second.get(path));
                    format!("{} {} is {is:?}, not {was:?}", key.0, path.join("."))
                }));
            }
            (None, None) => {}
        }
    }
    told.truncate(6);
    told.join("; ")
}

async fn edited(history: &mut History, spec: Value) -> Result<(Picture, Uids)> {
    history.edit("a", spec).await?;
    let mut last = None;
    for _ in 0..20 {
        tokio::time::sleep(SECOND).await;
        match picture(history) {
            // Once more, for what follows a status.
            Ok(found) if last.as_ref() == Some(&found) => return Ok(found),
            Ok(found) => last = Some(found),
            Err(_) => last = None,
        }
    }
    picture(history).and_then(|_| bail!("it never comes to rest"))
}

/// The operator's key is the same each time: digests and what is drawn at random depend on it.
async fn begin(chart: &Path) -> Result<History> {
    let model = Model::new();
    let key = ("secrets", NAMESPACE.to_owned(), "torture-hmac-key".to_owned());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"key": BASE64.encode(&[7; 32])}});
    let kind = KINDS.iter().find(|kind| kind.plural == key.0).context("no Secrets")?;
    model.store().put(kind, key, secret);
    History::begin_with(model, [chart.to_owned(), chart.to_owned()]).await
}

async fn from_scratch(chart: &Path, spec: Value) -> Result<Picture> {
    let mut history = begin(chart).await?;
    let found = edited(&mut history, spec).await?.0;
    history.close().await?;
    Ok(found)
}

/// What changes nothing, though it is another value of the same type.
#[derive(Default)]
struct Findings {
    failures: Vec<String>,
    without_effect: Vec<String>,
}

/// The way there and back, for some properties of a chart.
async fn there_and_back(
    chart: &Path,
    some: &[(Pointer, Value)],
    findings: &mut Findings,
    report: &mut Report,
) -> Result<()> {
    let mut history = begin(chart).await?;
    let (original, mut before) = edited(&mut history, json!({})).await?;
    ensure!(
        original.stalled.is_empty() && !original.members.is_empty(),
        "{original:?}"
    );
    for (path, default) in some {
        for (number, value) in others(default).iter().enumerate() {
            report.case();
            let spec = setting(path, value);
            let what = format!("{}: {value:.60}", path.join("."));
            let (changed, _) = edited(&mut history, spec.clone()).await.with_context(|| what.clone())?;
            let scratch = from_scratch(chart, spec).await.with_context(|| what.clone())?;
            if number == 0 && changed == original {
                findings.without_effect.push(path.join("."));
            }
            // What can't be rendered leaves what was there.
            let same = match scratch.stalled.is_empty() {
                true => changed == scratch,
                false => changed.stalled == scratch.stalled,
            };
            if !same {
                findings
                    .failures
                    .push(format!("{what}: the way matters: {}", difference(&scratch, &changed)));
            }
            let (back, uids) = edited(&mut history, json!({})).await.with_context(|| what.clone())?;
            if back != original {
                findings
                    .failures
                    .push(format!("{what}: back is not back: {}", difference(&original, &back)));
            }
            // What both had was changed, not made anew.
            let stayed = |key: &&Key| changed.members.contains_key(key) && before.contains_key(key);
            let anew = uids.keys().filter(stayed).filter(|key| uids[*key] != before[*key]);
            let anew: Vec<&Key> = anew.collect();
            if !anew.is_empty() {
                findings.failures.push(format!("{what}: made anew: {anew:?}"));
            }
            before = uids;
        }
    }
    Ok(())
}

#[test]
fn any_property_may_be_set_and_set_back() -> Result<()> {
    let mut report = Report::new("acto");
    let mut findings = Findings::default();
    for chart in CHARTS.map(folder) {
        let text = std::fs::read_to_string(chart.join("values.yaml"))?;
        let values: Value = serde_yaml::from_str(&text)?;
        let mut all = Vec::new();
        properties(&values, &Vec::new(), &mut all);
        if !everything() {
            let step = all.len().div_ceil(2).max(1);
            all = all.into_iter().skip(step / 2).step_by(step).collect();
        }
        in_virtual_time(there_and_back(&chart, &all, &mut findings, &mut report))
            .with_context(|| chart.display().to_string())?;
    }
    for path in &findings.without_effect {
        eprintln!("acto: {path} was never read");
    }
    report.end_but_for(
        &findings.failures,
        &format!("{} properties that nothing shows", findings.without_effect.len()),
    )
}
