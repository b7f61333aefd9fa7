//! What each fuzz target does with its bytes; `fuzz/` runs these under libFuzzer, `cargo test` runs them over generated
//! input. They may do anything but panic, hang, or break a property that is asserted.

use std::sync::Arc;

use go_template::Set;
use go_template::meter::Meter;
use go_yaml as yaml;
use helm_template::chart::{Chart, File, Frozen, strvals, values};
use helm_template::gostd::regexp;
use helm_template::helm::table;
use helm_template::render::{Engine, Input, Limits, Release};
use helm_template::sprig::semver;
use serde_json::{Map, Value, json};

/// A target's name and body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target. `fuzz/fuzz_targets` has a file for each, of the same name.
pub const ALL: &[Target] = &[
    ("template", template),
    ("render", render),
    ("yaml_read", yaml_read),
    ("yaml_write", yaml_write),
    ("merge", merge),
    ("strvals", set),
    ("archive", archive),
    ("regexes", regexes),
    ("globs", globs),
    ("versions", versions),
];

/// The input in two parts, split at its first zero byte.
fn halves(data: &[u8]) -> (String, String) {
    let at = data.iter().position(|&b| b == 0).unwrap_or(data.len());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&data[..at]), text(data.get(at + 1..).unwrap_or_default()))
}

/// Go templates: lexer and parser. What parses once does so again.
pub fn template(data: &[u8]) {
    let parse = || {
        Set::new("gotpl")
            .parse("c/templates/t.yaml", data, table())
            .map_err(|e| e.to_string())
    };
    assert_eq!(parse(), parse());
}

fn named_chart() -> Chart {
    let mut chart = Chart::default();
    chart.metadata.name = "c".to_owned();
    chart.metadata.version = "0.1.0".to_owned();
    chart
}

/// A chart's file and its values through everything up to the sorted manifests, within small limits.
pub fn render(data: &[u8]) {
    let (file, values) = halves(data);
    let mut chart = named_chart();
    chart.templates = vec![File {
        name: "templates/t.yaml".to_owned(),
        data: file.as_bytes().into(),
    }];
    let values = values::read(values.as_bytes(), yaml::MAX_DEPTH).map_or(Value::Null, Value::Object);
    let input = Input {
        random: Some(Arc::new([7; 32])),
        limits: Limits {
            steps: 20_000,
            depth: 50,
            output: 1 << 20,
            ..Limits::default()
        },
        include_crds: true,
        ..Input::new(Release::install("r", "n"), values)
    };
    let _ = Engine::new(chart).map(|renderer| renderer.render_with(&input));
}

/// YAML in: what can be read can be written, and reads back as the same value.
pub fn yaml_read(data: &[u8]) {
    let _ = yaml::parse(data);
    let _ = values::read(data, yaml::MAX_DEPTH);
    let _ = yaml::documents(&String::from_utf8_lossy(data));
    if let Ok(value) = yaml::to_json(data) {
        written_reads_back(yaml::all_floats(value));
    }
}

/// YAML out: any JSON value.
pub fn yaml_write(data: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        written_reads_back(yaml::all_floats(value));
    }
}

fn written_reads_back(value: Value) {
    let pretty = yaml::to_string_pretty(&value, yaml::MAX_DEPTH);
    assert!(
        pretty.is_ok() || yaml::to_string(&value, yaml::MAX_DEPTH).is_err(),
        "{value}"
    );
    let Ok(text) = yaml::to_string(&value, yaml::MAX_DEPTH) else {
        return;
    };
    // U+0085 is folded on its way through JSON, the text of a BOM is one too, and a key `<<` is written like a merge.
    let lossy = |c: char| matches!(c, '\u{85}' | '\u{feff}' | '<' | '\r' | '\u{2028}' | '\u{2029}');
    if value.to_string().contains(lossy) {
        return;
    }
    match yaml::to_json(text.as_bytes()) {
        Ok(read) => assert_eq!(yaml::all_floats(read), value, "{text:?}"),
        Err(error) => panic!("{error}: {text:?} of {value}"),
    }
}

/// Values over values: merging twice is merging once, and what is merged last wins.
pub fn merge(data: &[u8]) {
    let (below, above) = halves(data);
    let read = |text: &str| values::read(text.as_bytes(), yaml::MAX_DEPTH);
    let (Ok(defaults), Ok(above)) = (read(&below), read(&above)) else {
        return;
    };
    let defaults = Frozen::new(defaults);
    let mut once = defaults.to_json();
    values::merge_maps(&mut once, above.clone());
    let mut twice = once.clone();
    values::merge_maps(&mut twice, above.clone());
    assert_eq!(once, twice);
    for (key, value) in &above {
        assert!(once.contains_key(key) && (value.is_object() || once[key] == *value));
    }
    let mut chart = named_chart();
    chart.values = defaults;
    if let go_template::Value::Map(user) = go_template::Value::from_json(&Value::Object(above)) {
        let mut warnings = Vec::new();
        if let Ok(node) = helm_template::chart::dependencies::process(&chart, &user, &mut warnings) {
            let _ = values::coalesce(&node, &user, &mut warnings);
        }
    }
}

/// `--set` and its relatives, on values that are there already.
pub fn set(data: &[u8]) {
    let (text, values) = halves(data);
    let values = values::read(values.as_bytes(), yaml::MAX_DEPTH).unwrap_or_default();
    use strvals::Mode::{File, Json, Literal, Strings, Typed};
    let read = |path: &str| Ok::<_, String>(path.to_owned());
    for mode in [Typed, Strings, Json, Literal, File(&read)] {
        let mut target: Map<String, Value> = values.clone();
        let _ = strvals::parse_into(&text, &mode, &mut target);
    }
}

/// Chart archives: any bytes, any bytes as the inside of a gzip stream, and a chart of any files.
pub fn archive(data: &[u8]) {
    let _ = Chart::unpack(data);
    let _ = Chart::unpack(&gzip(data));
    let mut tar = tar::Builder::new(Vec::new());
    for part in data.split(|&b| b == 0xFF).take(20) {
        let (name, content) = halves(part);
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Names that the builder refuses are part of the first two.
        let _ = tar.append_data(&mut header, name, content.as_bytes());
    }
    let Ok(tar) = tar.into_inner() else { return };
    let _ = Chart::unpack(&gzip(&tar));
}

fn gzip(data: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let _ = encoder.write_all(data);
    encoder.finish().unwrap_or_default()
}

/// Go's regular expressions: a pattern and a text, in the functions that use them.
pub fn regexes(data: &[u8]) {
    let (pattern, text) = halves(data);
    if let Ok(regex) = regexp::compile(&Meter::default(), pattern.as_bytes()) {
        let _ = regex.is_match(text.as_bytes());
    }
    let source = "{{ regexFindAll .p .s -1 }}{{ regexReplaceAll .p .s \"$1x${a}\" }}{{ regexSplit .p .s -1 }}{{ regexMatch (regexQuoteMeta .s) .s }}";
    let data = json!({"p": pattern, "s": text});
    if let Ok(output) = helm_template::render::render_text("t", source, &data) {
        assert!(output.ends_with("true"), "what is quoted matches itself: {text:?}");
    }
}

/// Globs of `.Files` and patterns of `.helmignore`.
pub fn globs(data: &[u8]) {
    let (pattern, name) = halves(data);
    let _ = helm_template::helm::Glob::new(&Meter::default(), &pattern).map(|glob| glob.matches(name.as_bytes()));
    let _ = helm_template::chart::ignore::path_match(&pattern, &name);
    if let Ok(rules) = helm_template::chart::ignore::Rules::parse(&pattern) {
        let _ = rules.ignores(&name, false);
        let _ = rules.ignores(&name, true);
    }
}

/// Versions and their constraints: an order is an order, and `=` means equal.
pub fn versions(data: &[u8]) {
    let (constraint, version) = halves(data);
    let constraints = semver::Constraints::parse(&constraint);
    let Ok(version) = semver::Version::parse(&version) else {
        return;
    };
    assert!(version.compare(&version).is_eq());
    if let Ok(constraints) = constraints {
        let _ = constraints.check(&version);
    }
    if let Ok(other) = semver::Version::parse(&constraint) {
        assert_eq!(version.compare(&other), other.compare(&version).reverse());
    }
}
