//! Calls every function with hostile arguments: none may panic, hang or use unbounded memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::{Context, Environment, Limits, table};
use go_template::meter;
use go_template::{Entries, Host, List, ListKind, Map, MapKind, Param, Set, Value};

/// The number of calls of each function.
const SAMPLE: usize = 4;

fn strings() -> Vec<Value> {
    let texts: [&[u8]; 10] = [
        b"",
        b"\xff\xf0\x9f\x8e\x89\0",
        &b"a".repeat(1 << 12),
        &b"{{".repeat(500),
        &b"[".repeat(3_000),
        &b"{\"a\":".repeat(3_000),
        &b"((a*)*)*".repeat(200),
        b"%[3]*.[2]*[1]f %999999999d %!",
        b"(((((a{1,30}){1,30}){1,30}){1,30}){1,30})",
        b"-9223372036854775808",
    ];
    texts.into_iter().map(Value::string).collect()
}

/// A map that holds itself, next to lists that share all their parts.
fn cycle() -> Map {
    let map = Map::new(MapKind::Any, Entries::new());
    map.insert("self".into(), Value::Map(map.clone())).unwrap();
    map.insert("shared".into(), shared()).unwrap();
    map
}

/// 2^60 paths to one empty list.
fn shared() -> Value {
    (0..60).fold(Value::list(vec![]), |inner, _| Value::list(vec![inner.clone(), inner]))
}

fn deep() -> Value {
    (0..20_000).fold(Value::Nil, |inner, _| Value::list(vec![inner]))
}

fn candidates(param: Param) -> Vec<Value> {
    let int = |make: fn(i64) -> Value| [i64::MIN, -1, 0, 1, 1 << 33, i64::MAX].map(make).to_vec();
    match param {
        Param::String => strings(),
        Param::Int => int(Value::Int),
        Param::Int64 | Param::NamedInt(_) => int(Value::Int64),
        Param::Float64 => [f64::NAN, f64::INFINITY, f64::MIN, 0.0, 1e300]
            .map(Value::Float64)
            .to_vec(),
        Param::Bool => vec![Value::Bool(true)],
        Param::Map => vec![
            Value::Map(cycle()),
            Value::Map(Map::nil(MapKind::Any)),
            Value::map((0..1000).map(|n| (n.to_string().into(), Value::Int(n))).collect()),
            Value::map(Entries::from([("deep".into(), deep())])),
        ],
        Param::List => vec![Value::List(List::nil(ListKind::Any)), shared(), deep()],
        Param::Strings => vec![Value::List(List::nil(ListKind::String))],
        // Only other functions make these.
        Param::Named(_) | Param::Uint32 => vec![Value::Nil],
        Param::Any => {
            let mut all = strings();
            let others = [Param::Int, Param::Float64, Param::Map, Param::List];
            all.extend(others.into_iter().flat_map(candidates));
            all.extend([
                Value::Nil,
                Value::bytes(b"\xff"),
                Value::Uint64(u64::MAX),
                Value::Int64(1 << 40),
            ]);
            all
        }
    }
}

/// Argument lists: one argument hostile in turn, the others all the first, the second, ... of their candidates.
fn argument_lists(params: &[Param], variadic: Option<Param>) -> Vec<Vec<Value>> {
    let mut params = params.to_vec();
    params.extend(variadic.iter().chain(&variadic));
    let all: Vec<Vec<Value>> = params.iter().map(|param| candidates(*param)).collect();
    let pick = |position: usize, at: usize| {
        let list = &all[position];
        list[at % list.len()].clone()
    };
    let mut lists = vec![];
    for (position, hostile) in all.iter().enumerate() {
        for (at, value) in hostile.iter().enumerate() {
            for other in [0, at + 1] {
                lists.push(
                    (0..all.len())
                        .map(|p| if p == position { value.clone() } else { pick(p, other) })
                        .collect(),
                );
            }
        }
    }
    lists
}

/// Random numbers that are the same in every run.
fn next_random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state >> 33).unwrap()
}

#[test]
fn hostile_arguments_make_no_function_panic_or_hang() {
    let environment = Environment {
        random: Some(Arc::new([1; 32])),
        limits: Limits {
            memory: 32 << 20,
            time: Duration::from_secs(5),
            ..Limits::default()
        },
        ..Environment::default()
    };
    let mut set = Set::new("gotpl");
    set.parse("t", "", table()).unwrap();
    let set = Arc::new(set);
    // The failure of one call.
    let call = |name: &str, args: &[Value]| {
        let mut context = Context::new(set.clone(), &environment);
        let started = meter::cpu_time();
        let done = catch_unwind(AssertUnwindSafe(|| {
            let result = (table().get(name).unwrap().body)(&mut context, args);
            let made = result.as_ref().map_or(0, Value::shallow_size);
            let _ = context.called(0, made, made as u64);
            made
        }));
        let took = meter::cpu_time() - started;
        match done {
            Err(_) => Some("panics".to_owned()),
            Ok(made) if made > 128 << 20 => Some(format!("makes {made} bytes")),
            Ok(_) if took > Duration::from_secs(4) => Some(format!("takes {took:?}")),
            Ok(_) => None,
        }
    };
    let mut names: Vec<_> = table().names().collect();
    names.sort_unstable();
    // These are slow with any arguments, and are charged in steps for it.
    names.retain(|name| !name.starts_with("gen") && !["bcrypt", "htpasswd", "derivePassword"].contains(name));
    let mut state = 0x5eed_5eed_5eed_5eed;
    let mut calls = 0;
    crate::render::on_large_stack(|| {
        for name in names {
            let func = table().get(name).unwrap();
            let mut lists = argument_lists(&func.params, func.variadic);
            while lists.len() > SAMPLE {
                lists.swap_remove(next_random(&mut state) % lists.len());
            }
            for args in lists {
                calls += 1;
                if let Some(problem) = call(name, &args) {
                    let types: Vec<_> = args.iter().map(Value::type_name).collect();
                    panic!("{name}({}) {problem}", types.join(", "));
                }
            }
        }
    });
    assert!(calls > 500, "only {calls} calls");
}
