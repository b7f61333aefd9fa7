//! The charts of tests/fixtures/crd, and tables.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/crd");
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.retain(|case| case.is_dir());
    cases.sort();
    cases
}

fn names() -> Names {
    Names {
        group: "crd.test".into(),
        version: "v1".into(),
        kind: "Thing".into(),
        ..Names::default()
    }
}

fn made(case: &Path) -> Generated {
    let overlay = fs::read_to_string(case.join("overlay.yaml")).unwrap_or_default();
    let overlay = Overlay::read("overlay.yaml", &overlay).unwrap();
    let source = ChartValues::load(&case.join("chart")).unwrap();
    generate(&source, names(), &overlay, Surroundings::default()).unwrap()
}

/// The part that is another for each chart.
fn spec_and_warnings(generated: &Generated) -> Value {
    let mut spec = generated.definition()["spec"].clone();
    let version = spec["versions"][0].take();
    let mut schema = version["schema"]["openAPIV3Schema"].clone();
    let properties = schema["properties"].as_object_mut().unwrap();
    properties.retain(|key, _| key == "spec");
    properties["spec"].as_object_mut().unwrap().remove("description");
    spec["versions"] = json!([{"schema": schema, "subresources": version["subresources"]}]);
    json!({"spec": spec, "warnings": generated.warnings})
}

/// With `BLESS=1` what is made becomes what is expected; read the difference before you commit it.
#[test]
fn charts_become_the_expected_definitions() {
    for case in fixtures() {
        let found = serde_yaml::to_string(&spec_and_warnings(&made(&case))).unwrap();
        if std::env::var_os("BLESS").is_some() {
            fs::write(case.join("expected.yaml"), &found).unwrap();
        }
        let expected = fs::read_to_string(case.join("expected.yaml")).unwrap_or_default();
        assert!(expected == found, "{}:\n{found}", case.display());
    }
}

/// What is made accepts the values that it is made of.
#[test]
fn default_values_fit_their_own_definition() {
    for case in fixtures() {
        let generated = made(&case);
        let mut spec = as_spec(&ChartValues::load(&case.join("chart")).unwrap()).unwrap();
        // What the overlays and schemas of the fixtures require beyond the defaults.
        spec["token"] = "abc".into();
        spec["owner"] = json!({"name": "a"});
        let schema =
            generated.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
        let problems = validate::problems(&schema, &spec);
        let problems: Vec<String> = problems.iter().map(|problem| problem.describe("spec")).collect();
        let others: Vec<&String> = problems
            .iter()
            .filter(|problem| !problem.contains("would be dropped"))
            .collect();
        assert!(others.is_empty(), "{}: {others:?}", case.display());
    }
}

#[test]
fn an_overlay_error_names_its_place() {
    let source = ChartValues::load(&fixtures()[0].parent().unwrap().join("overlay/chart")).unwrap();
    for (text, expected) in [
        ("shortName: x", "o.yaml:1:1: "),
        ("fields:\n  size: {minimun: 1}", "o.yaml:2:"),
        (
            "fields:\n  size: {minimum: 1}\n  service.tipe: {minLength: 1}",
            "o.yaml:3: fields.service.tipe: the chart has no value service.tipe: did you mean type?",
        ),
        (
            "fields:\n  hosts: {immutable: true}",
            "o.yaml:2: fields.hosts: `immutable` is for single values",
        ),
        ("fields:\n  hosts[].host: {immutable: true}", "outside of lists"),
        (
            "scale: {specReplicasPath: .spec.service}",
            "scale: .spec.service is no number",
        ),
        (
            "fields:\n  none[].host: {minLength: 1}",
            "fields.none[].host: the list none is empty in the chart's values, so that its items are not known: give none[].host a `type`",
        ),
        (
            "fields:\n  none[].a.b: {minLength: 1}",
            "the list none is empty in the chart's values, so that its items are not known: give none[].a.b a `type`",
        ),
        (
            "fields:\n  size[].a: {minLength: 1}",
            "fields.size[].a: size is no list in the chart's values",
        ),
        (
            "fields:\n  hosts[].hots: {minLength: 1}",
            "the chart has no value hosts[].hots: did you mean host?",
        ),
        ("scale: {specReplicasPath: .spec.sice}", "did you mean size?"),
        ("scale: {specReplicasPath: size}", "size is not below .spec"),
    ] {
        let read = Overlay::read("o.yaml", text);
        let error = match read {
            Err(error) => error,
            Ok(overlay) => match generate(&source, names(), &overlay, Surroundings::default()) {
                Ok(_) => panic!("{text} is taken"),
                Err(error) => format!("{error:#}"),
            },
        };
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn objects_are_checked_as_the_api_server_does() {
    let schema = json!({
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "allOf": [{"maximum": 5, "exclusiveMaximum": true}]},
            "mode": {"type": "string", "nullable": true, "allOf": [{"enum": ["a", "b"]}]},
            "port": {"x-kubernetes-int-or-string": true, "pattern": "^a"},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "maxItems": 2, "items": {"type": "string", "anyOf": [{"pattern": "^a"}, {"maxLength": 1}]}},
            "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "name": {"type": "string", "allOf": [{"not": {"enum": ["a"]}}, {"anyOf": [{"allOf": [{"pattern": "^a"}, {"maxLength": 2}]}]}]},
            "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "allOf": [{"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}]},
        },
    });
    for (spec, expected) in [
        (json!({"size": 1}), ""),
        (json!({"size": 1.0, "mode": null, "any": {"a": [null]}}), ""),
        (json!({}), "s.size is missing"),
        (json!({"size": 0}), "s.size must be at least 1"),
        (json!({"size": 5}), "s.size must be less than 5"),
        (json!({"size": "1"}), "s.size must be a whole number"),
        (json!({"size": null}), "s.size must not be null"),
        (json!({"size": 1, "mode": "c"}), "s.mode must be one of \"a\", \"b\""),
        (json!({"size": 1, "port": 3}), ""),
        (json!({"size": 1, "port": "b"}), "s.port must match ^a"),
        (
            json!({"size": 1, "port": 1.5}),
            "s.port must be a whole number or a string",
        ),
        (json!({"size": 1, "list": ["abc", "b"]}), ""),
        (json!({"size": 1, "list": ["abc", "bc"]}), "s.list[1] fits none of"),
        (
            json!({"size": 1, "list": ["a", "b", "c"]}),
            "s.list must have at most 2 items",
        ),
        (json!({"size": 1, "map": {"a": 1}}), "s.map.a must be true or false"),
        (json!({"size": 1, "name": "ab", "one": {"a": "x"}}), ""),
        (json!({"size": 1, "name": "a"}), "s.name must not be"),
        (json!({"size": 1, "name": "abc"}), "s.name fits none of"),
        (
            json!({"size": 1, "one": {"a": "x", "b": "x"}}),
            "s.one doesn't fit exactly one",
        ),
        (
            json!({"size": 1, "other": 1}),
            "s.other is unknown to the CRD, and would be dropped",
        ),
    ] {
        let found = validate::problems(&schema, &spec);
        let found: Vec<String> = found.iter().map(|problem| problem.describe("s")).collect();
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{spec}: {found:?}");
        assert!(
            found.iter().all(|problem| problem.starts_with(expected)),
            "{spec}: {found:?}"
        );
    }
}

/// `config/crd` is edited by hand, except for the fields of the operator.
#[test]
fn the_definitions_of_this_repository_have_the_status_of_the_operator() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let schema = chartwright_core::status::schema();
    let own = schema["properties"].as_object().unwrap();
    let templates: String = fs::read_dir(root.join("charts"))
        .unwrap()
        .filter_map(|chart| fs::read_to_string(chart.unwrap().path().join("status.yaml")).ok())
        .collect();
    for base in fs::read_dir(root.join(definition::BASES)).unwrap() {
        let path = base.unwrap().path();
        let object = go_yaml::to_json(&fs::read(&path).unwrap()).unwrap();
        let status = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        for (name, field) in own {
            assert_eq!(&status["properties"][name], field, "{}: {name}", path.display());
        }
        let others = status["properties"]
            .as_object()
            .unwrap()
            .keys()
            .filter(|name| !own.contains_key(*name));
        for name in others {
            assert!(
                templates.contains(name.as_str()),
                "{}: no code writes {name}",
                path.display()
            );
        }
    }
}
