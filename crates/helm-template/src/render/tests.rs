use std::time::Duration;

use serde_json::json;

use super::*;

fn chart(template: &str) -> Chart {
    let file = |name: &str, text: &str| File {
        name: format!("templates/{name}"),
        data: text.as_bytes().into(),
    };
    let mut chart = Chart::default();
    chart.metadata.name = "c".to_owned();
    chart.metadata.version = "1.0.0".to_owned();
    chart.templates = vec![file("t.yaml", template)];
    chart
}

pub(super) fn render_with(template: &str, change: impl FnOnce(&mut Input<'_>)) -> Result<Rendered, Error> {
    let renderer = Engine::new(Arc::new(chart(template))).unwrap();
    let mut input = Input::new(Release::install("r", "n"), json!({}));
    change(&mut input);
    renderer.render_with(&input)
}

fn text(template: &str, change: impl FnOnce(&mut Input<'_>)) -> String {
    render_with(template, change)
        .unwrap()
        .objects
        .first()
        .map(|manifest| manifest.text.clone())
        .unwrap_or_default()
}

#[test]
fn a_renderer_crosses_threads() {
    fn check<T: Send + Sync>() {}
    check::<Engine>();
}

#[test]
fn numbers_of_the_input_keep_their_kind() {
    let got = text("a: {{ typeOf .Values.a }} {{ typeOf .Values.b }}", |input| {
        input.values = json!({"a": 1, "b": 1.0})
    });
    assert_eq!(got, "a: int64 float64");
}

#[test]
fn a_seed_makes_a_render_repeatable() {
    let template = "a: {{ randAlphaNum 20 }}{{ uuidv4 }} {{ now | unixEpoch }}";
    let seeded = |seed: u8| {
        text(template, |input| {
            input.random = Some(Arc::new([seed; 32]));
            input.clock = jiff::Timestamp::UNIX_EPOCH;
        })
    };
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
    assert!(seeded(1).ends_with(" 0"));
    assert_ne!(text(template, |_| {}), text(template, |_| {}));
}

#[test]
fn limits_end_a_render_and_are_named() {
    let loops = "{{ range until 100000 }}{{ range until 100000 }}x{{ end }}{{ end }}";
    let table: [(&str, Limits, &str); 4] = [
        (
            loops,
            Limits {
                steps: 10_000,
                ..Limits::default()
            },
            "10000 steps",
        ),
        (
            loops,
            Limits {
                output: 5_000,
                ..Limits::default()
            },
            "5000 bytes of output",
        ),
        (
            loops,
            Limits {
                time: Duration::ZERO,
                ..Limits::default()
            },
            "0 seconds of processor time",
        ),
        (
            "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}",
            Limits {
                depth: 100,
                ..Limits::default()
            },
            "100 nested levels",
        ),
    ];
    for (template, limits, want) in table {
        let error = render_with(template, |input| input.limits = limits).unwrap_err();
        assert!(error.is_limit(), "{error}");
        let text = error.to_string();
        let start = format!("rendering c/templates/t.yaml went over the limit of {want} at c/templates/t.yaml:1:");
        assert!(text.starts_with(&start), "{text}");
    }
}

#[test]
fn the_default_depth_fits_the_large_stack() {
    let template =
        "{{ define \"a\" }}{{ if . }}{{ with . }}{{ include \"a\" . }}{{ end }}{{ end }}{{ end }}{{ include \"a\" 1 }}";
    let error = render_with(template, |_| {}).unwrap_err();
    assert!(
        error.to_string().contains("nested reference name: a") || error.is_limit(),
        "{error}"
    );
    let tpl = "{{ $t := \"{{ tpl .t . }}\" }}{{ tpl $t (dict \"t\" $t) }}";
    let error = render_with(tpl, |_| {}).unwrap_err();
    assert!(error.is_limit(), "{error}");
}

#[test]
fn lookups_are_answered_from_the_table_or_reported() {
    let key = |name: &str| LookupKey {
        api_version: "v1".into(),
        kind: "Secret".into(),
        namespace: "n".into(),
        name: name.into(),
    };
    let known = BTreeMap::from([(key("a"), json!({"data": {"n": 1}})), (key("gone"), json!({}))]);
    let template = "# {{ range list \"a\" \"gone\" \"b\" }}{{ (lookup \"v1\" \"Secret\" \"n\" .) | toJson }}{{ end }}";
    let input = Input {
        lookup: Arc::new(known),
        ..Input::new(Release::install("r", "n"), json!({}))
    };
    let rendered = Engine::new(chart(template)).unwrap().render_with(&input).unwrap();
    assert_eq!(rendered.objects[0].text, "# {\"data\":{\"n\":1}}{}{}");
    assert_eq!(rendered.missing_lookups, [key("b")]);
    assert_eq!(rendered.used_lookups, [key("a"), key("b"), key("gone")]);

    // A failure may only be for want of an answer.
    let template = "{{ range list \"a\" \"b\" }}{{ (lookup \"v1\" \"Secret\" \"n\" .).data.n }}{{ end }}";
    let error = Engine::new(chart(template)).unwrap().render_with(&input).unwrap_err();
    assert!(error.to_string().contains("nil pointer"), "{error}");
    assert!(matches!(error, Error::Unanswered { missing, .. } if missing == [key("b")]));
}

#[test]
fn a_render_tells_what_it_asked_of_the_cluster() {
    let asked = |template: &str| render_with(&format!("# {template}"), |_| {}).unwrap().asked;
    for (template, expected) in [
        ("{{ .Values.a }} {{ .Capabilities.HelmVersion.Version }}", &[][..]),
        ("{{ .Capabilities.KubeVersion.Minor }}", &["KubeVersion"]),
        (
            "{{ if .Capabilities.APIVersions.Has \"batch/v1\" }}{{ end }}{{ \"x/v1/Y\" | .Capabilities.APIVersions.Has }}",
            &["batch/v1", "x/v1/Y"],
        ),
        (
            "{{ $c := .Capabilities }}{{ $c.APIVersions.Has (printf \"a/%s\" \"v1\") }}",
            &["a/v1"],
        ),
        (
            "{{ tpl \"{{ $.Capabilities.APIVersions.Has \\\"a/v1\\\" }}\" . }}",
            &["a/v1"],
        ),
        ("{{ range .Capabilities.APIVersions }}{{ end }}", &["APIVersions"]),
        ("{{ .Capabilities.APIVersions.Has \"pa55word\" }}", &["APIVersions"]),
        ("{{ has \"v1\" .Capabilities.APIVersions }}", &["APIVersions"]),
        (
            "{{ $v := .Capabilities.APIVersions }}{{ $v.Has \"a/v1\" }}",
            &["APIVersions"],
        ),
        ("{{ .Capabilities | toJson | len }}", &["APIVersions", "KubeVersion"]),
        (
            "{{ printf \"%v\" .Capabilities | len }}",
            &["APIVersions", "KubeVersion"],
        ),
        ("{{ toYaml . | len }}", &["APIVersions", "KubeVersion"]),
        (
            "{{ range $i := until 60 }}{{ $.Capabilities.APIVersions.Has (printf \"a/v%d\" $i) }}{{ end }}",
            &["APIVersions"],
        ),
    ] {
        assert_eq!(asked(template), expected, "{template}");
    }
    let mut chart = chart("a: 1");
    chart.metadata.kube_version = ">= 1.20".to_owned();
    let renderer = Engine::new(chart).unwrap();
    let rendered = renderer.render(&Release::install("r", "n"), json!({})).unwrap();
    assert_eq!(rendered.asked, ["KubeVersion"]);
    let capabilities = Capabilities::default();
    assert_eq!(capabilities.answer("KubeVersion", ""), "v1.37.0");
    assert_eq!(
        (capabilities.answer("batch/v1", ""), capabilities.answer("x/v1", "")),
        ("served", "")
    );
    assert_eq!(capabilities.answer("APIVersions", "all"), "all");
}

/// Templates of so much text that several threads parse them while they are executed: the first to be executed, then a
#[test]
fn errors_of_syntax_come_first() {
    let errors = [
        (
            "{{ fail \"no\" }}",
            "{{ if }}",
            "parse error at (c/templates/_a.tpl:1): missing value for if",
        ),
        (
            "{{ fail \"no\" }}",
            "",
            "execution error at (c/templates/z.yaml:1:3): no",
        ),
        (
            "{{ include \"c/templates/_a.tpl\" . }}",
            "{{ nothing }}",
            "function \"nothing\" not defined",
        ),
    ];
    for (first, last, want) in errors {
        let mut chart = chart("");
        let file = |(name, text): (&str, &str)| File {
            name: format!("templates/{name}"),
            data: text.into(),
        };
        chart.templates = [("_a.tpl", last), ("z.yaml", first)].map(file).into();
        let renderer = Engine::new(chart).unwrap();
        let error = renderer.render(&Release::install("r", "n"), json!({})).unwrap_err();
        assert!(error.to_string().contains(want), "{first:?} {last:?}: {error}");
    }
}

#[test]
fn library_charts_are_refused() {
    let mut chart = chart("");
    chart.metadata.kind = "library".to_owned();
    let error = Engine::new(Arc::new(chart)).err().unwrap();
    assert_eq!(error.to_string(), "library charts are not installable");
    assert!(!error.is_rendering());
}

#[test]
fn sets_of_templates_are_few_and_share_what_was_parsed() {
    let mut parent = chart("a: 1");
    for n in 0..6 {
        let mut child = chart("b: 1");
        child.metadata.name = format!("c{n}");
        parent.dependencies.push(child);
        parent.metadata.dependencies.push(crate::chart::Dependency {
            name: format!("c{n}"),
            version: "1.0.0".to_owned(),
            condition: format!("c{n}.enabled"),
            ..Default::default()
        });
    }
    parent.metadata.has_dependencies = true;
    let renderer = Engine::new(Arc::new(parent)).unwrap();
    for combination in 0..64_u32 {
        let enabled = (0..6).map(|n| (format!("c{n}"), json!({"enabled": combination >> n & 1 == 1})));
        let values = serde_json::Value::Object(enabled.collect());
        let rendered = renderer.render(&Release::install("r", "n"), values).unwrap();
        assert_eq!(rendered.objects.len(), 1 + combination.count_ones() as usize);
        assert!(renderer.sets.counts().0 <= 16);
    }
    assert_eq!(renderer.sets.counts().1, 7, "a text for each file");
}
