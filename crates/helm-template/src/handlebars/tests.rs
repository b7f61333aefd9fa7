use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{Error, Templates, is_handlebars};
use crate::helm::{Context, Environment, Limit, Limits, LookupKey, NoCluster};
use go_template::{Set, Value};

/// How many random texts are tried.
const CASES: usize = 3_000;

fn environment(limits: Limits) -> Environment {
    Environment {
        lookup: Arc::new(NoCluster),
        clock: jiff::Timestamp::UNIX_EPOCH,
        kept: None,
        random: Some(Arc::new([1; 32])),
        limits,
        hosts: None,
        own: None,
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
    let dot = Value::from_json(&json!({"Values": values, "Release": {"Name": "r"}}));
    let mut context = Context::new(Arc::new(Set::new("gotpl")), environment);
    let text = templates.render(&mut context, &last, &dot)?;
    Ok(String::from_utf8(text).unwrap())
}

fn render(source: &str, values: Json) -> Result<String, Error> {
    render_files(&[("t.hbs", source)], values, &environment(Limits::default()))
}

fn values() -> Json {
    json!({
        "name": "web", "port": 80, "float": 3.0, "half": 0.5, "yes": true, "zero": 0, "none": null, "empty": "",
        "list": ["a", "b"], "map": {"b": 1, "a": {"c": "<&>"}}, "title": "T",
    })
}

#[test]
fn only_the_suffix_decides() {
    let table = [
        ("c/templates/a.yaml.hbs", true),
        ("c/templates/a.yaml", false),
        ("c/templates/hbs", false),
    ];
    for (path, want) in table {
        assert_eq!(is_handlebars(path), want, "{path}");
    }
}

#[test]
fn helpers() {
    let table = [
        ("{{toYaml Values.map}}", "a:\n  c: <&>\nb: 1"),
        ("{{toYaml Values.float}} {{Values.float}} {{Values.half}}", "3 3 0.5"),
        (
            "{{{toJson Values.list}}} {{toRawJson Values.map.a}}",
            r#"["a","b"] {"c":"<&>"}"#,
        ),
        ("{{indent 2 \"a\\nb\"}}", "  a\n  b"),
        ("x:{{nindent 2 (toYaml Values.list)}}", "x:\n  - a\n  - b"),
        (
            "{{default \"d\" Values.missing}} {{default \"d\" Values.empty}} {{default \"d\" Values.name}}",
            "d d web",
        ),
        ("{{default 5 Values.zero}}", "5"),
        (
            "{{quote Values.name}} {{quote Values.port}} {{squote Values.name}}",
            "\"web\" \"80\" 'web'",
        ),
        (
            "{{b64enc Values.name}} {{b64enc Values.port}} {{b64dec \"d2Vi\"}}",
            "d2Vi ODA= web",
        ),
        (
            "{{upper Values.name}} {{lower \"ABC\"}} [{{trim \" a \"}}]",
            "WEB abc [a]",
        ),
        ("{{required \"no name\" Values.name}}", "web"),
        (
            "{{eq Values.port 80}} {{eq Values.float 3}} {{ne Values.name \"web\"}}",
            "true true false",
        ),
        (
            "{{lt 9 10}} {{le 2 2.0}} {{gt 1.5 2}} {{ge Values.port 80}}",
            "true true false true",
        ),
        (
            "{{#eq Values.name \"web\"}}y{{else}}n{{/eq}}{{#gt 1 2}}y{{else}}n{{/gt}}",
            "yn",
        ),
        (
            "{{and Values.yes Values.name}} {{or Values.missing Values.empty \"x\"}} {{not Values.missing}}",
            "web x true",
        ),
        ("{{#if (and (eq Values.port 80) (not Values.none))}}y{{/if}}", "y"),
        (
            "{{#if Values.missing.deeper}}y{{else if Values.yes}}z{{else}}n{{/if}}",
            "z",
        ),
        ("{{#unless Values.missing}}y{{/unless}}", "y"),
        (
            "{{#each Values.list}}{{@index}}{{this}}{{#unless @last}},{{/unless}}{{/each}}",
            "0a,1b",
        ),
        (
            "{{#each Values.map as |v k|}}{{k}}{{#if @last}}={{v}}{{/if}} {{/each}}",
            "a b=1 ",
        ),
        (
            "{{#each Values.none}}x{{/each}}{{#with Values.missing}}x{{/with}}{{#each Values.missing}}x{{else}}e{{/each}}",
            "e",
        ),
        (
            "{{#with Values}}{{title}} {{name}} {{../Release.Name}} {{@root.Release.Name}}{{/with}}",
            "T web r r",
        ),
        (
            "{{lookup Values.list 1}} {{lookup Values.map \"b\"}} {{default \"d\" (lookup Values.list 7)}}",
            "b 1 d",
        ),
        ("{{toJson (lookup \"v1\" \"Secret\" \"n\" \"s\")}}", "{}"),
        (
            "{{trunc 2 Values.name}} {{replace \"e\" \"o\" Values.name}} {{add 1 2 Values.port}} {{max 1 5 3}}",
            "we wob 83 5",
        ),
        (
            "{{ternary \"a\" \"b\" Values.yes}} {{join \"-\" Values.list}} {{len Values.list}}",
            "a a-b 2",
        ),
        (
            "{{get (dict \"k\" 5) \"k\"}} {{#if (has \"a\" Values.list)}}y{{/if}}",
            "5 y",
        ),
        ("{{date \"2006\" (now)}}", "1970"),
        (
            "{{len \"héé\"}} {{len Values.map}} {{hasKey Values.map \"a\"}}",
            "5 2 true",
        ),
        (
            "{{lookup Values.[map] \"b\"}} {{empty Values.missing}} {{coalesce Values.missing Values.name}}",
            "1 true web",
        ),
        ("a\n{{~#if Values.yes~}}\n b\n{{/if}}\n", "ab\n"),
        (
            "\\{{name}} {{{{raw}}}}{{ .Values.x }}{{{{/raw}}}} {{!-- c --}}{{! d }}",
            "{{name}} {{ .Values.x }} ",
        ),
        ("{{#*inline \"x\"}}<{{n}}>{{/inline}}{{> x n=1}}{{> x n=2}}", "<1><2>"),
        ("{{Values.none}}|{{Values.[name]}}", "|web"),
    ];
    for (source, want) in table {
        assert_eq!(
            render(source, values()).as_deref().ok(),
            Some(want),
            "{source}: {:?}",
            render(source, values()).err()
        );
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
    let table = [
        ("a\n  {{Values.missing}}", "2:3: Values.missing is not defined"),
        ("{{toYaml Values.missing}}", "1:1: Values.missing is not defined"),
        (
            "\n{{#eq Values.missing 1}}{{/eq}}",
            "2:1: Values.missing is not defined",
        ),
        (
            "{{#if Values.yes}}\n\n {{quote Values.no}}\n{{/if}}",
            "3:2: Values.no is not defined",
        ),
        ("{{lookup Values.list 7}}", "1:1: Values.list is not defined"),
        (
            "{{Values.map}}",
            "1:1: a map has no text of its own: write it with toYaml or toJson",
        ),
        (
            "{{Values.list}}",
            "1:1: a list has no text of its own: write it with toYaml or toJson",
        ),
        ("{{Values.list.x}}", "1:1: a list is indexed by a number, not by \"x\""),
        (
            "{{> gone}}",
            "1:1: there is no partial \"gone\": it would be the file _gone.hbs",
        ),
        ("x\n{{fail \"stop: now\"}}", "2:1: stop: now"),
        ("{{required \"a name\" Values.empty}}", "1:1: a name"),
        ("{{required \"a name\" Values.missing}}", "1:1: a name"),
        (
            "{{lt 1 \"a\"}}",
            "1:1: lt compares two numbers or two strings, not a number and a string",
        ),
        ("{{eq 1}}", "1:1: eq wants 2 arguments, and has 1"),
        (
            "{{indent \"x\" 2}}",
            "1:1: argument 1 of indent is a string: it wants a whole number",
        ),
        ("{{indent 2}}", "1:1: indent wants 2 arguments, and has 1"),
        (
            "{{lookup \"v1\" \"Secret\" \"n\"}}",
            "1:1: lookup wants 4 arguments, and has 3",
        ),
        ("{{indent 2 a=1}}", "1:1: indent takes no named argument a"),
        (
            "{{fromYaml \"a: [\" }}",
            "1:1: a map has no text of its own: write it with toYaml or toJson",
        ),
        // Found when the template is parsed, even where nothing would be rendered.
        (
            "{{#if Values.no}}{{\n nope 1}}{{/if}}",
            "1:18: there is no helper \"nope\"",
        ),
        ("{{upper (nope 1)}}", "1:1: there is no helper \"nope\""),
        ("{{include \"x\" this}}", "1:1: there is no helper \"include\""),
        ("{{#nope}}{{/nope}}", "1:1: there is no helper \"nope\""),
        (
            "a\nb {{#if x}}\n",
            "3:1: this is not valid Handlebars: a tag, block or string may be open or misspelt",
        ),
        (
            "{{#if x}}\n{{/each}}",
            "2:1: the block \"if\" is open, but \"each\" is closed",
        ),
        (
            "{{ .Values.x }}",
            "1:4: this is not valid Handlebars: a tag, block or string may be open or misspelt",
        ),
        (
            "{{#> a}}{{/a}}",
            "1:1: partials with a block ({{#> name}}) are not supported: use {{> name}} with arguments",
        ),
        ("a\n b {{quote \"a\nb\"}}", "2:12: \"a\nb\" is not a JSON value"),
        ("{{* x}}", "1:1: there is no decorator \"x\": only blocks of inline"),
    ];
    for (source, want) in table {
        let error = render(source, values()).map_err(|e| e.to_string());
        assert_eq!(error, Err(format!("{at}:{want}")), "{source}");
    }
    let error = Templates::default().parse("c/x.hbs", b"a\nbc\xff").unwrap_err();
    assert_eq!(error.to_string(), "c/x.hbs:2:3: the template is not UTF-8");
}

#[test]
fn partials_have_their_names_and_places() {
    let run = |files: &[(&str, &str)]| {
        let values = json!({"list": [1, 2], "name": "web"});
        render_files(files, values, &environment(Limits::default())).map_err(|e| e.to_string())
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
    let few = Limits {
        steps: 10_000,
        ..Limits::default()
    };
    let short = Limits {
        output: 5_000,
        ..Limits::default()
    };
    let quick = Limits {
        time: Duration::ZERO,
        ..Limits::default()
    };
    let defaults = Limits::default();
    let recursion = "{{#if Values}}{{> b}}{{/if}}";
    type Files<'f> = &'f [(&'f str, &'f str)];
    let table: [(Files<'_>, Limits, Limit); 7] = [
        (&[("t.hbs", nested)], few, Limit::Steps(10_000)),
        (&[("t.hbs", silent)], few, Limit::Steps(10_000)),
        (&[("t.hbs", nested)], short, Limit::Output(5_000)),
        (&[("t.hbs", silent)], quick, Limit::Time(Duration::ZERO)),
        (
            &[("_a.hbs", recursion), ("_b.hbs", "{{> a}}"), ("t.hbs", "{{> a}}")],
            defaults,
            Limit::Depth(100),
        ),
        (
            &[("_b.hbs", recursion), ("t.hbs", "{{> b}}")],
            defaults,
            Limit::Depth(100),
        ),
        (
            &[("t.hbs", "{{#*inline \"x\"}}{{> x}}{{/inline}}{{> x}}")],
            defaults,
            Limit::Depth(100),
        ),
    ];
    for (files, limits, want) in table {
        let values = json!({"l": (0..100).collect::<Vec<_>>()});
        match render_files(files, values, &environment(limits)) {
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
    let mut environment = environment(Limits::default());
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
