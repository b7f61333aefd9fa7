//! What a release is made with, as far as that can be seen without making one: the workflows, the images, the Makefile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use regex::Regex;
use serde_yaml::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Ours, and the one that `chartwright init` writes.
const WORKFLOWS: [&str; 2] = [
    ".github/workflows/release.yaml",
    "crates/scaffold/src/layout/files/github/ci.yaml",
];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).expect(path)
}

/// The steps of all jobs.
fn steps(workflow: &Value) -> Vec<&Value> {
    let jobs = workflow["jobs"].as_mapping().expect("jobs").values();
    jobs.flat_map(|job| job["steps"].as_sequence().expect("steps"))
        .collect()
}

/// A tag or a branch can be moved to other code; a commit can't. Its release stands in a comment, for people and Dependabot.
#[test]
fn each_action_is_pinned_to_a_commit() {
    let pinned = Regex::new(r"^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$").expect("a pattern");
    for path in WORKFLOWS {
        let text = read(path);
        let lines = text.lines().filter_map(|line| line.split_once("uses:"));
        let used: Vec<&str> = lines.map(|(_, action)| action.trim()).collect();
        for action in &used {
            assert!(pinned.is_match(action), "{path}: {action}");
        }
        let workflow: Value = serde_yaml::from_str(&text).expect(path);
        let actions = steps(&workflow).into_iter().filter(|step| !step["uses"].is_null());
        assert_eq!(actions.count(), used.len(), "{path}");
        assert!(!used.is_empty(), "{path}");
    }
}

/// Without `permissions:` a job gets what the repository's settings give, which may be a token that writes.
#[test]
fn each_workflow_names_its_permissions_and_keeps_no_token_in_the_checkout() {
    for path in WORKFLOWS {
        let workflow: Value = serde_yaml::from_str(&read(path)).expect(path);
        assert_eq!(workflow["permissions"], read_only(), "{path}");
        for step in steps(&workflow) {
            if step["uses"]
                .as_str()
                .is_some_and(|action| action.starts_with("actions/checkout@"))
            {
                assert_eq!(step["with"]["persist-credentials"], false, "{path}");
            }
        }
    }
}

fn read_only() -> Value {
    serde_yaml::from_str("contents: read").expect("YAML")
}

/// What the image is built from: nothing, a stage of the same file, or an image by its digest. A frontend that a `syntax` line
/// names is downloaded, too.
#[test]
fn images_to_build_from_are_pinned_to_a_digest() {
    let dockerfile = read("Dockerfile");
    let pinned = Regex::new(r"^[\w./:-]+@sha256:[0-9a-f]{64}$").expect("a pattern");
    let mut stages = vec!["scratch".to_owned()];
    for line in dockerfile.lines() {
        let syntax = line.strip_prefix("# syntax=");
        assert!(syntax.is_none_or(|image| pinned.is_match(image)), "{line}");
        let Some(from) = line.strip_prefix("FROM ") else {
            continue;
        };
        let mut words = from.split(' ').filter(|word| !word.starts_with("--"));
        let image = words.next().expect("an image");
        assert!(
            stages.iter().any(|stage| stage == image) || pinned.is_match(image),
            "{line}"
        );
        if let (Some("AS"), Some(stage)) = (words.next(), words.next()) {
            stages.push(stage.to_owned());
        }
    }
    assert!(stages.len() >= 3, "{stages:?}");
    // A newer compiler needs another digest.
    let cargo = read("Cargo.toml");
    let (_, version) = cargo.split_once("rust-version = \"").expect("a version");
    let version = version.split('"').next().expect("its end");
    assert!(
        dockerfile.contains(&format!(" rust:{version}-bookworm@sha256:")),
        "{version}"
    );
}

/// `make pin-base` of a scaffolded project, with a tool that answers as `docker buildx imagetools inspect` does.
#[test]
fn a_project_can_pin_its_base_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("shop");
    let program = env!("CARGO_BIN_EXE_chartwright");
    let run = |command: &mut Command| {
        let output = command.output().expect("a program");
        let printed = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
    };
    let mut init = Command::new(program);
    init.args([
        "init",
        "--domain",
        "example.com",
        "--name",
        "shop",
        "--base-image",
        "example.com/base:1",
    ]);
    let (is_done, printed) = run(init.arg("--project").arg(&project));
    assert!(is_done, "{printed}");
    let tool = folder.path().join("tool");
    let digest = format!("sha256:{}", "0a".repeat(32));
    for (answer, is_good) in [
        (format!("Digest:    {digest}"), true),
        ("no such tag".to_owned(), false),
    ] {
        let script =
            format!("test \"$3 $4\" = 'inspect example.com/base:1' && echo 'Name: x\n{answer}\n\nManifests:'\n");
        fs::write(&tool, script).expect("a script");
        let mut make = Command::new("make");
        for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
            make.env_remove(name);
        }
        make.current_dir(&project).args(["--silent", "pin-base"]);
        make.arg(format!("CHARTWRIGHT={program}"));
        let (is_done, printed) = run(make.arg(format!("CONTAINER_TOOL=sh {}", tool.display())));
        assert_eq!(is_done, is_good, "{printed}");
        let dockerfile = fs::read_to_string(project.join("Dockerfile")).expect("a Dockerfile");
        assert!(
            dockerfile.contains(&format!("FROM example.com/base:1@{digest}\n")),
            "{dockerfile}\n{printed}"
        );
    }
}

#[test]
fn the_image_is_pushed_with_sbom_and_provenance_for_both_platforms_after_the_tests() {
    let workflow: Value = serde_yaml::from_str(&read(WORKFLOWS[0])).expect("YAML");
    assert_eq!(workflow["jobs"]["release"]["needs"], "test");
    let all = steps(&workflow);
    let at = |what: &dyn Fn(&Value) -> bool| all.iter().position(|step| what(step)).expect("a step");
    let runs = |part: &'static str| at(&move |step| step["run"].as_str().is_some_and(|run| run.contains(part)));
    let push = at(&|step| step["with"]["push"] == true);
    let with = &all[push]["with"];
    assert_eq!(
        (&with["sbom"], &with["provenance"]),
        (&Value::from(true), &"mode=max".into())
    );
    assert_eq!(
        (&with["platforms"], &with["target"]),
        (&"linux/amd64,linux/arm64".into(), &"base".into())
    );
    assert!(runs(".ci/run") < push && runs("image-size") < push);
    assert!(push < runs("gh release create"));
    // What the workflow asks make for is there.
    let targets = Regex::new(r"\bmake ([a-z-]+)").expect("a pattern");
    for step in all.iter().filter_map(|step| step["run"].as_str()) {
        for target in targets.captures_iter(step) {
            assert!(
                read("Makefile").contains(&format!("\n{}:", &target[1])),
                "{}",
                &target[1]
            );
        }
    }
}

/// make, without the settings that `make test` passes to other makes.
fn make(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("make");
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
        command.env_remove(name);
    }
    let output = command
        .args(["--silent"])
        .args(arguments)
        .current_dir(ROOT)
        .output()
        .expect("make");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}

#[test]
fn a_release_has_its_version_and_its_notes() {
    let (done, printed) = make(&["release-notes", "VERSION=Unreleased"]);
    assert!(
        done && printed.contains("### Added") && !printed.contains("## ["),
        "{printed}"
    );
    let (done, printed) = make(&["release-notes", "VERSION=99.0.0"]);
    assert!(!done && printed.contains("says nothing of 99.0.0"), "{printed}");
    let (done, printed) = make(&["release-check", "TAG=v99.0.0"]);
    assert!(!done && printed.contains("the tag is v99.0.0"), "{printed}");
}

/// `image-size` with a tool that says so of an image.
#[test]
fn a_too_large_image_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let tool = folder.path().join("tool");
    for (size, is_good) in [("21999999", true), ("22000001", false)] {
        fs::write(&tool, format!("echo {size}")).expect("a script");
        let (done, printed) = make(&["image-size", &format!("CONTAINER_TOOL=sh {}", tool.display())]);
        assert_eq!(done, is_good, "{printed}");
        assert!(printed.contains(&format!("{size} bytes")), "{printed}");
    }
}

/// The rules of krew for a manifest (`pkg/index/validation`).
#[test]
fn the_manifest_for_krew_has_the_version_and_the_checksums_of_the_archives() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dist, version) = (format!("DIST={}", folder.path().display()), env!("CARGO_PKG_VERSION"));
    let sums = folder.path().join("SHA256SUMS");
    fs::write(&sums, "").expect("a file");
    let (done, printed) = make(&["krew", &dist]);
    assert!(!done && printed.contains("run make dist"), "{printed}");
    let sum = |digit: &str| digit.repeat(64);
    let line = |digit: &str, platform: &str| format!("{}  chartwright-{version}-{platform}.tar.gz\n", sum(digit));
    fs::write(&sums, line("a", "linux_amd64") + &line("b", "linux_arm64")).expect("a file");
    let (done, printed) = make(&["krew", &dist, "URL=https://example.com/chartwright"]);
    assert!(done && !printed.contains("${"), "{printed}");
    let manifest: Value = serde_yaml::from_str(&printed).expect("YAML");
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(
        (&manifest["kind"], &manifest["metadata"]["name"]),
        (&"Plugin".into(), &"chartwright".into())
    );
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], format!("v{version}"));
    assert!(
        spec["shortDescription"]
            .as_str()
            .is_some_and(|text| text.len() <= 50 && !text.ends_with('.')),
        "{spec:?}"
    );
    let platforms = spec["platforms"].as_sequence().expect("platforms");
    for (platform, (arch, digit)) in platforms.iter().zip([("amd64", "a"), ("arm64", "b")]) {
        assert_eq!(platform["selector"]["matchLabels"]["arch"], arch);
        assert_eq!(platform["sha256"], sum(digit));
        let file = format!(
            "https://example.com/chartwright/releases/download/v{version}/chartwright-{version}-linux_{arch}.tar.gz"
        );
        assert_eq!(platform["uri"], file);
        assert_eq!(
            (&platform["bin"], &platform["files"][0]["to"]),
            (&"chartwright".into(), &".".into())
        );
    }
    assert_eq!(platforms.len(), 2);
}

#[test]
fn the_program_brings_its_manual_pages_and_completions() {
    let folder = tempfile::tempdir().expect("a folder");
    let share = folder.path().join("share");
    let program = format!("CLI={}", env!("CARGO_BIN_EXE_chartwright"));
    let (done, printed) = make(&["share", &program, &format!("SHARE={}", share.display())]);
    assert!(done, "{printed}");
    for file in [
        "man/man1/chartwright.1",
        "man/man1/chartwright-create-api.1",
        "bash-completion/completions/chartwright",
        "zsh/site-functions/_chartwright",
        "fish/vendor_completions.d/chartwright.fish",
    ] {
        let size = fs::metadata(share.join(file)).map(|file| file.len());
        assert!(size.is_ok_and(|size| size > 1000), "{file}");
    }
}

/// The lines of a Dockerfile, comments apart.
fn instructions(text: &str) -> Vec<&str> {
    let is_instruction = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines().filter(is_instruction).collect()
}

/// The image is what docs/guides/image.md says, and the two lines there are what `init` writes.
#[test]
fn the_image_is_as_it_is_documented() {
    let dockerfile = read("Dockerfile");
    let (_, base) = dockerfile.split_once("FROM scratch AS base\n").expect("a stage");
    let base = base.split("\nFROM ").next().expect("its lines");
    let page = read("docs/guides/image.md");
    for value in ["/usr/local/bin/chartwright", "/opt/chartwright", "65532:65532"] {
        assert!(base.contains(value) && page.contains(value), "{value}");
    }
    assert!(base.contains(r#"ENTRYPOINT ["/usr/local/bin/chartwright", "run", "--watches-file=./watches.yaml"]"#));
    let documented = page
        .split("```dockerfile\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let written = read("crates/scaffold/src/layout/files/Dockerfile.hbs")
        .replace("{{base}}", concat!("chartwright:", env!("CARGO_PKG_VERSION")))
        .replace("{{charts}}", "charts");
    assert_eq!(instructions(documented.expect("a block")), instructions(&written));
    // What a Deployment passes is flags of `run`: the image begins with the command.
    for path in [
        "config/manager/manager.yaml",
        "crates/scaffold/src/layout/files/config/manager/manager.yaml.hbs",
    ] {
        assert!(
            !read(path).contains("- run\n") && read(path).contains("- --leader-elect\n"),
            "{path}"
        );
    }
}

/// The sources below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *text += &fs::read_to_string(&path).expect("a source");
        }
    }
}

/// Each row of an attack names a test or a fuzz target that exists.
#[test]
fn the_threat_model_names_tests_that_exist() {
    let mut text = String::new();
    for folder in ["src", "crates", "tests"] {
        sources(&Path::new(ROOT).join(folder), &mut text);
    }
    let page = read("docs/explanation/threat-model.md");
    let (_, inputs) = page.split_once("\n## Inputs\n").expect("a section");
    let (inputs, _) = inputs.split_once("\n## ").expect("its end");
    let name = Regex::new("`([a-z0-9_.]+)`").expect("a pattern");
    let mut rows = 0;
    for line in inputs
        .lines()
        .filter(|line| line.starts_with("| ") && !line.ends_with("| test |"))
    {
        let proof = line.trim_end_matches([' ', '|']).rsplit(" | ").next().expect("a cell");
        let names: Vec<&str> = name
            .captures_iter(proof)
            .filter_map(|found| found.get(1))
            .map(|found| found.as_str())
            .collect();
        assert!(!names.is_empty(), "{line}");
        for name in names {
            let is_test =
                text.contains(&format!("#[test]\nfn {name}(")) || text.contains(&format!("#[test]\n    fn {name}("));
            let is_async = |attribute: &str| text.contains(&format!("{attribute}\nasync fn {name}("));
            let is_test = is_test || is_async("#[tokio::test]") || is_async("#[tokio::test(start_paused = true)]");
            let is_target = text.contains(&format!("(\"{name}\", {name}),"));
            assert!(is_test || is_target, "{name} of {line}");
        }
        rows += 1;
    }
    assert!(rows > 15, "{rows}");
}
