//! Values that the API server cannot decode, and empty values that an injector fills.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::world::World;
use crate::world::fields::condition;

#[test]
fn a_value_that_cannot_be_decoded_is_invalid_and_named() -> Result<()> {
    let world = World::new("refused-decode")?
        .granted("apps", "deployments")?
        .granted("", "secrets")?;
    let _operator = world.start()?;
    let metadata = |name: &str| json!({"name": name, "labels": {"app": "x"}});
    let container = json!({"name": "main", "image": "example/main", "resources": {"requests": {"cpu": "lots"}}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web"),
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}},
        },
    });
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("key"), "data": {"a": "!! plain !!"}});
    for (name, object, field) in [
        (
            "a",
            deployment,
            "spec.template.spec.containers[0].resources.requests.cpu: \"lots\"",
        ),
        ("b", secret, "data.a: not base64"),
    ] {
        world.apply_widget(name, json!({"extraDeploy": [object]}))?;
        let message = world.await_stalled(name, "ObjectInvalid", &[field, "templates/"])?;
        ensure!(!message.contains("!! plain !!"), "{message}");
    }
    Ok(())
}

#[test]
fn two_names_for_one_port_are_refused_in_words() -> Result<()> {
    let world = World::new("refused-ports")?.granted("apps", "deployments")?;
    let _operator = world.start()?;
    let port = |name: &str| json!({"name": name, "containerPort": 8080});
    let container = json!({"name": "main", "image": "example/main", "ports": [port("http"), port("metrics")]});
    let aliases = json!([{"ip": "10.0.0.1", "hostnames": ["a"]}, {"ip": "10.0.0.1", "hostnames": ["b"]}]);
    let deployment = |containers: serde_json::Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers, "hostAliases": aliases}},
            },
        })
    };
    world.apply_widget("a", json!({"extraDeploy": [deployment(json!([container]))]}))?;
    world.await_stalled(
        "a",
        "ObjectInvalid",
        &["containerPort=8080", "change the key of one of them"],
    )?;
    let fixed = json!([{"name": "main", "image": "example/main"}]);
    world.update("a", json!({"extraDeploy": [deployment(fixed)]}))?;
    let live = world.expect("deployment", "web")?;
    let names = &live["spec"]["template"]["spec"]["hostAliases"][0]["hostnames"];
    ensure!(*names == json!(["a", "b"]), "{names}");
    Ok(())
}

#[test]
fn an_empty_ca_bundle_is_left_to_its_injector() -> Result<()> {
    let world =
        World::new("refused-bundle")?.granted("admissionregistration.k8s.io", "validatingwebhookconfigurations")?;
    let operator = world.start()?;
    let webhooks = json!([{
        "name": "a.test.example", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
        "clientConfig": {"caBundle": "", "service": {"name": "x", "namespace": world.name, "path": "/"}},
        "rules": [{"apiGroups": ["none.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothing"]}],
    }]);
    let kind = "validatingwebhookconfiguration";
    let name = "{{ .Release.Namespace }}-{{ .Release.Name }}";
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name}, "webhooks": webhooks,
    });
    std::fs::write(world.chart().join("templates/webhook.yaml"), object.to_string())?;
    world.install("a", json!({}))?;
    let name = format!("{}-a", world.name);
    let bundle = json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Q0E="}]);
    world.patch_by("json", kind, &name, &bundle)?;
    world.await_quiet(&operator)?;
    world.annotate("a", json!({"chartwright.dev/requested-at": "now"}))?;
    world.await_quiet(&operator)?;
    let live = world.expect(kind, &name)?;
    ensure!(live["webhooks"][0]["clientConfig"]["caBundle"] == "Q0E=", "{live}");
    ensure!(condition(&world.live("a")?, "Drifted").is_null());
    world.delete("a")
}
