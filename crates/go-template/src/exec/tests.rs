//! Every case of `tests/fixtures/go-template/*.jsonl` is what Go 1.26 itself printed and reported.

use serde_json::Value as Json;

use super::super::func::{Args, Argument, Func, FuncMap, Param, Rest, Signature};
use super::super::meter::Meter;
use super::super::value::{Entries, List, ListKind, Map, MapKind, Str};
use super::*;
use crate::text::format;
use fixtures::{self, Outcome};

/// A host with the options that a case names.
#[derive(Default)]
struct Case {
    meter: Meter,
    missing_key: MissingKey,
}

impl Host for Case {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn missing_key(&self) -> MissingKey {
        self.missing_key
    }
}

/// A parameter of type `int64`.
struct Int64(i64);

impl<'a> Argument<'a> for Int64 {
    type Output = Int64;

    fn declare(signature: &mut Signature) {
        signature.param(Param::Int64);
    }

    fn take(args: &mut Args<'a>) -> Option<Int64> {
        match args.next() {
            Some(Value::Int64(n)) => Some(Int64(*n)),
            _ => None,
        }
    }
}

/// A parameter of type `[]string`.
struct Strings<'a>(&'a List);

impl<'a> Argument<'a> for Strings<'_> {
    type Output = Strings<'a>;

    fn declare(signature: &mut Signature) {
        signature.param(Param::Strings);
    }

    fn take(args: &mut Args<'a>) -> Option<Strings<'a>> {
        match args.next() {
            Some(Value::List(list)) => Some(Strings(list)),
            _ => None,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
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
pub(super) fn funcs<C: Host + 'static>() -> FuncMap<C> {
    [
        Func::new("upper", |text: &[u8]| text.to_ascii_uppercase()),
        Func::new("addi", |a: i64, b: i64| Value::Int(a + b)),
        Func::new("addf", |a: f64, b: f64| a + b),
        Func::new("i64", |n: Int64| Value::Int64(n.0)),
        Func::new("u64", |n: Int64| Value::Uint64(n.0 as u64)),
        Func::new("not2", |b: bool| !b),
        Func::new("listf", |list: &List| Value::Int(list.items().len() as i64)),
        Func::new("strsf", |list: Strings| Value::Int(list.0.items().len() as i64)),
        Func::new("mapf", |map: &Map| Value::Int(map.len() as i64)),
        Func::new("fail", |why: &[u8]| Err::<Value, _>(text(why))),
        Func::new("panics", |why: &[u8]| Err::<Value, _>(text(why))),
        Func::new("nilf", || Value::Nil),
        Func::new("ident", |value: &Value| value.clone()),
        Func::new("cat", |meter: &Meter, all: Rest<&Value>| {
            format::sprint(meter, all.values)
        }),
        Func::new("pre", |first: &[u8], rest: Rest<&[u8]>| {
            [first, &rest.iter().collect::<Vec<_>>().join(&b","[..])].concat()
        }),
        Func::new("strs", || strings(&["a", "b", "c"])),
        Func::new("ints", || List::new(ListKind::Int, [3, 1, 2].map(Value::Int).to_vec())),
        Func::new("bytes", |text: &[u8]| Value::bytes(text)),
        Func::new("strmap", || {
            let pairs = [("k", Value::string("v")), ("a", Value::string("b"))];
            Map::new(MapKind::String, entries(&pairs))
        }),
        Func::new("nilmap", || Map::nil(MapKind::Any)),
        Func::new("nillist", || List::nil(ListKind::Any)),
        Func::new("list", |all: Rest<&Value>| Value::list(all.values.to_vec())),
        Func::new("maps", || {
            let maps = vec![
                Value::map(entries(&[("a", Value::Int(1))])),
                Value::map(entries(&[("b", Value::string("x"))])),
                Value::Map(Map::nil(MapKind::Any)),
            ];
            List::new(ListKind::Map, maps)
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

/// The output and the error of the template, as the oracle reports them.
fn run(template: &str, json: &Json, missing_key: MissingKey) -> (Vec<u8>, String) {
    let funcs = funcs::<Case>();
    let mut set = Set::new("root");
    if let Err(error) = set.parse("dir/t.yaml", template, &funcs) {
        return (Vec::new(), error.to_string());
    }
    let mut host = Case {
        missing_key,
        ..Case::default()
    };
    let mut out = Vec::new();
    let done = exec(&set, "dir/t.yaml", &data(json), &funcs, &mut host, &mut out);
    assert_eq!(host.meter.depth(), 0);
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
        // The output before an error is compared too.
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
fn templates_are_go_s() {
    for (fixture, at_least) in [
        ("syntax", 250),
        ("language", 500),
        ("errors", 300),
        ("builtins", 150),
        ("printf", 500),
        ("nil", 80),
    ] {
        agree(fixture, at_least);
    }
}
