//! Pods that a StatefulSet does not replace.

use super::*;

/// A StatefulSet after a change of its template, and its pod that cannot be scheduled.
fn rollout(set: &Value, pod: &Value) -> ReportFacts {
    let mut objects = vec![
        object(
            "apps/v1",
            "StatefulSet",
            "db",
            None,
            &json!({
                "metadata": {"generation": 3},
                "spec": {"replicas": 1, "podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "RollingUpdate"}},
                "status": {"observedGeneration": 3, "replicas": 1, "currentRevision": "db-1", "updateRevision": "db-2"},
            }),
        ),
        object(
            "v1",
            "Pod",
            "db-0",
            None,
            &json!({
                "metadata": {
                    "labels": {"controller-revision-hash": "db-1"},
                    "ownerReferences": [{"kind": "StatefulSet", "name": "db", "uid": "uid-db", "controller": true}],
                },
                "status": {"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"},
                ]},
            }),
        ),
    ];
    json_patch::merge(&mut objects[0], set);
    json_patch::merge(&mut objects[1], pod);
    let members = [("apps", "StatefulSet", "db")];
    facts(
        resource("Progressing", "StatefulSet db: 0 of 1 ready", &members),
        objects,
    )
}

#[test]
fn a_pod_with_the_former_template_has_to_be_deleted() {
    let none = json!({});
    let unready = json!({"status": {"phase": "Running", "conditions": null}});
    for (what, set, pod, is_stuck) in [
        ("pending", none.clone(), none.clone(), true),
        ("running, not ready", none.clone(), unready, true),
        (
            "policies by default",
            json!({"spec": {"podManagementPolicy": null, "updateStrategy": null}}),
            none.clone(),
            true,
        ),
        (
            "new template",
            none.clone(),
            json!({"metadata": {"labels": {"controller-revision-hash": "db-2"}}}),
            false,
        ),
        ("no label", none.clone(), json!({"metadata": {"labels": null}}), false),
        (
            "in parallel",
            json!({"spec": {"podManagementPolicy": "Parallel"}}),
            none.clone(),
            false,
        ),
        (
            "not observed",
            json!({"metadata": {"generation": 4}}),
            none.clone(),
            false,
        ),
        (
            "of the partition",
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}}),
            none.clone(),
            false,
        ),
        (
            "above the partition",
            json!({"spec": {"ordinals": {"start": 1}, "updateStrategy": {"rollingUpdate": {"partition": 1}}}}),
            json!({"metadata": {"name": "db-2"}}),
            true,
        ),
        (
            "another owner",
            none.clone(),
            json!({"metadata": {"ownerReferences": [{"kind": "Other", "name": "db", "uid": "uid-db", "controller": true}]}}),
            false,
        ),
        ("ended", none.clone(), json!({"status": {"phase": "Failed"}}), false),
    ] {
        let report = ReleaseReport::of(&rollout(&set, &pod), now());
        let cause = &report.causes[0];
        let name = cause.object.as_ref().map_or("db-0", |object| object.name.as_str());
        let words =
            "the pod still has the former template, and the StatefulSet does not replace a pod that is not ready";
        assert_eq!(cause.message.contains(words), is_stuck, "{what}: {cause:?}");
        let delete = format!("kubectl delete pod {name} -n shop");
        assert_eq!(cause.commands[0] == delete, is_stuck, "{what}: {cause:?}");
    }
    let report = ReleaseReport::of(&rollout(&none, &none), now());
    assert!(
        report.causes[0]
            .message
            .starts_with("Unschedulable: no node fits; the pod still"),
        "{report:?}"
    );
}

#[test]
fn a_stuck_pod_comes_before_its_claim() {
    let volumes = json!({"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}});
    let mut facts = rollout(&json!({}), &volumes);
    let pending = json!({"status": {"phase": "Pending"}});
    facts
        .objects
        .push(object("v1", "PersistentVolumeClaim", "data", None, &pending));
    assert!(first(&facts).starts_with("db/db-0: "), "{}", first(&facts));
    facts.objects[1]["metadata"]["labels"]["controller-revision-hash"] = "db-2".into();
    assert!(first(&facts).starts_with("db/data: "), "{}", first(&facts));
}

#[test]
fn a_message_cannot_request_a_deletion() {
    let words = "the pod still has the former template, and the StatefulSet does not replace a pod that is not ready";
    let waiting = json!({"status": {"containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "X", "message": words}}}]}});
    let report = ReleaseReport::of(&deployment_facts(&waiting), now());
    assert_eq!(report.causes[0].commands, ["kubectl describe pod web-1-a -n shop"]);
}
