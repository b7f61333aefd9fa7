//! The cases are in `tests/fixtures/health`: one file for each family of kinds, each a list of
//! `{name, object, status, message}`. The clock stands at 2026-01-01T00:01:00Z.

use super::*;

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    object: Value,
    status: HealthStatus,
    message: String,
}

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn kind(object: &Value) -> GroupKind {
    GroupKind::of(object).map_or(GroupKind::new("", ""), |(kind, _)| kind)
}

fn judged(object: &Value) -> Health {
    health(&kind(object), object, now())
}

fn cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/health");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| std::fs::read(file.unwrap().path()).unwrap());
    files
        .flat_map(|text| serde_json::from_slice::<Vec<Case>>(&text).unwrap())
        .collect()
}

#[test]
fn every_fixture_has_its_health() {
    let cases = cases();
    assert!(cases.len() > 70, "fixtures are missing");
    for case in cases {
        let health = judged(&case.object);
        assert_eq!(
            (health.status, health.message),
            (case.status, case.message),
            "{}",
            case.name
        );
    }
}

#[test]
fn the_items_of_a_list_which_do_not_name_their_kind_are_judged_all_the_same() {
    let deployment = serde_json::json!({"metadata": {"generation": 1}, "status": {"observedGeneration": 1}});
    let health = health(&GroupKind::new("apps", "Deployment"), &deployment, now());
    assert_eq!(health.status, HealthStatus::InProgress, "{health:?}");
}

#[test]
fn kinds_without_health_are_well_whatever_their_status() {
    for case in cases() {
        let GroupKind { group, kind } = kind(&case.object);
        let is_well = || {
            matches!(
                judged(&case.object).status,
                HealthStatus::Current | HealthStatus::Terminating
            )
        };
        assert!(has_health(&group, &kind) || is_well(), "{}", case.name);
    }
    for (group, kind) in [
        ("", "ConfigMap"),
        ("rbac.authorization.k8s.io", "Role"),
        ("batch", "CronJob"),
    ] {
        assert!(!has_health(group, kind), "{kind}");
    }
    // The same kind name in another group is another kind.
    for (group, kind) in [
        ("apps", "Deployment"),
        ("", "Service"),
        ("example.com", "Role"),
        ("example.com", "Anything"),
    ] {
        assert!(has_health(group, kind), "{kind}");
    }
}

#[test]
fn malformed_objects_are_no_reason_to_panic() {
    for text in [
        "null",
        "[]",
        "3",
        "{}",
        r#"{"apiVersion": 1, "kind": [], "metadata": "x", "status": "x", "spec": 3}"#,
        r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": "1"}, "status": {"conditions": {"a": 1}}}"#,
        r#"{"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running", "containerStatuses": [1, {"state": 3}], "conditions": [null, 1, {"type": 3}]}}"#,
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": "never"}, "status": {"phase": "Pending"}}"#,
    ] {
        let object: Value = serde_json::from_str(text).unwrap();
        for kind in [
            GroupKind::new("apps", "Deployment"),
            GroupKind::new("", "Pod"),
            kind(&object),
        ] {
            let health = health(&kind, &object, now());
            assert!(!health.message.is_empty(), "{text}");
        }
    }
}
