use super::*;
use crate::operation::WantedRender;
use crate::testing::{id, member};
use serde_json::json;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

#[expect(clippy::needless_pass_by_value, reason = "a short call in a table")]
fn hook(kind: &str, name: &str, annotations: Value) -> Hook {
    let mut member = member(&id(kind, name));
    member.object = json!({"metadata": {"annotations": annotations}});
    Hook::of(member).0
}

#[test]
fn annotations_make_a_hook() {
    let policies = |text: Option<&str>| {
        let mut annotations = json!({"helm.sh/hook": "pre-install, POST-Upgrade,crd-install"});
        if let Some(text) = text {
            annotations["helm.sh/hook-delete-policy"] = text.into();
        }
        let hook = hook("Job.batch", "a", annotations);
        assert_eq!(hook.events, ["pre-install", "post-upgrade"]);
        (hook.deleted_before, hook.deleted_on_success, hook.deleted_on_failure)
    };
    for (text, expected) in [
        (None, (true, false, false)),
        (Some("hook-succeeded"), (false, true, false)),
        (Some("before-hook-creation, hook-failed"), (true, false, true)),
    ] {
        assert_eq!(policies(text), expected, "{text:?}");
    }
    for (key, value, is_valid) in [
        (TIMEOUT, "90s", true),
        (TIMEOUT, "0", false),
        (TIMEOUT, "soon", false),
        (AFTER, "healthy", true),
        (AFTER, "ready", false),
    ] {
        let mut member = member(&id("Job.batch", "a"));
        member.object = json!({"metadata": {"annotations": {key: value}}});
        let (hook, problems) = Hook::of(member);
        assert_eq!(problems.is_empty(), is_valid, "{key}={value}: {problems:?}");
        assert_eq!(hook.timeout.is_some() || hook.after_healthy, is_valid, "{key}={value}");
    }
}

#[test]
fn a_run_that_waits_for_the_garbage_collector_loses_no_time() {
    let job = id("Job.batch", "a");
    let removal = |finalizers: Value| super::removal(&job, &json!({"metadata": {"finalizers": finalizers}}));
    for (finalizers, is_owed, part) in [
        (
            Value::Null,
            true,
            "Job.batch shop/a, which an earlier run left, is gone: Kubernetes' garbage collector",
        ),
        (json!(["foregroundDeletion"]), true, "garbage collector"),
        (
            json!(["batch.kubernetes.io/job-tracking", "kubernetes.io/x"]),
            true,
            "garbage collector",
        ),
        (
            json!(["foregroundDeletion", "example.com/stay"]),
            false,
            "kept by the finalizers example.com/stay",
        ),
        (json!(["notkubernetes.io/x"]), false, "notkubernetes.io/x"),
    ] {
        let found = removal(finalizers.clone());
        assert!(
            found.is_owed == is_owed && found.message.contains(part),
            "{finalizers}: {found:?}"
        );
    }

    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let timeout = Duration::from_secs(10);
    let run = HookRun {
        started: at(100),
        ..HookRun::begins("pre-delete", &job, "run".into(), at(100))
    };
    let (owed, kept) = (removal(Value::Null), removal(json!(["example.com/stay"])));
    let mut waiting = run.clone();
    assert!(waiting.awaits(&owed, true, at(104)) && waiting.awaits(&owed, true, at(300)));
    assert_eq!(waiting.time_left(timeout, at(300)), Duration::from_secs(6));
    waiting.resume(at(304));
    assert_eq!(
        (waiting.started, waiting.time_left(timeout, at(305))),
        (at(300), Duration::from_secs(5))
    );
    // A deletion doesn't wait for ever, an installation does.
    let late = at(100 + LONGEST_REMOVAL.as_secs() as i64);
    let [mut bounded, mut unbounded] = [run.clone(), run.clone()];
    assert!(bounded.awaits(&owed, true, at(100)) && !bounded.awaits(&owed, true, late));
    assert!(unbounded.awaits(&owed, false, at(100)) && unbounded.awaits(&owed, false, late));
    assert_eq!(
        bounded.ends(RunPhase::Failed, "", late).time_left(timeout, late),
        Duration::ZERO
    );
    // What another controller keeps counts.
    let mut kept_run = run;
    assert!(!kept_run.awaits(&kept, false, at(104)));
    assert_eq!(kept_run.time_left(timeout, at(109)), Duration::from_secs(1));
}

#[test]
fn a_ttl_is_due_once_a_run_has_ended() {
    for (kind, ttl, expected) in [
        ("Job.batch", json!(0), Some(0)),
        ("Job.batch", json!(-1), None),
        ("Job.batch", json!("9"), None),
        ("RayJob.ray.io", json!(9), None),
    ] {
        let mut member = member(&id(kind, "a"));
        member.object = json!({"spec": {TTL: ttl}});
        assert_eq!(Hook::of(member).0.ttl(), expected, "{kind} {ttl}");
    }
    let run = HookRun {
        ttl: Some(9),
        uid: "u".into(),
        ..HookRun::begins("pre-upgrade", &id("Job.batch", "a"), "run".into(), NOW)
    };
    assert_eq!(run.ttl_due(), None);
    for phase in [RunPhase::Succeeded, RunPhase::Failed, RunPhase::GivenUp] {
        let ended = run.clone().ends(phase, "", NOW);
        assert_eq!(ended.ttl_due(), Some(9), "{phase:?}");
        let uid = String::new();
        assert_eq!(HookRun { uid, ..ended.clone() }.ttl_due(), None);
        let deleted = true;
        assert_eq!(HookRun { deleted, ..ended }.ttl_due(), None);
    }
}

#[test]
fn events_are_known_that_only_plans_have() {
    assert!(knows("plan-backup") && knows("test, Plan-restore") && knows("pre-install"));
    assert!(!knows("crd-install") && !knows("plan-backup,crd-install") && !knows("plan-"));
}

#[test]
fn hooks_of_an_event_run_by_weight_then_kind_then_name() {
    let of = |kind, name, event: &str, weight: &str| {
        hook(
            kind,
            name,
            json!({"helm.sh/hook": event, "helm.sh/hook-weight": weight}),
        )
    };
    let hooks = [
        of("ServiceAccount", "z", "pre-install", "0"),
        of("Job.batch", "b", "pre-install", "0"),
        of("Job.batch", "a", "pre-install,post-install", "x"),
        of("Job.batch", "early", "pre-install", "-5"),
        of("Job.batch", "other", "post-install", "-9"),
    ];
    let names = |event| -> Vec<String> {
        let hooks = in_order(&hooks, event);
        hooks.into_iter().map(|hook| hook.member.id.name.clone()).collect()
    };
    assert_eq!(names("pre-install"), ["early", "z", "a", "b"]);
    assert_eq!(names("post-install"), ["other", "a"]);
    assert!(names("pre-delete").is_empty());
}

#[test]
fn each_run_is_told_apart() {
    let event = "pre-upgrade";
    let all = [hook("Job.batch", "a", json!({})), hook("Job.batch", "b", json!({}))];
    let hooks: Vec<&Hook> = all.iter().collect();
    let mut progress = HookProgress::default();
    let step = |progress: &HookProgress| match next(&hooks, event, progress) {
        Next::Start(hook) => format!("start {}", hook.member.id.name),
        Next::Await(hook, run) => format!("await {} {}", hook.member.id.name, run.run),
        Next::Retry(hook, run) => format!("retry {} {}", hook.member.id.name, run.run),
        Next::Done => "done".to_owned(),
    };
    let note = |progress: &mut HookProgress, name: &str, phase| {
        let run = HookRun::begins(event, &id("Job.batch", name), progress.name(event), NOW);
        progress.note(match phase {
            RunPhase::Running => run,
            phase => run.ends(phase, "", NOW),
        });
    };
    progress.operation = Some(Operation::begin(OperationKind::Upgrade, 4, "d"));
    assert_eq!(step(&progress), "start a");
    note(&mut progress, "a", RunPhase::Running);
    assert_eq!(step(&progress), "await a pre-upgrade.4.1.d");
    note(&mut progress, "a", RunPhase::Succeeded);
    assert_eq!(step(&progress), "start b");
    note(&mut progress, "b", RunPhase::Failed);
    assert_eq!(step(&progress), "retry b pre-upgrade.4.1.d");
    progress.advance(OperationEvent::HookRetried);
    note(&mut progress, "b", RunPhase::Running);
    assert_eq!(step(&progress), "await b pre-upgrade.4.2.d");
    // It outlives the status.
    let read: HookProgress = serde_json::from_value(serde_json::json!(progress)).unwrap();
    assert_eq!(read, progress);
    note(&mut progress, "b", RunPhase::GivenUp);
    assert_eq!(step(&progress), "done");
    // Another render of the same revision, and then another revision, run all of them again.
    for (revision, digest, run) in [(4, "e", "pre-upgrade.4.3.e"), (5, "e", "pre-upgrade.5.1.e")] {
        let wanted = WantedRender {
            revision,
            recorded: revision - 1,
            digest,
            is_rollback: false,
            is_found: false,
        };
        let effects = progress.advance(OperationEvent::Rendered(wanted));
        assert!(effects.contains(&OperationEffect::ForgetRuns), "{effects:?}");
        progress.forget_runs(&all);
        assert_eq!(
            (step(&progress).as_str(), progress.name(event).as_str()),
            ("start a", run)
        );
    }
}

#[test]
fn jobs_and_pods_have_to_end() {
    let condition = |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "message": "why"}]});
    for (kind, spec, status, deleting, expected) in [
        ("batch/v1 Job", json!({}), json!({}), false, "Running"),
        ("batch/v1 Job", json!({}), condition("Complete"), false, "Succeeded"),
        ("batch/v1 Job", json!({}), condition("Complete"), true, "Succeeded"),
        ("batch/v1 Job", json!({}), condition("Failed"), false, "Failed"),
        (
            "batch/v1 Job",
            json!({"suspend": true}),
            condition("Suspended"),
            false,
            "Running",
        ),
        ("batch/v1 Job", json!({}), json!({}), true, "Failed"),
        ("v1 Pod", json!({}), json!({"phase": "Succeeded"}), false, "Succeeded"),
        ("v1 Pod", json!({}), json!({"phase": "Failed"}), false, "Failed"),
        (
            "v1 Pod",
            json!({}),
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
            false,
            "Running",
        ),
    ] {
        let (version, kind) = kind.split_once(' ').unwrap();
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec, "status": status});
        if deleting {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let text = format!("{:?}", state(object.clone(), NOW));
        assert!(text.starts_with(expected), "{object}: {text}");
    }
}
