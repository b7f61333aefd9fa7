//! Releases for the page, without a cluster: real rows and details, made of custom resources and objects as an API server sends them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chartwright_core::dashboard::{ReleaseDetail, ReleaseKey, ReleaseRow};
use chartwright_core::diff::{
    ChangeOperation, ChartChange, HookRuns, ObjectChange, Refusal, ReleaseDiff, Summary, summarize,
};
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::report::ReportFacts;
use chartwright_operator::dashboard::{Board, DashboardSource};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

pub struct Fixture {
    board: Arc<Board>,
    facts: Mutex<BTreeMap<ReleaseKey, ReportFacts>>,
}

impl DashboardSource for Fixture {
    fn board(&self) -> Arc<Board> {
        self.board.clone()
    }

    fn release(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let facts = self.facts.lock().unwrap().get(&key).cloned();
        async move { Ok(facts.map(|facts| json!(ReleaseDetail::of(&facts, Timestamp::now())))) }.boxed()
    }

    fn changes(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Value, String>> {
        let hostile = key.name == HOSTILE;
        let words = move |text: &str| {
            if hostile {
                ATTACKS[0].to_owned()
            } else {
                text.to_owned()
            }
        };
        let id = |kind: &str| {
            let name = if hostile { words("") } else { key.name.clone() };
            ObjectId::new(GroupKind::parse(kind), key.namespace.as_str(), name.as_str())
        };
        let mut diff = ReleaseDiff {
            group_kind: key.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            chart: ChartChange::default(),
            summary: Summary::default(),
            changes: vec![ObjectChange {
                object: id("Deployment.apps"),
                operation: ChangeOperation::Changed,
                diff: format!("@@ -1 +1 @@\n-image: v1\n+image: {}\n", words("v2")),
                restarts: true,
                is_rendered_only: false,
            }],
            hooks: vec![HookRuns {
                name: "pre-upgrade".to_owned(),
                objects: vec![id("Job.batch")],
            }],
            plans: Vec::new(),
            held: Vec::new(),
            refusals: vec![Refusal {
                object: Some(id("Ingress.networking.k8s.io")),
                reason: "Invalid".to_owned(),
                message: words("spec.rules"),
            }],
            stalled: None,
            notes: vec![words("a note")],
        };
        diff.summary = summarize(&diff);
        async move { Ok(json!(diff)) }.boxed()
    }

    fn values(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Value, String>> {
        let name = if key.name == HOSTILE { ATTACKS[0] } else { "v1.4.2" };
        let row = |path: &str, value: Value, origin: &str| json!({"path": path, "value": value, "secret": false, "origin": origin});
        let rows = json!([
            {"path": "database.password", "secret": true, "origin": "valuesFrom[0]: Secret shop/checkout-db"},
            row("ingress.hosts[0]", json!("checkout.example.com"), "CR"),
            row("image.repository", json!("registry.example.com/checkout"), "chart default"),
            row("image.tag", json!(name), "CR"),
            row("logLevel", json!("info"), "watch values"),
            row("replicas", json!(3), "CR"),
            row("resources.limits.memory", json!("256Mi"), "chart default"),
            row("tolerations", json!([]), "chart default"),
        ]);
        async move { Ok(rows) }.boxed()
    }
}

/// Texts that would run in a page which takes them for HTML.
pub const ATTACKS: [&str; 6] = [
    "<img src=x onerror=\"window.attacked=1\">",
    "<script>window.attacked=1</script>",
    "\"><svg onload=window.attacked=1>",
    "javascript:window.attacked=1",
    "</textarea></title></style><iframe srcdoc='<script>parent.attacked=1</script>'>",
    "templates/x.yaml:1<a href=javascript:window.attacked=1>\u{202e}\u{1b}[31m\u{0}</a>",
];

/// The name of the release in which every text is an attack.
pub const HOSTILE: &str = "hostile";

pub fn ago(seconds: u64) -> String {
    let at = Timestamp::now() - Duration::from_secs(seconds);
    at.round(jiff::Unit::Second).unwrap().to_string()
}

pub fn kind(name: &str) -> GroupKind {
    GroupKind::new("apps.example.com", name)
}

/// A custom resource with a condition `Ready`.
pub fn resource(place: (&str, &str), ready: &str, reason: &str, message: &str, age: u64) -> Value {
    json!({
        "metadata": {"namespace": place.0, "name": place.1, "uid": "u", "creationTimestamp": ago(age), "generation": 4},
        "status": {
            "observedGeneration": 4,
            "release": {"name": place.1, "chart": "webapp", "version": "2.3.1", "revision": 4},
            "conditions": [{
                "type": "Ready", "status": ready, "reason": reason, "message": message, "observedGeneration": 4,
                "lastTransitionTime": ago(age.min(240)),
            }],
        },
    })
}

fn object(api_version: &str, kind: &str, name: &str, owner: Option<&str>, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}-{kind}"), "creationTimestamp": ago(300), "generation": 1},
    });
    if let Some(owner) = owner {
        object["metadata"]["ownerReferences"] = json!([{"uid": owner, "controller": true}]);
    }
    json_patch::merge(&mut object, &rest);
    object
}

fn pod(name: &str, is_ready: bool) -> Value {
    let state = if is_ready {
        json!({"running": {"startedAt": ago(200)}})
    } else {
        let message = "Back-off pulling image \"registry.example.com/checkout:v1.4.2\": not found";
        json!({"waiting": {"reason": "ImagePullBackOff", "message": message}})
    };
    let ready = if is_ready { "True" } else { "False" };
    object(
        "v1",
        "Pod",
        name,
        Some("uid-checkout-7c9f-ReplicaSet"),
        json!({
            "spec": {"containers": [{"name": "checkout", "image": "registry.example.com/checkout:v1.4.2"}]},
            "status": {
                "phase": if is_ready { "Running" } else { "Pending" },
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": ago(200)}],
                "containerStatuses": [{"name": "checkout", "ready": is_ready, "restartCount": 0, "state": state}],
            },
        }),
    )
}

/// A release that waits for a pod, with hooks, plans, history and drift.
fn checkout() -> ReportFacts {
    let mut custom = resource(
        ("shop", "checkout"),
        "False",
        "Progressing",
        "Deployment checkout: 2 of 3 pods are ready",
        900_000,
    );
    let member = |group: &str, kind: &str, name: &str, wave: i32| json!({"group": group, "version": "v1", "kind": kind, "namespace": "shop", "name": name, "uid": format!("uid-{name}-{kind}"), "wave": wave});
    let status = &mut custom["status"];
    status["inventory"] = json!([
        member("", "ConfigMap", "checkout-settings", 0),
        member("", "Service", "checkout", 0),
        member("apps", "Deployment", "checkout", 1),
        member("apps", "StatefulSet", "checkout-queue", 1),
        member("networking.k8s.io", "Ingress", "checkout", 2),
    ]);
    let run = |event: &str, name: &str, phase: &str, started: u64, ended: u64, message: &str| {
        json!({
            "event": event, "group": "batch", "kind": "Job", "namespace": "shop", "name": name, "run": "1", "phase": phase,
            "started": ago(started), "ended": ago(ended), "message": message,
        })
    };
    status["hooks"] = json!({"runs": [
        run("pre-upgrade", "checkout-migrate", "Succeeded", 310, 262, ""),
        run("post-upgrade", "checkout-smoke-test", "Failed", 90, 72, "exit code 1; its log ends with:\nGET /health: 503 Service Unavailable"),
    ]});
    status["plans"] = json!([{
        "name": "backup", "schedule": "0 3 * * *", "timeZone": "Europe/Berlin", "count": 31, "phase": "Succeeded", "started": ago(40_000),
        "ended": ago(39_930), "next": (Timestamp::now() + Duration::from_secs(46_400)).round(jiff::Unit::Second).unwrap().to_string(),
        "runs": [
            {"run": 31, "by": "schedule", "phase": "Succeeded", "started": ago(40_000), "ended": ago(39_930)},
            {"run": 30, "by": "request", "phase": "Failed", "started": ago(126_400), "ended": ago(126_300)},
        ],
    }]);
    let revision = |number: i64, version: &str, age: u64, more: Value| {
        let mut revision = json!({"revision": number, "generation": number, "chart": "webapp", "version": version, "appVersion": "1.4.2",
            "deployed": ago(age)});
        json_patch::merge(&mut revision, &more);
        revision
    };
    status["history"] = json!([
        revision(1, "2.1.0", 900_000, json!({"healthy": true, "kept": true})),
        revision(
            2,
            "2.2.0",
            500_000,
            json!({"failed": "Deployment checkout: not ready within 5m"})
        ),
        revision(3, "2.2.1", 400_000, json!({"healthy": true, "kept": true})),
        revision(4, "2.3.1", 300, json!({})),
    ]);
    let drifted = json!({"type": "Drifted", "status": "True", "reason": "Contested", "lastTransitionTime": ago(3600),
        "message": "Deployment checkout: .spec.replicas is changed again and again by kubectl-scale"});
    status["conditions"].as_array_mut().unwrap().push(drifted);
    status["notes"] =
        "Checkout is at https://checkout.example.com\nRun a backup: chartwright plan run webapp checkout backup\n"
            .into();
    let mut facts = ReportFacts::new(kind("WebApp"), custom);
    let rolled_out = json!({"spec": {"replicas": 3}, "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 2,
        "availableReplicas": 2, "unavailableReplicas": 1}});
    let queue = json!({"spec": {"replicas": 1}, "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
        "currentReplicas": 1, "availableReplicas": 1, "currentRevision": "a", "updateRevision": "a"}});
    facts.objects = vec![
        object("v1", "ConfigMap", "checkout-settings", None, json!({})),
        object(
            "v1",
            "Service",
            "checkout",
            None,
            json!({"spec": {"clusterIP": "10.0.0.1"}}),
        ),
        object("apps/v1", "Deployment", "checkout", None, rolled_out),
        object(
            "apps/v1",
            "ReplicaSet",
            "checkout-7c9f",
            Some("uid-checkout-Deployment"),
            json!({"spec": {"replicas": 3},
            "status": {"observedGeneration": 1, "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 2}}),
        ),
        pod("checkout-7c9f-2xkqz", true),
        pod("checkout-7c9f-9rwtd", true),
        pod("checkout-7c9f-l5n7v", false),
        object("apps/v1", "StatefulSet", "checkout-queue", None, queue),
        object(
            "networking.k8s.io/v1",
            "Ingress",
            "checkout",
            None,
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}}}),
        ),
    ];
    facts
}

/// A release whose chart cannot be rendered.
fn search() -> ReportFacts {
    let message = "webapp/templates/deployment.yaml:24:18: executing \"webapp/templates/deployment.yaml\": wrong type for value; \
        expected string; got map[string]interface {}";
    let mut custom = resource(("shop", "search"), "False", "RenderFailed", message, 5400);
    let stalled = json!({"type": "Stalled", "status": "True", "reason": "RenderFailed", "message": message, "lastTransitionTime": ago(240)});
    custom["status"]["conditions"].as_array_mut().unwrap().push(stalled);
    ReportFacts::new(kind("WebApp"), custom)
}

/// A release in which every text that a client of the API server can choose is an attack.
fn hostile() -> ReportFacts {
    let text = |number: usize| ATTACKS[number % ATTACKS.len()];
    let mut custom = resource(("shop", HOSTILE), "False", text(0), &ATTACKS.join(" "), 60);
    let status = &mut custom["status"];
    status["release"] = json!({"name": text(1), "chart": text(1), "version": text(2), "revision": 1});
    status["inventory"] = json!([{"group": text(0), "version": "v1", "kind": text(1), "namespace": text(3), "name": text(2), "uid": "m", "wave": 0}]);
    status["hooks"] = json!({"runs": [{"event": text(4), "group": text(0), "kind": text(1), "namespace": "shop", "name": text(2), "run": "1",
        "phase": "Failed", "started": ago(30), "ended": ago(20), "message": ATTACKS.join("\n")}]});
    status["plans"] = json!([{"name": text(1), "schedule": text(2), "count": 1, "phase": text(0), "message": text(3), "invalid": text(4),
        "runs": [{"run": 1, "by": "request", "phase": text(5), "started": ago(30), "ended": ago(20)}]}]);
    status["history"] = json!([{"revision": 1, "generation": 1, "chart": text(1), "version": text(2), "appVersion": text(3), "failed": text(4)}]);
    let condition = |name: &str| json!({"type": name, "status": "True", "reason": text(1), "message": text(5), "lastTransitionTime": ago(9)});
    status["conditions"]
        .as_array_mut()
        .unwrap()
        .extend([condition("Drifted"), condition("PruneHeld")]);
    status["notes"] = ATTACKS.join("\n").into();
    custom["metadata"]["labels"] = json!({text(0): text(1)});
    ReportFacts::new(kind("WebApp"), custom)
}

impl Fixture {
    pub fn new() -> Arc<Self> {
        let fixture = Fixture {
            board: Arc::new(Board::new("operator shop-operator".to_owned())),
            facts: Mutex::default(),
        };
        for facts in [checkout(), search(), hostile()] {
            fixture.put(facts);
        }
        let healthy = "all members are ready";
        for (name, kind_name, namespace, ready, reason, message, age) in [
            ("catalog", "WebApp", "shop", "True", "Succeeded", healthy, 2_000_000),
            (
                "payments",
                "WebApp",
                "shop",
                "False",
                "HookRunning",
                "pre-upgrade: Job payments-migrate runs",
                700_000,
            ),
            ("orders-db", "Postgres", "shop", "True", "Succeeded", healthy, 3_000_000),
            ("events", "Kafka", "platform", "Unknown", "NewGeneration", "", 86_000),
            (
                "mail",
                "WebApp",
                "platform",
                "False",
                "MemberFailed",
                "Deployment mail: pod mail-6d5c-8xk2p: CrashLoopBackOff: exit code 137: out of memory",
                43_000,
            ),
        ] {
            let custom = resource((namespace, name), ready, reason, message, age);
            fixture.put(ReportFacts::new(kind(kind_name), custom));
        }
        for number in 0..120 {
            let place = (format!("team-{}", number % 8), format!("app-{number:03}"));
            let custom = resource(
                (&place.0, &place.1),
                "True",
                "Succeeded",
                healthy,
                10_000 * (number + 2),
            );
            fixture.put(ReportFacts::new(kind("WebApp"), custom));
        }
        fixture.board.set_listed(true);
        Arc::new(fixture)
    }

    /// Adds or replaces a release.
    pub fn put(&self, facts: ReportFacts) {
        let row = ReleaseRow::of(&facts.kind, &facts.resource);
        self.facts.lock().unwrap().insert(row.key(), facts);
        self.board.change(|index| index.put(row));
    }

    /// Removes a release.
    pub fn remove(&self, name: &str) {
        let mut facts = self.facts.lock().unwrap();
        let key = facts.keys().find(|key| key.name == name).cloned().unwrap();
        facts.remove(&key);
        self.board.change(|index| index.remove(&key));
    }
}
