//! Runs the cases of `tests/fixtures/template` in this process and compares with what the real Helm printed.

use std::path::{Path, PathBuf};

use super::run_captured;
use fixtures::{Case, cases as cases_of};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/template")
}

/// Sorts the lines of a schema error: Helm visits maps in random order. Other texts count as one line.
fn sorted(text: &str) -> Vec<&str> {
    if !text.starts_with("Error: values don't meet the specifications") {
        return vec![text];
    }
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Returns the difference of a case, if there is one.
fn compare(folder: &Path) -> Option<String> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let line = read("args");
    let words: Vec<&str> = line.split_whitespace().collect();
    let captured = run_captured(&words, b"", folder);
    let (stdout, error, code) = (
        String::from_utf8(captured.stdout).unwrap(),
        captured
            .error
            .map_or_else(String::new, |text| format!("Error: {text}\n")),
        captured.code,
    );
    // Log lines before an error are not in the file.
    let error = error
        .find("Error:")
        .map_or("", |at| error.get(at..).unwrap_or_default());
    for (name, got, want) in [
        ("expected.yaml", stdout, read("expected.yaml")),
        ("expected.err", error.to_owned(), read("expected.err")),
        ("expected.code", format!("{code}\n"), read("expected.code")),
    ] {
        if got != want && sorted(&got) != sorted(&want) {
            let at = got.lines().zip(want.lines()).position(|(got, want)| got != want);
            let at = at.unwrap_or_else(|| got.lines().count().min(want.lines().count()));
            let show = |text: &str| text.lines().skip(at).take(3).collect::<Vec<_>>().join("\n      ");
            return Some(format!(
                "{name} line {}:\n  ours\n      {}\n  Helm's\n      {}",
                at + 1,
                show(&got),
                show(&want)
            ));
        }
    }
    None
}

#[test]
fn every_case_equals_helm() {
    let mut failures = Vec::new();
    let mut count = 0;
    let mut folders: Vec<_> = std::fs::read_dir(cases())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    for folder in folders
        .iter()
        .filter(|folder| folder.join("args").exists() && folder.join("expected.code").exists())
    {
        count += 1;
        if let Some(difference) = compare(folder) {
            failures.push(format!("{}: {difference}", folder.file_name().unwrap().display()));
        }
    }
    assert!(count > 10, "only {count} cases found");
    assert!(
        failures.is_empty(),
        "{} of {count} cases differ\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Runs a case that contains its chart. Returns standard output, the sorted lines of standard error (Helm visits maps in random
/// order) and the exit code.
fn run_line(case: &Case) -> (String, Vec<String>, u64) {
    let folder = tempfile::tempdir().unwrap();
    for (field, is_base64) in [("files", false), ("files64", true)] {
        for (name, text) in case.field(field).as_object().into_iter().flatten() {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = text.as_str().unwrap().as_bytes();
            let decoded = is_base64.then(|| data_encoding::BASE64.decode(text).unwrap());
            std::fs::write(path, decoded.as_deref().unwrap_or(text)).unwrap();
        }
    }
    let words: Vec<&str> = case
        .field("args")
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .filter_map(|word| word.as_str())
        .collect();
    let captured = run_captured(&words, b"", folder.path());
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*folder.path().to_string_lossy(), "{DIR}");
    // Our text may continue after the error.
    let mut stderr = shown(&captured.stderr);
    if let Some(error) = &captured.error {
        let log = stderr.find("Error: ").map_or("", |at| &stderr[..at]);
        stderr = format!("{log}Error: {}\n", shown(error.as_bytes()));
    }
    if let Some(mask) = case.text("mask") {
        let mask = regex::Regex::new(mask).unwrap();
        stderr = mask.replace_all(&stderr, "{*}").into_owned();
    }
    (shown(&captured.stdout), ordered(&stderr), u64::from(captured.code))
}

fn ordered(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn charts_load_as_with_helm() {
    let mut different = Vec::new();
    let mut count = 0;
    for name in [
        "metadata",
        "dependencies",
        "values",
        "set",
        "set-binary",
        "archives",
        "folders",
        "schema",
        "bytes",
        "arguments",
    ] {
        for case in cases_of(&format!("loading/{name}.jsonl")) {
            count += 1;
            let text = |name: &str| case.text(name).unwrap_or_default();
            let want = (
                text("stdout").to_owned(),
                ordered(text("stderr")),
                case.field("code").as_u64().unwrap_or_default(),
            );
            let got = run_line(&case);
            if got != want {
                different.push(format!("{name} {}\n  Helm {want:?}\n  ours {got:?}", text("note")));
            }
        }
    }
    let shown = std::env::var("FIXTURES_SHOWN").ok().and_then(|text| text.parse().ok());
    let some: Vec<&str> = different.iter().take(shown.unwrap_or(20)).map(String::as_str).collect();
    assert!(
        different.is_empty(),
        "{} of {count} differ\n{}",
        different.len(),
        some.join("\n")
    );
    assert!(count > 1000, "only {count} cases found");
}

#[test]
fn standard_input_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("c");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: c\nversion: 1.0.0\n").unwrap();
    std::fs::write(chart.join("templates/a.yaml"), "v: {{ .Values | toJson | quote }}\n").unwrap();
    let run = |args: &[&str], stdin: &[u8]| {
        let captured = run_captured(args, stdin, folder.path());
        (String::from_utf8(captured.stdout).unwrap(), captured.error)
    };
    let (stdout, error) = run(&["c", "-f", "-", "-f", "-", "--set-file", "b=-"], b"a: 1");
    assert_eq!(error, None);
    assert!(
        stdout.ends_with("v: \"{\\\"a\\\":1,\\\"b\\\":\\\"\\\"}\"\n"),
        "{stdout}"
    );
    let (_, error) = run(&["c", "-f", "-"], b"a: [");
    let want = "failed to parse -: cannot unmarshal yaml document: error converting YAML to JSON: yaml: line 1: did not find expected node content";
    assert_eq!(error.as_deref(), Some(want));
}

/// Helm prints the names as they are.
#[cfg(target_os = "linux")]
#[test]
fn files_whose_names_are_not_utf8_are_read() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let folder = tempfile::tempdir().unwrap();
    let templates = folder.path().join("c/templates").join(OsStr::from_bytes(b"d\xe9"));
    std::fs::create_dir_all(&templates).unwrap();
    std::fs::write(
        folder.path().join("c/Chart.yaml"),
        "apiVersion: v2\nname: c\nversion: 1.0.0\n",
    )
    .unwrap();
    std::fs::write(templates.join(OsStr::from_bytes(b"z\xff.yaml")), "a: b\n").unwrap();
    let captured = run_captured(&["c"], b"", folder.path());
    assert_eq!(captured.error, None);
    let want = "---\n# Source: c/templates/d\u{fffd}/z\u{fffd}.yaml\na: b\n";
    assert_eq!(String::from_utf8(captured.stdout).unwrap(), want);
}

#[test]
fn values_and_schemas_come_from_urls() {
    let address = chartwright_scaffold::testing::serve(&[
        ("/a/values.yaml", "200 OK", "a: from the net"),
        ("/a/moved", "302 Found\r\nLocation: values.yaml", ""),
        ("/away", "301 Moved\r\nLocation: /a/moved", ""),
        ("/int.json", "200 OK", r#"{"type": "integer"}"#),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("c");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: c\nversion: 1.0.0\n").unwrap();
    std::fs::write(chart.join("templates/a.yaml"), "a: {{ .Values.a | quote }}\n").unwrap();
    let run = |more: &[&str]| run_captured(&[&["r", "c"], more].concat(), b"", folder.path());
    for page in ["a/values.yaml", "a/moved", "away"] {
        let done = run(&["-f", &format!("http://{address}/{page}")]);
        assert_eq!(
            String::from_utf8_lossy(&done.stdout),
            "---\n# Source: c/templates/a.yaml\na: \"from the net\"\n",
            "{done:?}"
        );
    }
    let done = run(&["--set-file", &format!("a=http://{address}/a/values.yaml")]);
    assert!(
        String::from_utf8_lossy(&done.stdout).contains("a: \"a: from the net\""),
        "{done:?}"
    );
    let missing = format!("http://{address}/none");
    let want = format!("failed to fetch {missing}: the server answers 404 Not Found");
    assert_eq!(run(&["-f", &missing]).error, Some(want));

    let schema = format!(r#"{{"properties": {{"a": {{"$ref": "http://{address}/int.json"}}}}}}"#);
    std::fs::write(chart.join("values.schema.json"), schema).unwrap();
    assert_eq!(run(&["--set", "a=1"]).code, 0);
    let error = run(&["--set", "a=x"]).error.unwrap_or_default();
    assert!(error.contains("at '/a': got string, want integer"), "{error}");
}
