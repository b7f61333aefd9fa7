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
use crate::call::{Call, Server};
use crate::proxy::Upstream;
use crate::world::World;

/// An operation: its name, the method, what stands after the collection's path, the content type and the body. `$UID`
/// and `$RV` stand for those of the object as it was last seen.
type Operation = (&'static str, &'static str, &'static str, &'static str, Value);

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// `field` is where the kind has its content: `data` or `spec`.
fn operations(api_version: &str, kind: &str, field: &str) -> Vec<Operation> {
    let object = |metadata: Value, content: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        if let (Some(into), Some(from)) = (object["metadata"].as_object_mut(), metadata.as_object()) {
            into.extend(from.clone());
        }
        if !content.is_null() {
            object[field] = content;
        }
        object
    };
    let none = || json!({});
    let data = |pairs: &[(&str, &str)]| -> Value {
        // Base64, for the sake of Secrets.
        let encoded = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(encoded(value))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let mut operations = vec![
        ("get what is not there", "GET", "/x", "", Value::Null),
        (
            "patch what is not there",
            "PATCH",
            "/x?fieldManager=m",
            MERGE,
            json!({field: data(&[("a", "1")])}),
        ),
        ("delete what is not there", "DELETE", "/x", "", none()),
        (
            "apply with a UID what is not there",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(json!({"uid": "nobody"}), data(&[("a", "1")])),
        ),
        (
            "apply creates",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(
                json!({"labels": {"l": "1", "set": "s"}}),
                data(&[("a", "1"), ("b", "1")]),
            ),
        ),
        (
            "the same again",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(
                json!({"labels": {"l": "1", "set": "s"}}),
                data(&[("a", "1"), ("b", "1")]),
            ),
        ),
        (
            "create what is there",
            "POST",
            "?fieldManager=m",
            "application/json",
            object(none(), Value::Null),
        ),
        (
            "another applies the same value",
            "PATCH",
            "/x?fieldManager=two",
            APPLY,
            object(none(), data(&[("a", "1")])),
        ),
        (
            "another applies another value",
            "PATCH",
            "/x?fieldManager=two",
            APPLY,
            object(none(), data(&[("a", "2")])),
        ),
        (
            "and forces it",
            "PATCH",
            "/x?fieldManager=two&force=true",
            APPLY,
            object(none(), data(&[("a", "2")])),
        ),
        (
            "the first forces it back",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(
                json!({"labels": {"l": "1", "set": "s"}}),
                data(&[("a", "1"), ("b", "1")]),
            ),
        ),
        (
            "the first drops a field",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1")])),
        ),
        (
            "a merge patch edits and adds",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"labels": {"mine": "1"}}, field: data(&[("a", "9"), ("c", "9")])}),
        ),
        (
            "a merge patch that changes nothing",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"labels": {"mine": "1"}}}),
        ),
        (
            "the first applies over the edit without force",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1")])),
        ),
        (
            "and with force",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1")])),
        ),
        (
            "a merge patch takes a label off",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"labels": {"set": null}}}),
        ),
        (
            "it comes back",
            "PATCH",
            "/x?fieldManager=one&force=true",
            APPLY,
            object(
                json!({"labels": {"set": "s"}, "annotations": {"n": "1"}}),
                data(&[("a", "1")]),
            ),
        ),
        (
            "a merge patch with another UID",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"uid": "nobody", "labels": {"z": "1"}}}),
        ),
        (
            "apply with another UID",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(json!({"uid": "nobody"}), Value::Null),
        ),
        (
            "apply with the UID",
            "PATCH",
            "/x?fieldManager=three",
            APPLY,
            object(
                json!({"uid": "$UID", "finalizers": ["example.com/one"], "annotations": {"three": "1"}}),
                Value::Null,
            ),
        ),
        (
            "a second finalizer",
            "PATCH",
            "/x?fieldManager=four",
            APPLY,
            object(json!({"finalizers": ["example.com/two"]}), Value::Null),
        ),
        (
            "delete with another UID",
            "DELETE",
            "/x",
            "",
            json!({"preconditions": {"uid": "nobody"}}),
        ),
        (
            "delete with the UID",
            "DELETE",
            "/x",
            "",
            json!({"preconditions": {"uid": "$UID"}}),
        ),
        ("delete again", "DELETE", "/x", "", none()),
        (
            "an edit while it goes",
            "PATCH",
            "/x?fieldManager=hand",
            MERGE,
            json!({"metadata": {"labels": {"late": "1"}}}),
        ),
        (
            "a JSON patch whose test fails",
            "PATCH",
            "/x?fieldManager=five",
            JSON_PATCH,
            json!([{"op": "test", "path": "/metadata/uid", "value": "nobody"}, {"op": "remove", "path": "/metadata/finalizers/0"}]),
        ),
        (
            "one finalizer goes",
            "PATCH",
            "/x?fieldManager=five",
            JSON_PATCH,
            json!([{"op": "test", "path": "/metadata/uid", "value": "$UID"}, {"op": "remove", "path": "/metadata/finalizers/0"}]),
        ),
        (
            "the other goes",
            "PATCH",
            "/x?fieldManager=five",
            JSON_PATCH,
            json!([{"op": "remove", "path": "/metadata/finalizers"}]),
        ),
        (
            "create anew",
            "POST",
            "?fieldManager=m",
            "application/json",
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1"), ("b", "2")])),
        ),
        (
            "apply over what was created",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(json!({"labels": {"set": "s"}}), data(&[("a", "1")])),
        ),
        (
            "drop what another created too",
            "PATCH",
            "/x?fieldManager=one",
            APPLY,
            object(none(), data(&[])),
        ),
        ("delete", "DELETE", "/x", "", none()),
    ];
    if field == "spec" {
        let status = |status: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "status": status});
        let list = json!({"list": ["one"], "deep": {"a": {"b": 1}, "c": null}});
        operations.extend([
            ("create with a status", "POST", "?fieldManager=m", "application/json", {
                let mut created = object(none(), list);
                created["status"] = json!({"a": 1});
                created
            }),
            (
                "apply the status",
                "PATCH",
                "/x/status?fieldManager=st",
                APPLY,
                status(json!({"a": 1, "rows": [{"n": 1}]})),
            ),
            (
                "the same status",
                "PATCH",
                "/x/status?fieldManager=st",
                APPLY,
                status(json!({"a": 1, "rows": [{"n": 1}]})),
            ),
            (
                "less status",
                "PATCH",
                "/x/status?fieldManager=st",
                APPLY,
                status(json!({"rows": [{"n": 2}]})),
            ),
            (
                "a status beside the spec",
                "PATCH",
                "/x?fieldManager=m",
                MERGE,
                json!({"spec": {"list": ["two"]}, "status": {"a": 3}}),
            ),
            (
                "a spec beside the status",
                "PATCH",
                "/x/status?fieldManager=n",
                MERGE,
                json!({"spec": {"list": ["three"]}, "status": {"b": 4}}),
            ),
            (
                "replace a map by a text",
                "PATCH",
                "/x?fieldManager=m",
                MERGE,
                json!({"spec": {"deep": "flat"}}),
            ),
            ("delete it", "DELETE", "/x", "", none()),
        ]);
    }
    operations
}

fn call(method: &str, path: &str, content: &str, body: &Value) -> Call {
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

async fn ask(server: &dyn Server, call: Call) -> Result<(u16, Value)> {
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
    let sets: Vec<Value> = managers(object)
        .into_iter()
        .filter(|(_, (set, _))| !set.is_empty())
        .map(|((name, operation, subresource), (set, _))| {
            // The type of a Secret is a default of the server.
            let paths: Vec<String> = set
                .iter()
                .map(|path| path.join("."))
                .filter(|path| path != "type")
                .collect();
            json!([name, operation, subresource, paths])
        })
        .collect();
    json!({
        "content": object[field], "status": object["status"], "labels": metadata["labels"],
        "annotations": metadata["annotations"], "finalizers": metadata["finalizers"],
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
    let mut known = Value::Null;
    for (name, method, rest, content, body) in operations {
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        let body = body.to_string().replace("$UID", &text(&known["metadata"]["uid"]));
        let body: Value = serde_json::from_str(&body.replace("$RV", &text(&known["metadata"]["resourceVersion"])))?;
        let (status, _) = ask(server, call(method, &format!("{collection}{rest}"), content, &body)).await?;
        let (found, after) = ask(server, call("GET", &format!("{collection}/x"), "", &Value::Null)).await?;
        let after = if found == 200 { after } else { Value::Null };
        let moved = after["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"];
        let replaced = after["metadata"]["uid"] != known["metadata"]["uid"];
        let said = json!({"status": status, "moved": moved, "replaced": replaced, "object": essence(&after, field)});
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
    Ok(told)
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
