//! Templates through the whole engine, against what the real Helm made of them (`tests/fixtures/engine`).

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::*;
use crate::fixtures::{self, Case, Outcome};
use crate::yaml::all_floats;

/// The text of `NOTES.txt`: the engine renders it as any other file, and nothing sorts or parses it.
fn render(case: &Case) -> Result<String, String> {
    let mut chart = Chart::default();
    chart.metadata.api_version = "v2".to_owned();
    chart.metadata.name = "c".to_owned();
    chart.metadata.version = "0.1.0".to_owned();
    let templates: Map<String, Json> = case.field("ts").as_object().cloned().unwrap_or_default();
    chart.templates = templates
        .into_iter()
        .map(|(name, text)| File {
            name: format!("templates/{name}"),
            data: text.as_str().unwrap_or_default().as_bytes().into(),
        })
        .collect();
    let input = Input {
        values: all_floats(case.field("v").clone()),
        release: Release {
            name: "release-name".to_owned(),
            namespace: "default".to_owned(),
            revision: 1,
            is_install: true,
            is_upgrade: false,
        },
        capabilities: &Capabilities::default(),
        lookups: &Lookups::none(),
        clock: jiff::Timestamp::UNIX_EPOCH,
        kept: None,
        seed: None,
        limits: Limits::default(),
        include_crds: false,
        skip_schema: false,
    };
    let renderer = Renderer::new(Arc::new(chart)).map_err(|e| e.to_string())?;
    let rendered = renderer.render(&input).map_err(|e| e.to_string())?;
    Ok(rendered.notes.unwrap_or_default())
}

#[test]
fn what_fuzzing_found_renders_as_with_helm() {
    let check = || {
        fixtures::check("engine/fuzzed.jsonl", |case| match render(case) {
            Ok(text) => Outcome::default().with("out", serde_json::json!({"c/templates/NOTES.txt": text})),
            Err(text) => Outcome::default().with("err", text),
        })
    };
    assert!(on_large_stack(check).unwrap() >= 10);
}
