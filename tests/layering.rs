//! The floors of the house (DESIGN, section 2) and the test that arrows point downward only.
//!
//! Every `.rs` file under `src/` is read as text. Comments and literals are blanked first, then every path that starts
//! with `crate::`, or leaves its floor with `super::`, is resolved to a floor and compared with the floor it stands in.
//! Text is enough: a floor can only be reached by naming it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The floors from top to bottom. A floor may use those after it, never those before it.
///
/// `template` stands for `src/template/mod.rs`, the floor's own face; what lies inside it has rules of its own.
const FLOORS: &[&str] = &[
    "main",
    "cli",
    "scaffold",
    "controller",
    "reconcile",
    "cluster",
    "plan",
    "render",
    "chart",
    "template",
    "template::handlebars",
    "template::helm",
    "template::sprig",
    "template::go",
    "watches",
    "yaml",
    "telemetry",
    FIXTURES,
];

/// Where tests read recorded cases: below all, so that every floor's tests may use it. `lib.rs` has it only in tests.
const FIXTURES: &str = "fixtures";

/// Floors that may use less than everything below them: (floor, all that it may use).
const ONLY: &[(&str, &[&str])] = &[
    ("template::go", &[]),
    ("template::sprig", &["template::go"]),
    ("template::helm", &["template::go", "template::sprig", "yaml"]),
    // The API server's floor answers what renders ask (lookups, capabilities), and knows nothing of templates.
    ("cluster", &["plan", "render", "watches", "yaml", "telemetry"]),
];

/// Floors that work without a cluster, a network or an async runtime.
const PURE: &[&str] = &["plan", "render", "chart", "template", "yaml"];

/// What a pure floor must not name. `kube`'s plain data (ResourceExt, GroupVersionKind, ...) is no I/O.
const FORBIDDEN_IN_PURE: &[&[&str]] = &[
    &["kube", "Client"],
    &["kube", "Api"],
    &["kube", "Config"],
    &["kube", "client"],
    &["kube", "api", "Api"],
    &["kube", "config"],
    &["kube", "runtime"],
    &["tokio"],
    &["tokio_util"],
    &["reqwest"],
    &["hyper"],
    &["axum"],
    // Addresses as such are data.
    &["std", "net", "TcpListener"],
    &["std", "net", "TcpStream"],
    &["std", "net", "ToSocketAddrs"],
    &["std", "net", "UdpSocket"],
];

/// A path that a file must not contain.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    file: PathBuf,
    line: usize,
    path: String,
    why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file.display(), self.line, self.path, self.why)
    }
}

/// The floor that a module path (without `crate`) lies on: its first segment, or two inside `template`.
///
/// None for what is no floor: an item of `lib.rs`.
fn floor_of(module: &[String]) -> Option<&'static str> {
    let first = module.first()?;
    let inner = module.get(1).map(|second| format!("{first}::{second}"));
    let known = |name: &str| FLOORS.iter().find(|floor| **floor == name).copied();
    inner.and_then(|name| known(&name)).or_else(|| known(first))
}

/// The module path of a source file below `src/`: `plan/wave.rs` is `plan::wave`, `plan/mod.rs` is `plan`.
fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> = file
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

/// Why an arrow from one floor to another is not allowed, if so.
fn judge(from: &str, to: &str) -> Option<String> {
    if from == to || to == FIXTURES {
        return None;
    }
    let rank = |name: &str| FLOORS.iter().position(|floor| *floor == name);
    if let Some((_, allowed)) = ONLY.iter().find(|(floor, _)| *floor == from) {
        let fits = allowed.contains(&to);
        let list = if allowed.is_empty() {
            "nothing of this crate".to_string()
        } else {
            allowed.join(", ")
        };
        return (!fits).then(|| format!("{from} may use only {list}"));
    }
    (rank(to) < rank(from)).then(|| format!("an upward arrow: {to} lies above {from}"))
}

/// A token of Rust source, as far as paths need it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    PathSeparator,
    Other(char),
}

/// Cuts source text into tokens with their lines (from 1), leaving out comments and the contents of literals.
fn tokens(source: &str) -> Vec<(Token, usize)> {
    let text: Vec<char> = source.chars().collect();
    let at = |i: usize| text.get(i).copied().unwrap_or('\0');
    let (mut out, mut i, mut line) = (Vec::new(), 0, 1);
    while i < text.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < text.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                while i < text.len() {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        _ => i += 1,
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            '"' => i = after_string(&text, i),
            // A lifetime has no second quote where a char literal has one.
            '\'' if at(i + 1) == '\\' => {
                i += 3;
                while i < text.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            '\'' if at(i + 2) == '\'' => i += 3,
            ':' if at(i + 1) == ':' => {
                out.push((Token::PathSeparator, line));
                i += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                let word: String = text[start..i].iter().collect();
                let raw_string = matches!(word.as_str(), "r" | "br" | "cr") && matches!(at(i), '"' | '#');
                match raw_string.then(|| after_raw_string(&text, i)).flatten() {
                    Some(end) => i = end,
                    // r#type is the word type.
                    None if word == "r" && at(i) == '#' => i += 1,
                    None => out.push((Token::Word(word), line)),
                }
            }
            c => {
                if !c.is_whitespace() {
                    out.push((Token::Other(c), line));
                }
                i += 1;
            }
        }
        line += text[start..i.min(text.len())].iter().filter(|c| **c == '\n').count();
    }
    out
}

/// The index after a string literal whose opening quote is at `i`.
fn after_string(text: &[char], mut i: usize) -> usize {
    i += 1;
    while i < text.len() && text[i] != '"' {
        i += if text[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// The index after a raw string whose `#`s or quote begin at `i`; None if it is a raw identifier.
fn after_raw_string(text: &[char], i: usize) -> Option<usize> {
    let hashes = text[i..].iter().take_while(|c| **c == '#').count();
    if text.get(i + hashes) != Some(&'"') {
        return None;
    }
    let mut j = i + hashes + 1;
    while j < text.len() {
        if text[j] == '"' && text[j + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes {
            return Some(j + 1 + hashes);
        }
        j += 1;
    }
    Some(text.len())
}

/// A path of a source file, group members of a `use` spelt out, with the line it stands on.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    path: Vec<String>,
    line: usize,
    /// How many inline modules (`mod tests {`) surround it.
    inline: usize,
}

/// All paths of a source text.
fn paths(source: &str) -> Vec<Named> {
    let tokens = tokens(source);
    let (mut out, mut i) = (Vec::new(), 0);
    let mut depth = 0_usize;
    let mut inline: Vec<usize> = Vec::new();
    while i < tokens.len() {
        match &tokens[i].0 {
            Token::Other('{') => depth += 1,
            Token::Other('}') => {
                depth = depth.saturating_sub(1);
                if inline.last() == Some(&depth) {
                    inline.pop();
                }
            }
            Token::Word(word) if word == "mod" => {
                if let (Some((Token::Word(_), _)), Some((Token::Other('{'), _))) =
                    (tokens.get(i + 1), tokens.get(i + 2))
                {
                    inline.push(depth);
                }
            }
            Token::Word(word) if word == "use" => {
                let mut found = Vec::new();
                i = use_tree(&tokens, i + 1, &[], &mut found);
                out.extend(found.into_iter().map(|(path, line)| Named {
                    path,
                    line,
                    inline: inline.len(),
                }));
                continue;
            }
            Token::Word(_) => {
                let mut found = Vec::new();
                i = use_tree(&tokens, i, &[], &mut found);
                out.extend(found.into_iter().map(|(path, line)| Named {
                    path,
                    line,
                    inline: inline.len(),
                }));
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    out
}

/// Reads `a::b::{c, d::e}` from `i`, adds each full path to `out` and returns the index after it.
fn use_tree(tokens: &[(Token, usize)], mut i: usize, prefix: &[String], out: &mut Vec<(Vec<String>, usize)>) -> usize {
    let line = tokens.get(i).map_or(0, |(_, line)| *line);
    let mut path = prefix.to_vec();
    if matches!(tokens.get(i), Some((Token::PathSeparator, _))) {
        i += 1;
    }
    loop {
        match tokens.get(i) {
            Some((Token::Word(word), _)) => {
                path.push(word.clone());
                i += 1;
            }
            Some((Token::Other('{'), _)) if path.len() > prefix.len() || prefix.is_empty() => {
                i += 1;
                while i < tokens.len() && tokens[i].0 != Token::Other('}') {
                    let before = i;
                    i = use_tree(tokens, i, &path, out);
                    // What follows a member: a comma, or `as name`, or an asterisk.
                    while i < tokens.len() && !matches!(tokens[i].0, Token::Other(',' | '}')) {
                        i += 1;
                    }
                    if i < tokens.len() && tokens[i].0 == Token::Other(',') {
                        i += 1;
                    }
                    i = i.max(before + 1);
                }
                return i + 1;
            }
            _ => break,
        }
        if matches!(tokens.get(i), Some((Token::PathSeparator, _))) {
            i += 1;
        } else {
            break;
        }
    }
    if path.len() > prefix.len() {
        out.push((path, line));
    }
    i.max(1)
}

/// The violations of one file, given by its path below `src/` and its text.
fn check(file: &Path, source: &str) -> Vec<Violation> {
    let module = module_of(file);
    // lib.rs declares the floors; it is the map, not a floor.
    if module == ["lib"] {
        return Vec::new();
    }
    let violation = |named: &Named, why: String| Violation {
        file: Path::new("src").join(file),
        line: named.line,
        path: named.path.join("::"),
        why,
    };
    let Some(from) = floor_of(&module) else {
        let named = Named {
            path: module.clone(),
            line: 1,
            inline: 0,
        };
        return vec![violation(
            &named,
            "is on no floor: add it to FLOORS in tests/layering.rs".into(),
        )];
    };
    let pure = PURE
        .iter()
        .any(|floor| from == *floor || from.starts_with(&format!("{floor}::")));
    let mut out = Vec::new();
    for named in paths(source) {
        if pure
            && FORBIDDEN_IN_PURE
                .iter()
                .any(|forbidden| starts_with(&named.path, forbidden))
        {
            out.push(violation(
                &named,
                format!("{from} works without a cluster, a network and an async runtime"),
            ));
        }
        let Some(target) = target_module(&module, &named) else {
            continue;
        };
        match floor_of(&target) {
            Some(to) => out.extend(judge(from, to).map(|why| violation(&named, why))),
            None => out.push(violation(
                &named,
                "is on no floor: lib.rs lies above all of them".into(),
            )),
        }
    }
    out
}

fn starts_with(path: &[String], prefix: &[&str]) -> bool {
    path.len() >= prefix.len() && path.iter().zip(prefix).all(|(a, b)| a == b)
}

/// Where a path that begins at the crate's root, or climbs up to it with `super`, leads; None for every other path.
fn target_module(module: &[String], named: &Named) -> Option<Vec<String>> {
    if named.path.first().is_some_and(|first| first == "crate") {
        return (named.path.len() > 1).then(|| named.path[1..].to_vec());
    }
    let supers = named.path.iter().take_while(|word| *word == "super").count();
    // Inline modules are left first; their own names don't matter, for they lie on the file's floor.
    let climbed = supers.checked_sub(named.inline).filter(|left| *left > 0)?;
    let mut target = module.get(..module.len().checked_sub(climbed)?)?.to_vec();
    target.extend_from_slice(&named.path[supers..]);
    (!target.is_empty()).then_some(target)
}

/// Every `.rs` file below a folder, sorted.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display())) {
        let path = entry.expect("a folder entry").path();
        if path.is_dir() {
            out.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            out.push(path);
        }
    }
    out.sort();
    out
}

#[test]
fn arrows_point_downward_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut violations = Vec::new();
    for file in rust_files(&src) {
        let source = fs::read_to_string(&file).unwrap_or_else(|err| panic!("{}: {err}", file.display()));
        violations.extend(check(file.strip_prefix(&src).expect("below src"), &source));
    }
    let list: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(
        list.is_empty(),
        "{} arrows point the wrong way:\n{}",
        list.len(),
        list.join("\n")
    );
}

/// What `check` says of one line in one file: the offending paths.
fn offences(file: &str, source: &str) -> Vec<String> {
    check(Path::new(file), source)
        .into_iter()
        .map(|violation| violation.path)
        .collect()
}

#[test]
fn a_planted_upward_arrow_is_found() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "plan/wave.rs",
            "use crate::reconcile::Step;",
            &["crate::reconcile::Step"],
        ),
        (
            "plan/wave.rs",
            "pub(crate) use crate::controller;",
            &["crate::controller"],
        ),
        (
            "plan/wave.rs",
            "use crate::{yaml::parse, cluster::{self, Apply as A}, render};",
            &["crate::cluster::self", "crate::cluster::Apply"],
        ),
        (
            "plan/mod.rs",
            "fn f() -> u8 { crate::cli::run(1) }",
            &["crate::cli::run"],
        ),
        (
            "plan/wave.rs",
            "use super::super::cluster::Apply;",
            &["super::super::cluster::Apply"],
        ),
        (
            "plan/wave.rs",
            "mod tests { use super::super::super::cluster::X; }",
            &["super::super::super::cluster::X"],
        ),
        (
            "plan/wave.rs",
            "mod tests { mod deep {} } use super::super::cluster::X;",
            &["super::super::cluster::X"],
        ),
        ("telemetry/mod.rs", "use crate::yaml;", &["crate::yaml"]),
        ("yaml/mod.rs", "use crate::watches::Watch;", &["crate::watches::Watch"]),
        ("template/go/eval.rs", "use crate::yaml;", &["crate::yaml"]),
        (
            "template/go/eval.rs",
            "use crate::template::sprig::f;",
            &["crate::template::sprig::f"],
        ),
        (
            "template/go/eval.rs",
            "use super::super::helm::f;",
            &["super::super::helm::f"],
        ),
        (
            "template/sprig/mod.rs",
            "use crate::template::{go::Value, helm::tpl};",
            &["crate::template::helm::tpl"],
        ),
        (
            "template/helm/mod.rs",
            "use crate::chart::Chart;",
            &["crate::chart::Chart"],
        ),
        (
            "cluster/apply.rs",
            "use crate::template::go::Value;",
            &["crate::template::go::Value"],
        ),
        ("watches/mod.rs", "use crate::VERSION;", &["crate::VERSION"]),
        ("attic/mod.rs", "", &["attic"]),
        ("plan/a.rs", "use kube::{Resource, Client};", &["kube::Client"]),
        ("render/a.rs", "let t = tokio::spawn(f);", &["tokio::spawn"]),
        ("template/go/a.rs", "use ::reqwest::get;", &["reqwest::get"]),
    ];
    for (file, source, expected) in cases {
        assert_eq!(offences(file, source), *expected, "{file}: {source}");
    }
}

#[test]
fn what_is_allowed_is_left_alone() {
    let cases = [
        ("main.rs", "use chartwright::cli; fn main() { crate::cli::run() }"),
        ("lib.rs", "pub mod cli; pub use crate::cli::run;"),
        (
            "reconcile/apply.rs",
            "use crate::{cluster, plan::{Action, wave::Wave}, telemetry::*};",
        ),
        (
            "reconcile/render.rs",
            "mod tests { use super::super::values::X; use super::*; }",
        ),
        (
            "cluster/apply.rs",
            "use crate::plan::Action; use crate::render::LookupKey; use kube::{Api, Client}; use tokio::time;",
        ),
        ("watches/mod.rs", "use crate::yaml::parse;"),
        ("template/sprig/mod.rs", "use crate::template::go::{Value, func::Func};"),
        (
            "template/mod.rs",
            "use crate::template::helm; mod x { pub use super::super::yaml; }",
        ),
        ("template/handlebars.rs", "use crate::{template::sprig, yaml};"),
        (
            "plan/a.rs",
            "// use crate::cli;\n/* crate::cli /* crate::cli */ tokio:: */ /// [`crate::cli`]\n",
        ),
        (
            "plan/a.rs",
            r###"const A: &str = "crate::cli \" crate::cli"; const B: &str = r#"crate::cli " tokio::x"#;"###,
        ),
        (
            "plan/a.rs",
            "fn f<'a>(x: &'a str) -> char { let _ = '\"'; let _ = '\\''; '/' } // crate::cli",
        ),
        (
            "plan/a.rs",
            "use kube::core::GroupVersionKind; let tokio_like = my::tokio::x;",
        ),
        ("plan/a.rs", "let r#type = r#mod::x;"),
    ];
    for (file, source) in cases {
        assert_eq!(offences(file, source), Vec::<String>::new(), "{file}: {source}");
    }
}

#[test]
fn a_violation_names_file_and_line() {
    let found = check(
        Path::new("plan/wave.rs"),
        "//! Waves.\nconst S: &str = \"\n\";\n\nuse crate::cli::X;\n",
    );
    let text: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert_eq!(
        text,
        ["src/plan/wave.rs:5: crate::cli::X: an upward arrow: cli lies above plan"]
    );
}

#[test]
fn every_rule_names_a_floor_that_exists() {
    for (floor, allowed) in ONLY {
        for name in allowed.iter().chain([floor]) {
            assert!(FLOORS.contains(name), "{name} is no floor");
        }
    }
    for floor in PURE {
        assert!(FLOORS.contains(floor), "{floor} is no floor");
    }
}
