//! Tables of `tests/fixtures/plan/crds.yaml`.

use std::cmp::Ordering;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::CRD_MANAGER;
use super::chart::{CA_BUNDLE, ChartCrd, CrdProvider, VersionMarks, provider};
use super::decide::{CrdStep, PastReplacement, decide, unsafe_changes};
use super::live::LiveCrd;
use crate::testing::table;

fn definition() -> Value {
    let versions =
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "parts.a.test"},
        "spec": {"group": "a.test", "scope": "Namespaced", "names": {"kind": "Part", "plural": "parts"}, "versions": versions},
    })
}

fn chart_crd(object: Value) -> ChartCrd {
    ChartCrd::new("crds/part.yaml", "app 2.0.0", object)
}

#[test]
fn versions_show_which_definition_is_newer() {
    type Row = (Value, Option<String>, Value, Option<String>, Option<String>);
    for (one, chart, other, other_chart, expected) in table::<Row>("crds", "order") {
        let found = VersionMarks::new(&one, chart).compare(&VersionMarks::new(&other, other_chart));
        let found = found.map(|order| match order {
            Ordering::Less => "older",
            Ordering::Equal => "same",
            Ordering::Greater => "newer",
        });
        assert_eq!(found, expected.as_deref(), "{one} {other}");
    }
}

#[derive(serde::Deserialize)]
struct Decision {
    live: Value,
    #[serde(default)]
    past: Option<(String, bool)>,
    /// The chart's definition has a label with version 8.
    #[serde(default)]
    marked: bool,
    step: String,
}

/// The metadata of a row, with the digest and the managed fields that its words stand for.
fn metadata(row: &Value, crd: &ChartCrd) -> ObjectMeta {
    let mut metadata: Value = serde_json::from_str(&row.to_string().replace("DIGEST", &crd.claim.digest)).unwrap();
    let spec = json!({"f:group": {}, "f:scope": {}, "f:names": {"f:kind": {}, "f:plural": {}}, "f:versions": {}});
    let entry = |manager: &str, operation: &str, spec: &Value| json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": spec}});
    let theirs = json!({"f:group": {}, "f:scope": {}, "f:names": {"f:kind": {}, "f:plural": {}}});
    match metadata["managedFields"].as_str() {
        Some("OURS") => metadata["managedFields"] = json!([entry(CRD_MANAGER, "Apply", &spec)]),
        Some(_) => {
            let changed = entry("kubectl", "Update", &json!({"f:versions": {}}));
            metadata["managedFields"] = json!([entry(CRD_MANAGER, "Apply", &theirs), changed]);
        }
        None => {}
    }
    serde_json::from_value(metadata).unwrap()
}

#[test]
fn a_definition_is_replaced_only_by_a_newer_one_or_with_a_permit() {
    let mut labelled = definition();
    labelled["metadata"]["labels"] = json!({"app.kubernetes.io/version": "8"});
    let (plain, labelled) = (chart_crd(definition()), chart_crd(labelled));
    for Decision {
        live,
        past,
        marked,
        step,
    } in table::<Decision>("crds", "decide")
    {
        let crd = if marked { &labelled } else { &plain };
        let shown = live.to_string();
        let live = (!live.is_null()).then(|| LiveCrd::new(&metadata(&live, crd)));
        let past = past.map(|(uid, was_permitted)| PastReplacement { uid, was_permitted });
        let found = match decide(&crd.claim, live.as_ref(), "shop", past.as_ref()) {
            CrdStep::Leave => "leave".to_owned(),
            CrdStep::Keep(why) => format!("keep: {why}"),
            CrdStep::Wait => "wait".to_owned(),
            CrdStep::Create => "create".to_owned(),
            CrdStep::Replace => "replace".to_owned(),
            CrdStep::Refuse { why, can_permit: true } => format!("refuse: {why}"),
            CrdStep::Refuse { why, .. } => format!("refuse for ever: {why}"),
        };
        let fits = found == step || step.contains(": ") && found.starts_with(&step);
        assert!(fits, "{shown}: {found}, not {step}");
    }
}

#[test]
fn of_several_watches_the_newest_provides_a_definition() {
    type Row = (Vec<(String, String, String)>, Vec<String>);
    for (rows, expected) in table::<Row>("crds", "provider") {
        let claims: Vec<_> = rows
            .iter()
            .map(|(mark, chart, content)| {
                let mut object = definition();
                object["metadata"]["annotations"] = json!({"x.test/version": mark});
                object["spec"]["content"] = content.as_str().into();
                let mut claim = ChartCrd::new("a", chart, object).claim;
                claim.marks.marks.retain(|_, mark| !mark.is_empty());
                claim
            })
            .collect();
        let ids: Vec<String> = (0..claims.len()).map(|number| number.to_string()).collect();
        let claims: Vec<_> = ids.iter().map(String::as_str).zip(&claims).collect();
        let found: Vec<String> = ids
            .iter()
            .map(|own| match provider(&claims, own) {
                CrdProvider::Own => "own".to_owned(),
                CrdProvider::Other(id) => format!("other {id}"),
                CrdProvider::Unclear(id) => format!("unclear {id}"),
            })
            .collect();
        assert_eq!(found, expected, "{rows:?}");
    }
}

#[test]
fn the_digest_is_of_the_content_alone() {
    let plain = chart_crd(definition());
    assert_eq!(plain.claim.digest.len(), 32);
    let with = |pointer: &str, field: &str, value: Value| {
        let mut object = definition();
        object.pointer_mut(pointer).unwrap()[field] = value;
        chart_crd(object)
    };
    let own = json!({"chartwright.dev/allow-unsafe-crd": "x", "chartwright.dev/crd-digest": "x"});
    for same in [
        with("", "status", json!({"storedVersions": []})),
        with("/metadata", "creationTimestamp", Value::Null),
        with("/metadata", "resourceVersion", json!("7")),
        with("/metadata", "annotations", own),
        with("/metadata", "labels", json!({"applyset.kubernetes.io/part-of": "x"})),
        with("/spec", "conversion", json!({"strategy": "None"})),
        with("/spec/names", "shortNames", Value::Null),
        ChartCrd::new("other.yaml", "other 1.0.0", definition()),
    ] {
        assert_eq!(same.claim.digest, plain.claim.digest, "{}", same.object);
        assert_eq!(same.object, plain.object);
    }
    for other in [
        with("/spec", "scope", json!("Cluster")),
        with("/metadata", "labels", json!({"a": "b"})),
        with("/spec/versions/0", "deprecated", json!(true)),
    ] {
        assert_ne!(other.claim.digest, plain.claim.digest, "{}", other.object);
    }
    let mut object = definition();
    object["spec"]["preserveUnknownFields"] = false.into();
    object["spec"]["names"]["singular"] = "".into();
    object["spec"]["names"]["shortNames"] = json!([]);
    assert_eq!(
        chart_crd(object).claim.fields,
        plain.claim.fields,
        "the API server drops empty fields"
    );
    let expected = ["group", "names/f:kind", "names/f:plural", "scope", "versions"];
    assert_eq!(plain.claim.fields, expected.map(|field| format!("/f:spec/f:{field}")));
    let sent = plain.apply_object("shop", None);
    let annotations = json!({
        "chartwright.dev/crd-digest": plain.claim.digest, "chartwright.dev/crd-chart": "app 2.0.0",
        "chartwright.dev/crd-operator": "shop",
    });
    assert_eq!(
        sent["metadata"],
        json!({"name": "parts.a.test", "annotations": annotations})
    );
}

#[test]
fn an_injected_ca_bundle_stays() {
    let with_bundle = |bundle: Value| {
        let mut object = definition();
        let service = json!({"name": "hook", "namespace": "a"});
        let webhook =
            json!({"clientConfig": {"caBundle": bundle, "service": service}, "conversionReviewVersions": ["v1"]});
        object["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
        object
    };
    let live = with_bundle(json!("aW5qZWN0ZWQ="));
    for (chart, live, sent) in [
        (json!("Cg=="), Some(&live), None),
        (json!(""), None, None),
        (Value::Null, Some(&live), None),
        (json!("Y2hhcnQ="), Some(&live), None),
        (json!("aW5qZWN0ZWQ="), Some(&live), Some("aW5qZWN0ZWQ=")),
        (json!("Y2hhcnQ="), None, Some("Y2hhcnQ=")),
        (json!("Y2hhcnQ="), Some(&with_bundle(json!("Cg=="))), Some("Y2hhcnQ=")),
    ] {
        let crd = chart_crd(with_bundle(chart.clone()));
        let object = crd.apply_object("shop", live);
        let bundle = object.pointer(CA_BUNDLE).filter(|bundle| !bundle.is_null());
        assert_eq!(bundle.and_then(Value::as_str), sent, "{chart}");
        assert!(!crd.claim.fields.iter().any(|field| field.contains("caBundle")));
    }
}

#[test]
fn a_watched_version_must_be_served() {
    let mut live = definition();
    let second = json!({"name": "v2", "served": true, "storage": false});
    live["spec"]["versions"].as_array_mut().unwrap().push(second);
    live["status"] = json!({"storedVersions": ["v2"]});
    let mut result = live.clone();
    result["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let watch = |version: &str| vec![("a.test".to_owned(), "Part".to_owned(), version.to_owned())];
    assert!(
        unsafe_changes(&live, &result, &[]).is_empty(),
        "it is safe for the objects"
    );
    assert!(unsafe_changes(&live, &result, &watch("v2")).is_empty());
    let found = unsafe_changes(&live, &result, &watch("v1"));
    assert!(found.len() == 1 && found[0].what.contains("watches.yaml"), "{found:?}");
    assert!(unsafe_changes(&live, &result, &[("b.test".into(), "Part".into(), "v1".into())]).is_empty());
}
