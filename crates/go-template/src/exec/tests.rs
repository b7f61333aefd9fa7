//! Every case of `tests/fixtures/go-template/*.jsonl` is what Go 1.26 itself printed and reported.

use serde_json::Value as Json;

use super::super::func::{CallError, Func, FuncMap, Param};
use super::super::value::{Entries, List, ListKind, Map, MapKind, Str};
use super::*;
use fixtures::{self, Outcome};

/// A host with the options that a case names.
#[derive(Default)]
struct Case {
    depth: usize,
    missing_key: MissingKey,
}

impl Host for Case {
    fn depth(&mut self) -> &mut usize {
        &mut self.depth
    }

    fn missing_key(&self) -> MissingKey {
        self.missing_key
    }
}

fn int(args: &[Value], at: usize) -> i64 {
    match args.get(at) {
        Some(Value::Int(n) | Value::Int64(n)) => *n,
        _ => 0,
    }
}

fn text(args: &[Value], at: usize) -> Vec<u8> {
    match args.get(at) {
        Some(Value::String(text)) => text.as_bytes().to_vec(),
        _ => Vec::new(),
    }
}

fn entries(pairs: &[(&str, Value)]) -> Entries {
    pairs
        .iter()
        .map(|(key, value)| (Str::from(*key), value.clone()))
        .collect()
}

fn strings(items: &[&str]) -> Value {
    Value::List(List::new(
        ListKind::String,
        items.iter().map(|item| Value::string(*item)).collect(),
    ))
}

/// The typed functions that the oracle had.
pub(super) fn funcs<C>() -> FuncMap<C> {
    fn func<C>(
        name: &'static str,
        params: &'static [Param],
        variadic: Option<Param>,
        body: super::super::func::Body<C>,
    ) -> Func<C> {
        Func {
            name,
            params,
            variadic,
            body,
        }
    }
    use Param::*;
    [
        func("upper", &[String], None, |_, args| {
            Ok(Value::string(text(args, 0).to_ascii_uppercase()))
        }),
        func("addi", &[Int, Int], None, |_, args| {
            Ok(Value::Int(int(args, 0) + int(args, 1)))
        }),
        func("addf", &[Float64, Float64], None, |_, args| match args {
            [Value::Float64(a), Value::Float64(b)] => Ok(Value::Float64(a + b)),
            _ => Err("not float64".into()),
        }),
        func("i64", &[Int64], None, |_, args| Ok(Value::Int64(int(args, 0)))),
        func("u64", &[Int64], None, |_, args| Ok(Value::Uint64(int(args, 0) as u64))),
        func("not2", &[Bool], None, |_, args| Ok(Value::Bool(!args[0].truth()))),
        func("listf", &[Param::List], None, |_, args| match &args[0] {
            Value::List(list) => Ok(Value::Int(list.items().len() as i64)),
            _ => Err("not a list".into()),
        }),
        func("strsf", &[Strings], None, |_, args| match &args[0] {
            Value::List(list) => Ok(Value::Int(list.items().len() as i64)),
            _ => Err("not a list".into()),
        }),
        func("mapf", &[Param::Map], None, |_, args| match &args[0] {
            Value::Map(map) => Ok(Value::Int(map.len() as i64)),
            _ => Err("not a map".into()),
        }),
        func("fail", &[String], None, |_, args| {
            Err(CallError::Text(std::string::String::from_utf8(text(args, 0)).unwrap()))
        }),
        func("panics", &[String], None, |_, args| {
            Err(CallError::Text(std::string::String::from_utf8(text(args, 0)).unwrap()))
        }),
        func("nilf", &[], None, |_, _| Ok(Value::Nil)),
        func("ident", &[Any], None, |_, args| Ok(args[0].clone())),
        func("cat", &[], Some(Any), |_, args| Ok(Value::string(format::sprint(args)))),
        func("pre", &[String], Some(String), |_, args| {
            let rest: Vec<_> = (1..args.len()).map(|at| text(args, at)).collect();
            Ok(Value::string([text(args, 0), rest.join(&b","[..])].concat()))
        }),
        func("strs", &[], None, |_, _| Ok(strings(&["a", "b", "c"]))),
        func("ints", &[], None, |_, _| {
            Ok(Value::List(self::List::new(
                ListKind::Int,
                [3, 1, 2].map(Value::Int).to_vec(),
            )))
        }),
        func("bytes", &[String], None, |_, args| Ok(Value::bytes(&text(args, 0)))),
        func("strmap", &[], None, |_, _| {
            let pairs = [("k", Value::string("v")), ("a", Value::string("b"))];
            Ok(Value::Map(self::Map::new(MapKind::String, entries(&pairs))))
        }),
        func("nilmap", &[], None, |_, _| Ok(Value::Map(self::Map::nil(MapKind::Any)))),
        func("nillist", &[], None, |_, _| {
            Ok(Value::List(self::List::nil(ListKind::Any)))
        }),
        func("list", &[], Some(Any), |_, args| Ok(Value::list(args.to_vec()))),
        func("maps", &[], None, |_, _| {
            let maps = vec![
                Value::map(entries(&[("a", Value::Int(1))])),
                Value::map(entries(&[("b", Value::string("x"))])),
                Value::Map(self::Map::nil(MapKind::Any)),
            ];
            Ok(Value::List(self::List::new(ListKind::Map, maps)))
        }),
    ]
    .into_iter()
    .collect()
}

/// JSON with every number a float64.
pub(super) fn data(json: &Json) -> Value {
    match json {
        Json::Number(n) => Value::Float64(n.as_f64().unwrap()),
        Json::Array(items) => Value::list(items.iter().map(data).collect()),
        Json::Object(map) => Value::map(
            map.iter()
                .map(|(key, value)| (Str::from(key.as_str()), data(value)))
                .collect(),
        ),
        other => Value::from_json(other),
    }
}

/// What the template prints and the error, as the oracle reports them.
fn run(template: &str, json: &Json, missing_key: MissingKey) -> (Vec<u8>, String) {
    let funcs = funcs::<Case>();
    let mut set = Set::new("root");
    if let Err(error) = set.parse("dir/t.yaml", template, &funcs) {
        return (Vec::new(), error.to_string());
    }
    let mut host = Case { depth: 0, missing_key };
    let mut out = Vec::new();
    let done = exec(&set, "dir/t.yaml", &data(json), &funcs, &mut host, &mut out);
    assert_eq!(host.depth, 0);
    (out, done.err().map(|error| error.to_string()).unwrap_or_default())
}

fn agree(fixture: &str, at_least: usize) {
    let count = fixtures::check(&format!("go-template/{fixture}.jsonl"), |case| {
        let missing_key = match case.text("missingkey") {
            Some("error") => MissingKey::Error,
            Some("default") => MissingKey::Invalid,
            _ => MissingKey::Zero,
        };
        let template = case.text("t").expect("a case has a template");
        let (out, error) = run(template, case.field("v"), missing_key);
        let mut outcome = Outcome::default();
        // What was printed before an error counts too.
        if error.is_empty() || !out.is_empty() {
            outcome = outcome.with_bytes("out", &out);
        }
        if error.is_empty() {
            outcome
        } else {
            outcome.with("err", error)
        }
    });
    assert!(count >= at_least, "only {count} cases in {fixture}");
}

#[test]
fn syntax_is_go_s() {
    agree("syntax", 250);
}

#[test]
fn language_is_go_s() {
    agree("language", 500);
}

#[test]
fn errors_are_go_s() {
    agree("errors", 300);
}

#[test]
fn builtins_are_go_s() {
    agree("builtins", 150);
}

#[test]
fn printf_is_go_s() {
    agree("printf", 500);
}

#[test]
fn nil_is_go_s() {
    agree("nil", 80);
}
