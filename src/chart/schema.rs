//! `values.schema.json`: values are checked after they were folded, each chart's against its own schema.
//! Facts: Helm's `pkg/chart/common/util/jsonschema.go`. Schemas on the network are not fetched.

use jsonschema::PatternOptions;

use super::dependencies::Node;
use super::{schema_report, values};
use crate::template::go::value::{Map, Value};
use crate::template::helm::convert::to_json_value;

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
        && let Err(text) = check_one(schema, values)
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

fn check_one(schema: &[u8], values: &Map) -> Result<(), String> {
    let schema: serde_json::Value = serde_json::from_slice(schema).map_err(|e| e.to_string())?;
    // RE2 has no look-around either, and no pattern may take exponential time.
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    let validator = options.build(&schema).map_err(|e| schema_report::broken(&e))?;
    let values = to_json_value(&Value::Map(values.clone()))?;
    let errors: Vec<_> = validator.iter_errors(&values).collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(schema_report::text(&errors, &schema))
    }
}
