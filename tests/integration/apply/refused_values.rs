//! Values that the API server cannot decode, and empty values that an injector fills.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::world::fields::condition;
use crate::world::{World, crd, member_rule};

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
    let world = World::new("refused-bundle")?;
    world.grant(
        "bundles",
        &[
            member_rule("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
            member_rule("apiextensions.k8s.io", "customresourcedefinitions"),
        ],
    )?;
    let operator = world.start()?;
    let service = json!({"name": "x", "namespace": world.name, "path": "/"});
    let webhooks = json!([{
        "name": "a.test.example", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
        "clientConfig": {"caBundle": "", "service": service},
        "rules": [{"apiGroups": ["none.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothing"]}],
    }]);
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "{{ .Release.Namespace }}-{{ .Release.Name }}"}, "webhooks": webhooks,
    });
    // Kubebuilder's placeholder.
    let mut converted = crd(&world.group(), "Part");
    converted["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"caBundle": "Cg==", "service": service}},
    });
    let text = format!("{object}\n---\n{converted}\n");
    std::fs::write(world.chart().join("templates/bundles.yaml"), text)?;
    world.install("a", json!({}))?;
    let authority = "jsonpath={.clusters[0].cluster.certificate-authority-data}";
    let bundle = world.kubectl.run(["config", "view", "--raw", "-o", authority])?;
    let places = [
        (
            "validatingwebhookconfiguration",
            format!("{}-a", world.name),
            "/webhooks/0/clientConfig/caBundle",
        ),
        (
            "crd",
            world.resource("Part"),
            "/spec/conversion/webhook/clientConfig/caBundle",
        ),
    ];
    for (kind, name, path) in &places {
        let patch = json!([{"op": "add", "path": path, "value": bundle.trim()}]);
        world.patch_by("json", kind, name, &patch)?;
    }
    world.await_quiet(&operator)?;
    world.annotate("a", json!({"chartwright.dev/requested-at": "now"}))?;
    world.await_quiet(&operator)?;
    for (kind, name, path) in &places {
        let live = world.expect(kind, name)?;
        ensure!(live.pointer(path) == Some(&json!(bundle.trim())), "{live}");
    }
    ensure!(condition(&world.live("a")?, "Drifted").is_null());
    world.delete("a")
}
