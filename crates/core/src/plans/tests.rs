use serde_json::json;

use super::*;
use crate::hooks::{HookRun, RunPhase};
use crate::status::Status;
use crate::testing::{id, member};

fn step(name: &str, at: &str, annotations: Value) -> Hook {
    let mut member = member(&id("Job.batch", name));
    let mut all = annotations;
    all["helm.sh/hook"] = at.into();
    member.object = json!({"metadata": {"annotations": all}});
    member.source = "app/templates/plans.yaml".into();
    Hook::of(member).0
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn plans(hooks: &[Hook], now: &str) -> Plans {
    let mut plans = Plans::default();
    plans.learn(hooks, &Key::new([0; 32]), Some(&json!({"size": 1})), at(now));
    plans
}

fn scheduled(annotations: Value) -> Plans {
    let mut all = annotations;
    all[SCHEDULE] = "0 2 * * *".into();
    plans(&[step("a", "plan-backup", all)], "2026-01-01T12:00:00Z")
}

fn waiting(plans: &Plans) -> Vec<(&str, By)> {
    plans.work.queue.iter().map(|run| (run.plan.as_str(), run.by)).collect()
}

#[test]
fn a_schedule_asks_once_for_each_time_whatever_the_clock_does() {
    let mut plans = scheduled(json!({TIME_ZONE: "Europe/Berlin"}));
    assert_eq!(plans.next(), Some(at("2026-01-02T01:00:00Z")));
    assert!(plans.tick(at("2026-01-01T13:00:00Z")).is_empty() && waiting(&plans).is_empty());
    plans.tick(at("2026-01-02T01:00:00Z"));
    assert_eq!(waiting(&plans), [("backup", By::Schedule)]);
    plans.start(at("2026-01-02T01:00:00Z")).unwrap();
    plans.finish(None, at("2026-01-02T01:00:09Z"));
    // A second look, and a clock that is set right.
    for now in ["2026-01-02T01:00:10Z", "2026-01-02T00:59:58Z", "2026-01-02T01:00:01Z"] {
        assert!(plans.tick(at(now)).is_empty() && waiting(&plans).is_empty(), "{now}");
    }
    // Three nights without an operator are made up for once.
    plans.tick(at("2026-01-05T09:00:00Z"));
    assert_eq!(waiting(&plans), [("backup", By::Schedule)]);
    assert_eq!(plans.next(), Some(at("2026-01-06T01:00:00Z")));
    plans.start(at("2026-01-05T09:00:00Z"));
    plans.finish(None, at("2026-01-05T09:00:09Z"));
    // A clock that was years ahead is no reason never to run again.
    plans.plans[0].scheduled = Some(at("2036-01-01T01:00:00Z"));
    plans.plans[0].next = Some(at("2036-01-02T01:00:00Z"));
    plans.tick(at("2026-01-05T12:00:00Z"));
    assert_eq!(
        (waiting(&plans), plans.next()),
        (vec![], Some(at("2026-01-06T01:00:00Z")))
    );
}

#[test]
fn a_missed_time_is_reported() {
    let mut plans = scheduled(json!({STARTING_DEADLINE: "10m"}));
    let notices = plans.tick(at("2026-01-02T02:11:00Z"));
    assert!(
        matches!(&notices[..], [Due::Missed(note)] if note.contains("too late")),
        "{notices:?}"
    );
    assert!(waiting(&plans).is_empty());
    for (concurrency, expected) in [("Forbid", 0), ("Replace", 1)] {
        let mut plans = scheduled(json!({CONCURRENCY: concurrency}));
        plans.ask(PlanRun::of("backup", By::Request));
        plans.start(at("2026-01-02T01:59:00Z")).unwrap();
        let notices = plans.tick(at("2026-01-02T02:00:00Z"));
        let replaces = notices == [Due::Replace("backup".into())];
        assert_eq!(
            (replaces, waiting(&plans).len()),
            (expected == 1, expected),
            "{notices:?}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_plan_is_named_with_its_template() {
    for (key, value, part) in [
        (SCHEDULE, "61 * * * *", "schedule: \"61 * * * *\""),
        (SCHEDULE, "* * * *", "five fields"),
        (SCHEDULE, "soon", "five fields"),
        (STARTING_DEADLINE, "late", STARTING_DEADLINE),
        (CONCURRENCY, "Allow", "neither Forbid nor Replace"),
        (HISTORY_LIMIT, "all", "\"all\" is no number"),
    ] {
        let plans = plans(&[step("a", "plan-backup", json!({key: value}))], "2026-01-01T12:00:00Z");
        let troubles = plans.troubles().join("\n");
        assert!(
            troubles.contains(part) && troubles.contains("templates/plans.yaml"),
            "{troubles}"
        );
        assert_eq!(plans.next(), None);
    }
    let zone = json!({SCHEDULE: "@daily", TIME_ZONE: "Mars/Olympus"});
    assert_eq!(
        plans(&[step("a", "plan-backup", zone)], "2026-01-01T12:00:00Z")
            .troubles()
            .len(),
        1
    );
}

#[test]
fn requests_are_queued_one_for_each_plan_and_refused_with_a_reason() {
    let hooks = [
        step("a", "plan-backup", json!({})),
        step("b", "test,plan-restore", json!({})),
    ];
    let mut plans = plans(&hooks, "2026-01-01T12:00:00Z");
    let names: Vec<_> = plans.plans.iter().map(|plan| plan.name.clone()).collect();
    assert_eq!(names, ["backup", "restore", "test"]);
    for (text, params, part) in [
        ("snapshot@1", None, "the chart's plans are backup, restore, test"),
        ("backup", Some("[1]"), "no JSON object"),
        ("backup", Some("{"), "no JSON:"),
        ("", None, "the chart's plans"),
    ] {
        plans.request(text, params);
        assert!(
            plans.work.refused.contains(part) && waiting(&plans).is_empty(),
            "{:?}",
            plans.work.refused
        );
    }
    plans.request("backup@1", None);
    plans.request("backup@2", Some(r#"{"a": 1}"#));
    plans.request("test", None);
    assert!(plans.work.refused.is_empty() && waiting(&plans).len() == 2);
    let now = at("2026-01-01T12:00:01Z");
    let run = plans.start(now).unwrap();
    assert_eq!((run.token.as_str(), run.params["a"].clone()), ("2", json!(1)));
    assert!(plans.start(now).is_none(), "one at a time");
    plans.take_back();
    assert_eq!(
        (plans.start(now).unwrap().token.as_str(), plans.plans[0].count),
        ("2", 1)
    );
    for number in 1..6 {
        plans.finish((number == 5).then_some("why"), now);
        plans.request(&format!("backup@{number}"), None);
        while plans.start(now).is_some_and(|run| run.plan != "backup") {
            plans.finish(None, now);
        }
    }
    let backup = plans.get("backup").unwrap();
    assert_eq!(
        (backup.runs.len(), backup.runs[0].phase.as_str()),
        (USUAL_HISTORY, FAILED)
    );
    // It outlives the status.
    let status = Status::read(&json!({"plans": plans.plans, "planRun": plans.work}));
    assert_eq!((status.plans, status.plan_run), (plans.plans, plans.work));
}

#[test]
fn a_run_that_is_part_of_an_operation_counts_once_for_each_attempt() {
    let step = step("a", "plan-restore", json!({ON_CREATE: "true"}));
    let mut hooks = HookProgress::default();
    let mut run = HookRun::begins(
        "plan-restore",
        &step.member.id,
        "run".to_owned(),
        at("2026-01-02T02:00:00Z"),
    );
    let mut plans = Plans::default();
    plans.follow("restore", By::Create, &hooks, false);
    assert!(plans.is_empty(), "nothing has begun");
    let phases = [
        RunPhase::Running,
        RunPhase::Failed,
        RunPhase::Running,
        RunPhase::Succeeded,
    ];
    for (index, count, phase) in [(0, 1, RUNNING), (1, 1, FAILED), (2, 2, RUNNING), (3, 2, SUCCEEDED)] {
        run.phase = phases[index];
        hooks.note(run.clone());
        for _ in 0..2 {
            plans.follow("restore", By::Create, &hooks, phases[index] == RunPhase::Succeeded);
            let plan = plans.get("restore").unwrap();
            assert_eq!((plan.count, plan.phase.as_str()), (count, phase));
        }
        assert_eq!(plans.begun(), (phase == RUNNING).then_some("restore"));
        assert_eq!(plans.has_succeeded("restore"), phase == SUCCEEDED);
    }
    // The chart's annotations are learnt when all is applied.
    plans.learn(&[step], &Key::new([0; 32]), None, at("2026-01-01T12:00:00Z"));
    let plan = plans.get("restore").unwrap();
    let phases: Vec<_> = plan.runs.iter().map(|past| (past.by, past.phase.as_str())).collect();
    assert_eq!(phases, [(By::Create, SUCCEEDED), (By::Create, FAILED)]);
    assert!(plan.on_create && plan.count == 2);
}

#[test]
fn a_rollback_undoes_a_change_whose_run_has_not_begun() {
    let hooks = [step("a", "plan-rotate", json!({RUN_ON_CHANGE: "color"}))];
    let mut plans = plans(&hooks, "2026-01-01T12:00:00Z");
    let now = at("2026-01-01T12:00:00Z");
    let learn = |plans: &mut Plans, color: Option<&str>| {
        let values = color.map(|color| json!({"color": color}));
        plans.learn(&hooks, &Key::new([0; 32]), values.as_ref(), now);
        plans.work.queue.len()
    };
    assert_eq!(learn(&mut plans, Some("blue")), 1, "from no color");
    plans.start(now).unwrap();
    plans.finish(None, now);
    assert_eq!(learn(&mut plans, Some("red")), 1);
    assert_eq!(learn(&mut plans, None), 0, "rolled back");
    assert_eq!(learn(&mut plans, Some("red")), 1, "the same change again");
    plans.start(now).unwrap();
    assert_eq!(learn(&mut plans, None), 0, "it has begun");
    plans.finish(None, now);
    assert_eq!(learn(&mut plans, Some("red")), 0);
}

#[test]
fn a_changed_value_asks_for_a_run() {
    let hooks = [step("a", "plan-rotate", json!({RUN_ON_CHANGE: "auth.password"}))];
    let mut plans = plans(&hooks, "2026-01-01T12:00:00Z");
    let mut learn = |values: Value| {
        plans.learn(&hooks, &Key::new([0; 32]), Some(&values), at("2026-01-01T12:00:00Z"));
        plans.work.queue.drain(..).map(|run| run.by).collect::<Vec<_>>()
    };
    assert!(learn(json!({"size": 2})).is_empty());
    assert_eq!(learn(json!({"auth": {"password": "x"}})), [By::Change]);
    assert!(learn(json!({"auth": {"password": "x"}, "size": 3})).is_empty());
    assert_eq!(learn(json!({"auth": 1})), [By::Change]);
}
