//! The model is worth what it has in common with a real API server: the same operations on both, every form of request
//! that the operator makes and what people and other controllers do besides, and every difference is a failure.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::header::ACCEPT;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::fields::managers;
use super::new_model;
use crate::faults::call::{ApiCall, CallServer, ask};
use crate::real_server::process::in_real_time;
use crate::real_server::proxy;
use crate::world::World;
use crate::world::fields::text;

/// Objects that are there all the time.
const OWNERS: [&str; 2] = ["owner1", "owner2"];
const JSON: &str = "application/json";

/// What was asked, and what came of it.
type ReportedEvents = Vec<(String, Value)>;

/// A kind on one of the servers.
struct Side<'s> {
    server: &'s dyn CallServer,
    collection: String,
    api_version: String,
    kind: &'static str,
    /// Where the kind has its content: `data` or `spec`.
    field: &'static str,
}

impl Side<'_> {
    async fn ask(&self, verb: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        let uri = format!("{}{path}", self.collection);
        ask(self.server, ApiCall::new(verb, &uri, body)).await
    }

    fn get(&self, path: &str, accept: &str) -> Result<ApiCall> {
        let mut call = ApiCall::new("GET", &format!("{}{path}", self.collection), &Value::Null);
        call.headers.insert(ACCEPT, accept.parse()?);
        Ok(call)
    }

    async fn create(&self, name: &str, labels: Value) -> Result<Value> {
        let object = json!({
            "apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name, "labels": labels},
            (self.field): {"a": "MQ==", "b": "Mg=="},
        });
        let (status, answer) = self.ask("POST", "?fieldManager=m", &object).await?;
        ensure!(status == 201, "{answer}");
        Ok(answer)
    }

    /// Names, requests and bodies of `operations.yaml` for this kind.
    fn operations(&self) -> Result<Vec<(String, String, Value)>> {
        let text = include_str!("../../fixtures/torture/operations.yaml").replace("$FIELD", self.field);
        let mut all: BTreeMap<String, Vec<(String, String, Value)>> = serde_yaml::from_str(&text)?;
        let custom = all.remove("custom").filter(|_| self.field == "spec");
        let mut rows = all.remove("all").context("operations")?;
        rows.extend(custom.into_iter().flatten());
        for (_, request, body) in &mut rows {
            if request.starts_with("APPLY") || request.starts_with("POST") {
                body["apiVersion"] = self.api_version.as_str().into();
                body["kind"] = self.kind.into();
                body["metadata"]["name"] = "x".into();
            }
        }
        Ok(rows)
    }

    /// What must be the same on both: everything but names of versions, times and UIDs.
    fn essence(&self, object: &Value) -> Value {
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owners = owners.map(|owner| (owner["name"].to_string(), owner["uid"].to_string()));
        let mut owners: Vec<(String, String)> = owners.collect();
        owners.sort();
        let named = |path: String| {
            let unnamed = |path: String, (name, uid): &(String, String)| path.replace(uid, name);
            owners.iter().fold(path, unnamed)
        };
        let sets: Vec<Value> = managers(object)
            .into_iter()
            .filter_map(|((name, operation, subresource), (set, _))| {
                let paths = set.iter().map(|path| named(path.join(".")));
                // The type of a Secret is a default of the server.
                let paths: Vec<String> = paths.filter(|path| path != "type").collect();
                (!paths.is_empty()).then(|| json!([name, operation, subresource, paths]))
            })
            .collect();
        json!({
            "content": object[self.field], "status": object["status"], "labels": metadata["labels"],
            "annotations": metadata["annotations"], "finalizers": metadata["finalizers"],
            "owners": owners.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            "generation": if self.field == "spec" { metadata["generation"].clone() } else { Value::Null },
            "deleting": !metadata["deletionTimestamp"].is_null(), "managers": sets,
        })
    }

    /// The version of what is there when the kind is served, which is a moment after its CRD is established.
    async fn served(&self) -> Result<String> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let (_, list) = self.ask("GET", "", &Value::Null).await?;
            if let Some(version) = list["metadata"]["resourceVersion"].as_str() {
                return Ok(version.to_owned());
            }
            ensure!(tokio::time::Instant::now() < deadline, "{}: {list}", self.collection);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Goes through the operations.
    async fn event_history(&self) -> Result<ReportedEvents> {
        let mut answers = Vec::new();
        let start = self.served().await?;
        let mut owners = Vec::new();
        for name in OWNERS {
            let made = self.create(name, Value::Null).await?;
            let owner = json!({
                "apiVersion": self.api_version, "kind": self.kind, "name": name, "uid": made["metadata"]["uid"],
            });
            owners.push(owner.to_string());
        }
        let mut known = Value::Null;
        for (name, request, body) in self.operations()? {
            let seen = |field: &str| known["metadata"][field].as_str().unwrap_or("none");
            let body = body.to_string().replace("$UID", seen("uid"));
            let body = body.replace("$RV", seen("resourceVersion"));
            let body = body
                .replace("\"$OWNER1\"", &owners[0])
                .replace("\"$OWNER2\"", &owners[1]);
            let (verb, path) = request.split_once(' ').context("a verb and a path")?;
            let body: Value = serde_json::from_str(&body)?;
            if verb != "GET" {
                answers.push((
                    format!("{name}, as a dry run"),
                    self.dry_run(verb, path, body.clone(), &known).await?,
                ));
            }
            let (status, answer) = self.ask(verb, path, &body).await?;
            // A failure's reason is what clients go by.
            let reason = if status < 300 { &Value::Null } else { &answer["reason"] };
            let (found, after) = self.ask("GET", "/x", &Value::Null).await?;
            let after = if found == 200 { after } else { Value::Null };
            let moved = after["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"];
            let replaced = after["metadata"]["uid"] != known["metadata"]["uid"];
            let said = json!({
                "status": status, "reason": reason, "moved": moved, "replaced": replaced, "object": self.essence(&after),
            });
            answers.push((name, said));
            known = after;
        }
        for accept in [JSON, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"] {
            answers.extend(self.watched(&start, accept).await?);
        }
        for name in OWNERS {
            self.ask("DELETE", &format!("/{name}"), &json!({})).await?;
        }
        answers.extend(self.lists().await?);
        Ok(answers)
    }

    /// What a write answers as a dry run. Nothing may move. `known`: the object before.
    async fn dry_run(&self, verb: &str, path: &str, mut body: Value, known: &Value) -> Result<Value> {
        let mark = if path.contains('?') { '&' } else { '?' };
        if verb == "DELETE" {
            // The options in the body hide those of the query.
            body["dryRun"] = json!(["All"]);
        }
        let (status, answer) = self.ask(verb, &format!("{path}{mark}dryRun=All"), &body).await?;
        let (_, after) = self.ask("GET", "/x", &Value::Null).await?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        let is_there = !known.is_null();
        ensure!(
            !is_there && after["metadata"]["uid"].is_null() || version(&after) == version(known),
            "{verb} {path} is no dry run"
        );
        // A deletion answers with a status or an object.
        let object = if status < 300 && verb != "DELETE" {
            self.essence(&answer)
        } else {
            Value::Null
        };
        Ok(
            json!({"status": status, "reason": if status < 300 { &Value::Null } else { &answer["reason"] }, "object": object}),
        )
    }

    /// All of it once more as a watch saw it, by a label that comes and goes.
    async fn watched(&self, start: &str, accept: &str) -> Result<ReportedEvents> {
        let query = format!("?watch=true&resourceVersion={start}&labelSelector=set=s&timeoutSeconds=2");
        let response = self.server.answer(self.get(&query, accept)?).await;
        let response = response.map_err(anyhow::Error::from_boxed)?;
        let body = tokio::time::timeout(Duration::from_secs(20), response.into_body().collect()).await?;
        let bytes = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
        let mut answers = Vec::new();
        for line in String::from_utf8_lossy(&bytes).lines() {
            let event: Value = serde_json::from_str(line)?;
            let object = &event["object"];
            if event["type"] != "BOOKMARK" {
                let saw = json!({"type": event["type"], "kind": object["kind"], "object": self.essence(object)});
                answers.push((format!("watch as {accept}"), saw));
            }
        }
        Ok(answers)
    }

    /// How three objects are shown, whole and as metadata, one by one, by label and in pages.
    async fn lists(&self) -> Result<ReportedEvents> {
        self.create("l1", json!({"of": "lists", "set": "s"})).await?;
        self.create("l2", json!({"of": "lists", "set": "other"})).await?;
        self.create("l3", json!({"of": "lists"})).await?;
        let mut answers = Vec::new();
        for accept in [JSON, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"] {
            let selectors = ["of=lists", "of=lists,set=s", "of=lists,set==other", "set=none-such"];
            let pages = (1..=3).map(|limit| (selectors[0], limit));
            for (selector, limit) in selectors.map(|selector| (selector, 0)).into_iter().chain(pages) {
                let mut token = String::new();
                loop {
                    let query = format!("?labelSelector={selector}&limit={limit}&continue={token}");
                    let (status, list) = ask(self.server, self.get(&query, accept)?).await?;
                    token = text(&list["metadata"]["continue"]).to_owned();
                    let items = list["items"].as_array().into_iter().flatten();
                    let items = items.map(|item| json!([item["metadata"]["name"], self.essence(item)]));
                    let said = json!({
                        "status": status, "metadata only": list["kind"] == "PartialObjectMetadataList",
                        "more": !token.is_empty(), "items": items.collect::<Vec<_>>(),
                    });
                    answers.push((format!("list {selector} by {limit} as {accept}"), said));
                    if token.is_empty() {
                        break;
                    }
                }
            }
            for name in ["l1", "none-such"] {
                let form = accept.replace("MetadataList", "Metadata");
                let (status, object) = ask(self.server, self.get(&format!("/{name}"), &form)?).await?;
                let said = json!({
                    "status": status, "kind": object["kind"], "reason": object["reason"], "object": self.essence(&object),
                });
                answers.push((format!("get {name} as {accept}"), said));
            }
        }
        for name in ["l1", "l2", "l3"] {
            self.ask("DELETE", &format!("/{name}"), &json!({})).await?;
        }
        Ok(answers)
    }
}

#[test]
fn the_model_answers_as_the_real_api_server() -> Result<()> {
    let world = World::new("model")?;
    world.install_crd("Gadget")?;
    in_real_time(async {
        let real = proxy::client(world.control_plane.kubeconfig()).await?;
        let model = new_model();
        let mut differences = Vec::new();
        let mut compared = 0;
        for (kind, field) in [("ConfigMap", "data"), ("Secret", "data"), ("Widget", "spec")] {
            let resource = format!("{}s", kind.to_lowercase());
            let on = async |server: &dyn CallServer, group: &str| {
                let (root, api_version) = match field {
                    "data" => ("/api/v1".to_owned(), "v1".to_owned()),
                    _ => (format!("/apis/{group}/v1"), format!("{group}/v1")),
                };
                let collection = format!("{root}/namespaces/model/{resource}");
                Side {
                    server,
                    collection,
                    api_version,
                    kind,
                    field,
                }
                .event_history()
                .await
            };
            let (on_real, on_model) = (on(&real, &world.group()).await?, on(&model, "torture.test").await?);
            ensure!(on_real.len() > 20, "the real server answered little: {on_real:?}");
            compared += on_real.len();
            for place in 0..on_real.len().max(on_model.len()) {
                let (expected, found) = (on_real.get(place), on_model.get(place));
                if expected != found {
                    differences.push(format!("{kind}:\n  real  {expected:?}\n  model {found:?}"));
                }
            }
        }
        let count = differences.len();
        ensure!(count == 0, "{count} of {compared} differ:\n{}", differences.join("\n"));
        eprintln!("model: {compared} answers are those of the real API server");
        Ok(())
    })
}
