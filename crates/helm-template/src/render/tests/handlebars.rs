//! Charts that mix Handlebars and Go templates. The chart is `tests/fixtures/charts/handlebars/chart`.

use std::path::Path;

use crate::render::tests::chart_of;
use crate::render::*;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/charts/handlebars")
}

fn render(chart: Chart, lookup: impl Lookup + 'static, limits: Limits) -> Result<Rendered, Error> {
    let renderer = Engine::new(Arc::new(chart)).unwrap();
    let input = Input {
        lookup: Arc::new(lookup),
        limits,
        ..Input::new(ReleaseObject::install("r", "n"), serde_json::Value::Null)
    };
    // Twice: the second render takes the parsed templates from the renderer.
    renderer.render_with(&input).and_then(|_| renderer.render_with(&input))
}

fn render_files(files: &[(&str, &str)]) -> Result<Rendered, Error> {
    render(chart_of(files), NoCluster, Limits::default())
}

#[test]
fn a_chart_mixes_both_kinds() {
    let chart = Chart::load(folder().join("chart")).unwrap();
    let rendered = render(chart, NoCluster, Limits::default()).unwrap();
    let want = std::fs::read_to_string(folder().join("expected.yaml")).unwrap();
    assert_eq!(to_stream(&rendered, StreamOptions::default()), want);
    assert_eq!(rendered.notes.as_deref(), Some("R runs version 7.2.\n"));
    let sources: Vec<_> = rendered.objects.iter().map(|object| object.source.as_str()).collect();
    let want = [
        "both/templates/deployment.yaml.hbs",
        "both/templates/service.yaml",
        "both/templates/deployment.yaml.hbs",
    ];
    assert_eq!(sources, want);
    assert_eq!(rendered.hooks.len(), 1);
}

#[test]
fn errors_are_of_their_kind() {
    let parse = render_files(&[("t.yaml.hbs", "a: 1\n{{#if Values}}\n")]).unwrap_err();
    assert!(matches!(parse, Error::Parse { .. }), "{parse}");
    assert!(parse.to_string().starts_with("c/templates/t.yaml.hbs:3:1: "), "{parse}");
    let failed = render_files(&[("t.yaml.hbs", "a: 1\nb: {{Values.no}}\n")]).unwrap_err();
    assert!(matches!(&failed, Error::Execution { template, .. } if template == "c/templates/t.yaml.hbs"));
    assert_eq!(
        failed.to_string(),
        "c/templates/t.yaml.hbs:2:4: Values.no is not defined"
    );
    let manifest = render_files(&[("t.yaml.hbs", "a: [\n")]).unwrap_err();
    assert!(matches!(manifest, Error::Manifest(_)), "{manifest}");
    assert!(manifest.to_string().contains("c/templates/t.yaml.hbs"), "{manifest}");
}

#[test]
fn neither_kind_sees_the_others_definitions() {
    let go = "{{ include \"a\" . }}";
    let error = render_files(&[("_a.hbs", "x"), ("t.yaml", go)])
        .unwrap_err()
        .to_string();
    assert!(error.contains("no template \"a\""), "{error}");
    let go = "{{ define \"a\" }}x{{ end }}";
    let error = render_files(&[("_a.tpl", go), ("t.hbs", "{{> a}}")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("there is no partial \"a\""), "{error}");
}

#[test]
fn limits_span_all_files_of_a_render() {
    let files = [("a.yaml.hbs", "a: xxxxxxxxxxxxxxxx"), ("b.yaml", "b: xxxxxxxxxxxxxxxx")];
    let limits = Limits {
        output: 30,
        ..Limits::default()
    };
    let error = render(chart_of(&files), NoCluster, limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rendering c/templates/a.yaml.hbs went over the limit of 30 bytes of output"
    );
    let recursion = [
        ("_a.hbs", "{{#if Values}}{{/if}}{{> b}}"),
        ("_b.hbs", "{{> a}}"),
        ("t.hbs", "{{> a}}"),
    ];
    let error = render_files(&recursion).unwrap_err();
    assert!(error.is_limit(), "{error}");
}
