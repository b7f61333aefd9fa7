//! Compares with recorded answers of the Go libraries, and tests our own limits.

use serde_json::{Value, json};

use super::*;
use fixtures::{self, Case, cases};

fn bytes(case: &Case) -> Vec<u8> {
    case.bytes("in").expect("a case has an input")
}

/// Fails with all cases where `answer` is not what was recorded.
fn check(name: &str, minimum: usize, answer: impl Fn(&Case) -> Result<Value, Error> + Sync) {
    let count = fixtures::check(&format!("yaml/{name}"), |case| answer(case).map_err(|e| e.to_string()));
    assert!(count >= minimum, "{name} has only {count} cases");
}

#[test]
fn texts_are_read_and_values_written_as_in_go() {
    check("read.jsonl", 250, |case| to_json(&bytes(case)));
    check("scalars.jsonl", 180, |case| to_json(&bytes(case)));
    let value = |case: &Case| case.field("in").clone();
    check("write.jsonl", 400, |case| {
        to_string(&value(case), MAX_DEPTH).map(Value::String)
    });
    check("pretty.jsonl", 180, |case| {
        to_string_pretty(&value(case), MAX_DEPTH).map(Value::String)
    });
}

#[test]
fn written_values_read_back() {
    for case in cases("yaml/write.jsonl") {
        let value = case.field("in").clone();
        let Ok(text) = to_string(&value, MAX_DEPTH) else {
            continue;
        };
        // A key `<<` is written like a merge.
        if !value.to_string().contains("<<") {
            let read = to_json(text.as_bytes()).expect(&text);
            assert_eq!(all_floats(read), all_floats(value), "{text}");
        }
    }
}

#[test]
fn what_no_chart_has_is_refused_plainly() {
    for (text, problem) in [
        (&b"a: !!binary aGVsbG8=\n"[..], "yaml: !!binary is not supported"),
        (b"a: !!int x\n", "yaml: cannot decode `x` as a !!int"),
        (b"a:\n  ~: 1\n", "line 2: unsupported map key: null"),
        (b"a: .inf\n", "json: unsupported value: +Inf"),
        (
            b"%YAML 1.1\n---\na: 1\n",
            "yaml: found character that cannot start any token",
        ),
        (b"a: !e!x 1\n", "yaml: found undefined tag handle"),
        (b"a: \xFF", "yaml: invalid leading UTF-8 octet"),
    ] {
        let error = to_json(text).unwrap_err().to_string();
        assert_eq!(error, format!("error converting YAML to JSON: {problem}"));
    }
}

#[test]
fn nodes_know_where_they_are() {
    let text = b"a: 1\nb:\n  - x\n  - {c: [~, 2.5]}\nd:\na: y\n";
    let node = |line, column, data| Node { line, column, data };
    let string = |line, column, s: &str| node(line, column, Data::String(s.to_owned()));
    let inner = Data::List(vec![
        node(4, 10, Data::Null),
        node(4, 13, Data::Number(serde_json::Number::from_f64(2.5).unwrap())),
    ]);
    let list = vec![
        string(3, 5, "x"),
        node(4, 5, Data::Map(vec![(string(4, 6, "c"), node(4, 9, inner))])),
    ];
    let number = Data::Number(1.into());
    let expected = Data::Map(vec![
        (string(1, 1, "a"), node(1, 4, number)),
        (string(2, 1, "b"), node(3, 3, Data::List(list))),
        (string(5, 1, "d"), node(5, 3, Data::Null)),
        (string(6, 1, "a"), node(6, 4, Data::Bool(true))),
    ]);
    assert_eq!(parse(text).unwrap(), node(1, 1, expected));
}

#[test]
fn keys_written_twice_stay_and_merged_ones_give_way() {
    for (text, expected) in [
        ("b:\n  x: 1\n  x: 2\n", &[("x", 2), ("x", 3)][..]),
        ("a: &a\n  x: 1\nb:\n  <<: *a\n  x: 2\n", &[("x", 5)]),
        ("a: &a\n  x: 1\nb:\n  x: 2\n  <<: *a\n", &[("x", 2)]),
        ("a: &a {x: 1}\nb:\n  <<: *a\n  z: 2\n", &[("x", 1), ("z", 4)]),
    ] {
        let Data::Map(root) = parse(text.as_bytes()).unwrap().data else {
            panic!("no mapping")
        };
        let Some(Data::Map(last)) = root.into_iter().next_back().map(|(_, value)| value.data) else {
            panic!("no mapping")
        };
        let keys: Vec<_> = last.iter().map(|(key, value)| (key.data.clone(), value.line)).collect();
        let text = |(key, line): &(&str, usize)| (Data::String((*key).to_owned()), *line);
        assert_eq!(keys, expected.iter().map(text).collect::<Vec<_>>());
    }
}

#[test]
fn errors_have_parts() {
    let error = to_json(b"a: 1\nb: c: d\n").unwrap_err();
    assert_eq!(error.line(), Some(2));
    assert_eq!(error.message(), "mapping values are not allowed in this context");
    let prefixed = "error converting YAML to JSON: yaml: line 2: mapping values are not allowed in this context";
    assert_eq!(error.to_string(), prefixed);
    let infinite = parse(b"a:\n  - .inf\n").unwrap_err();
    assert_eq!(infinite.to_string(), "json: line 2: unsupported value: +Inf");
}

#[test]
fn streams_split_into_documents() {
    for (text, expected) in [
        ("", vec![]),
        ("a: 1\n", vec!["a: 1\n"]),
        ("a: 1", vec!["a: 1"]),
        ("a: 1\n---\nb: 2\n", vec!["a: 1\n", "b: 2\n"]),
        ("---\na: 1\n--- # next\nb: 2", vec!["---\na: 1\n", "b: 2"]),
        ("---\n---\na: 1\n", vec!["---\n", "a: 1\n"]),
        ("a: 1\n---\n---\nb: 2\n", vec!["a: 1\n", "---\nb: 2\n"]),
        ("# ---\na: ---\n\n---\n", vec!["# ---\na: ---\n\n"]),
        ("a: 1\n---", vec!["a: 1\n"]),
        ("a: |\n ---\n", vec!["a: |\n ---\n"]),
        ("a: 1\r\n---\r\nb: 2\r\n", vec!["a: 1\r\n", "b: 2\r\n"]),
    ] {
        assert_eq!(documents(text).unwrap(), expected, "{text:?}");
    }
    for (text, rest) in [("a: 1\n--- b\n", "b"), ("----\n", "-"), ("---a", "a")] {
        let error = documents(text).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid Yaml document separator: {rest}"));
    }
}

#[test]
fn numbers_become_floats() {
    assert_eq!(
        all_floats(json!({"a": [1, -2, 2.5], "b": u64::MAX})),
        json!({"a": [1.0, -2.0, 2.5], "b": u64::MAX as f64})
    );
    assert_eq!(
        to_json(b"[1, 1e3, 2.5, 18446744073709551615]").unwrap(),
        json!([1, 1000, 2.5, u64::MAX])
    );
}

#[test]
fn nesting_is_limited() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let deepest = to_json(nested(MAX_DEPTH).as_bytes()).unwrap();
    assert_eq!(
        to_string(&deepest, MAX_DEPTH).unwrap(),
        format!("{}[]\n", "- ".repeat(MAX_DEPTH - 1))
    );
    assert!(to_string_pretty(&deepest, MAX_DEPTH).is_ok());
    let message = "exceeded max depth of 1000";
    assert_eq!(
        to_json(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err().message(),
        message
    );
    for unit in ["[", "{a: ", "- ", "? ", "- ? "] {
        assert_eq!(
            parse(unit.repeat(50_000).as_bytes()).unwrap_err().message(),
            message,
            "{unit}"
        );
    }
    let deeper = Value::Array(vec![Value::Array(vec![deepest])]);
    for written in [to_string(&deeper, MAX_DEPTH), to_string_pretty(&deeper, MAX_DEPTH)] {
        assert_eq!(written.unwrap_err().message(), message);
    }
    let text = to_string(&deeper, MAX_DEPTH + 2).unwrap();
    assert_eq!(to_json_within(text.as_bytes(), MAX_DEPTH + 2).unwrap(), deeper);
}

#[test]
fn aliases_are_limited() {
    let excessive = "document contains excessive aliasing";
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..9 {
        let aliases = vec![format!("*a{}", i - 1); 9].join(",");
        bomb.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
    }
    assert_eq!(to_json(bomb.as_bytes()).unwrap_err().message(), excessive);
    // Few nodes, many bytes.
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), ["*a"; 100].join(","));
    assert_eq!(to_json(long.as_bytes()).unwrap_err().message(), excessive);
    // 99 % of a small document may be aliases.
    let fine = format!("a: &a [{}]\nb: [{}]\n", ["x"; 10].join(","), ["*a"; 50].join(","));
    assert!(to_json(fine.as_bytes()).is_ok());
}
