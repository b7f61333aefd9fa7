//! A fixture of `tests/fixtures/watches` is a `watches.yaml` and a `.txt` with its expected findings.

use std::path::Path;

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/watches");

fn env(name: &str) -> Option<String> {
    match name {
        "TAG" => Some("1.6".into()),
        "HOSTS" => Some("a,b=c".into()),
        _ => None,
    }
}

fn parse_text(text: &str) -> Result<(Vec<Watch>, Vec<FileFinding>), FileErrors> {
    parse(
        "watches.yaml",
        text.as_bytes(),
        &ReadContext {
            folder: Path::new(FIXTURES),
            env: &env,
        },
    )
}

fn one(text: &str) -> Watch {
    let (watches, _) = parse_text(text).unwrap();
    watches.into_iter().next().unwrap()
}

/// Returns the smallest entry with further lines.
fn entry(more: &str) -> String {
    format!("- group: a.example.com\n  version: v1\n  kind: App\n  chart: charts/app\n{more}")
}

#[test]
fn fixtures() {
    let mut count = 0;
    for file in std::fs::read_dir(FIXTURES).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        count += 1;
        let outcome = match parse_text(&std::fs::read_to_string(&file).unwrap()) {
            Ok((watches, warnings)) => {
                let kinds = watches
                    .iter()
                    .map(|watch| format!("{}: {}\n", watch.line, watch.group_kind()));
                let warnings = warnings.iter().map(|warning| format!("warning: {warning}\n"));
                kinds.chain(warnings).collect()
            }
            Err(errors) => format!("{errors}\n"),
        };
        let outcome = outcome.replace(FIXTURES, "FIXTURES");
        let expected = std::fs::read_to_string(file.with_extension("txt")).unwrap_or_default();
        assert_eq!(outcome, expected, "{}", file.display());
    }
    assert!(count >= 8, "fixtures are missing");
}

/// `full.yaml` has every key, `least.yaml` the required ones.
#[test]
fn all_keys_are_read() {
    for name in ["full", "least"] {
        let read = |end: &str| std::fs::read_to_string(Path::new(FIXTURES).join(format!("{name}.{end}"))).unwrap();
        let watch = format!("{:#?}\n", one(&read("yaml")));
        assert_eq!(watch.replace(FIXTURES, "FIXTURES"), read("debug"), "{name}");
    }
    let least = entry("");
    // A key without a value counts as absent.
    assert_eq!(
        one(&entry("  selector:\n  reconcilePeriod:\n  overrideValues:\n")),
        one(&least)
    );
}

#[test]
fn the_digest_covers_keys_that_change_the_render() {
    let digest = |more: &str| one(&entry(more)).digest();
    let plain = digest("");
    assert_eq!(plain.len(), 64);
    for same in [
        "  reconcilePeriod: 5m\n",
        "  maxConcurrentReconciles: 2\n",
        "  deletionPolicy: WaitForTermination\n",
        "  ownerReferences: true\n",
        "  drift: correct\n",
        "  ignoreDifferences: []\n",
        "  crds: CreateReplace\n",
        "  selector: {matchLabels: {a: b}}\n",
    ] {
        assert_eq!(digest(same), plain, "{same}");
    }
    assert_eq!(one(&format!("# moved down\n\n{}", entry(""))).digest(), plain);
    for other in [
        "  overrideValues: {a: b}\n",
        "  overrideValues: {a: $TAG}\n",
        "  targetNamespace: x\n",
        "  values: {a: b}\n",
        "  valuesFrom: [{kind: Secret, name: a}]\n",
        "  valuesFromField: spec.from\n",
        // Members of these watches carry no owner references.
        "  deletionPolicy: Orphan\n",
        "  ownerReferences: false\n",
        "  allow: {kinds: [\"*\"]}\n",
        "  allow: {namespaces: [\"*\"]}\n",
        "  lookups: {kinds: [\"*\"]}\n",
        "  drift: warn\n",
        "  ignoreDifferences: [{jsonPointers: [/spec/replicas]}]\n",
        "  patches: [{target: {kind: A}, patch: {a: b}}]\n",
    ] {
        assert_ne!(digest(other), plain, "{other}");
    }
    assert_ne!(
        digest("  allow: {kinds: [\"*\"]}\n"),
        digest("  lookups: {kinds: [\"*\"]}\n")
    );
}

#[test]
fn the_digests_cover_patches_but_not_their_lines() {
    let digests = |more: &str| {
        let watch = one(&entry(more));
        (watch.digest(), watch.defaults_digest())
    };
    let plain = digests("");
    // The digests that watches without patches had before there were patches.
    assert_eq!(plain, digests("  patches: []\n"));
    assert_eq!(
        plain.0,
        "df6f7ef9a3c28c5586f4f8a2ec23a893506e93a6e230c52226216e8273aa7f61"
    );
    let patched = digests("  patches: [{target: {kind: A}, patch: {a: b}}]\n");
    assert!(patched.0 != plain.0 && patched.1 != plain.1);
    assert_eq!(
        digests("  patches:\n\n  - target: {kind: A}\n    patch: {a: b}\n"),
        patched
    );
    for other in [
        "[{target: {kind: B}, patch: {a: b}}]",
        "[{target: {kind: A, hooks: true}, patch: {a: b}}]",
        "[{target: {kind: A}, patch: {a: c}}]",
        "[{target: {kind: A}, patch: [{op: add, path: /a, value: b}]}]",
        "[{target: {kind: A}, patch: {a: b}}, {target: {kind: A}, patch: {a: b}}]",
    ] {
        let other = digests(&format!("  patches: {other}\n"));
        assert!(other.0 != patched.0 && other.1 != patched.1);
    }
}

#[test]
fn a_missing_file_is_reported_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("watches.yaml");
    let error = load(&path).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{0}: there is no such file (looked at {0}): name it with --watches-file",
            path.display()
        )
    );
    std::fs::write(&path, "[]").unwrap();
    let (watches, warnings) = load(&path).unwrap();
    assert!(watches.is_empty());
    assert_eq!(warnings[0].message, "no watches: the operator has nothing to do");
}

#[test]
fn members_have_owner_references_unless_they_are_orphaned() {
    for (more, expected) in [
        ("", true),
        ("  ownerReferences: true\n", true),
        ("  ownerReferences: false\n", false),
        ("  deletionPolicy: Orphan\n", false),
    ] {
        assert_eq!(one(&entry(more)).has_owner_references(), expected, "{more}");
    }
}

#[test]
fn invalid_input_does_not_panic() {
    for text in [
        "- ",
        "- - a",
        "a",
        "3",
        "- {}",
        "- {kind: {a: b}, version: [], chart: 3}",
        "{",
        "- a: b: c",
        "\u{0}",
        "- ? [a]\n  : b",
    ] {
        // Errors may differ, but no watch is accepted.
        let accepted = parse_text(text).map(|(watches, _)| watches.len()).unwrap_or(0);
        assert_eq!(accepted, 0, "{text}");
    }
}

#[test]
fn the_id_has_kind_decorator_and_selector() {
    assert_eq!(one(&entry("")).id(), "App.a.example.com");
    let selected = one(&format!("\n{}", entry("  selector: {matchLabels: {a: b}}\n")));
    assert_eq!(selected.id(), "App.a.example.com (a=b)");
    let decorator = one(&entry("  selector: {matchLabels: {a: b}}\n  decorate: true\n"));
    assert_eq!(decorator.id(), "App.a.example.com decorated by app (a=b)");
    assert_ne!(decorator.digest(), selected.digest());
}
