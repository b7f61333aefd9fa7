//! Generates the CRD's schema of the status and the table of its fields, and compares them with the files.
//! `UPDATE=1 cargo test -p chartwright-core status_schema` rewrites the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, json};

use super::*;
use crate::record::Record;
use crate::status::redaction::REDACTED;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const BEGIN: &str = "<!-- generated: fields of the status -->\n\n";
const END: &str = "\n<!-- end generated -->";

/// The schemas of the structs, by name.
type Structs = Map<String, Value>;

/// Returns the schema of [`Status`] with its name, and those of the structs in it.
fn root_schema() -> (Value, Structs) {
    let mut root = schemars::schema_for!(Status).to_value();
    let structs = root["$defs"].take();
    (root, structs.as_object().cloned().unwrap_or_default())
}

/// Resolves references and nullable types. Returns the schema, and the name of its struct.
fn resolve<'s>(schema: &'s Value, structs: &'s Structs) -> (&'s Value, Option<&'s str>) {
    if let Some(options) = schema["anyOf"].as_array() {
        let some = options.iter().find(|option| option["type"] != "null");
        return resolve(some.expect("an optional type"), structs);
    }
    match schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        Some(name) => {
            let (found, inner) = resolve(&structs[name], structs);
            (found, inner.or(found.get("properties").map(|_| name)))
        }
        None => (schema, None),
    }
}

/// Returns the type of a schema. Enums are strings, so that a CRD accepts the values of a later version.
fn type_of(schema: &Value) -> &str {
    let kind = schema["type"].as_str();
    let of_list = || schema["type"].as_array()?.iter().find_map(Value::as_str);
    kind.or_else(of_list).unwrap_or("string")
}

fn description(schema: &Value) -> Option<String> {
    Some(schema["description"].as_str()?.replace('\n', " "))
}

/// Returns the text without the targets of links.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let (before, label) = before.rsplit_once('[').expect("a link has a label");
        let _ = write!(plain, "{before}{label}");
        rest = after.split_once(')').expect("a link has a target").1;
    }
    plain + rest
}

/// Converts a schema to a structural one. Only types are checked, and only those of fields that the operator writes.
fn structural(schema: &Value, structs: &Structs) -> Value {
    let (resolved, _) = resolve(schema, structs);
    let mut result = match type_of(resolved) {
        "object" => {
            let fields = resolved["properties"].as_object().into_iter().flatten();
            let properties: Map<String, Value> = fields
                .map(|(name, field)| (name.clone(), structural(field, structs)))
                .collect();
            let mut object = json!({"type": "object", PRESERVE: true});
            if !properties.is_empty() {
                object["properties"] = properties.into();
            }
            object
        }
        "array" => {
            let items = structural(&resolved["items"], structs);
            json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"})
        }
        "integer" => json!({"type": "integer", "format": "int64"}),
        "string" if resolved["format"] == "date-time" => json!({"type": "string", "format": "date-time"}),
        kind => json!({"type": kind}),
    };
    if let Some(text) = description(schema) {
        result["description"] = without_links(&text).into();
    }
    result
}

/// Returns the schema for a CRD.
fn crd_schema() -> Value {
    let (root, structs) = root_schema();
    let mut schema = structural(&root, &structs);
    // Below the first generation, so that a CR that no operator has seen doesn't look up to date.
    schema["default"] = json!({"observedGeneration": -1});
    let conditions = &mut schema["properties"]["conditions"];
    conditions["x-kubernetes-list-type"] = "map".into();
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    let condition = &mut conditions["items"];
    condition["required"] = json!(["type", "status"]);
    condition["properties"]["status"]["enum"] = json!(["True", "False", "Unknown"]);
    if let Some(condition) = condition.as_object_mut() {
        condition.remove(PRESERVE);
    }
    schema
}

/// Returns the rows of a table, one for each field below a path: path, type, meaning. The fields of a struct are listed once.
fn rows<'s>(
    path: &str,
    schema: &'s Value,
    names: &[&str],
    structs: &'s Structs,
    listed: &mut BTreeMap<&'s str, String>,
) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for name in names {
        let field = &schema["properties"][*name];
        let (resolved, mut inner) = resolve(field, structs);
        let mut below = resolved;
        let mut path = format!("{path}{name}");
        let kind = match (type_of(resolved), resolved["format"].as_str()) {
            ("string", Some("date-time")) => "time".to_owned(),
            ("array", _) => {
                (below, inner) = resolve(&resolved["items"], structs);
                match (inner, below["format"].as_str()) {
                    (Some(_), _) => "list".to_owned(),
                    (None, Some("date-time")) => "list of times".to_owned(),
                    (None, _) => format!("list of {}s", type_of(below)),
                }
            }
            (kind, _) => kind.to_owned(),
        };
        let mut meaning = description(field).unwrap_or_else(|| panic!("{path} has no doc comment"));
        if kind == "list" {
            path += "[]";
        }
        let earlier = inner.and_then(|inner| listed.get(inner));
        if let Some(earlier) = earlier {
            let _ = write!(meaning, " It has the fields of `{earlier}`.");
        }
        found.push((path.trim_end_matches("[]").to_owned(), kind, meaning));
        if let (Some(inner), None) = (inner, earlier) {
            listed.insert(inner, path.clone());
            let fields = below["properties"].as_object().expect("a struct has fields");
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            found.extend(rows(&format!("{path}."), below, &names, structs, listed));
        }
    }
    found
}

fn all_rows() -> Vec<(String, String, String)> {
    let (root, structs) = root_schema();
    rows("", &root, *FIELDS, &structs, &mut BTreeMap::new())
}

/// Compares a file with its generated content, or writes it.
fn compare(path: &str, generated: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(file, generated).unwrap();
    } else {
        let text = std::fs::read_to_string(file).unwrap();
        assert_eq!(text, generated, "{path} is outdated: run this test with UPDATE=1");
    }
}

#[test]
fn status_schema_is_that_of_the_struct() {
    let text = serde_json::to_string_pretty(&crd_schema()).unwrap();
    compare("src/status/schema.json", &(text + "\n"));
}

#[test]
fn status_schema_is_in_the_reference() {
    let page = "../../docs/reference/status.md";
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let (before, after) = text.split_once(BEGIN).expect("the page has a region");
    let (_, after) = after.split_once(END).expect("the region has an end");
    let mut table = "| field | type | meaning |\n|---|---|---|\n".to_owned();
    for (path, kind, meaning) in all_rows() {
        let _ = writeln!(table, "| `{path}` | {kind} | {meaning} |");
    }
    compare(page, &format!("{before}{BEGIN}{table}{END}{after}"));
}

/// Invariant: a field for people is redacted.
#[test]
fn texts_for_people_are_redacted() {
    let rows = all_rows();
    let paths: BTreeSet<&str> = rows.iter().map(|(path, ..)| path.as_str()).collect();
    let for_people = ["message", "why", "refused", "notes", "invalid", "failed"];
    let is_for_people = |path: &&str| for_people.iter().any(|name| path.rsplit('.').next() == Some(name));
    let texts = rows.iter().filter(|(_, kind, _)| kind == "string");
    for path in texts.map(|(path, ..)| path.as_str()).filter(is_for_people) {
        assert!(REDACTED.contains(&path) || path == "conditions[].message", "{path}");
    }
    for path in REDACTED {
        // The steps of a plan are listed with the hooks.
        assert!(paths.contains(path) || path.starts_with("planRun.steps."), "{path}");
    }
}

#[test]
fn the_record_is_read_from_the_recorded_fields() {
    let run = json!({"event": "pre-upgrade", "kind": "Job", "name": "a", "run": "r", "phase": "Failed",
        "started": "2026-01-01T00:00:00Z"});
    let status = json!({
        "observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True"}], "release": {"revision": 3},
        "inventory": [{"version": "v1", "kind": "A", "name": "a"}], "notes": "n", "hooks": {"runs": [run]},
        "history": [{"revision": 3}], "plans": [{"name": "p"}], "planRun": {"refused": "r"}, "remediation": [{"name": "r"}],
        "elected": [{"name": "e"}], "templated": {"fields": ["f"]}, "failures": 1, "lastHandledReconcileAt": "1",
        "lastHandledForceAt": "2", "lastHandledResetAt": "3", "lastHandledRegenerateAt": "4",
        "lastHandledRollbackTo": "5", "lastHandledRunPlan": "6",
    });
    let fields = status.as_object().unwrap();
    assert_eq!(
        fields.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        FIELDS.iter().copied().collect()
    );
    let record = |status: &Map<String, Value>| Record::from_status(&status.clone().into(), None).into_record();
    let read = Status::read(&status);
    for field in FIELDS.iter() {
        let mut without = fields.clone();
        without.remove(*field);
        assert_eq!(
            record(&without) != record(fields),
            recorded().any(|known| known == *field),
            "{field}"
        );
        // A field of a wrong type is lost, and no other one.
        let lost = Status::read(&without.clone().into());
        assert_ne!(lost, read, "{field}");
        for wrong in [json!(null), json!(true), json!(1.5), json!({"a": [1]}), json!([[1]])] {
            without.insert((*field).to_owned(), wrong.clone());
            let found = json!(Status::read(&without.clone().into()));
            let others = |status: Value| {
                let mut fields = status.as_object().cloned().unwrap_or_default();
                fields.remove(*field);
                fields
            };
            assert_eq!(others(found), others(json!(lost)), "{field} {wrong}");
        }
    }
    for none in [json!(null), json!([1]), json!("x")] {
        assert_eq!(Status::read(&none), Status::default());
    }
}
