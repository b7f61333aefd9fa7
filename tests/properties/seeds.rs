//! What the fuzz targets start from: the inputs of `tests/fixtures`, in the form that each target reads, and those of `own.jsonl`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

/// Inputs by target.
pub type Seeds = BTreeMap<&'static str, BTreeSet<Vec<u8>>>;

/// libFuzzer slows down with its inputs' length, and larger fixtures say nothing new.
const LONGEST: usize = 4096;

/// A line of `own.jsonl`.
#[derive(Deserialize)]
struct OwnSeed {
    target: String,
    /// The parts of the input.
    #[serde(rename = "in")]
    parts: Vec<String>,
}

/// Inputs of targets that no fixture is made for.
fn own(seeds: &mut Seeds) {
    for line in include_str!("own.jsonl").lines() {
        let own: OwnSeed = serde_json::from_str(line).expect("a target and its input");
        let parts: Vec<&[u8]> = own.parts.iter().map(String::as_bytes).collect();
        add(seeds, own.target.leak(), &parts);
    }
}

/// The inputs of all fixtures.
pub fn all() -> Seeds {
    let mut seeds = Seeds::new();
    own(&mut seeds);
    for path in files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"))) {
        let text = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl") => from_cases(&String::from_utf8_lossy(&text), &mut seeds),
            Some("yaml" | "tpl" | "txt") if text.windows(2).any(|pair| pair == b"{{") => {
                add(&mut seeds, "template", &[&text]);
                add(&mut seeds, "render", &[&text]);
            }
            Some("yaml") => add(&mut seeds, "yaml_read", &[&text]),
            _ => {}
        }
    }
    seeds
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry of a folder").path());
    let below = paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    below.collect()
}

/// Adds an input of parts with zero bytes between.
fn add(seeds: &mut Seeds, target: &'static str, parts: &[&[u8]]) {
    let input = parts.join(&0);
    if input.len() <= LONGEST {
        seeds.entry(target).or_default().insert(input);
    }
}

/// The cases of a `.jsonl` file: its first line has the fields of those that don't have their own.
fn from_cases(text: &str, seeds: &mut Seeds) {
    let mut lines = text.lines().map(serde_json::from_str::<Map<String, Value>>);
    let Some(Ok(header)) = lines.next() else { return };
    for case in lines.map(|case| case.expect("a fixture is an object a line")) {
        let field = |name: &str| case.get(name).or_else(|| header.get(name)).unwrap_or(&Value::Null);
        match field("op").as_str() {
            Some("yaml.read") => add(seeds, "yaml_read", &[text_of(field("in"))]),
            Some("yaml.write" | "yaml.pretty") => {
                add(seeds, "yaml_write", &[field("in").to_string().as_bytes()]);
                add(seeds, "yaml_read", &[text_of(field("out"))]);
            }
            Some("helm") => from_chart(field, seeds),
            _ => from_template(field, seeds),
        }
    }
}

fn text_of(field: &Value) -> &[u8] {
    field.as_str().unwrap_or_default().as_bytes()
}

/// A template and its values; and what its functions read, from its literals.
fn from_template<'a>(field: impl Fn(&str) -> &'a Value, seeds: &mut Seeds) {
    let values = match field("v") {
        Value::Null => String::new(),
        values => values.to_string(),
    };
    let named = field("ts").as_object().into_iter().flat_map(Map::values);
    for template in named.chain([field("t")]).filter_map(Value::as_str) {
        add(seeds, "template", &[template.as_bytes()]);
        add(seeds, "render", &[template.as_bytes(), values.as_bytes()]);
        let literals = literals(template);
        let [first, rest @ ..] = literals.as_slice() else {
            continue;
        };
        let second = rest.first().map_or("", String::as_str);
        let target = match template {
            _ if template.contains("regex") => "regexes",
            _ if template.contains("semver") => "versions",
            _ if template.contains("Glob") => "globs",
            _ => continue,
        };
        add(seeds, target, &[first.as_bytes(), second.as_bytes()]);
    }
}

/// The texts in quotes of a template, those with escapes that only Go has left out.
fn literals(template: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = template;
    while let Some(start) = rest.find(['"', '`']) {
        let quoted = &rest[start..];
        if let Some(raw) = quoted.strip_prefix('`') {
            let Some(end) = raw.find('`') else { break };
            found.push(raw[..end].to_owned());
            rest = &raw[end + 1..];
        } else {
            let mut strings = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
            if let Some(Ok(text)) = strings.next() {
                found.push(text);
            }
            rest = &quoted[strings.byte_offset().max(1)..];
        }
    }
    found
}

/// The files of a chart: as an archive, and each for what reads it.
fn from_chart<'a>(field: impl Fn(&str) -> &'a Value, seeds: &mut Seeds) {
    let files = field("files").as_object().into_iter().flatten();
    let files = files.filter_map(|(name, content)| Some((name.as_str(), content.as_str()?)));
    let files: BTreeMap<&str, &str> = files.collect();
    let values = files.get("c/values.yaml").copied().unwrap_or_default();
    for (name, text) in &files {
        let target = if name.contains("/templates/") {
            add(seeds, "render", &[text.as_bytes(), values.as_bytes()]);
            "template"
        } else {
            "yaml_read"
        };
        add(seeds, target, &[text.as_bytes()]);
        if name.ends_with(".yaml") && !name.starts_with("c/") {
            add(seeds, "merge", &[values.as_bytes(), text.as_bytes()]);
        }
        if let Some(rules) = files.get("c/.helmignore") {
            let path = name.strip_prefix("c/").unwrap_or(name);
            add(seeds, "globs", &[rules.as_bytes(), path.as_bytes()]);
        }
    }
    add(seeds, "merge", &[values.as_bytes(), b"a: 2\nglobal: {g: 2}\n"]);
    for pair in field("args").as_array().map_or(&[][..], Vec::as_slice).windows(2) {
        if text_of(&pair[0]).starts_with(b"--set") {
            add(seeds, "strvals", &[text_of(&pair[1]), values.as_bytes()]);
        }
    }
    let part = |(name, text): (&&str, &&str)| [name.as_bytes(), text.as_bytes()].join(&0);
    let parts: Vec<Vec<u8>> = files.iter().map(part).collect();
    add(seeds, "archive", &[&parts.join(&0xFF)]);
    for archive in field("files64").as_object().into_iter().flat_map(Map::values) {
        if let Ok(bytes) = data_encoding::BASE64.decode(text_of(archive)) {
            add(seeds, "archive", &[&bytes]);
        }
    }
}
