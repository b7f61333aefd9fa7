//! The overlay on a fake API server in the place of the cluster.

use std::time::Instant;

use fake_apiserver::call::{ApiCall, CallServer as _, ask};
use fake_apiserver::{BUILT_IN, FakeServer, ServedKind};
use serde_json::{Value, json};

use super::{ClusterOverlay, ObjectRole};

const MAPS: &str = "/api/v1/namespaces/shop/configmaps";

/// A cluster with a custom resource, and an overlay of it.
fn world() -> (FakeServer, ClusterOverlay) {
    let live = FakeServer::with_kinds(BUILT_IN);
    let overlay = over(&live, live.client("shop"), None);
    (live, overlay)
}

/// An overlay of a cluster, by a client.
fn over(live: &FakeServer, client: kube::Client, checked_until: Option<Instant>) -> ClusterOverlay {
    let kind = ServedKind::defined("a.test", "v1", "Web", "webs", true);
    live.store().serve(kind);
    let resource = json!({
        "apiVersion": "a.test/v1", "kind": "Web", "metadata": {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
    });
    ClusterOverlay::new(client, &kind, resource, checked_until)
}

/// A ConfigMap as the operator applies it: onto nothing, or onto a UID.
fn member(name: &str, data: &str, uid: Option<&str>) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": "shop", "labels": {"app": "a"},
        "annotations": {"chartwright.dev/tracking-id": "u:ConfigMap.:shop/a"},
    });
    match uid {
        Some(uid) => metadata["uid"] = uid.into(),
        None => metadata["resourceVersion"] = "1".into(),
    }
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": data}})
}

fn apply(name: &str, object: &Value) -> ApiCall {
    let uri = format!(
        "{MAPS}/{name}?fieldManager=chartwright&force={}",
        object["metadata"]["uid"].is_string()
    );
    ApiCall::new("APPLY", &uri, object)
}

/// Sends a call to the overlay.
async fn send(overlay: &ClusterOverlay, call: ApiCall) -> (u16, Value) {
    use http_body_util::BodyExt as _;
    let response = overlay.respond(call).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn get(overlay: &ClusterOverlay, path: &str) -> (u16, Value) {
    send(overlay, ApiCall::new("GET", path, &Value::Null)).await
}

/// Writes into the cluster. Returns the object.
async fn write(live: &FakeServer, name: &str, object: &Value) -> Value {
    ask(live, apply(name, object)).await.unwrap().1
}

fn roles(overlay: &ClusterOverlay) -> Vec<(String, ObjectRole, bool)> {
    let journal = overlay.journal();
    let written = journal.objects.iter().filter(|(_, touched)| touched.is_written);
    written
        .map(|(place, touched)| (place.name.clone(), touched.role, touched.is_unchecked))
        .collect()
}

#[tokio::test]
async fn members_are_read_as_they_would_be() {
    let (live, overlay) = world();
    let known = write(&live, "known", &member("known", "1", None)).await;
    write(&live, "other", &member("other", "1", None)).await;
    let version = live.store().version;
    let uid = known["metadata"]["uid"].as_str();
    assert_eq!(send(&overlay, apply("known", &member("known", "2", uid))).await.0, 200);
    assert_eq!(send(&overlay, apply("new", &member("new", "3", None))).await.0, 201);
    assert_eq!(get(&overlay, &format!("{MAPS}/known")).await.1["data"]["a"], "2");
    let (status, listed) = get(&overlay, &format!("{MAPS}?labelSelector=app%3Da")).await;
    let mut found: Vec<(String, String)> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["metadata"]["name"].to_string(), item["data"]["a"].to_string()))
        .collect();
    found.sort();
    let expected =
        [("known", "2"), ("new", "3"), ("other", "1")].map(|(name, data)| (format!("{name:?}"), format!("{data:?}")));
    assert_eq!((status, found), (200, expected.to_vec()));
    let (_, one) = get(&overlay, &format!("{MAPS}?fieldSelector=metadata.name%3Dnew")).await;
    assert!(
        one["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|item| item["metadata"]["name"] == "new")
    );
    assert_eq!(
        send(&overlay, ApiCall::new("DELETE", &format!("{MAPS}/other"), &json!({})))
            .await
            .0,
        200
    );
    assert_eq!(get(&overlay, &format!("{MAPS}/other")).await.0, 404);
    assert_eq!(
        roles(&overlay),
        [
            ("known", ObjectRole::Member, false),
            ("new", ObjectRole::Member, false),
            ("other", ObjectRole::Member, false)
        ]
        .map(|(name, role, unchecked)| (name.to_owned(), role, unchecked))
    );
    assert_eq!(live.store().version, version, "the cluster is unchanged");
}

#[tokio::test]
async fn a_write_without_a_change_is_no_write() {
    let (live, overlay) = world();
    let known = write(&live, "known", &member("known", "1", None)).await;
    let uid = known["metadata"]["uid"].as_str();
    assert_eq!(send(&overlay, apply("known", &member("known", "1", uid))).await.0, 200);
    assert!(roles(&overlay).is_empty());
}

#[tokio::test]
async fn an_existing_object_is_not_created() {
    let (live, overlay) = world();
    write(&live, "known", &member("known", "1", None)).await;
    assert_eq!(send(&overlay, apply("known", &member("known", "2", None))).await.0, 409);
    let known = get(&overlay, &format!("{MAPS}/known")).await;
    assert_eq!((known.0, &known.1["data"]["a"]), (200, &json!("1")));
}

#[tokio::test]
async fn a_second_write_is_checked_as_a_change_of_the_live_object() {
    let (live, overlay) = world();
    let known = write(&live, "known", &member("known", "1", None)).await;
    let uid = known["metadata"]["uid"].as_str();
    send(&overlay, apply("known", &member("known", "2", uid))).await;
    let (status, answer) = send(&overlay, apply("known", &member("known", "3", uid))).await;
    assert_eq!((status, &answer["data"]["a"]), (200, &json!("3")));
    assert_eq!(get(&overlay, &format!("{MAPS}/known")).await.1["data"]["a"], "3");
    // Deleted and created again: the API server still has the old one.
    assert_eq!(
        send(&overlay, ApiCall::new("DELETE", &format!("{MAPS}/known"), &json!({})))
            .await
            .0,
        200
    );
    assert_eq!(send(&overlay, apply("known", &member("known", "4", None))).await.0, 201);
    assert_eq!(get(&overlay, &format!("{MAPS}/known")).await.1["data"]["a"], "4");
    assert!(overlay.journal().objects.values().any(|touched| touched.was_deleted));
    assert_eq!(live.store().objects.values().next().unwrap()["data"]["a"], "1");
}

#[tokio::test]
async fn own_objects_and_hooks_stay_in_the_overlay() {
    let (live, overlay) = world();
    let version = live.store().version;
    let own = [
        (
            "/api/v1/namespaces/shop/secrets/s",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/shop/leases/l",
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}),
        ),
        (
            "/apis/a.test/v1/namespaces/shop/webs/a/status",
            json!({"apiVersion": "a.test/v1", "kind": "Web", "metadata": {"name": "a"}, "status": {"a": 1}}),
        ),
    ];
    let mut hook = member("h", "1", None);
    hook["metadata"]["annotations"]["chartwright.dev/hook-run"] = "pre-install.1.1.x".into();
    for (path, object) in own {
        let (status, answer) = send(
            &overlay,
            ApiCall::new("APPLY", &format!("{path}?fieldManager=me"), &object),
        )
        .await;
        assert!(status < 300, "{path}: {answer}");
    }
    assert_eq!(send(&overlay, apply("h", &hook)).await.0, 201);
    assert_eq!(overlay.custom_resource().unwrap()["status"]["a"], 1);
    let found: Vec<(String, ObjectRole)> = roles(&overlay)
        .into_iter()
        .map(|(name, role, _)| (name, role))
        .collect();
    for (name, role) in [
        ("s", ObjectRole::Own),
        ("l", ObjectRole::Own),
        ("a", ObjectRole::CustomResource),
        ("h", ObjectRole::Hook),
    ] {
        assert!(found.contains(&(name.to_owned(), role)), "{name}: {found:?}");
    }
    assert_eq!(live.store().version, version);
    // An Event is answered, and goes nowhere.
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}});
    let path = "/apis/events.k8s.io/v1/namespaces/shop/events";
    assert_eq!(send(&overlay, ApiCall::new("POST", path, &event)).await.0, 201);
    assert_eq!(live.store().version, version);
}

#[tokio::test]
async fn nothing_is_checked_after_the_time_for_it() {
    let live = FakeServer::with_kinds(BUILT_IN);
    let known = write(&live, "known", &member("known", "1", None)).await;
    write(&live, "other", &member("other", "1", None)).await;
    let reads = live.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let reads = reads.clone();
        async move {
            let call = ApiCall::read(request).await?;
            assert!(!call.is_write(), "{call}");
            reads.answer(call).await
        }
    });
    let overlay = over(&live, kube::Client::new(service, "shop"), Some(Instant::now()));
    let uid = known["metadata"]["uid"].as_str();
    assert_eq!(send(&overlay, apply("known", &member("known", "2", uid))).await.0, 200);
    assert_eq!(send(&overlay, apply("new", &member("new", "3", None))).await.0, 201);
    let delete = ApiCall::new("DELETE", &format!("{MAPS}/other"), &json!({}));
    assert_eq!(send(&overlay, delete).await.0, 200);
    assert_eq!(get(&overlay, &format!("{MAPS}/known")).await.1["data"]["a"], "2");
    assert_eq!(get(&overlay, &format!("{MAPS}/other")).await.0, 404);
    let expected = ["known", "new", "other"].map(|name| (name.to_owned(), ObjectRole::Member, name != "other"));
    assert_eq!(roles(&overlay), expected);
}

#[tokio::test]
async fn watches_and_connections_are_not_answered() {
    let (_, overlay) = world();
    assert_eq!(get(&overlay, &format!("{MAPS}?watch=true")).await.0, 405);
    let exec = ApiCall::new("GET", "/api/v1/namespaces/shop/pods/a/exec", &Value::Null);
    assert!(overlay.respond(exec).await.is_err());
}

/// A cluster that answers every write with this failure.
fn failing(status: u16, answer: Value) -> ClusterOverlay {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let answer = answer.clone();
        async move {
            let call = ApiCall::read(request).await?;
            let code = http::StatusCode::from_u16(if call.is_write() { status } else { 404 }).unwrap();
            Ok::<_, fake_apiserver::call::BoxError>(fake_apiserver::call::answer(code, &answer))
        }
    });
    let kind = ServedKind::defined("a.test", "v1", "Web", "webs", true);
    let resource =
        json!({"apiVersion": "a.test/v1", "kind": "Web", "metadata": {"name": "a", "namespace": "shop", "uid": "u"}});
    ClusterOverlay::new(kube::Client::new(service, "shop"), &kind, resource, None)
}

#[tokio::test]
async fn a_webhook_without_dry_runs_leaves_the_object_as_rendered() {
    let overlay = failing(
        400,
        json!({"message": "admission webhook \"w\" does not support dry run"}),
    );
    assert_eq!(send(&overlay, apply("new", &member("new", "1", None))).await.0, 201);
    assert_eq!(roles(&overlay), [("new".to_owned(), ObjectRole::Member, true)]);
}

#[tokio::test]
async fn a_refusal_is_noted_until_the_write_succeeds() {
    let overlay = failing(422, json!({"reason": "Invalid", "message": "data: no"}));
    assert_eq!(send(&overlay, apply("new", &member("new", "1", None))).await.0, 422);
    let journal = overlay.journal();
    let refusals: Vec<_> = journal
        .refusals
        .iter()
        .map(|(place, refusal)| (place.name.as_str(), refusal.clone()))
        .collect();
    assert_eq!(refusals, [("new", (422, "Invalid".to_owned(), "data: no".to_owned()))]);
}

#[tokio::test]
async fn a_namespace_of_the_same_run_is_no_refusal() {
    let missing =
        json!({"message": "namespaces \"there\" not found", "details": {"kind": "namespaces", "name": "there"}});
    let overlay = failing(404, missing);
    let elsewhere = |object: &Value| {
        ApiCall::new(
            "APPLY",
            "/api/v1/namespaces/there/configmaps/new?fieldManager=chartwright",
            object,
        )
    };
    let mut object = member("new", "1", None);
    object["metadata"]["namespace"] = "there".into();
    assert_eq!(send(&overlay, elsewhere(&object)).await.0, 404);
    // Another run created it.
    let place = super::ObjectPlace {
        group: String::new(),
        resource: "namespaces".into(),
        namespace: String::new(),
        name: "there".into(),
    };
    let kind = BUILT_IN.iter().find(|kind| kind.plural == "namespaces").unwrap();
    overlay.seed(&place, kind, None, ObjectRole::Member);
    assert_eq!(send(&overlay, elsewhere(&object)).await.0, 201);
    assert!(roles(&overlay).contains(&("new".to_owned(), ObjectRole::Member, true)));
}
