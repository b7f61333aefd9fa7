use serde_json::{Value, json};

use super::*;
use crate::identity::GroupKind;
use crate::testing::table;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Case {
    name: String,
    kind: String,
    #[serde(default)]
    before: Option<Value>,
    #[serde(default)]
    after: Option<Value>,
    /// The sets of fields of our manager.
    #[serde(default)]
    owned_before: Value,
    #[serde(default)]
    owned_after: Value,
    #[serde(default)]
    recreated: bool,
    #[serde(default)]
    secrets: Vec<String>,
    #[serde(default)]
    operation: Option<ChangeOperation>,
    #[serde(default)]
    restarts: bool,
    #[serde(default)]
    diff: String,
}

fn managed(object: Option<Value>, owned: &Value, id: &ObjectId, api_version: &str) -> Option<Value> {
    let mut object = object?;
    object["apiVersion"] = api_version.into();
    object["kind"] = id.group_kind.kind.as_str().into();
    object["metadata"]["name"] = id.name.as_str().into();
    object["metadata"]["managedFields"] = json!([{
        "manager": "chartwright", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": owned,
    }, {
        "manager": "other", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:theirs": {}}},
    }]);
    Some(object)
}

#[test]
fn only_owned_fields_that_change_are_shown() {
    for case in table::<Case>("diff", "objects") {
        let id = ObjectId::new(GroupKind::parse(&case.kind), "", "a");
        let api_version = match id.group_kind.group.as_str() {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        };
        let secrets = Secrets::default();
        case.secrets.iter().for_each(|text| secrets.learn(text));
        let before = managed(case.before, &case.owned_before, &id, &api_version);
        let after = managed(case.after, &case.owned_after, &id, &api_version);
        let compared = ComparedObject {
            id: &id,
            before: before.as_ref(),
            after: after.as_ref(),
            is_recreated: case.recreated,
            manager: "chartwright",
        };
        let change = compare(&compared, &secrets);
        let operation = change.as_ref().map(|change| change.operation);
        assert_eq!(operation, case.operation, "{}", case.name);
        let Some(change) = change else { continue };
        assert_eq!(change.diff, case.diff, "{}", case.name);
        assert_eq!(change.restarts, case.restarts, "{}", case.name);
    }
}

#[test]
fn long_texts_are_compared_in_bounded_time() {
    let lines = |from: usize| {
        (from..from + MAX_LINES)
            .map(|line| format!("line {line}\n"))
            .collect::<String>()
    };
    let object =
        |text: String| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": text}});
    let id = ObjectId::new(GroupKind::new("", "ConfigMap"), "", "a");
    let owned = json!({"f:data": {"f:a": {}}});
    let before = managed(Some(object(lines(0))), &owned, &id, "v1");
    let after = managed(Some(object(lines(1_000_000))), &owned, &id, "v1");
    let compared = ComparedObject {
        id: &id,
        before: before.as_ref(),
        after: after.as_ref(),
        is_recreated: false,
        manager: "chartwright",
    };
    let change = compare(&compared, &Secrets::default()).unwrap();
    assert!(
        change.diff.starts_with("@@ -4,10000 +4,10000 @@\n-    line 0\n"),
        "{}",
        &change.diff[..100]
    );
}
