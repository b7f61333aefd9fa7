//! The commands of a cause, and the time of a change.

use super::*;

fn commands(facts: &ReportFacts) -> Vec<String> {
    ReleaseReport::of(facts, now()).causes[0].commands.clone()
}

#[test]
fn an_immutable_field_gets_the_command_that_its_message_recommends() {
    let edit = "kubectl edit web.example.com web -n shop";
    for (message, expected) in [
        (
            "StatefulSet.apps shop/db: spec.serviceName can't be changed; `kubectl delete statefulset db -n shop --cascade=orphan` lets",
            vec!["kubectl delete statefulset db -n shop --cascade=orphan", edit],
        ),
        (
            "Job.batch shop/a: spec.template can't be changed; annotate it with chartwright.dev/update=Recreate, or the custom resource with \
             chartwright.dev/force-at",
            vec!["chartwright force web.example.com web -n shop", edit],
        ),
        (
            "PersistentVolumeClaim shop/a: recreating it would delete data",
            vec![edit],
        ),
        ("`kubectl delete statefulset db -n shop`", vec![edit]),
        (
            "`kubectl delete statefulset $(reboot) -n shop --cascade=orphan`",
            vec![edit],
        ),
        ("`kubectl delete namespace shop --cascade=orphan`", vec![edit]),
    ] {
        let facts = facts(resource("Immutable", message, &[]), Vec::new());
        assert_eq!(commands(&facts), expected, "{message}");
    }
}

/// A release whose hook has this kind, name and phase.
fn with_hook(reason: &str, group: &str, kind: &str, name: &str, phase: &str) -> ReportFacts {
    let mut release = resource(reason, "post-upgrade", &[]);
    let run = json!({
        "event": "post-upgrade", "group": group, "kind": kind, "namespace": "shop", "name": name, "run": "1", "phase": phase,
        "started": "2026-01-01T00:00:00Z",
    });
    release["status"]["hooks"] = json!({"runs": [run]});
    facts(release, Vec::new())
}

#[test]
fn an_open_hook_gets_commands_for_its_object() {
    let again = "chartwright reconcile web.example.com web -n shop";
    for (facts, expected) in [
        (
            with_hook("HookRunning", "batch", "Job", "migrate", "Running"),
            vec![
                "kubectl logs -n shop job/migrate",
                "kubectl describe job.batch migrate -n shop",
            ],
        ),
        (
            with_hook("HookFailed", "batch", "Job", "migrate", "Failed"),
            vec![
                again,
                "kubectl logs -n shop job/migrate",
                "kubectl describe job.batch migrate -n shop",
            ],
        ),
        (
            with_hook("HookRunning", "", "Pod", "migrate", "Running"),
            vec!["kubectl logs -n shop migrate", "kubectl describe pod migrate -n shop"],
        ),
        (
            with_hook("HookRunning", "a.example.com", "Task", "migrate", "Running"),
            vec!["kubectl describe task.a.example.com migrate -n shop"],
        ),
        (
            with_hook("HookRunning", "batch", "Job", "$(reboot)", "Running"),
            vec!["kubectl describe web.example.com web -n shop"],
        ),
        (
            with_hook("HookRunning", "batch", "Job", "migrate", "Succeeded"),
            vec!["kubectl describe web.example.com web -n shop"],
        ),
    ] {
        assert_eq!(commands(&facts), expected);
    }
}

#[test]
fn an_unhandled_change_has_the_time_of_the_change() {
    let entry = |manager: &str, subresource: &str, minute: u8| json!({"manager": manager, "subresource": subresource, "time": format!("2026-01-01T00:{minute:02}:00Z")});
    for (entries, expected) in [
        (
            json!([entry("kubectl-create", "", 1), entry("kubectl-patch", "", 9)]),
            Some("2026-01-01T00:09:00Z"),
        ),
        (
            json!([
                entry("kubectl-patch", "", 9),
                entry("chartwright-status", "status", 20),
                entry("other", "status", 21),
                entry("chartwright-applyset", "", 22),
                entry("chartwright", "", 23),
            ]),
            Some("2026-01-01T00:09:00Z"),
        ),
        (json!([entry("chartwrights", "", 8)]), Some("2026-01-01T00:08:00Z")),
        (json!([{"manager": "kubectl", "time": "soon"}]), None),
        (json!(null), None),
    ] {
        let mut edited = resource("", "", &[]);
        edited["metadata"]["generation"] = 2.into();
        edited["metadata"]["managedFields"] = entries.clone();
        edited["status"]["conditions"][0]["observedGeneration"] = 1.into();
        let report = ReleaseReport::of(&facts(edited, Vec::new()), now());
        assert_eq!(report.causes[0].since.as_deref(), expected, "{entries}");
        assert_eq!(report.since.as_deref(), expected, "{entries}");
    }
}
