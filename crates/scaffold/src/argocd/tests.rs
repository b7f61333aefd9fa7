use serde_json::Value;

use super::*;
use crate::survey::tests::chart;
use chartwright_core::annotations::{
    FORCE_AT, PLAN_PARAMS, REQUESTED_AT, ROLLBACK_TO, RUN_PLAN as RUN_PLAN_KEY, SUSPEND,
};
use chartwright_watches::Watch;

fn watch(group: &str, kind: &str) -> Watch {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watches.yaml");
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/memcached");
    let text = format!("- group: {group}\n  version: v1\n  kind: {kind}\n  chart: {chart}\n");
    std::fs::write(&file, text).unwrap();
    chartwright_watches::load(&file).unwrap().0.remove(0)
}

fn entry(entries: &Map<String, Value>, key: &str) -> Value {
    let text = entries[&format!("resource.customizations.{key}")].as_str().unwrap();
    go_yaml::to_json(text.as_bytes()).unwrap()
}

fn action_names(actions: &Value) -> Vec<&str> {
    let definitions = actions["definitions"].as_array().unwrap();
    definitions
        .iter()
        .filter_map(|action| action["name"].as_str())
        .collect()
}

const PLAN: &str =
    "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: a\n  annotations: {helm.sh/hook: plan-backup}\n";

#[test]
fn each_kind_gets_its_entries_once() {
    let none = Survey::default();
    let with_plan = Survey::of(&chart("templates/plan.yaml", PLAN));
    let first = watch("example.com", "App");
    let second = Watch {
        version: "v2".into(),
        on_failure: OnFailure::Rollback,
        ..first.clone()
    };
    let decorator = Watch {
        group: "apps".into(),
        kind: "Deployment".into(),
        decorator: Some("guard".into()),
        ..first.clone()
    };
    let alone = entries(&[(&first, &none)]).unwrap();
    assert_eq!(
        action_names(&entry(&alone, "actions.example.com_App")),
        ["suspend", "resume", "reconcile", "force", "run-plan"]
    );
    let all = entries(&[(&first, &none), (&decorator, &none), (&second, &with_plan)]).unwrap();
    let keys: Vec<&str> = all
        .keys()
        .map(|key| key.strip_prefix("resource.customizations.").unwrap())
        .collect();
    let mut expected = [
        "actions.example.com_App",
        "health.example.com_App",
        "ignoreDifferences.apps_Deployment",
        "ignoreDifferences.example.com_App",
    ];
    let mut keys = keys;
    keys.sort_unstable();
    expected.sort_unstable();
    assert_eq!(
        keys, expected,
        "an object of another owner keeps its health and its actions"
    );
    assert_eq!(
        action_names(&entry(&all, "actions.example.com_App")),
        [
            "suspend",
            "resume",
            "reconcile",
            "force",
            "rollback",
            "run-plan",
            "run-plan-backup"
        ]
    );
    let ignored = entry(&all, "ignoreDifferences.apps_Deployment");
    let text = ignored.to_string();
    for mark in [
        "chartwright.dev~1decorated",
        "decorator.chartwright.dev~1guard",
        "chartwright.dev/decorator-guard",
    ] {
        assert!(text.contains(mark), "{text}");
    }
    assert!(!text.contains("/status"), "{text}");
}

#[test]
fn scripts_use_the_annotations_of_the_operator() {
    let scripts = ACTIONS.map(|(_, script)| script).concat() + RUN_PLAN + ROLLBACK + DISCOVERY;
    for key in [SUSPEND, REQUESTED_AT, FORCE_AT, RUN_PLAN_KEY, PLAN_PARAMS, ROLLBACK_TO] {
        assert!(scripts.contains(&format!("\"{key}\"")), "{key}");
    }
}

#[test]
fn texts_of_others_stay_texts_in_lua() {
    assert_eq!(lua_text("nightly-2.b_c"), "\"nightly-2.b_c\"");
    assert_eq!(lua_text("\"] os.exit()\\"), "\"\\034\\093\\032os.exit\\040\\041\\092\"");
}

#[test]
fn a_group_that_is_too_long_for_a_key_is_an_error() {
    let long = Watch {
        group: ["a".repeat(60).as_str(); 4].join("."),
        ..watch("example.com", "App")
    };
    let error = entries(&[(&long, &Survey::default())]).unwrap_err().to_string();
    assert!(error.contains("use a shorter API group"), "{error}");
}
