//! What a release must be like: the members that its spec asks for, no others, and a status that says so.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::flavour;
use crate::lane::{Lane, names};
use crate::look::{OPERATOR, PART_OF, TRACKING, condition, is_marked, label, uid};

/// Kind and name.
pub type Id = (String, String);

/// What the tests' chart makes of a spec: content by kind and name; `null` is any content. Written down here and not
/// rendered, so that it can disagree.
pub fn members(namespace: &str, release: &str, spec: &Value) -> BTreeMap<Id, Value> {
    let mut members = BTreeMap::new();
    let color = spec["color"].as_str().unwrap_or("blue");
    members.insert(
        ("ConfigMap".to_owned(), format!("{release}-main")),
        json!({"color": color, "size": "1"}),
    );
    for extra in spec["extra"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        members.insert(
            ("ConfigMap".to_owned(), format!("{release}-{extra}")),
            json!({"extra": extra}),
        );
    }
    if spec["secret"]["enabled"] == true {
        let password = spec["secret"]["password"].as_str().unwrap_or_default();
        members.insert(
            ("Secret".to_owned(), format!("{release}-secret")),
            json!({"password": BASE64.encode(password.as_bytes())}),
        );
    }
    if spec["kept"] == true {
        members.insert(
            ("ConfigMap".to_owned(), format!("{release}-kept")),
            json!({"kept": "yes"}),
        );
    }
    if spec["random"] == true {
        members.insert(("Secret".to_owned(), format!("{release}-random")), Value::Null);
    }
    if spec["priorityClass"]["enabled"] == true {
        members.insert(
            ("PriorityClass".to_owned(), format!("{namespace}-{release}")),
            json!(10),
        );
    }
    members
}

fn id(object: &Value) -> Id {
    (text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// The member that a row of an inventory is about.
pub fn row_id(row: &Value) -> Id {
    (text(&row["kind"]), text(&row["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub fn content(object: &Value) -> Value {
    match object["kind"].as_str() {
        Some("PriorityClass") => object["value"].clone(),
        _ => object["data"].clone(),
    }
}

/// What a spec of a lane makes, with all that its releases have.
pub fn members_of(lane: &Lane, release: &str, spec: &Value) -> BTreeMap<Id, Value> {
    members(&lane.world.name, release, &lane.flavour.dress(spec))
}

/// Live members by id.
pub async fn live(lane: &Lane, release: &str) -> Result<BTreeMap<Id, Value>> {
    let objects = lane.live(release).await?;
    Ok(objects.into_iter().map(|object| (id(&object), object)).collect())
}

/// The release is what its spec says: members, marks, custom resource and status.
pub async fn holds(lane: &Lane, release: &str, spec: &Value) -> Result<Value> {
    let widget = lane.widget(release).await?.context("the custom resource is gone")?;
    let generation = &widget["metadata"]["generation"];
    let ready = condition(&widget, "Ready").with_context(|| format!("no Ready: {}", widget["status"]))?;
    ensure!(
        ready["status"] == "True" && ready["observedGeneration"] == *generation,
        "generation {generation}, {ready}"
    );
    ensure!(
        widget["status"]["observedGeneration"] == *generation,
        "observedGeneration is not {generation}: {}",
        widget["status"]
    );
    for kind in ["Reconciling", "Stalled", "PruneHeld"] {
        let found = condition(&widget, kind);
        ensure!(
            found.as_ref().is_none_or(|found| found["status"] == "False"),
            "{found:?}"
        );
    }
    let live = live(lane, release).await?;
    let expected = members_of(lane, release, spec);
    let found: BTreeSet<&Id> = live.keys().collect();
    ensure!(
        found == expected.keys().collect(),
        "live are {found:?}, the render has {:?}",
        expected.keys()
    );
    let rows = flavour::rows(lane, release, &widget, expected.len()).await?;
    let recorded: BTreeMap<Id, &Value> = rows.iter().map(|row| (row_id(row), &row["uid"])).collect();
    ensure!(
        recorded.keys().eq(expected.keys()),
        "the inventory lists {:?}, not {:?}",
        recorded.keys(),
        expected.keys()
    );
    let set = widget["metadata"]["labels"]["applyset.kubernetes.io/id"].clone();
    for (id, object) in &live {
        let wanted = &expected[id];
        ensure!(
            wanted.is_null() || content(object) == *wanted,
            "{id:?} is {}, not {wanted}",
            content(object)
        );
        ensure!(
            object["metadata"]["deletionTimestamp"].is_null(),
            "{id:?} is being deleted"
        );
        ensure!(
            label(object, PART_OF) == set.as_str() && label(object, OPERATOR) == Some(&lane.world.name),
            "{id:?} has the labels {}",
            object["metadata"]["labels"]
        );
        let tracking = object["metadata"]["annotations"][TRACKING].as_str().unwrap_or_default();
        ensure!(tracking.starts_with(&uid(&widget)), "{id:?} is tracked as {tracking}");
        ensure!(
            *recorded[id] == object["metadata"]["uid"],
            "the inventory has another UID for {id:?}: {}",
            recorded[id]
        );
    }
    let kinds: BTreeSet<&str> = expected
        .keys()
        .map(|(kind, _)| match kind.as_str() {
            "PriorityClass" => "PriorityClass.scheduling.k8s.io",
            kind => kind,
        })
        .collect();
    let told = widget["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"]
        .as_str()
        .unwrap_or_default();
    ensure!(
        told.split(',').collect::<BTreeSet<_>>() == kinds,
        "the custom resource says that it has {told}, not {kinds:?}"
    );
    flavour::holds(lane, release, &widget, expected.len()).await?;
    Ok(widget)
}

/// A status that claims to be ready for the current generation tells the truth about every member, at any time (P8).
pub async fn status_is_no_lie(lane: &Lane, release: &str, spec: &Value) -> Result<()> {
    let Some(widget) = lane.widget(release).await? else {
        return Ok(());
    };
    let Some(ready) = condition(&widget, "Ready") else {
        return Ok(());
    };
    if ready["status"] != "True" || ready["observedGeneration"] != widget["metadata"]["generation"] {
        return Ok(());
    }
    let live = live(lane, release).await?;
    let members = members_of(lane, release, spec);
    flavour::is_no_lie(lane, release, &members).await?;
    for (id, wanted) in members {
        let found = live.get(&id).map(content);
        ensure!(
            found.is_some() && (wanted.is_null() || found.as_ref() == Some(&wanted)),
            "the status says Ready while {id:?} is {found:?} instead of {wanted}"
        );
    }
    Ok(())
}

/// Nothing is left of it.
pub async fn is_gone(lane: &Lane, release: &str) -> Result<()> {
    ensure!(
        lane.widget(release).await?.is_none(),
        "the custom resource is still there"
    );
    let mut left = lane.live(release).await?;
    // Only a takeover knows one that its policy keeps.
    left.retain(|object| is_marked(object) || !id(object).1.ends_with("-kept"));
    ensure!(left.is_empty(), "these are left: {:?}", names(&left));
    flavour::is_forgotten(lane, release).await
}

/// UID and resource version by id.
pub fn versions(live: &BTreeMap<Id, Value>) -> BTreeMap<Id, (String, String)> {
    let version = |object: &Value| {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        (uid(object), version.to_owned())
    };
    live.iter().map(|(id, object)| (id.clone(), version(object))).collect()
}

/// Members whose content is the same in both specs were not written (P2) and none was replaced.
pub fn only_what_changed_was_written(
    lane: &Lane,
    release: &str,
    before: &BTreeMap<Id, (String, String)>,
    after: &BTreeMap<Id, (String, String)>,
    specs: (&Value, &Value),
) -> Result<()> {
    let old = members_of(lane, release, specs.0);
    let new = members_of(lane, release, specs.1);
    for (id, wanted) in &new {
        let (Some(was), Some(is)) = (before.get(id), after.get(id)) else {
            continue;
        };
        ensure!(was.0 == is.0, "{id:?} was replaced: {} is now {}", was.0, is.0);
        ensure!(
            old.get(id) != Some(wanted) || was.1 == is.1,
            "{id:?} was written though nothing about it changed"
        );
    }
    Ok(())
}
