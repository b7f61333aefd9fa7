//! `values.schema.json`: values are checked after they were folded, each chart's against its own schema.
//! Facts: Helm's `pkg/chart/common/util/jsonschema.go`. Schemas on the network are not fetched.

use std::fmt;
use std::sync::OnceLock;

use jsonschema::{PatternOptions, Validator};

use super::dependencies::Node;
use super::{schema_report, values};
use crate::template::go::value::{Map, Str, Value};
use crate::template::helm::convert::to_json_value;

/// A chart's `values.schema.json`. It is compiled when values are first checked, and kept: that takes longer than most
/// renders.
pub struct Schema {
    text: Str,
    compiled: OnceLock<Result<Compiled, String>>,
}

struct Compiled {
    schema: serde_json::Value,
    validator: Validator,
}

/// Checks folded values against the schemas of the charts that take part.
///
/// # Errors
/// What is wrong, by chart: `<chart>:\n- at '/age': ...\n`, worded as Helm words it.
pub fn validate(node: &Node<'_>, values: &Map) -> Result<(), String> {
    let mut report = String::new();
    check(node, values, &mut report);
    if report.is_empty() { Ok(()) } else { Err(report) }
}

fn check(node: &Node<'_>, values: &Map, report: &mut String) {
    if let Some(schema) = &node.chart.schema
        && let Err(text) = schema.check(values)
    {
        report.push_str(&format!("{}:\n{text}", node.name()));
    }
    for child in &node.dependencies {
        match values.get(child.name().as_bytes()) {
            None | Some(Value::Nil) => {}
            Some(value) => match values::as_table(&value) {
                Some(table) => check(child, &table, report),
                None => report.push_str(&format!(
                    "{}:\ninvalid type for values: expected object (map), got {}\n",
                    child.name(),
                    value.type_name()
                )),
            },
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

    fn check(&self, values: &Map) -> Result<(), String> {
        let compiled = self.compiled.get_or_init(|| Compiled::new(&self.text));
        let Compiled { schema, validator } = compiled.as_ref().map_err(String::clone)?;
        let values = to_json_value(&Value::Map(values.clone()))?;
        if validator.is_valid(&values) {
            return Ok(());
        }
        let errors: Vec<_> = validator.iter_errors(&values).collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(schema_report::text(&errors, schema))
        }
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

// === impl Compiled ===

impl Compiled {
    fn new(text: &[u8]) -> Result<Self, String> {
        let schema: serde_json::Value = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        // RE2 has no look-around either, and no pattern may take exponential time.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let validator = options.build(&schema).map_err(|e| schema_report::broken(&e))?;
        Ok(Compiled { schema, validator })
    }
}
