//! The model is worth what it has in common with a real API server: the same operations on both, and every difference
//! is a failure.

use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::Model;
use super::fields::managers;
use super::operations::{OWNERS, Operation, operations};
use crate::call::{Call, Server};
use crate::look::uid;
use crate::proxy::Upstream;
use crate::world::World;

pub fn call(method: &str, path: &str, content: &str, body: &Value) -> Call {
    let (bare, query) = path.split_once('?').unwrap_or((path, ""));
    let mut headers = HeaderMap::new();
    if !content.is_empty() {
        headers.insert(http::header::CONTENT_TYPE, content.parse().unwrap());
    } else if !body.is_null() {
        headers.insert(http::header::CONTENT_TYPE, "application/json".parse().unwrap());
    }
    headers.insert(http::header::ACCEPT, "application/json".parse().unwrap());
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Call {
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        path: bare.to_owned(),
        query: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        headers,
        body: if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        },
        uri: path.to_owned(),
    }
}

pub async fn ask(server: &dyn Server, call: Call) -> Result<(u16, Value)> {
    let response = server.answer(call).await.map_err(anyhow::Error::from_boxed)?;
    let status = response.status().as_u16();
    let bytes = response
        .into_body()
        .collect()
        .await
        .map_err(anyhow::Error::from_boxed)?
        .to_bytes();
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
}

/// What must be the same on both: everything but names of versions, times and UIDs.
fn essence(object: &Value, field: &str) -> Value {
    let metadata = &object["metadata"];
    let mut owners: Vec<(String, String)> = metadata["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|owner| (owner["name"].to_string(), owner["uid"].to_string()))
        .collect();
    owners.sort();
    let named = |path: String| {
        let unnamed = |path: String, (name, uid): &(String, String)| path.replace(uid, name);
        owners.iter().fold(path, unnamed)
    };
    let sets: Vec<Value> = managers(object)
        .into_iter()
        .filter(|(_, (set, _))| !set.is_empty())
        .map(|((name, operation, subresource), (set, _))| {
            // The type of a Secret is a default of the server.
            let paths: Vec<String> = set
                .iter()
                .map(|path| named(path.join(".")))
                .filter(|path| path != "type")
                .collect();
            json!([name, operation, subresource, paths])
        })
        .collect();
    json!({
        "content": object[field], "status": object["status"], "labels": metadata["labels"],
        "annotations": metadata["annotations"], "finalizers": metadata["finalizers"],
        "owners": owners.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        "generation": if field == "spec" { metadata["generation"].clone() } else { Value::Null },
        "deleting": !metadata["deletionTimestamp"].is_null(), "managers": sets,
    })
}

/// One server after the other goes through the operations; gives what it said.
async fn story(
    server: &dyn Server,
    collection: &str,
    field: &str,
    operations: &[Operation],
) -> Result<Vec<(String, Value)>> {
    let mut told = Vec::new();
    // A new kind is served a moment after its CRD is established.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    let start = loop {
        let (_, list) = ask(server, call("GET", collection, "", &Value::Null)).await?;
        match list["metadata"]["resourceVersion"].as_str() {
            Some(version) => break version.to_owned(),
            None => ensure!(tokio::time::Instant::now() < deadline, "{collection}: {list}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let mut owners = Vec::new();
    for name in OWNERS {
        let (_, _, path, content, object) = anew(operations);
        let mut object = object.clone();
        object["metadata"] = json!({"name": name});
        let (status, answer) = ask(server, call("POST", &format!("{collection}{path}"), content, &object)).await?;
        ensure!(status == 201, "{answer}");
        owners.push(uid(&answer));
    }
    let mut known = Value::Null;
    for (name, method, rest, content, body) in operations {
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        let body = body.to_string().replace("$UID", &text(&known["metadata"]["uid"]));
        let body = body.replace("$OWNER1", &owners[0]).replace("$OWNER2", &owners[1]);
        let body: Value = serde_json::from_str(&body.replace("$RV", &text(&known["metadata"]["resourceVersion"])))?;
        let (status, answer) = ask(server, call(method, &format!("{collection}{rest}"), content, &body)).await?;
        // A failure's reason is what clients go by.
        let reason = if status < 300 {
            Value::Null
        } else {
            answer["reason"].clone()
        };
        let (found, after) = ask(server, call("GET", &format!("{collection}/x"), "", &Value::Null)).await?;
        let after = if found == 200 { after } else { Value::Null };
        let moved = after["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"];
        let replaced = after["metadata"]["uid"] != known["metadata"]["uid"];
        let said = json!({"status": status, "reason": reason, "moved": moved, "replaced": replaced, "object": essence(&after, field)});
        told.push(((*name).to_owned(), said));
        known = after;
    }
    // All of it once more as a watch saw it, by a label that comes and goes.
    for (name, accept) in [
        ("watch", "application/json"),
        (
            "watch of metadata",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ),
    ] {
        let path = format!("{collection}?watch=true&resourceVersion={start}&labelSelector=set%3Ds&timeoutSeconds=2");
        let mut watch = call("GET", &path, "", &Value::Null);
        for (_, value) in &mut watch.query {
            *value = value.replace("%3D", "=");
        }
        watch.headers.insert(http::header::ACCEPT, accept.parse()?);
        let response = server.answer(watch).await.map_err(anyhow::Error::from_boxed)?;
        let body = tokio::time::timeout(Duration::from_secs(20), response.into_body().collect()).await?;
        let bytes = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
        for line in String::from_utf8_lossy(&bytes).lines() {
            let event: Value = serde_json::from_str(line)?;
            let object = &event["object"];
            if event["type"] != "BOOKMARK" {
                let saw = json!({"type": event["type"], "kind": object["kind"], "object": essence(object, field)});
                told.push((name.to_owned(), saw));
            }
        }
    }
    for name in OWNERS {
        ask(server, call("DELETE", &format!("{collection}/{name}"), "", &json!({}))).await?;
    }
    told.extend(lists(server, collection, field, operations).await?);
    Ok(told)
}

fn anew(operations: &[Operation]) -> &Operation {
    let create = operations.iter().find(|operation| operation.0 == "create anew");
    create.expect("an operation that creates")
}

/// How three objects are shown, whole and as metadata, one by one, by label and in pages.
async fn lists(
    server: &dyn Server,
    collection: &str,
    field: &str,
    operations: &[Operation],
) -> Result<Vec<(String, Value)>> {
    let (_, _, path, content, object) = anew(operations);
    for (name, set) in [("l1", "s"), ("l2", "other"), ("l3", "")] {
        let mut object = object.clone();
        object["metadata"] = json!({"name": name, "labels": {"set": set, "of": "lists"}});
        if set.is_empty() {
            object["metadata"]["labels"] = json!({"of": "lists"});
        }
        let (status, answer) = ask(server, call("POST", &format!("{collection}{path}"), content, &object)).await?;
        ensure!(status == 201, "{answer}");
    }
    let mut told = Vec::new();
    for accept in [
        "application/json",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ] {
        for (selector, limit) in [
            ("of=lists", 0),
            ("of=lists,set=s", 0),
            ("of=lists,set==other", 0),
            ("of=lists,set!=s", 0),
            ("set=nobody", 0),
            ("of=lists", 1),
            ("of=lists", 2),
            ("of=lists", 3),
            ("of=lists,set!=s", 1),
        ] {
            let mut token = String::new();
            loop {
                let mut query = vec![("labelSelector", selector.to_owned()), ("limit", limit.to_string())];
                if !token.is_empty() {
                    query.push(("continue", token.clone()));
                }
                let (status, list) = ask(server, asking(collection, &query, accept)?).await?;
                token = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
                let kind = list["kind"].as_str().unwrap_or_default();
                let items = list["items"].as_array().into_iter().flatten();
                let items: Vec<Value> = items
                    .map(|item| json!([item["metadata"]["name"], essence(item, field)]))
                    .collect();
                let said = json!({
                    "status": status, "metadata only": kind == "PartialObjectMetadataList", "more": !token.is_empty(),
                    "items": items,
                });
                told.push((format!("list {selector} by {limit} as {accept}"), said));
                if token.is_empty() {
                    break;
                }
            }
        }
        let accept = accept.replace("MetadataList", "Metadata");
        for name in ["l1", "nobody"] {
            let (status, object) = ask(server, asking(&format!("{collection}/{name}"), &[], &accept)?).await?;
            let said = json!({
                "status": status, "kind": object["kind"], "reason": object["reason"],
                "object": essence(&object, field),
            });
            told.push((format!("get {name} as {accept}"), said));
        }
    }
    for name in ["l1", "l2", "l3"] {
        ask(server, call("DELETE", &format!("{collection}/{name}"), "", &json!({}))).await?;
    }
    Ok(told)
}

/// A GET with these parameters, and the form that is asked for.
fn asking(path: &str, query: &[(&str, String)], accept: &str) -> Result<Call> {
    let encoded = |text: &str| {
        let escaped = text.replace('%', "%25").replace('!', "%21").replace('=', "%3D");
        escaped.replace('+', "%2B").replace('/', "%2F").replace(',', "%2C")
    };
    let pairs: Vec<String> = query
        .iter()
        .map(|(key, value)| format!("{key}={}", encoded(value)))
        .collect();
    let mut asking = call("GET", path, "", &Value::Null);
    asking.query = query
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    if !pairs.is_empty() {
        asking.uri = format!("{path}?{}", pairs.join("&"));
    }
    asking.headers.insert(http::header::ACCEPT, accept.parse()?);
    Ok(asking)
}

#[test]
fn the_model_answers_as_the_real_api_server() -> Result<()> {
    let world = World::new("model")?;
    world.install_crd("Gadget")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let real = Upstream::connect(world.control_plane.kubeconfig()).await?;
        let model = Model::new();
        let mut differences = Vec::new();
        let mut compared = 0;
        for (kind, real_path, model_path, api_version, field) in [
            (
                "ConfigMap",
                "/api/v1/namespaces/model/configmaps".to_owned(),
                "/api/v1/namespaces/model/configmaps",
                "v1".to_owned(),
                "data",
            ),
            (
                "Secret",
                "/api/v1/namespaces/model/secrets".to_owned(),
                "/api/v1/namespaces/model/secrets",
                "v1".to_owned(),
                "data",
            ),
            (
                "Widget",
                format!("/apis/{}/v1/namespaces/model/widgets", world.group()),
                "/apis/torture.test/v1/namespaces/model/widgets",
                format!("{}/v1", world.group()),
                "spec",
            ),
        ] {
            let on_real = story(&real, &real_path, field, &operations(&api_version, kind, field)).await?;
            let modelled = if kind == "Widget" { "torture.test/v1" } else { "v1" };
            let on_model = story(&model, model_path, field, &operations(modelled, kind, field)).await?;
            ensure!(on_real.len() > 20, "the real server told little: {on_real:?}");
            compared += on_real.len();
            for place in 0..on_real.len().max(on_model.len()) {
                let (expected, found) = (on_real.get(place), on_model.get(place));
                if expected != found {
                    differences.push(format!("{kind}:\n  real  {expected:?}\n  model {found:?}"));
                }
            }
        }
        ensure!(
            differences.is_empty(),
            "{} of {compared} differ:\n{}",
            differences.len(),
            differences.join("\n")
        );
        eprintln!("model: {compared} answers are those of the real API server");
        Ok(())
    });
    runtime.shutdown_background();
    outcome
}
