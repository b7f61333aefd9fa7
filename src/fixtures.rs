//! The cases of `tests/fixtures/**/*.jsonl` for tests: inputs with what the real Helm, or a Go library that Helm is
//! made of, made of them. `tests/fixtures/README.md` describes the files.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

/// The fields of a case that say what came out; all others are inputs.
const OUTCOME: [&str; 12] = [
    "out", "out64", "err", "err64", "logged", "logged64", "reasons", "stdout", "stdout64", "stderr", "stderr64", "code",
];

/// The stack of a thread that runs cases: as large as that of a thread that renders.
const STACK: usize = 512 << 20;

/// How many cases are worth a thread.
const CASES_PER_THREAD: usize = 500;

/// One line of a fixture, with the fields of the file's header where it has none of its own.
#[derive(Debug)]
pub struct Case {
    fields: Map<String, Json>,
    header: Arc<Map<String, Json>>,
    place: String,
}

/// What came out, by the names of a fixture's fields.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome(Map<String, Json>);

impl Case {
    /// A field; null where there is none.
    pub fn field(&self, name: &str) -> &Json {
        let own = self.fields.get(name);
        own.or_else(|| self.header.get(name)).unwrap_or(&Json::Null)
    }

    /// The fields of the file's header: the same address for all its cases.
    pub fn header(&self) -> &Arc<Map<String, Json>> {
        &self.header
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
        let fields: Map<String, Json> = serde_json::from_str(line).unwrap_or_else(|e| panic!("{place}: {e}"));
        (fields, place)
    });
    let (header, _) = lines.next().unwrap_or_default();
    assert!(header.contains_key("op"), "{file}: the first line names no op");
    let header = Arc::new(header);
    let case = |(fields, place)| Case {
        fields,
        header: header.clone(),
        place,
    };
    lines.map(case).collect()
}

/// The cases that `run` makes something else of, as text.
fn differences<O: Into<Outcome>>(cases: &[Case], run: impl Fn(&Case) -> O) -> Vec<String> {
    let mut different = Vec::new();
    for case in cases {
        let (expected, found) = (case.expected(), case.masked(run(case).into()));
        if found != expected {
            let mut input = case.fields.clone();
            input.retain(|name, _| !OUTCOME.contains(&name.as_str()));
            let shown = |outcome: Outcome| Json::Object(outcome.0).to_string();
            different.push(format!(
                "{}: {}\n  expected {}\n  found    {}",
                case.place,
                Json::Object(input),
                shown(expected),
                shown(found)
            ));
        }
    }
    different
}

/// Fails with the cases of a file that `run` makes something else of; returns how many cases there are. Many cases are
/// run by several threads.
pub fn check<O: Into<Outcome>>(file: &str, run: impl Fn(&Case) -> O + Sync) -> usize {
    let cases = cases(file);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(cases.len() / CASES_PER_THREAD);
    let different = if threads < 2 {
        differences(&cases, run)
    } else {
        std::thread::scope(|scope| {
            let start = |part| {
                let thread = std::thread::Builder::new().stack_size(STACK);
                let run = &run;
                thread.spawn_scoped(scope, move || differences(part, run)).unwrap()
            };
            let started: Vec<_> = cases.chunks(cases.len().div_ceil(threads)).map(start).collect();
            started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    };
    let shown = std::env::var("FIXTURES_SHOWN").ok().and_then(|text| text.parse().ok());
    let some: Vec<_> = different.iter().take(shown.unwrap_or(20)).map(String::as_str).collect();
    assert!(
        different.is_empty(),
        "{file}: {} of {} cases differ, among them\n{}",
        different.len(),
        cases.len(),
        some.join("\n")
    );
    cases.len()
}
