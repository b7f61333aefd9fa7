//! Every fuzz target over generated input, for a bounded number of cases: no panic, no hang, and the properties that the
//! targets assert. libFuzzer searches longer: see `fuzz/README.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

mod pieces;
mod seeds;
mod targets;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use pieces::PIECES;
use serde_json::Value;

/// How many inputs each target gets.
const CASES: u32 = 400;
/// How many seeds each target gets.
const SEEDS: usize = 300;
/// How long one input may take in an unoptimised build on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of any kind, or pieces of the languages in any order, with zero bytes between that make several parts.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    let piece = prop::sample::select(PIECES.as_slice()).prop_map(String::into_bytes);
    let any_piece = prop_oneof![
        12 => piece,
        2 => Just(vec![0]),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    let pieces = prop::collection::vec(any_piece, 0..40).prop_map(|pieces| pieces.concat());
    prop_oneof![1 => noise, 5 => pieces]
}

fn check(name: &str, target: fn(&[u8]), strategy: impl Strategy<Value = Vec<u8>>) {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    // The same cases in every run: CI must not fail by chance.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&strategy, |bytes| {
        let started = Instant::now();
        target(&bytes);
        let took = started.elapsed();
        prop_assert!(took < TIMEOUT, "took {took:?}");
        Ok(())
    });
    if let Err(TestError::Fail(reason, bytes)) = outcome {
        panic!("{name}: {reason}: {:?} {bytes:?}", String::from_utf8_lossy(&bytes));
    }
}

fn run(name: &str) {
    let known = targets::ALL.iter().find(|(known, _)| *known == name);
    let (name, target) = *known.expect("a target of this name");
    helm_template::render::on_large_stack(move || check(name, target, input()));
}

macro_rules! tests {
    ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name)); })* };
}

tests! {
    template render yaml_read merge strvals archive regexes globs versions
    release marks cron cel oci index
}

/// Texts that a status is read for, and such that are none.
static TEXTS: [&str; 13] = [
    "",
    "é",
    "\0",
    "../..",
    "Succeeded",
    "Running",
    "pre-install",
    "plan-backup",
    "* * * * *",
    "0 0 30 2 *",
    "9999-12-30T22:00:00Z",
    "-009999-01-02T01:59:59Z",
    "2026-01-02T11:59:59.999999999Z",
];

/// What a hostile client puts in the place of a field.
fn leaf() -> impl Strategy<Value = Value> {
    let number = prop::sample::select(vec![i64::MIN, -1, 0, 1, i64::from(u32::MAX), i64::MAX]);
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number.prop_map(Value::from),
        Just(Value::from(u64::MAX)),
        Just(Value::from(1e300)),
        prop::sample::select(TEXTS.as_slice()).prop_map(Value::from),
        (1..3000_usize).prop_map(|count| Value::from("x".repeat(count))),
        Just(Value::Array(Vec::new())),
        Just(serde_json::json!({})),
        Just(serde_json::json!([null, 5, {}, "text"])),
    ]
}

/// The values within a value, itself included.
fn count(value: &Value) -> usize {
    let inner: usize = match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    };
    inner + 1
}

/// Replaces the value at a position among those within a value.
fn replace(value: &mut Value, at: &mut usize, new: &Value) -> bool {
    if *at == 0 {
        value.clone_from(new);
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| replace(item, at, new)),
        Value::Object(fields) => fields.values_mut().any(|field| replace(field, at, new)),
        _ => false,
    }
}

/// The seeds of a target that are JSON, with some of their values replaced.
fn altered(name: &str) -> impl Strategy<Value = Vec<u8>> {
    let seeds = seeds::all().remove(name).expect("seeds");
    let seeds: Vec<Value> = seeds
        .iter()
        .filter_map(|seed| serde_json::from_slice(seed).ok())
        .collect();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), leaf()), 0..6);
    (prop::sample::select(seeds), changes).prop_map(|(mut value, changes)| {
        for (place, new) in changes {
            let mut at = place.index(count(&value));
            replace(&mut value, &mut at, &new);
        }
        value.to_string().into_bytes()
    })
}

#[test]
fn record() {
    check(
        "record",
        targets::record,
        prop_oneof![4 => altered("record"), 1 => input()],
    );
}

#[test]
fn status() {
    check(
        "status",
        targets::status,
        prop_oneof![9 => altered("status"), 1 => input()],
    );
}

/// JSON of any shape, for the writer.
#[test]
fn yaml_write() {
    let text = prop_oneof![
        any::<String>(),
        prop::sample::select(PIECES.as_slice()),
        prop::collection::vec(prop::sample::select(PIECES.as_slice()), 0..12).prop_map(|pieces| pieces.join(" ")),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 30, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..5).prop_map(Value::from_iter),
        ]
    });
    let bytes = value.prop_map(|value: Value| value.to_string().into_bytes());
    check("yaml_write", targets::yaml_write, bytes);
}

#[test]
fn seeds_of_the_fixtures() {
    let seeds = seeds::all();
    let check = move || {
        for (name, target) in targets::ALL {
            let seeds = &seeds[name];
            for seed in seeds.iter().step_by(seeds.len().div_ceil(SEEDS)) {
                target(seed);
            }
        }
    };
    helm_template::render::on_large_stack(check);
}

#[test]
fn each_target_has_a_file_for_libfuzzer() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/fuzz_targets");
    let groups: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|group| group.unwrap().path())
        .collect();
    for (name, _) in targets::ALL {
        let paths = groups.iter().map(|group| group.join(format!("{name}.rs")));
        let texts: Vec<String> = paths.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        assert_eq!(texts.len(), 1, "one file for {name} in the folders of {folder}");
        assert!(texts[0].contains("fuzz_target!"), "{name}");
    }
}
