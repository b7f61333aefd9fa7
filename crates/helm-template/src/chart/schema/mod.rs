//! `values.schema.json`: values are checked after they were folded, each chart's against its own schema.
//! Facts: Helm's `pkg/chart/common/util/jsonschema.go`. The validator is boon, by the author of the one that Helm uses.

mod budget;
mod compile;
mod format;
mod report;

use std::fmt;
use std::sync::OnceLock;

use serde_json::{Number, Value as Json};

use self::compile::{CompiledSchema, compile};
use super::dependencies::ChartNode;
use super::{Chart, Fetch, values};
use go_template::value::{Map, Str, Value};

/// The maximum steps for the check of one chart's values; see [`budget`]. The default values of large charts take some
/// thousands, and the largest custom resource that a cluster keeps has less than a million values.
const MAX_STEPS: usize = 2_000_000;
/// The maximum memory of findings: about [`FINDING`], and [`PART`] for each key or index that leads to the value, and
/// each schema that looks at a value may have one.
const MAX_FINDINGS: usize = 64 << 20;
const FINDING: usize = 256;
const PART: usize = 32;

/// A chart's `values.schema.json`. It is compiled when values are first checked, and kept: that takes longer than most
/// renders.
pub struct Schema {
    text: Str,
    compiled: OnceLock<Result<CompiledSchema, String>>,
}

/// Checks coalesced values against the schemas of the enabled charts. `fetch` loads what a schema that is compiled now
/// refers to on the network.
///
/// # Errors
/// The errors by chart: `<chart>:\n- at '/age': ...\n`, with Helm's message.
pub fn validate(node: &ChartNode<'_>, values: &Map, fetch: Option<&Fetch>) -> Result<(), SchemaProblem> {
    let mut problem = SchemaProblem::default();
    validate_into(&mut problem, node, values, fetch);
    if problem.text.is_empty() { Ok(()) } else { Err(problem) }
}

/// What is wrong.
#[derive(Debug, Default)]
pub struct SchemaProblem {
    pub text: String,
    /// A schema itself is wrong: no values help.
    pub is_of_schema: bool,
}

fn validate_into(problem: &mut SchemaProblem, node: &ChartNode<'_>, values: &Map, fetch: Option<&Fetch>) {
    let report = &mut problem.text;
    if let Some(schema) = &node.chart.schema {
        match schema.compiled(node.chart, fetch) {
            Ok(compiled) => {
                if let Err(text) = compiled.check(values) {
                    report.push_str(&format!("{}:\n{text}", node.name()));
                }
            }
            Err(text) => {
                report.push_str(&format!("{}:\n{text}", node.name()));
                problem.is_of_schema = true;
            }
        }
    }
    for child in &node.dependencies {
        match values.get(child.name().as_bytes()) {
            None | Some(Value::Nil) => {}
            Some(value) => match values::as_table(&value) {
                Some(table) => validate_into(problem, child, &table, fetch),
                None => problem.text.push_str(&format!(
                    "{}:\ninvalid type for values: expected object (map), got {}\n",
                    child.name(),
                    value.type_name()
                )),
            },
        }
    }
}

impl Schema {
    /// The schema as it stands in the chart; whether it is one shows when values are checked.
    pub fn new(text: Str) -> Self {
        Schema {
            text,
            compiled: OnceLock::new(),
        }
    }

    /// The file's content.
    pub fn text(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// # Errors
    /// The error in the schema.
    fn compiled(&self, chart: &Chart, fetch: Option<&Fetch>) -> Result<&CompiledSchema, &String> {
        let compiled = self
            .compiled
            .get_or_init(|| compile(self.text.as_bytes(), chart, fetch));
        compiled.as_ref()
    }
}

impl CompiledSchema {
    /// First whether anything is wrong, which keeps nothing; then what.
    fn check(&self, values: &Map) -> Result<(), String> {
        let values = json(&Value::Map(values.clone()));
        let is_wrong = budget::within(MAX_STEPS, || self.schemas.validate(&values, self.reversed).is_ok());
        if !is_wrong.ok_or_else(|| {
            format!(
                "- at '': the check takes more than {MAX_STEPS} steps, or too much of the stack: simplify the schema\n"
            )
        })? {
            return Ok(());
        }
        let steps = MAX_FINDINGS / (FINDING + PART * depth(&values));
        let lines = budget::within(steps, || match self.schemas.validate(&values, self.own) {
            Ok(()) => Vec::new(),
            Err(error) => report::lines(&error, &self.patterns),
        });
        match lines {
            None => Err("- at '': the values have more errors than a report can hold\n".to_owned()),
            Some(lines) if lines.is_empty() => Ok(()),
            Some(lines) => Err(lines.join("\n") + "\n"),
        }
    }
}

/// A value as boon takes it.
fn json(value: &Value) -> Json {
    match value {
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(n) | Value::Int64(n) => (*n).into(),
        Value::Uint8(n) => (*n).into(),
        Value::Uint64(n) => (*n).into(),
        Value::Float64(n) => Number::from_f64(*n).map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(text.to_text().into()),
        Value::List(list) => list.items.iter().flat_map(|items| items.iter()).map(json).collect(),
        Value::Map(map) => {
            let members = map.snapshot();
            let members = members.iter().map(|(key, value)| (key.to_text().into(), json(value)));
            Json::Object(members.collect())
        }
        Value::Nil | Value::Object(_) => Json::Null,
    }
}

/// The nesting of a value.
fn depth(value: &Json) -> usize {
    let below = match value {
        Json::Array(items) => items.iter().map(depth).max(),
        Json::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or_default()
}

impl Clone for Schema {
    fn clone(&self) -> Self {
        Schema::new(self.text.clone())
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    /// Checks a JSON object with a schema.
    fn check(schema: &serde_json::Value, values: &serde_json::Value, fetch: Option<&Fetch>) -> Result<(), String> {
        let Value::Map(values) = Value::from_json(values) else {
            panic!()
        };
        let schema = Schema::new(Str::from(schema.to_string().as_str()));
        schema
            .compiled(&Chart::default(), fetch)
            .map_err(String::clone)?
            .check(&values)
    }

    /// Whether the check is refused with these words.
    fn refuses(result: Result<(), String>, words: &str) {
        let text = result.unwrap_err();
        assert!(text.contains(words) && text.len() < 1_000, "{text:.1000}");
    }

    #[test]
    fn long_lists_are_searched_for_equal_items_at_once() {
        let mut items: Vec<usize> = (0..40_000).collect();
        let schema = json!({"properties": {"a": {"uniqueItems": true}}});
        assert_eq!(check(&schema, &json!({"a": items}), None), Ok(()));
        items.extend([7, 5]);
        refuses(
            check(&schema, &json!({"a": items}), None),
            "items at 7 and 40,000 are equal",
        );
    }

    #[test]
    fn steps_and_findings_are_limited() {
        // Each level is looked at twice as often as the one above it.
        let branch = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
        let schema = json!({"anyOf": [branch, branch]});
        let values = (0..40).fold(json!({"a": 1}), |inner, _| json!({"a": inner}));
        refuses(check(&schema, &values, None), "simplify the schema");
        let either = json!({"properties": {"a": {"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}});
        assert_eq!(check(&either, &json!({"a": vec![1; 200_000]}), None), Ok(()));
        refuses(
            check(&either, &json!({"a": vec![true; 200_000]}), None),
            "more errors than a report can hold",
        );
        // The thread goes on as if nothing had been.
        assert_eq!(check(&schema, &json!({"b": 1}), None), Ok(()));
        // Each finding names its place, and so the long key.
        let numbers = json!({"additionalProperties": {"items": {"type": "string"}}});
        refuses(
            check(&numbers, &json!({"k".repeat(1 << 20): vec![1; 10_000]}), None),
            "more errors than a report can hold",
        );
    }

    #[test]
    fn values_may_nest_as_deep_as_the_stack_lets_them() {
        let schema =
            json!({"anyOf": [{"type": "number"}, {"allOf": [{"type": "object", "properties": {"a": {"$ref": "#"}}}]}]});
        let depth = go_yaml::MAX_DEPTH - 2;
        let around = |inner, _| Json::Object([("a".to_owned(), inner)].into_iter().collect());
        let deep = |innermost| (0..depth).fold(innermost, around);
        let check = |innermost| {
            let run = || check(&schema, &deep(innermost), None);
            crate::render::on_large_stack(run)
        };
        let _ = check(json!({}));
        refuses(check(json!(true)), "- at '': ");
    }

    #[test]
    fn without_a_fetch_nothing_is_fetched_or_read() {
        for url in ["http://127.0.0.1:9/a", "file:///etc/hostname", "other.json"] {
            let result = check(&json!({"properties": {"a": {"$ref": url}}}), &json!({}), None);
            refuses(result, "to files in the chart's folder");
        }
        let fetch: Fetch = Arc::new(|_: &str| Ok(br#"{"properties": {"a": {"pattern": "^\\d$"}}}"#.to_vec()));
        let result = check(&json!({"$ref": "http://x.org/a"}), &json!({"a": "b"}), Some(&fetch));
        assert_eq!(result.unwrap_err(), "- at '/a': 'b' does not match pattern '^\\\\d$'\n");
    }

    #[test]
    fn a_schema_may_refer_to_files_of_its_chart() {
        let file = |name: &str, text: &str| super::super::File {
            name: name.to_owned(),
            data: text.into(),
        };
        let definitions =
            r##"{"definitions": {"size": {"$ref": "#/definitions/count"}, "count": {"type": "integer"}}}"##;
        let chart = |reference: &str| {
            let schema = json!({"properties": {"size": {"$ref": reference}}}).to_string();
            let files = [
                file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
                file("values.schema.json", &schema),
                file("_definitions.json", definitions),
                file(
                    "schemas/more.json",
                    r##"{"$ref": "../_definitions.json#/definitions/size"}"##,
                ),
            ];
            Chart::of_files(files.to_vec()).unwrap()
        };
        let check = |reference: &str, size: serde_json::Value| {
            let chart = chart(reference);
            let Value::Map(values) = Value::from_json(&json!({"size": size})) else {
                panic!()
            };
            validate(&ChartNode::new(&chart), &values, None).map_err(|problem| (problem.is_of_schema, problem.text))
        };
        for reference in [
            "_definitions.json#/definitions/size",
            "./_definitions.json#/definitions/size",
            "schemas/more.json",
            "file://./helm-charts/web/_definitions.json#/definitions/size",
            "file://./helm-charts/other/_definitions.json#/definitions/size",
            "file:///opt/helm/helm-charts/web/_definitions.json#/definitions/size",
            "file:///charts/web/schemas/more.json",
        ] {
            assert_eq!(check(reference, json!(1)), Ok(()), "{reference}");
            let (is_of_schema, text) = check(reference, json!("a")).unwrap_err();
            assert!(
                !is_of_schema && text.contains("at '/size': got string, want integer"),
                "{reference}: {text}"
            );
        }
        for reference in [
            "other.json",
            "file:///etc/passwd",
            "file://./helm-charts/web/none.json",
            "../../etc/passwd",
            "https://example.com/_definitions.json",
            "_definitions.json#/definitions/none",
        ] {
            let (is_of_schema, text) = check(reference, json!(1)).unwrap_err();
            assert!(is_of_schema && text.starts_with("web:\n"), "{reference}: {text}");
        }
    }

    #[test]
    fn fractions_are_divided_as_they_are_written() {
        let tenth = json!({"type": "number", "multipleOf": 0.1});
        let each = json!({"additionalProperties": tenth});
        assert_eq!(check(&each, &json!({"a": 0.3, "b": 0.7}), None), Ok(()));
        assert_eq!(
            check(&each, &json!({"a": 0.3, "b": 0.75}), None).unwrap_err(),
            "- at '/b': multipleOf: got 0.75, want 0.1\n"
        );
        let either = json!({"properties": {"a": {"anyOf": [tenth, {"type": "string"}]}}});
        assert_eq!(check(&either, &json!({"a": 0.3}), None), Ok(()));
    }
}
