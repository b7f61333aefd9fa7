use super::*;
use crate::record::Stored;
use crate::status::conditions::Condition;
use crate::testing::table;

fn report<'a>(phase: &'a Phase, record: &'a Record) -> StatusReport<'a> {
    StatusReport {
        generation: 3,
        release_name: "web",
        phase,
        changes: Box::leak(Box::default()),
        chart: None,
        record,
        storage: RecordStorage {
            seal: crate::testing::seal(),
            in_secret: false,
            unread: false,
        },
        brief: false,
        render: None,
        template: TemplateOutcome::default(),
        contested: None,
        failures: 0,
        secrets: Box::leak(Box::default()),
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    }
}

fn stalled() -> Phase {
    Phase::Stalled {
        reason: Reason::RenderFailed,
        message: "t.yaml:3: boom".into(),
        recheck: false,
    }
}

/// Its conditions, sorted: `Ready` if it holds, `-Ready` if not.
fn types(status: &Value) -> Vec<String> {
    let mut list = conditions::of(status);
    list.sort_by(|one, other| one.kind.cmp(&other.kind));
    let sign = |condition: &Condition| if condition.status == "True" { "" } else { "-" };
    list.iter()
        .map(|condition| format!("{}{}", sign(condition), condition.kind))
        .collect()
}

#[derive(serde::Deserialize)]
struct Case {
    phase: Phase,
    revision: i64,
    contested: Option<String>,
    held: Option<String>,
    conditions: Vec<String>,
    observed: i64,
}

#[test]
fn conditions_come_and_go() {
    let mut before = json!({});
    for (failures, case) in (0..).zip(table::<Case>("status", "reports")) {
        let record = Record {
            revision: case.revision,
            ..Record::default()
        };
        let changes = Changes {
            held: case.held,
            ..Changes::default()
        };
        let report = StatusReport {
            contested: case.contested,
            changes: &changes,
            failures,
            ..report(&case.phase, &record)
        };
        let after = status(&report, &before);
        assert_eq!(types(&after), case.conditions, "{:?} after {before}", case.phase);
        assert_eq!(after["observedGeneration"], case.observed);
        assert_eq!(json!(after.get("failures")), json!((failures > 0).then_some(failures)));
        before = after;
    }
}

#[test]
fn the_observed_generation_moves_only_with_a_decision() {
    let record = Record::default();
    for (phase, expected) in table::<(Phase, i64)>("status", "observed") {
        let status = status(&report(&phase, &record), &json!({"observedGeneration": 2}));
        assert_eq!(status["observedGeneration"], expected, "{phase:?}");
        assert!(
            conditions::of(&status)
                .iter()
                .all(|condition| condition.observed_generation == Some(3))
        );
    }
}

#[test]
fn only_texts_are_cleaned_of_secrets() {
    let (record, phase) = (Record::default(), stalled());
    let earlier = status(&report(&Phase::Ready, &record), &json!({"notes": "secret notes"}));
    let secrets = Secrets::default();
    for value in [
        "2026-01-01T00:00:00",
        "t.yaml:3: boom",
        "RenderFailed",
        "0 members are ready",
        "secret notes",
    ] {
        secrets.learn(value);
    }
    let report = |phase| StatusReport {
        secrets: &secrets,
        ..report(phase, &record)
    };
    let reported = status(&report(&phase), &json!({}));
    let ready = &reported["conditions"][1];
    assert_eq!(ready["type"], "Ready");
    assert_eq!(ready["message"], crate::redact::MARK);
    assert_eq!(ready["reason"], "RenderFailed");
    assert_eq!(ready["lastTransitionTime"], "2026-01-01T00:00:00Z");
    // What stays is cleaned of what only since is known to be secret.
    let kept = status(&report(&Phase::Suspended), &earlier);
    assert_eq!(kept["conditions"][1]["message"], crate::redact::MARK);
    assert_eq!(kept["notes"], crate::redact::MARK);
}

#[test]
fn the_same_report_makes_the_same_status() {
    let record = Record {
        revision: 1,
        ..Record::default()
    };
    let phase = Phase::Ready;
    let first = status(&report(&phase, &record), &json!({"foreign": 1}));
    let later = StatusReport {
        now: "2027-01-01T00:00:00Z".parse().unwrap(),
        ..report(&phase, &record)
    };
    assert_eq!(status(&later, &first), ours(&first));
    // A reconcile that renders nothing knows the notes from before.
    let render = Some(Render {
        namespace: "shop",
        notes: Some("Have fun."),
    });
    let rendered = StatusReport {
        render,
        ..report(&phase, &record)
    };
    let first = status(&rendered, &json!({}));
    assert_eq!(status(&report(&phase, &record), &first), ours(&first));
}

#[test]
fn what_an_author_can_make_longer_has_a_bound() {
    let long = "x".repeat(4 << 20);
    let lookups: Vec<String> = (0..1000).map(|n| format!("v1/Secret/shop/{n}@")).collect();
    let record = Record {
        revision: 1,
        lookups: lookups.clone(),
        ..Record::default()
    };
    let phase = Phase::Stalled {
        reason: Reason::RenderFailed,
        message: long.clone(),
        recheck: false,
    };
    let render = Some(Render {
        namespace: "shop",
        notes: Some(&long),
    });
    let report = StatusReport {
        render,
        ..report(&phase, &record)
    };
    let full = status(&report, &json!({}));
    assert!(full.to_string().len() < 300 << 10, "{}", full.to_string().len());
    assert!(
        conditions::of(&full)[1]
            .message
            .ends_with("(the first of 4194304 bytes)")
    );
    // The record is incomplete, and says so.
    let Stored::Part { record: read, .. } = Record::from_status(&full, None) else {
        panic!("{full}")
    };
    assert_eq!(read.lookups, lookups[..read.lookups.len()]);

    let brief = status(&StatusReport { brief: true, ..report }, &full);
    assert!(brief.to_string().len() < 8 << 10, "{brief}");
    assert_eq!(types(&brief), types(&full));
    for absent in ["notes", "hooks", "inventory"] {
        assert!(brief.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn events_tell_what_changed() {
    let changes = Changes {
        installed: true,
        applied: 3,
        ..Changes::default()
    };
    let event = |changes: &Changes| Phase::Ready.event(changes).map(|event| (event.reason, event.note));
    let reported = |reason: &str, note: &str| Some((reason.to_owned(), note.to_owned()));
    assert_eq!(event(&changes), reported("InstallSuccessful", "3 objects applied"));
    assert_eq!(event(&Changes::default()), None);
    let changes = Changes {
        pruned: vec!["ConfigMap a/b".into()],
        ..Changes::default()
    };
    assert_eq!(event(&changes), reported("Pruned", "pruned: ConfigMap a/b"));
    assert!(stalled().event(&changes).unwrap().once);
}

#[test]
fn every_reason_has_a_section_in_the_guide() {
    let reference = include_str!("../../../../docs/reference/status.md");
    let guide = include_str!("../../../../docs/guides/troubleshooting.md");
    let table = reference.split("## Reasons").nth(1).unwrap_or_default();
    let rows = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let reasons: Vec<&str> = rows
        .take_while(|(reason, _)| !reason.starts_with("chartwright"))
        .filter(|(_, rest)| {
            ["stalled", "retries", "waits"]
                .iter()
                .any(|kind| rest.starts_with(&format!(" | {kind}")))
        })
        .map(|(reason, _)| reason)
        .collect();
    assert!(reasons.len() >= 33, "{reasons:?}");
    for reason in reasons {
        assert!(guide.contains(&format!("\n## {reason}\n")), "{reason}");
    }
}
