//! Templates through the whole engine, against what the real Helm made of them (`tests/fixtures/engine`).

use std::cell::RefCell;

use serde_json::{Map as JsonMap, Value as Json, json};

use crate::render::*;
use fixtures::{self, Case, Outcome};
use go_yaml::all_floats;

/// A header, and the chart that it describes.
type Base = (Arc<JsonMap<String, Json>>, Chart);

thread_local! {
    /// The chart of the header that was last seen, by its address.
    static BASE: RefCell<Option<Base>> = const { RefCell::new(None) };
}

/// The chart of a header's `files`, or one that has a name only.
fn load(case: &Case) -> Chart {
    let folder = tempfile::tempdir().unwrap();
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    files.insert(
        "Chart.yaml".to_owned(),
        "apiVersion: v2\nname: c\nversion: 0.1.0\n".into(),
    );
    for (name, text) in case.field("files").as_object().into_iter().flatten() {
        files.insert(name.clone(), text.as_str().unwrap().into());
    }
    for (name, text) in case.field("files64").as_object().into_iter().flatten() {
        let bytes = data_encoding::BASE64.decode(text.as_str().unwrap().as_bytes());
        files.insert(name.clone(), bytes.unwrap());
    }
    for (name, data) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
    Chart::load(folder.path()).unwrap()
}

/// The chart of a case, with its own templates. What the header has is loaded once.
fn chart(case: &Case) -> Chart {
    let mut chart = BASE.with_borrow_mut(|base| match base {
        Some((header, chart)) if Arc::ptr_eq(header, case.header()) => chart.clone(),
        _ => {
            let chart = load(case);
            *base = Some((case.header().clone(), chart.clone()));
            chart
        }
    });
    let mut add = |name: &str, data: Vec<u8>| {
        let name = format!("templates/{name}");
        chart.templates.push(File {
            name,
            data: data.into(),
        });
    };
    if let Some(text) = case.bytes("t") {
        add("t.yaml", text);
    }
    for (name, text) in case.field("ts").as_object().into_iter().flatten() {
        add(name, text.as_str().unwrap().into());
    }
    chart
}

/// The output of Helm's engine, before it is split and sorted: of the template `t`, or of all templates.
fn render(case: &Case) -> Result<Outcome, String> {
    let renderer = Engine::new(Arc::new(chart(case))).map_err(|e| e.to_string())?;
    let mut capabilities = Capabilities::default();
    if let Some(version) = case.text("kubeVersion") {
        capabilities.kube_version = KubeVersion::parse(version).unwrap();
    }
    let values = all_floats(case.field("v").clone());
    let input = Input {
        capabilities: &capabilities,
        ..Input::new(ReleaseObject::install("release-name", "default"), values)
    };
    let mut texts = renderer.texts(&input).map_err(|e| e.to_string())?;
    Ok(match case.field("t") {
        Json::Null if case.field("t64").is_null() => {
            let all = texts
                .into_iter()
                .map(|(name, text)| (name, json!(String::from_utf8_lossy(&text))));
            Outcome::default().with("out", all.collect::<JsonMap<_, _>>())
        }
        _ => Outcome::default().with_bytes("out", &texts.remove("c/templates/t.yaml").unwrap_or_default()),
    })
}

fn agree(file: &str, at_least: usize) {
    let check = || {
        fixtures::check(&format!("engine/{file}.jsonl"), |case| {
            render(case).unwrap_or_else(|text| Err::<String, _>(text).into())
        })
    };
    let count = on_large_stack(check);
    assert!(count >= at_least, "only {count} cases in {file}");
}

#[test]
fn templates_are_as_with_helm() {
    agree("objects", 1_000);
    agree("functions", 1_000);
    agree("language", 500);
    agree("kinds", 30);
    agree("globs", 30);
}

#[test]
fn includes_are_made_anew_where_it_makes_a_difference() {
    agree("includes", 45);
}
