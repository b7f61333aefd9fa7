//! `values.schema.json`: values are checked after they were folded, each chart's against its own schema.
//! Facts: Helm's `pkg/chart/common/util/jsonschema.go`. Schemas on the network are
//! fetched where there is a [`Fetch`].
//!
//! The validator is our own since users search for the texts of Helm's: it follows the library that Helm uses,
//! santhosh-tekuri/jsonschema v6, in the order of its checks and the shape of its reports.

mod compile;
mod compiled;
mod dialect;
mod documents;
mod failure;
mod format;
mod json;
mod keywords;
mod loader;
mod location;
mod metaschemas;
mod plain;
mod reader;
mod urls;
mod validator;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

use self::compile::{Compiled, Compiler};
use self::json::Json;
use super::dependencies::Node;
use super::warning::Warning;
use super::{Fetch, values};
use go_template::value::{Map, Str, Value};

/// Where a chart's schema stands, for references that start from it.
const URL: &str = "file:///values.schema.json";

/// A chart's `values.schema.json`. It is compiled when values are first checked, and kept: that takes longer than most
/// renders.
pub struct Schema {
    text: Str,
    compiled: OnceLock<Compiled>,
}

/// Checks folded values against the schemas of the charts that take part. `fetch` is asked for what a schema that is
/// compiled now refers to on the network; what Helm would log is added to `warnings`.
///
/// # Errors
/// What is wrong, by chart: `<chart>:\n- at '/age': ...\n`, worded as Helm words it.
pub fn validate(
    node: &Node<'_>,
    values: &Map,
    fetch: Option<&Fetch>,
    warnings: &mut Vec<Warning>,
) -> Result<(), String> {
    let mut check = Check {
        fetch,
        report: String::new(),
        urns: BTreeSet::new(),
        warnings,
    };
    check.chart(node, values);
    match check.report {
        report if report.is_empty() => Ok(()),
        report => Err(report),
    }
}

/// The check of a chart's values and of those of its dependencies.
struct Check<'c> {
    fetch: Option<&'c Fetch>,
    report: String,
    /// What was warned of; once is enough.
    urns: BTreeSet<String>,
    warnings: &'c mut Vec<Warning>,
}

impl Check<'_> {
    fn chart(&mut self, node: &Node<'_>, values: &Map) {
        if let Some(schema) = &node.chart.schema {
            let compiled = schema.compiled(self.fetch);
            let urns = compiled.urns.iter().filter(|urn| self.urns.insert((*urn).clone()));
            self.warnings.extend(urns.map(|urn| Warning::unresolved(urn)));
            if let Err(text) = compiled.check(values) {
                self.report.push_str(&format!("{}:\n{text}", node.name()));
            }
        }
        for child in &node.dependencies {
            match values.get(child.name().as_bytes()) {
                None | Some(Value::Nil) => {}
                Some(value) => match values::as_table(&value) {
                    Some(table) => self.chart(child, &table),
                    None => self.report.push_str(&format!(
                        "{}:\ninvalid type for values: expected object (map), got {}\n",
                        child.name(),
                        value.type_name()
                    )),
                },
            }
        }
    }
}

// === impl Schema ===

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

    fn compiled(&self, fetch: Option<&Fetch>) -> &Compiled {
        let compile = || match Json::parse(&self.text) {
            Ok(document) => Compiler::new(fetch).compile(URL, document),
            Err(problem) => Compiled::not_json(problem),
        };
        self.compiled.get_or_init(compile)
    }
}

impl Compiled {
    fn not_json(problem: String) -> Self {
        Compiled {
            schemas: Err(problem),
            urns: Vec::new(),
        }
    }

    fn check(&self, values: &Map) -> Result<(), String> {
        let schemas = self.schemas.as_ref().map_err(String::clone)?;
        let values = Json::from_value(&Value::Map(values.clone()));
        validator::validate(schemas, 0, &values).map_err(|failure| {
            let mut lines = Vec::new();
            failure.top().iter().for_each(|failure| failure.lines(0, &mut lines));
            lines.join("\n") + "\n"
        })
    }
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    /// What a schema says of a JSON value, which is an object.
    fn check(schema: &str, values: &serde_json::Value, fetch: Option<&Fetch>) -> Result<(), String> {
        let Value::Map(values) = Value::from_json(values) else {
            panic!()
        };
        Schema::new(Str::from(schema)).compiled(fetch).check(&values)
    }

    /// Whether the check is refused with these words.
    fn refuses(result: Result<(), String>, words: &str) {
        let text = result.unwrap_err();
        assert!(text.contains(words) && text.len() < 1_000, "{:.1000}", text);
    }

    #[test]
    fn long_lists_are_searched_for_equal_items_at_once() {
        let mut items: Vec<usize> = (0..40_000).collect();
        let schema = r#"{"properties": {"a": {"uniqueItems": true}}}"#;
        assert_eq!(check(schema, &json!({"a": items}), None), Ok(()));
        let draft = "http://json-schema.org/draft-07/schema#";
        let long = json!({"$schema": draft, "properties": {"a": {"enum": items}}}).to_string();
        assert_eq!(check(&long, &json!({"a": 7}), None), Ok(()));
        items.extend([7, 5]);
        let equal = Err("- at '/a': items at 7 and 40,000 are equal\n".to_owned());
        assert_eq!(check(schema, &json!({"a": items}), None), equal);
    }

    #[test]
    fn comparisons_and_findings_are_limited() {
        let words = "simplify the schema";
        let options: Vec<usize> = (0..40_000).collect();
        let long = json!({"additionalProperties": {"items": {"enum": options}}}).to_string();
        refuses(check(&long, &json!({"a": vec![39_999; 2_000]}), None), words);
        let many = json!({"additionalProperties": {"allOf": vec![false; 60_000]}}).to_string();
        refuses(check(&many, &json!({"k".repeat(50_000): 1}), None), words);
        // What alternatives find isn't kept.
        let either = r#"{"properties": {"a": {"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}}"#;
        assert_eq!(check(either, &json!({"a": vec![1; 200_000]}), None), Ok(()));
    }

    #[test]
    fn pointers_of_subschemas_are_limited() {
        let name = "n".repeat(60_000);
        let open = format!(r#"{{"properties": {{"{name}": "#).repeat(60);
        let schema = format!(
            r##"{{"$ref": "#/$defs/a", "$defs": {{"a": {open}true{}}}}}"##,
            "}}".repeat(60)
        );
        refuses(check(&schema, &json!({}), None), "nest less");
        let schema = schema.replacen('{', r#"{"$anchor": "a", "#, 1);
        refuses(check(&schema, &json!({}), None), "nest less");
    }

    #[test]
    fn identifiers_and_dialects_are_looked_up_once() {
        let count = 20_000;
        let own = (0..count).map(|n| (format!("a{n}"), json!({"$id": format!("http://x.org/{n}")})));
        let to = (0..count).map(|n| (format!("p{n}"), json!({"$ref": format!("http://x.org/{n}")})));
        let draft = "http://json-schema.org/draft-07/schema#";
        let (own, to): (serde_json::Value, serde_json::Value) = (own.collect(), to.collect());
        let schema = json!({"$schema": draft, "definitions": own, "properties": to}).to_string();
        assert_eq!(check(&schema, &json!({"p1": 1}), None), Ok(()));

        let parts: serde_json::Value = (0..2_000).map(|n| (format!("a{n}"), json!({}))).collect();
        let to = (0..2_000).map(|n| (format!("p{n}"), json!({"$ref": format!("#/x/a{n}")})));
        let to: serde_json::Value = to.collect();
        let other = json!({"id": "http://x.org/4", "$schema": "http://json-schema.org/draft-04/schema#"});
        let schema = json!({"$schema": draft, "definitions": {"o": other}, "x": parts, "properties": to}).to_string();
        assert_eq!(check(&schema, &json!({"p1": 1}), None), Ok(()));
    }

    #[test]
    fn long_numbers_and_chains_end() {
        let [whole, long] = ["0", "7"].map(|digit| format!("1.{}", digit.repeat(900_000)));
        assert_eq!(
            check(
                &format!(r#"{{"maxLength": {whole}, "minimum": {long}}}"#),
                &json!({}),
                None
            ),
            Ok(())
        );
        let schema = format!(r#"{{"properties": {{"a": {{"multipleOf": {long}}}}}}}"#);
        refuses(
            check(&schema, &json!({"a": 1}), None),
            "a multipleOf of more than 10000 digits",
        );

        let next = AtomicUsize::new(0);
        let fetch = Fetch::new(move |_| {
            let at = next.fetch_add(1, Ordering::SeqCst);
            Ok(format!(r#"{{"$schema": "http://x.org/{at}"}}"#).into_bytes())
        });
        let result = check(r#"{"$schema": "http://x.org/x"}"#, &json!({}), Some(&fetch));
        refuses(result, "leads through more than 100 documents");
    }
}
