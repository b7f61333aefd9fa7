//! A DELETE looks for finalizers first and deletes later: what comes in between. The real API server is given time for it
//! by a webhook that never answers, which is asked between the two.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::new_model;
use crate::faults::call::{ApiCall, CallServer, ask};
use crate::real_server::process::in_real_time;
use crate::real_server::proxy;
use crate::world::World;

/// How long the webhook is waited for. A deletion that has to look again waits a second time.
const WINDOW: Duration = Duration::from_secs(2);
/// When the change during the deletion is sent.
const CHANGE_DELAY: Duration = Duration::from_millis(600);

/// A foreign finalizer.
const HELD: &str = "example.com/held";

/// Name, the finalizers at first, what the deletion pins, and the change during the deletion.
fn deletions() -> Vec<(&'static str, Vec<&'static str>, Vec<&'static str>, Value)> {
    let claim = || json!({"metadata": {"finalizers": [HELD]}});
    let edit = || json!({"spec": {"edited": true}});
    vec![
        ("nothing-happens", vec![], vec![], Value::Null),
        ("claimed", vec![], vec![], claim()),
        ("claimed-and-pinned-by-uid", vec![], vec!["uid"], claim()),
        ("claimed-and-pinned", vec![], vec!["uid", "resourceVersion"], claim()),
        ("edited", vec![], vec![], edit()),
        ("edited-and-pinned", vec![], vec!["resourceVersion"], edit()),
        ("held", vec![HELD], vec![], Value::Null),
        ("held-and-edited", vec![HELD], vec![], edit()),
        ("let-go", vec![HELD], vec![], json!({"metadata": {"finalizers": null}})),
    ]
}

/// What one server makes of each, side by side.
async fn event_history(
    server: &dyn CallServer,
    collection: &str,
    api_version: &str,
    prefix: &str,
) -> Result<Vec<Value>> {
    let outcomes = deletions().into_iter().map(|(case, finalizers, pinned, change)| async move {
        let name = format!("{prefix}-{case}");
        let widget = json!({
            "apiVersion": api_version, "kind": "Widget", "metadata": {"name": name, "finalizers": finalizers},
            "spec": {"edited": false},
        });
        let (status, made) = ask(server, ApiCall::new("POST", collection, &widget)).await?;
        ensure!(status == 201, "{made}");
        let mut options = json!({});
        for field in pinned {
            options["preconditions"][field] = made["metadata"][field].clone();
        }
        let path = format!("{collection}/{name}");
        let (deleted, changed) = tokio::join!(ask(server, ApiCall::new("DELETE", &path, &options)), async {
            tokio::time::sleep(CHANGE_DELAY).await;
            if change.is_null() { Ok((0, Value::Null)) } else { ask(server, ApiCall::new("MERGE", &path, &change)).await }
        });
        let (status, answer) = deleted?;
        let (found, left) = ask(server, ApiCall::new("GET", &path, &Value::Null)).await?;
        let left = if found == 200 { left } else { Value::Null };
        Ok(json!({
            "case": case, "deletion": status, "reason": if status < 300 { &Value::Null } else { &answer["reason"] },
            "change": changed?.0, "left": !left.is_null(), "edited": left["spec"]["edited"],
            "finalizers": left["metadata"]["finalizers"], "deleting": left["metadata"]["deletionTimestamp"].is_string(),
        }))
    });
    try_join_all(outcomes).await
}

/// From then on each deletion in this world takes [`WINDOW`] longer, once the webhook is known: what is to be kept
/// alive until then.
async fn slowed(world: &World, real: &kube::Client, collection: &str) -> Result<TcpListener> {
    let deaf = TcpListener::bind("127.0.0.1:0")?;
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": world.name},
        "webhooks": [{
            "name": "slow.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Ignore", "timeoutSeconds": WINDOW.as_secs(),
            "clientConfig": {"url": format!("https://{}/", deaf.local_addr()?)},
            "rules": [{"operations": ["DELETE"], "apiGroups": [world.group()], "apiVersions": ["v1"],
                "resources": ["widgets"]}],
        }],
    });
    world.kubectl.apply(&webhook.to_string())?;
    let probe = json!({"apiVersion": format!("{}/v1", world.group()), "kind": "Widget", "metadata": {"name": "probe"}});
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        // A new kind is served a moment after its CRD is established.
        ask(real, ApiCall::new("POST", collection, &probe)).await?;
        let begun = Instant::now();
        let path = format!("{collection}/probe?dryRun=All");
        let (status, answer) = ask(real, ApiCall::new("DELETE", &path, &json!({}))).await?;
        if status == 200 && begun.elapsed() >= WINDOW {
            return Ok(deaf);
        }
        ensure!(Instant::now() < deadline, "the webhook is never asked: {answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn both() -> Result<()> {
    let world = World::new("deletions")?;
    let real = proxy::client(world.control_plane.kubeconfig()).await?;
    let api_version = format!("{}/v1", world.group());
    let collection = format!("/apis/{api_version}/namespaces/{}/widgets", world.name);
    let _deaf = slowed(&world, &real, &collection).await?;
    let modelled = "/apis/torture.test/v1/namespaces/deletions/widgets";
    let mut last = Ok(());
    // On a busy machine what is to come in between may come before.
    for prefix in ["x1", "x2", "x3"] {
        let model = new_model();
        model.store().deletions_take = WINDOW;
        let (on_real, on_model) = tokio::try_join!(
            event_history(&real, &collection, &api_version, prefix),
            event_history(&model, modelled, "torture.test/v1", prefix)
        )?;
        let lost = on_real.iter().find(|outcome| outcome["case"] == "claimed").cloned();
        let lost = lost.unwrap_or_default();
        last = match on_real == on_model {
            true if lost["change"] == 200 && lost["left"] == false => Ok(()),
            true => Err(anyhow!("a finalizer that comes in between does hold: {lost}")),
            false => Err(anyhow!("real  {on_real:#?}\nmodel {on_model:#?}")),
        };
        if last.is_ok() {
            break;
        }
    }
    world.kubectl.delete("validatingwebhookconfigurations", &world.name)?;
    last
}

#[test]
fn a_finalizer_added_during_a_delete_is_lost_on_both_servers() -> Result<()> {
    in_real_time(both())
}
