//! `make fuzz-helm`: random YAML, values and templates through Helm's own libraries (tests/oracle) and through ours.
//!
//! A difference is made as small as it gets and printed as a line for a file of fixtures, with Go's answer in it. What Go
//! answers differently from one time to the next (the order of its maps) is no difference.

mod case;
mod functions;
mod oracle;
mod random;
mod sharing;
mod shrink;
mod templates;
mod values;
mod yaml_text;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use case::{Case, Kind};
use oracle::{Answer, Oracle};
use random::Random;

const USAGE: &str = "usage: fuzz-helm --oracle PROGRAM [--seconds N] [--seed N] [--cases N] [--first N] [--only read|write|pretty|template]

  --seconds N   how long to run (60)
  --cases N     how many cases to run instead
  --seed N      the same seed makes the same cases (0)
  --first N     the number of the first case (0)

The exit code is 1 if there was a difference, 2 if the run could not be made.";

/// How often Go is asked again when the answers differ, before the difference counts.
const AGAIN: usize = 30;
/// Differences after which a run ends.
const ENOUGH: usize = 25;

struct Options {
    oracle: String,
    seconds: u64,
    cases: Option<u64>,
    seed: u64,
    first: u64,
    only: Option<Kind>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        oracle: String::new(),
        seconds: 60,
        cases: None,
        seed: 0,
        first: 0,
        only: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        let number = || value.parse::<u64>().map_err(|e| format!("{name} {value}: {e}"));
        match name.as_str() {
            "--oracle" => options.oracle = value,
            "--seconds" => options.seconds = number()?,
            "--cases" => options.cases = Some(number()?),
            "--seed" => options.seed = number()?,
            "--first" => options.first = number()?,
            "--only" => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == value);
                options.only = Some(kind.ok_or_else(|| format!("no kind {value}\n{USAGE}"))?);
            }
            _ => return Err(format!("unknown argument {name}\n{USAGE}")),
        }
    }
    if options.oracle.is_empty() {
        return Err(format!("--oracle is missing\n{USAGE}"));
    }
    Ok(options)
}

fn main() {
    let outcome =
        options().and_then(|options| chartwright::render::on_large_stack(|| run(&options)).unwrap_or_else(Err));
    match outcome {
        Ok(0) => {}
        Ok(_) => std::process::exit(1),
        Err(text) => {
            eprintln!("fuzz-helm: {text}");
            std::process::exit(2);
        }
    }
}

fn ours(case: &Case) -> Answer {
    catch_unwind(AssertUnwindSafe(|| case.ours())).unwrap_or_else(|_| Err("our side panicked".to_owned()))
}

/// Go's answer, if ours is another and Go's is always the same.
fn difference(case: &Case, oracle: &mut Oracle) -> Result<Option<Answer>, String> {
    let ours = ours(case);
    // Go may take a minute to overflow its stack.
    if is_limit(&ours) {
        return Ok(None);
    }
    let theirs = case.theirs(oracle)?;
    if same(&ours, &theirs) {
        return Ok(None);
    }
    for _ in 0..AGAIN {
        let again = case.theirs(oracle)?;
        if again != theirs {
            return Ok(None);
        }
    }
    Ok(Some(theirs))
}

/// Whether the answers are the same, as far as they can be: limits that are ours alone have words of their own.
fn same(ours: &Answer, theirs: &Answer) -> bool {
    if ours == theirs {
        return true;
    }
    match (ours, theirs) {
        // Helm lists the API groups in the order of a map.
        (Ok(_), Ok(theirs)) if String::from_utf8_lossy(theirs).contains("admissionregistration.k8s.io") => true,
        // The wording of TOML's errors is that of a parser of our own.
        (Ok(ours), Ok(theirs))
            if [ours, theirs].map(|text| String::from_utf8_lossy(text).contains("toml: ")) == [true; 2] =>
        {
            true
        }
        // Ours keeps text that is not UTF-8 readable for a status.
        (Ok(ours), Ok(theirs)) => String::from_utf8_lossy(ours) == String::from_utf8_lossy(theirs),
        _ => false,
    }
}

/// Whether the render went over one of our own limits.
fn is_limit(ours: &Answer) -> bool {
    ours.as_ref().is_err_and(|text| text.contains("the limit of"))
}

fn show(answer: &Answer) -> String {
    match answer {
        Ok(bytes) => format!("output {:?}", String::from_utf8_lossy(bytes)),
        Err(text) => format!("error {text:?}"),
    }
}

/// Runs the cases and returns how many differences there were.
fn run(options: &Options) -> Result<usize, String> {
    let mut oracle = Oracle::start(&options.oracle)?;
    let documents = documents();
    let started = Instant::now();
    let mut counts: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    let mut differences = Vec::new();
    let mut number = options.first;
    loop {
        let done = match options.cases {
            Some(cases) => number - options.first >= cases,
            None => started.elapsed() >= Duration::from_secs(options.seconds),
        };
        if done || differences.len() >= ENOUGH {
            break;
        }
        let mut random = Random::new(options.seed, number);
        let kind = options
            .only
            .unwrap_or_else(|| Kind::ALL[[0, 0, 0, 1, 2, 3, 3, 3, 3, 3][random.below(10)]]);
        let case = Case::new(kind, &mut random, &documents);
        let count = counts.entry(kind.name()).or_default();
        count[0] += 1;
        let found = difference(&case, &mut oracle)?;
        if ours(&case).is_err() {
            count[1] += 1;
        }
        if found.is_some() {
            let mut failure = None;
            let small = shrink::shrink(case, |case| match difference(case, &mut oracle) {
                Ok(found) => found.is_some(),
                Err(text) => {
                    failure = Some(text);
                    false
                }
            });
            if let Some(text) = failure {
                return Err(text);
            }
            let theirs = small.theirs(&mut oracle)?;
            let line = small.fixture(&theirs);
            if !differences.contains(&line) {
                println!(
                    "--- {} (--seed {} --first {number} --cases 1)",
                    kind.name(),
                    options.seed
                );
                println!("Go:   {}\nours: {}\n{line}", show(&theirs), show(&ours(&small)));
                differences.push(line);
            }
        }
        number += 1;
    }
    let seconds = started.elapsed().as_secs_f64();
    for (kind, [cases, errors]) in &counts {
        println!("{kind}: {cases} cases, {errors} of them errors");
    }
    println!(
        "{} cases of seed {} in {seconds:.0} s, {} differences",
        number - options.first,
        options.seed,
        differences.len()
    );
    Ok(differences.len())
}

/// YAML that the repository has, to be changed at random.
fn documents() -> Vec<Vec<u8>> {
    let root = env!("CARGO_MANIFEST_DIR");
    let recorded = std::fs::read_to_string(format!("{root}/tests/fixtures/yaml/read.jsonl")).unwrap_or_default();
    let recorded = recorded.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(line.get("in")?.as_str()?.as_bytes().to_vec())
    });
    let files = [
        "charts/memcached/values.yaml",
        "charts/memcached/Chart.yaml",
        "watches.yaml",
        "config/rbac/role.yaml",
        "config/manager/manager.yaml",
    ];
    let files = files
        .iter()
        .filter_map(|name| std::fs::read(format!("{root}/{name}")).ok());
    recorded.chain(files).filter(|text| text.len() < 6000).collect()
}
