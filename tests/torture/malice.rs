//! What a hostile author thinks of: specs, metadata and statuses, by number.

use serde_json::{Value, json};

use crate::history::History;
use crate::look::{OPERATOR, PART_OF, TRACKING, uid};

/// A finalizer of his.
pub const MINE: &str = "example.com/evil";

/// The custom resource that he is after.
fn target(history: &History) -> Value {
    history.widget("a").unwrap_or_default()
}

fn map(name: &str, metadata: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"evil": "1"}});
    object["metadata"]["name"] = name.into();
    object
}

/// Whatever the chart renders as it is.
fn extra(objects: Value) -> Value {
    json!({"extraDeploy": objects})
}

/// Runs a template.
fn run(template: &str) -> Value {
    let mut object = map("e-run", json!({}));
    object["data"]["evil"] = template.into();
    extra(json!([object]))
}

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!("deep"), |inner, _| json!({"x": inner}))
}

pub const SPECS: usize = 32;

/// Says of an object of his that somebody else controls it: nobody but he can delete it then.
pub fn gives_members_away(number: usize) -> bool {
    number == 12
}

/// The first is harmless.
pub fn spec(history: &History, number: usize) -> Value {
    let a = target(history);
    let set = a["metadata"]["labels"]["applyset.kubernetes.io/id"].clone();
    let tracked = |name: &str| format!("{}:ConfigMap.:shop/{name}", uid(&a));
    let secret = |name: String, file: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {(file): "e30="}});
    let role = |kind: &str| {
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "e"}, "rules": rules})
    };
    match number {
        0 => {
            json!({"color": "black", "extra": ["one", "two"], "secret": {"enabled": true, "password": "e"}, "part": true})
        }
        1 => json!({"color": "x".repeat(900_000)}),
        2 => json!({"deep": deep(100)}),
        3 => {
            json!({"color": {"a": [1]}, "extra": "text", "secret": [], "priorityClass": 5, "part": "yes", "lookup": {}})
        }
        4 => json!({"color": null, "extra": null, "secret": null, "priorityClass": null, "extraDeploy": null}),
        5 => json!({"extra": ["a".repeat(5_000), "../..", "a/b", "%2e", "", "\u{0}", "UPPER"]}),
        6 => json!({"extra": (0..400).map(|number| format!("n{number}")).collect::<Vec<_>>()}),
        7 => json!({"fail": format!("{}\u{0}\n{}", "x".repeat(200_000), "é".repeat(1_000))}),
        // Other people's objects.
        8 => extra(json!([map("a-main", json!({}))])),
        9 => extra(json!([map("a-main", json!({"namespace": "yard"}))])),
        10 => extra(json!([map("source", json!({}))])),
        11 => extra(json!([map(
            "e-fake",
            json!({"labels": {(PART_OF): set, (OPERATOR): "torture"}, "annotations": {(TRACKING): tracked("e-fake")}})
        )])),
        12 => extra(json!([map(
            "e-fake",
            json!({"ownerReferences": [{"apiVersion": "torture.test/v1", "kind": "Widget", "name": "a", "uid": uid(&a), "controller": true}]})
        )])),
        13 => extra(
            json!([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "torture-hmac-key"}, "data": {"key": "AAAA"}}]),
        ),
        14 => extra(
            json!([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a-secret"}, "data": {"password": "AAAA"}}]),
        ),
        15 => extra(
            json!([{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "shop-a"}, "value": 1}]),
        ),
        16 => extra(json!([role("ClusterRole"), role("Role")])),
        17 => extra(json!([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "yard"}}])),
        18 => extra(
            json!([{"apiVersion": "torture.test/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"color": "black"}}]),
        ),
        19 => {
            extra(json!([{"apiVersion": "torture.test/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": null}]))
        }
        20 => extra(
            json!([{"apiVersion": "none.test/v1", "kind": "None", "metadata": {"name": "e"}}, {"kind": "ConfigMap"}, 5, "text", [], null]),
        ),
        21 => extra(json!([map(
            "e-x",
            json!({"annotations": {"helm.sh/hook": "pre-delete", "helm.sh/hook-delete-policy": "never"}})
        )])),
        22 => extra(json!([map(
            "e-x",
            json!({"annotations": {"chartwright.dev/wave": "99999999999999999999", "chartwright.dev/update": "Recreate"}})
        )])),
        // Templates of his.
        23 => run("{{ define \"loop\" }}{{ template \"loop\" . }}{{ end }}{{ template \"loop\" . }}"),
        24 => run("{{ range $i := until 100000 }}{{ repeat 100 \"x\" }}{{ end }}"),
        25 => run("{{ regexMatch \"((a{1000}){1000}){1000}\" \"a\" }}"),
        26 => run("{{ (lookup \"v1\" \"Secret\" \"shop\" \"a-secret\").data.password | b64dec | fail }}"),
        27 => run(
            "{{ range lookup \"v1\" \"Secret\" \"\" \"\" }}{{ . }}{{ end }}{{ fail (toJson (lookup \"v1\" \"Secret\" \"shop\" \"a-secret\")) }}",
        ),
        28 => run("{{ range $i := until 50 }}{{ lookup \"v1\" \"ConfigMap\" (printf \"ns%d\" $i) \"x\" }}{{ end }}"),
        // What the operator would keep for the other.
        29 => extra(json!([secret(
            format!("chartwright-record-{}", uid(&a)),
            "record.json.gz"
        )])),
        30 => extra(json!([secret(format!("chartwright-kept-{}", uid(&a)), "results.json")])),
        _ => {
            json!({"color": "{{ .Values.color }}", "extraDeploy": (0..30).map(|_| map("same", json!({}))).collect::<Vec<_>>()})
        }
    }
}

pub const METADATA: usize = 16;

/// Suspends: what is deleted then stays, as he asked for.
pub fn leaves_members(number: usize) -> bool {
    matches!(number, 2 | 4)
}

pub fn metadata(history: &History, number: usize) -> Value {
    let a = target(history);
    let annotations = |annotations: Value| json!({"annotations": annotations});
    let many = |prefix: &str, suffix: &str, count: usize| {
        let all: Vec<String> = (0..count).map(|number| format!("{prefix}{number}{suffix}")).collect();
        all.join(",")
    };
    let kinds = "ConfigMap,Secret,PriorityClass.scheduling.k8s.io,Part.parts.test,Widget.torture.test";
    match number {
        0 => json!({"finalizers": null}),
        1 => json!({"finalizers": [MINE]}),
        2 => json!({"finalizers": [MINE, "foregroundDeletion"], "annotations": {"chartwright.dev/suspend": "true"}}),
        3 => json!({"finalizers": ["chartwright.dev/release", MINE, "uninstall-helm-release"]}),
        4 => annotations(json!({"chartwright.dev/suspend": "true"})),
        5 => annotations(json!({"chartwright.dev/reconcile-period": "1ns"})),
        6 => annotations(json!({"chartwright.dev/kept-results": "shop/a-secret"})),
        7 => {
            annotations(json!({"chartwright.dev/kept-results": "torture-hmac-key", "chartwright.dev/regenerate": "1"}))
        }
        8 => annotations(json!({"chartwright.dev/takeover": "operator-sdk"})),
        9 => annotations(json!({
            "applyset.kubernetes.io/contains-group-kinds": kinds, "applyset.kubernetes.io/additional-namespaces": "yard,shop",
        })),
        10 => annotations(json!({
            "applyset.kubernetes.io/contains-group-kinds": kinds,
            "applyset.kubernetes.io/additional-namespaces": many("ns", "", 200),
        })),
        11 => annotations(json!({"applyset.kubernetes.io/contains-group-kinds": many("Kind", ".none.test", 2_000)})),
        12 => json!({"labels": {
            "applyset.kubernetes.io/id": a["metadata"]["labels"]["applyset.kubernetes.io/id"], (PART_OF): "applyset-x",
            (OPERATOR): "torture",
        }}),
        13 => annotations(json!({
            "chartwright.dev/force-at": "1", "chartwright.dev/reset-at": "1", "chartwright.dev/requested-at": "1",
            "chartwright.dev/prune": "true", "chartwright.dev/force": "true", (TRACKING): uid(&a),
        })),
        14 => {
            annotations(json!({"chartwright.dev/run-plan": "../../x", "chartwright.dev/nothing": "x".repeat(200_000)}))
        }
        _ => json!({"ownerReferences": [{
            "apiVersion": "torture.test/v1", "kind": "Widget", "name": "a", "uid": uid(&a), "controller": true,
            "blockOwnerDeletion": true,
        }]}),
    }
}

pub const STATUSES: usize = 10;

/// A status that says of `a`'s members that they are his.
fn robber(history: &History) -> Value {
    let mut status = target(history)["status"].take();
    status["observedGeneration"] = 1_000_000.into();
    status
}

pub fn status(history: &History, number: usize) -> Value {
    let conditions = json!([{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "x".repeat(10_000), "observedGeneration": 9,
        "lastTransitionTime": "2099-01-01T00:00:00Z",
    }]);
    let text = "x".repeat(100_000);
    match number {
        0 => Value::Null,
        1 => robber(history),
        2 => {
            let mut status = robber(history);
            for row in status["inventory"].as_array_mut().into_iter().flatten() {
                row["namespace"] = "yard".into();
            }
            status
        }
        3 => json!({"inventory": "text", "release": 5, "hooks": [], "conditions": {}, "waves": "x", "notes": {}}),
        4 => json!({"inventory": [null, 5, {}, {"kind": "ConfigMap"}, {"kind": "", "name": "../..", "uid": 5}]}),
        5 => {
            json!({"release": {"revision": -1, "inputs": text, "lookups": [text, "v1/Secret/shop/a-secret", 5], "version": 99}})
        }
        6 => json!({"release": {"revision": 18_446_744_073_709_551_615_u64, "record": 99, "parts": 1_000_000}}),
        7 => json!({"conditions": conditions, "observedGeneration": -9_000_000_000_000_000_000_i64}),
        8 => json!({"hooks": {"notRun": [text]}, "notes": text, "failures": 4_000_000_000_u64, "retries": "x"}),
        _ => json!({"inventory": (0..2_000).map(|number| json!({
            "kind": "ConfigMap", "group": "", "namespace": format!("ns{}", number % 200),
            "name": format!("n{number}"), "uid": "u",
        })).collect::<Vec<_>>()}),
    }
}
