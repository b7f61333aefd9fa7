use serde_json::{Value, json};

use super::*;
use crate::annotations::SUSPEND;
use crate::identity::GroupKind;
use crate::record::Record;
use crate::report::ReportFacts;

fn web() -> GroupKind {
    GroupKind::new("example.com", "Web")
}

fn object(namespace: &str, name: &str, ready: &str, reason: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": reason, "message": format!("{name} is {reason}")}],
            "release": {"chart": "app", "version": "1.0.0", "revision": 3},
        },
    })
}

fn index() -> ReleaseIndex {
    let mut index = ReleaseIndex::default();
    for (kind, namespace, name, ready, reason) in [
        ("Web", "shop", "cart", "True", "Healthy"),
        ("Web", "shop", "Search", "False", "MemberFailed"),
        ("Web", "mail", "smtp", "False", "Progressing"),
        ("Db", "shop", "orders", "True", "Healthy"),
        ("Db", "", "global", "Unknown", "NotHandled"),
    ] {
        let kind = GroupKind::new("example.com", kind);
        index.put(ReleaseRow::of(&kind, &object(namespace, name, ready, reason)));
    }
    index
}

fn query(text: &str) -> ListQuery {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    ListQuery::parse(pairs).unwrap()
}

fn names(text: &str) -> String {
    let page = list(&index(), &query(text));
    let names: Vec<String> = page.items.into_iter().map(|row| row.summary.name).collect();
    names.join(" ")
}

#[test]
fn releases_are_searched_filtered_ordered_and_paged() {
    for (text, expected) in [
        ("", "Search smtp global cart orders"),
        ("order=name", "Search cart global orders smtp"),
        ("order=namespace", "global smtp Search cart orders"),
        ("order=kind", "global orders smtp Search cart"),
        ("q=SEARCH", "Search"),
        ("q=shop healthy", "cart orders"),
        ("q=db.example", "global orders"),
        ("q=cartHealthy", ""),
        ("q=is progressing", "smtp"),
        ("kind=Web.example.com", "Search smtp cart"),
        ("kind=Web", ""),
        ("namespace=mail", "smtp"),
        ("state=ready", "cart orders"),
        ("state=failing,progressing", "Search smtp"),
        ("state=ready&kind=Db.example.com&q=ord", "orders"),
        ("limit=2", "Search smtp"),
        ("limit=2&offset=4", "orders"),
        ("limit=2&offset=99", ""),
        ("limit=0", "Search"),
        ("q=&kind=&state=", "Search smtp global cart orders"),
    ] {
        assert_eq!(names(text), expected, "{text}");
    }
}

#[test]
fn a_page_counts_all_that_it_does_not_show() {
    let page = list(&index(), &query("q=example.com&state=ready&limit=1"));
    assert_eq!((page.items.len(), page.matched, page.total), (1, 2, 5));
    let states: Vec<_> = page.states.into_iter().collect();
    assert_eq!(
        states,
        [("failing", 1), ("progressing", 1), ("ready", 2), ("unknown", 1)]
    );
    let kinds: Vec<_> = page.kinds.into_iter().collect();
    assert_eq!(
        kinds,
        [("Db.example.com".to_owned(), 2), ("Web.example.com".to_owned(), 3)]
    );
    let namespaces: Vec<_> = page.namespaces.into_iter().collect();
    assert_eq!(namespaces, [("mail".to_owned(), 1), ("shop".to_owned(), 3)]);
}

#[test]
fn a_wrong_parameter_is_an_error_that_names_it() {
    for (name, text, expected) in [
        ("state", "fine", "unknown state \"fine\": use stalled, failing"),
        ("order", "size", "unknown order \"size\""),
        ("offset", "-1", "offset must be a whole number"),
        ("limit", "all", "limit must be a whole number"),
        ("page", "1", "unknown parameter \"page\""),
    ] {
        let error = ListQuery::parse([(name, text)]).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(ListQuery::parse([("limit", "9999")]).unwrap().limit, MOST_ROWS);
    let long = "ä".repeat(1000);
    assert!(ListQuery::parse([("q", long.as_str())]).unwrap().words[0].len() <= 200);
}

#[test]
fn a_release_is_named_by_its_kind_namespace_and_name() {
    let parse = |text: &str| ReleaseKey::parse(text.split('&').filter_map(|pair| pair.split_once('=')));
    let key = parse("kind=Web.example.com&namespace=shop&name=cart").unwrap();
    assert_eq!(
        (key.kind, key.namespace.as_str(), key.name.as_str()),
        (web(), "shop", "cart")
    );
    assert_eq!(parse("kind=Web.example.com&name=cart").unwrap().namespace, "");
    for (text, expected) in [
        ("name=cart", "the parameter \"kind\" is missing"),
        ("kind=Web", "the parameter \"name\" is missing"),
        ("kind=Web&name=a&uid=b", "unknown parameter \"uid\""),
    ] {
        assert_eq!(parse(text).unwrap_err(), expected);
    }
}

#[test]
fn the_state_of_a_release_is_the_most_important_one() {
    let of = |object: &Value| ReleaseRow::of(&web(), object).state;
    for (ready, reason, expected) in [
        ("True", "Healthy", ReleaseState::Ready),
        ("False", "MemberFailed", ReleaseState::Failing),
        ("False", "HookRunning", ReleaseState::Progressing),
        ("Unknown", "x", ReleaseState::Unknown),
    ] {
        assert_eq!(of(&object("a", "b", ready, reason)), expected, "{reason}");
    }
    let mut stalled = object("a", "b", "False", "RenderFailed");
    let conditions = stalled["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Stalled", "status": "True", "reason": "RenderFailed", "message": ""}));
    assert_eq!(of(&stalled), ReleaseState::Stalled);
    stalled["metadata"]["annotations"] = json!({SUSPEND: "true"});
    assert_eq!(of(&stalled), ReleaseState::Suspended);
    stalled["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    assert_eq!(of(&stalled), ReleaseState::Deleting);
    for odd in [json!(null), json!([]), json!({"metadata": 1, "status": "x"})] {
        assert_eq!(of(&odd), ReleaseState::Unknown);
    }
    let mut order = ReleaseState::ALL;
    order.sort();
    assert_eq!(order, ReleaseState::ALL, "the worst first");
    for state in ReleaseState::ALL {
        assert_eq!(json!(state), state.as_str());
    }
}

#[test]
fn rows_are_replaced_removed_and_bounded() {
    let mut index = index();
    let row = ReleaseRow::of(&web(), &object("shop", "cart", "True", "Healthy"));
    assert!(!index.put(row.clone()), "the same");
    let mut long = object("shop", "cart", "False", "MemberFailed");
    long["status"]["conditions"][0]["message"] = "x".repeat(100_000).into();
    assert!(index.put(ReleaseRow::of(&web(), &long)));
    assert!(index.get(&row.key()).unwrap().summary.message.len() <= 240);
    assert!(index.remove(&row.key()) && !index.remove(&row.key()));
    assert_eq!(index.retain(|key| key.kind.kind == "Web"), 2);
    assert_eq!(index.len(), 2);
    for number in index.len()..=MOST_RELEASES {
        index.put(ReleaseRow::of(
            &web(),
            &object("many", &number.to_string(), "True", "Healthy"),
        ));
    }
    assert_eq!(index.len(), MOST_RELEASES);
    assert!(index.is_full() && list(&index, &ListQuery::default()).is_full);
}

fn recorded() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "status": {
            "release": {"revision": 2, "chart": "app", "version": "2.0.0"},
            "history": [
                {"revision": 1, "chart": "app", "version": "1.0.0", "deployed": "2026-01-01T00:00:00Z", "healthy": true},
                {"revision": 2, "chart": "app", "version": "2.0.0", "deployed": "2026-01-03T00:00:00Z", "healthy": true},
            ],
            "hooks": {"runs": [{
                "event": "post-upgrade", "group": "batch", "kind": "Job", "namespace": "shop", "name": "migrate", "run": "1",
                "phase": "Failed", "started": "2026-01-03T00:00:10Z", "ended": "2026-01-03T00:01:00Z", "message": "exit code 1",
            }]},
            "plans": [{
                "name": "backup", "schedule": "0 3 * * *", "count": 2, "phase": "Succeeded", "message": "",
                "runs": [{"run": 2, "by": "schedule", "phase": "Succeeded", "started": "2026-01-02T03:00:00Z",
                    "ended": "2026-01-02T03:01:00Z"}],
            }],
            "planRun": {"queue": [{"plan": "restore", "by": "request"}]},
            "conditions": [{"type": "Drifted", "status": "True", "reason": "DriftDetected", "message": "Deployment web: kubectl-edit",
                "lastTransitionTime": "2026-01-03T00:00:00Z"}],
            "notes": "visit http://x",
        },
    })
}

#[test]
fn the_time_line_has_hooks_plans_and_revisions() {
    let record = Record::from_status(&recorded()["status"], None).into_record();
    let spans: Vec<String> = timeline(&record)
        .iter()
        .map(|span| {
            format!(
                "{:?} {} {} {} {}",
                span.lane, span.title, span.subject, span.phase, span.message
            )
        })
        .collect();
    let expected = [
        "Plan restore on request Waiting ",
        "Hook post-upgrade Job migrate Failed exit code 1",
        "Revision revision 2 app 2.0.0 Succeeded ",
        "Plan backup on schedule Succeeded ",
        "Revision revision 1 app 1.0.0 Succeeded ",
    ];
    assert_eq!(spans, expected);
}

#[test]
fn a_detail_has_history_plans_drift_and_notes() {
    let facts = ReportFacts::new(web(), recorded());
    let now = "2026-01-04T00:00:00Z".parse().unwrap();
    let detail = serde_json::to_value(ReleaseDetail::of(&facts, now)).unwrap();
    let row = serde_json::to_value(ReleaseRow::of(&web(), &recorded())).unwrap();
    for shown in [&detail, &row] {
        assert_eq!(
            (&shown["group"], &shown["kind"]),
            (&json!("example.com"), &json!("Web")),
            "as `get` shows it"
        );
    }
    let states: Vec<&Value> = detail["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["status"])
        .collect();
    assert_eq!(states, ["deployed", "superseded"]);
    assert_eq!(detail["drift"][0]["message"], "Deployment web: kubectl-edit");
    assert_eq!(detail["plans"][0]["schedule"], "0 3 * * *");
    assert_eq!(
        (&detail["notes"], &detail["name"]),
        (&json!("visit http://x"), &json!("web"))
    );
    for odd in [
        json!(null),
        json!([]),
        json!({"metadata": 1, "status": "x"}),
        json!({"status": {"history": 5, "plans": "x"}}),
    ] {
        ReleaseDetail::of(&ReportFacts::new(web(), odd), now);
    }
}
