//! The CustomResourceDefinition of a kind.

use serde_json::{Value, json};

use super::api::Kind;

/// One that takes any spec.
pub fn open(kind: &Kind) -> Value {
    let resource = &kind.resource;
    let lower = resource.kind.to_lowercase();
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut status = any.clone();
    status["properties"] = json!({"observedGeneration": {"type": "integer", "format": "int64"}});
    status["default"] = json!({"observedGeneration": -1});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", kind.plural, resource.full_group())},
        "spec": {
            "group": resource.full_group(),
            "names": {
                "kind": resource.kind, "listKind": format!("{}List", resource.kind),
                "plural": kind.plural, "singular": lower,
            },
            "scope": if resource.api.namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": resource.version, "served": true, "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
                    column("Reason", "string", ".status.conditions[?(@.type==\"Ready\")].reason"),
                    column("Version", "string", ".status.release.version"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                        "spec": any, "status": status,
                    },
                }},
            }],
        },
    })
}
