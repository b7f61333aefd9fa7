//! The cases of `tests/fixtures/**/*.jsonl` for tests: inputs with what the real Helm, or a Go library that Helm is
//! made of, made of them. `tests/fixtures/README.md` describes the files.

use std::path::Path;

use serde_json::{Map, Value as Json};

/// The fields of a case that say what came out; all others are inputs.
const OUTCOME: [&str; 12] = [
    "out", "out64", "err", "err64", "logged", "logged64", "reasons", "stdout", "stdout64", "stderr", "stderr64", "code",
];

/// One line of a fixture, with the fields of the file's header where it has none of its own.
#[derive(Debug)]
pub struct Case {
    fields: Map<String, Json>,
    place: String,
}

/// What came out, by the names of a fixture's fields.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome(Map<String, Json>);

impl Case {
    /// A field; null where there is none.
    pub fn field(&self, name: &str) -> &Json {
        self.fields.get(name).unwrap_or(&Json::Null)
    }

    /// A field that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.field(name).as_str()
    }

    /// A text that may not be UTF-8: the field, or in base64 the one with `64` at its name's end.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        match self.text(&format!("{name}64")) {
            Some(text) => Some(data_encoding::BASE64.decode(text.as_bytes()).expect(&self.place)),
            None => self.text(name).map(|text| text.as_bytes().to_vec()),
        }
    }

    /// What the real tool made of it.
    pub fn expected(&self) -> Outcome {
        let fields = self.fields.iter().filter(|(name, _)| OUTCOME.contains(&name.as_str()));
        Outcome(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The outcome with what the case's mask matches hidden, as it is in the file.
    fn masked(&self, mut outcome: Outcome) -> Outcome {
        if let Some(mask) = self.text("mask") {
            let mask = regex::Regex::new(mask).expect(&self.place);
            outcome.0.values_mut().for_each(|value| hide(&mask, value));
        }
        outcome
    }
}

fn hide(mask: &regex::Regex, value: &mut Json) {
    match value {
        Json::String(text) => *text = mask.replace_all(text, regex::NoExpand("{*}")).into_owned(),
        Json::Array(items) => items.iter_mut().for_each(|item| hide(mask, item)),
        Json::Object(map) => map.values_mut().for_each(|value| hide(mask, value)),
        _ => {}
    }
}

impl Outcome {
    /// Adds a value.
    pub fn with(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a text that may not be UTF-8.
    pub fn with_bytes(self, name: &str, bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.with(name, text),
            Err(_) => self.with(&format!("{name}64"), data_encoding::BASE64.encode(bytes)),
        }
    }
}

impl From<Result<Vec<u8>, String>> for Outcome {
    fn from(result: Result<Vec<u8>, String>) -> Self {
        match result {
            Ok(bytes) => Outcome::default().with_bytes("out", &bytes),
            Err(text) => Outcome::default().with("err", text),
        }
    }
}

impl From<Result<String, String>> for Outcome {
    fn from(result: Result<String, String>) -> Self {
        result.map(String::into_bytes).into()
    }
}

impl From<Result<Json, String>> for Outcome {
    fn from(result: Result<Json, String>) -> Self {
        match result {
            Ok(value) => Outcome::default().with("out", value),
            Err(text) => Outcome::default().with("err", text),
        }
    }
}

/// The cases of a file, given by its path below `tests/fixtures`.
pub fn cases(file: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines().enumerate().map(|(at, line)| {
        let place = format!("{file}:{}", at + 1);
        let fields = serde_json::from_str(line).unwrap_or_else(|e| panic!("{place}: {e}"));
        Case { fields, place }
    });
    let header = lines.next().map(|header| header.fields).unwrap_or_default();
    assert!(header.contains_key("op"), "{file}: the first line names no op");
    let inherited = |mut case: Case| {
        for (name, value) in &header {
            case.fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
        case
    };
    lines.map(inherited).collect()
}

/// Fails with the cases of a file that `run` makes something else of; returns how many cases there are.
pub fn check<O: Into<Outcome>>(file: &str, run: impl Fn(&Case) -> O) -> usize {
    let cases = cases(file);
    let mut different = Vec::new();
    for case in &cases {
        let (expected, found) = (case.expected(), case.masked(run(case).into()));
        if found != expected {
            let mut input = case.fields.clone();
            input.retain(|name, _| !OUTCOME.contains(&name.as_str()) && name != "op");
            let shown = |outcome: Outcome| Json::Object(outcome.0).to_string();
            let mut input = Json::Object(input).to_string();
            if let Some((at, _)) = input.char_indices().nth(1000) {
                input.truncate(at);
            }
            different.push(format!(
                "{}: {input}\n  expected {}\n  found    {}",
                case.place,
                shown(expected),
                shown(found)
            ));
        }
    }
    let some: Vec<_> = different.iter().take(20).map(String::as_str).collect();
    assert!(
        different.is_empty(),
        "{file}: {} of {} cases differ, among them\n{}",
        different.len(),
        cases.len(),
        some.join("\n")
    );
    cases.len()
}
