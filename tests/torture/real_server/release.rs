//! The goal state of a release: exactly the members of its spec, and a status that says so.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::real_server::process::TortureLane;
use crate::real_server::variant;
use crate::world::fields::{
    HOOK_RUN, OPERATOR, PART_OF, TRACKING, annotation, condition, is_marked, is_ready, label, text, uid,
};

/// Kind and name.
pub type MemberId = (String, String);

/// A spec for the tests' chart. A `whole` one has members of more kinds than ConfigMap, one of them cluster-scoped.
pub fn spec(color: &str, extra: &[&str], full_body: bool) -> Value {
    json!({
        "color": color, "extra": extra, "secret": {"enabled": full_body, "password": color},
        "priorityClass": {"enabled": full_body}, "fail": "",
    })
}

/// What the tests' chart makes of a spec: content by kind and name; `null` is any content. Written down here and not
/// rendered, so that it can disagree.
pub fn members(namespace: &str, release: &str, spec: &Value) -> BTreeMap<MemberId, Value> {
    let mut members = BTreeMap::new();
    let mut add = |kind: &str, name: String, content: Value| drop(members.insert((kind.to_owned(), name), content));
    let color = spec["color"].as_str().unwrap_or("blue");
    let main = json!({"color": color, "size": "1"});
    add("ConfigMap", format!("{release}-main"), main);
    for extra in spec["extra"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        add("ConfigMap", format!("{release}-{extra}"), json!({"extra": extra}));
    }
    if spec["secret"]["enabled"] == true {
        let password = spec["secret"]["password"].as_str().unwrap_or_default();
        let data = json!({"password": BASE64.encode(password.as_bytes())});
        add("Secret", format!("{release}-secret"), data);
    }
    if spec["kept"] == true {
        add("ConfigMap", format!("{release}-kept"), json!({"kept": "yes"}));
    }
    if spec["random"] == true {
        add("Secret", format!("{release}-random"), Value::Null);
    }
    if spec["part"] == true {
        add("Part", format!("{release}-part"), json!({"color": color}));
    }
    if spec["priorityClass"]["enabled"] == true {
        add("PriorityClass", format!("{namespace}-{release}"), json!(10));
    }
    members
}

fn id(object: &Value) -> MemberId {
    row_id(&json!({"kind": object["kind"], "name": object["metadata"]["name"]}))
}

/// The member that a row of an inventory is about.
pub fn row_id(row: &Value) -> MemberId {
    (text(&row["kind"]).to_owned(), text(&row["name"]).to_owned())
}

pub fn content(object: &Value) -> Value {
    match object["kind"].as_str() {
        Some("PriorityClass") => object["value"].clone(),
        _ => object["data"].clone(),
    }
}

/// What a spec of a lane makes, with all that its releases have.
pub fn members_of(lane: &TortureLane, release: &str, spec: &Value) -> BTreeMap<MemberId, Value> {
    members(&lane.world.name, release, &lane.variant.with_variant(spec))
}

/// Live members by id.
pub async fn live(lane: &TortureLane, release: &str) -> Result<BTreeMap<MemberId, Value>> {
    let objects = lane.live(release).await?;
    Ok(objects.into_iter().map(|object| (id(&object), object)).collect())
}

/// A status that says of the current generation that it is ready.
pub fn claims_ready(widget: &Value) -> bool {
    is_ready(widget)
}

/// The release is what its spec says: members, marks, custom resource and status.
pub async fn holds(lane: &TortureLane, release: &str, spec: &Value) -> Result<Value> {
    let widget = lane.widget(release).await?.context("the custom resource is gone")?;
    let (generation, status) = (&widget["metadata"]["generation"], &widget["status"]);
    let is_ready = claims_ready(&widget) && status["observedGeneration"] == *generation;
    ensure!(is_ready, "generation {generation}: {status}");
    for kind in ["Reconciling", "Stalled", "PruneHeld"] {
        let found = condition(&widget, kind);
        ensure!(found.is_null() || found["status"] == "False", "{found}");
    }
    has_members(lane, release, spec, widget).await
}

/// The plan of a release has run, once.
pub async fn has_run_once(lane: &TortureLane, release: &str, spec: &Value) -> Result<()> {
    let widget = holds(lane, release, spec).await?;
    let plan = &widget["status"]["plans"][0];
    ensure!(
        plan["phase"] == "Succeeded" && plan["count"] == 1,
        "{}",
        widget["status"]
    );
    let job = lane.jobs().get(&format!("{release}-plan")).await?;
    let job = serde_json::to_value(job)?;
    let run = annotation(&job, HOOK_RUN).unwrap_or_default();
    ensure!(run.starts_with("plan-work.1.1."), "{run}");
    Ok(())
}

/// The release is what this spec says, and not its own, whose upgrade failed.
pub async fn is_rolled_back(lane: &TortureLane, release: &str, spec: &Value) -> Result<Value> {
    let widget = lane.widget(release).await?.context("the custom resource is gone")?;
    let stalled = condition(&widget, "Stalled");
    let is_reported =
        stalled["reason"] == "RolledBack" && stalled["observedGeneration"] == widget["metadata"]["generation"];
    ensure!(is_reported, "{}", widget["status"]);
    has_members(lane, release, spec, widget).await
}

/// Members, marks and record are what a spec says; gives the custom resource.
async fn has_members(lane: &TortureLane, release: &str, spec: &Value, widget: Value) -> Result<Value> {
    let mut live = live(lane, release).await?;
    // What a hook made is no member.
    live.retain(|_, object| annotation(object, HOOK_RUN).is_none());
    let expected = members_of(lane, release, spec);
    let (found, wanted) = (live.keys(), expected.keys());
    ensure!(found.clone().eq(wanted.clone()), "{found:?}, not {wanted:?}");
    let rows = variant::rows(lane, release, &widget, expected.len()).await?;
    let recorded: BTreeMap<MemberId, &Value> = rows.iter().map(|row| (row_id(row), &row["uid"])).collect();
    let listed = recorded.keys();
    ensure!(listed.clone().eq(wanted), "listed are {listed:?}");
    let set = widget["metadata"]["labels"]["applyset.kubernetes.io/id"].clone();
    for (id, object) in &live {
        let (is, wanted, metadata) = (content(object), &expected[id], &object["metadata"]);
        ensure!(wanted.is_null() || is == *wanted, "{id:?} is {is}, not {wanted}");
        ensure!(metadata["deletionTimestamp"].is_null(), "{id:?} is being deleted");
        let of_set = label(object, PART_OF) == set.as_str();
        let of_operator = label(object, OPERATOR) == Some(&lane.world.name);
        ensure!(of_set && of_operator, "{id:?} has the labels {}", metadata["labels"]);
        let tracking = annotation(object, TRACKING).unwrap_or_default();
        ensure!(tracking.starts_with(&uid(&widget)), "{id:?} is tracked as {tracking}");
        let listed = recorded[id];
        ensure!(*listed == metadata["uid"], "{id:?} is listed with {listed}");
    }
    let full = |(kind, _): &'_ MemberId| match kind.as_str() {
        "PriorityClass" => "PriorityClass.scheduling.k8s.io".to_owned(),
        kind => kind.to_owned(),
    };
    let mut kinds: BTreeSet<String> = expected.keys().map(full).collect();
    if spec["plan"] == true || lane.variant == variant::ReleaseVariant::Hooked {
        kinds.insert("Job.batch".into());
    }
    let listed = annotation(&widget, "applyset.kubernetes.io/contains-group-kinds").unwrap_or_default();
    let listed: BTreeSet<String> = listed.split(',').map(str::to_owned).collect();
    ensure!(listed == kinds, "its kinds are listed as {listed:?}, not {kinds:?}");
    variant::holds(lane, release, &widget, expected.len()).await?;
    Ok(widget)
}

/// A status that claims to be ready for the current generation is true for every member, at any time (P8).
pub async fn status_is_truthful(lane: &TortureLane, release: &str, spec: &Value) -> Result<()> {
    let widget = lane.widget(release).await?;
    if !widget.is_some_and(|widget| claims_ready(&widget)) {
        return Ok(());
    }
    let live = live(lane, release).await?;
    let members = members_of(lane, release, spec);
    variant::is_truthful(lane, release, &members).await?;
    for (id, wanted) in members {
        let found = live.get(&id).map(content);
        let is_it = found.as_ref().is_some_and(|found| wanted.is_null() || *found == wanted);
        ensure!(is_it, "Ready, while {id:?} is {found:?}, not {wanted}");
    }
    Ok(())
}

/// Nothing is left of it.
pub async fn is_gone(lane: &TortureLane, release: &str) -> Result<()> {
    let widget = lane.widget(release).await?;
    ensure!(widget.is_none(), "the custom resource is still there");
    let mut left = lane.live(release).await?;
    // Only a takeover knows one that its policy keeps.
    left.retain(|object| is_marked(object) || !id(object).1.ends_with("-kept"));
    let left: Vec<MemberId> = left.iter().map(id).collect();
    ensure!(left.is_empty(), "these are left: {left:?}");
    variant::has_no_secrets_left(lane, release).await
}

/// UID and resource version by id.
pub fn versions(live: &BTreeMap<MemberId, Value>) -> BTreeMap<MemberId, (String, String)> {
    let version = |object: &Value| (uid(object), text(&object["metadata"]["resourceVersion"]).to_owned());
    live.iter().map(|(id, object)| (id.clone(), version(object))).collect()
}

/// Members whose content is the same in both specs were not written (P2) and none was replaced.
pub fn only_what_changed_was_written(
    lane: &TortureLane,
    release: &str,
    before: &BTreeMap<MemberId, (String, String)>,
    after: &BTreeMap<MemberId, (String, String)>,
    specs: (&Value, &Value),
) -> Result<()> {
    let old = members_of(lane, release, specs.0);
    let new = members_of(lane, release, specs.1);
    for (id, wanted) in &new {
        let (Some(was), Some(is)) = (before.get(id), after.get(id)) else {
            continue;
        };
        ensure!(was.0 == is.0, "{id:?} was replaced: {} is now {}", was.0, is.0);
        let needless = old.get(id) == Some(wanted) && was.1 != is.1;
        ensure!(!needless, "{id:?} was written though nothing about it changed");
    }
    Ok(())
}
