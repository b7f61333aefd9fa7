use super::*;
use crate::plan::record::Stored;

fn report<'a>(phase: &'a Phase, record: &'a Record) -> Report<'a> {
    Report {
        generation: 3,
        release_name: "web",
        phase,
        changes: Box::leak(Box::default()),
        chart: None,
        record,
        record_in_secret: false,
        record_unread: false,
        brief: false,
        render: None,
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

fn types(status: &Value) -> Vec<String> {
    let list = status["conditions"].as_array().unwrap();
    let mut types: Vec<_> = list
        .iter()
        .map(|c| format!("{}={}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
        .collect();
    types.sort();
    types
}

#[test]
fn abnormal_conditions_come_and_go() {
    let record = Record {
        revision: 1,
        ..Record::default()
    };
    let bad = status(&report(&stalled(), &record), &json!({}));
    assert_eq!(
        types(&bad),
        [
            "Initialized=True",
            "Irreconcilable=True",
            "Ready=False",
            "ReleaseFailed=True",
            "Stalled=True"
        ]
    );
    let good = status(&report(&Phase::Ready, &record), &bad);
    assert_eq!(types(&good), ["Deployed=True", "Initialized=True", "Ready=True"]);
    let retrying = Phase::Failed {
        reason: Reason::ApplyFailed,
        message: "x".into(),
    };
    let again = status(&report(&retrying, &record), &good);
    assert!(types(&again).contains(&"Reconciling=True".to_owned()), "{again}");
}

#[test]
fn a_contest_is_told_beside_the_health() {
    let record = Record::default();
    let phase = Phase::Ready;
    let contested = Report {
        contested: Some("data.a changed by rival".into()),
        failures: 2,
        ..report(&phase, &record)
    };
    let bad = status(&contested, &json!({}));
    assert!(types(&bad).contains(&"Drifted=True".to_owned()) && types(&bad).contains(&"Ready=True".to_owned()));
    assert_eq!(bad["failures"], 2);
    let good = status(&report(&phase, &record), &bad);
    assert!(!types(&good).contains(&"Drifted=True".to_owned()), "{good}");
    assert!(good.get("failures").is_none());
}

#[test]
fn the_observed_generation_moves_only_with_a_decision() {
    let record = Record::default();
    let before = json!({"observedGeneration": 2});
    let waiting = Phase::Waiting {
        reason: Reason::Progressing,
        message: String::new(),
    };
    let failed = Phase::Failed {
        reason: Reason::ApplyFailed,
        message: String::new(),
    };
    for (phase, expected) in [
        (Phase::Ready, 3),
        (stalled(), 3),
        (waiting, 2),
        (failed, 2),
        (Phase::Suspended, 2),
    ] {
        let status = status(&report(&phase, &record), &before);
        assert_eq!(status["observedGeneration"], expected, "{phase:?}");
        for condition in status["conditions"].as_array().unwrap() {
            assert_eq!(condition["observedGeneration"], 3, "{condition}");
        }
    }
}

#[test]
fn only_texts_are_cleaned_of_secrets() {
    let secrets = Secrets::default();
    for value in ["2026-01-01T00:00:00", "t.yaml:3: boom", "RenderFailed"] {
        secrets.learn(value);
    }
    let (record, phase) = (Record::default(), stalled());
    let status = status(
        &Report {
            secrets: &secrets,
            ..report(&phase, &record)
        },
        &json!({}),
    );
    let ready = &status["conditions"][1];
    assert_eq!(ready["type"], "Ready");
    assert_eq!(ready["message"], crate::telemetry::redact::MARK);
    assert_eq!(ready["reason"], "RenderFailed");
    assert_eq!(ready["lastTransitionTime"], "2026-01-01T00:00:00Z");
}

#[test]
fn the_same_report_makes_the_same_status() {
    let record = Record {
        revision: 1,
        ..Record::default()
    };
    let phase = Phase::Ready;
    let first = status(&report(&phase, &record), &json!({"foreign": 1}));
    let later = Report {
        now: "2027-01-01T00:00:00Z".parse().unwrap(),
        ..report(&phase, &record)
    };
    assert_eq!(status(&later, &first), ours(&first));
    // A reconcile that renders nothing knows the notes from before.
    let render = Some(Render {
        namespace: "shop",
        hooks: &[],
        notes: Some("Have fun."),
    });
    let first = status(
        &Report {
            render,
            ..report(&phase, &record)
        },
        &json!({}),
    );
    assert_eq!(status(&report(&phase, &record), &first), ours(&first));
}

#[test]
fn what_an_author_can_make_longer_has_a_bound() {
    let long = "x".repeat(4 << 20);
    let hooks: Vec<String> = (0..1000).map(|n| format!("{n} {long}")).collect();
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
        hooks: &hooks,
        notes: Some(&long),
    });
    let report = Report {
        render,
        ..report(&phase, &record)
    };
    let full = status(&report, &json!({}));
    assert!(full.to_string().len() < 300 << 10, "{}", full.to_string().len());
    let hooks = full["hooks"]["notRun"].as_array().unwrap();
    assert_eq!((hooks.len(), hooks[50].as_str()), (51, Some("and 950 more")));
    assert!(
        full["conditions"][1]["message"]
            .as_str()
            .unwrap()
            .ends_with("(the first of 4194304 bytes)")
    );
    // The record is not there as a whole, and says so.
    let Stored::Part { record: read, .. } = Record::from_status(&full) else {
        panic!("{full}")
    };
    assert_eq!(read.lookups, lookups[..read.lookups.len()]);

    let brief = status(&Report { brief: true, ..report }, &full);
    assert!(brief.to_string().len() < 8 << 10, "{brief}");
    assert_eq!(types(&brief), types(&full));
    for absent in ["notes", "hooks", "inventory"] {
        assert!(brief.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn a_suspended_release_keeps_what_it_said() {
    let record = Record {
        revision: 1,
        ..Record::default()
    };
    let before = status(&report(&Phase::Ready, &record), &json!({}));
    let suspended = status(&report(&Phase::Suspended, &record), &before);
    assert_eq!(
        types(&suspended),
        ["Deployed=True", "Initialized=True", "Ready=True", "Suspended=True"]
    );
    assert_eq!(suspended["observedGeneration"], 3);
}

#[test]
fn events_tell_what_changed() {
    let changes = Changes {
        installed: true,
        applied: 3,
        ..Changes::default()
    };
    let event = |changes: &Changes| Phase::Ready.event(changes).map(|event| (event.reason, event.note));
    let told = |reason: &str, note: &str| Some((reason.to_owned(), note.to_owned()));
    assert_eq!(event(&changes), told("InstallSuccessful", "3 objects applied"));
    assert_eq!(event(&Changes::default()), None);
    let changes = Changes {
        pruned: vec!["ConfigMap a/b".into()],
        ..Changes::default()
    };
    assert_eq!(event(&changes), told("Pruned", "pruned: ConfigMap a/b"));
    assert!(stalled().event(&changes).unwrap().once);
}
