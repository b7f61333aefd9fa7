mod fixtures;
mod handlebars;
mod limits;
mod stored_results;

use std::time::Duration;

use serde_json::json;

use super::*;

fn file((name, text): (&str, &str)) -> File {
    File {
        name: format!("templates/{name}"),
        data: text.into(),
    }
}

/// A chart of these templates.
pub(super) fn chart_of(files: &[(&str, &str)]) -> Chart {
    let mut chart = Chart::default();
    chart.metadata.name = "c".to_owned();
    chart.metadata.version = "1.0.0".to_owned();
    chart.templates = files.iter().copied().map(file).collect();
    chart
}

fn chart(template: &str) -> Chart {
    chart_of(&[("t.yaml", template)])
}

pub(super) fn render_with(template: &str, change: impl FnOnce(&mut Input<'_>)) -> Result<Rendered, Error> {
    let renderer = Engine::new(Arc::new(chart(template))).unwrap();
    let mut input = Input::new(ReleaseObject::install("r", "n"), json!({}));
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
    let endless = "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}";
    type Change = fn(&mut Limits);
    let patterns = "{{ range until 200 }}{{ $_ := regexMatch (printf \"a%d\" .) \"a\" }}{{ end }}";
    let table: [(&str, Change, &str); 5] = [
        // Compiling is work.
        (patterns, |limits| limits.steps = 100_000, "100000 steps"),
        (loops, |limits| limits.steps = 10_000, "10000 steps"),
        (loops, |limits| limits.output = 5_000, "5000 bytes of output"),
        (
            loops,
            |limits| limits.time = Duration::ZERO,
            "0 seconds of processor time",
        ),
        (endless, |limits| limits.depth = 100, "100 nested levels"),
    ];
    for (template, change, want) in table {
        let error = render_with(template, |input| change(&mut input.limits)).unwrap_err();
        assert!(error.is_limit(), "{error}");
        let text = error.to_string();
        let start = format!("rendering c/templates/t.yaml went over the limit of {want} at c/templates/t.yaml:1:");
        assert!(text.starts_with(&start), "{text}");
    }
    let same = "{{ range until 200 }}{{ $_ := regexMatch \"a1\" \"a\" }}{{ end }}";
    assert!(render_with(same, |input| input.limits.steps = 100_000).is_ok());
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
        ..Input::new(ReleaseObject::install("r", "n"), json!({}))
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
    let queries = |template: &str| {
        render_with(&format!("# {template}"), |_| {})
            .unwrap()
            .capability_queries
    };
    for line in include_str!("capabilities_used.jsonl").lines() {
        let (template, expected): (String, Vec<String>) = serde_json::from_str(line).unwrap();
        assert_eq!(queries(&template), expected, "{template}");
    }
    let mut chart = chart("a: 1");
    chart.metadata.kube_version = ">= 1.20".to_owned();
    let renderer = Engine::new(chart).unwrap();
    let rendered = renderer.render(&ReleaseObject::install("r", "n"), json!({})).unwrap();
    assert_eq!(rendered.capability_queries, ["KubeVersion"]);
    let capabilities = Capabilities::default();
    assert_eq!(capabilities.answer("KubeVersion", ""), "v1.37.0");
    assert_eq!(
        (capabilities.answer("batch/v1", ""), capabilities.answer("x/v1", "")),
        ("served", "")
    );
    assert_eq!(capabilities.answer("APIVersions", "all"), "all");
}

#[test]
fn errors_of_syntax_come_first() {
    let missing = "parse error at (c/templates/_a.tpl:1): missing value for if";
    let failed = "execution error at (c/templates/z.yaml:1:3): no";
    let include = "{{ include \"c/templates/_a.tpl\" . }}";
    for (first, last, want) in [
        ("{{ fail \"no\" }}", "{{ if }}", missing),
        ("{{ fail \"no\" }}", "", failed),
        (include, "{{ nothing }}", "function \"nothing\" not defined"),
    ] {
        let mut chart = chart("");
        chart.templates = [("_a.tpl", last), ("z.yaml", first)].map(file).into();
        let renderer = Engine::new(chart).unwrap();
        let error = renderer
            .render(&ReleaseObject::install("r", "n"), json!({}))
            .unwrap_err();
        assert!(error.to_string().contains(want), "{first:?} {last:?}: {error}");
    }
}

/// A dependency that a condition or tags disable may be missing from a released chart.
#[test]
fn a_dependency_that_is_off_may_be_missing() {
    let dependency = |name: &str, condition: &str| crate::chart::Dependency {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        condition: condition.to_owned(),
        ..Default::default()
    };
    let with = |dependencies: Vec<crate::chart::Dependency>| {
        let mut chart = chart("a: 1");
        chart.metadata.dependencies = dependencies;
        chart.metadata.has_dependencies = true;
        chart
    };
    let lacking = with(vec![dependency("db", "db.enabled")]);
    assert!(Engine::new(lacking.clone()).is_err(), "Helm refuses it");
    let engine = Engine::for_releases(lacking).unwrap();
    let render = |values| engine.render(&ReleaseObject::install("r", "n"), values);
    assert_eq!(render(json!({"db": {"enabled": false}})).unwrap().objects.len(), 1);
    for values in [json!({"db": {"enabled": true}}), json!({})] {
        let error = render(values).unwrap_err();
        assert!(
            error.is_about_chart() && error.to_string().ends_with("charts/ directory: db"),
            "{error}"
        );
    }
    assert!(Engine::for_releases(with(vec![dependency("db", "")])).is_err());
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
        let rendered = renderer.render(&ReleaseObject::install("r", "n"), values).unwrap();
        assert_eq!(rendered.objects.len(), 1 + combination.count_ones() as usize);
        assert!(renderer.sets.counts().0 <= 16);
    }
    assert_eq!(renderer.sets.counts().1, 7, "a text for each file");
}
