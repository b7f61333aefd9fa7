//! One case: what is asked of both sides, and how their answers are compared.

use std::sync::Arc;

use chartwright::chart::{Chart, File};
use chartwright::render::{Capabilities, Input, Lookups, Release, Renderer};
use chartwright::yaml;
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use crate::oracle::{self, Answer, Oracle};
use crate::random::Random;
use crate::{sharing, templates, values, yaml_text};

/// The file that is rendered: Helm's engine treats it as any other, and ours returns its text as it is.
const FILE: &str = "NOTES.txt";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Pretty,
    Template,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Pretty, Kind::Template];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Pretty => "pretty",
            Kind::Template => "template",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Case {
    /// A text that `fromYaml` and all files go through.
    Read(Vec<u8>),
    /// A value for `toYaml`.
    Write(Value),
    /// A value for `toYamlPretty`.
    Pretty(Value),
    /// A chart of two files, with the user's values.
    Template {
        file: String,
        helpers: String,
        values: Map<String, Value>,
    },
}

impl Case {
    pub fn new(kind: Kind, random: &mut Random, documents: &[Vec<u8>]) -> Self {
        match kind {
            Kind::Read if random.chance(2) => Case::Read(yaml_text::aliases(random)),
            Kind::Read => Case::Read(yaml_text::text(random, documents)),
            Kind::Write => Case::Write(values::value(random, 4)),
            Kind::Pretty => Case::Pretty(values::value(random, 4)),
            Kind::Template => {
                let made = if random.chance(15) {
                    sharing::templates(random)
                } else {
                    templates::templates(random)
                };
                Case::Template {
                    file: made.file,
                    helpers: made.helpers,
                    values: values::chart_values(random),
                }
            }
        }
    }

    /// The request to the oracle, a line of JSON.
    pub fn request(&self) -> String {
        let request = match self {
            Case::Read(text) => json!({"op": "yaml.read", "in64": BASE64.encode(text)}),
            Case::Write(value) => json!({"op": "yaml.write", "in": value}),
            Case::Pretty(value) => json!({"op": "yaml.pretty", "in": value}),
            Case::Template { file, helpers, values } => {
                json!({"op": "template", "ts": {FILE: file, "_h.tpl": helpers}, "v": values})
            }
        };
        // The values are read as YAML, which doesn't allow all of JSON's characters as they are.
        let mut line = String::new();
        for c in request.to_string().chars() {
            match c {
                '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                    line.push_str(&format!("\\u{:04x}", u32::from(c)));
                }
                c => line.push(c),
            }
        }
        line
    }

    /// What the real libraries make of it.
    pub fn theirs(&self, oracle: &mut Oracle) -> Result<Answer, String> {
        let answer = oracle.ask(&self.request())?;
        if let Some(bad) = answer.get("bad") {
            return Err(format!("the oracle refuses {}: {bad}", self.request()));
        }
        if let Some(error) = oracle::error(&answer) {
            return Ok(Err(error));
        }
        let out = match self {
            Case::Read(_) => answer.get("out").map(|json| canonical(json).into_bytes()),
            Case::Write(_) | Case::Pretty(_) => oracle::text(&answer, "out"),
            Case::Template { .. } => {
                let name = format!("c/templates/{FILE}");
                let one = |key: &str| answer.get(key)?.get(&name)?.as_str();
                match (one("out"), one("out64")) {
                    (Some(text), _) => Some(text.as_bytes().to_vec()),
                    (_, Some(encoded)) => BASE64.decode(encoded.as_bytes()).ok(),
                    _ => None,
                }
            }
        };
        out.map(Ok)
            .ok_or_else(|| format!("the oracle's answer has no output: {answer}"))
    }

    /// What we make of it.
    pub fn ours(&self) -> Answer {
        match self {
            Case::Read(text) => yaml::to_json(text)
                .map(|json| canonical(&json).into_bytes())
                .map_err(|e| e.to_string()),
            Case::Write(value) => yaml::to_string(value)
                .map(String::into_bytes)
                .map_err(|e| e.to_string()),
            Case::Pretty(value) => yaml::to_string_pretty(value)
                .map(String::into_bytes)
                .map_err(|e| e.to_string()),
            Case::Template { file, helpers, values } => render(file, helpers, values),
        }
    }

    /// The case with Go's answer, as a line for a file of fixtures.
    pub fn fixture(&self, answer: &Answer) -> Value {
        let mut line = match self {
            Case::Read(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => json!({"in": text}),
                Err(_) => json!({"in64": BASE64.encode(bytes)}),
            },
            Case::Write(value) | Case::Pretty(value) => json!({"in": value}),
            Case::Template { file, helpers, values } => {
                let mut line = json!({"ts": {FILE: file}, "v": values});
                if !helpers.is_empty() {
                    line["ts"]["_h.tpl"] = json!(helpers);
                }
                line
            }
        };
        match answer {
            Err(error) => line["err"] = json!(error),
            Ok(bytes) if matches!(self, Case::Read(_)) => {
                line["out"] = serde_json::from_slice(bytes).unwrap_or(Value::Null);
            }
            Ok(bytes) => {
                let (name, text) = match std::str::from_utf8(bytes) {
                    Ok(text) => ("out", json!(text)),
                    Err(_) => ("out64", json!(BASE64.encode(bytes))),
                };
                line[name] = match self {
                    Case::Template { .. } => json!({format!("c/templates/{FILE}"): text}),
                    _ => text,
                };
            }
        }
        line
    }
}

/// JSON text with sorted keys.
fn canonical(json: &Value) -> String {
    json.to_string()
}

fn render(file: &str, helpers: &str, values: &Map<String, Value>) -> Answer {
    let template = |name: &str, text: &str| File {
        name: format!("templates/{name}"),
        data: text.as_bytes().into(),
    };
    let mut chart = Chart::default();
    chart.metadata.api_version = "v2".to_owned();
    chart.metadata.name = "c".to_owned();
    chart.metadata.version = "0.1.0".to_owned();
    chart.templates = vec![template(FILE, file), template("_h.tpl", helpers)];
    let renderer = Renderer::new(Arc::new(chart)).map_err(|e| e.to_string())?;
    let (capabilities, lookups) = (Capabilities::default(), Lookups::none());
    let input = Input {
        values: yaml::all_floats(Value::Object(values.clone())),
        clock: jiff::Timestamp::now(),
        ..Input::new(Release::install("release-name", "default"), &capabilities, &lookups)
    };
    let rendered = renderer.render(&input).map_err(|e| e.to_string())?;
    Ok(rendered.notes.unwrap_or_default().into_bytes())
}
