use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{Error, Templates};
use crate::helm::{Context, Environment, Limit, Limits, LookupKey};
use go_template::{Set, Value};

/// The number of random texts.
const CASES: usize = 3_000;

fn environment() -> Environment {
    Environment {
        clock: jiff::Timestamp::UNIX_EPOCH,
        random: Some(Arc::new([1; 32])),
        ..Environment::default()
    }
}

/// Parses `files`, which lie in `c/templates/`, and renders the last one.
fn render_files(files: &[(&str, &str)], values: Json, environment: &Environment) -> Result<String, Error> {
    let mut templates = Templates::default();
    let mut last = String::new();
    for (name, source) in files {
        last = format!("c/templates/{name}");
        templates.parse(&last, source.as_bytes())?;
    }
    let mut dot = json!({"Release": {"Name": "r"}});
    dot["Values"] = values;
    let dot = Value::from_json(&dot);
    let mut context = Context::new(Arc::new(Set::new("gotpl")), environment);
    let text = templates.render(&mut context, &last, &dot)?;
    Ok(String::from_utf8(text).unwrap())
}

fn render(source: &str, values: Json) -> Result<String, Error> {
    render_files(&[("t.hbs", source)], values, &environment())
}

fn values() -> Json {
    json!({
        "name": "web", "port": 80, "float": 3.0, "half": 0.5, "yes": true, "zero": 0, "none": null, "empty": "",
        "list": ["a", "b"], "map": {"b": 1, "a": {"c": "<&>"}}, "title": "T",
    })
}

/// Templates and their results.
fn table(lines: &str) -> impl Iterator<Item = (String, String)> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap())
}

#[test]
fn helpers() {
    for (source, want) in table(include_str!("helpers.jsonl")) {
        let text = render(&source, values()).map_err(|e| e.to_string());
        assert_eq!(text, Ok(want), "{source}");
    }
}

#[test]
fn randomness_is_the_renders() {
    let source = "{{randAlphaNum 12}} {{uuidv4}}";
    assert_eq!(render(source, json!({})).unwrap(), render(source, json!({})).unwrap());
    assert_eq!(render(source, json!({})).unwrap().len(), 12 + 1 + 36);
}

#[test]
fn errors_name_file_line_and_column() {
    let at = "c/templates/t.hbs";
    for (source, want) in table(include_str!("errors.jsonl")) {
        let error = render(&source, values()).map_err(|e| e.to_string());
        assert_eq!(error, Err(format!("{at}:{want}")), "{source}");
    }
    let error = Templates::default().parse("c/x.hbs", b"a\nbc\xff").unwrap_err();
    assert_eq!(error.to_string(), "c/x.hbs:2:3: the template is not UTF-8");
}

#[test]
fn partials_have_their_names_and_places() {
    let run = |files: &[(&str, &str)]| {
        let values = json!({"list": [1, 2], "name": "web"});
        render_files(files, values, &environment()).map_err(|e| e.to_string())
    };
    let labels = ("_labels.yaml.hbs", "a: {{Values.name}}\nb: {{x}}\n");
    assert_eq!(
        run(&[labels, ("t.hbs", "m:\n  {{> labels.yaml x=5}}\nn: 1\n")]).as_deref(),
        Ok("m:\n  a: web\n  b: 5\nn: 1\n")
    );
    assert_eq!(
        run(&[labels, ("t.hbs", "\n{{> labels.yaml}}")]),
        Err("c/templates/_labels.yaml.hbs:2:4: x is not defined".to_owned())
    );
    // The later definition wins: parents are parsed after their subcharts.
    assert_eq!(
        run(&[("_a.hbs", "1"), ("_a.hbs", "2"), ("t.hbs", "{{> a}}")]).as_deref(),
        Ok("2")
    );
}

#[test]
fn limits_end_a_render() {
    let nested = "{{#each Values.l}}{{#each @root.Values.l}}{{#each @root.Values.l}}x{{/each}}{{/each}}{{/each}}";
    let silent = "{{#each Values.l}}{{#each @root.Values.l}}{{#each @root.Values.l}}{{/each}}{{/each}}{{/each}}";
    let recursion = "{{#if Values}}{{> b}}{{/if}}";
    let inline = "{{#*inline \"x\"}}{{> x}}{{/inline}}{{> x}}";
    type Files<'f> = &'f [(&'f str, &'f str)];
    let mutual: Files<'_> = &[("_a.hbs", recursion), ("_b.hbs", "{{> a}}"), ("t.hbs", "{{> a}}")];
    type Change = fn(&mut Limits);
    let depth: Change = |_| {};
    let table: [(Files<'_>, Change, Limit); 7] = [
        (&[("t.hbs", nested)], |it| it.steps = 10_000, Limit::Steps(10_000)),
        (&[("t.hbs", silent)], |it| it.steps = 10_000, Limit::Steps(10_000)),
        (&[("t.hbs", nested)], |it| it.output = 5_000, Limit::Output(5_000)),
        (
            &[("t.hbs", silent)],
            |it| it.time = Duration::ZERO,
            Limit::Time(Duration::ZERO),
        ),
        (mutual, depth, Limit::Depth(100)),
        (&[("_b.hbs", recursion), ("t.hbs", "{{> b}}")], depth, Limit::Depth(100)),
        (&[("t.hbs", inline)], depth, Limit::Depth(100)),
    ];
    for (files, change, want) in table {
        let values = json!({"l": (0..100).collect::<Vec<_>>()});
        let mut environment = environment();
        change(&mut environment.limits);
        match render_files(files, values, &environment) {
            Err(Error::Limit(got)) => assert_eq!(got, want, "{files:?}"),
            other => panic!("{files:?}: {other:?}"),
        }
    }
    let error = render("{{> t.hbs}}{{indent 2000000000 \"x\"}}", json!({}));
    assert!(error.is_err());
    let error = render("{{indent 2000000000 \"x\"}}", json!({}))
        .unwrap_err()
        .to_string();
    assert!(error.contains("over the limit"), "{error}");
}

#[test]
fn deep_templates_are_refused_by_the_parser() {
    let table = [
        ("{{#if 1}}".repeat(100_000), "1:901"),
        (format!("\n{{{{quote {}", "(quote ".repeat(100_000)), "2:709"),
        (format!("{{{{quote {}", "[".repeat(100_000)), "1:109"),
    ];
    for (source, place) in table {
        let error = render(&source, json!({})).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("c/templates/t.hbs:{place}: more than 100 nested blocks or parentheses")
        );
    }
    let wide = "{{#if Values.yes}}x{{/if}}".repeat(1_000);
    assert_eq!(render(&wide, values()).unwrap().len(), 1_000);
    let blocks = 90;
    let deep = format!("{}x{}", "{{#if Values.yes}}".repeat(blocks), "{{/if}}".repeat(blocks));
    assert_eq!(render(&deep, values()).unwrap(), "x");
    let calls = format!("{{{{upper {}\"x\"{}}}}}", "(lower ".repeat(90), ")".repeat(90));
    assert_eq!(render(&calls, values()).unwrap(), "X");
}

#[test]
fn lookups_are_answered_or_reported() {
    let key = |name: &str| LookupKey {
        api_version: "v1".into(),
        kind: "Secret".into(),
        namespace: "n".into(),
        name: name.into(),
    };
    let source = "{{#each Values.names}}{{#with (lookup \"v1\" \"Secret\" \"n\" this) as |found|}}{{found.data.p}}{{else}}none{{/with}} \
                  {{/each}}";
    let mut environment = environment();
    environment.lookup = Arc::new(BTreeMap::from([
        (key("a"), json!({"data": {"p": "found"}})),
        (key("gone"), json!({})),
    ]));
    let mut templates = Templates::default();
    templates.parse("t.hbs", source.as_bytes()).unwrap();
    let dot = Value::from_json(&json!({"Values": {"names": ["a", "gone", "new"]}}));
    let mut context = Context::new(Arc::new(Set::new("gotpl")), &environment);
    assert_eq!(
        templates.render(&mut context, "t.hbs", &dot).unwrap(),
        b"found none none "
    );
    let (missing, used) = context.lookups();
    assert_eq!(missing, [key("new")]);
    assert_eq!(used, [key("a"), key("gone"), key("new")]);
}

/// Texts made of the language's own pieces, which reach deeper into the parser than arbitrary bytes.
#[test]
fn no_text_panics() {
    const PIECES: [&str; 36] = [
        "{{", "}}", "{{{", "}}}", "{{{{", "}}}}", "{{#", "{{/", "{{^", "{{>", "{{#>", "{{*", "{{#*", "{{!--", "--}}",
        "{{&", "~", "else", "if", "each", "with", "raw", "inline", "upper", "Values", ".", "..", "/", "(", ")", "[",
        "\"x\"", "'", "as |a b|", "\\", " \n",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut parsed = 0;
    for _ in 0..CASES {
        let mut source = String::new();
        for _ in 0..=next(12) {
            source.push_str(PIECES[next(PIECES.len())]);
            if next(3) == 0 {
                source.push(' ');
            }
        }
        let done = std::panic::catch_unwind(|| render(&source, values()).is_ok());
        parsed += usize::from(done.unwrap_or_else(|_| panic!("{source:?} panics")));
    }
    assert!(parsed > CASES / 100, "{parsed} of {CASES} texts render");
}
