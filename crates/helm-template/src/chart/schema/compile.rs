//! Compiles the text of a schema for boon.
//!
//! boon follows the library that Helm uses, by the same author, with two exceptions: its patterns are JavaScript's
//! while Helm's are RE2's, and it has no limits. Both are handled by changing the document before boon reads it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::io::Read;
use std::rc::Rc;

use boon::{CompileError, Compiler, Draft, SchemaIndex, Schemas, UrlLoader};
use regex::Regex;
use serde_json::{Map, Value, json};

use super::{budget, format, report};
use crate::chart::{Chart, Fetch, File};
use crate::gostd::regexp;
use go_template::quote::quote_go;

/// The base URL of a chart's schema, for relative references.
const URL: &str = "file:///values.schema.json";
/// A schema that refuses what the chart's schema accepts: within a `not`, boon stops at the first finding and stores
/// none.
const REVERSED: &str = "file:///chartwright/reversed.json";
/// The largest schema file that is read, in bytes.
const MAX_FILE: u64 = 5 << 20;

/// These are URLs.
const URLS: [&str; 4] = ["$id", "$ref", "$schema", "id"];
/// The values of these keywords are data, not schemas.
#[rustfmt::skip]
const DATA: [&str; 6] = [
    "$vocabulary", "const", "default", "dependentRequired", "enum", "examples",
];
/// Below these are schemas by name.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependencies", "dependentSchemas", "properties"];
/// Below these is a schema, or a list of them.
#[rustfmt::skip]
const SCHEMAS: [&str; 15] = [
    "additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items", "not", "oneOf",
    "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
];

/// The original patterns of schemas by their translations for boon.
pub(super) type Patterns = HashMap<String, String>;

/// A compiled schema.
pub(super) struct CompiledSchema {
    pub schemas: Schemas,
    /// The chart's.
    pub own: SchemaIndex,
    /// See [`REVERSED`].
    pub reversed: SchemaIndex,
    pub patterns: Patterns,
}

/// Compiles a chart's schema.
///
/// # Errors
/// Why it isn't one.
pub(super) fn compile(text: &[u8], chart: &Chart, fetch: Option<&Fetch>) -> Result<CompiledSchema, String> {
    let patterns = Rc::new(RefCell::new(Patterns::new()));
    let document = read(text, &patterns)?;
    let mut compiler = Compiler::new();
    compiler.enable_format_assertions();
    format::all()
        .into_iter()
        .for_each(|format| compiler.register_format(format));
    compiler.use_loader(Box::new(SchemaLoader {
        fetch: fetch.cloned(),
        own: SchemaFiles::of(chart),
        patterns: Rc::clone(&patterns),
    }));
    let mut schemas = Schemas::new();
    let compile = || -> Result<_, Box<CompileError>> {
        compiler.add_resource(URL, document)?;
        compiler.add_resource(REVERSED, json!({"not": {"$ref": URL}}))?;
        let own = compiler.compile(URL, &mut schemas)?;
        Ok((own, compiler.compile(REVERSED, &mut schemas)?))
    };
    let (own, reversed) = compile().map_err(|error| worded(&error))?;
    let patterns = patterns.take();
    Ok(CompiledSchema {
        schemas,
        own,
        reversed,
        patterns,
    })
}

/// The message of Helm's library where users see it, otherwise boon's.
fn worded(error: &CompileError) -> String {
    match error {
        CompileError::ValidationError { url, src } => {
            let findings = report::lines(src, &Patterns::new()).join("\n");
            let what = format!("jsonschema validation failed with '{}'", src.schema_url);
            format!("{} is not valid against metaschema: {what}\n{findings}", quote_go(url))
        }
        CompileError::LoadUrlError { url, src } => format!("failing loading {}: {src}", quote_go(url)),
        CompileError::JsonPointerNotFound(place) => format!("json-pointer in {} not found", quote_go(place)),
        CompileError::AnchorNotFound { url, reference } => {
            let anchor = quote_go(reference);
            format!("anchor in {anchor} not found in schema {}", quote_go(url))
        }
        other => format!("{other:#}"),
    }
}

/// Reads a document, and prepares it for boon.
fn read(text: &[u8], patterns: &RefCell<Patterns>) -> Result<Value, String> {
    let mut document: Value = serde_json::from_str(&String::from_utf8_lossy(text))
        .map_err(|error| format!("the schema isn't JSON: {error}"))?;
    let draft = document
        .get("$schema")
        .and_then(Value::as_str)
        .and_then(Draft::from_url);
    let mut preparation = Preparation {
        asserts_formats: matches!(draft, Some(Draft::V4 | Draft::V6 | Draft::V7)),
        patterns: &mut patterns.borrow_mut(),
    };
    preparation.schema(&mut document, true)?;
    Ok(document)
}

/// The JSON files of the chart, which its schema may refer to.
struct SchemaFiles {
    chart: String,
    files: Vec<File>,
}

/// Folders of charts in projects: a schema may name its chart's folder from the project's, or from the operator's in its image.
const CHARTS: [&str; 2] = ["charts", "helm-charts"];

impl SchemaFiles {
    fn of(chart: &Chart) -> Self {
        let files = chart.files.iter().filter(|file| file.name.ends_with(".json"));
        SchemaFiles {
            chart: chart.metadata.name.clone(),
            files: files.cloned().collect(),
        }
    }

    /// The file at the path of a `file:` URL: from the chart's folder on, or below a folder that is called like the chart or lies in
    /// `charts`. Nothing is read from the disk.
    fn find(&self, path: &str) -> Option<&File> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let after_folder = (1..parts.len()).rev().filter(|at| {
            let is = |before: usize, test: &dyn Fn(&str) -> bool| {
                let part = at.checked_sub(before).and_then(|at| parts.get(at));
                part.is_some_and(|part| test(part))
            };
            is(1, &|part| part == self.chart) || is(2, &|part| CHARTS.contains(&part))
        });
        std::iter::once(0).chain(after_folder).find_map(|at| {
            let name = parts.get(at..)?.join("/");
            self.files.iter().find(|file| file.name == name)
        })
    }
}

/// Loads the documents that schemas refer to. Only the command line reads files and fetches URLs; the operator uses
/// only the chart's files.
struct SchemaLoader {
    fetch: Option<Fetch>,
    own: SchemaFiles,
    patterns: Rc<RefCell<Patterns>>,
}

impl UrlLoader for SchemaLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        // Helm accepts everything there.
        if url.starts_with("urn:") {
            return Ok(Value::Bool(true));
        }
        let Some(fetch) = &self.fetch else {
            let own = url.strip_prefix("file://").and_then(|path| self.own.find(path));
            let problem = "a schema may refer to itself and to files in the chart's folder: put a copy there";
            return Ok(read(own.ok_or(problem)?.data.as_bytes(), &self.patterns)?);
        };
        let text = match url.strip_prefix("file://") {
            Some(path) => file(path).map_err(|error| format!("open {path}: {}", crate::chart::io_text(&error)))?,
            None if url.starts_with("http") => fetch(url)?,
            None => return Err(format!("no URLLoader registered for {}", quote_go(url)).into()),
        };
        Ok(read(&text, &self.patterns)?)
    }
}

fn file(path: &str) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE).read_to_end(&mut text)?;
    Ok(text)
}

/// A URL without blanks and letters that Go's reader accepts in one, and boon's doesn't, and without `.` as a host.
fn encoded(url: &str) -> String {
    let url = &url.replacen("file://./", "file:///", usize::from(url.starts_with("file://./")));
    let one = |byte: u8| match byte {
        b' ' | 0x80.. => format!("%{byte:02X}"),
        byte => char::from(byte).to_string(),
    };
    url.bytes().map(one).collect()
}

/// The changes to a document before boon reads it.
struct Preparation<'p> {
    /// Whether its draft checks formats.
    asserts_formats: bool,
    patterns: &'p mut Patterns,
}

impl Preparation<'_> {
    /// `is_sure`: keywords lead to this schema. Other values may be schemas because of a reference.
    fn schema(&mut self, schema: &mut Value, is_sure: bool) -> Result<(), String> {
        let members = match schema {
            Value::Object(members) if !members.is_empty() => members,
            Value::Array(items) => return items.iter_mut().try_for_each(|item| self.schema(item, is_sure)),
            _ => return Ok(()),
        };
        for (keyword, value) in members.iter_mut() {
            match (keyword.as_str(), value) {
                ("pattern", Value::String(pattern)) => *pattern = self.pattern(pattern, is_sure)?,
                ("patternProperties", Value::Object(named)) => {
                    for (pattern, mut value) in std::mem::take(named) {
                        self.schema(&mut value, is_sure)?;
                        named.insert(self.pattern(&pattern, is_sure)?, value);
                    }
                }
                (keyword, Value::String(url)) if URLS.contains(&keyword) => *url = encoded(url),
                (keyword, _) if DATA.contains(&keyword) => {}
                (keyword, Value::Object(named)) if NAMED.contains(&keyword) => {
                    named.values_mut().try_for_each(|value| self.schema(value, is_sure))?;
                }
                (keyword, value) => self.schema(value, is_sure && SCHEMAS.contains(&keyword))?,
            }
        }
        self.format(members);
        Ok(())
    }

    /// Adds the format that counts the visits of a schema. A schema that has another counting format already checks
    /// only texts, which is little work.
    fn format(&self, members: &mut Map<String, Value>) {
        let checked = match members.get("format") {
            None => budget::NAME,
            Some(Value::String(name)) if !self.asserts_formats => budget::NAME,
            Some(Value::String(name)) => format::checked(name).unwrap_or(budget::NAME),
            Some(_) => return,
        };
        members.insert("format".to_owned(), checked.into());
    }

    /// A pattern as boon's engine reads it.
    fn pattern(&mut self, pattern: &str, is_sure: bool) -> Result<String, String> {
        let own = regexp::translated(pattern);
        // boon compiles it the same way, but reports a program that is too large as its own defect.
        let own = own.and_then(|own| Regex::new(&own).map(|_| own).map_err(|error| error.to_string()));
        let own = match own {
            Ok(own) => own,
            Err(error) if is_sure => return Err(format!("{} is no pattern: {error}", quote_go(pattern))),
            Err(_) => return Ok(pattern.to_owned()),
        };
        // Findings show the pattern that the chart has.
        self.patterns.insert(own.clone(), pattern.to_owned());
        Ok(own)
    }
}
