//! The floors of the house: arrows point downward only. Between crates, Cargo sees to that; this test reads the paths
//! in `src/`, where a floor can only be reached by naming it.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The floors of `src/` from top to bottom. A floor may use those after it, never those before it.
const FLOORS: &str = "main cli scaffold controller reconcile cluster plan watches telemetry";

/// Floors that may use less than everything below them: (floor, all that it may use).
const ONLY: [(&str, &[&str]); 1] = [("cluster", &["plan", "watches", "telemetry"])];

/// What decides works without a cluster, a network and an async runtime. `kube`'s plain data is no I/O.
const PURE: [&str; 1] = ["plan"];
const IMPURE: &str = r"\b(kube::(Client|Api|Config|client|config|runtime|api::Api)|(tokio|tokio_util|hyper|axum)::)\b|\bstd::net::(Tcp|Udp|ToSocketAddrs)";

/// The floor of a source file below `src/`.
fn floor(file: &Path) -> Option<(usize, &str)> {
    let first = file.components().next()?.as_os_str().to_str()?.trim_end_matches(".rs");
    Some((place(first)?, first))
}

fn place(name: &str) -> Option<usize> {
    FLOORS.split(' ').position(|floor| floor == name)
}

/// What one file names that it must not, with lines.
fn violations(file: &Path, source: &str) -> Vec<String> {
    let Some((own, name)) = floor(file) else {
        return Vec::new();
    };
    let mentioned = Regex::new(r"\bcrate::(?:\{[^}]*\}|(\w+))").expect("a valid pattern");
    let impure = Regex::new(IMPURE).expect("a valid pattern");
    let word = Regex::new(r"\w+").expect("a valid pattern");
    let only = ONLY.iter().find(|(floor, _)| *floor == name).map(|(_, only)| *only);
    let mut found = Vec::new();
    for (number, line) in source.lines().enumerate() {
        // Links of doc comments are no arrows.
        let code = line.split("//").next().unwrap_or_default();
        let mut tell = |what: &str| found.push(format!("{}:{}: {what}", file.display(), number + 1));
        for mention in mentioned.find_iter(code) {
            for other in word.find_iter(mention.as_str()).map(|other| other.as_str()) {
                let Some(named) = place(other) else { continue };
                if named < own || (named != own && only.is_some_and(|only| !only.contains(&other))) {
                    tell(&format!("{name} may not use {other}"));
                }
            }
        }
        if let Some(named) = impure.find(code).filter(|_| PURE.contains(&name)) {
            tell(&format!("{name} is pure, and names {}", named.as_str()));
        }
    }
    found
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn arrows_point_downward_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut found = Vec::new();
    for path in &files {
        let file = path.strip_prefix(&root).expect("below src");
        let has_floor = floor(file).is_some() || file == Path::new("lib.rs");
        assert!(has_floor, "{} lies on no floor", file.display());
        found.extend(violations(file, &fs::read_to_string(path).expect("a source file")));
    }
    assert!(files.len() > 50);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn upward_arrows_and_input_in_pure_floors_are_seen() {
    for (file, source, count) in [
        ("plan/a.rs", "use crate::reconcile::Run;", 1),
        ("plan/a.rs", "use crate::{cluster, telemetry};", 1),
        ("plan/a.rs", "fn a() { crate::cli::run::go() } // crate::cli", 1),
        ("plan/a.rs", "/// [`crate::reconcile`]\nuse crate::telemetry::a;", 0),
        ("plan/a.rs", "use kube::api::DynamicObject;", 0),
        ("plan/a.rs", "let client: kube::Client;", 1),
        ("plan/a.rs", "tokio::time::sleep(d)", 1),
        ("cluster/a.rs", "use crate::plan::identity;\nuse tokio::sync::Mutex;", 0),
        ("cluster/a.rs", "use crate::controller::queue;", 1),
        ("reconcile/mod.rs", "pub(in crate::reconcile) fn a() {}", 0),
    ] {
        assert_eq!(violations(Path::new(file), source).len(), count, "{source}");
    }
}
