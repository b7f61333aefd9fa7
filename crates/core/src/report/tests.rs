mod commands;
mod members;
mod services;
mod stateful_sets;

use serde_json::{Value, json};

use super::*;
use crate::identity::ObjectId;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// A custom resource with these members in its inventory, not ready for this reason.
fn resource(reason: &str, message: &str, members: &[(&str, &str, &str)]) -> Value {
    let inventory = members.iter().map(|(group, kind, name)| {
        json!({"group": group, "version": "v1", "kind": kind, "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "wave": 0})
    });
    json!({
        "metadata": {
            "name": "web", "namespace": "shop", "generation": 1, "uid": "u",
            "managedFields": [{"manager": "chartwright-status", "time": "2026-01-01T00:59:59Z"}],
        },
        "status": {
            "release": {"revision": 1, "chart": "app", "version": "1.0.0"},
            "inventory": inventory.collect::<Vec<_>>(),
            "conditions": [{
                "type": "Ready", "status": if reason.is_empty() { "True" } else { "False" }, "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    })
}

fn object(api: &str, kind: &str, name: &str, owner: Option<&str>, more: &Value) -> Value {
    let owners = owner.map(|owner| json!([{"uid": format!("uid-{owner}"), "controller": true}]));
    let mut object = json!({
        "apiVersion": api, "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "ownerReferences": owners},
    });
    json_patch::merge(&mut object, more);
    object
}

fn facts(resource: Value, objects: Vec<Value>) -> ReportFacts {
    ReportFacts {
        status_manager: "chartwright-status".into(),
        objects,
        ..ReportFacts::new(GroupKind::new("example.com", "Web"), resource)
    }
}

/// The first cause: member, object and message.
fn first(facts: &ReportFacts) -> String {
    let report = ReleaseReport::of(facts, now());
    let Some(cause) = report.causes.first() else {
        return "none".to_owned();
    };
    let name = |id: &Option<ObjectId>| id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
    format!("{}/{}: {}", name(&cause.member), name(&cause.object), cause.message)
}

/// A Deployment that waits for its only pod.
fn deployment(pod: &Value) -> Vec<Value> {
    let one = json!({"spec": {"replicas": 1}, "status": {"replicas": 1}});
    vec![
        object(
            "apps/v1",
            "Deployment",
            "web",
            None,
            &json!({"spec": {"replicas": 1}, "status": {}}),
        ),
        object("apps/v1", "ReplicaSet", "web-1", Some("web"), &one),
        object("v1", "Pod", "web-1-a", Some("web-1"), pod),
    ]
}

fn deployment_facts(pod: &Value) -> ReportFacts {
    let members = [("apps", "Deployment", "web")];
    facts(
        resource("Progressing", "Deployment web: 0 of 1", &members),
        deployment(pod),
    )
}

fn event(about: &str, kind: &str, reason: &str, message: &str) -> Value {
    json!({"involvedObject": {"uid": format!("uid-{about}")}, "type": kind, "reason": reason, "message": message,
        "firstTimestamp": "2026-01-01T00:10:00Z", "lastTimestamp": "2026-01-01T00:20:00Z"})
}

#[test]
fn a_pod_explains_its_workload() {
    let waiting = |reason: &str, message: &str| json!({"status": {"containerStatuses": [{"name": "app", "state": {"waiting": {"reason": reason, "message": message}}}]}});
    let running = json!({"status": {"containerStatuses": [{"name": "app", "state": {"running": {}}}]}});
    let gone = json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}});
    for (pod, event, expected) in [
        (
            waiting("ErrImagePull", "no such image"),
            None,
            "ErrImagePull: no such image",
        ),
        (running.clone(), None, "container app runs but is not ready"),
        (
            running,
            Some(event("web-1-a", "Warning", "Unhealthy", "Readiness probe failed: 500")),
            "container app runs but is not ready: Unhealthy: Readiness probe failed: 500",
        ),
        (
            waiting("ContainerCreating", ""),
            Some(event(
                "web-1-a",
                "Warning",
                "FailedMount",
                "configmap \"conf\" not found",
            )),
            "FailedMount: configmap \"conf\" not found",
        ),
        (gone, None, "its node n1 is not ready"),
    ] {
        let mut facts = deployment_facts(&pod);
        facts.events.extend(event);
        facts.unavailable_nodes = [("n1".to_owned(), "is not ready".to_owned())].into();
        let shown = first(&facts);
        assert!(
            shown.starts_with("web/web-1-a: ") && shown.ends_with(expected),
            "{shown} {expected}"
        );
    }
}

#[test]
fn an_event_explains_what_has_no_pods() {
    let mut facts = deployment_facts(&json!({}));
    facts.objects.pop();
    facts.events = vec![
        event("web-1", "Normal", "Created", "no matter"),
        event("web-1", "Warning", "FailedCreate", "exceeded quota"),
        event("other", "Warning", "FailedCreate", "of another object"),
    ];
    let report = ReleaseReport::of(&facts, now());
    let cause = &report.causes[0];
    assert!(cause.message.ends_with("FailedCreate: exceeded quota"), "{cause:?}");
    assert_eq!(cause.since.as_deref(), Some("2026-01-01T00:10:00Z"));
    assert_eq!(cause.commands, ["kubectl describe replicaset.apps web-1 -n shop"]);
    let failure = "pods \"web-1-x\" is forbidden: exceeded quota: few";
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": failure});
    facts.objects[1]["status"]["conditions"] = json!([condition]);
    facts.events = vec![event(
        "web-1",
        "Warning",
        "FailedCreate",
        &format!("Error creating: {}", failure.replace("1-x", "1-y")),
    )];
    assert_eq!(
        first(&facts),
        "web/web-1: pods \"web-1-...\" is forbidden: exceeded quota: few",
        "once"
    );
}

#[test]
fn former_pods_explain_nothing() {
    let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    let crashed = json!({"status": {"containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
    let mut facts = deployment_facts(&crashed);
    facts
        .objects
        .push(object("v1", "Pod", "web-1-0", Some("web-1"), &evicted));
    let mut leaving = object("v1", "Pod", "web-1-1", Some("web-1"), &json!({}));
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    facts.objects.push(leaving);
    assert_eq!(first(&facts), "web/web-1-a: CrashLoopBackOff");
    let ready = json!({"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1, "conditions": [
        {"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ]});
    facts.objects[0]["status"] = ready;
    facts.resource["status"]["conditions"][0]["status"] = "True".into();
    assert_eq!(first(&facts), "none", "the Deployment is healthy");
}

#[test]
fn the_last_job_of_a_cron_job_counts() {
    let job = |name: &str, created: &str, condition: &str| {
        let status = json!({"conditions": [{"type": condition, "status": "True", "message": "deadline"}]});
        object(
            "batch/v1",
            "Job",
            name,
            Some("web"),
            &json!({"metadata": {"creationTimestamp": created}, "status": status}),
        )
    };
    for (last, expected) in [("Failed", "web/b: deadline"), ("Complete", "none")] {
        let jobs = [
            job("a", "2026-01-01T00:00:00Z", "Failed"),
            job("b", "2026-01-01T00:01:00Z", last),
        ];
        let cron = object(
            "batch/v1",
            "CronJob",
            "web",
            None,
            &json!({"spec": {"schedule": "* * * * *"}}),
        );
        let objects = [cron].into_iter().chain(jobs).collect();
        assert_eq!(
            first(&facts(resource("", "", &[("batch", "CronJob", "web")]), objects)),
            expected
        );
    }
}

#[test]
fn a_pod_waits_for_its_claim() {
    let pod = json!({
        "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "unbound claim"}]},
    });
    let mut facts = deployment_facts(&pod);
    facts.objects.push(object(
        "v1",
        "PersistentVolumeClaim",
        "data",
        None,
        &json!({"status": {"phase": "Pending"}}),
    ));
    facts.events = vec![event("data", "Normal", "FailedBinding", "no storage class is set")];
    let shown = first(&facts);
    assert!(
        shown.starts_with("web/data: ") && shown.ends_with("FailedBinding: no storage class is set"),
        "{shown}"
    );
}

#[test]
fn the_operators_own_reasons_come_first() {
    let message = "app/templates/a.yaml:3:5: nil pointer";
    let facts = facts(
        resource("RenderFailed", message, &[("", "ConfigMap", "gone")]),
        Vec::new(),
    );
    let report = ReleaseReport::of(&facts, now());
    let messages: Vec<&str> = report.causes.iter().map(|cause| cause.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "RenderFailed: app/templates/a.yaml:3:5: nil pointer",
            "the API server does not have it"
        ]
    );
    assert_eq!(report.causes[0].origin.as_deref(), Some("app/templates/a.yaml:3:5"));
    assert_eq!(report.causes[0].since.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(report.causes[0].commands[0], "kubectl edit web.example.com web -n shop");
}

#[test]
fn the_template_of_a_member_is_named() {
    let mut facts = deployment_facts(&json!({}));
    let id = ObjectId::new(GroupKind::new("apps", "Deployment"), "shop", "web");
    facts.templates.insert(id, "app/templates/web.yaml".into());
    let report = ReleaseReport::of(&facts, now());
    assert_eq!(report.causes[0].origin.as_deref(), Some("app/templates/web.yaml"));
}

#[test]
fn the_origin_of_a_message_is_found() {
    for (message, expected) in [
        (
            "execution error at (app/templates/a.yaml:3:5): no",
            Some("app/templates/a.yaml:3:5"),
        ),
        (
            "app/templates/b.yaml: Gadget is not served",
            Some("app/templates/b.yaml"),
        ),
        (
            "values do not fit: at '/web/replicas': got string, want integer",
            Some("the value .web.replicas"),
        ),
        ("a template failed", None),
        ("see templates/", None),
        ("at '/", None),
    ] {
        assert_eq!(origin::origin(message).as_deref(), expected, "{message}");
    }
    assert_eq!(origin::origin(&format!("templates/a.{}", "y".repeat(500))), None);
}

#[test]
fn what_health_does_not_show_is_found() {
    let selector = json!({"spec": {"selector": {"app": "web"}}});
    let slice = json!({"endpoints": [{"conditions": {"ready": false}}]});
    let metrics = json!({"status": {"conditions": [
        {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "no metrics"},
    ]}});
    for (members, objects, expected) in [
        (
            ("", "Service", "web"),
            vec![
                object("v1", "Service", "web", None, &selector),
                object("discovery.k8s.io/v1", "EndpointSlice", "web-x", Some("web"), &slice),
            ],
            "none",
        ),
        (
            ("networking.k8s.io", "Ingress", "web"),
            vec![object(
                "networking.k8s.io/v1",
                "Ingress",
                "web",
                None,
                &json!({"spec": {"ingressClassName": "x"}}),
            )],
            "web/: there is no IngressClass x: no controller serves it",
        ),
        (
            ("autoscaling", "HorizontalPodAutoscaler", "web"),
            vec![object(
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                "web",
                None,
                &metrics,
            )],
            "web/: it does not scale: FailedGetResourceMetric: no metrics",
        ),
        (
            ("batch", "CronJob", "web"),
            vec![object(
                "batch/v1",
                "CronJob",
                "web",
                None,
                &json!({"spec": {"suspend": true}}),
            )],
            "web/: it is suspended (spec.suspend): it starts no pods",
        ),
    ] {
        let facts = ReportFacts {
            ingress_classes: Some(IngressClasses {
                names: vec!["nginx".into()],
                has_default: false,
            }),
            ..facts(resource("", "", &[members]), objects)
        };
        assert_eq!(first(&facts), expected);
    }
}

#[test]
fn the_next_step_is_that_of_the_state() {
    let mut failed = resource("ApplyFailed", "no", &[]);
    failed["status"]["failures"] = 5.into();
    let mut stalled = failed.clone();
    let condition = json!({"type": "Stalled", "status": "True"});
    stalled["status"]["conditions"].as_array_mut().unwrap().push(condition);
    let mut suspended = stalled.clone();
    suspended["metadata"]["annotations"] = json!({"chartwright.dev/suspend": "true"});
    let mut edited = resource("", "", &[]);
    edited["metadata"]["generation"] = 2.into();
    edited["status"]["conditions"][0]["observedGeneration"] = 1.into();
    for (resource, expected, has_time) in [
        (failed, "tries again at growing intervals", true),
        (stalled, "waits for a change", false),
        (suspended, "until the release is resumed", false),
        (resource("", "", &[]), "corrects drift", false),
        (resource("Progressing", "x", &[]), "waits for the members", false),
        (
            resource("DependencyNotReady", "x", &[]),
            "the release that it depends on",
            false,
        ),
        (edited, "has not handled the last change", false),
        (json!({"metadata": {"name": "web"}}), "an operator that watches", false),
    ] {
        let next = ReleaseReport::of(&facts(resource, Vec::new()), now()).next;
        assert!(next.message.contains(expected), "{next:?} {expected}");
        let soon = |at: &str| at > "2026-01-01T01:00:10Z" && at < "2026-01-01T01:00:21Z";
        assert_eq!(next.at.as_deref().is_some_and(soon), has_time, "{next:?}");
    }
}

#[test]
fn a_kind_that_was_not_read_is_no_cause() {
    let mut facts = facts(
        resource(
            "Progressing",
            "waits",
            &[("", "Locked", "a"), ("", "Secret", "c"), ("", "Gone", "b")],
        ),
        Vec::new(),
    );
    facts.unread = vec![Unread {
        kind: GroupKind::new("", "Locked"),
        namespace: "shop".into(),
        message: "forbidden".into(),
    }];
    let report = ReleaseReport::of(&facts, now());
    let healths: Vec<_> = report.waves[0].members.iter().map(|node| node.health).collect();
    assert_eq!(healths, [NodeHealth::Unknown, NodeHealth::Unknown, NodeHealth::Missing]);
    assert_eq!(first(&facts), "b/: the API server does not have it");
}

#[test]
fn a_forged_name_gets_no_command() {
    let facts = facts(
        resource("Progressing", "waits", &[("", "ConfigMap", "$(reboot)")]),
        Vec::new(),
    );
    let report = ReleaseReport::of(&facts, now());
    assert_eq!(report.causes[0].commands, Vec::<String>::new());
}

#[test]
fn a_report_is_bounded() {
    let long = "x".repeat(100_000);
    let pod = json!({"status": {"phase": "Failed", "reason": long, "message": long}});
    let mut facts = deployment_facts(&pod);
    facts
        .objects
        .extend((0..500).map(|n| object("v1", "Pod", &format!("p-{n}"), Some("web-1"), &pod)));
    facts.events = vec![event("web-1-a", "Warning", &long, &long)];
    let report = ReleaseReport::of(&facts, now());
    let replica_set = &report.waves[0].members[0].children[0];
    assert_eq!((replica_set.children.len(), replica_set.more), (20, 481));
    assert!(serde_json::to_string(&report).unwrap().len() < 100_000);
}

#[test]
fn owners_in_a_cycle_and_hostile_facts_make_no_panic() {
    let one = object("apps/v1", "ReplicaSet", "web", Some("b"), &json!({}));
    let other = object("apps/v1", "ReplicaSet", "b", Some("web"), &json!({}));
    let cycle = facts(resource("", "", &[("apps", "ReplicaSet", "web")]), vec![one, other]);
    assert_eq!(ReleaseReport::of(&cycle, now()).waves.len(), 1);
    for odd in [
        json!(null),
        json!([]),
        json!({"metadata": 1, "status": "x"}),
        json!({"status": {"inventory": 5}}),
    ] {
        let facts = ReportFacts {
            events: vec![odd.clone()],
            ..facts(odd.clone(), vec![odd])
        };
        ReleaseReport::of(&facts, now());
    }
}
