//! `values.schema.json`: values are checked after they were folded, each chart's against its own schema.
//! Facts: Helm's `pkg/chart/common/util/jsonschema.go`. Schemas on the network are
//! fetched where there is a [`Fetch`].
//!
//! The validator is our own since users search for the texts of Helm's: it follows the library that Helm uses,
//! santhosh-tekuri/jsonschema v6, in the order of its checks and the shape of its reports.

mod compile;
mod compiled;
mod documents;
mod failure;
mod format;
mod json;
mod keywords;
mod metaschemas;
mod plain;
mod reader;
mod urls;
mod validator;

use std::fmt;
use std::sync::OnceLock;

use self::compile::Compiler;
use self::json::Json;
use super::dependencies::Node;
use super::{Fetch, values};
use crate::template::go::value::{Map, Str, Value};

/// Where a chart's schema stands, for references that start from it.
const URL: &str = "file:///values.schema.json";

/// A chart's `values.schema.json`. It is compiled when values are first checked, and kept: that takes longer than most
/// renders.
pub struct Schema {
    text: Str,
    compiled: OnceLock<Result<Vec<compiled::Schema>, String>>,
}

/// Checks folded values against the schemas of the charts that take part. `fetch` is asked for what a schema that is
/// compiled now refers to on the network.
///
/// # Errors
/// What is wrong, by chart: `<chart>:\n- at '/age': ...\n`, worded as Helm words it.
pub fn validate(node: &Node<'_>, values: &Map, fetch: Option<&Fetch>) -> Result<(), String> {
    let mut report = String::new();
    check(node, values, fetch, &mut report);
    if report.is_empty() { Ok(()) } else { Err(report) }
}

/// The schemas of the charts that take part, as far as [`validate`] would compile them first.
pub fn uncompiled<'c>(node: &Node<'c>) -> Vec<&'c Schema> {
    let schema = node.chart.schema.iter();
    let own = schema.filter(|schema| schema.compiled.get().is_none());
    own.chain(node.dependencies.iter().flat_map(uncompiled)).collect()
}

fn check(node: &Node<'_>, values: &Map, fetch: Option<&Fetch>, report: &mut String) {
    if let Some(schema) = &node.chart.schema
        && let Err(text) = schema.check(values, fetch)
    {
        report.push_str(&format!("{}:\n{text}", node.name()));
    }
    for child in &node.dependencies {
        match values.get(child.name().as_bytes()) {
            None | Some(Value::Nil) => {}
            Some(value) => match values::as_table(&value) {
                Some(table) => check(child, &table, fetch, report),
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

    /// Compiles it, if that wasn't done yet. What is wrong with it is for [`validate`] to say.
    pub fn prepare(&self, fetch: Option<&Fetch>) {
        let _ = self.compiled(fetch);
    }

    fn compiled(&self, fetch: Option<&Fetch>) -> Result<&[compiled::Schema], String> {
        let compile = || Json::parse(&self.text).and_then(|document| Compiler::new(fetch).compile(URL, Some(document)));
        self.compiled
            .get_or_init(compile)
            .as_ref()
            .map(Vec::as_slice)
            .map_err(String::clone)
    }

    fn check(&self, values: &Map, fetch: Option<&Fetch>) -> Result<(), String> {
        let schemas = self.compiled(fetch)?;
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
