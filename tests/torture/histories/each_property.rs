//! Every property of a chart's values, as Acto (Gu et al., SOSP 2023) does it: set to something else, to nothing, to the
//! bounds and to what it can't be, and then back. The way doesn't matter: what comes of an edit is what comes of the same
//! spec from the beginning. And back is back: all that was there is there again, and what needed no change had none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use crate::histories::history::{ModelHistory, NAMESPACE, SECOND, in_virtual_time};
use crate::model::fields::leaves;
use crate::model::kinds::KINDS;
use crate::model::new_model;
use crate::report::{TortureReport, everything};
use crate::world::fields::{is_marked, text, uid};

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

/// What a property is set to: another value of the same type, and what it can't be.
fn others(value: &Value) -> Vec<Value> {
    let (another, wrong) = match value {
        Value::Bool(flag) => (json!(!flag), json!([null, "text", 2])),
        Value::Number(number) => {
            let next = number.as_i64().map_or(json!(1.5), |number| json!(number + 1));
            (next, json!([0, -1, i64::MAX, null, "text", []]))
        }
        Value::String(text) => {
            let wrong = json!(["", "x".repeat(300), "{{ fail \"no\" }}", null, 5, {"a": {}}]);
            (json!(format!("{text}x")), wrong)
        }
        Value::Array(list) => {
            let twice = list.first().map_or(json!(["x"]), |first| json!([first, first]));
            (twice, json!([[], null, "text", {}]))
        }
        Value::Object(map) if map.is_empty() => (json!({"k": "v"}), json!([null, "text", []])),
        Value::Object(_) => (Value::Null, json!(["text", []])),
        Value::Null => (json!("text"), json!([1, {}])),
    };
    let wrong = wrong.as_array().cloned().unwrap_or_default();
    [another].into_iter().chain(wrong).collect()
}

/// A spec that sets one property.
fn setting(path: &[String], value: &Value) -> Value {
    let keys = path.iter().rev();
    keys.fold(value.clone(), |inner, key| json!({(key): inner}))
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

/// Takes out the replicas of workloads with an autoscaler: the live number stays when it comes, and is the autoscaler's.
fn without_autoscaled_replicas(members: &mut Value) {
    let autoscalers = members.as_object().into_iter().flatten();
    let autoscalers = autoscalers.filter(|(key, _)| key.starts_with("horizontalpodautoscalers "));
    let targets: Vec<String> = autoscalers
        .filter_map(|(key, autoscaler)| {
            let namespace = key.split([' ', '/']).nth(1)?;
            let target = &autoscaler["spec"]["scaleTargetRef"];
            let plural = format!("{}s", target["kind"].as_str()?.to_lowercase());
            Some(format!("{plural} {namespace}/{}", target["name"].as_str()?))
        })
        .collect();
    for target in targets {
        if let Some(spec) = members
            .get_mut(&target)
            .and_then(|member| member["spec"].as_object_mut())
        {
            spec.remove("replicas");
        }
    }
}

/// UIDs of the members.
type Uids = BTreeMap<String, String>;

/// One release as it is: what stops it, and its members without what only says when and by whom they were made.
fn picture(history: &ModelHistory) -> Result<(Value, Uids)> {
    let widget = history.widget("a").context("the custom resource is gone")?;
    let (ready, stalled) = (history.condition("a", "Ready"), history.condition("a", "Stalled"));
    let is_said = ready["observedGeneration"] == widget["metadata"]["generation"];
    ensure!(is_said, "nothing is said of this generation: {}", widget["status"]);
    let store = history.model.store();
    let mut uids = Uids::new();
    let mut picture = json!({"stalled": text(&stalled["reason"]), "members": {}});
    for ((plural, namespace, name), object) in store.objects.iter().filter(|(_, object)| is_marked(object)) {
        let key = format!("{plural} {namespace}/{name}");
        uids.insert(key.clone(), uid(object));
        let mut object: Value = serde_json::from_str(&object.to_string().replace(&uid(&widget), "UID"))?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            let made = "uid resourceVersion creationTimestamp generation managedFields";
            metadata.retain(|field, _| !made.split(' ').any(|made| made == field));
        }
        without_empty(&mut object);
        picture["members"][key] = object;
    }
    without_autoscaled_replicas(&mut picture["members"]);
    Ok((picture, uids))
}

/// What the second has otherwise than the first.
fn difference(first: &Value, second: &Value) -> String {
    let (first, second) = (leaves(first), leaves(second));
    let paths: BTreeSet<_> = first.keys().chain(second.keys()).collect();
    let differ = paths.into_iter().filter(|path| first.get(*path) != second.get(*path));
    let texts = differ.take(6).map(|path| {
        let (was, is) = (first.get(path), second.get(path));
        format!("{} is {is:?}, not {was:?}", path.join("."))
    });
    texts.collect::<Vec<_>>().join("; ")
}

async fn edited(history: &mut ModelHistory, spec: Value) -> Result<(Value, Uids)> {
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
async fn begin(chart: &Path) -> Result<ModelHistory> {
    let model = new_model();
    let key = ("secrets", NAMESPACE.to_owned(), "torture-hmac-key".to_owned());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"key": BASE64.encode(&[7; 32])}});
    let kind = KINDS.iter().find(|kind| kind.plural == key.0).context("no Secrets")?;
    model.store().put(kind, key, secret);
    ModelHistory::begin_with(model, [chart.to_owned(), chart.to_owned()]).await
}

async fn from_scratch(chart: &Path, spec: Value) -> Result<Value> {
    let mut history = begin(chart).await?;
    let found = edited(&mut history, spec).await?.0;
    history.close().await?;
    Ok(found)
}

/// Sets a property to a value, and back. False if nothing showed it.
async fn there_and_back(
    history: &mut ModelHistory,
    chart: &Path,
    (original, before): (&Value, &mut Uids),
    (path, value): (&[String], &Value),
) -> Result<bool> {
    let spec = setting(path, value);
    let (changed, _) = edited(history, spec.clone()).await?;
    let scratch = from_scratch(chart, spec).await?;
    // What can't be rendered leaves what was there.
    let same = if text(&scratch["stalled"]).is_empty() {
        changed == scratch
    } else {
        changed["stalled"] == scratch["stalled"]
    };
    ensure!(same, "the way matters: {}", difference(&scratch, &changed));
    let (back, uids) = edited(history, json!({})).await?;
    ensure!(back == *original, "back is not back: {}", difference(original, &back));
    // Objects of both were changed, not recreated.
    let stayed = |key: &&String| !changed["members"][*key].is_null() && before.contains_key(*key);
    let recreated = uids.keys().filter(stayed).filter(|key| uids[*key] != before[*key]);
    let recreated: Vec<&String> = recreated.collect();
    ensure!(recreated.is_empty(), "recreated: {recreated:?}");
    *before = uids;
    Ok(changed != *original)
}

/// All values of some properties of a chart. Gives those whose other value shows nowhere.
async fn properties_of(chart: &Path, some: &[(Pointer, Value)], report: &mut TortureReport) -> Result<Vec<String>> {
    let mut history = begin(chart).await?;
    let (original, mut before) = edited(&mut history, json!({})).await?;
    ensure!(original["stalled"] == "" && !before.is_empty(), "{original}");
    let mut never_read = Vec::new();
    for (path, default) in some {
        for (number, value) in others(default).iter().enumerate() {
            let outcome = there_and_back(&mut history, chart, (&original, &mut before), (path, value)).await;
            match report.case(format!("{}: {value:.60}", path.join(".")), outcome) {
                Some(false) if number == 0 => never_read.push(path.join(".")),
                Some(_) => {}
                None => before = edited(&mut history, json!({})).await?.1,
            }
        }
    }
    Ok(never_read)
}

#[test]
fn any_value_can_be_changed_and_reverted() -> Result<()> {
    let mut report = TortureReport::new("acto");
    let mut never_read = 0;
    for chart in CHARTS.map(folder) {
        let text = std::fs::read_to_string(chart.join("values.yaml"))?;
        let values: Value = serde_yaml::from_str(&text)?;
        let mut all = Vec::new();
        properties(&values, &Vec::new(), &mut all);
        if !everything() {
            let step = all.len().div_ceil(2).max(1);
            all = all.into_iter().skip(step / 2).step_by(step).collect();
        }
        let paths = in_virtual_time(properties_of(&chart, &all, &mut report));
        let paths = paths.with_context(|| chart.display().to_string())?;
        never_read += paths.len();
        eprintln!("acto: never read: {paths:?}");
    }
    report.end(&format!("{never_read} properties that nothing shows"))
}
